// SPDX-License-Identifier: Apache-2.0
// The value of a set key.
//
//   encoding   object                                          OBJECT ENCODING
//   kIntegers  IntSet: while all members are integers          intset
//   kPacked    PackedBlock: members in any order               listpack
//   kTable     MemberTable<NoValue>                            hashtable
//
// It changes towards the table, as in Redis 7.2: with a member that is no integer, too long or one
// too many, or with a deadline of a member; never back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/table/compact_value.h"
#include "core/table/member_table.h"
#include "core/table/packed_block.h"
#include "core/table/value_limits.h"
#include "core/text/numbers.h"
#include "core/types/hash_value.h"
#include "core/types/int_set.h"

namespace dfly {

// A way to use a CompactValue that is a set; refers to it as a pointer does.
//
// Owner:    who has the value.
// Suspends: never.
class SetValue {
 public:
  enum Encoding : uint8_t { kIntegers, kPacked, kTable };
  using Table = MemberTable<NoValue>;
  static constexpr size_t kScratchSize = 24;  // for a view of a member
  // A block becomes a table before it has more bytes, whatever the limits are.
  static constexpr size_t kPackedBytesMax = 1 << 30;

  // Before the first shard starts.
  static void RegisterType();
  // Makes `value` an empty set, whatever it was, whose encoding suits about `expected` members like
  // this one.
  static void Create(CompactValue* value, std::string_view member, size_t expected,
                     const SetLimit& limit);

  // REQUIRES: value->type() == ValueType::kSet. A member with a deadline before `now_ms` counts as
  // absent in all that follows; the value erases it when somebody adds it, or EraseDueMembers.
  explicit SetValue(CompactValue* value, int64_t now_ms = INT64_MIN)
      : value_(value), now_ms_(now_ms) {}
  // To read only.
  explicit SetValue(const CompactValue& value, int64_t now_ms = INT64_MIN)
      : value_(const_cast<CompactValue*>(&value)), now_ms_(now_ms) {}

  size_t size() const;
  Encoding encoding() const { return static_cast<Encoding>(value_->object_encoding()); }
  // The table of a set that is one.
  Table& table() const { return *static_cast<Table*>(value_->object()); }
  // The block of a set that is kPacked.
  PackedBlock block() const { return PackedBlock(value_->object()); }
  // The numbers of a set that is kIntegers.
  IntSet integers() const { return IntSet(value_->object()); }
  bool Has(std::string_view member) const;

  // True if it is new; else it keeps its deadline. `member` must not lie in this set, here and
  // below.
  bool Add(std::string_view member, const SetLimit& limit);
  // Before about `count` members are added: makes a table of it if that is too many for its form.
  void Expect(size_t count, const SetLimit& limit) {
    if (encoding() != kTable &&
        count > (encoding() == kPacked ? limit.packed.entries : limit.integers)) {
      MakeTable();
    }
  }
  // True if it was there.
  bool Erase(std::string_view member);
  // Makes a table of it, with room for deadlines.
  Table& MakeTable();

  // None: the member is absent. INT64_MAX: it has no deadline.
  std::optional<int64_t> Deadline(std::string_view member) const;
  // REQUIRES: the member is there; 0 <= at_ms <= 2^53.
  void SetDeadline(std::string_view member, int64_t at_ms) {
    MakeTable().SetDeadline(member, at_ms);
  }

  // fn(std::string_view member), for all. Changes nothing meanwhile.
  template <typename F>
  void ForEach(F&& fn) const {
    ForEachUntil([&](std::string_view member) {
      fn(member);
      return true;
    });
  }
  // The same until it returns false, but for a table, which goes on without calling it.
  template <typename F>
  void ForEachUntil(F&& fn) const;
  // Some of them, from `cursor` on; the next cursor, 0 at the end. A set that is no table gives all
  // at once.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const {
    if (encoding() != kTable) {
      ForEach(fn);
      return 0;
    }
    return table().Scan(cursor, [&](const Table::Slot& slot) {
      char scratch[kScratchSize];
      if (!table().IsDue(slot, now_ms_)) fn(slot.key.View(scratch));
    });
  }
  // One of them, each with the same probability; in the set or in `scratch`. REQUIRES: size() > 0.
  template <typename R>
  std::string_view Random(R&& random, char* scratch) const {
    if (encoding() == kTable) return RandomSlot(random).key.View(scratch);
    return At(random() % size(), scratch);
  }
  // The same. REQUIRES: a table.
  template <typename R>
  const Table::Slot& RandomSlot(R&& random) const {
    return table().RandomLive(random, now_ms_);
  }
  // Whether Random goes straight to its member, and would without `fewer` of them, too. There is no
  // way to the middle of a block but through it; and where most members of a table are due, finding
  // one that is not may take a walk. REQUIRES: fewer <= size().
  bool HasQuickRandom(size_t fewer = 0) const {
    if (encoding() != kTable) return encoding() == kIntegers;
    const size_t due = table().CountDue(now_ms_);
    return due == 0 || size() - fewer >= due;
  }

 private:
  const Table::Slot* FindLive(std::string_view member) const {
    const Table::Slot* const slot = table().Find(member);
    return slot == nullptr || table().IsDue(*slot, now_ms_) ? nullptr : slot;
  }
  // REQUIRES: no table.
  std::string_view At(size_t index, char* scratch) const;
  void MakePacked();

  CompactValue* value_;
  int64_t now_ms_;
};

template <typename F>
void SetValue::ForEachUntil(F&& fn) const {
  char scratch[kScratchSize];
  bool goes_on = true;
  if (encoding() == kTable) {
    table().ForEach([&](const Table::Slot& slot) {
      if (goes_on && !table().IsDue(slot, now_ms_)) goes_on = fn(slot.key.View(scratch));
    });
    return;
  }
  if (encoding() == kIntegers) {
    for (size_t i = 0; goes_on && i < size(); ++i) goes_on = fn(At(i, scratch));
    return;
  }
  const PackedBlock packed = block();
  for (auto at = packed.begin(); goes_on && at != packed.end(); at = PackedBlock::Next(at)) {
    goes_on = fn(PackedElement(at).View(scratch));
  }
}

}  // namespace dfly
