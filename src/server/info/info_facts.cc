// SPDX-License-Identifier: Apache-2.0
// What INFO tells, gathered from all threads.
#include "server/info/info_facts.h"

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
#include "server/base/huge_page_care.h"
#include "server/base/machine.h"
#include "server/care/shard_care.h"
#include "server/clients/audit_log.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/gates.h"
#include "server/dispatch/worker.h"
#include "server/info/latency_report.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/quotas/quotas.h"
#include "server/replication/failover.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"

namespace dfly {

namespace {

// INFO looks at so many of a shard's waited keys, so that it stays quick.
constexpr size_t kWaitedKeysLookedAt = 1000;
// And at so many deadlines of each of a shard's databases, for the mean.
constexpr size_t kTtlsLookedAt = 16;

// What one thread contributes.
struct Part {
  Counts counts;
  std::vector<CommandStats> commands;  // by Command::id
  absl::flat_hash_map<std::string, uint64_t> errors;
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

void GatherClients(Worker& worker, ThreadNow* now) {
  now->blocked_clients = worker.blocked_clients();
  worker.state().ForEachSession([now](Session& session) {
    const Connection& connection = session.connection;
    if (connection.held()) ++now->blocked_clients;
    if (!session.watches.empty()) ++now->watching_clients;
    now->input_buffer_max = std::max<uint64_t>(now->input_buffer_max, connection.input_bytes());
    now->output_buffer_max = std::max<uint64_t>(now->output_buffer_max, connection.unsent_bytes());
  });
}

void GatherQueue(Shard& shard, uint64_t warning_us, Counts* counts) {
  const TxQueue& queue = shard.transactions();
  const uint64_t now_ns = helio::MonotonicNanos();
  QueueFacts facts = {.retries = queue.stats().refused,
                      .runs_at_head = queue.stats().runs_at_head,
                      .runs_ahead = queue.stats().runs_ahead,
                      .length = queue.length(),
                      .longest = queue.stats().longest,
                      .waited_keys = shard.waiters().keys(),
                      .waited_absences = shard.waiters().CountKeysMindingAbsence(),
                      .ready_keys = shard.waiters().CountReady(shard, kWaitedKeysLookedAt),
                      .watched_keys = shard.watches().keys()};
  if (queue.oldest_ns() != 0) facts.oldest_us = (now_ns - queue.oldest_ns()) / 1000;
  queue.ForEach([&](const TxEntry& entry) {
    if (!HoldsLocks(entry)) return;
    const uint64_t held_us = (now_ns - entry.scheduled_ns) / 1000;
    facts.longest_held_us = std::max(facts.longest_held_us, held_us);
    if (warning_us != 0 && held_us >= warning_us) counts->long_held.Add(entry, shard.id());
  });
  helio::AddCounters(&counts->queues, facts);
}

void GatherChannels(ShardSet& shards, ShardId shard, ThreadNow* now) {
  const ChannelDirectory& directory = PubSub::Here().directory(shard);
  for (const auto& [name, subscribers] : directory.names(ChannelKind::kChannel)) {
    // Those of keyspace events are known to all shards.
    now->channels += shards.ShardOfChannel(name, HashKey(name)) == shard;
  }
  now->shard_channels += directory.names(ChannelKind::kShard).size();
  now->patterns = directory.names(ChannelKind::kPattern).size();
}

void GatherDatabases(const Shard& shard, std::vector<DatabaseFacts>* databases,
                     InfoFacts::ShardFacts* of_shard) {
  const int64_t now_ms = helio::UnixMillis();
  helio::Random random(helio::MonotonicNanos());
  databases->resize(static_cast<size_t>(shard.db_count()));
  for (int i = 0; i < shard.db_count(); ++i) {
    const Database* database = shard.FindDb(i);
    if (database == nullptr) continue;
    of_shard->keys += database->size();
    of_shard->expires += database->expires();
    const auto ttls = database->EstimateTtls(kTtlsLookedAt, now_ms, random);
    const auto expires = static_cast<double>(database->expires());
    helio::AddCounters(&(*databases)[static_cast<size_t>(i)],
                       {.keys = database->size(),
                        .expires = database->expires(),
                        .ttl_ms = ttls.mean_ms * expires,
                        .due = ttls.due_share * expires,
                        .member_expires = database->member_expires()});
  }
}

void GatherShard(Worker& worker, Shard& shard, ShardSet& shards, Part* part) {
  const uint64_t warning_us =
      worker.state().server.settings.lock_warning_ms.load(std::memory_order_relaxed) * 1000;
  Counts& counts = part->counts;
  helio::AddCounters(&counts.shards, shard.stats());
  counts.now.pending_objects += shard.pending_objects();
  GatherQueue(shard, warning_us, &counts);
  GatherChannels(shards, shard.id(), &counts.now);
  InfoFacts::ShardFacts own = {.thread = worker.index(),
                               .used_bytes = shard.used_bytes(),
                               .hits = shard.stats().hits,
                               .misses = shard.stats().misses,
                               .queue_length = shard.transactions().length()};
  GatherDatabases(shard, &counts.databases, &own);
  part->by_shard.emplace_back(shard.id(), own);
}

// It must be called on that thread.
void Gather(Worker& worker, ShardSet& shards, Part* part) {
  RunningScripts& scripts = RunningScripts::Here();
  const Defragmenter& defragmenter = DefragPacer::Here().defragmenter();
  const WorkerStats& stats = worker.state().stats;
  part->commands = stats.commands;
  part->errors = stats.errors;
  part->thread = FactsOfThread(worker);
  Counts& counts = part->counts;
  counts.worker = stats;
  counts.scripts = stats.scripts;
  counts.loop = worker.state().proactor.stats();
  counts.loop_totals = ThreadRates::Here().loop_totals();
  counts.rates = ThreadRates::Here().rates();
  counts.traffic = worker.state().buffers.traffic;
  counts.tls = helio::ThreadTlsStats();
  counts.memory = MemoryUse::Here().Sum();
  counts.heap = MemoryUse::Here().RecentHeap();
  counts.defrag = defragmenter.stats();
  counts.pubsub = PubSub::Here().stats();
  counts.tracking = Tracking::Here().counts();
  counts.transactions = shards.transaction_stats(worker.index());
  counts.now.interpreters = scripts.interpreters().count();
  counts.now.running_scripts = scripts.count();
  counts.now.output_disconnections = ClientLimiter::Here().output_disconnections();
  if (const uint64_t since_ns = defragmenter.running_since_ns(); since_ns != 0) {
    counts.now.defrag_running_ns = std::max<uint64_t>(1, helio::MonotonicNanos() - since_ns);
  }
  GatherClients(worker, &counts.now);
  worker.state().ForEachShard([&](Shard& shard) { GatherShard(worker, shard, shards, part); });
}

void AddCommand(const Command& command, const std::vector<Part>& parts, InfoFacts* facts) {
  CommandStats sum;
  for (const Part& part : parts) {
    const CommandStats& stats = part.commands[command.id];
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

// What the server knows as a whole.
void AddServer(ServerState& server, InfoFacts* facts) {
  facts->emulates_cluster = server.options.emulates_cluster;
  facts->multiplexing_api =
      server.pool.at(0)->engine() == helio::Proactor::Engine::kIoUring ? "io_uring" : "epoll";
  facts->run_id = server.run_id;
  facts->config_file = server.options.config_file;
  facts->is_supervised = getenv("NOTIFY_SOCKET") != nullptr;
  facts->listeners = Server::Here().DescribeListeners();
  facts->tcp_port = server.port != 0 ? server.port : server.tls_port;
  facts->tls = Server::Here().tls().Facts();
  if (server.audit != nullptr) {
    const LineWriter& audit = server.audit->writer();
    facts->has_audit_log = true;
    facts->is_audit_ok = audit.is_ok();
    facts->audit_lines = audit.written();
    facts->lost_audit_lines = audit.dropped();
  }
  facts->now_us = helio::UnixMicros();
  facts->start_s = server.start_time_ms / 1000;
  const int64_t uptime_ms = facts->now_us / 1000 - server.start_time_ms;
  facts->uptime_s = static_cast<uint64_t>(std::max<int64_t>(0, uptime_ms / 1000));
  facts->threads = server.pool.size();
  facts->shards = server.shards->size();
  facts->clients = server.connections.all();
  facts->maxclients = server.settings.maxclients.load(std::memory_order_relaxed);
  facts->rejected_connections = server.connections.rejected();
  facts->evicted_clients = server.client_memory.evicted.load(std::memory_order_relaxed);
  facts->acl_refusals = server.acl->log().refusals();
  server.pool.at(0)->Await([facts] {
    facts->persistence = Server::Here().persistence().Facts();
    facts->append_log = Server::Here().append_log().Facts();
    facts->primary_link = Server::Here().primary_link().Facts();
    facts->primary_link.failover_state = Server::Here().failover().state();
    facts->replicas = Server::Here().replicas().Facts();
  });
  facts->shards_behind = Server::Here().persistence().shards_behind();
  facts->placed_tags = server.shards->placed_tags();
  facts->scripts_known = server.scripts.size();
  facts->forgotten_scripts = server.scripts.forgotten();
  const FunctionTableRef functions = server.functions.table();
  facts->functions = functions->functions.size();
  facts->libraries = functions->libraries.size();
  facts->function_memory = functions->memory_used;
}

void AddQuotas(InfoFacts* facts) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  for (const auto& [owner, quota] : *Quotas::Here().table()) {
    const Quota::Counters& counters = quota->counters;
    const auto positive = [](int64_t number) {
      return static_cast<uint64_t>(std::max<int64_t>(0, number));
    };
    facts->quotas.push_back({.owner = owner,
                             .limits = quota->limits(),
                             .connections = positive(quota->connections.load(kRelaxed)),
                             .memory = positive(quota->memory.load(kRelaxed)),
                             .delayed = counters.delayed.load(kRelaxed),
                             .refused = counters.refused.load(kRelaxed),
                             .refused_connections = counters.refused_connections.load(kRelaxed),
                             .refused_writes = counters.refused_writes.load(kRelaxed),
                             .evicted_clients = counters.evicted.load(kRelaxed)});
  }
}

// As the thread that answers knows it.
void AddPause(InfoFacts* facts) {
  const Gates& gates = Gates::Here();
  const int64_t left_ms = gates.paused_until_ms() - facts->now_us / 1000;
  if (left_ms > 0) {
    facts->paused_reason = "client_pause";
    facts->paused_actions = gates.pauses_writes_only() ? "write" : "all";
    facts->paused_ms = static_cast<uint64_t>(left_ms);
  } else if (gates.holds_for_stop()) {
    facts->paused_reason = "shutdown_in_progress";
    facts->paused_actions = "write";
  }
}

void AddMemory(ServerState& server, InfoFacts* facts) {
  facts->base_memory = Server::Here().base_memory_bytes();
  facts->data_memory = server.shards->used_bytes();
  facts->script_memory = server.scripts.memory_used();
  facts->acl_memory = server.acl->memory_used();
  facts->used_memory = facts->CountedMemory();
  const uint64_t seen_peak = Server::Here().UpdatePeakMemory(facts->used_memory);
  facts->used_memory_peak = std::max(seen_peak, facts->base_memory + server.shards->peak_bytes());
  facts->rss = ReadProcessMemory().rss_bytes;
  facts->huge_page_bytes = server.huge_pages->bytes();
  facts->maxmemory = server.settings.maxmemory.load(std::memory_order_relaxed);
  const EvictionSettings& eviction = ShardCare::Here().eviction();
  facts->maxmemory_policy = PolicyName(eviction.rules.policy);
  facts->maxmemory_policy_db = PolicyList(eviction.db_policies, '=', ',');
  facts->cache_mode = server.options.cache_mode;
  facts->system_memory = server.options.system_memory_bytes;
  const uint64_t now_ns = helio::MonotonicNanos();
  facts->over_limit_ms = server.memory.OverNanos(now_ns) / 1'000'000;
  facts->is_over_limit_ms = server.memory.IsOverNanos(now_ns) / 1'000'000;
  if (facts->counts.now.defrag_running_ns != 0) {
    facts->defrag_running_percent =
        server.settings.defrag_cycle_percent.load(std::memory_order_relaxed);
  }
}

}  // namespace

void Counts::Merge(const Counts& part) {
  std::apply([&](auto... structs) { (helio::AddCounters(&(this->*structs), part.*structs), ...); },
             kStructs);
  transactions.global += part.transactions.global;
  transactions.widths.resize(std::max(transactions.widths.size(), part.transactions.widths.size()));
  for (size_t i = 0; i < part.transactions.widths.size(); ++i) {
    transactions.widths[i] += part.transactions.widths[i];
  }
  long_held.Merge(part.long_held);
  databases.resize(std::max(databases.size(), part.databases.size()));
  for (size_t i = 0; i < part.databases.size(); ++i) {
    helio::AddCounters(&databases[i], part.databases[i]);
  }
}

uint64_t InfoFacts::CountedMemory() const {
  return base_memory + data_memory + counts.memory.Sum() + script_memory + function_memory +
         acl_memory;
}

InfoFacts GatherInfo(ServerState& server, bool with_latencies) {
  std::vector<Part> parts(server.pool.size());
  AwaitOnAllSessions<Worker>(
      server, [&](Worker& worker) { Gather(worker, *server.shards, &parts[worker.index()]); });

  InfoFacts facts;
  facts.per_shard.resize(server.shards->size());
  for (const Part& part : parts) {
    facts.counts.Merge(part.counts);
    facts.per_thread.push_back(part.thread);
    for (const auto& [id, shard] : part.by_shard) facts.per_shard[id] = shard;
    for (const auto& [code, count] : part.errors) {
      AddErrors(code, count, WorkerStats::kErrorCodesMax, &facts.errors);
    }
  }
  facts.counts.databases.resize(static_cast<size_t>(server.shards->db_count()));
  for (const Command& command : server.commands.all()) {
    AddCommand(command, parts, &facts);
    for (const Command& subcommand : command.subcommands) AddCommand(subcommand, parts, &facts);
  }
  if (with_latencies) AddLatencies(server, &facts);
  AddProcess(&facts);
  AddServer(server, &facts);
  AddQuotas(&facts);
  AddPause(&facts);
  AddMemory(server, &facts);
  return facts;
}

}  // namespace dfly
