// SPDX-License-Identifier: Apache-2.0
#include "helio/proactor/epoll_proactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "helio/base/logging.h"

namespace helio {

EpollProactor::EpollProactor(const Options& options)
    : Proactor(options),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      // Edge triggered and never read: each write is one more edge.
      wake_watcher_([](EpollWatcher*, uint32_t) {}),
      read_buffer_(new char[kReadBufferSize]) {
  PCHECK(epoll_fd_ >= 0 && wake_fd_ >= 0) << "cannot make an event loop";
  PCHECK(Watch(wake_fd_, &wake_watcher_, EPOLLIN | EPOLLET)) << "cannot make an event loop";
}

EpollProactor::~EpollProactor() {
  close(wake_fd_);
  close(epoll_fd_);
}

bool EpollProactor::Watch(int fd, EpollWatcher* watcher, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = watcher;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) return true;
  PCHECK(errno == ENOSPC || errno == ENOMEM) << "epoll_ctl";
  return false;
}

void EpollProactor::Rewatch(int fd, EpollWatcher* watcher, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = watcher;
  PCHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0);
}

void EpollProactor::Unwatch(int fd) {
  PCHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr) == 0);
}

void EpollProactor::WakeFromOtherThread() {
  const uint64_t one = 1;
  const ssize_t written = write(wake_fd_, &one, sizeof(one));
  DCHECK_EQ(written, static_cast<ssize_t>(sizeof(one)));
}

void EpollProactor::Poll(uint64_t timeout_ns) {
  int timeout_ms = -1;
  if (timeout_ns != TimerQueue::kNever) {
    timeout_ms = static_cast<int>(std::min<uint64_t>((timeout_ns + 999'999) / 1'000'000, INT_MAX));
  }
  epoll_event events[256];
  const int count = epoll_wait(epoll_fd_, events, static_cast<int>(std::size(events)), timeout_ms);
  EndSleep();
  PCHECK(count >= 0 || errno == EINTR) << "epoll_wait";
  for (int i = 0; i < count; ++i) {
    auto* watcher = static_cast<EpollWatcher*>(events[i].data.ptr);
    watcher->ready(watcher, events[i].events);
  }
  if (count > 0) stats_.completions += static_cast<uint64_t>(count);
}

}  // namespace helio
