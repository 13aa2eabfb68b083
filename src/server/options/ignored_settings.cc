// SPDX-License-Identifier: Apache-2.0
#include "server/options/ignored_settings.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "core/text/numbers.h"
#include "server/base/words.h"
#include "server/options/directives.h"

namespace dfly {

namespace {

using Kind = Setting::Kind;
using How = IgnoredSetting::How;

constexpr std::string_view kNoLog = "there is no append-only log; snapshots (save) keep the data";
constexpr std::string_view kNoReplication = "there is no replication yet";
constexpr std::string_view kNoCluster = "there is no cluster of several servers";
constexpr std::string_view kNoFork = "nothing forks here, and tables grow a segment at a time";
constexpr std::string_view kDefrag = "see active-defrag-cycle-max, which bounds it alone";
constexpr std::string_view kLazy = "large values are always freed in slices, in the background";
constexpr std::string_view kThreads = "see proactor_threads: all threads do all work";
constexpr std::string_view kNoTicks = "nothing ticks here";
constexpr std::string_view kSyslog = "the log goes to logfile, or to stderr";
constexpr std::string_view kOs = "left to systemd or the container";

// --- Texts that Redis checks ---

std::string BaseName(std::string_view name, std::string_view text, std::string_view what,
                     std::string* error) {
  if (text.empty()) {
    *error = fmt::format("{} can't be empty", name);
  } else if (text.find('/') != std::string_view::npos) {
    *error = fmt::format("{} can't be a path, just a {}", name, what);
  }
  return std::string(text);
}

std::string FileName(std::string_view text, std::string* error) {
  return BaseName("appendfilename", text, "filename", error);
}

std::string FolderName(std::string_view text, std::string* error) {
  return BaseName("appenddirname", text, "dirname", error);
}

bool IsOf(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [others](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           others.find(c) != std::string_view::npos;
  });
}

std::string HostName(std::string_view text, std::string* error) {
  constexpr size_t kBytesMax = 256;  // with a NUL
  if (text.size() >= kBytesMax) {
    *error = fmt::format("Hostnames must be less than {} characters", kBytesMax);
  } else if (!IsOf(text, "-.")) {
    *error = "Hostnames may only contain alphanumeric characters, hyphens or dots";
  }
  return std::string(text);
}

std::string NodeName(std::string_view text, std::string* error) {
  constexpr std::string_view kForbidden = "!#$%&()*+:;<>?@[]^{|}~\"\\'/=,`";
  const bool is_good = std::all_of(text.begin(), text.end(), [kForbidden](char c) {
    return c >= ' ' && c < 0x7f && kForbidden.find(c) == std::string_view::npos;
  });
  if (!is_good) *error = "Announced human node name contained invalid character";
  return std::string(text);
}

// "no one", or a host and its port.
std::string Master(std::string_view text, std::string* error) {
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.empty()) return "";
  if (words.size() != 2) {
    *error = "wrong number of arguments";
    return "";
  }
  if (IsWord(words[0], "no") && IsWord(words[1], "one")) return "";
  const auto port = ParseInt64(words[1]);
  if (!port || *port < 0 || *port > 65535) *error = "Invalid master port";
  return fmt::format("{} {}", words[0], words[1]);
}

std::string TitleTemplate(std::string_view text, std::string* error) {
  constexpr std::string_view kVariables[] = {"title",    "listen-addr", "server-mode", "port",
                                             "tls-port", "unixsocket",  "config-file"};
  if (text.empty()) *error = "template format is invalid or contains unknown variables";
  for (size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const size_t end = text.find('}', at);
    const std::string_view variable =
        end == std::string_view::npos ? "" : text.substr(at + 1, end - at - 1);
    if (std::find(std::begin(kVariables), std::end(kVariables), variable) == std::end(kVariables)) {
      *error = "template format is invalid or contains unknown variables";
      break;
    }
  }
  return std::string(text);
}

// Three that do not fall.
std::string OomScores(std::string_view text, std::string* error) {
  constexpr int64_t kMax = 2000;
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.size() != 3) {
    *error = "wrong number of arguments";
    return "";
  }
  std::vector<int64_t> scores;
  for (std::string_view word : words) {
    const auto score = ParseInt64(word);
    if (!score || *score < -kMax || *score > kMax) {
      *error = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
      return "";
    }
    scores.push_back(*score);
  }
  return fmt::format("{}", fmt::join(scores, " "));
}

