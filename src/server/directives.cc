// SPDX-License-Identifier: Apache-2.0
#include "server/directives.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>

#include <algorithm>

#include "server/units.h"
#include "server/words.h"

namespace dfly {

namespace {

using Kind = Directive::Kind;

constexpr std::string_view kNoLog = "there is no append-only log; snapshots (save) keep the data";
constexpr std::string_view kNoReplication = "there is no replication yet";
constexpr std::string_view kNoCluster =
    "there is no cluster of several servers; --cluster_mode=emulated is for clients of one";
constexpr std::string_view kNoFork = "nothing forks here, and tables grow a segment at a time";
constexpr std::string_view kDefrag = "see active-defrag-cycle-max, which bounds it alone";
constexpr std::string_view kLazy = "large values are always freed in slices, in the background";
constexpr std::string_view kThreads = "see proactor_threads: all threads do all work";
constexpr std::string_view kNoTicks = "nothing ticks here";
constexpr std::string_view kSyslog = "the log goes to logfile, or to stderr";
constexpr std::string_view kNoModules = "there are no modules";
constexpr std::string_view kOs = "left to systemd or the container";

// For redis-server 7.0 and what 7.2 added.
constexpr Directive kDirectives[] = {
    {"databases", Kind::kFlag, "dbnum"},
    {"proto-max-bulk-len", Kind::kFlag, "max_bulk_len"},
    {"lua-time-limit", Kind::kFlag, "busy_reply_threshold"},
    {"hash-max-ziplist-entries", Kind::kFlag, "hash_max_listpack_entries"},
    {"hash-max-ziplist-value", Kind::kFlag, "hash_max_listpack_value"},
    {"zset-max-ziplist-entries", Kind::kFlag, "zset_max_listpack_entries"},
    {"zset-max-ziplist-value", Kind::kFlag, "zset_max_listpack_value"},
    {"list-max-ziplist-size", Kind::kFlag, "list_max_listpack_size"},

    {"appendonly", Kind::kIgnored,
     "THERE IS NO APPEND-ONLY LOG: what was written since the last snapshot (save) is lost in a "
     "crash",
     "no"},
    {"replicaof", Kind::kRefused, kNoReplication},
    {"slaveof", Kind::kRefused, kNoReplication},
    {"cluster-enabled", Kind::kRefused, kNoCluster, "no"},
    {"loadmodule", Kind::kRefused, kNoModules},

    {"appendfilename", Kind::kIgnored, kNoLog, "appendonly.aof"},
    {"appenddirname", Kind::kIgnored, kNoLog, "appendonlydir"},
    {"appendfsync", Kind::kIgnored, kNoLog, "everysec"},
    {"no-appendfsync-on-rewrite", Kind::kIgnored, kNoLog, "no"},
    {"auto-aof-rewrite-percentage", Kind::kIgnored, kNoLog, "100"},
    {"auto-aof-rewrite-min-size", Kind::kIgnored, kNoLog, "64mb"},
    {"aof-load-truncated", Kind::kIgnored, kNoLog, "yes"},
    {"aof-use-rdb-preamble", Kind::kIgnored, kNoLog, "yes"},
    {"aof-timestamp-enabled", Kind::kIgnored, kNoLog, "no"},
    {"aof-rewrite-incremental-fsync", Kind::kIgnored, kNoLog, "yes"},
    {"aof-disable-auto-gc", Kind::kIgnored, kNoLog, "no"},
    {"masterauth", Kind::kIgnored, kNoReplication},
    {"masteruser", Kind::kIgnored, kNoReplication},
    {"min-replicas-to-write", Kind::kRefused, kNoReplication, "0"},
    {"min-slaves-to-write", Kind::kRefused, kNoReplication, "0"},
    {"min-replicas-max-lag", Kind::kIgnored, kNoReplication, "10"},
    {"min-slaves-max-lag", Kind::kIgnored, kNoReplication, "10"},
    {"rdb-del-sync-files", Kind::kIgnored, kNoReplication, "no"},
    {"propagation-error-behavior", Kind::kIgnored, kNoReplication, "ignore"},

    {"rdbchecksum", Kind::kIgnored, "checksums are always written and checked", "yes"},
    {"rdb-save-incremental-fsync", Kind::kIgnored, "files are written and synced in steps", "yes"},
    {"sanitize-dump-payload", Kind::kIgnored, "payloads are always checked", "no"},
    {"list-compress-depth", Kind::kIgnored, "nodes of lists are not compressed", "0"},
    {"set-proc-title", Kind::kIgnored, kOs, "yes"},
    {"proc-title-template", Kind::kIgnored, kOs, "{title} {listen-addr} {server-mode}"},
    {"always-show-logo", Kind::kIgnored, "there is no logo", "no"},
    {"syslog-enabled", Kind::kIgnored, kSyslog, "no"},
    {"syslog-ident", Kind::kIgnored, kSyslog, "redis"},
    {"syslog-facility", Kind::kIgnored, kSyslog, "local0"},
    {"crash-log-enabled", Kind::kIgnored, "a crash is always told", "yes"},
    {"crash-memcheck-enabled", Kind::kIgnored, "a crash is always told", "yes"},
    {"disable-thp", Kind::kIgnored, "huge pages do no harm here, as nothing forks", "yes"},
    {"oom-score-adj", Kind::kIgnored, kOs, "no"},
    {"oom-score-adj-values", Kind::kIgnored, kOs, "0 200 800"},
    {"server_cpulist", Kind::kIgnored, kOs},
    {"bio_cpulist", Kind::kIgnored, kOs},
    {"aof_rewrite_cpulist", Kind::kIgnored, kOs},
    {"bgsave_cpulist", Kind::kIgnored, kOs},
    {"bind-source-addr", Kind::kIgnored, kNoReplication},
    {"socket-mark-id", Kind::kIgnored, kOs, "0"},
    {"io-threads", Kind::kIgnored, kThreads, "1"},
    {"io-threads-do-reads", Kind::kIgnored, kThreads, "no"},
    {"hz", Kind::kIgnored, kNoTicks, "10"},
    {"dynamic-hz", Kind::kIgnored, kNoTicks, "yes"},
    {"activerehashing", Kind::kIgnored, kNoFork, "yes"},
    {"active-expire-effort", Kind::kIgnored, "what is due goes at once", "1"},
    {"active-defrag-threshold-upper", Kind::kIgnored, kDefrag, "100"},
    {"active-defrag-cycle-min", Kind::kIgnored, kDefrag, "1"},
    {"active-defrag-max-scan-fields", Kind::kIgnored, kDefrag, "1000"},
    {"jemalloc-bg-thread", Kind::kIgnored, "memory is mimalloc's", "yes"},
    {"maxmemory-eviction-tenacity", Kind::kIgnored, "eviction takes what it needs, in slices",
     "10"},
    {"lazyfree-lazy-eviction", Kind::kIgnored, kLazy, "no"},
    {"lazyfree-lazy-expire", Kind::kIgnored, kLazy, "no"},
    {"lazyfree-lazy-server-del", Kind::kIgnored, kLazy, "no"},
    {"lazyfree-lazy-user-del", Kind::kIgnored, kLazy, "no"},
    {"lazyfree-lazy-user-flush", Kind::kIgnored, kLazy, "no"},
    {"replica-lazy-flush", Kind::kIgnored, kLazy, "no"},
    {"shutdown-timeout", Kind::kIgnored, kNoReplication, "10"},
    {"ignore-warnings", Kind::kIgnored, kOs},
    {"locale-collate", Kind::kIgnored, "texts are compared byte by byte"},
    {"supervised", Kind::kIgnored, "systemd is told whenever it asks to be", "no"},
};

// Directives that may be repeated; each line adds to what is there.
constexpr std::string_view kLists[] = {"save", "user", "rename_command",
                                       "client_output_buffer_limit"};
// Of those, whose lines go into one line of the flag.
constexpr std::string_view kOneLineLists[] = {"save", "client_output_buffer_limit"};

bool IsOneOf(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::flat_hash_map<std::string, std::string>& Origins() {
  static absl::flat_hash_map<std::string, std::string> origins;
  return origins;
}

bool HasGroupPrefix(std::string_view name) {
  return name.starts_with("repl-") || name.starts_with("replica-") || name.starts_with("slave-");
}

// Of a server that has no replicas, and is none.
constexpr Directive kReplicas = {"repl-*, replica-*", Kind::kIgnored, {}};
constexpr Directive kCluster = {"cluster-*", Kind::kIgnored, kNoCluster};

}  // namespace

std::span<const Directive> Directives() { return kDirectives; }

const Directive* FindDirective(std::string_view name) {
  const auto it = std::find_if(std::begin(kDirectives), std::end(kDirectives),
                               [name](const Directive& it) { return it.name == name; });
  if (it != std::end(kDirectives)) return &*it;
  if (HasGroupPrefix(name)) return &kReplicas;
  return name.starts_with("cluster-") && name != "cluster-mode" ? &kCluster : nullptr;
}

std::string FlagName(std::string_view name) {
  std::string flag = LowerCase(name);
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

bool IsServerFlag(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(name.c_str(), &info) &&
         info.filename.find("gflags") == std::string::npos;
}

std::string FlagOrigin(std::string_view flag) {
  const auto it = Origins().find(std::string(flag));
  return it == Origins().end() ? "" : fmt::format(" ({})", it->second);
}

std::string FlagSetter::Set(std::string_view name, std::span<const std::string> values,
                            std::string_view where, bool is_file) {
  const std::string flag = FlagName(name);
  if (IsServerFlag(flag)) return SetFlag(flag, name, values, where);
  std::string directive_name = LowerCase(name);
  const Directive* directive = FindDirective(directive_name);
  if (directive == nullptr) {
    std::replace(directive_name.begin(), directive_name.end(), '_', '-');
    directive = FindDirective(directive_name);
  }
  if (directive == nullptr) {
    if (!is_file) return fmt::format("there is no flag --{}; --help lists the usual ones", name);
    Warn(fmt::format("{}: '{}' is unknown, and ignored", where, name));
    return "";
  }
  const std::string value = fmt::format("{}", fmt::join(values, " "));
  if (!directive->harmless.empty() && LowerCase(value) == directive->harmless) return "";
  switch (directive->kind) {
    case Kind::kFlag:
      return SetFlag(std::string(directive->target), name, values, where);
    case Kind::kRefused:
      return fmt::format("'{}' cannot be ignored, and {}", name, directive->target);
    case Kind::kIgnored:
      if (directive->target.empty()) return "";
      Warn(fmt::format("{}: '{}' has no effect: {}", where, name, directive->target));
      return "";
  }
  return "";
}

std::string FlagSetter::SetFlag(const std::string& flag, std::string_view name,
                                std::span<const std::string> values, std::string_view where) {
  const auto info = gflags::GetCommandLineFlagInfoOrDie(flag.c_str());
  const bool is_text = info.type == "string";
  const bool may_be_empty = flag == "save";  // no points
  if (values.empty() && !may_be_empty) return fmt::format("'{}' needs a value", name);
  if (values.size() > 1 && !is_text) return fmt::format("'{}' takes one value", name);
  std::string value = fmt::format("{}", fmt::join(values, " "));
  if (IsOneOf(kLists, flag)) {
    const bool has_begun = std::find(begun_.begin(), begun_.end(), flag) != begun_.end();
    const char* const between = IsOneOf(kOneLineLists, flag) ? " " : "\n";
    if (!has_begun) {
      begun_.push_back(flag);
    } else if (!value.empty() && !info.current_value.empty()) {
      value = info.current_value + between + value;
    }
  }
  if (gflags::SetCommandLineOption(flag.c_str(), value.c_str()).empty()) {
    // Numbers of bytes may have units in a redis.conf.
    const auto bytes = info.type == "bool" ? std::nullopt : ParseMemory(value);
    const bool is_set =
        bytes &&
        !gflags::SetCommandLineOption(flag.c_str(), fmt::format("{}", *bytes).c_str()).empty();
    if (!is_set) {
      return fmt::format("'{}' is no value of '{}'{}", value, name,
                         info.type == "bool" ? ", which is yes or no" : "");
    }
  }
  Origins()[flag] = where;
  return "";
}

}  // namespace dfly
