// SPDX-License-Identifier: Apache-2.0
#include "helio/proactor/uring_proactor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "helio/base/logging.h"
#include "helio/base/resident.h"
#include "helio/base/sanitizers.h"

namespace helio {

namespace {

constexpr unsigned kSubmissionEntries = 1024;
constexpr unsigned kCompletionEntries = 8192;

}  // namespace

std::unique_ptr<UringProactor> UringProactor::TryCreate(const Options& options, std::string* why) {
  std::unique_ptr<UringProactor> proactor(new UringProactor(options));
  *why = proactor->Init();
  if (!why->empty()) return nullptr;
  return proactor;
}

UringProactor::UringProactor(const Options& options)
    : Proactor(options),
      wake_op_([](UringOp* op, int result, uint32_t flags) {
        UringProactor* self = static_cast<WakeOp*>(op)->proactor;
        // The poll is edge triggered and the eventfd is never read: each write is one more edge.
        if ((flags & IORING_CQE_F_MORE) == 0 && result != -ECANCELED) self->ArmWakePoll();
      }),
      postponed_hook_([](LoopHook* hook) {
        UringProactor* self = static_cast<PostponedHook*>(hook)->proactor;
        if (!self->postponed_.empty()) self->AtIterationEnd(hook);
      }) {
  wake_op_.proactor = postponed_hook_.proactor = this;
}

std::string UringProactor::Init() {
  constexpr unsigned kFlagSets[] = {
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
          IORING_SETUP_SUBMIT_ALL,
      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
      0,
  };
  int error = 0;
  for (unsigned flags : kFlagSets) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = kCompletionEntries;
    error = io_uring_queue_init_params(kSubmissionEntries, &ring_, &params);
    ring_made_ = error == 0;
    if (error != -EINVAL) break;
  }
  if (error != 0) return fmt::format("io_uring_setup: {}", strerror(-error));
  UnpoisonMemory(ring_.sq.sqes, kSubmissionEntries * sizeof(io_uring_sqe));
  UnpoisonMemory(ring_.sq.ring_ptr, ring_.sq.ring_sz);
  UnpoisonMemory(ring_.cq.ring_ptr, ring_.cq.ring_sz);
  io_uring_register_ring_fd(&ring_);  // saves the descriptor's look-up in each call; works without

  buffer_ring_bytes_ = kBufferCount * sizeof(io_uring_buf);
  const size_t bytes = static_cast<size_t>(kBufferCount) * kBufferSize;
  void* block = mmap(nullptr, buffer_ring_bytes_ + bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return fmt::format("mmap: {}", strerror(errno));
  UnpoisonMemory(block, buffer_ring_bytes_ + bytes);
  buffer_ring_ = static_cast<io_uring_buf_ring*>(block);
  buffers_ = static_cast<char*>(block) + buffer_ring_bytes_;
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<uint64_t>(buffer_ring_);
  registration.ring_entries = kBufferCount;
  registration.bgid = kBufferGroup;
  error = io_uring_register_buf_ring(&ring_, &registration, 0);
  if (error != 0) return fmt::format("no rings of provided buffers: {}", strerror(-error));
  io_uring_buf_ring_init(buffer_ring_);
  for (uint32_t id = 0; id < kBufferCount; ++id) ReturnBuffer(id);

  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return fmt::format("eventfd: {}", strerror(errno));
  ProbeMultishotRecv();
  ArmWakePoll();
  return "";
}

// A kernel that lacks multishot receive answers EINVAL; one that has it says that there is nothing
// to receive from a closed peer.
void UringProactor::ProbeMultishotRecv() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
  close(pair[1]);
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  io_uring_prep_recv_multishot(sqe, pair[0], nullptr, 0, 0);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = kBufferGroup;
  io_uring_sqe_set_data64(sqe, 0);
  io_uring_cqe* cqe = nullptr;
  if (io_uring_submit_and_wait(&ring_, 1) >= 0 && io_uring_wait_cqe(&ring_, &cqe) == 0) {
    has_multishot_recv_ = cqe->res != -EINVAL;
    io_uring_cqe_seen(&ring_, cqe);
  }
  close(pair[0]);
}

UringProactor::~UringProactor() {
  if (ring_made_) io_uring_queue_exit(&ring_);
  if (buffer_ring_ != nullptr) {
    munmap(buffer_ring_, buffer_ring_bytes_ + static_cast<size_t>(kBufferCount) * kBufferSize);
  }
  if (wake_fd_ >= 0) close(wake_fd_);
}

io_uring_sqe* UringProactor::GetSqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    TrySubmit();
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

std::pair<io_uring_sqe*, io_uring_sqe*> UringProactor::GetSqePair() {
  while (io_uring_sq_space_left(&ring_) < 2) TrySubmit();
  io_uring_sqe* const first = io_uring_get_sqe(&ring_);
  return {first, io_uring_get_sqe(&ring_)};
}