// --- The table ---

constexpr IgnoredSetting kRows[] = {
    {.name = "appendonly", .kind = Kind::kBool, .initial = "no", .why = kNoLog, .harmless = "no"},
    {.name = "appendfilename",
     .initial = "appendonly.aof",
     .how = How::kAtStart,
     .why = kNoLog,
     .canonical = FileName},
    {.name = "appenddirname",
     .initial = "appendonlydir",
     .how = How::kAtStart,
     .why = kNoLog,
     .canonical = FolderName},
    {.name = "appendfsync",
     .kind = Kind::kChoice,
     .initial = "everysec",
     .choices = "everysec always no",
     .why = kNoLog},
    {.name = "no-appendfsync-on-rewrite", .kind = Kind::kBool, .initial = "no", .why = kNoLog},
    {.name = "auto-aof-rewrite-percentage",
     .kind = Kind::kInteger,
     .initial = "100",
     .max = INT_MAX,
     .why = kNoLog},
    {.name = "auto-aof-rewrite-min-size",
     .kind = Kind::kMemory,
     .initial = "67108864",
     .max = INT64_MAX,
     .why = kNoLog},
    {.name = "aof-load-truncated", .kind = Kind::kBool, .initial = "yes", .why = kNoLog},
    {.name = "aof-use-rdb-preamble", .kind = Kind::kBool, .initial = "yes", .why = kNoLog},
    {.name = "aof-timestamp-enabled", .kind = Kind::kBool, .initial = "no", .why = kNoLog},
    {.name = "aof-rewrite-incremental-fsync", .kind = Kind::kBool, .initial = "yes", .why = kNoLog},
    {.name = "aof-disable-auto-gc", .kind = Kind::kBool, .initial = "no", .why = kNoLog},
    {.name = "replicaof",
     .old_name = "slaveof",
     .how = How::kAtStart,
     .why = kNoReplication,
     .canonical = Master,
     .harmless = "|",
     .has_words = true},
    {.name = "min-replicas-to-write",
     .old_name = "min-slaves-to-write",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = INT_MAX,
     .why = kNoReplication,
     .harmless = "0"},
    {.name = "min-replicas-max-lag",
     .old_name = "min-slaves-max-lag",
     .kind = Kind::kInteger,
     .initial = "10",
     .max = INT_MAX,
     .why = kNoReplication},
    {.name = "masterauth", .why = kNoReplication},
    {.name = "masteruser", .why = kNoReplication},
    {.name = "bind-source-addr", .why = kNoReplication},
    {.name = "rdb-del-sync-files", .kind = Kind::kBool, .initial = "no", .why = kNoReplication},
    {.name = "propagation-error-behavior",
     .kind = Kind::kChoice,
     .initial = "ignore",
     .choices = "ignore panic panic-on-replicas",
     .why = kNoReplication},
    {.name = "repl-diskless-sync", .kind = Kind::kBool, .initial = "yes", .why = kNoReplication},
    {.name = "repl-diskless-sync-delay",
     .kind = Kind::kInteger,
     .initial = "5",
     .max = INT_MAX,
     .why = kNoReplication},
    {.name = "repl-diskless-sync-max-replicas",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = INT_MAX,
     .why = kNoReplication},
    {.name = "repl-diskless-load",
     .kind = Kind::kChoice,
     .initial = "disabled",
     .choices = "disabled on-empty-db swapdb",
     .why = kNoReplication},
    {.name = "repl-disable-tcp-nodelay",
     .kind = Kind::kBool,
     .initial = "no",
     .why = kNoReplication},
    {.name = "repl-ping-replica-period",
     .old_name = "repl-ping-slave-period",
     .kind = Kind::kInteger,
     .initial = "10",
     .min = 1,
     .max = INT_MAX,
     .why = kNoReplication},
    {.name = "repl-timeout",
     .kind = Kind::kInteger,
     .initial = "60",
     .min = 1,
     .max = INT_MAX,
     .why = kNoReplication},
    {.name = "repl-backlog-size",
     .kind = Kind::kMemory,
     .initial = "1048576",
     .min = 1,
     .max = INT64_MAX,
     .why = kNoReplication},
    {.name = "repl-backlog-ttl",
     .kind = Kind::kInteger,
     .initial = "3600",
     .max = INT64_MAX,
     .why = kNoReplication},
    {.name = "replica-announced", .kind = Kind::kBool, .initial = "yes", .why = kNoReplication},
    {.name = "replica-announce-ip", .old_name = "slave-announce-ip", .why = kNoReplication},
    {.name = "replica-announce-port",
     .old_name = "slave-announce-port",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = 65535,
     .why = kNoReplication},
    {.name = "replica-ignore-disk-write-errors",
     .kind = Kind::kBool,
     .initial = "no",
     .why = kNoReplication},
    {.name = "replica-ignore-maxmemory",
     .old_name = "slave-ignore-maxmemory",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = kNoReplication},
    {.name = "replica-lazy-flush",
     .old_name = "slave-lazy-flush",
     .kind = Kind::kBool,
     .initial = "no",
     .why = kNoReplication},
    {.name = "replica-priority",
     .old_name = "slave-priority",
     .kind = Kind::kInteger,
     .initial = "100",
     .max = INT_MAX,
     .why = kNoReplication},
    {.name = "replica-read-only",
     .old_name = "slave-read-only",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = kNoReplication},
    {.name = "replica-serve-stale-data",
     .old_name = "slave-serve-stale-data",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = kNoReplication},
    {.name = "tls-replication", .kind = Kind::kBool, .initial = "no", .why = kNoReplication},
    {.name = "tls-client-cert-file", .why = kNoReplication},
    {.name = "tls-client-key-file", .why = kNoReplication},
    {.name = "tls-client-key-file-pass", .why = kNoReplication},
    {.name = "cluster-config-file",
     .initial = "nodes.conf",
     .how = How::kAtStart,
     .why = kNoCluster},
    {.name = "cluster-port",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = 65535,
     .how = How::kAtStart,
     .why = kNoCluster},
    {.name = "cluster-node-timeout",
     .kind = Kind::kInteger,
     .initial = "15000",
     .max = INT64_MAX,
     .why = kNoCluster},
    {.name = "cluster-announce-bus-port",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = 65535,
     .why = kNoCluster},
    {.name = "cluster-announce-tls-port",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = 65535,
     .why = kNoCluster},
    {.name = "cluster-announce-hostname", .why = kNoCluster, .canonical = HostName},
    {.name = "cluster-announce-human-nodename", .why = kNoCluster, .canonical = NodeName},
    {.name = "cluster-preferred-endpoint-type",
     .kind = Kind::kChoice,
     .initial = "ip",
     .choices = "ip hostname unknown-endpoint",
     .why = kNoCluster},
    {.name = "cluster-require-full-coverage",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = kNoCluster},
    {.name = "cluster-allow-reads-when-down",
     .kind = Kind::kBool,
     .initial = "no",
     .why = kNoCluster},
    {.name = "cluster-allow-pubsubshard-when-down",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = kNoCluster},
    {.name = "cluster-allow-replica-migration",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = kNoCluster},
    {.name = "cluster-migration-barrier",
     .kind = Kind::kInteger,
     .initial = "1",
     .max = INT_MAX,
     .why = kNoCluster},
    {.name = "cluster-replica-no-failover",
     .old_name = "cluster-slave-no-failover",
     .kind = Kind::kBool,
     .initial = "no",
     .why = kNoCluster},
    {.name = "cluster-replica-validity-factor",
     .old_name = "cluster-slave-validity-factor",
     .kind = Kind::kInteger,
     .initial = "10",
     .max = INT_MAX,
     .why = kNoCluster},
    {.name = "cluster-link-sendbuf-limit",
     .kind = Kind::kMemory,
     .initial = "0",
     .why = kNoCluster},
    {.name = "tls-cluster", .kind = Kind::kBool, .initial = "no", .why = kNoCluster},
    {.name = "rdb-save-incremental-fsync",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = "files are written and synced in steps"},
    {.name = "rdbchecksum",
     .kind = Kind::kBool,
     .initial = "yes",
     .how = How::kAtStart,
     .why = "checksums are always written and checked"},
    {.name = "sanitize-dump-payload",
     .kind = Kind::kChoice,
     .initial = "no",
     .choices = "no yes clients",
     .why = "payloads are always checked"},
    {.name = "list-compress-depth",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = INT_MAX,
     .why = "nodes of lists are not compressed"},
    {.name = "set-proc-title",
     .kind = Kind::kBool,
     .initial = "yes",
     .how = How::kAtStart,
     .why = kOs},
    {.name = "proc-title-template",
     .initial = "{title} {listen-addr} {server-mode}",
     .why = kOs,
     .canonical = TitleTemplate},
    {.name = "oom-score-adj",
     .kind = Kind::kChoice,
     .initial = "no",
     .choices = "no yes relative absolute",
     .why = kOs},
    {.name = "oom-score-adj-values",
     .initial = "0 200 800",
     .why = kOs,
     .canonical = OomScores,
     .has_words = true},
    {.name = "server_cpulist", .how = How::kAtStart, .why = kOs},
    {.name = "bio_cpulist", .how = How::kAtStart, .why = kOs},
    {.name = "aof_rewrite_cpulist", .how = How::kAtStart, .why = kOs},
    {.name = "bgsave_cpulist", .how = How::kAtStart, .why = kOs},
    {.name = "socket-mark-id",
     .kind = Kind::kInteger,
     .initial = "0",
     .max = UINT32_MAX,
     .how = How::kAtStart,
     .why = kOs},
    {.name = "ignore-warnings", .why = kOs},
    {.name = "always-show-logo",
     .kind = Kind::kBool,
     .initial = "no",
     .how = How::kAtStart,
     .why = "there is no logo"},
    {.name = "syslog-enabled",
     .kind = Kind::kBool,
     .initial = "no",
     .how = How::kAtStart,
     .why = kSyslog},
    {.name = "syslog-ident", .initial = "redis", .how = How::kAtStart, .why = kSyslog},
    {.name = "syslog-facility",
     .kind = Kind::kChoice,
     .initial = "local0",
     .choices = "user local0 local1 local2 local3 local4 local5 local6 local7",
     .how = How::kAtStart,
     .why = kSyslog},
    {.name = "crash-log-enabled",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = "a crash is always told"},
    {.name = "crash-memcheck-enabled",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = "a crash is always told"},
    {.name = "hide-user-data-from-log",
     .kind = Kind::kBool,
     .initial = "no",
     .why = "the log has no keys or values"},
    {.name = "disable-thp",
     .kind = Kind::kBool,
     .initial = "yes",
     .how = How::kAtStart,
     .why = "huge pages do no harm here, as nothing forks"},
    {.name = "io-threads",
     .kind = Kind::kInteger,
     .initial = "1",
     .min = 1,
     .max = 128,
     .how = How::kAtStart,
     .why = kThreads},
    {.name = "io-threads-do-reads",
     .kind = Kind::kBool,
     .initial = "no",
     .how = How::kAtStart,
     .why = kThreads},
    {.name = "hz", .kind = Kind::kInteger, .initial = "10", .max = INT_MAX, .why = kNoTicks},
    {.name = "dynamic-hz", .kind = Kind::kBool, .initial = "yes", .why = kNoTicks},
    {.name = "activerehashing", .kind = Kind::kBool, .initial = "yes", .why = kNoFork},
    {.name = "active-expire-effort",
     .kind = Kind::kInteger,
     .initial = "1",
     .min = 1,
     .max = 10,
     .why = "what is due goes at once"},
    {.name = "active-defrag-threshold-upper",
     .kind = Kind::kInteger,
     .initial = "100",
     .max = 1000,
     .why = kDefrag},
    {.name = "active-defrag-cycle-min",
     .kind = Kind::kInteger,
     .initial = "1",
     .min = 1,
     .max = 99,
     .why = kDefrag},
    {.name = "active-defrag-max-scan-fields",
     .kind = Kind::kInteger,
     .initial = "1000",
     .min = 1,
     .max = INT64_MAX,
     .why = kDefrag},
    {.name = "jemalloc-bg-thread",
     .kind = Kind::kBool,
     .initial = "yes",
     .why = "memory is mimalloc's"},
    {.name = "maxmemory-eviction-tenacity",
     .kind = Kind::kInteger,
     .initial = "10",
     .max = 100,
     .why = "eviction takes what it needs, in slices"},
    {.name = "lazyfree-lazy-eviction", .kind = Kind::kBool, .initial = "no", .why = kLazy},
    {.name = "lazyfree-lazy-expire", .kind = Kind::kBool, .initial = "no", .why = kLazy},
    {.name = "lazyfree-lazy-server-del", .kind = Kind::kBool, .initial = "no", .why = kLazy},
    {.name = "lazyfree-lazy-user-del", .kind = Kind::kBool, .initial = "no", .why = kLazy},
    {.name = "lazyfree-lazy-user-flush", .kind = Kind::kBool, .initial = "no", .why = kLazy},
    {.name = "locale-collate", .why = "texts are compared byte by byte", .harmless = "|C|POSIX"},
    {.name = "supervised",
     .kind = Kind::kChoice,
     .initial = "no",
     .choices = "upstart systemd auto no",
     .how = How::kAtStart,
     .why = "systemd is told whenever it asks to be, and upstart never",
     .harmless = "no|auto|systemd"},
};

