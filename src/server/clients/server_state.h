// SPDX-License-Identifier: Apache-2.0
// What all threads of the server share: its options and settings, the shards, users, scripts, and
// numbers that belong to no thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/keyspace/access_clock.h"
#include "helio/fibers/inbox.h"
#include "helio/proactor/proactor_pool.h"
#include "server/clients/http_frontend.h"
#include "server/clients/memcached_rows.h"
#include "server/meters/memory_meter.h"
#include "server/meters/slow_log.h"
#include "server/options/options.h"
#include "server/options/settings.h"
#include "server/scripts/function_store.h"
#include "server/scripts/script_store.h"

namespace dfly {

class AclStore;
class AuditLog;
class HugePageCare;
class Quota;
class ShardSet;
class Upgrade;

// What all threads know of the messages of publish/subscribe that are under way. Thread: any.
struct PubSubLoad {
  // Past so many bytes of fanouts that their threads have not handed out yet, PUBLISH waits at its
  // connection until a half is left. Tests change it, while nothing is published.
  std::atomic<uint64_t> max_bytes{8 << 20};
  std::atomic<uint64_t> fanout_bytes{0};
  std::atomic<uint64_t> messages{0};  // fanouts and changes; 0 when all is settled
  std::atomic<bool> is_overloaded{false};
};

// Lines of MONITOR that are on their way to one thread. Thread: any.
struct MonitorLoad {
  std::atomic<size_t> bytes{0};
  std::atomic<bool> is_lost{false};  // lines were dropped: its monitors have to go
};

// Tells one thread that there is something to evict. Thread: any.
struct EvictionHint : helio::Message {
  std::atomic<bool> is_on_way{false};  // who sets it sends the hint
};

// What limits the memory of all clients together. Thread: any.
struct ClientMemory {
  explicit ClientMemory(uint32_t thread_count)
      : threads(thread_count), used_by(std::make_unique<Used[]>(thread_count)) {}

  // Of maxmemory-clients, either: bytes, or percents of maxmemory. Both 0: no limit.
  std::atomic<uint64_t> limit_bytes{0};
  std::atomic<uint32_t> limit_percent{0};
  std::atomic<bool> is_asked{false};     // there was too much since the last pass began
  std::atomic<bool> is_evicting{false};  // a fiber does
  std::atomic<uint64_t> evicted{0};
  // What the clients of each thread use: told by its ClientLimiter, while there is a limit.
  struct alignas(64) Used {
    std::atomic<uint64_t> bytes{0};
  };
  const uint32_t threads;
  const std::unique_ptr<Used[]> used_by;

  bool has_limit() const {
    return limit_bytes.load(std::memory_order_relaxed) != 0 ||
           limit_percent.load(std::memory_order_relaxed) != 0;
  }
  void Set(const ClientMemorySetting& setting) {
    limit_bytes.store(setting.bytes, std::memory_order_relaxed);
    limit_percent.store(setting.percent, std::memory_order_relaxed);
  }
  // Any lower limit means this: a client that only sends CONFIG SET must find room, or nobody could
  // change the limit again.
  static constexpr uint64_t kLeastLimit = 256 << 10;
  // `maxmemory`: bytes; 0: there is none. 0: no limit.
  uint64_t Limit(uint64_t maxmemory) const;
  // Bytes of all of them.
  uint64_t UsedBytes() const;
};

// Connections that go from one thread to another: meanwhile they are in no thread's list.
// Thread: any.
class Moves {
 public:
  // A connection leaves its thread. False: it must not now.
  [[nodiscard]] bool Begin() {
    moves_.fetch_add(1);
    if (bans_.load() == 0) return true;
    moves_.fetch_sub(1);
    return false;
  }
  // It has arrived.
  void End() { moves_.fetch_sub(1); }

  // While it lives no connection is on its way. From a fiber. Suspends: when it begins.
  class Ban {
   public:
    explicit Ban(Moves* moves);
    ~Ban() { moves_.bans_.fetch_sub(1); }
    Ban(const Ban&) = delete;
    Ban& operator=(const Ban&) = delete;

   private:
    Moves& moves_;
  };

 private:
  // Whoever counts itself in first is seen by the other, as these are sequentially consistent.
  std::atomic<uint32_t> moves_{0};
  std::atomic<uint32_t> bans_{0};
};

// How many connections there are. Thread: any, unless it says otherwise.
class ConnectionCounts {
 public:
  ConnectionCounts(helio::ProactorPool* pool, uint32_t threads)
      : pool_(*pool), by_thread_(threads) {}

