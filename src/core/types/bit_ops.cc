// SPDX-License-Identifier: Apache-2.0
#include "core/types/bit_ops.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/text/short_text.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

__extension__ using Wide = __int128;

constexpr size_t kWordBytes = sizeof(uint64_t);

// The eight bytes at `at` as a number whose highest byte comes first.
uint64_t LoadBigEndian(const char* at) {
  const uint64_t word = LoadWord(at);
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

template <typename PopCount>
inline uint64_t CountAll(const char* at, size_t size, PopCount pop_count) {
  uint64_t counts[4] = {};  // four at once, as each addition waits for the one before it
  for (; size >= 4 * kWordBytes; at += 4 * kWordBytes, size -= 4 * kWordBytes) {
    for (size_t i = 0; i < 4; ++i) counts[i] += pop_count(LoadWord(at + i * kWordBytes));
  }
  for (; size >= kWordBytes; at += kWordBytes, size -= kWordBytes) {
    counts[0] += pop_count(LoadWord(at));
  }
  uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, at, size);
  return counts[0] + counts[1] + counts[2] + counts[3] + pop_count(rest);
}

#if defined(__x86_64__)
// The baseline has no such instruction, and what the compiler calls instead is ten times slower.
__attribute__((target("popcnt"))) uint64_t CountWithPopcnt(const char* at, size_t size) {
  uint64_t counts[4] = {};
  for (; size >= 4 * kWordBytes; at += 4 * kWordBytes, size -= 4 * kWordBytes) {
    for (size_t i = 0; i < 4; ++i) {
      counts[i] += static_cast<uint64_t>(__builtin_popcountll(LoadWord(at + i * kWordBytes)));
    }
  }
  return counts[0] + counts[1] + counts[2] + counts[3];
}
#endif

uint64_t CountBytes(std::string_view bytes) {
  uint64_t count = 0;
#if defined(__x86_64__)
  static const bool has_popcnt = __builtin_cpu_supports("popcnt") != 0;
  if (has_popcnt) {
    const size_t whole = bytes.size() / (4 * kWordBytes) * (4 * kWordBytes);
    count = CountWithPopcnt(bytes.data(), whole);
    bytes.remove_prefix(whole);
  }
#endif
  return count + CountAll(bytes.data(), bytes.size(),
                          [](uint64_t word) { return static_cast<uint64_t>(std::popcount(word)); });
}

// The bits of a byte from `first` to `last`, both of 0 to 7, as a mask.
uint8_t MaskOf(uint64_t first, uint64_t last) {
  return static_cast<uint8_t>((0xFF >> first) & (0xFF << (7 - last)));
}

template <typename Operation>
void Combine(char* target, std::string_view other, Operation operation) {
  size_t i = 0;
  for (; i + kWordBytes <= other.size(); i += kWordBytes) {
    const uint64_t word = operation(LoadWord(target + i), LoadWord(other.data() + i));
    std::memcpy(target + i, &word, kWordBytes);
  }
  for (; i < other.size(); ++i) {
    target[i] = static_cast<char>(
        operation(static_cast<uint8_t>(target[i]), static_cast<uint8_t>(other[i])));
  }
}

uint64_t And(uint64_t one, uint64_t other) { return one & other; }
uint64_t AndNot(uint64_t one, uint64_t other) { return one & ~other; }

void Widen(std::string* bytes, size_t size) {
  if (bytes->size() < size) bytes->resize(size);
}

void OrInto(std::string* target, std::string_view other) {
  Widen(target, other.size());
  Combine(target->data(), other, [](uint64_t one, uint64_t more) { return one | more; });
}

}  // namespace

uint64_t CountBits(std::string_view bytes, uint64_t first, uint64_t last) {
  DCHECK_LE(first, last);
  DCHECK_LT(last >> 3, bytes.size());
  const auto byte = [&bytes](uint64_t at) { return static_cast<uint8_t>(bytes[at]); };
  const uint64_t first_byte = first >> 3;
  const uint64_t last_byte = last >> 3;
  const auto count = [](int bits) { return static_cast<uint64_t>(std::popcount(uint8_t(bits))); };
  if (first_byte == last_byte) return count(byte(first_byte) & MaskOf(first & 7, last & 7));
  return count(byte(first_byte) & MaskOf(first & 7, 7)) +
         CountBytes(bytes.substr(first_byte + 1, last_byte - first_byte - 1)) +
         count(byte(last_byte) & MaskOf(0, last & 7));
}

std::optional<uint64_t> FindBit(std::string_view bytes, bool bit, uint64_t first, uint64_t last) {
  DCHECK_LE(first, last);
  DCHECK_LT(last >> 3, bytes.size());
  const uint64_t skipped = bit ? 0 : ~uint64_t{0};  // a word without such a bit
  const uint64_t end_byte = (last >> 3) + 1;
  uint64_t at = first >> 3;
  const auto found_in = [&](uint8_t mask) -> std::optional<uint64_t> {
    const auto hits = static_cast<uint8_t>(
        (static_cast<uint8_t>(bytes[at]) ^ static_cast<uint8_t>(skipped)) & mask);
    if (hits == 0) return std::nullopt;
    const uint64_t found = at * 8 + static_cast<uint64_t>(std::countl_zero(hits));
    return found <= last ? std::optional(found) : std::nullopt;
  };
  if (const auto found = found_in(MaskOf(first & 7, 7))) return found;
  ++at;
  while (at + kWordBytes <= end_byte && LoadWord(bytes.data() + at) == skipped) at += kWordBytes;
  for (; at < end_byte; ++at) {
    if (const auto found = found_in(0xFF)) return found;
  }
  return std::nullopt;
}

