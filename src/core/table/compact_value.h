// SPDX-License-Identifier: Apache-2.0
// A value in 16 bytes.
//
//   bytes 0..12  payload     bytes 13..14  access clock     byte 15  tag
//
//   tag        payload
//   0 .. 13    a string of that many bytes, inline
//   kHeapTag   a string on the heap: pointer (8), length (4). Its slack is what the block can hold
//              besides, so repeated appends are amortised. A large one has a LentBlock, and 1 in
//              byte 12
//   kIntTag    a string that is the canonical decimal form of an int64: the number (8)
//   + 16       to the first two: the string was changed in place, OBJECT ENCODING says raw
//   32 + type  an object of another type: pointer (8), encoding (1)
//   64 + n     17 to 272 ASCII characters, 7 bits each: the first eight (7), and a pointer to the
//              others (6). n is bits 3 .. 7 of their number less 17; bits 0 .. 2 are those of the
//              pointer, which is a multiple of 8. Only for sizes where that makes the block smaller
//   128 + n    14 to 16 ASCII characters: a ShortAscii (see core/text/ascii_pack.h), of which n is
//              bits 104 .. 110
//
// All other heap strings are stored as they are, so a reply can point at them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"
#include "core/memory/large_text.h"
#include "core/memory/prefetch.h"

namespace dfly {

// The types that TYPE names. The numbers are ours, not those of a file format.
enum class ValueType : uint8_t {
  kString = 0,
  kList,
  kSet,
  kZset,
  kHash,
  kStream,
  kBloomFilter,
  kCountMinSketch,
  kTopK,
  kJson
};
inline constexpr size_t kValueTypes = 10;

// "string", "list", ... as TYPE answers.
std::string_view TypeName(ValueType type);

// How a type answers for members that have deadlines: fields of a hash, members of a set. A member
// is due when the clock is past its deadline, in Unix milliseconds.
struct MemberDeadlines {
  int64_t (*next)(const void* object, uint8_t encoding);  // the earliest; INT64_MAX: there is none
  bool (*are_all_due)(const void* object, uint8_t encoding, int64_t now_ms);
  // Erases up to `most` due members and returns how many. `erased` gets them, unless it is null.
  size_t (*erase_due)(void* object, uint8_t encoding, int64_t now_ms, size_t most,
                      std::vector<std::string>* erased);
  size_t (*count)(const void* object, uint8_t encoding);  // of all, if some have deadlines
};

// What a value of another type than string knows about itself. A type registers it once, before the
// first shard starts, so that this file needs to know no container.
struct ObjectType {
  void (*destroy)(void* object, uint8_t encoding);
  size_t (*bytes)(const void* object, uint8_t encoding);  // exact, the object itself included
  bool (*is_empty)(const void* object, uint8_t encoding);
  // A copy of all of it, with the same encoding.
  void* (*clone)(const void* object, uint8_t encoding);
  // The same in steps: adds a part to `copy`, which is null at first, and returns the copy. *cursor
  // is 0 at first, and at the end. Between the steps the object may only lose members. Null: a copy
  // takes no time.
  void* (*clone_some)(const void* object, uint8_t encoding, void* copy, uint64_t* cursor) = nullptr;
  // "listpack", "quicklist", ... as OBJECT ENCODING answers.
  std::string_view (*encoding_name)(const void* object, uint8_t encoding) = nullptr;
  const MemberDeadlines* deadlines = nullptr;  // null: members have none
  // Frees about `budget` elements; true when none is left. After the first step only `bytes`, this
  // and at last `destroy` are called. Null: all objects are small enough to be destroyed at once.
  bool (*free_some)(void* object, uint8_t encoding, size_t budget) = nullptr;
  // Moves a part of it, that of `*cursor`, which is 0 at first, and again when all parts have had
  // their turn. The object may change between the steps, or be another one: any cursor is good for
  // any object, and leads to an end. Returns where the object is from now on. Null: it is copied as
  // a whole if it is small.
  void* (*move)(void* object, uint8_t encoding, BlockMover& mover, uint64_t* cursor) = nullptr;
  // A stage of the look-up of an element with this hash (HashKey). Null: none is worth it.
  void (*prefetch)(const void* object, uint8_t encoding, FetchStage stage, uint64_t hash) = nullptr;
};
void RegisterObjectType(ValueType type, const ObjectType& functions);
const ObjectType& ObjectTypeOf(ValueType type);  // REQUIRES: it is registered

// Owner:    one table slot. Move only; may be moved with memcpy (trivially relocatable).
// Suspends: never.
class CompactValue {
 public:
  static constexpr size_t kPackedMax = 272;           // the longest string in 7 bits a character
  static constexpr size_t kScratchSize = kPackedMax;  // what View wants
  static constexpr size_t kMaxInline = 13;

