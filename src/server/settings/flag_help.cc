// SPDX-License-Identifier: Apache-2.0
// What --help, --helpfull and docs/configuration.md say about the flags.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "helio/base/logging.h"
#include "server/base/version.h"
#include "server/clients/server_state.h"
#include "server/options/config.h"
#include "server/options/directives.h"
#include "server/options/flags.h"
#include "server/options/ignored_settings.h"
#include "server/run/server.h"

namespace dfly {

namespace {

struct Topic {
  std::string_view title;
  std::vector<std::string_view> flags;
};

const std::vector<Topic>& Topics() {
  static const std::vector<Topic> topics = {
      {"Network",
       {"port", "bind", "unixsocket", "unixsocketperm", "requirepass", "aclfile", "user",
        "acl_pubsub_default", "acllog_max_len", "maxclients", "timeout", "tcp_keepalive",
        "tcp_backlog"}},
      {"Security",
       {"protected_mode", "auth_timeout", "admin_port", "admin_bind", "admin_nopass",
        "no_tls_on_admin_port", "restricted_commands", "rename_command", "enable_protected_configs",
        "enable_debug_command", "enable_module_command"}},
      {"memcached", {"memcached_port", "memcached_max_value_bytes", "memcached_max_line_bytes"}},
      {"TLS",
       {"tls", "tls_port", "tls_cert_file", "tls_key_file", "tls_key_file_pass", "tls_ca_cert_file",
        "tls_ca_cert_dir", "tls_auth_clients", "tls_protocols", "tls_ciphers", "tls_ciphersuites",
        "tls_prefer_server_ciphers", "tls_dh_params_file", "tls_session_caching",
        "tls_session_cache_size", "tls_session_cache_timeout", "tls_handshake_timeout"}},
      {"Threads",
       {"proactor_threads", "num_shards", "force_epoll", "singlehop_blocking",
        "migrate_connections"}},
      {"Data",
       {"maxmemory",
        "maxmemory_policy",
        "maxmemory_samples",
        "lfu_log_factor",
        "lfu_decay_time",
        "cache_mode",
        "activedefrag",
        "active_defrag_ignore_bytes",
        "active_defrag_threshold_lower",
        "active_defrag_cycle_max",
        "dbnum",
        "list_max_listpack_size",
        "hash_max_listpack_entries",
        "hash_max_listpack_value",
        "set_max_intset_entries",
        "set_max_listpack_entries",
        "set_max_listpack_value",
        "stream_node_max_bytes",
        "stream_node_max_entries",
        "zset_max_listpack_entries",
        "zset_max_listpack_value",
        "hll_sparse_max_bytes"}},
      {"Snapshots",
       {"dir", "dbfilename", "save", "snapshot_cron", "compression_mode", "compression_level",
        "rdbcompression", "stop_writes_on_bgsave_error", "snapshot_buffer_limit"}},
      {"Cluster", {"cluster_mode", "cluster_announce_ip", "cluster_announce_port"}},
      {"Tags of keys",
       {"lock_on_hashtags", "locktag_prefix", "locktag_delimiter", "locktag_skip_n_end_delimiters",
        "shard_round_robin_prefix", "shard_round_robin_max"}},
      {"Scripts",
       {"undeclared_keys", "default_lua_flags", "lua_auto_async", "singlehop_scripts",
        "singlehop_commands", "interpreters_per_thread", "lua_memory_max", "busy_reply_threshold"}},
      {"Limits",
       {"max_bulk_len", "max_multi_bulk_len", "max_inline_len", "http_head_max", "http_body_max",
        "http_reply_max", "http_timeout_ms", "pipeline_commands_max", "pipeline_reply_bytes_max",
        "pipeline_input_bytes_max", "client_output_buffer_limit", "client_query_buffer_limit",
        "maxmemory_clients", "blocked_clients_max"}},
      {"Keyspace events, caching clients", {"notify_keyspace_events", "tracking_table_max_keys"}},
      {"Slow commands",
       {"slowlog_log_slower_than", "slowlog_max_len", "lock_warning_ms",
        "latency_monitor_threshold", "latency_tracking", "latency_tracking_info_percentiles"}},
      {"Console and metrics", {"web_console", "metrics_nopass"}},
      {"Process",
       {"daemonize", "pidfile", "logfile", "loglevel", "shutdown_on_sigint", "shutdown_on_sigterm",
        "shutdown_timeout", "healthcheck"}},
      {"Logging of glog; in place of --logfile and --loglevel",
       {"logtostderr", "log_dir", "minloglevel", "v"}},
  };
  return topics;
}

// `text` in lines of at most kWidth columns, each after `indent` blanks.
std::string Wrapped(std::string_view text, size_t indent) {
  constexpr size_t kWidth = 96;
  std::string out;
  std::istringstream words{std::string(text)};
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return out + std::string(indent, ' ') + line + "\n";
}

}  // namespace

namespace {

struct Essential {
  std::string_view flag;
  std::string_view text;
};
struct Group {
  std::string_view title;
  std::vector<Essential> flags;
};

const std::vector<Group>& Essentials() {
  static const std::vector<Group> groups = {
      {"Where it listens",
       {{"port", "TCP port; 0: none"},
        {"bind", "addresses, or * for all"},
        {"unixsocket", "path of a unix socket"},
        {"maxclients", "connections at most"}}},
      {"Who may do what",
       {{"requirepass", "password of the default user"}, {"aclfile", "file of users"}}},
      {"Resources",
       {{"proactor_threads", "threads; 0: one for each core"},
        {"maxmemory", "bytes at most (2gb); empty: 80 % of the machine"},
        {"maxmemory_policy", "what goes when memory is full"},
        {"cache_mode", "be a cache: evict what is used the least"}}},
      {"What is kept",
       {{"dir", "folder of snapshots"},
        {"dbfilename", "their name; name.rdb: for redis-server, too"},
        {"save", "when one is made: seconds changes ..."},
        {"snapshot_cron", "or when, as in cron(5)"}}},
      {"Queues (BullMQ, Sidekiq)",
       {{"lock_on_hashtags", "lock {tags}, not keys"},
        {"shard_round_robin_prefix", "place tags that begin so one shard after another"},
        {"default_lua_flags", "flags of all scripts"},
        {"lua_auto_async", "send calls of scripts together"}}},
      {"Process",
       {{"logfile", "file of the log; empty: stderr"},
        {"loglevel", "debug, verbose, notice, warning or nothing"},
        {"pidfile", "file of the process id"},
        {"daemonize", "go on in the background"}}},
  };
  return groups;
}

std::string DefaultOf(std::string_view name) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(std::string(name).c_str(), &info)) return "";
  return info.type == "string" ? '"' + info.default_value + '"' : info.default_value;
}

