// SPDX-License-Identifier: Apache-2.0
#include "core/table/compact_value.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "core/table/value_reaper.h"
#include "core/text/ascii_pack.h"
#include "core/text/numbers.h"
#include "core/text/short_text.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

// An append asks for as much slack as there is content, up to this.
constexpr size_t kSlackMax = 1 << 20;
// Of a string, by CloneSome.
constexpr size_t kCopiedAtOnce = 256 * 1024;

std::array<ObjectType, kValueTypes> object_types{};  // written before the shards start

// What the allocator gives for 9 bytes or more: a multiple of 16, and above 128 of an eighth of the
// next power of two.
constexpr size_t BlockBytes(size_t bytes) {
  const size_t step = std::max(std::bit_ceil(bytes) / 8, size_t{16});
  return (bytes + step - 1) & ~(step - 1);
}

// Whether a block with room for `capacity` is used again for `bytes`.
bool FitsWell(size_t bytes, size_t capacity) {
  return bytes <= capacity && (capacity - bytes <= bytes / 8 || capacity <= BlockBytes(bytes));
}

// The first eight characters are not in the block.
constexpr size_t kPackedHere = 8;

// By the size of a text.
constexpr std::array<bool, CompactValue::kPackedMax + 1> kIsWorthPacking = [] {
  std::array<bool, CompactValue::kPackedMax + 1> worth{};
  for (size_t size = ShortAscii::kMin; size <= ShortAscii::kMax; ++size) worth[size] = true;
  for (size_t size = kPackedHere + kPackedAsciiMin; size <= CompactValue::kPackedMax; ++size) {
    worth[size] = BlockBytes(PackedAsciiBytes(size - kPackedHere)) < BlockBytes(size);
  }
  return worth;
}();

}  // namespace

const ObjectType& ObjectTypeOf(ValueType type) {
  const ObjectType& functions = object_types[static_cast<size_t>(type)];
  DCHECK(functions.destroy != nullptr) << "type not registered: " << TypeName(type);
  return functions;
}

std::string_view TypeName(ValueType type) {
  // The last four are those of RedisBloom and RedisJSON.
  static constexpr std::string_view kNames[kValueTypes] = {
      "string", "list",      "set",       "zset",      "hash",
      "stream", "MBbloom--", "CMSk-TYPE", "TopK-TYPE", "ReJSON-RL"};
  return kNames[static_cast<size_t>(type)];
}

void RegisterObjectType(ValueType type, const ObjectType& functions) {
  object_types[static_cast<size_t>(type)] = functions;
}

void CompactValue::Release() {
  if (is_heap_string()) {
    FreeHeap();
  } else if (is_packed()) {
    Free(packed_block());
  } else if (!is_string()) {
    const ObjectType& functions = ObjectTypeOf(type());
    ValueReaper* const reaper = ValueReaper::OfThread();
    if (reaper != nullptr && functions.free_some != nullptr &&
        ObjectBytes() > ValueReaper::kLarge) {
      reaper->Take(type(), object(), object_encoding());
    } else {
      functions.destroy(object(), object_encoding());
    }
  }
  std::memset(bytes_, 0, 13);
  set_tag(0);
}

size_t CompactValue::ObjectBytes() const {
  return ObjectTypeOf(type()).bytes(object(), object_encoding());
}

void CompactValue::SetNewHeap(size_t size, size_t capacity) {
  const bool is_large = capacity >= LentBlock::kMin;
  SetWord(0, is_large ? LentBlock::New(capacity) : static_cast<char*>(Alloc(capacity)));
  SetWord(8, static_cast<uint32_t>(size));
  bytes_[12] = is_large ? 1 : 0;
}

void CompactValue::FreeHeap() { has_lent_block() ? LentBlock::Return(heap()) : Free(heap()); }

size_t CompactValue::Capacity() const {
  if (!has_lent_block()) return UsableSize(heap());
  return LentBlock::IsLent(heap()) ? 0 : LentBlock::capacity(heap());
}

void CompactValue::SetInt(int64_t number) {
  if (HeapAddress() != nullptr) Release();
  std::memset(bytes_, 0, 13);
  SetWord(0, number);
  set_tag(kIntTag);
}

void CompactValue::SetString(std::string_view text) {
  if (std::optional<int64_t> number = ParseInt64(text)) return SetInt(*number);
  SetText(text);
}

