// SPDX-License-Identifier: Apache-2.0
#include "server/options/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <limits>
#include <memory>

#include "core/text/glob.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/io/blocking_pool.h"
#include "server/acl/acl_store.h"
#include "server/base/file_text.h"
#include "server/base/process.h"
#include "server/base/units.h"
#include "server/base/words.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/users.h"
#include "server/options/config_rewrite.h"
#include "server/options/directives.h"
#include "server/options/ignored_settings.h"
#include "server/persistence/persistence.h"
#include "server/run/server.h"

namespace dfly {

namespace {

std::string SetError(std::string_view name, std::string_view why) {
  return fmt::format("ERR CONFIG SET failed (possibly related to argument '{}') - {}", name, why);
}

// The flag that gives it at the start, if there is one.
std::string FlagOf(const Setting& setting) {
  const Directive* const directive = FindDirective(setting.name);
  return directive != nullptr && directive->kind == Directive::Kind::kFlag
             ? std::string(directive->target)
             : FlagName(setting.name);
}

// As Redis tells a setting in an error: by that of its names that was given.
std::string_view ToldName(const Setting& setting, std::string_view given) {
  const bool is_old = !setting.old_name.empty() && FlagName(given) == FlagName(setting.old_name);
  return is_old ? setting.old_name : setting.name;
}

}  // namespace

std::string CanonicalValue(const Setting& setting, std::string_view text, std::string* error) {
  error->clear();
  switch (setting.kind) {
    case Setting::Kind::kBool:
      if (IsWord(text, "yes") || IsWord(text, "no")) return LowerCase(text);
      *error = "argument must be 'yes' or 'no'";
      return "";
    case Setting::Kind::kInteger: {
      const auto number = ParseInt64(text);
      if (!number) {
        *error = "argument couldn't be parsed into an integer";
      } else if (*number < setting.min || *number > setting.max) {
        *error =
            fmt::format("argument must be between {} and {} inclusive", setting.min, setting.max);
      }
      return std::string(text);
    }
    case Setting::Kind::kMemory: {
      // Redis reads no digits as 0.
      const bool has_number = !text.empty() && text[0] >= '0' && text[0] <= '9';
      auto bytes = ParseMemory(has_number ? text : fmt::format("0{}", text));
      const bool is_number =
          text.find_first_not_of("0123456789") == std::string_view::npos && !text.empty();
      // It is too large for 64 bits, and so for each maximum.
      if (!bytes && is_number && setting.max != 0) bytes = UINT64_MAX;
      if (!bytes) *error = "argument must be a memory value";
      const auto min = static_cast<uint64_t>(setting.min);
      const auto max = static_cast<uint64_t>(setting.max);
      if (bytes && max != 0 && (*bytes < min || *bytes > max)) {
        *error = fmt::format("argument must be between {} and {} inclusive", min, max);
      }
      return fmt::format("{}", bytes.value_or(0));
    }
    case Setting::Kind::kText:
      return setting.canonical == nullptr ? std::string(text) : setting.canonical(text, error);
    case Setting::Kind::kChoice: {
      std::string choice = LowerCase(text);
      const auto& choices = setting.choices;
      if (std::find(choices.begin(), choices.end(), choice) == choices.end()) {
        *error =
            fmt::format("argument(s) must be one of the following: {}", fmt::join(choices, ", "));
      }
      return choice;
    }
  }
  return "";
}

void Config::Add(Setting setting) {
  CHECK(Find(setting.name) == nullptr) << setting.name;
  settings_.push_back(std::move(setting));
}

Setting* Config::Find(std::string_view name) {
  // With - or _, as anybody likes.
  const std::string flag_name = FlagName(name);
  const auto it = std::find_if(settings_.begin(), settings_.end(), [&](const Setting& setting) {
    return flag_name == FlagName(setting.name) ||
           (!setting.old_name.empty() && flag_name == FlagName(setting.old_name));
  });
  return it == settings_.end() ? nullptr : &*it;
}

std::vector<std::pair<std::string, std::string>> Config::Get(
    std::span<const std::string_view> patterns) {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::string>> found;
  const auto add = [&found](std::string_view name, const std::string& value) {
    const bool is_new = std::none_of(found.begin(), found.end(), [name](const auto& pair) {
      return IsWord(name, LowerCase(pair.first));
    });
    if (is_new) found.emplace_back(name, value);
  };
  for (std::string_view pattern : patterns) {
    if (pattern.find_first_of("[*?") == std::string_view::npos) {
      // A name comes back as it was written.
      if (const Setting* setting = Find(pattern)) add(pattern, setting->value);
      continue;
    }
    for (const Setting& setting : settings_) {
      for (std::string_view name : {setting.name, setting.old_name}) {
        if (!name.empty() && GlobMatch(pattern, name, GlobCase::kIgnore)) add(name, setting.value);
      }
    }
  }
  return found;
}

std::string Config::Set(std::span<const std::string_view> pairs, bool may_set_protected) {
  DCHECK_EQ(pairs.size() % 2, 0u);
  std::lock_guard lock(mutex_);
  struct Change {
    Setting* setting;
    std::string_view name;
    std::string value;
  };
  // Unknown names are told before anything else, as Redis does.
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (Find(pairs[i]) == nullptr) {
      return fmt::format("ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                         Printed(pairs[i]));
    }
  }
  std::vector<Change> changes;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    Setting* setting = Find(pairs[i]);
    if (!setting->is_mutable) return SetError(pairs[i], "can't set immutable config");
    if (setting->is_protected && !may_set_protected) {
      return SetError(pairs[i], "can't set protected config");
    }
    if (std::any_of(changes.begin(), changes.end(),
                    [setting](const Change& change) { return change.setting == setting; })) {
      return SetError(pairs[i], "duplicate parameter");
    }
    std::string error;
    std::string value = CanonicalValue(*setting, pairs[i + 1], &error);
    const std::string_view name = ToldName(*setting, pairs[i]);
    if (!error.empty()) return SetError(name, error);
    changes.push_back({setting, name, std::move(value)});
  }
  const auto undo = [&changes](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const Setting& undone = *changes[i].setting;
      if (undone.apply != nullptr) undone.apply(undone.value);
    }
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    const Setting& setting = *changes[i].setting;
    if (setting.apply == nullptr) continue;
    const std::string error = setting.apply(changes[i].value);
    if (error.empty()) continue;
    undo(i);
    return SetError(changes[i].name, error);
  }
  std::vector<std::shared_ptr<const std::function<std::string()>>> committed;
  for (const Change& change : changes) {
    const auto& commit = change.setting->commit;
    if (commit == nullptr ||
        std::find(committed.begin(), committed.end(), commit) != committed.end()) {
      continue;
    }
    const std::string error = (*commit)();
    if (error.empty()) {
      committed.push_back(commit);
      continue;
    }
    undo(changes.size());
    for (const auto& other : committed) {
      const std::string lost = (*other)();
      LOG_IF(ERROR, !lost.empty())
          << "CONFIG SET could not be taken back: " << helio::LogText(lost);
    }
    return SetError(change.name, error);
  }
  for (Change& change : changes) {
    change.setting->value = std::move(change.value);
    change.setting->was_set = true;
  }
  return "";
}

