// SPDX-License-Identifier: Apache-2.0
// Commands that wait until one of their keys has something for them: how each of them is made, for
// server/dispatch/blocking.h, which runs them all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commands/table/args.h"
#include "commands/table/command_table.h"
#include "core/table/compact_value.h"
#include "core/types/stream_id.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

class Transaction;

// What one call asks for.
struct BlockingCall {
  std::span<const std::string_view> keys;  // the first of them that is ready is taken from
  int64_t timeout_ms = 0;                  // 0: waits for ever
  // For each key of XREAD, the id behind which it waits for entries. The call's first try sets it.
  std::vector<StreamId> after = {};
};

struct BlockingForm {
  // False: it has replied an error. The call's keys are among `args`.
  bool (*parse)(Args args, ReplySink& reply, BlockingCall* call);
  // The type that the keys have to have.
  ValueType type;
  // `key` exists and has that type: takes from it, and replies. Never suspends.
  void (*take)(ShardContext& cx, Args args, std::string_view key, ReplySink& reply);
  void (*reply_nothing)(ReplySink& reply);
  // For one that has a second key to put into (BLMOVE), which is in another shard: the same in the
  // hops of `tx`, which is scheduled. False: there is nothing to take. Suspends. Null: it has none.
  bool (*take_across)(CoordinatorContext& cx, Transaction& tx, Args args, ReplySink& reply);
  int target_at = 0;  // the argument that is the second key; 0: there is none

  // The rest is for calls to which a key that exists is not always enough: XREAD and XREADGROUP,
  // which look at all of their keys and have no `take`, and BLMOVEM.

  // False: a call with these arguments never waits. Null: every call may wait.
  bool (*waits)(Args args) = nullptr;
  // Takes what there is, and replies; or replies an error. False: there is nothing. The first for
  // keys in one shard, which never suspends. The second in hops of `tx`, which is scheduled;
  // suspends.
  bool (*try_here)(ShardContext& cx, Args args, BlockingCall* call, ReplySink& reply) = nullptr;
  bool (*try_across)(CoordinatorContext& cx, Transaction& tx, Args args, BlockingCall* call,
                     ReplySink& reply) = nullptr;
  bool only_reads = false;  // a call that does not wait locks its keys for readers only
  // True: the call, which has tried in vain before, need not wait any more, since `key` is as it is
  // now. `serve` then replies what the call gets.
  bool (*is_ready)(const ShardContext& cx, Args args, const BlockingCall& call,
                   std::string_view key) = nullptr;
  void (*serve)(ShardContext& cx, Args args, const BlockingCall& call, std::string_view key,
                ReplySink& reply) = nullptr;
  // When `key`, as it is now, becomes ready although nothing changes it (Unix ms); 0: never. The
  // shard looks again then. Null: that is so of all.
  int64_t (*ready_at_ms)(const ShardContext& cx, Args args, std::string_view key) = nullptr;
  bool minds_absence = false;  // a key that disappears may end the wait

  bool MayWait(Args args) const { return waits == nullptr || waits(args); }
};

// The call takes from its first key that exists. False: there is none, and nothing was replied.
bool TryBlockingForm(const BlockingForm& form, ShardContext& cx, Args args, BlockingCall* call,
                     ReplySink& reply);

// A timeout in seconds, with a fraction. None: the error was replied.
std::optional<int64_t> ParseTimeout(std::string_view text, ReplySink& reply);

// The form for one shard when nobody can wait: in EXEC.
template <const BlockingForm& kForm>
void RunWithoutWaiting(ShardContext& cx, Args args, ReplySink& reply) {
  BlockingCall call;
  if (!kForm.parse(args, reply, &call)) return;
  if (!TryBlockingForm(kForm, cx, args, &call, reply)) kForm.reply_nothing(reply);
}

// The same over shards. Suspends.
void RunBlockingAcross(CoordinatorContext& cx, Args args, const BlockingForm& form,
                       ReplySink& reply);
template <const BlockingForm& kForm>
void RunAcrossWithoutWaiting(CoordinatorContext& cx, Args args, ReplySink& reply) {
  RunBlockingAcross(cx, args, kForm, reply);
}

}  // namespace dfly
