// SPDX-License-Identifier: Apache-2.0
#include "server/info/latency_report.h"

#include <algorithm>
#include <utility>

#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"

namespace dfly {

std::vector<CommandLatency> GatherHistograms(ServerState& server,
                                             const std::vector<const Command*>& wanted) {
  std::vector<std::vector<CommandLatency>> parts(server.pool.size());
  AwaitOnAll<WorkerState>(server, [&](WorkerState& worker) {
    std::vector<CommandLatency>& part = parts[worker.index()];
    part.resize(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const LatencyHistogram* const histogram = worker.timer.histogram(wanted[i]->id);
      if (histogram == nullptr) continue;
      part[i].histogram = *histogram;
      part[i].calls = worker.stats.commands[wanted[i]->id].calls;
    }
  });
  std::vector<CommandLatency> found;
  for (size_t i = 0; i < wanted.size(); ++i) {
    CommandLatency sum;
    sum.command = wanted[i];
    for (const auto& part : parts) {
      sum.histogram.Merge(part[i].histogram);
      sum.calls += part[i].calls;
    }
    // A sample counts for calls that may not have come yet; calls that came while nobody counted
    // are none of these.
    const uint64_t weight = sum.histogram.count();
    sum.calls = std::min(sum.calls, weight);
    if (weight != 0) found.push_back(std::move(sum));
  }
  return found;
}

}  // namespace dfly
