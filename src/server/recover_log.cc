// SPDX-License-Identifier: Apache-2.0
#include "server/recover_log.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include "helio/base/clock.h"
#include "helio/proactor/proactor_pool.h"
#include "server/options/directives.h"
#include "server/options/flags.h"
#include "server/options/options.h"
#include "storage/file_layer.h"
#include "storage/log/log_recovery.h"
#include "storage/log/log_times.h"

namespace dfly {

bool IsRecoveryWanted() {
  return FlagText("recover_list") == "true" || !FlagText("recover_to").empty() ||
         !FlagText("recover_into").empty();
}

std::string RecoverLog() {
  const bool lists = FlagText("recover_list") == "true";
  const std::string to = FlagText("recover_to");
  const std::string into = FlagText("recover_into");
  if (!lists && (to.empty() || into.empty())) {
    return "--recover_to and --recover_into need each other";
  }
  const int64_t now_s = helio::UnixMillis() / 1000;
  std::optional<LogPoint> point;
  if (!to.empty() && !(point = ParseLogPoint(to, now_s))) {
    return fmt::format(
        "--recover_to: '{}' is no time; examples: '2026-11-25 10:03:00', -5m, epoch:123, "
        "1764061380",
        to);
  }
  ServerOptions options;
  if (std::string error = OptionsFromFlags(&options); !error.empty()) return error;

  helio::ProactorPool pool({.threads = 1, .force_epoll = options.force_epoll});
  pool.Start();
  std::string error, text;
  pool.at(0)->AwaitFiber("recover log", [&] {
    LogRecovery recovery(&SystemFiles(), {.dir = options.persistence.directory,
                                          .directory_name = options.log.directory_name,
                                          .file_name = options.log.file_name});
    error = lists ? recovery.List(&text) : recovery.Recover(*point, now_s, into, &text);
  });
  pool.Stop();
  fputs(text.c_str(), stdout);
  return error;
}

}  // namespace dfly
