// SPDX-License-Identifier: Apache-2.0
// Marks a stretch of code that must not suspend. The scheduler asserts it in debug builds.
#pragma once

#include "helio/base/logging.h"

namespace helio {

// Everything that runs on a shard, and every brief, opens one of these. Nesting is allowed.
// Owner: a scope on one thread. Costs nothing in release builds.
class NoSuspend {
 public:
#ifdef NDEBUG
  NoSuspend() {}
  static bool active() { return false; }
#else
  NoSuspend() { ++depth_; }
  ~NoSuspend() { --depth_; }
  static bool active() { return depth_ > 0; }
#endif
  NoSuspend(const NoSuspend&) = delete;
  NoSuspend& operator=(const NoSuspend&) = delete;

  // For whoever switches to another stack, which was not promised anything.
  class Lifted {
   public:
#ifdef NDEBUG
    Lifted() {}
#else
    Lifted() : depth_before_(depth_) { depth_ = 0; }
    ~Lifted() { depth_ = depth_before_; }
#endif
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;

#ifndef NDEBUG
   private:
    const int depth_before_;
#endif
  };

 private:
#ifndef NDEBUG
  static inline thread_local int depth_ = 0;
#endif
};

}  // namespace helio
