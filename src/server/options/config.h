// SPDX-License-Identifier: Apache-2.0
// What CONFIG GET shows and CONFIG SET changes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/fibers/sync.h"
#include "server/base/waits.h"
#include "server/options/options.h"
#include "server/options/setting_row.h"

namespace dfly {

// The settings of a server, by their rows, with the values that they have now.
//
// Thread:   any fiber, or a plain thread.
// Suspends: Get and Set, while another Set is under way.
class Config {
 public:
  // `told`: what the server is started with; `live` gets the values that all threads read. `rows`
  // outlive it. Before there is more than one thread.
  Config(std::span<const SettingRow> rows, const ServerOptions& told, Settings* live,
         SettingHost* host);

  // The settings whose names match one of the glob patterns, each once, in the table's order.
  std::vector<std::pair<std::string, std::string>> Get(std::span<const std::string_view> patterns);

  // CONFIG REWRITE. `users`: as RewriteConfigText has them. Empty, or an error reply. Writes a
  // file: from a fiber.
  std::string Rewrite(const std::string& path, const std::vector<std::string>* users);

  // A command has changed the setting (REPLICAOF): nothing follows from this. REQUIRES: it has a
  // slot, and the value is one.
  void Note(std::string_view name, std::string_view value);

  // Calls `use` with the values of now, and no Set is under way meanwhile. Suspends as `use` does.
  void WithNow(const std::function<void(const ServerOptions& now)>& use);

  // Name, value, name, value, ... All are set, or none. Returns the error reply, or nothing.
  // `may_set_protected`: also what leads to other files. REQUIRES: an even number.
  std::string Set(std::span<const std::string_view> pairs, bool may_set_protected);

 private:
  struct Setting {
    const SettingRow* row;
    std::string text;  // the value, if the row has no slot
    bool was_set;      // not only a default: CONFIG REWRITE writes it
  };
  struct Change {
    Setting* setting;
    std::string_view name;  // as it is told in an error
    std::string text;
  };

  Setting* Find(std::string_view name);
  std::string ValueOf(const Setting& setting) const;
  std::string Read(std::span<const std::string_view> pairs, bool may_set_protected,
                   std::vector<Change>* changes, ServerOptions* wanted);
  std::string Apply(const std::vector<Change>& changes, const ServerOptions& wanted);

  helio::HoldableMutex mutex_{
      kConfigTurn};  // makes changes one after another, also while they reach all threads
  std::vector<Setting> settings_;
  ServerOptions now_;
  Settings& live_;
  SettingHost& host_;
};

}  // namespace dfly
