// SPDX-License-Identifier: Apache-2.0
// What a script's calls do: which keys it may use, where its commands run, and when it gives way.
//
//   in place    all of its keys are in one shard: it runs on that shard's thread, and its calls are
//               calls. As long as it does not give way nobody sees it half done, so it locks
//               nothing; when it gives way (after a slice of time) it takes what it has used so far
//               and keeps it until its end (TxQueue::Hold).
//   across      it runs on its client's thread, under a transaction; calls for shards of other
//               threads are hops.
//
// Keys that it has not declared (--undeclared_keys=learn):
//   a free key of its own shard     is locked, like the others
//   anything else, nothing written  the script is abandoned, and started again with that key, too;
//                                   the third time it gets all shards
//   anything else                   is locked where it is if it is free (LateLocks), else refused
// docs/scripting.md tells it from the user's side.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command_table.h"
#include "engine/coordinator.h"
#include "engine/shard_context.h"
#include "engine/transaction.h"
#include "helio/base/intrusive_list.h"
#include "helio/base/io_buf.h"
#include "scripting/interpreter.h"
#include "server/script_store.h"

namespace dfly {

class Worker;

// The arguments of EVAL and its like, taken apart.
struct ScriptArgs {
  std::span<const std::string_view> keys;
  std::span<const std::string_view> args;
};

// One run of a script.
// Owner:    the fiber that runs it. Kill: anybody on its thread.
// Suspends: where ScriptHost does.
class ScriptRun : public ScriptHost, public helio::ListHook<> {
 public:
  ScriptRun(Worker* worker, Script* script, int db_index, bool is_read_only, bool resp3);
  virtual ~ScriptRun();
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

  // Runs it; the reply goes to `reply`, which may be set to another target while this waits.
  // False: it was abandoned, and has to be started again (discovered()).
  bool Run(const ScriptArgs& call, ReplySink& reply);

  const Script& script() const { return *script_; }
  bool has_written() const { return has_written_; }
  bool has_given_way() const { return has_given_way_; }
  uint64_t begin_ns() const { return begin_ns_; }
  void Kill() { is_killed_ = true; }
  // It has the lock of a key that it does not declare.
  void AddLock(const TagLock& lock);

  // Keys that it used without declaring them, when it was abandoned; wants_all_keys: something that
  // no list of keys is enough for.
  std::vector<std::string>& discovered() { return discovered_; }
  bool wants_all_keys() const { return wants_all_keys_; }

  // ScriptHost
  Verdict Call(Args args, ReplySink& reply, bool may_defer) final;
  Verdict OnTick() final;
  std::optional<bool> IsAllowed(Args args) final;

 protected:
  // A key of one call.
  struct Use {
    uint64_t hash;
    ShardId shard;
    TagLock lock;
  };

  // Runs what Call has checked. Writes exactly one reply, or returns another verdict.
  virtual Verdict Execute(const Command& command, Args args, ReplySink& reply, bool may_defer) = 0;
  // Lets others run, with its locks held.
  virtual void GiveWay() = 0;
  // It waits for an interpreter: others will run.
  virtual void BeforeWait() {}

  // Locks of declared keys, and of the others that it has by now. Sorted by fingerprint.
  bool HasLock(const TagLock& lock) const;
  std::span<const TagLock> locks() const { return locks_; }
  // In its words about `key`: notes how far it is from those that are declared. False: it must not
  // be used; the error is written.
  bool MayUseUndeclared(std::string_view key, uint64_t hash, ShardId shard, ReplySink& reply);
  void Refuse(std::string_view key, std::string_view why, ReplySink& reply);
  void NoteFar() { reach_ = Reach::kFar; }
  // Starts again, or refuses the key.
  Verdict Beyond(std::string_view key, ReplySink& reply);
  Verdict WantAllKeys(const Command& command, ReplySink& reply);
  void OnWrite(const Command& command) { has_written_ |= (command.flags & kWrite) != 0; }
  LockMode lock_mode() const { return is_read_only_ ? LockMode::kShared : LockMode::kExclusive; }
  Use UseOf(std::string_view key) const;
  // A command of one shard, wherever that is. REQUIRES: nobody else can touch its keys, or it has
  // none.
  void RunOnShard(ShardId shard, const Command& command, Args args, uint64_t hash,
                  ReplySink& reply);

  Worker* worker_;
  ShardSet& shards_;
  Script* const script_;
  const ScriptRef keeps_script_;
  int db_index_;
  const bool is_read_only_;
  const bool resp3_;
  int64_t now_ms_;  // stands still while it runs
  bool is_atomic_;
  bool has_written_ = false;
  bool has_given_way_ = false;

 private:
  const Command* Resolve(Args args, ReplySink& reply) const;
  void Declare(std::span<const std::string_view> keys);
  void NoteReach(std::string_view key, uint64_t hash, ShardId shard);

  bool is_killed_ = false;
  bool is_slow_ = false;
  bool wants_all_keys_ = false;
  Reach reach_ = Reach::kDeclared;
  uint64_t begin_ns_;
  uint64_t slice_begin_ns_;
  absl::InlinedVector<TagLock, 16> locks_;
  absl::InlinedVector<uint64_t, 16> declared_tags_;  // hashes, sorted
  absl::InlinedVector<ShardId, 4> declared_shards_;  // sorted
  std::vector<std::string> discovered_;
};

// On the thread of the shard that has all its keys.
class ScriptInPlace final : public ScriptRun {
 public:
  ScriptInPlace(Worker* worker, Shard* shard, Script* script, int db_index, bool is_read_only,
                bool resp3, bool no_touch);
  ~ScriptInPlace() override;

  // It was waiting in the shard's queue, and runs as that entry.
  void RunAs(TxEntry* entry) { entry_ = entry; }
  // Its intents end; others of the shard may run meanwhile.
  void Release();
  // Somebody else ends them: it ran as an entry of the queue, and never gave way.
  void LeaveEntry() { entry_ = nullptr; }

  Verdict Finish(ReplySink& reply) override;

 protected:
  Verdict Execute(const Command& command, Args args, ReplySink& reply, bool may_defer) override;
  void GiveWay() override;
  void BeforeWait() override;

 private:
  Verdict Publish(const Command& command, Args args, ReplySink& reply);
  // False: somebody has an intent on it.
  bool LockHere(const TagLock& lock);
  void Hold();

  Shard& shard_;
  ShardContext cx_;
  TxEntry hold_;
  TxEntry* entry_ = nullptr;  // where its intents are
};

// On a coordinator's fiber.
class ScriptAcross final : public ScriptRun {
 public:
  // `tx` has its locks; null: each call is on its own.
  ScriptAcross(CoordinatorContext* cx, Transaction* tx, bool is_global, Worker* worker,
               Script* script, bool is_read_only, bool resp3);
  ~ScriptAcross() override;

  Verdict Finish(ReplySink& reply) override;

 protected:
  Verdict Execute(const Command& command, Args args, ReplySink& reply, bool may_defer) override;
  void GiveWay() override;

 private:
  // A call that waits to be sent with others.
  struct Deferred;

  Verdict ExecuteAlone(const Command& command, Args args, const Use& first, ReplySink& reply);
  Verdict ExecuteByCoordinator(const Command& command, Args args, ReplySink& reply);
  void Defer(const Command& command, Args args, const Use& first);
  // True if there was no error among what was deferred.
  bool SendDeferred(ReplySink& reply);

  CoordinatorContext& cx_;
  Transaction* const tx_;
  const bool is_global_;
  std::unique_ptr<Deferred> deferred_;
};

}  // namespace dfly
