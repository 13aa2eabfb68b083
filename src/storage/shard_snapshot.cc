// SPDX-License-Identifier: Apache-2.0
#include "storage/shard_snapshot.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/hash.h"
#include "core/prefetch.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"

namespace dfly {

namespace {

// The walk goes over no more keys before it lets others run.
constexpr size_t kSliceKeys = 256;

// Hands a large value on, part by part.
class PartSink final : public ByteSink {
 public:
  PartSink(SnapshotOutput* output, const ShardSnapshot::Sizes& sizes)
      : output_(*output), sizes_(sizes) {}
  void Append(std::string_view bytes) override {
    if (bytes.size() >= sizes_.flush) {
      Flush();
      for (; bytes.size() > sizes_.flush; bytes.remove_prefix(sizes_.flush)) {
        Write(bytes.substr(0, sizes_.flush));
      }
    }
    buffer_ += bytes;
    since_turn_ += bytes.size();
    if (buffer_.size() >= sizes_.flush) {
      Flush();
    } else if (since_turn_ >= sizes_.slice) {
      GiveWay();
    }
  }
  void Flush() {
    if (!buffer_.empty()) Write(buffer_);
    buffer_.clear();
  }

 private:
  void Write(std::string_view bytes) {
    if (!output_.has_failed()) output_.WritePart(bytes);
    GiveWay();
  }
  void GiveWay() {
    helio::this_fiber::Yield();
    since_turn_ = 0;
  }

