// SPDX-License-Identifier: Apache-2.0
// The value of a hash key: one packed block while it is small, a table of fields then.
//
//   encoding   object                                                         OBJECT ENCODING
//   kPacked    PackedBlock: field, value, field, value ... in any order       listpack
//   kTable     MemberTable<CompactText>                                       hashtable
//   kShared    PackedBlock: number of FieldNames, value, value ...            listpack
//
// A packed hash is kShared if many have the same names in the same order (ShareNames), and becomes
// kPacked again when a name goes or comes that the others don't have. It becomes a table with a
// field or value that is too long, one field too many, or a deadline of a field, and stays one, as
// in Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/table/compact_value.h"
#include "core/table/member_table.h"
#include "core/table/packed_block.h"
#include "core/types/field_names.h"

namespace dfly {

// A way to use a CompactValue that is a hash; refers to it as a pointer does.
//
// Owner:    who has the value.
// Suspends: never.
class HashValue {
 public:
  enum Encoding : uint8_t { kPacked, kTable, kShared };
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

  size_t size() const {
    if (encoding() == kTable) return table().size() - table().CountDue(now_ms_);
    return encoding() == kPacked ? block().entries() / 2 : block().entries() - 1;
  }
  Encoding encoding() const { return static_cast<Encoding>(value_.object_encoding()); }
  // The table of a hash that is one.
  Table& table() const { return *static_cast<Table*>(value_.object()); }

  // Its value, in the hash itself or in `scratch`; dies when the hash changes.
  std::optional<std::string_view> Get(std::string_view field, char* scratch) const;
  bool Has(std::string_view field) const;

  enum class OldDeadline : uint8_t { kDrop, kKeep };
  // True if the field is new. Neither may lie in this hash.
  bool Set(std::string_view field, std::string_view text, const PackedLimit& limit,
           OldDeadline old_deadline = OldDeadline::kDrop);
  // Sets all pairs of a new hash at once, if many hashes have these names. Only with kDone anything
  // was done; with kRare ShareNames would do nothing either.
  enum class Sharing : uint8_t { kUnknown, kRare, kDone };
  Sharing SetAllShared(std::span<const std::string_view> pairs, const PackedLimit& limit);
  // For a hash that has got new fields: shares their names if many hashes have them.
  void ShareNames();
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
    if (encoding() != kTable) return ForEachPacked(fn);
    table().ForEach([&](const Table::Slot& slot) { VisitLive(slot, fn); });
  }
  // fn(PackedElement field, PackedElement value). REQUIRES: it is no table.
  template <typename F>
  void ForEachElement(F&& fn) const {
    const PackedBlock packed = block();
    if (encoding() == kPacked) {
      for (auto at = packed.begin(); at != packed.end(); at = packed.Skip(at, 2)) {
        fn(PackedElement(at), PackedElement(PackedBlock::Next(at)));
      }
      return;
    }
    const PackedBlock fields = names().block();
    auto at = PackedBlock::Next(packed.begin());
    for (auto name = fields.begin(); name != fields.end(); name = PackedBlock::Next(name)) {
      fn(PackedElement(name), PackedElement(at));
      at = PackedBlock::Next(at);
    }
  }
  // Some of them, from `cursor` on; the next cursor, 0 at the end. A packed hash gives all at once.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const {
    if (encoding() == kTable) {
      return table().Scan(cursor, [&](const Table::Slot& slot) { VisitLive(slot, fn); });
    }
    ForEachPacked(fn);
    return 0;
  }
  // fn for one of them, each with the same probability. REQUIRES: size() > 0.
  template <typename R, typename F>
  void Random(R&& random, F&& fn) const {
    if (encoding() == kTable) return Visit(table().RandomLive(random, now_ms_), fn);
    const size_t index = random() % size();
    const PackedBlock packed = block();
    if (encoding() == kShared) {
      return VisitElements(PackedElement(names().block().At(index)),
                           PackedElement(packed.At(1 + index)), fn);
    }
    const auto at = packed.At(2 * index);
    VisitElements(PackedElement(at), PackedElement(PackedBlock::Next(at)), fn);
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
  static void VisitElements(PackedElement field_of, PackedElement text_of, F&& fn) {
    char field[kScratchSize], text[kScratchSize];
    fn(field_of.View(field), text_of.View(text));
  }
  template <typename F>
  void ForEachPacked(F&& fn) const {
    ForEachElement(
        [&fn](PackedElement field, PackedElement text) { VisitElements(field, text, fn); });
  }

  // Of a hash that is no table.
  PackedBlock block() const { return PackedBlock(value_.object()); }
  // Of a hash that is kShared.
  FieldNames& names() const { return FieldNames::Of(*PackedElement(block().begin()).TryInt()); }
  // Where the field's value is in block(), or its end.
  PackedBlock::Place FindValue(const PackedText& field) const {
    const PackedBlock packed = block();
    if (encoding() == kShared) {
      const auto index = names().IndexOf(field);
      return index ? packed.Skip(packed.begin(), 1 + *index) : packed.end();
    }
    const auto at = packed.Find(field, 2);
    return at == packed.end() ? at : PackedBlock::Next(at);
  }
  // Whether it may stay packed with so many fields when it gets this one.
  bool Fits(std::string_view field, std::string_view text, size_t fields,
            const PackedLimit& limit) const {
    return field.size() <= limit.element_bytes && text.size() <= limit.element_bytes &&
           fields <= limit.entries &&
           block().entry_bytes() + field.size() + text.size() <= kBlockMax;
  }
  // Adds a field to a hash that is kShared and stays so. False: no list is one longer by it.
  bool AddShared(std::string_view field, std::string_view text);
  // Erase of a hash that is kShared. It stays so if there is a list of the other names.
  bool EraseShared(std::string_view field);
  // Its block has the values for these names now.
  void SetNames(PackedBlock packed, FieldNames* to);
  // Makes a kShared hash kPacked, and nothing of others.
  void Unshare();

  // A block becomes no larger, whatever the limits are.
  static constexpr size_t kBlockMax = 64 << 20;  // bytes

  CompactValue& value_;
  const int64_t now_ms_;
};

}  // namespace dfly
