// SPDX-License-Identifier: Apache-2.0
// Who has locks of keys, for how long, and what he waits for: for the log, INFO transaction and the
// end of a server that hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/hops/shard_set.h"
#include "engine/queue/tx_queue.h"

namespace dfly {

// Of an entry of a shard's queue: it has the locks that it wants, wherever they are. On the shard's
// thread, as what follows.
bool HoldsLocks(const TxEntry& entry);
// "exec of client 7 on shard 0 since 12.3 s, which waits for a hop to shard 3 since 12.2 s".
std::string DescribeHolder(const TxEntry& entry, ShardId shard);
// The first time that this is asked of one that has locks, whatever the shard. Thread: any shard's.
bool TellOnce(const TxEntry& entry);

// One that has locks, on all of its shards.
struct Holder {
  const void* id = nullptr;  // no two at a time have the same
  std::string name;
  uint64_t client_id = 0;  // 0: it is no client's
  uint64_t held_us = 0;
  std::vector<ShardId> shards;
  std::string waits_for;  // "a hop to shard 3 since 12.2 s"; empty: it runs
};

// Those that have locks, by how long. Owner: whoever gathers them.
class Holders {
 public:
  static constexpr size_t kShown = 8;  // to people

  // REQUIRES: HoldsLocks(entry).
  void Add(const TxEntry& entry, ShardId shard);
  // What another thread has found.
  void Merge(const Holders& others);
  size_t count() const { return list_.size(); }
  // The first kShown of them, that with its locks for longest first.
  std::vector<Holder> Longest() const;

 private:
  void Put(Holder holder);

  std::vector<Holder> list_;
};

}  // namespace dfly
