// SPDX-License-Identifier: Apache-2.0
// What the server is told at its start. Filled by the rows of its settings from flags and
// redis.conf (flags.h), or by a test; nothing changes it afterwards. What CONFIG SET may change has
// its first value from here, and lives elsewhere (settings.h, Config, and who uses it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/hops/tag_placement.h"
#include "engine/keyspace/access_clock.h"
#include "engine/keyspace/key_events.h"
#include "engine/keyspace/key_tag.h"
#include "engine/keyspace/shard_limits.h"
#include "facade/connection.h"
#include "helio/net/tls.h"
#include "server/base/logged_limits.h"
#include "server/base/stop_rule.h"
#include "server/options/output_limits.h"
#include "server/options/protected_action.h"
#include "server/options/quota_settings.h"
#include "server/options/settings.h"
#include "storage/file_layer.h"
#include "storage/frame_file.h"
#include "storage/log/log_policy.h"
#include "storage/snapshot_sizes.h"

namespace dfly {

class CommandTable;

// Where commands come by HTTP (http_commands.h).
inline constexpr char kApiPath[] = "/api/commands";

// Where users come from.
struct AclOptions {
  std::string file;           // --aclfile; empty: none
  std::string users;          // --user: lines "name rule ..." of a configuration file
  std::string password;       // --requirepass: the default user's
  bool all_channels = false;  // --acl_pubsub_default=allchannels
  size_t log_max = 0;         // --acllog_max_len
};

// maxmemory-clients: "0", bytes or "5%".
struct ClientMemorySetting {
  uint64_t bytes = 0;
  uint32_t percent = 0;

  [[nodiscard]] std::string Parse(std::string_view text);  // why it cannot, or nothing
  std::string ToString() const;
};

// --save: a snapshot is due when so many changes were made and the last one is so old.
struct SaveRule {
  uint64_t seconds = 0;
  uint64_t changes = 0;
};
// "900 1 300 10"; empty: none. False: it is no list of rules.
bool ParseSaveRules(std::string_view text, std::vector<SaveRule>* rules);
std::string FormatSaveRules(const std::vector<SaveRule>& rules);

// What the start says of snapshots.
struct PersistenceOptions {
  std::string directory;   // --dir; empty: the current one
  std::string dbfilename;  // empty: nothing is loaded or saved
  std::vector<SaveRule> rules;
  std::string cron;  // --snapshot_cron; empty: none
  FrameCodec codec = {};
  int level = 0;                    // of kZstd
  bool compresses_strings = false;  // rdbcompression
  bool stops_writes_on_error = false;
  std::string after_save_command;  // a program and its arguments; empty: none

  // Tests have others of these.
  FileLayer* files = &SystemFiles();
  SnapshotSizes sizes = {.work_ns = 100'000};
  // The cut waits for locks, and writers behind it: it comes when no long script runs, or after:
  uint64_t script_wait_ns = 60'000'000'000;
};

// What the start says of the append-only log.
struct LogOptions {
  bool is_on = false;
  std::string directory_name = {};  // appenddirname
  std::string file_name = {};       // appendfilename
  LogPolicy policy = LogPolicy::kEverySec;
  bool has_timestamps = false;
  bool loads_truncated = false;
  uint64_t rewrite_percentage = 0;  // 0: no rewrite begins by itself
  uint64_t rewrite_min_bytes = 0;
  int64_t history_s = 0;  // how long what a rewrite replaces is kept; 0: it is not

  // With a history, too: it is of no use without times.
  bool writes_timestamps() const { return has_timestamps || history_s > 0; }
  uint64_t buffer_limit = 0;          // bytes that are not on the disk yet; 0: no limit
  uint64_t absent_replica_bytes = 0;  // of what is kept for replicas that have left
};

// What happens to a script that uses keys which it has not declared (--undeclared_keys).
enum class UndeclaredKeys : uint8_t {
  kLearn,   // what each script needs is found out
  kGlobal,  // all scripts lock all shards
  kRefuse
};

// What tls-client-* say, for connections that this server makes. Empty: as those of its ports.
struct TlsClientFiles {
  std::string cert_file;
  std::string key_file;
  std::string key_file_pass;
};

// repl-diskless-load: what a replica does with its data when a full copy has come.
enum class CopyLoad : uint8_t {
  kDisabled,   // the copy goes to a file, then the data goes, then the file is loaded
  kOnEmptyDb,  // as kSwapDb if there is no data, else as kDisabled
  kSwapDb,     // the data stays until the copy is loaded, as it comes, without a file
};

struct ReplicationOptions {
  uint64_t timeout_s = 0;  // repl-timeout

