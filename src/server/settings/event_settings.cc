// SPDX-License-Identifier: Apache-2.0
// The settings of keyspace events and of caching clients, for CONFIG.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/text/numbers.h"
#include "engine/keyspace/key_events.h"
#include "server/clients/server_state.h"
#include "server/dispatch/worker.h"
#include "server/options/config.h"
#include "server/run/server.h"

namespace dfly {

void AddEventSettings(Server* server, Config* config) {
  config->Add({.name = "notify-keyspace-events",
               .kind = Setting::Kind::kText,
               .value = server->state().options.key_events.ToString(),
               .is_mutable = true,
               .apply =
                   [server](const std::string& value) {
                     const KeyEventClasses classes = *KeyEventClasses::Parse(value);
                     AwaitOnAll<Worker>(server->state(), [&classes](Worker& worker) {
                       worker.SetKeyEvents(classes);
                     });
                     return std::string();
                   },
               .canonical =
                   [](std::string_view text, std::string* error) {
                     const auto classes = KeyEventClasses::Parse(text);
                     if (classes) return classes->ToString();
                     *error = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
                     return std::string();
                   }});
  config->Add({.name = "tracking-table-max-keys",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", server->state().options.tracking_table_max_keys),
               .is_mutable = true,
               .min = 0,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 server->state().settings.tracking_table_max_keys =
                     static_cast<uint64_t>(ParseInt64(value).value_or(0));
                 AwaitOnAll<Tracking>(server->state(),
                                      [](Tracking& tracking) { tracking.TrimAll(); });
                 return std::string();
               }});
}

}  // namespace dfly
