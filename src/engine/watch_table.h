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
#include "helio/base/block_bytes.h"

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
  bool Watch(uint64_t watcher, int db_index, std::string_view key) {
    Watcher& entry = watchers_[watcher];
    auto it = keys_.find(KeyNameView(db_index, key));
    if (it == keys_.end()) {
      it = keys_.try_emplace(KeyName{db_index, std::string(key)}).first;
      key_bytes_ += helio::HeapBytes(it->first.key);
    }
    if (std::find(it->second.begin(), it->second.end(), watcher) != it->second.end()) return false;
    it->second.push_back(watcher);
    key_bytes_ -= BytesOf(entry);
    entry.keys.push_back(it->first);
    key_bytes_ += BytesOf(entry) + 2 * helio::HeapBytes(it->first.key);
    return true;
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
      key_bytes_ -= 2 * helio::HeapBytes(key->first.key);
      if (!watchers.empty()) continue;
      key_bytes_ -= helio::HeapBytes(key->first.key);
      keys_.erase(key);
    }
    key_bytes_ -= BytesOf(it->second);
    watchers_.erase(it);
    helio::ShrinkIfSparse(&keys_);
    helio::ShrinkIfSparse(&watchers_);
  }

  size_t keys() const { return keys_.size(); }
  size_t watchers() const { return watchers_.size(); }
  // With what the watchers' sessions keep of the same keys (WatchedKey).
  size_t memory_used() const {
    return key_bytes_ + helio::MapBytes(keys_) + helio::MapBytes(watchers_);
  }

 private:
  struct Watcher {
    bool is_touched = false;
    std::vector<KeyName> keys;
  };
  // Without the names themselves.
  static size_t BytesOf(const Watcher& watcher) {
    constexpr size_t kOfSession = sizeof(KeyName) + sizeof(uint64_t);
    return watcher.keys.capacity() * (sizeof(KeyName) + kOfSession);
  }
  KeyNameMap<absl::InlinedVector<uint64_t, 2>> keys_;
  absl::flat_hash_map<uint64_t, Watcher> watchers_;
  size_t key_bytes_ = 0;  // besides the tables
};

}  // namespace dfly
