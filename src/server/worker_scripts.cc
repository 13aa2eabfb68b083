// SPDX-License-Identifier: Apache-2.0
// The worker's part of EVAL and its like: which way a script goes, scripts in place and how they
// give way, and scripts over shards. See script_run.h for what happens inside.
#include <algorithm>
#include <utility>

#include "core/numbers.h"
#include "engine/coordinator.h"
#include "engine/transaction.h"
#include "facade/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/server_state.h"
#include "server/worker.h"

namespace dfly {

namespace {

// Runs that may be started again before one gets all shards.
constexpr size_t kAttemptsMax = 3;

}  // namespace

// --- The way it goes ---

Worker::ScriptPlan Worker::PlanScript(const Script& script,
                                      std::span<const std::string_view> keys) {
  using Way = ScriptPlan::Way;
  const ServerOptions& options = server_.options;
  const uint32_t flags = script.flags.load(std::memory_order_relaxed);
  if ((flags & kDisableAtomicity) != 0) return {Way::kAlone};

  ScriptPlan plan{Way::kInPlace};
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
    plan.shard = proactor_.index() % shards_.size();
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

CommandSink::Outcome Worker::DispatchScript(Connection* connection, Session& session,
                                            const Command& command, Args args) {
  ScriptArgs call;
  std::string error;
  Script* const script = script_finder_.Find(command, args, &call, &error);
  if (script == nullptr) {
    Note(connection, Action::kScriptRefused, &command, args, 0, 0);
    RunNoted();  // what it is refused for is looked at again there
    return Outcome::kTaken;
  }
  const ScriptPlan plan = PlanScript(*script, call.keys);
  if (plan.way == ScriptPlan::Way::kInPlace) {
    Note(connection, Action::kScript, &command, args, plan.shard, plan.hash, script);
    return Outcome::kTaken;
  }
  if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
  Coordinate(connection, session, command, &ScriptOverShards, args);
  return Outcome::kBusy;
}

// --- In place ---

ScriptJob* Worker::NewScriptJob() {
  if (idle_script_jobs_.empty()) {
    script_jobs_.push_back(std::make_unique<ScriptJob>());
    idle_script_jobs_.push_back(script_jobs_.back().get());
  }
  ScriptJob* const job = idle_script_jobs_.back();
  idle_script_jobs_.pop_back();
  job->worker = this;
  return job;
}

void Worker::Recycle(ScriptJob* job) {
  job->run.reset();
  job->args.clear();
  job->queued = nullptr;
  job->batch = nullptr;
  job->client = {};
  job->notes_reads = false;
  job->has_given_way = job->is_abandoned = false;
  idle_script_jobs_.push_back(job);
}

void Worker::ScriptMain(void* arg) {
  auto* const job = static_cast<ScriptJob*>(arg);
  Worker& worker = *job->worker;
  Caller caller = worker.state_.timer.caller();
  const uint64_t errors_before = job->writer.error_count();
  const int64_t begin = helio::CycleClock::Now();
  job->is_abandoned = !job->run->Run(job->call, job->writer);
  // If it has given way its client may be gone, and its arguments are the batch's.
  if (ShardBatch* const batch = job->batch; batch != nullptr) {
    caller = {.slow = &batch->slow};
    if (job->queued != nullptr) {
      caller.queue_cycles = batch->queued_at - batch->sent_at;
      caller.locks_cycles = begin - batch->queued_at;
      caller.held_by = batch->held_by;
    }
  }
  if (!job->is_abandoned) {  // else it is counted when it runs again
    worker.runner_.CountWaiting(*job->command, Args(job->args), job->writer, errors_before, begin,
                                &caller);
  }
  if (job->has_given_way) worker.EndScriptJob(job);
}

bool Worker::RunScriptJob(ScriptJob* job) {
  ++state_.stats.scripts.in_place;
  const ShardTurn turn(*job->shard);  // up to where it gives way
  if (server_.memory.is_over() && !job->is_read_only) [[unlikely]] {
    // Whether it may write is decided when it does; here is where room can be made.
    care_.MakeRoomFor(*job->shard, job->call.keys);
  }
  job->run.emplace(&running_scripts_, job->shard, job->script, std::move(job->caller),
                   job->db_index, job->is_read_only, job->writer.resp3(), job->no_touch);
  job->run->set_origin({job->command->full_name.c_str(), job->client_id});
  if (job->client.id != 0) [[unlikely]]
    job->run->SetClient(job->client, job->notes_reads);
  if (job->queued != nullptr) job->run->RunAs(job->queued);
  if (!running_scripts_.fibers().Run(&ScriptMain, job)) {
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

void Worker::MakeBatch(const Noted& noted, Session& session, ScriptJob* job, bool drop_reply) {
  Connection* const connection = noted.connection;
  ShardBatch* const batch = NewBatch(connection, session, noted.shard);
  batch->AddScript(noted.command, ArgsOf(noted), noted.hash, drop_reply,
                   noted.script->shared_from_this());
  batch->caller = users_.CallerOf(session);
  batch->client = job->client;
  if (job->notes_reads) batch->NoteReads();
  connection->replies().AddRemote(batch);
  connection->OnRemoteSent(batch->arg_bytes());
  CountBatch(batch);
  ++batches_in_flight_;
  // As if it had arrived, and its first command were running.
  parked_.try_emplace(std::pair(batch->connection_id, batch->shard));
  job->batch = batch;
  batch->ViewArgs(batch->rest().front(), &job->args);
  job->call = ScriptArgsOf(Args(job->args));
  job->writer.Reset(&batch->bytes, batch->resp3);
  if (!job->is_abandoned) return;
  NoteRestart(batch, job);
  SendBack(batch);
}

auto Worker::RunScriptEntry(ShardBatch* batch, const ShardBatch::Entry& entry, TxEntry* queued)
    -> EntryEnd {
  ScriptJob* const job = NewScriptJob();
  job->command = entry.command;
  job->script = batch->ScriptOf(entry);
  job->shard = &shards_.local(batch->shard);
  job->db_index = batch->db_index;
  job->no_touch = batch->no_touch;
  job->is_read_only = IsReadOnly(*entry.command, *job->script);
  job->queued = queued;
  job->caller = batch->caller;
  job->client_id = batch->connection_id;
  job->client = batch->client;
  job->notes_reads = entry.notes_reads;
  job->batch = batch;
  batch->ViewArgs(entry, &job->args);
  job->call = ScriptArgsOf(Args(job->args));
  const size_t size_before = batch->bytes.size();
  job->writer.Reset(&batch->bytes, batch->resp3);
  if (RunScriptJob(job)) {
    Recycle(job);
    EndEntry(batch, entry, size_before);
    return EntryEnd::kNow;
  }
  if (!job->is_abandoned) return EntryEnd::kLater;
  NoteRestart(batch, job);
  return EntryEnd::kElsewhere;
}

void Worker::EndScriptJob(ScriptJob* job) {
  ShardBatch* const batch = job->batch;
  {
    const ShardTurn turn(*job->shard);
    job->run->Release();
  }
  if (job->is_abandoned) {
    NoteRestart(batch, job);
    return SendBack(batch);
  }
  const ShardBatch::Entry& entry = batch->rest().front();
  const size_t size_before = batch->ends.empty() ? 0 : batch->ends.back();
  Recycle(job);
  EndEntry(batch, entry, size_before);
  Resume(batch);
}

// --- Again, with what is known now ---

void Worker::NoteRestart(ShardBatch* batch, ScriptJob* job) {
  ++state_.stats.scripts.restarts;
  batch->restarts = true;
  batch->discovered = std::move(job->run->discovered());
  batch->wants_all_keys = job->run->wants_all_keys();
  Recycle(job);
}

void Worker::RestartScript(ShardBatch* batch) {
  const ShardBatch::Entry& entry = batch->rest().front();
  batch->restarts = false;
  if (batch->abandoned) {
    // Its client is gone, and it has done nothing yet.
    batch->EndReply();
    batch->OnRun();
    return Post(batch);
  }
  Session& session = SessionOf(batch->connection);
  ++session.coordinators;
  ++state_.coordinators;
  helio::Fiber({.name = "script", .stack_size = RunningScripts::kStackBytes}, [this, batch, &entry,
                                                                               &session] {
    std::vector<std::string_view> args;
    batch->ViewArgs(entry, &args);
    CoordinatorContext cx(&shards_, &session, batch->db_index, helio::UnixMillis());
    if (batch->client.id != 0) cx.set_client(&batch->client, entry.notes_reads);
    const size_t size_before = batch->bytes.size();
    RespWriter writer(&batch->bytes, batch->resp3);
    runner_.RunOrRefuse(cx, *entry.command, Args(args), writer, [&] {
      RunScriptOverShards(cx, *entry.command, batch->ScriptOf(entry), ScriptArgsOf(Args(args)),
                          std::move(batch->discovered), batch->wants_all_keys, writer);
    });
    EndEntry(batch, entry, size_before);
    --session.coordinators;
    --state_.coordinators;
    pubsub_.OnReplied(session);
    tracking_.OnReplied(session);
    if (session.connection_closed) state_.Forget(&session);
    Post(batch);  // its other commands; and those that have waited for it can go on
  }).Detach();
}

// --- Over shards ---

void Worker::ScriptOverShards(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Worker& worker = Worker::Here();
  const Command& command = *worker.commands_.Find(args.name());
  ScriptArgs call;
  std::string error;
  Script* const script = worker.script_finder_.Find(command, args, &call, &error);
  if (script == nullptr) return reply.Error(error);
  worker.RunScriptOverShards(cx, command, script, call, {}, false, reply);
}

void Worker::RunScriptOverShards(CoordinatorContext& cx, const Command& command, Script* script,
                                 const ScriptArgs& call, std::vector<std::string> discovered,
                                 bool wants_all_keys, ReplySink& reply) {
  using Way = ScriptPlan::Way;
  const ScriptRef keeps_script = script->shared_from_this();
  const bool is_read_only = IsReadOnly(command, *script);
  const LockMode mode = is_read_only ? LockMode::kShared : LockMode::kExclusive;
  if (server_.memory.is_over() && !is_read_only && cx.outer() == nullptr) [[unlikely]] {
    std::vector<uint64_t> spared;
    for (std::string_view key : call.keys) spared.push_back(HashKey(key));
    (void)care_.AwaitRoom({spared});
  }
  for (size_t attempt = 1;; ++attempt) {
    Way way = PlanScript(*script, call.keys).way;
    // An EXEC with a script in it has all shards.
    if (cx.outer() != nullptr || wants_all_keys || attempt > kAttemptsMax) {
      if (way != Way::kAlone || cx.outer() != nullptr) way = Way::kGlobal;
    }
    ++(way == Way::kAlone    ? state_.stats.scripts.alone
       : way == Way::kGlobal ? state_.stats.scripts.global
                             : state_.stats.scripts.across);
    if (way == Way::kGlobal) script->runs_global.fetch_add(1, std::memory_order_relaxed);
    std::optional<Transaction> tx;
    if (way != Way::kAlone) tx.emplace(cx);
    ScriptAcross run(&cx, tx ? &*tx : nullptr, way == Way::kGlobal, &running_scripts_, script,
                     is_read_only, reply.resp3());
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
    ++state_.stats.scripts.restarts;
    for (std::string& key : run.discovered()) discovered.push_back(std::move(key));
    wants_all_keys |= run.wants_all_keys();
  }
}

}  // namespace dfly
