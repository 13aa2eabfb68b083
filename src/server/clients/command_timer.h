// SPDX-License-Identifier: Apache-2.0
// How long commands take on one thread, and how large they are: for SLOWLOG, COMMANDLOG, LATENCY
// and the percentiles of INFO.
//
// What costs next to nothing is timed in one of 16 calls only, unless the slow log wants all that
// take less than a millisecond (CommandRunner::UpdateTiming): looking at the clock twice is a tenth
// of a GET. The sizes of requests are looked at when a command is timed, and those that are not
// timed are small.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/queue/tx_origin.h"
#include "helio/base/cycle_clock.h"
#include "server/base/logged_limits.h"
#include "server/meters/hot_keys.h"
#include "server/meters/latency_events.h"
#include "server/meters/latency_histogram.h"
#include "server/meters/slow_log.h"

namespace dfly {

class Session;
struct ServerOptions;

// The client of this thread that has sent what is being run, or the list that will bring slow
// commands home.
struct Caller {
  const Session* session = nullptr;
  std::vector<SlowEntry>* slow = nullptr;
  int64_t queue_cycles = 0;  // between its sending and its beginning
  int64_t locks_cycles = 0;  // that it has waited for its locks; counts as its own time
  TxOrigin held_by = {};
  uint32_t hops = 0;
  uint32_t commands = 1;  // that have run as one (Gathered)
};

// Owner: one worker. Suspends: never.
class CommandTimer {
 public:
  // `next_ids` number the logged commands of all threads, those of each LogKind for themselves.
  CommandTimer(uint32_t thread, size_t command_ids, std::atomic<uint64_t>* next_ids,
               const ServerOptions& options);

  // Microseconds; 0: every command, -1: none.
  void SetSlowLog(int64_t micros) {
    slow_micros_ = micros;
    SetThreshold();
  }
  // Bytes, of kLargeRequest or kLargeReply; 0: every command, -1: none.
  void SetLargest(LogKind kind, int64_t bytes) {
    from_bytes_[static_cast<size_t>(kind)] = bytes < 0 ? UINT64_MAX : static_cast<uint64_t>(bytes);
    SetThreshold();
  }
  // Of what comes from now on to any of the logs.
  void SetLoggedLimits(const LoggedLimits& limits) { logged_limits_ = limits; }
  // 0: the monitor is off.
  void SetLatencyThreshold(uint32_t ms) {
    latency_ms_ = ms;
    SetThreshold();
  }
  void SetTracking(bool is_on);

  void Track(uint32_t command_id, int64_t cycles, uint32_t weight = 1) {
    if (!tracks_) return;
    std::unique_ptr<LatencyHistogram>& histogram = histograms_[command_id];
    if (histogram == nullptr) [[unlikely]] {
      histogram = std::make_unique<LatencyHistogram>();
      ++histogram_count_;
    }
    histogram->Add(cycles, weight);
  }
  // Each call has to be timed, however cheap.
  bool times_all() const { return times_all_; }
  // Commands that are not timed have at most so many bytes, in at most kUntimedArgsMax arguments.
  static constexpr size_t kUntimedBytesMax = 4096;
  static constexpr size_t kUntimedArgsMax = 64;
  // A reply of more bytes is to be told to OnReply: it is long, or some log wants it.
  size_t reply_bytes_untold() const {
    const uint64_t from = counts_hot_keys_ ? 0 : from_bytes(LogKind::kLargeReply);
    return std::min(kUntimedBytesMax, from > 0 ? static_cast<size_t>(from - 1) : 0);
  }
  bool IsSlow(int64_t cycles) const { return cycles >= threshold_cycles_; }
  // A command for which IsSlow is true is over: it goes to the logs that want it.
  // `waited_cycles`: for keys, which are no part of `cycles`.
  void OnSlow(const Command& command, Args args, int64_t cycles, const Caller& caller,
              SlowEntry::Way way, int64_t waited_cycles = 0);
  // A command was timed: if its request is large it goes to the log of those.
  void OnRequest(const Command& command, Args args, const Caller& caller, SlowEntry::Way way) {
    const uint64_t from = from_bytes(LogKind::kLargeRequest);
    if (from == UINT64_MAX) return;
    const uint64_t bytes = RequestBytes(args);
    if (bytes >= from) [[unlikely]]
      LogSized(LogKind::kLargeRequest, command, args, bytes, caller, way);
  }
  // The same for its reply.
  void OnReply(const Command& command, Args args, size_t bytes, const Caller& caller,
               SlowEntry::Way way) {
    if (counts_hot_keys_) [[unlikely]]
      CountHotKeys(command, args, bytes * caller.commands);
    if (bytes >= from_bytes(LogKind::kLargeReply)) [[unlikely]]
      LogSized(LogKind::kLargeReply, command, args, bytes, caller, way);
  }
  // What the command took, whose reply OnReply is told of next.
  void SetLast(int64_t cycles) { last_cycles_ = cycles; }

