// SPDX-License-Identifier: Apache-2.0
// What CONFIG GET shows and CONFIG SET changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/fibers/sync.h"
#include "server/base/waits.h"

namespace dfly {

class AclStore;
class CommandTable;
class Server;

// One setting. Its value is kept as text in one canonical form: "yes", "104857600".
struct Setting {
  enum class Kind : uint8_t {
    kBool,     // "yes" or "no"
    kInteger,  // within [min, max]
    kMemory,   // bytes, with units; within [min, max] if there is a max
    kText,
    kChoice,  // one of `choices`
  };

  std::string_view name;  // as in redis.conf, or the flag's own
  Kind kind = Kind::kText;
  std::string value;
  bool is_mutable = false;
  bool is_protected = false;  // --enable_protected_configs says who may set it
  int64_t min = 0;
  int64_t max = 0;
  // Puts a new value into effect. Returns an empty string, or why that cannot be. May suspend.
  // None: nothing follows from a change.
  std::function<std::string(const std::string& value)> apply = {};
  std::vector<std::string_view> choices = {};
  // kText: the form in which a value is kept and told, or why it is none.
  std::function<std::string(std::string_view text, std::string* error)> canonical = {};
  bool has_words = false;  // several of a line of redis.conf, for CONFIG REWRITE
  // For settings that take effect together: once, behind `apply` of all that were set. As `apply`,
  // and an error makes all of them what they were: those that had taken effect do so once more.
  std::shared_ptr<const std::function<std::string()>> commit = {};
  std::string_view old_name = {};  // under which it is known as well, as in Redis
  bool was_set = false;            // not only a default: CONFIG REWRITE writes it
};

// Thread:   any fiber, or a plain thread.
// Suspends: Get and Set, while another Set is under way.
class Config {
 public:
  // Before there is more than one thread.
  void Add(Setting setting);
  bool Has(std::string_view name) { return Find(name) != nullptr; }

  // The settings whose names match one of the glob patterns, each once, in the table's order.
  std::vector<std::pair<std::string, std::string>> Get(std::span<const std::string_view> patterns);

  // CONFIG REWRITE. Empty, or an error reply. Writes a file: from a fiber.
  std::string Rewrite(const std::string& path, const AclStore& acl);
  // Those whose flags were given were set.
  void NoteFlags();
  // Whether CONFIG SET changes what a flag says: "yes", "protected" (--enable_protected_configs),
  // or nothing. For the page of all flags.
  std::string_view WhoMaySet(std::string_view flag) const;

  // Name, value, name, value, ... All are set, or none. Returns the error reply, or nothing.
  // `may_set_protected`: also what leads to other files. REQUIRES: an even number.
  std::string Set(std::span<const std::string_view> pairs, bool may_set_protected);

 private:
  Setting* Find(std::string_view name);

  helio::HoldableMutex mutex_{
      kConfigTurn};  // makes changes one after another, also while they reach all threads
  std::vector<Setting> settings_;
};

// The canonical form of `text`, or an error.
std::string CanonicalValue(const Setting& setting, std::string_view text, std::string* error);

void AddPortSettings(Server* server, Config* config);
// slowlog-* and latency-* of it.
void AddTimingSettings(Server* server, Config* config);
void AddEventSettings(Server* server, Config* config);
void AddClientLimitSettings(Server* server, Config* config);
// The table of this server's settings, with the values that it was started with.
void AddSettings(Server* server, Config* config);

}  // namespace dfly
