// SPDX-License-Identifier: Apache-2.0
// Redis' packed blocks, as they stand in RDB files and DUMP payloads: listpacks (since 7.0), which
// are read and written here, and ziplists (before), which are read. Ours are in packed_block.h.
//
//   listpack  bytes (4), entries (2), entries, 0xFF
//   entry     head, text, the size of these two backwards
//
//   head               means
//   0nnnnnnn           the integer n
//   10nnnnnn           a text of n bytes
//   110nnnnn + 1 byte  an integer of 13 bits
//   1110nnnn + 1 byte  a text of that many bytes
//   0xF0 + 4 bytes     a text
//   0xF1 .. 0xF4       an integer of 2, 3, 4, 8 bytes
//
//   ziplist   bytes (4), offset of the last entry (4), entries (2), entries, 0xFF
//   entry     the size of the one before it (1 or 5), head, text
//
//   head               means
//   00nnnnnn           a text of n bytes
//   01nnnnnn + 1 byte  a text of that many bytes
//   0x80 + 4 bytes     a text; here the highest byte comes first
//   0xC0 0xD0 0xE0 0xF0 0xFE   an integer of 2, 4, 8, 3, 1 bytes
//   0xF1 .. 0xFD       the integers 0 .. 12
//
// Other numbers have their lowest byte first; 65535 entries may be more. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/text/packed_entry.h"

namespace dfly {

// Reads the entries of a block that nobody vouches for, one after another; never beyond it.
class ForeignEntries {
 public:
  enum class Kind : uint8_t { kListpack, kZiplist };

  // `block` must outlive this.
  ForeignEntries(Kind kind, std::string_view block);

  // The next entry, valid until the call after the next one. None at the end, or when something is
  // wrong.
  std::optional<std::string_view> Next();
  // After the last one: whether all of it made sense.
  bool is_sound() const { return is_sound_ && left_.empty(); }

 private:
  static constexpr size_t kDigitsMax = 24;

  std::optional<std::string_view> Fail();
  std::optional<std::string_view> NextOfListpack();
  std::optional<std::string_view> NextOfZiplist();
  // The next bytes; none if there are not so many.
  std::optional<std::string_view> Take(size_t count);
  std::optional<std::string_view> TakeInteger(size_t bytes);
  std::string_view Digits(int64_t number);

  const Kind kind_;
  std::string_view left_;
  bool is_sound_ = true;
  size_t count_ = 0;           // as the header says
  size_t seen_ = 0;            // so many have been read
  size_t previous_bytes_ = 0;  // of the entry before, in a ziplist
  char digits_[2][kDigitsMax];
  bool uses_second_ = false;
};

// Makes a listpack.
class ListpackWriter {
 public:
  ListpackWriter() { Clear(); }
  void Append(std::string_view text);
  void Append(int64_t number);             // its decimal form
  void AppendText(std::string_view text);  // REQUIRES: it is no integer
  void Append(const PackedElement& element);
  size_t entries() const { return entries_; }
  size_t bytes() const { return used_ + 1; }
  // All of it. REQUIRES: Clear comes next.
  std::string_view Finish();
  void Clear();

  // What a listpack with this one entry has around it: before and behind the text. REQUIRES: the
  // text is no integer, and smaller than 4 GB.
  struct Wrapping {
    std::string before;
    std::string behind;
  };
  static Wrapping WrappingOf(std::string_view text);

 private:
  // Room for so many bytes behind what there is.
  char* Room(size_t bytes);

  static constexpr size_t kCapacityMin = 512;

  std::unique_ptr<char[]> block_;
  size_t capacity_ = 0;
  size_t used_ = 0;  // without the end
  size_t entries_ = 0;
};

// Counts what a ListpackWriter would have.
class ListpackSizer {
 public:
  void Append(int64_t number);
  void AppendText(std::string_view text);  // REQUIRES: it is no integer
  size_t entries() const { return entries_; }
  size_t bytes() const { return bytes_ + 1; }
  void Clear() { *this = ListpackSizer(); }

 private:
  static constexpr size_t kHeader = 6;

  size_t bytes_ = kHeader;
  size_t entries_ = 0;
};

}  // namespace dfly
