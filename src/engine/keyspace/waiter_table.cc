// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/waiter_table.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "engine/keyspace/shard.h"
#include "engine/keyspace/shard_turn.h"
#include "helio/base/clock.h"
#include "helio/proactor/proactor.h"

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

// When nodes are looked at, and the timer for the first of them. Owner: the table, whose shard's
// loop has the timer while there is a node.
class WaiterTable::Looks final : private helio::Timer {
 public:
  explicit Looks(Shard& shard)
      : Timer([](helio::Timer* timer) { static_cast<Looks*>(timer)->OnTimer(); }), shard_(shard) {}

  void Add(WaiterNode* node, int64_t at_ms) {
    node->look_ms = at_ms;
    nodes_.insert({at_ms, node});
    Arm();
  }
  void Remove(WaiterNode* node) {
    nodes_.erase({node->look_ms, node});
    node->look_ms = 0;
    Arm();
  }
  size_t memory_used() const { return sizeof(*this) + nodes_.size() * sizeof(*nodes_.begin()); }

 private:
  static constexpr int64_t kSleepMaxMillis = 1000;  // the clock may be set
  static constexpr int64_t kHeldMillis = 100;

  void Arm() { ArmIn(nodes_.empty() ? 0 : nodes_.begin()->first - helio::UnixMillis()); }
  void ArmIn(int64_t wait_ms) {
    helio::TimerQueue& timers = helio::Proactor::Current()->timers();
    if (nodes_.empty()) return timers.Disarm(this);
    const auto millis = static_cast<uint64_t>(std::clamp<int64_t>(wait_ms, 1, kSleepMaxMillis));
    timers.Arm(this, helio::MonotonicNanos() + millis * helio::kNanosPerMilli);
  }

  void OnTimer() {
    // A replica does nothing by itself, nor does who pauses before it hands its role over.
    if (shard_.keeps_due()) return ArmIn(kHeldMillis);
    const int64_t now_ms = helio::UnixMillis();
    ShardTurn turn(shard_);  // whose end serves them
    while (!nodes_.empty() && nodes_.begin()->first <= now_ms) {
      WaiterNode* const node = nodes_.begin()->second;
      nodes_.erase(nodes_.begin());
      node->look_ms = 0;
      shard_.waiters().OnChanged(node->name.db_index, node->name.key);
    }
    Arm();
  }

  Shard& shard_;
  std::set<std::pair<int64_t, WaiterNode*>> nodes_;
};

WaiterTable::WaiterTable() = default;
WaiterTable::~WaiterTable() = default;

void WaiterTable::LookAt(Shard& shard, WaiterNode* node, int64_t at_ms) {
  if (node->look_ms == at_ms) return;
  if (node->look_ms != 0) looks_->Remove(node);
  if (at_ms == 0) return;
  if (looks_ == nullptr) looks_ = std::make_unique<Looks>(shard);
  looks_->Add(node, at_ms);
}

size_t WaiterTable::memory_used() const {
  return queue_bytes_ + helio::MapBytes(keys_) + ready_.capacity() * sizeof(KeyName) +
         (looks_ == nullptr ? 0 : looks_->memory_used());
}

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
  if (node->look_ms != 0) [[unlikely]]
    looks_->Remove(node);
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
