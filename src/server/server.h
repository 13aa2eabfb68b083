// SPDX-License-Identifier: Apache-2.0
// The process: threads, shards, workers, listeners.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commands/command_table.h"
#include "engine/late_locks.h"
#include "engine/shard_set.h"
#include "facade/connection.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"
#include "server/acl_store.h"
#include "server/config.h"
#include "server/function_store.h"
#include "server/listeners.h"
#include "server/memcached_rows.h"
#include "server/memory_meter.h"
#include "server/options.h"
#include "server/persistence.h"
#include "server/pubsub.h"
#include "server/resident_memory.h"
#include "server/script_store.h"
#include "server/settings.h"
#include "server/tls_settings.h"
#include "server/waits.h"
#include "server/worker.h"

namespace dfly {

// What CONFIG SET can change of where clients come in.
struct Ports {
  std::vector<std::string> binds;
  uint16_t port = 0;  // 0: none
  uint16_t tls_port = 0;
};

// Owner: the main thread, which calls the constructor, Start and Stop. The rest is for the proactor
// threads; they read what does not change after Start, and atomics.
class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens and serves. Returns an empty string, or why it cannot.
  [[nodiscard]] std::string Start();
  // Loads what was saved, if there is something, while clients are told so. `on_end` gets an empty
  // text, or why the server must not go on; on proactor 0, or on this thread.
  void Load(std::function<void(std::string error)> on_end);
  // SHUTDOWN ABORT: ends the save of a PrepareStop that is under way. False: there is none. From a
  // fiber or a plain thread. Suspends, as long as PrepareStop with the patience of SHUTDOWN.
  bool AbortStop();
  // Saves for the last time, if --save says so or `saves` does; nothing changes any more after
  // that. Empty, or why the server should go on. From a fiber or a plain thread. Suspends.
  // `patience_ns`: if the save does not get its locks in that time it fails, and the error says who
  // has them; a thread that does not answer for so long is not waited for: that is an error, or, if
  // there is nothing to save or the server `must_stop` anyway, it hangs() from then on.
  [[nodiscard]] std::string PrepareStop(std::optional<bool> saves, bool must_stop,
                                        uint64_t patience_ns = UINT64_MAX);
  // The server goes on although PrepareStop has succeeded. For tests. From a fiber of proactor 0.
  // Suspends.
  void TakeBackStop();
  // A PrepareStop is under way, or what one has given up is. Thread: any.
  bool is_preparing_stop() const {
    const StopState state = stop_state_;
    return state == StopState::kPrepares || state == StopState::kGivenUp;
  }
  // PrepareStop has met a thread that does not answer: the process is to end without Stop(), which
  // would wait for it. Thread: any.
  bool hangs() const { return stop_state_ == StopState::kHangs; }
  // Who has locks, on which shards and since when, and which threads do not answer; for the log of
  // a server that does not come to its end. From a plain thread or a fiber. Takes a second at
  // most. Suspends.
  std::string DescribeHang();
  // What SIGINT and SIGTERM do. Thread: any.
  std::atomic<StopRule>& on_sigint() { return on_sigint_; }
  std::atomic<StopRule>& on_sigterm() { return on_sigterm_; }
  // See ServerOptions. Thread: any.
  std::atomic<uint64_t>& shutdown_timeout_s() { return shutdown_timeout_s_; }
  // The same in nanoseconds, and more in a build that is slow.
  uint64_t ShutdownPatienceNanos() const;
  // Stops accepting and closes all connections. Blocks. A release build leaves the data to the
  // kernel, which frees the memory of the process faster than anybody else.
  void Stop();

  const ServerOptions& options() const { return options_; }
  helio::ProactorPool& pool() { return pool_; }
  ShardSet& shards() { return *shards_; }
  const CommandTable& commands() const { return commands_; }
  const MemcachedRows& memcached_rows() const { return memcached_rows_; }
  Settings& settings() { return settings_; }
  const Settings& settings() const { return settings_; }
  Config& config() { return config_; }
  TlsSettings& tls() { return tls_; }
  const std::string& run_id() const { return run_id_; }
  // What the process takes without any data or connection, as measured after the start.
  uint64_t base_memory_bytes() const { return base_memory_bytes_; }
  const ResidentMemory& resident_at_start() const { return resident_at_start_; }
  // The most that used_memory ever was when somebody asked. Thread: any.
  uint64_t UpdatePeakMemory(uint64_t used_bytes);
  // 0: there is none. Thread: any.
  uint16_t port() const { return port_; }
  uint16_t tls_port() const { return tls_port_; }
  bool has_tls() const { return options_.tls || tls_port_ != 0; }
  // Listens there, and not where it did. Empty, or why it cannot: then nothing changes. From a
  // fiber or a plain thread, one at a time. Suspends.
  [[nodiscard]] std::string ChangePorts(const Ports& ports);
  // --max_bulk_len, from now on; for values, too. REQUIRES: kMaxBulkLenMin <= bytes <= UINT32_MAX.
  // Suspends.
  void SetMaxBulkLen(size_t bytes);
  // As Listeners::Describe. Suspends.
  std::vector<std::string> DescribeListeners();
  int64_t start_time_ms() const { return start_time_ms_; }

