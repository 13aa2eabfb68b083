// SPDX-License-Identifier: Apache-2.0
// The keys of a command by the shards that they are in, for commands that go to several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/text/hash.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "helio/fibers/long_work.h"

namespace dfly {

// Locks keys and calls something with a context for each shard that has some: the first hop goes to
// all of them. The last one ends it all, and that is HopToTarget if there is a target; whoever has
// seen enough (an error, an empty set) just stops. Nobody writes to the keys between two hops, but
// they may expire: each hop looks them up again.
//
// Owner:    the fiber of the command.
// Suspends: hops.
// Part:     what is kept for each shard; written by that shard alone during a hop.
template <typename Part>
class KeyParts {
 public:
  struct Item {
    ShardId shard;
    std::vector<size_t> indexes;         // of its keys among all
    std::vector<std::string_view> keys;  // these
    Part part = {};
  };
  enum class More : bool { kNo, kYes };

  // The keys to read, of which there is at least one. They must outlive this.
  KeyParts(CoordinatorContext& cx, std::span<const std::string_view> keys) : cx_(cx), tx_(cx) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const ShardId id = Lock(keys[i], LockMode::kShared);
      auto item = Find(id);
      if (item == items_.end()) {
        ids_.push_back(id);
        item = items_.insert(item, Item{.shard = id, .indexes = {}, .keys = {}});
      }
      item->indexes.push_back(i);
      item->keys.push_back(keys[i]);
    }
  }
  // The key to write in the last hop. Before the first one.
  void SetTarget(std::string_view key) { target_ = Lock(key, LockMode::kExclusive); }
  bool has_target() const { return target_.has_value(); }

  // In the order of each shard's first key.
  std::vector<Item>& items() { return items_; }

  // function(ShardContext&, Item&) on each shard with keys, at once. The first hop; false: as
  // Transaction::Run.
  template <typename Function>
  [[nodiscard]] bool Hop(Function function, More more = More::kNo) {
    const auto work = [&](ShardTurn& turn) { Visit(turn, function); };
    if (IsLast(more)) return tx_.Run(work);
    if (!tx_.Schedule()) return false;
    tx_.HopOn(ids_, work);
    return true;
  }
  // The same on those shards whose items suit(const Item&). A later hop.
  template <typename Predicate, typename Function>
  void HopOn(Predicate suit, Function function, More more = More::kNo) {
    std::vector<ShardId> ids;
    for (const Item& item : items_) {
      if (suit(item)) ids.push_back(item.shard);
    }
    const auto work = [&](ShardTurn& turn) { Visit(turn, function); };
    IsLast(more) ? tx_.HopAndConclude(ids, work) : tx_.HopOn(ids, work);
  }
  // For what would hold up a shard for long: function(ShardContext&, Item&) is called again and
  // again, in a hop each time, on each of these shards until it has returned false there. Later
  // hops, and none of them is the last.
  template <typename Predicate, typename Function>
  void HopInSlices(Predicate suit, Function function) {
    std::vector<uint8_t> has_ended(items_.size(), 0);  // bytes, since shards write at the same time
    const auto index_of = [this](const Item& item) { return &item - items_.data(); };
    const auto goes_on = [&](const Item& item) { return suit(item) && !has_ended[index_of(item)]; };
    helio::LongWork work(1);  // a hop to this thread's own shard does not wait
    while (std::any_of(items_.begin(), items_.end(), goes_on)) {
      HopOn(
          goes_on,
          [&](ShardContext& cx, Item& item) { has_ended[index_of(item)] = !function(cx, item); },
          More::kYes);
      work.Step();
    }
  }
  // function(ShardContext&) on the shard of the target.
  template <typename Function>
  void HopToTarget(Function function, More more = More::kNo) {
    const auto work = [&](ShardTurn& turn) {
      ShardContext& cx = turn.Begin(cx_.db_index(), cx_.now_ms());
      function(cx);
    };
    const std::span<const ShardId> on(&*target_, 1);
    more == More::kNo ? tx_.HopAndConclude(on, work) : tx_.HopOn(on, work);
  }

  // See Transaction. Between hops.
  bool records() const { return tx_.records(); }
  void TellAll(std::span<const std::string_view> words) { tx_.TellAll(cx_.db_index(), words); }

 private:
  ShardId Lock(std::string_view key, LockMode mode) {
    const uint64_t hash = HashKey(key);
    const ShardId id = cx_.shards().ShardOfKey(key, hash);
    tx_.Lock(id, {cx_.shards().LockOfKey(key, hash, cx_.db_index()), mode});
    return id;
  }
  auto Find(ShardId id) {
    return std::find_if(items_.begin(), items_.end(),
                        [id](const Item& item) { return item.shard == id; });
  }
  template <typename Function>
  void Visit(ShardTurn& turn, Function& function) {
    function(turn.Begin(cx_.db_index(), cx_.now_ms()), *Find(turn.shard().id()));
  }
  bool IsLast(More more) const { return more == More::kNo && !target_; }

  CoordinatorContext& cx_;
  Transaction tx_;
  std::vector<Item> items_;
  std::vector<ShardId> ids_;  // of the items
  std::optional<ShardId> target_;
};

}  // namespace dfly