  uint64_t all() const { return all_.load(std::memory_order_relaxed); }
  // --maxclients is not for those of the admin port.
  uint64_t limited() const { return all() - admin_.load(std::memory_order_relaxed); }
  uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }
  void CountRejected() { rejected_.fetch_add(1, std::memory_order_relaxed); }
  void ResetRejected() { rejected_.store(0, std::memory_order_relaxed); }

  // One was accepted: the thread that gets it, which is the one that has the fewest, so that closed
  // connections do not leave the rest uneven. On proactor 0.
  uint32_t Accept(bool is_admin);
  // A thread begins one that did not come to a port.
  void OnInner(uint32_t thread, bool is_admin);
  void OnClosed(uint32_t thread, bool is_admin);
  void OnMoved(uint32_t from, uint32_t to);

 private:
  void Count(int change, bool is_admin);

  helio::ProactorPool& pool_;
  std::atomic<uint64_t> all_{0};  // of all ports
  std::atomic<uint64_t> admin_{0};
  std::atomic<uint64_t> rejected_{0};
  std::vector<uint32_t> by_thread_;  // proactor 0 only: what each was given and has not told closed
};

// Owner:  Server, which fills it before the threads begin to serve.
// Thread: any reads; what changes is atomic, or guards itself.
struct ServerState {
  explicit ServerState(ServerOptions its_options);
  ~ServerState();
  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;

  const ServerOptions options;
  const int64_t start_time_ms;
  const std::string run_id;  // 40 hexadecimal digits
  Settings settings;
  MemoryMeter memory;
  const std::unique_ptr<HugePageCare> huge_pages;
  ScriptStore scripts;
  FunctionStore functions;
  const std::unique_ptr<Upgrade> upgrade;  // of scripts that lock more than they have
  CommandTable commands;
  MemcachedRows memcached_rows;
  HttpFrontend* http = nullptr;  // null: requests of HTTP are refused
  std::unique_ptr<AclStore> acl;
  std::unique_ptr<AuditLog> audit;  // null: --audit_log names no file
  helio::ProactorPool pool;
  std::unique_ptr<ShardSet> shards;  // null until Server::Start

  std::atomic<bool> tells_replicas{false};  // what is published
  PubSubLoad pubsub_load;
  ClientMemory client_memory;
  // What threads begin with; afterwards only CONFIG SET reads and changes it (ApplyQuotas).
  std::shared_ptr<const std::map<QuotaOwner, std::shared_ptr<Quota>>> quotas;
  const std::unique_ptr<MonitorLoad[]> monitor_loads;    // by thread
  const std::unique_ptr<EvictionHint[]> eviction_hints;  // by thread
  std::atomic<uint64_t> next_client_id{1};
  std::atomic<int64_t> hot_keys_end_ms{0};        // HOTKEYS counts up to then; Unix time
  std::atomic<uint64_t> log_ids[kLogKinds] = {};  // the next ones
  std::atomic<uint64_t> tracking_clients{0};      // that track what they read
  std::atomic<uint16_t> port{0};                  // 0: there is none
  std::atomic<uint16_t> tls_port{0};
  ConnectionCounts connections{&pool, options.threads};
  Moves moves;

  bool has_tls() const { return options.tls || tls_port != 0; }
};

// Calls function(Part::Here()) on every thread of the server, at once, and waits. `Part` is a
// PerThread. From a fiber, or a plain thread. Suspends.
template <typename Part, typename Function>
void AwaitOnAll(ServerState& server, Function function) {
  server.pool.AwaitOnAll([&](helio::Proactor*) { function(Part::Here()); });
}

// The same, and no connection is on its way from one thread to another meanwhile: for what must not
// miss any client.
template <typename Part, typename Function>
void AwaitOnAllSessions(ServerState& server, Function function) {
  const Moves::Ban ban(&server.moves);
  AwaitOnAll<Part>(server, std::move(function));
}

// Calls function(Part::Here()) on every thread of the server that has one, soon. Thread: any.
template <typename Part, typename Function>
void DispatchOnAll(ServerState& server, Function function) {
  for (uint32_t i = 0; i < server.pool.size(); ++i) {
    server.pool.at(i)->Dispatch([function] {
      if (Part::IsHere()) function(Part::Here());
    });
  }
}

}  // namespace dfly
