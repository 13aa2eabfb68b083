// SPDX-License-Identifier: Apache-2.0
#include "storage/shard_snapshot.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/memory/prefetch.h"
#include "core/text/hash.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"

namespace dfly {

namespace {

// The walk goes over no more keys before it lets others run.
constexpr size_t kSliceKeys = 64;

}  // namespace

// Takes a large value part by part, and lets others run in between. The parts are queued as they
// come, and wait for room; those of a value that somebody waits for are kept to be queued at the
// end.
class ShardSnapshot::PartSink final : public ByteSink {
 public:
  PartSink(ShardSnapshot* snapshot, bool is_urgent) : snapshot_(*snapshot), is_urgent_(is_urgent) {}

  void Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const size_t count =
          std::min({bytes.size(), snapshot_.sizes_.slice, snapshot_.sizes_.flush - part_.size()});
      part_ += bytes.substr(0, count);
      bytes.remove_prefix(count);
      since_turn_ += count;
      if (part_.size() == snapshot_.sizes_.flush) EndPart(Piece::Kind::kPart);
      if (since_turn_ >= snapshot_.sizes_.slice) GiveWay();
    }
  }
  // Nothing more comes.
  void End() {
    EndPart(Piece::Kind::kLastPart);
    for (Piece& piece : kept_) snapshot_.QueueCounted(std::move(piece));
  }

 private:
  void EndPart(Piece::Kind kind) {
    Piece piece{std::exchange(part_, {}), kind};
    if (!is_urgent_) return snapshot_.Queue(std::move(piece));
    snapshot_.queued_bytes_ += piece.bytes.capacity();
    snapshot_.NoteBytes();
    kept_.push_back(std::move(piece));
  }
  void GiveWay() {
    since_turn_ = 0;
    {
      const helio::BoundedWait wait(helio::kItsTurn);
      helio::this_fiber::Yield();
    }
    if (is_urgent_) return;
    snapshot_.SaveUrgent();
    snapshot_.AwaitRoom();
    snapshot_.MayRest();
  }

  ShardSnapshot& snapshot_;
  const bool is_urgent_;
  std::string part_;
  size_t since_turn_ = 0;
  std::deque<Piece> kept_;
};

ShardSnapshot::ShardSnapshot(const SnapshotForm& form, SnapshotOutput* output,
                             std::atomic<uint64_t>* keys_written, const Sizes& sizes,
                             OnBehind on_behind)
    : form_(form),
      output_(*output),
      keys_written_(*keys_written),
      sizes_(sizes),
      on_behind_(std::move(on_behind)) {}

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
  shard->set_cut_guard(this);
}

void ShardSnapshot::Write() {
  helio::Fiber output("snapshot output", [this, is_held = helio::Hold::IsAny()] {
    const helio::InheritedHold inherited(is_held);
    WriteQueued();
  });
  for (const Cell& cell : cells_) Walk(cell);
  SaveTaken();
  shard_->set_cut_guard(nullptr);
  if (items_) held_bytes_ -= items_->bytes();
  items_.reset();
  NoteBytes();
  FlushBuffer();
  is_all_queued_ = true;
  queue_changed_.Notify();
  {
    const helio::BoundedWait wait(kSnapshotFile);
    output.Join();
  }
  DCHECK(urgent_.empty() && currents_.empty() && queued_bytes_ == 0);
  NoteBytes();
  cells_.clear();
}

const ShardSnapshot::Cell& ShardSnapshot::CellOf(const Database& database) const {
  const auto cell = std::find_if(cells_.begin(), cells_.end(), [&database](const Cell& candidate) {
    return candidate.database == &database;
  });
  DCHECK(cell != cells_.end());
  return *cell;
}

// ----------------------------------------------------------------------------------- the output

void ShardSnapshot::FlushBuffer() {
  if (buffer_.empty()) return;
  buffer_db_ = -1;
  Queue({std::exchange(buffer_, {}), Piece::Kind::kEntries});
}

void ShardSnapshot::Queue(Piece piece) {
  queued_bytes_ += piece.bytes.capacity();
  if (piece.kind == Piece::Kind::kEntries) return QueueCounted(std::move(piece));
  is_in_large_ = piece.kind != Piece::Kind::kLastPart;
  queue_.push_back(std::move(piece));
  if (!is_in_large_) {
    after_large_bytes_ = 0;
    for (Piece& waiting : std::exchange(after_large_, {})) queue_.push_back(std::move(waiting));
  }
  queue_changed_.Notify();
  NoteBytes();
}

void ShardSnapshot::QueueCounted(Piece piece) {
  if (is_in_large_) {
    after_large_bytes_ += piece.bytes.capacity();
    after_large_.push_back(std::move(piece));
  } else {
    queue_.push_back(std::move(piece));
    queue_changed_.Notify();
  }
  NoteBytes();
}

bool ShardSnapshot::HasToHurry() const {
  return !urgent_.empty() || std::any_of(currents_.begin(), currents_.end(),
                                         [](const Current* one) { return !one->holds.empty(); });
}

