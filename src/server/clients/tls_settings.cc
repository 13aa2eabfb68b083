// SPDX-License-Identifier: Apache-2.0
#include "server/clients/tls_settings.h"

#include <utility>

#include "server/clients/server_state.h"

namespace dfly {

using helio::TlsOptions;

TlsSettings::TlsSettings(const ServerState* server, TakeFn take)
    : server_(*server), take_(std::move(take)) {}

std::string TlsSettings::Load(const TlsOptions& options) {
  if (options.cert_file.empty()) return "TLS needs a certificate: --tls_cert_file";
  if (options.key_file.empty()) return "TLS needs a private key: --tls_key_file";
  if (options.peer_check != TlsOptions::PeerCheck::kNone && options.ca_cert_file.empty() &&
      options.ca_cert_dir.empty()) {
    return "TLS: who may sign the certificates of clients? --tls_ca_cert_file or "
           "--tls_ca_cert_dir tells it; --tls_auth_clients=no asks for none";
  }
  const std::string error = Use(options);
  return error.empty() ? "" : "TLS: " + error;
}

std::string TlsSettings::Change(const TlsOptions& options) {
  return server_.has_tls() ? Use(options) : "";
}

std::string TlsSettings::Use(const TlsOptions& options) {
  std::string error;
  const auto context = helio::TlsContext::Make(helio::TlsContext::Side::kServer, options, &error);
  if (context == nullptr) return error;
  take_(context);
  return "";
}

}  // namespace dfly
