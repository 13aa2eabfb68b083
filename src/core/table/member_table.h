// SPDX-License-Identifier: Apache-2.0
// The large form of hashes and sets: texts, each with a value or none, and some with a deadline.
//
//   table       what the key space uses, core/table/dash_table.h: a scan survives growth, memory is
//               35 to 45 bytes for a short field with its value, 19 to 24 for a short member
//   deadlines   for those that have one: when, and their order. Null until the first one is set
//
// A member that is due is there until somebody erases it (EraseDue).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/memory/allocator.h"
#include "core/memory/prefetch.h"
#include "core/table/compact_key.h"
#include "core/table/compact_value.h"
#include "core/table/dash_table.h"
#include "core/table/deadline_table.h"
#include "core/table/score_tree.h"
#include "core/text/hash.h"

namespace dfly {

// Owner:    one value of a shard. Made with new; bytes() is right only then.
// Suspends: never.
// V:        CompactText or NoValue.
template <typename V>
class MemberTable {
 public:
  using Table = DashTable<V>;
  using Slot = typename Table::Slot;
  static constexpr int64_t kNever = INT64_MAX;
  static constexpr int64_t kDeadlineMax = int64_t{1} << 53;  // as a double it is exact

  MemberTable() = default;
  MemberTable(const MemberTable&) = delete;
  MemberTable& operator=(const MemberTable&) = delete;
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* table) { Free(table); }

  size_t size() const { return table_.size(); }
  // What all of it costs, exactly.
  size_t bytes() const {
    size_t bytes = UsableSize(this) + table_.bytes() + value_bytes_;
    if (deadlines_ != nullptr) {
      bytes += UsableSize(deadlines_.get()) + deadlines_->at.bytes() + deadlines_->order.bytes();
    }
    return bytes;
  }

  // Null if it is absent. Dies with each Add and Erase.
  const Slot* Find(std::string_view member) const {
    const auto it = table_.Find(ProbeOf(member));
    return it ? &*it : nullptr;
  }
  void Prefetch(FetchStage stage, uint64_t hash) const { table_.Prefetch(stage, hash); }
  // True if it was absent. A value is the empty string then.
  bool Add(std::string_view member) { return table_.FindOrInsert(ProbeOf(member)).second; }
  // Adds it if it is absent, and sets its value. True if it was absent.
  bool Set(std::string_view member, std::string_view text) {
    const auto [it, is_new] = table_.FindOrInsert(ProbeOf(member));
    value_bytes_ -= it->value.HeapBytes();
    it->value.Set(text);
    value_bytes_ += it->value.HeapBytes();
    return is_new;
  }
  // With its deadline. `member` must not lie in this table. True if it was there.
  bool Erase(std::string_view member) {
    const KeyProbe probe = ProbeOf(member);
    const auto it = table_.Find(probe);
    if (!it) return false;
    ClearDeadline(*it, probe);
    if constexpr (kHasValues) value_bytes_ -= it->value.HeapBytes();
    table_.Erase(it);
    return true;
  }

  // --- Deadlines, in Unix milliseconds ---

  bool has_deadlines() const { return deadlines_ != nullptr; }
  // The earliest of all.
  int64_t next_deadline() const {
    return deadlines_ == nullptr ? kNever : static_cast<int64_t>(deadlines_->order.At(0).score());
  }
  std::optional<int64_t> Deadline(const Slot& slot) const {
    if (!slot.key.has_flag(CompactKey::kHasExpire)) return std::nullopt;
    char scratch[CompactKey::kScratchSize];
    return deadlines_->at.Get(ProbeOf(slot.key.View(scratch)));
  }
  bool IsDue(const Slot& slot, int64_t now_ms) const {
    return slot.key.has_flag(CompactKey::kHasExpire) && *Deadline(slot) < now_ms;
  }
  // How many are due. O(log n).
  size_t CountDue(int64_t now_ms) const {
    if (next_deadline() >= now_ms) return 0;
    return deadlines_->order.CountBelow(static_cast<double>(now_ms));
  }
  // False if the member is absent. REQUIRES: at_ms is at most kDeadlineMax in size.
  bool SetDeadline(std::string_view member, int64_t at_ms) {
    const KeyProbe probe = ProbeOf(member);
    const auto it = table_.Find(probe);
    if (!it) return false;
    ClearDeadline(*it, probe);
    if (deadlines_ == nullptr) deadlines_ = std::make_unique<Deadlines>();
    deadlines_->at.Add(probe, at_ms);
    deadlines_->order.Insert(static_cast<double>(at_ms), it->key);
    it->key.set_flag(CompactKey::kHasExpire, true);
    return true;
  }
  // True if it had one.
  bool ClearDeadline(std::string_view member) {
    const KeyProbe probe = ProbeOf(member);
    const auto it = table_.Find(probe);
    return it && ClearDeadline(*it, probe);
  }
  // Erases members whose deadline is before `now_ms`, `most` at most, and calls erased(member) for
  // each. Returns how many.
  template <typename F>
  size_t EraseDue(int64_t now_ms, size_t most, F&& erased) {
    size_t count = 0;
    for (; count < most && next_deadline() < now_ms; ++count) {
      char scratch[CompactKey::kScratchSize];
      const std::string member(deadlines_->order.At(0).member(scratch));
      Erase(member);
      erased(std::string_view(member));
    }
    return count;
  }