  // The calling thread's worker.
  static Worker* LocalWorker() { return local_worker_; }
  Worker& worker(uint32_t index) { return *workers_[index]; }
  // Calls function(Worker&) on every worker's thread, at once, and waits. From a fiber. Suspends.
  template <typename Function>
  void AwaitOnWorkers(Function function) {
    pool_.AwaitOnAll([&](helio::Proactor* proactor) { function(*workers_[proactor->index()]); });
  }

  // The same, and no connection is on its way from one worker to another meanwhile: for what must
  // not miss any client.
  template <typename Function>
  void AwaitOnSessions(Function function) {
    move_bans_.fetch_add(1);
    while (moves_.load() > 0) {
      const helio::BoundedWait wait(kMoves);
      helio::this_fiber::SleepUntil(helio::MonotonicNanos() + 50'000);
    }
    AwaitOnWorkers(std::move(function));
    move_bans_.fetch_sub(1);
  }
  // A connection leaves its worker for another one. False: it must not now. Thread: any.
  [[nodiscard]] bool BeginMove() {
    moves_.fetch_add(1);
    if (move_bans_.load() == 0) return true;
    moves_.fetch_sub(1);
    return false;
  }
  void EndMove() { moves_.fetch_sub(1); }
  void OnConnectionMoved(uint32_t from, uint32_t to);

  // How many clients track what they read. Thread: any.
  std::atomic<uint64_t>& tracking_clients() { return tracking_clients_; }

  AclStore& acl() { return *acl_; }
  // Users have changed: sessions learn what they may do now, and those whose user is gone end. From
  // a fiber. Suspends.
  void OnUsersChanged();

  PubSubLoad& pubsub_load() { return pubsub_load_; }
  // Thread: any.
  ClientMemory& client_memory() { return client_memory_; }
  std::atomic<uint64_t>& slow_log_ids() { return slow_log_ids_; }
  // Of a thread. Thread: any.
  MonitorLoad& monitor_load(uint32_t thread) { return monitor_loads_[thread]; }
  ScriptStore& scripts() { return scripts_; }
  FunctionStore& functions() { return functions_; }
  Upgrade& upgrade() { return upgrade_; }
  Persistence& persistence() { return persistence_; }
  // Connections that are held go on everywhere, unless they still have to wait. Thread: any
  // proactor's.
  void ReleaseHeld();
  // A shard has more to write down for a snapshot than the disk takes, or has not any more:
  // meanwhile clients that write have to wait. Thread: any proactor's. Suspends: never.
  void OnSnapshotBehind(bool is_behind);
  // A script has become slow, or has more locks than when it did: who waits for it is told so.
  // Thread: any proactor's.
  void RefuseBusyWaiters();

  const ConnectionLimits& connection_limits() const { return options_.limits; }
  uint32_t tcp_keepalive_s() const {
    return settings_.tcp_keepalive_s.load(std::memory_order_relaxed);
  }
  MemoryMeter& memory() { return memory_; }
  const MemoryMeter& memory() const { return memory_; }
  // The limit is passed, nothing comes back by itself, and nobody can evict anything. Whoever runs
  // on a shard asks for room there (Worker::MakeRoom).
  bool is_out_of_memory() const {
    return memory_.is_over() && memory_.excess() > 0 && !memory_.can_make_room();
  }
  // Room for a command on any shards. False: there is none. From a fiber. Suspends.
  [[nodiscard]] bool AwaitRoom(const SparedKeys& spared);
  // maxmemory-policy and what belongs to it. From a fiber or a plain thread. Suspends.
  void ChangeEvictionRules(const std::function<void(EvictionRules& rules)>& change);
  // Thread: any.
  EvictionPolicy eviction_policy() const { return policy_.load(std::memory_order_relaxed); }
  // maxmemory has changed: what is too much goes. From a fiber. Suspends.
  void EvictToLimit();
  // list-max-listpack-size, for what is pushed from now on. From a fiber or a plain thread.
  // Suspends.
  void SetListLimit(int64_t setting);
  // hash-max-listpack-*, as above.
  void SetHashLimit(const PackedLimit& limit);
  void SetZsetLimit(const PackedLimit& limit);
  // hll-sparse-max-bytes, as above.
  void SetHllSparseMaxBytes(size_t bytes);
  // The same for the forms of sets.
  void ChangeSetLimit(const std::function<void(SetLimit& limit)>& change);
  // And for the nodes of streams.
  void ChangeStreamLimit(const std::function<void(StreamLimit& limit)>& change);
  void CountRejectedConnection() { rejected_connections_.fetch_add(1, std::memory_order_relaxed); }
  void ResetRejectedConnections() { rejected_connections_.store(0, std::memory_order_relaxed); }
  uint64_t connections() const { return connections_.load(std::memory_order_relaxed); }
  uint64_t rejected_connections() const {
    return rejected_connections_.load(std::memory_order_relaxed);
  }
  uint64_t NextClientId() { return next_client_id_.fetch_add(1, std::memory_order_relaxed); }
  // A worker begins one that did not come to a port.
  void OnInnerConnection(uint32_t worker, bool is_admin);
  void OnConnectionClosed(uint32_t worker, bool is_admin);
  // Takes over a connected, non-blocking descriptor. On proactor 0's thread.
  void OnAccept(int fd, PortKind kind = {});

 private:
  enum class StopState : uint8_t {
    kServes,
    kPrepares,
    kGivenUp,   // serves, but what PrepareStop has begun is not over
    kPrepared,  // nothing changes any more
    kHangs
  };
  struct StopWork;

  std::string OpenListeners();
  // The parts of PrepareStop. On proactor 0. Suspend.
  void WatchStop(StopWork* work, uint64_t patience_ns);
  void EndStopWork(StopWork* work, bool must_stop);
  // Kills the scripts that have not written, and, if it `is_late`, the others. Thread: any
  // proactor's, or a plain one. Suspends: never.
  void EndScripts(bool is_late);
  // False: a thread has not answered for so long, and the condition is not met. From a fiber or a
  // plain thread. Suspends.
  template <typename Condition>
  bool AwaitUnlessHung(Condition is_met, uint64_t patience_ns);

  static inline thread_local Worker* local_worker_ = nullptr;

  const ServerOptions options_;
  const int64_t start_time_ms_;
  Settings settings_;
  MemoryMeter memory_;
  EvictionRules eviction_;  // guarded by the lock of Config
  std::atomic<EvictionPolicy> policy_{EvictionPolicy::kNone};
  PubSubLoad pubsub_load_;
  ClientMemory client_memory_;
  std::atomic<uint64_t> slow_log_ids_{0};  // the next one's
  const std::unique_ptr<MonitorLoad[]> monitor_loads_;
  ScriptStore scripts_;
  FunctionStore functions_;
  Upgrade upgrade_;
  TlsSettings tls_;
  Persistence persistence_;
  std::atomic<StopRule> on_sigint_;
  std::atomic<StopRule> on_sigterm_;
  std::atomic<uint64_t> shutdown_timeout_s_;
  Config config_;
  const std::string run_id_;  // 40 hexadecimal digits
  ResidentMemory resident_at_start_;
  uint64_t base_memory_bytes_ = 0;
  std::atomic<uint64_t> peak_memory_bytes_{0};
  std::atomic<StopState> stop_state_{StopState::kServes};
  CommandTable commands_;
  std::atomic<uint64_t> tracking_clients_{0};
  const MemcachedRows memcached_rows_{&commands_};
  std::unique_ptr<AclStore> acl_;
  helio::ProactorPool pool_;
  std::unique_ptr<ShardSet> shards_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Listeners> listeners_;  // on proactor 0
  std::atomic<uint16_t> port_{0};
  std::atomic<uint16_t> tls_port_{0};
  std::atomic<uint64_t> next_client_id_{1};
  std::atomic<uint64_t> connections_{0};        // of all ports
  std::atomic<uint64_t> admin_connections_{0};  // --maxclients is not for them
  std::atomic<uint64_t> rejected_connections_{0};
  // Whoever counts itself in first is seen by the other, as these are sequentially consistent.
  std::atomic<uint32_t> moves_{0};
  std::atomic<uint32_t> move_bans_{0};
  std::vector<uint32_t>
      connections_of_;  // proactor 0 only: how many each worker was given and has not told closed
};

// The commands of this layer, each group in its own file.
void RegisterConnectionCommands(CommandTable* table);
void RegisterClientCommands(CommandTable* table);
void RegisterAclCommands(CommandTable* table);
void RegisterClusterCommands(CommandTable* table);
void RegisterConfigCommands(CommandTable* table);
void RegisterInfoCommands(CommandTable* table);
void RegisterCommandCommands(CommandTable* table);
void RegisterAdminCommands(CommandTable* table);
void RegisterSlowLogCommands(CommandTable* table);
void RegisterLatencyCommands(CommandTable* table);
void RegisterMonitorCommand(CommandTable* table);
void RegisterSaveCommands(CommandTable* table);
void RegisterMultiCommands(CommandTable* table);
void RegisterScriptCommands(CommandTable* table);
void RegisterFunctionCommands(CommandTable* table);
void RegisterWait(CommandTable* table);
void RegisterPubSubCommands(CommandTable* table);

}  // namespace dfly
