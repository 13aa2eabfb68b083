// SPDX-License-Identifier: Apache-2.0
// What a command gets that may wait: it runs on a fiber of its connection's thread and reaches
// shards by hops.
#pragma once

#include <cstdint>

#include "engine/hops/shard_set.h"
#include "engine/keyspace/shard_context.h"
#include "engine/queue/command_client.h"
#include "engine/queue/tx_origin.h"

namespace dfly {

class Transaction;

// Owner:    the fiber that runs one command.
// Suspends: what hops. No ShardContext exists here, so keys can be touched only in a hop's
// callback, which cannot wait.
class CoordinatorContext {
 public:
  CoordinatorContext(ShardSet* shards, CommandClient* client, int db_index, int64_t now_ms,
                     Transaction* outer = nullptr)
      : shards_(*shards),
        command_client_(client),
        db_index_(db_index),
        now_ms_(now_ms),
        outer_(outer) {}

  ShardSet& shards() { return shards_; }
  // False if the command is a script's that runs on another thread than its client: what needs a
  // client is not called from there.
  bool has_client() const { return command_client_ != nullptr; }
  CommandClient& command_client() {
    DCHECK(has_client());
    return *command_client_;
  }
  int db_index() const { return db_index_; }
  int64_t now_ms() const { return now_ms_; }
  // As ShardContext has it.
  bool is_replayed() const { return now_ms_ == 0; }
  // The EXEC or script that this command is a part of: its locks hold already. Null: it is on its
  // own. Transaction(cx) takes care of it.
  Transaction* outer() const { return outer_; }

  // It is a script's call.
  void set_scripted() { is_scripted_ = true; }
  bool is_scripted() const { return is_scripted_; }

  // If it may, its first transaction does not wait for a slow script, and refused_for tells so: it
  // has taken no effect then, returns, and what it has replied is thrown away.
  void set_may_be_refused(bool may_be_refused) { may_be_refused_ = may_be_refused; }
  bool may_be_refused() const { return may_be_refused_; }
  Slow refused_for() const { return refused_for_; }
  void OnRefused(Slow what) { refused_for_ = what; }

  // What runs here, for who wants to know its effects. `args` outlive this.
  void set_command(EffectRule rule, std::span<const std::string_view> args) {
    effect_rule_ = rule;
    args_ = args;
  }
  EffectRule effect_rule() const { return effect_rule_; }
  std::span<const std::string_view> args() const { return args_; }
  // The command has changed what belongs to no shard (a library of functions): it is its own
  // effect. Its row says kNone. Suspends: never.
  void TellOwn();

  // For the slow log: whose command it is; what it takes, in cycles, waiting for locks (and the
  // last holder of one that it has met) and for keys; and its rounds of messages to shards.
  void set_origin(const TxOrigin& origin) { origin_ = origin; }
  const TxOrigin& origin() const { return origin_; }
  void AddLocksCycles(int64_t cycles) { locks_cycles_ += cycles; }
  void set_held_by(const TxOrigin& holder) { held_by_ = holder; }
  const TxOrigin& held_by() const { return held_by_; }
  void CountHops(uint32_t count) { hops_ += count; }
  uint32_t hops() const { return hops_; }
  void AddWaitedCycles(int64_t cycles) { waited_cycles_ += cycles; }
  int64_t locks_cycles() const { return locks_cycles_; }
  int64_t waited_cycles() const { return waited_cycles_; }

  // Its client, if that caches what it reads. `client` outlives this.
  void set_client(const CachingClient* client, bool notes_reads) {
    client_ = client;
    notes_reads_ = notes_reads;
  }
  const CachingClient* client() const { return client_; }
  bool notes_reads() const { return notes_reads_; }

  // One hop: calls function(ShardContext&) on the shard and returns what it returned. Suspends.
  template <typename Function>
  auto Hop(ShardId id, Function function) {
    CountHops(1);
    return shards_.Await(id, [&](ShardTurn& turn) {
      turn.cx().set_client(client_, notes_reads_);
      return function(turn.Begin(db_index_, now_ms_));
    });
  }
  // One parallel hop to all shards. `function` runs on several threads at once. Suspends.
  template <typename Function>
  void HopToAll(Function function) {
    CountHops(1);
    shards_.AwaitOnAll([&](ShardTurn& turn) {
      turn.cx().set_client(client_, notes_reads_);
      function(turn.Begin(db_index_, now_ms_));
    });
  }

 private:
  ShardSet& shards_;
  CommandClient* const command_client_;
  const int db_index_;
  const int64_t now_ms_;
  Transaction* const outer_;
  EffectRule effect_rule_ = EffectRule::kNone;
  std::span<const std::string_view> args_;
  bool is_scripted_ = false;
  bool may_be_refused_ = false;
  Slow refused_for_ = Slow::kNone;
  int64_t locks_cycles_ = 0;
  int64_t waited_cycles_ = 0;
  TxOrigin origin_;
  TxOrigin held_by_;
  uint32_t hops_ = 0;
  const CachingClient* client_ = nullptr;
  bool notes_reads_ = false;
};

}  // namespace dfly
