// SPDX-License-Identifier: Apache-2.0
#include "helio/net/listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "helio/base/clock.h"
#include "helio/proactor/epoll_proactor.h"
#include "helio/proactor/uring_proactor.h"

namespace helio {

namespace {

constexpr uint64_t kRestNanos = 100'000'000;

class UringListener final : public Listener {
 public:
  UringListener(UringProactor* proactor, int fd, AcceptFn on_accept)
      : Listener(proactor, fd, std::move(on_accept)),
        op_([](UringOp* op, int result, uint32_t flags) {
          static_cast<Op*>(op)->listener->OnCompletion(result, flags);
        }) {
    op_.listener = this;
    Resume();
  }

  void Close() override {
    proactor_->timers().Disarm(&rest_timer_);
    closing_ = true;
    if (armed_) {
      io_uring_sqe* sqe = uring().GetSqe();
      io_uring_prep_cancel64(sqe, reinterpret_cast<uint64_t>(&op_), 0);
      io_uring_sqe_set_data(sqe, nullptr);
      const BoundedWait wait(kSystemCall);
      released_.Wait();
    }
    close(fd_);
  }

 private:
  struct Op : UringOp {
    using UringOp::UringOp;
    UringListener* listener = nullptr;
  };

  UringProactor& uring() { return *static_cast<UringProactor*>(proactor_); }

  void Resume() override {
    armed_ = true;
    io_uring_sqe* sqe = uring().GetSqe();
    io_uring_prep_multishot_accept(sqe, fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    io_uring_sqe_set_data(sqe, &op_);
  }

  void OnCompletion(int result, uint32_t flags) {
    armed_ = (flags & IORING_CQE_F_MORE) != 0;
    if (closing_) {
      if (result >= 0) close(result);
      if (!armed_) released_.Done();
      return;
    }
    const bool go_on = Take(result);
    if (armed_) return;
    if (go_on) {
      Resume();
    } else {
      proactor_->timers().Arm(&rest_timer_, MonotonicNanos() + kRestNanos);
    }
  }

  Op op_;
  bool armed_ = false;
  bool closing_ = false;
  BlockingCounter released_{1};
};

class EpollListener final : public Listener {
 public:
  EpollListener(EpollProactor* proactor, int fd, AcceptFn on_accept)
      : Listener(proactor, fd, std::move(on_accept)), watcher_([](EpollWatcher* watcher, uint32_t) {
          static_cast<Watcher*>(watcher)->listener->OnReady();
        }) {
    watcher_.listener = this;
    PCHECK(epoll().Watch(fd_, &watcher_, EPOLLIN)) << "cannot watch a listening socket";
  }

  void Close() override {
    proactor_->timers().Disarm(&rest_timer_);
    epoll().Unwatch(fd_);
    close(fd_);
    const BoundedWait wait(kItsTurn);
    this_fiber::Yield();  // events of this iteration may still name the watcher
  }

 private:
  struct Watcher : EpollWatcher {
    using EpollWatcher::EpollWatcher;
    EpollListener* listener = nullptr;
  };

  EpollProactor& epoll() { return *static_cast<EpollProactor*>(proactor_); }

  void Resume() override { epoll().Rewatch(fd_, &watcher_, EPOLLIN); }

  void OnReady() {
    // Level triggered: what is left over is told again, so a flood of connections does not starve
    // the loop.
    for (int i = 0; i < 64; ++i) {
      const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (!Take(fd < 0 ? -errno : fd)) {
        epoll().Rewatch(fd_, &watcher_, 0);
        proactor_->timers().Arm(&rest_timer_, MonotonicNanos() + kRestNanos);
        return;
      }
    }
  }

  Watcher watcher_;
};

}  // namespace

Listener::Listener(Proactor* proactor, int fd, AcceptFn on_accept)
    : proactor_(proactor),
      fd_(fd),
      on_accept_(std::move(on_accept)),
      rest_timer_([](Timer* timer) { static_cast<RestTimer*>(timer)->listener->Resume(); }) {
  rest_timer_.listener = this;
}

bool Listener::Take(int result) {
  if (result >= 0) {
    on_accept_(result);
    return true;
  }
  switch (-result) {
    // The peer was gone before we got to it; the next one may be fine. (accept(2) lists the
    // network's own errors.)
    case ECONNABORTED:
    case EINTR:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:
      return true;
    case EMFILE:
    case ENFILE:
      LOG_FIRST_N(ERROR, 1)
          << "cannot accept connections: " << strerror(-result)
          << ". They wait until others are closed; raise the limit of open files (ulimit -n)";
      return false;
    default:
      LOG_FIRST_N(ERROR, 1) << "cannot accept connections: " << strerror(-result)
                            << ". Trying again";
      return false;
  }
}

std::unique_ptr<Listener> Listener::Open(Proactor* proactor, int fd, AcceptFn on_accept) {
  if (proactor->engine() == Proactor::Engine::kIoUring) {
    return std::make_unique<UringListener>(static_cast<UringProactor*>(proactor), fd,
                                           std::move(on_accept));
  }
  return std::make_unique<EpollListener>(static_cast<EpollProactor*>(proactor), fd,
                                         std::move(on_accept));
}

}  // namespace helio
