// SPDX-License-Identifier: Apache-2.0
// Dynamic programming over prefixes: L(i, j), the length for the first i bytes of `a` and the first
// j of `b`, is L(i-1, j-1) + 1 if both end with the same byte, else the larger of L(i-1, j) and
// L(i, j-1). A length needs one row of L. The way back from (a.size(), b.size()) needs to know only
// which of the three each L(i, j) was made of, so that is what is kept, in two bits.
#include "core/text/common_subsequence.h"

#include <algorithm>
#include <cstdint>

namespace dfly {
namespace {

enum Step : uint8_t { kBoth, kOfA, kOfB };  // which string gets shorter

// Calls note(i, j, step) for i in [1, a.size()], j in [1, b.size()]; returns L at the end.
template <typename Note>
size_t Walk(std::string_view a, std::string_view b, Note note) {
  std::vector<uint32_t> row(b.size() + 1);  // L(i, j) up to the present j, L(i-1, j) behind it
  for (size_t i = 1; i <= a.size(); ++i) {
    uint32_t diagonal = 0;  // L(i-1, j-1)
    for (size_t j = 1; j <= b.size(); ++j) {
      const uint32_t above = row[j];
      if (a[i - 1] == b[j - 1]) {
        row[j] = diagonal + 1;
        note(i, j, kBoth);
      } else {
        const bool is_of_a = above > row[j - 1];
        row[j] = std::max(above, row[j - 1]);
        note(i, j, is_of_a ? kOfA : kOfB);
      }
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

size_t CommonSubsequenceLength(std::string_view a, std::string_view b) {
  return Walk(a, b, [](size_t, size_t, Step) {});
}

CommonSubsequence FindCommonSubsequence(std::string_view a, std::string_view b) {
  std::vector<uint8_t> steps((a.size() * b.size() + 3) / 4);
  const auto cell = [&b](size_t i, size_t j) { return (i - 1) * b.size() + j - 1; };
  CommonSubsequence found;
  size_t left = Walk(a, b, [&](size_t i, size_t j, Step step) {
    const size_t at = cell(i, j);
    steps[at / 4] = static_cast<uint8_t>(steps[at / 4] | step << at % 4 * 2);
  });
  found.text.resize(left);
  bool is_in_run = false;
  for (size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
    const size_t at = cell(i, j);
    const auto step = static_cast<Step>(steps[at / 4] >> at % 4 * 2 & 3);
    if (step == kBoth) {
      found.text[--left] = a[--i];
      --j;
      if (is_in_run) {
        CommonRun& run = found.runs.back();
        --run.a_begin;
        --run.b_begin;
        ++run.size;
      } else {
        found.runs.push_back({i, j, 1});
      }
    } else {
      --(step == kOfA ? i : j);
    }
    is_in_run = step == kBoth;
  }
  return found;
}

}  // namespace dfly