bool UringProactor::SubmitNow() {
  TrySubmit();
  return io_uring_sq_ready(&ring_) == 0;
}

void UringProactor::TrySubmit() {
  const int submitted = io_uring_submit(&ring_);
  // EBUSY and EAGAIN: completions have to be taken from the kernel first.
  CHECK(submitted >= 0 || submitted == -EBUSY || submitted == -EAGAIN || submitted == -EINTR)
      << strerror(-submitted);
  if (submitted == -EBUSY) io_uring_get_events(&ring_);
}

void UringProactor::ReturnBuffer(uint32_t id) {
  io_uring_buf_ring_add(buffer_ring_, buffers_ + static_cast<size_t>(id) * kBufferSize, kBufferSize,
                        static_cast<uint16_t>(id), io_uring_buf_ring_mask(kBufferCount), 0);
  io_uring_buf_ring_advance(buffer_ring_, 1);
}

size_t UringProactor::ResidentReceiveBuffers() const {
  return ResidentBytes(buffer_ring_,
                       buffer_ring_bytes_ + static_cast<size_t>(kBufferCount) * kBufferSize);
}

void UringProactor::ArmWakePoll() {
  io_uring_sqe* sqe = GetSqe();
  io_uring_prep_poll_multishot(sqe, wake_fd_, POLLIN);
  io_uring_sqe_set_data(sqe, &wake_op_);
}

void UringProactor::WakeFromOtherThread() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_fd_, &one, sizeof(one));
  // EAGAIN: the counter is at its limit of 2^64 - 2, which no process lives to see.
  DCHECK_EQ(written, static_cast<ssize_t>(sizeof(one)));
}

void UringProactor::Poll(uint64_t timeout_ns) {
  int result;
  if (timeout_ns == 0) {
    if (io_uring_sq_ready(&ring_) > 0) {
      result = io_uring_submit_and_get_events(&ring_);
    } else if ((*ring_.sq.kflags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) {
      result = io_uring_get_events(&ring_);
    } else {
      result = 0;
    }
  } else if (timeout_ns == TimerQueue::kNever) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else {
    __kernel_timespec timeout{static_cast<int64_t>(timeout_ns / 1'000'000'000),
                              static_cast<long long>(timeout_ns % 1'000'000'000)};
    io_uring_cqe* cqe = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
  }
  EndSleep();
  CHECK(result >= 0 || result == -ETIME || result == -EINTR || result == -EBUSY ||
        result == -EAGAIN)
      << "io_uring_enter: " << strerror(-result);
  turn_op_ = nullptr;
  if (!postponed_.empty()) [[unlikely]]
    RunPostponed();
  RunCompletions();
}

void UringProactor::Postpone(UringOp* receive, int result, uint32_t flags, bool is_next) {
  const Completion completion = {receive, result, flags | kPostponed};
  if (is_next) {
    postponed_.push_front(completion);
  } else {
    postponed_.push_back(completion);
  }
  AtIterationEnd(&postponed_hook_);
}

bool UringProactor::IsTimeLeft() {
  const int64_t now = CycleClock::Now();
  if (turn_end_ == 0) turn_end_ = now + turn_cycles_;
  return now < turn_end_;
}

// One turn for all of them.
void UringProactor::RunPostponed() {
  turn_end_ = 0;
  IsTimeLeft();
  do {
    const Completion completion = postponed_.front();
    postponed_.pop_front();
    completion.op->complete(completion.op, completion.result, completion.flags);
  } while (!postponed_.empty() && IsTimeLeft());
  turn_end_ = 0;
}

void UringProactor::RunCompletions() {
  // What arrives meanwhile is taken too: the more an iteration has, the less each costs. But not
  // without end, for timers and messages wait; and not by io_uring_peek_cqe, which enters the
  // kernel without submitting: a socket with a long stream then fills the queue again and again,
  // and the cancellation of its receive is never seen.
  constexpr int kRoundsMax = 8;
  for (int round = 1;; ++round) {
    io_uring_cqe* cqe;
    unsigned head;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      auto* op = reinterpret_cast<UringOp*>(cqe->user_data);
      const int result = cqe->res;
      const uint32_t flags = cqe->flags;
      // The entry goes back first: `complete` may have to submit, and the kernel refuses that while
      // the queue is full.
      io_uring_cq_advance(&ring_, 1);
      ++stats_.completions;
      if (op != nullptr) op->complete(op, result, flags);
    }
    if (round == kRoundsMax) break;
    if ((*ring_.sq.kflags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) == 0) break;
    if (io_uring_submit_and_get_events(&ring_) < 0) break;  // the next Poll tells
  }
}

}  // namespace helio
