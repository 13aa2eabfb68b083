// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/watch_table.h"

#include <algorithm>

#include "helio/base/block_bytes.h"

namespace dfly {

bool WatchTable::Watch(uint64_t watcher, int db_index, std::string_view key) {
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

void WatchTable::Touch(int db_index, std::string_view key) {
  const auto it = keys_.find(KeyNameView(db_index, key));
  if (it == keys_.end()) return;
  for (uint64_t watcher : it->second) watchers_.find(watcher)->second.is_touched = true;
}

bool WatchTable::is_touched(uint64_t watcher) const {
  const auto it = watchers_.find(watcher);
  return it != watchers_.end() && it->second.is_touched;
}

void WatchTable::Unwatch(uint64_t watcher) {
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

size_t WatchTable::memory_used() const {
  return key_bytes_ + helio::MapBytes(keys_) + helio::MapBytes(watchers_);
}

size_t WatchTable::BytesOf(const Watcher& watcher) {
  constexpr size_t kOfSession = sizeof(KeyName) + sizeof(uint64_t);
  return watcher.keys.capacity() * (sizeof(KeyName) + kOfSession);
}

}  // namespace dfly