// Inlined by force: a call costs a SET ten instructions.
[[gnu::always_inline]] inline void CompactValue::SetPlain(std::string_view text) {
  if (is_heap_string() && FitsWell(text.size(), Capacity())) {
    std::memmove(heap(), text.data(), text.size());
    SetWord(8, static_cast<uint32_t>(text.size()));
    set_tag(kHeapTag);
    return;
  }
  CompactValue made;  // first, as `text` may be what goes
  made.SetNewHeap(text.size(), text.size());
  std::memcpy(made.heap(), text.data(), text.size());
  TakeHeapOf(&made);
}

void CompactValue::SetText(std::string_view text) {
  DCHECK_LE(text.size(), UINT32_MAX);
  if (text.size() <= kMaxInline) {
    char copy[kMaxInline] = {};
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    if (HeapAddress() != nullptr) Release();
    std::memcpy(bytes_, copy, kMaxInline);
    set_tag(static_cast<uint8_t>(text.size()));
    return;
  }
  if (text.size() <= kPackedMax && kIsWorthPacking[text.size()] && SetPacked(text)) return;
  SetPlain(text);
}

bool CompactValue::SetShort(std::string_view text) {
  const std::optional<ShortAscii> packed = PackShortAscii(text);
  if (!packed) return false;
  if (HeapAddress() != nullptr) Release();
  SetWord(5, packed->high << 24 | packed->low >> 40);
  SetWord(0, packed->low);
  set_tag(static_cast<uint8_t>(kShortTag | packed->high >> 40));
  return true;
}

bool CompactValue::SetPacked(std::string_view text) {
  if (text.size() <= ShortAscii::kMax) return SetShort(text);
  if (!IsAscii(text)) return false;
  const uint64_t first = Pack8(LoadWord(text.data()));
  text.remove_prefix(kPackedHere);
  const size_t bytes = PackedAsciiBytes(text.size());
  char* block = is_packed() ? packed_block() : nullptr;
  if (FitsWell(bytes, UsableSize(block))) {
    PackAscii(text, block);
  } else {
    block = static_cast<char*>(Alloc(bytes));
    PackAscii(text, block);  // first, as `text` may be what goes
    if (HeapAddress() != nullptr) Release();
  }
  SetWord(0, first);
  SetPackedBlock(block, text.size() + kPackedHere);
  return true;
}

// Keeps the first characters. Linux gives no address above 48 bits to who does not ask for one.
void CompactValue::SetPackedBlock(const char* block, size_t size) {
  const auto address = reinterpret_cast<uint64_t>(block);
  DCHECK_EQ(address >> 48 | (address & 7), 0u);
  const size_t rest = size - kPackedMin;
  const uint64_t word = address | (rest & 7);
  SetWord(7, static_cast<uint32_t>(word));
  SetWord(11, static_cast<uint16_t>(word >> 32));
  set_tag(static_cast<uint8_t>(kPackedTag | rest >> 3));
}

std::string_view CompactValue::ViewPacked(char* scratch) const {
  if (is_short()) {
    const ShortAscii packed = {.low = Word<uint64_t>(0),
                               .high = Word<uint64_t>(5) >> 24 | uint64_t{tag() & 127u} << 40};
    return {scratch, UnpackShortAscii(packed, scratch)};
  }
  const uint64_t first = Unpack8(Word<uint64_t>(0));
  std::memcpy(scratch, &first, kPackedHere);
  UnpackAscii(packed_block(), packed_size() - kPackedHere, scratch + kPackedHere);
  return {scratch, packed_size()};
}

void CompactValue::TakeHeapOf(CompactValue* made) {
  if (HeapAddress() != nullptr) Release();
  std::memcpy(bytes_, made->bytes_, 13);
  set_tag(kHeapTag);
  std::memset(made->bytes_, 0, 13);
}

void CompactValue::SetBlock(LargeText text) {
  DCHECK(text.size() > kMaxInline && text.size() <= UINT32_MAX);
  CompactValue made;
  made.SetWord(8, static_cast<uint32_t>(text.size()));
  made.bytes_[12] = text.has_lent_block() ? 1 : 0;
  made.SetWord(0, text.Release());
  TakeHeapOf(&made);
}

void CompactValue::SetRaw(std::string_view text) {
  text.size() <= kMaxInline ? SetText(text) : SetPlain(text);
  set_tag(tag() | kRawMark);
}

std::optional<int64_t> CompactValue::TryInt() const {
  if (is_int()) return AsInt();
  char scratch[kScratchSize];
  return ParseInt64(View(scratch));
}

