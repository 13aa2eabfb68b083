// SPDX-License-Identifier: Apache-2.0
// Sets: members of one set, and moving one to another. Data: core/types/set_value.h; what is made
// of several sets: set_operations.cc.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/collections/member_deadlines.h"
#include "commands/collections/random_members.h"
#include "commands/collections/set_commands.h"
#include "commands/table/command_table.h"
#include "commands/table/local_random.h"
#include "commands/table/member_scans.h"
#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/base/logging.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

const SetLimit& LimitOf(ShardContext& cx) { return cx.shard().set_limit(); }

void ReplyWithAll(const SetValue& set, ReplySink& reply) {
  set.ForEach([&reply](std::string_view member) { reply.Bulk(member); });
}

// --- Members ---

void SAdd(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindOrCreate(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  const auto members = args.rest();
  SetValue set = SetOrNew(cx, value, members[0], members.size(), LimitOf(cx));
  size_t added = 0;
  for (std::string_view member : members) added += set.Add(member, LimitOf(cx));
  if (added > 0) cx.Changed(args.key(), KeyEvent::kSAdd, added);
  reply.Integer(static_cast<int64_t>(added));
}

void SRem(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  SetValue set = SetOf(cx, value);
  size_t removed = 0;
  for (std::string_view member : args.rest()) removed += set.Erase(member);
  if (removed > 0) cx.Changed(args.key(), KeyEvent::kSRem, removed);
  reply.Integer(static_cast<int64_t>(removed));
}

void SIsMember(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value && SetOf(cx, value).Has(args[2]) ? 1 : 0);
}

void SMIsMember(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Array(args.rest().size());
  for (std::string_view member : args.rest()) {
    reply.Integer(value && SetOf(cx, value).Has(member) ? 1 : 0);
  }
}

void SCard(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(SetOf(cx, value).size()) : 0);
}

void SMembers(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Set(0);
  reply.Set(SetOf(cx, value).size());
  ReplyWithAll(SetOf(cx, value), reply);
}

// SSCAN key cursor [MATCH pattern] [COUNT count].
struct SetWalk {
  static constexpr ValueType kType = ValueType::kSet;
  static constexpr bool kMayLeaveOutValues = false;

  static size_t Size(const ShardContext& cx, const ShardContext::ReadHandle& value) {
    return SetOf(cx, value).size();
  }
  template <typename F>
  static uint32_t Scan(const ShardContext& cx, const ShardContext::ReadHandle& value,
                       uint32_t cursor, F&& fn) {
    return SetOf(cx, value).Scan(cursor, fn);
  }
  // For RandomCopy.
  static bool DrawsQuickly(const ShardContext& cx, const ShardContext::ReadHandle& value) {
    return SetOf(cx, value).HasQuickRandom();
  }
  template <typename F>
  static void Draw(const ShardContext& cx, const ShardContext::ReadHandle& value, F&& fn) {
    char scratch[SetValue::kScratchSize];
    fn(SetOf(cx, value).Random(RandomBits, scratch));
  }
};

// --- Random ones ---

// fn(member, is_chosen) for all, of which `count` are chosen: each subset of that size is as likely
// as any other. REQUIRES: count <= set.size().
template <typename F>
void ChooseSome(const SetValue& set, size_t count, F&& fn) {
  size_t left = set.size();
  set.ForEach([&](std::string_view member) {
    const bool is_chosen = LocalRandom().Uniform(left) < count;
    --left;
    count -= is_chosen;
    fn(member, is_chosen);
  });
}

// Whether a set is made anew of what stays, when so many are taken: as in Redis, since it shows: a
// table may become a block.
bool IsRebuilt(size_t stays, size_t taken) {
  constexpr size_t kRebuildFactor = 5;
  return stays * kRebuildFactor <= taken;
}

// REQUIRES: set.size() > 0.
void TakeOne(SetValue& set, MemberList* taken) {
  char scratch[SetValue::kScratchSize];
  taken->Add(set.Random(RandomBits, scratch));
  set.Erase((*taken)[taken->size() - 1]);
}

