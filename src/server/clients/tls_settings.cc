// SPDX-License-Identifier: Apache-2.0
#include "server/clients/tls_settings.h"

#include <utility>

#include "server/options/options.h"

namespace dfly {

namespace {

using helio::TlsContext;
using helio::TlsOptions;

std::string CheckPorts(const TlsOptions& options) {
  if (options.cert_file.empty()) return "TLS needs a certificate: --tls_cert_file";
  if (options.key_file.empty()) return "TLS needs a private key: --tls_key_file";
  if (options.peer_check != TlsOptions::PeerCheck::kNone && options.ca_cert_file.empty() &&
      options.ca_cert_dir.empty()) {
    return "TLS: who may sign the certificates of clients? --tls_ca_cert_file or "
           "--tls_ca_cert_dir tells it; --tls_auth_clients=no asks for none";
  }
  return "";
}

// Of the options of ports: what they say of certificates of clients is not for a primary.
TlsOptions LinkOptions(const ServerOptions& options) {
  TlsOptions link = options.tls_options;
  link.peer_check = TlsOptions::PeerCheck::kRequired;
  link.handshake_timeout_ms = 0;  // it has repl-timeout
  const TlsClientFiles& own = options.tls_client;
  // Both or none, as in Redis, so that CONFIG SET may name one after the other.
  if (!own.cert_file.empty() && !own.key_file.empty()) {
    link.cert_file = own.cert_file;
    link.key_file = own.key_file;
    link.key_file_pass = own.key_file_pass;
  }
  return link;
}

}  // namespace

TlsSettings::TlsSettings(TakeFn take) : take_(std::move(take)) {}

std::string TlsSettings::Load(const ServerOptions& options, bool has_port) {
  TlsContexts contexts;
  std::string error;
  if (has_port) {
    error = CheckPorts(options.tls_options);
    if (!error.empty()) return error;
    contexts.ports = TlsContext::Make(TlsContext::Side::kServer, options.tls_options, &error);
    if (contexts.ports == nullptr) return "TLS: " + error;
  }
  if (options.tls_replication) {
    const TlsOptions link = LinkOptions(options);
    if (link.ca_cert_file.empty() && link.ca_cert_dir.empty()) {
      return "tls-replication: who may sign the certificate of the primary? --tls_ca_cert_file or "
             "--tls_ca_cert_dir tells it";
    }
    contexts.link = TlsContext::Make(TlsContext::Side::kClient, link, &error);
    if (contexts.link == nullptr) return "tls-replication: " + error;
  }
  take_(contexts);
  return "";
}

}  // namespace dfly
