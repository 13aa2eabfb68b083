// SPDX-License-Identifier: Apache-2.0
// Sorted sets, one at a time: adding, scores, ranks, ranges, walks. Data: core/types/zset_value.h.
// Popping is in zset_pops.cc, drawing in zset_draws.cc, what has several of them in
// zset_operations.cc.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/member_scans.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "commands/zsets/zset_commands.h"
#include "commands/zsets/zset_ranges.h"
#include "core/text/numbers.h"
#include "core/types/zset_value.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/refusing_sink.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

constexpr std::string_view kErrScoreNan = "ERR resulting score is not a number (NaN)";

// --- ZADD and ZINCRBY ---

// Replies the error and returns none if they are not valid.
std::optional<ZAddOptions> ParseAdd(Args args, ReplySink& reply) {
  ZAddOptions options;
  size_t i = 2;
  for (; i < args.size(); ++i) {
    if (IsOption(args[i], "NX")) {
      options.only_new = true;
    } else if (IsOption(args[i], "XX")) {
      options.only_present = true;
    } else if (IsOption(args[i], "CH")) {
      options.counts_changes = true;
    } else if (IsOption(args[i], "INCR")) {
      options.increments = true;
    } else if (IsOption(args[i], "GT")) {
      options.only_greater = true;
    } else if (IsOption(args[i], "LT")) {
      options.only_less = true;
    } else {
      break;
    }
  }
  options.end = i;
  const size_t rest = args.size() - i;
  if (rest == 0 || rest % 2 != 0) return Refuse(reply, kErrSyntax);
  if (options.only_new && options.only_present) {
    return Refuse(reply, "ERR XX and NX options at the same time are not compatible");
  }
  if ((options.only_greater && options.only_less) ||
      (options.only_new && (options.only_greater || options.only_less))) {
    return Refuse(reply, "ERR GT, LT, and/or NX options at the same time are not compatible");
  }
  if (options.increments && rest > 2) {
    return Refuse(reply, "ERR INCR option supports a single increment-element pair");
  }
  return options;
}

// What became of one member.
struct Added {
  enum What : uint8_t { kKept, kNew, kChanged, kNan };
  What what = kKept;
  std::optional<double> score;  // none: an option kept it from being set
};

Added AddOne(ZsetValue zset, std::string_view member, double score, const ZAddOptions& options,
             const PackedLimit& limit) {
  const std::optional<double> present = zset.Score(member);
  if (!present) {
    if (options.only_present) return {};
    zset.Set(member, score, limit);
    return {Added::kNew, score};
  }
  if (options.only_new) return {};
  if (options.increments) {
    score += *present;
    if (std::isnan(score)) return {Added::kNan, {}};
  }
  if ((options.only_less && score >= *present) || (options.only_greater && score <= *present)) {
    return {};
  }
  if (score == *present) return {Added::kKept, score};
  zset.Set(member, score, limit);
  return {Added::kChanged, score};
}

}  // namespace

