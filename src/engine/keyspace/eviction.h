// SPDX-License-Identifier: Apache-2.0
// Makes room in one shard: removes the keys that the policy finds the least worth keeping.
//
// A hand goes round the table, by position, as a SCAN cursor does, so it needs no bookkeeping when
// the table grows or shrinks. What it looks at is one home bucket at a time: about a dozen keys in
// a few neighbouring cache lines, where random samples would cost some misses each. Of the keys
// that it meets, the coldest goes. Where counts of hits decide, the hand knows how cold its last
// victims were (`floor_`), and stops at the first bucket that has such a key again, which is nearly
// always the first one; so it does not take from a bucket of popular keys what others can give.
//
//     bucket    home 17     home 18                home 19
//     counts    9 4 1 7     8 8 6 9 7              1 1 5 2
//               evicts 1    the floor is 1: goes   evicts a 1
//                           on, at most kBuckets
//
// volatile-*: the hand goes round the table of deadlines instead, so that a few keys with a
// deadline are found among many without. Keys that are due are expired on the way.
//
// Databases may have different policies. Each key goes from one of them, by chance: a database that
// has twice as many keys that may go loses twice as many. Then its own policy chooses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/keyspace/key_tag.h"

namespace dfly {

class Database;
class Shard;

// Keys that have to stay besides those whose locks somebody has: what the command, for which room
// is made, is about to use.
struct SparedKeys {
  std::span<const uint64_t> hashes = {};
  bool contains(uint64_t hash) const {
    return std::find(hashes.begin(), hashes.end(), hash) != hashes.end();
  }
};

// Owner:    one shard; used on its thread only.
// Suspends: never.
// Cost:     each call is bounded, whatever the keys are: kBucketsMax buckets of a database without
//           a victim, and as many of all others, end it.
class Evictor {
 public:
  enum class End : uint8_t {
    kDone,   // as much as was asked for
    kMore,   // the limit of keys was reached
    kBusy,   // what it has met is in use; later it may be free
    kBarren  // there seems to be nothing that may go
  };
  struct Progress {
    End end = End::kDone;
    size_t keys = 0;
    size_t bytes = 0;  // by so much the databases have become smaller
  };

  explicit Evictor(Shard* shard) : shard_(*shard) {}
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  // Removes keys until `bytes` are free or `keys_max` are gone. Handles and iterators die.
  // `due_ms`: keys whose deadline is before it are expired; nobody's time stands still before it.
  Progress Evict(size_t bytes, size_t keys_max, const SparedKeys& spared, int64_t now_ms,
                 int64_t due_ms);

  // It went round all keys lately and found nothing that may go, and few have changed since then.
  // So it does not look again for a while: a shard full of sticky keys must not be searched for
  // each command that is refused.
  bool is_barren(int64_t now_ms) const;
  // The last call has found nothing that may go, in all that it looked at.
  bool found_nothing() const { return found_nothing_; }
  // Something may have changed that makes keys evictable: another policy.
  void Reset();

 private:
  static constexpr size_t kBucketsMax = 256;   // that one search looks at
  static constexpr size_t kCandidatesMax = 4;  // the coldest that it met, in case some are in use
  static constexpr size_t kDrawsMax = 8;
  static constexpr int64_t kBarrenMs = 100;

  struct Candidate {
    uint64_t coldness;
    std::string key;
  };
  enum class Found : uint8_t { kEvicted, kBusy, kNone };

  // In one database.
  struct Hand {
    uint32_t at = 0;    // in its table, or in that of its deadlines
    uint8_t floor = 0;  // hits of the keys that were evicted lately
  };

  Found EvictOne(const SparedKeys& spared, int64_t now_ms, int64_t due_ms);
  Database* ChooseDatabase();
  Hand& HandOf(const Database& database);
  void Search(Database& database, int64_t now_ms);
  // A random key. False: all that were drawn are sticky, so the hand has to look.
  bool Draw(Database& database);
  void SearchAll(Database& database, int64_t now_ms);
  void SearchDeadlines(Database& database, int64_t now_ms);
  // `key_of()` gives the name of a key that is kept.
  template <typename KeyOf>
  void Consider(uint64_t coldness, KeyOf key_of);
  uint64_t ColdnessOf(Database& database, class CompactValue& value, int64_t now_ms);
  bool IsSpared(const Database& database, std::string_view key, uint64_t hash,
                const SparedKeys& spared) const;
  void Remove(Database& database, const Candidate& candidate, uint64_t hash, int64_t due_ms);

  Shard& shard_;
  std::vector<Hand> hands_;            // by database
  std::vector<Candidate> candidates_;  // coldest first
  size_t candidate_count_ = 0;         // the rest keep their strings' memory
  size_t buckets_ = 0;                 // looked at by this search
  size_t met_ = 0;                     // evictable keys that it has seen
  size_t keys_ = 0;                    // that the policies are about, sticky ones included
  uint64_t fruitless_buckets_ = 0;     // since something evictable was met
  int64_t barren_until_ms_ = 0;
  uint64_t barren_until_changes_ = 0;  // of the shard's keys
  bool found_nothing_ = false;
};

}  // namespace dfly
