// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/script_jobs.h"

#include <optional>
#include <utility>

#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "helio/base/cycle_clock.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/shard_batch.h"

namespace dfly {

namespace {

// Runs that may be started again before one gets all shards.
constexpr size_t kAttemptsMax = 3;

}  // namespace

ScriptJobs::ScriptJobs(WorkerState* worker, ScriptFinder* finder, RunningScripts* scripts,
                       ShardCare* care, CommandRunner* runner)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      shards_(*worker->server.shards),
      finder_(*finder),
      scripts_(*scripts),
      care_(*care),
      runner_(*runner) {}

// --- The way it goes ---

ScriptJobs::Plan ScriptJobs::PlanOf(const Script& script, std::span<const std::string_view> keys) {
  using Way = Plan::Way;
  const ServerOptions& options = server_.options;
  const uint32_t flags = script.flags.load(std::memory_order_relaxed);
  if ((flags & kDisableAtomicity) != 0) return {Way::kAlone};

  Plan plan{Way::kInPlace};
  bool is_one_tag = !keys.empty();
  bool is_one_shard = true;
  if (!keys.empty()) {
    plan.hash = HashKey(keys[0]);
    plan.shard = shards_.ShardOfKey(keys[0], plan.hash);
    const uint64_t tag = shards_.HashOfTag(keys[0], plan.hash);
    for (std::string_view key : keys.subspan(1)) {
      const uint64_t hash = HashKey(key);
      is_one_tag &= shards_.HashOfTag(key, hash) == tag;
      is_one_shard &= shards_.ShardOfKey(key, hash) == plan.shard;
    }
  } else {
    plan.shard = worker_.index() % shards_.size();
  }
  if (shards_.size() > 1) {
    const bool has_its_tags = is_one_tag && shards_.tag_rules().locks_tags;
    bool is_global = false;
    if ((flags & kAllowUndeclaredKeys) != 0 || options.undeclared_keys == UndeclaredKeys::kGlobal) {
      is_global = !has_its_tags;
    } else if (options.undeclared_keys == UndeclaredKeys::kLearn) {
      const bool is_known =
          script.watched_runs.load(std::memory_order_relaxed) >= Script::kWatchedRuns;
      is_global = script.reach.load(std::memory_order_relaxed) == Reach::kFar ||
                  (!is_known && !has_its_tags);
    }
    if (is_global) return {Way::kGlobal};
  }
  if (!is_one_shard || !options.singlehop_scripts) return {Way::kAcross};
  return plan;
}

// --- In place ---

ScriptJob* ScriptJobs::New() {
  if (idle_.empty()) {
    jobs_.push_back(std::make_unique<ScriptJob>());
    idle_.push_back(jobs_.back().get());
  }
  ScriptJob* const job = idle_.back();
  idle_.pop_back();
  job->jobs = this;
  return job;
}

void ScriptJobs::Recycle(ScriptJob* job) {
  job->run.reset();
  job->args.clear();
  job->queued = nullptr;
  job->batch = nullptr;
  job->client = {};
  job->notes_reads = false;
  job->has_given_way = job->is_abandoned = false;
  idle_.push_back(job);
}

void ScriptJobs::Main(void* arg) {
  auto* const job = static_cast<ScriptJob*>(arg);
  ScriptJobs& jobs = *job->jobs;
  Caller caller = jobs.worker_.timer.caller();
  const uint64_t errors_before = job->writer.error_count();
  size_t size_before = job->writer.out()->size();
  const int64_t begin = helio::CycleClock::Now();
  job->is_abandoned = !job->run->Run(job->call, job->writer);
  // If it has given way its client may be gone, and its arguments are the batch's.
  if (ShardBatch* const batch = job->batch; batch != nullptr) {
    caller = {.slow = &batch->slow};
    size_before = batch->ends.empty() ? 0 : batch->ends.back();
    if (job->queued != nullptr) {
      caller.queue_cycles = batch->queued_at - batch->sent_at;
      caller.locks_cycles = begin - batch->queued_at;
      caller.held_by = batch->held_by;
    }
  }
  if (!job->is_abandoned) {  // else it is counted when it runs again
    jobs.runner_.CountWaiting(*job->command, Args(job->args), job->writer, errors_before, begin,
                              &caller);
    jobs.runner_.NoteReply(*job->command, Args(job->args), job->writer.out()->size() - size_before,
                           caller, SlowEntry::Way::kFiber);
  }
  if (job->has_given_way) job->on_end(job);
}

bool ScriptJobs::Run(ScriptJob* job) {
  ++worker_.stats.scripts.in_place;
  const ShardTurn turn(*job->shard);  // up to where it gives way
  if (server_.memory.is_over() && !job->is_read_only) [[unlikely]] {
    // Whether it may write is decided when it does; here is where room can be made.
    care_.MakeRoomFor(*job->shard, job->call.keys);
  }
  job->run.emplace(&scripts_, job->shard, job->script, std::move(job->caller), job->db_index,
                   job->is_read_only, job->writer.resp3(), job->no_touch);
  job->run->set_origin({job->command->full_name.c_str(), job->client_id});
  if (job->client.id != 0) [[unlikely]]
    job->run->SetClient(job->client, job->notes_reads);
  if (job->queued != nullptr) job->run->RunAs(job->queued);
  if (!scripts_.fibers().Run(&Main, job)) {
    job->has_given_way = true;
    return false;
  }
  if (job->queued != nullptr) {
    job->run->LeaveEntry(&job->batch->wanted());
  } else {
    job->run->Release();
  }
  return !job->is_abandoned;
}

// --- Over shards ---

void ScriptJobs::OverShards(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ScriptJobs& jobs = Here();
  const Command& command = *jobs.server_.commands.Find(args.name());
  ScriptArgs call;
  std::string error;
  Script* const script = jobs.finder_.Find(command, args, &call, &error);
  if (script == nullptr) return reply.Error(error);
  jobs.RunOverShards(cx, command, script, call, {}, false, reply);
}

void ScriptJobs::RunOverShards(CoordinatorContext& cx, const Command& command, Script* script,
                               const ScriptArgs& call, std::vector<std::string> discovered,
                               bool wants_all_keys, ReplySink& reply) {
  using Way = Plan::Way;
  const ScriptRef keeps_script = script->shared_from_this();
  const bool is_read_only = IsReadOnly(command, *script);
  const LockMode mode = is_read_only ? LockMode::kShared : LockMode::kExclusive;
  if (server_.memory.is_over() && !is_read_only && cx.outer() == nullptr) [[unlikely]] {
    std::vector<uint64_t> spared;
    for (std::string_view key : call.keys) spared.push_back(HashKey(key));
    (void)care_.AwaitRoom({spared});
  }
  for (size_t attempt = 1;; ++attempt) {
    Way way = PlanOf(*script, call.keys).way;
    // An EXEC with a script in it has all shards.
    if (cx.outer() != nullptr || wants_all_keys || attempt > kAttemptsMax) {
      if (way != Way::kAlone || cx.outer() != nullptr) way = Way::kGlobal;
    }
    ++(way == Way::kAlone    ? worker_.stats.scripts.alone
       : way == Way::kGlobal ? worker_.stats.scripts.global
                             : worker_.stats.scripts.across);
    if (way == Way::kGlobal) script->runs_global.fetch_add(1, std::memory_order_relaxed);
    std::optional<Transaction> tx;
    if (way != Way::kAlone) tx.emplace(cx);
    ScriptAcross run(&cx, tx ? &*tx : nullptr, way == Way::kGlobal, &scripts_, script, is_read_only,
                     reply.resp3());
    if (tx) {
      tx->set_owner(static_cast<ScriptRun*>(&run));
      if (way == Way::kGlobal) {
        tx->LockAllShards(mode);
      } else {
        const auto lock = [&](std::string_view key) {
          const uint64_t hash = HashKey(key);
          tx->Lock(shards_.ShardOfKey(key, hash),
                   {shards_.LockOfKey(key, hash, cx.db_index()), mode});
        };
        for (std::string_view key : call.keys) lock(key);
        for (const std::string& key : discovered) lock(key);
      }
    }
    if (!script->only_defers.load(std::memory_order_relaxed) && !run.Schedule()) return;
    for (const std::string& key : discovered) {
      run.AddLock({shards_.LockOfKey(key, HashKey(key), cx.db_index()), mode});
    }
    const bool is_done = run.Run(call, reply);
    if (cx.refused_for() != Slow::kNone) return;
    if (tx) tx->Conclude();
    if (script->only_defers.load(std::memory_order_relaxed) != run.only_defers()) {
      script->only_defers.store(run.only_defers(), std::memory_order_relaxed);
    }
    if (is_done) return;
    ++worker_.stats.scripts.restarts;
    for (std::string& key : run.discovered()) discovered.push_back(std::move(key));
    wants_all_keys |= run.wants_all_keys();
  }
}

}  // namespace dfly
