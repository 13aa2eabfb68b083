// SPDX-License-Identifier: Apache-2.0
#include "commands/zset_ranges.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace dfly {

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

}  // namespace dfly
