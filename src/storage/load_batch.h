// SPDX-License-Identifier: Apache-2.0
// Keys on their way from the thread that reads a file to the thread of their shard. Their values
// go as they stand in the file: the shard's own thread makes them, so that their memory is its own,
// and many of them at a time, so that the cache misses of their places overlap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/rdb/rdb_value.h"
#include "core/table/compact_value.h"
#include "engine/keyspace/database.h"
#include "storage/entry_writer.h"

namespace dfly {

struct LoadProgress;

// Owner:    who reads, then the shard's thread, in turn.
// Suspends: never.
class LoadBatch {
 public:
  bool empty() const { return entries_.empty(); }
  bool is_full() const { return entries_.size() >= kKeys || bytes_.size() >= kBytes; }

  // `value` is of an RDB type; `beside` as AddBeside wants them. All is copied.
  void Add(int db_index, std::string_view key, uint64_t hash, const EntryFacts& facts, uint8_t type,
           std::string_view value, std::string_view beside);
  // One that is too large to be copied, and was made by who read it.
  void Add(int db_index, std::string_view key, uint64_t hash, const EntryFacts& facts,
           CompactValue value);

  // Puts all into a shard's databases and is empty then; `progress` counts it. An empty text, or
  // what is wrong. On the shard's thread.
  [[nodiscard]] std::string LoadInto(DatabaseSet& databases, const RdbLimits& limits,
                                     LoadProgress* progress);

 private:
  // Enough for misses to overlap; little enough to be still in the cache of who reads it.
  static constexpr size_t kKeys = 128;
  static constexpr size_t kBytes = 64 * 1024;

  // Its bytes: key, value, deadlines of members.
  struct Entry {
    uint64_t hash;
    EntryFacts facts;
    int db_index;
    uint32_t key_size;
    uint32_t value_size;
    uint32_t deadlines_size;
    uint8_t type;
    bool is_made;  // it is in made_, the next one there
  };

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<CompactValue> made_;
};

// A key of a collection without elements is left out, as in Redis. The first ones are logged.
void NoteEmptyKey(std::string_view key, LoadProgress* progress);
// What is wrong with a value, for errors. A name from a damaged file may be long, and have any
// bytes.
std::string DamagedValueError(std::string_view key, uint8_t type);
std::string DamagedDeadlinesError(std::string_view key);
std::string KeyTwiceError(std::string_view key);
std::string QuotedKey(std::string_view key);

}  // namespace dfly
