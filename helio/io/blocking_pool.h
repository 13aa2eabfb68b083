// SPDX-License-Identifier: Apache-2.0
// Helper threads for system calls that block, for loops that have no other way (epoll and files).
#pragma once

#include <atomic>

#include "helio/fibers/sync.h"

namespace helio {

namespace blocking_pool_internal {

// Lives on the stack of the fiber that waits for it.
struct Call {
  void (*run)(void* function);
  void* function;
  BlockingCounter done{1};
  // The helper has left done.Done(). Only then may the fiber go on: its thread could otherwise
  // stop, and its scheduler be destroyed, while the helper is still about to wake it.
  std::atomic<bool> released{false};
};

bool Execute(Call* call);

}  // namespace blocking_pool_internal

// Calls `function` on a helper thread and returns when it has returned. False, without calling it,
// if the process cannot have a single helper.
//
// Thread: any fiber. Suspends. There are at most two helpers, made when they are first needed;
// calls beyond that wait in order of arrival.
constexpr unsigned kBlockingThreadsMax = 2;

template <typename Function>
[[nodiscard]] bool RunBlocking(Function function) {
  blocking_pool_internal::Call call{
      .run = [](void* erased) { (*static_cast<Function*>(erased))(); }, .function = &function};
  return blocking_pool_internal::Execute(&call);
}

}  // namespace helio
