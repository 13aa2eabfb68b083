// SPDX-License-Identifier: Apache-2.0
// How fast and how small is DashTable next to the usual hash tables?
//
// 1,000,000 keys of 16 bytes, values of 32 bytes, same hash function; Xeon (2 virtual cores,
// shared), Debian 12, g++ 12, November 2026, medians of some runs:
//
//                            DashTable   absl::flat_hash_map   std::unordered_map
//   hit, ns                        145                    90                  135
//   hit in batches of 16, ns        70                     -                    -
//   miss, ns                        60                    38                  165
//   insert with growth, ns         400                   450                  600
//   bytes/entry, all included  70 - 72                     -                    -
//   bytes/entry, table only    38 - 40                     -                    -
//
// A single hit waits for two lines in turn, metadata and slot; absl's metadata of a million keys
// are in the second-level cache. Batches overlap the waiting.
#include <absl/container/flat_hash_map.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/table/compact_value.h"
#include "core/table/dash_table.h"
#include "core/text/hash.h"

namespace dfly {
namespace {

size_t KeyCount() { return std::getenv("DFLY_BENCH_SMALL") != nullptr ? 2000 : 1000000; }

const std::string kValue(32, 'v');

// 16 ASCII bytes, in random order.
const std::vector<std::string>& Keys(char prefix) {
  static std::unordered_map<char, std::vector<std::string>> all;
  std::vector<std::string>& keys = all[prefix];
  if (keys.empty()) {
    // Shuffled first, so that the keys lie in memory in the order of use.
    std::vector<size_t> numbers(KeyCount());
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(1));
    for (size_t number : numbers) {
      std::string digits = std::to_string(number);
      keys.push_back(prefix + std::string("ey:") + std::string(12 - digits.size(), '0') + digits);
    }
  }
  return keys;
}

// Keeps the read of a value's byte. A parameter of its own, since google-benchmark 1.8 deprecates
// references to const.
void ReadByte(char byte) { benchmark::DoNotOptimize(byte); }

struct Hasher {
  size_t operator()(std::string_view key) const { return HashKey(key); }
};

struct Dash {
  DashTable<CompactValue> table;
  size_t value_bytes = 0;
  void Insert(const std::string& key) {
    auto it = table.Insert(KeyProbe(key, HashKey(key)));
    it->value.SetString(kValue);
    value_bytes += it->value.HeapBytes();
  }
  bool Find(const std::string& key) const {
    auto it = table.Find(KeyProbe(key, HashKey(key)));
    if (!it) return false;
    char scratch[CompactValue::kScratchSize];
    ReadByte(it->value.View(scratch)[0]);
    return true;
  }
  double bytes() const { return static_cast<double>(table.bytes() + value_bytes); }
};

template <typename Map>
struct Standard {
  Map map;
  void Insert(const std::string& key) { map.emplace(key, kValue); }
  bool Find(const std::string& key) const {
    auto it = map.find(key);
    if (it == map.end()) return false;
    ReadByte(it->second[0]);
    return true;
  }
};
using Absl = Standard<absl::flat_hash_map<std::string, std::string, Hasher>>;
using Std = Standard<std::unordered_map<std::string, std::string, Hasher>>;

template <typename Map>
void Lookup(benchmark::State& state, char prefix) {
  Map map;
  for (const std::string& key : Keys('k')) map.Insert(key);
  const std::vector<std::string>& keys = Keys(prefix);
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(map.Find(keys[at]));
    if (++at == keys.size()) at = 0;
  }
  if constexpr (requires { map.bytes(); }) {
    state.counters["bytes/entry"] = map.bytes() / static_cast<double>(keys.size());
  }
}

template <typename Map>
void Hit(benchmark::State& state) {
  Lookup<Map>(state, 'k');
}
template <typename Map>
void Miss(benchmark::State& state) {
  Lookup<Map>(state, 'm');
}

template <typename Map>
void InsertAll(benchmark::State& state) {
  for (auto _ : state) {
    Map map;
    for (const std::string& key : Keys('k')) map.Insert(key);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(KeyCount()));
}

// As a batch of a pipeline does: stages of prefetching, then the look-ups.
void HitInBatches(benchmark::State& state) {
  constexpr size_t kBatch = 16;
  Dash map;
  for (const std::string& key : Keys('k')) map.Insert(key);
  const std::vector<std::string>& keys = Keys('k');
  size_t at = 0;
  uint64_t hashes[kBatch];
  for (auto _ : state) {
    if (at + kBatch > keys.size()) at = 0;
    for (size_t i = 0; i < kBatch; ++i) {
      hashes[i] = HashKey(keys[at + i]);
    }
    for (FetchStage stage : kFetchStages) {
      for (uint64_t hash : hashes) map.table.Prefetch(stage, hash);
    }
    for (size_t i = 0; i < kBatch; ++i) {
      auto it = map.table.Find(KeyProbe(keys[at + i], hashes[i]));
      char scratch[CompactValue::kScratchSize];
      ReadByte(it->value.View(scratch)[0]);
    }
    at += kBatch;
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

// The load of the table over a range of sizes: the worst is what memory budgets have to assume.
void BytesPerEntry(benchmark::State& state) {
  double worst = 0;
  double best = 1e9;
  for (auto _ : state) {
    DashTable<CompactValue> table;
    const size_t count = KeyCount();
    for (size_t i = 0; i < count; ++i) {
      const std::string& key = Keys('k')[i];
      table.Insert(KeyProbe(key, HashKey(key)));
      if (i > count / 2 && i % 100 == 0) {
        double bytes = static_cast<double>(table.bytes()) / static_cast<double>(table.size());
        worst = std::max(worst, bytes);
        best = std::min(best, bytes);
      }
    }
  }
  state.counters["worst"] = worst;
  state.counters["best"] = best;
}

BENCHMARK_TEMPLATE(Hit, Dash);
BENCHMARK(HitInBatches);
BENCHMARK_TEMPLATE(Hit, Absl);
BENCHMARK_TEMPLATE(Hit, Std);
BENCHMARK_TEMPLATE(Miss, Dash);
BENCHMARK_TEMPLATE(Miss, Absl);
BENCHMARK_TEMPLATE(Miss, Std);
BENCHMARK_TEMPLATE(InsertAll, Dash)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(InsertAll, Absl)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(InsertAll, Std)->Unit(benchmark::kMillisecond);
BENCHMARK(BytesPerEntry)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dfly

BENCHMARK_MAIN();
