// SPDX-License-Identifier: Apache-2.0
// Values that go to another key: of another name, shard or database. TTL and STICK go along.
//
// Over shards a transaction holds both keys from the first look to the last change. COPY copies a
// large value in slices, and others run in between.
#include "commands/keys/key_moves.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "commands/table/numbers.h"
#include "core/memory/work_bytes.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

constexpr std::string_view kErrSameObject = "ERR source and destination objects are the same";

struct Relocation {
  std::string_view source;
  std::string_view target;
  int source_db;
  int target_db;
  bool keeps_source = false;  // COPY
  bool may_replace = false;
  KeyEvent source_event = KeyEvent::kNone;  // if the source goes
  KeyEvent target_event = KeyEvent::kNone;
};

enum class Outcome { kDone, kNoSource, kTargetExists, kRefused };

bool HasSource(ShardContext& cx, const Relocation& what) {
  return what.keeps_source ? static_cast<bool>(cx.FindReadOnly(what.source))
                           : static_cast<bool>(cx.FindMutable(what.source));
}

using Telling = ShardContext::Telling;

std::optional<ShardContext::Detached> Fetch(ShardContext& cx, const Relocation& what,
                                            Telling telling) {
  return what.keeps_source ? cx.Copy(what.source)
                           : cx.Take(what.source, what.source_event, telling);
}

void Deliver(ShardContext& cx, const Relocation& what, ShardContext::Detached value,
             Telling telling) {
  // That the source has gone is counted already; together it is one change.
  const uint64_t changes = what.keeps_source ? 1 : 0;
  if (cx.Peek(what.target))
    cx.AlsoHappened(what.target, KeyEvent::kNew);  // in place of the old one
  cx.Put(what.target, std::move(value), what.target_event, changes, telling);
}

// Both keys are in this shard. `cx` is in the source's database.
Outcome Relocate(ShardContext& cx, const Relocation& what) {
  if (!HasSource(cx, what)) return Outcome::kNoSource;
  std::optional<ShardContext> other;
  if (what.target_db != what.source_db) other.emplace(cx.shard(), what.target_db, cx.now_ms());
  ShardContext& target_cx = other ? *other : cx;
  if (!what.may_replace && target_cx.Peek(what.target)) return Outcome::kTargetExists;
  // The events come behind both changes, as in Redis.
  Deliver(target_cx, what, *Fetch(cx, what, Telling::kLater), Telling::kLater);
  if (!what.keeps_source) cx.AlsoHappened(what.source, what.source_event);
  target_cx.AlsoHappened(what.target, what.target_event);
  return Outcome::kDone;
}

// A value from another thread's heap moves to this one's, so that its blocks are freed and reused
// by the thread that has allocated them. Not a large one: copying it would hold up the shard, and
// freeing elsewhere is legal, only slower.
void BringHome(CompactValue* value) {
  constexpr size_t kCopiedBytesMax = 1 << 20;
  if (value->HeapAddress() == nullptr || value->HeapBytes() > kCopiedBytesMax) return;
  *value = value->Clone();
}

// Suspends. Only COPY comes here with both keys in one shard.
Outcome RelocateAcross(CoordinatorContext& cx, const Relocation& what) {
  ShardSet& shards = cx.shards();
  const uint64_t source_hash = HashKey(what.source);
  const uint64_t target_hash = HashKey(what.target);
  const ShardId source_id = shards.ShardOfKey(what.source, source_hash);
  const ShardId target_id = shards.ShardOfKey(what.target, target_hash);
  Transaction tx(cx);
  tx.Lock(source_id, {shards.LockOfKey(what.source, source_hash, what.source_db),
                      what.keeps_source ? LockMode::kShared : LockMode::kExclusive});
  tx.Lock(target_id,
          {shards.LockOfKey(what.target, target_hash, what.target_db), LockMode::kExclusive});
  if (!tx.Schedule()) return Outcome::kRefused;

  if (!what.may_replace) {
    bool has_source = false;
    bool has_target = false;
    tx.Hop([&](ShardTurn& turn) {
      const ShardId id = turn.shard().id();
      if (id == source_id) has_source = HasSource(turn.Begin(what.source_db, cx.now_ms()), what);
      if (id == target_id) {
        has_target = static_cast<bool>(turn.Begin(what.target_db, cx.now_ms()).Peek(what.target));
      }
    });
    if (!has_source) return Outcome::kNoSource;
    if (has_target) return Outcome::kTargetExists;
  }
  std::optional<ShardContext::Detached> value;
  uint64_t cursor = 0;
  WorkBytes counted;
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  do {
    tx.HopOn({&source_id, 1}, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(what.source_db, cx.now_ms());
      if (cursor == 0 && what.may_replace && !HasSource(shard_cx, what)) return;
      if (what.keeps_source) {
        shard_cx.CopySome(what.source, &value, &cursor);
      } else {
        value = shard_cx.Take(what.source, what.source_event, Telling::kNow);
      }
    });
    if (cursor == 0) continue;
    counted.Set(value->value.HeapBytes());
    work.Step();
  } while (cursor != 0);
  if (!value) return Outcome::kNoSource;
  tx.HopAndConclude({&target_id, 1}, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(what.target_db, cx.now_ms());
    if (shards.owner(source_id) != shards.owner(target_id)) BringHome(&value->value);
    Deliver(shard_cx, what, *std::move(value), Telling::kNow);
  });
  return Outcome::kDone;
}