void BitCombiner::Add(std::string_view bytes) {
  if (is_first_) {
    is_first_ = false;
    result_.assign(bytes);
    if (operation_ == BitOperation::kNot) {
      Combine(result_.data(), bytes, [](uint64_t, uint64_t other) { return ~other; });
    }
    return;
  }
  DCHECK(operation_ != BitOperation::kNot);
  const size_t common = std::min(result_.size(), bytes.size());
  switch (operation_) {
    case BitOperation::kAnd:
      Widen(&result_, bytes.size());
      Combine(result_.data(), bytes.substr(0, common), And);
      std::fill(result_.begin() + static_cast<ptrdiff_t>(common), result_.end(), '\0');
      break;
    case BitOperation::kXor:
      Widen(&result_, bytes.size());
      Combine(result_.data(), bytes, [](uint64_t one, uint64_t other) { return one ^ other; });
      break;
    case BitOperation::kOne: {
      std::string both(bytes.substr(0, common));
      Combine(both.data(), std::string_view(result_).substr(0, common), And);
      OrInto(&more_, both);
      OrInto(&result_, bytes);
      break;
    }
    default:
      OrInto(&result_, bytes);
      break;
  }
}

void BitCombiner::Merge(const BitCombiner& other) {
  if (!other.first_.empty()) first_ = other.first_;
  if (other.is_first_) return;
  Add(other.result_);
  OrInto(&more_, other.more_);
}

std::string BitCombiner::Finish() {
  if (operation_ == BitOperation::kOne) {
    Combine(result_.data(), more_, AndNot);
  } else if (SetsFirstApart(operation_)) {
    const size_t size = std::max(first_.size(), result_.size());
    Widen(&first_, size);
    Widen(&result_, size);
    if (operation_ == BitOperation::kDiff1) {
      Combine(result_.data(), first_, AndNot);
    } else {
      Combine(first_.data(), result_, operation_ == BitOperation::kDiff ? AndNot : And);
      result_ = std::move(first_);
    }
  }
  return std::move(result_);
}

uint64_t ReadBitField(std::string_view bytes, uint64_t offset, BitFieldType type) {
  DCHECK(type.bits >= 1 && type.bits <= 64);
  const uint64_t byte = offset >> 3;
  const uint32_t shift = offset & 7;
  char window[2 * kWordBytes] = {};  // a field may touch nine bytes
  if (byte < bytes.size()) {
    const std::string_view part = bytes.substr(byte, kWordBytes + 1);
    std::memcpy(window, part.data(), part.size());
  }
  uint64_t number = LoadBigEndian(window) << shift;
  if (shift > 0) number |= static_cast<uint8_t>(window[kWordBytes]) >> (8 - shift);
  // The field's bits are the highest ones now.
  const uint32_t unused = 64 - type.bits;
  if (type.is_signed) return static_cast<uint64_t>(static_cast<int64_t>(number) >> unused);
  return number >> unused;
}

void WriteBitField(char* bytes, uint64_t offset, uint32_t bits, uint64_t number) {
  DCHECK(bits >= 1 && bits <= 64);
  char* at = bytes + (offset >> 3);
  uint32_t skipped = offset & 7;  // of the byte at `at`
  while (bits > 0) {
    const uint32_t taken = std::min(8 - skipped, bits);
    const uint8_t mask = MaskOf(skipped, skipped + taken - 1);
    const auto part = static_cast<uint8_t>(number >> (bits - taken) << (8 - skipped - taken));
    *at = static_cast<char>((static_cast<uint8_t>(*at) & ~mask) | (part & mask));
    ++at;
    bits -= taken;
    skipped = 0;
  }
}

std::optional<uint64_t> AddToBitField(BitFieldType type, uint64_t number, int64_t by,
                                      BitFieldOverflow overflow) {
  const Wide least = type.is_signed ? -(Wide{1} << (type.bits - 1)) : Wide{0};
  const Wide most = (Wide{1} << (type.is_signed ? type.bits - 1 : type.bits)) - 1;
  const Wide sum = (type.is_signed ? Wide{static_cast<int64_t>(number)} : Wide{number}) + by;
  if (sum >= least && sum <= most) return static_cast<uint64_t>(sum);
  switch (overflow) {
    case BitFieldOverflow::kFail:
      return std::nullopt;
    case BitFieldOverflow::kSaturate:
      return static_cast<uint64_t>(sum > most ? most : least);
    case BitFieldOverflow::kWrap:
      break;
  }
  const uint32_t unused = 64 - type.bits;
  const uint64_t high = static_cast<uint64_t>(sum) << unused;
  if (type.is_signed) return static_cast<uint64_t>(static_cast<int64_t>(high) >> unused);
  return high >> unused;
}

}  // namespace dfly