std::string_view CompactValue::ViewOther(char* scratch) const {
  DCHECK(is_string());
  if (tag() >= kPackedTag) return ViewPacked(scratch);
  if (is_int()) {
    char* end = std::to_chars(scratch, scratch + kScratchSize, AsInt()).ptr;
    return {scratch, static_cast<size_t>(end - scratch)};
  }
  return {bytes_, static_cast<size_t>(tag() & 15)};
}

std::string CompactValue::ToString() const {
  char scratch[kScratchSize];
  return std::string(View(scratch));
}

size_t CompactValue::StringSize() const {
  if (is_packed()) return packed_size();
  char scratch[kScratchSize];
  return View(scratch).size();
}

std::string_view CompactValue::StringEncoding() const {
  if (is_int()) return "int";
  const bool is_changed = tag() < kPackedTag && (tag() & kRawMark) != 0;
  return is_changed || StringSize() > kEmbstrMax ? "raw" : "embstr";
}

char* CompactValue::Extend(size_t size) {
  DCHECK(is_string());
  DCHECK_LE(size, UINT32_MAX);
  if (is_heap_string()) {
    if (size > Capacity()) {
      const size_t capacity = size + std::min(size, kSlackMax);
      if (has_lent_block() && LentBlock::is_mapped(heap()) && !LentBlock::IsLent(heap())) {
        SetWord(0, LentBlock::Grow(heap(), capacity));
        SetWord(8, static_cast<uint32_t>(size));
        set_tag(kHeapTag | kRawMark);
        return heap();
      }
      CompactValue made;
      made.SetNewHeap(size, capacity);
      std::memcpy(made.heap(), heap(), std::min<size_t>(heap_size(), size));
      TakeHeapOf(&made);
    }
    SetWord(8, static_cast<uint32_t>(size));
    set_tag(kHeapTag | kRawMark);
    return heap();
  }
  char scratch[kScratchSize];
  std::string_view old = View(scratch);
  if (size <= kMaxInline) {
    char copy[kMaxInline] = {};
    std::memcpy(copy, old.data(), old.size());
    std::memcpy(bytes_, copy, kMaxInline);
    set_tag(static_cast<uint8_t>(size | kRawMark));
    return bytes_;
  }
  CompactValue made;
  made.SetNewHeap(size, size);
  std::memcpy(made.heap(), old.data(), old.size());
  TakeHeapOf(&made);
  set_tag(kHeapTag | kRawMark);
  return heap();
}

void CompactValue::Zero(char* bytes, size_t from, size_t to) {
  has_lent_block() ? LentBlock::Zero(bytes, from, to)
                   : static_cast<void>(std::memset(bytes + from, 0, to - from));
}

void CompactValue::Append(std::string_view text) {
  size_t old_size = StringSize();
  char* bytes = Extend(old_size + text.size());
  if (!text.empty()) std::memcpy(bytes + old_size, text.data(), text.size());
}

void CompactValue::Prepend(std::string_view text) {
  size_t old_size = StringSize();
  char* bytes = Extend(old_size + text.size());
  std::memmove(bytes + text.size(), bytes, old_size);
  if (!text.empty()) std::memcpy(bytes, text.data(), text.size());
}

void CompactValue::SetRange(size_t offset, std::string_view text) {
  size_t old_size = StringSize();
  char* bytes = Extend(std::max(old_size, offset + text.size()));
  if (offset > old_size) Zero(bytes, old_size, offset);
  if (!text.empty()) std::memcpy(bytes + offset, text.data(), text.size());
}

std::span<char> CompactValue::Widen(size_t size) {
  const size_t old_size = StringSize();
  const size_t new_size = std::max(old_size, size);
  char* const bytes = Extend(new_size);
  Zero(bytes, old_size, new_size);
  return {bytes, new_size};
}

void CompactValue::SetObject(ValueType type, void* object, uint8_t encoding) {
  DCHECK(type != ValueType::kString);
  if (HeapAddress() != nullptr) Release();
  std::memset(bytes_, 0, 13);
  set_tag(static_cast<uint8_t>(kObjectTag + static_cast<uint8_t>(type)));
  ReplaceObject(object, encoding);
}

bool CompactValue::IsEmptyObject() const {
  return !is_string() && ObjectTypeOf(type()).is_empty(object(), object_encoding());
}

std::string_view CompactValue::ObjectEncodingName() const {
  const auto encoding_name = ObjectTypeOf(type()).encoding_name;
  DCHECK(encoding_name != nullptr) << TypeName(type());
  return encoding_name(object(), object_encoding());
}

