// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_groups.h"

#include <algorithm>
#include <iterator>

#include "helio/base/logging.h"

namespace dfly {

StreamGroup::~StreamGroup() {
  for (const auto& [name, consumer] : consumers_) DeleteCounted(consumer, bytes_);
}

void StreamGroup::CopyFrom(const StreamGroup& other) {
  DCHECK(consumers_.empty());
  last_id = other.last_id;
  entries_read = other.entries_read;
  for (const auto& [consumer_name, consumer] : other.consumers_) {
    StreamConsumer* const copy = AddConsumer(consumer_name, consumer->seen_ms);
    copy->active_ms = consumer->active_ms;
    copy->pending = StreamConsumer::Pending(consumer->pending.begin(), consumer->pending.end(), {},
                                            copy->pending.get_allocator());
  }
  for (const auto& [id, pending] : other.pending_) {
    StreamPending copy = pending;
    copy.consumer = FindConsumer(pending.consumer->name);
    pending_.emplace_hint(pending_.end(), id, copy);
  }
}

StreamConsumer* StreamGroup::FindConsumer(std::string_view consumer_name) const {
  const auto it = consumers_.find(consumer_name);
  return it == consumers_.end() ? nullptr : it->second;
}

StreamConsumer* StreamGroup::AddConsumer(std::string_view consumer_name, int64_t now_ms) {
  auto* const consumer = NewCounted<StreamConsumer>(consumer_name, bytes_);
  consumer->seen_ms = now_ms;
  const bool is_new = consumers_.emplace(consumer->name, consumer).second;
  DCHECK(is_new);
  return consumer;
}

void StreamGroup::RemoveConsumer(StreamConsumer* consumer) {
  for (StreamId id : consumer->pending) {
    const auto it = pending_.find(id);
    if (by_time_) by_time_->erase({it->second.delivered_ms, id});
    pending_.erase(it);
  }
  consumers_.erase(std::string_view(consumer->name));
  DeleteCounted(consumer, bytes_);
}

StreamPending* StreamGroup::FindPending(StreamId id) {
  const auto it = pending_.find(id);
  return it == pending_.end() ? nullptr : &it->second;
}

StreamPending& StreamGroup::Assign(StreamId id, StreamConsumer* consumer) {
  const auto [it, is_new] = pending_.try_emplace(id);
  StreamPending& pending = it->second;
  if (is_new && by_time_) by_time_->insert({pending.delivered_ms, id});
  if (pending.consumer == consumer) return pending;
  if (!is_new) pending.consumer->pending.erase(id);
  pending.consumer = consumer;
  consumer->pending.insert(consumer->pending.end(), id);  // nearly always the largest
  return pending;
}

void StreamGroup::SetDelivered(StreamId id, StreamPending* pending, int64_t ms) {
  if (by_time_ && pending->delivered_ms != ms) {
    by_time_->erase({pending->delivered_ms, id});
    by_time_->insert({ms, id});
  }
  pending->delivered_ms = ms;
}

auto StreamGroup::OrderByTime() -> const ByTime& {
  if (!by_time_) {
    by_time_.emplace(CountingAllocator<Delivery>(bytes_));
    for (const auto& [id, pending] : pending_) by_time_->insert({pending.delivered_ms, id});
  }
  return *by_time_;
}

bool StreamGroup::Acknowledge(StreamId id) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return false;
  if (by_time_) by_time_->erase({it->second.delivered_ms, id});
  it->second.consumer->pending.erase(id);
  pending_.erase(it);
  return true;
}

bool StreamGroup::FreeSome(size_t* budget) {
  const auto erase_some = [budget](auto* tree) {
    const size_t count = std::min(*budget, tree->size());
    tree->erase(tree->begin(), std::next(tree->begin(), static_cast<ptrdiff_t>(count)));
    *budget -= count;
    return tree->empty();
  };
  while (!consumers_.empty() && *budget > 0) {
    StreamConsumer* const consumer = consumers_.begin()->second;
    if (!erase_some(&consumer->pending)) return false;
    consumers_.erase(consumers_.begin());
    DeleteCounted(consumer, bytes_);
    if (*budget > 0) --*budget;  // one without anything pending costs something, too
  }
  return consumers_.empty() && (!by_time_ || erase_some(&*by_time_)) && erase_some(&pending_);
}

void StreamGroup::CheckInvariants() const {
  size_t of_consumers = 0;
  for (const auto& [consumer_name, consumer] : consumers_) {
    CHECK(consumer_name == consumer->name);
    of_consumers += consumer->pending.size();
    for (StreamId id : consumer->pending) {
      const auto it = pending_.find(id);
      CHECK(it != pending_.end() && it->second.consumer == consumer);
    }
  }
  CHECK_EQ(of_consumers, pending_.size());
  if (!by_time_) return;
  CHECK_EQ(by_time_->size(), pending_.size());
  for (const Delivery& delivery : *by_time_) {
    const auto it = pending_.find(delivery.id);
    CHECK(it != pending_.end() && it->second.delivered_ms == delivery.ms);
  }
}

}  // namespace dfly
