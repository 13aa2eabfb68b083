// SPDX-License-Identifier: Apache-2.0
// The event loop on epoll: for kernels and sandboxes that do not allow io_uring.
#pragma once

#include "helio/proactor/proactor.h"

namespace helio {

// Whoever watches a descriptor. It must live until the end of the iteration in which it was
// unwatched.
struct EpollWatcher {
  // A brief. `events` are EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDHUP.
  using ReadyFn = void (*)(EpollWatcher*, uint32_t events);

  explicit EpollWatcher(ReadyFn fn) : ready(fn) {}
  ReadyFn ready;
};

class EpollProactor final : public Proactor {
 public:
  explicit EpollProactor(const Options& options);
  ~EpollProactor() override;

  Engine engine() const override { return Engine::kEpoll; }

  // Level triggered. `events` may be 0 for Watch and Rewatch: then only errors are told. Watch
  // returns false if the kernel has no room for one more (a limit of the system, or memory).
  [[nodiscard]] bool Watch(int fd, EpollWatcher* watcher, uint32_t events);
  void Rewatch(int fd, EpollWatcher* watcher, uint32_t events);
  void Unwatch(int fd);

  // Room that sockets of this loop receive into, one after the other.
  static constexpr size_t kReadBufferSize = 64 * 1024;
  char* read_buffer() { return read_buffer_.get(); }

 protected:
  void Poll(uint64_t timeout_ns) override;
  void WakeFromOtherThread() override;

 private:
  int epoll_fd_;
  int wake_fd_;
  EpollWatcher wake_watcher_;
  std::unique_ptr<char[]> read_buffer_;
};

}  // namespace helio