void AddToZset(ShardContext& cx, Args args, const ZAddOptions& options,
               std::span<const double> scores, size_t first_member, size_t step, ReplySink& reply) {
  auto value = options.only_present ? cx.FindMutable(args.key(), ValueType::kZset)
                                    : cx.FindOrCreate(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return options.increments ? reply.Null() : reply.Integer(0);
  const PackedLimit& limit = cx.shard().zset_limit();
  if (value.was_created()) {
    ZsetValue::Create(&*value, args[first_member].size(), scores.size(), limit);
  }
  int64_t added = 0, changed = 0;
  Added last;
  for (size_t i = 0; i < scores.size(); ++i) {
    last = AddOne(ZsetValue(&*value), args[first_member + step * i], scores[i], options, limit);
    if (last.what == Added::kNan) return reply.Error(kErrScoreNan);
    added += last.what == Added::kNew;
    changed += last.what == Added::kChanged;
  }
  if (added + changed > 0) {
    cx.Changed(args.key(), options.increments ? KeyEvent::kZIncr : KeyEvent::kZAdd,
               static_cast<uint64_t>(added + changed));
  }
  if (!options.increments) return reply.Integer(options.counts_changes ? added + changed : added);
  if (!last.score) return reply.Null();
  reply.Double(*last.score);
}

namespace {

// Pairs from the options' end on.
void Add(ShardContext& cx, Args args, const ZAddOptions& options, ReplySink& reply) {
  std::vector<double> scores;
  for (size_t i = options.end; i < args.size(); i += 2) {
    const std::optional<double> score = ParseDouble(args[i]);
    if (!score) return reply.Error(kErrNotFloat);
    scores.push_back(*score);
  }
  AddToZset(cx, args, options, scores, options.end + 1, 2, reply);
}

void ZAdd(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<ZAddOptions> options = ParseAdd(args, reply);
  if (options) Add(cx, args, *options, reply);
}

// Pieces::check. Suspends.
std::optional<size_t> CheckAdd(Args args, ReplySink& reply) {
  const std::optional<ZAddOptions> options = ParseAdd(args, reply);
  if (!options) return {};
  helio::LongWork work;
  for (size_t i = options->end; i < args.size(); i += 2) {
    if (!ParseDouble(args[i])) {
      reply.Error(kErrNotFloat);
      return {};
    }
    work.Step();
  }
  return options->end;
}

void ZIncrBy(ShardContext& cx, Args args, ReplySink& reply) {
  Add(cx, args, {.increments = true, .end = 2}, reply);
}

// --- Members ---

void ZCard(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(ToRead(*value).size()) : 0);
}

void ReplyScore(std::optional<double> score, ReplySink& reply) {
  if (!score) return reply.Null();
  reply.Double(*score);
}

void ZScore(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  ReplyScore(value ? ToRead(*value).Score(args[2]) : std::nullopt, reply);
}

void ZMScore(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Array(args.rest().size());
  for (std::string_view member : args.rest()) {
    ReplyScore(value ? ToRead(*value).Score(member) : std::nullopt, reply);
  }
}

void Rank(ShardContext& cx, Args args, bool is_reverse, ReplySink& reply) {
  if (args.size() > 4) return reply.Error(WrongArityError(is_reverse ? "zrevrank" : "zrank"));
  const bool with_score = args.size() == 4;
  if (with_score && !IsOption(args[3], "WITHSCORE")) return reply.Error(kErrSyntax);
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  const auto found = value ? ToRead(*value).Rank(args[2]) : std::nullopt;
  if (!found) return with_score ? reply.NullArray() : reply.Null();
  const size_t rank = is_reverse ? ToRead(*value).size() - 1 - found->first : found->first;
  if (with_score) reply.Array(2);
  reply.Integer(static_cast<int64_t>(rank));
  if (with_score) reply.Double(found->second);
}

void ZRank(ShardContext& cx, Args args, ReplySink& reply) { Rank(cx, args, false, reply); }
void ZRevRank(ShardContext& cx, Args args, ReplySink& reply) { Rank(cx, args, true, reply); }

void ZRem(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  int64_t removed = 0;
  if (value) {
    ZsetValue zset(&*value);
    for (std::string_view member : args.rest()) removed += zset.Erase(member);
    if (removed > 0) cx.Changed(args.key(), KeyEvent::kZRem, static_cast<uint64_t>(removed));
  }
  reply.Integer(removed);
}

// --- Ranges ---

// kReverse below 0: the arguments say.
template <RangeBy kBy, int kReverse>
constexpr RangeForm kFormOf = {
    .by = kBy, .is_reverse = kReverse < 0 ? std::nullopt : std::optional<bool>(kReverse > 0)};

template <RangeBy kBy, int kReverse>
void ZRange(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeOptions> options = ParseRange(args, kFormOf<kBy, kReverse>, reply);
  if (!options) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Array(0);
  const ZsetValue zset = ToRead(*value);
  ReplyWithRange(zset, Select(zset, *options), options->is_reverse, options->with_scores, reply);
}

// For CopyInSlices.
class RangeCopy {
 public:
  explicit RangeCopy(const RangeOptions& options) : options_(options) {}

  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    limit_ = cx.shard().zset_limit();
    const ZsetValue zset = ToRead(*value);
    const RankRange range = Select(zset, options_);
    const size_t done = found_.size();
    found_.Reserve(range.count);
    const size_t count = std::min(range.count - done, SliceOf(*value, zset.size()));
    const size_t first = options_.is_reverse ? range.first - done : range.first + done;
    zset.ForRange(first, count, options_.is_reverse,
                  [this](std::string_view member, double score) { found_.Add(member, score); });
    return done + count < range.count;
  }
  const ScoredMembers& found() const { return found_; }
  const PackedLimit& limit() const { return limit_; }  // of a shard with the key

 private:
  const RangeOptions options_;
  ScoredMembers found_;
  PackedLimit limit_ = {};
};

