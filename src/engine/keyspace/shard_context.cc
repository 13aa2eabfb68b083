// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/shard_context.h"

#include <algorithm>

namespace dfly {

// --------------------------------------------------------------------------- a command's life

void ShardContext::RemoveDueKeys(size_t told_at_once) {
  for (const std::string& key : due_) {
    if (database_ == nullptr) break;
    database_->ExpireIfDue(KeyProbe(key, HashKey(key)), due_ms_, told_at_once);
  }
  due_.clear();
}

bool ShardContext::Settle() {
  bool may_be_gone = false;
  for (Open& open : open_) {
    size_t bytes = open.slot->value.HeapBytes();
    database_->AccountValue(open.heap_bytes, bytes);
    open.heap_bytes = bytes;
    database_->SyncMembers(*open.slot);
    may_be_gone |=
        open.slot->value.IsEmptyObject() || open.slot->key.has_flag(CompactKey::kHasMemberExpire);
  }
  is_settled_ = true;
  return may_be_gone;
}

bool ShardContext::IsSettled() const {
  return std::all_of(open_.begin(), open_.end(), [](const Open& open) {
    return open.heap_bytes == open.slot->value.HeapBytes();
  });
}

Database& ShardContext::database() {
  if (database_ == nullptr) database_ = &shard_.db(db_index_);
  return *database_;
}

// ------------------------------------------------------------------------------------- look-ups

void ShardContext::ExpectKeys(std::span<const std::string_view> keys, size_t step) {
  if (keys.size() <= step) return;
  if (expected_.keys.data() != keys.data()) {
    hashes_.clear();
    for (size_t i = 0; i < keys.size(); i += step) hashes_.push_back(HashOf(keys[i]));
    SetKeyHashes(keys, step, hashes_);
  }
  expected_.current = expected_.fetched = 0;
  FetchExpected();
}

uint64_t ShardContext::ExpectedHashOf(std::string_view key) const {
  ExpectedKeys& expected = expected_;
  const size_t count = expected.hashes.size();
  // The same key again, or the next one. After the last one the first: some commands go twice.
  const size_t next = expected.current + 1 < count ? expected.current + 1 : 0;
  for (size_t i : {expected.current, next}) {
    const std::string_view known = expected.keys[i * expected.step];
    if (known.data() != key.data() || known.size() != key.size()) continue;
    expected.current = i;
    if (i + kFetchedAhead / 2 >= expected.fetched && expected.fetched < count) FetchExpected();
    return expected.hashes[i];
  }
  return HashKey(key);
}

void ShardContext::FetchExpected() const {
  const size_t begin = expected_.fetched;
  const auto hashes =
      expected_.hashes.subspan(begin, std::min(kFetchedAhead, expected_.hashes.size() - begin));
  expected_.fetched += hashes.size();
  if (database_ == nullptr) return;
  for (FetchStage stage : kFetchStages) {
    for (uint64_t hash : hashes) database_->Prefetch(stage, hash);
  }
}

auto ShardContext::UnlessTimedDue(Iterator it, const KeyProbe& probe) const -> Iterator {
  bool is_due = database_->IsDue(*it, probe, now_ms_);
  const bool has_due_members =
      it->key.has_flag(CompactKey::kHasMemberExpire) && it->value.NextMemberDeadline() < now_ms_;
  if (!is_due && !has_due_members) return it;
  const bool keeps_due = shard_.keeps_due();
  if (!keeps_due && !shard_.transactions().empty()) {
    StepBack(probe);
    is_due = database_->IsDue(*it, probe, now_ms_);
  }
  if (is_due) return NoteDue(probe);
  if (!keeps_due && wants_effects()) database_->EraseDueMembers(it, probe, now_ms_);
  return it;
}

void ShardContext::StepBack(const KeyProbe& probe) const {
  const uint64_t lock = shard_.LockOfKey(probe.key(), probe.hash(), db_index_);
  now_ms_ = shard_.transactions().KeepDue(lock, now_ms_);
}

auto ShardContext::NoteDue(const KeyProbe& probe) const -> Iterator {
  if (due_.empty()) due_ms_ = now_ms_;
  if (std::find(due_.begin(), due_.end(), probe.key()) == due_.end()) {
    due_.emplace_back(probe.key());
  }
  return {};
}

template <typename Handle>
Handle ShardContext::HandleOf(Iterator it) const {
  Handle handle;
  if (it) handle.value_ = &it->value;
#ifndef NDEBUG
  handle.epoch_now_ = &epoch_;
  handle.epoch_ = epoch_;
#endif
  return handle;
}

template <typename Handle>
Handle ShardContext::OfType(Handle handle, ValueType type) {
  if (handle && handle->type() != type) {
    handle.value_ = nullptr;
    handle.is_wrong_type_ = true;
  }
  return handle;
}

auto ShardContext::FindReadOnly(std::string_view key) -> ReadHandle {
  NoteRead(key);
  Iterator it = Find(key);
  if (it) {
    ++shard_.stats().hits;
    if (!no_touch_) database_->access_clock().TouchRead(it->value, noted_ms());
  } else {
    ++shard_.stats().misses;
    shard_.NotifyKeyEvent(db_index_, key, KeyEvent::kKeyMiss);
  }
  return HandleOf<ReadHandle>(it);
}

auto ShardContext::FindReadOnly(std::string_view key, ValueType type) -> ReadHandle {
  return OfType(FindReadOnly(key), type);
}

auto ShardContext::Peek(std::string_view key) const -> ReadHandle {
  NoteRead(key);
  return HandleOf<ReadHandle>(Find(key));
}

auto ShardContext::OpenValue(Iterator it) -> WriteHandle {
  Database::Table::Slot* const slot = &*it;
  database_->BeforeChange(*slot, CutKeeper::Change::kInPlace);
  Touch(slot->value);
  auto is_it = [slot](const Open& open) { return open.slot == slot; };
  if (std::none_of(open_.begin(), open_.end(), is_it)) {
    open_.push_back({slot, slot->value.HeapBytes()});
  }
  is_settled_ = false;
  return HandleOf<WriteHandle>(it);
}

auto ShardContext::FindMutable(std::string_view key) -> WriteHandle {
  Iterator it = Find(key);
  return it ? OpenValue(it) : WriteHandle();
}

auto ShardContext::FindMutable(std::string_view key, ValueType type) -> WriteHandle {
  return OfType(FindMutable(key), type);
}

auto ShardContext::Insert(const KeyProbe& probe) -> Iterator {
  // What is found now is due, and Find has noted it: it goes before its name is used again.
  if (!due_.empty()) RemoveDueKeys(SIZE_MAX);
  const Iterator it = database().Insert(probe);
  shard_.NotifyKeyEvent(db_index_, probe.key(), KeyEvent::kNew);
  return it;
}

auto ShardContext::FindOrCreate(std::string_view key, ValueType type) -> WriteHandle {
  if (const Iterator it = FindByHint(key)) return OfType(OpenValue(it), type);
  const KeyProbe probe = ProbeOf(key);
  if (const Iterator it = Find(probe)) return OfType(OpenValue(it), type);
  EndHandles();
  const Iterator it = Insert(probe);
  database_->access_clock().Start(it->value, noted_ms());
  WriteHandle handle = OpenValue(it);
  handle.was_created_ = true;
  return handle;
}

// -------------------------------------------------------------------------------------- changes

void ShardContext::SetString(std::string_view key, std::string_view text,
                             const SetOptions& options) {
  const KeyProbe probe = ProbeOf(key);
  EndHandles();
  Iterator it = Find(probe);
  if (it) {
    Touch(it->value);
  } else {
    it = Insert(probe);
    database_->access_clock().Start(it->value, noted_ms());
  }
  database_->BeforeChange(*it, CutKeeper::Change::kReplaced);
  const size_t bytes_before = it->value.HeapBytes();
  std::optional<LargeText> given;
  if (text.size() >= LargeText::kMin) given = LargeText::Take(text);
  if (given) {
    it->value.SetBlock(*std::move(given));
  } else {
    it->value.SetString(text);
  }
  database_->SyncMembers(*it);
  database_->AccountValue(bytes_before, it->value.HeapBytes());
  if (options.deadline_ms) {
    database_->SetDeadline(*it, probe, *options.deadline_ms);
  } else if (!options.keep_deadline) {
    database_->ClearDeadline(*it, probe);
  }
  Report(key, MutationKind::kWrite, KeyEvent::kSet);
  if (options.deadline_ms) AlsoHappened(key, KeyEvent::kExpire);
}

bool ShardContext::Delete(std::string_view key, KeyEvent event) {
  return Erase(key, MutationKind::kDelete, event, 1);
}

bool ShardContext::Erase(std::string_view key, MutationKind kind, KeyEvent event,
                         uint64_t changes) {
  const KeyProbe probe = ProbeOf(key);
  Iterator it = Find(probe);
  if (!it) return false;
  EndHandles();
  database_->Remove(it, probe);
  Report(key, kind, event, changes);
  return true;
}

auto ShardContext::Take(std::string_view key, KeyEvent event, Telling telling)
    -> std::optional<Detached> {
  const KeyProbe probe = ProbeOf(key);
  Iterator it = Find(probe);
  if (!it) return std::nullopt;
  EndHandles();
  database_->BeforeChange(*it, CutKeeper::Change::kInPlace);  // the value goes on elsewhere
  Touch(it->value);
  Detached detached;
  detached.deadline_ms = database_->Deadline(*it, probe);
  detached.is_sticky = it->key.has_flag(CompactKey::kSticky);
  detached.db_index = db_index_;
  database_->AccountValue(it->value.HeapBytes(), 0);
  detached.value = std::move(it->value);
  database_->Remove(it, probe);
  Report(key, MutationKind::kDelete, event, 1, telling);
  return detached;
}

auto ShardContext::Copy(std::string_view key) const -> std::optional<Detached> {
  std::optional<Detached> copy;
  uint64_t cursor = 0;
  do {
    CopySome(key, &copy, &cursor);
  } while (cursor != 0);
  return copy;
}

void ShardContext::CopySome(std::string_view key, std::optional<Detached>* copy,
                            uint64_t* cursor) const {
  const KeyProbe probe = ProbeOf(key);
  const Iterator it = Find(probe);
  if (!it) {
    copy->reset();
    *cursor = 0;
    return;
  }
  Detached& detached = *copy ? **copy : copy->emplace();
  it->value.CloneSome(&detached.value, cursor);
  if (*cursor != 0) return;
  database_->access_clock().Start(detached.value, noted_ms());
  detached.deadline_ms = database_->Deadline(*it, probe);
  detached.is_sticky = it->key.has_flag(CompactKey::kSticky);
  detached.db_index = db_index_;
}

void ShardContext::Put(std::string_view key, Detached detached, KeyEvent event, uint64_t changes,
                       Telling telling) {
  const KeyProbe probe = ProbeOf(key);
  EndHandles();
  Iterator it = Find(probe);
  if (!it) {
    it = Insert(probe);
  }
  database_->BeforeChange(*it, CutKeeper::Change::kReplaced);
  const size_t bytes_before = it->value.HeapBytes();
  it->value = std::move(detached.value);  // what was there goes with `detached`
  if (detached.db_index >= 0 && detached.db_index != db_index_) {
    const EvictionRules its = shard_.live().eviction().Of(detached.db_index);
    if (!access_clock().rules().ReadsClockAs(its)) access_clock().Start(it->value, noted_ms());
  }
  database_->AccountValue(bytes_before, it->value.HeapBytes());
  database_->SyncMembers(*it);
  it->key.set_flag(CompactKey::kSticky, detached.is_sticky);
  if (detached.deadline_ms) {
    database_->SetDeadline(*it, probe, *detached.deadline_ms);
  } else {
    database_->ClearDeadline(*it, probe);
  }
  Report(key, MutationKind::kWrite, event, changes, telling);
}

auto ShardContext::SetDeadline(std::string_view key, int64_t at_ms) -> DeadlineResult {
  const KeyProbe probe = ProbeOf(key);
  Iterator it = Find(probe);
  if (!it) return DeadlineResult::kAbsent;
  if (at_ms <= now_ms_) {
    Delete(key);
    if (wants_effects()) Tell("DEL", key);
    return DeadlineResult::kDeleted;
  }
  Touch(it->value);
  EndHandles();
  database_->SetDeadline(*it, probe, at_ms);
  Report(key, MutationKind::kWrite, KeyEvent::kExpire);
  if (wants_effects()) Tell("PEXPIREAT", key, at_ms);
  return DeadlineResult::kSet;
}

auto ShardContext::GetDeadline(std::string_view key) const -> KeyDeadline {
  const KeyProbe probe = ProbeOf(key);
  Iterator it = Find(probe);
  if (!it) return {};
  return {true, database_->Deadline(*it, probe)};
}

bool ShardContext::Persist(std::string_view key) {
  const KeyProbe probe = ProbeOf(key);
  Iterator it = Find(probe);
  if (!it) return false;
  Touch(it->value);
  EndHandles();
  if (!database_->ClearDeadline(*it, probe)) return false;
  Report(key, MutationKind::kWrite, KeyEvent::kPersist);
  if (wants_effects()) Tell("PERSIST", key);
  return true;
}

bool ShardContext::SetSticky(std::string_view key, bool sticky) {
  Iterator it = Find(ProbeOf(key));
  if (!it) return false;
  if (it->key.has_flag(CompactKey::kSticky) != sticky) {
    database_->BeforeChange(*it, CutKeeper::Change::kInPlace);
    it->key.set_flag(CompactKey::kSticky, sticky);
    ReportUnwatched(key, MutationKind::kAside, KeyEvent::kNone, 0);
  }
  return true;
}

void ShardContext::SetMemcachedItem(std::string_view key, const MemcachedItem& item) {
  DCHECK_EQ(db_index_, 0);
  shard_.memcached().Put(key, item);
  ReportUnwatched(key, MutationKind::kAside, KeyEvent::kNone, 0);
  if (!item.is_default() && wants_effects()) {
    Tell("MEMCACHED", "ITEM", key, item.client_flags, item.cas, item.marks());
  }
}

std::optional<bool> ShardContext::IsSticky(std::string_view key) const {
  Iterator it = Find(ProbeOf(key));
  if (!it) return std::nullopt;
  return it->key.has_flag(CompactKey::kSticky);
}

std::optional<uint32_t> ShardContext::IdleSeconds(std::string_view key) const {
  Iterator it = Find(ProbeOf(key));
  if (!it) return std::nullopt;
  return database_->access_clock().IdleSeconds(it->value, now_ms_);
}

std::optional<uint8_t> ShardContext::Frequency(std::string_view key) const {
  Iterator it = Find(ProbeOf(key));
  if (!it) return std::nullopt;
  return database_->access_clock().Frequency(it->value, now_ms_);
}

std::optional<size_t> ShardContext::MemoryUsage(std::string_view key) const {
  Iterator it = Find(ProbeOf(key));
  if (!it) return std::nullopt;
  size_t bytes = sizeof(*it) + it->key.HeapBytes() + it->value.HeapBytes();
  if (it->key.has_flag(CompactKey::kHasExpire)) bytes += DeadlineTable::kEntryBytes;
  if (it->key.has_flag(CompactKey::kHasMemberExpire)) bytes += DeadlineTable::kEntryBytes;
  return bytes;
}

void ShardContext::Changed(std::string_view key, KeyEvent event, uint64_t changes) {
  const bool may_be_gone = Settle();
  Report(key, MutationKind::kWrite, event, changes);
  if (may_be_gone) [[unlikely]]
    DeleteIfEmpty(key);
}

void ShardContext::ChangedFields(std::string_view key, KeyEvent event,
                                 std::span<const std::string_view> fields, uint64_t changes) {
  const bool may_be_gone = Settle();
  Report(key, MutationKind::kWrite, event, changes);
  if (shard_.tells_fields() && !fields.empty()) [[unlikely]]
    shard_.NotifyFields(db_index_, key, event, fields);
  if (may_be_gone) [[unlikely]]
    DeleteIfEmpty(key);
}

void ShardContext::DeleteIfEmpty(std::string_view key) {
  // Find notes a value that has nothing but due members left.
  Iterator it = Find(ProbeOf(key));
  if (it && it->value.IsEmptyObject()) {
    Erase(key, MutationKind::kEmptied, KeyEvent::kDel, 0);  // is no other change
  }
}

void ShardContext::ChangedUnwatched(std::string_view key, KeyEvent event, uint64_t changes) {
  Settle();
  ReportUnwatched(key, MutationKind::kWrite, event, changes);
}

void ShardContext::Reencoded(std::string_view key, bool is_watched) {
  Settle();
  if (is_watched) {
    Report(key, MutationKind::kAside, KeyEvent::kNone);
  } else {
    ReportUnwatched(key, MutationKind::kAside, KeyEvent::kNone, 1);
  }
}

void ShardContext::Flush(int db_index, FlushMode mode) {
  EndHandles();
  shard_.Flush(db_index, mode);
  database_ = shard_.FindDb(db_index_);
}

}  // namespace dfly