  // --- Walks, as DashTable's: fn(const Slot&) ---

  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const {
    return table_.Scan(cursor, [&](const Slot& slot) { fn(slot); });
  }
  template <typename F>
  void ForEach(F&& fn) const {
    table_.ForEach([&](const Slot& slot) { fn(slot); });
  }
  // Each with the same probability. REQUIRES: not empty.
  template <typename R>
  const Slot& Random(R&& random) const {
    return *table_.Random(random);
  }
  // One that is not due, each as probable as the other. REQUIRES: there is one. Draws; where nearly
  // all are due, counts its way to one instead, so it comes to an end.
  template <typename R>
  const Slot& RandomLive(R&& random, int64_t now_ms) const {
    const size_t due = CountDue(now_ms);
    if (due == 0) return Random(random);
    for (int i = 0; i < 64; ++i) {
      const Slot& slot = Random(random);
      if (!IsDue(slot, now_ms)) return slot;
    }
    size_t skipped = random() % (size() - due);
    const Slot* found = nullptr;
    table_.ForEach([&](const Slot& slot) {
      if (found == nullptr && !IsDue(slot, now_ms) && skipped-- == 0) found = &slot;
    });
    return *found;
  }

  // Adds about `budget` members to `copy`, allocated by the calling thread. *cursor is 0 at first,
  // and at the end; between the steps members may only go.
  void CloneSome(size_t budget, uint32_t* cursor, MemberTable* copy) const {
    const size_t end = copy->size() + budget;
    do {
      *cursor = table_.Scan(*cursor, [&](const Slot& slot) {
        char scratch[CompactKey::kScratchSize];
        const std::string_view member = slot.key.View(scratch);
        const auto it = copy->table_.Insert(ProbeOf(member));
        if constexpr (kHasValues) {
          it->value = slot.value.Clone();
          copy->value_bytes_ += it->value.HeapBytes();
        }
        if (const auto at_ms = Deadline(slot)) copy->SetDeadline(member, *at_ms);
      });
    } while (*cursor != 0 && copy->size() < end);
  }
  // A copy of all of it.
  std::unique_ptr<MemberTable> Clone() const {
    auto copy = std::make_unique<MemberTable>();
    uint32_t cursor = 0;
    CloneSome(SIZE_MAX, &cursor, copy.get());
    return copy;
  }

  // A step of ObjectType::clone_some.
  static MemberTable* CloneStep(const MemberTable* table, MemberTable* copy, uint64_t* cursor) {
    constexpr size_t kBudget = 1024;
    if (copy == nullptr) copy = std::make_unique<MemberTable>().release();
    auto at = static_cast<uint32_t>(*cursor);
    table->CloneSome(kBudget, &at, copy);
    *cursor = at;
    return copy;
  }

  // A step of ObjectType::move: one of these parts, which each have a cursor of their own.
  static MemberTable* Move(MemberTable* table, BlockMover& mover, uint64_t* cursor) {
    enum Part : uint32_t { kMembers, kTimes, kOrder };
    if (*cursor == 0) table = mover.Move(table);
    auto part = static_cast<Part>(*cursor >> 32);
    auto at = static_cast<uint32_t>(*cursor);
    auto& deadlines = table->deadlines_;
    if (part == kMembers) {
      at = table->table_.Move(at, mover, [&](Slot& slot) { table->MoveSlot(slot, mover); });
    } else if (deadlines != nullptr && part == kTimes) {
      if (at == 0) deadlines.reset(mover.Move(deadlines.release()));
      at = deadlines->at.Move(at, mover);
    } else if (deadlines != nullptr && part == kOrder) {
      at = deadlines->order.Move(at, mover);
    }
    if (at == 0) part = static_cast<Part>(part + 1);
    const bool is_done = part > kOrder || (part > kMembers && deadlines == nullptr);
    *cursor = is_done ? 0 : uint64_t{part} << 32 | at;
    return table;
  }

