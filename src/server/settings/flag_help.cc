// SPDX-License-Identifier: Apache-2.0
#include "server/settings/flag_help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/ascii.h"
#include "helio/base/logging.h"
#include "server/base/version.h"
#include "server/options/directives.h"
#include "server/options/setting_row.h"

namespace dfly {

namespace {

struct Topic {
  SettingTopic topic;
  std::string_view title;
};

constexpr Topic kTopics[] = {
    {SettingTopic::kNetwork, "Network"},
    {SettingTopic::kSecurity, "Security"},
    {SettingTopic::kMemcached, "memcached"},
    {SettingTopic::kTls, "TLS"},
    {SettingTopic::kThreads, "Threads"},
    {SettingTopic::kData, "Data"},
    {SettingTopic::kSnapshots, "Snapshots"},
    {SettingTopic::kLog, "Append-only log"},
    {SettingTopic::kReplication, "Replication"},
    {SettingTopic::kCluster, "Cluster"},
    {SettingTopic::kTags, "Tags of keys"},
    {SettingTopic::kScripts, "Scripts"},
    {SettingTopic::kLimits, "Limits"},
    {SettingTopic::kEvents, "Keyspace events, caching clients"},
    {SettingTopic::kSlowCommands, "Slow commands"},
    {SettingTopic::kConsole, "Console and metrics"},
    {SettingTopic::kProcess, "Process"},
};

// One flag as help has it.
struct Flag {
  std::string name;
  std::string_view who_may_set;  // "yes", "protected" or nothing
};
struct Section {
  std::string_view title;
  std::vector<Flag> flags;
};

std::string_view WhoMaySet(const SettingRow& row) {
  if (row.how == SettingHow::kProtected) return "protected";
  return row.is_live() ? "yes" : "";
}

std::vector<Section> Sections() {
  std::vector<Section> sections;
  for (const Topic& topic : kTopics) {
    Section& section = sections.emplace_back(Section{topic.title, {}});
    for (const SettingRow& row : RegisteredSettings()) {
      if (row.topic == topic.topic) section.flags.push_back({FlagOf(row), WhoMaySet(row)});
    }
  }
  Section& glog =
      sections.emplace_back(Section{"Logging of glog; in place of --logfile and --loglevel", {}});
  for (const char* name : {"logtostderr", "log_dir", "minloglevel", "v"}) {
    glog.flags.push_back({name, ""});
  }
  return sections;
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

// What --help shows, in this order; each has a brief text in its row.
struct Group {
  std::string_view title;
  std::string_view flags;
};
constexpr Group kEssentials[] = {
    {"Where it listens", "port bind unixsocket maxclients"},
    {"Who may do what", "requirepass aclfile"},
    {"Resources", "proactor_threads maxmemory maxmemory_policy cache_mode"},
    {"What is kept", "dir dbfilename save snapshot_cron appendonly appendfsync"},
    {"Queues (BullMQ, Sidekiq)",
     "lock_on_hashtags shard_round_robin_prefix default_lua_flags lua_auto_async"},
    {"Process", "logfile loglevel pidfile daemonize"},
};

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
std::string HarmlessOf(const SettingRow& row) {
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
  for (const Group& group : kEssentials) {
    out += fmt::format("\n  {}\n", group.title);
    for (std::string_view flag : helio::SplitWords(group.flags)) {
      const SettingRow* const row = FindSetting(flag);
      CHECK(row != nullptr && !row->brief.empty()) << flag;
      out += fmt::format("    --{:<26} {} [{}]\n", flag, row->brief, DefaultOf(flag));
    }
  }
  return out +
         "\nDirectives of redis.conf are flags, too. The environment's DFLY_<flag> sets flags "
         "that\n"
         "neither the file nor the command line does.  --helpfull: all flags.  --version\n";
}

std::string HelpText() {
  std::string out = fmt::format("dragonfly {}\n{}", kVersion, kUsage);
  for (const Section& section : Sections()) {
    out += fmt::format("\n  {}\n", section.title);
    for (const Flag& flag : section.flags) {
      out += fmt::format("    --{} (default: {})\n", flag.name, DefaultOf(flag.name));
      out += Wrapped(DescriptionOf(flag.name), 8);
    }
  }
  return out;
}

std::string ConfigurationPage() {
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
  for (const Section& section : Sections()) {
    out +=
        fmt::format("\n### {}\n\n| flag | default | `CONFIG SET` | |\n| --- | --- | --- | --- |\n",
                    section.title);
    for (const Flag& flag : section.flags) {
      out += fmt::format("| `--{}` | `{}` | {} | {} |\n", flag.name, DefaultOf(flag.name),
                         flag.who_may_set, Cell(DescriptionOf(flag.name)));
    }
  }
  out +=
      "\n## Directives of redis.conf\n\nA directive sets the flag of the same name (with `_` "
      "for `-`), if there is one. The others:\n\n| directive | here |\n| --- | --- |\n";
  for (const SettingRow& row : RegisteredSettings()) {
    if (!row.has_flag()) continue;
    for (std::string_view name : {row.name, row.old_name}) {
      if (name.empty() || FlagName(name) == FlagOf(row)) continue;
      out += fmt::format("| `{}` | sets `--{}` |\n", name, FlagOf(row));
    }
  }
  for (const RefusedDirective& directive : RefusedDirectives()) {
    const std::string unless =
        directive.harmless.empty() ? "" : fmt::format(" (unless it is `{}`)", directive.harmless);
    out += fmt::format("| `{}` | the server does not start: {}{} |\n", directive.name,
                       directive.why, unless);
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
  for (const SettingRow& row : RegisteredSettings()) {
    if (row.no_effect.empty()) continue;
    const std::string old = row.old_name.empty() ? "" : fmt::format(", `{}`", row.old_name);
    out += fmt::format("| `{}`{} | `{}` | {} | {}{} |\n", row.name, old,
                       row.initial.empty() ? "\"\"" : row.initial, WhoMaySet(row), row.no_effect,
                       HarmlessOf(row));
  }
  return out;
}

std::string HelpFor(std::span<const char* const> arguments) {
  for (const std::string_view word : arguments) {
    if (word == "--help" || word == "-h") return ShortHelpText();
    if (word == "--helpfull") return HelpText();
    if (word == "--helpmarkdown") return ConfigurationPage();
    if (word == "--version" || word == "-v") {
      return fmt::format("dragonfly v={} redis={} bits=64\n", kVersion, kRedisVersion);
    }
  }
  return "";
}

}  // namespace dfly
