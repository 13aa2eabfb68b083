// SPDX-License-Identifier: Apache-2.0
// The worker's part of batches: filling and sending them, running those of others on its shards, in
// order and behind transactions, and their way home.
#include <algorithm>
#include <utility>

#include "engine/transaction.h"
#include "facade/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/no_suspend.h"
#include "server/blocking.h"
#include "server/server_state.h"
#include "server/worker.h"

namespace dfly {

bool Worker::MustQueue(const Noted& noted, const Session& session, bool is_long) {
  const bool is_here = state_.local(noted.shard) != nullptr && !all_remote_;
  if (!is_here) return true;
  Shard& shard = *state_.local(noted.shard);
  if (local_batches_ == 0 && shard.runs_freely() && !is_long) return false;
  if (is_long || session.local_batches > 0) return true;
  if (noted.action == Action::kExec)
    return exclusion_.IsExecExcluded(shard, *session.multi, &tags_);
  if (noted.action == Action::kScript) {
    return exclusion_.IsScriptExcluded(shard, *noted.script, *noted.command, ArgsOf(noted),
                                       session.db_index, &tags_);
  }
  return exclusion_.IsExcluded(shard, *noted.command, ArgsOf(noted), noted.hash, session.db_index,
                               &tags_);
}

ShardBatch* Worker::NewBatch(Connection* connection, Session& session, ShardId shard) {
  ShardBatch* batch;
  if (batch_pool_.empty()) {
    batch = new ShardBatch;
  } else {
    batch = batch_pool_.back();
    batch_pool_.pop_back();
    batch_pool_bytes_ -= batch->counted;
  }
  batch->Start(this, connection, shard, session);
  if (state_.local(shard) != nullptr) {
    ++local_batches_;
    ++session.local_batches;
  }
  return batch;
}

ShardBatch* Worker::BatchFor(Connection* connection, Session& session, ShardId shard) {
  // They are of one connection each.
  if (!open_shards_.empty() && connection != batches_of_) SendBatches();
  ShardBatch*& batch = open_batches_[shard];
  if (batch != nullptr) return batch;
  batch = NewBatch(connection, session, shard);
  batches_of_ = connection;
  open_shards_.push_back(shard);
  return batch;
}

void Worker::SendBatches() {
  for (ShardId shard : open_shards_) {
    ShardBatch* batch = std::exchange(open_batches_[shard], nullptr);
    ++state_.stats.batches;
    batch->connection->OnRemoteSent(batch->arg_bytes());
    ++batches_in_flight_;
    CountBatch(batch);
    Post(batch);
  }
  open_shards_.clear();
}

void Worker::Post(ShardBatch* batch) {
  batch->sent_at = helio::CycleClock::Now();
  batch->Message::run = [](helio::Message* message) {
    auto* arrived = static_cast<ShardBatch*>(message);
    Worker::Here().OnBatch(arrived);
  };
  if (state_.shuffle != nullptr) [[unlikely]] {
    state_.shuffle->Add(batch, StreamOf(*batch, true));
    return;
  }
  shards_.owner(batch->shard)->PostLazily(batch);
}

uint64_t Worker::StreamOf(const ShardBatch& batch, bool to_shard) {
  return MessageShuffle::StreamOfReplies(batch.connection_id, batch.shard) + (to_shard ? 1 : 0);
}

void Worker::Continue(ShardBatch* batch) {
  DCHECK(!batch->is_done());
  batch->discard_replies = batch->abandoned;
  batch->BeginPart();
  Post(batch);
}

void Worker::OnRoom(Connection* connection) {
  // Only the first in order may go on: the replies of others would pile up behind it.
  std::vector<ShardBatch*>& cut = SessionOf(connection).cut_batches;
  const auto it = std::find_if(cut.begin(), cut.end(), [&](const ShardBatch* batch) {
    return connection->replies().waits_for(batch);
  });
  if (it == cut.end()) return;
  ShardBatch* const batch = *it;
  cut.erase(it);
  connection->set_wants_room(!cut.empty());
  Continue(batch);
}

void Worker::OnBatch(ShardBatch* batch) {
  arrived_.push_back(batch);
  if (arrived_.size() == kArrivedMax || state_.shuffle != nullptr) RunArrived();
}

void Worker::RunArrived() {
  helio::NoSuspend no_suspend;
  auto for_each = [&](auto&& prefetch) {
    for (const ShardBatch* batch : arrived_) {
      const Database* database = shards_.local(batch->shard).FindDb(batch->db_index);
      if (database == nullptr) continue;
      for (const ShardBatch::Entry& entry : batch->rest()) prefetch(*database, entry.hash);
    }
  };
  for_each([](const Database& database, uint64_t hash) { database.Prefetch(hash); });
  for_each([](const Database& database, uint64_t hash) { database.PrefetchSlot(hash); });
  for_each([](const Database& database, uint64_t hash) { database.PrefetchValue(hash); });
  now_ms_ = helio::UnixMillis();
  for (ShardBatch* batch : arrived_) RunInOrder(batch);
  arrived_.clear();
}

void Worker::RunInOrder(ShardBatch* batch) {
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

void Worker::Resume(ShardBatch* batch) {
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

bool Worker::RunBatch(ShardBatch* batch) {
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

auto Worker::RunEntries(ShardBatch* batch) -> EntryEnd {
  Shard& shard = shards_.local(batch->shard);
  const size_t reply_bytes_max = server_.options.limits.batch_reply_bytes_max();
  ShardTurn turn(shard);
  turn.cx().set_no_touch(batch->no_touch);
  const CallerScope scope(
      state_.timer,
      {.slow = &batch->slow, .queue_cycles = helio::CycleClock::Now() - batch->sent_at});
  runner_.BeginUntimed(helio::CycleClock::Now());
  for (const ShardBatch::Entry& entry : batch->rest()) {
    if (batch->bytes.size() > reply_bytes_max) [[unlikely]]
      break;
    batch->ViewArgs(entry, &batch_args_);
    const Multi* const multi = batch->MultiOf(entry);
    Script* const script = batch->ScriptOf(entry);
    const bool is_excluded =
        multi != nullptr ? exclusion_.IsExecExcluded(shard, *multi, &batch->wanted())
        : script != nullptr
            ? exclusion_.IsScriptExcluded(shard, *script, *entry.command, batch_args_,
                                          batch->db_index, &batch->wanted())
            : exclusion_.IsExcluded(shard, *entry.command, batch_args_, entry.hash, batch->db_index,
                                    &batch->wanted());
    if (is_excluded) [[unlikely]] {
      turn.cx().Finish();
      const Slow what = exclusion_.SlowBefore(shard, *entry.command, &batch->wanted());
      if (what == Slow::kNone) return EntryEnd::kQueues;
      RefuseBusy(batch, entry, what);
    } else if (script != nullptr) {
      turn.cx().Finish();
      const EntryEnd end = RunScriptEntry(batch, entry, nullptr);
      if (end != EntryEnd::kNow) return end;
    } else {
      RunEntry(turn, batch, entry);
    }
  }
  return EntryEnd::kNow;
}

void Worker::RunEntry(ShardTurn& turn, ShardBatch* batch, const ShardBatch::Entry& entry) {
  batch_writer_.Reset(&batch->bytes, batch->resp3, batch->is_memcached);
  const size_t size_before = batch->bytes.size();
  ShardContext& cx = turn.Begin(batch->db_index, now_ms_);
  cx.set_client(batch->client.id != 0 ? &batch->client : nullptr, entry.notes_reads);
  if (const Multi* const multi = batch->MultiOf(entry); multi != nullptr) [[unlikely]] {
    RunExec(turn, *entry.command, *multi, batch_writer_);
  } else if (entry.is_try) {
    cx.SetKeyHash(batch_args_[entry.command->routed_by(batch_args_)], entry.hash);
    batch->must_wait = !runner_.TryBlocking(turn, *entry.command, batch_args_, batch_writer_);
  } else {
    runner_.RunOnShard(turn, *entry.command, batch_args_, entry.hash, batch_writer_);
  }
  EndEntry(batch, entry, size_before);
}

void Worker::EndEntry(ShardBatch* batch, const ShardBatch::Entry& entry, size_t size_before) {
  if (entry.drop_reply || batch->discard_replies) batch->bytes.Truncate(size_before);
  batch->EndReply();
  batch->OnRun();
}

void Worker::RefuseBusy(ShardBatch* batch, const ShardBatch::Entry& entry, Slow what) {
  batch_writer_.Reset(&batch->bytes, batch->resp3, batch->is_memcached);
  const size_t size_before = batch->bytes.size();
  if (const Multi* const multi = batch->MultiOf(entry); multi != nullptr && multi->watcher != 0) {
    shards_.local(batch->shard).watches().Unwatch(multi->watcher);
  }
  runner_.Reject(*entry.command, CommandRunner::BusyError(what), batch_writer_);
  EndEntry(batch, entry, size_before);
}

void Worker::WaitInQueue(ShardBatch* batch) {
  Shard& shard = shards_.local(batch->shard);
  batch->queued_at = helio::CycleClock::Now();
  ++state_.stats.queued_commands;
  SortAndMerge(&batch->wanted());
  batch->tags = batch->wanted();
  batch->TxEntry::run = &RunQueued;
  batch->origin = {batch->rest().front().command->full_name.c_str(), batch->connection_id};
  batch->done = [](TxEntry* entry) {
    auto* const waiting = static_cast<ShardBatch*>(entry);
    Worker* const worker = &Worker::Here();
    if (waiting->restarts) return worker->SendBack(waiting);
    if (!waiting->is_under_way) worker->Resume(waiting);
  };
  shard.transactions().ScheduleLast(batch);
  shard.Arm(batch);
}

bool Worker::RunQueued(TxEntry* entry) {
  auto* const waiting = static_cast<ShardBatch*>(entry);
  Worker* const worker = &Worker::Here();
  waiting->is_under_way = worker->exclusion_.AwaitsSnapshotLocked(waiting, [worker, waiting] {
    if (--waiting->unsaved == 0) worker->RunSaved(waiting);
  });
  return !waiting->is_under_way && worker->RunNext(waiting);
}

bool Worker::RunNext(ShardBatch* batch) {
  Shard& shard = shards_.local(batch->shard);
  const ShardBatch::Entry& next = batch->rest().front();
  now_ms_ = helio::UnixMillis();
  if (batch->ScriptOf(next) != nullptr) {
    const EntryEnd end = RunScriptEntry(batch, next, batch);
    batch->is_under_way = end == EntryEnd::kLater;
  } else {
    batch->ViewArgs(next, &batch_args_);
    ShardTurn turn(shard);
    turn.cx().set_no_touch(batch->no_touch);
    const int64_t now = helio::CycleClock::Now();
    runner_.BeginUntimed(now);
    const CallerScope scope(state_.timer, {.slow = &batch->slow,
                                           .queue_cycles = batch->queued_at - batch->sent_at,
                                           .locks_cycles = now - batch->queued_at,
                                           .held_by = batch->held_by});
    RunEntry(turn, batch, next);
  }
  return !batch->is_under_way;
}

void Worker::RunSaved(ShardBatch* batch) {
  Shard& shard = shards_.local(batch->shard);
  batch->is_under_way = false;
  if (!RunNext(batch)) return;  // EndScriptJob does the rest
  {
    const ShardTurn turn(shard);
    shard.transactions().Release(batch);
  }
  batch->done(batch);
}

ShardBatch* Worker::FindBusy(Shard& shard, Slow* what) {
  ShardBatch* found = nullptr;
  shard.transactions().ForEach([&](const TxEntry& entry) {
    if (found != nullptr || entry.run != &RunQueued || !entry.is_armed) return;
    auto& batch = const_cast<ShardBatch&>(static_cast<const ShardBatch&>(entry));
    *what = exclusion_.SlowBefore(shard, *batch.rest().front().command, &batch.wanted());
    if (*what != Slow::kNone) found = &batch;
  });
  return found;
}

void Worker::RefuseBusyWaiters() {
  state_.ForEachShard([this](Shard& shard) {
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

void Worker::RefuseBusyWaitersOnAll(ServerState& server) {
  DispatchOnAll<Worker>(server, [](Worker& worker) { worker.RefuseBusyWaiters(); });
}

void Worker::SendBack(ShardBatch* batch) {
  batch->Message::run = [](helio::Message* message) {
    auto* back = static_cast<ShardBatch*>(message);
    back->home->OnBatchBack(back);
  };
  if (state_.shuffle != nullptr) [[unlikely]] {
    state_.shuffle->Add(batch, StreamOf(*batch, false));
    return;
  }
  batch->home->proactor_.PostLazily(batch);
}

void Worker::OnBatchBack(ShardBatch* batch) {
  if (batch->restarts) [[unlikely]]
    return RestartScript(batch);
  if (!batch->slow.empty()) [[unlikely]] {
    state_.timer.TakeHome(&batch->slow, batch->abandoned ? nullptr : &SessionOf(batch->connection));
  }
  const bool is_done = batch->is_done();
  if (is_done) --batches_in_flight_;
  CountBatch(batch);
  const bool is_local = state_.local(batch->shard) != nullptr;
  if (is_done && is_local) --local_batches_;
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
    const bool is_over = !is_try || EndTry(batch);
    connection->replies().Complete(batch);
    if (is_try && is_over) {
      connection->OnRepliesReady();
      return connection->EndBusy();
    }
  } else {
    connection->replies().CompletePart(batch);
    SessionOf(connection).cut_batches.push_back(batch);
    connection->set_wants_room(true);
  }
  connection->OnRepliesReady();
}

bool Worker::EndTry(ShardBatch* batch) {
  Session& session = SessionOf(batch->connection);
  const ShardBatch::Entry& entry = batch->first();
  std::vector<std::string_view> args;
  if (!batch->must_wait) {
    session.missed_tries = 0;
    if (monitors_.any()) [[unlikely]] {
      batch->ViewArgs(entry, &args);
      FeedMonitors(session, *entry.command, args);
    }
    return true;
  }
  ++session.missed_tries;
  // It comes again.
  --session.commands;
  --state_.stats.commands_processed;
  batch->ViewArgs(entry, &args);
  const Outcome outcome =
      CoordinateWait(batch->connection, session, *entry.command, RunBlocking, args);
  if (outcome == Outcome::kWaits) return false;
  RunNoted();  // it is refused
  return true;
}

void Worker::CountBatch(ShardBatch* batch) {
  const size_t bytes = batch->memory_used();
  state_.buffers.CountClient(static_cast<int64_t>(bytes) - static_cast<int64_t>(batch->counted));
  batch->counted = bytes;
}

void Worker::Delete(ShardBatch* batch) {
  state_.buffers.CountClient(-static_cast<int64_t>(batch->counted));
  delete batch;
}

void Worker::ShrinkBatches(size_t left) {
  if (batch_pool_.size() <= left) return;
  const auto end = batch_pool_.end() - static_cast<ptrdiff_t>(left);
  for (auto it = batch_pool_.begin(); it != end; ++it) {
    batch_pool_bytes_ -= (*it)->counted;
    Delete(*it);
  }
  batch_pool_.erase(batch_pool_.begin(), end);
}

void Worker::Halve() {
  ShrinkBatches(batch_pool_.size() / 2);
  multi_pool_.resize(multi_pool_.size() / 2);
}

void Worker::Drop() {
  ShrinkBatches(0);
  multi_pool_.clear();
}

void Worker::ReleaseScratch() {
  Release(&batch_args_);
  Release(&exec_args_);
  Release(&spared_);
  if (!noted_.empty()) return;
  Release(&noted_args_);
  Release(&tags_);
}

void Worker::Recycle(ShardBatch* batch) {
  constexpr size_t kPooledMax = 256;
  constexpr size_t kPooledBytesMax = 512 * 1024;  // what a burst of large commands leaves
  batch->Recycle();
  CountBatch(batch);
  if (server_.memory.is_over()) [[unlikely]] {
    pools_.Drop();  // before keys go, or commands are refused
    return Delete(batch);
  }
  if (batch_pool_.size() == kPooledMax || batch_pool_bytes_ + batch->counted > kPooledBytesMax) {
    return Delete(batch);
  }
  batch_pool_bytes_ += batch->counted;
  batch_pool_.push_back(batch);
}

}  // namespace dfly
