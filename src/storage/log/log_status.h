// SPDX-License-Identifier: Apache-2.0
// What the log's writer tells about itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace dfly {

// Written by the LogWriter, read by any thread: each number for itself.
struct LogStatus {
  std::atomic<int> write_errno{0};  // of the last try to write or to sync; 0: it was fine
  std::atomic<int> last_errno{0};   // of the last error
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> appends{0};
  std::atomic<uint64_t> appended_bytes{0};  // with annotations
  std::atomic<uint64_t> syncs{0};           // with kAlways they are appends, too
  std::atomic<uint64_t> sync_last_us{0};
  std::atomic<uint64_t> sync_max_us{0};
  std::atomic<uint64_t> syncs_delayed{0};  // took longer than a period of kEverySec
  std::atomic<uint64_t> new_files{0};
  std::atomic<uint64_t> files_given_up{0};  // after a sync that failed
  std::atomic<uint64_t> kept_bytes{0};      // in memory, as they are not on the device
  std::atomic<uint64_t> file_bytes{0};      // of the file that grows
  std::atomic<uint64_t> synced_epoch{0};    // all up to this one are on the device

  // With kNo a file has lost what nobody has kept. Only a new base mends the log; until then a
  // start may find it torn.
  std::atomic<bool> needs_base{false};

  bool is_ok() const { return write_errno.load(std::memory_order_relaxed) == 0; }
};

}  // namespace dfly