  // Of a replica.

  std::string primary = {};   // replicaof: "host port"; empty: it is no replica at the start
  std::string user = {};      // masteruser
  std::string password = {};  // masterauth
  bool is_read_only = true;
  bool ignores_disk_errors = false;
  bool serves_stale_data = true;
  uint32_t priority = 0;
  bool is_announced = true;
  CopyLoad copy_load = CopyLoad::kDisabled;
  uint64_t retry_ms = 1'000;  // before a link that made no progress is tried again; tests have less
  std::string announce_ip = {};
  uint16_t announce_port = 0;  // 0: the one it has

  // Of a primary.
  uint64_t backlog_bytes = 0;
  uint64_t backlog_ttl_s = 0;  // without a replica it is kept for so long; 0: always
  uint64_t ping_period_s = 0;
  uint64_t good_replicas_min = 0;  // min-replicas-to-write; 0: writes need none
  uint64_t good_lag_max_s = 0;     // min-replicas-max-lag; 0: the same
  uint64_t copy_delay_s = 0;       // repl-diskless-sync-delay
  uint64_t copy_replicas_max = 0;  // with so many a copy begins at once; 0: it never does
  uint64_t min_replicas_to_ack = 0;
  bool acks_are_durable = false;  // ack_means
  uint64_t ack_timeout_ms = 0;
  uint64_t fence_sentinels = 0;  // fence_without_sentinels
  uint64_t fence_ms = 0;

  // Replies wait for them.
  bool HoldsReplies() const { return min_replicas_to_ack > 0 || fence_sentinels > 0; }
};

// Up to which size values have their small forms, as it was told.
struct ValueSizes {
  int64_t list_max_listpack_size = 0;  // BlockLimit::FromSetting
  uint64_t hash_entries = 0;
  uint64_t hash_element_bytes = 0;
  uint64_t set_integers = 0;
  uint64_t set_entries = 0;
  uint64_t set_element_bytes = 0;
  uint64_t zset_entries = 0;
  uint64_t zset_element_bytes = 0;
  StreamLimit stream;
  size_t hll_sparse_bytes = 0;
  size_t json_depth = 0;
  uint64_t json_path_visits = 0;

  // For shards: what is more than a form can hold is the most that it can.
  ShardLimits Limits() const;
};

// Zeros: the initial values are in the rows of server/settings (DefaultOptions there).
struct ServerOptions {
  explicit ServerOptions() = default;  // so that {} is none

