// SPDX-License-Identifier: Apache-2.0
// What a snapshot has besides keys.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dfly {

// Where a stream of replication stands (server/replication/replication_ids.h).
struct StreamPlace {
  std::string id;
  uint64_t offset = 0;  // in bytes
  int db_index = 0;     // that is selected there

  bool operator==(const StreamPlace&) const = default;
};

struct SnapshotExtras {
  std::vector<std::string> functions;  // sources of libraries
  std::vector<std::string> scripts;    // sources
  // Tags and their shards, in the order in which they were placed (TagPlacement).
  std::vector<std::pair<std::string, uint32_t>> placements;
  // What the stream has up to there is in the keys. With an id: of a snapshot as a whole. Empty, or
  // a file of a Redis that had no stream: none.
  StreamPlace place = {};
};

}  // namespace dfly