int64_t CompactValue::NextMemberDeadline() const {
  const MemberDeadlines* const deadlines = is_string() ? nullptr : ObjectTypeOf(type()).deadlines;
  return deadlines == nullptr ? INT64_MAX : deadlines->next(object(), object_encoding());
}

bool CompactValue::AreAllMembersDue(int64_t now_ms) const {
  const MemberDeadlines* const deadlines = is_string() ? nullptr : ObjectTypeOf(type()).deadlines;
  return deadlines != nullptr && deadlines->are_all_due(object(), object_encoding(), now_ms);
}

size_t CompactValue::EraseDueMembers(int64_t now_ms, size_t most,
                                     std::vector<std::string>* erased) {
  const MemberDeadlines* const deadlines = is_string() ? nullptr : ObjectTypeOf(type()).deadlines;
  if (deadlines == nullptr) return 0;
  return deadlines->erase_due(object(), object_encoding(), now_ms, most, erased);
}

size_t CompactValue::MembersWithDeadlines() const {
  return ObjectTypeOf(type()).deadlines->count(object(), object_encoding());
}

CompactValue CompactValue::Clone() const {
  CompactValue copy;
  std::memcpy(copy.bytes_, bytes_, 13);
  copy.set_access_clock(access_clock());
  if (is_heap_string()) {
    copy.SetNewHeap(heap_size(), heap_size());
    std::memcpy(copy.heap(), heap(), heap_size());
  } else if (is_packed()) {
    const size_t bytes = PackedAsciiBytes(packed_size() - kPackedHere);
    auto* const block = static_cast<char*>(Alloc(bytes));
    std::memcpy(block, packed_block(), bytes);
    copy.SetPackedBlock(block, packed_size());
  } else if (!is_string()) {
    copy.SetWord(0, ObjectTypeOf(type()).clone(object(), object_encoding()));
  }
  copy.set_tag(tag());
  return copy;
}

void CompactValue::CloneSome(CompactValue* copy, uint64_t* cursor) const {
  const ObjectType* const functions = is_string() ? nullptr : &ObjectTypeOf(type());
  if (is_heap_string() && heap_size() > kCopiedAtOnce) {
    if (*cursor == 0) {
      CompactValue made;
      made.SetNewHeap(heap_size(), heap_size());
      copy->TakeHeapOf(&made);
    }
    const size_t bytes = std::min<size_t>(heap_size() - *cursor, kCopiedAtOnce);
    std::memcpy(copy->heap() + *cursor, heap() + *cursor, bytes);
    *cursor += bytes;
    if (*cursor < heap_size()) return;
    copy->set_tag(tag());
    copy->set_access_clock(access_clock());
    *cursor = 0;
    return;
  }
  if (functions == nullptr || functions->clone_some == nullptr) {
    *copy = Clone();
    *cursor = 0;
    return;
  }
  const bool is_first = *cursor == 0;
  void* const made = functions->clone_some(object(), object_encoding(),
                                           is_first ? nullptr : copy->object(), cursor);
  if (is_first) copy->SetObject(type(), made, object_encoding());
  if (*cursor == 0) copy->set_access_clock(access_clock());
}

void CompactValue::Move(BlockMover& mover, uint64_t* cursor) {
  if (has_lent_block()) {
    // Of pages of its own nobody else has a part.
    if (LentBlock::IsLent(heap()) || LentBlock::is_mapped(heap())) {
      *cursor = 0;  // another value may have had other parts
      return mover.CountVisit();
    }
    SetWord(0, LentBlock::DataOf(mover.Move(LentBlock::BlockOf(heap()))));
  } else if (is_heap_string()) {
    SetWord(0, mover.Move(heap()));
  } else if (is_packed()) {
    SetPackedBlock(mover.Move(packed_block()), packed_size());
  }
  const ObjectType* const functions = is_string() ? nullptr : &ObjectTypeOf(type());
  if (functions != nullptr && functions->move != nullptr) {
    SetWord(0, functions->move(object(), object_encoding(), mover, cursor));
    return;
  }
  *cursor = 0;  // as above
  if (functions == nullptr) return;
  if (!mover.Wants(object()) || ObjectBytes() > BlockMover::kCopyMax) return mover.CountVisit();
  void* const old = object();
  SetWord(0, functions->clone(old, object_encoding()));
  functions->destroy(old, object_encoding());
  mover.CountCopied();
}

void CompactValue::ReplaceObject(void* object, uint8_t encoding) {
  DCHECK(!is_string());
  SetWord(0, object);
  SetWord(8, encoding);
}

}  // namespace dfly
