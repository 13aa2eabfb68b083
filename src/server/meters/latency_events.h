// SPDX-License-Identifier: Apache-2.0
// LATENCY LATEST and its like: moments at which the server was slow, by kind ("event").
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace dfly {

enum class LatencyEvent : uint8_t {
  kCommand,
  kFastCommand,     // one whose row says that it is fast
  kExpireCycle,     // a slice of the expiry's work
  kEvictionCycle,   // a slice of the eviction's
  kDefragCycle,     // a slice of the defragmenter's
  kEventLoop,       // an iteration of a thread's loop, whatever it did
  kLogWrite,        // a write to the append-only log
  kLogPendingSync,  // the same, while it was being synced
  kLogSyncAlways,   // a write and its sync, with appendfsync always
};
constexpr size_t kLatencyEvents = 9;
std::string_view NameOf(LatencyEvent event);
// How many there are if it is no event's name.
size_t LatencyEventOf(std::string_view name);

struct LatencySample {
  int64_t time_s;
  uint32_t ms;
};

// The samples of one event: one for a second at most, the worst.
struct LatencySeries {
  static constexpr size_t kSamplesMax = 160;  // as in Redis

  std::deque<LatencySample> samples;
  uint32_t max_ms = 0;

  void Add(int64_t time_s, uint32_t ms);
  // Of another thread.
  void Merge(const LatencySeries& other);
  void Clear() { *this = LatencySeries(); }
};

// Owner: one worker.
class LatencyEvents {
 public:
  void Add(LatencyEvent event, int64_t time_s, uint32_t ms) {
    series_[static_cast<size_t>(event)].Add(time_s, ms);
  }
  LatencySeries& series(size_t event) { return series_[event]; }

 private:
  std::array<LatencySeries, kLatencyEvents> series_;
};

}  // namespace dfly
