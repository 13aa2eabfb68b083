// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/script_run.h"

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "commands/table/lookup.h"
#include "commands/table/spread.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/reply_replay.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/care/lock_watch.h"
#include "server/care/running_scripts.h"
#include "server/clients/multi.h"
#include "server/clients/server_state.h"
#include "server/dispatch/batches.h"
#include "server/dispatch/command_runner.h"
#include "server/dispatch/gates.h"
#include "server/dispatch/users.h"
#include "server/push/monitor.h"
#include "server/quotas/quotas.h"

namespace dfly {

namespace {

template <typename Locks>
auto LowerBound(Locks& locks, uint64_t fingerprint) {
  return std::lower_bound(
      locks.begin(), locks.end(), fingerprint,
      [](const TagLock& lock, uint64_t value) { return lock.fingerprint < value; });
}

}  // namespace

// --- What all have in common ---

ScriptRun::ScriptRun(RunningScripts* scripts, Script* script, AclCallerRef caller, int db_index,
                     bool is_atomic, bool is_read_only, bool resp3)
    : LongRun(scripts, script->is_function()),
      shards_(*worker_.server.shards),
      runner_(CommandRunner::Here()),
      monitors_(Monitors::Here()),
      script_(script),
      keeps_script_(script->shared_from_this()),
      caller_(std::move(caller)),
      is_restricted_(caller_ != nullptr && caller_->user != nullptr),
      db_index_(db_index),
      is_read_only_(is_read_only),
      resp3_(resp3),
      now_ms_(helio::UnixMillis()),
      is_atomic_(is_atomic),
      late_locks_(&shards_, worker_.server.upgrade.get(), this, now_ms_) {}

ScriptRun::~ScriptRun() {
  if (is_slow_) shards_.slow_scripts().Remove(this);
}

bool ScriptRun::Run(const ScriptArgs& call, ReplySink& reply) {
  if (has_own_locks_) holding_.Begin();
  const absl::Cleanup end = [this] { holding_.End(); };
  Declare(call.keys);
  InterpreterPool& pool = scripts_.interpreters();
  Interpreter* interpreter = pool.TryTake();
  if (interpreter == nullptr) {
    BeforeWait();
    if (is_refused_) return false;
    interpreter = pool.Take(HoldsLocks());
  }
  call_ = &call;
  Begin();
  const auto outcome =
      RunIn(interpreter, {.sha = script_->sha, .keys = call.keys, .args = call.args}, reply);
  End();
  pool.GiveBack(interpreter);
  scripts_.OnInterpreterBack();
  if (!late_locks_.empty()) [[unlikely]]
    late_locks_.Release();
  Script& script = *script_;
  if (is_refused_) return false;
  if (outcome == Interpreter::Outcome::kAbandoned) {
    const uint64_t restarts = script.restarts.fetch_add(1, std::memory_order_relaxed) + 1;
    // Now and then is no harm, but to begin twice each time is.
    if (restarts * 8 > script.runs.load(std::memory_order_relaxed) + 16) script.Saw(Reach::kFar);
    return false;
  }
  script.Saw(reach_);
  if (script.watched_runs.load(std::memory_order_relaxed) < Script::kWatchedRuns) {
    script.watched_runs.fetch_add(1, std::memory_order_relaxed);
  }
  script.runs.fetch_add(1, std::memory_order_relaxed);
  script.total_us.fetch_add((helio::MonotonicNanos() - begin_ns()) / helio::kNanosPerMicro,
                            std::memory_order_relaxed);
  const int64_t now_s = now_ms_ / 1000;
  if (script.used_at_s.load(std::memory_order_relaxed) != now_s) {
    script.used_at_s.store(now_s, std::memory_order_relaxed);
  }
  return true;
}

Interpreter::Outcome ScriptRun::RunIn(Interpreter* interpreter, const ScriptCall& call,
                                      ReplySink& reply) {
  std::string error;
  if (!script_->is_function()) [[likely]] {
    if (interpreter->Load(call.sha, script_->code, &error, this)) {
      return interpreter->Run(call, this, reply);
    }
  } else {
    const LibraryCode& library = *script_->library;
    const auto is_there = [&] { return interpreter->HasFunction(call.sha, library.version); };
    std::vector<Interpreter::FunctionInfo> functions;
    if (is_there() || (interpreter->LoadLibrary(library.name, library.code, &functions, &error,
                                                library.version, this) &&
                       is_there())) {
      return interpreter->CallFunction(call.sha, call, this, reply);
    }
    // It registers what it likes: not the same each time, perhaps.
    if (error.empty()) error = kErrNoFunction;
  }
  reply.Error(error);
  return Interpreter::Outcome::kDone;
}

void ScriptRun::Declare(std::span<const std::string_view> keys) {
  for (std::string_view key : keys) {
    const uint64_t hash = HashKey(key);
    AddLock({shards_.LockOfKey(key, hash, db_index_), lock_mode()});
    declared_tags_.push_back(shards_.HashOfTag(key, hash));
    declared_shards_.push_back(shards_.ShardOfKey(key, hash));
  }
  std::sort(declared_tags_.begin(), declared_tags_.end());
  std::sort(declared_shards_.begin(), declared_shards_.end());
}

bool ScriptRun::HasLock(const TagLock& lock) const {
  const auto at = LowerBound(locks_, lock.fingerprint);
  return at != locks_.end() && at->fingerprint == lock.fingerprint;
}

void ScriptRun::AddLock(const TagLock& lock) {
  const auto at = LowerBound(locks_, lock.fingerprint);
  if (at == locks_.end() || at->fingerprint != lock.fingerprint) locks_.insert(at, lock);
}

auto ScriptRun::UseOf(std::string_view key, int db_index) const -> Use {
  const uint64_t hash = HashKey(key);
  return {.place = {.hash = hash, .shard = shards_.ShardOfKey(key, hash)},
          .lock = {shards_.LockOfKey(key, hash, db_index), lock_mode()}};
}

void ScriptRun::NoteReach(std::string_view key, const Use& use) {
  if (std::binary_search(declared_tags_.begin(), declared_tags_.end(),
                         shards_.HashOfTag(key, use.place.hash))) {
    reach_ = std::max(reach_, Reach::kTags);
  } else if (std::binary_search(declared_shards_.begin(), declared_shards_.end(),
                                use.place.shard)) {
    reach_ = std::max(reach_, Reach::kShard);
  } else {
    reach_ = Reach::kFar;
  }
}

template <typename Wait>
auto ScriptRun::WaitForLocks(Wait wait) {
  scripts_.interpreters().BeginWait();
  const absl::Cleanup end = [this] { scripts_.interpreters().EndWait(); };
  return wait();
}

auto ScriptRun::Admit(const Command& command, Args args, Place* first, bool* is_one_shard,
                      ReplySink& reply) -> Access {
  *is_one_shard = true;
  if (command.only_key != 0) {
    if (const Use* const known = FindUse(args[command.only_key])) {
      *first = known->place;
      return Access::kYes;
    }
  }
  const KeyIndexes keys = command.KeysOf(args);
  const int other_db = command.other_db != nullptr ? command.other_db(args) : -1;
  for (size_t i : keys) {
    const std::string_view key = args[i];
    const Use* const known = FindUse(key);
    const Use use = known != nullptr ? *known : UseOf(key, db_index_);
    if (i == keys.first()) {
      *first = use.place;
    } else {
      *is_one_shard &= use.place.shard == first->shard;
    }
    Access access = Access::kYes;
    if (known == nullptr) {
      if (!HasLock(use.lock)) access = AdmitKey(key, use, reply);
      if (access == Access::kYes) known_keys_.Put(key, use);
    }
    if (access == Access::kYes && other_db >= 0) [[unlikely]] {
      const Use other = UseOf(key, other_db);
      if (!HasLock(other.lock)) access = AdmitKey(key, other, reply);
    }
    if (access != Access::kYes) return access;
  }
  return Access::kYes;
}

auto ScriptRun::AdmitKey(std::string_view key, const Use& use, ReplySink& reply) -> Access {
  NoteReach(key, use);
  if (worker_.server.options.undeclared_keys == UndeclaredKeys::kRefuse &&
      (script_->flags.load(std::memory_order_relaxed) & kAllowUndeclaredKeys) == 0) [[unlikely]] {
    Refuse(key, "is not one of its KEYS", reply);
    return Access::kRefused;
  }
  if (has_all_locks_ || !is_atomic_) return Access::kYes;
  if (!LockNear(use)) {
    if (!has_written_) {
      discovered_.emplace_back(key);
      return Access::kAbandon;
    }
    script_->Saw(Reach::kFar);  // next time it gets what it needs at once
    BeforeWait();
    const ShardId shard = use.place.shard;
    const bool is_locked = late_locks_.Try(shard, use.lock) ||
                           (late_locks_.TakeUpgrade() &&
                            WaitForLocks([&] { return late_locks_.Lock(shard, use.lock); }));
    if (!is_locked) {
      Refuse(key, "is not one of its KEYS and cannot be locked now, as it has written already",
             reply);
      return Access::kRefused;
    }
    if (is_slow_) Batches::RefuseBusyWaitersOnAll(worker_.server);
    Interleave();
  }
  AddLock(use.lock);
  return Access::kYes;
}

auto ScriptRun::AdmitAll(const Command& command, ReplySink& reply) -> Access {
  reach_ = Reach::kFar;
  if (has_all_locks_ || !is_atomic_) return Access::kYes;
  script_->Saw(Reach::kFar);
  if (!has_written_) {
    wants_all_keys_ = true;
    return Access::kAbandon;
  }
  BeforeWait();
  has_all_locks_ =
      late_locks_.TakeUpgrade() && WaitForLocks([this] { return late_locks_.LockAllShards(); });
  if (has_all_locks_) {
    if (is_slow_) Batches::RefuseBusyWaitersOnAll(worker_.server);
    return Access::kYes;
  }
  script_->refused.fetch_add(1, std::memory_order_relaxed);
  ++worker_.stats.scripts.refused_keys;
  reply.Error(
      fmt::format("ERR Script called '{}', for which all shards cannot be locked now, as it has "
                  "written already. Run it with the flag allow-undeclared-keys",
                  command.full_name));
  return Access::kRefused;
}

void ScriptRun::Refuse(std::string_view key, std::string_view why, ReplySink& reply) {
  script_->refused.fetch_add(1, std::memory_order_relaxed);
  ++worker_.stats.scripts.refused_keys;
  const std::string how =
      script_->is_function()
          ? "register it with the flag allow-undeclared-keys (or --default_lua_flags)"
          : fmt::format(
                "run the script with the flag allow-undeclared-keys (#!lua "
                "flags=allow-undeclared-keys, SCRIPT FLAGS {} allow-undeclared-keys, or "
                "--default_lua_flags)",
                script_->sha);
  reply.Error(
      fmt::format("ERR {} tried to use the key '{}', which {}. Pass it as one of its KEYS, or {}",
                  script_->is_function() ? "Function" : "Script", Printed(key, 128), why, how));
}

const Command* ScriptRun::FindCommand(std::string_view name) const {
  RunningScripts::Commands& known = scripts_.commands();
  if (const Command* const* const cached = known.Find(name); cached != nullptr) [[likely]] {
    return *cached;
  }
  const Command* const command = worker_.server.commands.Find(name);
  known.Put(name, command);
  return command;
}

bool ScriptRun::IsPlainCall(const Command& command, Args args) const {
  if (!command.is_scriptable || !FindFrom(command, args).is_found()) return false;
  if (is_restricted_) return false;
  if ((command.flags & (kWrite | kDenyOom | kMayReplicate)) == 0) return true;
  const ServerState& server = worker_.server;
  return !is_read_only_ && server.settings.gate.load(std::memory_order_relaxed) == 0 &&
         !server.settings.limits_databases.load(std::memory_order_relaxed) &&
         (has_called_write_ || !server.memory.is_exhausted());
}

bool ScriptRun::Resolve(Args args, const Command** found, ReplySink& reply) const {
  const Command*& command = *found;
  const Lookup lookup =
      command != nullptr ? FindFrom(*command, args) : Lookup{.end = Lookup::End::kUnknown};
  command = lookup.end != Lookup::End::kUnknownSubcommand ? lookup.row : nullptr;
  if (command == nullptr) {
    reply.Error("ERR Unknown Redis command called from script");
    return false;
  }
  if (!lookup.is_found()) {
    reply.Error("ERR Wrong number of args calling Redis command from script");
    return false;
  }
  const auto is_for_test = [&] {
    return command->full_name == "debug" && worker_.server.settings.scripts_may_debug;
  };
  if (((command->flags & kNoScript) != 0 && !is_for_test()) || command->runs_script) {
    reply.Error("ERR This Redis command is not allowed from script");
    return false;
  }
  if (is_restricted_ && !CheckAcl(*command, args, reply)) return false;
  if (is_read_only_ && (command->flags & (kWrite | kMayReplicate)) != 0) {
    reply.Error("ERR Write commands are not allowed from read-only scripts.");
    return false;
  }
  // The disk may fail, replicas leave, or the role change, while the script runs. What it has begun
  // it ends: in Redis nothing of that kind happens in the middle of a script.
  const uint16_t gate = worker_.server.settings.gate.load(std::memory_order_relaxed);
  const bool begins = (command->flags & kWrite) != 0 && !has_called_write_;
  if ((gate & (Settings::kNoDiskGates | Settings::kNoReplicasGate)) != 0 && begins) {
    const bool is_disk = (gate & Settings::kNoDiskGates) != 0;
    reply.Error(is_disk ? Gates::MisconfError(worker_.server.settings)
                        : std::string(kErrNoReplicas));
    return false;
  }
  if ((gate & (Settings::kReadOnlyGate | Settings::kPromotesGate)) != 0 && begins) {
    reply.Error(kErrReadOnly);
    return false;
  }
  const bool allows_oom = (script_->flags.load(std::memory_order_relaxed) & kAllowOom) != 0;
  if ((command->flags & kDenyOom) != 0 && !has_called_write_ && !allows_oom &&
      worker_.server.memory.is_exhausted()) {
    reply.Error(kErrOutOfMemory);
    return false;
  }
  if (has_grown_) return true;
  const std::string error = Quotas::Here().MemoryErrorOf(*command, args, db_index_);
  if (!error.empty()) reply.Error(error);
  return error.empty();
}

bool ScriptRun::CheckAcl(const Command& command, Args args, ReplySink& reply) const {
  const AclVerdict verdict = caller_->user->Check(command, args, {db_index_, shards_.db_count()});
  if (!verdict.is_denied()) return true;
  Users::Here().LogScriptDenial(verdict, *caller_, command, args);
  reply.Error(ScriptDenialError(verdict, caller_->name, command));
  return false;
}

ScriptHost::Verdict ScriptRun::Call(Args args, ReplySink& reply, bool may_defer) {
  if (is_killed_) [[unlikely]]
    return Verdict::kKill;
  const Command* command = FindCommand(args.name());
  if (command != nullptr && IsPlainCall(*command, args)) [[likely]] {
    Interleave();
    if (monitors_.any()) [[unlikely]]
      monitors_.Feed(db_index_, "lua", *command, args);
    return Execute(*command, args, reply, may_defer);
  }
  if (!Resolve(args, &command, reply)) [[unlikely]] {
    runner_.CountRejected(command, reply);
    return Verdict::kGoOn;
  }
  Interleave();
  if (monitors_.any() && (command->flags & (kAdmin | kSkipMonitor)) == 0) [[unlikely]]
    monitors_.Feed(db_index_, "lua", *command, args);
  if (command->run != nullptr) return Execute(*command, args, reply, may_defer);
  if (command->scripted != nullptr) {
    runner_.RunCounted<CommandRunner::Timing::kInner>(*command, args, reply,
                                                      [&] { command->scripted(args, reply); });
    return Verdict::kGoOn;
  }
  if (command->full_name == "select") {
    runner_.RunCounted<CommandRunner::Timing::kInner>(*command, args, reply, [&] {
      const auto index = ParseInt64(args[1]);
      if (!index) return reply.Error(kErrNotInteger);
      if (*index < 0 || *index >= shards_.db_count()) return reply.Error(kErrDbIndex);
      db_index_ = static_cast<int>(*index);
      known_keys_.Clear();
      reply.Ok();
    });
    return Verdict::kGoOn;
  }
  return Execute(*command, args, reply, may_defer);
}

void ScriptRun::Interleave() {
  if (MessageShuffle* const shuffle = worker_.shuffle.get(); shuffle != nullptr) [[unlikely]] {
    if (shuffle->OneIn(2)) GiveWay();
  }
}

void ScriptRun::OnSlice(uint64_t now_ns) {
  const uint64_t threshold_ms =
      worker_.server.settings.busy_reply_threshold_ms.load(std::memory_order_relaxed);
  if (is_slow_ || threshold_ms == 0 || now_ns - begin_ns() <= threshold_ms * helio::kNanosPerMilli)
    return;
  is_slow_ = true;
  shards_.slow_scripts().Add(this, is_function() ? Slow::kFunction : Slow::kScript);
  Batches::RefuseBusyWaitersOnAll(worker_.server);
}

std::optional<bool> ScriptRun::IsAllowed(Args args) {
  const Lookup found = Find(worker_.server.commands, args);
  if (!found.is_found()) return {};
  return !is_restricted_ ||
         !caller_->user->Check(*found.row, args, {db_index_, shards_.db_count()}).is_denied();
}

void ScriptRun::CountHop(size_t messages) {
  worker_.stats.scripts.hops += messages;
  ++hops_;
}

void ScriptRun::RunOnShard(ShardId shard, const Command& command, Args args, uint64_t hash,
                           ReplySink& reply) {
  const auto run = [&](ShardTurn& turn, ReplySink& sink) {
    ShardContext& cx = turn.Begin(db_index_, now_ms_);
    BringClient(&cx);
    const UnitScope scope(turn.shard(), unit());
    CommandRunner::Here().RunHandler<CommandRunner::Timing::kInner>(cx, command, args, hash, sink);
  };
  if (shards_.is_local(shard)) {
    return shards_.Await(shard, [&](ShardTurn& turn) { run(turn, reply); });
  }
  CountHop();
  helio::IoBuf bytes;
  RespWriter writer(&bytes, reply.resp3());
  shards_.Await(shard, [&](ShardTurn& turn) { run(turn, writer); });
  ReplayReply(bytes.view(), reply);
}

void ScriptRun::RunOverShards(Session* session, const Command& command, Args args,
                              ReplySink& reply) {
  CountHop();
  helio::IoBuf bytes;
  RespWriter writer(&bytes, reply.resp3());
  Transaction locked(&shards_, Transaction::IsLocked(), unit());
  CoordinatorContext cx(&shards_, session, db_index_, now_ms_, is_atomic_ ? &locked : nullptr);
  cx.set_command(command.effect, args.all());
  cx.set_scripted();
  if (client_.id != 0) cx.set_client(&client_, notes_reads_);
  if (command.session != nullptr) {
    runner_.RunCounted<CommandRunner::Timing::kInner>(
        command, args, writer, [&] { command.session(*session, args, writer); });
  } else {
    const CoordinatorHandler handler =
        command.coordinate != nullptr ? command.coordinate : command.across;
    runner_.RunWaiting(command, args, writer, nullptr, [&] {
      if (handler != nullptr) {
        handler(cx, args, writer);
      } else {
        RunSpread(cx, command, args, writer);
      }
    });
  }
  if (worker_.server.audit != nullptr) [[unlikely]]
    runner_.AuditScripted(caller_.get(), db_index_, command, args, writer);
  ReplayReply(bytes.view(), reply);
}

// --- In place ---

ScriptInPlace::ScriptInPlace(RunningScripts* scripts, Shard* shard, Script* script,
                             AclCallerRef caller, int db_index, bool is_read_only, bool resp3,
                             bool no_touch)
    : ScriptRun(scripts, script, std::move(caller), db_index, /*is_atomic=*/true, is_read_only,
                resp3),
      shard_(*shard),
      cx_(*shard) {
  cx_.set_no_touch(no_touch);
  has_own_locks_ = true;
  late_locks_.set_hold(&holding_);
}

ScriptInPlace::~ScriptInPlace() { DCHECK(entry_ == nullptr); }

ScriptHost::Verdict ScriptInPlace::Execute(const Command& command, Args args, ReplySink& reply,
                                           bool) {
  if (command.only_key != 0) [[likely]] {
    Use* const use = FindUse(args[command.only_key]);
    if (use != nullptr && use->place.shard == shard_.id()) [[likely]] {
      OnWrite(command);
      cx_.Begin(db_index_, now_ms_);
      const UnitScope scope(shard_, unit());
      CommandRunner::Here().RunHandler<CommandRunner::Timing::kInner>(
          cx_, command, args, use->place.hash, reply, &use->hint);
      return Verdict::kGoOn;
    }
  }
  return ExecuteOther(command, args, reply);
}

ScriptHost::Verdict ScriptInPlace::ExecuteOther(const Command& command, Args args,
                                                ReplySink& reply) {
  if (command.channel_at != 0) return Publish(command, args, reply);
  Place first;
  bool is_one_shard = false;
  Access access = Access::kYes;
  if (command.run != nullptr) [[likely]] {
    access = Admit(command, args, &first, &is_one_shard, reply);
  } else if (command.coordinate != nullptr &&
             (command.flags & (kWrite | kReadonly | kNoScript)) == 0) {
    // INFO and its like touch no keys, and need no client.
    BeforeWait();
    RunOverShards(nullptr, command, args, reply);
    return Verdict::kGoOn;
  } else if ((command.flags & (kWrite | kReadonly)) == 0 && has_written_) {
    // It needs its client, who is elsewhere.
    reply.Error("ERR This Redis command is not allowed from script after it has written");
    runner_.CountRejected(&command, reply);
    return Verdict::kGoOn;
  } else {
    access = AdmitAll(command, reply);
  }
  if (access != Access::kYes) [[unlikely]] {
    if (access == Access::kRefused) runner_.CountRejected(&command, reply);
    return access == Access::kAbandon ? Verdict::kAbandon : Verdict::kGoOn;
  }
  OnWrite(command);
  if (is_one_shard && first.shard == shard_.id()) [[likely]] {
    cx_.Begin(db_index_, now_ms_);
    const UnitScope scope(shard_, unit());
    CommandRunner::Here().RunHandler<CommandRunner::Timing::kInner>(cx_, command, args, first.hash,
                                                                    reply);
    return Verdict::kGoOn;
  }
  cx_.Finish();
  if (is_one_shard) {
    RunOnShard(first.shard, command, args, first.hash, reply);
  } else {
    RunOverShards(nullptr, command, args, reply);
  }
  return Verdict::kGoOn;
}

bool ScriptInPlace::LockNear(const Use& use) {
  if (use.place.shard != shard_.id()) return false;
  TxQueue& queue = shard_.transactions();
  if (entry_ == nullptr) return queue.empty() || !queue.Conflicts(use.lock);
  if (queue.Conflicts(use.lock)) return false;
  held_.insert(LowerBound(held_, use.lock.fingerprint), use.lock);
  const bool is_held = queue.HoldAlso(entry_, use.lock, held_);
  DCHECK(is_held);
  return true;
}

// Nothing is locked for it; and who has got the message will not forget it.
ScriptHost::Verdict ScriptInPlace::Publish(const Command& command, Args args, ReplySink& reply) {
  const std::string_view channel = args[command.routed_by(args)];
  const uint64_t hash = HashKey(channel);
  const ShardId shard = shards_.ShardOfKey(channel, hash);
  has_written_ = true;
  cx_.Finish();
  if (!shards_.is_local(shard)) BeforeWait();
  RunOnShard(shard, command, args, hash, reply);
  return Verdict::kGoOn;
}

void ScriptInPlace::RunAs(TxEntry* entry) {
  entry_ = entry;
  entry_->owner = this;
  entry_->clock_ms = now_ms_;
  entry_->hold = &holding_;
  held_.assign(entry->tags.begin(), entry->tags.end());
}

void ScriptInPlace::DeliverEffects() {
  if (unit_.effects().empty()) return;
  shards_.effect_sink()->OnUnit(unit_.effects(), UnitOrigin::kCoordinator);
  unit_.Clear();
}

void ScriptInPlace::LeaveEntry(std::vector<TagLock>* tags) {
  cx_.Finish();
  DeliverEffects();
  *tags = std::move(held_);
  entry_->tags = *tags;
  entry_->owner = nullptr;
  entry_->clock_ms = INT64_MAX;
  entry_->hold = nullptr;
  entry_ = nullptr;
}

void ScriptInPlace::BeforeWait() {
  cx_.Finish();
  if (entry_ != nullptr) return;
  // What it has in other shards came later than this.
  held_.assign(locks().begin(), locks().end());
  hold_.tags = held_;
  hold_.owner = this;
  hold_.clock_ms = now_ms_;
  hold_.origin = origin();
  hold_.hold = &holding_;
  shard_.transactions().Hold(&hold_);
  entry_ = &hold_;
}

void ScriptInPlace::GiveWay() {
  BeforeWait();
  LockWatch::Here().Begin();
  scripts_.CountInterpreters();
  { const ShardTurn turn(shard_); }  // ends what it has done so far
  const helio::BoundedWait wait(helio::kItsTurn);
  helio::this_fiber::Yield();
}

void ScriptInPlace::Release() {
  cx_.Finish();
  DeliverEffects();
  if (TxEntry* const entry = std::exchange(entry_, nullptr)) {
    shard_.transactions().Release(entry);
    entry->owner = nullptr;
    entry->clock_ms = INT64_MAX;
    entry->hold = nullptr;
  }
}

// --- Across shards ---

// Calls that wait, sorted by shard.
struct ScriptAcross::Deferred {
  struct Item {
    const Command* command;
    uint64_t hash;
    int db_index;
    size_t first_arg;
    size_t arg_count;
    size_t number;
  };
  struct Part {
    std::vector<Item> items;
    std::string bytes;
    std::vector<size_t> ends;  // of arguments in `bytes`
    std::string error;         // the first one
    size_t error_number = SIZE_MAX;
  };
  static void ViewArgs(const Part& part, const Item& item, std::vector<std::string_view>* args) {
    args->clear();
    size_t begin = item.first_arg == 0 ? 0 : part.ends[item.first_arg - 1];
    for (size_t i = item.first_arg; i < item.first_arg + item.arg_count; ++i) {
      args->emplace_back(part.bytes.data() + begin, part.ends[i] - begin);
      begin = part.ends[i];
    }
  }

