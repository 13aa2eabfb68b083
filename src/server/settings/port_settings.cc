// SPDX-License-Identifier: Apache-2.0
// CONFIG SET port, tls-port and bind: where clients come in.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>

#include "core/text/numbers.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/options/config.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr size_t kBindsMax = 16;  // as in Redis

// Of what was asked for and of what there is.
struct PortChange {
  Ports wanted;
  Ports present;

  // Empty, or what CONFIG SET answers. Suspends.
  std::string Apply(Server* server) {
    const bool begins_tls = !server->state().has_tls() && wanted.tls_port != 0;
    if (const std::string error = begins_tls ? server->tls().Load() : ""; !error.empty()) {
      LOG(WARNING) << "no port with TLS: " << helio::LogText(error);
      return "Unable to update TLS configuration. Check server logs.";
    }
    const std::string error = server->ChangePorts(wanted);
    if (!error.empty()) {
      LOG(WARNING) << "the ports stay as they were: cannot listen " << helio::LogText(error);
      return wanted.binds != present.binds ? "Failed to bind to specified addresses."
                                           : "Unable to listen on this port. Check server logs.";
    }
    present = wanted;
    return "";
  }
};

}  // namespace

void AddPortSettings(Server* server, Config* config) {
  const ServerOptions& options = server->state().options;
  const Ports initial = {options.binds, options.port, options.tls_port};
  const auto change = std::make_shared<PortChange>(PortChange{initial, initial});
  const auto commit = std::make_shared<const std::function<std::string()>>(
      [server, change] { return change->Apply(server); });
  const auto port = [&](std::string_view name, uint16_t Ports::*part) {
    config->Add({.name = name,
                 .kind = Setting::Kind::kInteger,
                 .value = fmt::format("{}", initial.*part),
                 .is_mutable = true,
                 .min = 0,
                 .max = UINT16_MAX,
                 .apply =
                     [change, part](const std::string& value) {
                       change->wanted.*part = static_cast<uint16_t>(ParseInt64(value).value_or(0));
                       return std::string();
                     },
                 .commit = commit});
  };
  port("port", &Ports::port);
  port("tls-port", &Ports::tls_port);
  config->Add({.name = "bind",
               .kind = Setting::Kind::kText,
               .value = fmt::format("{}", fmt::join(initial.binds, " ")),
               .is_mutable = true,
               .apply =
                   [change](const std::string& value) {
                     const std::vector<std::string_view> words = SplitWords(value);
                     change->wanted.binds.assign(words.begin(), words.end());
                     return std::string();
                   },
               .canonical =
                   [](std::string_view text, std::string* error) {
                     const std::vector<std::string_view> words = SplitWords(text);
                     if (words.size() > kBindsMax) *error = "Too many bind addresses specified.";
                     return fmt::format("{}", fmt::join(words, " "));
                   },
               .has_words = true,
               .commit = commit});
}

}  // namespace dfly
