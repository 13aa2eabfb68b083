// SPDX-License-Identifier: Apache-2.0
// All databases of one shard, as SELECT numbers them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/keyspace/database.h"
#include "engine/keyspace/memcached_items.h"
#include "helio/base/logging.h"

namespace dfly {

// A shard has one that clients see. While a replica loads a copy beside its data, it has a second
// one (Shard::incoming).
//
// Owner:    one Shard, on its thread. Suspends: never.
class DatabaseSet {
 public:
  // `listener`: of each database.
  DatabaseSet(int count, ChangeListener* listener)
      : listener_(listener), databases_(static_cast<size_t>(count)) {}

  int count() const { return static_cast<int>(databases_.size()); }
  // Made at its first use. REQUIRES: 0 <= index < count(), as below.
  Database& Make(int index) {
    DCHECK_GE(index, 0);
    DCHECK_LT(index, count());
    std::unique_ptr<Database>& database = databases_[static_cast<size_t>(index)];
    if (database == nullptr) {
      database = std::make_unique<Database>(index, listener_);
      made_end_ = std::max(made_end_, static_cast<size_t>(index) + 1);
    }
    return *database;
  }
  // Null: nothing was ever in it.
  Database* Find(int index) const { return databases_[static_cast<size_t>(index)].get(); }
  // It is as new then. Null as above.
  std::unique_ptr<Database> Take(int index) {
    return std::move(databases_[static_cast<size_t>(index)]);
  }
  void Swap(int first, int second) {
    std::swap(databases_[static_cast<size_t>(first)], databases_[static_cast<size_t>(second)]);
    made_end_ = std::max(made_end_, static_cast<size_t>(std::max(first, second)) + 1);
    for (int index : {first, second}) {
      if (Database* database = Find(index)) database->set_index(index);
    }
  }
  // The databases of both change places, not what memcached's clients know.
  void SwapAll(DatabaseSet& other) {
    databases_.swap(other.databases_);
    std::swap(made_end_, other.made_end_);
  }

  // Those that there have ever been: most are never used, and they are looked at all the time.
  std::span<const std::unique_ptr<Database>> made() const {
    return std::span(databases_).first(made_end_);
  }

  MemcachedItems& memcached() { return memcached_; }
  const MemcachedItems& memcached() const { return memcached_; }

  // Exact.
  size_t bytes() const {
    size_t bytes = memcached_.bytes();
    for (const auto& database : made()) {
      if (database != nullptr) bytes += database->bytes();
    }
    return bytes;
  }

 private:
  ChangeListener* const listener_;
  std::vector<std::unique_ptr<Database>> databases_;
  size_t made_end_ = 0;  // all behind it are null
  MemcachedItems memcached_;
};

}  // namespace dfly
