// SPDX-License-Identifier: Apache-2.0
// The reply slots of one connection, in the order of its commands.
//
// A command that runs at once while nothing before it is pending writes straight into the
// connection's output. Otherwise its reply waits, as bytes in a side buffer or in the batch that
// travels to another shard and back, until everything before it has moved to the output:
//
//     commands   GET a (here)   GET b (shard 1)  GET c (shard 1)  PING      GET d (shard 2)
//     slots      -> output      [batch 1: 2 replies            ]  [side: 7 bytes]  [batch 2: 1]
//
// Adjacent slots of one kind share an item, so a pipeline of a thousand commands to one shard
// costs one. Items, side buffer and batches are reused: a steady state allocates nothing.
//
// A reply that must not leave before an epoch of the journal is on the disk (Hold) puts a mark into
// the output: from there on all replies wait for that epoch.
#pragma once

#include <absl/functional/any_invocable.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "helio/base/io_buf.h"
#include "helio/base/logging.h"

namespace dfly {

// The replies of the commands that one connection sends to one shard in one hop; with a single
// reply, also a slot that somebody fills later (a blocked command).
//
// Owner: the connection that made it, which frees or pools it in the queue's release callback. From
// the send until the answer the other thread has it for itself, and both ways it travels by
// message, so nothing here is atomic. A connection that closes meanwhile abandons it: whoever
// receives the answer finds `abandoned` set and frees the batch instead of calling
// ReplyQueue::Complete().
struct PendingReplies {
  // The remote thread writes the replies into `bytes` in the order of the commands, and after each
  // calls EndReply(). A reply may be empty (CLIENT REPLY OFF). It may stop in the middle and send
  // back a part; once that has been taken and BeginPart() called, it writes the next one.
  helio::IoBuf bytes;
  std::vector<size_t> ends;  // where each reply ends in `bytes`

  void EndReply() { ends.push_back(bytes.size()); }
  void BeginPart();
  // Its replies that are not taken yet must not leave before `epoch` is durable.
  void Await(uint64_t epoch) { awaited = std::max(awaited, epoch); }

  // Makes it as new, for a pool. Keeps memory, but no more than kBytesKept bytes of replies.
  void Recycle();
  static constexpr size_t kBytesKept = 16 << 10;

  // The rest belongs to the connection's thread and its ReplyQueue.
  size_t promised = 0;     // slots in the queue so far
  size_t taken = 0;        // replies that moved to the output
  size_t part_begin = 0;   // the first reply of `ends`
  size_t back = 0;         // replies that have come back from the other thread
  bool complete = false;   // all of them have
  uint64_t awaited = 0;    // see Await; 0: nothing
  bool abandoned = false;  // the queue no longer knows it
  size_t counted = 0;      // bytes of memory that the connection's thread has counted for it
  // Not null: gets it instead of the queue's own function.
  void (*release)(PendingReplies*) = nullptr;
};

// Owner:    one connection, on its thread.
// Suspends: never.
// An idle queue owns no memory after Release().
class ReplyQueue {
 public:
  using ReleaseFn = absl::AnyInvocable<void(PendingReplies*)>;

  // `release` gets each batch once all of its replies have been taken or dropped. It may free the
  // batch and must not call the queue.
  ReplyQueue(helio::IoBuf* output, ReleaseFn release)
      : output_(output), release_(std::move(release)) {}
  ~ReplyQueue() { Clear(); }
  ReplyQueue(const ReplyQueue&) = delete;
  ReplyQueue& operator=(const ReplyQueue&) = delete;

  // The commands of a read begin. See is_in_read.
  void BeginRead() {
    ++read_;
    owes_earlier_ = items_count_ != 0 || !output_->empty();
  }
  // The output ends with replies of a read whose next reply is still to come, and has none of an
  // earlier read. Not if somebody else decides when it comes (a release of its own).
  bool is_in_read() const {
    return items_count_ > 0 && At(0).batch != nullptr && At(0).batch->release == nullptr &&
           At(0).read == moved_read_;
  }

  // Where the next command's reply must be written now. Nothing else may be added before
  // EndLocal(), but Advance() may run in between.
  helio::IoBuf* BeginLocal() {
    DCHECK(!local_open_);
    local_open_ = true;
    local_in_side_ = items_count_ != 0;
    open_begin_ = output_->size();
    return local_in_side_ ? &side_ : output_;
  }

  // The reply is complete. It becomes a slot unless it went to the output or is empty.
  void EndLocal() {
    DCHECK(local_open_);
    local_open_ = false;
    if (local_in_side_) {
      AddSideSlot();
    } else if ((held_ | carried_) != 0) [[unlikely]] {
      Carry(std::exchange(held_, 0));
      if (output_->size() > open_begin_) AddMark(open_begin_, std::exchange(carried_, 0));
    }
  }

