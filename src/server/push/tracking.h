// SPDX-License-Identifier: Apache-2.0
// CLIENT TRACKING: clients that cache what they read hear of it when that changes.
//
// Each shard has a table of the keys that such clients have read, with the clients (the default
// mode), and every thread knows the prefixes that others want to hear of (BCAST). A shard notes a
// read in the command that reads, and takes the key out of its table in the command that changes
// it; what follows from that travels to the clients' threads at the end of the stage, behind all
// replies of that shard, and from there to the clients behind all of their pending replies. So a
// client never gets a value after the message that it is not good any more:
//
//     client's thread              shard
//     GET k                     ->  notes that the client has read k
//                                   SET k by somebody else: k leaves the table
//                               <-  the reply of GET
//                               <-  k has changed
//
// As in Redis a key is known by its name alone, whatever its database is, and after one message the
// client has to read again to hear of the next change.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>
#include <absl/container/node_hash_map.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/hash.h"
#include "engine/hops/shard_set.h"
#include "engine/keyspace/read_tracker.h"
#include "helio/base/io_buf.h"
#include "helio/base/random.h"
#include "helio/fibers/inbox.h"
#include "helio/proactor/proactor.h"
#include "server/base/per_thread.h"
#include "server/clients/tracking_state.h"

namespace dfly {

struct ServerState;
class Session;
class WorkerState;
struct ServerState;

// Owner:    one Worker, on its thread; used on it unless it says otherwise.
// Suspends: never.
class Tracking final : public ReadTracker, public PerThread<Tracking> {
 public:
  explicit Tracking(WorkerState* worker);
  ~Tracking();

  // --- For CLIENT TRACKING, which calls them on all threads before it replies ---

  // The shards of this thread note reads and changes from now on.
  void Enable();
  // Nobody tracks any more, unless ServerState::tracking_clients says otherwise: forgets all reads.
  void DisableIfUnused();
  // tracking-table-max-keys has changed.
  void TrimAll();
  // A client of `thread` hears of keys that begin so, or does so no longer.
  void AddPrefixes(std::span<const std::string> prefixes, uint32_t thread);
  void RemovePrefixes(std::span<const std::string> prefixes, uint32_t thread);
  // A client of this thread gets the messages of others. It stays on its thread.
  void AddTarget(Session& session);

  // --- Of a client of this thread ---

  void Begin(Session& session, std::unique_ptr<TrackingState> state);
  // CLIENT TRACKING OFF, RESET.
  void End(Session& session);
  // The prefixes of a client of this thread, on all threads.
  void RemovePrefixesEverywhere(std::vector<std::string> prefixes);
  // A command's fiber has written its reply.
  void OnReplied(Session& session);
  void OnClosed(Session& session);

  // ReadTracker
  void OnRead(uint32_t shard, std::string_view key, const CachingClient& reader) override;
  void OnKeyChanged(uint32_t shard, std::string_view key, const CachingClient* by) override;
  void OnFlushed(uint32_t shard, uint64_t count) override;

  // Hands on what has changed. Not from inside a command.
  void Flush() {
    if (!open_threads_.empty() || !changed_prefixes_.empty()) FlushAll();
  }

  TrackingCounts counts() const;
  size_t memory_used() const { return table_bytes_ + prefix_bytes_; }

 private:
  struct Item;
  struct Invalidations;
  struct FlushHook : helio::LoopHook {
    using LoopHook::LoopHook;
    Tracking* tracking = nullptr;
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return HashKey(name); }
  };
  struct Reader {
    uint64_t id;
    uint32_t thread;
  };
  struct Read {
    absl::InlinedVector<Reader, 1> readers;
    uint32_t place = 0;  // of the key in Table::keys
  };
  struct Table {
    absl::node_hash_map<std::string, Read, NameHash, std::equal_to<>> reads;
    std::vector<const std::string*> keys;  // of `reads`, to draw from
  };
  // Keys that begin so and have changed in this stage, with the client that did it alone; 0: there
  // were others, or it wants to hear of it.
  struct Prefix {
    std::vector<uint32_t> clients;  // by thread
    std::map<std::string, uint64_t, std::less<>> changed;
  };
  using Prefixes = std::map<std::string, Prefix, std::less<>>;

  void Invalidate(Table* table, std::string_view key, const CachingClient* by);
  void EvictOne(Table* table);
  void Trim(Table* table, size_t room);  // to its share of tracking-table-max-keys
  void Clear(Table* table);
  size_t BytesOf(const Prefixes::value_type& prefix) const;

  void Add(uint32_t thread, Item item);
  void FlushAll();
  void FlushTo(uint32_t thread);
  void FlushPrefixes();
  void Deliver(const Item& item);
  void OnBroadcast(const Item& item);
  void OnShardFlushed(const Item& item);
  using Keys = std::span<const std::string_view>;
  // To the client itself, or to whom it redirects. `is_all`: all keys may have changed.
  void Tell(Session& session, Keys keys, bool is_all);
  void OnRedirected(const Item& item);
  void OnBroken(Session& session);
  void Push(Session& session, std::string_view bytes);

  ServerState& server_;
  WorkerState& worker_;
  const uint32_t thread_;
  bool is_enabled_ = false;

  std::vector<Table> tables_;  // by shard: those that live here
  size_t table_bytes_ = 0;
  uint64_t items_ = 0;
  Prefixes prefixes_;                                    // of all clients
  size_t prefix_bytes_ = 0;                              // about, of this thread's part
  std::map<size_t, uint32_t> lengths_;                   // how many of them are so long
  std::vector<Prefixes::value_type*> changed_prefixes_;  // in no order

  // Clients of this thread.
  absl::flat_hash_map<uint64_t, Session*> sessions_;  // that track
  absl::flat_hash_map<uint64_t, Session*> targets_;   // that get the messages of others
  std::vector<uint64_t> flushes_;                     // by shard: the last that it has told
  uint64_t flushes_told_ = 0;

  std::vector<std::unique_ptr<Invalidations>> open_;  // by thread; null: nothing is open
  std::vector<uint32_t> open_threads_;
  FlushHook flush_hook_;
  helio::IoBuf message_;  // scratch
  helio::Random random_;
};

}  // namespace dfly
