// SPDX-License-Identifier: Apache-2.0
// INCREX: counters with bounds and a deadline, as limits of rates and stocks need them.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commands/strings/string_options.h"
#include "commands/table/command_table.h"
#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

// INCREX key [BYFLOAT increment | BYINT increment] [LBOUND bound] [UBOUND bound] [SATURATE]
//        [EX | PX | EXAT | PXAT time | PERSIST] [ENX]
struct IncrExOptions {
  std::string_view by = "1", lower = {}, upper = {};
  bool has_by = false, is_float = false, has_lower = false, has_upper = false;
  bool saturates = false;
  bool only_without_deadline = false;  // ENX
  StringOptions expire = {};
};

// False: it has replied an error. An option that comes twice counts as it comes last.
bool ParseIncrEx(Args args, IncrExOptions* options, ReplySink& reply) {
  const auto refuse = [&reply](std::string_view error) {
    reply.Error(error);
    return false;
  };
  for (size_t i = 2; i < args.size(); ++i) {
    const std::string_view option = args[i];
    const bool has_operand = i + 1 < args.size();
    const bool by_float = IsOption(option, "BYFLOAT");
    if (has_operand && (by_float || IsOption(option, "BYINT"))) {
      if (options->has_by && options->is_float != by_float) return refuse(kErrSyntax);
      options->has_by = true;
      options->is_float = by_float;
      options->by = args[++i];
    } else if (has_operand && IsOption(option, "LBOUND")) {
      options->has_lower = true;
      options->lower = args[++i];
    } else if (has_operand && IsOption(option, "UBOUND")) {
      options->has_upper = true;
      options->upper = args[++i];
    } else if (IsOption(option, "SATURATE")) {
      options->saturates = true;
    } else if (IsOption(option, "ENX")) {
      options->only_without_deadline = true;
    } else {
      // Those of GETEX.
      const size_t count = FindDeadlineUnit(option) != nullptr && has_operand ? 2 : 1;
      if (!ParseStringOptions(args.from(i).first(count), OptionSet::kOfGetEx, &options->expire)) {
        return refuse(kErrSyntax);
      }
      i += count - 1;
    }
  }
  if (options->only_without_deadline && options->expire.persist) return refuse(kErrSyntax);
  if (options->only_without_deadline && options->expire.unit == nullptr) {
    return refuse("ERR ENX flag requires an expiration");
  }
  return true;
}

constexpr std::string_view kErrBounds = "ERR LBOUND can't be greater than UBOUND";

// What is added, and within which bounds the result has to be.
template <typename Number>
struct Addition {
  Number by;
  Number lower;
  Number upper;
};

// What becomes of the key.
template <typename Number>
struct Sum {
  Number result;
  Number added;
  bool is_stored = true;  // false: it is out of bounds, and nothing changes
};

// None: the error was replied. `parse` gives none for what is no such number.
template <typename Number, typename Parse>
std::optional<Addition<Number>> ParseAddition(const IncrExOptions& options, Number min, Number max,
                                              Parse parse, std::string_view error,
                                              ReplySink& reply) {
  const std::optional<Number> by = parse(options.by);
  const std::optional<Number> lower = options.has_lower ? parse(options.lower) : min;
  const std::optional<Number> upper = options.has_upper ? parse(options.upper) : max;
  if (!by || !lower || !upper) return Refuse(reply, error);
  if (*lower > *upper) return Refuse(reply, kErrBounds);
  return Addition<Number>{*by, *lower, *upper};
}

// None: the difference between a bound and what there was is no int64_t.
std::optional<Sum<int64_t>> Add(int64_t present, const Addition<int64_t>& addition,
                                bool saturates) {
  int64_t sum;
  const bool overflows = __builtin_add_overflow(present, addition.by, &sum);
  if (!overflows && sum >= addition.lower && sum <= addition.upper) {
    return Sum<int64_t>{sum, addition.by};
  }
  if (!saturates) return Sum<int64_t>{present, 0, false};
  const bool is_above = overflows ? addition.by > 0 : sum > addition.upper;
  const int64_t bound = is_above ? addition.upper : addition.lower;
  int64_t added;
  if (__builtin_sub_overflow(bound, present, &added)) return std::nullopt;
  return Sum<int64_t>{bound, added};
}

std::optional<Sum<long double>> Add(long double present, const Addition<long double>& addition,
                                    bool saturates) {
  const long double sum = present + addition.by;
  if (sum >= addition.lower && sum <= addition.upper) return Sum<long double>{sum, addition.by};
  if (!saturates) return Sum<long double>{present, 0, false};
  const long double bound = sum > addition.upper ? addition.upper : addition.lower;
  const long double added = bound - present;
  if (!std::isfinite(added)) return std::nullopt;
  return Sum<long double>{bound, added};
}

