// SPDX-License-Identifier: Apache-2.0
// The keys of a command by the shards that they are in, for commands that go to several.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/hash.h"
#include "engine/coordinator.h"
#include "engine/transaction.h"

namespace dfly {

// Locks keys and calls something with a context for each shard that has some.
//
// Owner:    the fiber of the command.
// Suspends: Hop and HopToTarget.
// Part:     what is kept for each shard; written by that shard alone during a hop.
template <typename Part>
class KeyParts {
 public:
  struct Item {
    ShardId shard;
    std::vector<size_t> indexes;  // of its keys among all
    Part part = {};
  };

  // The keys to read. They must outlive this.
  KeyParts(CoordinatorContext& cx, std::span<const std::string_view> keys)
      : cx_(cx), tx_(cx), keys_(keys) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const ShardId id = Lock(keys[i], LockMode::kShared);
      auto item = std::find_if(items_.begin(), items_.end(),
                               [id](const Item& other) { return other.shard == id; });
      if (item == items_.end()) {
        ids_.push_back(id);
        item = items_.insert(item, Item{.shard = id, .indexes = {}});
      }
      item->indexes.push_back(i);
    }
  }
  // The key to write in the second hop. Before the first one.
  void SetTarget(std::string_view key) { target_ = Lock(key, LockMode::kExclusive); }

  std::vector<Item>& items() { return items_; }

  // function(ShardContext&, Item&) on each shard with keys, at once. If there is no target, that
  // was all.
  template <typename Function>
  void Hop(Function function) {
    const auto work = [&](Shard& shard) {
      ShardContext cx(shard, cx_.db_index(), cx_.now_ms());
      function(cx, *std::find_if(items_.begin(), items_.end(),
                                 [&shard](const Item& item) { return item.shard == shard.id(); }));
    };
    if (target_) {
      tx_.Schedule();
      tx_.HopOn(ids_, work);
    } else {
      tx_.Run(work);
    }
  }
  // function(ShardContext&) on the shard of the target; ends it all.
  template <typename Function>
  void HopToTarget(Function function) {
    tx_.HopAndConclude({&*target_, 1}, [&](Shard& shard) {
      ShardContext cx(shard, cx_.db_index(), cx_.now_ms());
      function(cx);
    });
  }

 private:
  ShardId Lock(std::string_view key, LockMode mode) {
    const uint64_t hash = HashKey(key);
    const ShardId id = cx_.shards().ShardOfKey(key, hash);
    tx_.Lock(id, {cx_.shards().LockOfKey(key, hash, cx_.db_index()), mode});
    return id;
  }

  CoordinatorContext& cx_;
  Transaction tx_;
  std::span<const std::string_view> keys_;
  std::vector<Item> items_;
  std::vector<ShardId> ids_;  // of the items
  std::optional<ShardId> target_;
};

}  // namespace dfly