void Config::NoteFlags() {
  for (Setting& setting : settings_) {
    gflags::CommandLineFlagInfo info;
    const std::string flag = FlagOf(setting);
    if (IsServerFlag(flag) && gflags::GetCommandLineFlagInfo(flag.c_str(), &info)) {
      setting.was_set = !info.is_default;
    }
  }
}

std::string_view Config::WhoMaySet(std::string_view flag) const {
  const auto it = std::find_if(settings_.begin(), settings_.end(),
                               [flag](const Setting& each) { return FlagOf(each) == flag; });
  if (it == settings_.end() || !it->is_mutable) return "";
  return it->is_protected ? "protected" : "yes";
}

std::string Config::Rewrite(const std::string& path, const AclStore& acl) {
  if (path.empty()) return "ERR The server is running without a config file";
  std::lock_guard lock(mutex_);
  std::vector<RewrittenSetting> settings;
  for (const Setting& setting : settings_) {
    settings.push_back(
        {setting.name, setting.old_name, setting.value, setting.has_words, setting.was_set});
  }
  std::vector<std::string> users;
  for (const AclUserRef& user : acl.All()) {
    // requirepass says it all, if nothing else was said.
    const bool is_as_new = user->name() == AclStore::kDefaultName && user->may_do_everything() &&
                           user->is_on() && user->password_hashes().size() <= 1;
    if (!is_as_new) users.push_back(user->Describe());
  }
  std::string error;
  const bool has_run = helio::RunBlocking([&] {
    std::string text;
    error = ReadTextFile(path, &text);
    if (!error.empty()) return;
    error = ReplaceTextFile(
        path, RewriteConfigText(text, settings, acl.file().empty() ? &users : nullptr));
  });
  if (!has_run) error = "too many files are being written";
  if (error.empty()) return "";
  LOG(WARNING) << "CONFIG REWRITE failed: " << helio::LogText(path) << ": " << error;
  return fmt::format("ERR Rewriting config file: {}", error);
}

