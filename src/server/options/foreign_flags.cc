// SPDX-License-Identifier: Apache-2.0
#include "server/options/foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text/numbers.h"
#include "server/base/words.h"
#include "server/options/setting_row.h"

namespace dfly {

namespace {

using enum ForeignFlag::Kind;

constexpr std::string_view kDevelopers = "it is for those who develop Dragonfly";
constexpr std::string_view kTogether =
    "pipelines and transactions are always run together where they can be";
constexpr std::string_view kOutput = "see --client_output_buffer_limit and --maxmemory_clients";
constexpr std::string_view kBackground = "the work of the background is cut into slices by itself";
constexpr std::string_view kFiles = "files and sockets need no such setting";
constexpr std::string_view kAllThreads =
    "all threads do all work: see --proactor_threads; taskset binds them";
constexpr std::string_view kNoCluster =
    "there is no cluster of several servers; --cluster_mode=emulated is for clients of one";
constexpr std::string_view kSearch = "it tunes the search of Dragonfly";
constexpr std::string_view kJson = "it tunes the JSON of Dragonfly";
constexpr std::string_view kEviction = "see --maxmemory, --cache_mode and --maxmemory_policy";
constexpr std::string_view kDefrag = "see --activedefrag and --active_defrag_threshold_lower";
constexpr std::string_view kNotCompressed = "values in memory are not compressed so";
constexpr std::string_view kTcp = "TCP is set for short replies by itself";
constexpr std::string_view kSlowClients = "see --tcp_keepalive and --client_output_buffer_limit";
constexpr std::string_view kAsRedis = "replication is as that of Redis";
constexpr std::string_view kReplTimeout = "see --repl_timeout";
constexpr std::string_view kSlices = "large values are always saved in slices";
constexpr std::string_view kUndeclared = "see --undeclared_keys";
constexpr std::string_view kLuaMemory = "see --lua_memory_max";
constexpr std::string_view kNothing = "nothing depends on it";
constexpr std::string_view kCloud =
    "snapshots go to --dir; --after_save_command can copy them to a cloud";
constexpr std::string_view kInMemory = "all data is in memory";
constexpr std::string_view kNumbers = "scripts reply numbers as in Redis: without their fractions";

// By name. docs/coming-from-dragonfly.md tells of them, too.
constexpr ForeignFlag kFlags[] = {
    {.name = "allocation_tracker", .why = kDevelopers},
    {.name = "always_flush_pipeline", .why = kTogether},
    {.name = "announce_port", .kind = kAlias, .ours = "replica_announce_port"},
    {.name = "async_dispatch_quota", .why = kTogether},
    {.name = "availability_zone", .why = "clients are not told of it"},
    {.name = "background_debug_jobs", .why = kDevelopers},
    {.name = "background_heartbeat", .why = kBackground},
    {.name = "background_snapshotting", .why = kBackground},
    {.name = "backing_file_direct", .why = kFiles},
    {.name = "break_replication_on_master_restart",
     .kind = kEndsStart,
     .harmless = "false",
     .why = "a replica follows a primary that has started again; --appendonly keeps the primary's "
            "data"},
    {.name = "cluster_coordinator_connect_timeout_ms", .why = kNoCluster},
    {.name = "cluster_coordinator_response_timeout_ms", .why = kNoCluster},
    {.name = "cluster_flush_decommit_memory", .why = kNoCluster},
    {.name = "cluster_node_id", .why = kNoCluster},
    {.name = "cluster_search", .why = kSearch},
    {.name = "command_alias",
     .kind = kEndsStart,
     .harmless = "",
     .why = "a command has one name, which --rename_command changes"},
    {.name = "conn_io_thread_start", .why = kAllThreads},
    {.name = "conn_io_threads", .why = kAllThreads},
    {.name = "conn_use_incoming_cpu", .why = kAllThreads},
    {.name = "container_iteration_yield_interval_usec", .why = kBackground},
    {.name = "deserialize_hnsw_index", .why = kSearch},
    {.name = "df_snapshot_format",
     .kind = kEndsStart,
     .harmless = "true",
     .why = "--dbfilename=NAME.rdb saves files of Redis"},
    {.name = "disable_json_defragmentation", .why = kJson},
    {.name = "enable_heartbeat_eviction", .why = kEviction},
    {.name = "enable_heartbeat_rss_eviction", .why = kEviction},
    {.name = "enable_memcache_io_loop_v2", .why = kTogether},
    {.name = "enable_resp_io_loop_v2", .why = kTogether},
    {.name = "enable_tcp_defer_accept", .why = kTcp},
    {.name = "epoll_file_threads", .why = kFiles},
    {.name = "eviction_memory_budget_threshold", .why = kEviction},
    {.name = "experimental_cluster_shard_by_slot", .why = kNoCluster},
    {.name = "experimental_flat_json", .why = kJson},
    {.name = "experimental_replicaof_v2", .why = kAsRedis},
    {.name = "expose_http_api",
     .kind = kEndsStart,
     .harmless = "false",
     .why = "--web_console takes commands by POST /api/commands"},
    {.name = "fiber_run_warning_threshold_ms", .why = kBackground},
    {.name = "fiber_safety_margin", .why = kBackground},
    {.name = "gcs_auth_token", .why = kCloud},
    {.name = "gcs_dry_upload", .why = kCloud},
    {.name = "huffman_table", .why = kNotCompressed},
    {.name = "info_replication_valkey_compatible", .why = kAsRedis},
    {.name = "interpreter_per_thread", .kind = kAlias, .ours = "interpreters_per_thread"},
    {.name = "journal_omit_redundant_writes", .why = kAsRedis},
    {.name = "jsonpathv2", .why = kJson},
    {.name = "keep_legacy_memory_metrics", .why = "INFO has the fields of Redis"},
    {.name = "keys_output_limit", .why = "KEYS replies all keys that match; see SCAN"},
    {.name = "list_experimental_zstd_dict_threshold", .why = kNotCompressed},
    {.name = "list_tiering_threshold", .why = kInMemory},
    {.name = "listpack_max_bytes", .why = "see --hash_max_listpack_entries"},
    {.name = "listpack_max_field_len", .kind = kAlias, .ours = "hash_max_listpack_value"},
    {.name = "log_squash_info_threshold_usec", .why = kTogether},
    {.name = "lua_allow_undeclared_auto_correct", .why = kUndeclared},
    {.name = "lua_enable_redis_log", .why = "redis.log always writes"},
    {.name = "lua_float_as_int_shas", .kind = kEndsStart, .harmless = "", .why = kNumbers},
    {.name = "lua_mem_gc_threshold", .why = kLuaMemory},
    {.name = "lua_resp2_legacy_float", .why = kNumbers},
    {.name = "lua_undeclared_keys_shas", .why = kUndeclared},
    {.name = "luagc", .why = kLuaMemory},
    {.name = "managed_service_info", .why = kNothing},
    {.name = "master_connect_timeout_ms", .why = kReplTimeout},
    {.name = "master_reconnect_timeout_ms", .why = kReplTimeout},
    {.name = "max_busy_read_usec", .why = kTogether},
    {.name = "max_busy_squash_usec", .why = kTogether},
    {.name = "max_client_iobuf_len", .why = "see --client_query_buffer_limit"},
    {.name = "max_eviction_per_heartbeat", .why = kEviction},
    {.name = "max_segment_to_consider", .why = kEviction},
    {.name = "max_squashed_cmd_num", .why = kTogether},
    {.name = "mem_defrag_check_sec_interval", .why = kDefrag},
    {.name = "mem_defrag_page_utilization_threshold", .why = kDefrag},
    {.name = "mem_defrag_threshold", .why = kDefrag},
    {.name = "mem_defrag_waste_threshold", .why = kDefrag},
    {.name = "mget_dedup_keys", .why = kTogether},
    {.name = "migration_buckets_cpu_budget", .why = kNoCluster},
    {.name = "migration_buckets_serialization_threshold", .why = kNoCluster},
    {.name = "migration_buckets_sleep_usec", .why = kNoCluster},
    {.name = "migration_finalization_timeout_ms", .why = kNoCluster},
    {.name = "multi_eval_squash_buffer", .why = kTogether},
    {.name = "multi_exec_squash", .why = kTogether},
    {.name = "omit_basic_usage", .why = kNothing},
    {.name = "oom_deny_commands",
     .kind = kEndsStart,
     .harmless = "",
     .why = "which commands are refused without memory is fixed, as in Redis"},
    {.name = "pause_wait_timeout", .why = "CLIENT PAUSE waits for what runs"},
    {.name = "pipeline_buffer_limit",
     .why = "see --pipeline_reply_bytes_max and --pipeline_input_bytes_max, for a connection"},
    {.name = "pipeline_queue_limit", .why = "see --pipeline_commands_max"},
    {.name = "pipeline_squash", .why = kTogether},
    {.name = "pipeline_squash_limit", .why = kTogether},
    {.name = "pipeline_wait_batch_usec", .why = kTogether},
    {.name = "primary_port_http_enabled", .why = "see --web_console and --metrics_nopass"},
    {.name = "proactor_affinity_mode", .why = kAllThreads},
    {.name = "publish_buffer_limit", .why = kOutput},
    {.name = "rdb_ignore_expiry",
     .kind = kEndsStart,
     .harmless = "false",
     .why = "keys whose time is over are left out at the load; PERSIST keeps those that are there"},
    {.name = "rdb_load_dry_run",
     .kind = kEndsStart,
     .harmless = "false",
     .why = "start another server with a copy of the file, on another --port"},
    {.name = "rdb_sbf_chunked", .why = kSlices},
    {.name = "registered_buffer_size", .why = kFiles},
    {.name = "replica_delete_expired", .why = kAsRedis},
    {.name = "replica_partial_sync", .why = kAsRedis},
    {.name = "replicaof_no_one_start_journal", .why = kAsRedis},
    {.name = "replication_acks_interval", .why = kAsRedis},
    {.name = "replication_dispatch_threshold", .why = kAsRedis},
    {.name = "replication_stream_output_limit",
     .why = "see --client_output_buffer_limit, class replica"},
    {.name = "replication_timeout", .why = kReplTimeout},
    {.name = "request_cache_limit", .why = kOutput},
    {.name = "rss_oom_deny_ratio", .why = kEviction},
    {.name = "s3_ec2_metadata", .why = kCloud},
    {.name = "s3_endpoint", .why = kCloud},
    {.name = "s3_sign_payload", .why = kCloud},
    {.name = "s3_use_helio_client", .why = kCloud},
    {.name = "s3_use_https", .why = kCloud},
    {.name = "save_schedule", .kind = kSchedule, .ours = "snapshot_cron"},
    {.name = "scheduler_background_budget", .why = kBackground},
    {.name = "scheduler_background_sleep_prob", .why = kBackground},
    {.name = "scheduler_background_warrant", .why = kBackground},
    {.name = "search_query_string_bytes", .why = kSearch},
    {.name = "search_reject_legacy_field", .why = kSearch},
    {.name = "send_timeout", .why = kSlowClients},
    {.name = "serialization_max_chunk_size", .why = kSlices},
    {.name = "serialization_tagged_chunks", .why = kSlices},
    {.name = "serialize_hnsw_index", .why = kSearch},
    {.name = "shard_repl_backlog_len", .why = "see --repl_backlog_size, in bytes"},
    {.name = "shard_thread_busy_polling_usec", .why = kBackground},
    {.name = "slot_migration_connection_timeout_ms", .why = kNoCluster},
    {.name = "slot_migration_throttle_us", .why = kNoCluster},
    {.name = "squash_stats_latency_lower_limit", .why = kTogether},
    {.name = "squashed_reply_size_limit", .why = kTogether},
    {.name = "subset_knn_search_threshold", .why = kSearch},
    {.name = "table_growth_margin", .why = kEviction},
    {.name = "tcp_nodelay", .why = kTcp},
    {.name = "tcp_user_timeout", .why = kSlowClients},
    {.name = "tiered_experimental_cooling", .why = kInMemory},
    {.name = "tiered_experimental_hash_support", .why = kInMemory},
    {.name = "tiered_experimental_list_support", .why = kInMemory},
    {.name = "tiered_max_file_size", .why = kInMemory},
    {.name = "tiered_max_pending_stash_bytes", .why = kInMemory},
    {.name = "tiered_min_value_size", .why = kInMemory},
    {.name = "tiered_offload_threshold", .why = kInMemory},
    {.name = "tiered_prefix",
     .kind = kEndsStart,
     .harmless = "",
     .why = "all data is in memory: --maxmemory, with --cache_mode or --maxmemory_policy"},
    {.name = "tiered_upload_threshold", .why = kInMemory},
    {.name = "tls_cipher_suites", .kind = kAlias, .ours = "tls_ciphersuites"},
    {.name = "tx_queue_warning_len", .why = "see --lock_warning_ms"},
    {.name = "unlink_experimental_async", .why = kTogether},
    {.name = "uring_direct_table_len", .why = kFiles},
    {.name = "uring_disable_iowait", .why = kFiles},
    {.name = "uring_recv_buffer_cnt", .why = kFiles},
    {.name = "use_numeric_range_tree", .why = kSearch},
    {.name = "use_oah_set", .why = kNotCompressed},
    {.name = "version_check", .why = "this server asks nobody for new versions"},
};
static_assert(std::ranges::is_sorted(kFlags, {}, &ForeignFlag::name));

// "23:45", "*:15" or "*:*" of --save_schedule, as --snapshot_cron has it. Empty: it is none.
std::string CronOf(std::string_view schedule) {
  const size_t colon = schedule.find(':');
  if (colon == std::string_view::npos) return "";
  const auto field = [](std::string_view text, int64_t most) -> std::string {
    if (text == "*") return "*";
    const auto number =
        ParseInt64(text.starts_with('0') && text.size() == 2 ? text.substr(1) : text);
    return number && *number >= 0 && *number <= most ? fmt::format("{}", *number) : "";
  };
  const std::string hour = field(schedule.substr(0, colon), 23);
  const std::string minute = field(schedule.substr(colon + 1), 59);
  return hour.empty() || minute.empty() ? "" : fmt::format("{} {} * * *", minute, hour);
}

// "old=new, old=new" of --rename_command, as lines "old new".
std::string RenamesOf(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    std::string line(part);
    std::replace(line.begin(), line.end(), '=', ' ');
    if (SplitWords(line).empty()) continue;
    if (!lines.empty()) lines += '\n';
    lines += line;
  }
  return lines;
}

std::string CodecOf(std::string_view mode) {
  constexpr std::string_view kCodecs[] = {"none", "none", "zstd", "lz4"};
  return mode.size() == 1 && mode[0] >= '0' && mode[0] <= '3' ? std::string(kCodecs[mode[0] - '0'])
                                                              : std::string(mode);
}

}  // namespace

