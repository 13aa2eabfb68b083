// SPDX-License-Identifier: Apache-2.0
// What INFO and /metrics tell, as numbers. Each thread gives its Counts; merged, they are those of
// the server. What the server knows as a whole stands beside them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/memory/allocator_facts.h"
#include "engine/hops/shard_set.h"
#include "engine/keyspace/defrag.h"
#include "engine/keyspace/shard.h"
#include "facade/connection.h"
#include "helio/base/counters.h"
#include "helio/net/tls.h"
#include "helio/proactor/proactor.h"
#include "server/acl/acl_log.h"
#include "server/care/held_locks.h"
#include "server/care/thread_rates.h"
#include "server/clients/tls_settings.h"
#include "server/clients/tracking_state.h"
#include "server/info/key_sizes.h"
#include "server/meters/append_log_facts.h"
#include "server/meters/latency_histogram.h"
#include "server/meters/persistence_facts.h"
#include "server/meters/primary_link_facts.h"
#include "server/meters/replicas_facts.h"
#include "server/meters/script_stats.h"
#include "server/meters/worker_memory.h"
#include "server/meters/worker_stats.h"
#include "server/options/quota_settings.h"
#include "server/push/pubsub.h"

namespace dfly {

struct ServerState;

// Of the transactions in the queues of shards, and of the keys that somebody waits for.
struct QueueFacts {
  uint64_t retries = 0;
  uint64_t runs_at_head = 0;
  uint64_t runs_ahead = 0;
  uint64_t length = 0;  // now
  uint64_t longest = 0;
  uint64_t oldest_us = 0;        // how long it has been waiting or running
  uint64_t longest_held_us = 0;  // of all that have locks
  uint64_t waited_keys = 0;
  uint64_t waited_absences = 0;  // of these, for whose end somebody waits, too
  uint64_t ready_keys = 0;       // that somebody waits for; 0 unless something runs
  uint64_t watched_keys = 0;

  static constexpr helio::CounterOf<QueueFacts> kCounters[] = {
      &QueueFacts::retries,
      &QueueFacts::runs_at_head,
      &QueueFacts::runs_ahead,
      &QueueFacts::length,
      {&QueueFacts::longest, helio::Merge::kMax},
      {&QueueFacts::oldest_us, helio::Merge::kMax},
      {&QueueFacts::longest_held_us, helio::Merge::kMax},
      &QueueFacts::waited_keys,
      &QueueFacts::waited_absences,
      &QueueFacts::ready_keys,
      &QueueFacts::watched_keys};
};
static_assert(helio::ListsAll<QueueFacts>());

// What is looked up on a thread when somebody asks.
struct ThreadNow {
  uint64_t input_buffer_max = 0;
  uint64_t output_buffer_max = 0;
  uint64_t blocked_clients = 0;
  uint64_t watching_clients = 0;
  uint64_t output_disconnections = 0;
  uint64_t interpreters = 0;
  uint64_t running_scripts = 0;
  uint64_t pending_objects = 0;    // that wait to be freed
  uint64_t defrag_running_ns = 0;  // 0: it does not run
  uint64_t channels = 0;
  uint64_t patterns = 0;  // each shard knows all
  uint64_t shard_channels = 0;

  static constexpr helio::CounterOf<ThreadNow> kCounters[] = {
      {&ThreadNow::input_buffer_max, helio::Merge::kMax},
      {&ThreadNow::output_buffer_max, helio::Merge::kMax},
      &ThreadNow::blocked_clients,
      &ThreadNow::watching_clients,
      &ThreadNow::output_disconnections,
      &ThreadNow::interpreters,
      &ThreadNow::running_scripts,
      &ThreadNow::pending_objects,
      {&ThreadNow::defrag_running_ns, helio::Merge::kMax},
      &ThreadNow::channels,
      {&ThreadNow::patterns, helio::Merge::kMax},
      &ThreadNow::shard_channels};
};
static_assert(helio::ListsAll<ThreadNow>());

struct DatabaseFacts {
  uint64_t keys = 0;
  uint64_t expires = 0;
  double ttl_ms = 0;            // of all these together, estimated
  double due = 0;               // of these, and not removed yet, estimated
  uint64_t member_expires = 0;  // keys whose members have deadlines

  static constexpr helio::CounterOf<DatabaseFacts> kCounters[] = {
      &DatabaseFacts::keys, &DatabaseFacts::expires, &DatabaseFacts::ttl_ms, &DatabaseFacts::due,
      &DatabaseFacts::member_expires};
};
static_assert(helio::ListsAll<DatabaseFacts>());

// What one thread gives; merged, what all threads give.
struct Counts {
  WorkerCounts worker;
  ScriptStats scripts;
  ThreadNow now;
  helio::ProactorStats loop;
  ThreadRates::LoopTotals loop_totals;
  ThreadRates::Rates rates;
  BufferPool::Traffic traffic;
  helio::TlsStats tls;
  WorkerMemory memory;
  HeapFacts heap;  // some moments ago (MemoryUse::RecentHeap)
  ShardStats shards;
  QueueFacts queues;
  DefragStats defrag;
  PubSubStats pubsub;
  TrackingCounts tracking;
  // Lists
  TransactionStats transactions;
  Holders long_held;  // that have locks for longer than lock-warning-ms
  std::vector<DatabaseFacts> databases;

