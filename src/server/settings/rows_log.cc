// SPDX-License-Identifier: Apache-2.0
// Rows of settings: the append-only log.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "server/options/setting_slots.h"
#include "server/persistence/append_log.h"
#include "server/settings/rows.h"
#include "storage/log/log_times.h"

namespace dfly {

namespace {

using enum SettingTopic;
using enum SettingKind;
using enum SettingHow;
using Options = ServerOptions;

constexpr NamedValue<LogPolicy> kPolicies[] = {
    {"everysec", LogPolicy::kEverySec}, {"always", LogPolicy::kAlways}, {"no", LogPolicy::kNo}};

std::string CheckBaseName(std::string_view name, std::string_view text, std::string_view what) {
  // A file's name has 255 bytes at most, and the manifest a line for it.
  constexpr size_t kBytesMax = 200;
  if (text.empty()) return fmt::format("{} can't be empty", name);
  if (text.size() > kBytesMax) {
    return fmt::format("{} can't be longer than {} bytes", name, kBytesMax);
  }
  if (text.find('/') == std::string_view::npos) return "";
  return fmt::format("{} can't be a path, just a {}", name, what);
}

constexpr SettingSlot kFileName = {[](std::string_view value, Options* options) {
                                     options->log.file_name = value;
                                     return CheckBaseName("appendfilename", value, "filename");
                                   },
                                   kSlot<&Options::log, &LogOptions::file_name>.show};

constexpr SettingSlot kDirectoryName = {[](std::string_view value, Options* options) {
                                          options->log.directory_name = value;
                                          return CheckBaseName("appenddirname", value, "dirname");
                                        },
                                        kSlot<&Options::log, &LogOptions::directory_name>.show};

constexpr SettingSlot kHistory = {
    [](std::string_view value, Options* options) {
      const auto seconds = ParseDuration(value);
      options->log.history_s = seconds.value_or(0);
      return seconds ? std::string() : fmt::format("'{}' is no time; examples: 24h, 90m, 0", value);
    },
    [](const Options& options) { return FormatDuration(options.log.history_s); }};

// On the thread that the log belongs to; from a fiber. Suspends.
template <typename Function>
std::string OnLog(SettingHost& host, Function function) {
  Server& server = ServerOf(host);
  std::string error;
  server.state().pool.at(0)->AwaitFiber("config log",
                                        [&] { error = function(server.append_log()); });
  return error;
}

std::string ApplyOn(SettingHost& host, const SettingChange& change) {
  return OnLog(host, [&](AppendLog& log) {
    const std::string error = log.SetOn(change.now.log.is_on);
    if (error.empty()) return error;
    LOG(ERROR) << "appendonly: " << error;
    return std::string("Unable to turn on AOF. Check server logs.");
  });
}

std::string ApplyPolicy(SettingHost& host, const SettingChange& change) {
  return OnLog(host, [&](AppendLog& log) { return log.SetPolicy(change.now.log.policy); });
}

std::string ApplyRules(SettingHost& host, const SettingChange& change) {
  return OnLog(host, [&](AppendLog& log) {
    log.SetRules(change.now.log);
    return std::string();
  });
}

std::string ApplyLimit(SettingHost& host, const SettingChange&) {
  return OnLog(host, [](AppendLog& log) {
    log.OnLimit();
    return std::string();
  });
}

constexpr SettingRow kRows[] = {
    {.name = "appendonly",
     .topic = kLog,
     .kind = kBool,
     .initial = "no",
     .slot = kSlot<&Options::log, &LogOptions::is_on>,
     .apply = ApplyOn,
     .brief = "write each change to the append-only log",
     .help = "Write each change to the append-only log. At the start the log is loaded, and no "
             "snapshot; without a log, a snapshot that is there."},
    {.name = "appendfilename",
     .topic = kLog,
     .initial = "appendonly.aof",
     .how = kAtStart,
     .slot = kFileName,
     .help = "How the names of its files begin."},
    {.name = "appenddirname",
     .topic = kLog,
     .initial = "appendonlydir",
     .how = kAtStart,
     .slot = kDirectoryName,
     .help = "The folder of its files, in --dir."},
    {.name = "appendfsync",
     .topic = kLog,
     .kind = kChoice,
     .initial = "everysec",
     .choices = "everysec always no",
     .slot = kChoiceSlot<kPolicies, &Options::log, &LogOptions::policy>,
     .apply = ApplyPolicy,
     .brief = "always, everysec or no",
     .help = "When changes are on the disk. always: before the client has its reply. everysec: "
             "within a second. no: when the system likes it; a process that is killed loses "
             "nothing of what was written."},
    {.name = "auto-aof-rewrite-percentage",
     .topic = kLog,
     .kind = kInteger,
     .initial = "100",
     .max = INT32_MAX,
     .slot = kSlot<&Options::log, &LogOptions::rewrite_percentage>,
     .apply = ApplyRules,
     .help = "The log is rewritten when it has grown by so many percent since the last time. 0: "
             "not by itself."},
    {.name = "auto-aof-rewrite-min-size",
     .topic = kLog,
     .kind = kMemory,
     .initial = "64mb",
     .max = INT64_MAX,
     .slot = kSlot<&Options::log, &LogOptions::rewrite_min_bytes>,
     .apply = ApplyRules,
     .help = "And when it has so many bytes."},
    {.name = "journal_buffer_limit",
     .topic = kLog,
     .kind = kMemory,
     .initial = "256mb",
     .max = INT64_MAX,
     .slot = kSlot<&Options::log, &LogOptions::buffer_limit>,
     .live = kStoreLive<&Settings::journal_buffer_limit, &Options::log, &LogOptions::buffer_limit>,
     .apply = ApplyLimit,
     .help = "Bytes that may be done and not on the disk yet: past it, clients that write have to "
             "wait until a half of it is left. 0: no limit."},
    {.name = "aof-load-truncated",
     .topic = kLog,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::log, &LogOptions::loads_truncated>,
     .help = "Start with a log whose end is missing, and leave out what is not whole. no: refuse "
             "to start then."},
    {.name = "aof-timestamp-enabled",
     .topic = kLog,
     .kind = kBool,
     .initial = "no",
     .slot = kSlot<&Options::log, &LogOptions::has_timestamps>,
     .apply = ApplyRules,
     .help = "Write the time into the log, once a second: redis-check-aof can cut it there."},
    {.name = "aof-history",
     .topic = kLog,
     .initial = "0",
     .slot = kHistory,
     .apply = ApplyRules,
     .help = "How long what a rewrite replaces is kept, so that --recover_to can go back: 24h, "
             "90m, 2d; 0: it is not. Also writes the time into the log."},
    {.name = "absent_replica_log_limit",
     .topic = kLog,
     .kind = kMemory,
     .initial = "4gb",
     .max = INT64_MAX,
     .slot = kSlot<&Options::log, &LogOptions::absent_replica_bytes>,
     .apply = ApplyRules,
     .help = "For so many bytes, what a rewrite replaces is kept while a replica that has left may "
             "come back and go on from there: for repl-backlog-ttl. 0: it is not."},
    {.name = "recover-to",
     .topic = kLog,
     .how = kFlagOnly,
     .help = "Starts no server, but writes the log of --dir to --recover_into as it was then: "
             "'2026-11-25 10:03:00' (local time; with a Z behind it, UTC), -5m (ago; s, m, h or "
             "d), epoch:123, or Unix seconds."},
    {.name = "recover-into",
     .topic = kLog,
     .how = kFlagOnly,
     .help = "The folder for --recover_to; it is made, or is empty."},
    {.name = "recover-list",
     .topic = kLog,
     .kind = kBool,
     .initial = "no",
     .how = kFlagOnly,
     .help = "Starts no server, but says from when to when --recover_to can go with the log of "
             "--dir."},
};

}  // namespace

std::span<const SettingRow> LogSettings() { return kRows; }

}  // namespace dfly