// --- RENAME, RENAMENX ---

Relocation RenameOf(Args args, int db_index, bool may_replace) {
  return {.source = args[1],
          .target = args[2],
          .source_db = db_index,
          .target_db = db_index,
          .may_replace = may_replace,
          .source_event = KeyEvent::kRenameFrom,
          .target_event = KeyEvent::kRenameTo};
}

void ReplyRename(Outcome outcome, ReplySink& reply) {
  if (outcome == Outcome::kNoSource) return reply.Error(kErrNoSuchKey);
  reply.Ok();
}

void ReplyRenameNx(Outcome outcome, ReplySink& reply) {
  if (outcome == Outcome::kNoSource) return reply.Error(kErrNoSuchKey);
  reply.Integer(outcome == Outcome::kDone ? 1 : 0);
}

void Rename(ShardContext& cx, Args args, ReplySink& reply) {
  const Relocation what = RenameOf(args, cx.db_index(), true);
  if (args[1] != args[2]) return ReplyRename(Relocate(cx, what), reply);
  ReplyRename(HasSource(cx, what) ? Outcome::kDone : Outcome::kNoSource, reply);
}

void RenameNx(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyRenameNx(Relocate(cx, RenameOf(args, cx.db_index(), false)), reply);
}

// Suspends.
void RenameAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ReplyRename(RelocateAcross(cx, RenameOf(args, cx.db_index(), true)), reply);
}

// Suspends.
void RenameNxAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ReplyRenameNx(RelocateAcross(cx, RenameOf(args, cx.db_index(), false)), reply);
}

// --- Indexes of databases ---

struct DbIndex {
  int index = -1;
  std::string error = {};  // if there is one
};

// As Redis reads an int, and then chooses the database.
DbIndex ParseDbIndex(std::string_view text, int db_count) {
  const std::optional<int64_t> number = ParseInt64(text);
  if (!number) return {.error = std::string(kErrNotInteger)};
  if (*number < INT32_MIN || *number > INT32_MAX) {
    return {.error = fmt::format("ERR value is out of range, value must between {} and {}",
                                 INT32_MIN, INT32_MAX)};
  }
  if (*number < 0 || *number >= db_count) return {.error = std::string(kErrDbIndex)};
  return {.index = static_cast<int>(*number)};
}

// --- COPY ---

