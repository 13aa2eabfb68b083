// SPDX-License-Identifier: Apache-2.0
// Members of a sorted set at random: ZRANDMEMBER. Many of a large one are read in slices
// (long_reads.h).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "commands/table/local_random.h"
#include "commands/table/numbers.h"
#include "commands/zsets/zset_commands.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

struct DrawOptions {
  bool has_count = false;
  int64_t count = -1;  // below 0: so many, of which some may be the same
  bool with_scores = false;
};

// ZRANDMEMBER key [count [WITHSCORES]]. Replies the error and returns none if they are not valid.
std::optional<DrawOptions> ParseDraw(Args args, ReplySink& reply) {
  DrawOptions options = {.has_count = args.size() > 2};
  if (!options.has_count) return options;
  const std::optional<int64_t> count = ParseInt64(args[2]);
  if (!count) return Refuse(reply, kErrNotInteger);
  if (*count == INT64_MIN) {
    return Refuse(reply,
                  "ERR value is out of range, value must between -9223372036854775807 and "
                  "9223372036854775807");
  }
  if (args.size() > 4 || (args.size() == 4 && !IsOption(args[3], "WITHSCORES"))) {
    return Refuse(reply, kErrSyntax);
  }
  options.with_scores = args.size() == 4;
  if (options.with_scores && (*count < -INT64_MAX / 2 || *count > INT64_MAX / 2)) {
    return Refuse(reply, kErrOutOfRange);
  }
  options.count = *count;
  return options;
}

// The ranks of the members to reply, one after another.
class Draw {
 public:
  // `work`: null in a brief.
  Draw(size_t size, int64_t count, helio::LongWork* work)
      : size_(size), left_(static_cast<uint64_t>(count < 0 ? -count : count)) {
    if (count < 0) {
      how_ = How::kWithRepeats;
    } else if (left_ >= size) {
      left_ = size;
      how_ = How::kAll;
    } else if (left_ * 3 > size) {
      how_ = How::kOfMany;
    } else {
      how_ = How::kChosen;
      Choose(work);
    }
  }

  size_t left() const { return left_; }
  // REQUIRES: left() > 0.
  size_t Next(helio::Random& random) {
    const size_t at = left_--;
    switch (how_) {
      case How::kAll:  // from the last one on, as redis-server walks
        return at - 1;
      case How::kWithRepeats:
        return random.Uniform(size_);
      case How::kOfMany:
        while (random.Uniform(size_ - rank_) >= at) ++rank_;
        return rank_++;
      case How::kChosen:
        break;
    }
    return chosen_[chosen_.size() - at];
  }

 private:
  enum class How : uint8_t {
    kAll,
    kWithRepeats,
    // Each member in turn with the chance that makes all selections equally likely (Knuth, The Art
    // of Computer Programming 2, algorithm 3.4.2 S).
    kOfMany,
    kChosen,  // few of them: by their ranks alone
  };

  // Ranks at random until enough of them are different: all selections are as likely.
  void Choose(helio::LongWork* work) {
    const auto step = [work] {
      if (work != nullptr) work->Step();
    };
    const auto is_less = [&step](size_t a, size_t b) {
      step();
      return a < b;
    };
    chosen_.reserve(left_);
    while (chosen_.size() < left_) {
      const auto known = static_cast<ptrdiff_t>(chosen_.size());
      while (chosen_.size() < left_) {
        chosen_.push_back(LocalRandom().Uniform(size_));
        step();
      }
      std::sort(chosen_.begin() + known, chosen_.end(), is_less);
      std::inplace_merge(chosen_.begin(), chosen_.begin() + known, chosen_.end(), is_less);
      chosen_.erase(std::unique(chosen_.begin(), chosen_.end()), chosen_.end());
    }
  }

  const size_t size_;
  size_t left_;
  How how_;
  size_t rank_ = 0;             // kOfMany: of the next member to decide about
  std::vector<size_t> chosen_;  // ascending
};

