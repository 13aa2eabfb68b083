// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/blocking.h"

#include <algorithm>
#include <mutex>

#include "commands/table/distinct_keys.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/worker.h"

namespace dfly {

BlockedCommand::BlockedCommand(CoordinatorContext& cx, const BlockingForm& form, Args args,
                               BlockingCall* call)
    : cx_(cx),
      session_(SessionOf(cx)),
      form_(form),
      args_(args),
      call_(*call),
      resp3_(session_.resp3),
      is_direct_(!session_.server.options.all_remote),
      home_(helio::Proactor::Current()),
      since_ns_(helio::MonotonicNanos()),
      deadline_ns_(call_.timeout_ms == 0
                       ? 0
                       : since_ns_ + static_cast<uint64_t>(std::min<int64_t>(
                                         call_.timeout_ms, INT64_MAX / 2'000'000)) *
                                         1'000'000),
      nodes_(call_.keys.size()) {
  ShardSet& shards = cx.shards();
  ForEachDistinct(call_.keys, [&](std::string_view key) {
    const uint64_t hash = HashKey(key);
    WaiterNode& node = nodes_[nodes_count_++];
    node.waiter = this;
    node.shard = shards.ShardOfKey(key, hash);
    node.name = {cx.db_index(), std::string(key)};
    node.hash = hash;
    node.minds_absence = form.minds_absence;
    node.locks.push_back(shards.LockOfKey(key, hash, cx.db_index()));
    if (std::find(ids_.begin(), ids_.end(), node.shard) == ids_.end()) ids_.push_back(node.shard);
  });
  for (WaiterNode& node : nodes()) node.spans_shards = ids_.size() > 1;
  if (form.target_at != 0) {
    const std::string_view target = args[static_cast<size_t>(form.target_at)];
    const uint64_t hash = HashKey(target);
    target_shard_ = shards.ShardOfKey(target, hash);
    target_lock_ = shards.LockOfKey(target, hash, cx.db_index());
    is_across_ = target_shard_ != ids_.front();
    if (!is_across_) nodes().front().locks.push_back(target_lock_);
  }
  told_.command = this;
  told_.run = [](helio::Message* message) {
    auto* const told = static_cast<Told*>(message);
    told->command->end_ = told->how;
    told->command->has_ended_.NotifyOne();
  };
}

void BlockedCommand::Run(ReplySink& reply) {
  const bool in_one_hop =
      !is_across_ && ids_.size() == 1 && session_.server.options.singlehop_blocking;
  WorkerStats& stats = session_.worker.stats;
  ++(in_one_hop ? stats.blocking_one_hop : stats.blocking_general);
  if (is_across_) return RunAcross(reply);
  const bool has_keys = nodes_count_ != 0;
  if (has_keys && (in_one_hop ? TryInOneHop(reply) : TryInHops(reply))) return;
  const End how = Wait();
  if (how != End::kServed || ids_.size() > 1) Unregister();
  ReplyTo(how, reply);
}

void BlockedCommand::LockAll(Transaction* tx) {
  for (const WaiterNode& node : nodes()) {
    tx->Lock(node.shard, {node.locks.front(), LockMode::kExclusive});
  }
  if (form_.target_at != 0) tx->Lock(target_shard_, {target_lock_, LockMode::kExclusive});
}

bool BlockedCommand::TryInOneHop(ReplySink& reply) {
  bool is_replied = false;
  const auto hop = [&](ShardTurn& turn) {
    helio::NoSuspend no_suspend;
    ShardContext& shard_cx = turn.Begin(cx_.db_index(), cx_.now_ms());
    shard_cx.SetKeyHash(call_.keys.front(), nodes().front().hash);
    {
      const EffectScope effects(shard_cx, cx_.effect_rule(), args_.all());
      is_replied = TryBlockingForm(form_, shard_cx, args_, &call_, reply);
    }
    if (!is_replied) Register(turn.shard());
  };
  ShardSet& shards = cx_.shards();
  const ShardId id = ids_.front();
  if (is_direct_ && shards.is_local(id) && !IsHindered(shards.local(id))) {
    ShardTurn turn(shards.local(id));
    hop(turn);
    return is_replied;
  }
  Transaction tx(cx_);
  LockAll(&tx);
  if (!tx.Run(hop)) return true;
  if (is_replied) session_.missed_tries = 0;
  return is_replied;
}

bool BlockedCommand::IsHindered(const Shard& shard) const {
  const TxQueue& queue = shard.transactions();
  if (queue.empty()) return false;
  for (const WaiterNode& node : nodes()) {
    for (uint64_t lock : node.locks) {
      if (queue.Conflicts({lock, LockMode::kExclusive})) return true;
    }
  }
  return false;
}

bool BlockedCommand::TryInHops(ReplySink& reply) {
  if (form_.try_across != nullptr) {
    Transaction tx(cx_);
    LockAll(&tx);
    if (!tx.Schedule()) return true;
    const bool is_replied = form_.try_across(cx_, tx, args_, &call_, reply);
    if (!is_replied) tx.HopAndConclude(ids_, [this](Shard& shard) { Register(shard); });
    return is_replied;
  }
  const auto keys = call_.keys;
  std::vector<ShardId> shard_of(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    shard_of[i] = cx_.shards().ShardOfKey(keys[i], HashKey(keys[i]));
  }
  std::vector<uint8_t> exists(keys.size(), 0);  // bytes, since shards write at the same time
  Transaction tx(cx_);
  LockAll(&tx);
  const bool may_go_on = tx.ScheduleAndHop([&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx_.db_index(), cx_.now_ms());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (shard_of[i] == turn.shard().id()) exists[i] = static_cast<bool>(shard_cx.Peek(keys[i]));
    }
  });
  if (!may_go_on) return true;
  const auto first =
      static_cast<size_t>(std::find(exists.begin(), exists.end(), 1) - exists.begin());
  if (first == keys.size()) {
    tx.HopAndConclude(ids_, [this](Shard& shard) { Register(shard); });
    return false;
  }
  tx.HopAndConclude({&shard_of[first], 1}, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx_.db_index(), cx_.now_ms());
    BlockingCall of_one = {.keys = keys.subspan(first, 1)};
    const bool is_replied = TryBlockingForm(form_, shard_cx, args_, &of_one, reply);
    DCHECK(is_replied) << "the key is there";
  });
  const auto is_elsewhere = [&](ShardId id) { return id != shard_of[0]; };
  const auto end = shard_of.begin() + static_cast<ptrdiff_t>(first) + 1;
  if (std::none_of(shard_of.begin(), end, is_elsewhere)) session_.missed_tries = 0;
  return true;
}

