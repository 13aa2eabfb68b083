// SPDX-License-Identifier: Apache-2.0
// The manifest of an append-only log: which files it has, in the grammar of Redis 7
// (shared/journal.md, section 4; tried with redis-check-aof 7.0).
//
//   # a comment: '#' is the first byte of the line
//   file appendonly.aof.2.base.rdb seq 2 type b
//   file appendonly.aof.3.incr.aof seq 3 type i startoffset 100
//
// The pairs of a line come in any order; names of pairs in any case. What other pairs say is
// forgotten, as by Redis 7. Names of files may be quoted as in redis.conf. Each line, comments too,
// ends with \n, or \r\n, and has 1,024 bytes at most.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

struct ManifestFile {
  std::string name;  // in the log's directory
  uint64_t seq = 0;  // > 0, rising among incrementals
  // Of an incremental, by Redis 8: where in the replication stream it begins, and ends.
  std::optional<int64_t> start_offset = {}, end_offset = {};

  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::optional<ManifestFile> base;
  std::vector<ManifestFile> incrementals;  // in the order in which they are loaded
  std::vector<ManifestFile> history;       // not of the log any more

  bool operator==(const Manifest&) const = default;
};

// Replaces `*manifest`. An empty text, or what is wrong and in which line.
[[nodiscard]] std::string ParseManifest(std::string_view text, Manifest* manifest);
// As Redis orders it: base, history, incrementals. Never empty.
std::string FormatManifest(const Manifest& manifest);

}  // namespace dfly