// Why a value that Redis would take is none here; empty: it is one.
std::string Refusal(const IgnoredSetting& row, std::string_view value) {
  std::string_view rest = row.harmless;
  while (true) {
    const size_t size = std::min(rest.find('|'), rest.size());
    if (row.harmless.empty() || rest.substr(0, size) == value) return "";
    if (size == rest.size()) break;
    rest.remove_prefix(size + 1);
  }
  return fmt::format("'{}' would promise what is not there: {}", value, row.why);
}

// A row's rules, as CONFIG has them.
Setting SettingOf(const IgnoredSetting& row) {
  Setting setting{.name = row.name,
                  .kind = row.kind,
                  .value = std::string(row.initial),
                  .is_mutable = row.how == How::kLive,
                  .min = row.min,
                  .max = row.max,
                  .choices = SplitWords(row.choices),
                  .has_words = row.has_words,
                  .old_name = row.old_name};
  if (row.canonical != nullptr) setting.canonical = row.canonical;
  if (!row.harmless.empty()) {
    setting.apply = [&row](const std::string& value) { return Refusal(row, value); };
  }
  return setting;
}

// What files and the command line said, in canonical form.
absl::flat_hash_map<const IgnoredSetting*, std::string>& Kept() {
  static absl::flat_hash_map<const IgnoredSetting*, std::string> kept;
  return kept;
}

}  // namespace