void BlockedCommand::RunAcross(ReplySink& reply) {
  bool is_registered = false;
  WaiterNode& node = nodes().front();
  for (;;) {
    {
      Transaction tx(cx_);
      LockAll(&tx);
      if (!tx.Schedule()) return;
      // Who has begun to wait gets no error for what the key is now.
      bool is_ready = true;
      if (is_registered) {
        tx.HopOn(ids_, [&](Shard& shard) { is_ready = IsReady(shard, node); });
      }
      if (is_ready && form_.take_across(cx_, tx, args_, reply)) {
        if (is_registered) {
          tx.HopAndConclude(ids_, [&](Shard& shard) { shard.waiters().Remove(&node); });
        }
        return;
      }
      end_ = End::kNone;
      tx.HopAndConclude(ids_, [&](Shard& shard) {
        if (is_registered) {
          Release();
          shard.waiters().EndHold(&node);
        } else {
          Register(shard);
        }
      });
      is_registered = true;
      cx_.set_may_be_refused(false);
    }
    const End how = Wait();
    if (how == End::kWoken && !session_.connection_closed) continue;
    Unregister();
    return ReplyTo(how == End::kWoken ? End::kGone : how, reply);
  }
}

void BlockedCommand::Register(Shard& shard) {
  for (WaiterNode& node : nodes()) {
    if (node.shard != shard.id()) continue;
    shard.waiters().Add(&node);
    if (form_.ready_at_ms == nullptr) continue;
    LookLater(shard, ShardContext(shard, node.name.db_index, helio::UnixMillis()), &node);
  }
}

void BlockedCommand::LookLater(Shard& shard, const ShardContext& shard_cx, WaiterNode* node) {
  if (form_.ready_at_ms == nullptr) return;
  shard.waiters().LookAt(shard, node, form_.ready_at_ms(shard_cx, args_, node->name.key));
}

void BlockedCommand::Unregister() {
  cx_.shards().AwaitOn(ids_, [this](Shard& shard) {
    for (WaiterNode& node : nodes()) {
      if (node.shard == shard.id()) shard.waiters().Remove(&node);
    }
  });
}

size_t BlockedCommand::NodeBytes() const {
  if (nodes_.size() <= 1) return 0;
  size_t bytes = helio::BlockBytes(nodes_.data());
  for (const WaiterNode& node : nodes()) bytes += helio::HeapBytes(node.name.key);
  return bytes;
}

