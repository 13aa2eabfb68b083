// SPDX-License-Identifier: Apache-2.0
#include "server/settings/client_limit_settings.h"

#include <fmt/format.h>
#include <gflags/gflags.h>

#include "core/text/numbers.h"
#include "server/base/units.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/options/config.h"
#include "server/run/server.h"

DEFINE_string(
    client_output_buffer_limit, "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
    "Clients that leave more of their replies or messages unread are disconnected: class, "
    "bytes, bytes that are too much if it lasts, and for how many seconds, for each of "
    "normal, replica and pubsub; 0: no limit. Monitors are pubsub here. CONFIG SET "
    "changes it.");
DEFINE_string(client_query_buffer_limit, "1gb",
              "Bytes of a command, or of a MULTI, that a client has sent in part; with more it is "
              "disconnected. CONFIG SET changes it.");
DEFINE_string(maxmemory_clients, "0",
              "Bytes, or percents of maxmemory (5%), that all clients may use together; past that "
              "the largest are disconnected, but for those with CLIENT NO-EVICT. 0: no limit. "
              "CONFIG SET changes it.");

namespace dfly {

namespace {

constexpr uint64_t kQueryMin = 1 << 20;

}  // namespace

std::pair<std::string, std::string> ClientLimitsFromFlags(ServerOptions* options) {
  if (std::string why = options->output_limits.Set(FLAGS_client_output_buffer_limit);
      !why.empty()) {
    return {"client_output_buffer_limit", std::move(why)};
  }
  const auto query = ParseMemory(FLAGS_client_query_buffer_limit);
  if (!query || *query < kQueryMin || *query > INT64_MAX) {
    return {"client_query_buffer_limit", "must be a number of bytes, and at least 1mb"};
  }
  options->client_query_buffer_limit = *query;
  return {"maxmemory_clients", options->maxmemory_clients.Parse(FLAGS_maxmemory_clients)};
}

void AddClientLimitSettings(Server* server, Config* config) {
  const ServerOptions& options = server->state().options;
  config->Add({.name = "client-output-buffer-limit",
               .kind = Setting::Kind::kText,
               .value = options.output_limits.ToString(),
               .is_mutable = true,
               .apply =
                   [server](const std::string& value) {
                     OutputLimits limits;
                     std::string why = limits.Set(value);
                     if (!why.empty()) return why;
                     AwaitOnAll<ClientLimiter>(server->state(), [&limits](ClientLimiter& limiter) {
                       limiter.SetOutputLimits(limits);
                     });
                     return std::string();
                   },
               // What is not named stays, so the value is of all classes.
               .canonical =
                   [](std::string_view text, std::string* error) {
                     OutputLimits limits = ClientLimiter::Here().output_limits();
                     *error = limits.Set(text);
                     return limits.ToString();
                   },
               .has_words = true});
  config->Add({.name = "client-query-buffer-limit",
               .kind = Setting::Kind::kMemory,
               .value = fmt::format("{}", options.client_query_buffer_limit),
               .is_mutable = true,
               .min = kQueryMin,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 const auto bytes = static_cast<size_t>(ParseInt64(value).value_or(kQueryMin));
                 AwaitOnAll<WorkerState>(server->state(), [bytes](WorkerState& worker) {
                   worker.buffers.bounds.input_max = bytes;
                 });
                 return std::string();
               }});
  config->Add({.name = "maxmemory-clients",
               .kind = Setting::Kind::kText,
               .value = options.maxmemory_clients.ToString(),
               .is_mutable = true,
               .apply =
                   [server](const std::string& value) {
                     ClientMemorySetting setting;
                     std::string why = setting.Parse(value);
                     if (!why.empty()) return why;
                     server->state().client_memory.Set(setting);
                     AwaitOnAllSessions<ClientLimiter>(
                         server->state(), [](ClientLimiter& limiter) { limiter.OnMemoryLimit(); });
                     EvictClients(server->state());
                     return std::string();
                   },
               .canonical =
                   [](std::string_view text, std::string* error) {
                     ClientMemorySetting setting;
                     *error = setting.Parse(text);
                     return setting.ToString();
                   }});
}

}  // namespace dfly
