// SPDX-License-Identifier: Apache-2.0
// WAIT and WAITAOF: who waits until some replicas have all that was done before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "helio/base/intrusive_list.h"

namespace dfly {

// What a wait asks of the stream. On proactor 0.
class AckSource {
 public:
  // The newest epoch of the journal; none: there is no stream.
  virtual std::optional<uint64_t> NewestEpoch() const = 0;
  // The newest epoch that is in the stream, and the offset behind its last effect.
  struct Streamed {
    uint64_t epoch = 0;
    uint64_t offset = 0;
  };
  virtual Streamed NewestStreamed() const = 0;
  virtual uint64_t CountAcked(uint64_t offset, bool is_durable) const = 0;
  // What was done goes into the stream soon.
  virtual void Hurry() = 0;
  // Replicas acknowledge what they have.
  virtual void AskForAcks() = 0;

 protected:
  ~AckSource() = default;
};

// Owner: Replicas, on proactor 0. Suspends: never.
class AckWaits {
 public:
  // Owner: who waits; linked between Begin and End.
  struct Wait : helio::ListHook<> {
    std::function<void()> on_end;  // called once at most; must not suspend
    uint64_t wanted = 0;           // replicas
    bool is_durable = false;       // on their disks
    uint64_t epoch = 0;
    uint64_t target = UINT64_MAX;  // the offset; not known while the epoch is not in the stream
  };

  explicit AckWaits(AckSource* source) : source_(*source) {}

  // False: so many have it already. Else wait->on_end is called when they have, perhaps before this
  // returns.
  bool Begin(Wait* wait);
  // It waits no more. How many have it.
  uint64_t End(Wait* wait);
  // Some may be over.
  void Look();
  // A look would be of use, and nobody else is about to do it. Thread: any.
  bool WantsLook() {
    return count_.load(std::memory_order_seq_cst) > 0 && !is_look_posted_.exchange(true);
  }

 private:
  // Its target is known from now on, if it was not.
  bool FindTarget(Wait* wait);
  uint64_t CountAcked(const Wait& wait) const;
  bool IsOver(const Wait& wait) const {
    return wait.wanted == 0 || CountAcked(wait) >= wait.wanted;
  }
  void Unlink(Wait* wait);

  AckSource& source_;
  helio::IntrusiveList<Wait> waits_;
  std::atomic<uint32_t> count_{0};
  std::atomic<bool> is_look_posted_{false};
};

}  // namespace dfly
