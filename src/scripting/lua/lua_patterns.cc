// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua/lua_patterns.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "scripting/lua/lua_work.h"

namespace dfly {
namespace {

constexpr char kEscape = '%';

// %a and its like, of the "C" locale: which of them each byte is in.
constexpr std::string_view kClasses = "acdlpsuwxz";

constexpr bool IsOfClass(int byte, char letter) {
  const auto is_between = [byte](int first, int last) { return byte >= first && byte <= last; };
  const bool is_upper = is_between('A', 'Z');
  const bool is_lower = is_between('a', 'z');
  const bool is_digit = is_between('0', '9');
  switch (letter) {
    case 'a':
      return is_upper || is_lower;
    case 'c':
      return byte < ' ' || byte == 0x7F;
    case 'd':
      return is_digit;
    case 'l':
      return is_lower;
    case 'p':
      return is_between('!', '~') && !is_upper && !is_lower && !is_digit;
    case 's':
      return byte == ' ' || is_between('\t', '\r');
    case 'u':
      return is_upper;
    case 'w':
      return is_upper || is_lower || is_digit;
    case 'x':
      return is_digit || is_between('A', 'F') || is_between('a', 'f');
    default:
      return byte == 0;  // 'z'
  }
}

struct ClassTable {
  uint16_t of_byte[256] = {};
  // 0: the letter is itself.
  uint16_t of_letter[256] = {};

  constexpr ClassTable() {
    for (size_t i = 0; i < kClasses.size(); ++i) {
      const auto bit = static_cast<uint16_t>(1U << i);
      const char letter = kClasses[i];
      of_letter[static_cast<size_t>(letter)] = bit;
      of_letter[static_cast<size_t>(letter - 'a' + 'A')] = bit;
      for (int byte = 0; byte < 256; ++byte) {
        if (IsOfClass(byte, letter)) of_byte[byte] |= bit;
      }
    }
  }
};
constexpr ClassTable kClassTable;

// And not all others, as %A is.
constexpr bool IsClassItself(int letter) {
  constexpr int kLowerCase = 0x20;
  return (letter & kLowerCase) != 0;
}

inline bool IsInClass(int byte, int letter) {
  const unsigned bit = kClassTable.of_letter[letter];
  if (bit == 0) return letter == byte;
  return ((kClassTable.of_byte[byte] & bit) != 0) == IsClassItself(letter);
}

int ByteAt(const char* at) { return static_cast<unsigned char>(*at); }

bool IsListed(int byte, const char* set, const char* last) {
  const char* at = set + 1;
  const bool if_found = *at != '^';
  if (!if_found) ++at;
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
  Steps(last - set);
  return IsListed(byte, set, last);
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

// How many bytes from there on the item matches.
ptrdiff_t PatternMatcher::CountMatches(const char* at, const char* item, const char* after) {
  // `steps`: for each byte.
  const auto count = [this, at](auto matches, ptrdiff_t steps = 1) {
    const ptrdiff_t piece_max = std::max<ptrdiff_t>(1, kStepsOfPiece / steps);
    const char* next = at;
    for (;;) {
      const char* const begin = next;
      const char* const piece = end_ - next > piece_max ? next + piece_max : end_;
      while (next < piece && matches(ByteAt(next))) ++next;
      Steps((next - begin) * steps);
      if (next < piece || next == end_) return next - at;
    }
  };
  switch (*item) {
    case '.':
      return end_ - at;
    case kEscape: {
      const int letter = ByteAt(item + 1);
      const unsigned bit = kClassTable.of_letter[letter];
      if (bit == 0) return count([letter](int byte) { return byte == letter; });
      if (IsClassItself(letter)) {
        return count([bit](int byte) { return (kClassTable.of_byte[byte] & bit) != 0; });
      }
      return count([bit](int byte) { return (kClassTable.of_byte[byte] & bit) == 0; });
    }
    case '[': {
      const ptrdiff_t size = after - item;
      if (size == 4 && item[1] == '^') {  // one byte, as in "[^,]"
        return count([other = ByteAt(item + 2)](int byte) { return byte != other; });
      }
      Steps(size);  // of the byte that ends it
      return count([=](int byte) { return IsListed(byte, item, after - 1); }, size);
    }
    default:
      return count([only = ByteAt(item)](int byte) { return byte == only; });
  }
}

// Of the item that `at` matches, as many as there are, and then the rest of the pattern. `least`:
// at least so many.
const char* PatternMatcher::MatchMost(const char* at, const char* item, const char* after,
                                      ptrdiff_t least) {
  for (ptrdiff_t count = 1 + CountMatches(at + 1, item, after); count >= least; --count) {
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
        if (sign == '-') {
          result = MatchFewest(at, pattern, after);
          break;
        }
        if (at == end_ || !MatchesOne(at, pattern, after)) {
          if (sign != '*' && sign != '?') break;
          pattern = after + 1;
          continue;
        }
        if (sign == '*' || sign == '+') {
          result = MatchMost(at, pattern, after, sign == '+' ? 1 : 0);
          break;
        }
        if (sign == '?') {
          result = MatchHere(at + 1, after + 1);
          if (result != nullptr) break;
          pattern = after + 1;
          continue;
        }
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
