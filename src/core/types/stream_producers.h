// SPDX-License-Identifier: Apache-2.0
// What idempotent producers have sent to a stream (XADD IDMP): which of their messages became which
// entry. So a message that comes a second time is no second entry.
#pragma once

#include <absl/container/btree_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/table/value_limits.h"
#include "core/types/stream_groups.h"

namespace dfly {

// A message is as old as its entry, whose id has the time. It is forgotten when it is older than
// `duration_s`, or when its producer has sent `messages_max` others. If there are too many
// producers, the one that has sent nothing for the longest time is forgotten, with all of its
// messages.
//
// Owner:    a StreamValue, which may give it away.
// Suspends: never.
// Cost:     about 150 bytes for each message besides its name. Add, Find O(log n).
class StreamProducers {
 public:
  explicit StreamProducers(const StreamLimit& limit)
      : duration_s(limit.producer_seconds),
        messages_max(limit.producer_messages),
        producers_(ProducersAllocator(&bytes_)),
        by_id_(ByIdAllocator(&bytes_)),
        by_last_(ByIdAllocator(&bytes_)) {}
  ~StreamProducers();
  StreamProducers(const StreamProducers&) = delete;
  StreamProducers& operator=(const StreamProducers&) = delete;
  // What it costs, exactly. REQUIRES: made with new.
  size_t bytes() const { return UsableSize(this) + bytes_; }
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* value) { Free(value); }
  void CopyFrom(const StreamProducers& other);  // REQUIRES: this is empty

  // What XCFGSET has said, or the settings of the time when the first producer came. Not 0.
  uint32_t duration_s;
  uint32_t messages_max;
  // In the life of the stream: messages that became entries, and those that came once more.
  uint64_t added = 0;
  uint64_t duplicates = 0;

  // It is some message.
  bool HasEntry(StreamId id) const { return by_id_.contains(id); }
  // The entry of that message. None: it is not known, or too old.
  std::optional<StreamId> Find(std::string_view producer, std::string_view message,
                               int64_t now_ms) const;
  // Forgets some that are too old, of the producer those that are too many, and some of producers
  // that are more than `producers_max`, which is not 0. The rest go with the next calls. REQUIRES:
  // the message is not kept, and `id` is no other one's; ids mostly grow.
  void Add(std::string_view producer, std::string_view message, StreamId id, int64_t now_ms,
           size_t producers_max);
  // As it was kept elsewhere: forgets nothing. False: as Add requires it, it is not so.
  bool Restore(std::string_view producer, std::string_view message, StreamId id);
  // Forgets all in steps, of about `budget` messages, which is lowered; true when nothing is left.
  bool FreeSome(size_t* budget);

  // Of those that are not too old.
  struct Tracked {
    size_t producers = 0;
    size_t messages = 0;
  };
  Tracked Count(int64_t now_ms) const;

  size_t producers() const { return producers_.size(); }
  // function(std::string_view name, size_t messages)
  // then, for each message in their order, message_function(std::string_view name, StreamId id)
  template <typename Function, typename MessageFunction>
  void ForEach(Function function, MessageFunction message_function) const {
    for (const auto& [name, producer] : producers_) {
      function(name, producer->order.size());
      for (const auto& [id, message] : producer->order) message_function(message->first, id);
    }
  }

  void CheckInvariants() const;

 private:
  using Messages = std::map<StreamName, StreamId, StreamNameLess,
                            CountingAllocator<std::pair<const StreamName, StreamId>>>;
  using Order = absl::btree_map<StreamId, Messages::iterator, std::less<StreamId>,
                                CountingAllocator<std::pair<const StreamId, Messages::iterator>>>;
  struct Producer {
    Producer(std::string_view its_name, size_t* bytes)
        : name(its_name, CountingAllocator<char>(bytes)),
          messages(CountingAllocator<Messages::value_type>(bytes)),
          order(CountingAllocator<Order::value_type>(bytes)) {}
    const StreamName name;
    Messages messages;
    Order order;
  };
  using Producers =
      absl::btree_map<std::string_view, Producer*, StreamNameLess,
                      CountingAllocator<std::pair<const std::string_view, Producer*>>>;
  using ById = absl::btree_map<StreamId, Producer*, std::less<StreamId>,
                               CountingAllocator<std::pair<const StreamId, Producer*>>>;
  using ProducersAllocator = CountingAllocator<Producers::value_type>;
  using ByIdAllocator = CountingAllocator<ById::value_type>;

  bool IsOld(StreamId id, int64_t now_ms) const {
    const uint64_t duration_ms = uint64_t{1000} * duration_s;
    return id.ms < UINT64_MAX - duration_ms && id.ms + duration_ms <= static_cast<uint64_t>(now_ms);
  }
  // The oldest one of the producer, who goes with the last. True: it has.
  bool ForgetOldest(Producer* producer);

  size_t bytes_ = 0;     // of all below
  Producers producers_;  // each has messages
  ById by_id_;           // of all messages
  ById by_last_;         // producers by their last message
};

}  // namespace dfly
