// SPDX-License-Identifier: Apache-2.0
// Runs the handlers of commands on one thread, whichever way a command has come there: with its
// statistics, its time, and its place in the slow log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "commands/table/blocking.h"
#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "engine/keyspace/shard_turn.h"
#include "engine/queue/slow_scripts.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/cycle_clock.h"
#include "helio/fibers/no_suspend.h"
#include "server/base/per_thread.h"
#include "server/base/process.h"
#include "server/care/shard_care.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: where it says so.
class CommandRunner : public PerThread<CommandRunner> {
 public:
  CommandRunner(WorkerState* worker, ShardCare* care);
  ~CommandRunner();

  enum class Timing : uint8_t {
    kOwn,      // always
    kSampled,  // cheap ones are timed now and then
    kInner,    // the same, but a part of another command, which the slow log has
  };
  // A command that has passed all checks. `hint`: of the key that it is routed by; null: none.
  template <Timing kTiming>
  bool RunHandler(ShardContext& cx, const Command& command, Args args, uint64_t hash,
                  ReplySink& reply, KeyHint* hint = nullptr);
  // Executes `call` as the command of `row`, with its statistics. True: it was timed.
  template <Timing kTiming = Timing::kOwn, typename Call>
  bool RunCounted(const Command& row, Args args, ReplySink& reply, Call call);
  // The same if it may suspend, for `caller`; null: it is kInner.
  template <typename Call>
  void RunWaiting(const Command& row, Args args, ReplySink& reply, const Caller* caller, Call call);
  // The same for a command of a client, which is refused if it would have to wait for a slow
  // script: then that is the reply. `count`: there are so many that run as one. Suspends.
  template <typename Call>
  void RunOrRefuse(CoordinatorContext& cx, const Command& row, Args args, RespWriter& reply,
                   Call call, uint32_t count = 1);

  // --- For a client, on a shard of this thread ---

  // RunHandler. Its reply may be long although the command is cheap.
  void RunSampled(ShardContext& cx, const Command& command, Args args, uint64_t hash,
                  RespWriter& writer) {
    const size_t size_before = writer.out()->size();
    const bool was_timed = RunHandler<Timing::kSampled>(cx, command, args, hash, writer);
    if (writer.out()->size() > size_before + reply_bytes_untold_) [[unlikely]]
      NoteLong(command, args, writer.out()->size() - size_before, was_timed);
  }
  // A command of `caller` has written a reply of so many bytes, and was timed.
  void NoteReply(const Command& row, Args args, size_t bytes, const Caller& caller,
                 SlowEntry::Way way) {
    if (bytes > reply_bytes_untold_) [[unlikely]]
      TellReply(row, args, bytes, caller, way);
  }
  // The same for one that ran in place.
  void NoteReply(const Command& row, Args args, size_t bytes) {
    if (bytes > reply_bytes_untold_) [[unlikely]]
      TellReply(row, args, bytes, worker_.timer.caller(), WayInPlace());
  }
  // A command of constant cost is not cheap with more arguments, or with more bytes in the last
  // one.
  static bool IsSmall(Args args) {
    return args.size() <= CommandTimer::kUntimedArgsMax &&
           args[args.size() - 1].size() <= CommandTimer::kUntimedBytesMax;
  }
  // `args` seem small, but have more than kUntimedBytesMax bytes: the next command of the row,
  // which is theirs, is timed.
  void TimeNext(const Command& row) { worker_.stats.commands[row.id].until_timed = 0; }
  // The same if there is room for what it writes, or else the error.
  void RunOnShard(ShardTurn& turn, const Command& command, Args args, uint64_t hash,
                  RespWriter& writer) {
    if ((command.flags & kDenyOom) != 0 && worker_.server.memory.is_over()) [[unlikely]] {
      if (!care_.MakeRoomFor(turn.shard(), command, args)) {
        return Reject(command, kErrOutOfMemory, writer);
      }
    }
    RunSampled(turn.cx(), command, args, hash, writer);
    if (turn.shard().waiters().has_ready()) [[unlikely]]
      turn.EndUnit();
  }
  // For `count` commands that have a fiber: false if there is no room for what they write, and each
  // gets the error. Suspends.
  bool AwaitRoom(const Command& command, Args args, RespWriter& writer, uint32_t count = 1);
  // A blocking command takes from the first of its keys that is in this shard and has something,
  // as long as none before it is in another. False: there is none, and it has done nothing.
  bool TryBlocking(ShardTurn& turn, const Command& command, Args args, RespWriter& writer);

