// SPDX-License-Identifier: Apache-2.0
// Consumer groups of a stream: how far each has read, and who has got which entry and not yet
// acknowledged it (its pending entries).
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/counting_allocator.h"
#include "core/types/stream_id.h"

namespace dfly {

// A name with its bytes counted.
using StreamName = std::basic_string<char, std::char_traits<char>, CountingAllocator<char>>;

// By bytes, as Redis orders names.
struct StreamNameLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return a < b; }
};

// Owner:    its group.
// Suspends: never.
struct StreamConsumer {
  using Pending = absl::btree_set<StreamId, std::less<StreamId>, CountingAllocator<StreamId>>;

  StreamConsumer(std::string_view its_name, size_t* bytes)
      : name(its_name, CountingAllocator<char>(bytes)),
        pending(CountingAllocator<StreamId>(bytes)) {}

  const StreamName name;
  int64_t seen_ms = 0;     // when it last tried anything, in Unix time
  int64_t active_ms = -1;  // when it last got something; -1: never
  Pending pending;         // what of the group's is its own; the group changes it
};

// An entry that was delivered and is not acknowledged.
struct StreamPending {
  int64_t delivered_ms = 0;  // the last time, in Unix time; of one that is returned, see Return
  uint64_t deliveries = 0;
  StreamConsumer* consumer = nullptr;  // null: it was given back (XNACK), and is nobody's

  bool is_returned() const { return consumer == nullptr; }
  // As clients see it.
  std::string_view owner() const { return is_returned() ? std::string_view() : consumer->name; }
  int64_t shown_ms() const { return is_returned() ? 0 : delivered_ms; }
  bool IsIdleFor(int64_t idle_ms, int64_t now_ms) const {
    return is_returned() || delivered_ms <= now_ms - idle_ms;
  }
};

// Owner:     a StreamValue.
// Suspends:  never.
// Invariant: the consumers' pending ids are those of the group which are not returned, each at the
//            consumer named there; by_time(), if it is there, has all of the group's.
class StreamGroup {
 public:
  static constexpr int64_t kUnknownReads = -1;

  using Pending = absl::btree_map<StreamId, StreamPending, std::less<StreamId>,
                                  CountingAllocator<std::pair<const StreamId, StreamPending>>>;
  // By name. The key views the consumer's.
  using Consumers =
      absl::btree_map<std::string_view, StreamConsumer*, StreamNameLess,
                      CountingAllocator<std::pair<const std::string_view, StreamConsumer*>>>;

  StreamGroup(std::string_view name, size_t* bytes)
      : name(name, CountingAllocator<char>(bytes)),
        bytes_(bytes),
        pending_(PendingAllocator()),
        consumers_(ConsumersAllocator()) {}
  ~StreamGroup();
  StreamGroup(const StreamGroup&) = delete;
  StreamGroup& operator=(const StreamGroup&) = delete;
  void CopyFrom(const StreamGroup& other);  // REQUIRES: this is empty

  const StreamName name;
  StreamId last_id;  // of what was delivered
  // How many of all that were ever added come up to last_id. Stays at INT64_MAX.
  int64_t entries_read = kUnknownReads;

  const Consumers& consumers() const { return consumers_; }
  StreamConsumer* FindConsumer(std::string_view consumer_name) const;
  // REQUIRES: there is none of that name.
  StreamConsumer* AddConsumer(std::string_view consumer_name, int64_t now_ms);
  // With all that it has pending.
  void RemoveConsumer(StreamConsumer* consumer);

  const Pending& pending() const { return pending_; }
  // Null: there is none. May be changed in place, but for the consumer and the time.
  StreamPending* FindPending(StreamId id);
  // Gives it to the consumer, whoever had it, if anybody. Returns what it is now. A new one has the
  // time 0.
  StreamPending& Assign(StreamId id, StreamConsumer* consumer);
  // Takes it from who had it, if anybody. Returns what it is now: nobody's, and in the order of
  // time behind all that were returned before, and in front of all others.
  StreamPending& Return(StreamId id);
  // How many are returned.
  size_t returned() const { return returned_; }
  // Those, in their order.
  std::vector<StreamId> Returned() const;
  // A name that no consumer has: the empty one, if it is free.
  std::string UnusedName() const;
  // When it was delivered last. REQUIRES: `pending` is what this has for `id`.
  void SetDelivered(StreamId id, StreamPending* pending, int64_t ms);
  // False: there was none.
  bool Acknowledge(StreamId id);

  // Pending entries by the time of their delivery. Made by the first call, which is O(n log n), and
  // kept up from then on: for who claims what was delivered long ago (XREADGROUP CLAIM).
  struct Delivery {
    int64_t ms;
    StreamId id;
    auto operator<=>(const Delivery&) const = default;
  };
  using ByTime = absl::btree_set<Delivery, std::less<Delivery>, CountingAllocator<Delivery>>;
  const ByTime& OrderByTime();
  // Null: there was no such call.
  const ByTime* by_time() const { return by_time_ ? &*by_time_ : nullptr; }

  // Frees about so many of its elements and lowers the budget by them; true when it is empty.
  // Between the first step and the last nothing else may be called.
  bool FreeSome(size_t* budget);

  void CheckInvariants() const;

 private:
  CountingAllocator<Pending::value_type> PendingAllocator() const {
    return CountingAllocator<Pending::value_type>(bytes_);
  }
  CountingAllocator<Consumers::value_type> ConsumersAllocator() const {
    return CountingAllocator<Consumers::value_type>(bytes_);
  }

  size_t* bytes_;
  Pending pending_;
  Consumers consumers_;
  std::optional<ByTime> by_time_;
  size_t returned_ = 0;
  int64_t next_return_ = INT64_MIN;  // the delivered_ms of the next one
};

// An object whose bytes are counted there, with what it allocates itself.
template <typename T>
T* NewCounted(std::string_view name, size_t* bytes) {
  T* const object = CountingAllocator<T>(bytes).allocate(1);
  return new (object) T(name, bytes);
}
template <typename T>
void DeleteCounted(T* object, size_t* bytes) {
  object->~T();
  CountingAllocator<T>(bytes).deallocate(object, 1);
}

}  // namespace dfly
