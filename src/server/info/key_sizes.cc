// SPDX-License-Identifier: Apache-2.0
#include "server/info/key_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>

#include "core/types/hash_value.h"
#include "core/types/quick_list.h"
#include "core/types/set_value.h"
#include "core/types/zset_value.h"
#include "engine/hops/shard_set.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

void AddValue(const CompactValue& value, KeySizes* sizes) {
  switch (value.type()) {
    case ValueType::kString:
      return sizes->Add(KeySizes::kStrings, value.StringSize());
    case ValueType::kList:
      return sizes->Add(KeySizes::kLists, static_cast<const QuickList*>(value.object())->size());
    case ValueType::kSet:
      return sizes->Add(KeySizes::kSets, SetValue(value).size());
    case ValueType::kZset:
      return sizes->Add(KeySizes::kZsets, ZsetValue(const_cast<CompactValue*>(&value)).size());
    case ValueType::kHash:
      return sizes->Add(KeySizes::kHashes, HashValue(value).size());
    default:  // Redis knows no more
      return;
  }
}

// 1, 512, 1K, 64M.
std::string PowerOfTwo(int exponent) {
  constexpr std::string_view kUnits[] = {"", "K", "M", "G", "T", "P", "E"};
  return fmt::format("{}{}", uint64_t{1} << (exponent % 10), kUnits[exponent / 10]);
}

// What one shard has looked at so far; used on its thread.
struct SizesOfShard {
  int db_index = 0;
  uint32_t position = 0;
  uint64_t keys = 0;
  bool is_done = false;
  std::vector<KeySizes> databases;
};

constexpr int kBucketsEach = 256;  // of a shard, before others have their turn

// As far as it may go in one turn.
void LookAtSome(ShardTurn& turn, int64_t now_ms, uint64_t keys_max, SizesOfShard* part) {
  const int db_count = turn.shard().db_count();
  part->databases.resize(static_cast<size_t>(db_count));
  for (int buckets = 0; buckets < kBucketsEach && part->keys < keys_max; ++buckets) {
    ShardContext& cx = turn.Begin(part->db_index, now_ms);
    KeySizes& sizes = part->databases[static_cast<size_t>(part->db_index)];
    part->position = cx.Scan(part->position, [&](std::string_view, const CompactValue& value) {
      ++part->keys;
      AddValue(value, &sizes);
    });
    if (part->position == 0 && ++part->db_index == db_count) {
      part->is_done = true;
      return;
    }
  }
}

}  // namespace

void KeySizes::Add(Type type, uint64_t size) {
  ++types[type][static_cast<size_t>(std::bit_width(size))];
}

void KeySizes::Merge(const KeySizes& other) {
  for (size_t type = 0; type < kTypes; ++type) {
    for (size_t i = 0; i < types[type].size(); ++i) types[type][i] += other.types[type][i];
  }
}

std::string KeySizes::Format(const Buckets& buckets) {
  std::string text;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] == 0) continue;
    fmt::format_to(std::back_inserter(text), "{}{}={}", text.empty() ? "" : ",",
                   i == 0 ? "0" : PowerOfTwo(static_cast<int>(i) - 1), buckets[i]);
  }
  return text;
}

const char* KeySizes::NameOf(size_t type) {
  constexpr const char* kNames[] = {"strings_sizes", "lists_items", "sets_items", "zsets_items",
                                    "hashes_items"};
  return kNames[type];
}

KeySizesFacts GatherKeySizes(CoordinatorContext& cx, uint64_t keys_max) {
  const size_t shards = cx.shards().size();
  const uint64_t each_max = keys_max == 0 ? UINT64_MAX : std::max<uint64_t>(1, keys_max / shards);
  helio::LongWork hops(1);  // a hop to this thread's own shard does not wait
  std::vector<SizesOfShard> parts(shards);
  std::vector<ShardId> ids(shards);  // of the shards that are not done
  for (ShardId id = 0; id < ids.size(); ++id) ids[id] = id;
  while (!ids.empty()) {
    cx.shards().AwaitOn(ids, [&](ShardTurn& turn) {
      LookAtSome(turn, cx.now_ms(), each_max, &parts[turn.shard().id()]);
    });
    hops.Step();
    std::erase_if(ids, [&](ShardId id) { return parts[id].is_done || parts[id].keys >= each_max; });
  }
  KeySizesFacts facts;
  for (const SizesOfShard& part : parts) {
    facts.databases.resize(std::max(facts.databases.size(), part.databases.size()));
    for (size_t i = 0; i < part.databases.size(); ++i) facts.databases[i].Merge(part.databases[i]);
    facts.is_complete &= part.is_done;
  }
  return facts;
}

}  // namespace dfly
