// SPDX-License-Identifier: Apache-2.0
// Decides when a connection should move to the thread where its commands keep landing
// (--migrate_connections).
#pragma once

#include <algorithm>
#include <cstdint>

namespace dfly {

// Owner: one session, on its thread.
//
// A command for the thread it watches is a point, any other takes kMissCost of them: so points grow
// only while more than 7 of 8 commands are for that thread. With keys spread over two threads or
// more they never do, and the connection stays where it is.
class Affinity {
 public:
  static constexpr uint32_t kFirstMove = 64;       // points
  static constexpr uint32_t kLastMove = 1u << 20;  // what they are doubled up to

  // A command for a shard of `thread` was seen by a connection of thread `home`. True: it should
  // move to `thread`.
  bool Note(uint32_t thread, uint32_t home) {
    if (thread == thread_ && thread != home) return ++points_ >= wanted_;
    if (points_ == 0 && thread == home) return false;
    if (points_ > kMissCost || thread == home) {
      points_ -= std::min(points_, kMissCost);
    } else {
      thread_ = thread;
      points_ = 1;
    }
    return false;
  }
  uint32_t thread() const { return thread_; }
  // It has moved, or could not. Next time twice as many are wanted: who uses now this queue and now
  // that one does not travel all the time.
  void OnTried() {
    points_ = 0;
    wanted_ = std::min(wanted_ * 2, kLastMove);
  }

 private:
  static constexpr uint32_t kMissCost = 7;

  uint32_t thread_ = UINT32_MAX;
  uint32_t points_ = 0;
  uint32_t wanted_ = kFirstMove;
};

}  // namespace dfly
