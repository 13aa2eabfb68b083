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
  const bool is_nested = with_scores && reply.resp3();
  reply.Array(with_scores && !is_nested ? 2 * range.count : range.count);
  zset.ForRange(range.first, range.count, is_reverse, [&](std::string_view member, double score) {
    if (is_nested) reply.Array(2);
    reply.Bulk(member);
    if (with_scores) reply.Double(score);
  });
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
  cx.access_clock().Start(detached.value, cx.now_ms());
  detached.is_sticky = is_sticky;
  cx.Put(key, std::move(detached), event, changes);
}

}  // namespace dfly