std::string DescriptionOf(std::string_view name) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(std::string(name).c_str(), &info)) return "";
  return info.description;
}

constexpr std::string_view kUsage =
    "Usage: dragonfly [redis.conf | -] [--name=value | --name value ...]\n";

// For a cell of a table.
std::string Cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|' || c == '*' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

// "; it must be `a` or `b`", if other values are refused.
std::string HarmlessOf(const IgnoredSetting& row) {
  if (row.harmless.empty()) return "";
  std::vector<std::string> values;
  std::string_view rest = row.harmless;
  while (true) {
    const size_t size = std::min(rest.find('|'), rest.size());
    std::string value = size == 0 ? "`\"\"`" : fmt::format("`{}`", rest.substr(0, size));
    if (values.empty() || values.back() != value) values.push_back(std::move(value));
    if (size == rest.size()) break;
    rest.remove_prefix(size + 1);
  }
  return fmt::format("; it must be {}", fmt::join(values, " or "));
}

}  // namespace

std::string ShortHelpText() {
  std::string out = fmt::format(
      "dragonfly {}: a multi-threaded in-memory store that speaks the Redis protocol.\n", kVersion);
  out += kUsage;
  for (const Group& group : Essentials()) {
    out += fmt::format("\n  {}\n", group.title);
    for (const Essential& flag : group.flags) {
      out += fmt::format("    --{:<26} {} [{}]\n", flag.flag, flag.text, DefaultOf(flag.flag));
    }
  }
  return out +
         "\nDirectives of redis.conf are flags, too. The environment's DFLY_<flag> sets flags "
         "that\n"
         "neither the file nor the command line does.  --helpfull: all flags.  --version\n";
}

