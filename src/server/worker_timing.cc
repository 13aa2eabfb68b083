// SPDX-License-Identifier: Apache-2.0
// The worker's part of statistics, the slow log and MONITOR.
#include <sys/resource.h>

#include "helio/base/cycle_clock.h"
#include "helio/fibers/fiber.h"
#include "helio/net/tls.h"
#include "server/error_names.h"
#include "server/worker.h"

namespace dfly {

void Worker::UpdateTiming() {
  const auto update = [this](const auto& self, const Command& row) -> void {
    // SET is no "fast" command, as it may free a large value; here that is done later.
    const bool is_cheap = (row.flags & kFast) != 0 || row.name == "set";
    CommandStats& counted = state_.stats.commands[row.id];
    counted.timed_every = is_cheap && !state_.timer.times_all() ? CommandStats::kTimedEvery : 1;
    counted.until_timed = 0;
    for (const Command& subcommand : row.subcommands) self(self, subcommand);
  };
  for (const Command& row : commands_.all()) update(update, row);
}

void Worker::SetLatencyThreshold(uint32_t ms) {
  state_.timer.SetLatencyThreshold(ms);
  if (ms == 0) return proactor_.WatchStalls(0, nullptr);
  proactor_.WatchStalls(uint64_t{ms} * 1'000'000,
                        [this](uint64_t ns) { state_.timer.NoteStall(ns); });
}

void Worker::CountFailed(const ReplySink& reply, const Command& row) {
  ++state_.stats.commands[row.id].failed;
  if (!reply.last_error_code().empty()) CountError(reply.last_error_code());
}

void Worker::CountError(std::string_view code) {
  ++state_.stats.error_replies;
  AddErrors(ErrorNameOf(code), 1, WorkerStats::kErrorCodesMax, &state_.stats.errors);
}

void Worker::ResetStats() {
  state_.stats = WorkerStats();
  state_.timer.ResetHistograms();
  state_.stats.commands.resize(commands_.id_count());
  UpdateTiming();
  command_rate_.Reset();
  defrag_.ResetStats();
  pubsub_.ResetStats();
  client_limiter_.ResetStats();
  helio::ThreadTlsStats() = {};
  state_.buffers.traffic = {};
  received_rate_.Reset();
  sent_rate_.Reset();
  loop_rate_.Reset();
  loop_us_rate_.Reset();
  loop_before_ = {};
  loop_before_ = loop_totals();
  for (Shard* shard : state_.shards()) {
    ShardStats& counted = shard->stats();
    counted.hits = counted.misses = counted.expired_keys = counted.evicted_keys = 0;
    counted.expired_members = counted.freed_objects = 0;
  }
}

void Worker::CountWaiting(const Command& row, Args args, const ReplySink& reply,
                          uint64_t errors_before, int64_t begin, const Caller* caller,
                          int64_t waited_cycles) {
  // With the waits for other threads, which are part of what such a command takes. CONFIG
  // RESETSTAT may have reset the counters meanwhile, so they are looked up now.
  CommandStats& counted = state_.stats.commands[row.id];
  const int64_t cycles = helio::CycleClock::Now() - begin - waited_cycles;
  counted.AddTimed(cycles);
  state_.timer.Track(row.id, cycles);
  if (caller != nullptr) {
    // A transaction's wait is within the time; what the shard's queue kept was before.
    const int64_t with_locks = cycles + (caller->slow != nullptr ? caller->locks_cycles : 0);
    if (state_.timer.IsSlow(with_locks)) {
      state_.timer.OnSlow(row, args, with_locks, *caller, SlowEntry::Way::kFiber, waited_cycles);
    }
  }
  CountErrorsSince(errors_before, reply, row);
}

Worker::LoopTotals Worker::loop_totals() const {
  rusage thread{};
  getrusage(RUSAGE_THREAD, &thread);
  const auto us = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
  };
  return {.cycles = proactor_.stats().iterations - loop_before_.cycles,
          .us = us(thread.ru_utime) + us(thread.ru_stime) - loop_before_.us};
}

Worker::Rates Worker::rates() const {
  const int64_t now_ms = helio::UnixMillis();
  const int64_t seconds = command_rate_.SecondsSince(now_ms);
  const BufferPool::Traffic& traffic = state_.buffers.traffic;
  const LoopTotals loop = loop_totals();
  return {.commands = command_rate_.Rate(now_ms),
          .received_bytes = received_rate_.Rate(seconds, traffic.received_bytes),
          .sent_bytes = sent_rate_.Rate(seconds, traffic.sent_bytes),
          .loop_cycles = loop_rate_.Rate(seconds, loop.cycles),
          .loop_us = loop_us_rate_.Rate(seconds, loop.us)};
}

void Worker::NoteLong(const Command& row, Args args) {
  // With the cheap ones before it in the same read, which are some microseconds at most.
  const int64_t end = helio::CycleClock::Now();
  const int64_t cycles = end - untimed_from_;
  untimed_from_ = end;
  if (state_.timer.IsSlow(cycles)) OnSlow(row, args, cycles);
}

void Worker::OnSlow(const Command& row, Args args, int64_t cycles) {
  const Caller& caller = state_.timer.caller();
  state_.timer.OnSlow(row, args, cycles, caller,
                      caller.slow != nullptr ? SlowEntry::Way::kBatch : SlowEntry::Way::kInPlace);
}

void Worker::FeedMonitors(const Session& session, const Command& command, Args args) {
  // Those that carry out others are told before them; that they skip MONITOR is how Redis does it.
  const bool carries_others = command.runs_script || &command == exec_;
  if ((command.flags & kAdmin) != 0) return;
  if ((command.flags & kSkipMonitor) != 0 && !carries_others) return;
  if (care_.LacksRoom(command)) return;
  monitors_.Feed(session.db_index, session.peer_address, command, args);
}

void Worker::FeedExec(const Session& session) {
  if (session.multi == nullptr) return;
  std::vector<std::string_view> args;
  for (const Multi::Item& item : session.multi->items()) {
    if ((item.command->flags & kAdmin) != 0 || item.denial != AclDenial::kNone) continue;
    session.multi->ViewArgs(item, &args);
    monitors_.Feed(item.db_index, session.peer_address, *item.command, Args(args));
  }
}

}  // namespace dfly
