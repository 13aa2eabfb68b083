// SPDX-License-Identifier: Apache-2.0
#include "server/meters/latency_events.h"

#include <algorithm>
#include <iterator>

#include "server/base/words.h"

namespace dfly {

namespace {

constexpr std::string_view kNames[kLatencyEvents] = {"command",
                                                     "fast-command",
                                                     "expire-cycle",
                                                     "eviction-cycle",
                                                     "active-defrag-cycle",
                                                     "event-loop",
                                                     "aof-write",
                                                     "aof-write-pending-fsync",
                                                     "aof-fsync-always"};

}  // namespace

std::string_view NameOf(LatencyEvent event) { return kNames[static_cast<size_t>(event)]; }

size_t LatencyEventOf(std::string_view name) {
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [name](std::string_view one) { return IsWord(name, one); });
  return static_cast<size_t>(found - std::begin(kNames));
}

void LatencySeries::Add(int64_t time_s, uint32_t ms) {
  max_ms = std::max(max_ms, ms);
  if (!samples.empty() && samples.back().time_s == time_s) {
    samples.back().ms = std::max(samples.back().ms, ms);
    return;
  }
  samples.push_back({time_s, ms});
  if (samples.size() > kSamplesMax) samples.pop_front();
}

void LatencySeries::Merge(const LatencySeries& other) {
  max_ms = std::max(max_ms, other.max_ms);
  std::deque<LatencySample> all;
  std::merge(samples.begin(), samples.end(), other.samples.begin(), other.samples.end(),
             std::back_inserter(all),
             [](const LatencySample& a, const LatencySample& b) { return a.time_s < b.time_s; });
  const uint32_t overall = max_ms;
  Clear();
  for (const LatencySample& sample : all) Add(sample.time_s, sample.ms);
  max_ms = overall;
}

}  // namespace dfly
