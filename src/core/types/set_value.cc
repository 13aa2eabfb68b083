// SPDX-License-Identifier: Apache-2.0
#include "core/types/set_value.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

namespace dfly {

namespace {

using Table = SetValue::Table;

void* Mutable(const void* object) { return const_cast<void*>(object); }

void Destroy(void* object, uint8_t encoding) {
  if (encoding == SetValue::kTable) {
    delete static_cast<Table*>(object);
  } else {
    Free(object);
  }
}

void* Move(void* object, uint8_t encoding, BlockMover& mover, uint64_t* cursor) {
  if (encoding != SetValue::kTable) {
    *cursor = 0;  // it may have been a table before
    return mover.Move(object);
  }
  return Table::Move(static_cast<Table*>(object), mover, cursor);
}

void Prefetch(const void* object, uint8_t encoding, FetchStage stage, uint64_t hash) {
  if (encoding == SetValue::kTable) static_cast<const Table*>(object)->Prefetch(stage, hash);
}

bool FreeSome(void* object, uint8_t encoding, size_t budget) {
  return encoding != SetValue::kTable || static_cast<Table*>(object)->FreeSome(budget);
}

size_t Bytes(const void* object, uint8_t encoding) {
  return encoding == SetValue::kTable ? static_cast<const Table*>(object)->bytes()
                                      : UsableSize(object);
}

bool IsEmpty(const void* object, uint8_t encoding) {
  switch (encoding) {
    case SetValue::kIntegers:
      return IntSet(Mutable(object)).size() == 0;
    case SetValue::kPacked:
      return PackedBlock(Mutable(object)).empty();
    default:
      return static_cast<const Table*>(object)->size() == 0;
  }
}

void* Clone(const void* object, uint8_t encoding) {
  switch (encoding) {
    case SetValue::kIntegers:
      return IntSet(Mutable(object)).Clone().address();
    case SetValue::kPacked:
      return PackedBlock(Mutable(object)).Clone().address();
    default:
      return static_cast<const Table*>(object)->Clone().release();
  }
}

void* CloneSome(const void* object, uint8_t encoding, void* copy, uint64_t* cursor) {
  if (encoding != SetValue::kTable) return Clone(object, encoding);
  return Table::CloneStep(static_cast<const Table*>(object), static_cast<Table*>(copy), cursor);
}

std::string_view EncodingName(const void*, uint8_t encoding) {
  static constexpr std::string_view kNames[] = {"intset", "listpack", "hashtable"};
  return kNames[encoding];
}

size_t DigitsOf(int64_t number) {
  char digits[SetValue::kScratchSize];
  return static_cast<size_t>(std::to_chars(digits, digits + sizeof(digits), number).ptr - digits);
}

constexpr MemberDeadlines kMemberDeadlines = TableDeadlines<NoValue, SetValue::kTable>();

}  // namespace

void SetValue::RegisterType() {
  RegisterObjectType(ValueType::kSet, {.destroy = Destroy,
                                       .bytes = Bytes,
                                       .is_empty = IsEmpty,
                                       .clone = Clone,
                                       .clone_some = CloneSome,
                                       .encoding_name = EncodingName,
                                       .deadlines = &kMemberDeadlines,
                                       .free_some = FreeSome,
                                       .move = Move,
                                       .prefetch = Prefetch});
}

void SetValue::Create(CompactValue* value, std::string_view member, size_t expected,
                      const SetLimit& limit) {
  if (ParseInt64(member) && expected <= limit.integers) {
    value->SetObject(ValueType::kSet, IntSet::Make().address(), kIntegers);
  } else if (expected <= limit.packed.entries) {
    value->SetObject(ValueType::kSet, PackedBlock::Make().address(), kPacked);
  } else {
    value->SetObject(ValueType::kSet, std::make_unique<Table>().release(), kTable);
  }
}

size_t SetValue::size() const {
  switch (encoding()) {
    case kIntegers:
      return integers().size();
    case kPacked:
      return block().entries();
    case kTable:
      break;
  }
  return table().size() - table().CountDue(now_ms_);
}

bool SetValue::Has(std::string_view member) const {
  switch (encoding()) {
    case kIntegers: {
      const std::optional<int64_t> number = ParseInt64(member);
      return number && integers().Has(*number);
    }
    case kPacked:
      return block().Find(PackedText(member)) != block().end();
    case kTable:
      break;
  }
  return FindLive(member) != nullptr;
}

std::string_view SetValue::At(size_t index, char* scratch) const {
  if (encoding() == kPacked) return PackedElement(block().At(index)).View(scratch);
  const char* const end = std::to_chars(scratch, scratch + kScratchSize, integers().At(index)).ptr;
  return {scratch, static_cast<size_t>(end - scratch)};
}

bool SetValue::Add(std::string_view member, const SetLimit& limit) {
  if (encoding() == kIntegers) {
    IntSet numbers = integers();
    if (const std::optional<int64_t> number = ParseInt64(member)) {
      const bool is_new = numbers.Add(*number);
      value_->ReplaceObject(numbers.address(), kIntegers);
      if (is_new && numbers.size() > limit.integers) MakeTable();
      return is_new;
    }
    const size_t count = numbers.size();
    // The longest one is the first or the last.
    const size_t longest =
        count == 0 ? 0 : std::max(DigitsOf(numbers.At(0)), DigitsOf(numbers.At(count - 1)));
    if (count < limit.packed.entries &&
        std::max(longest, member.size()) <= limit.packed.element_bytes) {
      MakePacked();
    } else {
      MakeTable();
    }
  }
  if (encoding() == kPacked) {
    PackedBlock packed = block();
    const PackedText text(member);
    if (packed.Find(text) != packed.end()) return false;
    if (packed.entries() < limit.packed.entries && member.size() <= limit.packed.element_bytes &&
        packed.entry_bytes() + member.size() < kPackedBytesMax) {
      packed.Append(text);
      value_->ReplaceObject(packed.address(), kPacked);
      return true;
    }
    MakeTable();
  }
  Table& members = table();
  if (members.has_deadlines()) {
    const Table::Slot* const slot = members.Find(member);
    if (slot != nullptr && members.IsDue(*slot, now_ms_)) return members.ClearDeadline(member);
  }
  return members.Add(member);
}

bool SetValue::Erase(std::string_view member) {
  switch (encoding()) {
    case kIntegers: {
      const std::optional<int64_t> number = ParseInt64(member);
      if (!number) return false;
      IntSet numbers = integers();
      const bool was_there = numbers.Erase(*number);
      value_->ReplaceObject(numbers.address(), kIntegers);
      return was_there;
    }
    case kPacked: {
      PackedBlock packed = block();
      const auto at = packed.Find(PackedText(member));
      if (at == packed.end()) return false;
      packed.Erase(at, 1);
      value_->ReplaceObject(packed.address(), kPacked);
      return true;
    }
    case kTable:
      break;
  }
  Table& members = table();
  if (members.has_deadlines() && FindLive(member) == nullptr) return false;
  return members.Erase(member);
}

std::optional<int64_t> SetValue::Deadline(std::string_view member) const {
  if (encoding() != kTable) return Has(member) ? std::optional(Table::kNever) : std::nullopt;
  const Table::Slot* const slot = FindLive(member);
  if (slot == nullptr) return std::nullopt;
  return table().Deadline(*slot).value_or(Table::kNever);
}

void SetValue::MakePacked() {
  IntSet numbers = integers();
  PackedBlock packed = PackedBlock::Make(numbers.size() * 4);
  for (size_t i = 0; i < numbers.size(); ++i) packed.Append(PackedText(numbers.At(i)));
  numbers.Free();
  value_->ReplaceObject(packed.address(), kPacked);
}

auto SetValue::MakeTable() -> Table& {
  if (encoding() != kTable) {
    auto fresh = std::make_unique<Table>();
    ForEach([&](std::string_view member) { fresh->Add(member); });
    Free(value_->object());
    value_->ReplaceObject(fresh.release(), kTable);
  }
  return table();
}

}  // namespace dfly
