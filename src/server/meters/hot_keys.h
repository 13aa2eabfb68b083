// SPDX-License-Identifier: Apache-2.0
// HOTKEYS: which keys cost the most time and the most bytes, of the commands that one thread has
// carried out since somebody asked for it.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/sketches/frequent_items.h"
#include "helio/base/cycle_clock.h"

namespace dfly {

// That this process has used.
struct CpuMillis {
  int64_t user = 0;
  int64_t system = 0;

  static CpuMillis Now() {
    const auto millis_of = [](const timeval& time) {
      return static_cast<int64_t>(time.tv_sec) * 1000 + time.tv_usec / 1000;
    };
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {millis_of(usage.ru_utime), millis_of(usage.ru_stime)};
  }
};

struct HotKeysPlan {
  bool by_time = false;
  bool by_bytes = false;
  uint32_t count = 10;         // keys that are told
  uint32_t sample_ratio = 1;   // one of so many uses of a key counts
  int64_t start_ms = 0;        // Unix time, as the next one
  int64_t end_ms = INT64_MAX;  // nothing counts from then on
  CpuMillis cpu_at_start = {};
};

// Owner: one worker; who asks merges those of all. Suspends: never.
// The counters are of FrequentItems, so they are a little too low if there are very many keys.
class HotKeys {
 public:
  static constexpr size_t kCounters = 4096;  // of each measure
  // Longer ones are not counted: each counter has the key.
  static constexpr size_t kKeyMax = 4096;

  explicit HotKeys(const HotKeysPlan& plan) : plan_(plan) {}

  const HotKeysPlan& plan() const { return plan_; }
  bool is_over(int64_t now_ms) const { return now_ms >= plan_.end_ms; }
  // Nothing counts any more. The first call counts.
  void End(int64_t now_ms, CpuMillis cpu) {
    if (cpu_at_end_) return;
    plan_.end_ms = std::min(plan_.end_ms, now_ms);
    cpu_at_end_ = cpu;
  }
  // Since the start, up to the end if there was one.
  CpuMillis cpu() const {
    const CpuMillis until = cpu_at_end_.value_or(CpuMillis::Now());
    return {until.user - plan_.cpu_at_start.user, until.system - plan_.cpu_at_start.system};
  }
  // A command is over that took `cycles` and `bytes`, with its reply.
  void AddCommand(int64_t cycles, uint64_t bytes) {
    cycles_ += static_cast<uint64_t>(cycles);
    bytes_ += bytes;
  }
  // Its part for one of its keys.
  void AddKey(std::string_view key, int64_t cycles, uint64_t bytes) {
    if (++uses_ % plan_.sample_ratio != 0 || key.size() > kKeyMax) return;
    if (plan_.by_time) by_cycles_.Add(key, static_cast<uint64_t>(cycles));
    if (plan_.by_bytes) by_bytes_.Add(key, bytes);
  }
  void Merge(const HotKeys& other) {
    cycles_ += other.cycles_;
    bytes_ += other.bytes_;
    by_cycles_.Merge(other.by_cycles_);
    by_bytes_.Merge(other.by_bytes_);
  }

  uint64_t micros() const { return MicrosOf(cycles_); }
  uint64_t bytes() const { return bytes_; }
  std::vector<FrequentItems::Item> TopByMicros() const {
    std::vector<FrequentItems::Item> items = by_cycles_.Top(plan_.count);
    for (FrequentItems::Item& item : items) item.count = MicrosOf(item.count);
    return items;
  }
  std::vector<FrequentItems::Item> TopByBytes() const { return by_bytes_.Top(plan_.count); }

 private:
  static uint64_t MicrosOf(uint64_t cycles) {
    return static_cast<uint64_t>(helio::CycleClock::ToMicros(static_cast<int64_t>(cycles)));
  }

  HotKeysPlan plan_;
  std::optional<CpuMillis> cpu_at_end_;
  uint64_t uses_ = 0;
  uint64_t cycles_ = 0;
  uint64_t bytes_ = 0;
  FrequentItems by_cycles_{kCounters};
  FrequentItems by_bytes_{kCounters};
};

}  // namespace dfly
