// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/database.h"

#include <absl/container/inlined_vector.h>

#include <atomic>
#include <string>
#include <vector>

#include "core/text/hash.h"
#include "core/types/hash_value.h"

namespace dfly {
namespace {

// So many changes of its table's layout tell one database from the next one.
constexpr uint64_t kLayoutsMax = uint64_t{1} << 40;
constexpr int64_t kAgainMs = 100;  // until members that could not be erased are looked at again
std::atomic<uint64_t> births{1};   // of all threads

KeyEvent MembersExpired(ValueType type) {
  DCHECK(type == ValueType::kHash || type == ValueType::kSet);
  return type == ValueType::kHash ? KeyEvent::kHExpired : KeyEvent::kSExpired;
}

// Due or not.
std::vector<std::string> AllFields(const CompactValue& value) {
  std::vector<std::string> fields;
  const HashValue hash(value, INT64_MIN);
  hash.ForEach([&fields](std::string_view field, std::string_view) { fields.emplace_back(field); });
  return fields;
}

}  // namespace

Database::Database(int index, ChangeListener* listener, const EvictionRules& rules)
    : born_(births.fetch_add(1, std::memory_order_relaxed) * kLayoutsMax),
      index_(index),
      listener_(listener) {
  access_clock_.set_rules(rules);
}

void Database::SetEvictionRules(const EvictionRules& rules) {
  if (size() > 0 && !rules.KeepsClocksOf(access_clock_.rules())) {
    starts_clocks_ = true;
    start_cursor_ = 0;
  }
  access_clock_.set_rules(rules);
}

bool Database::StartClocks(int64_t now_ms, size_t budget) {
  if (!starts_clocks_) return false;
  size_t visited = 0;
  do {
    start_cursor_ = Scan(start_cursor_, [&](Table::Slot& slot) {
      access_clock_.Start(slot.value, now_ms);
      ++visited;
    });
    ++visited;  // it may be empty
    starts_clocks_ = start_cursor_ != 0;
  } while (starts_clocks_ && visited < budget);
  return starts_clocks_;
}

bool Database::ExpireIfDue(const KeyProbe& probe, int64_t now_ms, size_t told_at_once) {
  Table::Iterator it = table_.Find(probe);
  if (!it || !IsDue(*it, probe, now_ms)) return false;
  const std::optional<int64_t> deadline_ms = Deadline(*it, probe);
  if (deadline_ms && *deadline_ms < now_ms) {
    Remove(it, probe);
    listener_->OnMutation({.db_index = index_,
                           .key = probe.key(),
                           .kind = MutationKind::kExpired,
                           .event = KeyEvent::kExpired});
  } else {
    const KeyEvent event = MembersExpired(it->value.type());
    const size_t members = it->value.MembersWithDeadlines();  // all of them are due
    std::vector<std::string> fields;
    if (event == KeyEvent::kHExpired && listener_->WantsFields()) {
      if (members > told_at_once) return false;
      fields = AllFields(it->value);
    }
    listener_->OnMembersExpired(members);
    Remove(it, probe);
    listener_->OnMutation({.db_index = index_,
                           .key = probe.key(),
                           .kind = MutationKind::kMembersExpired,
                           .event = event});
    if (!fields.empty()) listener_->OnFieldsExpired(index_, probe.key(), fields);
    listener_->OnMutation({.db_index = index_,
                           .key = probe.key(),
                           .kind = MutationKind::kEmptied,
                           .event = KeyEvent::kDel});
  }
  return true;
}

auto Database::SlotOf(const DeadlineTable::Entry& entry, const DeadlineTable& deadlines,
                      CompactKey::Flag flag) const -> Table::Slot& {
  const Table::Iterator it = table_.FindIf(entry.hash, [&](const Table::Slot& slot) {
    if (!slot.key.has_flag(flag)) return false;
    char scratch[CompactKey::kScratchSize];
    if (entry.key != nullptr) {
      char other[CompactKey::kScratchSize];
      return slot.key.View(scratch) == entry.key->View(other);
    }
    const uint64_t hash = slot.key.Hash();
    if (hash >> 32 != entry.hash >> 32) return false;
    return !deadlines.has_apart() || !deadlines.IsApart(KeyProbe(slot.key.View(scratch), hash));
  });
  CHECK(it) << "a deadline has no key";
  return *it;
}

bool Database::IsTimedDue(const Table::Slot& slot, const KeyProbe& probe, int64_t now_ms) const {
  if (slot.key.has_flag(CompactKey::kHasExpire) && *Deadline(slot, probe) < now_ms) return true;
  return slot.key.has_flag(CompactKey::kHasMemberExpire) && slot.value.AreAllMembersDue(now_ms);
}

bool Database::Load(const KeyProbe& probe, CompactValue value, std::optional<int64_t> deadline_ms,
                    bool is_sticky, int64_t now_ms) {
  const auto [it, is_new] = table_.FindOrInsert(probe);
  if (!is_new) return false;
  it->value = std::move(value);
  it->key.set_flag(CompactKey::kCutParity, cut_parity_);
  it->key.set_flag(CompactKey::kSticky, is_sticky);
  access_clock_.Start(it->value, now_ms);
  AccountValue(0, it->value.HeapBytes());
  SyncMembers(*it);
  if (deadline_ms) SetDeadline(*it, probe, *deadline_ms);
  return true;
}

void Database::Remove(Table::Iterator it, const KeyProbe& probe) {
  BeforeChange(*it, CutKeeper::Change::kReplaced);
  ClearDeadline(*it, probe);
  if (it->key.has_flag(CompactKey::kHasMemberExpire)) [[unlikely]]
    SetMemberDeadline(*it, INT64_MAX);
  AccountValue(it->value.HeapBytes(), 0);
  table_.Erase(it);
}

std::optional<int64_t> Database::Deadline(const Table::Slot& slot, const KeyProbe& probe) const {
  if (!slot.key.has_flag(CompactKey::kHasExpire)) return std::nullopt;
  return expiry_.Get(probe);
}

void Database::SetDeadline(Table::Slot& slot, const KeyProbe& probe, int64_t at_ms) {
  BeforeChange(slot, CutKeeper::Change::kInPlace);
  TellIfEarliest(at_ms);
  if (slot.key.has_flag(CompactKey::kHasExpire)) {
    expiry_.Set(probe, at_ms);
    return;
  }
  expiry_.Add(probe, at_ms);
  slot.key.set_flag(CompactKey::kHasExpire, true);
}

bool Database::ClearDeadline(Table::Slot& slot, const KeyProbe& probe) {
  if (!slot.key.has_flag(CompactKey::kHasExpire)) return false;
  BeforeChange(slot, CutKeeper::Change::kInPlace);
  expiry_.Erase(probe);
  slot.key.set_flag(CompactKey::kHasExpire, false);
  return true;
}

void Database::SetMemberDeadline(Table::Slot& slot, int64_t next_ms) {
  char scratch[CompactKey::kScratchSize];
  const std::string_view key = slot.key.View(scratch);
  const KeyProbe probe(key, HashKey(key));
  TellIfEarliest(next_ms);
  if (next_ms == INT64_MAX) {
    member_expiry_.Erase(probe);
  } else if (slot.key.has_flag(CompactKey::kHasMemberExpire)) {
    member_expiry_.Set(probe, next_ms);
  } else {
    member_expiry_.Add(probe, next_ms);
  }
  slot.key.set_flag(CompactKey::kHasMemberExpire, next_ms != INT64_MAX);
}

// The one function that erases due members of a key that has others; without others it is due.
size_t Database::ExpireMembersOf(const KeyProbe& probe, int64_t now_ms, size_t most) {
  if (ExpireIfDue(probe, now_ms, most)) return 1;
  Table::Iterator it = table_.Find(probe);
  if (!it) return 0;
  // For commands they are gone already; so that nothing is copied it is done when it is saved.
  if (keeper_ != nullptr && IsUnsaved(*it)) {
    member_expiry_.NoteAgain(probe, now_ms + kAgainMs);
    return 0;
  }
  return EraseDueMembers(it, probe, now_ms, most);
}

void Database::EraseDueMembers(Table::Iterator it, const KeyProbe& probe, int64_t now_ms) {
  if (it->value.NextMemberDeadline() >= now_ms) return;
  BeforeChange(*it, CutKeeper::Change::kInPlace);
  EraseDueMembers(it, probe, now_ms, SIZE_MAX);
}

size_t Database::EraseDueMembers(Table::Iterator it, const KeyProbe& probe, int64_t now_ms,
                                 size_t most) {
  const size_t bytes_before = it->value.HeapBytes();
  const bool tells_fields = it->value.type() == ValueType::kHash && listener_->WantsFields();
  const bool wants_names = tells_fields || listener_->WantsMembers();
  std::vector<std::string> names;
  const size_t erased = it->value.EraseDueMembers(now_ms, most, wants_names ? &names : nullptr);
  AccountValue(bytes_before, it->value.HeapBytes());
  SyncMembers(*it);
  if (erased != 0) {
    listener_->OnMembersExpired(erased);
    listener_->OnMutation({.db_index = index_,
                           .key = probe.key(),
                           .kind = MutationKind::kMembersExpired,
                           .event = MembersExpired(it->value.type()),
                           .members = names});
    if (tells_fields) listener_->OnFieldsExpired(index_, probe.key(), names);
  }
  return erased;
}

auto Database::ExpireStep(int64_t now_ms, size_t budget) -> ExpireProgress {
  ExpireProgress progress = ExpireKeys(now_ms, budget);
  const ExpireProgress of_members = ExpireMembers(now_ms, budget);
  progress.visited += of_members.visited;
  progress.expired += of_members.expired;
  return progress;
}

auto Database::ExpireMembers(int64_t now_ms, size_t budget) -> ExpireProgress {
  ExpireProgress progress;
  std::vector<std::string> due;
  progress.visited =
      member_expiry_.VisitDue(now_ms, budget, [&](const DeadlineTable::Entry& entry) {
        due.push_back(SlotOf(entry, member_expiry_, CompactKey::kHasMemberExpire).key.ToString());
      });
  for (const std::string& key : due) {
    // Each of them makes a step, so that none waits for the others.
    const size_t most = progress.visited < budget ? budget - progress.visited : 1;
    const size_t erased = ExpireMembersOf(KeyProbe(key, HashKey(key)), now_ms, most);
    progress.visited += erased;
    progress.expired += erased;
  }
  return progress;
}

auto Database::ExpireKeys(int64_t now_ms, size_t budget) -> ExpireProgress {
  ExpireProgress progress;
  std::vector<std::string> due;
  progress.visited = expiry_.VisitDue(now_ms, budget, [&](const DeadlineTable::Entry& entry) {
    due.push_back(SlotOf(entry, expiry_, CompactKey::kHasExpire).key.ToString());
  });
  for (const std::string& key : due) {
    progress.expired += ExpireIfDue(KeyProbe(key, HashKey(key)), now_ms);
  }
  return progress;
}

uint32_t Database::MoveKeys(uint32_t cursor, BlockMover& mover, size_t at_once,
                            std::vector<std::string>* large) {
  DCHECK(!is_being_cut());
  return table_.Move(cursor, mover, [&](Table::Slot& slot) {
    slot.key.Move(mover);
    const size_t bytes = slot.value.HeapBytes();
    if (bytes > at_once && !slot.value.is_string()) {
      large->push_back(slot.key.ToString());
      return;
    }
    uint64_t part = 0;
    do {
      slot.value.Move(mover, &part);
    } while (part != 0);
    AccountValue(bytes, slot.value.HeapBytes());
  });
}

void Database::MoveLarge(const KeyProbe& probe, BlockMover& mover, uint64_t* cursor) {
  DCHECK(!is_being_cut());
  const Table::Iterator it = table_.Find(probe);
  if (!it) {
    *cursor = 0;
    return;
  }
  const size_t bytes = it->value.HeapBytes();
  it->value.Move(mover, cursor);
  AccountValue(bytes, it->value.HeapBytes());
}

uint32_t Database::MoveDeadlines(uint32_t cursor, BlockMover& mover) {
  return expiry_.Move(cursor, mover);
}

uint32_t Database::MoveMemberDeadlines(uint32_t cursor, BlockMover& mover) {
  return member_expiry_.Move(cursor, mover);
}

bool Database::FreeSome(size_t budget) {
  if (size_t freed = 0; !table_.FreeSome(budget, &freed)) {
    value_bytes_ -= freed;
    return false;
  } else {
    value_bytes_ -= freed;
  }
  return expiry_.FreeSome(budget) && member_expiry_.FreeSome(budget);
}

void Database::CheckInvariants() const {
  table_.CheckInvariants();
  expiry_.CheckInvariants();
  member_expiry_.CheckInvariants();
  size_t with_members = 0;
  size_t value_bytes = 0;
  size_t flagged = 0;
  size_t large_values = 0;
  table_.ForEach([&](const Table::Slot& slot) {
    value_bytes += slot.value.HeapBytes();
    large_values += slot.value.HeapBytes() >= kLargeValueBytes;
    const int64_t next_ms = slot.value.NextMemberDeadline();
    CHECK_EQ(next_ms != INT64_MAX, slot.key.has_flag(CompactKey::kHasMemberExpire));
    if (next_ms != INT64_MAX) {
      ++with_members;
      const std::string key = slot.key.ToString();
      CHECK_LE(member_expiry_.Get(KeyProbe(key, slot.key.Hash())), next_ms);
    }
    if (!slot.key.has_flag(CompactKey::kHasExpire)) return;
    ++flagged;
    char scratch[CompactKey::kScratchSize];
    expiry_.Get(KeyProbe(slot.key.View(scratch), slot.key.Hash()));  // checks that it is there
  });
  CHECK_EQ(value_bytes, value_bytes_);
  CHECK_EQ(large_values, large_values_);
  CHECK_EQ(flagged, expiry_.size());
  CHECK_EQ(with_members, member_expiry_.size());
}

}  // namespace dfly