std::span<const IgnoredSetting> IgnoredSettings() { return kRows; }

const IgnoredSetting* FindIgnoredSetting(std::string_view name) {
  const std::string wanted = FlagName(name);
  const auto it = std::find_if(std::begin(kRows), std::end(kRows), [&](const auto& row) {
    return wanted == FlagName(row.name) ||
           (!row.old_name.empty() && wanted == FlagName(row.old_name));
  });
  return it == std::end(kRows) ? nullptr : &*it;
}

std::string CanonicalValue(const IgnoredSetting& row, std::string_view text, std::string* error) {
  const Setting setting = SettingOf(row);
  std::string value = CanonicalValue(setting, text, error);
  if (error->empty()) *error = Refusal(row, value);
  return value;
}

std::string KeepIgnoredSetting(const IgnoredSetting& row, std::span<const std::string> words,
                               bool* is_initial) {
  if (words.empty() || (words.size() > 1 && !row.has_words)) return "wrong number of arguments";
  std::string error;
  std::string value = CanonicalValue(row, fmt::format("{}", fmt::join(words, " ")), &error);
  *is_initial = value == row.initial;
  if (error.empty()) Kept()[&row] = std::move(value);
  return error;
}

void AddIgnoredSettings(Config* config) {
  for (const IgnoredSetting& row : kRows) {
    Setting setting = SettingOf(row);
    if (const auto it = Kept().find(&row); it != Kept().end()) {
      setting.value = it->second;
      setting.was_set = true;
    }
    config->Add(std::move(setting));
  }
}

}  // namespace dfly