// Suspends.
template <RangeBy kBy, int kReverse>
void ZRangeInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeOptions> options = ParseRange(args, kFormOf<kBy, kReverse>, reply);
  if (!options) return;
  RangeCopy copy(*options);
  if (!CopyInSlices(cx, args.key(), ValueType::kZset, reply, &copy)) return;
  ReplyWithScored(copy.found(), options->with_scores, reply);
}

// Command::asks_for_many. Of a range of scores or texts only LIMIT says so.
template <RangeBy kBy>
bool AsksForManyMembers(Args args) {
  bool is_of_ranks = kBy == RangeBy::kAny || kBy == RangeBy::kRank;
  for (size_t i = 4; i < args.size(); ++i) {
    if (IsOption(args[i], "BYSCORE") || IsOption(args[i], "BYLEX")) is_of_ranks = false;
    if (!IsOption(args[i], "LIMIT") || args.size() - i <= 2) continue;
    const std::optional<int64_t> limit = ParseInt64(args[i + 2]);
    if (limit && *limit >= 0 && *limit < static_cast<int64_t>(kLargeMembers)) return false;
  }
  return !is_of_ranks || AsksForLongRange(args);
}

// Drops what is wrong with the arguments: the command replies it.
class NoReply final : public RefusingSink {
 protected:
  void Refuse() override {}
};

// Whether so many members of the value are meant that they are better read in slices.
bool HasMany(const CompactValue& value, const std::optional<RangeOptions>& options) {
  if (!options || value.is_string() || value.type() != ValueType::kZset) return false;
  return Select(ToRead(value), *options).count >= kLargeMembers;
}

// Command::takes_many.
template <RangeBy kBy, int kReverse>
bool TakesManyMembers(const CompactValue& value, Args args, size_t /*key_at*/) {
  NoReply reply;
  return HasMany(value, ParseRange(args, kFormOf<kBy, kReverse>, reply));
}

template <RangeBy kBy, int kReverse>
constexpr InSlices kRangeInSlices = {.across = ZRangeInSlices<kBy, kReverse>,
                                     .asks_for_many = AsksForManyMembers<kBy>,
                                     .takes_many = TakesManyMembers<kBy, kReverse>};

// ZRANGESTORE destination source ...: the options of what follows the destination.
std::optional<RangeOptions> ParseRangeStore(Args args, ReplySink& reply) {
  return ParseRange(Args(args.from(1)), {.may_have_scores = false}, reply);
}

void ZRangeStore(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeOptions> options = ParseRangeStore(args, reply);
  if (!options) return;
  const auto value = cx.FindReadOnly(args[2], ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  ScoredMembers found;
  if (value) {
    const ZsetValue zset = ToRead(*value);
    const RankRange range = Select(zset, *options);
    zset.ForRange(range.first, range.count, options->is_reverse,
                  [&found](std::string_view member, double score) { found.Add(member, score); });
  }
  StoreZset(cx, args[1], found, KeyEvent::kZRangeStore);
  reply.Integer(static_cast<int64_t>(found.size()));
}

// Suspends.
void ZRangeStoreAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeOptions> options = ParseRangeStore(args, reply);
  if (!options) return;
  KeyParts<CopyLook> parts(cx, args.from(2).first(1));
  parts.SetTarget(args[1]);
  RangeCopy copy(*options);
  if (!CopyInSlices(parts, args[2], ValueType::kZset, reply, &copy)) return;
  helio::LongWork work;
  const Storing storing = {.event = KeyEvent::kZRangeStore, .limit = copy.limit()};
  StoreZset(parts, args[1], copy.found(), storing, &work);
  reply.Integer(static_cast<int64_t>(copy.found().size()));
}

bool StoresManyMembers(Args args) { return AsksForManyMembers<RangeBy::kAny>(Args(args.from(1))); }

// Command::takes_many. The value may also be the one that is replaced; that takes no time.
bool TakesManyToStore(const CompactValue& value, Args args, size_t /*key_at*/) {
  NoReply reply;
  return HasMany(value, ParseRangeStore(args, reply));
}

// The bounds of ZCOUNT, ZREMRANGEBY...: replies the error and returns none if they are not valid.
template <RangeBy kBy>
std::optional<RangeOptions> ParseBounds(Args args, ReplySink& reply) {
  return ParseRange(Args(args.all().first(4)), {.by = kBy, .is_reverse = false}, reply);
}

