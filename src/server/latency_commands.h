// SPDX-License-Identifier: Apache-2.0
// Histograms of commands, of all threads together.
#pragma once

#include <utility>
#include <vector>

#include "commands/command_table.h"
#include "server/latency_histogram.h"

namespace dfly {

class Server;

// Of those that were called. From a fiber. Suspends.
std::vector<std::pair<const Command*, LatencyHistogram>> GatherHistograms(
    Server& server, const std::vector<const Command*>& wanted);

}  // namespace dfly