// --- The table ---

namespace {

using Kind = Setting::Kind;

std::string YesNo(bool value) { return value ? "yes" : "no"; }

std::string CurrentFolder() {
  char path[PATH_MAX];
  return getcwd(path, sizeof(path)) == nullptr ? "" : path;
}

std::string AbsolutePath(const std::string& path) {
  char absolute[PATH_MAX];
  return realpath(path.c_str(), absolute) == nullptr ? path : absolute;
}

template <typename Number>
Number ParsedNumber(const std::string& canonical) {
  return static_cast<Number>(ParseInt64(canonical).value_or(0));
}

struct SettingNames {
  std::string_view name;
  std::string_view old_name;
};

// Two settings that are one limit. Larger numbers than that holds are its largest.
void AddPackedLimit(Config* config, const PackedLimit& initial, const SettingNames& entries,
                    const SettingNames& element_bytes,
                    std::function<void(const PackedLimit&)> apply) {
  const auto limit = std::make_shared<PackedLimit>(initial);  // as CONFIG SET left it
  const auto add = [&](const SettingNames& names, Kind kind, uint32_t PackedLimit::*part) {
    config->Add({.name = names.name,
                 .kind = kind,
                 .value = fmt::format("{}", initial.*part),
                 .is_mutable = true,
                 .min = 0,
                 .max = std::numeric_limits<int64_t>::max(),
                 .apply =
                     [limit, part, apply](const std::string& value) {
                       (*limit).*part = static_cast<uint32_t>(
                           std::min<uint64_t>(ParsedNumber<uint64_t>(value), UINT32_MAX));
                       apply(*limit);
                       return std::string();
                     },
                 .old_name = names.old_name});
  };
  add(entries, Kind::kInteger, &PackedLimit::entries);
  add(element_bytes, Kind::kMemory, &PackedLimit::element_bytes);
}

void AddEvictionSettings(Server* server, Config* config) {
  const ServerOptions& options = server->state().options;
  Setting policy{.name = "maxmemory-policy",
                 .kind = Setting::Kind::kChoice,
                 .value = std::string(PolicyName(options.eviction.policy)),
                 .is_mutable = true,
                 .apply =
                     [server](const std::string& value) {
                       server->ChangeEvictionRules(
                           [&value](EvictionRules& rules) { rules.policy = *PolicyOfName(value); });
                       return std::string();
                     },
                 .choices = {"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
                             "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"}};
  if (options.cache_mode) {
    // It has a policy of its own, that this is the closest name for.
    policy.choices = {"allkeys-lfu"};
    policy.apply = nullptr;
  }
  config->Add(std::move(policy));
  config->Add(
      {.name = "cache_mode", .kind = Setting::Kind::kBool, .value = YesNo(options.cache_mode)});
  const auto number = [&](std::string_view name, int64_t min, uint32_t EvictionRules::*part) {
    config->Add({.name = name,
                 .kind = Setting::Kind::kInteger,
                 .value = fmt::format("{}", options.eviction.*part),
                 .is_mutable = true,
                 .min = min,
                 .max = INT_MAX,
                 .apply = [server, part](const std::string& value) {
                   server->ChangeEvictionRules(
                       [&](EvictionRules& rules) { rules.*part = ParsedNumber<uint32_t>(value); });
                   return std::string();
                 }});
  };
  number("maxmemory-samples", 1, &EvictionRules::samples);
  number("lfu-log-factor", 0, &EvictionRules::lfu_log_factor);
  number("lfu-decay-time", 0, &EvictionRules::lfu_decay_minutes);
}

void AddDefragSettings(Server* server, Config* config) {
  const ServerOptions& options = server->state().options;
  Settings& settings = server->state().settings;
  config->Add({.name = "activedefrag",
               .kind = Setting::Kind::kBool,
               .value = YesNo(options.active_defrag),
               .is_mutable = true,
               .apply = [&settings](const std::string& value) {
                 settings.active_defrag = value == "yes";
                 return std::string();
               }});
  config->Add({.name = "active-defrag-ignore-bytes",
               .kind = Setting::Kind::kMemory,
               .value = fmt::format("{}", options.defrag_ignore_bytes),
               .is_mutable = true,
               .min = 1,
               .max = INT64_MAX,
               .apply = [&settings](const std::string& value) {
                 settings.defrag_ignore_bytes = ParsedNumber<uint64_t>(value);
                 return std::string();
               }});
  config->Add({.name = "active-defrag-threshold-lower",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", options.defrag_threshold_percent),
               .is_mutable = true,
               .min = 0,
               .max = 1000,
               .apply = [&settings](const std::string& value) {
                 settings.defrag_threshold_percent = ParsedNumber<uint32_t>(value);
                 return std::string();
               }});
  config->Add({.name = "active-defrag-cycle-max",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", options.defrag_cycle_percent),
               .is_mutable = true,
               .min = 1,
               .max = 99,
               .apply = [&settings](const std::string& value) {
                 settings.defrag_cycle_percent = ParsedNumber<uint32_t>(value);
                 return std::string();
               }});
}

}  // namespace

