// SPDX-License-Identifier: Apache-2.0
// The text of INFO.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "core/memory/allocator_facts.h"
#include "engine/keyspace/defrag.h"
#include "helio/net/tls.h"
#include "server/acl/acl_log.h"
#include "server/care/held_locks.h"
#include "server/clients/tracking_state.h"
#include "server/meters/latency_histogram.h"
#include "server/meters/persistence_facts.h"
#include "server/meters/script_stats.h"
#include "server/meters/worker_memory.h"

namespace dfly {

struct ServerState;

// All numbers of INFO at one moment (each thread's of its own moment).
struct InfoFacts {
  bool emulates_cluster = false;
  // Server
  std::string os;
  std::string multiplexing_api;
  std::string run_id;
  std::string executable;
  std::string config_file;
  bool is_supervised = false;  // by systemd
  int64_t process_id = 0;
  int tcp_port = 0;
  int64_t now_us = 0;
  int64_t start_s = 0;  // Unix time
  uint64_t uptime_s = 0;
  uint32_t threads = 0;
  uint32_t shards = 0;
  // Clients
  struct TransactionFacts {
    uint64_t queued = 0;
    uint64_t execs_of_one_shard = 0;
    uint64_t execs_across = 0;
    uint64_t blocking_tried = 0;
    uint64_t blocking_one_hop = 0;
    uint64_t blocking_general = 0;
    uint64_t global = 0;
    std::vector<uint64_t> widths;  // [n]: transactions on n shards
    uint64_t retries = 0;
    uint64_t runs_at_head = 0;
    uint64_t runs_ahead = 0;
    uint64_t queue_length = 0;  // of all shards together, now
    uint64_t queue_longest = 0;
    uint64_t oldest_us = 0;        // how long it has been waiting or running
    Holders long_held;             // that have locks for longer than lock-warning-ms
    uint64_t longest_held_us = 0;  // of all that have locks
    uint64_t waited_keys = 0;
    uint64_t waited_absences = 0;  // of these, for whose end somebody waits, too
    uint64_t ready_keys = 0;       // that somebody waits for; 0 unless something runs
    uint64_t watched_keys = 0;
  };
  TransactionFacts transactions;
  ScriptStats scripts;
  uint64_t scripts_known = 0;
  uint64_t script_memory = 0;  // of their texts
  uint64_t functions = 0;
  uint64_t libraries = 0;
  uint64_t function_memory = 0;  // of their texts
  uint64_t acl_memory = 0;       // of the users of ACLs
  uint64_t interpreters = 0;
  uint64_t running_scripts = 0;
  uint64_t blocked_clients = 0;
  uint64_t clients = 0;
  uint64_t maxclients = 0;
  uint64_t input_buffer_max = 0;
  uint64_t output_buffer_max = 0;
  TrackingCounts tracking;
  uint64_t pending_objects = 0;  // that wait to be freed
  uint64_t freed_objects = 0;    // after such a wait
  uint64_t pubsub_clients = 0;
  uint64_t watching_clients = 0;
  // Memory
  uint64_t used_memory = 0;
  uint64_t used_memory_peak = 0;
  uint64_t base_memory = 0;
  uint64_t data_memory = 0;
  WorkerMemory memory;  // of all threads, besides data
  uint64_t rss = 0;
  HeapFacts heap;                 // of the threads, some moments ago (MemoryUse::RecentHeap)
  uint64_t over_limit_ms = 0;     // that used_memory was above maxmemory, in all
  uint64_t is_over_limit_ms = 0;  // and is now
  uint64_t system_memory = 0;
  uint64_t maxmemory = 0;
  std::string_view maxmemory_policy = "noeviction";
  uint32_t shards_behind = 0;  // Settings::shards_behind
  bool cache_mode = false;
  DefragStats defrag;
  uint32_t defrag_running_percent = 0;  // of a thread's time that it may take; 0: it does not run
  uint64_t defrag_running_ns = 0;       // so long already, on the thread that began first
  std::string allocator;
  // Persistence
  uint64_t changes = 0;
  PersistenceFacts persistence;
  // Stats
  uint64_t connections_received = 0;
  uint64_t commands_processed = 0;
  uint64_t commands_per_second = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_per_second = 0;  // bytes
  uint64_t sent_per_second = 0;
  uint64_t reads = 0;  // pieces that came from clients
  uint64_t writes = 0;
  uint64_t expiry_ns = 0;    // that background expiry took
  uint64_t expiry_cuts = 0;  // slices of it that ended before their work
  uint64_t rejected_connections = 0;
  uint64_t expired_keys = 0;
  uint64_t expired_members = 0;
  uint64_t forgotten_scripts = 0;
  std::array<uint64_t, kAclRefusals> acl_refusals = {};
  uint64_t loop_cycles = 0;  // of all event loops, as what follows
  uint64_t loop_us = 0;      // of the processor's time
  uint64_t loop_cycles_per_second = 0;
  uint64_t loop_us_per_second = 0;
  std::vector<std::string> listeners;
  uint64_t evicted_keys = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t error_replies = 0;
  uint64_t protocol_errors = 0;
  uint64_t auth_timeouts = 0;
  uint64_t ends_swept = 0;  // WorkerStats::ends_swept
  helio::TlsStats tls;
  uint64_t pubsub_channels = 0;
  uint64_t pubsub_patterns = 0;
  uint64_t pubsub_shard_channels = 0;
  uint64_t pubsub_delivered = 0;
  uint64_t pubsub_publishers_held = 0;
  uint64_t output_disconnections = 0;
  uint64_t large_inputs = 0;
  uint64_t evicted_clients = 0;
  // CPU
  double cpu_sys_s = 0;
  double cpu_user_s = 0;
  double cpu_sys_children_s = 0;
  double cpu_user_children_s = 0;
  double cpu_sys_thread_s = 0;  // of the thread that answers
  double cpu_user_thread_s = 0;
  // Commandstats, by full name; only commands that were called or refused
  struct CommandFacts {
    uint64_t calls = 0;
    uint64_t rejected = 0;
    uint64_t failed = 0;
    double usec = 0;
  };
  std::map<std::string, CommandFacts> commands;
  std::map<std::string, uint64_t> errors;
  // Latencystats: of each command that was called, in cycles, if they were asked for; and which
  // percentiles INFO shows.
  std::vector<double> percentiles;
  std::map<std::string, LatencyHistogram> latencies;
  // Keyspace
  struct DatabaseFacts {
    uint64_t keys = 0;
    uint64_t expires = 0;
    double ttl_ms = 0;            // of all these together, estimated
    double due = 0;               // of these, and not removed yet, estimated
    uint64_t member_expires = 0;  // keys whose members have deadlines
  };
  std::vector<DatabaseFacts> databases;
  // Dispatch: which paths the commands took
  uint64_t local_commands = 0;
  uint64_t remote_commands = 0;
  uint64_t batches = 0;
  uint64_t coordinated_commands = 0;
  uint64_t placed_tags = 0;
  uint64_t migrations = 0;
  uint64_t loop_iterations = 0;
  uint64_t loop_wakeups = 0;
  uint64_t messages = 0;
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

  // What used_memory is made of: their sum is that.
  std::vector<std::pair<std::string_view, uint64_t>> MemoryByKind() const;
};

// One parallel hop over all threads. From a fiber. Suspends.
InfoFacts GatherInfo(ServerState& server, bool with_latencies = false);

// `sections` as the arguments of INFO: names in any case; none is "default". Unknown ones are
// ignored.
std::string FormatInfo(const InfoFacts& facts, std::span<const std::string_view> sections);

// The INFO command. For RegisterFamilies.
void RegisterInfoCommands(CommandTable* table);

}  // namespace dfly
