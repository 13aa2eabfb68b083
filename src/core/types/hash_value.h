// SPDX-License-Identifier: Apache-2.0
// The value of a hash key: one packed block while it is small, a table of fields then.
//
//   encoding   object                                                         OBJECT ENCODING
//   kPacked    PackedBlock: field, value, field, value ... in any order       listpack
//   kTable     MemberTable<CompactText>                                       hashtable
//
// It becomes a table with a field or value that is too long, one field too many, or a deadline of a
// field, and stays one, as in Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/table/compact_value.h"
#include "core/table/member_table.h"
#include "core/table/packed_block.h"

namespace dfly {

// A way to use a CompactValue that is a hash; refers to it as a pointer does.
//
// Owner:    who has the value.
// Suspends: never.
class HashValue {
 public:
  enum Encoding : uint8_t { kPacked, kTable };
  using Table = MemberTable<CompactText>;
  static constexpr size_t kScratchSize = 24;  // for a view of a field or a value

  // Before the first shard starts.
  static void RegisterType();
  // Makes `value` an empty hash, whatever it was.
  static void Create(CompactValue* value);

  // REQUIRES: value->type() == ValueType::kHash. A field with a deadline before `now_ms` counts as
  // absent in all that follows; the value erases it when somebody sets it, or EraseDueMembers.
  explicit HashValue(CompactValue* value, int64_t now_ms = INT64_MIN)
      : value_(*value), now_ms_(now_ms) {}
  // To read only.
  explicit HashValue(const CompactValue& value, int64_t now_ms = INT64_MIN)
      : value_(const_cast<CompactValue&>(value)), now_ms_(now_ms) {}

  size_t size() const;
  Encoding encoding() const { return static_cast<Encoding>(value_.object_encoding()); }
  // The table of a hash that is one.
  Table& table() const { return *static_cast<Table*>(value_.object()); }
  // The block of a hash that is kPacked.
  PackedBlock block() const { return PackedBlock(value_.object()); }

  // Its value, in the hash itself or in `scratch`; dies when the hash changes.
  std::optional<std::string_view> Get(std::string_view field, char* scratch) const;
  bool Has(std::string_view field) const;

  enum class OldDeadline : uint8_t { kDrop, kKeep };
  // True if the field is new. Neither may lie in this hash.
  bool Set(std::string_view field, std::string_view text, const PackedLimit& limit,
           OldDeadline old_deadline = OldDeadline::kDrop);
  // True if it was there. `field` must not lie in this hash.
  bool Erase(std::string_view field);
  // Makes a table of it, with room for deadlines.
  Table& MakeTable();

  // None: the field is absent. INT64_MAX: it has no deadline.
  std::optional<int64_t> Deadline(std::string_view field) const;
  // REQUIRES: the field is there; 0 <= at_ms <= 2^53.
  void SetDeadline(std::string_view field, int64_t at_ms) { MakeTable().SetDeadline(field, at_ms); }
  // True if it was there and had one.
  bool ClearDeadline(std::string_view field) {
    return encoding() == kTable && Has(field) && table().ClearDeadline(field);
  }

  // fn(std::string_view field, std::string_view value), for all. Changes nothing meanwhile.
  template <typename F>
  void ForEach(F&& fn) const {
    if (encoding() == kPacked) {
      ForEachPacked(block(), fn);
    } else {
      table().ForEach([&](const Table::Slot& slot) { VisitLive(slot, fn); });
    }
  }
  // Some of them, from `cursor` on; the next cursor, 0 at the end. A packed hash gives all at once.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const {
    if (encoding() == kTable) {
      return table().Scan(cursor, [&](const Table::Slot& slot) { VisitLive(slot, fn); });
    }
    ForEachPacked(block(), fn);
    return 0;
  }
  // fn for one of them, each with the same probability. REQUIRES: size() > 0.
  template <typename R, typename F>
  void Random(R&& random, F&& fn) const {
    if (encoding() == kTable) return Visit(table().RandomLive(random, now_ms_), fn);
    const PackedBlock packed = block();
    VisitPacked(packed.At(random() % (packed.entries() / 2) * 2), fn);
  }

 private:
  template <typename F>
  static void Visit(const Table::Slot& slot, F&& fn) {
    char field[kScratchSize], text[kScratchSize];
    fn(slot.key.View(field), slot.value.View(text));
  }
  template <typename F>
  void VisitLive(const Table::Slot& slot, F&& fn) const {
    if (!table().IsDue(slot, now_ms_)) Visit(slot, fn);
  }
  const Table::Slot* FindLive(std::string_view field) const {
    const Table::Slot* const slot = table().Find(field);
    return slot == nullptr || table().IsDue(*slot, now_ms_) ? nullptr : slot;
  }
  template <typename F>
  static PackedBlock::Place VisitPacked(PackedBlock::Place at, F&& fn) {
    char field[kScratchSize], text[kScratchSize];
    const auto value_at = PackedBlock::Next(at);
    fn(PackedElement(at).View(field), PackedElement(value_at).View(text));
    return PackedBlock::Next(value_at);
  }
  template <typename F>
  static void ForEachPacked(PackedBlock block, F&& fn) {
    for (auto at = block.begin(); at != block.end();) at = VisitPacked(at, fn);
  }

  // A block becomes no larger, whatever the limits are.
  static constexpr size_t kBlockMax = 64 << 20;  // bytes

  CompactValue& value_;
  const int64_t now_ms_;
};

}  // namespace dfly