// Removes `count` random members and returns them. REQUIRES: count < set's size.
MemberList TakeRandom(const ShardContext& cx, const ShardContext::WriteHandle& value, size_t count,
                      const SetLimit& limit) {
  MemberList taken;
  SetValue set = SetOf(cx, value);
  const bool is_table = set.encoding() == SetValue::kTable;
  if (IsRebuilt(set.size() - count, count) && !(is_table && set.table().has_deadlines())) {
    MemberList rest;
    ChooseSome(set, count, [&](std::string_view member, bool is_chosen) {
      (is_chosen ? taken : rest).Add(member);
    });
    const bool is_numbers = set.encoding() == SetValue::kIntegers;
    SetValue::Create(&*value, is_numbers ? "0" : "", 0, limit);
    for (size_t i = 0; i < rest.size(); ++i) set.Add(rest[i], limit);
    return taken;
  }
  if (is_table && set.HasQuickRandom(count)) {
    for (; count > 0; --count) TakeOne(set, &taken);
    return taken;
  }
  ChooseSome(set, count, [&](std::string_view member, bool is_chosen) {
    if (is_chosen) taken.Add(member);
  });
  for (size_t i = 0; i < taken.size(); ++i) set.Erase(taken[i]);
  return taken;
}

// SPOP key [count]
void SPop(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(kErrSyntax);
  const bool has_count = args.size() == 3;
  uint64_t count = 1;
  if (has_count) {
    const std::optional<int64_t> number = ParseInt64(args[2]);
    if (!number || *number < 0) return reply.Error(kErrNotPositive);
    count = static_cast<uint64_t>(*number);
  }
  auto value = cx.FindMutable(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return has_count ? reply.Set(0) : reply.Null();
  SetValue set = SetOf(cx, value);
  if (!has_count) {
    char scratch[SetValue::kScratchSize];
    const std::string member(set.Random(RandomBits, scratch));
    set.Erase(member);
    cx.Changed(args.key(), KeyEvent::kSPop);
    if (cx.wants_effects()) cx.Tell("SREM", args.key(), member);
    return reply.Bulk(member);
  }
  if (count == 0) return reply.Set(0);
  if (count >= set.size()) {
    const size_t size = set.size();
    reply.Set(size);
    ReplyWithAll(set, reply);
    SetValue::Create(&*value, "", 0, LimitOf(cx));
    cx.Changed(args.key(), KeyEvent::kSPop, size);
    if (cx.wants_effects()) cx.Tell("DEL", args.key());
    return;
  }
  const MemberList taken = TakeRandom(cx, value, count, LimitOf(cx));
  cx.Changed(args.key(), KeyEvent::kSPop, taken.size());
  if (cx.wants_effects()) {
    std::vector<std::string_view> words = {"SREM", args.key()};
    for (size_t i = 0; i < taken.size(); ++i) words.push_back(taken[i]);
    cx.TellAll(words);
  }
  reply.Set(taken.size());
  for (size_t i = 0; i < taken.size(); ++i) reply.Bulk(taken[i]);
}

// SPOP of many members of a large set, in hops that take a slice each. All of them have the key
// locked, so nobody sees some of them gone, and no cut of a snapshot comes in between. As
// TakeRandom does it, members are taken one by one, or, if few stay, these and the others are
// copied, and the last hop gives the key another set.
class ManyPopped {
 public:
  ManyPopped(CoordinatorContext& cx, Args args, uint64_t count)
      : args_(args), key_(args.key()), count_(count), parts_(cx, {&key_, 1}) {
    parts_.SetTarget(key_);
  }

  // False if it was replied, or refused. Suspends.
  bool Run(ReplySink& reply) {
    const auto look = [this](ShardContext& cx, Parts::Item&) { Look(cx); };
    if (!parts_.Hop(look, Parts::More::kYes)) return false;
    if (way_ == Way::kInOneStep) {
      parts_.HopToTarget([&](ShardContext& cx) { SPop(cx, args_, reply); });
      return false;
    }
    parts_.HopInSlices([](const Parts::Item&) { return true; },
                       [this](ShardContext& cx, Parts::Item&) {
                         return way_ == Way::kOneByOne ? TakeSome(cx) : CopySome(cx);
                       });
    if (way_ == Way::kRebuild) MakeRest();
    const bool tells = way_ != Way::kAll && parts_.records();
    parts_.HopToTarget([this](ShardContext& cx) { Change(cx); },
                       tells ? Parts::More::kYes : Parts::More::kNo);
    if (tells) TellTaken();
    return true;
  }
  MemberList TakeTaken() { return std::move(taken_); }

 private:
  struct Nothing {};
  using Parts = KeyParts<Nothing>;
  enum class Way : uint8_t {
    kInOneStep,  // SPop: there is no such key, or no other way
    kAll,
    kRebuild,
    kOneByOne
  };

  void Look(ShardContext& cx) {
    const auto value = cx.Peek(key_);
    if (!value || value->type() != ValueType::kSet) return;
    const SetValue set = SetOf(cx, value);
    limit_ = LimitOf(cx);
    left_ = set.size();
    if (count_ >= left_) {
      way_ = Way::kAll;
      count_ = left_;
    } else if (set.encoding() != SetValue::kTable) {
      return;
    } else if (IsRebuilt(left_ - count_, count_) && !set.table().has_deadlines()) {
      way_ = Way::kRebuild;
    } else if (set.HasQuickRandom(count_)) {
      way_ = Way::kOneByOne;
    }
  }
  bool TakeSome(ShardContext& cx) {
    auto value = cx.FindMutable(key_, ValueType::kSet);
    if (!value) return false;
    SetValue set = SetOf(cx, value);
    // To take one that is anywhere costs some microseconds.
    constexpr size_t kSliceTaken = kSliceMembers / 8;
    const size_t slice = std::min(kSliceTaken, SliceOf(*value, set.size()));
    const size_t end = std::min(count_, taken_.size() + slice);
    while (taken_.size() < end) TakeOne(set, &taken_);
    return end < count_;
  }
  bool CopySome(ShardContext& cx) {
    const auto value = cx.Peek(key_);
    if (!value) return false;
    const SetValue set = SetOf(cx, value);
    const size_t stop = left_ - std::min(left_, SliceOf(*value, set.size()));
    do {
      cursor_ = set.Scan(cursor_, [this](std::string_view member) {
        // As ChooseSome.
        const bool is_chosen = LocalRandom().Uniform(left_) < count_ - taken_.size();
        --left_;
        (is_chosen ? taken_ : rest_).Add(member);
      });
    } while (cursor_ != 0 && left_ > stop);
    return cursor_ != 0;
  }
  void MakeRest() {
    helio::LongWork work;
    SetValue::Create(&made_, "", 0, limit_);
    SetValue set(&made_);
    for (size_t i = 0; i < rest_.size(); ++i) {
      set.Add(rest_[i], limit_);
      work.Step();
    }
  }
  void Change(ShardContext& cx) {
    auto value = cx.FindMutable(key_, ValueType::kSet);
    if (!value) {
      LOG(DFATAL) << "a key has gone although it was locked";
      taken_ = {};
      return;
    }
    if (way_ == Way::kAll) {
      SetValue::Create(&*value, "", 0, limit_);
    } else if (way_ == Way::kRebuild) {
      const CompactValue old = std::move(*value);  // goes as large values do
      made_.set_access_clock(old.access_clock());
      *value = std::move(made_);
    }
    cx.Changed(key_, KeyEvent::kSPop, taken_.size());
    if (way_ == Way::kAll && cx.wants_effects()) cx.Tell("DEL", key_);
  }
  // No command becomes too long.
  void TellTaken() {
    helio::LongWork work(1);
    std::vector<std::string_view> words;
    for (size_t i = 0; i < taken_.size();) {
      words = {"SREM", key_};
      const size_t end = std::min(taken_.size(), i + kSliceMembers);
      for (; i < end; ++i) words.push_back(taken_[i]);
      parts_.TellAll(words);
      work.Step();
    }
  }

  const Args args_;
  const std::string_view key_;
  size_t count_;
  Parts parts_;
  Way way_ = Way::kInOneStep;
  SetLimit limit_;
  size_t left_ = 0;  // members that were not looked at
  uint32_t cursor_ = 0;
  MemberList taken_, rest_;
  CompactValue made_;
};

// REQUIRES: AsksToPopMany. Suspends.
void SPopInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  MemberList taken;
  {
    ManyPopped popped(cx, args, static_cast<uint64_t>(*ParseInt64(args[2])));
    if (!popped.Run(reply)) return;
    taken = popped.TakeTaken();
  }
  // Without locks.
  reply.Set(taken.size());
  ReplyWithMembers(taken, reply);
}