  // The reply that is being written must not leave before `epoch` is durable, nor may what stands
  // behind it. 0: nothing.
  void Hold(uint64_t epoch) {
    DCHECK(local_open_);
    held_ = std::max(held_, epoch);
  }

  // How many bytes at the front of the output may leave when all epochs up to `durable` are.
  [[nodiscard]] size_t Sendable(uint64_t durable) {
    return marks_.empty() ? output_->size() : SendableBeforeMarks(durable);
  }
  // So many bytes of them have left.
  void OnTaken(size_t bytes);
  // The epoch that the first byte waits for which does not leave; 0: none does.
  uint64_t awaited() const { return marks_.empty() ? 0 : marks_.front().epoch; }

  // The next slot is the next reply of `batch`.
  // REQUIRES: the batch is still being filled with commands or on its way.
  void AddRemote(PendingReplies* batch);

  // The other thread is done with `batch`. Call Advance() next, once for any number of batches.
  // REQUIRES: !batch->abandoned, and a reply for each slot.
  void Complete(PendingReplies* batch);
  // It has sent back the first replies only. It may go on with the others once waits_for(batch).
  void CompletePart(PendingReplies* batch);
  // Nothing is left before the replies of `batch` that have yet to come.
  bool waits_for(const PendingReplies* batch) const {
    return items_count_ > 0 && At(0).batch == batch && batch->taken == batch->back;
  }

  // What waits for an epoch, and all behind it in the output, is dropped. Its owner is closed next.
  void DropAwaited();

  // Moves complete replies from the head to the output, in order. Returns how many bytes moved.
  size_t Advance();
  // By how much PendingReplies::counted of batches has changed, as their buffers became the output.
  int64_t TakeCountedChange() { return std::exchange(counted_change_, 0); }

  // On disconnect: drops all slots. Complete batches are released now, the others are abandoned.
  void Clear();

  // REQUIRES: empty().
  void set_release(ReleaseFn release) {
    DCHECK(empty());
    release_ = std::move(release);
  }

  // Frees the queue's own memory. REQUIRES: empty().
  void Release();

  bool empty() const { return items_count_ == 0; }
  size_t slots() const { return slots_; }  // replies that wait for their turn, complete or not
  // Reply bytes that wait for earlier ones. Bytes in batches count when they are back.
  size_t pending_bytes() const { return side_.size() + batch_bytes_; }
  size_t batch_bytes() const { return batch_bytes_; }
  // Without batches, which their owner counts.
  size_t memory_used() const {
    return ring_.capacity() * sizeof(Item) + side_.capacity() + marks_.capacity() * sizeof(Mark);
  }

  // O(items). For tests and debug builds.
  void CheckInvariants() const;

 private:
  struct Item {
    PendingReplies* batch = nullptr;  // nullptr: bytes of side_
    uint32_t count = 0;               // slots
    uint32_t read = 0;                // of the first one
    size_t bytes = 0;                 // in side_; 0 for a batch
    uint64_t awaited = 0;             // of side_; see PendingReplies
  };
  // What stands in the output from `begin` on waits for `epoch`.
  struct Mark {
    size_t begin;
    uint64_t epoch;
  };

  Item& At(size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  const Item& At(size_t i) const { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  Item& PushItem();
  void PopItem();
  void AddSideSlot();
  void LetGo(PendingReplies* batch);
  void Move(helio::IoBuf* from, size_t offset, size_t bytes, uint64_t awaited);
  void AddMark(size_t begin, uint64_t epoch);
  // A reply that waits for `epoch` may be empty: the next one that is not waits for it as well.
  void Carry(uint64_t epoch) { carried_ = std::max(carried_, epoch); }
  size_t SendableBeforeMarks(uint64_t durable);

  helio::IoBuf* const output_;
  ReleaseFn release_;
  helio::IoBuf side_;
  std::vector<Item> ring_;  // its size is a power of two, or zero
  size_t head_ = 0;         // index of the first item
  size_t items_count_ = 0;
  size_t slots_ = 0;          // == sum of Item::count
  size_t side_in_slots_ = 0;  // == sum of Item::bytes; what follows in side_ is the open reply
  size_t batch_bytes_ = 0;    // bytes that came back in batches and were not yet taken
  int64_t counted_change_ = 0;
  std::vector<Mark> marks_;  // in the order of their beginnings, and of their epochs
  uint64_t held_ = 0;        // of the open reply
  uint64_t carried_ = 0;     // see Carry
  size_t open_begin_ = 0;    // in the output
  uint32_t read_ = 0;        // a number for each; it may wrap
  uint32_t moved_read_ = 0;  // that of the last reply in the output, while others wait
  bool owes_earlier_ = false;
  bool local_open_ = false;
  bool local_in_side_ = false;
};

}  // namespace dfly
