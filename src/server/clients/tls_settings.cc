// SPDX-License-Identifier: Apache-2.0
#include "server/clients/tls_settings.h"

#include <fmt/format.h>

#include <climits>

#include "core/text/numbers.h"
#include "helio/base/log_text.h"
#include "server/clients/server_state.h"
#include "server/options/config.h"

namespace dfly {

namespace {

using helio::TlsOptions;
using Kind = Setting::Kind;
using PeerCheck = TlsOptions::PeerCheck;

std::string_view NameOf(PeerCheck check) {
  switch (check) {
    case PeerCheck::kNone:
      return "no";
    case PeerCheck::kOptional:
      return "optional";
    case PeerCheck::kRequired:
      break;
  }
  return "yes";
}

PeerCheck CheckOf(std::string_view name) {
  if (name == "no") return PeerCheck::kNone;
  return name == "optional" ? PeerCheck::kOptional : PeerCheck::kRequired;
}

}  // namespace

TlsSettings::TlsSettings(const ServerState* server, TlsOptions options, TakeFn take)
    : server_(*server), options_(std::move(options)), take_(std::move(take)) {}

std::string TlsSettings::Load() {
  if (options_.cert_file.empty()) return "TLS needs a certificate: --tls_cert_file";
  if (options_.key_file.empty()) return "TLS needs a private key: --tls_key_file";
  if (options_.peer_check != PeerCheck::kNone && options_.ca_cert_file.empty() &&
      options_.ca_cert_dir.empty()) {
    return "TLS: who may sign the certificates of clients? --tls_ca_cert_file or "
           "--tls_ca_cert_dir tells it; --tls_auth_clients=no asks for none";
  }
  const std::string error = Apply();
  return error.empty() ? "" : "TLS: " + error;
}

std::string TlsSettings::Apply() {
  std::string error;
  const auto context = helio::TlsContext::Make(helio::TlsContext::Side::kServer, options_, &error);
  if (context == nullptr) return error;
  take_(context);
  return "";
}

void TlsSettings::AddTo(Config* config) {
  const auto commit = std::make_shared<const std::function<std::string()>>([this]() -> std::string {
    if (!server_.has_tls()) return "";  // they are kept, as in Redis
    const std::string error = Apply();
    if (error.empty()) return "";
    LOG(WARNING) << "the settings of TLS stay as they were: " << helio::LogText(error);
    return "Unable to update TLS configuration. Check server logs.";
  });
  const auto add = [&](Setting setting, std::function<void(const std::string&)> store) {
    setting.is_mutable = true;
    setting.apply = [store = std::move(store)](const std::string& value) {
      store(value);
      return std::string();
    };
    setting.commit = commit;
    config->Add(std::move(setting));
  };
  const auto text = [&](std::string_view name, std::string TlsOptions::*part) {
    add({.name = name, .kind = Kind::kText, .value = options_.*part},
        [this, part](const std::string& value) { options_.*part = value; });
  };
  const auto flag = [&](std::string_view name, bool TlsOptions::*part) {
    add({.name = name, .kind = Kind::kBool, .value = options_.*part ? "yes" : "no"},
        [this, part](const std::string& value) { options_.*part = value == "yes"; });
  };
  const auto number = [&](std::string_view name, int64_t TlsOptions::*part) {
    add({.name = name,
         .kind = Kind::kInteger,
         .value = fmt::format("{}", options_.*part),
         .min = 0,
         .max = INT_MAX},
        [this, part](const std::string& value) { options_.*part = ParseInt64(value).value_or(0); });
  };
  text("tls-cert-file", &TlsOptions::cert_file);
  text("tls-key-file", &TlsOptions::key_file);
  text("tls-key-file-pass", &TlsOptions::key_file_pass);
  text("tls-ca-cert-file", &TlsOptions::ca_cert_file);
  text("tls-ca-cert-dir", &TlsOptions::ca_cert_dir);
  text("tls-protocols", &TlsOptions::protocols);
  text("tls-ciphers", &TlsOptions::ciphers);
  text("tls-ciphersuites", &TlsOptions::ciphersuites);
  text("tls-dh-params-file", &TlsOptions::dh_params_file);
  flag("tls-prefer-server-ciphers", &TlsOptions::prefers_own_ciphers);
  flag("tls-session-caching", &TlsOptions::caches_sessions);
  number("tls-session-cache-size", &TlsOptions::sessions_max);
  number("tls-session-cache-timeout", &TlsOptions::session_timeout_s);
  add({.name = "tls-auth-clients",
       .kind = Kind::kChoice,
       .value = std::string(NameOf(options_.peer_check)),
       .choices = {"no", "yes", "optional"}},
      [this](const std::string& value) { options_.peer_check = CheckOf(value); });
  add({.name = "tls_handshake_timeout",
       .kind = Kind::kInteger,
       .value = fmt::format("{}", options_.handshake_timeout_ms / 1000),
       .min = 0,
       .max = 86'400},
      [this](const std::string& value) {
        options_.handshake_timeout_ms = static_cast<uint32_t>(ParseInt64(value).value_or(0) * 1000);
      });
  config->Add({.name = "tls", .kind = Kind::kBool, .value = server_.options.tls ? "yes" : "no"});
}

}  // namespace dfly