// Different ones. REQUIRES: count <= set.size().
void ReplyWithDistinct(const SetValue& set, size_t count, ReplySink& reply) {
  reply.Array(count);
  if (set.encoding() != SetValue::kTable || count > set.size() / 3 || !set.HasQuickRandom()) {
    return ChooseSome(set, count, [&reply](std::string_view member, bool is_chosen) {
      if (is_chosen) reply.Bulk(member);
    });
  }
  absl::flat_hash_set<const SetValue::Table::Slot*> chosen;
  while (chosen.size() < count) {
    const SetValue::Table::Slot& slot = set.RandomSlot(RandomBits);
    if (!chosen.insert(&slot).second) continue;
    char scratch[SetValue::kScratchSize];
    reply.Bulk(slot.key.View(scratch));
  }
}

// Any, each of them drawn from all.
void ReplyWithRepeated(const SetValue& set, size_t count, ReplySink& reply) {
  constexpr size_t kFewDraws = 8;
  reply.Array(count);
  if (set.HasQuickRandom() || count < kFewDraws) {
    for (; count > 0; --count) {
      char scratch[SetValue::kScratchSize];
      reply.Bulk(set.Random(RandomBits, scratch));
    }
    return;
  }
  MemberList all;
  set.ForEach([&all](std::string_view member) { all.Add(member); });
  for (; count > 0; --count) reply.Bulk(all[LocalRandom().Uniform(all.size())]);
}

