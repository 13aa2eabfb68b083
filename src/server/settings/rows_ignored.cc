// SPDX-License-Identifier: Apache-2.0
// The settings of redis.conf (7.2) that have no meaning in this server. They are known and checked
// as redis-server does it, in files, on the command line and by CONFIG SET, and kept for CONFIG GET
// and CONFIG REWRITE; nothing follows from them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/numbers.h"
#include "server/base/words.h"
#include "server/settings/rows.h"

namespace dfly {

namespace {

using enum SettingKind;
using enum SettingHow;

constexpr std::string_view kOwnPace =
    "a base is written at its own pace, and the log waits for none of it";
constexpr std::string_view kOldFiles = "files that a rewrite replaces are removed";
constexpr std::string_view kNoReplication = "that is not done for replicas yet";
constexpr std::string_view kNoCluster = "there is no cluster of several servers";
constexpr std::string_view kNoFork = "nothing forks here, and tables grow a segment at a time";
constexpr std::string_view kDefrag = "see active-defrag-cycle-max, which bounds it alone";
constexpr std::string_view kLazy = "large values are always freed in slices, in the background";
constexpr std::string_view kThreads = "see proactor_threads: all threads do all work";
constexpr std::string_view kNoTicks = "nothing ticks here";
constexpr std::string_view kSyslog = "the log goes to logfile, or to stderr";
constexpr std::string_view kOs = "left to systemd or the container";

// --- Texts that Redis checks ---

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

constexpr SettingRow kRows[] = {
    {.name = "no-appendfsync-on-rewrite", .kind = kBool, .initial = "no", .no_effect = kOwnPace},
    {.name = "aof-use-rdb-preamble",
     .kind = kBool,
     .initial = "yes",
     .no_effect = "a base is always an RDB file",
     .harmless = "yes"},
    {.name = "aof-rewrite-incremental-fsync",
     .kind = kBool,
     .initial = "yes",
     .no_effect = kOwnPace},
    {.name = "aof-disable-auto-gc", .kind = kBool, .initial = "no", .no_effect = kOldFiles},
    {.name = "bind-source-addr", .no_effect = kNoReplication},
    {.name = "rdb-del-sync-files", .kind = kBool, .initial = "no", .no_effect = kNoReplication},
    {.name = "propagation-error-behavior",
     .kind = kChoice,
     .initial = "ignore",
     .choices = "ignore panic panic-on-replicas",
     .no_effect = kNoReplication},
    {.name = "repl-diskless-sync", .kind = kBool, .initial = "yes", .no_effect = kNoReplication},
    {.name = "repl-disable-tcp-nodelay",
     .kind = kBool,
     .initial = "no",
     .no_effect = kNoReplication},
    {.name = "replica-ignore-maxmemory",
     .old_name = "slave-ignore-maxmemory",
     .kind = kBool,
     .initial = "yes",
     .no_effect = "a replica evicts nothing, the primary tells what goes"},
    {.name = "replica-lazy-flush",
     .old_name = "slave-lazy-flush",
     .kind = kBool,
     .initial = "no",
     .no_effect = kNoReplication},
    {.name = "cluster-config-file",
     .initial = "nodes.conf",
     .how = kAtStart,
     .no_effect = kNoCluster},
    {.name = "cluster-port",
     .kind = kInteger,
     .initial = "0",
     .max = 65535,
     .how = kAtStart,
     .no_effect = kNoCluster},
    {.name = "cluster-node-timeout",
     .kind = kInteger,
     .initial = "15000",
     .max = INT64_MAX,
     .no_effect = kNoCluster},
    {.name = "cluster-announce-bus-port",
     .kind = kInteger,
     .initial = "0",
     .max = 65535,
     .no_effect = kNoCluster},
    {.name = "cluster-announce-tls-port",
     .kind = kInteger,
     .initial = "0",
     .max = 65535,
     .no_effect = kNoCluster},
    {.name = "cluster-announce-hostname", .canonical = HostName, .no_effect = kNoCluster},
    {.name = "cluster-announce-human-nodename", .canonical = NodeName, .no_effect = kNoCluster},
    {.name = "cluster-preferred-endpoint-type",
     .kind = kChoice,
     .initial = "ip",
     .choices = "ip hostname unknown-endpoint",
     .no_effect = kNoCluster},
    {.name = "cluster-require-full-coverage",
     .kind = kBool,
     .initial = "yes",
     .no_effect = kNoCluster},
    {.name = "cluster-allow-reads-when-down",
     .kind = kBool,
     .initial = "no",
     .no_effect = kNoCluster},
    {.name = "cluster-allow-pubsubshard-when-down",
     .kind = kBool,
     .initial = "yes",
     .no_effect = kNoCluster},
    {.name = "cluster-allow-replica-migration",
     .kind = kBool,
     .initial = "yes",
     .no_effect = kNoCluster},
    {.name = "cluster-migration-barrier",
     .kind = kInteger,
     .initial = "1",
     .max = INT_MAX,
     .no_effect = kNoCluster},
    {.name = "cluster-replica-no-failover",
     .old_name = "cluster-slave-no-failover",
     .kind = kBool,
     .initial = "no",
     .no_effect = kNoCluster},
    {.name = "cluster-replica-validity-factor",
     .old_name = "cluster-slave-validity-factor",
     .kind = kInteger,
     .initial = "10",
     .max = INT_MAX,
     .no_effect = kNoCluster},
    {.name = "cluster-link-sendbuf-limit",
     .kind = kMemory,
     .initial = "0",
     .no_effect = kNoCluster},
    {.name = "tls-cluster", .kind = kBool, .initial = "no", .no_effect = kNoCluster},
    {.name = "rdb-save-incremental-fsync",
     .kind = kBool,
     .initial = "yes",
     .no_effect = "files go past the page cache, so there is little left to sync"},
    {.name = "rdbchecksum",
     .kind = kBool,
     .initial = "yes",
     .how = kAtStart,
     .no_effect = "checksums are always written and checked"},
    {.name = "sanitize-dump-payload",
     .kind = kChoice,
     .initial = "no",
     .choices = "no yes clients",
     .no_effect = "payloads are always checked"},
    {.name = "list-compress-depth",
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .no_effect = "nodes of lists are not compressed"},
    {.name = "set-proc-title", .kind = kBool, .initial = "yes", .how = kAtStart, .no_effect = kOs},
    {.name = "proc-title-template",
     .initial = "{title} {listen-addr} {server-mode}",
     .canonical = TitleTemplate,
     .no_effect = kOs},
    {.name = "oom-score-adj",
     .kind = kChoice,
     .initial = "no",
     .choices = "no yes relative absolute",
     .no_effect = kOs},
    {.name = "oom-score-adj-values",
     .initial = "0 200 800",
     .canonical = OomScores,
     .has_words = true,
     .no_effect = kOs},
    {.name = "server_cpulist", .how = kAtStart, .no_effect = kOs},
    {.name = "bio_cpulist", .how = kAtStart, .no_effect = kOs},
    {.name = "aof_rewrite_cpulist", .how = kAtStart, .no_effect = kOs},
    {.name = "bgsave_cpulist", .how = kAtStart, .no_effect = kOs},
    {.name = "socket-mark-id",
     .kind = kInteger,
     .initial = "0",
     .max = UINT32_MAX,
     .how = kAtStart,
     .no_effect = kOs},
    {.name = "ignore-warnings", .no_effect = kOs},
    {.name = "always-show-logo",
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .no_effect = "there is no logo"},
    {.name = "syslog-enabled",
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .no_effect = kSyslog},
    {.name = "syslog-ident", .initial = "redis", .how = kAtStart, .no_effect = kSyslog},
    {.name = "syslog-facility",
     .kind = kChoice,
     .initial = "local0",
     .choices = "user local0 local1 local2 local3 local4 local5 local6 local7",
     .how = kAtStart,
     .no_effect = kSyslog},
    {.name = "crash-log-enabled",
     .kind = kBool,
     .initial = "yes",
     .no_effect = "a crash is always told"},
    {.name = "crash-memcheck-enabled",
     .kind = kBool,
     .initial = "yes",
     .no_effect = "a crash is always told"},
    {.name = "hide-user-data-from-log",
     .kind = kBool,
     .initial = "no",
     .no_effect = "the log has no keys or values"},
    {.name = "disable-thp",
     .kind = kBool,
     .initial = "yes",
     .how = kAtStart,
     .no_effect = "huge pages do no harm here, as nothing forks; see --huge_pages"},
    {.name = "io-threads",
     .kind = kInteger,
     .initial = "1",
     .min = 1,
     .max = 128,
     .how = kAtStart,
     .no_effect = kThreads},
    {.name = "io-threads-do-reads",
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .no_effect = kThreads},
    {.name = "hz", .kind = kInteger, .initial = "10", .max = INT_MAX, .no_effect = kNoTicks},
    {.name = "dynamic-hz", .kind = kBool, .initial = "yes", .no_effect = kNoTicks},
    {.name = "activerehashing", .kind = kBool, .initial = "yes", .no_effect = kNoFork},
    {.name = "active-expire-effort",
     .kind = kInteger,
     .initial = "1",
     .min = 1,
     .max = 10,
     .no_effect = "what is due goes at once"},
    {.name = "active-defrag-threshold-upper",
     .kind = kInteger,
     .initial = "100",
     .max = 1000,
     .no_effect = kDefrag},
    {.name = "active-defrag-cycle-min",
     .kind = kInteger,
     .initial = "1",
     .min = 1,
     .max = 99,
     .no_effect = kDefrag},
    {.name = "active-defrag-max-scan-fields",
     .kind = kInteger,
     .initial = "1000",
     .min = 1,
     .max = INT64_MAX,
     .no_effect = kDefrag},
    {.name = "jemalloc-bg-thread",
     .kind = kBool,
     .initial = "yes",
     .no_effect = "memory is mimalloc's"},
    {.name = "maxmemory-eviction-tenacity",
     .kind = kInteger,
     .initial = "10",
     .max = 100,
     .no_effect = "eviction takes what it needs, in slices"},
    {.name = "lazyfree-lazy-eviction", .kind = kBool, .initial = "no", .no_effect = kLazy},
    {.name = "lazyfree-lazy-expire", .kind = kBool, .initial = "no", .no_effect = kLazy},
    {.name = "lazyfree-lazy-server-del", .kind = kBool, .initial = "no", .no_effect = kLazy},
    {.name = "lazyfree-lazy-user-del", .kind = kBool, .initial = "no", .no_effect = kLazy},
    {.name = "lazyfree-lazy-user-flush", .kind = kBool, .initial = "no", .no_effect = kLazy},
    {.name = "locale-collate",
     .no_effect = "texts are compared byte by byte",
     .harmless = "|C|POSIX"},
    {.name = "supervised",
     .kind = kChoice,
     .initial = "no",
     .choices = "upstart systemd auto no",
     .how = kAtStart,
     .no_effect = "systemd is told whenever it asks to be, and upstart never",
     .harmless = "no|auto|systemd"},
};

}  // namespace

std::span<const SettingRow> IgnoredSettings() { return kRows; }

}  // namespace dfly
