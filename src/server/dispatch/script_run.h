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
//   anything else                   is locked where it is, before all who have not begun; refused
//                                   only if another one does that and waits
//                                   (engine/hops/late_locks.h)
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

#include "commands/table/command_table.h"
#include "core/text/string_cache.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/late_locks.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "helio/base/io_buf.h"
#include "scripting/interpreter.h"
#include "server/acl/acl_user.h"
#include "server/care/long_run.h"
#include "server/care/script_args.h"
#include "server/scripts/script_store.h"

namespace dfly {
class Session;

class CommandRunner;
class Monitors;

// One run of a script.
// Owner:    the fiber that runs it.
// Suspends: where ScriptHost does.
class ScriptRun : public LongRun {
 public:
  // `is_atomic`: it keeps its locks until its end. Not what its flags say, which may change
  // meanwhile, and which an EXEC overrules.
  // `caller`: null if it may do everything.
  ScriptRun(RunningScripts* scripts, Script* script, AclCallerRef caller, int db_index,
            bool is_atomic, bool is_read_only, bool resp3);
  ~ScriptRun() override;

  // Runs it; the reply goes to `reply`, which may be set to another target while this waits.
  // False: it was abandoned, and has to be started again (discovered()), or its command is refused.
  bool Run(const ScriptArgs& call, ReplySink& reply);

  const Script& script() const { return *script_; }
  // REQUIRES: it runs.
  std::span<const std::string_view> command() const { return call_->command; }
  bool is_script() const final { return true; }
  // It runs for a client that caches what it reads. Before Run.
  void set_client(const CachingClient& client, bool notes_reads) {
    client_ = client;
    notes_reads_ = notes_reads;
  }
  // For those who wait for what it holds. Before Run.
  void set_origin(const TxOrigin& origin) {
    origin_ = origin;
    late_locks_.set_origin(origin);
  }
  // It has the lock of a key that it does not declare.
  void AddLock(const TagLock& lock);

  // Keys that it used without declaring them, when it was abandoned; wants_all_keys: something that
  // no list of keys is enough for.
  std::vector<std::string>& discovered() { return discovered_; }
  bool wants_all_keys() const { return wants_all_keys_; }

  // ScriptHost
  Verdict Call(Args args, ReplySink& reply, bool may_defer) final;
  std::optional<bool> IsAllowed(Args args) final;

 protected:
  // Of a key.
  struct Place {
    uint64_t hash = 0;
    ShardId shard = 0;
  };
  // A key of one call.
  struct Use {
    Place place;
    TagLock lock;
    KeyHint hint = {};
  };
  enum class Access : uint8_t { kYes, kRefused, kAbandon };

  // Runs what Call has checked. Writes exactly one reply, or returns another verdict.
  virtual Verdict Execute(const Command& command, Args args, ReplySink& reply, bool may_defer) = 0;
  // Others are going to run, as it waits for something. May refuse it.
  virtual void BeforeWait() = 0;
  // Then.
  virtual bool HoldsLocks() const = 0;
  // Calls wait(), in which it waits for locks, and has an interpreter.
  template <typename Wait>
  auto WaitForLocks(Wait wait);
  // Locks a key if that costs nothing: in its own shard, or in those of its transaction.
  virtual bool LockNear(const Use& use) = 0;

  // What it does is part of this, for who wants to know that; null: nobody, or each call is a unit.
  virtual Unit* unit() = 0;

  // What `cx` does is done for its client.
  void BringClient(ShardContext* cx) const {
    if (client_.id != 0) [[unlikely]]
      cx->set_client(&client_, notes_reads_);
  }

