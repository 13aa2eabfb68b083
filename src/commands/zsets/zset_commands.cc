// SPDX-License-Identifier: Apache-2.0
#include "commands/zsets/zset_commands.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/text/numbers.h"

namespace dfly {

void ReplyWithRange(const ZsetValue& zset, RankRange range, bool is_reverse, bool with_scores,
                    ReplySink& reply) {
  zset.ForRange(range.first, range.count, is_reverse, RangeWriter(range.count, with_scores, reply));
}

void ReplyWithScored(const ScoredMembers& found, bool with_scores, ReplySink& reply) {
  helio::LongWork work;
  RangeWriter write(found.size(), with_scores, reply);
  for (size_t i = 0; i < found.size(); ++i) {
    write(found.members[i], found.scores[i]);
    work.Step();
  }
}

CompactValue MakeZset(const ScoredMembers& found, const PackedLimit& limit, helio::LongWork* work) {
  size_t longest = 0;
  for (size_t i = 0; i < found.size(); ++i) longest = std::max(longest, found.members[i].size());
  CompactValue value;
  ZsetValue::Create(&value, longest, found.size(), limit);
  ZsetValue zset(&value);
  for (size_t i = 0; i < found.size(); ++i) {
    zset.Set(found.members[i], found.scores[i], limit);
    if (work != nullptr) work->Step();
  }
  return value;
}

void StoreZset(ShardContext& cx, std::string_view key, const ScoredMembers& found, KeyEvent event,
               uint64_t changes, std::optional<CompactValue> made) {
  const bool is_sticky = cx.IsSticky(key).value_or(false);
  if (found.size() == 0) {
    cx.Delete(key);
    return;
  }
  ShardContext::Detached detached;
  detached.value = made ? *std::move(made) : MakeZset(found, cx.shard().zset_limit());
  cx.access_clock().Start(detached.value, cx.noted_ms());
  detached.is_sticky = is_sticky;
  cx.Put(key, std::move(detached), event, changes);
}

void TellZset(std::string_view key, const ScoredMembers& stored,
              absl::FunctionRef<void(std::span<const std::string_view>)> tell,
              helio::LongWork* work) {
  const std::string_view deletion[] = {"DEL", key};
  tell(deletion);
  std::vector<std::string> scores;
  scores.reserve(std::min(stored.size(), kToldMembers));
  std::vector<std::string_view> words;
  for (size_t i = 0; i < stored.size();) {
    const size_t end = std::min(stored.size(), i + kToldMembers);
    scores.clear();
    words = {"ZADD", key};
    for (; i < end; ++i) {
      char text[kDoubleTextMax];
      words.emplace_back(scores.emplace_back(FormatDouble(stored.scores[i], text)));
      words.push_back(stored.members[i]);
      if (work != nullptr) work->Step();
    }
    tell(words);
  }
}

}  // namespace dfly
