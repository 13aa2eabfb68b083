// SPDX-License-Identifier: Apache-2.0
// What a thread does for its shards besides running commands: expiry, and its part of maxmemory:
// room for a command, eviction ahead of need.
//
// All shards give in proportion to what they have. A shard with little data must not lose it only
// because it gets the writes, so a command makes its own shard give no more than its share, and
// tells the other threads to let theirs do the same, while the limit is passed by less than
// MemoryMeter's slack. Mostly no command gets there: from a little below the limit on (is_tight)
// each thread evicts between its other work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/shard_set.h"
#include "engine/keyspace/shard_turn.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/care/defrag_pacer.h"
#include "server/care/memory_use.h"
#include "server/care/pools.h"
#include "server/care/running_scripts.h"
#include "server/clients/worker_state.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: AwaitRoom.
class ShardCare final : public TurnEnd, public Pool, public PerThread<ShardCare> {
 public:
  ShardCare(WorkerState* worker, MemoryUse* memory, Pools* pools, RunningScripts* scripts,
            DefragPacer* defrag);
  ~ShardCare();

  // --- Room ---

  // Room for a command that is about to run on a shard of ours, as the limit is passed. False:
  // there is none, and it must not run. Does a bounded amount of work.
  bool MakeRoom(Shard& shard, const SparedKeys& spared);
  // Only this command's keys are spared.
  bool MakeRoomFor(Shard& shard, const Command& command, Args args);
  // Only these keys are.
  bool MakeRoomFor(Shard& shard, std::span<const std::string_view> keys);
  // Room for a command on any shards. False: there is none. From a fiber. Suspends.
  [[nodiscard]] bool AwaitRoom(const SparedKeys& spared);
  static void AddKeyHashes(const Command& command, Args args, std::vector<uint64_t>* hashes);
  // The command will be refused for lack of memory, unless another thread frees some meanwhile.
  bool LacksRoom(const Command& command);
  // MEMORY PURGE: all that is no data and not in use.
  void Purge();

  // --- Eviction and expiry ---

  // Lets all threads evict what is too much.
  void WakeEviction();
  void SetEviction(const EvictionSettings& eviction);
  const EvictionSettings& eviction() const { return eviction_; }
  // DEBUG SET-ACTIVE-EXPIRE: without it due keys go when somebody asks for them.
  void SetActiveExpiry(bool is_on);
  // While one of these holds, what is due stays, also if somebody asks for it: nobody sees it, and
  // the stream of effects does not tell of it. With kTakeOver nothing is evicted, either.
  enum class KeepsDueFor : uint8_t {
    kReplica = 1,
    kStop = 2,
    kFailover = 4,
    kPause = 8,
    kTakeOver = 16
  };
  void SetKeepsDue(KeepsDueFor why, bool does);
  // Somebody listens to "expired".
  void SetPreciseExpiry(bool is_on);

  // Of a local shard: its used bytes are published, its expiry is kept going.
  void OnTurnEnd(Shard& shard) override;

 private:
  void UpdateActiveExpiry();
  // Pool, of which it has scratch memory only.
  void Halve() override {}
  void Drop() override {}
  bool is_empty() const override { return true; }
  void ReleaseScratch() override { Release(&spared_); }

  // What this thread can give back in `budget_ns` besides keys. From the loop or a fiber of ours.
  void GiveBack(uint64_t budget_ns);
  Evictor::Progress EvictFrom(Shard& shard, size_t bytes, size_t keys_max,
                              const SparedKeys& spared);
  size_t ShareOf(const Shard& shard, int64_t bytes);
  void SetBarren(bool is_barren);
  void OnEvictHint();
  void OnEvictTimer();
  void EvictTick();
  void OnExpireTimer();
  void ExpireTick();
  void ExpireIn(uint64_t wait_ns);  // at the latest
  uint64_t UntilDeadline(int64_t at_ms, int64_t now_ms) const;

  WorkerState& worker_;
  ServerState& server_;
  ShardSet& shards_;
  MemoryUse& memory_;
  Pools& pools_;
  RunningScripts& scripts_;
  DefragPacer& defrag_;
  Shard* const reaping_shard_;  // frees large values of them all
  EvictionSettings eviction_;
  std::vector<uint64_t> spared_;  // scratch of MakeRoomFor
  uint64_t last_hint_ns_ = 0;
  uint64_t next_give_back_ns_ = 0;
  bool is_barren_ = false;        // no shard of ours has anything to evict
  bool is_expiry_on_ = true;      // SetActiveExpiry
  uint8_t keeps_due_ = 0;         // KeepsDueFor that hold
  bool expires_actively_ = true;  // as these say
  bool expires_precisely_ = false;
  int64_t armed_deadline_ms_ = INT64_MAX;  // expire_timer_ serves all that are not earlier
  OwnedTimer<&ShardCare::OnExpireTimer> expire_timer_;
  OwnedTimer<&ShardCare::OnEvictTimer> evict_timer_;
};

}  // namespace dfly
