// SPDX-License-Identifier: Apache-2.0
// The longest common subsequence of two strings, as LCS wants it: its length, its bytes, and the
// runs of bytes in which it stands in both strings without a gap.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

// a.substr(a_begin, size) == b.substr(b_begin, size)
struct CommonRun {
  size_t a_begin;
  size_t b_begin;
  size_t size;
};

// Two strings may have many of these; this is the one that Redis finds, the last one in `b` first.
// Pure. Cost: O(a.size() * b.size()) time, two bits of memory for each pair of bytes.
struct CommonSubsequence {
  std::string text;
  std::vector<CommonRun> runs;  // from the end of the strings to their beginning
};
CommonSubsequence FindCommonSubsequence(std::string_view a, std::string_view b);

// Only its length: O(b.size()) memory.
size_t CommonSubsequenceLength(std::string_view a, std::string_view b);

}  // namespace dfly
