// SPDX-License-Identifier: Apache-2.0
// Strings as arrays of bits: bit 0 is the highest one of the first byte, and numbers in them have
// their highest bit first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// Behind the end all bits are 0.
inline bool GetBit(std::string_view bytes, uint64_t at) {
  const uint64_t byte = at >> 3;
  return byte < bytes.size() && (static_cast<uint8_t>(bytes[byte]) >> (7 - (at & 7)) & 1) != 0;
}

// How many bits from `first` to `last` are 1. REQUIRES: first <= last, and both exist.
uint64_t CountBits(std::string_view bytes, uint64_t first, uint64_t last);

// Where the first bit that is `bit` is, among those from `first` to `last`. REQUIRES: as above.
std::optional<uint64_t> FindBit(std::string_view bytes, bool bit, uint64_t first, uint64_t last);

// Of X, the first string, and the others: kDiff what is in X alone, kDiff1 what is in others and
// not in X, kAndOr what is in X and in another one. kOne: what is in exactly one of all.
enum class BitOperation : uint8_t { kAnd, kOr, kXor, kNot, kDiff, kDiff1, kAndOr, kOne };

constexpr bool SetsFirstApart(BitOperation operation) {
  return operation == BitOperation::kDiff || operation == BitOperation::kDiff1 ||
         operation == BitOperation::kAndOr;
}

// The result of an operation on strings, of which it takes one after another. Shorter ones count as
// padded with zeros; one that is absent is the empty one.
class BitCombiner {
 public:
  explicit BitCombiner(BitOperation operation) : operation_(operation) {}

  // REQUIRES: once only for kNot.
  void Add(std::string_view bytes);
  // X, whenever it comes. REQUIRES: SetsFirstApart.
  void AddFirst(std::string_view bytes) { first_.assign(bytes); }
  // Adds all that `other` has got, with the same operation. REQUIRES: not kNot.
  void Merge(const BitCombiner& other);
  // Once, at the end.
  std::string Finish();

 private:
  BitOperation operation_;
  bool is_first_ = true;
  std::string result_;  // of kOne, and of those that set X apart: what is in any of them
  std::string first_;   // X
  std::string more_;    // of kOne: what is in more than one
};

// --- Numbers of 1 to 64 bits, wherever they begin ---

struct BitFieldType {
  bool is_signed;
  uint32_t bits;  // 1 to 64
};

// What stands at bit `offset`; behind the end there are zeros. A negative number as int64_t has it.
uint64_t ReadBitField(std::string_view bytes, uint64_t offset, BitFieldType type);
// Writes the lowest `bits` of `number`. REQUIRES: the bytes exist.
void WriteBitField(char* bytes, uint64_t offset, uint32_t bits, uint64_t number);

enum class BitFieldOverflow : uint8_t { kWrap, kSaturate, kFail };

// number + by as the type has it; none if that does not fit, for kFail. For an unsigned type
// `number` counts as unsigned.
std::optional<uint64_t> AddToBitField(BitFieldType type, uint64_t number, int64_t by,
                                      BitFieldOverflow overflow);

}  // namespace dfly
