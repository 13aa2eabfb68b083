// SPDX-License-Identifier: Apache-2.0
// The same facts as INFO's, under names as Prometheus wants them: base units, counters that end in
// _total, what is of one kind in one family with labels. Nothing is counted here.
#include "server/info/metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "helio/base/cycle_clock.h"
#include "server/base/version.h"
#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

// Upper bounds in seconds. Every command that was called has a sample for each, so they are few.
constexpr std::array kLatencyBounds = {1e-6,   2.5e-6, 5e-6, 1e-5,   2.5e-5, 5e-5, 1e-4,
                                       2.5e-4, 5e-4,   1e-3, 2.5e-3, 5e-3,   1e-2, 2.5e-2,
                                       5e-2,   0.1,    0.25, 0.5,    1.0,    2.5,  10.0};

double AsGauge(bool value) { return value ? 1 : 0; }

void Process(const InfoFacts& facts, PrometheusText& out) {
  out.Begin("build_info", "gauge", "Always 1; its labels tell what runs.");
  out.Add({{"version", kVersion},
           {"redis_version", kRedisVersion},
           {"engine", facts.multiplexing_api},
           {"allocator", facts.allocator}},
          1);
  out.Gauge("start_time_seconds", "Unix time of the start.", facts.start_s);
  out.Gauge("uptime_seconds", "Time since the start.", facts.uptime_s);
  out.Gauge("threads", "Threads, each with an event loop.", facts.threads);
  out.Gauge("shards", "Slices of the key space.", facts.shards);
  out.Begin("cpu_seconds_total", "counter", "CPU time of the process.");
  out.Add({{"mode", "user"}}, facts.cpu_user_s);
  out.Add({{"mode", "system"}}, facts.cpu_sys_s);
}

void Clients(const InfoFacts& facts, PrometheusText& out) {
  out.Gauge("connected_clients", "Connections of clients.", facts.clients);
  out.Gauge("blocked_clients", "Clients that wait for a key.", facts.blocked_clients);
  out.Gauge("pubsub_clients", "Clients that are subscribed.", facts.pubsub_clients);
  out.Gauge("max_clients", "Connections at most.", facts.maxclients);
  out.Counter("connections_received_total", "Connections that were accepted.",
              facts.connections_received);
  out.Counter("connections_rejected_total",
              "Connections that were refused: too many, or protected mode.",
              facts.rejected_connections);
  out.Counter("client_ends_swept_total",
              "Ends of clients that only a look at their sockets has found: 0 is normal.",
              facts.ends_swept);
  out.Counter("auth_timeouts_total", "Clients that did not authenticate in time.",
              facts.auth_timeouts);
  out.Counter("tls_handshakes_total", "TLS handshakes that succeeded.", facts.tls.handshakes);
  out.Begin("tls_handshake_failures_total", "counter", "TLS handshakes that did not.");
  out.Add({{"reason", "error"}}, facts.tls.handshake_failures);
  out.Add({{"reason", "timeout"}}, facts.tls.handshake_timeouts);
  out.Gauge("client_input_buffer_max_bytes", "The largest input that waits of one client.",
            facts.input_buffer_max);
  out.Gauge("client_output_buffer_max_bytes", "The largest output that waits for one client.",
            facts.output_buffer_max);
  out.Begin("client_limit_disconnections_total", "counter", "Clients that were ended for a limit.");
  out.Add({{"limit", "client-output-buffer-limit"}}, facts.output_disconnections);
  out.Add({{"limit", "client-query-buffer-limit"}}, facts.large_inputs);
  out.Add({{"limit", "maxmemory-clients"}}, facts.evicted_clients);
  out.Begin("net_bytes_total", "counter", "Bytes from and to clients.");
  out.Add({{"direction", "in"}}, facts.received_bytes);
  out.Add({{"direction", "out"}}, facts.sent_bytes);
}

void Memory(const InfoFacts& facts, PrometheusText& out) {
  out.Gauge("memory_used_bytes", "What the server knows to use; the sum of memory_kind_bytes.",
            facts.used_memory);
  out.Begin("memory_kind_bytes", "gauge", "Memory by what it is used for.");
  for (const auto& [kind, bytes] : facts.MemoryByKind()) out.Add({{"kind", kind}}, bytes);
  out.Gauge("memory_used_peak_bytes", "The most that was used.", facts.used_memory_peak);
  out.Gauge("memory_rss_bytes", "Memory of the process that is resident.", facts.rss);
  out.Gauge("memory_max_bytes", "maxmemory; 0: no limit.", facts.maxmemory);
  out.Gauge("memory_system_bytes", "What the machine or the container has.", facts.system_memory);
  out.Gauge("defrag_running", "1: memory is being moved so that it can be returned.",
            AsGauge(facts.defrag_running_percent != 0));
  out.Counter("defrag_seconds_total", "Time spent on that.",
              static_cast<double>(facts.defrag.work_ns) / 1e9);
  out.Counter("defrag_passes_total", "Passes over all keys.", facts.defrag.passes);
  out.Counter("defrag_moved_blocks_total", "Blocks that were moved.", facts.defrag.hits);
}

