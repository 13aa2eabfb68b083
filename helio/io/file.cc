// SPDX-License-Identifier: Apache-2.0
#include "helio/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
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

// Results of a write and of the sync behind it: as of the system calls, or minus an errno.
struct PairResult {
  int64_t written = 0;
  int64_t synced = -ECANCELED;  // so it is, too, if the write did less than all
};

struct LinkedOps {
  struct Op : UringOp {
    explicit Op(LinkedOps* pair)
        : UringOp([](UringOp* op, int completed, uint32_t) {
            auto* self = static_cast<Op*>(op);
            self->result = completed;
            self->ops->done.Done();
          }),
          ops(pair) {}
    LinkedOps* const ops;
    int result = 0;
  };
  Op write{this};
  Op sync{this};
  BlockingCounter done{2};
};

PairResult WriteLinkedSync(UringProactor* proactor, int fd, uint64_t offset,
                           std::span<const iovec> pieces) {
  LinkedOps ops;
  const auto [write, sync] = proactor->GetSqePair();
  io_uring_prep_writev(write, fd, pieces.data(), static_cast<unsigned>(pieces.size()), offset);
  write->flags |= IOSQE_IO_LINK;
  io_uring_sqe_set_data(write, static_cast<UringOp*>(&ops.write));
  io_uring_prep_fsync(sync, fd, IORING_FSYNC_DATASYNC);
  io_uring_sqe_set_data(sync, static_cast<UringOp*>(&ops.sync));
  const bool is_linked = proactor->SubmitNow();
  const BoundedWait wait(kSystemCall);
  ops.done.Wait();
  // A sync that was not linked may have begun before the write: it counts only if it failed.
  const int synced = !is_linked && ops.sync.result >= 0 ? -ECANCELED : ops.sync.result;
  return {.written = ops.write.result, .synced = synced};
}

PairResult WriteOnly(UringProactor* proactor, int fd, uint64_t offset,
                     std::span<const iovec> pieces) {
  AwaitedOp op;
  io_uring_sqe* const sqe = proactor->GetSqe();
  io_uring_prep_writev(sqe, fd, pieces.data(), static_cast<unsigned>(pieces.size()), offset);
  io_uring_sqe_set_data(sqe, static_cast<UringOp*>(&op));
  proactor->SubmitNow();
  const BoundedWait wait(kSystemCall);
  op.done.Wait();
  return {.written = op.result};
}

PairResult WriteOnHelper(int fd, uint64_t offset, std::span<const iovec> pieces, bool sync) {
  size_t size = 0;
  for (const iovec& piece : pieces) size += piece.iov_len;
  PairResult result;
  const bool ran = RunBlocking([&] {
    result.written =
        pwritev(fd, pieces.data(), static_cast<int>(pieces.size()), static_cast<off_t>(offset));
    if (result.written < 0) result.written = -errno;
    if (!sync || result.written != static_cast<int64_t>(size)) return;
    result.synced = fdatasync(fd) == 0 ? 0 : -errno;
  });
  return ran ? result : PairResult{.written = -EAGAIN};
}

// One try, which may do less than all.
PairResult WritePieces(int fd, uint64_t offset, std::span<const iovec> pieces, bool sync) {
  DCHECK(Scheduler::CurrentFiber() != nullptr) << "files are for fibers";
  Proactor* const proactor = Proactor::Current();
  if (proactor == nullptr || proactor->engine() != Proactor::Engine::kIoUring) {
    return WriteOnHelper(fd, offset, pieces, sync);
  }
  auto* const uring = static_cast<UringProactor*>(proactor);
  return sync ? WriteLinkedSync(uring, fd, offset, pieces) : WriteOnly(uring, fd, offset, pieces);
}

// `pieces` without their first `count` bytes, and without empty ones in front.
std::span<iovec> Behind(std::span<iovec> pieces, size_t count) {
  while (!pieces.empty() && pieces.front().iov_len <= count) {
    count -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (count > 0) {
    pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + count;
    pieces.front().iov_len -= count;
  }
  return pieces;
}

template <typename Prepare, typename Call>
int64_t Perform(Prepare prepare, Call call) {
  while (true) {
    const int64_t result = PerformOnce(prepare, call);
    if (result != -EINTR) return result;
  }
}

}  // namespace

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), is_direct_(other.is_direct_) {}

