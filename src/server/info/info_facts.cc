// SPDX-License-Identifier: Apache-2.0
// What INFO tells, gathered from all threads.
#include "server/info/info.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "core/memory/allocator.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "helio/base/random.h"
#include "server/acl/acl_store.h"
#include "server/base/error_names.h"
#include "server/base/machine.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/latency_commands.h"
#include "server/dispatch/worker.h"
#include "server/persistence/persistence.h"
#include "server/run/server.h"

namespace dfly {

namespace {

// INFO looks at so many of a shard's waited keys, so that it stays quick.
constexpr size_t kWaitedKeysLookedAt = 1000;
// And at so many deadlines of each of a shard's databases, for the mean.
constexpr size_t kTtlsLookedAt = 16;

// What one thread contributes.
struct Part {
  WorkerStats stats;
  helio::ProactorStats loop;
  ThreadRates::Rates rates = {};
  ThreadRates::LoopTotals loop_totals;
  BufferPool::Traffic traffic;
  WorkerMemory memory;
  uint64_t input_buffer_max = 0;
  uint64_t output_buffer_max = 0;
  helio::TlsStats tls;
  ShardStats shards;
  DefragStats defrag;
  uint64_t defrag_since_ns = 0;  // 0: it does not
  std::vector<InfoFacts::DatabaseFacts> databases;
  PubSubStats pubsub;
  uint64_t channels = 0;
  uint64_t patterns = 0;
  uint64_t shard_channels = 0;
  uint64_t blocked_clients = 0;
  InfoFacts::TransactionFacts transactions;
  uint64_t interpreters = 0;
  uint64_t running_scripts = 0;
  uint64_t output_disconnections = 0;
  uint64_t held_clients = 0;
  uint64_t watching_clients = 0;
  TrackingCounts tracking;
  uint64_t pending_objects = 0;
  HeapFacts heap;
  InfoFacts::ThreadFacts thread;
  std::vector<std::pair<ShardId, InfoFacts::ShardFacts>> by_shard;
};

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// It must be called on that thread.
InfoFacts::ThreadFacts FactsOfThread(Worker& worker) {
  const helio::ProactorStats& loop = worker.state().proactor.stats();
  rusage thread{};
  getrusage(RUSAGE_THREAD, &thread);
  return {.cpu_user_s = Seconds(thread.ru_utime),
          .cpu_sys_s = Seconds(thread.ru_stime),
          .clients = worker.state().connection_count(),
          .commands = worker.state().stats.commands_processed,
          .iterations = loop.iterations,
          .wakeups = loop.sleeps,
          .messages = loop.messages,
          .fibers = worker.state().proactor.scheduler().live_fibers()};
}

void Gather(Worker& worker, ShardSet& shards, Part* part) {
  RunningScripts& scripts = RunningScripts::Here();
  const Defragmenter& defragmenter = DefragPacer::Here().defragmenter();
  part->stats = worker.state().stats;
  part->thread = FactsOfThread(worker);
  part->loop = worker.state().proactor.stats();
  part->rates = ThreadRates::Here().rates();
  part->loop_totals = ThreadRates::Here().loop_totals();
  part->traffic = worker.state().buffers.traffic;
  part->memory = MemoryUse::Here().Sum();
  part->heap = MemoryUse::Here().RecentHeap();
  part->interpreters = scripts.interpreters().count();
  part->running_scripts = scripts.count();
  part->pubsub = PubSub::Here().stats();
  part->tls = helio::ThreadTlsStats();
  part->output_disconnections = ClientLimiter::Here().output_disconnections();
  part->tracking = Tracking::Here().counts();
  worker.state().ForEachSession([&](Session& session) {
    const Connection& connection = session.connection;
    if (connection.held()) ++part->held_clients;
    if (!session.watches.empty()) ++part->watching_clients;
    part->input_buffer_max = std::max<uint64_t>(part->input_buffer_max, connection.input_bytes());
    part->output_buffer_max =
        std::max<uint64_t>(part->output_buffer_max, connection.unsent_bytes());
  });
  part->defrag = defragmenter.stats();
  part->defrag_since_ns = defragmenter.running_since_ns();
  part->blocked_clients = worker.blocked_clients() + part->held_clients;
  const int64_t now_ms = helio::UnixMillis();
  helio::Random random(helio::MonotonicNanos());
  const TransactionStats& transactions = shards.transaction_stats(worker.index());
  part->transactions.global = transactions.global;
  part->transactions.widths = transactions.widths;
  worker.state().ForEachShard([&](Shard& shard) {
    const TxQueue& queue = shard.transactions();
    InfoFacts::TransactionFacts& facts = part->transactions;
    facts.retries += queue.stats().refused;
    facts.runs_at_head += queue.stats().runs_at_head;
    facts.runs_ahead += queue.stats().runs_ahead;
    facts.queue_length += queue.length();
    facts.queue_longest = std::max(facts.queue_longest, queue.stats().longest);
    if (const uint64_t oldest_ns = queue.oldest_ns(); oldest_ns != 0) {
      facts.oldest_us = std::max(facts.oldest_us, (helio::MonotonicNanos() - oldest_ns) / 1000);
    }
    const uint64_t warning_us =
        worker.state().server.settings.lock_warning_ms.load(std::memory_order_relaxed) * 1000;
    queue.ForEach([&](const TxEntry& entry) {
      if (!HoldsLocks(entry)) return;
      const uint64_t held_us = (helio::MonotonicNanos() - entry.scheduled_ns) / 1000;
      facts.longest_held_us = std::max(facts.longest_held_us, held_us);
      if (warning_us != 0 && held_us >= warning_us) facts.long_held.Add(entry, shard.id());
    });
    facts.waited_keys += shard.waiters().keys();
    facts.waited_absences += shard.waiters().CountKeysMindingAbsence();
    facts.ready_keys += shard.waiters().CountReady(shard, kWaitedKeysLookedAt);
    facts.watched_keys += shard.watches().keys();
    const ShardStats& stats = shard.stats();
    helio::AddCounters(&part->shards, stats);
    part->pending_objects += shard.pending_objects();
    const ChannelDirectory& directory = PubSub::Here().directory(shard.id());
    for (const auto& [name, counts] : directory.names(ChannelKind::kChannel)) {
      // Those of keyspace events are known to all shards.
      part->channels += shards.ShardOfChannel(name, HashKey(name)) == shard.id();
    }
    part->shard_channels += directory.names(ChannelKind::kShard).size();
    part->patterns = directory.names(ChannelKind::kPattern).size();  // each shard knows all
    part->databases.resize(static_cast<size_t>(shard.db_count()));
    InfoFacts::ShardFacts own = {.thread = worker.index(),
                                 .used_bytes = shard.used_bytes(),
                                 .hits = stats.hits,
                                 .misses = stats.misses,
                                 .queue_length = queue.length()};
    for (int i = 0; i < shard.db_count(); ++i) {
      const Database* database = shard.FindDb(i);
      if (database == nullptr) continue;
      own.keys += database->size();
      own.expires += database->expires();
      InfoFacts::DatabaseFacts& of_all = part->databases[static_cast<size_t>(i)];
      of_all.keys += database->size();
      of_all.expires += database->expires();
      const auto ttls = database->EstimateTtls(kTtlsLookedAt, now_ms, random);
      of_all.ttl_ms += ttls.mean_ms * static_cast<double>(database->expires());
      of_all.member_expires += database->member_expires();
      of_all.due += ttls.due_share * static_cast<double>(database->expires());
    }
    part->by_shard.emplace_back(shard.id(), own);
  });
}

void AddCommand(const Command& command, const std::vector<Part>& parts, InfoFacts* facts) {
  CommandStats sum;
  for (const Part& part : parts) {
    const CommandStats& stats = part.stats.commands[command.id];
    sum.calls += stats.calls;
    sum.failed += stats.failed;
    sum.rejected += stats.rejected;
    sum.cycles += stats.cycles;
    sum.timed_calls += stats.timed_calls;
  }
  if (sum.calls + sum.rejected == 0) return;
  InfoFacts::CommandFacts& out = facts->commands[command.full_name];
  out = {.calls = sum.calls, .rejected = sum.rejected, .failed = sum.failed};
  if (sum.timed_calls > 0) {
    out.usec = static_cast<double>(helio::CycleClock::ToNanos(sum.cycles)) / 1000 *
               static_cast<double>(sum.calls) / static_cast<double>(sum.timed_calls);
  }
}

void AddLatencies(ServerState& server, InfoFacts* facts) {
  std::vector<const Command*> all;
  for (const Command& command : server.commands.all()) {
    all.push_back(&command);
    for (const Command& subcommand : command.subcommands) all.push_back(&subcommand);
  }
  facts->percentiles = WorkerState::Here().timer.percentiles();
  for (const CommandLatency& latency : GatherHistograms(server, all)) {
    facts->latencies[latency.command->full_name] = latency.histogram;
  }
}

void AddProcess(InfoFacts* facts) {
  utsname name{};
  uname(&name);
  facts->os = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  facts->process_id = getpid();
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size > 0) facts->executable.assign(path, static_cast<size_t>(size));
  rusage self{};
  rusage children{};
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &children);
  facts->cpu_sys_s = Seconds(self.ru_stime);
  facts->cpu_user_s = Seconds(self.ru_utime);
  facts->cpu_sys_children_s = Seconds(children.ru_stime);
  facts->cpu_user_children_s = Seconds(children.ru_utime);
  rusage thread{};
  getrusage(RUSAGE_THREAD, &thread);
  facts->cpu_sys_thread_s = Seconds(thread.ru_stime);
  facts->cpu_user_thread_s = Seconds(thread.ru_utime);
#ifdef DFLY_SANITIZED
  facts->allocator = "libc";
#else
  facts->allocator = fmt::format("mimalloc-{}", mi_version());
#endif
}

}  // namespace