  // The key was used before, in the same database, and it has its lock; null: not known.
  Use* FindUse(std::string_view key) { return known_keys_.Find(key); }
  // May it use the keys of this call? It has their locks then; `first` and `is_one_shard` tell
  // where they are. kRefused: the error is written. kAbandon: it starts again with them.
  Access Admit(const Command& command, Args args, Place* first, bool* is_one_shard,
               ReplySink& reply);
  // The same for a command that may touch any key.
  Access AdmitAll(const Command& command, ReplySink& reply);
  // Locks of keys, declared or not, that it has. Sorted by fingerprint.
  bool HasLock(const TagLock& lock) const;
  std::span<const TagLock> locks() const { return locks_; }
  void OnWrite(const Command& command) {
    has_grown_ |= (command.flags & kDenyOom) != 0;
    if ((command.flags & kWrite) != 0) has_called_write_ = has_written_ = true;
  }
  LockMode lock_mode() const { return is_read_only_ ? LockMode::kShared : LockMode::kExclusive; }
  // A command of one shard, wherever that is. REQUIRES: nobody else can touch its keys, if any.
  void RunOnShard(ShardId shard, const Command& command, Args args, uint64_t hash,
                  ReplySink& reply);
  // A command over shards. `session`: null if that is on another thread.
  void RunOverShards(Session* session, const Command& command, Args args, ReplySink& reply);

  // A round of messages to shards, that is none of its transaction's.
  void CountHop(size_t messages = 1);
  uint32_t hops() const { return hops_; }
  const TxOrigin& origin() const { return origin_; }

  ShardSet& shards_;
  CommandRunner& runner_;
  Monitors& monitors_;
  Script* const script_;
  const ScriptRef keeps_script_;
  const AclCallerRef caller_;
  const bool is_restricted_;  // its caller may not do everything
  int db_index_;
  const bool is_read_only_;
  const bool resp3_;
  int64_t now_ms_;  // stands still while it runs
  const bool is_atomic_;
  bool has_all_locks_ = false;
  bool has_called_write_ = false;  // has_written_: what was deferred is not written yet
  bool has_grown_ = false;         // has called a write with kDenyOom: deletes open no way
  bool is_refused_ = false;        // its transaction, and so it is abandoned
  LateLocks late_locks_;
  // It locks by itself, and not by a transaction: so it is what has them.
  bool has_own_locks_ = false;
  helio::Hold holding_;

 private:
  Interpreter::Outcome RunIn(Interpreter* interpreter, const ScriptCall& call, ReplySink& reply);
  const Command* FindCommand(std::string_view name) const;
  // True for what nearly all calls are: of a command that may be called, and has `run`. Else
  // Resolve knows more.
  bool IsPlainCall(const Command& command, Args args) const;
  // May it be called from here? Else an error is written. `command`: in, what FindCommand said;
  // out, null or the subcommand.
  bool Resolve(Args args, const Command** command, ReplySink& reply) const;
  // May its caller do that? Else an error is written, and logged.
  bool CheckAcl(const Command& command, Args args, ReplySink& reply) const;
  void Declare(std::span<const std::string_view> keys);
  Use UseOf(std::string_view key, int db_index) const;
  // How far from the declared keys it is.
  void NoteReach(std::string_view key, const Use& use);
  Access AdmitKey(std::string_view key, const Use& use, ReplySink& reply);
  void Refuse(std::string_view key, std::string_view why, ReplySink& reply);
  // On schedules from a seed: gives way, perhaps, as it might after a slice.
  void Interleave();
  void OnSlice(uint64_t now_ns) final;

  uint32_t hops_ = 0;
  TxOrigin origin_;
  const ScriptArgs* call_ = nullptr;
  CachingClient client_;  // id 0: it caches nothing
  bool notes_reads_ = false;
  bool is_slow_ = false;
  bool wants_all_keys_ = false;
  Reach reach_ = Reach::kDeclared;
  absl::InlinedVector<TagLock, 16> locks_;
  StringCache<Use, 16, 64> known_keys_;              // of db_index_; it has their locks
  absl::InlinedVector<uint64_t, 16> declared_tags_;  // hashes, sorted
  absl::InlinedVector<ShardId, 4> declared_shards_;  // sorted
  std::vector<std::string> discovered_;
};

// On the thread of the shard that has all its keys.
class ScriptInPlace final : public ScriptRun {
 public:
  ScriptInPlace(RunningScripts* scripts, Shard* shard, Script* script, AclCallerRef caller,
                int db_index, bool is_read_only, bool resp3, bool no_touch);
  ~ScriptInPlace() override;

