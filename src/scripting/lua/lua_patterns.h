// SPDX-License-Identifier: Apache-2.0
// Lua 5.1's patterns, as chapter 5.4.1 of its manual describes them, with its texts of errors.
// Inside this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <lua.hpp>

namespace dfly {

// One search. Counts its steps (lua_work.h): it gives way to others, and the script can be killed
// while it lasts. Raises errors of Lua, and holds no memory.
//
// Owner:    the C function that searches.
// Suspends: Match, as a tick does.
class PatternMatcher {
 public:
  // `pattern` ends at its first zero byte, as in Lua 5.1. Both must live as long as this.
  PatternMatcher(lua_State* lua, const char* text, size_t size)
      : lua_(lua), text_(text), end_(text + size) {}

  // Where a match of `pattern` that begins at `at` ends; null: there is none.
  const char* Match(const char* at, const char* pattern) {
    level_ = 0;
    depth_left_ = kDepthMax;
    return MatchHere(at, pattern);
  }

  // After a match from `begin` to `end`:
  // Pushes its captures; if there are none, the whole match, unless `only_captures`.
  int PushCaptures(const char* begin, const char* end, bool only_captures = false);
  // Pushes one of them; the first may also be the whole match.
  void PushCapture(int index, const char* begin, const char* end);

 private:
  static constexpr int kCapturesMax = 32;
  // Each item of a pattern may need one more call of MatchHere.
  static constexpr int kDepthMax = 200;
  // A step is a byte that is compared with one item of the pattern, 1 to 5 ns.
  static constexpr int kStepsOfPiece = 1024;
  static constexpr size_t kWorkOfPiece = kStepsOfPiece / 16;

  struct Capture {
    const char* begin;
    ptrdiff_t size;  // or one of these
  };
  static constexpr ptrdiff_t kUnfinished = -1;
  static constexpr ptrdiff_t kPosition = -2;

  void Step() {
    if (--steps_left_ == 0) [[unlikely]]
      EndPiece();
  }
  void Steps(ptrdiff_t count);
  void EndPiece();

  const char* MatchHere(const char* at, const char* pattern);
  // Of the pattern: behind the item that begins there.
  const char* EndOfItem(const char* item);
  bool MatchesOne(const char* at, const char* item, const char* after);
  // `last`: the closing bracket.
  bool IsInSet(int byte, const char* set, const char* last);
  const char* MatchBalance(const char* at, const char* item);
  ptrdiff_t CountMatches(const char* at, const char* item, const char* after);
  const char* MatchMost(const char* at, const char* item, const char* after, ptrdiff_t least);
  const char* MatchFewest(const char* at, const char* item, const char* after);
  const char* OpenCapture(const char* at, const char* pattern, ptrdiff_t size);
  const char* CloseCapture(const char* at, const char* pattern);
  const char* MatchCapture(const char* at, int digit);

  lua_State* const lua_;
  const char* const text_;
  const char* const end_;
  int steps_left_ = kStepsOfPiece;
  int depth_left_ = kDepthMax;
  int level_ = 0;  // captures that are open or done
  Capture captures_[kCapturesMax];
};

}  // namespace dfly
