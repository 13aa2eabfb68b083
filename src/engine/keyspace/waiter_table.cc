// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/waiter_table.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/keyspace/shard.h"

namespace dfly {

namespace {

// What touches one tag only may go before transactions that have announced themselves and have not
// run here: their turn, and whatever came of it elsewhere, is after that of who made the key ready.
// (With those before it a waiter might starve.) With a second tag somebody could be in between.
bool IsHindered(const TxQueue& transactions, const WaiterNode& node) {
  const auto& locks = node.locks;
  if (locks.size() == 1) return transactions.IsInUse({locks.front(), LockMode::kExclusive});
  return std::any_of(locks.begin(), locks.end(), [&](uint64_t lock) {
    return transactions.Conflicts({lock, LockMode::kExclusive});
  });
}

}  // namespace

void WaiterTable::Add(WaiterNode* node) {
  DCHECK(!node->linked());
  const auto [it, is_new] = keys_.try_emplace(node->name);
  std::unique_ptr<Queue>& queue = it->second;
  if (is_new) {
    queue = std::make_unique<Queue>();
    queue_bytes_ += sizeof(Queue) + helio::HeapBytes(it->first.key);
  }
  queue->nodes.PushBack(node);
  queue->minding_absence += node->minds_absence;
  queue->spanning += node->spans_shards;
}

void WaiterTable::Remove(WaiterNode* node) {
  if (!node->linked()) return;
  node->Unlink();
  const auto it = keys_.find(node->name);
  it->second->minding_absence -= node->minds_absence;
  it->second->spanning -= node->spans_shards;
  if (it->second->nodes.empty()) {
    queue_bytes_ -= sizeof(Queue) + helio::HeapBytes(it->first.key);
    keys_.erase(it);
    helio::ShrinkIfSparse(&keys_);
  } else if (node->holds) {
    MarkReady(it->first, *it->second);  // perhaps it has left something for the next one
  }
  node->holds = false;
}

void WaiterTable::EndHold(WaiterNode* node) {
  if (!node->holds) return;
  node->holds = false;
  const auto it = keys_.find(node->name);
  MarkReady(it->first, *it->second);
}

void WaiterTable::OnChanged(int db_index, std::string_view key) {
  const auto it = keys_.find(KeyNameView(db_index, key));
  if (it != keys_.end()) MarkReady(it->first, *it->second);
}

void WaiterTable::OnChangedAll(int db_index) {
  for (auto& [name, queue] : keys_) {
    if (name.db_index == db_index) MarkReady(name, *queue);
  }
}

void WaiterTable::Serve(Shard& shard) {
  if (is_serving_) return;
  is_serving_ = true;
  std::unique_lock<SpanningMutex> spanning;
  if (spanning_mutex_ != nullptr) spanning = {*spanning_mutex_, std::defer_lock};
  std::vector<KeyName> hindered;
  // Serving one may make another key ready (BLMOVE).
  while (!ready_.empty()) {
    for (KeyName& name : std::exchange(ready_, {})) {
      if (!ServeKey(shard, name, &spanning)) hindered.push_back(std::move(name));
    }
  }
  for (KeyName& name : hindered) {
    const auto it = keys_.find(name);
    if (it != keys_.end()) MarkReady(it->first, *it->second);
  }
  is_serving_ = false;
}

size_t WaiterTable::CountKeysMindingAbsence() const {
  size_t count = 0;
  for (const auto& [name, queue] : keys_) count += queue->minding_absence > 0;
  return count;
}

size_t WaiterTable::CountReady(Shard& shard, size_t most) const {
  size_t count = 0;
  for (const auto& [name, queue] : keys_) {
    if (most-- == 0) break;
    for (WaiterNode& node : queue->nodes) {
      if (!node.waiter->IsReady(shard, node)) continue;
      ++count;
      break;
    }
  }
  return count;
}

bool WaiterTable::ServeKey(Shard& shard, const KeyName& name,
                           std::unique_lock<SpanningMutex>* spanning) {
  std::optional<List::iterator> skipped;  // the last of those in front that want something else
  for (;;) {
    const auto it = keys_.find(name);
    if (it == keys_.end()) return true;
    it->second->is_ready = false;
    const bool may_meet_others = it->second->spanning > 0 && spanning->mutex() != nullptr;
    if (may_meet_others && !spanning->owns_lock()) spanning->lock();
    List& nodes = it->second->nodes;
    const auto at = skipped ? std::next(*skipped) : nodes.begin();
    if (at == nodes.end()) return true;
    WaiterNode& node = *at;
    if (node.holds) return true;
    if (IsHindered(shard.transactions(), node)) return false;
    switch (node.waiter->Serve(shard, node)) {
      case Waiter::Outcome::kServed:
        break;
      case Waiter::Outcome::kGone:
        Remove(&node);
        break;
      case Waiter::Outcome::kAbsent:
        if (it->second->minding_absence == 0) return true;
        skipped = at;
        break;
      case Waiter::Outcome::kNotReady:
        skipped = at;
        break;
      case Waiter::Outcome::kHolds:
        node.holds = true;
        return true;
    }
  }
}

}  // namespace dfly
