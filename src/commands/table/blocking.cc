// SPDX-License-Identifier: Apache-2.0
#include "commands/table/blocking.h"

#include <cmath>

#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"

namespace dfly {

bool TryBlockingForm(const BlockingForm& form, ShardContext& cx, Args args, BlockingCall* call,
                     ReplySink& reply) {
  if (form.try_here != nullptr) return form.try_here(cx, args, call, reply);
  for (std::string_view key : call->keys) {
    const auto value = cx.FindMutable(key, form.type);
    if (value.is_wrong_type()) {
      reply.Error(kErrWrongType);
      return true;
    }
    if (!value) continue;
    form.take(cx, args, key, reply);
    return true;
  }
  return false;
}

void RunBlockingAcross(CoordinatorContext& cx, Args args, const BlockingForm& form,
                       ReplySink& reply) {
  BlockingCall call;
  if (!form.parse(args, reply, &call)) return;
  Transaction tx(cx);
  const LockMode mode = form.only_reads ? LockMode::kShared : LockMode::kExclusive;
  const auto lock = [&](std::string_view key) {
    const uint64_t hash = HashKey(key);
    const ShardId id = cx.shards().ShardOfKey(key, hash);
    tx.Lock(id, {cx.shards().LockOfKey(key, hash, cx.db_index()), mode});
    return id;
  };
  std::vector<ShardId> ids;
  for (std::string_view key : call.keys) ids.push_back(lock(key));
  if (form.target_at != 0) {
    const ShardId target = lock(args[static_cast<size_t>(form.target_at)]);
    if (target != ids.front()) {
      if (!tx.Schedule()) return;
      if (!form.take_across(cx, tx, args, reply)) form.reply_nothing(reply);
      return;
    }
  }
  if (!tx.Schedule()) return;
  if (form.try_across != nullptr) {
    if (!form.try_across(cx, tx, args, &call, reply)) form.reply_nothing(reply);
    return;
  }
  // Key by key: the first that exists decides.
  bool is_replied = false;
  for (size_t i = 0; i < ids.size() && !is_replied; ++i) {
    tx.HopOn({&ids[i], 1}, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
      BlockingCall of_one = {.keys = call.keys.subspan(i, 1)};
      is_replied = TryBlockingForm(form, shard_cx, args, &of_one, reply);
    });
  }
  if (!is_replied) form.reply_nothing(reply);
}

std::optional<int64_t> ParseTimeout(std::string_view text, ReplySink& reply) {
  constexpr int64_t kSmall = 1'000'000'000;
  if (const auto whole = ParseInt64(text); whole && *whole >= 0 && *whole < kSmall) {
    return *whole * 1000;  // nearly always, and much cheaper
  }
  const std::optional<double> seconds = ParseDouble(text);
  if (!seconds || std::isnan(*seconds)) return Refuse(reply, kErrTimeoutNotFloat);
  const double millis = std::ceil(*seconds * 1000);
  if (millis > 9.2e18) return Refuse(reply, kErrTimeoutOutOfRange);
  if (millis < 0) return Refuse(reply, kErrTimeoutNegative);
  // The deadline has to be a time, too.
  const auto timeout_ms = static_cast<int64_t>(millis);
  if (timeout_ms > INT64_MAX - helio::UnixMillis()) return Refuse(reply, kErrTimeoutOutOfRange);
  return timeout_ms;
}

}  // namespace dfly
