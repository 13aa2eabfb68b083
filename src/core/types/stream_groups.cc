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
    if (!pending.is_returned()) copy.consumer = FindConsumer(pending.consumer->name);
    pending_.emplace_hint(pending_.end(), id, copy);
  }
  returned_ = other.returned_;
  next_return_ = other.next_return_;
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
  if (pending.is_returned()) {
    if (!is_new) {
      --returned_;
      SetDelivered(id, &pending, 0);
    }
  } else {
    pending.consumer->pending.erase(id);
  }
  pending.consumer = consumer;
  consumer->pending.insert(consumer->pending.end(), id);  // nearly always the largest
  return pending;
}

StreamPending& StreamGroup::Return(StreamId id) {
  const auto [it, is_new] = pending_.try_emplace(id);
  StreamPending& pending = it->second;
  if (is_new && by_time_) by_time_->insert({pending.delivered_ms, id});
  if (is_new || !pending.is_returned()) ++returned_;
  if (!pending.is_returned()) pending.consumer->pending.erase(id);
  pending.consumer = nullptr;
  SetDelivered(id, &pending, next_return_++);
  return pending;
}

std::vector<StreamId> StreamGroup::Returned() const {
  std::vector<StreamId> ids;
  if (returned_ == 0) return ids;
  std::vector<Delivery> deliveries;
  for (const auto& [id, pending] : pending_) {
    if (pending.is_returned()) deliveries.push_back({pending.delivered_ms, id});
  }
  std::sort(deliveries.begin(), deliveries.end());
  for (const Delivery& delivery : deliveries) ids.push_back(delivery.id);
  return ids;
}

std::string StreamGroup::UnusedName() const {
  std::string name;
  for (size_t i = 1; FindConsumer(name) != nullptr; ++i) name = "nobody" + std::to_string(i);
  return name;
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
  if (it->second.is_returned()) {
    --returned_;
  } else {
    it->second.consumer->pending.erase(id);
  }
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
  size_t of_nobody = 0;
  for (const auto& [id, pending] : pending_) of_nobody += pending.is_returned();
  CHECK_EQ(of_nobody, returned_);
  CHECK_EQ(of_consumers + of_nobody, pending_.size());
  if (!by_time_) return;
  CHECK_EQ(by_time_->size(), pending_.size());
  for (const Delivery& delivery : *by_time_) {
    const auto it = pending_.find(delivery.id);
    CHECK(it != pending_.end() && it->second.delivered_ms == delivery.ms);
  }
}

}  // namespace dfly
