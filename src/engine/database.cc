// SPDX-License-Identifier: Apache-2.0
#include "engine/database.h"

#include <absl/container/inlined_vector.h>

#include <string>

#include "core/hash.h"

namespace dfly {

bool Database::ExpireIfDue(const KeyProbe& probe, int64_t now_ms) {
  Table::Iterator it = table_.Find(probe);
  if (!it || !IsDue(*it, probe, now_ms)) return false;
  Remove(it, probe);
  listener_->OnChanged(index_, probe.key(), "expired");
  return true;
}

void Database::Remove(Table::Iterator it, const KeyProbe& probe) {
  ClearDeadline(*it, probe);
  value_bytes_ -= it->value.HeapBytes();
  table_.Erase(it);
}

std::optional<int64_t> Database::Deadline(const Table::Slot& slot, const KeyProbe& probe) const {
  if (!slot.key.has_flag(CompactKey::kHasExpire)) return std::nullopt;
  ExpiryTable::Iterator it = expiry_.Find(probe);
  CHECK(it) << "a key's deadline is lost";
  return it->value;
}

void Database::SetDeadline(Table::Slot& slot, const KeyProbe& probe, int64_t at_ms) {
  expiry_.FindOrInsert(probe).first->value = at_ms;
  slot.key.set_flag(CompactKey::kHasExpire, true);
}

bool Database::ClearDeadline(Table::Slot& slot, const KeyProbe& probe) {
  if (!slot.key.has_flag(CompactKey::kHasExpire)) return false;
  ExpiryTable::Iterator it = expiry_.Find(probe);
  CHECK(it) << "a key's deadline is lost";
  expiry_.Erase(it);
  slot.key.set_flag(CompactKey::kHasExpire, false);
  return true;
}

auto Database::ExpireStep(int64_t now_ms, size_t budget) -> ExpireProgress {
  ExpireProgress progress;
  // Spans without entries cost, too: they count as one visit.
  for (size_t spent = 0; spent < budget && expiry_.size() != 0;) {
    absl::InlinedVector<std::string, 16> due;
    size_t visited = 0;
    expire_cursor_ = expiry_.Scan(expire_cursor_, [&](const ExpiryTable::Slot& slot) {
      ++visited;
      if (slot.value < now_ms) due.push_back(slot.key.ToString());
    });
    for (const std::string& key : due) {
      progress.expired += ExpireIfDue(KeyProbe(key, HashKey(key)), now_ms);
    }
    progress.visited += visited;
    spent += visited + 1;
    if (expire_cursor_ == 0) break;  // the whole table, in one call at most
  }
  return progress;
}

bool Database::FreeSome(size_t budget) {
  if (size_t freed = 0; !table_.FreeSome(budget, &freed)) {
    value_bytes_ -= freed;
    return false;
  } else {
    value_bytes_ -= freed;
  }
  return expiry_.FreeSome(budget);
}

void Database::CheckInvariants() const {
  table_.CheckInvariants();
  expiry_.CheckInvariants();
  size_t value_bytes = 0;
  size_t flagged = 0;
  table_.ForEach([&](const Table::Slot& slot) {
    value_bytes += slot.value.HeapBytes();
    if (!slot.key.has_flag(CompactKey::kHasExpire)) return;
    ++flagged;
    char scratch[CompactKey::kScratchSize];
    CHECK(expiry_.Find(KeyProbe(slot.key.View(scratch), slot.key.Hash())));
  });
  CHECK_EQ(value_bytes, value_bytes_);
  CHECK_EQ(flagged, expiry_.size());
}

}  // namespace dfly
