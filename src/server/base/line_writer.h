// SPDX-License-Identifier: Apache-2.0
// Lines for the end of a file, written by a thread of their own: a disk that is slow or full stops
// nobody else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "helio/base/spin_lock.h"
#include "helio/fibers/sync.h"

namespace dfly {

// Thread: any.
class LineWriter {
 public:
  // At most `buffered_max` bytes wait to be written. `what` it is, for the log.
  LineWriter(std::string path, size_t buffered_max, std::string what);
  // Writes what waits.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Opens the file and begins to write. Empty, or why not. Once, before the rest.
  [[nodiscard]] std::string Open();
  // `line` has no end. If too many wait, or the file cannot be written, it is dropped, and counted.
  void Write(std::string_view line);
  // Writes what waits, as far as that takes no longer; nothing may be written afterwards. False: a
  // write hangs, and so would the destructor. Blocks.
  [[nodiscard]] bool EndWithin(uint64_t millis);
  // Soon: who has renamed the file gets a new one of the old name.
  void Reopen();

  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  // Of the last write, or of the last Reopen.
  bool is_ok() const { return is_ok_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kTellNanos = 60'000'000'000;

  [[nodiscard]] std::string OpenFile();
  void Run();
  void WriteAll(std::string_view lines);
  // At most once a minute.
  void Tell(std::string_view why);
  void Wake();

  const std::string path_;
  const size_t buffered_max_;
  const std::string what_;
  helio::SpinLock lock_;
  std::string waiting_;             // guarded by lock_; has its room from the start
  std::atomic<uint32_t> wakes_{0};  // changes with each reason to look
  std::atomic<bool> must_reopen_{false};
  std::atomic<bool> must_end_{false};
  helio::Mutex end_mutex_;
  helio::CondVar ended_;
  bool has_ended_ = false;  // guarded by end_mutex_
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<bool> is_ok_{true};
  // Its thread only:
  int fd_ = -1;
  bool ends_within_line_ = false;
  uint64_t told_ns_ = 0;
  std::thread thread_;
};

}  // namespace dfly
