// SPDX-License-Identifier: Apache-2.0
#include "engine/shard.h"

#include <algorithm>

#include <utility>

#include "helio/base/logging.h"

namespace dfly {

Database& Shard::db(int index) {
  DCHECK_GE(index, 0);
  DCHECK_LT(index, db_count());
  std::unique_ptr<Database>& database = databases_[static_cast<size_t>(index)];
  if (database == nullptr) {
    ChangeListener* listener = this;
    database = std::make_unique<Database>(index, listener);
    made_end_ = std::max(made_end_, static_cast<size_t>(index) + 1);
  }
  return *database;
}

size_t Shard::live_bytes() const {
  size_t bytes = memcached_.bytes();
  for (const auto& database : made()) {
    if (database != nullptr) bytes += database->bytes();
  }
  return bytes;
}

size_t Shard::used_bytes() const {
  size_t bytes = live_bytes();
  for (const auto& database : doomed_) bytes += database->bytes();
  return bytes + reaper_.bytes();
}

void Shard::OnChanged(int db_index, std::string_view key, std::string_view event) {
  if (!watches_.empty()) [[unlikely]]
    watches_.Touch(db_index, key);
  if (!memcached_.empty() && db_index == 0) [[unlikely]]
    memcached_.OnChanged(key, event);
  OnChangedUnwatched(db_index, key, event);
}

void Shard::OnChangedUnwatched(int db_index, std::string_view key, std::string_view event) {
  if (!waiters_.empty()) [[unlikely]]
    waiters_.OnChanged(db_index, key);
  if (event == "expired") {
    ++stats_.expired_keys;
  } else if (event == "evicted") {
    ++stats_.evicted_keys;
  } else {
    ++stats_.changes;  // As in Redis: what goes by itself is none.
  }
}

auto Shard::ExpireStep(int64_t now_ms, size_t budget) -> ExpireProgress {
  ExpireProgress total;
  size_t databases = 0;
  for (const auto& database : made()) {
    databases += database != nullptr && database->has_deadlines();
  }
  if (databases == 0) return total;
  const size_t share = budget / databases + 1;
  for (size_t i = 0; i < databases_.size() && total.visited < budget; ++i) {
    Database* database = databases_[expire_next_].get();
    expire_next_ = (expire_next_ + 1) % databases_.size();
    if (database == nullptr || !database->has_deadlines()) continue;
    Database::ExpireProgress part = database->ExpireStep(now_ms, share);
    total.visited += part.visited;
    total.expired += part.expired;
    // Each database by itself: many keys that are far from due must not hide a few that are.
    if (part.expired * 10 > part.visited && database->has_deadlines()) total.is_more_due = true;
  }
  for (const auto& database : made()) {
    if (database == nullptr) continue;
    total.keys_with_deadline += database->expires() + database->member_expires();
  }
  return total;
}

void Shard::Flush(int index, FlushMode mode) {
  std::unique_ptr<Database> old = std::move(databases_[static_cast<size_t>(index)]);
  if (old == nullptr) return;
  if (index == 0) memcached_.Clear();
  if (!watches_.empty()) {
    watches_.TouchIf([&](const KeyName& name) {
      return name.db_index == index && old->Find(KeyProbe(name.key, HashKey(name.key)));
    });
  }
  if (!waiters_.empty()) waiters_.OnChangedAll(index);  // some wait for keys that are there
  stats_.changes += old->size();
  // What a cut has is freed when it was written.
  if (mode == FlushMode::kAsync || old->is_being_cut()) doomed_.push_back(std::move(old));
}

void Shard::FlushAll(FlushMode mode) {
  for (int i = 0; i < db_count(); ++i) Flush(i, mode);
}

bool Shard::FreeStep(size_t budget) {
  const auto doomed = FindFreeable();
  if (!reaper_.empty()) {
    reaper_.FreeSome(budget);
  } else if (doomed != doomed_.end() && (*doomed)->FreeSome(budget)) {
    doomed_.erase(doomed);
  }
  return FindFreeable() == doomed_.end() && reaper_.empty();
}

std::vector<std::unique_ptr<Database>>::const_iterator Shard::FindFreeable() const {
  return std::find_if(doomed_.begin(), doomed_.end(),
                      [](const auto& database) { return !database->is_being_cut(); });
}

bool Shard::needs_steps() const {
  if (needs_to_free()) return true;
  return std::any_of(made().begin(), made().end(), [](const auto& database) {
    return database != nullptr && database->has_deadlines();
  });
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
  if (first == 0 || second == 0) memcached_.Clear();
  made_end_ = std::max(made_end_, static_cast<size_t>(std::max(first, second)) + 1);
  std::swap(databases_[static_cast<size_t>(first)], databases_[static_cast<size_t>(second)]);
  for (int index : {first, second}) {
    if (Database* database = FindDb(index)) database->set_index(index);
    waiters_.OnChangedAll(index);
  }
}

void Shard::CheckInvariants() const {
  for (int i = 0; i < db_count(); ++i) {
    const Database* database = FindDb(i);
    if (database == nullptr) continue;
    CHECK_EQ(database->index(), i);
    database->CheckInvariants();
  }
}

}  // namespace dfly
