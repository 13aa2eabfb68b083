// SPDX-License-Identifier: Apache-2.0
// A JSON value in 8 bytes.
//
//   low 3 bits   the rest
//   0            kind (5 bits), and 7 bytes:
//                  null, false, true; an integer of 56 bits; a double that is m / 10^k, with k in
//                  one byte and m in six; an array or object without elements; a string of up to
//                  7 bytes; an FP16, BF16 or FP32 (json_float.h)
//   1 .. 7       the address of a block: a string (length in 4 bytes, bytes), a double, an int64, a
//                uint64 above that, an array, an object, a packed array (json_doc.h)
//
// So 64.99 takes as little as 64 does, and most names of members take no block. A word of zeros is
// null. A node does not know who frees its block: JsonDoc does.
//
// A packed array has numbers of one type, and no nodes: who asks for an element gets a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "core/json/json_float.h"

namespace dfly {

enum class JsonType : uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };
// "null", "boolean", "integer", "number", "string", "array", "object", as JSON.TYPE answers.
std::string_view JsonTypeName(JsonType type);

struct JsonMember;

// Owner:    what it stands in: a document, or a block of one.
// Suspends: never.
class JsonNode {
 public:
  static constexpr size_t kInlineText = 7;  // bytes

  JsonNode() = default;  // null
  static JsonNode Bool(bool value) { return Inline(value ? kTrue : kFalse); }
  static JsonNode EmptyArray() { return Inline(kNoItems); }
  static JsonNode EmptyObject() { return Inline(kNoMembers); }
  // REQUIRES: not kFp64, which JsonDoc::MakeDouble makes; `bits` are finite.
  static JsonNode Float(JsonFloat type, uint64_t bits) {
    return Inline(static_cast<Kind>(kFp16 + static_cast<int>(type)), bits);
  }

  JsonType type() const;
  bool is_null() const { return word_ == 0; }
  bool is_string() const {
    return tag() == kText || (tag() == kInline && kind() / kShortText == 1);
  }
  bool is_number() const {
    return (tag() >= kDouble && tag() <= kUint) ||
           (tag() == kInline && (kind() == kInteger || kind() == kDecimal || kind() >= kFp16));
  }
  bool is_array() const { return (tag() & kArray) == kArray || word_ == Inline(kNoItems).word_; }
  bool is_packed() const { return tag() == kPacked; }
  bool is_object() const { return tag() == kObject || word_ == Inline(kNoMembers).word_; }
  bool is_container() const {
    return tag() >= kArray || word_ == Inline(kNoItems).word_ || word_ == Inline(kNoMembers).word_;
  }

  bool AsBool() const { return kind() == kTrue; }  // REQUIRES: a kBool
  // REQUIRES: a kInteger. Above INT64_MAX: is_uint, and AsUint has it.
  bool is_uint() const { return tag() == kUint; }
  int64_t AsInt() const;
  uint64_t AsUint() const;
  double AsDouble() const;  // REQUIRES: is_number()
  // That of a number in 2 or 4 bytes, and its bits.
  std::optional<JsonFloat> float_type() const {
    if (tag() != kInline || kind() < kFp16) return std::nullopt;
    return static_cast<JsonFloat>(kind() - kFp16);
  }
  uint32_t float_bits() const { return static_cast<uint32_t>(word_ >> 8); }
  // Valid until the node changes or moves. REQUIRES: is_string().
  std::string_view AsText() const;

  // Elements of an array or an object; 0 for others.
  size_t size() const;
  // The same, but 0 of a packed array: elements that are nodes.
  size_t branches() const { return is_packed() ? 0 : size(); }
  // Valid until elements are added or removed. REQUIRES for each: is_array() and not is_packed(),
  // or is_object().
  std::span<JsonNode> items() const;
  std::span<JsonMember> members() const;

  // An element of any array. If that is packed, the word is valid for as long as the array is, and
  // its block may be a part of the array's: it is for looking and for JsonDoc::CopyOf, but neither
  // for Clear nor for BytesOf.
  JsonNode item(size_t index) const { return is_packed() ? PackedItem(index) : items()[index]; }
  // REQUIRES for both: is_packed().
  JsonFloat packed_type() const;
  std::string_view packed_bytes() const;

  // Null if it has no block.
  void* block() const {
    return tag() == kInline ? nullptr : reinterpret_cast<void*>(word_ & ~uint64_t{7});
  }

  // Whether both are the same bytes: then they are equal, but not the other way round.
  bool IsSameWord(const JsonNode& other) const { return word_ == other.word_; }

 private:
  friend class JsonDoc;

  enum Tag : uint8_t {
    kInline = 0,
    kText,
    kDouble,
    kInt,
    kUint,
    kArray,
    kObject,
    kPacked,  // has the bits of kArray, as no other has
  };
  enum Kind : uint8_t {
    kNull = 0,
    kFalse,
    kTrue,
    kInteger,
    kDecimal,
    kNoItems,
    kNoMembers,
    kShortText = 8,  // and its length
    kFp16 = 16,      // and the others of JsonFloat
  };

  static JsonNode Inline(Kind kind, uint64_t payload = 0) {
    JsonNode node;
    node.word_ = payload << 8 | uint64_t{kind} << 3;
    return node;
  }
  static JsonNode Block(Tag tag, void* block) {
    JsonNode node;
    node.word_ = reinterpret_cast<uint64_t>(block) | tag;
    return node;
  }

  JsonNode PackedItem(size_t index) const;
  Tag tag() const { return static_cast<Tag>(word_ & 7); }
  Kind kind() const { return static_cast<Kind>(word_ >> 3 & 31); }
  template <typename T>
  T InBlock() const {
    T value;
    std::memcpy(&value, block(), sizeof(T));
    return value;
  }

  uint64_t word_ = 0;
};
static_assert(sizeof(JsonNode) == 8);

// Of an object. Its name is a string.
struct JsonMember {
  JsonNode name;
  JsonNode value;
};

}  // namespace dfly
