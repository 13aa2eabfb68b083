// SPDX-License-Identifier: Apache-2.0
#include "server/care/held_locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "helio/base/clock.h"

namespace dfly {

namespace {

const char* NameOf(const TxEntry& entry) {
  return entry.origin.name == nullptr ? "something" : entry.origin.name;
}

uint64_t HeldMicros(const TxEntry& entry) {
  return (helio::MonotonicNanos() - entry.scheduled_ns) / 1000;
}

std::string WaitOf(const TxEntry& entry) {
  return entry.hold == nullptr ? "" : entry.hold->DescribeWait();
}

}  // namespace

bool HoldsLocks(const TxEntry& entry) {
  // One over shards may have been granted here and wait elsewhere, until it has run a hop.
  return entry.is_granted && (entry.has_run || !entry.has_number);
}

std::string DescribeHolder(const TxEntry& entry, ShardId shard) {
  const std::string wait = WaitOf(entry);
  const uint64_t client_id = entry.origin.client_id;
  return fmt::format("{}{} on shard {} since {:.1f} s, which {}{}", NameOf(entry),
                     client_id == 0 ? "" : fmt::format(" of client {}", client_id), shard,
                     static_cast<double>(HeldMicros(entry)) / 1e6,
                     wait.empty() ? "runs" : "waits for ", wait);
}

bool TellOnce(const TxEntry& entry) {
  if (entry.hold != nullptr) return entry.hold->TellOnce();
  return !std::exchange(entry.was_told, true);
}

void Holders::Add(const TxEntry& entry, ShardId shard) {
  Put({.id = entry.hold != nullptr ? static_cast<const void*>(entry.hold) : &entry,
       .name = NameOf(entry),
       .client_id = entry.origin.client_id,
       .held_us = HeldMicros(entry),
       .shards = {shard},
       .waits_for = WaitOf(entry)});
}

void Holders::Merge(const Holders& others) {
  for (const Holder& holder : others.list_) Put(holder);
}

void Holders::Put(Holder holder) {
  const auto it = std::find_if(list_.begin(), list_.end(),
                               [&](const Holder& known) { return known.id == holder.id; });
  if (it == list_.end()) {
    list_.push_back(std::move(holder));
    return;
  }
  it->held_us = std::max(it->held_us, holder.held_us);
  it->shards.insert(it->shards.end(), holder.shards.begin(), holder.shards.end());
  std::sort(it->shards.begin(), it->shards.end());
}

std::vector<Holder> Holders::Longest() const {
  std::vector<Holder> longest = list_;
  std::sort(longest.begin(), longest.end(),
            [](const Holder& a, const Holder& b) { return a.held_us > b.held_us; });
  if (longest.size() > kShown) longest.resize(kShown);
  return longest;
}

}  // namespace dfly
