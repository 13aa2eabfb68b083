// SPDX-License-Identifier: Apache-2.0
// Counting distinct elements in little memory: HyperLogLog (Flajolet et al., 2007) with the
// estimator of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017),
// in the bytes that Redis keeps in a string.
//
//   "HYLL"  encoding (1)  unused (3)  cached count (8)  registers
//
// An element's hash chooses one of 16384 registers by its lowest 14 bits, and the register keeps
// the largest number of zeros, plus one, that any of its elements had at the low end of the 50 bits
// above them. The count is cached, lowest byte first; its highest bit says that it is stale.
//
//   dense   6 bits for each register, the lowest ones first
//   sparse  runs of registers:
//             00nnnnnn            n + 1 registers are 0
//             01nnnnnn nnnnnnnn   n + 1 registers are 0
//             1vvvvvnn            n + 1 registers are v + 1
//
// The bytes come from clients as well (SET), so nothing in them is trusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

class HyperLogLog {
 public:
  static constexpr size_t kRegisters = 1 << 14;
  static constexpr size_t kHeaderBytes = 16;
  static constexpr size_t kDenseBytes = kHeaderBytes + kRegisters * 6 / 8;

  using Registers = std::array<uint8_t, kRegisters>;

  // Where an element counts, and how much.
  struct Mark {
    uint32_t index;
    uint8_t value;  // 1 to 51
  };
  static Mark MarkOf(std::string_view element);

  // The count that registers mean.
  static uint64_t Estimate(const Registers& registers);

  // The header is right, and the size of a dense one. The runs of a sparse one may still be wrong.
  static bool IsValid(std::string_view bytes);

  // --- Of bytes that are valid ---

  static bool IsDense(std::string_view bytes) { return bytes[4] == 0; }
  static std::optional<uint64_t> CachedCount(std::string_view bytes);  // none: stale
  static void CacheCount(std::span<char> bytes, uint64_t count);
  // Raises each of `registers` to what it is here. False: the runs make no sense.
  static bool Merge(std::string_view bytes, Registers* registers);
  // Raises a register of a dense one. True if it was lower.
  static bool RaiseDense(std::span<char> bytes, Mark mark);
  static void MakeStale(std::span<char> bytes);
  enum class Result : uint8_t { kUnchanged, kRaised, kCorrupt };
  // What Raise of a sparse one would come to, as far as it can be seen beforehand.
  static Result TestSparse(std::string_view bytes, Mark mark);

  // "z:2 Z:16000 v:1,3": the runs of a sparse one. None: they make no sense.
  static std::optional<std::string> DescribeRuns(std::string_view bytes);

  // --- One that is being changed: a copy of what is stored, or a new one ---

  HyperLogLog();                                                   // empty, sparse
  explicit HyperLogLog(std::string_view bytes) : bytes_(bytes) {}  // REQUIRES: IsValid

  // Raises a register. A sparse one that would have more than `sparse_max` bytes, header included,
  // becomes dense. kCorrupt: the runs make no sense; some may have been changed before that showed.
  Result Raise(Mark mark, size_t sparse_max);
  // False: the runs make no sense.
  bool MakeDense();

  const std::string& bytes() const { return bytes_; }
  std::span<char> writable() { return bytes_; }

 private:
  Result RaiseSparse(Mark mark, size_t sparse_max);
  Result Promote(Mark mark);
  // Puts neighbouring runs of the same value together, of the few from `at` on.
  void JoinRuns(size_t at);

  std::string bytes_;
};

}  // namespace dfly
