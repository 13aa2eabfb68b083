// SPDX-License-Identifier: Apache-2.0
// What stores have, to be compared: for tests of snapshots.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "core/rdb/rdb_value_testing.h"
#include "engine/hops/shard_set.h"

namespace dfly::testkit {

// By database and key: the value, what clients of memcached keep, if they do, and last the deadline
// and whether it is sticky.
using StoreModel = std::map<std::pair<int, std::string>, Texts>;

// All that the shards have, which has to keep its invariants. From a fiber or a plain thread.
inline StoreModel ContentOf(ShardSet& shards) {
  StoreModel model;
  for (ShardId id = 0; id < shards.size(); ++id) {
    shards.Await(id, [&](Shard& shard) {
      shard.CheckInvariants();
      for (int db = 0; db < shard.db_count(); ++db) {
        Database* database = shard.FindDb(db);
        for (uint32_t cursor = 0, is_first = 1; database != nullptr && (cursor || is_first);) {
          is_first = 0;
          cursor = database->Scan(cursor, [&](Database::Table::Slot& slot) {
            const std::string key = slot.key.ToString();
            Texts lines = ContentOf(slot.value);
            const auto deadline = database->Deadline(slot, KeyProbe(key, HashKey(key)));
            const MemcachedItem item = db == 0 ? shard.memcached().Find(key) : MemcachedItem();
            if (!item.is_default()) {
              lines.push_back(fmt::format("{} {} {}", item.client_flags, item.cas, item.marks()));
            }
            lines.push_back(
                fmt::format("{} {}", deadline.value_or(0), slot.key.has_flag(CompactKey::kSticky)));
            model[{db, key}] = std::move(lines);
          });
        }
      }
    });
  }
  return model;
}

}  // namespace dfly::testkit