// COPY source destination [DB index] [REPLACE]. Replies the error and returns none if the options
// are not valid.
std::optional<Relocation> ParseCopy(Args args, int db_index, int db_count, ReplySink& reply) {
  Relocation what = {.source = args[1],
                     .target = args[2],
                     .source_db = db_index,
                     .target_db = db_index,
                     .keeps_source = true,
                     .may_replace = false,
                     .source_event = {},
                     .target_event = KeyEvent::kCopyTo};
  for (size_t i = 3; i < args.size(); ++i) {
    if (IsOption(args[i], "REPLACE")) {
      what.may_replace = true;
    } else if (IsOption(args[i], "DB") && i + 1 < args.size()) {
      const DbIndex db = ParseDbIndex(args[++i], db_count);
      if (db.index < 0) return Refuse(reply, db.error);
      what.target_db = db.index;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  if (what.source == what.target && what.source_db == what.target_db) {
    return Refuse(reply, kErrSameObject);
  }
  return what;
}

int OtherDbOfCopy(Args args) {
  int other = -1;
  for (size_t i = 3; i + 1 < args.size(); ++i) {
    if (IsOption(args[i], "DB")) other = ParseDbIndex(args[++i], INT32_MAX).index;
  }
  return other;
}

void Copy(ShardContext& cx, Args args, ReplySink& reply) {
  const auto what = ParseCopy(args, cx.db_index(), cx.shard().db_count(), reply);
  if (what) reply.Integer(Relocate(cx, *what) == Outcome::kDone ? 1 : 0);
}

// Suspends.
void CopyAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const auto what = ParseCopy(args, cx.db_index(), cx.shards().db_count(), reply);
  if (what) reply.Integer(RelocateAcross(cx, *what) == Outcome::kDone ? 1 : 0);
}

// --- MOVE, SWAPDB ---

int OtherDbOfMove(Args args) { return ParseDbIndex(args[2], INT32_MAX).index; }

// MOVE key db. The name is in the same shard in all databases.
void Move(ShardContext& cx, Args args, ReplySink& reply) {
  const DbIndex db = ParseDbIndex(args[2], cx.shard().db_count());
  if (db.index < 0) return reply.Error(db.error);
  if (db.index == cx.db_index()) return reply.Error(kErrSameObject);
  const Relocation what = {.source = args[1],
                           .target = args[1],
                           .source_db = cx.db_index(),
                           .target_db = db.index,
                           .keeps_source = false,
                           .may_replace = false,
                           .source_event = KeyEvent::kMoveFrom,
                           .target_event = KeyEvent::kMoveTo};
  reply.Integer(Relocate(cx, what) == Outcome::kDone ? 1 : 0);
}

// Watched keys that are due go before they change places: who watches an absent key has not seen a
// change when another one comes there that is due.
void ExpireWatched(ShardTurn& turn, std::span<const int, 2> databases, int64_t now_ms) {
  const WatchTable& watches = turn.shard().watches();
  if (watches.empty()) return;
  watches.ForEachKey([&](const KeyName& name) {
    if (name.db_index != databases[0] && name.db_index != databases[1]) return;
    for (int index : databases) turn.Begin(index, now_ms).Peek(name.key);
  });
  turn.cx().Finish();
}

// SWAPDB first second: on each shard two pointers change places. Whoever is in one of them (SELECT)
// sees the keys of the other from then on. Suspends.
void SwapDb(CoordinatorContext& cx, Args args, ReplySink& reply) {
  int indexes[2];
  constexpr std::string_view kErrors[2] = {"ERR invalid first DB index",
                                           "ERR invalid second DB index"};
  for (size_t i : {0, 1}) {
    const std::optional<int64_t> number = ParseInt64(args[i + 1]);
    if (!number || *number < INT32_MIN || *number > INT32_MAX) return reply.Error(kErrors[i]);
    indexes[i] = static_cast<int>(*number);
  }
  for (int index : indexes) {
    if (index < 0 || index >= cx.shards().db_count()) return reply.Error(kErrDbIndex);
  }
  Transaction tx(cx);
  tx.LockAllShards(LockMode::kExclusive);
  const auto swap = [&](ShardTurn& turn) {
    Shard& shard = turn.shard();
    ExpireWatched(turn, indexes, cx.now_ms());
    shard.SwapDatabases(indexes[0], indexes[1]);
    shard.NoteFlushed();  // who caches knows keys without their database
    if (shard.id() == 0) ++shard.stats().changes;
  };
  if (tx.Run(swap)) reply.Ok();
}

}  // namespace

void RegisterKeyMoves(CommandTable* table) {
  table->Add({.name = "rename",
              .run = Rename,
              .across = RenameAcross,
              .arity = 3,
              .flags = kWrite,
              .categories = kAclKeyspace,
              .keys = TwoKeys("RW access delete", "OW update"),
              .docs = {"Gives a key another name, whatever had that name before.", "1.0.0",
                       "generic", "O(1)"}});
  table->Add({.name = "renamenx",
              .run = RenameNx,
              .across = RenameNxAcross,
              .arity = 3,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = TwoKeys("RW access delete", "OW insert"),
              .docs = {"Gives a key another name if no key has it.", "1.0.0", "generic", "O(1)"}});
  table->Add({.name = "copy",
              .run = Copy,
              .across = CopyAcross,
              .slices = true,
              .arity = -3,
              .flags = kWrite | kDenyOom,
              .categories = kAclKeyspace,
              .keys = TwoKeys("RO access", "OW update"),
              .other_db = OtherDbOfCopy,
              .docs = {"Copies the value of a key to another one.", "6.2.0", "generic",
                       "O(N) where N is the number of bytes."}});
  table->Add({.name = "move",
              .run = Move,
              .arity = 3,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1, "RW access update"),
              .other_db = OtherDbOfMove,
              .docs = {"Moves a key to another database.", "1.0.0", "generic", "O(1)"}});
  table->Add({.name = "swapdb",
              .coordinate = SwapDb,
              .arity = 3,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace | kAclDangerous,
              .docs = {"Makes two databases change places.", "4.0.0", "server", "O(1)"}});
}

}  // namespace dfly
