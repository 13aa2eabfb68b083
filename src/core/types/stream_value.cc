// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_value.h"

#include <algorithm>
#include <memory>

#include "core/table/compact_value.h"
#include "helio/base/logging.h"

namespace dfly {

void StreamValue::RegisterType() {
  RegisterObjectType(
      ValueType::kStream,
      {.destroy = [](void* object, uint8_t) { delete static_cast<StreamValue*>(object); },
       .bytes = [](const void* object,
                   uint8_t) { return static_cast<const StreamValue*>(object)->bytes(); },
       // Unlike the others it stays when it has no more entries.
       .is_empty = [](const void*, uint8_t) { return false; },
       .clone = [](const void* object, uint8_t) -> void* {
         return static_cast<const StreamValue*>(object)->Clone();
       },
       .encoding_name = [](const void*, uint8_t) -> std::string_view { return "stream"; },
       .free_some =
           [](void* object, uint8_t, size_t budget) {
             return static_cast<StreamValue*>(object)->FreeSome(budget);
           },
       .move = [](void* object, uint8_t, BlockMover& mover, uint64_t* cursor) -> void* {
         return Move(static_cast<StreamValue*>(object), mover, cursor);
       }});
}

StreamValue::~StreamValue() {
  for (const auto& [name, group] : groups_) DeleteCounted(group, &bytes_);
}

StreamValue* StreamValue::Clone() const {
  auto copy = std::make_unique<StreamValue>();
  copy->entries_.CopyFrom(entries_);
  copy->counters_ = counters_;
  for (const auto& [name, group] : groups_) copy->AddGroup(name)->CopyFrom(*group);
  if (producers_ != nullptr) copy->MakeProducers({}).CopyFrom(*producers_);
  return copy.release();
}

StreamValue* StreamValue::Move(StreamValue* stream, BlockMover& mover, uint64_t* cursor) {
  if (*cursor == 0 && mover.Wants(stream) && stream->bytes() <= BlockMover::kCopyMax) {
    StreamValue* const copy = stream->Clone();
    delete stream;
    mover.CountCopied();
    return copy;
  }
  stream->entries_.Move(mover, cursor);
  return stream;
}

// --- Entries ---

void StreamValue::Append(StreamId id, std::span<const std::string_view> pairs,
                         const StreamLimit& limit) {
  DCHECK(id > counters_.last_id);
  entries_.Append(id, pairs, limit);
  if (counters_.entries_added < INT64_MAX) ++counters_.entries_added;
  counters_.last_id = id;
  if (entries_.size() == 1) counters_.first_id = id;
}

bool StreamValue::Erase(StreamId id) {
  if (!entries_.Erase(id)) return false;
  if (id == counters_.first_id || entries_.size() == 0) FindFirstId();
  counters_.max_deleted_id = std::max(counters_.max_deleted_id, id);
  return true;
}

uint64_t StreamValue::Trim(const StreamEntries::Trim& trim, std::vector<StreamId>* gone) {
  const uint64_t erased = entries_.TrimFront(trim, gone);
  if (erased > 0) FindFirstId();
  return erased;
}

bool StreamValue::TrimUnreferenced(const StreamEntries::Trim& trim, std::vector<StreamId>* gone) {
  const auto keeps = [this](StreamId id) { return IsReferenced(id); };
  const bool is_front = entries_.TrimBut(trim, keeps, gone);
  if (gone->empty()) return true;
  FindFirstId();
  if (!is_front) counters_.max_deleted_id = std::max(counters_.max_deleted_id, gone->back());
  return is_front;
}

// --- Groups ---

StreamGroup* StreamValue::FindGroup(std::string_view name) const {
  const auto it = groups_.find(name);
  return it == groups_.end() ? nullptr : it->second;
}

StreamGroup* StreamValue::AddGroup(std::string_view name) {
  auto* const group = NewCounted<StreamGroup>(name, &bytes_);
  const bool is_new = groups_.emplace(group->name, group).second;
  DCHECK(is_new);
  return group;
}

void StreamValue::RemoveGroup(StreamGroup* group) {
  groups_.erase(std::string_view(group->name));
  DeleteCounted(group, &bytes_);
}

bool StreamValue::IsReferenced(StreamId id) const {
  return std::any_of(groups_.begin(), groups_.end(), [id](const auto& item) {
    return item.second->last_id < id || item.second->FindPending(id) != nullptr;
  });
}

StreamProducers& StreamValue::MakeProducers(const StreamLimit& limit) {
  if (producers_ == nullptr) producers_ = std::make_unique<StreamProducers>(limit);
  return *producers_;
}

void StreamValue::RestartProducers(uint32_t duration_s, uint32_t messages_max) {
  auto fresh = std::make_unique<StreamProducers>(
      StreamLimit{.producer_seconds = duration_s, .producer_messages = messages_max});
  fresh->added = producers_->added;
  fresh->duplicates = producers_->duplicates;
  auto old = std::make_unique<StreamValue>();
  old->producers_ = std::exchange(producers_, std::move(fresh));
  CompactValue().SetObject(ValueType::kStream, old.release(), 0);
}

bool StreamValue::FreeSome(size_t budget) {
  if (!entries_.FreeSome(budget)) return false;
  if (producers_ != nullptr && !producers_->FreeSome(&budget)) return false;
  while (!groups_.empty()) {
    StreamGroup* const group = groups_.begin()->second;
    if (!group->FreeSome(&budget)) return false;
    RemoveGroup(group);
    if (budget == 0) break;
    --budget;
  }
  return groups_.empty();
}

bool StreamValue::HasGapsFrom(StreamId id) const {
  const StreamId deleted = counters_.max_deleted_id;
  if (size() == 0 || deleted.is_zero() || deleted < counters_.first_id) return false;
  return id <= deleted;
}

int64_t StreamValue::CountUpTo(StreamId id) const {
  const auto added = static_cast<int64_t>(counters_.entries_added);
  if (added == 0) return 0;
  if (size() == 0 && id <= counters_.last_id) return added;
  if (id == counters_.last_id) return added;
  if (id > counters_.last_id) return StreamGroup::kUnknownReads;
  // Without gaps all that are left are the last ones that were added.
  const StreamId deleted = counters_.max_deleted_id;
  if (deleted.is_zero() || deleted < counters_.first_id) {
    const int64_t gone = added - static_cast<int64_t>(size());
    if (id < counters_.first_id) return gone;
    if (id == counters_.first_id) return gone + 1;
  }
  return StreamGroup::kUnknownReads;
}

std::optional<int64_t> StreamValue::LagOf(const StreamGroup& group) const {
  const auto added = static_cast<int64_t>(counters_.entries_added);
  if (added == 0) return 0;
  if (group.entries_read != StreamGroup::kUnknownReads && !HasGapsFrom(group.last_id)) {
    return added - group.entries_read;
  }
  const int64_t read = CountUpTo(group.last_id);
  if (read == StreamGroup::kUnknownReads) return std::nullopt;
  return added - read;
}

void StreamValue::AdvanceGroup(StreamGroup* group, StreamId id) const {
  if (id <= group->last_id) return;
  if (group->entries_read != StreamGroup::kUnknownReads && !HasGapsFrom(id)) {
    if (group->entries_read < INT64_MAX) ++group->entries_read;
  } else if (counters_.entries_added != 0) {
    group->entries_read = CountUpTo(id);
  }
  group->last_id = id;
}

void StreamValue::CheckInvariants() const {
  entries_.CheckInvariants();
  CHECK(counters_.first_id == entries_.First().value_or(StreamId()));
  CHECK_GE(counters_.entries_added, size());
  CHECK_LE(counters_.entries_added, uint64_t{INT64_MAX});
  for (const auto& [name, group] : groups_) {
    CHECK(name == group->name);
    CHECK_GE(group->entries_read, StreamGroup::kUnknownReads);
    group->CheckInvariants();
  }
  if (producers_ != nullptr) producers_->CheckInvariants();
}

}  // namespace dfly
