// SPDX-License-Identifier: Apache-2.0
// The value of a stream key: its entries, what is remembered of those that have gone, its groups,
// and what producers have sent.
//
// All of it can be read (entries.ForEach, groups, their consumers and pending entries), and made
// again of such parts: Append or mutable_entries, set_counters, AddGroup, StreamGroup::AddConsumer
// and Assign.
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/types/stream_entries.h"
#include "core/types/stream_groups.h"
#include "core/types/stream_producers.h"

namespace dfly {

// Owner:    one value of a shard.
// Suspends: never.
class StreamValue {
 public:
  // By name. The key views the group's.
  using Groups =
      absl::btree_map<std::string_view, StreamGroup*, StreamNameLess,
                      CountingAllocator<std::pair<const std::string_view, StreamGroup*>>>;
  struct Counters {
    StreamId last_id;         // of the last entry that was ever added, or what XSETID has said
    StreamId first_id;        // of the first entry that is there; 0-0: there is none
    StreamId max_deleted_id;  // of all that XDEL has erased
    // At most INT64_MAX, where it stays (XSETID and RESTORE can bring it there); not below size().
    uint64_t entries_added = 0;
  };

  // Before the first shard starts.
  static void RegisterType();

  StreamValue() : entries_(&bytes_), groups_(GroupsAllocator()) {}
  ~StreamValue();
  StreamValue(const StreamValue&) = delete;
  StreamValue& operator=(const StreamValue&) = delete;
  StreamValue* Clone() const;
  // A step of ObjectType::move. A small stream is copied; of a large one its groups stay where they
  // are, and so does the object itself, which they refer to.
  static StreamValue* Move(StreamValue* stream, BlockMover& mover, uint64_t* cursor);
  // What it costs, exactly. REQUIRES: made with new.
  size_t bytes() const {
    return UsableSize(this) + bytes_ + (producers_ == nullptr ? 0 : producers_->bytes());
  }
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* value) { Free(value); }

  const StreamEntries& entries() const { return entries_; }
  uint64_t size() const { return entries_.size(); }
  const Counters& counters() const { return counters_; }
  // For who makes it again, node by node. REQUIRES: set_counters follows, before anything else.
  StreamEntries& mutable_entries() { return entries_; }
  void set_counters(const Counters& counters) { counters_ = counters; }

  // See StreamEntries. REQUIRES: `id` is larger than counters().last_id.
  void Append(StreamId id, std::span<const std::string_view> pairs, const StreamLimit& limit);
  bool Erase(StreamId id);
  uint64_t Trim(const StreamEntries::Trim& trim, std::vector<StreamId>* gone = nullptr);
  // Erases only what no group refers to. True: all of these were in front of what is left, as with
  // Trim. If not, it is as with Erase.
  bool TrimUnreferenced(const StreamEntries::Trim& trim, std::vector<StreamId>* gone);

  const Groups& groups() const { return groups_; }
  StreamGroup* FindGroup(std::string_view name) const;
  // REQUIRES: there is none of that name.
  StreamGroup* AddGroup(std::string_view name);
  void RemoveGroup(StreamGroup* group);
  // Some group has not been given this entry yet, or it is pending there.
  bool IsReferenced(StreamId id) const;

  // What idempotent producers have sent. Null: no such command has come for this stream.
  const StreamProducers* producers() const { return producers_.get(); }
  StreamProducers* mutable_producers() { return producers_.get(); }
  // Makes them, with these limits, if they are not there.
  StreamProducers& MakeProducers(const StreamLimit& limit);
  // They have these limits from now on, and no messages: those go as large values do. REQUIRES:
  // they are there.
  void RestartProducers(uint32_t duration_s, uint32_t messages_max);

  // Whether an entry behind `id` may have been erased by XDEL.
  bool HasGapsFrom(StreamId id) const;
  // How many entries were added up to `id`, that one included, or kUnknownReads.
  int64_t CountUpTo(StreamId id) const;
  // How many entries the group has not read. None: nobody knows.
  std::optional<int64_t> LagOf(const StreamGroup& group) const;
  // The group has been given the entry `id`.
  void AdvanceGroup(StreamGroup* group, StreamId id) const;

  // Frees about `budget` entries or elements of groups; true when none is left. Between the first
  // step and the last only bytes() may be called.
  bool FreeSome(size_t budget);

  void CheckInvariants() const;

 private:
  CountingAllocator<Groups::value_type> GroupsAllocator() {
    return CountingAllocator<Groups::value_type>(&bytes_);
  }
  void FindFirstId() { counters_.first_id = entries_.First().value_or(StreamId()); }

  size_t bytes_ = 0;  // of all below but producers_
  StreamEntries entries_;
  Counters counters_;
  Groups groups_;
  std::unique_ptr<StreamProducers> producers_;
};

}  // namespace dfly
