// SPDX-License-Identifier: Apache-2.0
#include "core/text/rdb_encoding.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>

#include "core/text/lzf.h"
#include "core/text/numbers.h"
#include "core/text/packed_entry.h"

namespace dfly {

namespace {

constexpr uint8_t kLength32 = 0x80;
constexpr uint8_t kLength64 = 0x81;
constexpr uint8_t kSpecial = 0xC0;
constexpr uint8_t kLzf = 3;  // of the special forms; before it come integers of 1, 2, 4 bytes
constexpr size_t kDigitsMax = 24;
// Instead of the size of a number's text.
constexpr uint8_t kNotANumber = 253;
constexpr uint8_t kInfinity = 254;
constexpr uint8_t kMinusInfinity = 255;

bool FitsIn32Bits(int64_t number) { return number == static_cast<int32_t>(number); }

}  // namespace

namespace {

constexpr uint8_t kValkeyFirst = 22;
constexpr uint8_t kValkeyLast = 62;
constexpr uint8_t kValkeyShift = 192;

// Empty: it is not read.
std::string_view NameOfReadType(uint8_t type) {
  switch (static_cast<RdbType>(type)) {
    case RdbType::kString:
      return "a string";
    case RdbType::kList:
    case RdbType::kListZiplist:
    case RdbType::kListQuicklist:
    case RdbType::kListQuicklist2:
      return "a list";
    case RdbType::kSet:
    case RdbType::kSetIntset:
    case RdbType::kSetListpack:
      return "a set";
    case RdbType::kSetMetadata:
      return "a set with deadlines of members";
    case RdbType::kZset:
    case RdbType::kZset2:
    case RdbType::kZsetZiplist:
    case RdbType::kZsetListpack:
      return "a sorted set";
    case RdbType::kHash:
    case RdbType::kHashZiplist:
    case RdbType::kHashListpack:
    case RdbType::kHashTemplateListpack:
    case RdbType::kHashTemplate:
      return "a hash";
    case RdbType::kHashMetadataPreGa:
    case RdbType::kHashListpackExPreGa:
    case RdbType::kHashMetadata:
    case RdbType::kHashListpackEx:
    case RdbType::kHashValkey:
      return "a hash with deadlines of fields";
    case RdbType::kStreamListpacks:
    case RdbType::kStreamListpacks2:
    case RdbType::kStreamListpacks3:
    case RdbType::kStreamListpacks4:
    case RdbType::kStreamListpacks5:
      return "a stream";
    case RdbType::kBloomFilter:
      return "a Bloom filter";
    case RdbType::kCountMinSketch:
      return "a count-min sketch";
    case RdbType::kTopK:
      return "a top-k list";
    case RdbType::kJson:
      return "a JSON document";
    case RdbType::kHashTemplateListpackRef:
    case RdbType::kHashTemplateRef:
      break;  // the value alone is not all
  }
  return {};
}

}  // namespace

RdbFamily RdbFamilyOf(uint16_t payload_version) {
  return payload_version < kRdbVersionValkey ? RdbFamily::kRedis : RdbFamily::kValkey;
}

uint8_t RdbTypeIn(RdbFamily family, uint8_t number) {
  const bool is_theirs =
      family == RdbFamily::kValkey && number >= kValkeyFirst && number <= kValkeyLast;
  return is_theirs ? number + kValkeyShift : number;
}

uint8_t RdbNumberOf(uint8_t type) {
  const bool is_theirs = type >= kValkeyFirst + kValkeyShift && type <= kValkeyLast + kValkeyShift;
  return is_theirs ? type - kValkeyShift : type;
}

bool IsRdbTypeRead(uint8_t type) { return !NameOfReadType(type).empty(); }

std::string_view RdbTypeName(uint8_t type) {
  if (const std::string_view name = NameOfReadType(type); !name.empty()) return name;
  if (type == 6) return "a value of a module of a release candidate of Redis 4.0";
  if (type == 7) return "a value of a module";
  if (type == 9) return "a zipmap, which Redis wrote before 2.6";
  if (type == 28) return "an array of Redis 8.8 or later";
  if (type == 30 || type == 32) return "a hash without the names of its fields";
  if (type == 33) return "a rate limiter of a later Redis 8";
  return "a value of an unknown type";
}

// --- Writing ---

void RdbWriter::FlushPiece() {
  sink_.Append({piece_, used_});
  used_ = 0;
}

void RdbWriter::RawBeyond(std::string_view bytes) {
  Flush();
  if (bytes.size() >= kPieceBytes) return sink_.Append(bytes);
  Raw(bytes);
}

void RdbWriter::Little(uint64_t number, size_t bytes) {
  if (kPieceBytes - used_ < 8) FlushPiece();
  // Always eight, which is one instruction; the next one writes over those that are too many.
  for (size_t i = 0; i < 8; ++i) piece_[used_ + i] = static_cast<char>(number >> (8 * i));
  used_ += bytes;
}

void RdbWriter::LongLength(uint64_t length) {
  if (length < 16384) {
    Byte(static_cast<uint8_t>(0x40 | length >> 8));
    return Byte(static_cast<uint8_t>(length & 0xFF));
  }
  const bool is_short = length <= UINT32_MAX;
  Byte(is_short ? kLength32 : kLength64);
  const uint64_t swapped = __builtin_bswap64(length);
  Little(is_short ? swapped >> 32 : swapped, is_short ? 4 : 8);
}

bool RdbWriter::TryInteger(std::string_view text) {
  // Most texts are none, which their first letter tells.
  if (text.empty() || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return false;
  const std::optional<int64_t> number = ParseInt64(text);
  if (!number || !FitsIn32Bits(*number)) return false;
  String(*number);
  return true;
}

bool RdbWriter::TryCompressed(std::string_view text) {
  constexpr size_t kSavedMin = 4;
  const size_t room = text.size() - kSavedMin;
  char small[512];
  std::unique_ptr<char[]> large;
  if (room > sizeof(small)) large = std::make_unique_for_overwrite<char[]>(room);
  char* const packed = large != nullptr ? large.get() : small;
  const size_t size = CompressLzf(text, packed, room);
  if (size == 0) return false;
  Byte(kSpecial | kLzf);
  Length(size);
  Length(text.size());
  Raw({packed, size});
  return true;
}

void RdbWriter::String(int64_t number) {
  if (!FitsIn32Bits(number)) {
    char digits[kDigitsMax];
    const char* const end = std::to_chars(digits, digits + kDigitsMax, number).ptr;
    const auto size = static_cast<size_t>(end - digits);
    Length(size);
    return Raw({digits, size});
  }
  const size_t bytes = number == static_cast<int8_t>(number)    ? 1
                       : number == static_cast<int16_t>(number) ? 2
                                                                : 4;
  Byte(static_cast<uint8_t>(kSpecial | std::countr_zero(bytes)));
  Little(static_cast<uint64_t>(number), bytes);
}

void RdbWriter::Double(double number) { Little(std::bit_cast<uint64_t>(number), 8); }

// --- Reading ---

std::optional<uint8_t> RdbReader::Byte() {
  const auto byte = source_.Take(1);
  if (!byte) return std::nullopt;
  return static_cast<uint8_t>((*byte)[0]);
}

std::optional<uint64_t> RdbReader::Little(size_t bytes) {
  const auto taken = source_.Take(bytes);
  if (!taken) return std::nullopt;
  return packed::ReadLittle(taken->data(), bytes);
}

std::optional<uint64_t> RdbReader::Big(size_t bytes) {
  const auto number = Little(bytes);
  if (!number) return std::nullopt;
  return __builtin_bswap64(*number) >> (64 - 8 * bytes);
}

auto RdbReader::ReadHead() -> std::optional<Head> {
  const auto first = Byte();
  if (!first) return std::nullopt;
  const uint64_t low = *first & 63;
  std::optional<uint64_t> length;
  switch (*first >> 6) {
    case 0:
      return Head{low, false};
    case 1: {
      const auto second = Byte();
      if (second) length = low << 8 | *second;
      break;
    }
    case 2:
      if (*first == kLength32) length = Big(4);
      if (*first == kLength64) length = Big(8);
      break;
    default:
      return Head{low, true};
  }
  if (!length) return std::nullopt;
  return Head{*length, false};
}

std::optional<uint64_t> RdbReader::Length() {
  const auto head = ReadHead();
  if (!head || head->is_special) return std::nullopt;
  return head->length;
}

std::optional<uint64_t> RdbReader::Count() {
  const auto count = Length();
  return count && *count <= source_.left() ? count : std::nullopt;
}

std::optional<std::string_view> RdbReader::String() {
  const auto head = ReadHead();
  if (!head) return std::nullopt;
  if (!head->is_special) {
    if (head->length > string_max_) return std::nullopt;
    return source_.Take(head->length);
  }
  if (head->length < kLzf) {
    const size_t bytes = size_t{1} << head->length;
    const auto number = Little(bytes);
    if (!number) return std::nullopt;
    const int unused = static_cast<int>(64 - 8 * bytes);
    const int64_t value = static_cast<int64_t>(*number << unused) >> unused;
    const char* const end = std::to_chars(digits_, digits_ + sizeof(digits_), value).ptr;
    return std::string_view(digits_, static_cast<size_t>(end - digits_));
  }
  if (head->length != kLzf) return std::nullopt;
  const auto packed_size = Length();
  const auto size = packed_size ? Length() : std::nullopt;
  if (!size || *size > string_max_) return std::nullopt;
  const auto compressed = source_.Take(*packed_size);
  if (!compressed || !ExpandLzf(*compressed, *size, &expanded_)) return std::nullopt;
  return expanded_;
}

bool RdbReader::SkipString() {
  const auto head = ReadHead();
  if (!head) return false;
  if (!head->is_special) return source_.Skip(head->length);
  if (head->length < kLzf) return source_.Skip(uint64_t{1} << head->length);
  const auto packed_size = head->length == kLzf ? Length() : std::nullopt;
  return packed_size && Length() && source_.Skip(*packed_size);
}

bool RdbReader::SkipTextDouble() {
  const auto size = Byte();
  return size && (*size >= kNotANumber || source_.Skip(*size));
}

std::optional<double> RdbReader::Double() {
  const auto bits = Little(8);
  if (!bits) return std::nullopt;
  return std::bit_cast<double>(*bits);
}

std::optional<double> RdbReader::TextDouble() {
  const auto size = Byte();
  if (!size) return std::nullopt;
  switch (*size) {
    case kNotANumber:
      return std::numeric_limits<double>::quiet_NaN();
    case kInfinity:
      return HUGE_VAL;
    case kMinusInfinity:
      return -HUGE_VAL;
    default:
      break;
  }
  const auto text = source_.Take(*size);
  return text ? ParseDouble(*text) : std::nullopt;
}

}  // namespace dfly
