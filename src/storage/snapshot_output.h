// SPDX-License-Identifier: Apache-2.0
// Where the serialized keys of one shard go while a snapshot is written.
#pragma once

#include <string_view>

#include "helio/fibers/hold.h"

namespace dfly {

inline constexpr helio::WaitReason kSnapshotFile = {
    "a snapshot that is being written",
    "behind its cut it waits for the disk and its own fibers, none of which takes locks"};

// Owner:    who saves. Thread: that of the shard.
// Suspends: what says so; calls come one after another.
// Errors:   are kept by who owns it, not told here: what comes after one is thrown away.
class SnapshotOutput {
 public:
  virtual ~SnapshotOutput() = default;

  // Whole entries, beginning with their database. Suspends.
  virtual void WriteEntries(std::string_view bytes) = 0;

  // One entry in any number of parts, and nobody else's bytes between them. They suspend.
  virtual void BeginLarge() = 0;
  virtual void WritePart(std::string_view bytes) = 0;
  virtual void EndLarge() = 0;

  // Nothing more is written, so nobody need serialize it.
  virtual bool has_failed() const = 0;
};

}  // namespace dfly
