// SPDX-License-Identifier: Apache-2.0
// Lengths, strings and numbers as Redis' RDB format has them.
//
//   length  00nnnnnn | 01nnnnnn + 1 byte | 0x80 + 4 bytes | 0x81 + 8 bytes; the highest byte first
//   string  a length and so many bytes, or
//           0xC0 0xC1 0xC2 + 1, 2, 4 bytes, the lowest first: the digits of that integer
//           0xC3, two lengths, bytes: compressed (core/text/lzf.h), the second one is that of
//           the string
//
// Nothing that is read is trusted: a length is compared with what follows before memory is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/text/byte_stream.h"

namespace dfly {

// What a value is in a file or payload. Those that are not here (modules, zipmaps) are not read.
// Those from kFirstPrivate on are ours: redis-server has no words for such values.
enum class RdbType : uint8_t {
  kString = 0,
  kList = 1,
  kSet = 2,
  kZset = 3,
  kHash = 4,
  kZset2 = 5,  // with scores of 8 bytes
  kListZiplist = 10,
  kSetIntset = 11,
  kZsetZiplist = 12,
  kHashZiplist = 13,
  kListQuicklist = 14,  // of ziplists
  kStreamListpacks = 15,
  kHashListpack = 16,
  kZsetListpack = 17,
  kListQuicklist2 = 18,  // of listpacks
  kStreamListpacks2 = 19,
  kSetListpack = 20,  // since 7.2
  kStreamListpacks3 = 21,
  kHashMetadataPreGa = 22,    // of 7.4's release candidates, as the next one
  kHashListpackExPreGa = 23,  //
  kHashMetadata = 24,         // with deadlines of fields, since 7.4
  kHashListpackEx = 25,       // the same
  kStreamListpacks4 = 26,     // with what idempotent producers have sent, since 8.6
  kStreamListpacks5 = 27,     // with what consumers have given back, since 8.8
  // 28 is an array of 8.8, and 33 a rate limiter: these are named and not read.
  // Hashes that share the names of their fields, since 8.10. Of those with Ref the names stand
  // elsewhere in the file (storage/entry_reader.h); none is in a payload.
  kHashTemplateListpack = 29,
  kHashTemplateListpackRef = 30,
  kHashTemplate = 31,
  kHashTemplateRef = 32,

  kFirstPrivate = 128,
  kSetMetadata = 128,  // with deadlines of members
  kBloomFilter = 129,
  kCountMinSketch = 130,
  kTopK = 131,
  // What Valkey alone has, numbers from 22 on, is 192 later here (RdbTypeIn), as Redis has other
  // things by these numbers. No file or payload has this number itself; RdbNumberOf tells the one
  // that it has.
  kHashValkey = 214,  // with deadlines of fields, since Valkey 9
};

// How names of fields stand before their values.
inline constexpr uint64_t kNamesInListpack = 0;
inline constexpr uint64_t kNamesInStrings = 1;

inline bool IsPrivate(RdbType type) { return type >= RdbType::kFirstPrivate; }

// Whose numbers a file or payload has. Files tell by their first bytes, payloads by their version.
enum class RdbFamily : uint8_t { kRedis, kValkey };
RdbFamily RdbFamilyOf(uint16_t payload_version);
// What `number` of a file or payload means: an RdbType, or a type that is not read.
uint8_t RdbTypeIn(RdbFamily family, uint8_t number);
// The number that stands in the file or payload.
uint8_t RdbNumberOf(uint8_t type);

// False: values of this type are not read, whatever they are.
bool IsRdbTypeRead(uint8_t type);
// For messages, also of types that are not read: "a hash", "a value of a module".
std::string_view RdbTypeName(uint8_t type);

// Of redis-server 7.0, so that it and all newer ones read what we write.
inline constexpr uint16_t kRdbVersionWritten = 10;
// Of redis-server 7.4 to 8.4, for values that 7.2 has no words for. Valkey 8 writes 11, as 7.2 did,
// Valkey 9 writes 80. Newer versions are read, too: what they have in common with these is as it
// was, as new forms of values get new types; a type that is not known is named.
inline constexpr uint16_t kRdbVersionDeadlines = 12;
// Of redis-server 8.6, for streams with idempotent producers.
inline constexpr uint16_t kRdbVersionProducers = 13;
// From here on a payload is Valkey's; it keeps off what is below, for others.
inline constexpr uint16_t kRdbVersionValkey = 80;

// Gathers what is written, so that the sink gets it in pieces; the last one when Flush is called,
// or the writer ends. A text that is larger than a piece is not copied.
//
// If it is to compress, texts of 21 bytes to 1 MB become LZF (core/text/lzf.h) where that saves at
// least 4 bytes, as with Redis' rdbcompression; there is no pause in the middle of a text, so
// larger ones would hold up what else the thread has to do.
//
// Owner:    who writes.
// Suspends: where the sink does, in any call.
class RdbWriter {
 public:
  enum class Compression : uint8_t { kNone, kLzf };

