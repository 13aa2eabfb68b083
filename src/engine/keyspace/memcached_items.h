// SPDX-License-Identifier: Apache-2.0
// What clients of memcached know about keys besides what every key has: client flags, the cas
// unique, and whether somebody was told to make the value again.
//
// Few keys have any of it, so it stands in a table beside the keys': an entry is made when flags
// are set or a cas unique is asked for, and goes with the next change of the value, whoever makes
// it (OnChanged). So a change by a command of Redis leaves no flags behind, and the next gets finds
// a new cas unique. A server without clients of memcached pays one branch for each change.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/text/hash.h"
#include "engine/keyspace/key_events.h"
#include "helio/base/block_bytes.h"
#include "helio/base/counters.h"

namespace dfly {

// What a shard has counted, for `stats`.
struct MemcachedStats {
  uint64_t get_hits = 0;
  uint64_t get_misses = 0;
  uint64_t sets = 0;
  uint64_t touch_hits = 0;
  uint64_t touch_misses = 0;
  uint64_t delete_hits = 0;
  uint64_t delete_misses = 0;
  uint64_t incr_hits = 0;
  uint64_t incr_misses = 0;
  uint64_t decr_hits = 0;
  uint64_t decr_misses = 0;
  uint64_t cas_hits = 0;
  uint64_t cas_misses = 0;
  uint64_t cas_badval = 0;
  uint64_t metas = 0;
  uint64_t too_large = 0;

  static constexpr helio::CounterOf<MemcachedStats> kCounters[] = {
      &MemcachedStats::get_hits,      &MemcachedStats::get_misses,   &MemcachedStats::sets,
      &MemcachedStats::touch_hits,    &MemcachedStats::touch_misses, &MemcachedStats::delete_hits,
      &MemcachedStats::delete_misses, &MemcachedStats::incr_hits,    &MemcachedStats::incr_misses,
      &MemcachedStats::decr_hits,     &MemcachedStats::decr_misses,  &MemcachedStats::cas_hits,
      &MemcachedStats::cas_misses,    &MemcachedStats::cas_badval,   &MemcachedStats::metas,
      &MemcachedStats::too_large};
};
static_assert(helio::ListsAll<MemcachedStats>());

struct MemcachedItem {
  uint64_t cas = 0;  // 0: nobody has asked since the last change
  uint32_t client_flags = 0;
  bool is_stale = false;    // what mg marks by X
  bool is_claimed = false;  // a client has won; others are told so by Z

  // The two, as a number for files: 1 and 2.
  uint32_t marks() const { return (is_stale ? 1u : 0u) | (is_claimed ? 2u : 0u); }
  void set_marks(uint32_t marks) {
    is_stale = (marks & 1u) != 0;
    is_claimed = (marks & 2u) != 0;
  }
  bool is_default() const { return cas == 0 && client_flags == 0 && !is_stale && !is_claimed; }
};

// Of the keys of database 0.
//
// Owner:    one Shard, on its thread. Suspends: never.
class MemcachedItems {
 public:
  bool empty() const { return items_.empty(); }
  // All defaults if there is no entry.
  MemcachedItem Find(std::string_view key) const {
    if (items_.empty()) return {};
    const auto it = items_.find(key);
    return it == items_.end() ? MemcachedItem() : it->second;
  }
  void Put(std::string_view key, const MemcachedItem& item) {
    if (item.is_default()) return Erase(key);
    auto it = items_.find(key);
    if (it == items_.end()) {
      it = items_.emplace(key, item).first;
      key_bytes_ += helio::HeapBytes(it->first);
    } else {
      it->second = item;
    }
  }

  // Each is larger than all before it; also than those of an earlier process, if that has given out
  // less than two for each microsecond.
  uint64_t NextCas(int64_t now_ms) {
    const uint64_t least = static_cast<uint64_t>(now_ms) << 11;
    if (last_cas_ == 0) last_cas_ = least;
    return ++last_cas_;
  }
  // The key's cas unique, which it has from now on.
  uint64_t EnsureCas(std::string_view key, int64_t now_ms) {
    MemcachedItem item = Find(key);
    if (item.cas == 0) {
      item.cas = NextCas(now_ms);
      Put(key, item);
    }
    return item.cas;
  }

  // A key of database 0 has changed.
  void OnChanged(std::string_view key, KeyEvent event) {
    // These leave the value alone.
    if (event != KeyEvent::kExpire && event != KeyEvent::kPersist) Erase(key);
  }
  void Clear() {
    items_ = {};
    key_bytes_ = 0;
  }

  // What `other` knows of keys takes the place of what is here. Counts stay, and so do the numbers
  // that were given out.
  void TakeItems(MemcachedItems& other) {
    items_ = std::exchange(other.items_, {});
    key_bytes_ = std::exchange(other.key_bytes_, 0);
  }

  size_t bytes() const { return key_bytes_ + helio::MapBytes(items_); }

  MemcachedStats& stats() { return stats_; }
  const MemcachedStats& stats() const { return stats_; }

 private:
  void Erase(std::string_view key) {
    const auto it = items_.find(key);
    if (it == items_.end()) return;
    key_bytes_ -= helio::HeapBytes(it->first);
    items_.erase(it);
    if (items_.empty()) Clear();  // the room of many is not kept
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return HashKey(key); }
  };
  struct Same {
    using is_transparent = void;
    bool operator()(std::string_view one, std::string_view other) const { return one == other; }
  };
  absl::flat_hash_map<std::string, MemcachedItem, Hash, Same> items_;
  size_t key_bytes_ = 0;
  uint64_t last_cas_ = 0;
  MemcachedStats stats_;
};

}  // namespace dfly
