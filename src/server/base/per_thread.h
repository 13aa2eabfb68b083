// SPDX-License-Identifier: Apache-2.0
// How what arrives on a thread finds the part of the server that lives there.
#pragma once

#include "helio/base/logging.h"

namespace dfly {

// Base of a class of which each thread of the server has one: `class PubSub : public
// PerThread<PubSub>`. An object is Here() from its constructor, which gives `this`, to the end of
// its destructor; both are on its thread.
template <typename Part>
class PerThread {
 public:
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  // The calling thread has one: not before the start of the server, and not behind its end.
  static bool IsHere() { return here_ != nullptr; }
  // REQUIRES: IsHere().
  static Part& Here() {
    DCHECK(IsHere());
    return *here_;
  }

 protected:
  explicit PerThread(Part* part) {
    DCHECK(!IsHere());
    here_ = part;
  }
  ~PerThread() { here_ = nullptr; }

 private:
  static inline constinit thread_local Part* here_ = nullptr;
};

}  // namespace dfly
