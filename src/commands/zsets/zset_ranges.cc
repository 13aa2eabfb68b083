// SPDX-License-Identifier: Apache-2.0
#include "commands/zsets/zset_ranges.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrMinMaxNotMember = "ERR min or max not valid string range item";

}  // namespace

std::optional<ScoreBound> ScoreBound::Parse(std::string_view text) {
  ScoreBound bound;
  if (!text.empty() && text[0] == '(') {
    bound.is_exclusive = true;
    text.remove_prefix(1);
  }
  // As redis-server reads it: by strtod, so that spaces in front, hexadecimal numbers and nothing
  // at all are fine.
  const std::string terminated(text);
  char* end = nullptr;
  bound.score = std::strtod(terminated.c_str(), &end);
  if (*end != '\0' || std::isnan(bound.score)) return std::nullopt;
  return bound;
}

RankRange RangeOf(const ZsetValue& zset, const ScoreBound& min, const ScoreBound& max) {
  const size_t first = min.is_exclusive ? zset.CountUpTo(min.score) : zset.CountBelow(min.score);
  const size_t end = max.is_exclusive ? zset.CountBelow(max.score) : zset.CountUpTo(max.score);
  return {first, end > first ? end - first : 0};
}

std::optional<MemberBound> MemberBound::Parse(std::string_view text) {
  if (text == "-") return MemberBound{kFirst};
  if (text == "+") return MemberBound{kLast};
  if (text.starts_with('[')) return MemberBound{kInclusive, text.substr(1)};
  if (text.starts_with('(')) return MemberBound{kExclusive, text.substr(1)};
  return std::nullopt;
}

RankRange RangeOf(const ZsetValue& zset, const MemberBound& min, const MemberBound& max) {
  // How many members are before the bound, it itself included or not.
  const auto count = [&](const MemberBound& bound, bool with_it) {
    switch (bound.kind) {
      case MemberBound::kFirst:
        return size_t{0};
      case MemberBound::kLast:
        return zset.size();
      case MemberBound::kInclusive:
      case MemberBound::kExclusive:
        break;
    }
    return with_it ? zset.CountUpToMember(bound.member) : zset.CountBelowMember(bound.member);
  };
  const size_t first = count(min, min.kind == MemberBound::kExclusive);
  const size_t end = count(max, max.kind == MemberBound::kInclusive);
  return {first, end > first ? end - first : 0};
}

RankRange RangeOf(size_t size, int64_t start, int64_t stop) {
  const auto length = static_cast<int64_t>(size);
  if (start < 0) start = std::max<int64_t>(start + length, 0);
  if (stop < 0) stop += length;
  stop = std::min(stop, length - 1);
  if (start > stop) return {};
  return {static_cast<size_t>(start), static_cast<size_t>(stop - start + 1)};
}

std::optional<RangeOptions> ParseRange(Args args, const RangeForm& form, ReplySink& reply) {
  RangeOptions options;
  RangeBy by = form.by;
  std::optional<bool> is_reverse = form.is_reverse;
  for (size_t i = 4; i < args.size(); ++i) {
    if (form.may_have_scores && IsOption(args[i], "WITHSCORES")) {
      options.with_scores = true;
    } else if (IsOption(args[i], "LIMIT") && args.size() - i > 2) {
      const auto offset = ParseInt64(args[i + 1]);
      if (!offset) return Refuse(reply, kErrNotInteger);
      const auto limit = ParseInt64(args[i + 2]);
      if (!limit) return Refuse(reply, kErrNotInteger);
      options.offset = *offset;
      options.limit = *limit;
      i += 2;
    } else if (!is_reverse && IsOption(args[i], "REV")) {
      is_reverse = true;
    } else if (by == RangeBy::kAny && IsOption(args[i], "BYLEX")) {
      by = RangeBy::kMember;
    } else if (by == RangeBy::kAny && IsOption(args[i], "BYSCORE")) {
      by = RangeBy::kScore;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  options.by = by == RangeBy::kAny ? RangeBy::kRank : by;
  options.is_reverse = is_reverse.value_or(false);
  if (options.limit != -1 && options.by == RangeBy::kRank) {
    return Refuse(
        reply,
        "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
  }
  if (options.with_scores && options.by == RangeBy::kMember) {
    return Refuse(reply, "ERR syntax error, WITHSCORES not supported in combination with BYLEX");
  }
  const bool is_swapped = options.is_reverse && options.by != RangeBy::kRank;
  const std::string_view min = args[is_swapped ? 3 : 2];
  const std::string_view max = args[is_swapped ? 2 : 3];
  switch (options.by) {
    case RangeBy::kAny:
    case RangeBy::kRank: {
      const auto start = ParseInt64(min), stop = ParseInt64(max);
      if (!start || !stop) return Refuse(reply, kErrNotInteger);
      options.start = *start;
      options.stop = *stop;
      break;
    }
    case RangeBy::kScore: {
      const auto low = ScoreBound::Parse(min), high = ScoreBound::Parse(max);
      if (!low || !high) return Refuse(reply, kErrMinMaxNotFloat);
      options.min_score = *low;
      options.max_score = *high;
      break;
    }
    case RangeBy::kMember: {
      const auto low = MemberBound::Parse(min), high = MemberBound::Parse(max);
      if (!low || !high) return Refuse(reply, kErrMinMaxNotMember);
      options.min_member = *low;
      options.max_member = *high;
      break;
    }
  }
  return options;
}

RankRange Select(const ZsetValue& zset, const RangeOptions& options) {
  RankRange range;
  switch (options.by) {
    case RangeBy::kAny:
    case RangeBy::kRank:
      range = RangeOf(zset.size(), options.start, options.stop);
      if (options.is_reverse && range.count > 0) range.first = zset.size() - 1 - range.first;
      return range;
    case RangeBy::kScore:
      range = RangeOf(zset, options.min_score, options.max_score);
      break;
    case RangeBy::kMember:
      range = RangeOf(zset, options.min_member, options.max_member);
      break;
  }
  // An offset below 0 is past the end, as it is for redis-server.
  if (options.offset < 0 || static_cast<uint64_t>(options.offset) >= range.count) return {};
  if (options.is_reverse) range.first += range.count - 1;
  const auto offset = static_cast<size_t>(options.offset);
  range.count -= offset;
  range.first = options.is_reverse ? range.first - offset : range.first + offset;
  if (options.limit >= 0) range.count = std::min<uint64_t>(range.count, options.limit);
  return range;
}

}  // namespace dfly
