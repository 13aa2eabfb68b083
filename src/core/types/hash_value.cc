// SPDX-License-Identifier: Apache-2.0
#include "core/types/hash_value.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

namespace {

using Table = HashValue::Table;

// Of a hash that is kShared.
FieldNames& NamesIn(PackedBlock shared) {
  return FieldNames::Of(*PackedElement(shared.begin()).TryInt());
}

void Destroy(void* object, uint8_t encoding) {
  if (encoding == HashValue::kTable) return delete static_cast<Table*>(object);
  PackedBlock packed(object);
  if (encoding == HashValue::kShared) NamesIn(packed).Unref();
  packed.Free();
}

// What the names of a kShared hash take belongs to no key.
size_t Bytes(const void* object, uint8_t encoding) {
  if (encoding != HashValue::kTable) return UsableSize(object);
  return static_cast<const Table*>(object)->bytes();
}

bool IsEmpty(const void* object, uint8_t encoding) {
  if (encoding != HashValue::kTable) return PackedBlock(const_cast<void*>(object)).empty();
  return static_cast<const Table*>(object)->size() == 0;
}

void* Clone(const void* object, uint8_t encoding) {
  if (encoding == HashValue::kTable) return static_cast<const Table*>(object)->Clone().release();
  const PackedBlock packed(const_cast<void*>(object));
  if (encoding == HashValue::kShared) NamesIn(packed).Ref();
  return packed.Clone().address();
}

void* CloneSome(const void* object, uint8_t encoding, void* copy, uint64_t* cursor) {
  if (encoding != HashValue::kTable) return Clone(object, encoding);
  return Table::CloneStep(static_cast<const Table*>(object), static_cast<Table*>(copy), cursor);
}

std::string_view EncodingName(const void*, uint8_t encoding) {
  return encoding == HashValue::kTable ? "hashtable" : "listpack";
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
  return encoding != HashValue::kTable || static_cast<Table*>(object)->FreeSome(budget);
}

// Of the entries of `packed`, every second one from `from` on; behind `first`, if there is one.
PackedBlock CopyEachSecond(PackedBlock packed, PackedBlock::Place from,
                           const PackedText* first = nullptr) {
  const size_t count = packed.entries() / 2;
  size_t bytes = first == nullptr ? 0 : first->entry_bytes();
  auto at = from;
  for (size_t i = 0; i < count; ++i) {
    bytes += PackedEntryBytes(at);
    if (i + 1 < count) at = packed.Skip(at, 2);
  }
  PackedBlock copy = PackedBlock::Make(bytes);
  if (first != nullptr) copy.Append(*first);
  at = from;
  for (size_t i = 0; i < count; ++i) {
    copy.AppendEntry(at);
    if (i + 1 < count) at = packed.Skip(at, 2);
  }
  return copy;
}

// Whether the fields of a hash that is kPacked are just these. REQUIRES: they are as many.
bool AreFieldsOf(PackedBlock packed, PackedBlock names) {
  auto name = names.begin();
  for (auto at = packed.begin(); at != packed.end(); at = packed.Skip(at, 2)) {
    const size_t bytes = PackedEntryBytes(at);
    if (PackedEntryBytes(name) != bytes || std::memcmp(at, name, bytes) != 0) return false;
    name += bytes;
  }
  return true;
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

std::optional<std::string_view> HashValue::Get(std::string_view field, char* scratch) const {
  if (encoding() != kTable) {
    const auto at = FindValue(PackedText(field));
    if (at == block().end()) return std::nullopt;
    return PackedElement(at).View(scratch);
  }
  const Table::Slot* const slot = FindLive(field);
  if (slot == nullptr) return std::nullopt;
  return slot->value.View(scratch);
}

bool HashValue::Has(std::string_view field) const {
  if (encoding() == kTable) return FindLive(field) != nullptr;
  return FindValue(PackedText(field)) != block().end();
}

bool HashValue::Set(std::string_view field, std::string_view text, const PackedLimit& limit,
                    OldDeadline old_deadline) {
  if (encoding() != kTable) {
    const PackedText packed_field(field);
    const auto at = FindValue(packed_field);
    const bool is_new = at == block().end();
    if (Fits(field, text, size() + is_new, limit)) {
      if (is_new && encoding() == kShared) {
        if (AddShared(field, text)) return true;
        Unshare();
      }
      PackedBlock packed = block();
      if (is_new) {
        packed.Append(packed_field);
        packed.Append(PackedText(text));
      } else {
        packed.Set(at, PackedText(text));
      }
      value_.ReplaceObject(packed.address(), encoding());
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
  if (encoding() == kShared) return EraseShared(field);
  PackedBlock packed = block();
  const auto at = packed.Find(PackedText(field), 2);
  if (at == packed.end()) return false;
  packed.Erase(at, 2);
  value_.ReplaceObject(packed.address(), kPacked);
  return true;
}

// --- Names that many hashes have ---

auto HashValue::SetAllShared(std::span<const std::string_view> pairs, const PackedLimit& limit)
    -> Sharing {
  DCHECK(encoding() == kPacked && size() == 0);
  const size_t count = pairs.size() / 2;
  if (count < 2 || count > std::min<size_t>(FieldNames::kNamesMax, limit.entries))
    return Sharing::kRare;
  CommonNames& common = CommonNames::Here();
  if (!common.IsCommonEnd(pairs[2 * (count - 1)], count)) return Sharing::kRare;
  uint64_t fingerprint = 0;
  size_t bytes = PackedText(int64_t{INT16_MAX}).entry_bytes();
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (std::max(pairs[i].size(), pairs[i + 1].size()) > limit.element_bytes) {
      return Sharing::kUnknown;
    }
    fingerprint = CommonNames::Fold(fingerprint, pairs[i]);
    bytes += PackedText(pairs[i + 1]).entry_bytes();
  }
  // They are different, as those of the list are.
  const auto has_these = [&](const FieldNames& names) {
    if (names.size() != count) return false;
    auto name = names.block().begin();
    for (size_t i = 0; i < pairs.size(); i += 2, name = PackedBlock::Next(name)) {
      if (!PackedText(pairs[i]).IsAt(name)) return false;
    }
    return true;
  };
  FieldNames* const names = common.Find(fingerprint, has_these);
  if (names == nullptr || bytes > kBlockMax) return Sharing::kUnknown;
  PackedBlock shared = PackedBlock::Make(bytes);
  shared.Append(PackedText(names->number()));
  for (size_t i = 1; i < pairs.size(); i += 2) shared.Append(PackedText(pairs[i]));
  names->Ref();
  block().Free();
  value_.ReplaceObject(shared.address(), kShared);
  return Sharing::kDone;
}

void HashValue::ShareNames() {
  const size_t count = size();
  if (encoding() != kPacked || count < 2 || count > FieldNames::kNamesMax) return;
  const PackedBlock packed = block();
  char scratch[kScratchSize];
  CommonNames& common = CommonNames::Here();
  const auto last = packed.At(2 * (count - 1));
  if (!common.IsCommonEnd(PackedElement(last).View(scratch), count)) return;
  uint64_t fingerprint = 0;
  ForEachElement([&](PackedElement field, PackedElement) {
    fingerprint = CommonNames::Fold(fingerprint, field.View(scratch));
  });
  FieldNames* names = common.Find(fingerprint, [&](const FieldNames& common_names) {
    return common_names.size() == count && AreFieldsOf(packed, common_names.block());
  });
  if (names == nullptr && common.IsWorthAList(fingerprint)) {
    const PackedBlock fields = CopyEachSecond(packed, packed.begin());
    if (fields.entry_bytes() > FieldNames::kBytesMax) return PackedBlock(fields).Free();
    names = common.Add(fields, fingerprint);
  }
  if (names == nullptr) return;
  names->Ref();
  const PackedText number(names->number());
  PackedBlock shared = CopyEachSecond(packed, PackedBlock::Next(packed.begin()), &number);
  block().Free();
  value_.ReplaceObject(shared.address(), kShared);
}

bool HashValue::AddShared(std::string_view field, std::string_view text) {
  FieldNames& from = names();
  const PackedBlock present = from.block();
  const auto has_field_behind = [&](const FieldNames& longer) {
    const PackedBlock all = longer.block();
    const size_t bytes = present.entry_bytes();
    return all.entries() == present.entries() + 1 &&
           std::memcmp(all.begin(), present.begin(), bytes) == 0 &&
           PackedText(field).IsAt(all.begin() + bytes);
  };
  const uint64_t fingerprint = CommonNames::Fold(from.fingerprint(), field);
  FieldNames* const to = CommonNames::Here().Find(fingerprint, has_field_behind);
  if (to == nullptr) return false;
  PackedBlock packed = block();
  packed.Append(PackedText(text));
  SetNames(packed, to);
  return true;
}

bool HashValue::EraseShared(std::string_view field) {
  FieldNames& from = names();
  const std::optional<size_t> index = from.IndexOf(PackedText(field));
  if (!index) return false;
  const PackedBlock present = from.block();
  const auto erased = present.At(*index);
  const auto has_all_others = [&](const FieldNames& shorter) {
    const PackedBlock others = shorter.block();
    const size_t before = static_cast<size_t>(erased - present.begin());
    const auto behind = PackedBlock::Next(erased);
    const size_t rest = static_cast<size_t>(present.end() - behind);
    return others.entry_bytes() == before + rest &&
           std::memcmp(others.begin(), present.begin(), before) == 0 &&
           std::memcmp(others.begin() + before, behind, rest) == 0;
  };
  uint64_t fingerprint = 0;
  for (auto at = present.begin(); at != present.end(); at = PackedBlock::Next(at)) {
    char scratch[kScratchSize];
    if (at == erased) continue;
    fingerprint = CommonNames::Fold(fingerprint, PackedElement(at).View(scratch));
  }
  FieldNames* const to = CommonNames::Here().Find(fingerprint, has_all_others);
  if (to == nullptr) {
    Unshare();
    return Erase(field);
  }
  PackedBlock packed = block();
  packed.Erase(packed.At(1 + *index), 1);
  SetNames(packed, to);
  return true;
}

void HashValue::SetNames(PackedBlock packed, FieldNames* to) {
  to->Ref();
  NamesIn(packed).Unref();
  packed.Set(packed.begin(), PackedText(to->number()));
  value_.ReplaceObject(packed.address(), kShared);
}

void HashValue::Unshare() {
  FieldNames& shared_names = names();
  PackedBlock packed =
      PackedBlock::Make(block().entry_bytes() + shared_names.block().entry_bytes());
  const PackedBlock fields = shared_names.block();
  auto text = PackedBlock::Next(block().begin());
  for (auto field = fields.begin(); field != fields.end(); field = PackedBlock::Next(field)) {
    packed.AppendEntry(field);
    packed.AppendEntry(text);
    text = PackedBlock::Next(text);
  }
  block().Free();
  shared_names.Unref();
  value_.ReplaceObject(packed.address(), kPacked);
}

std::optional<int64_t> HashValue::Deadline(std::string_view field) const {
  if (encoding() != kTable) return Has(field) ? std::optional(Table::kNever) : std::nullopt;
  const Table::Slot* const slot = FindLive(field);
  if (slot == nullptr) return std::nullopt;
  return table().Deadline(*slot).value_or(Table::kNever);
}

auto HashValue::MakeTable() -> Table& {
  if (encoding() != kTable) {
    auto fresh = std::make_unique<Table>();
    ForEachPacked([&](std::string_view field, std::string_view text) { fresh->Set(field, text); });
    Destroy(value_.object(), encoding());
    value_.ReplaceObject(fresh.release(), kTable);
  }
  return table();
}

}  // namespace dfly
