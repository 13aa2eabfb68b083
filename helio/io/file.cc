// SPDX-License-Identifier: Apache-2.0
#include "helio/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "helio/base/logging.h"
#include "helio/fibers/sync.h"
#include "helio/io/blocking_pool.h"
#include "helio/proactor/uring_proactor.h"

namespace helio {

namespace {

// The most that one operation moves. Linux stops at 2^31 - 4096 bytes anyway, and an operation's
// length has 32 bits; a multiple of every block size keeps O_DIRECT happy.
constexpr size_t kTransferMax = size_t{1} << 30;

std::error_code ErrorOf(int64_t result) {
  return result >= 0 ? std::error_code()
                     : std::error_code(static_cast<int>(-result), std::generic_category());
}

struct AwaitedOp : UringOp {
  AwaitedOp()
      : UringOp([](UringOp* op, int completed, uint32_t) {
          auto* self = static_cast<AwaitedOp*>(op);
          self->result = completed;
          self->done.Done();
        }) {}
  int result = 0;
  BlockingCounter done{1};
};

// Does one operation and returns its result, or minus an errno: by `prepare(sqe)` on io_uring, else
// by `call()`, a system call that sets errno, on a helper thread. Suspends.
template <typename Prepare, typename Call>
int64_t PerformOnce(Prepare prepare, Call call) {
  DCHECK(Scheduler::CurrentFiber() != nullptr) << "files are for fibers";
  Proactor* proactor = Proactor::Current();
  if (proactor != nullptr && proactor->engine() == Proactor::Engine::kIoUring) {
    AwaitedOp op;
    io_uring_sqe* sqe = static_cast<UringProactor*>(proactor)->GetSqe();
    prepare(sqe);
    io_uring_sqe_set_data(sqe, static_cast<UringOp*>(&op));
    const BoundedWait wait(kSystemCall);
    op.done.Wait();
    return op.result;
  }
  int64_t result = 0;
  const bool ran = RunBlocking([&] {
    result = call();
    if (result < 0) result = -errno;
  });
  return ran ? result : -EAGAIN;
}

template <typename Prepare, typename Call>
int64_t Perform(Prepare prepare, Call call) {
  while (true) {
    const int64_t result = PerformOnce(prepare, call);
    if (result != -EINTR) return result;
  }
}

}  // namespace

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  DCHECK(!is_open());
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

File::~File() {
  if (is_open()) close(fd_);
}

std::error_code File::Open(const std::string& path, int flags, mode_t mode) {
  DCHECK(!is_open());
  flags |= O_CLOEXEC;
  const int64_t result = Perform(
      [&](io_uring_sqe* sqe) { io_uring_prep_openat(sqe, AT_FDCWD, path.c_str(), flags, mode); },
      [&] { return open(path.c_str(), flags, mode); });
  if (result >= 0) fd_ = static_cast<int>(result);
  return ErrorOf(result);
}

std::error_code File::ReadAt(uint64_t offset, char* out, size_t size, size_t* read) const {
  *read = 0;
  while (*read < size) {
    char* const to = out + *read;
    const size_t count = std::min(size - *read, kTransferMax);
    const uint64_t from = offset + *read;
    const int64_t result = Perform(
        [&](io_uring_sqe* sqe) {
          io_uring_prep_read(sqe, fd_, to, static_cast<unsigned>(count), from);
        },
        [&] { return pread(fd_, to, count, static_cast<off_t>(from)); });
    if (result <= 0) return ErrorOf(result);
    *read += static_cast<size_t>(result);
  }
  return {};
}

std::error_code File::WriteAt(uint64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kTransferMax);
    const int64_t result = Perform(
        [&](io_uring_sqe* sqe) {
          io_uring_prep_write(sqe, fd_, bytes.data(), static_cast<unsigned>(count), offset);
        },
        [&] { return pwrite(fd_, bytes.data(), count, static_cast<off_t>(offset)); });
    if (result < 0) return ErrorOf(result);
    if (result == 0) return ErrorOf(-EIO);  // a device that takes nothing would keep us for ever
    bytes.remove_prefix(static_cast<size_t>(result));
    offset += static_cast<uint64_t>(result);
  }
  return {};
}

std::error_code File::Sync(bool data_only) const {
  return ErrorOf(Perform(
      [&](io_uring_sqe* sqe) {
        io_uring_prep_fsync(sqe, fd_, data_only ? IORING_FSYNC_DATASYNC : 0);
      },
      [&] { return data_only ? fdatasync(fd_) : fsync(fd_); }));
}

std::error_code File::Size(uint64_t* bytes) const {
  struct statx status {};
  const int64_t result = Perform(
      [&](io_uring_sqe* sqe) {
        io_uring_prep_statx(sqe, fd_, "", AT_EMPTY_PATH, STATX_SIZE, &status);
      },
      [&] { return statx(fd_, "", AT_EMPTY_PATH, STATX_SIZE, &status); });
  if (result >= 0) *bytes = status.stx_size;
  return ErrorOf(result);
}

std::error_code File::Close() {
  if (!is_open()) return {};
  // Once only, whatever comes back: Linux has let go of the descriptor even after EINTR, and the
  // number may already be somebody else's.
  const int fd = std::exchange(fd_, -1);
  const int64_t result = PerformOnce([&](io_uring_sqe* sqe) { io_uring_prep_close(sqe, fd); },
                                     [&] { return close(fd); });
  if (result == -EINTR) return {};
  // There was no helper to do it; close() itself never says EAGAIN.
  if (result == -EAGAIN) return ErrorOf(close(fd) == 0 ? 0 : -errno);
  return ErrorOf(result);
}

}  // namespace helio