InfoFacts GatherInfo(ServerState& server, bool with_latencies) {
  std::vector<Part> parts(server.pool.size());
  AwaitOnAllSessions<Worker>(
      server, [&](Worker& worker) { Gather(worker, *server.shards, &parts[worker.index()]); });

  InfoFacts facts;
  facts.emulates_cluster = server.options.emulates_cluster;
  AddProcess(&facts);
  facts.multiplexing_api =
      server.pool.at(0)->engine() == helio::Proactor::Engine::kIoUring ? "io_uring" : "epoll";
  facts.run_id = server.run_id;
  facts.config_file = server.options.config_file;
  facts.is_supervised = getenv("NOTIFY_SOCKET") != nullptr;
  facts.listeners = Server::Here().DescribeListeners();
  facts.acl_refusals = server.acl->log().refusals();
  facts.forgotten_scripts = server.scripts.forgotten();
  facts.tcp_port = server.port != 0 ? server.port : server.tls_port;
  facts.now_us = helio::UnixMicros();
  facts.start_s = server.start_time_ms / 1000;
  const int64_t uptime_ms = facts.now_us / 1000 - server.start_time_ms;
  facts.uptime_s = static_cast<uint64_t>(std::max<int64_t>(0, uptime_ms / 1000));
  facts.persistence =
      server.pool.at(0)->Await([&server] { return Server::Here().persistence().Facts(); });
  facts.threads = server.pool.size();
  facts.shards = server.shards->size();
  facts.clients = server.connections.all();
  facts.maxclients = server.settings.maxclients.load(std::memory_order_relaxed);
  facts.maxmemory = server.settings.maxmemory.load(std::memory_order_relaxed);
  facts.maxmemory_policy = PolicyName(server.policy.load(std::memory_order_relaxed));
  facts.shards_behind = server.settings.shards_behind.load(std::memory_order_relaxed);
  facts.cache_mode = server.options.cache_mode;
  facts.rejected_connections = server.connections.rejected();
  facts.evicted_clients = server.client_memory.evicted.load(std::memory_order_relaxed);

  facts.databases.resize(static_cast<size_t>(server.shards->db_count()));
  facts.per_shard.resize(server.shards->size());
  for (const Part& part : parts) {
    facts.per_thread.push_back(part.thread);
    for (const auto& [id, shard] : part.by_shard) facts.per_shard[id] = shard;
    helio::AddCounters(&facts.defrag, part.defrag);
    if (part.defrag_since_ns != 0) {
      facts.defrag_running_ns =
          std::max(facts.defrag_running_ns, helio::MonotonicNanos() - part.defrag_since_ns);
      facts.defrag_running_percent =
          server.settings.defrag_cycle_percent.load(std::memory_order_relaxed);
    }
    helio::AddCounters(&facts.memory, part.memory);
    helio::AddCounters(&facts.heap, part.heap);
    facts.input_buffer_max = std::max(facts.input_buffer_max, part.input_buffer_max);
    facts.output_buffer_max = std::max(facts.output_buffer_max, part.output_buffer_max);
    facts.connections_received += part.stats.connections_received;
    facts.commands_processed += part.stats.commands_processed;
    facts.commands_per_second += part.rates.commands;
    facts.loop_cycles += part.loop_totals.cycles;
    facts.loop_us += part.loop_totals.us;
    facts.loop_cycles_per_second += part.rates.loop_cycles;
    facts.loop_us_per_second += part.rates.loop_us;
    facts.received_per_second += part.rates.received_bytes;
    facts.sent_per_second += part.rates.sent_bytes;
    facts.received_bytes += part.traffic.received_bytes;
    facts.sent_bytes += part.traffic.sent_bytes;
    facts.reads += part.traffic.reads;
    facts.writes += part.traffic.writes;
    facts.expiry_ns += part.stats.expiry_ns;
    facts.expiry_cuts += part.stats.expiry_cuts;
    facts.error_replies += part.stats.error_replies;
    facts.protocol_errors += part.stats.protocol_errors;
    facts.auth_timeouts += part.stats.auth_timeouts;
    facts.ends_swept += part.stats.ends_swept;
    helio::AddCounters(&facts.tls, part.tls);
    facts.local_commands += part.stats.local_commands;
    facts.remote_commands += part.stats.remote_commands;
    facts.blocked_clients += part.blocked_clients;
    helio::AddCounters(&facts.scripts, part.stats.scripts);
    facts.interpreters += part.interpreters;
    facts.running_scripts += part.running_scripts;
    InfoFacts::TransactionFacts& tx = facts.transactions;
    const InfoFacts::TransactionFacts& of_part = part.transactions;
    tx.queued += part.stats.queued_commands;
    tx.execs_of_one_shard += part.stats.execs_of_one_shard;
    tx.execs_across += part.stats.execs_across;
    tx.blocking_tried += part.stats.blocking_tried;
    tx.blocking_one_hop += part.stats.blocking_one_hop;
    tx.blocking_general += part.stats.blocking_general;
    tx.global += of_part.global;
    tx.widths.resize(of_part.widths.size());
    for (size_t i = 0; i < of_part.widths.size(); ++i) tx.widths[i] += of_part.widths[i];
    tx.retries += of_part.retries;
    tx.runs_at_head += of_part.runs_at_head;
    tx.runs_ahead += of_part.runs_ahead;
    tx.queue_length += of_part.queue_length;
    tx.queue_longest = std::max(tx.queue_longest, of_part.queue_longest);
    tx.oldest_us = std::max(tx.oldest_us, of_part.oldest_us);
    tx.long_held.Merge(of_part.long_held);
    tx.longest_held_us = std::max(tx.longest_held_us, of_part.longest_held_us);
    tx.waited_keys += of_part.waited_keys;
    tx.waited_absences += of_part.waited_absences;
    tx.ready_keys += of_part.ready_keys;
    tx.watched_keys += of_part.watched_keys;
    facts.watching_clients += part.watching_clients;
    facts.batches += part.stats.batches;
    facts.migrations += part.stats.migrations;
    facts.coordinated_commands += part.stats.coordinated_commands;
    facts.loop_iterations += part.loop.iterations;
    facts.loop_wakeups += part.loop.sleeps;
    facts.messages += part.loop.messages;
    facts.pending_objects += part.pending_objects;
    helio::AddCounters(&facts.tracking, part.tracking);
    facts.pubsub_clients += part.pubsub.clients;
    facts.pubsub_channels += part.channels;
    facts.pubsub_patterns = std::max(facts.pubsub_patterns, part.patterns);
    facts.pubsub_shard_channels += part.shard_channels;
    facts.pubsub_delivered += part.pubsub.delivered;
    facts.pubsub_publishers_held += part.pubsub.publishers_held;
    facts.output_disconnections += part.output_disconnections;
    facts.large_inputs += part.stats.large_inputs;
    facts.hits += part.shards.hits;
    facts.misses += part.shards.misses;
    facts.expired_keys += part.shards.expired_keys;
    facts.expired_members += part.shards.expired_members;
    facts.evicted_keys += part.shards.evicted_keys;
    facts.changes += part.shards.changes;
    facts.freed_objects += part.shards.freed_objects;
    for (const auto& [code, count] : part.stats.errors)
      AddErrors(code, count, WorkerStats::kErrorCodesMax, &facts.errors);
    for (size_t i = 0; i < part.databases.size(); ++i) {
      facts.databases[i].keys += part.databases[i].keys;
      facts.databases[i].expires += part.databases[i].expires;
      facts.databases[i].ttl_ms += part.databases[i].ttl_ms;
      facts.databases[i].due += part.databases[i].due;
      facts.databases[i].member_expires += part.databases[i].member_expires;
    }
  }
  for (const Command& command : server.commands.all()) {
    AddCommand(command, parts, &facts);
    for (const Command& subcommand : command.subcommands) AddCommand(subcommand, parts, &facts);
  }

  if (with_latencies) AddLatencies(server, &facts);
  facts.placed_tags = server.shards->placed_tags();
  facts.base_memory = Server::Here().base_memory_bytes();
  facts.data_memory = server.shards->used_bytes();
  facts.scripts_known = server.scripts.size();
  facts.script_memory = server.scripts.memory_used();
  const FunctionTableRef functions = server.functions.table();
  facts.functions = functions->functions.size();
  facts.libraries = functions->libraries.size();
  facts.function_memory = functions->memory_used;
  facts.acl_memory = server.acl->memory_used();
  for (const auto& [kind, bytes] : facts.MemoryByKind()) facts.used_memory += bytes;
  const uint64_t seen_peak = Server::Here().UpdatePeakMemory(facts.used_memory);
  facts.used_memory_peak = std::max(seen_peak, facts.base_memory + server.shards->peak_bytes());
  facts.rss = ReadProcessMemory().rss_bytes;
  const uint64_t now_ns = helio::MonotonicNanos();
  facts.over_limit_ms = server.memory.OverNanos(now_ns) / 1'000'000;
  facts.is_over_limit_ms = server.memory.IsOverNanos(now_ns) / 1'000'000;
  facts.system_memory = server.options.system_memory_bytes;
  return facts;
}

std::vector<std::pair<std::string_view, uint64_t>> InfoFacts::MemoryByKind() const {
  static_assert(sizeof(WorkerMemory) == 7 * sizeof(uint64_t), "what is new there is a kind, too");
  return {{"data", data_memory},
          {"clients", memory.clients},
          {"queued_commands", memory.queued_commands},
          {"coordinators", memory.coordinators},
          {"fiber_stacks", memory.fiber_stacks},
          {"receive_buffers", memory.receive_buffers},
          {"interpreters", memory.interpreters},
          {"snapshot", memory.snapshot},
          {"scripts", script_memory},
          {"functions", function_memory},
          {"acl_users", acl_memory},
          {"startup", base_memory}};
}

}  // namespace dfly
