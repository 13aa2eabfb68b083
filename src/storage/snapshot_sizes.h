// SPDX-License-Identifier: Apache-2.0
// How much of a snapshot of one shard is done, and waits, at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dfly {

// All in bytes.
struct SnapshotSizes {
  // Values from here on are written part by part. Two buckets of smaller ones are serialized at a
  // time: that makes a megabyte at most.
  size_t large = 32 * 1024;
  size_t flush = 64 * 1024;    // what goes to the output at a time
  size_t queued = 128 * 1024;  // the walk waits for the output when so much is serialized
  size_t slice = 16 * 1024;    // what is serialized before others have their turn: some 10 us
  // More than that, with what changes have added, is too much; see ShardSnapshot::OnBehind.
  size_t behind = SIZE_MAX;
  // After so much work the fiber rests twice as long: where threads that are busy are more than
  // the cores, the kernel lets others wait for milliseconds. 0: never.
  uint64_t work_ns = 0;
};

}  // namespace dfly