  // The structs of numbers: Merge adds each by its kCounters. Rows of metrics find them by type.
  static constexpr std::tuple kStructs{
      &Counts::worker, &Counts::scripts, &Counts::now,    &Counts::loop,   &Counts::loop_totals,
      &Counts::rates,  &Counts::traffic, &Counts::tls,    &Counts::memory, &Counts::heap,
      &Counts::shards, &Counts::queues,  &Counts::defrag, &Counts::pubsub, &Counts::tracking};
  template <typename T>
  const T& Get() const {
    return this->*std::get<T Counts::*>(kStructs);
  }

  void Merge(const Counts& part);
};

// All numbers of INFO at one moment (each thread's of its own moment).
struct InfoFacts {
  Counts counts;

  // The process
  std::string os;
  std::string multiplexing_api;
  std::string run_id;
  std::string executable;
  std::string config_file;
  std::string allocator;
  std::vector<std::string> listeners;
  bool emulates_cluster = false;
  bool is_supervised = false;  // by systemd
  int64_t process_id = 0;
  int tcp_port = 0;
  int64_t now_us = 0;
  int64_t start_s = 0;  // Unix time
  uint64_t uptime_s = 0;
  uint32_t threads = 0;
  uint32_t shards = 0;
  double cpu_sys_s = 0;
  double cpu_user_s = 0;
  double cpu_sys_children_s = 0;
  double cpu_user_children_s = 0;
  double cpu_sys_thread_s = 0;  // of the thread that answers
  double cpu_user_thread_s = 0;

  TlsFacts tls;
  bool has_audit_log = false;
  bool is_audit_ok = false;
  uint64_t audit_lines = 0;
  uint64_t lost_audit_lines = 0;

  // Clients
  uint64_t clients = 0;
  uint64_t maxclients = 0;
  uint64_t rejected_connections = 0;
  uint64_t evicted_clients = 0;
  std::array<uint64_t, kAclRefusals> acl_refusals = {};
  // Why commands have to wait, and which; and for how long still, if that is known.
  std::string_view paused_reason = "none";
  std::string_view paused_actions = "none";
  uint64_t paused_ms = 0;

  // Memory
  uint64_t used_memory = 0;
  uint64_t used_memory_peak = 0;
  uint64_t base_memory = 0;
  uint64_t data_memory = 0;
  uint64_t script_memory = 0;    // of their texts
  uint64_t function_memory = 0;  // of their texts
  uint64_t acl_memory = 0;       // of the users of ACLs
  uint64_t rss = 0;
  uint64_t huge_page_bytes = 0;
  uint64_t over_limit_ms = 0;     // that used_memory was above maxmemory, in all
  uint64_t is_over_limit_ms = 0;  // and is now
  uint64_t system_memory = 0;
  uint64_t maxmemory = 0;
  std::string_view maxmemory_policy = "noeviction";
  std::string maxmemory_policy_db;
  bool cache_mode = false;
  uint32_t defrag_running_percent = 0;  // of a thread's time that it may take; 0: it does not run

  // Data
  PersistenceFacts persistence;
  AppendLogFacts append_log;
  PrimaryLinkFacts primary_link;
  ReplicasFacts replicas;
  uint32_t shards_behind = 0;  // Persistence::shards_behind
  uint64_t placed_tags = 0;
  uint64_t scripts_known = 0;
  uint64_t forgotten_scripts = 0;
  uint64_t functions = 0;
  uint64_t libraries = 0;

  // By full name; only commands that were called or refused
  struct CommandFacts {
    uint64_t calls = 0;
    uint64_t rejected = 0;
    uint64_t failed = 0;
    double usec = 0;
  };
  std::map<std::string, CommandFacts> commands;
  std::map<std::string, uint64_t> errors;
  // Of each command that was called, in cycles, if they were asked for; and which percentiles INFO
  // shows.
  std::vector<double> percentiles;
  std::map<std::string, LatencyHistogram> latencies;

  // By index
  struct ThreadFacts {
    double cpu_user_s = 0;
    double cpu_sys_s = 0;
    uint64_t clients = 0;
    uint64_t commands = 0;
    uint64_t iterations = 0;
    uint64_t wakeups = 0;
    uint64_t messages = 0;
    uint64_t fibers = 0;  // with the one that asks
  };
  std::vector<ThreadFacts> per_thread;
  struct ShardFacts {
    uint32_t thread = 0;
    uint64_t keys = 0;
    uint64_t expires = 0;
    uint64_t used_bytes = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t queue_length = 0;
  };
  std::vector<ShardFacts> per_shard;

  // One for each entry of the setting.
  struct QuotaFacts {
    QuotaOwner owner;
    QuotaLimits limits;
    uint64_t connections = 0;
    uint64_t memory = 0;
    uint64_t delayed = 0;
    uint64_t refused = 0;
    uint64_t refused_connections = 0;
    uint64_t refused_writes = 0;
    uint64_t evicted_clients = 0;
  };
  std::vector<QuotaFacts> quotas;

  // Only if they were asked for.
  KeySizesFacts key_sizes;

  // The sum of all kinds of memory that are counted: what used_memory is.
  uint64_t CountedMemory() const;
};

// One parallel hop over all threads. From a fiber. Suspends.
InfoFacts GatherInfo(ServerState& server, bool with_latencies = false);

}  // namespace dfly
