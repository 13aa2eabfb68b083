// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/reply_queue.h"

#include <algorithm>
#include <utility>

namespace dfly {

void PendingReplies::Recycle() {
  if (bytes.capacity() > kBytesKept) {
    bytes.Release();
  } else {
    bytes.Clear();
  }
  if (ends.capacity() > kBytesKept / sizeof(ends[0])) {
    std::vector<size_t>().swap(ends);
  } else {
    ends.clear();
  }
  promised = taken = part_begin = back = 0;
  awaited = 0;
  complete = abandoned = false;
}

void PendingReplies::BeginPart() {
  part_begin = back;
  bytes.Clear();
  ends.clear();
}

ReplyQueue::Item& ReplyQueue::PushItem() {
  if (items_count_ == ring_.size()) {
    std::vector<Item> grown(ring_.empty() ? 8 : ring_.size() * 2);
    for (size_t i = 0; i < items_count_; i++) grown[i] = At(i);
    ring_ = std::move(grown);
    head_ = 0;
  }
  Item& item = At(items_count_++);
  item = Item();
  item.read = read_;
  return item;
}

void ReplyQueue::PopItem() {
  slots_ -= At(0).count;
  head_ = (head_ + 1) & (ring_.size() - 1);
  items_count_--;
}

void ReplyQueue::AddSideSlot() {
  DCHECK_GE(side_.size(), side_in_slots_);
  const size_t bytes = side_.size() - side_in_slots_;
  const uint64_t awaited = std::exchange(held_, 0);
  if (bytes == 0) return Carry(awaited);
  const Item* const last = items_count_ > 0 ? &At(items_count_ - 1) : nullptr;
  const bool joins = last != nullptr && last->batch == nullptr && last->awaited >= awaited;
  Item& item = joins ? At(items_count_ - 1) : PushItem();
  item.awaited = std::max(item.awaited, awaited);
  item.count++;
  item.bytes += bytes;
  side_in_slots_ += bytes;
  slots_++;
}

void ReplyQueue::LetGo(PendingReplies* batch) {
  if (batch->release != nullptr) {
    batch->release(batch);
  } else {
    release_(batch);
  }
}

void ReplyQueue::AddRemote(PendingReplies* batch) {
  DCHECK(!local_open_);
  DCHECK(!batch->complete);
  DCHECK(!batch->abandoned);
  if (items_count_ == 0) moved_read_ = owes_earlier_ ? read_ - 1 : read_;
  const bool joins = items_count_ > 0 && At(items_count_ - 1).batch == batch;
  Item& item = joins ? At(items_count_ - 1) : PushItem();
  item.batch = batch;
  item.count++;
  batch->promised++;
  slots_++;
}

void ReplyQueue::Complete(PendingReplies* batch) {
  CompletePart(batch);
  // One reply too few or too many, and every later client command gets somebody else's answer.
  CHECK_EQ(batch->back, batch->promised);
  batch->complete = true;
}

void ReplyQueue::CompletePart(PendingReplies* batch) {
  DCHECK(!batch->abandoned);
  DCHECK(!batch->complete);
  batch->back = batch->part_begin + batch->ends.size();
  CHECK_LE(batch->back, batch->promised);
  CHECK_EQ(batch->ends.empty() ? 0 : batch->ends.back(), batch->bytes.size());
  batch_bytes_ += batch->bytes.size();
}

// Takes whole buffers by swapping where it can.
void ReplyQueue::Move(helio::IoBuf* from, size_t offset, size_t bytes, uint64_t awaited) {
  if (awaited != 0) [[unlikely]]
    Carry(awaited);
  if (bytes == 0) return;  // `offset` may lie behind a buffer that was swapped away
  if (carried_ != 0) [[unlikely]]
    AddMark(output_->size(), std::exchange(carried_, 0));
  if (offset == 0 && bytes == from->size() && output_->empty()) {
    output_->Swap(*from);
  } else {
    output_->Append(from->view().substr(offset, bytes));
  }
}

void ReplyQueue::AddMark(size_t begin, uint64_t epoch) {
  if (!marks_.empty() && marks_.back().epoch >= epoch) return;  // it waits for that one anyway
  if (!marks_.empty() && marks_.back().begin == begin) {
    marks_.back().epoch = epoch;
  } else {
    marks_.push_back({begin, epoch});
  }
}

size_t ReplyQueue::SendableBeforeMarks(uint64_t durable) {
  const auto first = std::find_if(marks_.begin(), marks_.end(),
                                  [&](const Mark& mark) { return mark.epoch > durable; });
  marks_.erase(marks_.begin(), first);
  return marks_.empty() ? output_->size() : marks_.front().begin;
}

void ReplyQueue::OnTaken(size_t bytes) {
  for (Mark& mark : marks_) {
    DCHECK_GE(mark.begin, bytes);
    mark.begin -= bytes;
  }
}

void ReplyQueue::DropAwaited() {
  if (marks_.empty()) return;
  output_->Truncate(marks_.front().begin);
  marks_.clear();
}

size_t ReplyQueue::Advance() {
  size_t moved = 0;
  while (items_count_ > 0) {
    const Item item = At(0);
    if (item.batch == nullptr) {
      moved_read_ = item.read;
      const size_t side_size = side_.size();
      Move(&side_, 0, item.bytes, item.awaited);
      if (side_.size() == side_size) side_.Consume(item.bytes);  // copied, not swapped
      side_in_slots_ -= item.bytes;
      moved += item.bytes;
      PopItem();
      continue;
    }

    PendingReplies* const batch = item.batch;
    const size_t count = std::min<size_t>(item.count, batch->back - batch->taken);
    if (count == 0) break;
    moved_read_ = item.read;
    const size_t first = batch->taken - batch->part_begin;
    const size_t begin = first == 0 ? 0 : batch->ends[first - 1];
    const size_t bytes = batch->ends[first + count - 1] - begin;
    batch->taken += count;
    const size_t capacity_before = batch->bytes.capacity();
    Move(&batch->bytes, begin, bytes, batch->awaited);
    const size_t change = batch->bytes.capacity() - capacity_before;  // modulo 2^64
    batch->counted += change;
    counted_change_ += static_cast<int64_t>(change);
    batch_bytes_ -= bytes;
    moved += bytes;
    if (count < item.count) {
      At(0).count -= count;
      slots_ -= count;
      break;
    }
    PopItem();
    if (batch->taken == batch->promised) LetGo(batch);
  }
  return moved;
}

void ReplyQueue::Clear() {
  // A batch may stand in several items; the last one lets it go.
  for (; items_count_ > 0; PopItem()) {
    const Item item = At(0);
    PendingReplies* const batch = item.batch;
    if (batch == nullptr) continue;
    batch->taken += item.count;
    if (batch->taken < batch->promised) continue;
    if (batch->complete) {
      LetGo(batch);
    } else {
      batch->abandoned = true;
    }
  }
  side_.Clear();
  marks_.clear();
  slots_ = side_in_slots_ = batch_bytes_ = 0;
  held_ = carried_ = 0;
  local_open_ = false;
}

void ReplyQueue::Release() {
  DCHECK(empty());
  DCHECK(!local_open_);
  std::vector<Item>().swap(ring_);
  head_ = 0;
  side_.Release();
  if (marks_.empty()) std::vector<Mark>().swap(marks_);
}

void ReplyQueue::CheckInvariants() const {
  size_t slots = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < items_count_; i++) {
    const Item& item = At(i);
    CHECK_GT(item.count, 0u);
    CHECK_EQ(item.batch != nullptr, item.bytes == 0);
    // Adjacent ones coalesce, unless the later one waits for more.
    if (i > 0 && item.batch == At(i - 1).batch) {
      CHECK(item.batch == nullptr);
      CHECK_GT(item.awaited, At(i - 1).awaited);
    }
    slots += item.count;
    bytes += item.bytes;
  }
  CHECK_EQ(slots, slots_);
  CHECK_EQ(bytes, side_in_slots_);
  CHECK_LE(side_in_slots_, side_.size());
}

}  // namespace dfly
