// SPDX-License-Identifier: Apache-2.0
// A turn: one piece of work on a shard, from its first command to all that has to follow it.
//
// Who works on a shard has a turn, in whatever way it came there: commands of a connection on the
// shard's thread, a batch of another thread's, a hop of a transaction, a timer. The end of the turn
// removes the due keys that its commands have met, serves those who wait for keys that it has
// changed, and tells the thread, which keeps account of memory and of its timers. A turn may end
// while another one on the same shard goes on (a served waiter, a queued command whose locks came
// free): the outer one has finished its command before.
#pragma once

#include <cstdint>

#include "engine/keyspace/shard.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {

// What follows a turn on its thread. Owner: that thread.
class TurnEnd {
 public:
  virtual void OnTurnEnd(Shard& shard) = 0;

 protected:
  ~TurnEnd() = default;
};

// Owner:    the code that works on a shard, on its thread. Suspends: never, nor may its owner while
// it is there.
class ShardTurn {
 public:
  explicit ShardTurn(Shard& shard) : cx_(shard) {}
  // For a client that caches; see ShardContext::set_client.
  ShardTurn(Shard& shard, const CachingClient* client, bool notes_reads) : cx_(shard) {
    cx_.set_client(client, notes_reads);
  }
  ~ShardTurn() {
    EndUnit();
    if (TurnEnd* const end = shard().turn_end()) end->OnTurnEnd(shard());
  }
  ShardTurn(const ShardTurn&) = delete;
  ShardTurn& operator=(const ShardTurn&) = delete;

  Shard& shard() { return cx_.shard(); }
  // For work that needs no keys: a turn stands for its shard.
  operator Shard&() { return shard(); }  // NOLINT(google-explicit-constructor)

  // Of the command that has begun last.
  ShardContext& cx() { return cx_; }
  // See ShardContext::Begin, which ends the command before.
  ShardContext& Begin(int db_index, int64_t now_ms) {
    cx_.Begin(db_index, now_ms);
    return cx_;
  }
  // Several commands, until EndUnit, are one for others: an EXEC. For who wants to know what it
  // does: `unit`, of which it is a part; null: it is all of it.
  void BeginUnit(Unit* unit) {
    if (EffectRecorder* const recorder = shard().recorder()) [[unlikely]] {
      recorder->BeginUnit(unit);
      has_unit_ = true;
    }
  }
  // Ends what others have to see as one: that, or a command.
  void EndUnit() {
    cx_.Finish();
    if (has_unit_) [[unlikely]] {
      shard().recorder()->EndUnit();
      has_unit_ = false;
    }
    shard().ServeWaiters();
  }

 private:
  ShardContext cx_;
  bool has_unit_ = false;  // of the recorder's, and this turn's to end
};

}  // namespace dfly