  // HOTKEYS. Before CommandRunner::UpdateTiming: all commands are timed, and told to OnReply.
  void StartHotKeys(const HotKeysPlan& plan) {
    hot_keys_ = std::make_unique<HotKeys>(plan);
    SetCountsHotKeys(true);
  }
  // What was counted stays.
  void EndHotKeys(int64_t now_ms, CpuMillis cpu) {
    if (hot_keys_ != nullptr) hot_keys_->End(now_ms, cpu);
    SetCountsHotKeys(false);
  }
  void ForgetHotKeys() {
    hot_keys_.reset();
    SetCountsHotKeys(false);
  }
  // Null: nobody wants them.
  const HotKeys* hot_keys() const { return hot_keys_.get(); }

  // Commands of ours that ran elsewhere, or for which nobody knew the client then.
  void TakeHome(std::vector<SlowEntry>* entries, const Session* session);

  // Work of the thread's own that began at `begin_cycles` is over.
  void NoteCycle(LatencyEvent event, int64_t begin_cycles) {
    const int64_t cycles = helio::CycleClock::Now() - begin_cycles;
    if (IsSlow(cycles)) [[unlikely]]
      NoteLatency(event, helio::CycleClock::ToMicros(cycles));
  }

  // Something is over that took `ns`.
  void NoteSpan(LatencyEvent event, uint64_t ns) {
    NoteLatency(event, static_cast<int64_t>(ns / 1000));
  }

  SlowLog& slow_log() { return log(LogKind::kSlow); }
  SlowLog& log(LogKind kind) { return logs_[static_cast<size_t>(kind)]; }
  LatencyEvents& events() { return events_; }
  // Null: it was not called.
  const LatencyHistogram* histogram(uint32_t command_id) const {
    return histograms_[command_id].get();
  }
  void ResetHistograms();
  size_t memory_used() const {
    size_t bytes = histogram_count_ * sizeof(LatencyHistogram);
    for (const SlowLog& log : logs_) bytes += log.memory_used();
    return bytes;
  }

  // That INFO shows.
  std::vector<double>& percentiles() { return percentiles_; }

  Caller& caller() { return caller_; }

 private:
  void SetThreshold();
  void NoteLatency(LatencyEvent event, int64_t micros);
  void SetCountsHotKeys(bool counts) {
    counts_hot_keys_ = counts;
    SetThreshold();
  }
  void CountHotKeys(const Command& command, Args args, uint64_t reply_bytes);
  uint64_t from_bytes(LogKind kind) const { return from_bytes_[static_cast<size_t>(kind)]; }
  // Of the request, as an array of RESP.
  static uint64_t RequestBytes(Args args);
  void LogSized(LogKind kind, const Command& command, Args args, uint64_t bytes,
                const Caller& caller, SlowEntry::Way way);
  // To the caller's list, or to the log.
  void Bring(SlowEntry entry, const Command& command, Args args, const Caller& caller);
  void Log(SlowEntry entry, const Session* session);

  const uint32_t thread_;
  std::atomic<uint64_t>* const next_ids_;
  int64_t threshold_cycles_ = INT64_MAX;  // the least that anybody wants to know of
  bool tracks_ = false;
  bool times_all_ = false;
  size_t histogram_count_ = 0;
  std::vector<std::unique_ptr<LatencyHistogram>> histograms_;  // by Command::id
  Caller caller_;
  int64_t slow_micros_ = -1;
  uint32_t latency_ms_ = 0;
  std::vector<double> percentiles_;
  uint64_t from_bytes_[kLogKinds] = {};  // UINT64_MAX: none; of kSlow it says nothing
  SlowLog logs_[kLogKinds];
  LoggedLimits logged_limits_;
  int64_t last_cycles_ = 0;
  bool counts_hot_keys_ = false;
  std::unique_ptr<HotKeys> hot_keys_;
  LatencyEvents events_;
};

// While it lives, what runs is somebody else's.
class CallerScope {
 public:
  CallerScope(CommandTimer& timer, Caller caller) : timer_(timer), before_(timer.caller()) {
    timer.caller() = caller;
  }
  ~CallerScope() { timer_.caller() = before_; }
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  CommandTimer& timer_;
  const Caller before_;
};

}  // namespace dfly
