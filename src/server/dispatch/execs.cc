// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/execs.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "commands/table/spread.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/script_jobs.h"

namespace dfly {

namespace {

size_t BytesOf(std::span<const std::string_view> args) {
  size_t bytes = 0;
  for (std::string_view arg : args) bytes += arg.size();
  return bytes;
}

// The look-ups of what runs together. item(i): a Multi::Item.
template <typename ItemAt>
void Prefetch(const Shard& shard, size_t count, ItemAt item) {
  constexpr size_t kTogether = 64;
  count = std::min(count, kTogether);
  PrefetchTogether([&](auto&& visit) {
    for (size_t i = 0; i < count; ++i) {
      const Database* database = shard.FindDb(item(i).db_index);
      if (database != nullptr) visit(*database, item(i).hash, std::string_view());
    }
  });
}

// Ends a set of watches on its shard. True if EXEC may go on: nothing of it was touched, and it is
// still there at all.
bool TakeWatches(Shard& shard, uint64_t watcher, int64_t now_ms) {
  WatchTable& watches = shard.watches();
  bool is_there = false;
  {
    // What is due by now has changed, whether somebody has noticed or not.
    ShardContext cx(shard);
    watches.ForEachKey(watcher, [&](const KeyName& name) {
      is_there = true;
      cx.Begin(name.db_index, now_ms);
      cx.Peek(name.key);
    });
  }
  const bool is_touched = watches.is_touched(watcher);
  watches.Unwatch(watcher);
  return is_there && !is_touched;
}

}  // namespace

Execs::Execs(WorkerState* worker, MemoryUse* memory, Pools* pools, ShardCare* care,
             CommandRunner* runner)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      shards_(*worker->server.shards),
      memory_(*memory),
      care_(*care),
      runner_(*runner) {
  pools->Add(this);
}

void Execs::ReleaseScratch() {
  Release(&args_);
  Release(&spared_);
}

std::unique_ptr<Multi> Execs::NewMulti(int db_index) {
  if (pool_.empty()) return std::make_unique<Multi>(db_index, &memory_.counted.queued_commands);
  std::unique_ptr<Multi> multi = std::move(pool_.back());
  pool_.pop_back();
  multi->Start(db_index);
  return multi;
}

void Execs::Recycle(std::unique_ptr<Multi> multi) {
  constexpr size_t kPooledMax = 64;
  constexpr size_t kMemoryKept = 16 * 1024;
  if (pool_.size() < kPooledMax && multi->memory_used() < kMemoryKept) {
    pool_.push_back(std::move(multi));
  }
}

void Execs::EndMulti(Session& session) {
  if (session.multi != nullptr) Recycle(std::move(session.multi));
  Unwatch(session);
}

void Execs::Unwatch(Session& session) {
  if (session.watches.empty()) return;
  const Watches watches = std::exchange(session.watches, {});
  ++worker_.coordinators;
  helio::Fiber("unwatch", [this, ids = watches.shards(), watcher = watches.watcher] {
    shards_.AwaitOn(ids, [&](Shard& shard) { shard.watches().Unwatch(watcher); });
    --worker_.coordinators;
  }).Detach();
}

uint64_t Execs::NextWatcher() { return ++last_watcher_ * shards_.pool().size() + worker_.index(); }

void Execs::Run(ShardTurn& turn, const Command& row, const Multi& multi, int64_t now_ms,
                RespWriter& writer) {
  ShardContext& cx = turn.cx();
  if ((multi.command_flags() & kDenyOom) != 0 && server_.memory.is_over()) [[unlikely]] {
    if (!care_.MakeRoom(cx.shard(), {SpareKeysOf(multi)})) {
      if (multi.watcher != 0) cx.shard().watches().Unwatch(multi.watcher);
      return runner_.Reject(row, kErrOutOfMemory, writer);
    }
  }
  ++worker_.stats.execs_of_one_shard;
  const int64_t begin = helio::CycleClock::Now();
  runner_.BeginUntimed(begin);
  const auto count = [&] {
    const int64_t cycles = helio::CycleClock::Now() - begin;
    worker_.stats.commands[row.id].AddTimed(cycles);
    worker_.timer.Track(row.id, cycles);
  };
  if (multi.watcher != 0 && !TakeWatches(cx.shard(), multi.watcher, now_ms)) {
    writer.NullArray();
    return count();
  }
  writer.Array(multi.items().size());
  turn.BeginUnit(nullptr);
  Prefetch(cx.shard(), multi.items().size(),
           [&](size_t i) -> const Multi::Item& { return multi.items()[i]; });
  const CachingClient* const client = cx.client();
  const bool notes_reads = cx.notes_reads();
  const bool is_large = multi.bytes() > CommandTimer::kUntimedBytesMax;
  for (const Multi::Item& item : multi.items()) {
    multi.ViewArgs(item, &args_);
    if (client != nullptr) [[unlikely]]
      cx.set_client(client, notes_reads && (item.command->flags & kReadonly) != 0);
    if (item.denial != AclDenial::kNone) [[unlikely]] {
      runner_.Reject(*item.command, ExecDenialError({item.denial}), writer);
      continue;
    }
    cx.Begin(item.db_index, now_ms);
    if (is_large && BytesOf(args_) > CommandTimer::kUntimedBytesMax) {
      runner_.TimeNext(*item.command);
    }
    runner_.RunSampled(cx, *item.command, args_, item.hash, writer);
  }
  turn.EndUnit();
  count();
}

std::span<const uint64_t> Execs::SpareKeysOf(const Multi& multi) {
  spared_.clear();
  for (const Multi::Item& item : multi.items()) {
    multi.ViewArgs(item, &args_);
    ShardCare::AddKeyHashes(*item.command, args_, &spared_);
  }
  return spared_;
}

namespace {

// Commands of an EXEC that each have their keys in one shard: as many as there are between two
// others. They go to all their shards in one hop.
class Squashed {
 public:
  Squashed(const Multi& multi, uint32_t shards) : multi_(multi), parts_(shards) {}

