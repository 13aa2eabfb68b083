// SPDX-License-Identifier: Apache-2.0
#include "core/types/hash_value.h"

#include <string>
#include <utility>

namespace dfly {

namespace {

using Table = HashValue::Table;

void Destroy(void* object, uint8_t encoding) {
  if (encoding == HashValue::kPacked) {
    PackedBlock(object).Free();
  } else {
    delete static_cast<Table*>(object);
  }
}

size_t Bytes(const void* object, uint8_t encoding) {
  if (encoding == HashValue::kPacked) return UsableSize(object);
  return static_cast<const Table*>(object)->bytes();
}

bool IsEmpty(const void* object, uint8_t encoding) {
  if (encoding == HashValue::kPacked) return PackedBlock(const_cast<void*>(object)).empty();
  return static_cast<const Table*>(object)->size() == 0;
}

void* Clone(const void* object, uint8_t encoding) {
  if (encoding == HashValue::kPacked) {
    return PackedBlock(const_cast<void*>(object)).Clone().address();
  }
  return static_cast<const Table*>(object)->Clone().release();
}

void* CloneSome(const void* object, uint8_t encoding, void* copy, uint64_t* cursor) {
  if (encoding != HashValue::kTable) return Clone(object, encoding);
  return Table::CloneStep(static_cast<const Table*>(object), static_cast<Table*>(copy), cursor);
}

std::string_view EncodingName(const void*, uint8_t encoding) {
  return encoding == HashValue::kPacked ? "listpack" : "hashtable";
}

void* Move(void* object, uint8_t encoding, BlockMover& mover, uint64_t* cursor) {
  if (encoding != HashValue::kTable) {
    *cursor = 0;  // it may have been a table before
    return mover.Move(object);
  }
  return Table::Move(static_cast<Table*>(object), mover, cursor);
}

void Prefetch(const void* object, uint8_t encoding, FetchStage stage, uint64_t hash) {
  if (encoding == HashValue::kTable) static_cast<const Table*>(object)->Prefetch(stage, hash);
}

bool FreeSome(void* object, uint8_t encoding, size_t budget) {
  return encoding == HashValue::kPacked || static_cast<Table*>(object)->FreeSome(budget);
}

constexpr MemberDeadlines kFieldDeadlines = TableDeadlines<CompactText, HashValue::kTable>();

}  // namespace

void HashValue::RegisterType() {
  RegisterObjectType(ValueType::kHash, {.destroy = Destroy,
                                        .bytes = Bytes,
                                        .is_empty = IsEmpty,
                                        .clone = Clone,
                                        .clone_some = CloneSome,
                                        .encoding_name = EncodingName,
                                        .deadlines = &kFieldDeadlines,
                                        .free_some = FreeSome,
                                        .move = Move,
                                        .prefetch = Prefetch});
}

void HashValue::Create(CompactValue* value) {
  value->SetObject(ValueType::kHash, PackedBlock::Make().address(), kPacked);
}

size_t HashValue::size() const {
  return encoding() == kPacked ? block().entries() / 2 : table().size() - table().CountDue(now_ms_);
}

std::optional<std::string_view> HashValue::Get(std::string_view field, char* scratch) const {
  if (encoding() == kPacked) {
    const PackedBlock packed = block();
    const auto at = packed.Find(PackedText(field), 2);
    if (at == packed.end()) return std::nullopt;
    return PackedElement(PackedBlock::Next(at)).View(scratch);
  }
  const Table::Slot* const slot = FindLive(field);
  if (slot == nullptr) return std::nullopt;
  return slot->value.View(scratch);
}

bool HashValue::Has(std::string_view field) const {
  if (encoding() == kTable) return FindLive(field) != nullptr;
  const PackedBlock packed = block();
  return packed.Find(PackedText(field), 2) != packed.end();
}

bool HashValue::Set(std::string_view field, std::string_view text, const PackedLimit& limit,
                    OldDeadline old_deadline) {
  if (encoding() == kPacked) {
    PackedBlock packed = block();
    const PackedText packed_field(field);
    const auto at = packed.Find(packed_field, 2);
    const bool is_new = at == packed.end();
    const bool fits = field.size() <= limit.element_bytes && text.size() <= limit.element_bytes &&
                      packed.entries() / 2 + is_new <= limit.entries &&
                      packed.entry_bytes() + field.size() + text.size() <= kBlockMax;
    if (fits) {
      if (is_new) {
        packed.Append(packed_field);
        packed.Append(PackedText(text));
      } else {
        packed.Set(PackedBlock::Next(at), PackedText(text));
      }
      value_.ReplaceObject(packed.address(), kPacked);
      return is_new;
    }
    MakeTable();
  }
  Table& fields = table();
  if (!fields.has_deadlines()) return fields.Set(field, text);
  const bool is_live = FindLive(field) != nullptr;
  if (!is_live || old_deadline == OldDeadline::kDrop) fields.ClearDeadline(field);
  fields.Set(field, text);
  return !is_live;
}

bool HashValue::Erase(std::string_view field) {
  if (encoding() == kTable) {
    Table& fields = table();
    if (fields.has_deadlines() && FindLive(field) == nullptr) return false;
    return fields.Erase(field);
  }
  PackedBlock packed = block();
  const auto at = packed.Find(PackedText(field), 2);
  if (at == packed.end()) return false;
  packed.Erase(at, 2);
  value_.ReplaceObject(packed.address(), kPacked);
  return true;
}

std::optional<int64_t> HashValue::Deadline(std::string_view field) const {
  if (encoding() == kPacked) return Has(field) ? std::optional(Table::kNever) : std::nullopt;
  const Table::Slot* const slot = FindLive(field);
  if (slot == nullptr) return std::nullopt;
  return table().Deadline(*slot).value_or(Table::kNever);
}

auto HashValue::MakeTable() -> Table& {
  if (encoding() == kPacked) {
    PackedBlock packed = block();
    auto fresh = std::make_unique<Table>();
    ForEachPacked(packed,
                  [&](std::string_view field, std::string_view text) { fresh->Set(field, text); });
    packed.Free();
    value_.ReplaceObject(fresh.release(), kTable);
  }
  return table();
}

}  // namespace dfly
