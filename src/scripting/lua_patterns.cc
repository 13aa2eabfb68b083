// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua_patterns.h"

#include <cctype>
#include <cstring>

#include "scripting/lua_work.h"

namespace dfly {
namespace {

constexpr char kEscape = '%';

// %a and its like; any other letter is itself.
bool IsInClass(int byte, int letter) {
  bool is_in;
  switch (std::tolower(letter)) {
    case 'a':
      is_in = std::isalpha(byte);
      break;
    case 'c':
      is_in = std::iscntrl(byte);
      break;
    case 'd':
      is_in = std::isdigit(byte);
      break;
    case 'l':
      is_in = std::islower(byte);
      break;
    case 'p':
      is_in = std::ispunct(byte);
      break;
    case 's':
      is_in = std::isspace(byte);
      break;
    case 'u':
      is_in = std::isupper(byte);
      break;
    case 'w':
      is_in = std::isalnum(byte);
      break;
    case 'x':
      is_in = std::isxdigit(byte);
      break;
    case 'z':
      is_in = byte == 0;
      break;
    default:
      return letter == byte;
  }
  return is_in == (std::islower(letter) != 0);
}

int ByteAt(const char* at) { return static_cast<unsigned char>(*at); }

}  // namespace

void PatternMatcher::EndPiece() {
  steps_left_ = kStepsOfPiece;
  DoWork(lua_, kWorkOfPiece);
}

void PatternMatcher::Steps(ptrdiff_t count) {
  if (count < steps_left_) {
    steps_left_ -= static_cast<int>(count);
    return;
  }
  steps_left_ = kStepsOfPiece;
  DoWork(lua_, static_cast<size_t>(count) / 16 + kWorkOfPiece);
}

const char* PatternMatcher::EndOfItem(const char* item) {
  const char* next = item + 1;
  if (*item == kEscape) {
    if (*next == '\0') luaL_error(lua_, "malformed pattern (ends with '%%')");
    return next + 1;
  }
  if (*item != '[') return next;
  if (*next == '^') ++next;
  do {  // a ']' that comes first belongs to the set
    if (*next == '\0') luaL_error(lua_, "malformed pattern (missing ']')");
    if (*next++ == kEscape && *next != '\0') ++next;
  } while (*next != ']');
  Steps(next - item);
  return next + 1;
}

bool PatternMatcher::IsInSet(int byte, const char* set, const char* last) {
  bool if_found = true;
  const char* at = set + 1;
  if (*at == '^') {
    if_found = false;
    ++at;
  }
  Steps(last - set);
  for (; at < last; ++at) {
    if (*at == kEscape) {
      ++at;
      if (IsInClass(byte, ByteAt(at))) return if_found;
    } else if (at[1] == '-' && at + 2 < last) {
      if (ByteAt(at) <= byte && byte <= ByteAt(at + 2)) return if_found;
      at += 2;
    } else if (ByteAt(at) == byte) {
      return if_found;
    }
  }
  return !if_found;
}

inline bool PatternMatcher::MatchesOne(const char* at, const char* item, const char* after) {
  Step();
  const int byte = ByteAt(at);
  switch (*item) {
    case '.':
      return true;
    case kEscape:
      return IsInClass(byte, ByteAt(item + 1));
    case '[':
      return IsInSet(byte, item, after - 1);
    default:
      return ByteAt(item) == byte;
  }
}

const char* PatternMatcher::MatchBalance(const char* at, const char* item) {
  if (item[0] == '\0' || item[1] == '\0') luaL_error(lua_, "unbalanced pattern");
  if (at == end_ || *at != item[0]) return nullptr;
  ptrdiff_t open = 1;
  for (const char* next = at + 1; next < end_; ++next) {
    Step();
    if (*next == item[1]) {
      if (--open == 0) return next + 1;
    } else if (*next == item[0]) {
      ++open;
    }
  }
  return nullptr;
}

const char* PatternMatcher::MatchMost(const char* at, const char* item, const char* after) {
  ptrdiff_t count = 0;
  while (at + count < end_ && MatchesOne(at + count, item, after)) ++count;
  for (; count >= 0; --count) {
    Step();
    if (const char* const end = MatchHere(at + count, after + 1)) return end;
  }
  return nullptr;
}

const char* PatternMatcher::MatchFewest(const char* at, const char* item, const char* after) {
  for (;; ++at) {
    if (const char* const end = MatchHere(at, after + 1)) return end;
    if (at == end_ || !MatchesOne(at, item, after)) return nullptr;
  }
}

const char* PatternMatcher::OpenCapture(const char* at, const char* pattern, ptrdiff_t size) {
  if (level_ >= kCapturesMax) luaL_error(lua_, "too many captures");
  captures_[level_++] = {at, size};
  const char* const end = MatchHere(at, pattern);
  if (end == nullptr) --level_;
  return end;
}

const char* PatternMatcher::CloseCapture(const char* at, const char* pattern) {
  int index = level_ - 1;
  while (index >= 0 && captures_[index].size != kUnfinished) --index;
  if (index < 0) luaL_error(lua_, "invalid pattern capture");
  captures_[index].size = at - captures_[index].begin;
  const char* const end = MatchHere(at, pattern);
  if (end == nullptr) captures_[index].size = kUnfinished;
  return end;
}

const char* PatternMatcher::MatchCapture(const char* at, int digit) {
  const int index = digit - '1';
  if (index < 0 || index >= level_ || captures_[index].size == kUnfinished) {
    luaL_error(lua_, "invalid capture index");
  }
  const Capture& capture = captures_[index];
  // A position is never found again: as a size it is larger than any.
  const auto size = static_cast<size_t>(capture.size);
  if (static_cast<size_t>(end_ - at) < size) return nullptr;
  Steps(static_cast<ptrdiff_t>(size / 8));
  return std::memcmp(capture.begin, at, size) == 0 ? at + size : nullptr;
}

// One byte that the item matches, as often as what stands behind it says. Null: none; `after` is
// where the rest of the pattern begins only if there is no such sign.
const char* PatternMatcher::MatchItem(const char* at, const char* item, const char* after) {
  switch (*after) {
    case '?':
      if (at < end_ && MatchesOne(at, item, after)) {
        if (const char* const end = MatchHere(at + 1, after + 1)) return end;
      }
      return MatchHere(at, after + 1);
    case '*':
      return MatchMost(at, item, after);
    case '+':
      return at < end_ && MatchesOne(at, item, after) ? MatchMost(at + 1, item, after) : nullptr;
    default:
      return MatchFewest(at, item, after);
  }
}

const char* PatternMatcher::MatchHere(const char* at, const char* pattern) {
  if (depth_left_-- == 0) luaL_error(lua_, "pattern too complex");
  const char* result = nullptr;
  for (;;) {
    switch (*pattern) {
      case '\0':
        result = at;
        break;
      case '(':
        result = pattern[1] == ')' ? OpenCapture(at, pattern + 2, kPosition)
                                   : OpenCapture(at, pattern + 1, kUnfinished);
        break;
      case ')':
        result = CloseCapture(at, pattern + 1);
        break;
      case '$':
        if (pattern[1] == '\0') {
          result = at == end_ ? at : nullptr;
          break;
        }
        goto item;
      case kEscape:
        if (pattern[1] == 'b') {
          at = MatchBalance(at, pattern + 2);
          if (at == nullptr) break;
          pattern += 4;
          continue;
        }
        if (pattern[1] == 'f') {
          pattern += 2;
          if (*pattern != '[') luaL_error(lua_, "missing '[' after '%%f' in pattern");
          const char* const after = EndOfItem(pattern);
          const int before = at == text_ ? 0 : ByteAt(at - 1);
          // Behind its end a string of Lua has a zero byte.
          if (IsInSet(before, pattern, after - 1) || !IsInSet(ByteAt(at), pattern, after - 1)) {
            break;
          }
          pattern = after;
          continue;
        }
        if (std::isdigit(ByteAt(pattern + 1))) {
          at = MatchCapture(at, ByteAt(pattern + 1));
          if (at == nullptr) break;
          pattern += 2;
          continue;
        }
        goto item;
      default:
      item : {
        const char* const after = EndOfItem(pattern);
        const char sign = *after;
        if (sign == '?' || sign == '*' || sign == '+' || sign == '-') {
          result = MatchItem(at, pattern, after);
          break;
        }
        if (at == end_ || !MatchesOne(at, pattern, after)) break;
        ++at;
        pattern = after;
        continue;
      }
    }
    ++depth_left_;
    return result;
  }
}

void PatternMatcher::PushCapture(int index, const char* begin, const char* end) {
  if (index >= level_) {
    if (index != 0) luaL_error(lua_, "invalid capture index");
    lua_pushlstring(lua_, begin, static_cast<size_t>(end - begin));
    return;
  }
  const Capture& capture = captures_[index];
  if (capture.size == kUnfinished) luaL_error(lua_, "unfinished capture");
  if (capture.size == kPosition) {
    lua_pushinteger(lua_, capture.begin - text_ + 1);
  } else {
    lua_pushlstring(lua_, capture.begin, static_cast<size_t>(capture.size));
  }
}

int PatternMatcher::PushCaptures(const char* begin, const char* end, bool only_captures) {
  const int count = level_ == 0 && !only_captures ? 1 : level_;
  // A C function has room for some.
  if (count > LUA_MINSTACK / 2) luaL_checkstack(lua_, count, "too many captures");
  for (int i = 0; i < count; ++i) PushCapture(i, begin, end);
  return count;
}

}  // namespace dfly