  // It was waiting in the shard's queue, and runs as that entry, which has these tags.
  void RunAs(TxEntry* entry);
  // Its intents end; others of the shard may run meanwhile.
  void Release();
  // Somebody else ends them, as it ran as an entry of the queue and never gave way. `tags` takes
  // what the entry has by now.
  void LeaveEntry(std::vector<TagLock>* tags);

  Verdict Finish(ReplySink&) override { return Verdict::kGoOn; }  // nothing was deferred
  // Before Run, if it has one.
  void SetClient(const CachingClient& client, bool notes_reads) {
    set_client(client, notes_reads);
    BringClient(&cx_);
  }

 protected:
  Verdict Execute(const Command& command, Args args, ReplySink& reply, bool may_defer) override;
  void GiveWay() override;
  void BeforeWait() override;
  bool HoldsLocks() const override { return true; }
  bool LockNear(const Use& use) override;
  Unit* unit() override { return shards_.effect_sink() == nullptr ? nullptr : &unit_; }

 private:
  // Before its intents go.
  void DeliverEffects();
  Verdict Publish(const Command& command, Args args, ReplySink& reply);
  // All but a command with one key that it knows and that is here.
  Verdict ExecuteOther(const Command& command, Args args, ReplySink& reply);

  Shard& shard_;
  ShardContext cx_;
  Unit unit_;
  std::vector<TagLock> held_;  // of its shard; sorted
  TxEntry hold_;
  TxEntry* entry_ = nullptr;  // where its intents are
};

// On a coordinator's fiber.
class ScriptAcross final : public ScriptRun {
 public:
  // `tx` knows which locks it is to get. Null: each call is on its own. If it is not scheduled when
  // this runs it will be for the first call that has to be sent, with the locks that are known by
  // then; if all are deferred, that is one round of messages for all.
  ScriptAcross(CoordinatorContext* cx, Transaction* tx, bool is_global, RunningScripts* scripts,
               Script* script, bool is_read_only, bool resp3);
  ~ScriptAcross() override;

  // Waits for the script's locks. False: the script is refused. Other scripts may hold these locks
  // and wait for an interpreter meanwhile (InterpreterPool::BeginWait).
  bool Schedule();
  // All of its calls were deferred.
  bool only_defers() const { return only_defers_ && deferred_ != nullptr; }

  Verdict Finish(ReplySink& reply) override;

 protected:
  Verdict Execute(const Command& command, Args args, ReplySink& reply, bool may_defer) override;
  void GiveWay() override;
  void BeforeWait() override { Schedule(); }
  bool HoldsLocks() const override { return tx_ != nullptr; }
  bool LockNear(const Use& use) override;
  Unit* unit() override { return tx_ != nullptr && tx_->records() ? &tx_->unit() : nullptr; }

 private:
  // Schedule for a script that runs already: it takes its locks late (engine/hops/late_locks.h).
  bool ScheduleLate();
  struct Deferred;  // calls that wait to be sent together

  void ExecuteAlone(const Command& command, Args args, const Place& first, ReplySink& reply);
  void Defer(const Command& command, Args args, const Place& first);
  // True if there was no error among what was deferred, and it is not refused. `is_last`: nothing
  // comes behind it.
  bool SendDeferred(ReplySink& reply, bool is_last = false);

  CoordinatorContext& cx_;
  Session* const session_;  // null: it is a log's that is loaded
  Transaction* const tx_;
  std::unique_ptr<Deferred> deferred_;
  bool only_defers_ = true;
};

}  // namespace dfly