auto BlockedCommand::Wait() -> End {
  const int64_t begin = helio::CycleClock::Now();
  const size_t node_bytes = NodeBytes();
  MemoryUse::Here().counted.coordinators += node_bytes;
  session_.blocked = this;
  Worker::Here().OnBlocked(1);
  if (!session_.connection_closed && session_.connection.recv_ended()) {
    session_.connection.SendAndCloseNow();  // as Worker::OnPeerShutdown, if it ends during the wait
  }
  if (session_.connection_closed || session_.connection.closing()) EndWait(End::kGone);
  {
    std::unique_lock lock(mutex_);
    while (end_ == End::kNone) {
      if (deadline_ns_ == 0) {
        has_ended_.Wait(lock);
      } else if (!has_ended_.WaitUntil(lock, deadline_ns_) && !EndWait(End::kTimeout)) {
        // A shard has it in hand.
        while (end_ == End::kNone) has_ended_.Wait(lock);
      }
    }
  }
  Worker::Here().OnBlocked(-1);
  MemoryUse::Here().counted.coordinators -= node_bytes;
  session_.blocked = nullptr;
  cx_.AddWaitedCycles(helio::CycleClock::Now() - begin);
  return end_;
}

bool BlockedCommand::EndWait(End how) {
  if (!Claim()) return false;
  end_ = how;
  has_ended_.NotifyOne();
  return true;
}

void BlockedCommand::Deny(std::string error) {
  if (EndWait(End::kDenied)) denial_ = std::move(error);
}

std::vector<std::string> BlockedCommand::Keys() const {
  std::vector<std::string> keys;
  for (const WaiterNode& node : nodes()) keys.push_back(node.name.key);
  return keys;
}

void BlockedCommand::ReplyTo(End how, ReplySink& reply) {
  switch (how) {
    case End::kServed:
      // A blocking command is no part of anything else when it waits, so this is a client's.
      if (const std::string_view served = served_.view(); served.starts_with('-')) {
        return reply.Error(served.substr(1, served.size() - 3));  // and so it is counted
      }
      static_cast<RespWriter&>(reply).Raw(served_.view());
      return;
    case End::kUnblockedWithError:
      return reply.Error(kErrUnblocked);
    case End::kDenied:
      return reply.Error(denial_);
    case End::kNone:
    case End::kWoken:
      LOG(DFATAL) << "a wait that has not ended";
      [[fallthrough]];
    case End::kTimeout:
    case End::kUnblocked:
    case End::kGone:
      if (nodes_count_ == 0) return form_.reply_nothing(reply);
      return reply.NullArray();  // whatever the form: so does Redis, for BLMOVE too
  }
}

bool BlockedCommand::IsReady(Shard& shard, const WaiterNode& node) const {
  // No turn, whose end would serve waiters: it is asked in the middle of one.
  ShardContext shard_cx(shard, node.name.db_index, helio::UnixMillis());
  shard_cx.SetKeyHash(node.name.key, node.hash);
  if (form_.is_ready != nullptr) return form_.is_ready(shard_cx, args_, call_, node.name.key);
  const auto value = shard_cx.Peek(node.name.key);
  return value && value->type() == form_.type;
}

auto BlockedCommand::Serve(Shard& shard, WaiterNode& node) -> Outcome {
  helio::NoSuspend no_suspend;
  ShardTurn turn(shard);
  ShardContext& shard_cx = turn.Begin(node.name.db_index, helio::UnixMillis());
  shard_cx.SetKeyHash(node.name.key, node.hash);
  const auto value = shard_cx.Peek(node.name.key);
  if (form_.is_ready != nullptr) {
    if (!form_.is_ready(shard_cx, args_, call_, node.name.key)) {
      LookLater(shard, shard_cx, &node);
      return value ? Outcome::kNotReady : Outcome::kAbsent;
    }
  } else {
    if (!value) return Outcome::kAbsent;
    if (value->type() != form_.type) return Outcome::kNotReady;
  }
  if (!Claim()) return Outcome::kGone;
  if (is_across_) {
    Tell(End::kWoken);
    return Outcome::kHolds;
  }
  RespWriter writer(&served_, resp3_);
  {
    const EffectScope effects(shard_cx, cx_.effect_rule(), args_.all());
    if (form_.serve != nullptr) {
      form_.serve(shard_cx, args_, call_, node.name.key, writer);
    } else {
      form_.take(shard_cx, args_, node.name.key, writer);
    }
  }
  shard_cx.Finish();  // its key is a node's
  for (WaiterNode& other : nodes()) {
    if (other.shard == shard.id()) shard.waiters().Remove(&other);
  }
  Tell(End::kServed);
  return Outcome::kServed;
}

void BlockedCommand::Wake() {
  if (Claim()) Tell(End::kWoken);
}

void BlockedCommand::Tell(End how) {
  if (is_direct_ && home_ == helio::Proactor::Current()) {
    end_ = how;
    has_ended_.NotifyOne();
    return;
  }
  told_.how = how;
  home_->PostLazily(&told_);
}

void RunBlocking(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const BlockingForm& form = *SessionOf(cx).server.commands.Find(args.name())->blocking;
  BlockingCall call;
  if (!form.parse(args, reply, &call)) return;
  BlockedCommand(cx, form, args, &call).Run(reply);
}

}  // namespace dfly
