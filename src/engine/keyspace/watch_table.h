// SPDX-License-Identifier: Apache-2.0
// Which keys of a shard are watched (WATCH), by whom, and who has seen one change.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/hash.h"

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

  // False: it watches the key already.
  bool Watch(uint64_t watcher, int db_index, std::string_view key);

  // A key has changed, expired keys included.
  void Touch(int db_index, std::string_view key);
  // The same for each watched key of which changes(const KeyName&) is true.
  template <typename Function>
  void TouchIf(Function changes) {
    for (const auto& [name, watchers] : keys_) {
      if (!changes(name)) continue;
      for (uint64_t watcher : watchers) watchers_.find(watcher)->second.is_touched = true;
    }
  }

  bool is_touched(uint64_t watcher) const;
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

  void Unwatch(uint64_t watcher);

  size_t keys() const { return keys_.size(); }
  size_t watchers() const { return watchers_.size(); }
  // With what the watchers' sessions keep of the same keys (WatchedKey).
  size_t memory_used() const;

 private:
  struct Watcher {
    bool is_touched = false;
    std::vector<KeyName> keys;
  };
  // Without the names themselves.
  static size_t BytesOf(const Watcher& watcher);
  KeyNameMap<absl::InlinedVector<uint64_t, 2>> keys_;
  absl::flat_hash_map<uint64_t, Watcher> watchers_;
  size_t key_bytes_ = 0;  // besides the tables
};

}  // namespace dfly