template <RangeBy kBy>
void Count(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeOptions> options = ParseBounds<kBy>(args, reply);
  if (!options) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(Select(ToRead(*value), *options).count) : 0);
}

template <RangeBy kBy>
void RemoveRange(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeOptions> options = ParseBounds<kBy>(args, reply);
  if (!options) return;
  auto value = cx.FindMutable(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  ZsetValue zset(&*value);
  const RankRange range = Select(zset, *options);
  if (range.count > 0) {
    zset.EraseRange(range.first, range.count);
    constexpr KeyEvent kEvent = kBy == RangeBy::kRank    ? KeyEvent::kZRemRangeByRank
                                : kBy == RangeBy::kScore ? KeyEvent::kZRemRangeByScore
                                                         : KeyEvent::kZRemRangeByLex;
    cx.Changed(args.key(), kEvent, range.count);
  }
  reply.Integer(static_cast<int64_t>(range.count));
}

// ZSCAN key cursor [MATCH pattern] [COUNT count].
struct ZsetWalk {
  static constexpr ValueType kType = ValueType::kZset;
  static constexpr bool kMayLeaveOutValues = false;

  static size_t Size(const ShardContext&, const ShardContext::ReadHandle& value) {
    return ToRead(*value).size();
  }
  template <typename F>
  static uint32_t Scan(const ShardContext&, const ShardContext::ReadHandle& value, uint32_t cursor,
                       F&& fn) {
    return ToRead(*value).Scan(cursor, fn);
  }
};

}  // namespace

