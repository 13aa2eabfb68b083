// SPDX-License-Identifier: Apache-2.0
// Histograms of commands, of all threads together.
#pragma once

#include <cstdint>
#include <vector>

#include "commands/table/command_table.h"
#include "server/meters/latency_histogram.h"

namespace dfly {

struct ServerState;

struct CommandLatency {
  const Command* command = nullptr;
  LatencyHistogram histogram;  // of samples, by weight: about as many as there were calls
  uint64_t calls = 0;
};

// Of those that were called. From a fiber. Suspends.
std::vector<CommandLatency> GatherHistograms(ServerState& server,
                                             const std::vector<const Command*>& wanted);

}  // namespace dfly
