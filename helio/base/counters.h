// SPDX-License-Identifier: Apache-2.0
// Structs of numbers that threads keep apart and that somebody puts together:
//
//   struct PipeStats {
//     uint64_t drops = 0;
//     uint64_t longest = 0;
//     static constexpr CounterOf<PipeStats> kCounters[] = {&PipeStats::drops,
//                                                          {&PipeStats::longest, Merge::kMax}};
//   };
//   static_assert(ListsAll<PipeStats>());
//
//   AddCounters(&sum, of_one_thread);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace helio {

// What the numbers of two threads are together.
enum class Merge : uint8_t {
  kSum,
  kMax,
  kSame,  // all threads have the same
};

// One number of T, which may be incomplete where this stands.
template <typename T>
struct CounterOf {
  // Not explicit, so that a list of counters is a list of members.
  constexpr CounterOf(uint64_t T::*its_whole, Merge its_merge = Merge::kSum)
      : whole(its_whole), merge(its_merge) {}
  constexpr CounterOf(double T::*its_real, Merge its_merge = Merge::kSum)
      : real(its_real), merge(its_merge) {}

  uint64_t T::*whole = nullptr;  // one of the two
  double T::*real = nullptr;
  Merge merge;
};

template <typename Number>
constexpr void MergeNumber(Merge merge, Number* sum, Number part) {
  switch (merge) {
    case Merge::kSum:
      *sum += part;
      return;
    case Merge::kMax:
      *sum = std::max(*sum, part);
      return;
    case Merge::kSame:
      *sum = part;
  }
}

// Not inlined: there, g++ 12 believes that the pointer which a counter does not have is used.
template <typename T>
[[gnu::noinline]] void AddCounters(T* sum, const T& part) {
  for (const CounterOf<T>& counter : T::kCounters) {
    if (counter.whole != nullptr) {
      MergeNumber(counter.merge, &(sum->*counter.whole), part.*counter.whole);
    } else {
      MergeNumber(counter.merge, &(sum->*counter.real), part.*counter.real);
    }
  }
}

// kCounters has each number of T once. `other_bytes`: the size of T's members that are none.
template <typename T>
constexpr bool ListsAll(size_t other_bytes = 0) {
  constexpr size_t kCount = std::size(T::kCounters);
  static_assert(sizeof(uint64_t) == sizeof(double));
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t k = 0; k < i; ++k) {
      const CounterOf<T>& a = T::kCounters[i];
      const CounterOf<T>& b = T::kCounters[k];
      if (a.whole == b.whole && a.real == b.real) return false;
    }
  }
  return sizeof(T) == kCount * sizeof(uint64_t) + other_bytes;
}

}  // namespace helio
