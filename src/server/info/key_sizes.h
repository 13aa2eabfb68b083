// SPDX-License-Identifier: Apache-2.0
// How large keys are, by their type, as INFO keysizes tells. Nobody keeps count: who asks has all
// keys looked at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/hops/coordinator.h"

namespace dfly {

// Of one database: for each type how many keys have a size from a power of two up to the next.
struct KeySizes {
  enum Type : uint8_t { kStrings, kLists, kSets, kZsets, kHashes };
  static constexpr size_t kTypes = 5;
  // [0] is of empty strings, [i] of sizes in [2^(i-1), 2^i).
  using Buckets = std::array<uint64_t, 65>;

  std::array<Buckets, kTypes> types = {};

  // Bytes of a string, members of the others.
  void Add(Type type, uint64_t size);
  void Merge(const KeySizes& other);
  // "1=2,16=1,1K=7": empty buckets are left out.
  static std::string Format(const Buckets& buckets);
  // "strings_sizes", "lists_items", ...
  static const char* NameOf(size_t type);
};

struct KeySizesFacts {
  std::vector<KeySizes> databases;  // empty: nobody has asked
  bool is_complete = true;          // else the limit was met before all keys were looked at
};

// Looks at up to `keys_max` keys (0: at all), some of each shard at a time, so that commands run
// in between. From a fiber. Suspends.
KeySizesFacts GatherKeySizes(CoordinatorContext& cx, uint64_t keys_max);

}  // namespace dfly