  // Frees about `budget` members; true when nothing is left. Nothing else may be called between the
  // first step and the last.
  bool FreeSome(size_t budget) {
    if (deadlines_ != nullptr) {
      if (deadlines_->order.FreeSome(budget) && deadlines_->at.FreeSome(budget)) deadlines_.reset();
      return false;
    }
    size_t freed = 0;
    const bool is_done = table_.FreeSome(budget, &freed);
    value_bytes_ -= freed;
    return is_done;
  }

  void CheckInvariants() const {  // O(n)
    table_.CheckInvariants();
    size_t value_bytes = 0, with_deadline = 0;
    table_.ForEach([&](const Slot& slot) {
      if constexpr (kHasValues) value_bytes += slot.value.HeapBytes();
      with_deadline += slot.key.has_flag(CompactKey::kHasExpire);
    });
    CHECK_EQ(value_bytes, value_bytes_);
    CHECK_EQ(with_deadline, deadlines_ == nullptr ? 0 : deadlines_->order.size());
    if (deadlines_ == nullptr) return;
    CHECK_EQ(with_deadline, deadlines_->at.size());
    CHECK_GT(with_deadline, 0u);
    deadlines_->order.CheckInvariants();
  }

 private:
  static constexpr bool kHasValues = !std::is_empty_v<V>;

  struct Deadlines {
    DeadlineTable at;
    ScoreTree order;  // of the table's keys

    static void* operator new(size_t bytes) { return Alloc(bytes); }
    static void operator delete(void* deadlines) { Free(deadlines); }
  };

  static KeyProbe ProbeOf(std::string_view member) { return KeyProbe(member, HashKey(member)); }

  void MoveSlot(Slot& slot, BlockMover& mover) {
    if (slot.key.has_flag(CompactKey::kHasExpire)) {
      const auto at_ms = static_cast<double>(*Deadline(slot));
      slot.key.Move(mover, [&](const CompactKeyRef& key) { deadlines_->order.Follow(at_ms, key); });
    } else {
      slot.key.Move(mover);
    }
    if constexpr (kHasValues) slot.value.Move(mover);
  }

  bool ClearDeadline(Slot& slot, const KeyProbe& probe) {
    if (!slot.key.has_flag(CompactKey::kHasExpire)) return false;
    deadlines_->order.Erase(static_cast<double>(deadlines_->at.Get(probe)), probe.key());
    deadlines_->at.Erase(probe);
    slot.key.set_flag(CompactKey::kHasExpire, false);
    if (deadlines_->order.size() == 0) deadlines_.reset();
    return true;
  }

  Table table_;
  size_t value_bytes_ = 0;
  std::unique_ptr<Deadlines> deadlines_;
};

// How a type answers for its members' deadlines if these are in a MemberTable, which its objects of
// the encoding `kTable` are.
template <typename V, uint8_t kTable>
constexpr MemberDeadlines TableDeadlines() {
  using Table = MemberTable<V>;
  return {.next =
              [](const void* object, uint8_t encoding) {
                return encoding == kTable ? static_cast<const Table*>(object)->next_deadline()
                                          : Table::kNever;
              },
          .are_all_due =
              [](const void* object, uint8_t encoding, int64_t now_ms) {
                if (encoding != kTable) return false;
                const auto* const table = static_cast<const Table*>(object);
                return table->size() != 0 && table->CountDue(now_ms) == table->size();
              },
          .erase_due =
              [](void* object, uint8_t encoding, int64_t now_ms, size_t most,
                 std::vector<std::string>* erased) {
                if (encoding != kTable) return size_t{0};
                return static_cast<Table*>(object)->EraseDue(now_ms, most,
                                                             [erased](std::string_view member) {
                                                               if (erased != nullptr)
                                                                 erased->emplace_back(member);
                                                             });
              },
          .count =
              [](const void* object, uint8_t encoding) {
                return encoding == kTable ? static_cast<const Table*>(object)->size() : size_t{0};
              }};
}

}  // namespace dfly
