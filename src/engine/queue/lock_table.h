// SPDX-License-Identifier: Apache-2.0
// The intents of the transactions on one shard: counters, nothing that waits. (Ren, Thomson, Abadi:
// "VLL: a lock manager redesign for main memory database systems", VLDB Journal 2015)
#pragma once

#include <absl/container/flat_hash_map.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "helio/base/block_bytes.h"
#include "helio/base/logging.h"

namespace dfly {

enum class LockMode : uint8_t { kShared, kExclusive };

// What a transaction has to lock: the fingerprint of a key's tag and its database. Two tags with
// the same one (once in 2^64) exclude each other, which costs time and nothing else.
struct TagLock {
  uint64_t fingerprint = 0;
  LockMode mode = LockMode::kShared;
};

// `tag_hash`: HashKey of the tag. Databases do not hinder each other.
inline uint64_t TagFingerprint(uint64_t tag_hash, int db_index) {
  return tag_hash + static_cast<uint64_t>(db_index) * 0x9E3779B97F4A7C15ull;
}

// Owner: one shard, on its thread. Suspends: never.
class LockTable {
 public:
  // Nobody has an intent: the one branch that a command pays when there are no transactions.
  bool empty() const { return intents_ == 0; }

  // There will be so many intents more.
  void Reserve(size_t more) { tags_.reserve(tags_.size() + more); }

  // Registers an intent. False if it conflicts with one that was there: it counts all the same, and
  // its turn comes by the queue.
  bool Acquire(const TagLock& lock) {
    const bool is_free = !Conflicts(lock);
    Counts& counts = tags_[lock.fingerprint];
    ++counts.of(lock.mode);
    ++all_tags_.of(lock.mode);
    ++intents_;
    return is_free;
  }
  void Release(const TagLock& lock) {
    const auto it = tags_.find(lock.fingerprint);
    CHECK(it != tags_.end() && it->second.of(lock.mode) > 0) << "an intent that nobody has";
    --it->second.of(lock.mode);
    --all_tags_.of(lock.mode);
    --intents_;
    if (!it->second.is_zero()) return;
    tags_.erase(it);
    helio::ShrinkIfSparse(&tags_);
  }
  // Would Acquire meet a conflict?
  bool Conflicts(const TagLock& lock) const {
    if (Excludes(shard_, lock.mode)) return true;
    const auto it = tags_.find(lock.fingerprint);
    return it != tags_.end() && Excludes(it->second, lock.mode);
  }

  // The same for the whole shard.
  bool AcquireShard(LockMode mode) {
    const bool is_free = !Excludes(shard_, mode) && !Excludes(all_tags_, mode);
    ++shard_.of(mode);
    ++intents_;
    return is_free;
  }
  void ReleaseShard(LockMode mode) {
    CHECK_GT(shard_.of(mode), 0u);
    --shard_.of(mode);
    --intents_;
  }

  size_t intents() const { return intents_; }
  size_t tags() const { return tags_.size(); }

 private:
  struct Counts {
    uint32_t shared = 0;
    uint32_t exclusive = 0;

    uint32_t& of(LockMode mode) { return mode == LockMode::kShared ? shared : exclusive; }
    bool is_zero() const { return shared + exclusive == 0; }
  };
  static bool Excludes(const Counts& held, LockMode wanted) {
    return held.exclusive > 0 || (wanted == LockMode::kExclusive && held.shared > 0);
  }

  // Fingerprints are hashes already. Their first bits decide the place in a table of a million, so
  // a transaction with very many tags, which are sorted, goes through its memory in order.
  struct InOrder {
    size_t operator()(uint64_t fingerprint) const { return std::rotl(fingerprint, 28); }
  };
  absl::flat_hash_map<uint64_t, Counts, InOrder> tags_;
  Counts all_tags_;
  Counts shard_;
  size_t intents_ = 0;
};

}  // namespace dfly