// The value was changed: tells that, and sets or removes the deadline.
void EndIncrEx(ShardContext& cx, std::string_view key, KeyEvent event, std::string_view text,
               const IncrExOptions& options, std::optional<int64_t> deadline_ms) {
  cx.Changed(key, event);
  if (cx.wants_effects()) cx.Tell("SET", key, text, "KEEPTTL");
  if (options.expire.persist) cx.Persist(key);
  if (!deadline_ms) return;
  if (options.only_without_deadline && cx.GetDeadline(key).at_ms) return;
  cx.SetDeadline(key, *deadline_ms);
}

void IncrExInteger(ShardContext& cx, std::string_view key, const IncrExOptions& options,
                   std::optional<int64_t> deadline_ms, ReplySink& reply) {
  const auto addition = ParseAddition<int64_t>(
      options, INT64_MIN, INT64_MAX, [](std::string_view text) { return ParseInt64(text); },
      kErrNotInteger, reply);
  if (!addition) return;
  auto value = cx.FindMutable(key, ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  const std::optional<int64_t> present = value ? value->TryInt() : 0;
  if (!present) return reply.Error(kErrNotInteger);
  const std::optional<Sum<int64_t>> sum = Add(*present, *addition, options.saturates);
  if (!sum) return reply.Error(kErrOverflow);
  if (sum->is_stored) {
    if (!value) value = cx.FindOrCreate(key, ValueType::kString);
    value->SetInt(sum->result);
    EndIncrEx(cx, key, KeyEvent::kIncrBy, std::to_string(sum->result), options, deadline_ms);
  }
  reply.Array(2);
  reply.Integer(sum->result);
  reply.Integer(sum->added);
}

std::optional<long double> ParseFinite(std::string_view text) {
  const std::optional<long double> number = ParseLongDouble(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

// What no double can hold is text in RESP3, too, as of INCRBYFLOAT: clients refuse such a number,
// or make an infinity of it.
void ReplyFloat(long double number, std::string_view text, ReplySink& reply) {
  if (std::fabs(number) > DBL_MAX) return reply.Bulk(text);
  reply.Decimal(text);
}

void IncrExFloat(ShardContext& cx, std::string_view key, const IncrExOptions& options,
                 std::optional<int64_t> deadline_ms, ReplySink& reply) {
  const auto addition =
      ParseAddition<long double>(options, -LDBL_MAX, LDBL_MAX, ParseFinite, kErrNotFloat, reply);
  if (!addition) return;
  auto value = cx.FindMutable(key, ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::optional<long double> present = 0.0L;
  if (value) {
    char scratch[CompactValue::kScratchSize];
    present = ParseLongDouble(value->View(scratch));
  }
  if (!present) return reply.Error(kErrNotFloat);
  if (!std::isfinite(*present)) return reply.Error(kErrIncrNanOrInf);
  const std::optional<Sum<long double>> sum = Add(*present, *addition, options.saturates);
  if (!sum) return reply.Error(kErrIncrNanOrInf);
  const std::string text = FormatLongDouble(sum->result);
  if (sum->is_stored) {
    if (!value) value = cx.FindOrCreate(key, ValueType::kString);
    value->SetText(text);
    EndIncrEx(cx, key, KeyEvent::kIncrByFloat, text, options, deadline_ms);
  }
  reply.Array(2);
  ReplyFloat(sum->result, text, reply);
  ReplyFloat(sum->added, FormatLongDouble(sum->added), reply);
}

void IncrEx(ShardContext& cx, Args args, ReplySink& reply) {
  IncrExOptions options;
  if (!ParseIncrEx(args, &options, reply)) return;
  std::optional<int64_t> deadline_ms;
  if (options.expire.unit != nullptr) {
    deadline_ms = DeadlineOf(options.expire, cx.now_ms(), "increx", reply);
    if (!deadline_ms) return;
  }
  const auto run = options.is_float ? IncrExFloat : IncrExInteger;
  run(cx, args.key(), options, deadline_ms, reply);
}

}  // namespace

void RegisterIncrEx(CommandTable* table) {
  table->Add({.name = "increx",
              .run = IncrEx,
              .arity = -2,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .effect = EffectRule::kTold,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Adds a number to that of a key, within bounds, and sets a deadline; a "
                       "missing key counts as 0.",
                       "8.8.0", "string", "O(1)"}});
}

}  // namespace dfly