void Keyspace(const InfoFacts& facts, PrometheusText& out) {
  out.Begin("db_keys", "gauge", "Keys of a database.");
  for (size_t i = 0; i < facts.databases.size(); ++i) {
    if (i == 0 || facts.databases[i].keys != 0)
      out.Add({{"db", fmt::format("db{}", i)}}, facts.databases[i].keys);
  }
  out.Begin("db_expiring_keys", "gauge", "Keys of a database that have a time to live.");
  for (size_t i = 0; i < facts.databases.size(); ++i) {
    if (i == 0 || facts.databases[i].keys != 0)
      out.Add({{"db", fmt::format("db{}", i)}}, facts.databases[i].expires);
  }
  out.Counter("keyspace_hits_total", "Look-ups that found their key.", facts.hits);
  out.Counter("keyspace_misses_total", "Look-ups that did not.", facts.misses);
  out.Counter("expired_keys_total", "Keys whose time was over.", facts.expired_keys);
  out.Counter("evicted_keys_total", "Keys that went because memory was full.", facts.evicted_keys);
  out.Gauge("lazyfree_pending_objects", "Deleted values that wait to be freed.",
            facts.pending_objects);
}

// Where a histogram's samples are, at most `bound_s`.
uint64_t CountUpTo(const LatencyHistogram& histogram, double bound_s) {
  uint64_t count = 0;
  histogram.ForEach([&](int64_t high_cycles, uint64_t in_bucket) {
    if (static_cast<double>(helio::CycleClock::ToNanos(high_cycles)) / 1e9 <= bound_s)
      count += in_bucket;
  });
  return count;
}

void Latencies(const InfoFacts& facts, PrometheusText& out) {
  out.Begin("command_latency_seconds", "histogram",
            "How long commands ran; of what is cheap, one call in 16 is timed and counts for 16.");
  for (const auto& [name, histogram] : facts.latencies) {
    const uint64_t all = histogram.count();
    for (double bound : kLatencyBounds) {
      out.Add({{"cmd", name}, {"le", fmt::format("{}", bound)}}, CountUpTo(histogram, bound),
              "_bucket");
    }
    out.Add({{"cmd", name}, {"le", "+Inf"}}, all, "_bucket");
    double per_call_s = 0;
    if (const auto it = facts.commands.find(name); it != facts.commands.end()) {
      const InfoFacts::CommandFacts& command = it->second;
      if (command.calls > 0) per_call_s = command.usec / 1e6 / static_cast<double>(command.calls);
    }
    out.Add({{"cmd", name}}, per_call_s * static_cast<double>(all), "_sum");
    out.Add({{"cmd", name}}, all, "_count");
  }
}

void Commands(const InfoFacts& facts, PrometheusText& out) {
  out.Counter("commands_total", "Commands of clients.", facts.commands_processed);
  const auto family = [&](std::string_view name, std::string_view help, auto value_of) {
    out.Begin(name, "counter", help);
    for (const auto& [command, its] : facts.commands) out.Add({{"cmd", command}}, value_of(its));
  };
  using Facts = InfoFacts::CommandFacts;
  family("command_calls_total", "Calls, also those of scripts.",
         [](const Facts& its) { return its.calls; });
  family("command_seconds_total", "Time that they took; estimated where not all are timed.",
         [](const Facts& its) { return its.usec / 1e6; });
  family("command_failed_calls_total", "Calls that were answered with an error.",
         [](const Facts& its) { return its.failed; });
  family("command_rejected_calls_total",
         "Calls that were not carried out: arguments, permissions, memory.",
         [](const Facts& its) { return its.rejected; });
  Latencies(facts, out);
  out.Counter("error_replies_total", "Errors that clients were answered.", facts.error_replies);
  out.Begin("errors_total", "counter", "Errors by their first word.");
  for (const auto& [code, count] : facts.errors) out.Add({{"code", code}}, count);
  out.Counter("protocol_errors_total", "Clients that did not speak the protocol.",
              facts.protocol_errors);
}

void PubSub(const InfoFacts& facts, PrometheusText& out) {
  out.Begin("pubsub_topics", "gauge", "What clients are subscribed to.");
  out.Add({{"kind", "channel"}}, facts.pubsub_channels);
  out.Add({{"kind", "pattern"}}, facts.pubsub_patterns);
  out.Add({{"kind", "shard_channel"}}, facts.pubsub_shard_channels);
  out.Counter("pubsub_delivered_messages_total", "Messages that subscribers were sent.",
              facts.pubsub_delivered);
  out.Counter("pubsub_held_publishers_total", "Times that a PUBLISH had to wait for the threads.",
              facts.pubsub_publishers_held);
}

