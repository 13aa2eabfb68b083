// SPDX-License-Identifier: Apache-2.0
// Which keys of a shard are watched (WATCH), by whom, and who has seen one change.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash.h"

namespace dfly {

// A key's name with its database, for tables of keys that somebody is interested in.
struct KeyName {
  int db_index = 0;
  std::string key;
};
struct KeyNameView {
  int db_index = 0;
  std::string_view key;

  KeyNameView(int db_index, std::string_view key) : db_index(db_index), key(key) {}
  KeyNameView(const KeyName& name)  // NOLINT: looked up as what it is
      : db_index(name.db_index), key(name.key) {}
};
struct KeyNameHash {
  using is_transparent = void;
  size_t operator()(const KeyNameView& name) const {
    return HashKey(name.key) + static_cast<size_t>(name.db_index) * 0x9E3779B97F4A7C15ull;
  }
};
struct KeyNameEq {
  using is_transparent = void;
  bool operator()(const KeyNameView& a, const KeyNameView& b) const {
    return a.db_index == b.db_index && a.key == b.key;
  }
};
template <typename Value>
using KeyNameMap = absl::flat_hash_map<KeyName, Value, KeyNameHash, KeyNameEq>;

// Owner: one shard, on its thread. Suspends: never. A watcher is a connection, by its id.
class WatchTable {
 public:
  // Nobody watches: the one branch that a change of a key pays.
  bool empty() const { return watchers_.empty(); }

  void Watch(uint64_t watcher, int db_index, std::string_view key) {
    Watcher& entry = watchers_[watcher];
    auto it = keys_.find(KeyNameView(db_index, key));
    if (it == keys_.end()) it = keys_.try_emplace(KeyName{db_index, std::string(key)}).first;
    if (std::find(it->second.begin(), it->second.end(), watcher) != it->second.end()) return;
    it->second.push_back(watcher);
    entry.keys.push_back(it->first);
  }

  // A key has changed, expired keys included.
  void Touch(int db_index, std::string_view key) {
    const auto it = keys_.find(KeyNameView(db_index, key));
    if (it == keys_.end()) return;
    for (uint64_t watcher : it->second) watchers_.find(watcher)->second.is_touched = true;
  }
  // The same for each watched key of which changes(const KeyName&) is true.
  template <typename Function>
  void TouchIf(Function changes) {
    for (const auto& [name, watchers] : keys_) {
      if (!changes(name)) continue;
      for (uint64_t watcher : watchers) watchers_.find(watcher)->second.is_touched = true;
    }
  }

  bool is_touched(uint64_t watcher) const {
    const auto it = watchers_.find(watcher);
    return it != watchers_.end() && it->second.is_touched;
  }
  // fn(const KeyName&) for each key that somebody watches; as below.
  template <typename Function>
  void ForEachKey(Function fn) const {
    for (const auto& [name, watchers] : keys_) fn(name);
  }
  // fn(const KeyName&) for what it watches. `fn` may touch keys, and changes nothing else here.
  template <typename Function>
  void ForEachKey(uint64_t watcher, Function fn) const {
    const auto it = watchers_.find(watcher);
    if (it == watchers_.end()) return;
    for (const KeyName& name : it->second.keys) fn(name);
  }

  void Unwatch(uint64_t watcher) {
    const auto it = watchers_.find(watcher);
    if (it == watchers_.end()) return;
    for (const KeyName& name : it->second.keys) {
      const auto key = keys_.find(name);
      auto& watchers = key->second;
      watchers.erase(std::find(watchers.begin(), watchers.end(), watcher));
      if (watchers.empty()) keys_.erase(key);
    }
    watchers_.erase(it);
  }

  size_t keys() const { return keys_.size(); }
  size_t watchers() const { return watchers_.size(); }

 private:
  struct Watcher {
    bool is_touched = false;
    std::vector<KeyName> keys;
  };
  KeyNameMap<absl::InlinedVector<uint64_t, 2>> keys_;
  absl::flat_hash_map<uint64_t, Watcher> watchers_;
};

}  // namespace dfly
