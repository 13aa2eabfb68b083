// SPDX-License-Identifier: Apache-2.0
// The entries of packed blocks: texts one after another, integers short, readable from both ends.
//
//   entry   head, text, and the size of these two again, so that one can walk backwards
//
//   head              means
//   00nnnnnn          a text of n bytes
//   01nnnnnn          the integer n
//   10nnnnnn 1 byte   the integer n * 256 + byte - 1024
//   110nnnnn 1 byte   a text of n * 256 + byte bytes
//   1110nnnn n bytes  an integer, the lowest byte first; 2 <= n <= 8, as few as do
//   11110000 4 bytes  a text, the lowest byte of its length first
//
//   size   7 bits in each byte, the lowest ones in the last byte; a byte with the highest bit set
//          has another one in front of it
//
// Every text has one form, so a search compares bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// A text as blocks hold it: to be written, or looked for.
class PackedText {
 public:
  // `text` must outlive this, and is smaller than 4 GB.
  explicit PackedText(std::string_view text);
  // Its decimal form.
  explicit PackedText(int64_t number) { SetNumber(number); }
  // Bytes that are no integer, though they may look like one. They must outlive this.
  static PackedText OfBytes(std::string_view bytes) {
    PackedText text;
    text.SetBytes(bytes);
    return text;
  }

  size_t entry_bytes() const { return entry_bytes_; }
  // Without the size at its end, for those that are only read forwards.
  size_t content_bytes() const { return head_bytes_ + body_.size(); }
  // The text's bytes, where they are; none if it is an integer.
  std::string_view body() const { return body_; }
  // Whether the entry at `entry` is this text.
  bool IsAt(const char* entry) const;
  // Writes the entry: entry_bytes().
  void Write(char* entry) const;
  // The same without the size at its end: content_bytes().
  void WriteContent(char* entry) const;

 private:
  PackedText() = default;
  void SetNumber(int64_t number);
  void SetBytes(std::string_view bytes);

  char head_[9];
  uint8_t head_bytes_ = 0;
  std::string_view body_;  // empty if it is an integer
  size_t entry_bytes_ = 0;
};

// What an entry holds, in place: dies when its block changes.
class PackedElement {
 public:
  static constexpr size_t kScratchSize = 24;  // what View wants

  // REQUIRES: an entry at `entry`.
  explicit PackedElement(const char* entry);
  // Of a text that stands in a block without head and size; no integer.
  static PackedElement OfText(const char* text, size_t size) {
    PackedElement element;
    element.text_ = text;
    element.size_ = size;
    return element;
  }

  // In the block itself, or an integer's digits in `scratch` (kScratchSize bytes).
  std::string_view View(char* scratch) const {
    return text_ != nullptr ? std::string_view(text_, size_) : Digits(scratch);
  }
  std::string ToString() const;
  // The number, if it is the canonical form of one.
  std::optional<int64_t> TryInt() const;

 private:
  PackedElement() = default;
  void Read(const char* entry);
  std::string_view Digits(char* scratch) const;

  const char* text_ = nullptr;  // null: an integer
  size_t size_ = 0;
  int64_t number_ = 0;
};

// How an entry begins and ends. For this file and its source.
namespace packed {

inline constexpr uint8_t kSmallInt = 0x40;
inline constexpr uint8_t kMediumInt = 0x80;
inline constexpr uint8_t kMediumText = 0xC0;
inline constexpr uint8_t kLargeInt = 0xE0;
inline constexpr uint8_t kLargeText = 0xF0;
inline constexpr int64_t kMediumIntBias = 1024;

inline uint8_t Byte(const char* at) { return static_cast<uint8_t>(*at); }

inline uint64_t ReadLittle(const char* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | Byte(at + i);
  return value;
}

struct Extent {
  size_t head;
  size_t body;
};

inline Extent ExtentAt(const char* entry) {
  const uint8_t first = Byte(entry);
  if (first < kSmallInt) return {1, first};
  if (first < kMediumInt) return {1, 0};
  if (first < kMediumText) return {2, 0};
  if (first < kLargeInt) return {2, (size_t{first} & 31) << 8 | Byte(entry + 1)};
  if (first < kLargeText) return {1 + (size_t{first} & 15), 0};
  return {5, ReadLittle(entry + 1, 4)};
}

// Of the size at an entry's end.
inline size_t SizeBytes(size_t content) {
  size_t bytes = 1;
  for (; content >= 128; content >>= 7) ++bytes;
  return bytes;
}

inline void WriteSize(size_t content, char* at) {
  const size_t bytes = SizeBytes(content);
  for (size_t i = bytes; i-- > 0; content >>= 7) {
    at[i] = static_cast<char>((content & 127) | (i > 0 ? 128 : 0));
  }
}

}  // namespace packed

// Most are short texts.
inline PackedElement::PackedElement(const char* entry) {
  const uint8_t first = packed::Byte(entry);
  if (first < packed::kSmallInt) {
    text_ = entry + 1;
    size_ = first;
  } else {
    Read(entry);
  }
}

// Of the entry at `entry`, without the size at its end.
inline size_t PackedContentBytes(const char* entry) {
  const packed::Extent extent = packed::ExtentAt(entry);
  return extent.head + extent.body;
}

// Of the entry at `entry`, all of it.
inline size_t PackedEntryBytes(const char* entry) {
  const size_t content = PackedContentBytes(entry);
  return content + packed::SizeBytes(content);
}

// Of the entry of a text that is no integer.
inline size_t PackedTextBytes(size_t text) {
  const size_t head = text < packed::kSmallInt ? 1 : text < 1 << 13 ? 2 : 5;
  return head + text + packed::SizeBytes(head + text);
}

// Of the entry that ends at `end`.
inline size_t PackedEntryBytesBefore(const char* end) {
  size_t content = 0;
  size_t bytes = 0;
  for (;;) {
    const uint8_t byte = packed::Byte(end - 1 - bytes);
    content |= (size_t{byte} & 127) << (7 * bytes);
    ++bytes;
    if ((byte & 128) == 0) return content + bytes;
  }
}

}  // namespace dfly
