// SPDX-License-Identifier: Apache-2.0
// Commands that wait until one of their keys has something for them: how each of them is made, for
// server/blocking.h, which runs them all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commands/args.h"
#include "commands/command_table.h"
#include "core/compact_value.h"
#include "core/stream_id.h"
#include "engine/coordinator.h"
#include "engine/shard_context.h"
#include "facade/reply_sink.h"

namespace dfly {

class Transaction;

// What one call asks for.
struct BlockingCall {
  std::span<const std::string_view> keys;  // the first of them that is ready is taken from
  int64_t timeout_ms = 0;                  // 0: waits for ever
  // For each key of XREAD, what it waits for something behind: found out by its first try.
  std::vector<StreamId> after = {};
};

struct BlockingForm {
  // False: it has replied an error. The call's keys are among `args`.
  bool (*parse)(Args args, ReplySink& reply, BlockingCall* call);
  // What the keys have to be.
  ValueType type;
  // `key` exists and has that type: takes from it, and replies. Never suspends.
  void (*take)(ShardContext& cx, Args args, std::string_view key, ReplySink& reply);
  void (*reply_nothing)(ReplySink& reply);
  // For one that has a second key to put into (BLMOVE), which is in another shard: the same in the
  // hops of `tx`, which is scheduled. False: there is nothing to take. Suspends. Null: it has none.
  bool (*take_across)(CoordinatorContext& cx, Transaction& tx, Args args, ReplySink& reply);
  int target_at = 0;  // the argument that is the second key; 0: there is none

  // What follows is for those that look at all of their keys, and for more than whether they exist
  // (XREAD), instead of `take` and `take_across`.

  // Null: any call waits if need be. Others are commands like any else.
  bool (*waits)(Args args) = nullptr;
  // Takes what there is, and replies; or replies an error. False: there is nothing. The first for
  // keys in one shard, which never suspends. The second in hops of `tx`, which is scheduled;
  // suspends.
  bool (*try_here)(ShardContext& cx, Args args, BlockingCall* call, ReplySink& reply) = nullptr;
  bool (*try_across)(CoordinatorContext& cx, Transaction& tx, Args args, BlockingCall* call,
                     ReplySink& reply) = nullptr;
  // Ends the state of a key, as it is, the wait of a call that has tried? And what it is answered.
  bool (*is_ready)(const ShardContext& cx, Args args, const BlockingCall& call,
                   std::string_view key) = nullptr;
  void (*serve)(ShardContext& cx, Args args, const BlockingCall& call, std::string_view key,
                ReplySink& reply) = nullptr;
  bool minds_absence = false;  // that a key is absent may end its wait

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
