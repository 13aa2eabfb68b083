// SPDX-License-Identifier: Apache-2.0
// The quota of one user or of one database, as all threads share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/meters/token_bucket.h"
#include "server/options/quota_settings.h"

namespace dfly {

// Thread: any. Each number stands alone, so relaxed order is enough.
class Quota {
 public:
  explicit Quota(QuotaOwner its_owner) : owner(std::move(its_owner)) {}

  const QuotaOwner owner;
  TokenBucket commands;
  TokenBucket bytes;
  std::atomic<int64_t> connections{0};
  // What its clients use, or its keys: each thread tells what has changed, once that is some.
  std::atomic<int64_t> memory{0};
  std::atomic<bool> is_evicting{false};  // a fiber ends clients of it

  // Counted since the start, or CONFIG RESETSTAT.
  struct Counters {
    std::atomic<uint64_t> delayed{0};              // commands that had to wait
    std::atomic<uint64_t> refused{0};              // commands past a limit in a second
    std::atomic<uint64_t> refused_connections{0};  // times that somebody found no place
    std::atomic<uint64_t> refused_writes{0};       // for memory, of a database
    std::atomic<uint64_t> evicted{0};              // clients that were ended for memory, of a user
  };
  Counters counters;

  void SetLimits(const QuotaLimits& limits);
  uint64_t connections_max() const { return connections_max_.load(std::memory_order_relaxed); }
  uint64_t memory_max() const { return memory_max_.load(std::memory_order_relaxed); }
  bool is_error() const { return is_error_.load(std::memory_order_relaxed); }
  bool limits_rate() const { return commands.is_limited() || bytes.is_limited(); }
  // Of a database: no more may be written.
  bool is_full() const {
    const uint64_t most = memory_max();
    return most != 0 && memory.load(std::memory_order_relaxed) >= static_cast<int64_t>(most);
  }
  QuotaLimits limits() const;
  void ResetStats();

  // A place for a connection. False: there is none.
  [[nodiscard]] bool TakePlace();
  // The same, whether there is one or not.
  void TakeAnyPlace() { connections.fetch_add(1, std::memory_order_relaxed); }
  void GivePlace() { connections.fetch_sub(1, std::memory_order_relaxed); }

  // "user 'ann'", "database 3"
  std::string Name() const;

 private:
  std::atomic<uint64_t> commands_max_{0};
  std::atomic<uint64_t> bytes_max_{0};
  std::atomic<uint64_t> connections_max_{0};
  std::atomic<uint64_t> memory_max_{0};
  std::atomic<bool> is_error_{false};
};

// All there are. It does not change: a CONFIG SET makes another one, with the same objects.
using QuotaTable = std::map<QuotaOwner, std::shared_ptr<Quota>>;
using QuotaTableRef = std::shared_ptr<const QuotaTable>;

// What `settings` say, with the objects that `before` (null: nothing) has for the same owners.
QuotaTableRef MakeQuotaTable(const QuotaSettings& settings, const QuotaTableRef& before);

}  // namespace dfly