  // `sink` must outlive this.
  explicit RdbWriter(ByteSink* sink, Compression compression = Compression::kNone)
      : sink_(*sink), compresses_(compression == Compression::kLzf) {}
  RdbWriter(const RdbWriter&) = delete;
  RdbWriter& operator=(const RdbWriter&) = delete;
  ~RdbWriter() { Flush(); }

  // Whether String would try to compress a text of `size` bytes.
  bool MayCompress(size_t size) const {
    return compresses_ && size >= kCompressedTextMin && size <= kCompressedTextMax;
  }

  // The sink has all that was written then.
  void Flush() {
    if (used_ > 0) FlushPiece();
  }

  void Raw(std::string_view bytes) {
    if (bytes.size() > kPieceBytes - used_) [[unlikely]] {
      return RawBeyond(bytes);
    }
    bytes.copy(piece_ + used_, bytes.size());
    used_ += bytes.size();
  }
  void Byte(uint8_t byte) {
    if (used_ == kPieceBytes) [[unlikely]] {
      FlushPiece();
    }
    piece_[used_++] = static_cast<char>(byte);
  }
  void Length(uint64_t length) {
    if (length < 64) return Byte(static_cast<uint8_t>(length));
    LongLength(length);
  }
  // As an integer where that is shorter, or compressed.
  void String(std::string_view text) {
    if (text.size() <= kIntegerTextMax) {
      if (TryInteger(text)) return;
    } else if (MayCompress(text.size()) && TryCompressed(text)) {
      return;
    }
    Length(text.size());
    Raw(text);
  }
  // The text that is its decimal form.
  void String(int64_t number);
  void Double(double number);  // 8 bytes
  // `number` in `bytes` bytes, the lowest one first.
  void Little(uint64_t number, size_t bytes);

 private:
  static constexpr size_t kPieceBytes = 1024;
  static constexpr size_t kIntegerTextMax = 11;  // of 32 bits
  static constexpr size_t kCompressedTextMin = 21;
  static constexpr size_t kCompressedTextMax = size_t{1} << 20;

  void FlushPiece();
  void RawBeyond(std::string_view bytes);
  void LongLength(uint64_t length);
  // False if it is none of 32 bits.
  bool TryInteger(std::string_view text);
  // False if it would save too little.
  bool TryCompressed(std::string_view text);

  ByteSink& sink_;
  const bool compresses_;
  size_t used_ = 0;
  char piece_[kPieceBytes];
};

// Owner: who reads. Suspends: where the source does. What returns an optional returns none if the
// bytes end or make no sense; nothing more can be read then.
class RdbReader {
 public:
  static constexpr size_t kPieceBytes = 64 << 10;

  // No string becomes longer than `string_max`. `source` must outlive this.
  RdbReader(ByteSource* source, size_t string_max) : source_(*source), string_max_(string_max) {}

  std::optional<uint8_t> Byte();
  std::optional<uint64_t> Length();
  // A number of elements, of which each has at least one byte.
  std::optional<uint64_t> Count();
  // Valid until the next call.
  std::optional<std::string_view> String();
  // So many bytes. Valid until the next call.
  std::optional<std::string_view> Raw(size_t bytes) { return source_.Take(bytes); }
  // The same, in pieces: fn(piece). False if there are not so many.
  template <typename F>
  bool RawPieces(size_t bytes, F&& fn) {
    for (size_t size; bytes > 0; bytes -= size) {
      size = std::min(bytes, kPieceBytes);
      const auto piece = source_.Take(size);
      if (!piece) return false;
      fn(*piece);
    }
    return true;
  }
  // A number of 1 to 8 bytes, the lowest one first.
  std::optional<uint64_t> Little(size_t bytes);
  std::optional<double> Double();      // 8 bytes
  std::optional<double> TextDouble();  // as old sorted sets have it

  // As what they are named after, but nobody looks at the bytes; false if they end.
  bool Skip(uint64_t bytes) { return source_.Skip(bytes); }
  bool SkipString();
  bool SkipTextDouble();

 private:
  struct Head {
    uint64_t length;
    bool is_special;
  };
  std::optional<Head> ReadHead();
  std::optional<uint64_t> Big(size_t bytes);

  ByteSource& source_;
  const size_t string_max_;
  char digits_[24];
  std::string expanded_;
};

}  // namespace dfly
