// SPDX-License-Identifier: Apache-2.0
#include "server/clients/command_timer.h"

#include <utility>

#include "facade/connection.h"
#include "helio/base/clock.h"
#include "server/clients/session.h"
#include "server/meters/logged_args.h"

namespace dfly {

using helio::CycleClock;

CommandTimer::CommandTimer(uint32_t thread, size_t command_ids, std::atomic<uint64_t>* next_ids,
                           const ServerOptions& options)
    : thread_(thread),
      next_ids_(next_ids),
      tracks_(options.latency_tracking),
      histograms_(command_ids),
      slow_micros_(options.slowlog_log_slower_than_us),
      latency_ms_(options.latency_monitor_threshold_ms),
      percentiles_(options.latency_percentiles) {
  slow_log().set_max(options.slowlog_max_len);
  logged_limits_ = options.logged_limits;
  log(LogKind::kLargeRequest).set_max(options.large_request_max_len);
  log(LogKind::kLargeReply).set_max(options.large_reply_max_len);
  SetLargest(LogKind::kLargeRequest, options.large_request_bytes);
  SetLargest(LogKind::kLargeReply, options.large_reply_bytes);
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
  // Of a request that is not timed RESP makes at most twice as many bytes.
  times_all_ = (slow_micros_ >= 0 && slow_micros_ < 1000) ||
               from_bytes(LogKind::kLargeRequest) <= 2 * kUntimedBytesMax ||
               from_bytes(LogKind::kLargeReply) <= kUntimedBytesMax || counts_hot_keys_;
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
  entry.micros = micros;
  entry.way = way;
  entry.locks_micros = CycleClock::ToMicros(caller.locks_cycles);
  entry.queue_micros = CycleClock::ToMicros(caller.queue_cycles);
  entry.waited_micros = CycleClock::ToMicros(waited_cycles);
  entry.held_by = caller.held_by;
  entry.hops = way == SlowEntry::Way::kBatch ? 1 : caller.hops;
  entry.ended_at = CycleClock::Now();
  Bring(std::move(entry), command, args, caller);
}

uint64_t CommandTimer::RequestBytes(Args args) {
  const auto header = [](uint64_t number) {
    uint64_t bytes = 4;  // its type, one digit, and the line end
    for (; number >= 10; number /= 10) ++bytes;
    return bytes;
  };
  uint64_t bytes = header(args.size());
  for (std::string_view arg : args.all()) bytes += header(arg.size()) + arg.size() + 2;
  return bytes;
}

void CommandTimer::CountHotKeys(const Command& command, Args args, uint64_t reply_bytes) {
  if (const int64_t now_ms = helio::UnixMillis(); hot_keys_->is_over(now_ms)) {
    return EndHotKeys(now_ms, CpuMillis::Now());
  }
  const uint64_t bytes = RequestBytes(args) + reply_bytes;
  hot_keys_->AddCommand(last_cycles_, bytes);
  if (!command.keys.has_keys()) return;
  const auto keys = command.FindKeys(args);
  if (!keys) return;
  size_t count = 0;
  for ([[maybe_unused]] size_t i : *keys) ++count;
  for (size_t i : *keys) {
    hot_keys_->AddKey(args[i], last_cycles_ / static_cast<int64_t>(count), bytes / count);
  }
}

void CommandTimer::LogSized(LogKind kind, const Command& command, Args args, uint64_t bytes,
                            const Caller& caller, SlowEntry::Way way) {
  if ((command.flags & kSkipSlowlog) != 0) return;
  SlowEntry entry;
  entry.kind = kind;
  entry.bytes = bytes;
  entry.way = way;
  Bring(std::move(entry), command, args, caller);
}

void CommandTimer::Bring(SlowEntry entry, const Command& command, Args args, const Caller& caller) {
  entry.time_s = helio::UnixMillis() / 1000;
  entry.args = LoggedArgs(command, args, logged_limits_);
  entry.command = &command;
  entry.thread = thread_;
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
    if (entry.kind == LogKind::kSlow) session->connection.WatchSend();
  }
  const auto kind = static_cast<size_t>(entry.kind);
  entry.id = next_ids_[kind].fetch_add(1, std::memory_order_relaxed);
  logs_[kind].Add(std::move(entry));
}

}  // namespace dfly