  std::vector<std::string> binds;  // addresses; one that cannot be used is an error, "-addr" is
                                   // skipped then, as in Redis
  uint16_t port = 0;               // 0: no TCP
  bool tls = false;                // on that port
  uint16_t tls_port = 0;           // 0: none
  helio::TlsOptions tls_options;
  TlsClientFiles tls_client;
  uint64_t tls_reload_s = 0;  // tls-auto-reload-interval; 0: files are not looked at again
  CertificateUser certificate_user = CertificateUser::kOff;  // tls-auth-clients-user
  bool tls_replication = false;                              // the link with the primary has TLS
  uint16_t memcached_port = 0;                               // 0: none
  uint16_t admin_port = 0;                                   // 0: none
  std::vector<std::string> admin_binds;
  bool admin_nopass = false;
  bool no_tls_on_admin_port = false;  // although the main port has it
  std::vector<std::string> restricted_commands;
  std::vector<std::pair<std::string, std::string>> renamed_commands;  // the new name may be empty
  bool protected_mode = false;
  ProtectedAction protected_configs = {};  // CONFIG SET dir and dbfilename
  ProtectedAction debug_command = {};
  ProtectedAction module_command = {};  // MODULE LOAD and UNLOAD
  uint64_t auth_timeout_s = 0;
  bool metrics_nopass = false;   // GET /metrics is for everybody who reaches the port
  bool web_console = false;      // "/" and "/api/commands" over HTTP
  uint64_t http_reply_max = 0;   // bytes of all replies to one request
  uint64_t http_timeout_ms = 0;  // of its commands
  std::string unix_socket;       // empty: none
  uint32_t unix_socket_mode = 0;
  int backlog = 0;
  uint32_t threads = 0;
  uint32_t num_shards = 0;  // 0: as many as threads
  int db_count = 0;
  bool force_epoll = false;
  uint32_t thread_slice_us = 0;  // 0: the kernel's own
  AclOptions acl;
  uint64_t idle_timeout_s = 0;
  uint32_t tcp_keepalive_s = 0;
  uint32_t maxclients = 0;
  uint64_t clients_possible = UINT32_MAX;  // as the limit of open files allows
  bool active_defrag = false;
  uint32_t defrag_threshold_percent = 0;
  uint64_t defrag_ignore_bytes = 0;
  uint32_t defrag_cycle_percent = 0;  // 1 to 99
  uint64_t maxmemory = 0;             // bytes of all that is known; 0: no limit
  bool cache_mode = false;
  EvictionSettings eviction;
  OutputLimits output_limits;
  uint64_t client_query_buffer_limit = 0;  // bytes
  ClientMemorySetting maxmemory_clients;
  QuotaSettings quotas;
  uint64_t snapshot_buffer_limit = 0;  // bytes, of all shards; 0: no limit
  LogOptions log;
  ReplicationOptions replication;
  ValueSizes value_sizes;
  TagRules tag_rules;
  PlacementRules placement_rules;
  bool singlehop_blocking = false;
  uint32_t blocked_clients_max = 0;
  UndeclaredKeys undeclared_keys = {};
  uint32_t default_lua_flags = 0;  // ScriptFlags of scripts that say nothing themselves
  bool lua_auto_async = false;
  bool singlehop_scripts = false;
  bool singlehop_commands = false;
  bool migrate_connections = false;
  uint32_t interpreters_per_thread = 0;
  uint64_t busy_reply_threshold_ms = 0;
  size_t lua_memory_max = 0;         // bytes of one interpreter
  uint64_t system_memory_bytes = 0;  // of the machine or container; for INFO
  std::string pid_file;              // for CONFIG GET; main writes it
  std::string take_over;             // a pid file or unix socket; empty: it takes over from nobody
  uint64_t take_over_timeout_s = 0;  // for all of it, of the new process
  uint64_t take_over_pause_ms = 0;   // that clients wait at most, of the old process
  std::string config_file;           // absolute; for CONFIG REWRITE. Empty: none
  std::string log_file;              // for CONFIG GET
  std::string log_level;
  bool ignores_unknown_flags = false;  // ReadArguments has seen to it
  std::string audit_log;               // a file; empty: none
  uint64_t audit_buffer_limit = 0;
  std::string log_format;  // for CONFIG GET; main sets it
  bool is_daemon = false;  // for CONFIG GET
  bool huge_pages = false;
  StopRule on_sigint;
  StopRule on_sigterm;
  uint64_t shutdown_timeout_s = 0;         // how long the end waits for locks, and for what hangs
  int64_t slowlog_log_slower_than_us = 0;  // -1: no command, 0: all
  uint64_t lock_warning_ms = 0;            // 0: nobody is told
  uint64_t keysizes_keys_max = 0;          // that INFO keysizes looks at; 0: all
  uint64_t slowlog_max_len = 0;            // entries, of all threads
  LoggedLimits logged_limits;              // of SLOWLOG and COMMANDLOG
  int64_t large_request_bytes = 0, large_reply_bytes = 0;       // COMMANDLOG; -1: none, 0: all
  uint64_t large_request_max_len = 0, large_reply_max_len = 0;  // entries, of all threads
  uint64_t latency_monitor_threshold_ms = 0;                    // 0: off
  KeyEventClasses key_events;
  uint64_t tracking_table_max_keys = 0;
  bool latency_tracking = false;
  std::vector<double> latency_percentiles;  // that INFO shows
  // SHUTDOWN: makes the main thread call Stop(). Thread: any. None: SHUTDOWN is refused.
  std::function<void()> request_stop;
  PersistenceOptions persistence;
  bool emulates_cluster = false;    // to clients it is a Redis Cluster of one node
  std::string cluster_announce_ip;  // empty: where the client has reached us
  uint16_t cluster_announce_port = 0;
  ConnectionLimits limits;

  // For tests. Commands for shards of the same thread are sent as to any other.
  bool all_remote = false;
  // Not 0: batches arrive and return in an order that this seed decides (MessageShuffle).
  uint64_t schedule_seed = 0;
  std::function<void(CommandTable*)> add_commands;

  bool has_tls() const { return tls || tls_port != 0; }
};

// "50 99 99.9". Returns an empty string, or what is wrong.
std::string ParsePercentiles(std::string_view text, std::vector<double>* percentiles);

}  // namespace dfly
