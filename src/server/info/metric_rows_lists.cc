// SPDX-License-Identifier: Apache-2.0
// Rows of metrics that are lists: of commands, errors, databases, threads and shards.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <string>

#include "helio/base/cycle_clock.h"
#include "server/info/info_text.h"
#include "server/info/metric_rows.h"
#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

using CommandFacts = InfoFacts::CommandFacts;
using ThreadFacts = InfoFacts::ThreadFacts;
using ShardFacts = InfoFacts::ShardFacts;

// A member of T, or what a lambda makes of T.
template <auto kSource, typename T>
auto Get(const T& facts) {
  if constexpr (std::is_member_pointer_v<decltype(kSource)>) {
    return facts.*kSource;
  } else {
    return kSource(facts);
  }
}

// --- Commands ---

void CommandLines(const InfoFacts& facts, InfoText& out) {
  for (const auto& [name, command] : facts.commands) {
    const double per_call =
        command.calls == 0 ? 0 : command.usec / static_cast<double>(command.calls);
    out.Add("cmdstat_" + name,
            fmt::format("calls={},usec={:.0f},usec_per_call={:.2f},rejected_calls={},"
                        "failed_calls={}",
                        command.calls, command.usec, per_call, command.rejected, command.failed));
  }
}

template <auto kSource>
void CommandSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const auto& [name, command] : facts.commands) {
    out.Add({{"cmd", name}}, Get<kSource>(command));
  }
}

constexpr MetricRow kCommandstats[] = {
    {.info = "cmdstat_<command>",
     .help = "Calls of a command, their time (estimated where not all are timed), and how many "
             "were refused or failed.",
     .lines = CommandLines},
    {.prom = "command_calls_total",
     .label = "cmd",
     .type = MetricType::kCounter,
     .place = 501,
     .help = "Calls, also those of scripts.",
     .samples = CommandSamples<&CommandFacts::calls>},
    {.prom = "command_seconds_total",
     .label = "cmd",
     .type = MetricType::kCounter,
     .unit = MetricUnit::kSeconds,
     .place = 502,
     .help = "Time that they took; estimated where not all are timed.",
     .samples = CommandSamples<[](const CommandFacts& its) { return its.usec / 1e6; }>},
    {.prom = "command_failed_calls_total",
     .label = "cmd",
     .type = MetricType::kCounter,
     .place = 503,
     .help = "Calls that were answered with an error.",
     .samples = CommandSamples<&CommandFacts::failed>},
    {.prom = "command_rejected_calls_total",
     .label = "cmd",
     .type = MetricType::kCounter,
     .place = 504,
     .help = "Calls that were not carried out: arguments, permissions, memory.",
     .samples = CommandSamples<&CommandFacts::rejected>},
};

// --- Latencies ---

// Upper bounds in seconds. Every command that was called has a sample for each, so they are few.
constexpr std::array kLatencyBounds = {1e-6,   2.5e-6, 5e-6, 1e-5,   2.5e-5, 5e-5, 1e-4,
                                       2.5e-4, 5e-4,   1e-3, 2.5e-3, 5e-3,   1e-2, 2.5e-2,
                                       5e-2,   0.1,    0.25, 0.5,    1.0,    2.5,  10.0};

void LatencyLines(const InfoFacts& facts, InfoText& out) {
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

// Where a histogram's samples are, at most `bound_s`.
uint64_t CountUpTo(const LatencyHistogram& histogram, double bound_s) {
  uint64_t count = 0;
  histogram.ForEach([&](int64_t high_cycles, uint64_t in_bucket) {
    if (static_cast<double>(helio::CycleClock::ToNanos(high_cycles)) / 1e9 <= bound_s)
      count += in_bucket;
  });
  return count;
}

void LatencySamples(const InfoFacts& facts, PrometheusText& out) {
  for (const auto& [name, histogram] : facts.latencies) {
    const uint64_t all = histogram.count();
    for (double bound : kLatencyBounds) {
      out.Add({{"cmd", name}, {"le", fmt::format("{}", bound)}}, CountUpTo(histogram, bound),
              "_bucket");
    }
    out.Add({{"cmd", name}, {"le", "+Inf"}}, all, "_bucket");
    double per_call_s = 0;
    if (const auto it = facts.commands.find(name); it != facts.commands.end()) {
      const CommandFacts& command = it->second;
      if (command.calls > 0) per_call_s = command.usec / 1e6 / static_cast<double>(command.calls);
    }
    out.Add({{"cmd", name}}, per_call_s * static_cast<double>(all), "_sum");
    out.Add({{"cmd", name}}, all, "_count");
  }
}

constexpr MetricRow kLatencystats[] = {
    {.info = "latency_percentiles_usec_<command>",
     .prom = "command_latency_seconds",
     .label = "cmd, le",
     .type = MetricType::kHistogram,
     .unit = MetricUnit::kSeconds,
     .place = 505,
     .help = "How long commands ran; of what is cheap, one call in 16 is timed and counts for 16.",
     .lines = LatencyLines,
     .samples = LatencySamples},
};

// --- Errors ---

void ErrorLines(const InfoFacts& facts, InfoText& out) {
  for (const auto& [code, count] : facts.errors) {
    out.Add("errorstat_" + code, fmt::format("count={}", count));
  }
}

void ErrorSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const auto& [code, count] : facts.errors) out.Add({{"code", code}}, count);
}

