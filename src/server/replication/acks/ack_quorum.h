// SPDX-License-Identifier: Apache-2.0
// Up to which epoch replies may leave: what enough replicas have acknowledged
// (--min_replicas_to_ack), while enough Sentinels see this server (--fence_without_sentinels).
//
// A primary that is cut off from its replicas cannot have their acknowledgements, so it tells
// nobody of a write that a failover loses. If it is cut off together with some of them it could;
// but then the Sentinels that promote another one do not reach it, and the fence stays shut.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "helio/base/spin_lock.h"

namespace dfly {

// How far a replica is. Thread: any.
struct AckState {
  std::atomic<uint64_t> received{0};  // bytes of the stream that it has carried out
  std::atomic<uint64_t> durable{0};   // of these, on its disk
};

// Thread: any. Suspends: never. Times are nanoseconds of one clock.
class AckQuorum {
 public:
  struct Rules {
    uint64_t replicas = 0;    // so many have it
    bool is_durable = false;  // on their disks
    uint64_t sentinels = 0;   // so many have said something
    uint64_t fence_ns = 0;    // within that time

    bool holds_replies() const { return replicas > 0 || sentinels > 0; }
    bool operator==(const Rules&) const = default;
  };

  // `epoch`: the newest; it is not waited for. Those behind it are, if the rules hold replies.
  void SetRules(const Rules& rules, uint64_t epoch);
  // Those that count.
  void SetVoters(std::vector<std::shared_ptr<const AckState>> voters);
  // In their order. `end`: the offset behind its effects.
  void OnEpoch(uint64_t epoch, uint64_t end);
  // The Sentinels that are connected to a thread, and when each was heard last.
  struct Sentinel {
    std::string id;
    uint64_t heard_ns = 0;
  };
  void SetSentinels(uint32_t thread, std::vector<Sentinel> sentinels);

  // The last epoch that replies may tell of; UINT64_MAX: all.
  uint64_t Limit(uint64_t now_ns);

  struct Facts {
    uint64_t waiting_epochs = 0;
    uint64_t sentinels = 0;  // that count now
    bool is_fenced = false;
  };
  Facts facts(uint64_t now_ns) const;

 private:
  static constexpr size_t kPendingMax = 65'536;

  struct Pending {
    uint64_t epoch, end;
  };
  uint64_t CountSentinels(uint64_t now_ns) const;
  // The offset that enough replicas have; none: there are too few.
  std::optional<uint64_t> Acked() const;

  mutable helio::SpinLock lock_;  // guards all
  Rules rules_;
  std::vector<std::shared_ptr<const AckState>> voters_;
  std::vector<std::vector<Sentinel>> sentinels_;  // by thread
  std::deque<Pending> pending_;
  uint64_t limit_ = UINT64_MAX;
};

}  // namespace dfly
