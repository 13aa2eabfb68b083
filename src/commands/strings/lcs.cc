// SPDX-License-Identifier: Apache-2.0
// LCS: what two strings have in common. The algorithm is in core/text/common_subsequence.h.
#include "commands/strings/lcs.h"

#include <optional>
#include <string>

#include "commands/table/numbers.h"
#include "core/text/common_subsequence.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

struct LcsOptions {
  bool length = false;     // LEN
  bool runs = false;       // IDX
  bool run_sizes = false;  // WITHMATCHLEN
  int64_t run_min = 0;     // MINMATCHLEN, bytes
};

// Replies the error and returns none if they are not valid.
std::optional<LcsOptions> ParseLcsOptions(Args args, ReplySink& reply) {
  LcsOptions options;
  for (size_t i = 3; i < args.size(); ++i) {
    if (IsOption(args[i], "IDX")) {
      options.runs = true;
    } else if (IsOption(args[i], "LEN")) {
      options.length = true;
    } else if (IsOption(args[i], "WITHMATCHLEN")) {
      options.run_sizes = true;
    } else if (IsOption(args[i], "MINMATCHLEN") && i + 1 < args.size()) {
      const std::optional<int64_t> size = ParseInt64(args[++i]);
      if (!size) return Refuse(reply, kErrNotInteger);
      options.run_min = *size;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  if (options.runs && options.length) {
    return Refuse(reply, "ERR If you want both the length and indexes, please just use IDX.");
  }
  return options;
}

void ReplyEnds(size_t begin, size_t size, ReplySink& reply) {
  reply.Array(2);
  reply.Integer(static_cast<int64_t>(begin));
  reply.Integer(static_cast<int64_t>(begin + size - 1));
}

void ReplyRuns(const CommonSubsequence& found, const LcsOptions& options, ReplySink& reply) {
  const auto is_shown = [&options](const CommonRun& run) {
    return static_cast<int64_t>(run.size) >= options.run_min;
  };
  size_t count = 0;
  for (const CommonRun& run : found.runs) count += is_shown(run);
  reply.Map(2);
  reply.Bulk("matches");
  reply.Array(count);
  for (const CommonRun& run : found.runs) {
    if (!is_shown(run)) continue;
    reply.Array(options.run_sizes ? 3 : 2);
    ReplyEnds(run.a_begin, run.size, reply);
    ReplyEnds(run.b_begin, run.size, reply);
    if (options.run_sizes) reply.Integer(static_cast<int64_t>(run.size));
  }
  reply.Bulk("len");
  reply.Integer(static_cast<int64_t>(found.text.size()));
}

// `cost_max` is what Redis allows for its table, which has four bytes for each pair of prefixes.
// Ours is much smaller; the limit bounds the time as well.
void ReplyWithCommon(std::string_view a, std::string_view b, Args args, uint64_t cost_max,
                     ReplySink& reply) {
  const std::optional<LcsOptions> options = ParseLcsOptions(args, reply);
  if (!options) return;
  uint64_t cost = 0;
  if (__builtin_mul_overflow(4 * (a.size() + 1), b.size() + 1, &cost) || cost > cost_max) {
    return reply.Error(
        "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
  }
  if (options->length) return reply.Integer(static_cast<int64_t>(CommonSubsequenceLength(a, b)));
  const CommonSubsequence found = FindCommonSubsequence(a, b);
  if (options->runs) return ReplyRuns(found, *options, reply);
  reply.Bulk(found.text);
}

constexpr std::string_view kErrNotStrings = "ERR The specified keys must contain string values";

void Lcs(ShardContext& cx, Args args, ReplySink& reply) {
  const auto a = cx.FindReadOnly(args[1], ValueType::kString);
  const auto b = cx.FindReadOnly(args[2], ValueType::kString);
  if (a.is_wrong_type() || b.is_wrong_type()) return reply.Error(kErrNotStrings);
  char scratch_a[CompactValue::kScratchSize];
  char scratch_b[CompactValue::kScratchSize];
  ReplyWithCommon(a ? a->View(scratch_a) : std::string_view(),
                  b ? b->View(scratch_b) : std::string_view(), args, cx.string_max(), reply);
}

// Copies both strings. Suspends.
void LcsAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::string texts[2];
  bool is_wrong_type[2] = {};
  ShardId ids[2];
  Transaction tx(cx);
  for (size_t i : {0, 1}) {
    const uint64_t hash = HashKey(args[i + 1]);
    ids[i] = cx.shards().ShardOfKey(args[i + 1], hash);
    tx.Lock(ids[i], {cx.shards().LockOfKey(args[i + 1], hash, cx.db_index()), LockMode::kShared});
  }
  const bool may_go_on = tx.Run([&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    for (size_t i : {0, 1}) {
      if (ids[i] != turn.shard().id()) continue;
      const auto value = shard_cx.FindReadOnly(args[i + 1], ValueType::kString);
      is_wrong_type[i] = value.is_wrong_type();
      if (value) texts[i] = value->ToString();
    }
  });
  if (!may_go_on) return;
  if (is_wrong_type[0] || is_wrong_type[1]) return reply.Error(kErrNotStrings);
  ReplyWithCommon(texts[0], texts[1], args, cx.shards().string_max(), reply);
}

}  // namespace

void RegisterLcs(CommandTable* table) {
  table->Add({.name = "lcs",
              .run = Lcs,
              .across = LcsAcross,
              .arity = -3,
              .flags = kReadonly,
              .categories = kAclString,
              .keys = {1, 2, 1},
              .docs = {"Finds the longest sequence of bytes that two strings have in common.",
                       "7.0.0", "string", "O(N*M) where N and M are the lengths of the strings."}});
}

}  // namespace dfly