void ShardSnapshot::AwaitRoom() {
  const helio::BoundedWait wait(kSnapshotFile);
  queue_changed_.Await(
      [this] { return queued_bytes_ - after_large_bytes_ < sizes_.queued || HasToHurry(); });
}

void ShardSnapshot::WriteQueued() {
  bool is_in_large = false;
  while (true) {
    {
      const helio::BoundedWait wait(kSnapshotFile);
      queue_changed_.Await([this] { return !queue_.empty() || is_all_queued_; });
    }
    if (queue_.empty()) return;
    const Piece piece = std::move(queue_.front());
    queue_.pop_front();
    const bool is_wanted = !output_.has_failed();
    if (piece.kind == Piece::Kind::kEntries) {
      if (is_wanted) output_.WriteEntries(piece.bytes);
    } else {
      if (!is_in_large) output_.BeginLarge();
      if (is_wanted && !piece.bytes.empty()) output_.WritePart(piece.bytes);
      is_in_large = piece.kind == Piece::Kind::kPart;
      if (!is_in_large) output_.EndLarge();
    }
    queued_bytes_ -= piece.bytes.capacity();
    NoteBytes();
    queue_changed_.Notify();
  }
}

void ShardSnapshot::NoteBytes() {
  const size_t now = bytes();
  stats_.buffered_bytes_max = std::max<uint64_t>(stats_.buffered_bytes_max, now);
  shard_->set_snapshot_bytes(now);
  if (is_behind_ ? now > sizes_.behind / 2 : now <= sizes_.behind) return;
  is_behind_ = !is_behind_;
  if (on_behind_) on_behind_(is_behind_);
}

// ------------------------------------------------------------------------------------- the walk

void ShardSnapshot::Walk(const Cell& cell) {
  uint32_t cursor = 0;
  do {
    cursor = WalkSome(cell, cursor);
    for (const Later& later : std::exchange(later_, {})) SaveLarge(cell, later, nullptr, false);
    SaveTaken();
    if (buffer_.size() >= sizes_.flush) FlushBuffer();
    keys_written_.fetch_add(stats_.keys - std::exchange(keys_told_, stats_.keys),
                            std::memory_order_relaxed);
    {
      const helio::BoundedWait wait(helio::kItsTurn);
      helio::this_fiber::Yield();
    }
    AwaitRoom();
    SaveUrgent();
    MayRest();
  } while (cursor != 0);
  SaveUrgent();  // it is saved by now, but who waits does not know
  cell.database->EndCut();
}

void ShardSnapshot::MayRest() {
  if (sizes_.work_ns == 0 || HasToHurry()) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  if (work_begin_ns_ == 0) work_begin_ns_ = now_ns;
  const uint64_t worked_ns = now_ns - work_begin_ns_;
  if (worked_ns < sizes_.work_ns) return;
  const helio::BoundedWait wait(kSnapshotFile);
  helio::this_fiber::SleepForNanos(2 * std::min(worked_ns, 4 * sizes_.work_ns));
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

EntryFacts ShardSnapshot::FactsOf(int db_index, const Database& database, const Slot& slot,
                                  std::string_view key) const {
  EntryFacts facts;
  if (slot.key.has_flag(CompactKey::kHasExpire)) {
    facts.deadline_ms = database.Deadline(slot, KeyProbe(key, HashKey(key)));
  }
  facts.is_sticky = slot.key.has_flag(CompactKey::kSticky);
  if (db_index == 0) facts.memcached = (items_ ? *items_ : shard_->memcached()).Find(key);
  return facts;
}

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
    writer.Entry(key, FactsOf(db_index, database, slot, key), slot.value);
  }
  ++stats_.keys;
  NoteBytes();
}

// --------------------------------------------------------------------------------- large values

void ShardSnapshot::SaveLarge(const Cell& cell, const Later& later, std::unique_ptr<Hold> hold,
                              bool is_urgent) {
  const KeyProbe probe(later.key, later.hash);
  Database& database = *cell.database;
  Current current{.address = nullptr};
  if (hold != nullptr) current.holds.push_back(std::move(hold));
  auto it = database.Find(probe);
  // Else it has changed since, and was taken, or somebody was in a hurry.
  if (it && database.is_being_cut() && database.IsUnsaved(*it)) {
    if (Current* const under_way = FindCurrent(*it)) {
      under_way->holds.push_back(std::move(current.holds.front()));
      return;
    }
    // The slot may move while this goes on, but not what it refers to. Its bits are not an object:
    // nobody destroys them.
    alignas(CompactValue) std::byte alias[sizeof(CompactValue)];
    std::memcpy(alias, static_cast<const void*>(&it->value), sizeof(alias));
    current.address = it->value.HeapAddress();
    currents_.push_back(&current);
    SaveLargeEntry(cell.index, later.key, FactsOf(cell.index, database, *it, later.key),
                   *std::launder(reinterpret_cast<const CompactValue*>(alias)), is_urgent);
    DCHECK(currents_.back() == &current);
    currents_.pop_back();
    if (current.address != nullptr) {
      it = database.Find(probe);
      CHECK(it) << "a key went without notice";
      database.MarkSaved(*it);
    } else {
      held_bytes_ -= current.value.HeapBytes();
      current.value = CompactValue();
      NoteBytes();
    }
  }
  for (const std::unique_ptr<Hold>& held : current.holds) {
    if (held->on_saved) {
      held->on_saved();
    } else {
      shard_->transactions().Release(&held->entry);
    }
  }
}