  // --- What is not carried out ---

  // Answers the command with the error, and counts that.
  void Reject(const Command& row, std::string_view error, RespWriter& writer);
  // For the audit log: a command has run that is no part of a script.
  void Audit(const Session* session, const Command& row, Args args, const ReplySink& reply,
             uint64_t errors_before);
  // The same for a part of one. `caller`: null if nobody has called it. REQUIRES: there is the log.
  void AuditScripted(const AclCaller* caller, int db_index, const Command& row, Args args,
                     const ReplySink& reply);
  // It was refused, as `reply` knows. Null: there is no such command.
  void CountRejected(const Command* row, const ReplySink& reply);
  void CountError(std::string_view code);
  // Of a command that would have to wait for that.
  static std::string_view BusyError(Slow what) {
    return what == Slow::kFunction ? kErrBusyFunction : kErrBusyScript;
  }

  // --- Time ---

  // `begin`: of the CycleClock; `waited_cycles` were spent for keys. `caller`: null if it is a part
  // of another command.
  void CountWaiting(const Command& row, Args args, const ReplySink& reply, uint64_t errors_before,
                    int64_t begin, const Caller* caller, int64_t waited_cycles = 0);
  // Commands that are not timed begin now: what came before is none of theirs.
  void BeginUntimed(int64_t cycles) { untimed_from_ = cycles; }
  // After a change of what it is to notice: which commands are timed now and then only.
  void UpdateTiming();
  // Of LATENCY; 0: the monitor is off.
  void SetLatencyThreshold(uint32_t ms);

 private:
  SlowEntry::Way WayInPlace() const {
    return worker_.timer.caller().slow != nullptr ? SlowEntry::Way::kBatch
                                                  : SlowEntry::Way::kInPlace;
  }

  bool TryForm(ShardContext& cx, const BlockingForm& form, Args args, BlockingCall* call,
               RespWriter& writer);
  void CountErrorsSince(uint64_t errors_before, const ReplySink& reply, const Command& row) {
    if (reply.error_count() != errors_before) [[unlikely]]
      CountFailed(reply, row);
  }
  void CountFailed(const ReplySink& reply, const Command& row);
  template <Timing kTiming>
  void NoteTimed(const Command& row, Args args, int64_t begin, int64_t end);
  void TellReply(const Command& row, Args args, size_t bytes, const Caller& caller,
                 SlowEntry::Way way);
  // The reply of a command is long. If it was not timed: was it slow?
  void NoteLong(const Command& row, Args args, size_t reply_bytes, bool was_timed);
  // One that ran in place.
  void OnSlow(const Command& row, Args args, int64_t cycles);

  WorkerState& worker_;
  ShardCare& care_;
  const Command* const exec_;
  RecentCommands* const recent_commands_;
  // Since when what has run was not timed: about the begin of the next command that is.
  int64_t untimed_from_ = 0;
  size_t reply_bytes_untold_ = 0;  // the timer's
};