void Tracking(const InfoFacts& facts, PrometheusText& out) {
  out.Gauge("tracking_clients", "Clients that cache.", facts.tracking.clients);
  out.Gauge("tracking_keys", "Keys that they are told about.", facts.tracking.keys);
  out.Gauge("tracking_prefixes", "Prefixes that they are told about.", facts.tracking.prefixes);
}

void Scripts(const InfoFacts& facts, PrometheusText& out) {
  const ScriptStats& scripts = facts.scripts;
  out.Begin("script_runs_total", "counter", "Runs of scripts by the locks that they had.");
  out.Add({{"way", "in_place"}}, scripts.in_place);
  out.Add({{"way", "across"}}, scripts.across);
  out.Add({{"way", "global"}}, scripts.global);
  out.Add({{"way", "not_atomic"}}, scripts.alone);
  out.Counter("script_restarts_total", "Runs that were abandoned, as they used other keys.",
              scripts.restarts);
  out.Counter("script_refused_keys_total", "Keys of scripts that could not begin again.",
              scripts.refused_keys);
  out.Counter("script_hops_total", "Messages of scripts to shards.", scripts.hops);
  out.Counter("script_gave_way_total", "Scripts that were so long that they let others run.",
              scripts.gave_way);
  out.Gauge("scripts_running", "Scripts that have begun and not ended.", facts.running_scripts);
  out.Gauge("scripts_cached", "Scripts that EVALSHA knows.", facts.scripts_known);
  out.Gauge("script_interpreters", "Lua states.", facts.interpreters);
  out.Gauge("functions", "Functions of FUNCTION LOAD.", facts.functions);
  out.Gauge("function_libraries", "Their libraries.", facts.libraries);
}

void Transactions(const InfoFacts& facts, PrometheusText& out) {
  const InfoFacts::TransactionFacts& tx = facts.transactions;
  out.Begin("tx_commands_total", "counter", "Commands by the way that they took to their shards.");
  out.Add({{"way", "in_place"}}, facts.local_commands);
  out.Add({{"way", "batch"}}, facts.remote_commands);
  out.Add({{"way", "queued"}}, tx.queued);
  out.Add({{"way", "fiber"}}, facts.coordinated_commands);
  out.Begin("tx_transactions_total", "counter", "Transactions by how many shards they had.");
  for (size_t width = 1; width < tx.widths.size(); ++width) {
    if (tx.widths[width] > 0 || width == 1)
      out.Add({{"shards", fmt::format("{}", width)}}, tx.widths[width]);
  }
  out.Counter("tx_global_total", "Transactions that locked whole shards.", tx.global);
  out.Counter("tx_retries_total", "Transactions that had to take another number.", tx.retries);
  out.Begin("tx_hops_total", "counter", "Hops by where their transaction stood in the queue.");
  out.Add({{"place", "head"}}, tx.runs_at_head);
  out.Add({{"place", "ahead"}}, tx.runs_ahead);
  out.Begin("tx_execs_total", "counter", "EXECs by where their keys were.");
  out.Add({{"way", "one_shard"}}, tx.execs_of_one_shard);
  out.Add({{"way", "across"}}, tx.execs_across);
  out.Begin("tx_blocking_total", "counter", "Blocking commands by the way that they took.");
  out.Add({{"way", "in_place"}}, tx.blocking_tried);
  out.Add({{"way", "one_hop"}}, tx.blocking_one_hop);
  out.Add({{"way", "across"}}, tx.blocking_general);
  out.Gauge("tx_queue_length", "Transactions that stand in the queues of shards.", tx.queue_length);
  out.Gauge("tx_queue_longest", "The most that ever stood in one queue.", tx.queue_longest);
  out.Gauge("tx_oldest_seconds", "How long the oldest one has been there.",
            static_cast<double>(tx.oldest_us) / 1e6);
  out.Gauge("tx_long_held_locks", "Transactions that have locks for longer than lock-warning-ms.",
            tx.long_held.count());
  out.Gauge("tx_longest_held_seconds", "For how long somebody has locks.",
            static_cast<double>(tx.longest_held_us) / 1e6);
  out.Gauge("tx_watched_keys", "Keys that WATCH watches.", tx.watched_keys);
  out.Gauge("tx_waited_keys", "Keys that blocked clients wait for.", tx.waited_keys);
  out.Gauge("tx_ready_keys", "Of these, keys that are there: 0 but for moments.", tx.ready_keys);
}