constexpr MetricRow kErrorstats[] = {
    {.info = "errorstat_<code>",
     .prom = "errors_total",
     .label = "code",
     .type = MetricType::kCounter,
     .place = 507,
     .help = "Errors by their first word.",
     .lines = ErrorLines,
     .samples = ErrorSamples},
};

constexpr MetricRow kCluster[] = {
    {.info = "cluster_enabled",
     .help = "1 with `--cluster_mode=emulated`.",
     .value = Of<&InfoFacts::emulates_cluster>},
};

// --- Databases ---

void DatabaseLines(const InfoFacts& facts, InfoText& out) {
  for (size_t i = 0; i < facts.counts.databases.size(); ++i) {
    const auto& [keys, expires, ttl_ms, due, member_expires] = facts.counts.databases[i];
    if (keys == 0) continue;
    const double mean_ms = expires == 0 ? 0 : ttl_ms / static_cast<double>(expires);
    out.Add(fmt::format("db{}", i), fmt::format("keys={},expires={},avg_ttl={:.0f},subexpiry={}",
                                                keys, expires, mean_ms, member_expires));
  }
}

// Those that have keys, and the first one.
template <auto kSource>
void DatabaseSamples(const InfoFacts& facts, PrometheusText& out) {
  for (size_t i = 0; i < facts.counts.databases.size(); ++i) {
    const DatabaseFacts& database = facts.counts.databases[i];
    if (i == 0 || database.keys != 0) {
      out.Add({{"db", fmt::format("db{}", i)}}, Get<kSource>(database));
    }
  }
}

constexpr MetricRow kKeyspace[] = {
    {.info = "db<n>",
     .help = "Keys of a database that is not empty, those of them that have a time to live, its "
             "mean, and keys whose members have one.",
     .lines = DatabaseLines},
    {.prom = "db_keys",
     .label = "db",
     .place = 400,
     .help = "Keys of a database.",
     .samples = DatabaseSamples<&DatabaseFacts::keys>},
    {.prom = "db_expiring_keys",
     .label = "db",
     .place = 401,
     .help = "Keys of a database that have a time to live.",
     .samples = DatabaseSamples<&DatabaseFacts::expires>},
};

// --- Sizes of keys ---

void KeySizesLines(const InfoFacts& facts, InfoText& out) {
  for (size_t db = 0; db < facts.key_sizes.databases.size(); ++db) {
    const KeySizes& sizes = facts.key_sizes.databases[db];
    for (size_t type = 0; type < KeySizes::kTypes; ++type) {
      const std::string text = KeySizes::Format(sizes.types[type]);
      if (!text.empty()) out.Add(fmt::format("db{}_distrib_{}", db, KeySizes::NameOf(type)), text);
    }
  }
}

constexpr MetricRow kKeysizes[] = {
    {.info = "db<n>_distrib_<type>",
     .help = "Keys of a database by their size: bytes of strings, members of lists, sets, sorted "
             "sets and hashes. 8=3: three have from 8 to 15. Only INFO keysizes has them, as all "
             "keys are looked at, up to --keysizes_keys_max.",
     .lines = KeySizesLines},
    {.info = "keysizes_complete",
     .help = "0: there were more keys than --keysizes_keys_max.",
     .value = Of<[](const InfoFacts& f) -> uint64_t { return f.key_sizes.is_complete; }>},
};

// --- Threads ---

void ThreadLines(const InfoFacts& facts, InfoText& out) {
  for (size_t i = 0; i < facts.per_thread.size(); ++i) {
    const ThreadFacts& thread = facts.per_thread[i];
    out.Add(fmt::format("thread{}", i),
            fmt::format("cpu_user={:.6f},cpu_sys={:.6f},clients={},commands={},iterations={},"
                        "wakeups={},messages={},fibers={}",
                        thread.cpu_user_s, thread.cpu_sys_s, thread.clients, thread.commands,
                        thread.iterations, thread.wakeups, thread.messages, thread.fibers));
  }
}

template <auto kSource>
void ThreadSamples(const InfoFacts& facts, PrometheusText& out) {
  for (size_t i = 0; i < facts.per_thread.size(); ++i) {
    out.Add({{"thread", fmt::format("{}", i)}}, Get<kSource>(facts.per_thread[i]));
  }
}