template <CommandRunner::Timing kTiming, typename Call>
inline bool CommandRunner::RunCounted(const Command& row, Args args, ReplySink& reply, Call call) {
  recent_commands_->Note(row.full_name.c_str());
  const uint64_t errors_before = reply.error_count();
  if constexpr (kTiming != Timing::kOwn) {
    CommandStats& counted = worker_.stats.commands[row.id];
    if (counted.until_timed != 0 && IsSmall(args)) [[likely]] {
      --counted.until_timed;
      ++counted.calls;
      call();
      CountErrorsSince(errors_before, reply, row);
      return false;
    }
  }
  const int64_t begin = helio::CycleClock::Now();
  call();
  const int64_t end = helio::CycleClock::Now();
  NoteTimed<kTiming>(row, args, begin, end);
  CountErrorsSince(errors_before, reply, row);
  return true;
}

template <CommandRunner::Timing kTiming>
void CommandRunner::NoteTimed(const Command& row, Args args, int64_t begin, int64_t end) {
  CommandStats& counted = worker_.stats.commands[row.id];  // CONFIG RESETSTAT may have come
  uint32_t weight = 1;
  if constexpr (kTiming == Timing::kOwn) {
    counted.AddTimed(end - begin);
  } else {
    weight = counted.AddSample(end - begin);
  }
  if constexpr (kTiming == Timing::kSampled) untimed_from_ = end;
  worker_.timer.Track(row.id, end - begin, weight);
  if constexpr (kTiming != Timing::kInner) {
    worker_.timer.SetLast(end - begin);
    const int64_t cycles = end - begin + worker_.timer.caller().locks_cycles;
    if (worker_.timer.IsSlow(cycles)) [[unlikely]]
      OnSlow(row, args, cycles);
    worker_.timer.OnRequest(row, args, worker_.timer.caller(), WayInPlace());
  }
}

template <CommandRunner::Timing kTiming>
inline bool CommandRunner::RunHandler(ShardContext& cx, const Command& command, Args args,
                                      uint64_t hash, ReplySink& reply, KeyHint* hint) {
  helio::NoSuspend no_suspend;
  cx.SetKeyHash(args[command.routed_by(args)], hash, hint);
  return RunCounted<kTiming>(command, args, reply, [&] {
    const EffectScope effects(cx, command.effect, args.all());
    command.run(cx, args, reply);
  });
}

template <typename Call>
void CommandRunner::RunWaiting(const Command& row, Args args, ReplySink& reply,
                               const Caller* caller, Call call) {
  recent_commands_->Note(row.full_name.c_str());
  const uint64_t errors_before = reply.error_count();
  const int64_t begin = helio::CycleClock::Now();
  call();
  CountWaiting(row, args, reply, errors_before, begin, caller);
}

template <typename Call>
void CommandRunner::RunOrRefuse(CoordinatorContext& cx, const Command& row, Args args,
                                RespWriter& reply, Call call, uint32_t count) {
  recent_commands_->Note(row.full_name.c_str());
  const bool is_of_primary = SessionOf(cx).primary != nullptr;  // what it says must not be lost
  cx.set_may_be_refused((row.flags & kAllowBusy) == 0 && !is_of_primary);
  cx.set_origin({row.full_name.c_str(), SessionOf(cx).connection.id()});
  const uint64_t errors_before = reply.error_count();
  const size_t size_before = reply.out()->size();
  const int64_t begin = helio::CycleClock::Now();
  call();
  if (cx.refused_for() == Slow::kNone) [[likely]] {
    const Caller caller = {.session = &SessionOf(cx),
                           .locks_cycles = cx.locks_cycles(),
                           .held_by = cx.held_by(),
                           .hops = cx.hops(),
                           .commands = count};
    CountWaiting(row, args, reply, errors_before, begin, &caller, cx.waited_cycles());
    return NoteReply(row, args, (reply.out()->size() - size_before) / count, caller,
                     SlowEntry::Way::kFiber);
  }
  reply.out()->Truncate(size_before);
  for (uint32_t i = 0; i < count; ++i) Reject(row, BusyError(cx.refused_for()), reply);
}

}  // namespace dfly
