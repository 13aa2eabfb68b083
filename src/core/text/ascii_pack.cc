// SPDX-License-Identifier: Apache-2.0
#include "core/text/ascii_pack.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/text/short_text.h"
#include "helio/base/logging.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dfly {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080ULL;

void Store(char* at, uint64_t word) { std::memcpy(at, &word, 8); }

// `pack` and `unpack` do what Pack8 and Unpack8 do. In the last group words end where it ends.
template <typename Pack>
[[gnu::always_inline]] inline void PackWith(Pack pack, std::string_view text, char* packed) {
  const char* from = text.data();
  size_t left = text.size();
  for (; left > 8; left -= 8, from += 8, packed += 7) Store(packed, pack(LoadWord(from)));
  const size_t bytes = PackedAsciiBytes(left);
  const uint64_t last = pack(LoadWord(from + left - 8) >> (64 - 8 * left));
  char* const at = packed + bytes - 8;
  const size_t before = 64 - 8 * bytes;  // bits of the group in front of it
  Store(at, (LoadWord(at) & ((uint64_t{1} << before) - 1)) | last << before);
}

template <typename Unpack>
[[gnu::always_inline]] inline void UnpackWith(Unpack unpack, const char* packed, size_t size,
                                              char* text) {
  size_t left = size;
  for (; left > 8; left -= 8, packed += 7, text += 8) Store(text, unpack(LoadWord(packed)));
  const size_t bytes = PackedAsciiBytes(left);
  Store(text, unpack(LoadWord(packed + bytes - 8) >> (64 - 8 * bytes)));
}

#if defined(__x86_64__)
// One instruction for each of the two, where that is fast: AMD's first two Zens take dozens of
// cycles for it.
bool HasFastBits() {
  static const bool has = __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") &&
                          !__builtin_cpu_is("znver2") && !__builtin_cpu_is("bdver4");
  return has;
}

constexpr uint64_t kLowBits = ~kHighBits;

__attribute__((target("bmi2"))) void PackByBits(std::string_view text, char* packed) {
  PackWith(
      [](uint64_t word) __attribute__((target("bmi2"))) { return _pext_u64(word, kLowBits); }, text,
      packed);
}

__attribute__((target("bmi2"))) void UnpackByBits(const char* packed, size_t size, char* text) {
  UnpackWith(
      [](uint64_t word) __attribute__((target("bmi2"))) { return _pdep_u64(word, kLowBits); },
      packed, size, text);
}
#endif

// By the number that a ShortAscii has for them: the two highest bits of three characters of 7 bits.
constexpr std::array<uint32_t, 32> TopsOfThree() {
  std::array<uint32_t, 32> tops{};
  for (uint32_t code = 0; code < 27; ++code) {
    tops[code] = (code / 9 + 1) << 5 | (code / 3 % 3 + 1) << 12 | (code % 3 + 1) << 19;
  }
  return tops;
}
constexpr std::array<uint32_t, 32> kTopsOfThree = TopsOfThree();

constexpr int kFirstBits = 55;  // of the first eight characters

}  // namespace

bool IsAscii(std::string_view text) {
  const char* const end = text.data() + text.size();
  uint64_t all = LoadWord(end - 8);
  for (const char* at = text.data(); at < end - 8; at += 8) all |= LoadWord(at);
  return (all & kHighBits) == 0;
}

void PackAscii(std::string_view text, char* packed) {
  DCHECK_GE(text.size(), kPackedAsciiMin);
#if defined(__x86_64__)
  if (HasFastBits()) return PackByBits(text, packed);
#endif
  PackWith(Pack8, text, packed);
}

void UnpackAscii(const char* packed, size_t size, char* text) {
  DCHECK_GE(size, kPackedAsciiMin);
#if defined(__x86_64__)
  if (HasFastBits()) return UnpackByBits(packed, size, text);
#endif
  UnpackWith(Unpack8, packed, size, text);
}

std::optional<ShortAscii> PackShortAscii(std::string_view text) {
  DCHECK(text.size() >= ShortAscii::kMin && text.size() <= ShortAscii::kMax);
  const uint64_t first = LoadWord(text.data());
  const uint64_t second = LoadShort(text.data() + 8, text.size() - 8);
  if (((first | second) & kHighBits) != 0 || text.back() == '\0') return std::nullopt;
  const uint64_t a = Pack8(first);
  const uint64_t top0 = (a >> 5) & 3;
  const uint64_t top1 = (a >> 12) & 3;
  const uint64_t top2 = (a >> 19) & 3;
  if (top0 == 0 || top1 == 0 || top2 == 0) return std::nullopt;
  const uint64_t code = (top0 - 1) * 9 + (top1 - 1) * 3 + (top2 - 1);
  const uint64_t lows = (a & 0x1F) | ((a >> 2) & 0x3E0) | ((a >> 4) & 0x7C00);
  const uint64_t b = Pack8(second);
  return ShortAscii{.low = lows | code << 15 | (a >> 21) << 20 | b << kFirstBits,
                    .high = b >> (64 - kFirstBits)};
}

size_t UnpackShortAscii(const ShortAscii& packed, char* text) {
  const uint64_t low = packed.low;
  const uint64_t lows = (low & 0x1F) | (low & 0x3E0) << 2 | (low & 0x7C00) << 4;
  const uint64_t rest = (low & ((uint64_t{1} << kFirstBits) - 1)) >> 20;
  Store(text, Unpack8(lows | kTopsOfThree[(low >> 15) & 31] | rest << 21));
  const uint64_t second = Unpack8(low >> kFirstBits | packed.high << (64 - kFirstBits));
  Store(text + 8, second);
  return ShortAscii::kMax - static_cast<size_t>(std::countl_zero(second)) / 8;
}

}  // namespace dfly