  bool empty() const { return order_.empty(); }
  void Add(uint32_t item) {
    const ShardId id = multi_.items()[item].shard;
    if (parts_[id].items.empty()) ids_.push_back(id);
    parts_[id].items.push_back(item);
    order_.push_back(id);
  }
  std::span<const ShardId> ids() const { return ids_; }

  // On the shard's thread. run(ShardContext&, const Multi::Item&, Args, RespWriter&).
  template <typename Function>
  void RunOn(ShardTurn& turn, int64_t now_ms, bool resp3, Function run) {
    Part& part = parts_[turn.shard().id()];
    RespWriter writer(&part.out, resp3);
    std::vector<std::string_view> args;
    const CallerScope scope(WorkerState::Here().timer, {.slow = &part.slow});
    Prefetch(turn.shard(), part.items.size(),
             [&](size_t i) -> const Multi::Item& { return multi_.items()[part.items[i]]; });
    for (uint32_t index : part.items) {
      const Multi::Item& item = multi_.items()[index];
      multi_.ViewArgs(item, &args);
      run(turn.Begin(item.db_index, now_ms), item, Args(args), writer);
      part.ends.push_back(part.out.size());
    }
  }
  // Writes the replies in the order of the commands, and starts anew.
  void TakeReplies(RespWriter& reply, const Session& session) {
    for (ShardId id : order_) {
      Part& part = parts_[id];
      const size_t begin = part.taken == 0 ? 0 : part.ends[part.taken - 1];
      reply.Raw(part.out.view().substr(begin, part.ends[part.taken] - begin));
      ++part.taken;
    }
    for (ShardId id : ids_) {
      session.worker.timer.TakeHome(&parts_[id].slow, &session);
      parts_[id] = Part();
    }
    ids_.clear();
    order_.clear();
  }

 private:
  struct Part {
    std::vector<uint32_t> items;
    helio::IoBuf out;
    std::vector<size_t> ends;
    size_t taken = 0;
    std::vector<SlowEntry> slow;
  };
  const Multi& multi_;
  std::vector<Part> parts_;
  std::vector<ShardId> ids_;
  std::vector<ShardId> order_;
};

// CLIENT LIST inside EXEC shows what is carried out.
class Executing {
 public:
  Executing(Session& session, const Multi& multi) : session_(session) {
    session_.executing = &multi;
  }
  ~Executing() { session_.executing = nullptr; }

