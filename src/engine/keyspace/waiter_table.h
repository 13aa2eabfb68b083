// SPDX-License-Identifier: Apache-2.0
// The commands that wait for keys of a shard (BLPOP), in the order in which they came.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/keyspace/watch_table.h"
#include "helio/base/block_bytes.h"
#include "helio/base/intrusive_list.h"

namespace dfly {

class Shard;
struct WaiterNode;

// A command that waits until one of its keys, in whatever shard, is ready.
//
// Whoever claims it decides how its wait ends: the first shard that can serve it, or its own thread
// for a timeout, CLIENT UNBLOCK, or a client that is gone. So nothing is ever taken for a command
// that has ended otherwise.
class Waiter {
 public:
  enum class Outcome : uint8_t {
    kServed,    // claimed; its nodes on this shard are gone
    kGone,      // somebody else has claimed it; its node can go
    kAbsent,    // there is no such key
    kNotReady,  // the key is not what this one waits for
    kHolds,     // claimed; it will fetch what is there itself, and keeps its place until then
  };
  // Thread: any. False: it is claimed already.
  bool Claim() { return !is_claimed_.exchange(true, std::memory_order_acq_rel); }
  // On the shard's thread: could it be served from the key of `node`, as the key is?
  virtual bool IsReady(Shard& shard, const WaiterNode& node) const = 0;
  // On the shard's thread, when no lock hinders it: claims it if the key of `node` is ready, and
  // takes what it waits for. Does not suspend. After kServed the waiter may be gone.
  virtual Outcome Serve(Shard& shard, WaiterNode& node) = 0;

 protected:
  ~Waiter() = default;
  // REQUIRES: it was claimed by Serve with kHolds. It can be claimed again.
  void Release() { is_claimed_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_claimed_{false};
};

// One key of a waiter. Owner: the waiter; while it is linked the shard's thread.
struct WaiterNode : helio::ListHook<WaiterNode> {
  Waiter* waiter = nullptr;
  uint32_t shard = 0;
  KeyName name;
  uint64_t hash = 0;  // of the key
  // Fingerprints of all that it uses on this shard, its key's first.
  absl::InlinedVector<uint64_t, 2> locks;
  bool holds = false;          // see Waiter::Outcome
  bool minds_absence = false;  // that the key has gone ends its wait
  bool spans_shards = false;   // its waiter has nodes in other shards, too
  int64_t look_ms = 0;         // the table's: see LookAt
};

// Owner: one shard, on its thread. Suspends: never.
class WaiterTable {
 public:
  WaiterTable();
  ~WaiterTable();
  WaiterTable(const WaiterTable&) = delete;
  WaiterTable& operator=(const WaiterTable&) = delete;

  // The tables of all shards share one mutex. A table without one has nobody to share waiters with.
  // REQUIRES: set before the first use.
  //
  // A shard that looks at a waiter of several shards holds the mutex until its Serve returns. If
  // two shards served the same waiters at the same time, each would claim some of them, and no
  // order of the two pushes would explain who got what. Serve is short, and does not suspend.
  using SpanningMutex = std::mutex;
  void set_spanning_mutex(SpanningMutex* mutex) { spanning_mutex_ = mutex; }

  // Nobody waits: the one branch that a change of a key pays.
  bool empty() const { return keys_.empty(); }
  // Some key has changed since Serve: the one branch that a command pays.
  bool has_ready() const { return !ready_.empty(); }

  // Behind those that wait for the key already.
  void Add(WaiterNode* node);
  // Nothing if it is not there.
  void Remove(WaiterNode* node);
  // The key of a node that is here may become ready then (Unix ms), although nothing changes it: it
  // is looked at, once. 0: not any more. Of a thread with a loop.
  void LookAt(Shard& shard, WaiterNode* node, int64_t at_ms);
  // A node that held its place has found nothing, and waits on.
  void EndHold(WaiterNode* node);

  // The key has changed: it is looked at by the next Serve.
  void OnChanged(int db_index, std::string_view key);
  // All keys of a database may have changed (SWAPDB).
  void OnChangedAll(int db_index);
  // Serves who can be served now, first come, first served. Keys with locks on them wait for the
  // next call.
  void Serve(Shard& shard);

  size_t keys() const { return keys_.size(); }
  // Those of these for which the end of the key ends a wait. Looks at all of them.
  size_t CountKeysMindingAbsence() const;
  // The nodes are their waiters'.
  size_t memory_used() const;
  // Keys that are ready for who waits for them, be that known here or not; looks at no more than
  // `most`. When nothing runs this is 0, or somebody has been forgotten.
  size_t CountReady(Shard& shard, size_t most) const;

 private:
  using List = helio::IntrusiveList<WaiterNode, WaiterNode>;
  struct Queue {
    List nodes;
    size_t minding_absence = 0;  // of these nodes
    size_t spanning = 0;         // of these nodes: those of waiters of several shards
    bool is_ready = false;
  };
  void MarkReady(const KeyName& name, Queue& queue) {
    if (queue.is_ready) return;
    queue.is_ready = true;
    ready_.push_back(name);
  }
  // False: a lock hinders it.
  bool ServeKey(Shard& shard, const KeyName& name, std::unique_lock<SpanningMutex>* spanning);

  class Looks;

  KeyNameMap<std::unique_ptr<Queue>> keys_;
  std::unique_ptr<Looks> looks_;  // null: nobody has asked for one yet
  size_t queue_bytes_ = 0;        // of what keys_ points to, and of long names
  std::vector<KeyName> ready_;
  SpanningMutex* spanning_mutex_ = nullptr;
  bool is_serving_ = false;
};

}  // namespace dfly