void AddSettings(Server* server, Config* config) {
  const ServerOptions& options = server->state().options;
  const auto shown = [config](std::string_view name, auto value) {
    config->Add({.name = name, .value = fmt::format("{}", value)});
  };

  // What can be changed.
  config->Add({.name = "proto-max-bulk-len",
               .kind = Kind::kMemory,
               .value = fmt::format("{}", options.limits.parser.max_bulk_len),
               .is_mutable = true,
               .min = kMaxBulkLenMin,
               .max = UINT32_MAX,
               .apply = [server](const std::string& value) {
                 server->SetMaxBulkLen(ParsedNumber<size_t>(value));
                 return std::string();
               }});
  config->Add({.name = "maxmemory",
               .kind = Kind::kMemory,
               .value = fmt::format("{}", options.maxmemory),
               .is_mutable = true,
               .apply = [server](const std::string& value) {
                 server->state().settings.maxmemory = ParsedNumber<uint64_t>(value);
                 server->state().memory.NoteCrossing();
                 server->EvictToLimit();
                 // The limit of clients may be a part of this one.
                 AwaitOnAllSessions<ClientLimiter>(
                     server->state(), [](ClientLimiter& limiter) { limiter.OnMemoryLimit(); });
                 EvictClients(server->state());
                 return std::string();
               }});
  AddEvictionSettings(server, config);
  AddDefragSettings(server, config);
  AddPortSettings(server, config);
  AddTimingSettings(server, config);
  AddEventSettings(server, config);
  AddClientLimitSettings(server, config);
  config->Add({.name = "maxclients",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.maxclients),
               .is_mutable = true,
               .min = 1,
               .max = std::numeric_limits<uint32_t>::max(),
               .apply = [server](const std::string& value) -> std::string {
                 const auto clients = ParsedNumber<uint64_t>(value);
                 const uint64_t possible = server->state().options.clients_possible;
                 if (clients > possible) {
                   return fmt::format(
                       "The operating system is not able to handle the specified number of "
                       "clients, try with {}",
                       possible);
                 }
                 server->state().settings.maxclients = static_cast<uint32_t>(clients);
                 return "";
               }});
  config->Add({.name = "timeout",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.idle_timeout_s),
               .is_mutable = true,
               .min = 0,
               .max = INT_MAX,
               .apply = [server](const std::string& value) {
                 const auto seconds = ParsedNumber<uint64_t>(value);
                 AwaitOnAll<Users>(server->state(),
                                   [seconds](Users& users) { users.SetIdleTimeout(seconds); });
                 return std::string();
               }});
  config->Add({.name = "tcp-keepalive",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.tcp_keepalive_s),
               .is_mutable = true,
               .min = 0,
               .max = INT_MAX,
               .apply = [server](const std::string& value) {
                 server->state().settings.tcp_keepalive_s = ParsedNumber<uint32_t>(value);
                 return std::string();
               }});
  config->Add({.name = "busy-reply-threshold",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.busy_reply_threshold_ms),
               .is_mutable = true,
               .min = 0,
               .max = INT64_MAX,
               .apply =
                   [server](const std::string& value) {
                     server->state().settings.busy_reply_threshold_ms =
                         ParsedNumber<uint64_t>(value);
                     return std::string();
                   },
               .old_name = "lua-time-limit"});
  config->Add({.name = "snapshot_buffer_limit",
               .kind = Kind::kMemory,
               .value = fmt::format("{}", options.snapshot_buffer_limit),
               .is_mutable = true,
               .apply = [server](const std::string& value) {
                 server->state().settings.snapshot_buffer_limit = ParsedNumber<uint64_t>(value);
                 return std::string();
               }});
  config->Add({.name = "protected-mode",
               .kind = Kind::kBool,
               .value = YesNo(options.protected_mode),
               .is_mutable = true,
               .apply = [server](const std::string& value) {
                 server->state().settings.protected_mode = value == "yes";
                 return std::string();
               }});
  config->Add({.name = "auth_timeout",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.auth_timeout_s),
               .is_mutable = true,
               .min = 0,
               .max = INT_MAX,
               .apply = [server](const std::string& value) {
                 server->state().settings.auth_timeout_s = ParsedNumber<uint64_t>(value);
                 AwaitOnAll<Users>(server->state(),
                                   [](Users& users) { users.OnAuthTimeoutChanged(); });
                 return std::string();
               }});
  config->Add({.name = "requirepass",
               .kind = Kind::kText,
               .value = options.acl.password,
               .is_mutable = true,
               .apply = [server](const std::string& value) {
                 server->state().acl->SetDefaultPassword(value);
                 Users::TellChanged(server->state());
                 return std::string();
               }});

  config->Add({.name = "acllog-max-len",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.acl.log_max),
               .is_mutable = true,
               .min = 0,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 server->state().acl->log().SetMax(ParsedNumber<size_t>(value));
                 return std::string();
               }});
  config->Add({.name = "acl-pubsub-default",
               .kind = Kind::kChoice,
               .value = options.acl.all_channels ? "allchannels" : "resetchannels",
               .is_mutable = true,
               .apply =
                   [server](const std::string& value) {
                     server->state().acl->SetPubSubDefault(value == "allchannels");
                     return std::string();
                   },
               .choices = {"allchannels", "resetchannels"}});
  shown("aclfile", options.acl.file);
  config->Add({.name = "list-max-listpack-size",
               .kind = Kind::kInteger,
               .value = fmt::format("{}", options.list_max_listpack_size),
               .is_mutable = true,
               .min = INT_MIN,
               .max = INT_MAX,
               .apply =
                   [server](const std::string& value) {
                     server->SetListLimit(ParsedNumber<int64_t>(value));
                     return std::string();
                   },
               .old_name = "list-max-ziplist-size"});

  AddPackedLimit(config, options.hash_limit,
                 {"hash-max-listpack-entries", "hash-max-ziplist-entries"},
                 {"hash-max-listpack-value", "hash-max-ziplist-value"},
                 [server](const PackedLimit& limit) { server->SetHashLimit(limit); });
  AddPackedLimit(config, options.zset_limit,
                 {"zset-max-listpack-entries", "zset-max-ziplist-entries"},
                 {"zset-max-listpack-value", "zset-max-ziplist-value"},
                 [server](const PackedLimit& limit) { server->SetZsetLimit(limit); });
  const auto set_limit = [config, server](std::string_view name, uint32_t value,
                                          void (*change)(SetLimit & limit, uint32_t value)) {
    config->Add({.name = name,
                 .kind = Kind::kInteger,
                 .value = fmt::format("{}", value),
                 .is_mutable = true,
                 .min = 0,
                 .max = INT64_MAX,
                 .apply = [server, change](const std::string& text) {
                   // A collection's members are counted in 32 bits.
                   const uint64_t number =
                       std::min<uint64_t>(ParsedNumber<uint64_t>(text), 1 << 30);
                   server->ChangeSetLimit([change, number](SetLimit& limit) {
                     change(limit, static_cast<uint32_t>(number));
                   });
                   return std::string();
                 }});
  };
  set_limit("set-max-intset-entries", options.set_limit.integers,
            [](SetLimit& limit, uint32_t value) { limit.integers = value; });
  set_limit("set-max-listpack-entries", options.set_limit.packed.entries,
            [](SetLimit& limit, uint32_t value) { limit.packed.entries = value; });
  set_limit("set-max-listpack-value", options.set_limit.packed.element_bytes,
            [](SetLimit& limit, uint32_t value) { limit.packed.element_bytes = value; });

  const auto stream_limit = [config, server](std::string_view name, Kind kind, uint64_t value,
                                             uint64_t StreamLimit::*part) {
    config->Add({.name = name,
                 .kind = kind,
                 .value = fmt::format("{}", value),
                 .is_mutable = true,
                 .min = 0,
                 .max = INT64_MAX,
                 .apply = [server, part](const std::string& text) {
                   const auto number = ParsedNumber<uint64_t>(text);
                   server->ChangeStreamLimit(
                       [part, number](StreamLimit& limit) { limit.*part = number; });
                   return std::string();
                 }});
  };
  stream_limit("stream-node-max-bytes", Kind::kMemory, options.stream_limit.node_bytes,
               &StreamLimit::node_bytes);
  stream_limit("stream-node-max-entries", Kind::kInteger, options.stream_limit.node_entries,
               &StreamLimit::node_entries);
  config->Add({.name = "hll-sparse-max-bytes",
               .kind = Kind::kMemory,
               .value = fmt::format("{}", options.hll_sparse_max_bytes),
               .is_mutable = true,
               .max = INT64_MAX,
               .apply = [server](const std::string& value) {
                 server->SetHllSparseMaxBytes(ParsedNumber<size_t>(value));
                 return std::string();
               }});

  // On the thread that snapshots belong to.
  const auto persistent = [config, server](std::string_view name, Kind kind, std::string value,
                                           std::string (Persistence::*set)(const std::string&)) {
    config->Add({.name = name,
                 .kind = kind,
                 .value = std::move(value),
                 .is_mutable = true,
                 // Who chooses where a file goes could have it written over any other.
                 .is_protected = name == "dir" || name == "dbfilename",
                 .apply =
                     [server, set](const std::string& text) {
                       return server->state().pool.at(0)->Await(
                           [&] { return (server->persistence().*set)(text); });
                     },
                 .has_words = name == "save"});
  };
  const PersistenceOptions& persistence = options.persistence;
  persistent("dir", Kind::kText,
             persistence.directory.empty() ? CurrentFolder() : AbsolutePath(persistence.directory),
             &Persistence::SetDirectory);
  persistent("dbfilename", Kind::kText, persistence.dbfilename, &Persistence::SetDbFileName);
  persistent("save", Kind::kText, FormatSaveRules(persistence.rules), &Persistence::SetRules);
  persistent("snapshot_cron", Kind::kText, persistence.cron, &Persistence::SetCron);
  persistent("rdbcompression", Kind::kBool, YesNo(persistence.compresses_strings),
             &Persistence::SetCompressesStrings);
  persistent("stop-writes-on-bgsave-error", Kind::kBool, YesNo(persistence.stops_writes_on_error),
             &Persistence::SetStopsWrites);

  // What is fixed at the start.
  shown("cluster-enabled", YesNo(options.emulates_cluster));
  shown("cluster_mode", options.emulates_cluster ? "emulated" : "");
  shown("cluster-announce-ip", options.cluster_announce_ip);
  shown("cluster-announce-port", options.cluster_announce_port);
  shown("daemonize", options.is_daemon ? "yes" : "no");
  shown("unixsocket", options.unix_socket);
  shown("unixsocketperm", fmt::format("{:o}", options.unix_socket_mode));
  shown("tcp-backlog", options.backlog);
  shown("admin_port", options.admin_port);
  shown("admin_bind", fmt::format("{}", fmt::join(options.admin_binds, " ")));
  shown("admin_nopass", YesNo(options.admin_nopass));
  shown("no_tls_on_admin_port", YesNo(options.no_tls_on_admin_port));
  shown("restricted_commands", fmt::format("{}", fmt::join(options.restricted_commands, ",")));
  shown("memcached_port", options.memcached_port);
  shown("memcached_max_value_bytes", options.limits.memcached.value_bytes_max);
  shown("memcached_max_line_bytes", options.limits.memcached.line_bytes_max);
  shown("databases", options.db_count);
  shown("pidfile", options.pid_file);
  shown("logfile", options.log_file);
  const auto stop_rule = [config](std::string_view name, std::atomic<StopRule>* rule) {
    config->Add({.name = name,
                 .value = ToText(*rule),
                 .is_mutable = true,
                 .apply =
                     [rule](const std::string& value) {
                       StopRule parsed;
                       std::string error = ParseStopRule(value, &parsed);
                       if (error.empty()) *rule = parsed;
                       return error;
                     },
                 .canonical =
                     [](std::string_view text, std::string* error) {
                       StopRule parsed;
                       *error = ParseStopRule(text, &parsed);
                       return ToText(parsed);
                     }});
  };
  stop_rule("shutdown-on-sigint", &server->on_sigint());
  stop_rule("shutdown-on-sigterm", &server->on_sigterm());
  config->Add({.name = "shutdown-timeout",
               .kind = Setting::Kind::kInteger,
               .value = fmt::format("{}", server->state().options.shutdown_timeout_s),
               .is_mutable = true,
               .max = INT32_MAX,
               .apply = [server](const std::string& value) {
                 server->shutdown_timeout_s() = std::stoull(value);
                 return std::string();
               }});
  config->Add({.name = "loglevel",
               .kind = Kind::kChoice,
               .value = options.log_level,
               .is_mutable = true,
               .apply =
                   [](const std::string& value) {
                     SetLogLevel(value);
                     return std::string();
                   },
               .choices = {"debug", "verbose", "notice", "warning", "nothing"}});
  shown("proactor_threads", options.threads);
  shown("num_shards", options.num_shards == 0 ? options.threads : options.num_shards);
  config->Add({.name = "force_epoll", .kind = Kind::kBool, .value = YesNo(options.force_epoll)});
  config->Add({.name = "singlehop_blocking", .value = YesNo(options.singlehop_blocking)});
  config->Add({.name = "migrate_connections", .value = YesNo(options.migrate_connections)});
  config->Add({.name = "lock_on_hashtags",
               .kind = Kind::kBool,
               .value = YesNo(options.tag_rules.locks_tags)});
  shown("locktag_prefix", options.tag_rules.prefix);
  const bool has_delimiter = !options.tag_rules.prefix.empty();
  shown("locktag_delimiter", std::string(has_delimiter ? 1 : 0, options.tag_rules.delimiter));
  shown("locktag_skip_n_end_delimiters", options.tag_rules.skip_end_delimiters);
  shown("shard_round_robin_prefix", options.placement_rules.prefix);
  shown("shard_round_robin_max", options.placement_rules.tags_max);
  shown("max_multi_bulk_len", options.limits.parser.max_multi_bulk_len);
  shown("max_inline_len", options.limits.parser.max_inline_len);
  shown("http_head_max", options.limits.http.head_max);
  shown("enable-protected-configs", ToText(options.protected_configs));
  shown("enable-debug-command", ToText(options.debug_command));
  shown("enable-module-command", ToText(options.module_command));
  config->Add({.name = "web_console", .kind = Kind::kBool, .value = YesNo(options.web_console)});
  shown("http_body_max", options.limits.http.body_max);
  shown("http_reply_max", options.http_reply_max);
  shown("http_timeout_ms", options.http_timeout_ms);
  shown("pipeline_commands_max", options.limits.slots_max);
  shown("pipeline_reply_bytes_max", options.limits.reply_bytes_max);
  shown("pipeline_input_bytes_max", options.limits.recv_bytes_max);

  AddIgnoredSettings(config);
  config->NoteFlags();
}

}  // namespace dfly