File& File::operator=(File&& other) noexcept {
  DCHECK(!is_open());
  fd_ = std::exchange(other.fd_, -1);
  is_direct_ = other.is_direct_;
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
  if (result == -EINVAL && (flags & O_DIRECT) != 0) return Open(path, flags & ~O_DIRECT, mode);
  if (result < 0) return ErrorOf(result);
  fd_ = static_cast<int>(result);
  is_direct_ = (flags & O_DIRECT) != 0;
  return {};
}

bool File::ShouldTryCached(int64_t result, bool* is_again) const {
  if (result != -EINVAL || !is_direct_ || *is_again) return false;
  *is_again = true;
  const int flags = fcntl(fd_, F_GETFL);
  return flags >= 0 && fcntl(fd_, F_SETFL, flags & ~O_DIRECT) == 0;
}

std::error_code File::ReadAt(uint64_t offset, char* out, size_t size, size_t* read) const {
  *read = 0;
  bool is_again = false;
  while (*read < size) {
    char* const to = out + *read;
    const size_t count = std::min(size - *read, kTransferMax);
    const uint64_t from = offset + *read;
    const int64_t result = Perform(
        [&](io_uring_sqe* sqe) {
          io_uring_prep_read(sqe, fd_, to, static_cast<unsigned>(count), from);
        },
        [&] { return pread(fd_, to, count, static_cast<off_t>(from)); });
    if (ShouldTryCached(result, &is_again)) continue;
    if (result <= 0) return ErrorOf(result);
    *read += static_cast<size_t>(result);
  }
  return {};
}

std::error_code File::WriteAt(uint64_t offset, std::string_view bytes) const {
  bool is_again = false;
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kTransferMax);
    const int64_t result = Perform(
        [&](io_uring_sqe* sqe) {
          io_uring_prep_write(sqe, fd_, bytes.data(), static_cast<unsigned>(count), offset);
        },
        [&] { return pwrite(fd_, bytes.data(), count, static_cast<off_t>(offset)); });
    if (ShouldTryCached(result, &is_again)) continue;
    if (result < 0) return ErrorOf(result);
    if (result == 0) return ErrorOf(-EIO);  // a device that takes nothing would keep us for ever
    bytes.remove_prefix(static_cast<size_t>(result));
    offset += static_cast<uint64_t>(result);
  }
  return {};
}

File::WriteResult File::WriteAndSync(uint64_t offset, std::span<iovec> pieces, bool sync) const {
  pieces = Behind(pieces, 0);
  bool is_again = false;
  bool is_synced = false;
  while (!pieces.empty()) {
    const std::span<iovec> part = pieces.first(std::min<size_t>(pieces.size(), IOV_MAX));
    const PairResult result = WritePieces(fd_, offset, part, sync && part.size() == pieces.size());
    // A sync that failed is told first: a write can be done again, but it can not.
    if (result.synced < 0 && result.synced != -ECANCELED && result.synced != -EINTR) {
      return {.error = ErrorOf(result.synced), .sync_failed = true};
    }
    if (result.written == -EINTR || ShouldTryCached(result.written, &is_again)) continue;
    if (result.written < 0) return {.error = ErrorOf(result.written)};
    if (result.written == 0) return {.error = ErrorOf(-EIO)};  // as in WriteAt
    pieces = Behind(pieces, static_cast<size_t>(result.written));
    offset += static_cast<uint64_t>(result.written);
    is_synced = result.synced >= 0;
  }
  if (!sync || is_synced) return {};
  const std::error_code error = Sync(true);
  return {.error = error, .sync_failed = static_cast<bool>(error)};
}

std::error_code File::Truncate(uint64_t size) const {
  int error = 0;
  const bool ran =
      RunBlocking([&] { error = ftruncate(fd_, static_cast<off_t>(size)) == 0 ? 0 : -errno; });
  return ErrorOf(ran ? error : -EAGAIN);
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
