// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/batches.h"

#include <algorithm>
#include <utility>

#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/no_suspend.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/primary_replies.h"
#include "server/push/pubsub.h"
#include "server/push/tracking.h"

namespace dfly {

Batches::Batches(WorkerState* worker, Pools* pools, CommandRunner* runner, Exclusion* exclusion,
                 Execs* execs, ScriptJobs* jobs, TryEnd* try_end)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      shards_(*worker->server.shards),
      pools_(*pools),
      runner_(*runner),
      exclusion_(*exclusion),
      execs_(*execs),
      jobs_(*jobs),
      try_end_(*try_end),
      open_(shards_.size(), nullptr) {
  pools_.Add(this);
}

Batches::~Batches() {
  DCHECK_EQ(in_flight_, 0u);
  DCHECK(parked_.empty());
  for (ShardBatch* batch : pool_) delete batch;
}

// --- At home ---

ShardBatch* Batches::New(Connection* connection, Session& session, ShardId shard) {
  ShardBatch* batch;
  if (pool_.empty()) {
    batch = new ShardBatch;
  } else {
    batch = pool_.back();
    pool_.pop_back();
    pool_bytes_ -= batch->counted;
  }
  batch->Start(this, connection, shard, session);
  if (worker_.local(shard) != nullptr) {
    ++local_;
    ++session.local_batches;
  }
  return batch;
}

ShardBatch* Batches::For(Connection* connection, Session& session, ShardId shard) {
  // They are of one connection each.
  if (!open_shards_.empty() && connection != open_for_) Send();
  ShardBatch*& batch = open_[shard];
  if (batch != nullptr) return batch;
  batch = New(connection, session, shard);
  open_for_ = connection;
  open_shards_.push_back(shard);
  return batch;
}

void Batches::Send() {
  for (ShardId shard : open_shards_) {
    ShardBatch* batch = std::exchange(open_[shard], nullptr);
    ++worker_.stats.batches;
    batch->connection->OnRemoteSent(batch->arg_bytes());
    batch->is_large = batch->arg_bytes() > CommandTimer::kUntimedBytesMax;
    ++in_flight_;
    if (batch->may_write()) worker_.let_in.PushBack(batch);
    Count(batch);
    Post(batch);
  }
  open_shards_.clear();
}

void Batches::Post(ShardBatch* batch) {
  batch->sent_at = helio::CycleClock::Now();
  batch->Message::run = [](helio::Message* message) {
    auto* arrived = static_cast<ShardBatch*>(message);
    Here().OnArrival(arrived);
  };
  if (worker_.shuffle != nullptr) [[unlikely]] {
    worker_.shuffle->Add(batch, StreamOf(*batch, true));
    return;
  }
  shards_.owner(batch->shard)->PostLazily(batch);
}

uint64_t Batches::StreamOf(const ShardBatch& batch, bool to_shard) {
  return MessageShuffle::StreamOfReplies(batch.connection_id, batch.shard) + (to_shard ? 1 : 0);
}

void Batches::Continue(ShardBatch* batch) {
  DCHECK(!batch->is_done());
  batch->cut_for = nullptr;
  batch->discard_replies = batch->abandoned;
  batch->BeginPart();
  Post(batch);
}

void Batches::OnRoom(Connection* connection) {
  // Only the first in order may go on: the replies of others would pile up behind it.
  std::vector<PendingReplies*>& cut = SessionOf(connection).cut_batches;
  const auto it = std::find_if(cut.begin(), cut.end(), [&](const PendingReplies* batch) {
    return connection->replies().waits_for(batch);
  });
  if (it == cut.end()) return;
  auto* const batch = static_cast<ShardBatch*>(*it);
  cut.erase(it);
  connection->set_wants_room(!cut.empty());
  Continue(batch);
}

void Batches::OnArrival(ShardBatch* batch) {
  arrived_.push_back(batch);
  if (arrived_.size() == kArrivedMax || worker_.shuffle != nullptr) RunArrived();
}

void Batches::RunArrived() {
  helio::NoSuspend no_suspend;
  PrefetchTogether([&](auto&& visit) {
    for (const ShardBatch* batch : arrived_) {
      const Database* database = shards_.local(batch->shard).FindDb(batch->db_index);
      if (database == nullptr) continue;
      for (const ShardBatch::Entry& entry : batch->rest()) {
        visit(*database, entry.hash, batch->ElementOf(entry));
      }
    }
  });
  now_ms_ = helio::UnixMillis();
  for (ShardBatch* batch : arrived_) RunInOrder(batch);
  arrived_.clear();
}

void Batches::RunInOrder(ShardBatch* batch) {
  const std::pair key(batch->connection_id, batch->shard);
  if (parked_.empty()) [[likely]] {
    if (!RunBatch(batch)) parked_.try_emplace(key);
    return;
  }
  const auto it = parked_.find(key);
  if (it == parked_.end()) {
    DCHECK(!batch->continues());
    if (!RunBatch(batch)) parked_.try_emplace(key);
    return;
  }
  if (batch->continues()) {
    Resume(batch);
  } else {
    it->second.push_back(batch);
  }
}

void Batches::Resume(ShardBatch* batch) {
  const auto it = parked_.find(std::pair(batch->connection_id, batch->shard));
  CHECK(it != parked_.end());
  std::deque<ShardBatch*>& waiting = it->second;
  waiting.push_front(batch);
  while (!waiting.empty()) {
    ShardBatch* const next = waiting.front();
    waiting.pop_front();
    if (!RunBatch(next)) return;
  }
  parked_.erase(it);
}

bool Batches::RunBatch(ShardBatch* batch) {
  switch (RunEntries(batch)) {
    case EntryEnd::kNow: {
      const bool is_done = batch->is_done();
      SendBack(batch);
      return is_done;
    }
    case EntryEnd::kQueues:
      WaitInQueue(batch);
      return false;
    case EntryEnd::kElsewhere:
      SendBack(batch);
      return false;
    case EntryEnd::kLater:
      return false;
  }
  return false;
}

auto Batches::RunEntries(ShardBatch* batch) -> EntryEnd {
  Shard& shard = shards_.local(batch->shard);
  const size_t reply_bytes_max = server_.options.limits.batch_reply_bytes_max();
  ShardTurn turn(shard);
  turn.cx().set_no_touch(batch->no_touch);
  const CallerScope scope(
      worker_.timer,
      {.slow = &batch->slow, .queue_cycles = helio::CycleClock::Now() - batch->sent_at});
  runner_.BeginUntimed(helio::CycleClock::Now());
  for (const ShardBatch::Entry& entry : batch->rest()) {
    if (batch->bytes.size() > reply_bytes_max) [[unlikely]]
      break;
    batch->ViewArgs(entry, &args_);
    const Multi* const multi = batch->MultiOf(entry);
    Script* const script = batch->ScriptOf(entry);
    const bool is_excluded =
        multi != nullptr    ? exclusion_.IsExecExcluded(shard, *multi, &batch->wanted())
        : script != nullptr ? exclusion_.IsScriptExcluded(shard, *script, *entry.command, args_,
                                                          batch->db_index, &batch->wanted())
                            : exclusion_.IsExcluded(shard, *entry.command, args_, entry.hash,
                                                    batch->db_index, &batch->wanted());
    if (is_excluded) [[unlikely]] {
      turn.cx().Finish();
      const Slow what = SlowBefore(shard, batch, *entry.command);
      if (what == Slow::kNone) return EntryEnd::kQueues;
      RefuseBusy(batch, entry, what);
    } else if (script != nullptr) {
      turn.cx().Finish();
      const EntryEnd end = RunScript(batch, entry, nullptr);
      if (end != EntryEnd::kNow) return end;
    } else if (GoesHome(shard, *batch, entry, args_)) [[unlikely]] {
      batch->restarts = true;
      return EntryEnd::kElsewhere;
    } else {
      RunEntry(turn, batch, entry);
    }
  }
  return EntryEnd::kNow;
}

void Batches::RunEntry(ShardTurn& turn, ShardBatch* batch, const ShardBatch::Entry& entry) {
  std::optional<LargeText::Scope> scope;
  if (batch->is_large) [[unlikely]] {
    if (!batch->large()->empty()) scope.emplace(batch->large());
    if (batch->BytesOf(entry) > CommandTimer::kUntimedBytesMax) runner_.TimeNext(*entry.command);
  }
  writer_.Reset(&batch->bytes, batch->resp3, batch->is_memcached);
  const size_t size_before = batch->bytes.size();
  ShardContext& cx = turn.Begin(batch->db_index, batch->is_of_primary ? 0 : now_ms_);
  cx.set_client(batch->client.id != 0 ? &batch->client : nullptr, entry.notes_reads);
  if (const Multi* const multi = batch->MultiOf(entry); multi != nullptr) [[unlikely]] {
    execs_.Run(turn, *entry.command, *multi, cx.now_ms(), writer_);
    return EndEntry(batch, entry, size_before, worker_.NewestEpoch());
  }
  if (entry.is_try) {
    cx.SetKeyHash(args_[entry.command->routed_by(args_)], entry.hash);
    batch->must_wait = !runner_.TryBlocking(turn, *entry.command, args_, writer_);
  } else {
    runner_.RunOnShard(turn, *entry.command, args_, entry.hash, writer_);
  }
  EndEntry(batch, entry, size_before,
           worker_.EpochOf(turn.shard(), *entry.command, args_, entry.hash));
}

void Batches::EndEntry(ShardBatch* batch, const ShardBatch::Entry& entry, size_t size_before,
                       uint64_t epoch) {
  batch->Await(epoch);
  if (entry.drop_reply || batch->discard_replies) {
    DropReply(&batch->bytes, size_before, batch->is_of_primary && !batch->discard_replies);
  }
  batch->EndReply();
  batch->OnRun();
}

// What a primary has sent is refused to nobody: it would be lost.
Slow Batches::SlowBefore(Shard& shard, ShardBatch* batch, const Command& command) {
  if (batch->is_of_primary) return Slow::kNone;
  return exclusion_.SlowBefore(shard, command, &batch->wanted());
}

void Batches::RefuseBusy(ShardBatch* batch, const ShardBatch::Entry& entry, Slow what) {
  writer_.Reset(&batch->bytes, batch->resp3, batch->is_memcached);
  const size_t size_before = batch->bytes.size();
  if (const Multi* const multi = batch->MultiOf(entry); multi != nullptr && multi->watcher != 0) {
    shards_.local(batch->shard).watches().Unwatch(multi->watcher);
  }
  runner_.Reject(*entry.command, CommandRunner::BusyError(what), writer_);
  EndEntry(batch, entry, size_before, 0);
}

void Batches::WaitInQueue(ShardBatch* batch) {
  Shard& shard = shards_.local(batch->shard);
  batch->queued_at = helio::CycleClock::Now();
  ++worker_.stats.queued_commands;
  SortAndMerge(&batch->wanted());
  batch->tags = batch->wanted();
  batch->TxEntry::run = &RunQueued;
  batch->origin = {batch->rest().front().command->full_name.c_str(), batch->connection_id};
  batch->done = [](TxEntry* entry) {
    auto* const waiting = static_cast<ShardBatch*>(entry);
    Batches& batches = Here();
    if (waiting->restarts) return batches.SendBack(waiting);
    if (!waiting->is_under_way) batches.Resume(waiting);
  };
  shard.transactions().ScheduleLast(batch);
  shard.Arm(batch);
}

bool Batches::RunQueued(TxEntry* entry) {
  auto* const waiting = static_cast<ShardBatch*>(entry);
  Batches& batches = Here();
  waiting->is_under_way = batches.exclusion_.AwaitsSnapshotLocked(waiting, [waiting] {
    if (--waiting->unsaved == 0) Here().RunSaved(waiting);
  });
  return !waiting->is_under_way && batches.RunNext(waiting);
}

bool Batches::RunNext(ShardBatch* batch) {
  Shard& shard = shards_.local(batch->shard);
  const ShardBatch::Entry& next = batch->rest().front();
  now_ms_ = helio::UnixMillis();
  if (batch->ScriptOf(next) != nullptr) {
    const EntryEnd end = RunScript(batch, next, batch);
    batch->is_under_way = end == EntryEnd::kLater;
  } else {
    batch->ViewArgs(next, &args_);
    batch->restarts = GoesHome(shard, *batch, next, args_);
    if (batch->restarts) [[unlikely]]
      return true;
    ShardTurn turn(shard);
    turn.cx().set_no_touch(batch->no_touch);
    const int64_t now = helio::CycleClock::Now();
    runner_.BeginUntimed(now);
    const CallerScope scope(worker_.timer, {.slow = &batch->slow,
                                            .queue_cycles = batch->queued_at - batch->sent_at,
                                            .locks_cycles = now - batch->queued_at,
                                            .held_by = batch->held_by});
    RunEntry(turn, batch, next);
  }
  return !batch->is_under_way;
}

void Batches::RunSaved(ShardBatch* batch) {
  Shard& shard = shards_.local(batch->shard);
  batch->is_under_way = false;
  if (!RunNext(batch)) return;  // EndScript does the rest
  {
    const ShardTurn turn(shard);
    shard.transactions().Release(batch);
  }
  batch->done(batch);
}

ShardBatch* Batches::FindBusy(Shard& shard, Slow* what) {
  ShardBatch* found = nullptr;
  shard.transactions().ForEach([&](const TxEntry& entry) {
    if (found != nullptr || entry.run != &RunQueued || !entry.is_armed) return;
    auto& batch = const_cast<ShardBatch&>(static_cast<const ShardBatch&>(entry));
    *what = SlowBefore(shard, &batch, *batch.rest().front().command);
    if (*what != Slow::kNone) found = &batch;
  });
  return found;
}

void Batches::RefuseBusyWaiters() {
  worker_.ForEachShard([this](Shard& shard) {
    Transaction::RefuseWaiters(shard, &shards_.slow_scripts());
    Slow what = Slow::kNone;
    // One after the other, as others may run when one leaves the queue.
    while (ShardBatch* const batch = FindBusy(shard, &what)) {
      shard.Cancel(batch);
      RefuseBusy(batch, batch->rest().front(), what);
      Resume(batch);
    }
  });
}

void Batches::RefuseBusyWaitersOnAll(ServerState& server) {
  DispatchOnAll<Batches>(server, [](Batches& batches) { batches.RefuseBusyWaiters(); });
}

void Batches::SendBack(ShardBatch* batch) {
  batch->Message::run = [](helio::Message* message) {
    auto* back = static_cast<ShardBatch*>(message);
    back->home->OnBack(back);
  };
  if (worker_.shuffle != nullptr) [[unlikely]] {
    worker_.shuffle->Add(batch, StreamOf(*batch, false));
    return;
  }
  batch->home->worker_.proactor.PostLazily(batch);
}

void Batches::OnBack(ShardBatch* batch) {
  if (batch->restarts) [[unlikely]]
    return Restart(batch);
  if (!batch->slow.empty()) [[unlikely]] {
    worker_.timer.TakeHome(&batch->slow,
                           batch->abandoned ? nullptr : &SessionOf(batch->connection));
  }
  const bool is_done = batch->is_done();
  if (is_done) {
    --in_flight_;
    batch->LetIn::Unlink();
  }
  Count(batch);
  const bool is_local = worker_.local(batch->shard) != nullptr;
  if (is_done && is_local) --local_;
  const bool is_try = batch->is_try();
  if (batch->abandoned) {
    if (is_try) batch->connection->EndBusy();  // which lets it go
    // What the client has sent is executed, whether it is still there or not.
    if (is_done) {
      Recycle(batch);
    } else {
      Continue(batch);
    }
    return;
  }
  Connection* connection = batch->connection;
  if (is_done && is_local) --SessionOf(connection).local_batches;
  connection->OnRemoteReplies(batch->bytes.size());
  if (is_done) {
    connection->OnRemoteDone(batch->arg_bytes());
    const bool is_over = !is_try || try_end_.OnTryBack(batch);
    connection->replies().Complete(batch);
    if (is_try && is_over) {
      connection->OnRepliesReady();
      return connection->EndBusy();
    }
  } else {
    connection->replies().CompletePart(batch);
    SessionOf(connection).cut_batches.push_back(batch);
    batch->cut_for = connection;
    connection->set_wants_room(true);
  }
  connection->OnRepliesReady();
}

void Batches::Count(ShardBatch* batch) {
  const size_t bytes = batch->memory_used();
  worker_.buffers.CountClient(static_cast<int64_t>(bytes) - static_cast<int64_t>(batch->counted));
  batch->counted = bytes;
}

void Batches::Delete(ShardBatch* batch) {
  worker_.buffers.CountClient(-static_cast<int64_t>(batch->counted));
  delete batch;
}

void Batches::Shrink(size_t left) {
  if (pool_.size() <= left) return;
  const auto end = pool_.end() - static_cast<ptrdiff_t>(left);
  for (auto it = pool_.begin(); it != end; ++it) {
    pool_bytes_ -= (*it)->counted;
    Delete(*it);
  }
  pool_.erase(pool_.begin(), end);
}

void Batches::Recycle(ShardBatch* batch) {
  constexpr size_t kPooledMax = 256;
  constexpr size_t kPooledBytesMax = 512 * 1024;  // what a burst of large commands leaves
  batch->Recycle(&execs_);
  Count(batch);
  if (server_.memory.is_over()) [[unlikely]] {
    pools_.Drop();  // before keys go, or commands are refused
    return Delete(batch);
  }
  if (pool_.size() == kPooledMax || pool_bytes_ + batch->counted > kPooledBytesMax) {
    return Delete(batch);
  }
  pool_bytes_ += batch->counted;
  pool_.push_back(batch);
}

// --- What runs at home after all ---

bool Batches::GoesHome(const Shard& shard, const ShardBatch& batch, const ShardBatch::Entry& entry,
                       Args args) {
  const Command& command = *entry.command;
  const bool stays = batch.is_of_primary || (batch.must_stay && (command.flags & kWrite) != 0);
  return command.slices && !stays &&
         Exclusion::TakesLong(shard, batch.db_index, command, args, entry.hash);
}

void Batches::AddRunning(const Noted& noted, Args args, Session& session, AclCallerRef caller,
                         ScriptJob* job, bool drop_reply) {
  Connection* const connection = noted.connection;
  ShardBatch* const batch = New(connection, session, noted.shard);
  batch->AddScript(noted.command, args, noted.hash, drop_reply, noted.script->shared_from_this());
  batch->caller = std::move(caller);
  batch->client = job->client;
  if (job->notes_reads) batch->NoteReads();
  connection->replies().AddRemote(batch);
  connection->OnRemoteSent(batch->arg_bytes());
  Count(batch);
  ++in_flight_;
  worker_.let_in.PushBack(batch);
  // As if it had arrived, and its first command were running.
  parked_.try_emplace(std::pair(batch->connection_id, batch->shard));
  job->on_end = &OnScriptEnd;
  job->batch = batch;
  batch->ViewArgs(batch->rest().front(), &job->args);
  job->call = ScriptArgsOf(Args(job->args));
  job->writer.Reset(&batch->bytes, batch->resp3);
  if (!job->is_abandoned) return;
  NoteRestart(batch, job);
  SendBack(batch);
}

auto Batches::RunScript(ShardBatch* batch, const ShardBatch::Entry& entry, TxEntry* queued)
    -> EntryEnd {
  ScriptJob* const job = jobs_.New();
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
  job->on_end = &OnScriptEnd;
  job->batch = batch;
  batch->ViewArgs(entry, &job->args);
  job->call = ScriptArgsOf(Args(job->args));
  const size_t size_before = batch->bytes.size();
  job->writer.Reset(&batch->bytes, batch->resp3);
  if (jobs_.Run(job)) {
    jobs_.Recycle(job);
    EndEntry(batch, entry, size_before, worker_.NewestEpoch());
    return EntryEnd::kNow;
  }
  if (!job->is_abandoned) return EntryEnd::kLater;
  NoteRestart(batch, job);
  return EntryEnd::kElsewhere;
}

void Batches::OnScriptEnd(ScriptJob* job) { Here().EndScript(job); }

void Batches::EndScript(ScriptJob* job) {
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
  jobs_.Recycle(job);
  EndEntry(batch, entry, size_before, worker_.NewestEpoch());
  Resume(batch);
}

void Batches::NoteRestart(ShardBatch* batch, ScriptJob* job) {
  ++worker_.stats.scripts.restarts;
  batch->restarts = true;
  batch->discovered = std::move(job->run->discovered());
  batch->wants_all_keys = job->run->wants_all_keys();
  jobs_.Recycle(job);
}

void Batches::RunInSlices(CoordinatorContext& cx, Session& session, const Command& command,
                          Args args, RespWriter& writer) {
  cx.set_command(command.effect, args.all());
  if ((command.flags & kWrite) != 0) {
    exclusion_.AskSnapshots(session, command, args, cx.db_index());
    if (!runner_.AwaitRoom(command, args, writer)) return;
  }
  runner_.RunOrRefuse(cx, command, args, writer, [&] { command.across(cx, args, writer); });
}

void Batches::Restart(ShardBatch* batch) {
  const ShardBatch::Entry& entry = batch->rest().front();
  batch->restarts = false;
  Script* const script = batch->ScriptOf(entry);
  if (batch->abandoned) {
    // Its client is gone, and it has done nothing yet.
    batch->must_stay = true;
    if (script != nullptr || (entry.command->flags & kWrite) == 0) {
      batch->EndReply();
      batch->OnRun();
    }
    return Post(batch);
  }
  Session& session = SessionOf(batch->connection);
  session.connection.Keep();
  ++session.coordinators;
  ++worker_.coordinators;
  helio::FiberOptions options{.name = script != nullptr ? "script" : "coordinator",
                              .stack_size = script != nullptr ? RunningScripts::kStackBytes : 0};
  helio::Fiber(std::move(options), [this, batch, &entry, &session, script] {
    std::vector<std::string_view> args;
    batch->ViewArgs(entry, &args);
    CoordinatorContext cx(&shards_, &session, batch->db_index, helio::UnixMillis());
    if (batch->client.id != 0) cx.set_client(&batch->client, entry.notes_reads);
    const size_t size_before = batch->bytes.size();
    RespWriter writer(&batch->bytes, batch->resp3);
    const auto run_script = [&] {
      jobs_.RunOverShards(cx, *entry.command, script, ScriptArgsOf(Args(args)),
                          std::move(batch->discovered), batch->wants_all_keys, writer);
    };
    if (script != nullptr) {
      runner_.RunOrRefuse(cx, *entry.command, Args(args), writer, run_script);
    } else {
      RunInSlices(cx, session, *entry.command, args, writer);
    }
    EndEntry(batch, entry, size_before, worker_.NewestEpoch());
    --session.coordinators;
    --worker_.coordinators;
    PubSub::Here().OnReplied(session);
    Tracking::Here().OnReplied(session);
    Connection& connection = session.connection;
    if (session.connection_closed) worker_.Forget(&session);
    Post(batch);  // its other commands; and those that have waited for it can go on
    connection.LetGo();
  }).Detach();
}

}  // namespace dfly
