// SPDX-License-Identifier: Apache-2.0
#include "server/clients/tls_settings.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <iterator>
#include <mutex>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/io/blocking_pool.h"
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

// Of a folder, too: that of its own time.
std::string Describe(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& name : files) {
    struct stat file = {};
    if (name.empty() || stat(name.c_str(), &file) != 0) {
      text += "-;";
      continue;
    }
    fmt::format_to(std::back_inserter(text), "{}.{}.{}.{}.{}.{}.{};", file.st_dev, file.st_ino,
                   file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_ctim.tv_sec,
                   file.st_ctim.tv_nsec);
  }
  return text;
}

std::string FindExpired(const TlsContexts& contexts) {
  const int64_t now_s = helio::UnixMillis() / 1000;
  for (const auto& context : {contexts.ports, contexts.link}) {
    if (context == nullptr || !context->certificate().is_there()) continue;
    if (context->certificate().expire_time <= now_s) {
      return fmt::format("the new certificate {} has expired", context->certificate().serial);
    }
  }
  return "";
}

}  // namespace

TlsSettings::TlsSettings(TakeFn take) : take_(std::move(take)) {}

std::vector<std::string> TlsSettings::FilesOf(const ServerOptions& options, bool has_port) {
  if (!has_port && !options.tls_replication) return {};
  const TlsOptions& ports = options.tls_options;
  const TlsClientFiles& client = options.tls_client;
  return {ports.cert_file,   ports.key_file,   ports.ca_cert_file,
          ports.ca_cert_dir, client.cert_file, client.key_file};
}

std::optional<std::string> TlsSettings::LookAt(const std::vector<std::string>& files) {
  std::string looks;
  if (!helio::RunBlocking([&] { looks = Describe(files); })) return std::nullopt;
  return looks;
}

std::string TlsSettings::Make(const ServerOptions& options, bool has_port,
                              TlsContexts* contexts) const {
  std::string error;
  if (has_port) {
    error = CheckPorts(options.tls_options);
    if (!error.empty()) return error;
    contexts->ports = TlsContext::Make(TlsContext::Side::kServer, options.tls_options, &error);
    if (contexts->ports == nullptr) return "TLS: " + error;
  }
  if (options.tls_replication) {
    const TlsOptions link = LinkOptions(options);
    if (link.ca_cert_file.empty() && link.ca_cert_dir.empty()) {
      return "tls-replication: who may sign the certificate of the primary? --tls_ca_cert_file or "
             "--tls_ca_cert_dir tells it";
    }
    contexts->link = TlsContext::Make(TlsContext::Side::kClient, link, &error);
    if (contexts->link == nullptr) return "tls-replication: " + error;
  }
  return "";
}

void TlsSettings::Take(const TlsContexts& contexts, std::string files) {
  take_(contexts);
  files_ = std::move(files);
  failure_.clear();
  TlsFacts facts = Facts();
  facts.server = facts.client = facts.authority = {};
  if (contexts.link != nullptr) {
    facts.client = contexts.link->certificate();
    facts.authority = contexts.link->authority();
  }
  if (contexts.ports != nullptr) {
    facts.server = contexts.ports->certificate();
    facts.authority = contexts.ports->authority();
  }
  SetFacts(facts);
}

std::string TlsSettings::Load(const ServerOptions& options, bool has_port) {
  TlsContexts contexts;
  // Before they are read: none is overlooked.
  std::string files = Describe(FilesOf(options, has_port));
  std::string error = Make(options, has_port, &contexts);
  if (error.empty()) Take(contexts, std::move(files));
  return error;
}

void TlsSettings::Reload(const ServerOptions& options, bool has_port, std::string looks) {
  if (looks == files_ || FilesOf(options, has_port).empty()) return;
  // On this thread, which counts what OpenSSL allocates, and lets go of it.
  TlsContexts contexts;
  std::string error = Make(options, has_port, &contexts);
  if (error.empty()) error = FindExpired(contexts);
  if (error.empty()) {
    Take(contexts, std::move(looks));
    TlsFacts facts = Facts();
    ++facts.reloads;
    SetFacts(facts);
    LOG(INFO) << "TLS: the files have changed and are used from now on, the certificate of ports: "
              << (facts.server.is_there() ? facts.server.serial : "none");
    return;
  }
  if (failure_ == looks + error) return;
  failure_ = looks + error;
  LOG(WARNING) << "TLS: the files have changed and cannot be used, what was read before stays: "
               << helio::LogText(error);
  TlsFacts facts = Facts();
  ++facts.reload_failures;
  SetFacts(facts);
}

void TlsSettings::SetFacts(const TlsFacts& facts) {
  std::shared_ptr<const TlsFacts> made = std::make_shared<TlsFacts>(facts);
  const std::lock_guard guard(lock_);
  facts_.swap(made);  // the old ones are freed behind the lock
}

TlsFacts TlsSettings::Facts() const {
  std::shared_ptr<const TlsFacts> facts;
  {
    const std::lock_guard guard(lock_);
    facts = facts_;
  }
  return *facts;
}

}  // namespace dfly