// For a set of `size` members, 0 if there is none. None if there is nothing to draw, and that was
// replied.
std::optional<Draw> Begin(const DrawOptions& options, size_t size, ReplySink& reply,
                          helio::LongWork* work = nullptr) {
  constexpr int64_t kRepeatedMax = 1 << 24;  // Redis writes a reply of any size until memory ends
  if (size == 0 || options.count == 0) {
    options.has_count ? reply.Array(0) : reply.Null();
    return std::nullopt;
  }
  if (options.count < -kRepeatedMax) return Refuse(reply, kErrOutOfRange);
  return Draw(size, options.count, work);
}

void ZRandMember(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<DrawOptions> options = ParseDraw(args, reply);
  if (!options) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::optional<Draw> draw = Begin(*options, value ? ToRead(*value).size() : 0, reply);
  if (!draw) return;
  helio::Random& random = LocalRandom();
  const ZsetValue zset = ToRead(*value);
  if (!options->has_count) {
    return zset.ForRange(draw->Next(random), 1, false,
                         [&reply](std::string_view member, double) { reply.Bulk(member); });
  }
  if (draw->left() == zset.size() && options->count > 0) {
    return ReplyWithRange(zset, {zset.size() - 1, zset.size()}, true, options->with_scores, reply);
  }
  RangeWriter write(draw->left(), options->with_scores, reply);
  while (draw->left() > 0) zset.ForRange(draw->Next(random), 1, false, write);
}

// Suspends.
void ZRandMemberInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  constexpr size_t kSlice = 256;  // each somewhere else in memory
  const std::optional<DrawOptions> options = ParseDraw(args, reply);
  if (!options) return;
  const std::string_view key = args.key();
  ScoredMembers found;
  {
    struct Look {
      bool is_wrong_type = false;
      size_t size = 0;
    };
    using Parts = KeyParts<Look>;
    Parts parts(cx, {&key, 1});
    const auto look = [key](ShardContext& shard_cx, Parts::Item& item) {
      const auto value = shard_cx.FindReadOnly(key, ValueType::kZset);
      item.part.is_wrong_type = value.is_wrong_type();
      if (value) item.part.size = ToRead(*value).size();
    };
    if (!parts.Hop(look, Parts::More::kYes)) return;
    const Look& first = parts.items()[0].part;
    if (first.is_wrong_type) return reply.Error(kErrWrongType);
    helio::LongWork work;
    std::optional<Draw> draw = Begin(*options, first.size, reply, &work);
    if (!draw) return;
    found.Reserve(draw->left());
    parts.HopInSlices([](const Parts::Item&) { return true; },
                      [&](ShardContext& shard_cx, const Parts::Item&) {
                        const auto value = shard_cx.Peek(key);
                        if (!value) return false;
                        helio::Random& random = LocalRandom();
                        const ZsetValue zset = ToRead(*value);
                        size_t some = std::min(kSlice, SliceOf(*value, zset.size()));
                        for (some = std::min(some, draw->left()); some > 0; --some) {
                          zset.ForRange(draw->Next(random), 1, false,
                                        [&found](std::string_view member, double score) {
                                          found.Add(member, score);
                                        });
                        }
                        return draw->left() > 0;
                      });
  }
  if (options->has_count) return ReplyWithScored(found, options->with_scores, reply);
  found.size() == 0 ? reply.Null() : reply.Bulk(found.members[0]);
}

bool DrawsMany(Args args) {
  constexpr auto kMany = static_cast<int64_t>(kLargeMembers);
  const std::optional<int64_t> count = args.size() > 2 ? ParseInt64(args[2]) : std::nullopt;
  return count && (*count >= kMany || *count <= -kMany);
}

}  // namespace

void RegisterZsetDraws(CommandTable* table) {
  table->Add({.name = "zrandmember",
              .run = ZRandMember,
              .across = ZRandMemberInSlices,
              .slices = true,
              .asks_for_many = DrawsMany,
              .arity = -2,
              .flags = kReadonly,
              .categories = kAclSortedSet,
              .keys = KeyAt(1),
              .docs = {.summary = "Returns members at random.",
                       .since = "6.2.0",
                       .group = "sorted-set",
                       .complexity = "O(M*log(N)) where N is the number of members and M is the "
                                     "number returned."},
              .tips = "nondeterministic_output"});
}

}  // namespace dfly