void ShardSnapshot::SaveLargeEntry(int db_index, std::string_view key, const EntryFacts& facts,
                                   const CompactValue& value, bool is_urgent) {
  if (output_.has_failed()) return;
  PartSink sink(this, is_urgent);
  {
    EntryWriter writer(&sink, form_);
    writer.SelectDb(db_index);
    writer.Entry(key, facts, value);
  }
  sink.End();
  ++stats_.keys;
}

void ShardSnapshot::SaveTaken() {
  while (!taken_.empty()) {
    const Taken taken = std::move(taken_.front());
    taken_.pop_front();
    SaveLargeEntry(taken.db_index, taken.key, taken.facts, taken.value, false);
    held_bytes_ -= taken.value.HeapBytes();
    NoteBytes();
  }
}

void ShardSnapshot::SaveUrgent() {
  while (!urgent_.empty()) {
    Urgent urgent = std::move(urgent_.front());
    urgent_.pop_front();
    SaveLarge(urgent.cell, urgent.what, std::move(urgent.hold), true);
  }
}

// -------------------------------------------------------------------------------------- changes

ShardSnapshot::Current* ShardSnapshot::FindCurrent(const Slot& slot) const {
  for (Current* current : currents_) {
    if (current->address != nullptr && current->address == slot.value.HeapAddress()) return current;
  }
  return nullptr;
}

void ShardSnapshot::BeforeChange(Database& database, Slot& slot, Change change) {
  Current* const current = FindCurrent(slot);
  if (output_.has_failed() && current == nullptr) return;
  ++stats_.keys_by_changes;
  if (current == nullptr && !IsLarge(slot.value)) {
    Serialize(CellOf(database).index, database, slot);
    if (buffer_.size() >= sizes_.flush) FlushBuffer();
    return;
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
  if (current != nullptr) {
    current->value = std::move(value);
    current->address = nullptr;
  } else {
    std::string key = slot.key.ToString();
    const int db_index = CellOf(database).index;
    EntryFacts facts = FactsOf(db_index, database, slot, key);
    taken_.push_back({db_index, std::move(key), facts, std::move(value)});
  }
  NoteBytes();
}

Database* ShardSnapshot::FindLarge(int db_index, const KeyProbe& probe, Current** current) {
  if (output_.has_failed()) return nullptr;
  Database* const database = shard_->FindDb(db_index);
  if (database == nullptr || !database->is_being_cut()) return nullptr;
  const auto it = database->Find(probe);
  if (!it || !database->IsUnsaved(*it)) return nullptr;
  *current = FindCurrent(*it);
  return *current != nullptr || IsLarge(it->value) ? database : nullptr;
}

void ShardSnapshot::Hurry(Database& database, const KeyProbe& probe, Current* current,
                          std::unique_ptr<Hold> hold) {
  ++stats_.values_hurried;
  if (current != nullptr) {
    current->holds.push_back(std::move(hold));
  } else {
    urgent_.push_back(
        {CellOf(database), {std::string(probe.key()), probe.hash()}, std::move(hold)});
  }
  queue_changed_.Notify();
}

bool ShardSnapshot::MustWait(int db_index, std::string_view key, uint64_t hash, uint64_t lock) {
  const KeyProbe probe(key, hash);
  const TagLock shared{lock, LockMode::kShared};
  Current* current = nullptr;
  Database* const database = FindLarge(db_index, probe, &current);
  if (database == nullptr || shard_->transactions().Conflicts(shared)) return false;
  auto hold = std::make_unique<Hold>();
  hold->tag = shared;
  hold->entry.tags = std::span(&hold->tag, 1);
  shard_->transactions().Hold(&hold->entry);
  Hurry(*database, probe, current, std::move(hold));
  return true;
}

bool ShardSnapshot::MustWaitLocked(int db_index, std::string_view key, uint64_t hash,
                                   std::function<void()> on_saved) {
  const KeyProbe probe(key, hash);
  Current* current = nullptr;
  Database* const database = FindLarge(db_index, probe, &current);
  if (database == nullptr) return false;
  auto hold = std::make_unique<Hold>();
  hold->on_saved = std::move(on_saved);
  Hurry(*database, probe, current, std::move(hold));
  return true;
}

void ShardSnapshot::TakeMemcached(MemcachedItems& items) {
  if (items_) return;  // these are of keys that have come since the cut
  items_.emplace().TakeItems(items);
  held_bytes_ += items_->bytes();
  NoteBytes();
}

}  // namespace dfly
