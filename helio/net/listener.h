// SPDX-License-Identifier: Apache-2.0
// Accepts connections on one listening socket.
#pragma once

#include <absl/functional/any_invocable.h>

#include <cstdint>
#include <memory>

#include "helio/proactor/proactor.h"

namespace helio {

// Owner:    the proactor it was opened on. Suspends: never.
// When the process has no descriptors left, accepting rests for 100 ms at a time (logged once) and
// goes on.
class Listener {
 public:
  // A brief that takes over a connected, non-blocking, close-on-exec descriptor.
  using AcceptFn = absl::AnyInvocable<void(int fd)>;

  // Takes over `fd`, a listening non-blocking socket.
  static std::unique_ptr<Listener> Open(Proactor* proactor, int fd, AcceptFn on_accept);
  virtual ~Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Stops accepting and closes the descriptor. Fiber only: suspends until the kernel has let go.
  // Once, before the destruction.
  virtual void Close() = 0;

  int fd() const { return fd_; }

 protected:
  Listener(Proactor* proactor, int fd, AcceptFn on_accept);

  // Takes an accept's result: a descriptor, or minus an errno. Returns false if accepting should
  // rest.
  bool Take(int result);
  virtual void Resume() = 0;

  struct RestTimer : Timer {
    using Timer::Timer;
    Listener* listener = nullptr;
  };

  Proactor* const proactor_;
  const int fd_;
  AcceptFn on_accept_;
  RestTimer rest_timer_;
};

}  // namespace helio