void Snapshots(const InfoFacts& facts, PrometheusText& out) {
  const PersistenceFacts& saved = facts.persistence;
  out.Gauge("snapshot_last_success", "1: the last snapshot succeeded, or there was none.",
            AsGauge(saved.is_last_ok));
  out.Gauge("snapshot_last_save_timestamp_seconds",
            "Unix time of the last good snapshot, or of the start.", saved.last_save_s);
  out.Gauge("snapshot_last_duration_seconds", "How long the last one took; -1: there was none.",
            saved.last_duration_s);
  out.Gauge("snapshot_last_size_bytes", "How large it is.", saved.last_bytes);
  out.Gauge("snapshot_last_keys", "Its keys.", saved.last_keys);
  out.Gauge("snapshot_in_progress", "1: one is being made.", AsGauge(saved.is_saving));
  out.Counter("snapshots_total", "Snapshots that succeeded.", saved.saves);
  out.Gauge("snapshot_unsaved_changes", "Changes of keys since the last one.",
            facts.changes - std::min(facts.changes, saved.changes_at_last_save));
  out.Gauge("snapshot_shards_behind", "Shards whose writers wait for the disk.",
            facts.shards_behind);
  out.Gauge("loading", "1: a snapshot is being loaded.", AsGauge(saved.is_loading));
  out.Gauge("loading_size_bytes", "What there is to load.",
            saved.is_loading ? std::max(saved.load_bytes_total, saved.load_bytes) : 0);
  out.Gauge("loading_loaded_bytes", "What is loaded of it.",
            saved.is_loading ? saved.load_bytes : 0);
}

void Threads(const InfoFacts& facts, PrometheusText& out) {
  using Facts = InfoFacts::ThreadFacts;
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          auto value_of) {
    out.Begin(name, type, help);
    for (size_t i = 0; i < facts.per_thread.size(); ++i)
      out.Add({{"thread", fmt::format("{}", i)}}, value_of(facts.per_thread[i]));
  };
  out.Begin("thread_cpu_seconds_total", "counter",
            "CPU time of a thread: its rate is how busy the event loop is.");
  for (size_t i = 0; i < facts.per_thread.size(); ++i) {
    const std::string thread = fmt::format("{}", i);
    out.Add({{"thread", thread}, {"mode", "user"}}, facts.per_thread[i].cpu_user_s);
    out.Add({{"thread", thread}, {"mode", "system"}}, facts.per_thread[i].cpu_sys_s);
  }
  family("thread_clients", "gauge", "Connections of a thread.",
         [](const Facts& its) { return its.clients; });
  family("thread_commands_total", "counter", "Commands of its clients.",
         [](const Facts& its) { return its.commands; });
  family("thread_iterations_total", "counter", "Iterations of its event loop.",
         [](const Facts& its) { return its.iterations; });
  family("thread_wakeups_total", "counter", "Iterations that slept.",
         [](const Facts& its) { return its.wakeups; });
  family("thread_messages_total", "counter", "Messages from other threads.",
         [](const Facts& its) { return its.messages; });
  family("thread_fibers", "gauge", "Its fibers: commands that wait, and its own.",
         [](const Facts& its) { return its.fibers; });
}

void Shards(const InfoFacts& facts, PrometheusText& out) {
  using Facts = InfoFacts::ShardFacts;
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          auto value_of) {
    out.Begin(name, type, help);
    for (size_t i = 0; i < facts.per_shard.size(); ++i) {
      const Facts& shard = facts.per_shard[i];
      out.Add({{"shard", fmt::format("{}", i)}, {"thread", fmt::format("{}", shard.thread)}},
              value_of(shard));
    }
  };
  family("shard_keys", "gauge", "Keys of a shard.", [](const Facts& its) { return its.keys; });
  family("shard_used_bytes", "gauge", "Memory of its data.",
         [](const Facts& its) { return its.used_bytes; });
  family("shard_hits_total", "counter", "Look-ups there that found their key.",
         [](const Facts& its) { return its.hits; });
  family("shard_misses_total", "counter", "Look-ups there that did not.",
         [](const Facts& its) { return its.misses; });
  family("shard_queue_length", "gauge", "Transactions in its queue.",
         [](const Facts& its) { return its.queue_length; });
}

}  // namespace

std::string FormatMetrics(const InfoFacts& facts) {
  PrometheusText out("dragonfly_");
  Process(facts, out);
  Clients(facts, out);
  Memory(facts, out);
  Keyspace(facts, out);
  Commands(facts, out);
  PubSub(facts, out);
  Tracking(facts, out);
  Scripts(facts, out);
  Transactions(facts, out);
  Snapshots(facts, out);
  Threads(facts, out);
  Shards(facts, out);
  return std::move(out.text());
}

}  // namespace dfly
