// SPDX-License-Identifier: Apache-2.0
// The event loop on io_uring. Sources: Axboe, "Efficient IO with io_uring" (2019); the manual pages
// of liburing.
//
// Needs kernel 5.19 (rings of provided buffers, multishot accept); uses SINGLE_ISSUER and
// DEFER_TASKRUN (6.1) and multishot receive (6.0) where they exist. Older kernels get the epoll
// loop.
#pragma once

#include <liburing.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "helio/base/cycle_clock.h"
#include "helio/proactor/proactor.h"

namespace helio {

// One operation in the kernel's hands. It must live, at this address, until its last completion.
struct UringOp {
  // A brief. `flags` are the completion's IORING_CQE_F_*.
  using CompleteFn = void (*)(UringOp*, int result, uint32_t flags);

  explicit UringOp(CompleteFn fn) : complete(fn) {}
  CompleteFn complete;
};

class UringProactor final : public Proactor {
 public:
  // Null, with the reason, if the kernel refuses io_uring or lacks what we need.
  static std::unique_ptr<UringProactor> TryCreate(const Options& options, std::string* why);
  ~UringProactor() override;

  Engine engine() const override { return Engine::kIoUring; }
  bool has_multishot_recv() const { return has_multishot_recv_; }

  // An entry to prepare and to give its UringOp (io_uring_sqe_set_data), which is submitted with
  // the iteration's others. Never null: a full queue is submitted at once.
  io_uring_sqe* GetSqe();
  // Two entries that are submitted by the same call, which is what a link between them needs.
  std::pair<io_uring_sqe*, io_uring_sqe*> GetSqePair();
  // Submits what is queued right away. For what others wait for: the iteration's sends, of which
  // each takes microseconds, would go before it. False: the kernel did not take all; the rest goes
  // with the iteration's others, and a link may be cut in two.
  bool SubmitNow();

  // The group of provided buffers that receives take theirs from.
  static constexpr uint16_t kBufferGroup = 0;
  // What is in one buffer is parsed where it is: values of some kilobytes should find room in it.
  static constexpr uint32_t kBufferSize = 32 * 1024;
  static constexpr uint32_t kBufferCount = 64;  // a power of two

  const char* buffer(uint32_t id) const { return buffers_ + static_cast<size_t>(id) * kBufferSize; }
  void ReturnBuffer(uint32_t id);

  // Turns. A receive that gets one buffer after the other, as of a long pipeline, would have the
  // thread for itself for as long as the data of all its buffers takes. Once it has used its turn
  // the socket postpones the others, and what is left of the one at hand. They are completed again
  // in later iterations, with kPostponed among their flags, in the order in which they came.
  static constexpr uint32_t kPostponed = 1u << 15;  // the kernel has no such flag
  // Of a completion of `receive`, none of which is postponed: may it be taken at once?
  bool IsInTurn(const UringOp* receive) {
    if (receive != turn_op_) {
      turn_op_ = receive;
      turn_ = 0;
      turn_end_ = 0;
    }
    // Few may have as long as they need: that saves a look at the clock.
    return (++turn_ < kSurelyInTurn && turn_end_ == 0) || IsTimeLeft();
  }
  // Whether the turn goes on in which a completion is taken; it begins with the first such look.
  bool IsTimeLeft();
  // `is_next`: before those that are postponed already.
  void Postpone(UringOp* receive, int result, uint32_t flags, bool is_next);

  size_t receive_buffer_bytes() const override { return size_t{kBufferCount} * kBufferSize; }
  size_t ResidentReceiveBuffers() const override;

 protected:
  void Poll(uint64_t timeout_ns) override;
  void WakeFromOtherThread() override;

 private:
  explicit UringProactor(const Options& options);

  // An empty string, or what went wrong.
  std::string Init();
  void ProbeMultishotRecv();
  void ArmWakePoll();
  // The kernel may say that it wants its completions taken first; then some entries stay queued.
  void TrySubmit();
  void RunCompletions();
  void RunPostponed();

  struct WakeOp : UringOp {
    using UringOp::UringOp;
    UringProactor* proactor = nullptr;
  };

  static constexpr uint32_t kSurelyInTurn = 2;
  static constexpr int64_t kTurnNanos = 250'000;
  struct Completion {
    UringOp* op;
    int result;
    uint32_t flags;
  };
  struct PostponedHook : LoopHook {
    using LoopHook::LoopHook;
    UringProactor* proactor = nullptr;
  };

  io_uring ring_{};
  bool ring_made_ = false;
  bool has_multishot_recv_ = false;
  int wake_fd_ = -1;
  WakeOp wake_op_;
  io_uring_buf_ring* buffer_ring_ = nullptr;
  size_t buffer_ring_bytes_ = 0;
  char* buffers_ = nullptr;
  const UringOp* turn_op_ = nullptr;  // whose completions come, one behind the other
  uint32_t turn_ = 0;                 // so many of them
  int64_t turn_end_ = 0;              // by CycleClock; 0: nobody has looked at the clock yet
  const int64_t turn_cycles_ = CycleClock::FromNanos(kTurnNanos);
  std::deque<Completion> postponed_;  // at most kBufferCount, and one without a buffer per receive
  PostponedHook postponed_hook_;      // queued as long as there are some: the loop must not sleep
};

}  // namespace helio
