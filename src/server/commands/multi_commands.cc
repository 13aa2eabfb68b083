// SPDX-License-Identifier: Apache-2.0
// MULTI EXEC DISCARD WATCH UNWATCH.
//
// Worker::Dispatch queues what comes between MULTI and EXEC, and carries EXEC out: in one hop if
// all is in one shard (Execs::Run), else as a transaction (Execs::RunAcross).
#include <algorithm>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/dispatch/execs.h"

namespace dfly {

namespace {

void StartMulti(Session& session, Args, ReplySink& reply) {
  if (session.multi != nullptr) return reply.Error(kErrNestedMulti);
  session.multi = Execs::Here().NewMulti(session.db_index);
  reply.Ok();
}

void Discard(Session& session, Args, ReplySink& reply) {
  if (session.multi == nullptr) return reply.Error(kErrDiscardWithoutMulti);
  Execs::Here().EndMulti(session);
  reply.Ok();
}

// Worker::Exec comes here with what it does not carry out.
void RefuseExec(Session& session, Args, ReplySink& reply) {
  if (session.multi == nullptr) return reply.Error(kErrExecWithoutMulti);
  Execs::Here().EndMulti(session);
  reply.Error(kErrExecAbort);
}

// A key that is due goes first: that it goes later must not end the transaction.
void Watch(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Session& session = SessionOf(cx);
  if (session.multi != nullptr) return reply.Error(kErrWatchInMulti);
  if (session.connection_closed) return reply.Ok();
  Watches& watches = session.watches;
  if (watches.empty()) watches.watcher = Execs::Here().NextWatcher();
  const uint64_t watcher = watches.watcher;
  // If the client goes meanwhile, `watches` is ended and empty. What ends it comes to the shards
  // after this.
  std::vector<WatchedKey> added;
  std::vector<ShardId> ids;
  for (std::string_view key : args.from(1)) {
    const uint64_t hash = HashKey(key);
    const ShardId shard = cx.shards().ShardOfKey(key, hash);
    added.push_back({cx.db_index(), shard, hash, std::string(key)});
    if (std::find(ids.begin(), ids.end(), shard) == ids.end()) ids.push_back(shard);
  }
  const size_t known = watches.keys.size();
  watches.keys.insert(watches.keys.end(), added.begin(), added.end());
  std::vector<uint8_t> is_new(added.size(), 0);  // bytes, since shards write at the same time
  cx.shards().AwaitOn(ids, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    for (const WatchedKey& watched : added) {
      if (watched.shard == turn.shard().id()) shard_cx.Peek(watched.key);
    }
    shard_cx.Finish();
    for (size_t i = 0; i < added.size(); ++i) {
      if (added[i].shard != turn.shard().id()) continue;
      is_new[i] = turn.shard().watches().Watch(watcher, added[i].db_index, added[i].key);
    }
  });
  reply.Ok();
  if (watches.watcher != watcher) return;
  // What the client has named twice is there once: the tables of the shards know that at once.
  auto next = watches.keys.begin() + static_cast<ptrdiff_t>(known);
  for (size_t i = 0; i < added.size(); ++i) {
    if (is_new[i] != 0) *next++ = std::move(added[i]);
  }
  watches.keys.erase(next, watches.keys.end());
}

void Unwatch(Session& session, Args, ReplySink& reply) {
  Execs::Here().Unwatch(session);
  reply.Ok();
}

constexpr uint32_t kAlways = kNoScript | kLoading | kStale | kFast | kRunNow;

}  // namespace

void RegisterMultiCommands(CommandTable* table) {
  table->Add({.name = "multi",
              .session = ForSession<StartMulti>,
              .arity = 1,
              .flags = kAlways | kAllowBusy | kNotQueued,
              .categories = kAclTransaction,
              .docs = {"Begins to queue commands for EXEC.", "1.2.0", "transactions", "O(1)"}});
  table->Add({.name = "exec",
              .session = ForSession<RefuseExec>,
              .arity = 1,
              .flags = kNoScript | kLoading | kStale | kSkipSlowlog | kNotQueued,
              .categories = kAclTransaction,
              .effect = EffectRule::kNone,
              .docs = {"Runs the queued commands as one.", "1.2.0", "transactions",
                       "Depends on the commands"}});
  table->Add({.name = "discard",
              .session = ForSession<Discard>,
              .arity = 1,
              .flags = kAlways | kAllowBusy | kNotQueued,
              .categories = kAclTransaction,
              .docs = {"Forgets the queued commands.", "2.0.0", "transactions",
                       "O(N) in the number of queued commands"}});
  table->Add({.name = "watch",
              .coordinate = Watch,
              .arity = -2,
              .flags = kNoScript | kLoading | kStale | kFast | kAllowBusy | kNotQueued,
              .categories = kAclTransaction,
              .keys = KeysFrom(1, 1, "RO"),
              .docs = {"Makes EXEC refuse if one of the keys changes until then.", "2.2.0",
                       "transactions", "O(1) for each key"}});
  table->Add({.name = "unwatch",
              .session = ForSession<Unwatch>,
              .arity = 1,
              .flags = kAlways | kAllowBusy,
              .categories = kAclTransaction,
              .docs = {"Watches no key any more.", "2.2.0", "transactions", "O(1)"}});
}

}  // namespace dfly