std::string HelpText() {
  std::string out = fmt::format("dragonfly {}\n{}", kVersion, kUsage);
  for (const Topic& topic : Topics()) {
    out += fmt::format("\n  {}\n", topic.title);
    for (std::string_view name : topic.flags) {
      out += fmt::format("    --{} (default: {})\n", name, DefaultOf(name));
      out += Wrapped(DescriptionOf(name), 8);
    }
  }
  return out;
}

std::string ConfigurationPage() {
  Server server{ServerOptions{}, ServerParts{}};  // for its settings: it never starts
  std::string out =
      "# Configuration\n\n"
      "This page is made by `dragonfly --helpmarkdown`; a test checks that it is current.\n\n"
      "Settings come from, and each of these overrules those before it:\n\n"
      "1. the defaults\n"
      "2. the environment: `DFLY_port=7000`, or `DFLY_PORT=7000`\n"
      "3. a configuration file in the format of redis.conf, named as the first argument "
      "(`dragonfly /etc/redis/redis.conf`; `-` reads stdin), with what it includes\n"
      "4. the command line: `--port=7000` or `--port 7000`, `--save 60 1000 --save 300 10`, and "
      "`--flagfile=path`, a file of flags\n\n"
      "Names may be written with `-` or `_`. `CONFIG SET` changes what can be changed while the "
      "server runs (`protected`: see `--enable_protected_configs`), and `CONFIG REWRITE` writes it "
      "to the configuration file.\n"
      "A wrong value keeps the server from starting; the error names the file and the line. "
      "What a file has and this server does not know is named in one warning each.\n\n"
      "## Flags\n";
  for (const Topic& topic : Topics()) {
    out +=
        fmt::format("\n### {}\n\n| flag | default | `CONFIG SET` | |\n| --- | --- | --- | --- |\n",
                    topic.title);
    for (std::string_view name : topic.flags) {
      out += fmt::format("| `--{}` | `{}` | {} | {} |\n", name, DefaultOf(name),
                         server.config().WhoMaySet(name), Cell(DescriptionOf(name)));
    }
  }
  out +=
      "\n## Directives of redis.conf\n\nA directive sets the flag of the same name (with `_` "
      "for `-`), if there is one. The others:\n\n| directive | here |\n| --- | --- |\n";
  for (const Directive& directive : Directives()) {
    if (directive.kind == Directive::Kind::kFlag) {
      out += fmt::format("| `{}` | sets `--{}` |\n", directive.name, directive.target);
      continue;
    }
    const std::string unless =
        directive.harmless.empty() ? "" : fmt::format(" (unless it is `{}`)", directive.harmless);
    out += fmt::format("| `{}` | the server does not start: {}{} |\n", directive.name,
                       directive.target, unless);
  }
  out +=
      "| `include` | reads another file there; patterns such as `*.conf` may match none |\n"
      "\n## Settings of Redis that have no effect\n\n"
      "Files, the command line and `CONFIG SET` (those with a yes) take them with the values that "
      "redis-server takes. `CONFIG GET` and `CONFIG REWRITE` have them, and the log tells of those "
      "that a file changes. "
      "A value that would promise what is not there is an error: the server does not start with "
      "it.\n\n"
      "| setting | default | `CONFIG SET` | no effect, as |\n| --- | --- | --- | --- |\n";
  for (const IgnoredSetting& row : IgnoredSettings()) {
    const std::string old = row.old_name.empty() ? "" : fmt::format(", `{}`", row.old_name);
    out +=
        fmt::format("| `{}`{} | `{}` | {} | {}{} |\n", row.name, old,
                    row.initial.empty() ? "\"\"" : row.initial,
                    row.how == IgnoredSetting::How::kLive ? "yes" : "", row.why, HarmlessOf(row));
  }
  return out;
}

std::vector<std::string> FlagsInHelp() {
  std::vector<std::string> names;
  for (const Topic& topic : Topics())
    names.insert(names.end(), topic.flags.begin(), topic.flags.end());
  return names;
}

}  // namespace dfly
