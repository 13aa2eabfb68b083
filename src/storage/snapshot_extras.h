// SPDX-License-Identifier: Apache-2.0
// What a snapshot has besides keys.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dfly {

struct SnapshotExtras {
  std::vector<std::string> functions;  // sources of libraries
  std::vector<std::string> scripts;    // sources
  // Tags and their shards, in the order in which they were placed (TagPlacement).
  std::vector<std::pair<std::string, uint32_t>> placements;
  int stream_db = 0;  // that the stream behind a copy of a primary has selected; only read
};

}  // namespace dfly
