// SPDX-License-Identifier: Apache-2.0
// The settings of the slow log and of the latency monitor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/numbers.h"
#include "server/acl/command_facts.h"
#include "server/clients/server_state.h"
#include "server/dispatch/command_runner.h"
#include "server/options/config.h"
#include "server/run/server.h"

namespace dfly {

void AddTimingSettings(Server* server, Config* config) {
  const ServerOptions& options = server->state().options;
  config->Add({.name = "slowlog-log-slower-than",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", options.slowlog_log_slower_than_us),
               .is_mutable = true,
               .min = -1,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 const int64_t micros = ParseInt64(value).value_or(-1);
                 AwaitOnAll<CommandRunner>(server->state(), [micros](CommandRunner& runner) {
                   WorkerState::Here().timer.SetSlowLog(micros);
                   runner.UpdateTiming();
                 });
                 return std::string();
               }});
  config->Add({.name = "lock-warning-ms",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", options.lock_warning_ms),
               .is_mutable = true,
               .min = 0,
               .max = UINT32_MAX,
               .apply = [server](const std::string& value) {
                 server->state().settings.lock_warning_ms =
                     static_cast<uint64_t>(ParseInt64(value).value_or(0));
                 return std::string();
               }});
  config->Add({.name = "slowlog-max-len",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", options.slowlog_max_len),
               .is_mutable = true,
               .min = 0,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 const auto max = static_cast<uint64_t>(ParseInt64(value).value_or(0));
                 server->state().settings.slowlog_max_len = max;
                 AwaitOnAll<WorkerState>(server->state(), [max](WorkerState& worker) {
                   worker.timer.slow_log().set_max(max);
                 });
                 return std::string();
               }});
  config->Add({.name = "latency-monitor-threshold",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", options.latency_monitor_threshold_ms),
               .is_mutable = true,
               .min = 0,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 // 49 days are as good as never.
                 const auto ms = static_cast<uint32_t>(
                     std::min<int64_t>(ParseInt64(value).value_or(0), UINT32_MAX));
                 server->state().settings.latency_monitor_ms = ms;
                 AwaitOnAll<CommandRunner>(server->state(), [ms](CommandRunner& runner) {
                   runner.SetLatencyThreshold(ms);
                   runner.UpdateTiming();
                 });
                 return std::string();
               }});
  config->Add({.name = "latency-tracking",
               .kind = Setting::Kind::kBool,
               .value = options.latency_tracking ? "yes" : "no",
               .is_mutable = true,
               .apply = [server](const std::string& value) {
                 const bool is_on = value == "yes";
                 AwaitOnAll<WorkerState>(server->state(), [is_on](WorkerState& worker) {
                   worker.timer.SetTracking(is_on);
                 });
                 return std::string();
               }});
  config->Add({.name = "latency-tracking-info-percentiles",
               .kind = Setting::Kind::kText,
               .value = fmt::format("{}", fmt::join(options.latency_percentiles, " ")),
               .is_mutable = true,
               .apply =
                   [server](const std::string& value) {
                     std::vector<double> percentiles;
                     const std::string error = ParsePercentiles(value, &percentiles);
                     if (!error.empty()) return error;
                     AwaitOnAll<WorkerState>(server->state(), [&percentiles](WorkerState& worker) {
                       worker.timer.percentiles() = percentiles;
                     });
                     return std::string();
                   },
               .canonical =
                   [](std::string_view text, std::string* error) {
                     std::vector<double> percentiles;
                     *error = ParsePercentiles(text, &percentiles);
                     return fmt::format("{}", fmt::join(percentiles, " "));
                   },
               .has_words = true});
}

}  // namespace dfly
