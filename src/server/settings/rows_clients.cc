// SPDX-License-Identifier: Apache-2.0
// The settings of scripts, of what clients may use, of what is told to whom, and of the process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <string>
#include <string_view>

#include "scripting/source/script_header.h"
#include "server/base/process.h"
#include "server/base/words.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/command_runner.h"
#include "server/dispatch/worker.h"
#include "server/options/setting_slots.h"
#include "server/quotas/quotas.h"
#include "server/settings/rows.h"

namespace dfly {

namespace {

using Options = ServerOptions;
using enum SettingTopic;
using enum SettingKind;
using enum SettingHow;

constexpr NamedValue<UndeclaredKeys> kUndeclaredKeys[] = {{"learn", UndeclaredKeys::kLearn},
                                                          {"global", UndeclaredKeys::kGlobal},
                                                          {"refuse", UndeclaredKeys::kRefuse}};

constexpr SettingSlot kScriptFlags = {[](std::string_view value, Options* options) {
  std::string names(value);
  std::replace(names.begin(), names.end(), ',', ' ');
  options->default_lua_flags = 0;
  for (std::string_view name : SplitWords(names)) {
    const std::optional<ScriptFlag> flag = ScriptFlagOf(name);
    if (!flag) return fmt::format("'{}' is no flag of scripts", name);
    options->default_lua_flags |= *flag;
  }
  return std::string();
}};

// Classes that are not named stay as they are.
constexpr SettingSlot kOutputLimits = {
    [](std::string_view value, Options* options) { return options->output_limits.Set(value); },
    [](const Options& options) { return options.output_limits.ToString(); }};

constexpr SettingSlot kClientMemory = {
    [](std::string_view value, Options* options) {
      return options->maxmemory_clients.Parse(value);
    },
    [](const Options& options) { return options.maxmemory_clients.ToString(); }};

constexpr SettingSlot kKeyEvents = {
    [](std::string_view value, Options* options) {
      const auto classes = KeyEventClasses::Parse(value);
      if (!classes) return std::string("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
      options->key_events = *classes;
      return std::string();
    },
    [](const Options& options) { return options.key_events.ToString(); }};

constexpr SettingSlot kPercentiles = {
    [](std::string_view value, Options* options) {
      return ParsePercentiles(value, &options->latency_percentiles);
    },
    [](const Options& options) {
      return fmt::format("{}", fmt::join(options.latency_percentiles, " "));
    }};

// Owners that are not named keep theirs.
constexpr SettingSlot kQuotas = {
    [](std::string_view value, Options* options) { return options->quotas.Set(value); },
    [](const Options& options) { return options.quotas.ToString(); }};

template <StopRule Options::*kRule>
constexpr SettingSlot kStopRule = {[](std::string_view value, Options* options) {
                                     StopRule rule;
                                     std::string error = ParseStopRule(value, &rule);
                                     if (error.empty()) options->*kRule = rule;
                                     return error;
                                   },
                                   [](const Options& options) { return ToText(options.*kRule); }};

std::string ApplyMaxBulkLen(SettingHost& host, const SettingChange& change) {
  ServerOf(host).SetMaxBulkLen(change.now.limits.parser.max_bulk_len);
  return "";
}

std::string ApplyOutputLimits(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<ClientLimiter>(ServerOf(host).state(), [&](ClientLimiter& limiter) {
    limiter.SetOutputLimits(change.now.output_limits);
  });
  return "";
}

std::string ApplyQueryLimit(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<WorkerState>(ServerOf(host).state(), [&](WorkerState& worker) {
    worker.buffers.bounds.input_max = change.now.client_query_buffer_limit;
  });
  return "";
}

std::string ApplyClientMemory(SettingHost& host, const SettingChange& change) {
  ServerState& server = ServerOf(host).state();
  server.client_memory.Set(change.now.maxmemory_clients);
  AwaitOnAllSessions<ClientLimiter>(server,
                                    [](ClientLimiter& limiter) { limiter.OnMemoryLimit(); });
  EvictClients(server);
  return "";
}

std::string ApplyQuotas(SettingHost& host, const SettingChange& change) {
  ServerState& server = ServerOf(host).state();
  std::string error = change.now.quotas.Check(server.options.db_count);
  if (!error.empty()) return error;
  ServerOf(host).SetQuotas(change.now.quotas);
  AwaitOnAllSessions<Quotas>(server, [&](Quotas& quotas) { quotas.SetTable(server.quotas); });
  return "";
}

std::string ApplyKeyEvents(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<Worker>(ServerOf(host).state(),
                     [&](Worker& worker) { worker.SetKeyEvents(change.now.key_events); });
  return "";
}

std::string ApplyTrackingTable(SettingHost& host, const SettingChange&) {
  AwaitOnAll<Tracking>(ServerOf(host).state(), [](Tracking& tracking) { tracking.TrimAll(); });
  return "";
}

std::string ApplySlowLog(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<CommandRunner>(ServerOf(host).state(), [&](CommandRunner& runner) {
    WorkerState::Here().timer.SetSlowLog(change.now.slowlog_log_slower_than_us);
    runner.UpdateTiming();
  });
  return "";
}

std::string ApplySlowLogSize(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<WorkerState>(ServerOf(host).state(), [&](WorkerState& worker) {
    worker.timer.slow_log().set_max(change.now.slowlog_max_len);
  });
  return "";
}

std::string ApplyLoggedLimits(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<WorkerState>(ServerOf(host).state(), [&](WorkerState& worker) {
    worker.timer.SetLoggedLimits(change.now.logged_limits);
  });
  return "";
}

template <LogKind kKind, auto kMember>
std::string ApplyLargest(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<CommandRunner>(ServerOf(host).state(), [&](CommandRunner& runner) {
    WorkerState::Here().timer.SetLargest(kKind, change.now.*kMember);
    runner.UpdateTiming();
  });
  return "";
}

template <LogKind kKind, auto kMember>
std::string ApplyLogSize(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<WorkerState>(ServerOf(host).state(), [&](WorkerState& worker) {
    worker.timer.log(kKind).set_max(change.now.*kMember);
  });
  return "";
}

std::string ApplyLatencyMonitor(SettingHost& host, const SettingChange&) {
  ServerState& server = ServerOf(host).state();
  AwaitOnAll<CommandRunner>(server, [&](CommandRunner& runner) {
    runner.SetLatencyThreshold(server.settings.latency_monitor_ms);
    runner.UpdateTiming();
  });
  return "";
}

std::string ApplyLatencyTracking(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<WorkerState>(ServerOf(host).state(), [&](WorkerState& worker) {
    worker.timer.SetTracking(change.now.latency_tracking);
  });
  return "";
}

std::string ApplyPercentiles(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<WorkerState>(ServerOf(host).state(), [&](WorkerState& worker) {
    worker.timer.percentiles() = change.now.latency_percentiles;
  });
  return "";
}

std::string ApplyLogLevel(SettingHost&, const SettingChange& change) {
  SetLogLevel(change.now.log_level);
  return "";
}

std::string ApplyStopRules(SettingHost& host, const SettingChange& change) {
  Server& server = ServerOf(host);
  server.on_sigint() = change.now.on_sigint;
  server.on_sigterm() = change.now.on_sigterm;
  server.shutdown_timeout_s() = change.now.shutdown_timeout_s;
  return "";
}

// --- The table ---

constexpr SettingRow kRows[] = {
    {.name = "undeclared_keys",
     .topic = kScripts,
     .kind = kChoice,
     .initial = "learn",
     .choices = "learn global refuse",
     .how = kFlagOnly,
     .slot = kChoiceSlot<kUndeclaredKeys, &Options::undeclared_keys>,
     .help = "What happens when a script uses keys that are not among its KEYS. learn: they are "
             "locked, and what each script needs is found out: its first runs lock all shards, "
             "later ones what it was seen to use. global: all scripts lock all shards, unless all "
             "their keys have one tag and --lock_on_hashtags is on. refuse: an error."},
    {.name = "default_lua_flags",
     .topic = kScripts,
     .how = kFlagOnly,
     .slot = kScriptFlags,
     .brief = "flags of all scripts",
     .help = "Flags of all scripts, besides those that they say themselves (#!lua flags=...), "
             "separated by commas: allow-undeclared-keys locks all shards, disable-atomicity lets "
             "other commands run between those of the script, and Redis' own (no-writes ...)."},
    {.name = "lua_auto_async",
     .topic = kScripts,
     .kind = kBool,
     .initial = "no",
     .how = kFlagOnly,
     .slot = kSlot<&Options::lua_auto_async>,
     .brief = "send calls of scripts together",
     .help = "Calls of scripts whose result is not used are collected and sent to all shards "
             "together, as if redis.acall were written there. Faster if the keys of a script are "
             "in several shards. An error in one of them is told later than it happens."},
    {.name = "singlehop_scripts",
     .topic = kScripts,
     .kind = kBool,
     .initial = "yes",
     .how = kFlagOnly,
     .slot = kSlot<&Options::singlehop_scripts>,
     .help = "Scripts whose keys are all in one shard run there as a whole, in one hop. false: "
             "they go the way of those with keys in several shards."},
    {.name = "singlehop_commands",
     .topic = kScripts,
     .kind = kBool,
     .initial = "yes",
     .how = kFlagOnly,
     .slot = kSlot<&Options::singlehop_commands>,
     .help = "Commands of scripts with keys in several shards run at once in shards of the "
             "script's own thread. false: each is a hop of the script's transaction."},
    {.name = "interpreters_per_thread",
     .topic = kScripts,
     .kind = kInteger,
     .initial = "16",
     .min = 2,
     .max = 10'000,
     .how = kFlagOnly,
     .slot = kSlot<&Options::interpreters_per_thread>,
     .help = "Lua states of one thread at most: so many scripts can have begun there at a time, "
             "others wait. Each takes some 50 KB and what its scripts make."},
    {.name = "lua_memory_max",
     .topic = kScripts,
     .kind = kMemory,
     .initial = "256mb",
     .min = 1 << 20,
     .max = 1ll << 50,
     .how = kFlagOnly,
     .slot = kSlot<&Options::lua_memory_max>,
     .help = "Bytes of one Lua state; a script that needs more gets an error (not enough memory)."},
    {.name = "busy-reply-threshold",
     .old_name = "lua-time-limit",
     .topic = kScripts,
     .kind = kInteger,
     .initial = "5000",
     .max = INT64_MAX,
     .slot = kSlot<&Options::busy_reply_threshold_ms>,
     .live = kStoreLive<&Settings::busy_reply_threshold_ms, &Options::busy_reply_threshold_ms>,
     .help = "Milliseconds after which a script is slow: commands that have to wait for it get the "
             "error BUSY then. 0: never."},
    {.name = "proto-max-bulk-len",
     .flag = "max_bulk_len",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "512mb",
     .min = 1024,
     .max = UINT32_MAX,
     .slot =
         kSlot<&Options::limits, &ConnectionLimits::parser, &RequestParser::Limits::max_bulk_len>,
     .apply = ApplyMaxBulkLen,
     .help = "Bytes of one argument, and so of one value. A client may make the server use so much "
             "memory with one command."},
    {.name = "max_multi_bulk_len",
     .topic = kLimits,
     .kind = kInteger,
     .initial = "2147483647",
     .min = 16,
     .max = INT_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::parser,
                   &RequestParser::Limits::max_multi_bulk_len>,
     .help = "Arguments of one command. A low limit bounds how long one command can take."},
    {.name = "max_inline_len",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "64kb",
     .min = 1024,
     .max = 1 << 30,
     .how = kAtStart,
     .slot =
         kSlot<&Options::limits, &ConnectionLimits::parser, &RequestParser::Limits::max_inline_len>,
     .help = "Bytes of a command that is a plain line, and of a header."},
    {.name = "http_head_max",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "8kb",
     .min = 1024,
     .max = 1 << 20,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::http, &HttpLimits::head_max>,
     .help = "Bytes of an HTTP request's first line and its fields."},
    {.name = "http_body_max",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "1mb",
     .min = 64,
     .max = 1 << 30,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::http, &HttpLimits::body_max>,
     .flag_error = "must be between 64 and 1gb",
     .help = "Bytes of the commands in one HTTP request."},
    {.name = "http_reply_max",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "64mb",
     .min = 1024,
     .max = 1 << 30,
     .how = kAtStart,
     .slot = kSlot<&Options::http_reply_max>,
     .flag_error = "must be between 1kb and 1gb",
     .help = "Bytes of the replies to the commands in one HTTP request; more is an error."},
    {.name = "http_timeout_ms",
     .topic = kLimits,
     .kind = kInteger,
     .initial = "10000",
     .min = 1,
     .max = 3'600'000,
     .how = kAtStart,
     .slot = kSlot<&Options::http_timeout_ms>,
     .help = "Milliseconds that the commands of one HTTP request may take. Those that go on then "
             "are as those of a client that has left."},
    {.name = "pipeline_commands_max",
     .topic = kLimits,
     .kind = kInteger,
     .initial = "32768",
     .min = 1,
     .max = UINT32_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::slots_max>,
     .help = "Commands of one connection whose replies are pending; past that it is not read from "
             "until some are sent."},
    {.name = "pipeline_reply_bytes_max",
     .topic = kLimits,
     .kind = kMemory,
     .min = 1024,
     .max = 1ll << 50,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::reply_bytes_max>,
     .help = "Bytes of replies that one connection has not taken, and of its commands that other "
             "threads still have; past that it is not read from, and other threads stop in the "
             "middle of its commands. Clients that do not read can use so much memory each, and "
             "one reply for each shard more. The default is 128mb, but no more than 1/32 of what "
             "the machine or the container has."},
    {.name = "pipeline_input_bytes_max",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "1mb",
     .min = 1024,
     .max = 1ll << 50,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::recv_bytes_max>,
     .help = "Bytes of requests that one connection sent ahead while they cannot be executed; past "
             "that it is not read from."},
    {.name = "client-output-buffer-limit",
     .topic = kLimits,
     .initial = "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
     .slot = kOutputLimits,
     .apply = ApplyOutputLimits,
     .has_words = true,
     .repeat = SettingRepeat::kAddsWords,
     .help = "Clients that leave more of their replies or messages unread are disconnected: class, "
             "bytes, bytes that are too much if it lasts, and for how many seconds, for each of "
             "normal, replica and pubsub; 0: no limit. Monitors are pubsub here. CONFIG SET "
             "changes it."},
    {.name = "client-query-buffer-limit",
     .topic = kLimits,
     .kind = kMemory,
     .initial = "1gb",
     .min = 1 << 20,
     .max = INT64_MAX,
     .slot = kSlot<&Options::client_query_buffer_limit>,
     .apply = ApplyQueryLimit,
     .flag_error = "must be a number of bytes, and at least 1mb",
     .help = "Bytes of a command, or of a MULTI, that a client has sent in part; with more it is "
             "disconnected. CONFIG SET changes it."},
    {.name = "maxmemory-clients",
     .topic = kLimits,
     .initial = "0",
     .slot = kClientMemory,
     .apply = ApplyClientMemory,
     .help = "Bytes, or percents of maxmemory (5%), that all clients may use together; past that "
             "the largest are disconnected, but for those with CLIENT NO-EVICT. 0: no limit. "
             "CONFIG SET changes it."},
    {.name = "quota",
     .topic = kLimits,
     .slot = kQuotas,
     .apply = ApplyQuotas,
     .has_words = true,
     .repeat = SettingRepeat::kAddsWords,
     .lacks_line_if_empty = true,
     .help = "What a user of the ACL or a database may use: `user NAME` or `db NUMBER`, then some "
             "of `commands N` and `bytes N` in a second, `connections N`, `memory N`, and `action "
             "delay` or `action error` for commands past the first two. Several entries stand one "
             "behind another. CONFIG SET changes those that it names (docs/quotas.md)."},
    {.name = "blocked_clients_max",
     .topic = kLimits,
     .kind = kInteger,
     .initial = "30000",
     .min = 1,
     .max = UINT32_MAX,
     .how = kFlagOnly,
     .slot = kSlot<&Options::blocked_clients_max>,
     .help = "Clients that may wait for keys (BLPOP) at a time, divided among the threads; others "
             "get an error. Each takes two of the process' memory maps: vm.max_map_count."},
    {.name = "notify-keyspace-events",
     .topic = kEvents,
     .slot = kKeyEvents,
     .apply = ApplyKeyEvents,
     .flag_error = "has an invalid letter; there are Ag$lshzxeKEtmdnSTIV",
     .help =
         "Which events of keys are published to __keyspace@<db>__:<key> (K) and "
         "__keyevent@<db>__:<event> (E): the letters of redis.conf, KEA for most; with S, T, I, V "
         "which fields of hashes they are about. CONFIG SET changes it."},
    {.name = "tracking-table-max-keys",
     .topic = kEvents,
     .kind = kInteger,
     .initial = "1000000",
     .max = INT64_MAX,
     .slot = kSlot<&Options::tracking_table_max_keys>,
     .live = kStoreLive<&Settings::tracking_table_max_keys, &Options::tracking_table_max_keys>,
     .apply = ApplyTrackingTable,
     .help = "Keys that clients have read with CLIENT TRACKING and may still hear of, in all "
             "shards together; for others the oldest guess is told to have changed. 0: no limit. "
             "CONFIG SET changes it."},
    {.name = "slowlog-log-slower-than",
     .old_name = "commandlog-execution-slower-than",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "10000",
     .min = -1,
     .max = INT64_MAX,
     .slot = kSlot<&Options::slowlog_log_slower_than_us>,
     .apply = ApplySlowLog,
     .flag_error = "must be -1 or more",
     .help = "Microseconds; commands that take as long, with waiting for locks, are in SLOWLOG. 0: "
             "all, -1: none. CONFIG SET changes it."},
    {.name = "slowlog-max-len",
     .old_name = "commandlog-slow-execution-max-len",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "128",
     .max = INT64_MAX,
     .slot = kSlot<&Options::slowlog_max_len>,
     .live = kStoreLive<&Settings::slowlog_max_len, &Options::slowlog_max_len>,
     .apply = ApplySlowLogSize,
     .help = "Commands that SLOWLOG keeps. CONFIG SET changes it."},
    {.name = "slowlog-entry-max-argc",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "32",
     .min = 1,
     .max = INT32_MAX,
     .slot = kSlot<&Options::logged_limits, &LoggedLimits::args>,
     .apply = ApplyLoggedLimits,
     .help = "Arguments of a command that SLOWLOG and COMMANDLOG have; of a command with more the "
             "last one says how many are missing. CONFIG SET changes it, for what comes then."},
    {.name = "slowlog-entry-max-string-len",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "128",
     .min = 1,
     .max = INT32_MAX,
     .slot = kSlot<&Options::logged_limits, &LoggedLimits::bytes>,
     .apply = ApplyLoggedLimits,
     .help = "Bytes of an argument that these logs have; behind a longer one it is said how many "
             "are missing. CONFIG SET changes it, for what comes then."},
    {.name = "commandlog-request-larger-than",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "1048576",
     .min = -1,
     .max = INT64_MAX,
     .slot = kSlot<&Options::large_request_bytes>,
     .apply = ApplyLargest<LogKind::kLargeRequest, &Options::large_request_bytes>,
     .flag_error = "must be -1 or more",
     .help = "Bytes; commands that have as many, as an array of RESP, are in COMMANDLOG's "
             "large-request. 0: all, -1: none. Up to 8192 all commands are timed, which costs a "
             "tenth of a GET. CONFIG SET changes it."},
    {.name = "commandlog-large-request-max-len",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "128",
     .max = INT64_MAX,
     .slot = kSlot<&Options::large_request_max_len>,
     .live = kStoreLive<&Settings::large_request_max_len, &Options::large_request_max_len>,
     .apply = ApplyLogSize<LogKind::kLargeRequest, &Options::large_request_max_len>,
     .help = "Commands that COMMANDLOG's large-request keeps. CONFIG SET changes it."},
    {.name = "commandlog-reply-larger-than",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "1048576",
     .min = -1,
     .max = INT64_MAX,
     .slot = kSlot<&Options::large_reply_bytes>,
     .apply = ApplyLargest<LogKind::kLargeReply, &Options::large_reply_bytes>,
     .flag_error = "must be -1 or more",
     .help = "Bytes; commands whose replies have as many are in COMMANDLOG's large-reply. 0: all, "
             "-1: none. Up to 4096 all commands are timed. CONFIG SET changes it."},
    {.name = "commandlog-large-reply-max-len",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "128",
     .max = INT64_MAX,
     .slot = kSlot<&Options::large_reply_max_len>,
     .live = kStoreLive<&Settings::large_reply_max_len, &Options::large_reply_max_len>,
     .apply = ApplyLogSize<LogKind::kLargeReply, &Options::large_reply_max_len>,
     .help = "Commands that COMMANDLOG's large-reply keeps. CONFIG SET changes it."},
    {.name = "keysizes-keys-max",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "10000000",
     .max = INT64_MAX,
     .slot = kSlot<&Options::keysizes_keys_max>,
     .live = kStoreLive<&Settings::keysizes_keys_max, &Options::keysizes_keys_max>,
     .help = "Keys that INFO keysizes looks at, of all shards and databases together. It takes "
             "about a second of all threads for ten million; other commands run in between. 0: "
             "all. CONFIG SET changes it."},
    {.name = "lock-warning-ms",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "10000",
     .max = UINT32_MAX,
     .slot = kSlot<&Options::lock_warning_ms>,
     .live = kStoreLive<&Settings::lock_warning_ms, &Options::lock_warning_ms>,
     .help =
         "Milliseconds; who has locks for longer is in the log, once, with what it waits for, and "
         "in INFO transaction, the metrics and the web console. 0: nobody. CONFIG SET changes it."},
    {.name = "latency-monitor-threshold",
     .topic = kSlowCommands,
     .kind = kInteger,
     .initial = "0",
     .max = INT64_MAX,
     .slot = kSlot<&Options::latency_monitor_threshold_ms>,
     .live = kStoreLive<&Settings::latency_monitor_ms, &Options::latency_monitor_threshold_ms>,
     .apply = ApplyLatencyMonitor,
     .help = "Milliseconds; what takes as long is in LATENCY LATEST. 0: off, as LATENCY DOCTOR is "
             "then. CONFIG SET changes it."},
    {.name = "latency-tracking",
     .topic = kSlowCommands,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::latency_tracking>,
     .apply = ApplyLatencyTracking,
     .help = "Count how long the calls of each command take, for INFO latencystats and LATENCY "
             "HISTOGRAM: 5.5 KB for each command that is used and thread."},
    {.name = "latency-tracking-info-percentiles",
     .topic = kSlowCommands,
     .initial = "50 99 99.9",
     .slot = kPercentiles,
     .apply = ApplyPercentiles,
     .has_words = true,
     .help = "What INFO latencystats tells of each command, between 0 and 100."},
    {.name = "web_console",
     .topic = kConsole,
     .kind = kBool,
     .initial = "yes",
     .how = kAtStart,
     .slot = kSlot<&Options::web_console>,
     .help = "Serves a console for browsers at / on the main port, and commands for it at "
             "/api/commands. Users of it are those of the ACL."},
    {.name = "metrics_nopass",
     .topic = kConsole,
     .kind = kBool,
     .initial = "no",
     .how = kFlagOnly,
     .slot = kSlot<&Options::metrics_nopass>,
     .help = "GET /metrics, for Prometheus, needs no password although there is one. It tells "
             "names of commands and how much there is of everything, nothing of keys."},
    {.name = "ignore_unknown_flags",
     .topic = kProcess,
     .kind = kBool,
     .initial = "no",
     .how = kFlagOnly,
     .slot = kSlot<&Options::ignores_unknown_flags>,
     .help = "A flag that is not there, or that only Dragonfly has, is a warning and no error."},
    {.name = "daemonize",
     .topic = kProcess,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::is_daemon>,
     .brief = "go on in the background",
     .help = "Go on in the background, without a terminal. Services of systemd and containers need "
             "it not."},
    {.name = "pidfile",
     .topic = kProcess,
     .how = kAtStart,
     .slot = kSlot<&Options::pid_file>,
     .brief = "file of the process id",
     .help = "File to write the process id to; removed at the end. Empty: none."},
    {.name = "logfile",
     .topic = kProcess,
     .how = kAtStart,
     .slot = kSlot<&Options::log_file>,
     .brief = "file of the log; empty: stderr",
     .help = "File that the log, and what a crash prints, is appended to; SIGHUP opens it again, "
             "for logrotate. Empty: stderr."},
    {.name = "loglevel",
     .topic = kProcess,
     .kind = kChoice,
     .initial = "notice",
     .choices = "debug verbose notice warning nothing",
     .slot = kSlot<&Options::log_level>,
     .apply = ApplyLogLevel,
     .brief = "debug, verbose, notice, warning or nothing",
     .help = "How much is logged: debug, verbose, notice, warning, nothing."},
    {.name = "log-format",
     .topic = kProcess,
     .kind = kChoice,
     .initial = "text",
     .choices = "text legacy json",
     .how = kAtStart,
     .slot = kSlot<&Options::log_format>,
     .brief = "text or json",
     .help = "json: each message of the log is one line with one object of JSON, with time, level, "
             "thread, source and message. text, or legacy: lines for people."},
    {.name = "audit_log",
     .topic = kProcess,
     .how = kAtStart,
     .slot = kSlot<&Options::audit_log>,
     .brief = "file of logins, refusals and what administrators do",
     .help = "File that gets a line of JSON for each login, each refusal of the ACL, and each "
             "command of an administrator, without passwords; SIGHUP opens it again. Empty: none."},
    {.name = "audit_log_buffer_limit",
     .topic = kProcess,
     .kind = kMemory,
     .initial = "1mb",
     .min = 4096,
     .max = 1 << 30,
     .how = kAtStart,
     .slot = kSlot<&Options::audit_buffer_limit>,
     .help = "Bytes of lines of --audit_log that may wait for the disk. More are dropped and "
             "counted."},
    {.name = "shutdown-on-sigint",
     .topic = kProcess,
     .initial = "default",
     .slot = kStopRule<&Options::on_sigint>,
     .apply = ApplyStopRules,
     .help = "What SIGINT does: some of save, nosave, now, force (it ends even if it cannot save), "
             "or default: it saves if --save says so. A second SIGINT ends it at once."},
    {.name = "shutdown-on-sigterm",
     .topic = kProcess,
     .initial = "default",
     .slot = kStopRule<&Options::on_sigterm>,
     .apply = ApplyStopRules,
     .help = "What SIGTERM does, as --shutdown_on_sigint."},
    {.name = "shutdown-timeout",
     .topic = kProcess,
     .kind = kInteger,
     .initial = "10",
     .max = INT_MAX,
     .slot = kSlot<&Options::shutdown_timeout_s>,
     .apply = ApplyStopRules,
     .help =
         "Seconds that the end of the server waits for its replicas (SHUTDOWN NOW does not; 0: it "
         "never does), and that the end of a replica with a log waits, 10 at most, until what has "
         "begun of its primary's stream is done. And seconds that SIGTERM and SIGINT wait for "
         "locks that the last snapshot "
         "needs, and then "
         "for the end of all commands. After that the process ends without, and the log says who "
         "has the locks. A snapshot that is being written is waited for, unless a thread has "
         "stopped for so long. SHUTDOWN waits as long for the locks, and for a thread that has "
         "stopped; then it is an error, and the server goes on, or with NOSAVE or FORCE it ends."},
    {.name = "take_over",
     .topic = kProcess,
     .how = kFlagOnly,
     .slot = kSlot<&Options::take_over>,
     .brief = "pid file or unix socket of the process to replace",
     .help = "The pid file, or a unix socket, of a running process that this one is to replace "
             "without an outage: it gets that one's data, changes and listening sockets, and then "
             "the other one ends. With --daemonize the command ends when that is done, with 0, or "
             "with 1 if the other one goes on. See docs/upgrading.md."},
    {.name = "take_over_timeout_s",
     .topic = kProcess,
     .kind = kInteger,
     .initial = "3600",
     .min = 1,
     .max = INT_MAX,
     .how = kFlagOnly,
     .slot = kSlot<&Options::take_over_timeout_s>,
     .help =
         "Seconds after which a --take_over that is not done ends this process, and the old one "
         "goes on. Most of it is the copy of the data."},
    {.name = "take_over_pause_ms",
     .topic = kProcess,
     .kind = kInteger,
     .initial = "5000",
     .min = 1,
     .max = INT_MAX,
     .how = kFlagOnly,
     .slot = kSlot<&Options::take_over_pause_ms>,
     .help = "Milliseconds that clients of this process wait at most while another one takes over. "
             "If that is not ready then, this process goes on as before."},
    {.name = "healthcheck",
     .topic = kProcess,
     .how = kFlagOnly,
     .help = "live or ready: starts nothing, but asks the server that these flags would start (GET "
             "/livez, /readyz), and ends with 0 if it answers so, else with 1."},
};

}  // namespace

std::span<const SettingRow> ClientSettings() { return kRows; }

}  // namespace dfly
