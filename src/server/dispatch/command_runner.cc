// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/command_runner.h"

#include "engine/hops/shard_set.h"
#include "server/base/error_names.h"
#include "server/clients/audit_log.h"
#include "server/clients/server_state.h"

namespace dfly {

CommandRunner::CommandRunner(WorkerState* worker, ShardCare* care)
    : PerThread(this),
      worker_(*worker),
      care_(*care),
      exec_(worker->server.commands.FindByName("exec")),
      recent_commands_(RegisterThreadForCrashes(worker->index())) {
  UpdateTiming();
  SetLatencyThreshold(worker->server.options.latency_monitor_threshold_ms);
}

CommandRunner::~CommandRunner() { worker_.proactor.WatchStalls(0, nullptr); }

bool CommandRunner::TryBlocking(ShardTurn& turn, const Command& command, Args args,
                                RespWriter& writer) {
  const BlockingForm& form = *command.blocking;
  bool is_replied = true;
  const uint64_t errors_before = writer.error_count();
  const size_t size_before = writer.out()->size();
  if ((command.flags & kDenyOom) != 0 && worker_.server.memory.is_over()) [[unlikely]] {
    if (!care_.MakeRoomFor(turn.shard(), command, args)) return false;  // Coordinate will say so
  }
  const int64_t begin = helio::CycleClock::Now();
  BlockingCall call;
  if (form.parse(args, writer, &call)) {
    const EffectScope effects(turn.cx(), command.effect, args.all());
    is_replied = TryForm(turn.cx(), form, args, &call, writer);
  }
  if (!is_replied) return false;
  ++worker_.stats.blocking_tried;
  const Caller caller = worker_.timer.caller();
  CountWaiting(command, args, writer, errors_before, begin, &caller);
  NoteReply(command, args, writer.out()->size() - size_before);
  turn.EndUnit();
  return true;
}

bool CommandRunner::TryForm(ShardContext& cx, const BlockingForm& form, Args args,
                            BlockingCall* call, RespWriter& writer) {
  // These are not tried here unless all their keys are.
  if (form.try_here != nullptr || form.target_at != 0) {
    return TryBlockingForm(form, cx, args, call, writer);
  }
  const auto keys = call->keys;
  for (size_t i = 0; i < keys.size(); ++i) {
    // What is in other shards may not be looked at for the same moment.
    if (i > 0 && worker_.server.shards->ShardOfKey(keys[i], HashKey(keys[i])) != cx.shard().id())
      return false;
    call->keys = keys.subspan(i, 1);
    if (TryBlockingForm(form, cx, args, call, writer)) return true;
  }
  return false;
}

bool CommandRunner::AwaitRoom(const Command& command, Args args, RespWriter& writer,
                              uint32_t count) {
  if ((command.flags & kDenyOom) == 0 || !worker_.server.memory.is_over()) [[likely]]
    return true;
  std::vector<uint64_t> spared;
  ShardCare::AddKeyHashes(command, args, &spared);
  if (care_.AwaitRoom({spared})) return true;
  for (uint32_t i = 0; i < count; ++i) Reject(command, kErrOutOfMemory, writer);
  return false;
}

void CommandRunner::Reject(const Command& row, std::string_view error, RespWriter& writer) {
  if (&row == exec_) {
    writer.Error(ExecAbortError(error));
  } else {
    writer.Error(error);
  }
  CountRejected(&row, writer);
}

void CommandRunner::CountRejected(const Command* row, const ReplySink& reply) {
  if (row != nullptr) ++worker_.stats.commands[row->id].rejected;
  CountError(reply.last_error_code());
}

void CommandRunner::UpdateTiming() {
  reply_bytes_untold_ = worker_.timer.reply_bytes_untold();
  const auto update = [this](const auto& self, const Command& row) -> void {
    // SET is no "fast" command, as it may free a large value; here that is done later.
    const bool is_cheap = (row.flags & kFast) != 0 || row.name == "set";
    CommandStats& counted = worker_.stats.commands[row.id];
    counted.timed_every = is_cheap && !worker_.timer.times_all() ? CommandStats::kTimedEvery : 1;
    counted.until_timed = 0;
    for (const Command& subcommand : row.subcommands) self(self, subcommand);
  };
  for (const Command& row : worker_.server.commands.all()) update(update, row);
}

void CommandRunner::SetLatencyThreshold(uint32_t ms) {
  worker_.timer.SetLatencyThreshold(ms);
  if (ms == 0) return worker_.proactor.WatchStalls(0, nullptr);
  worker_.proactor.WatchStalls(uint64_t{ms} * 1'000'000, [this](uint64_t ns) {
    worker_.timer.NoteSpan(LatencyEvent::kEventLoop, ns);
  });
}

void CommandRunner::CountFailed(const ReplySink& reply, const Command& row) {
  ++worker_.stats.commands[row.id].failed;
  if (!reply.last_error_code().empty()) CountError(reply.last_error_code());
}

void CommandRunner::CountError(std::string_view code) {
  ++worker_.stats.error_replies;
  AddErrors(ErrorNameOf(code), 1, WorkerStats::kErrorCodesMax, &worker_.stats.errors);
}

void CommandRunner::CountWaiting(const Command& row, Args args, const ReplySink& reply,
                                 uint64_t errors_before, int64_t begin, const Caller* caller,
                                 int64_t waited_cycles) {
  // With the waits for other threads, which are part of what such a command takes. CONFIG
  // RESETSTAT may have reset the counters meanwhile, so they are looked up now.
  CommandStats& counted = worker_.stats.commands[row.id];
  const int64_t cycles = helio::CycleClock::Now() - begin - waited_cycles;
  const uint32_t count = caller != nullptr ? caller->commands : 1;
  for (uint32_t i = 0; i < count; ++i) counted.AddTimed(cycles / count);
  worker_.timer.Track(row.id, cycles / count, count);
  if (caller != nullptr) {
    worker_.timer.SetLast(cycles);
    // A transaction's wait is within the time; what the shard's queue kept was before.
    const int64_t with_locks = cycles + (caller->slow != nullptr ? caller->locks_cycles : 0);
    if (worker_.timer.IsSlow(with_locks)) {
      worker_.timer.OnSlow(row, args, with_locks, *caller, SlowEntry::Way::kFiber, waited_cycles);
    }
    if (count == 1) {
      worker_.timer.OnRequest(row, args, *caller, SlowEntry::Way::kFiber);
    }
  }
  CountErrorsSince(errors_before, reply, row);
  // Who runs a script tells it (AuditScripted).
  if (worker_.server.audit != nullptr && caller != nullptr) [[unlikely]]
    Audit(caller->session, row, args, reply, errors_before);
}

void CommandRunner::Audit(const Session* session, const Command& row, Args args,
                          const ReplySink& reply, uint64_t errors_before) {
  AuditLog* const audit = worker_.server.audit.get();
  if (audit == nullptr || !audit->Wants(row)) return;
  if (session == nullptr) return;           // it is a script, whose commands are told
  if (session->primary != nullptr) return;  // who did it is told there
  const bool has_failed = reply.error_count() != errors_before;
  audit->OnCommand(*session, row, args, has_failed ? reply.last_error_code() : "");
}

void CommandRunner::AuditScripted(const AclCaller* caller, int db_index, const Command& row,
                                  Args args, const ReplySink& reply) {
  AuditLog& audit = *worker_.server.audit;
  if (!audit.Wants(row)) return;
  audit.OnScripted(caller, db_index, row, args,
                   reply.error_count() != 0 ? reply.last_error_code() : "");
}

void CommandRunner::TellReply(const Command& row, Args args, size_t bytes, const Caller& caller,
                              SlowEntry::Way way) {
  worker_.timer.OnReply(row, args, bytes, caller, way);
  // HOTKEYS has ended by itself.
  if (reply_bytes_untold_ != worker_.timer.reply_bytes_untold()) UpdateTiming();
}

void CommandRunner::NoteLong(const Command& row, Args args, size_t reply_bytes, bool was_timed) {
  NoteReply(row, args, reply_bytes);
  if (was_timed) return;
  // With the cheap ones before it in the same read, which are some microseconds at most.
  const int64_t end = helio::CycleClock::Now();
  const int64_t cycles = end - untimed_from_;
  untimed_from_ = end;
  if (worker_.timer.IsSlow(cycles)) OnSlow(row, args, cycles);
}

void CommandRunner::OnSlow(const Command& row, Args args, int64_t cycles) {
  worker_.timer.OnSlow(row, args, cycles, worker_.timer.caller(), WayInPlace());
}

}  // namespace dfly
