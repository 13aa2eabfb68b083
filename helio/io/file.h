// SPDX-License-Identifier: Apache-2.0
// Files that fibers read and write without ever blocking their thread.
//
// On io_uring each call is one operation (more for what a single one does not finish). On epoll,
// which knows nothing of files, one of at most two helper threads of the process makes the blocking
// call; they are started when they are first needed.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace helio {

// A regular file, or a device that is read and written by offset.
//
// Owner:    whoever holds it. Fibers of any thread may call the const methods at once.
// Suspends: every method but the accessors, so all are for fibers. The loop goes on meanwhile, and
//           buffers must stay where they are until the call returns.
// Errors:   errno values of the generic category. What was done before an error stays done.
class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  // REQUIRES: this is not open.
  File& operator=(File&& other) noexcept;
  // Closes what is still open, then blocking the thread and forgetting the error: call Close().
  ~File();

  // `flags` as for open(2): O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC ...; O_CLOEXEC is added.
  // O_DIRECT is a wish: a file system that has it not opens the file without. If a read or a write
  // is refused, because its place or its memory is not aligned, then it and all later ones go
  // through the page cache.
  // REQUIRES: this is not open.
  [[nodiscard]] std::error_code Open(const std::string& path, int flags, mode_t mode = 0644);

  // Fills [out, out + size) from `offset` on; `*read` is less than `size` only at the file's end.
  // On an error it says how many bytes had been read by then.
  [[nodiscard]] std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) const;
  // Writes all of `bytes`. With O_APPEND Linux ignores the offset.
  [[nodiscard]] std::error_code WriteAt(uint64_t offset, std::string_view bytes) const;
  struct WriteResult {
    std::error_code error;
    // The error is the sync's: the kernel may have dropped any bytes that were written since the
    // last one, and the next sync would not tell.
    bool sync_failed = false;
  };
  // Writes all `pieces`, one behind the other, from `offset` on; with `sync` they are on the device
  // afterwards, as by Sync(true). Changes `pieces`. On io_uring that is a write and a linked
  // sync, submitted at once: about 40 us less than one call after the other.
  [[nodiscard]] WriteResult WriteAndSync(uint64_t offset, std::span<iovec> pieces, bool sync) const;
  // Cuts the file, or lengthens it by a hole.
  [[nodiscard]] std::error_code Truncate(uint64_t size) const;
  // Returns when everything written is on the device; `data_only` leaves out times and the like.
  [[nodiscard]] std::error_code Sync(bool data_only) const;
  [[nodiscard]] std::error_code Size(uint64_t* bytes) const;

  // The file is closed afterwards, also on an error (a write that had been delayed failed).
  // No effect on one that is not open.
  [[nodiscard]] std::error_code Close();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  // A read or a write has ended with `result`. True: it may do better without O_DIRECT, which the
  // file has no longer. `*is_again` is the operation's own, and false before its first try.
  bool ShouldTryCached(int64_t result, bool* is_again) const;

  int fd_ = -1;
  bool is_direct_ = false;  // it was opened with O_DIRECT
};

}  // namespace helio