 private:
  Session& session_;
};

}  // namespace

// Drops replies itself: commands in it may change that.
void Execs::RunAcross(CoordinatorContext& cx, Args, ReplySink& sink) {
  auto& reply = static_cast<RespWriter&>(sink);  // EXEC is no part of anything else
  Session& session = SessionOf(cx);
  const std::unique_ptr<Multi> multi = std::move(session.multi);
  const Watches watches = std::exchange(session.watches, {});
  ++session.worker.stats.execs_across;
  if (session.server.memory.is_over()) [[unlikely]] {
    // That it may run was decided before; what is there can make room.
    const std::span<const uint64_t> keys = Here().SpareKeysOf(*multi);
    const std::vector<uint64_t> spared(keys.begin(), keys.end());
    (void)ShardCare::Here().AwaitRoom({spared});
  }
  const Executing executing(session, *multi);

  Transaction tx(cx);
  if (multi->wants_all_keys()) {
    tx.LockAllShards(LockMode::kExclusive);
  } else {
    multi->ForEachTag(cx.shards(), [&](ShardId shard, const TagLock& tag) { tx.Lock(shard, tag); });
    for (const WatchedKey& key : watches.keys) {
      tx.Lock(key.shard,
              {cx.shards().LockOfKey(key.key, key.hash, key.db_index), LockMode::kShared});
    }
  }

  Squashed squashed(*multi, cx.shards().size());
  auto run_squashed = [&](ShardTurn& turn) {
    squashed.RunOn(
        turn, cx.now_ms(), session.resp3,
        [&cx](ShardContext& shard_cx, const Multi::Item& item, Args args, RespWriter& writer) {
          CommandRunner& runner = CommandRunner::Here();
          const bool is_readonly = (item.command->flags & kReadonly) != 0;
          shard_cx.set_client(cx.client(), cx.notes_reads() && is_readonly);
          if (item.denial != AclDenial::kNone) [[unlikely]] {
            return runner.Reject(*item.command, ExecDenialError({item.denial}), writer);
          }
          const size_t size_before = writer.out()->size();
          runner.RunHandler<CommandRunner::Timing::kOwn>(shard_cx, *item.command, args, item.hash,
                                                         writer);
          runner.NoteReply(*item.command, args, writer.out()->size() - size_before);
        });
  };
  const std::vector<Multi::Item>& items = multi->items();
  const bool all_squashed = watches.empty() && !multi->wants_all_keys() &&
                            std::all_of(items.begin(), items.end(), [](const Multi::Item& item) {
                              return item.kind == Multi::Kind::kShard;
                            });
  if (all_squashed) {
    for (uint32_t i = 0; i < items.size(); ++i) squashed.Add(i);
    if (!tx.Run(run_squashed)) return;
    const size_t size_before = reply.out()->size();
    reply.Array(items.size());
    squashed.TakeReplies(reply, session);
    if (session.drops_replies()) reply.out()->Truncate(size_before);
    return;
  }

  if (!tx.Schedule()) {
    cx.shards().AwaitOn(watches.shards(),
                        [&](Shard& shard) { shard.watches().Unwatch(watches.watcher); });
    return;
  }
  if (!watches.empty()) {
    std::atomic<bool> may_run{true};
    tx.HopOn(watches.shards(), [&](Shard& shard) {
      if (!TakeWatches(shard, watches.watcher, cx.now_ms())) may_run = false;
    });
    if (!may_run) {
      tx.Conclude();
      if (!session.drops_replies()) reply.NullArray();
      return;
    }
  }
  if (!session.drops_replies()) reply.Array(items.size());
  auto settle = [&] {
    if (squashed.empty()) return;
    tx.HopOn(squashed.ids(), run_squashed);
    const size_t size_before = reply.out()->size();
    squashed.TakeReplies(reply, session);
    if (session.drops_replies()) reply.out()->Truncate(size_before);
  };
  std::vector<std::string_view> args;
  for (uint32_t i = 0; i < items.size(); ++i) {
    const Multi::Item& item = items[i];
    if (item.kind == Multi::Kind::kShard) {
      squashed.Add(i);
      continue;
    }
    settle();
    multi->ViewArgs(item, &args);
    Here().RunInExec(cx, tx, item, args, reply.out());
  }
  settle();
  tx.Conclude();
}

// Such a command may change the protocol (HELLO) or what is answered at all (CLIENT REPLY) for
// those behind it, so it has a writer of its own. And its errors are its own, not EXEC's.
void Execs::RunInExec(CoordinatorContext& cx, Transaction& tx, const Multi::Item& item, Args args,
                      helio::IoBuf* out) {
  const Command& command = *item.command;
  Session& session = SessionOf(cx);
  RespWriter reply(out, session.resp3);
  const size_t size_before = out->size();
  const bool drops_reply = session.drops_replies() && (command.flags & kPushes) == 0;
  if (item.denial != AclDenial::kNone) {
    runner_.Reject(command, ExecDenialError({item.denial}), reply);
  } else if (command.session != nullptr) {
    if (session.connection_closed) return reply.Null();  // nobody reads it
    const CallerScope scope(worker_.timer, {.session = &session});
    const uint64_t errors_before = reply.error_count();
    runner_.RunCounted(command, args, reply, [&] { command.session(session, args, reply); });
    runner_.Audit(&session, command, args, reply, errors_before);
    runner_.NoteReply(command, args, out->size() - size_before);
  } else {
    CoordinatorContext inner(&cx.shards(), &session, item.db_index, cx.now_ms(), &tx);
    const bool may_read = (command.flags & kReadonly) != 0 || command.runs_script;
    inner.set_command(command.effect, args.all());
    inner.set_client(cx.client(), cx.notes_reads() && may_read);
    const CoordinatorHandler handler = command.runs_script             ? &ScriptJobs::OverShards
                                       : command.coordinate != nullptr ? command.coordinate
                                                                       : command.across;
    Caller caller = {.session = &session};
    runner_.RunWaiting(command, args, reply, &caller, [&] {
      if (handler != nullptr) {
        handler(inner, args, reply);
      } else {
        RunSpread(inner, command, args, reply);
      }
      caller.hops = inner.hops();
    });
    runner_.NoteReply(command, args, out->size() - size_before, caller, SlowEntry::Way::kFiber);
  }
  // CLIENT REPLY ON is answered itself.
  if (drops_reply && session.drops_replies()) out->Truncate(size_before);
}

}  // namespace dfly
