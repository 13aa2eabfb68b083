// SPDX-License-Identifier: Apache-2.0
// SLOWLOG: commands that took long, and where their time went. Each thread logs those of its own
// clients; who asks merges the logs.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace dfly {

struct Command;
class Session;

struct SlowEntry {
  enum class Way : uint8_t {
    kInPlace,  // on its client's thread
    kBatch,    // on its shard's thread
    kFiber,    // on a fiber, over shards or without keys
  };

  uint64_t id = 0;  // of all threads
  int64_t time_s = 0;
  int64_t micros = 0;  // what SLOWLOG GET tells: run and locks
  std::vector<std::string> args;
  std::string address;
  std::string client_name;
  // For SLOWLOG EXPLAIN.
  const Command* command = nullptr;
  Way way = Way::kInPlace;
  uint32_t thread = 0;        // where it ran
  int64_t locks_micros = 0;   // of them, it waited for locks
  int64_t queue_micros = 0;   // before: on the way to its shard, and behind others there
  int64_t waited_micros = 0;  // before or between: for a key
};

// Owner: one worker.
class SlowLog {
 public:
  void set_max(size_t max) {
    max_ = max;
    Trim();
  }
  void Add(SlowEntry entry) {
    entries_.push_back(std::move(entry));
    Trim();
  }
  void Clear() { entries_.clear(); }
  // Oldest first.
  const std::deque<SlowEntry>& entries() const { return entries_; }

 private:
  void Trim() {
    while (entries_.size() > max_) entries_.pop_front();
  }

  size_t max_ = 128;
  std::deque<SlowEntry> entries_;
};

// Who has sent what is being run: a client of this thread, or what will bring slow commands home.
struct Caller {
  const Session* session = nullptr;
  std::vector<SlowEntry>* slow = nullptr;
  int64_t queue_cycles = 0;  // between its sending and its beginning
  int64_t locks_cycles = 0;  // that it has waited for its locks; counts as its own time
};

}  // namespace dfly
