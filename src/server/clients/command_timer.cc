// SPDX-License-Identifier: Apache-2.0
#include "server/clients/command_timer.h"

#include <utility>

#include "facade/connection.h"
#include "helio/base/clock.h"
#include "server/clients/session.h"
#include "server/meters/logged_args.h"

namespace dfly {

using helio::CycleClock;

CommandTimer::CommandTimer(uint32_t thread, size_t command_ids, std::atomic<uint64_t>* next_id,
                           const ServerOptions& options)
    : thread_(thread),
      next_id_(*next_id),
      tracks_(options.latency_tracking),
      histograms_(command_ids),
      slow_micros_(options.slowlog_log_slower_than_us),
      latency_ms_(options.latency_monitor_threshold_ms),
      percentiles_(options.latency_percentiles) {
  slow_log_.set_max(options.slowlog_max_len);
  SetThreshold();
}

void CommandTimer::SetThreshold() {
  threshold_cycles_ = INT64_MAX;
  static constexpr int64_t kMostMicros = INT64_MAX / 1000 / 1000;  // fits cycles
  const auto lower = [this](int64_t micros) {
    micros = std::min(micros, kMostMicros);
    threshold_cycles_ = std::min(threshold_cycles_, CycleClock::FromNanos(micros * 1000));
  };
  if (slow_micros_ >= 0) lower(slow_micros_);
  if (latency_ms_ > 0) lower(int64_t{latency_ms_} * 1000);
  times_all_ = slow_micros_ >= 0 && slow_micros_ < 1000;
}

void CommandTimer::SetTracking(bool is_on) {
  tracks_ = is_on;
  if (!is_on) ResetHistograms();
}

void CommandTimer::ResetHistograms() {
  for (auto& histogram : histograms_) histogram.reset();
  histogram_count_ = 0;
}

void CommandTimer::NoteLatency(LatencyEvent event, int64_t micros) {
  const int64_t ms = micros / 1000;
  if (latency_ms_ == 0 || ms < latency_ms_) return;
  events_.Add(event, helio::UnixMillis() / 1000,
              static_cast<uint32_t>(std::min<int64_t>(ms, UINT32_MAX)));
}

void CommandTimer::OnSlow(const Command& command, Args args, int64_t cycles, const Caller& caller,
                          SlowEntry::Way way, int64_t waited_cycles) {
  const int64_t micros = CycleClock::ToMicros(cycles);
  const bool is_fast = (command.flags & kFast) != 0;
  NoteLatency(is_fast ? LatencyEvent::kFastCommand : LatencyEvent::kCommand, micros);
  if (slow_micros_ < 0 || micros < slow_micros_ || (command.flags & kSkipSlowlog) != 0) return;
  SlowEntry entry;
  entry.time_s = helio::UnixMillis() / 1000;
  entry.micros = micros;
  entry.args = LoggedArgs(command, args);
  entry.command = &command;
  entry.way = way;
  entry.thread = thread_;
  entry.locks_micros = CycleClock::ToMicros(caller.locks_cycles);
  entry.queue_micros = CycleClock::ToMicros(caller.queue_cycles);
  entry.waited_micros = CycleClock::ToMicros(waited_cycles);
  entry.held_by = caller.held_by;
  entry.hops = way == SlowEntry::Way::kBatch ? 1 : caller.hops;
  entry.ended_at = CycleClock::Now();
  if (caller.slow != nullptr) {
    caller.slow->push_back(std::move(entry));
    return;
  }
  Log(std::move(entry), caller.session);
}

void CommandTimer::TakeHome(std::vector<SlowEntry>* entries, const Session* session) {
  for (SlowEntry& entry : *entries) {
    Log(std::move(entry), session);
  }
  entries->clear();
}

void CommandTimer::Log(SlowEntry entry, const Session* session) {
  if (session != nullptr) {
    entry.address = session->peer_address;
    entry.client_name = session->name.substr(0, SlowEntry::kNameMax);
    entry.client_id = session->connection.id();
    session->connection.WatchSend();
  }
  entry.id = next_id_.fetch_add(1, std::memory_order_relaxed);
  slow_log_.Add(std::move(entry));
}

}  // namespace dfly
