// SPDX-License-Identifier: Apache-2.0
// INFO. The names of sections and fields are those of redis-server that tools read; what this
// server does not have yet is either told as the zero that it is, or left out. There must be no
// field by which a known client takes us for another server than Redis ("dragonfly_version").
#include "server/info/info.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/hops/coordinator.h"
#include "helio/base/cycle_clock.h"
#include "server/base/units.h"
#include "server/base/version.h"
#include "server/base/words.h"
#include "server/clients/worker_state.h"
#include "server/persistence/persistence.h"

namespace dfly {

namespace {

// Collects "name:value" lines.
class Lines {
 public:
  template <typename Value>
  void Add(std::string_view name, const Value& value) {
    fmt::format_to(std::back_inserter(text_), "{}:{}\r\n", name, value);
  }
  void AddBytes(std::string_view name, uint64_t bytes) {
    Add(name, bytes);
    Add(fmt::format("{}_human", name), HumanBytes(bytes));
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string KibPerSecond(uint64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / 1024);
}

void ServerSection(const InfoFacts& facts, Lines& out) {
  out.Add("redis_version", kRedisVersion);
  out.Add("redis_git_sha1", "00000000");
  out.Add("redis_git_dirty", 0);
  out.Add("redis_build_id", kVersion);
  out.Add("redis_mode", facts.emulates_cluster ? "cluster" : "standalone");
  out.Add("os", facts.os);
  out.Add("arch_bits", sizeof(void*) * 8);
  out.Add("atomicvar_api", "c11-builtin");
  out.Add("monotonic_clock", "POSIX clock_gettime");
  out.Add("multiplexing_api", facts.multiplexing_api);
  out.Add("gcc_version", fmt::format("{}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__));
  out.Add("process_id", facts.process_id);
  out.Add("process_supervised", facts.is_supervised ? "systemd" : "no");
  out.Add("run_id", facts.run_id);
  out.Add("tcp_port", facts.tcp_port);
  out.Add("server_time_usec", facts.now_us);
  out.Add("uptime_in_seconds", facts.uptime_s);
  out.Add("uptime_in_days", facts.uptime_s / 86400);
  out.Add("hz", 10);  // nothing of ours has such a rate; tools expect one
  out.Add("configured_hz", 10);
  out.Add("lru_clock", (facts.now_us / 1'000'000) & 0xffffff);
  out.Add("executable", facts.executable);
  out.Add("config_file", facts.config_file);
  for (size_t n = 0; n < facts.listeners.size(); ++n) {
    out.Add(fmt::format("listener{}", n), facts.listeners[n]);
  }
  out.Add("io_threads_active", facts.threads > 1 ? 1 : 0);
  out.Add("proactor_threads", facts.threads);
  out.Add("num_shards", facts.shards);
}

void ClientsSection(const InfoFacts& facts, Lines& out) {
  out.Add("connected_clients", facts.clients);
  out.Add("cluster_connections", 0);
  out.Add("maxclients", facts.maxclients);
  out.Add("client_recent_max_input_buffer", facts.input_buffer_max);
  out.Add("client_recent_max_output_buffer", facts.output_buffer_max);
  out.Add("blocked_clients", facts.blocked_clients);
  out.Add("tracking_clients", facts.tracking.clients);
  out.Add("pubsub_clients", facts.pubsub_clients);
  out.Add("watching_clients", facts.watching_clients);
  out.Add("clients_in_timeout_table", 0);
  out.Add("total_watched_keys", facts.transactions.watched_keys);
  out.Add("total_blocking_keys", facts.transactions.waited_keys);
  out.Add("total_blocking_keys_on_nokey", facts.transactions.waited_absences);
}

void MemorySection(const InfoFacts& facts, Lines& out) {
  // Their numbers are of different moments, so the difference may be less than nothing.
  const uint64_t overhead = facts.used_memory - std::min(facts.used_memory, facts.data_memory);
  out.AddBytes("used_memory", facts.used_memory);
  out.AddBytes("used_memory_rss", facts.rss);
  out.AddBytes("used_memory_peak", facts.used_memory_peak);
  out.Add("used_memory_peak_perc",
          fmt::format("{:.2f}%", 100 * Ratio(facts.used_memory, facts.used_memory_peak)));
  out.Add("used_memory_overhead", overhead);
  out.Add("used_memory_startup", facts.base_memory);
  out.Add("used_memory_dataset", facts.data_memory);
  out.Add("used_memory_dataset_perc",
          fmt::format("{:.2f}%", 100 * Ratio(facts.data_memory,
                                             facts.used_memory -
                                                 std::min(facts.used_memory, facts.base_memory))));
  out.AddBytes("total_system_memory", facts.system_memory);
  out.AddBytes("used_memory_lua", facts.memory.interpreters);
  out.AddBytes("used_memory_scripts",
               facts.memory.interpreters + facts.script_memory + facts.function_memory);
  out.Add("number_of_cached_scripts", facts.scripts_known);
  out.Add("number_of_functions", facts.functions);
  out.Add("number_of_libraries", facts.libraries);
  out.AddBytes("used_memory_functions", facts.function_memory);
  out.AddBytes("maxmemory", facts.maxmemory);
  out.Add("used_memory_vm_eval", facts.memory.interpreters);
  out.Add("used_memory_scripts_eval", facts.script_memory);
  out.Add("used_memory_vm_functions", 0);  // they share the interpreters
  out.AddBytes("used_memory_vm_total", facts.memory.interpreters);
  out.Add("maxmemory_policy", facts.maxmemory_policy);
  out.Add("cache_mode", facts.cache_mode ? "cache" : "store");
  const HeapFacts& heap = facts.heap;
  const auto difference = [](uint64_t more, uint64_t less) {
    return static_cast<int64_t>(more) - static_cast<int64_t>(less);
  };
  out.Add("allocator_allocated", heap.allocated);
  out.Add("allocator_active", heap.active);
  out.Add("allocator_resident", heap.resident);
  out.Add("allocator_frag_ratio", fmt::format("{:.2f}", Ratio(heap.active, heap.allocated)));
  out.Add("allocator_frag_bytes", difference(heap.active, heap.allocated));
  out.Add("allocator_rss_ratio", fmt::format("{:.2f}", Ratio(heap.resident, heap.active)));
  out.Add("allocator_rss_bytes", difference(heap.resident, heap.active));
  out.Add("rss_overhead_ratio", fmt::format("{:.2f}", Ratio(facts.rss, heap.resident)));
  out.Add("rss_overhead_bytes", difference(facts.rss, heap.resident));
  out.Add("mem_fragmentation_ratio", fmt::format("{:.2f}", Ratio(facts.rss, facts.used_memory)));
  out.Add("mem_fragmentation_bytes",
          static_cast<int64_t>(facts.rss) - static_cast<int64_t>(facts.used_memory));
  out.Add("mem_not_counted_for_evict", 0);
  out.Add("mem_total_replication_buffers", 0);
  out.Add("mem_replication_backlog", 0);
  out.Add("mem_cluster_links", 0);
  out.Add("mem_clients_slaves", 0);
  out.Add("mem_clients_normal", facts.memory.clients + facts.memory.queued_commands);
  out.Add("mem_queued_commands", facts.memory.queued_commands);
  out.Add("mem_coordinators", facts.memory.coordinators);
  out.Add("mem_fiber_stacks", facts.memory.fiber_stacks);
  out.Add("mem_receive_buffers", facts.memory.receive_buffers);
  out.Add("mem_snapshot", facts.memory.snapshot);
  out.Add("mem_acl_users", facts.acl_memory);
  out.Add("mem_aof_buffer", 0);
  out.Add("mem_allocator", facts.allocator);
  out.Add("active_defrag_running", facts.defrag_running_percent);
  out.Add("lazyfree_pending_objects", facts.pending_objects);
  out.Add("lazyfreed_objects", facts.freed_objects);
}

void PersistenceSection(const InfoFacts& facts, Lines& out) {
  const PersistenceFacts& saved = facts.persistence;
  out.Add("loading", saved.is_loading ? 1 : 0);
  out.Add("async_loading", 0);
  out.Add("current_cow_peak", 0);
  out.Add("current_cow_size", 0);
  out.Add("current_cow_size_age", 0);
  out.Add("current_fork_perc", "0.00");
  out.Add("current_save_keys_processed", saved.current_keys);
  out.Add("current_save_keys_total", saved.current_keys_total);
  out.Add("rdb_changes_since_last_save",
          facts.changes - std::min(facts.changes, saved.changes_at_last_save));
  out.Add("rdb_bgsave_in_progress", saved.is_saving ? 1 : 0);
  out.Add("rdb_last_save_time", saved.last_save_s);
  out.Add("rdb_last_bgsave_status", saved.is_last_ok ? "ok" : "err");
  out.Add("rdb_last_bgsave_time_sec", saved.last_duration_s);
  out.Add("rdb_current_bgsave_time_sec", saved.current_duration_s);
  out.Add("rdb_saves", saved.saves);
  out.Add("rdb_last_cow_size", 0);
  out.Add("rdb_last_load_keys_expired", saved.load_expired_keys);
  out.Add("rdb_last_load_keys_loaded", saved.loaded_keys);
  out.Add("aof_enabled", 0);
  out.Add("aof_rewrite_in_progress", 0);
  out.Add("aof_rewrite_scheduled", 0);
  out.Add("aof_last_rewrite_time_sec", -1);
  out.Add("aof_current_rewrite_time_sec", -1);
  out.Add("aof_last_bgrewrite_status", "ok");
  out.Add("aof_last_write_status", "ok");
  out.Add("aof_rewrites", 0);
  out.Add("aof_rewrites_consecutive_failures", 0);
  out.Add("aof_last_cow_size", 0);
  out.Add("module_fork_in_progress", 0);
  out.Add("module_fork_last_cow_size", 0);
  out.Add("snapshot_shards_behind", facts.shards_behind);
  out.Add("snapshot_last_error", saved.last_error);
  out.Add("snapshot_last_file", saved.last_file);
  out.Add("snapshot_last_keys", saved.last_keys);
  out.Add("snapshot_last_bytes", saved.last_bytes);
  out.Add("snapshot_last_keys_by_changes", saved.last_shards.keys_by_changes);
  out.Add("snapshot_last_values_taken", saved.last_shards.values_taken);
  out.Add("snapshot_last_values_hurried", saved.last_shards.values_hurried);
  out.Add("snapshot_last_values_copied", saved.last_shards.values_copied);
  out.Add("snapshot_last_buffered_max", saved.last_shards.buffered_bytes_max);
  if (!saved.is_loading) return;
  const uint64_t total = std::max(saved.load_bytes_total, saved.load_bytes);
  const double part =
      total == 0 ? 0 : static_cast<double>(saved.load_bytes) / static_cast<double>(total);
  const auto elapsed_s = static_cast<double>(facts.now_us / 1'000'000 - saved.load_start_s);
  out.Add("loading_start_time", saved.load_start_s);
  out.Add("loading_total_bytes", total);
  out.Add("loading_loaded_bytes", saved.load_bytes);
  out.Add("loading_loaded_perc", fmt::format("{:.2f}", 100 * part));
  out.Add("loading_eta_seconds",
          part == 0 ? 1 : static_cast<int64_t>(elapsed_s * (1 - part) / part));
}

// Without those that carry out others, which are counted themselves.
uint64_t MicrosOfCommands(const InfoFacts& facts) {
  constexpr std::string_view kCarriers[] = {"eval",  "eval_ro",  "evalsha", "evalsha_ro",
                                            "fcall", "fcall_ro", "exec"};
  double us = 0;
  for (const auto& [name, counted] : facts.commands) {
    if (std::find(std::begin(kCarriers), std::end(kCarriers), name) == std::end(kCarriers)) {
      us += static_cast<double>(counted.usec);
    }
  }
  return static_cast<uint64_t>(us);
}

void StatsSection(const InfoFacts& facts, Lines& out) {
  out.Add("total_connections_received", facts.connections_received);
  out.Add("total_commands_processed", facts.commands_processed);
  out.Add("instantaneous_ops_per_sec", facts.commands_per_second);
  out.Add("total_net_input_bytes", facts.received_bytes);
  out.Add("total_net_output_bytes", facts.sent_bytes);
  out.Add("total_net_repl_input_bytes", 0);
  out.Add("total_net_repl_output_bytes", 0);
  out.Add("instantaneous_input_kbps", KibPerSecond(facts.received_per_second));
  out.Add("instantaneous_output_kbps", KibPerSecond(facts.sent_per_second));
  out.Add("instantaneous_input_repl_kbps", "0.00");
  out.Add("instantaneous_output_repl_kbps", "0.00");
  out.Add("rejected_connections", facts.rejected_connections);
  out.Add("auth_timeouts", facts.auth_timeouts);
  out.Add("client_ends_swept", facts.ends_swept);
  out.Add("tls_handshakes", facts.tls.handshakes);
  out.Add("tls_handshake_failures", facts.tls.handshake_failures);
  out.Add("tls_handshake_timeouts", facts.tls.handshake_timeouts);
  out.Add("sync_full", 0);
  out.Add("sync_partial_ok", 0);
  out.Add("sync_partial_err", 0);
  out.Add("expired_subkeys", facts.expired_members);
  out.Add("expired_keys", facts.expired_keys);
  uint64_t expires = 0;
  double due = 0;
  for (const InfoFacts::DatabaseFacts& database : facts.databases) {
    expires += database.expires;
    due += database.due;
  }
  out.Add("expired_stale_perc",
          fmt::format("{:.2f}", expires == 0 ? 0 : 100 * due / static_cast<double>(expires)));
  out.Add("expired_time_cap_reached_count", facts.expiry_cuts);
  out.Add("expire_cycle_cpu_milliseconds", facts.expiry_ns / 1'000'000);
  out.Add("evicted_keys", facts.evicted_keys);
  out.Add("evicted_clients", facts.evicted_clients);
  out.Add("evicted_scripts", facts.forgotten_scripts);
  out.Add("total_eviction_exceeded_time", facts.over_limit_ms);
  out.Add("current_eviction_exceeded_time", facts.is_over_limit_ms);
  out.Add("keyspace_hits", facts.hits);
  out.Add("keyspace_misses", facts.misses);
  out.Add("pubsub_channels", facts.pubsub_channels);
  out.Add("pubsub_patterns", facts.pubsub_patterns);
  out.Add("pubsubshard_channels", facts.pubsub_shard_channels);
  out.Add("latest_fork_usec", 0);
  out.Add("total_forks", 0);
  out.Add("total_active_defrag_time", facts.defrag.work_ns / 1'000'000);
  out.Add("current_active_defrag_time", facts.defrag_running_ns / 1'000'000);
  out.Add("active_defrag_passes", facts.defrag.passes);
  out.Add("active_defrag_returns", facts.defrag.returns);
  out.Add("active_defrag_hits", facts.defrag.hits);
  out.Add("active_defrag_misses", facts.defrag.misses);
  out.Add("active_defrag_key_hits", facts.defrag.key_hits);
  out.Add("active_defrag_key_misses", facts.defrag.key_misses);
  out.Add("migrate_cached_sockets", 0);
  out.Add("slave_expires_tracked_keys", 0);
  out.Add("tracking_total_keys", facts.tracking.keys);
  out.Add("tracking_total_items", facts.tracking.items);
  out.Add("tracking_total_prefixes", facts.tracking.prefixes);
  out.Add("unexpected_error_replies", 0);
  out.Add("total_error_replies", facts.error_replies);
  const auto restores = facts.commands.find("restore");  // each payload is checked
  out.Add("dump_payload_sanitizations",
          restores == facts.commands.end() ? 0 : restores->second.calls);
  out.Add("total_reads_processed", facts.reads);
  out.Add("total_writes_processed", facts.writes);
  out.Add("io_threaded_reads_processed", facts.reads);
  out.Add("io_threaded_writes_processed", facts.writes);
  out.Add("reply_buffer_shrinks", 0);
  out.Add("reply_buffer_expands", 0);
  out.Add("protocol_errors", facts.protocol_errors);
  out.Add("eventloop_cycles", facts.loop_cycles);
  out.Add("eventloop_duration_sum", facts.loop_us);
  out.Add("eventloop_duration_cmd_sum", MicrosOfCommands(facts));
  out.Add("instantaneous_eventloop_cycles_per_sec", facts.loop_cycles_per_second);
  out.Add("instantaneous_eventloop_duration_usec",
          facts.loop_us_per_second / std::max<uint64_t>(1, facts.loop_cycles_per_second));
  constexpr std::string_view kRefused[kAclRefusals] = {"auth", "cmd", "key", "channel"};
  for (size_t n = 0; n < kAclRefusals; ++n) {
    out.Add(fmt::format("acl_access_denied_{}", kRefused[n]), facts.acl_refusals[n]);
  }
  out.Add("client_query_buffer_limit_disconnections", facts.large_inputs);
  out.Add("client_output_buffer_limit_disconnections", facts.output_disconnections);
}

void ReplicationSection(const InfoFacts& facts, Lines& out) {
  out.Add("role", "master");
  out.Add("connected_slaves", 0);
  out.Add("master_failover_state", "no-failover");
  out.Add("master_replid", facts.run_id);
  out.Add("master_replid2", std::string(40, '0'));
  out.Add("master_repl_offset", 0);
  out.Add("second_repl_offset", -1);
  out.Add("repl_backlog_active", 0);
  out.Add("repl_backlog_size", 0);
  out.Add("repl_backlog_first_byte_offset", 0);
  out.Add("repl_backlog_histlen", 0);
}

void CpuSection(const InfoFacts& facts, Lines& out) {
  out.Add("used_cpu_sys", fmt::format("{:.6f}", facts.cpu_sys_s));
  out.Add("used_cpu_user", fmt::format("{:.6f}", facts.cpu_user_s));
  out.Add("used_cpu_sys_children", fmt::format("{:.6f}", facts.cpu_sys_children_s));
  out.Add("used_cpu_user_children", fmt::format("{:.6f}", facts.cpu_user_children_s));
  out.Add("used_cpu_sys_main_thread", fmt::format("{:.6f}", facts.cpu_sys_thread_s));
  out.Add("used_cpu_user_main_thread", fmt::format("{:.6f}", facts.cpu_user_thread_s));
}

void ModulesSection(const InfoFacts&, Lines&) {}

void CommandstatsSection(const InfoFacts& facts, Lines& out) {
  for (const auto& [name, command] : facts.commands) {
    const double per_call =
        command.calls == 0 ? 0 : command.usec / static_cast<double>(command.calls);
    out.Add("cmdstat_" + name,
            fmt::format("calls={},usec={:.0f},usec_per_call={:.2f},rejected_calls={},"
                        "failed_calls={}",
                        command.calls, command.usec, per_call, command.rejected, command.failed));
  }
}

void LatencystatsSection(const InfoFacts& facts, Lines& out) {
  for (const auto& [name, histogram] : facts.latencies) {
    std::string text;
    for (double percent : facts.percentiles) {
      const int64_t nanos = helio::CycleClock::ToNanos(histogram.Percentile(percent));
      fmt::format_to(std::back_inserter(text), "{}p{}={:.3f}", text.empty() ? "" : ",", percent,
                     static_cast<double>(nanos) / 1000);
    }
    out.Add("latency_percentiles_usec_" + name, text);
  }
}

void ErrorstatsSection(const InfoFacts& facts, Lines& out) {
  for (const auto& [code, count] : facts.errors) {
    out.Add("errorstat_" + code, fmt::format("count={}", count));
  }
}

void ClusterSection(const InfoFacts& facts, Lines& out) {
  out.Add("cluster_enabled", facts.emulates_cluster ? 1 : 0);
}

void KeyspaceSection(const InfoFacts& facts, Lines& out) {
  for (size_t i = 0; i < facts.databases.size(); ++i) {
    const auto& [keys, expires, ttl_ms, due, member_expires] = facts.databases[i];
    if (keys == 0) continue;
    const double mean_ms = expires == 0 ? 0 : ttl_ms / static_cast<double>(expires);
    out.Add(fmt::format("db{}", i), fmt::format("keys={},expires={},avg_ttl={:.0f},subexpiry={}",
                                                keys, expires, mean_ms, member_expires));
  }
}

void DispatchSection(const InfoFacts& facts, Lines& out) {
  out.Add("local_commands", facts.local_commands);
  out.Add("remote_commands", facts.remote_commands);
  out.Add("batches", facts.batches);
  out.Add("coordinated_commands", facts.coordinated_commands);
  out.Add("migrations", facts.migrations);
  out.Add("placed_tags", facts.placed_tags);
  out.Add("loop_iterations", facts.loop_iterations);
  out.Add("loop_wakeups", facts.loop_wakeups);
  out.Add("messages", facts.messages);
  out.Add("pubsub_delivered", facts.pubsub_delivered);
  out.Add("pubsub_publishers_held", facts.pubsub_publishers_held);
}

// Which way commands have taken, and what waits now.
void TransactionSection(const InfoFacts& facts, Lines& out) {
  const InfoFacts::TransactionFacts& tx = facts.transactions;
  out.Add("tx_inline", facts.local_commands);
  out.Add("tx_quick", facts.remote_commands);
  out.Add("tx_queued", tx.queued);
  uint64_t over_shards = 0;
  for (size_t width = 2; width < tx.widths.size(); ++width) over_shards += tx.widths[width];
  out.Add("tx_multi_shard", over_shards);
  out.Add("tx_global", tx.global);
  out.Add("tx_retries", tx.retries);
  out.Add("tx_hops_at_head", tx.runs_at_head);
  out.Add("tx_hops_ahead", tx.runs_ahead);
  out.Add("tx_exec_one_shard", tx.execs_of_one_shard);
  out.Add("tx_exec_squashed", tx.execs_across);
  out.Add("tx_blocking_inline", tx.blocking_tried);
  out.Add("tx_blocking_single_hop", tx.blocking_one_hop);
  out.Add("tx_blocking_general", tx.blocking_general);
  for (size_t width = 1; width < tx.widths.size(); ++width) {
    if (tx.widths[width] > 0) out.Add(fmt::format("tx_width_{}", width), tx.widths[width]);
  }
  const ScriptStats& scripts = facts.scripts;
  out.Add("script_runs", scripts.runs());
  out.Add("script_in_place", scripts.in_place);
  out.Add("script_across", scripts.across);
  out.Add("script_global", scripts.global);
  out.Add("script_not_atomic", scripts.alone);
  out.Add("script_restarts", scripts.restarts);
  out.Add("script_refused_keys", scripts.refused_keys);
  out.Add("script_hops", scripts.hops);
  out.Add("script_deferred_calls", scripts.deferred_calls);
  out.Add("script_gave_way", scripts.gave_way);
  out.Add("script_running", facts.running_scripts);
  out.Add("script_interpreters", facts.interpreters);
  out.Add("tx_queue_length", tx.queue_length);
  out.Add("tx_queue_longest", tx.queue_longest);
  out.Add("tx_oldest_usec", tx.oldest_us);
  out.Add("tx_long_held_locks", tx.long_held.count());
  out.Add("tx_longest_held_usec", tx.longest_held_us);
  size_t number = 0;
  for (const Holder& holder : tx.long_held.Longest()) {
    out.Add(fmt::format("tx_long_holder_{}", number++),
            fmt::format("command={},client={},held_usec={},shards={},waits_for={}", holder.name,
                        holder.client_id, holder.held_us, fmt::join(holder.shards, " "),
                        holder.waits_for));
  }
  out.Add("tx_watched_keys", tx.watched_keys);
  out.Add("tx_waited_keys", tx.waited_keys);
  out.Add("tx_ready_keys", tx.ready_keys);
}

void ThreadsSection(const InfoFacts& facts, Lines& out) {
  for (size_t i = 0; i < facts.per_thread.size(); ++i) {
    const InfoFacts::ThreadFacts& thread = facts.per_thread[i];
    out.Add(fmt::format("thread{}", i),
            fmt::format("cpu_user={:.6f},cpu_sys={:.6f},clients={},commands={},iterations={},"
                        "wakeups={},messages={},fibers={}",
                        thread.cpu_user_s, thread.cpu_sys_s, thread.clients, thread.commands,
                        thread.iterations, thread.wakeups, thread.messages, thread.fibers));
  }
}

void ShardsSection(const InfoFacts& facts, Lines& out) {
  for (size_t i = 0; i < facts.per_shard.size(); ++i) {
    const InfoFacts::ShardFacts& shard = facts.per_shard[i];
    out.Add(fmt::format("shard{}", i),
            fmt::format("thread={},keys={},expires={},used_memory={},hits={},misses={},queue={}",
                        shard.thread, shard.keys, shard.expires, shard.used_bytes, shard.hits,
                        shard.misses, shard.queue_length));
  }
}

struct Section {
  std::string_view name;
  std::string_view title;
  bool is_default;  // shown by a plain INFO
  void (*write)(const InfoFacts& facts, Lines& out);
};

constexpr Section kSections[] = {
    {"server", "Server", true, ServerSection},
    {"clients", "Clients", true, ClientsSection},
    {"memory", "Memory", true, MemorySection},
    {"persistence", "Persistence", true, PersistenceSection},
    {"stats", "Stats", true, StatsSection},
    {"replication", "Replication", true, ReplicationSection},
    {"cpu", "CPU", true, CpuSection},
    {"modules", "Modules", true, ModulesSection},
    {"commandstats", "Commandstats", false, CommandstatsSection},
    {"latencystats", "Latencystats", false, LatencystatsSection},
    {"errorstats", "Errorstats", true, ErrorstatsSection},
    {"cluster", "Cluster", true, ClusterSection},
    {"keyspace", "Keyspace", true, KeyspaceSection},
    {"dispatch", "Dispatch", false, DispatchSection},
    {"transaction", "Transaction", false, TransactionSection},
    {"threads", "Threads", false, ThreadsSection},
    {"shards", "Shards", false, ShardsSection},
};

bool IsWanted(const Section& section, std::span<const std::string_view> wanted) {
  if (wanted.empty()) return section.is_default;
  return std::any_of(wanted.begin(), wanted.end(), [&section](std::string_view name) {
    if (IsWord(name, "all") || IsWord(name, "everything")) return true;
    return IsWord(name, "default") ? section.is_default : IsWord(name, section.name);
  });
}

void Info(CoordinatorContext&, Args args, ReplySink& reply) {
  const auto sections = args.from(1);
  const bool with_latencies =
      std::any_of(sections.begin(), sections.end(), [](std::string_view name) {
        return IsWord(name, "latencystats") || IsWord(name, "all") || IsWord(name, "everything");
      });
  const InfoFacts facts = GatherInfo(WorkerState::Here().server, with_latencies);
  reply.Verbatim("txt", FormatInfo(facts, args.from(1)));
}

}  // namespace

std::string FormatInfo(const InfoFacts& facts, std::span<const std::string_view> sections) {
  Lines out;
  for (const Section& section : kSections) {
    if (!IsWanted(section, sections)) continue;
    if (!out.text().empty()) out.text() += "\r\n";
    out.text() += fmt::format("# {}\r\n", section.title);
    section.write(facts, out);
  }
  return std::move(out.text());
}

void RegisterInfoCommands(CommandTable* table) {
  table->Add({.name = "info",
              .coordinate = Info,
              .arity = -1,
              .flags = kLoading | kStale,
              .categories = kAclDangerous,
              .docs = {"Tells about the server, in sections.", "1.0.0", "server", "O(1)"},
              .tips = "nondeterministic_output request_policy:all_shards response_policy:special"});
}

}  // namespace dfly