void ThreadCpuSamples(const InfoFacts& facts, PrometheusText& out) {
  for (size_t i = 0; i < facts.per_thread.size(); ++i) {
    const std::string thread = fmt::format("{}", i);
    out.Add({{"thread", thread}, {"mode", "user"}}, facts.per_thread[i].cpu_user_s);
    out.Add({{"thread", thread}, {"mode", "system"}}, facts.per_thread[i].cpu_sys_s);
  }
}

constexpr MetricRow kThreads[] = {
    {.info = "thread<n>",
     .help = "CPU time, clients, commands, the event loop, and fibers of a thread.",
     .lines = ThreadLines},
    {.prom = "thread_cpu_seconds_total",
     .label = "thread, mode",
     .type = MetricType::kCounter,
     .unit = MetricUnit::kSeconds,
     .place = 1000,
     .help = "CPU time of a thread: its rate is how busy the event loop is.",
     .samples = ThreadCpuSamples},
    {.prom = "thread_clients",
     .label = "thread",
     .place = 1001,
     .help = "Connections of a thread.",
     .samples = ThreadSamples<&ThreadFacts::clients>},
    {.prom = "thread_commands_total",
     .label = "thread",
     .type = MetricType::kCounter,
     .place = 1002,
     .help = "Commands of its clients.",
     .samples = ThreadSamples<&ThreadFacts::commands>},
    {.prom = "thread_iterations_total",
     .label = "thread",
     .type = MetricType::kCounter,
     .place = 1003,
     .help = "Iterations of its event loop.",
     .samples = ThreadSamples<&ThreadFacts::iterations>},
    {.prom = "thread_wakeups_total",
     .label = "thread",
     .type = MetricType::kCounter,
     .place = 1004,
     .help = "Iterations that slept.",
     .samples = ThreadSamples<&ThreadFacts::wakeups>},
    {.prom = "thread_messages_total",
     .label = "thread",
     .type = MetricType::kCounter,
     .place = 1005,
     .help = "Messages from other threads.",
     .samples = ThreadSamples<&ThreadFacts::messages>},
    {.prom = "thread_fibers",
     .label = "thread",
     .place = 1006,
     .help = "Its fibers: commands that wait, and its own.",
     .samples = ThreadSamples<&ThreadFacts::fibers>},
};

// --- Shards ---

void ShardLines(const InfoFacts& facts, InfoText& out) {
  for (size_t i = 0; i < facts.per_shard.size(); ++i) {
    const ShardFacts& shard = facts.per_shard[i];
    out.Add(fmt::format("shard{}", i),
            fmt::format("thread={},keys={},expires={},used_memory={},hits={},misses={},queue={}",
                        shard.thread, shard.keys, shard.expires, shard.used_bytes, shard.hits,
                        shard.misses, shard.queue_length));
  }
}

template <auto kSource>
void ShardSamples(const InfoFacts& facts, PrometheusText& out) {
  for (size_t i = 0; i < facts.per_shard.size(); ++i) {
    const ShardFacts& shard = facts.per_shard[i];
    out.Add({{"shard", fmt::format("{}", i)}, {"thread", fmt::format("{}", shard.thread)}},
            Get<kSource>(shard));
  }
}

constexpr MetricRow kShards[] = {
    {.info = "shard<n>",
     .help = "The thread, keys, memory, look-ups and queue of a shard.",
     .lines = ShardLines},
    {.prom = "shard_keys",
     .label = "shard, thread",
     .place = 1100,
     .help = "Keys of a shard.",
     .samples = ShardSamples<&ShardFacts::keys>},
    {.prom = "shard_used_bytes",
     .label = "shard, thread",
     .unit = MetricUnit::kBytes,
     .place = 1101,
     .help = "Memory of its data.",
     .samples = ShardSamples<&ShardFacts::used_bytes>},
    {.prom = "shard_hits_total",
     .label = "shard, thread",
     .type = MetricType::kCounter,
     .place = 1102,
     .help = "Look-ups there that found their key.",
     .samples = ShardSamples<&ShardFacts::hits>},
    {.prom = "shard_misses_total",
     .label = "shard, thread",
     .type = MetricType::kCounter,
     .place = 1103,
     .help = "Look-ups there that did not.",
     .samples = ShardSamples<&ShardFacts::misses>},
    {.prom = "shard_queue_length",
     .label = "shard, thread",
     .place = 1104,
     .help = "Transactions in its queue.",
     .samples = ShardSamples<&ShardFacts::queue_length>},
};

}  // namespace

std::span<const MetricRow> CommandstatsRows() { return kCommandstats; }
std::span<const MetricRow> LatencystatsRows() { return kLatencystats; }
std::span<const MetricRow> ErrorstatsRows() { return kErrorstats; }
std::span<const MetricRow> ClusterRows() { return kCluster; }
std::span<const MetricRow> KeyspaceRows() { return kKeyspace; }
std::span<const MetricRow> KeysizesRows() { return kKeysizes; }
std::span<const MetricRow> ThreadsRows() { return kThreads; }
std::span<const MetricRow> ShardsRows() { return kShards; }

}  // namespace dfly
