// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/shard.h"

#include <algorithm>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

// Both are here, as they take long to compile where a header has them.
Shard::Shard(uint32_t id, int db_count, size_t string_max)
    : id_(id), string_max_(string_max), live_(db_count, this) {}

Shard::~Shard() = default;

uint64_t Shard::LockOfKey(std::string_view key, uint64_t hash, int db_index) const {
  uint64_t tag_hash = hash;
  if (tag_rules_ != nullptr && tag_rules_->locks_tags) {
    const std::string_view tag = tag_rules_->TagOf(key);
    if (tag.size() != key.size()) tag_hash = HashKey(tag);
  }
  return TagFingerprint(tag_hash, db_index);
}

size_t Shard::used_bytes() const {
  size_t bytes = live_bytes() + reaper_.bytes();
  if (incoming_ != nullptr) bytes += incoming_->bytes();
  for (const auto& database : doomed_) bytes += database->bytes();
  return bytes;
}

void Shard::SetEviction(const EvictionSettings& eviction) {
  live_.SetEviction(eviction);
  if (incoming_ != nullptr) incoming_->SetEviction(eviction);
  LookForClocks();
  evictor_.Reset();
}

size_t Shard::evictable_bytes() const {
  size_t bytes = 0;
  for (const auto& database : made()) {
    if (database != nullptr && database->eviction_rules().evicts()) bytes += database->bytes();
  }
  return bytes;
}

void Shard::OnMutation(const Mutation& mutation) {
  const auto& [db_index, key, kind, event, is_told, is_watched, changes, other_db, members, by] =
      mutation;
  if (is_watched) {
    if (!watches_.empty()) [[unlikely]]
      watches_.Touch(db_index, key);
    if (tracker_ != nullptr) [[unlikely]]
      tracker_->OnKeyChanged(id_, key, by);
    if (!memcached().empty() && db_index == 0) [[unlikely]]
      memcached().OnChanged(key, event);
  }
  if (!waiters_.empty() && kind != MutationKind::kAside) [[unlikely]]
    waiters_.OnChanged(db_index, key);
  if (event != KeyEvent::kNone && is_told) NotifyKeyEvent(db_index, key, event);
  if (kind == MutationKind::kExpired) {
    ++stats_.expired_keys;
  } else if (kind == MutationKind::kEvicted) {
    ++stats_.evicted_keys;
  } else {
    stats_.changes += changes;  // As in Redis: what goes by itself is none.
  }
  Tell(mutation);
}

void Shard::OnFieldsExpired(int db_index, std::string_view key,
                            std::span<const std::string> fields) {
  const std::vector<std::string_view> names(fields.begin(), fields.end());
  NotifyFields(db_index, key, KeyEvent::kHExpired, names);
}

auto Shard::ExpireStep(int64_t now_ms, size_t budget) -> ExpireProgress {
  ExpireProgress total;
  const auto databases = made();
  next_deadline_ms_ = INT64_MAX;
  // Each call begins with another one, so that what is due in one does not hide the others.
  ++expire_next_;
  for (size_t i = 0; i < databases.size(); ++i) {
    Database* const database = databases[(expire_next_ + i) % databases.size()].get();
    if (database == nullptr) continue;
    if (database->earliest_deadline_ms() < now_ms && total.visited < budget) {
      const auto part = database->ExpireStep(now_ms, budget - total.visited);
      total.visited += part.visited;
      total.expired += part.expired;
    }
    next_deadline_ms_ = std::min(next_deadline_ms_, database->TellDeadline());
  }
  total.is_more_due = next_deadline_ms_ < now_ms;
  return total;
}

void Shard::Flush(int index, FlushMode mode) {
  std::unique_ptr<Database> old = live_.Take(index);
  if (old == nullptr) return;
  if (index == 0) ForgetMemcached();
  if (!watches_.empty()) {
    watches_.TouchIf([&](const KeyName& name) {
      return name.db_index == index && old->Find(KeyProbe(name.key, HashKey(name.key)));
    });
  }
  if (!waiters_.empty()) waiters_.OnChangedAll(index);  // some wait for keys that are there
  stats_.changes += old->size();
  Tell({.db_index = index, .key = {}, .kind = MutationKind::kFlushed, .changes = old->size()});
  // What a cut has is freed when it was written.
  if (mode == FlushMode::kAsync || old->is_being_cut()) Doom(std::move(old));
}

void Shard::ForgetMemcached() {
  if (cut_guard_ != nullptr) cut_guard_->TakeMemcached(memcached());
  memcached().Clear();
}

void Shard::Doom(std::unique_ptr<Database> database) { doomed_.push_back(std::move(database)); }

void Shard::FlushAll(FlushMode mode) {
  for (int i = 0; i < db_count(); ++i) Flush(i, mode);
}