  std::vector<Part> parts;  // by shard
  std::vector<ShardId> ids;
  size_t count = 0;
  size_t bytes = 0;
};

ScriptAcross::ScriptAcross(CoordinatorContext* cx, Transaction* tx, bool is_global,
                           RunningScripts* scripts, Script* script, bool is_read_only, bool resp3)
    : ScriptRun(scripts, script,
                cx->has_client() ? Users::Here().CallerOf(SessionOf(*cx)) : nullptr, cx->db_index(),
                tx != nullptr, is_read_only, resp3),
      cx_(*cx),
      session_(cx->has_client() ? &SessionOf(*cx) : nullptr),
      tx_(tx) {
  has_all_locks_ = is_global;
  if (cx->client() != nullptr) set_client(*cx->client(), cx->notes_reads());
  set_origin(cx->origin());
  if (tx != nullptr) late_locks_.set_hold(tx->holding());
}

ScriptAcross::~ScriptAcross() { cx_.CountHops(hops()); }

ScriptHost::Verdict ScriptAcross::Execute(const Command& command, Args args, ReplySink& reply,
                                          bool may_defer) {
  constexpr size_t kDeferredMax = 4096;
  constexpr size_t kDeferredBytesMax = 1 << 20;
  const bool is_for_channel = command.channel_at != 0;
  Place first;
  bool is_one_shard = true;
  Access access = Access::kYes;
  if (is_for_channel) {
    first.hash = HashKey(args[command.routed_by(args)]);
    first.shard = shards_.ShardOfKey(args[command.routed_by(args)], first.hash);
    has_written_ = true;  // who has got the message will not forget it
  } else if (command.run != nullptr) [[likely]] {
    access = Admit(command, args, &first, &is_one_shard, reply);
  } else {
    is_one_shard = false;
    if (command.session != nullptr && session_ == nullptr) {
      reply.Error("ERR This Redis command needs a client, and the script of a log has none");
      runner_.CountRejected(&command, reply);
      return Verdict::kGoOn;
    }
    if ((command.flags & (kWrite | kReadonly)) != 0) {
      if (!ScheduleLate()) return Verdict::kAbandon;
      access = AdmitAll(command, reply);
    }
  }
  if (access != Access::kYes) [[unlikely]] {
    if (access == Access::kRefused) runner_.CountRejected(&command, reply);
    return access == Access::kAbandon ? Verdict::kAbandon : Verdict::kGoOn;
  }
  if (may_defer && is_one_shard && (command.flags & kWrite) != 0) {
    has_called_write_ = true;
    has_grown_ |= (command.flags & kDenyOom) != 0;
    Defer(command, args, first);
    const bool is_full = deferred_->count >= kDeferredMax || deferred_->bytes >= kDeferredBytesMax;
    if (!is_full || SendDeferred(reply)) return Verdict::kDeferred;
    return is_refused_ ? Verdict::kAbandon : Verdict::kGoOn;
  }
  only_defers_ = false;
  if (!SendDeferred(reply) || !ScheduleLate()) {
    return is_refused_ ? Verdict::kAbandon : Verdict::kGoOn;
  }
  OnWrite(command);
  if (!is_one_shard && tx_ == nullptr) {
    WaitForLocks([&] { RunOverShards(session_, command, args, reply); });
  } else if (!is_one_shard) {
    RunOverShards(session_, command, args, reply);
  } else if (tx_ == nullptr && !is_for_channel) {
    ExecuteAlone(command, args, first, reply);
  } else if (worker_.server.options.singlehop_commands || is_for_channel) {
    RunOnShard(first.shard, command, args, first.hash, reply);
  } else {
    ++worker_.stats.scripts.hops;
    helio::IoBuf bytes;
    RespWriter writer(&bytes, reply.resp3());
    tx_->HopOn({&first.shard, 1}, [&](ShardTurn& turn) {
      ShardContext& cx = turn.Begin(db_index_, now_ms_);
      BringClient(&cx);
      CommandRunner::Here().RunHandler<CommandRunner::Timing::kInner>(cx, command, args, first.hash,
                                                                      writer);
    });
    ReplayReply(bytes.view(), reply);
  }
  return Verdict::kGoOn;
}

bool ScriptAcross::Schedule() {
  if (tx_ == nullptr || tx_->is_scheduled()) return true;
  is_refused_ = !tx_->Schedule();
  worker_.stats.scripts.hops += 2 * tx_->shard_ids().size();
  return !is_refused_;
}

bool ScriptAcross::ScheduleLate() {
  if (tx_ == nullptr || tx_->is_scheduled()) return true;
  return WaitForLocks([this] { return Schedule(); });
}

bool ScriptAcross::LockNear(const Use& use) {
  if (!tx_->is_scheduled()) {
    tx_->Lock(use.place.shard, use.lock);
    return true;
  }
  const std::span<const ShardId> ids = tx_->shard_ids();
  return std::find(ids.begin(), ids.end(), use.place.shard) != ids.end() &&
         late_locks_.Try(use.place.shard, use.lock);
}

void ScriptAcross::ExecuteAlone(const Command& command, Args args, const Place& first,
                                ReplySink& reply) {
  if (shards_.is_local(first.shard) && shards_.local(first.shard).transactions().empty()) {
    return RunOnShard(first.shard, command, args, first.hash, reply);
  }
  Transaction tx(&shards_, nullptr);
  tx.set_origin(cx_.origin());
  const int other_db = command.other_db != nullptr ? command.other_db(args) : -1;
  for (size_t i : command.KeysOf(args)) {
    const uint64_t hash = HashKey(args[i]);
    tx.Lock(first.shard, {shards_.LockOfKey(args[i], hash, db_index_), command.lock_mode()});
    if (other_db < 0) continue;
    tx.Lock(first.shard, {shards_.LockOfKey(args[i], hash, other_db), command.lock_mode()});
  }
  helio::IoBuf bytes;
  RespWriter writer(&bytes, reply.resp3());
  CountHop();
  const bool may_run = WaitForLocks([&] {
    return tx.Run([&](ShardTurn& turn) {
      ShardContext& cx = turn.Begin(db_index_, now_ms_);
      BringClient(&cx);
      CommandRunner::Here().RunHandler<CommandRunner::Timing::kInner>(cx, command, args, first.hash,
                                                                      writer);
    });
  });
  DCHECK(may_run);
  ReplayReply(bytes.view(), reply);
}

void ScriptAcross::Defer(const Command& command, Args args, const Place& first) {
  if (deferred_ == nullptr) {
    deferred_ = std::make_unique<Deferred>();
    deferred_->parts.resize(shards_.size());
  }
  Deferred::Part& part = deferred_->parts[first.shard];
  if (part.items.empty()) deferred_->ids.push_back(first.shard);
  part.items.push_back({.command = &command,
                        .hash = first.hash,
                        .db_index = db_index_,
                        .first_arg = part.ends.size(),
                        .arg_count = args.size(),
                        .number = deferred_->count++});
  for (std::string_view arg : args.all()) {
    part.bytes.append(arg);
    part.ends.push_back(part.bytes.size());
    deferred_->bytes += arg.size();
  }
}

bool ScriptAcross::SendDeferred(ReplySink& reply, bool is_last) {
  if (deferred_ == nullptr || deferred_->count == 0) [[likely]] {
    return true;
  }
  Deferred& deferred = *deferred_;
  has_written_ = true;
  worker_.stats.scripts.deferred_calls += deferred.count;
  const auto run_part = [&](ShardTurn& turn) {
    Deferred::Part& part = deferred.parts[turn.shard().id()];
    helio::IoBuf bytes;
    RespWriter writer(&bytes, resp3_);
    BringClient(&turn.cx());
    std::vector<std::string_view> args;
    for (const Deferred::Item& item : part.items) {
      Deferred::ViewArgs(part, item, &args);
      ShardContext& cx = turn.Begin(item.db_index, now_ms_);
      const uint64_t errors_before = writer.error_count();
      CommandRunner::Here().RunHandler<CommandRunner::Timing::kInner>(cx, *item.command, Args(args),
                                                                      item.hash, writer);
      if (writer.error_count() != errors_before && part.error_number == SIZE_MAX) {
        part.error_number = item.number;
        part.error = bytes.view().substr(1, bytes.size() - 3);
      }
      bytes.Clear();
    }
  };
  const bool concludes = is_last && late_locks_.empty();
  if (tx_ != nullptr && !tx_->is_scheduled()) {
    is_refused_ = !WaitForLocks(
        [&] { return concludes ? tx_->Run(run_part) : tx_->ScheduleAndHop(run_part); });
    if (is_refused_) return false;
    worker_.stats.scripts.hops += 2 * tx_->shard_ids().size();
  } else if (tx_ != nullptr && concludes) {
    tx_->HopAndConclude(deferred.ids, run_part);
  } else if (tx_ != nullptr) {
    CountHop(deferred.ids.size());
    // Not in the queues, as all its locks are there; but by it if it collects what is done.
    tx_->records() ? tx_->HopOn(deferred.ids, run_part) : shards_.AwaitOn(deferred.ids, run_part);
  } else {
    Transaction tx(&shards_, nullptr);
    tx.set_origin(cx_.origin());
    std::vector<std::string_view> args;
    for (ShardId id : deferred.ids) {
      for (const Deferred::Item& item : deferred.parts[id].items) {
        Deferred::ViewArgs(deferred.parts[id], item, &args);
        for (size_t i : item.command->KeysOf(Args(args))) {
          tx.Lock(id, {shards_.LockOfKey(args[i], HashKey(args[i]), item.db_index),
                       item.command->lock_mode()});
        }
      }
    }
    CountHop(2 * deferred.ids.size());
    const bool may_run = WaitForLocks([&] { return tx.Run(run_part); });
    DCHECK(may_run);
  }
  const Deferred::Part* failed = nullptr;
  for (ShardId id : deferred.ids) {
    const Deferred::Part& part = deferred.parts[id];
    if (failed == nullptr || part.error_number < failed->error_number) failed = &part;
  }
  const bool is_good = failed->error_number == SIZE_MAX;
  if (!is_good) reply.Error(failed->error);
  for (ShardId id : deferred.ids) deferred.parts[id] = Deferred::Part();
  deferred.ids.clear();
  deferred.count = deferred.bytes = 0;
  return is_good;
}

ScriptHost::Verdict ScriptAcross::Finish(ReplySink& reply) {
  SendDeferred(reply, true);
  return is_refused_ ? Verdict::kAbandon : Verdict::kGoOn;
}

void ScriptAcross::GiveWay() {
  scripts_.CountInterpreters();
  const helio::BoundedWait wait(helio::kItsTurn);
  helio::this_fiber::Yield();
}

}  // namespace dfly