// SRANDMEMBER key [count]. Below 0: members may come several times. False: the error was replied.
bool ParseRandomCount(Args args, ReplySink& reply, std::optional<int64_t>* count) {
  std::string_view error;
  if (args.size() > 3) {
    error = kErrSyntax;
  } else if (args.size() == 3) {
    *count = ParseInt64(args[2]);
    if (!*count) error = kErrNotInteger;
    if (*count == INT64_MIN) {
      error =
          "ERR value is out of range, value must between -9223372036854775807 and "
          "9223372036854775807";
    }
  }
  if (!error.empty()) reply.Error(error);
  return error.empty();
}

// Redis writes a reply of any size until memory ends.
bool IsTooLarge(int64_t count) { return count < -(1 << 24); }

void SRandMember(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<int64_t> count;
  if (!ParseRandomCount(args, reply, &count)) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return count ? reply.Array(0) : reply.Null();
  const SetValue set = SetOf(cx, value);
  if (!count) {
    char scratch[SetValue::kScratchSize];
    return reply.Bulk(set.Random(RandomBits, scratch));
  }
  if (*count >= 0) {
    const size_t distinct = std::min<uint64_t>(static_cast<uint64_t>(*count), set.size());
    return ReplyWithDistinct(set, distinct, reply);
  }
  if (IsTooLarge(*count)) return reply.Error(kErrOutOfRange);
  ReplyWithRepeated(set, static_cast<uint64_t>(-*count), reply);
}

// REQUIRES: AsksForManyRandom. Suspends.
void SRandMemberInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::optional<int64_t> count;
  if (!ParseRandomCount(args, reply, &count)) return;
  const bool is_too_large = IsTooLarge(*count);
  RandomCopy<SetWalk> copy(is_too_large ? 0 : *count, false);
  if (!CopyInSlices(cx, args.key(), ValueType::kSet, reply, &copy)) return;
  if (!copy.has_value()) return reply.Array(0);
  if (is_too_large) return reply.Error(kErrOutOfRange);
  reply.Array(copy.reply_size());
  copy.ForEachOfReply([&reply](std::string_view member, std::string_view) { reply.Bulk(member); });
}

// --- SMOVE source destination member ---

void RemoveMoved(ShardContext& cx, std::string_view key, std::string_view member) {
  auto source = cx.FindMutable(key, ValueType::kSet);
  if (source && SetOf(cx, source).Erase(member)) cx.Changed(key, KeyEvent::kSRem);
}

void AddMoved(ShardContext& cx, std::string_view key, std::string_view member) {
  auto target = cx.FindOrCreate(key, ValueType::kSet);
  SetValue set = SetOrNew(cx, target, member, 1, LimitOf(cx));
  if (set.Add(member, LimitOf(cx))) cx.Changed(key, KeyEvent::kSAdd);
}

void SMove(ShardContext& cx, Args args, ReplySink& reply) {
  const auto source = cx.FindMutable(args[1], ValueType::kSet);
  const auto target = cx.FindMutable(args[2], ValueType::kSet);
  if (!source && !source.is_wrong_type()) return reply.Integer(0);
  if (source.is_wrong_type() || target.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!SetOf(cx, source).Has(args[3])) return reply.Integer(0);
  if (args[1] != args[2]) {
    RemoveMoved(cx, args[1], args[3]);
    AddMoved(cx, args[2], args[3]);
  }
  reply.Integer(1);
}

