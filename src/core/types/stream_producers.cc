// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_producers.h"

#include <iterator>

#include "helio/base/logging.h"

namespace dfly {

StreamProducers::~StreamProducers() {
  size_t all = SIZE_MAX;
  FreeSome(&all);
}

void StreamProducers::CopyFrom(const StreamProducers& other) {
  DCHECK(producers_.empty());
  duration_s = other.duration_s;
  messages_max = other.messages_max;
  added = other.added;
  duplicates = other.duplicates;
  std::string_view producer;
  other.ForEach([&producer](std::string_view name, size_t) { producer = name; },
                [&](std::string_view message, StreamId id) { Restore(producer, message, id); });
}

std::optional<StreamId> StreamProducers::Find(std::string_view producer, std::string_view message,
                                              int64_t now_ms) const {
  const auto it = producers_.find(producer);
  if (it == producers_.end()) return std::nullopt;
  const auto found = it->second->messages.find(message);
  if (found == it->second->messages.end() || IsOld(found->second, now_ms)) {
    return std::nullopt;
  }
  return found->second;
}

void StreamProducers::Add(std::string_view producer, std::string_view message, StreamId id,
                          int64_t now_ms, size_t producers_max) {
  // Each call adds one and may forget several, so all that are old go in time.
  constexpr int kForgottenMax = 100;
  for (int i = 0; i < kForgottenMax && !by_id_.empty(); ++i) {
    const auto& [oldest, its_producer] = *by_id_.begin();
    if (!IsOld(oldest, now_ms)) break;
    ForgetOldest(its_producer);
  }
  // It may be among those that are old and have not gone yet.
  if (const auto it = producers_.find(producer); it != producers_.end()) {
    while (it->second->messages.contains(message)) {
      if (ForgetOldest(it->second)) break;
    }
  }
  const bool is_kept = Restore(producer, message, id);
  DCHECK(is_kept);
  Producer* const its_producer = producers_.find(producer)->second;
  while (its_producer->messages.size() > messages_max) ForgetOldest(its_producer);
  // After the limit was lowered there may be many.
  for (int i = 0; i < kForgottenMax && producers_.size() > producers_max; ++i) {
    // The one that has sent just now has the last of these, unless its id is in the past.
    auto silent = by_last_.begin();
    if (silent->second == its_producer) ++silent;
    ForgetOldest(silent->second);
  }
}

bool StreamProducers::Restore(std::string_view producer, std::string_view message, StreamId id) {
  if (by_id_.contains(id)) return false;
  auto it = producers_.find(producer);
  if (it == producers_.end()) {
    auto* const made = NewCounted<Producer>(producer, &bytes_);
    it = producers_.emplace(made->name, made).first;
  }
  Producer& its_producer = *it->second;
  const auto [at, is_new] =
      its_producer.messages.emplace(StreamName(message, CountingAllocator<char>(&bytes_)), id);
  if (!is_new) return false;
  Order& order = its_producer.order;
  if (order.empty() || std::prev(order.end())->first < id) {
    if (!order.empty()) by_last_.erase(std::prev(order.end())->first);
    by_last_.emplace(id, &its_producer);
  }
  order.emplace(id, at);
  by_id_.emplace(id, &its_producer);
  return true;
}

bool StreamProducers::ForgetOldest(Producer* producer) {
  const auto oldest = producer->order.begin();
  by_id_.erase(oldest->first);
  if (producer->order.size() == 1) by_last_.erase(oldest->first);
  producer->messages.erase(oldest->second);
  producer->order.erase(oldest);
  if (!producer->order.empty()) return false;
  producers_.erase(std::string_view(producer->name));
  DeleteCounted(producer, &bytes_);
  return true;
}

bool StreamProducers::FreeSome(size_t* budget) {
  for (; !by_id_.empty() && *budget > 0; --*budget) ForgetOldest(by_id_.begin()->second);
  return by_id_.empty();
}

auto StreamProducers::Count(int64_t now_ms) const -> Tracked {
  Tracked tracked;
  for (const auto& [name, producer] : producers_) {
    tracked.producers += !IsOld(std::prev(producer->order.end())->first, now_ms);
  }
  tracked.messages = by_id_.size();
  for (const auto& [id, producer] : by_id_) {
    if (!IsOld(id, now_ms)) break;
    --tracked.messages;
  }
  return tracked;
}

void StreamProducers::CheckInvariants() const {
  size_t messages = 0;
  for (const auto& [name, producer] : producers_) {
    CHECK(name == producer->name);
    CHECK(!producer->order.empty());
    CHECK_EQ(producer->order.size(), producer->messages.size());
    messages += producer->order.size();
    const auto last = by_last_.find(std::prev(producer->order.end())->first);
    CHECK(last != by_last_.end() && last->second == producer);
    for (const auto& [id, message] : producer->order) {
      CHECK(message->second == id);
      const auto it = by_id_.find(id);
      CHECK(it != by_id_.end() && it->second == producer);
    }
  }
  CHECK_EQ(messages, by_id_.size());
  CHECK_EQ(by_last_.size(), producers_.size());
}

}  // namespace dfly
