// SPDX-License-Identifier: Apache-2.0
// The aux fields that tell of a snapshot as a whole: of the summary of our own format, and at the
// head of an RDB file.
#pragma once

#include <cstdint>
#include <string_view>

#include "storage/entry_writer.h"
#include "storage/snapshot_extras.h"

namespace dfly {

inline constexpr std::string_view kAuxShards = "dfly-shards";  // of how many shards it was made
// By which keys were hashed, as a decimal number; of our own format only. With the same seed keys
// come back to their shards, and in the order of their tables.
inline constexpr std::string_view kAuxHashSeed = "dfly-hash-seed";
inline constexpr std::string_view kAuxScript = "lua";  // as redis-server 5 and 6 write them
// SnapshotExtras::place, as redis-server writes it.
inline constexpr std::string_view kAuxStreamDb = "repl-stream-db";
inline constexpr std::string_view kAuxStreamId = "repl-id";
inline constexpr std::string_view kAuxStreamOffset = "repl-offset";
// In the header of the summary, where files of shards have their number.
inline constexpr uint32_t kSummaryNumber = UINT32_MAX;

void WriteExtras(const SnapshotExtras& extras, EntryWriter* writer);
// Takes an aux field that WriteExtras has written. False: it is another one, or makes no sense.
bool ReadExtra(std::string_view name, std::string_view text, SnapshotExtras* extras);

}  // namespace dfly