  SnapshotOutput& output_;
  const ShardSnapshot::Sizes& sizes_;
  std::string buffer_;
  size_t since_turn_ = 0;
};

}  // namespace

ShardSnapshot::ShardSnapshot(const SnapshotForm& form, SnapshotOutput* output,
                             std::atomic<uint64_t>* keys_written, const Sizes& sizes)
    : form_(form), output_(*output), keys_written_(*keys_written), sizes_(sizes) {}

ShardSnapshot::~ShardSnapshot() { DCHECK(cells_.empty()); }

void ShardSnapshot::Cut(Shard* shard) {
  DCHECK(cells_.empty());
  shard_ = shard;
  for (int i = 0; i < shard->db_count(); ++i) {
    Database* database = shard->FindDb(i);
    if (database == nullptr) continue;
    database->BeginCut(this);
    cells_.push_back({database, i});
  }
}

void ShardSnapshot::Write() {
  for (const Cell& cell : cells_) Walk(cell);
  WriteTaken();
  Flush();
  cells_.clear();
}

void ShardSnapshot::TellBytes() {
  const size_t bytes = this->bytes();
  stats_.buffered_bytes_max = std::max<uint64_t>(stats_.buffered_bytes_max, bytes);
  shard_->set_snapshot_bytes(bytes);
}

int ShardSnapshot::IndexOf(const Database& database) const {
  const auto cell = std::find_if(cells_.begin(), cells_.end(), [&database](const Cell& candidate) {
    return candidate.database == &database;
  });
  DCHECK(cell != cells_.end());
  return cell->index;
}

// ------------------------------------------------------------------------------------- the walk

void ShardSnapshot::Walk(const Cell& cell) {
  uint32_t cursor = 0;
  do {
    cursor = WalkSome(cell, cursor);
    for (const Later& later : std::exchange(later_, {})) WriteLarge(cell, later);
    WriteTaken();
    if (buffer_.size() >= sizes_.flush) Flush();
    keys_written_.fetch_add(stats_.keys - std::exchange(keys_told_, stats_.keys),
                            std::memory_order_relaxed);
    helio::this_fiber::Yield();
    MayRest();
  } while (cursor != 0);
  cell.database->EndCut();
}

void ShardSnapshot::MayRest() {
  if (sizes_.work_ns == 0) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  if (work_begin_ns_ == 0) work_begin_ns_ = now_ns;
  const uint64_t worked_ns = now_ns - work_begin_ns_;
  if (worked_ns < sizes_.work_ns) return;
  helio::this_fiber::SleepForNanos(std::min(worked_ns, 4 * sizes_.work_ns));
  work_begin_ns_ = helio::MonotonicNanos();
}

// Keys and values on the heap are cache misses, which overlap if they are asked for together: one
// bucket is serialized while the next one comes.
uint32_t ShardSnapshot::WalkSome(const Cell& cell, uint32_t cursor) {
  absl::InlinedVector<Slot*, 64> ahead;
  absl::InlinedVector<Slot*, 64> ready;
  const size_t begin_bytes = buffer_.size();
  size_t keys = 0;
  do {
    cursor = cell.database->Scan(cursor, [&](Slot& slot) {
      if (!cell.database->IsUnsaved(slot)) return;
      if (const void* key = slot.key.HeapAddress()) PrefetchLine(key);
      if (const void* value = slot.value.HeapAddress()) PrefetchLine(value);
      ahead.push_back(&slot);
    });
    for (Slot* slot : ready) SerializeOrDefer(cell, *slot);
    keys += ready.size() + 1;
    ready.swap(ahead);
    ahead.clear();
  } while (cursor != 0 && keys < kSliceKeys && buffer_.size() - begin_bytes < sizes_.slice);
  for (Slot* slot : ready) SerializeOrDefer(cell, *slot);
  return cursor;
}

void ShardSnapshot::SerializeOrDefer(const Cell& cell, Slot& slot) {
  if (!output_.has_failed()) {
    if (IsLarge(slot.value)) {
      std::string key = slot.key.ToString();
      const uint64_t hash = HashKey(key);
      later_.push_back({std::move(key), hash});
      return;  // not saved yet
    }
    Serialize(cell.index, *cell.database, slot);
  }
  cell.database->MarkSaved(slot);
}

namespace {

EntryFacts FactsOf(const Database& database, const Database::Table::Slot& slot,
                   std::string_view key) {
  EntryFacts facts;
  if (slot.key.has_flag(CompactKey::kHasExpire)) {
    facts.deadline_ms = database.Deadline(slot, KeyProbe(key, HashKey(key)));
  }
  facts.is_sticky = slot.key.has_flag(CompactKey::kSticky);
  return facts;
}

}  // namespace

void ShardSnapshot::Serialize(int db_index, const Database& database, const Slot& slot) {
  char scratch[CompactKey::kScratchSize];
  const std::string_view key = slot.key.View(scratch);
  StringSink sink(&buffer_);
  {
    EntryWriter writer(&sink, form_);
    if (buffer_db_ != db_index) {
      writer.SelectDb(db_index);
      buffer_db_ = db_index;
    }
    writer.Entry(key, FactsOf(database, slot, key), slot.value);
  }
  ++stats_.keys;
  TellBytes();
}

void ShardSnapshot::Flush() {
  if (buffer_.empty()) return;
  buffer_db_ = -1;
  std::string bytes = std::exchange(buffer_, {});
  writing_bytes_ = bytes.capacity();
  if (!output_.has_failed()) output_.WriteEntries(bytes);
  bytes = {};
  writing_bytes_ = 0;
  TellBytes();
}

// --------------------------------------------------------------------------------- large values

void ShardSnapshot::WriteLarge(const Cell& cell, const Later& later) {
  const KeyProbe probe(later.key, later.hash);
  Database& database = *cell.database;
  auto it = database.Find(probe);
  if (!it || !database.IsUnsaved(*it)) return;  // it has changed since, and was taken
  // The slot may move while this goes on, but not what it refers to. Its bits are not an object:
  // nobody destroys them.
  alignas(CompactValue) std::byte alias[sizeof(CompactValue)];
  std::memcpy(alias, static_cast<const void*>(&it->value), sizeof(alias));
  current_ = it->value.HeapAddress();
  WriteLargeEntry(cell.index, later.key, FactsOf(database, *it, later.key),
                  *std::launder(reinterpret_cast<const CompactValue*>(alias)));
  if (current_ != nullptr) {
    it = database.Find(probe);
    CHECK(it) << "a key went without notice";
    database.MarkSaved(*it);
  } else {
    held_bytes_ -= current_value_.HeapBytes();
    current_value_ = CompactValue();
    TellBytes();
  }
  current_ = nullptr;
}

void ShardSnapshot::WriteLargeEntry(int db_index, std::string_view key, const EntryFacts& facts,
                                    const CompactValue& value) {
  if (output_.has_failed()) return;
  output_.BeginLarge();
  PartSink sink(&output_, sizes_);
  {
    EntryWriter writer(&sink, form_);
    writer.SelectDb(db_index);
    writer.Entry(key, facts, value);
  }
  sink.Flush();
  output_.EndLarge();
  ++stats_.keys;
}

void ShardSnapshot::WriteTaken() {
  while (!taken_.empty()) {
    const Taken taken = std::move(taken_.front());
    taken_.pop_front();
    WriteLargeEntry(taken.db_index, taken.key, taken.facts, taken.value);
    held_bytes_ -= taken.value.HeapBytes();
    TellBytes();
  }
}

// -------------------------------------------------------------------------------------- changes

void ShardSnapshot::BeforeChange(Database& database, Slot& slot, Change change) {
  const bool is_current = current_ != nullptr && slot.value.HeapAddress() == current_;
  if (output_.has_failed() && !is_current) return;
  ++stats_.keys_by_changes;
  if (!is_current && !IsLarge(slot.value)) {
    return Serialize(IndexOf(database), database, slot);
  }
  const size_t bytes = slot.value.HeapBytes();
  CompactValue value = std::move(slot.value);
  if (change == Change::kInPlace) {
    slot.value = value.Clone();
    ++stats_.values_copied;
  } else {
    ++stats_.values_taken;
  }
  database.AccountValue(bytes, slot.value.HeapBytes());
  held_bytes_ += bytes;
  if (is_current) {
    current_value_ = std::move(value);
    current_ = nullptr;
  } else {
    std::string key = slot.key.ToString();
    EntryFacts facts = FactsOf(database, slot, key);
    taken_.push_back({IndexOf(database), std::move(key), facts, std::move(value)});
  }
  TellBytes();
}

}  // namespace dfly