// One hop to look, one to change both. Suspends.
void SMoveAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ShardId ids[2];
  Transaction tx(cx);
  for (size_t i : {0, 1}) {
    const std::string_view key = args[i + 1];
    const uint64_t hash = HashKey(key);
    ids[i] = cx.shards().ShardOfKey(key, hash);
    tx.Lock(ids[i], {cx.shards().LockOfKey(key, hash, cx.db_index()), LockMode::kExclusive});
  }
  if (!tx.Schedule()) return;
  bool exists = false;
  bool has_member = false;
  bool is_wrong_type[2] = {};
  tx.HopOn(ids, [&](ShardTurn& turn) {
    const size_t i = turn.shard().id() == ids[0] ? 0 : 1;
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    const auto value = shard_cx.FindMutable(args[i + 1], ValueType::kSet);
    is_wrong_type[i] = value.is_wrong_type();
    if (i == 1) return;
    exists = value || value.is_wrong_type();
    has_member = value && SetOf(shard_cx, value).Has(args[3]);
  });
  if (!exists) return reply.Integer(0);
  if (is_wrong_type[0] || is_wrong_type[1]) return reply.Error(kErrWrongType);
  if (!has_member) return reply.Integer(0);
  tx.HopAndConclude(ids, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    if (turn.shard().id() == ids[0]) {
      RemoveMoved(shard_cx, args[1], args[3]);
    } else {
      AddMoved(shard_cx, args[2], args[3]);
    }
  });
  reply.Integer(1);
}

}  // namespace

void RegisterSetCommands(CommandTable* table) {
  SetValue::RegisterType();
  const FamilyRows add(table, "set", kAclSet);
  add("sadd", SAdd, -3, kWrite | kDenyOom | kFast, KeyAndElement(2, "RW insert"),
      "Adds members to a set; makes the key if need be.", "1.0.0",
      "O(N) where N is the number of members that are named.", {}, InPieces(PieceReplies::kSum));
  add("srem", SRem, -3, kWrite | kFast, KeyAndElement(2, "RW delete"),
      "Removes members from a set.", "1.0.0",
      "O(N) where N is the number of members that are named.", {}, InPieces(PieceReplies::kSum));
  add("sismember", SIsMember, 3, kReadonly | kFast, KeyAndElement(2, "RO"),
      "Tells whether something is a member of a set.", "1.0.0", "O(1)");
  add("smismember", SMIsMember, -3, kReadonly | kFast, KeyAndElement(2),
      "Tells of each of several things whether it is a member of a set.", "6.2.0",
      "O(N) where N is the number of things that are asked for.", {},
      InPieces(PieceReplies::kItems));
  add("scard", SCard, 2, kReadonly | kFast, KeyAt(1, "RO"),
      "Returns the number of members of a set.", "1.0.0", "O(1)");
  add("smembers", SMembers, 2, kReadonly, KeyAt(1), "Returns all members of a set.", "1.0.0",
      "O(N) where N is the number of members.", "nondeterministic_output_order",
      {.across = ShowInSlices});
  add("spop", SPop, -2, kWrite | kFast, KeyAt(1, "RW access delete"),
      "Removes and returns random members of a set.", "1.0.0",
      "O(N) where N is the number of members removed.", "nondeterministic_output",
      {.across = RunOrInSlices<SPop, SPopInSlices, AsksToPopMany, LockMode::kExclusive>,
       .asks_for_many = AsksToPopMany});
  add("srandmember", SRandMember, -2, kReadonly, KeyAt(1), "Returns random members of a set.",
      "1.0.0", "O(N) where N is the number of members returned.", "nondeterministic_output",
      {.across = RunOrInSlices<SRandMember, SRandMemberInSlices, AsksForManyRandom>,
       .asks_for_many = AsksForManyRandom});
  add("sscan", ScanMembers<SetWalk>, -3, kReadonly, KeyAt(1),
      "Returns some members of a set, call by call.", "2.8.0",
      "O(N) where N is COUNT; all of a set that is no table.", "nondeterministic_output",
      {.across = ScanMembersInSlices<SetWalk>, .asks_for_many = ScansMany<SetWalk>});
  table->Add({.name = "smove",
              .run = SMove,
              .across = SMoveAcross,
              .arity = 4,
              .flags = kWrite | kFast,
              .categories = kAclSet,
              .keys = TwoKeys("RW access delete", "RW insert"),
              .docs = {"Moves a member from one set to another.", "1.0.0", "set", "O(1)"}});
  RegisterSetOperations(table);
  RegisterMemberDeadlineCommands(table);
}

}  // namespace dfly
