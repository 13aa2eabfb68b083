// SPDX-License-Identifier: Apache-2.0
// CL.THROTTLE, a rate limiter in one command: arguments and replies are those of redis-cell.
//
// It is the generic cell rate algorithm (ITU-T I.371): actions at the nominal rate arrive one
// emission interval apart. The key has the theoretical arrival time of the next one, in nanoseconds
// since 1970, and lives until then. An action is early by what is left until that time, and
// may be early by so many intervals as the burst has room for.
#include "commands/strings/throttle.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "commands/table/command_table.h"
#include "commands/table/numbers.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

__extension__ using Wide = __int128;  // products of two int64

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kNanosPerSecond = 1'000'000'000;

struct Rate {
  int64_t limit = 0;     // actions at once: the burst and one more
  int64_t quantity = 1;  // of this call
  int64_t interval = 0;  // nanoseconds between actions

  Wide tolerance() const { return Wide{interval} * limit; }
};

// CL.THROTTLE key max_burst count_per_period period [quantity]. Replies the error and returns none
// if they are not valid.
std::optional<Rate> ParseRate(Args args, ReplySink& reply) {
  if (args.size() > 6) return Refuse(reply, kErrSyntax);
  int64_t numbers[4] = {0, 0, 0, 1};
  for (size_t i = 2; i < args.size(); ++i) {
    const auto number = ParseInteger(args[i], kErrNotInteger, reply);
    if (!number) return std::nullopt;
    numbers[i - 2] = *number;
  }
  const auto [burst, count, period_s, quantity] = numbers;
  if (count == 0 || period_s == 0) return Refuse(reply, "ERR zero rates are not supported");
  if (burst < 0 || burst == INT64_MAX || count < 0 || period_s < 0 || quantity < 0) {
    return Refuse(reply, kErrOutOfRange);
  }
  const Wide interval = Wide{period_s} * kNanosPerSecond / count;
  if (interval == 0) return Refuse(reply, "ERR zero rates are not supported");
  if (interval > INT64_MAX) return Refuse(reply, kErrOutOfRange);
  // All times that follow fit in 64 bits, as Redis' clocks do.
  const Wide longest = interval * (Wide{std::max(burst + 1, quantity)} + 1);
  if (longest > INT64_MAX / 4) return Refuse(reply, kErrOutOfRange);
  return Rate{.limit = burst + 1, .quantity = quantity, .interval = static_cast<int64_t>(interval)};
}

int64_t RoundUp(int64_t number, int64_t unit) { return number / unit + (number % unit > 0); }

void Throttle(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<Rate> rate = ParseRate(args, reply);
  if (!rate) return;
  const int64_t now = cx.now_ms() * kNanosPerMilli;
  int64_t arrival = now;
  {
    const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
    if (value.is_wrong_type()) return reply.Error(kErrWrongType);
    if (value) {
      const std::optional<int64_t> stored = value->TryInt();
      if (!stored || *stored < 0 || *stored > INT64_MAX / 2) return reply.Error(kErrNotInteger);
      arrival = std::max(now, *stored);
    }
  }
  const auto tolerance = static_cast<int64_t>(rate->tolerance());
  const int64_t increment = rate->interval * rate->quantity;
  const int64_t early = arrival + increment - tolerance - now;  // by more than is allowed
  const bool is_limited = early > 0;
  if (!is_limited) arrival += increment;
  const int64_t busy = arrival - now;  // until the burst is whole again
  if (!is_limited && rate->quantity > 0) {
    ShardContext::SetOptions options;
    options.deadline_ms = cx.now_ms() + RoundUp(busy, kNanosPerMilli);
    const std::string text = std::to_string(arrival);
    cx.SetString(args.key(), text, options);
    if (cx.wants_effects()) cx.Tell("SET", args.key(), text, "PXAT", *options.deadline_ms);
  }
  const bool may_ever = increment <= tolerance;
  reply.Array(5);
  reply.Integer(is_limited);
  reply.Integer(rate->limit);
  reply.Integer(std::max<int64_t>(tolerance - busy, 0) / rate->interval);
  reply.Integer(is_limited && may_ever ? RoundUp(early, kNanosPerSecond) : -1);
  reply.Integer(RoundUp(busy, kNanosPerSecond));
}

}  // namespace

void RegisterThrottle(CommandTable* table) {
  table->Add({.name = "cl.throttle",
              .run = Throttle,
              .arity = -5,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Asks a rate limiter whether an action may happen now, and counts it if so.",
                       "1.0.0", "string", "O(1)"}});
}

}  // namespace dfly
