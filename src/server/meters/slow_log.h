// SPDX-License-Identifier: Apache-2.0
// SLOWLOG and COMMANDLOG: commands that took long, and where their time went; commands with many
// bytes, and those with long replies. Each thread logs those of its own clients; who asks merges
// the logs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/queue/tx_origin.h"
#include "helio/base/cycle_clock.h"

namespace dfly {

struct Command;

// What a command is logged for.
enum class LogKind : uint8_t { kSlow, kLargeRequest, kLargeReply };
inline constexpr size_t kLogKinds = 3;

struct SlowEntry {
  enum class Way : uint8_t {
    kInPlace,  // on its client's thread
    kBatch,    // on its shard's thread
    kFiber,    // on a fiber, over shards or without keys
  };

  LogKind kind = LogKind::kSlow;
  uint64_t id = 0;  // of all threads, among those of its kind
  int64_t time_s = 0;
  int64_t micros = 0;  // kSlow: what SLOWLOG GET tells: run and locks
  uint64_t bytes = 0;  // of the others: the request's, or the reply's
  std::vector<std::string> args;
  std::string address;
  std::string client_name;  // its first kNameMax bytes: the log is bounded
  static constexpr size_t kNameMax = 1024;
  // For SLOWLOG EXPLAIN.
  const Command* command = nullptr;
  Way way = Way::kInPlace;
  uint32_t thread = 0;        // where it ran
  int64_t locks_micros = 0;   // of them, it waited for locks
  int64_t queue_micros = 0;   // before: on the way to its shard, and behind others there
  int64_t waited_micros = 0;  // before or between: for a key
  TxOrigin held_by;           // who had the locks when it began to wait for them
  uint32_t hops = 0;          // rounds of messages to shards
  uint64_t client_id = 0;     // 0: that is gone, or it was none's
  int64_t ended_at = 0;       // in cycles
  // From its end until the kernel had its reply, and what was to be sent before; -1: not yet.
  int64_t send_micros = -1;
  int64_t disk_micros = 0;  // of these, it waited for the append-only log
};

// Those of one kind. Owner: one worker.
class SlowLog {
 public:
  void set_max(size_t max) {
    max_ = max;
    Trim();
  }
  void Add(SlowEntry entry) {
    memory_used_ += MemoryOf(entry);
    entries_.push_back(std::move(entry));
    Trim();
  }
  // A client's replies are with the kernel, at `now` (cycles), after so many for the disk.
  void OnSent(uint64_t client_id, int64_t now, int64_t disk_cycles) {
    size_t looked_at = 0;
    for (auto it = entries_.rbegin(); it != entries_.rend() && ++looked_at <= kSentLooks; ++it) {
      if (it->client_id != client_id || it->send_micros >= 0) continue;
      it->send_micros = std::max<int64_t>(0, helio::CycleClock::ToMicros(now - it->ended_at));
      it->disk_micros = std::min(it->send_micros, helio::CycleClock::ToMicros(disk_cycles));
    }
  }
  void Clear() {
    entries_.clear();
    memory_used_ = 0;
  }
  // About, in bytes.
  size_t memory_used() const { return memory_used_; }
  // Oldest first.
  const std::deque<SlowEntry>& entries() const { return entries_; }

 private:
  // Entries that OnSent looks at: the log may have as many as somebody likes.
  static constexpr size_t kSentLooks = 256;

  static size_t MemoryOf(const SlowEntry& entry) {
    size_t bytes = sizeof(SlowEntry) + entry.args.capacity() * sizeof(std::string);
    // What is short stands in the string itself.
    const auto of = [](const std::string& text) { return text.size() > 15 ? text.size() + 1 : 0; };
    for (const std::string& arg : entry.args) bytes += of(arg);
    return bytes + of(entry.address) + of(entry.client_name);
  }
  void Trim() {
    while (entries_.size() > max_) {
      memory_used_ -= MemoryOf(entries_.front());
      entries_.pop_front();
    }
  }

  size_t max_ = 128;
  size_t memory_used_ = 0;
  std::deque<SlowEntry> entries_;
};

}  // namespace dfly
