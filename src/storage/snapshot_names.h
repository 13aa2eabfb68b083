// SPDX-License-Identifier: Apache-2.0
// The names of a snapshot's files.
//
//   RDB    name.rdb
//   ours   name-summary.dfs, and for each shard name-<generation>-<number>.dfs, which are of that
//          snapshot only if the summary says so
//
// --dbfilename is a name; one that ends in .rdb asks for RDB. In it {timestamp} stands for the time
// of the snapshot, in UTC and such that a later one sorts behind an earlier one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

enum class SnapshotFormat : uint8_t { kOurs, kRdb };

struct SnapshotPath {
  std::string directory;  // "" is the current one
  std::string name;       // without ending
  SnapshotFormat format = SnapshotFormat::kOurs;

  std::string Join(std::string_view file) const;
  // The file that makes the snapshot valid: the summary, or the RDB file.
  std::string Main() const;
  std::string ShardFile(uint64_t generation, uint32_t number) const;
  std::string Temporary(uint64_t generation) const;  // of Main()
};

// An empty name: why `dbfilename` is none. Empty: it is one.
std::string CheckDbFileName(std::string_view dbfilename);
// The same of a snapshot that a client names: besides, it has no special characters, and does not
// begin with a dot.
std::string CheckSnapshotName(std::string_view name);
// The format that it asks for.
SnapshotFormat FormatOf(std::string_view dbfilename);
// Its name at that time, in Unix milliseconds, without an ending.
std::string NameAt(std::string_view dbfilename, int64_t now_ms);
// Is `file`, in the snapshot's directory, the main one of a snapshot of that `dbfilename`?
std::optional<SnapshotPath> SnapshotOf(std::string_view dbfilename, std::string_view directory,
                                       std::string_view file);
// Is `file` a part of one of that name and format, but not the main one, and of which generation?
// Also of one of either format that was not finished.
std::optional<uint64_t> GenerationOf(const SnapshotPath& path, std::string_view file);

}  // namespace dfly