size_t Shard::pending_objects() const {
  size_t count = reaper_.size();
  for (const auto& database : doomed_) count += database->size();
  return count;
}

bool Shard::FreeStep(size_t budget) {
  const auto doomed = FindFreeable();
  const size_t before = pending_objects();
  if (!reaper_.empty()) {
    reaper_.FreeSome(budget);
  } else if (doomed != doomed_.end() && (*doomed)->FreeSome(budget)) {
    doomed_.erase(doomed);
  }
  // What is freed may leave large values behind, which wait in their turn.
  if (const size_t after = pending_objects(); after < before) {
    stats_.freed_objects += before - after;
  }
  return FindFreeable() == doomed_.end() && reaper_.empty();
}

std::vector<std::unique_ptr<Database>>::const_iterator Shard::FindFreeable() const {
  return std::find_if(doomed_.begin(), doomed_.end(),
                      [](const auto& database) { return !database->is_being_cut(); });
}

bool Shard::needs_steps() const {
  return needs_to_free() || next_deadline_ms_ != INT64_MAX || starts_clocks_;
}

void Shard::LookForClocks() {
  starts_clocks_ = std::any_of(made().begin(), made().end(), [](const auto& database) {
    return database != nullptr && database->starts_clocks();
  });
}

bool Shard::StartClocks(int64_t now_ms, size_t budget) {
  if (!starts_clocks_) return false;
  bool more = false;
  for (const auto& database : made()) {
    more = database != nullptr && database->StartClocks(now_ms, budget);
    if (more) break;
  }
  starts_clocks_ = more;
  return more;
}

bool Shard::is_being_cut() const {
  return std::any_of(made().begin(), made().end(), [](const auto& database) {
    return database != nullptr && database->is_being_cut();
  });
}

void Shard::SwapDatabases(int first, int second) {
  if (!watches_.empty()) {
    auto exists = [&](int index, const KeyName& name) {
      const Database* database = FindDb(index);
      return database != nullptr && database->Find(KeyProbe(name.key, HashKey(name.key)));
    };
    watches_.TouchIf([&](const KeyName& name) {
      if (name.db_index != first && name.db_index != second) return false;
      return first != second && (exists(first, name) || exists(second, name));
    });
  }
  if (first == 0 || second == 0) ForgetMemcached();
  live_.Swap(first, second);
  LookForClocks();
  for (int index : {first, second}) waiters_.OnChangedAll(index);
  Tell({.db_index = first,
        .key = {},
        .kind = MutationKind::kSwapped,
        .changes = 0,
        .other_db = second});
}

DatabaseSet& Shard::incoming() {
  if (incoming_ == nullptr) {
    ChangeListener* const listener = this;
    incoming_ = std::make_unique<DatabaseSet>(db_count(), listener);
    incoming_->SetEviction(live_.eviction());
  }
  return *incoming_;
}

void Shard::TakeIncoming() {
  DatabaseSet& old = incoming();
  live_.SwapAll(old);
  ForgetMemcached();
  live_.memcached().TakeItems(old.memcached());
  if (!watches_.empty()) {
    const auto has = [](const DatabaseSet& set, const KeyName& name) {
      const Database* const database = set.Find(name.db_index);
      return database != nullptr && database->Find(KeyProbe(name.key, HashKey(name.key)));
    };
    watches_.TouchIf([&](const KeyName& name) { return has(old, name) || has(live_, name); });
  }
  for (int i = 0; i < db_count(); ++i) {
    if (!waiters_.empty()) waiters_.OnChangedAll(i);  // some wait for keys that are there
    const Database* const gone = old.Find(i);
    if (gone == nullptr) continue;
    stats_.changes += gone->size();
    Tell({.db_index = i, .key = {}, .kind = MutationKind::kFlushed, .changes = gone->size()});
  }
  LookForClocks();
  // While nobody saw them, the clock of expiry was not theirs.
  for (const auto& database : made()) {
    if (database != nullptr) {
      next_deadline_ms_ = std::min(next_deadline_ms_, database->TellDeadline());
    }
  }
  DropIncoming();
}

void Shard::DropIncoming() {
  if (incoming_ == nullptr) return;
  for (int i = 0; i < db_count(); ++i) {
    if (std::unique_ptr<Database> database = incoming_->Take(i)) Doom(std::move(database));
  }
  incoming_ = nullptr;
}

void Shard::CheckInvariants() const {
  for (int i = 0; i < db_count(); ++i) {
    const Database* database = FindDb(i);
    if (database == nullptr) continue;
    CHECK_EQ(database->index(), i);
    CHECK_LE(next_deadline_ms_, database->earliest_deadline_ms());
    database->CheckInvariants();
  }
}

}  // namespace dfly