void RegisterZsetCommands(CommandTable* table) {
  ZsetValue::RegisterType();
  const auto add = [table](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                           KeySpec keys, std::string_view summary, std::string_view since,
                           std::string_view complexity, std::string_view replaced_by = {},
                           const InSlices& in_slices = {}) {
    table->Add({.name = name,
                .run = run,
                .across = in_slices.across,
                .slices = in_slices.across != nullptr,
                .asks_for_many = in_slices.asks_for_many,
                .takes_many = in_slices.takes_many,
                .pieces = in_slices.pieces,
                .arity = arity,
                .flags = flags,
                .categories = kAclSortedSet,
                .keys = keys,
                .docs = {.summary = summary,
                         .since = since,
                         .group = "sorted-set",
                         .complexity = complexity,
                         .deprecated_since = replaced_by.empty() ? "" : "6.2.0",
                         .replaced_by = replaced_by}});
  };
  constexpr std::string_view kLog = "O(log(N)) where N is the number of members.";
  constexpr std::string_view kRange =
      "O(log(N)+M) where N is the number of members and M is the number returned.";
  constexpr std::string_view kRemove =
      "O(log(N)*M) where N is the number of members and M is the number removed.";
  add("zadd", ZAdd, -4, kWrite | kDenyOom | kFast, KeyAndElement(3, "RW update"),
      "Adds members with their scores, or changes the scores; makes the key if need be.", "1.2.0",
      "O(log(N)) for each member, where N is the number of members.", {},
      InPieces(PieceReplies::kSum, 2, CheckAdd));
  add("zincrby", ZIncrBy, 4, kWrite | kDenyOom | kFast, KeyAndElement(3, "RW access update"),
      "Adds to the score of a member; makes it if need be.", "1.2.0", kLog);
  add("zcard", ZCard, 2, kReadonly | kFast, KeyAt(1, "RO"), "Returns the number of members.",
      "1.2.0", "O(1)");
  add("zscore", ZScore, 3, kReadonly | kFast, KeyAndElement(2), "Returns the score of a member.",
      "1.2.0", "O(1)");
  add("zmscore", ZMScore, -3, kReadonly | kFast, KeyAndElement(2), "Returns the scores of members.",
      "6.2.0", "O(M) where M is the number of members asked for.", {},
      InPieces(PieceReplies::kItems));
  add("zrank", ZRank, -3, kReadonly | kFast, KeyAndElement(2),
      "Returns how many members come before a member.", "2.0.0", kLog);
  add("zrevrank", ZRevRank, -3, kReadonly | kFast, KeyAndElement(2),
      "Returns how many members come behind a member.", "2.0.0", kLog);
  add("zrem", ZRem, -3, kWrite | kFast, KeyAndElement(2, "RW delete"), "Removes members.", "1.2.0",
      kRemove, {}, InPieces(PieceReplies::kSum));
  add("zcount", Count<RangeBy::kScore>, 4, kReadonly | kFast, KeyAt(1),
      "Returns the number of members with scores in a range.", "2.0.0", kLog);
  add("zlexcount", Count<RangeBy::kMember>, 4, kReadonly | kFast, KeyAt(1),
      "Returns the number of members between two texts.", "2.8.9", kLog);
  add("zrange", ZRange<RangeBy::kAny, -1>, -4, kReadonly, KeyAt(1),
      "Returns the members in a range of ranks, scores or texts.", "1.2.0", kRange, {},
      kRangeInSlices<RangeBy::kAny, -1>);
  add("zrevrange", ZRange<RangeBy::kRank, 1>, -4, kReadonly, KeyAt(1),
      "Returns the members in a range of ranks, from the last one on.", "1.2.0", kRange,
      "`ZRANGE` with the `REV` argument", kRangeInSlices<RangeBy::kRank, 1>);
  add("zrangebyscore", ZRange<RangeBy::kScore, 0>, -4, kReadonly, KeyAt(1),
      "Returns the members with scores in a range.", "1.0.5", kRange,
      "`ZRANGE` with the `BYSCORE` argument", kRangeInSlices<RangeBy::kScore, 0>);
  add("zrevrangebyscore", ZRange<RangeBy::kScore, 1>, -4, kReadonly, KeyAt(1),
      "Returns the members with scores in a range, from the last one on.", "2.2.0", kRange,
      "`ZRANGE` with the `REV` and `BYSCORE` arguments", kRangeInSlices<RangeBy::kScore, 1>);
  add("zrangebylex", ZRange<RangeBy::kMember, 0>, -4, kReadonly, KeyAt(1),
      "Returns the members between two texts.", "2.8.9", kRange,
      "`ZRANGE` with the `BYLEX` argument", kRangeInSlices<RangeBy::kMember, 0>);
  add("zrevrangebylex", ZRange<RangeBy::kMember, 1>, -4, kReadonly, KeyAt(1),
      "Returns the members between two texts, from the last one on.", "2.8.9", kRange,
      "`ZRANGE` with the `REV` and `BYLEX` arguments", kRangeInSlices<RangeBy::kMember, 1>);
  add("zremrangebyrank", RemoveRange<RangeBy::kRank>, 4, kWrite, KeyAt(1, "RW delete"),
      "Removes the members in a range of ranks.", "2.0.0", kRemove);
  add("zremrangebyscore", RemoveRange<RangeBy::kScore>, 4, kWrite, KeyAt(1, "RW delete"),
      "Removes the members with scores in a range.", "1.2.0", kRemove);
  add("zremrangebylex", RemoveRange<RangeBy::kMember>, 4, kWrite, KeyAt(1, "RW delete"),
      "Removes the members between two texts.", "2.8.9", kRemove);
  table->Add({.name = "zscan",
              .run = ScanMembers<ZsetWalk>,
              .across = ScanMembersInSlices<ZsetWalk>,
              .slices = true,
              .asks_for_many = ScansMany<ZsetWalk>,
              .arity = -3,
              .flags = kReadonly,
              .categories = kAclSortedSet,
              .keys = KeyAt(1),
              .docs = {.summary = "Returns some members of a sorted set, call by call.",
                       .since = "2.8.0",
                       .group = "sorted-set",
                       .complexity = "O(N) where N is COUNT; all of a set that is one block."},
              .tips = "nondeterministic_output"});
  table->Add({.name = "zrangestore",
              .run = ZRangeStore,
              .across = ZRangeStoreAcross,
              .slices = true,
              .asks_for_many = StoresManyMembers,
              .takes_many = TakesManyToStore,
              .arity = -5,
              .flags = kWrite | kDenyOom,
              .categories = kAclSortedSet,
              .keys = TwoKeys("OW update", "RO access"),
              .docs = {.summary = "Makes a sorted set of the members in a range of another one.",
                       .since = "6.2.0",
                       .group = "sorted-set",
                       .complexity = "O(log(N)+M*log(M)) where N is the number of members and M is "
                                     "the number stored."}});
  RegisterZsetPops(table);
  RegisterZsetDraws(table);
  RegisterZsetOperations(table);
  RegisterGeoCommands(table);
}

}  // namespace dfly
