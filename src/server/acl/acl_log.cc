// SPDX-License-Identifier: Apache-2.0
#include "server/acl/acl_log.h"

#include <algorithm>
#include <utility>

namespace dfly {

std::string_view ReasonOf(AclDenial denial) {
  switch (denial) {
    case AclDenial::kDatabase:
      return "database";
    case AclDenial::kKey:
    case AclDenial::kSortBy:
    case AclDenial::kSortGet:
      return "key";
    case AclDenial::kChannel:
      return "channel";
    default:
      return "command";
  }
}

void AclLog::Add(Entry entry, int64_t now_ms) {
  constexpr std::string_view kReasons[kAclRefusals] = {"auth",    "command",  "key",
                                                       "channel", "tls-cert", "database"};
  for (std::string* text : {&entry.object, &entry.user, &entry.client}) {
    if (text->size() > kTextMax) *text = text->substr(0, kTextMax);
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kAclRefusals; ++i) refusals_[i] += kReasons[i] == entry.reason;
  // Only the newest are compared: who makes many different ones must not make each of them slow.
  constexpr size_t kComparedMax = 16;
  size_t compared = 0;
  for (auto it = entries_.begin(); it != entries_.end() && compared < kComparedMax;
       ++it, ++compared) {
    const bool is_same = it->reason == entry.reason && it->context == entry.context &&
                         it->object == entry.object && it->user == entry.user &&
                         now_ms - it->updated_ms <= kGroupingMs;
    if (!is_same) continue;
    ++it->count;
    it->updated_ms = now_ms;
    it->client = std::move(entry.client);
    entries_.splice(entries_.begin(), entries_, it);
    return;
  }
  entry.id = next_id_++;
  entry.created_ms = entry.updated_ms = now_ms;
  entries_.push_front(std::move(entry));
  Shrink();
}

std::vector<AclLog::Entry> AclLog::Newest(size_t count) const {
  const std::lock_guard lock(mutex_);
  const size_t size = std::min(count, entries_.size());
  return {entries_.begin(), std::next(entries_.begin(), static_cast<std::ptrdiff_t>(size))};
}

std::array<uint64_t, kAclRefusals> AclLog::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

void AclLog::Reset() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

void AclLog::SetMax(size_t entries_max) {
  const std::lock_guard lock(mutex_);
  entries_max_ = entries_max;
  Shrink();
}

void AclLog::Shrink() {
  while (entries_.size() > entries_max_) entries_.pop_back();
}

}  // namespace dfly