const ForeignFlag* FindForeignFlag(std::string_view name) {
  const std::string flag = FlagName(name);
  const auto it = std::ranges::lower_bound(kFlags, std::string_view(flag), {}, &ForeignFlag::name);
  return it != std::end(kFlags) && it->name == flag ? &*it : nullptr;
}

std::span<const ForeignFlag> ForeignFlags() { return kFlags; }

ForeignAnswer AnswerForeignFlag(const ForeignFlag& flag, std::string_view value) {
  switch (flag.kind) {
    case kAlias:
      return {.flag = flag.ours, .value = std::string(value)};
    case kSchedule: {
      if (value.empty()) return {};
      std::string cron = CronOf(value);
      if (cron.empty())
        return {.error = fmt::format("'{}' is no HH:MM; see --snapshot_cron", value)};
      return {.flag = flag.ours, .value = std::move(cron)};
    }
    case kNoEffect:
      return {.warning = fmt::format("a flag of Dragonfly without effect here: {}", flag.why)};
    case kEndsStart:
      if (LowerCase(value) == flag.harmless) return {};
      return {.error = fmt::format("a flag of Dragonfly that is not here: {}", flag.why)};
  }
  return {};
}

std::string OwnFormOf(std::string_view flag, std::string_view value) {
  const std::string name = FlagName(flag);
  if (name == "compression_mode") return CodecOf(value);
  if (name == "rename_command" && value.find('=') != std::string_view::npos) {
    return RenamesOf(value);
  }
  if (name == "replicaof" && value.find(' ') == std::string_view::npos) {
    const size_t colon = value.rfind(':');
    if (colon == std::string_view::npos) return std::string(value);
    std::string_view host = value.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return fmt::format("{} {}", host, value.substr(colon + 1));
  }
  return std::string(value);
}

bool MeansNothing(std::string_view flag, std::string_view value) {
  return value.empty() && FlagName(flag) == "locktag_delimiter";
}

std::string RefusalOfValue(std::string_view flag, std::string_view value) {
  const std::string name = FlagName(flag);
  if (name == "dir" && (value.starts_with("s3://") || value.starts_with("gs://"))) {
    return "snapshots go to a folder; --after_save_command can copy them to a cloud";
  }
  if (name == "user" && !value.empty() && value.find(' ') == std::string_view::npos) {
    return fmt::format(
        "'{}' has no rules: it is for users of the ACL here. The system's user is chosen by User= "
        "of systemd, or by --user of docker",
        value);
  }
  return "";
}

}  // namespace dfly