  CompactValue() : bytes_{} {}  // the empty string
  explicit CompactValue(std::string_view text) : bytes_{} { SetString(text); }
  CompactValue(CompactValue&& other) noexcept {
    std::memcpy(bytes_, other.bytes_, 16);
    std::memset(other.bytes_, 0, 16);
  }
  CompactValue& operator=(CompactValue&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CompactValue() {
    if (HeapAddress() != nullptr) Release();
  }

  ValueType type() const {
    return is_string() ? ValueType::kString : static_cast<ValueType>(tag() - kObjectTag);
  }
  bool is_string() const {
    return static_cast<uint8_t>(tag() - kObjectTag) >= kPackedTag - kObjectTag;
  }

  // --- Strings ---

  // Replaces whatever is here and keeps the access clock. A block that fits well is used again.
  // `text` may lie inside this value.
  void SetString(std::string_view text);
  void SetInt(int64_t number);
  // As SetString, but never int-encoded.
  void SetText(std::string_view text);
  // As SetText, as if it had been changed in place (OBJECT ENCODING says raw).
  void SetRaw(std::string_view text);
  // The same as SetText of what the block holds, which becomes the value's own.
  void SetBlock(LargeText text);

  bool is_int() const { return tag() == kIntTag; }
  int64_t AsInt() const { return Word<int64_t>(0); }  // REQUIRES: is_int()
  // The number, if the string is the canonical form of one. REQUIRES: is_string().
  std::optional<int64_t> TryInt() const;

  // The bytes of the string: in `scratch` (kScratchSize bytes), in the object or on the heap; valid
  // until the value changes or moves. REQUIRES: is_string().
  std::string_view View(char* scratch) const {
    return is_heap_string() ? std::string_view(heap(), heap_size()) : ViewOther(scratch);
  }
  std::string ToString() const;
  // Of a large string, where it begins in its LentBlock; else null.
  char* lent_block() const { return has_lent_block() ? heap() : nullptr; }
  size_t StringSize() const;  // as View().size(), without formatting into memory

  // The result is never int-encoded, as in Redis ("raw"). REQUIRES: is_string(), and the result is
  // at most 4 GB - 1. `text` must not lie inside this value.
  void Append(std::string_view text);
  void Prepend(std::string_view text);
  // Overwrites from `offset`, padding with zeros first. REQUIRES: as for Append.
  void SetRange(size_t offset, std::string_view text);
  // Makes it at least `size` bytes long, with zeros at the end, and gives all its bytes to be
  // changed in place; they are valid as those of View(). REQUIRES: as for Append.
  std::span<char> Widen(size_t size);

  // "int", "embstr" or "raw", as OBJECT ENCODING names them. REQUIRES: is_string().
  std::string_view StringEncoding() const;

  // --- Objects of other types ---

  // Takes the object over; its registered functions destroy and measure it.
  void SetObject(ValueType type, void* object, uint8_t encoding);
  void* object() const { return Word<void*>(0); }               // REQUIRES: !is_string()
  uint8_t object_encoding() const { return Word<uint8_t>(8); }  // REQUIRES: !is_string()
  bool IsEmptyObject() const;
  std::string_view ObjectEncodingName() const;  // REQUIRES: !is_string(), and its type tells it
  // --- Members with deadlines; false, INT64_MAX or 0 for what can have none ---
  int64_t NextMemberDeadline() const;
  bool AreAllMembersDue(int64_t now_ms) const;
  size_t EraseDueMembers(int64_t now_ms, size_t most, std::vector<std::string>* erased = nullptr);
  // REQUIRES: its type has MemberDeadlines.
  size_t MembersWithDeadlines() const;  // and those beside them, which have none
  // For a conversion: the old object was destroyed or taken over by the caller.
  void ReplaceObject(void* object, uint8_t encoding);

  // --- For all ---

  // Memory besides the 16 bytes, exact. Inlined by force: a call costs a SET 15 instructions.
  [[gnu::always_inline]] size_t HeapBytes() const {
    if (tag() < kHeapTag) return 0;
    if (is_heap_string()) return has_lent_block() ? LentBlock::Bytes(heap()) : UsableSize(heap());
    if (is_packed()) return UsableSize(packed_block());
    return is_string() ? 0 : ObjectBytes();
  }
  // What a prefetch wants, or null.
  const void* HeapAddress() const {
    if (tag() < kHeapTag) return nullptr;  // short ones must not pay for the others
    if (is_heap_string() || !is_string()) return Word<const void*>(0);
    return is_packed() ? packed_block() : nullptr;
  }

  // A stage of the look-up of an element. After FetchStage::kValue of the key's own.
  void PrefetchElement(FetchStage stage, uint64_t hash) const {
    if (is_string()) return;
    const auto prefetch = ObjectTypeOf(type()).prefetch;
    if (prefetch != nullptr) prefetch(object(), object_encoding(), stage, hash);
  }

  // Moves what it has on the heap, or a part of that: see ObjectType::move. What an object costs
  // may change.
  void Move(BlockMover& mover, uint64_t* cursor);

  // A deep copy, allocated by the calling thread; with its encoding and access clock.
  CompactValue Clone() const;
  // The same in steps: ObjectType::clone_some. `copy` is empty at first.
  void CloneSome(CompactValue* copy, uint64_t* cursor) const;

  // Free for the owner of the access policy: seconds, or a counter. New values have 0.
  uint16_t access_clock() const { return Word<uint16_t>(13); }
  void set_access_clock(uint16_t clock) { SetWord(13, clock); }

 private:
  static constexpr uint8_t kHeapTag = 14;
  static constexpr uint8_t kIntTag = 15;
  static constexpr uint8_t kRawMark = 16;
  static constexpr uint8_t kObjectTag = 32;
  static constexpr uint8_t kPackedTag = 64;
  static constexpr uint8_t kShortTag = 128;
  static constexpr uint8_t kPackedSizeMask = 31;
  static constexpr size_t kPackedMin = 17;
  static constexpr size_t kEmbstrMax = 44;  // where Redis' OBJECT ENCODING says raw

  template <typename T>
  T Word(size_t at) const {
    T word;
    std::memcpy(&word, bytes_ + at, sizeof(T));
    return word;
  }
  template <typename T>
  void SetWord(size_t at, T word) {
    std::memcpy(bytes_ + at, &word, sizeof(T));
  }

  uint8_t tag() const { return static_cast<uint8_t>(bytes_[15]); }
  void set_tag(uint8_t tag) { bytes_[15] = static_cast<char>(tag); }
  bool is_heap_string() const { return (tag() | kRawMark) == (kHeapTag | kRawMark); }
  bool has_lent_block() const { return is_heap_string() && bytes_[12] != 0; }
  char* heap() const { return Word<char*>(0); }
  uint32_t heap_size() const { return Word<uint32_t>(8); }
  bool is_short() const { return tag() >= kShortTag; }
  bool is_packed() const { return (tag() & ~kPackedSizeMask) == kPackedTag; }
  // REQUIRES for both: is_packed().
  char* packed_block() const { return reinterpret_cast<char*>(packed_word() & ~uint64_t{7}); }
  size_t packed_size() const {
    return kPackedMin + ((tag() & kPackedSizeMask) << 3 | (packed_word() & 7));
  }
  uint64_t packed_word() const { return Word<uint64_t>(5) >> 16; }  // bytes 7 .. 12
  // SetText at 7 bits a character, for sizes where that is worth it; SetShort: inline. False, and
  // nothing has changed, if `text` has others than ASCII characters.
  bool SetPacked(std::string_view text);
  bool SetShort(std::string_view text);
  // SetText for all others, never packed.
  void SetPlain(std::string_view text);
  void SetPackedBlock(const char* block, size_t size);
  std::string_view ViewOther(char* scratch) const;  // of one that is no plain heap string
  std::string_view ViewPacked(char* scratch) const;
  // For a string of `size` bytes, perhaps with slack.
  void SetNewHeap(size_t size, size_t capacity);
  void FreeHeap();
  // The block of `made`, which is left empty, takes the place of what is here.
  void TakeHeapOf(CompactValue* made);
  // How long a string its block can have, as it stands; 0 if that is lent.
  size_t Capacity() const;
  void Release();
  size_t ObjectBytes() const;
  // Makes room for a raw string of `size` bytes and returns where its bytes are; the present ones
  // are kept, what follows them is not set.
  char* Extend(size_t size);
  // Those of Extend in [from, to) become 0.
  void Zero(char* bytes, size_t from, size_t to);

  alignas(8) char bytes_[16];
};

static_assert(sizeof(CompactValue) == 16);

}  // namespace dfly
