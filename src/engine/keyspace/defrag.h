// SPDX-License-Identifier: Apache-2.0
// Passes over the shards of one thread that move what lies in nearly empty pages of its heap, so
// that these pages can be returned to the system: see core/memory/heap_pages.h.
//
// A pass goes over tables by position, as SCAN does, so it may stop anywhere and keys may come and
// go meanwhile. Between two steps it holds no pointer into the data, and nobody else does, as
// handlers begin and end between steps. Only a snapshot refers to values while others run; a pass
// waits until it is over. What has moved has not changed: nobody hears of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/block_mover.h"
#include "core/memory/heap_pages.h"
#include "engine/keyspace/shard.h"
#include "helio/base/clock.h"
#include "helio/base/counters.h"

namespace dfly {

struct DefragStats {
  uint64_t passes = 0;      // that have begun
  uint64_t hits = 0;        // blocks that moved
  uint64_t misses = 0;      // that were looked at and stayed
  uint64_t key_hits = 0;    // buckets of keys of which something moved
  uint64_t key_misses = 0;  // and of which nothing did
  uint64_t work_ns = 0;     // what Step has taken, and the surveys
  uint64_t returns = 0;     // how often the memory between pages was returned

  static constexpr helio::CounterOf<DefragStats> kCounters[] = {
      &DefragStats::passes,     &DefragStats::hits,    &DefragStats::misses, &DefragStats::key_hits,
      &DefragStats::key_misses, &DefragStats::work_ns, &DefragStats::returns};
};
static_assert(helio::ListsAll<DefragStats>());

// Owner:    a thread whose shards these are; made anywhere, used and destroyed there.
// Suspends: never.
class Defragmenter {
 public:
  static constexpr size_t kAtOnce = 64 * 1024;  // bytes: some 10 us

  // Larger values come part by part.
  explicit Defragmenter(size_t at_once = kAtOnce) : at_once_(at_once) {}
  void AddShard(Shard* shard) { shards_.push_back(shard); }

  // Begins a pass. Of `survey` pages are emptied; none: everything moves, for tests.
  void Begin(std::optional<HeapSurvey> survey);
  bool is_running() const { return pass_.has_value(); }
  // Since when (MonotonicNanos); 0: it is not.
  uint64_t running_since_ns() const { return pass_ ? pass_->begun_ns : 0; }
  bool moves_all() const { return pass_ && !pass_->survey; }
  // A snapshot holds the pass up.
  bool must_wait() const;
  // Looks at about `budget` blocks. True: that was the end of the pass. REQUIRES: is_running(), not
  // must_wait().
  bool Step(size_t budget);
  // Gives up; what has moved stays where it is.
  void Stop();
  // The pages that the last pass was to empty.
  const SparsePages& last_pages() const { return last_pages_; }

  // With those of the pass that is running.
  DefragStats stats() const;
  DefragStats& mutable_stats() { return stats_; }
  void ResetStats();

 private:
  enum class Part : uint8_t { kKeys, kDeadlines, kMemberDeadlines };
  struct Pass {
    explicit Pass(std::optional<HeapSurvey> its_survey)
        : survey(std::move(its_survey)), mover(survey ? &survey->sparse : nullptr) {}

    const uint64_t begun_ns = helio::MonotonicNanos();
    std::optional<HeapSurvey> survey;
    BlockMover mover;
    DenseHeap heap;
    size_t shard = 0;
    int db = 0;
    Part part = Part::kKeys;
    uint32_t cursor = 0;
    std::vector<std::string> large;  // keys of this database whose values come part by part
    uint64_t large_cursor = 0;       // of the last of them
  };

  // Does the next piece of work. False: there is none left.
  bool Advance(Pass& pass);

  const size_t at_once_;
  std::vector<Shard*> shards_;
  std::optional<Pass> pass_;
  SparsePages last_pages_;
  DefragStats stats_;
};

}  // namespace dfly
