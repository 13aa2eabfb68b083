// SPDX-License-Identifier: Apache-2.0
#include "core/table/deadline_table.h"

namespace dfly {

int64_t DeadlineTable::Get(const KeyProbe& probe) const {
  if (has_apart()) {
    if (const auto it = apart_.Find(probe)) return it->value;
  }
  const auto it = hashes_.Find({probe.hash()});
  CHECK(it) << "a key's deadline is lost";
  return it->value.ms;
}

void DeadlineTable::Set(const KeyProbe& probe, int64_t at_ms) {
  if (has_apart()) {
    if (const auto it = apart_.Find(probe)) {
      it->value = at_ms;
      minima_.Note(PositionOf(probe.hash()), at_ms);
      return;
    }
  }
  const auto it = hashes_.Find({probe.hash()});
  CHECK(it) << "a key's deadline is lost";
  it->value.ms = at_ms;
  minima_.Note(PositionOf(probe.hash()), at_ms);
}

void DeadlineTable::Add(const KeyProbe& probe, int64_t at_ms) {
  const auto [it, is_new] = hashes_.FindOrInsert({probe.hash()});
  if (is_new) {
    it->value.ms = at_ms;
  } else {
    apart_.Insert(probe)->value = at_ms;
  }
  minima_.Fit(size());
  minima_.Note(PositionOf(probe.hash()), at_ms);
}

void DeadlineTable::Erase(const KeyProbe& probe) {
  if (has_apart()) {
    if (const auto it = apart_.Find(probe)) {
      apart_.Erase(it);
      minima_.Fit(size());
      return;
    }
  }
  const auto it = hashes_.Find({probe.hash()});
  CHECK(it) << "a key's deadline is lost";
  hashes_.Erase(it);
  minima_.Fit(size());
}

uint32_t DeadlineTable::Move(uint32_t cursor, BlockMover& mover) {
  if (cursor == 0) minima_.Move(mover);
  if (cursor == 0 && has_apart()) {
    // All at once: they are few.
    uint32_t at = 0;
    do {
      at = apart_.Move(at, mover, [&mover](Apart::Slot& slot) { slot.key.Move(mover); });
    } while (at != 0);
  }
  return hashes_.Move(cursor, mover, [](const Hashes::Slot&) {});
}

void DeadlineTable::CheckInvariants() const {
  hashes_.CheckInvariants();
  apart_.CheckInvariants();
  minima_.CheckInvariants();
  uint32_t cursor = 0;
  do {
    cursor = Scan(cursor, [this](const Entry& entry) {
      // It may be later than the entry's time, see NoteAgain.
      CHECK_NE(minima_.EarliestAt(PositionOf(entry.hash)), RangeMinima::kNever);
    });
  } while (cursor != 0);
}

}  // namespace dfly
