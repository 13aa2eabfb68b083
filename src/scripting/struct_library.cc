// SPDX-License-Identifier: Apache-2.0
// `struct`: values in C's binary layout, as documented for Roberto Ierusalimschy's library.
//
//   > <       big, little endian from here on (at first little)
//   !n        alignment up to n bytes (without n: 8); at first there is none
//   x         a byte without meaning
//   b B h H l L T   integers of 1, 2, 8 and size_t's bytes; a capital letter is unsigned
//   in In     integers of n bytes (without n: 4)
//   f d       float, double
//   s         a string that ends with a zero byte
//   cn        a string of n bytes; c0: the whole string, or as many as the value before it says
//   blank     nothing
#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>

#include "scripting/libraries.h"
#include "scripting/lua/truncate.h"
#include "scripting/script_state.h"

namespace dfly {
namespace {

constexpr size_t kIntegerBytesMax = 32;
constexpr size_t kDefaultAlignment = 8;

// Reads a format, letter by letter. Holds no memory: Lua errors may pass through.
class FormatReader {
 public:
  FormatReader(lua_State* lua, const char* format) : lua_(lua), next_(format) {}

  // False at the end. Else letter() and size() tell about the next value. Blanks and options that
  // have no value are done here.
  bool Next() {
    for (;;) {
      letter_ = *next_;
      if (letter_ == '\0') return false;
      ++next_;
      switch (letter_) {
        case ' ':
          continue;
        case '>':
        case '<':
          is_big_ = letter_ == '>';
          continue;
        case '!':
          ReadAlignment();
          continue;
        default:
          ReadSize();
          return true;
      }
    }
  }

  char letter() const { return letter_; }
  size_t size() const { return size_; }
  bool is_big() const { return is_big_; }

  // Bytes to skip before the value, if `offset` bytes stand before it.
  size_t Padding(size_t offset) const {
    if (size_ == 0 || letter_ == 'c') return 0;
    const size_t to = std::min(size_, alignment_);
    return to > 1 ? (to - (offset & (to - 1))) & (to - 1) : 0;
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  size_t Number(size_t if_none) {
    if (!IsDigit(*next_)) return if_none;
    int number = 0;
    do {
      const int digit = *next_++ - '0';
      if (number > INT_MAX / 10 || number * 10 > INT_MAX - digit) {
        luaL_error(lua_, "integral size overflow");
      }
      number = number * 10 + digit;
    } while (IsDigit(*next_));
    return static_cast<size_t>(number);
  }

  void ReadAlignment() {
    alignment_ = Number(kDefaultAlignment);
    if (!std::has_single_bit(alignment_)) {
      luaL_error(lua_, "alignment %d is not a power of 2", static_cast<int>(alignment_));
    }
  }

  void ReadSize() {
    switch (letter_) {
      case 'x':
      case 'b':
      case 'B':
        size_ = 1;
        return;
      case 'h':
      case 'H':
        size_ = 2;
        return;
      case 'f':
        size_ = 4;
        return;
      case 'l':
      case 'L':
      case 'T':
      case 'd':
        size_ = 8;
        return;
      case 'i':
      case 'I':
        size_ = Number(4);
        if (size_ > kIntegerBytesMax) {
          luaL_error(lua_, "integral size %d is larger than limit of %d", static_cast<int>(size_),
                     static_cast<int>(kIntegerBytesMax));
        }
        return;
      case 'c':
        size_ = Number(1);
        return;
      case 's':
        size_ = 0;
        return;
      default:
        luaL_argerror(lua_, 1, lua_pushfstring(lua_, "invalid format option '%c'", letter_));
    }
  }

  lua_State* const lua_;
  const char* next_;
  char letter_ = 0;
  size_t size_ = 0;
  size_t alignment_ = 1;
  bool is_big_ = false;
};

void ReverseIf(bool is_big, char* bytes, size_t size) {
  if (is_big) std::reverse(bytes, bytes + size);
}

// Bytes past the 64th bit are 0, also of negative numbers.
void AddInteger(luaL_Buffer* out, lua_Integer value, const FormatReader& format) {
  char bytes[kIntegerBytesMax] = {};
  auto rest = static_cast<uint64_t>(value);
  for (size_t i = 0; i < format.size() && i < sizeof(rest); ++i) {
    bytes[i] = static_cast<char>(rest);
    rest >>= 8;
  }
  ReverseIf(format.is_big(), bytes, format.size());
  luaL_addlstring(out, bytes, format.size());
}

template <typename Float>
void AddFloat(luaL_Buffer* out, lua_Number value, const FormatReader& format) {
  const auto number = static_cast<Float>(value);
  char bytes[sizeof(Float)];
  std::memcpy(bytes, &number, sizeof(number));
  ReverseIf(format.is_big(), bytes, sizeof(bytes));
  luaL_addlstring(out, bytes, sizeof(bytes));
}

// A number above those of int64_t is meant for an unsigned one.
lua_Integer CheckPackable(lua_State* lua, int arg) {
  int is_integer;
  const lua_Integer integer = lua_tointegerx(lua, arg, &is_integer);
  if (is_integer) return integer;
  const lua_Number number = luaL_checknumber(lua, arg);
  if (number >= 9223372036854775808.0 && number < 18446744073709551616.0) {
    return static_cast<lua_Integer>(static_cast<uint64_t>(number));
  }
  return TruncateNumber(number);
}

int Pack(lua_State* lua) {
  FormatReader format(lua, luaL_checkstring(lua, 1));
  lua_pushnil(lua);  // a missing argument is a nil, not what the buffer leaves on the stack
  int arg = 2;
  size_t total = 0;
  luaL_Buffer out;
  luaL_buffinit(lua, &out);
  while (format.Next()) {
    size_t padding = format.Padding(total);
    total += padding + format.size();
    for (; padding > 0; --padding) luaL_addchar(&out, '\0');
    switch (format.letter()) {
      case 'x':
        luaL_addchar(&out, '\0');
        break;
      case 'f':
        AddFloat<float>(&out, luaL_checknumber(lua, arg++), format);
        break;
      case 'd':
        AddFloat<double>(&out, luaL_checknumber(lua, arg++), format);
        break;
      case 'c':
      case 's': {
        size_t size;
        const char* const bytes = luaL_checklstring(lua, arg++, &size);
        const size_t wanted = format.size() == 0 ? size : format.size();
        luaL_argcheck(lua, size >= wanted, arg, "string too short");
        luaL_addlstring(&out, bytes, wanted);
        if (format.size() == 0) total += wanted;
        if (format.letter() == 's') {
          luaL_addchar(&out, '\0');
          ++total;
        }
        break;
      }
      default:
        AddInteger(&out, CheckPackable(lua, arg++), format);
    }
  }
  luaL_pushresult(&out);
  return 1;
}

void PushInteger(lua_State* lua, const char* data, const FormatReader& format) {
  const size_t size = format.size();
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value = value << 8 | static_cast<uint8_t>(data[format.is_big() ? i : size - 1 - i]);
  }
  const bool is_signed = format.letter() >= 'a';
  if (is_signed && size > 0 && size < sizeof(value)) {
    const uint64_t sign = uint64_t{1} << (size * 8 - 1);
    value = (value ^ sign) - sign;
  }
  if (is_signed || value <= INT64_MAX) {
    lua_pushinteger(lua, static_cast<lua_Integer>(value));
  } else {
    lua_pushnumber(lua, static_cast<lua_Number>(value));
  }
}

template <typename Float>
void PushFloat(lua_State* lua, const char* data, const FormatReader& format) {
  char bytes[sizeof(Float)];
  std::memcpy(bytes, data, sizeof(bytes));
  ReverseIf(format.is_big(), bytes, sizeof(bytes));
  Float number;
  std::memcpy(&number, bytes, sizeof(number));
  lua_pushnumber(lua, static_cast<lua_Number>(number));
}

int Unpack(lua_State* lua) {
  FormatReader format(lua, luaL_checkstring(lua, 1));
  size_t total;
  const char* const data = luaL_checklstring(lua, 2, &total);
  const lua_Integer first = luaL_optinteger(lua, 3, 1);
  luaL_argcheck(lua, first >= 1, 3, "offset must be 1 or greater");
  auto at = static_cast<size_t>(first) - 1;
  int results = 0;
  const auto has = [&at, total](size_t size) { return size <= total && at <= total - size; };
  lua_settop(lua, 3);
  while (format.Next()) {
    size_t size = format.size();
    at += format.Padding(at);
    luaL_argcheck(lua, has(size), 2, "data string too short");
    luaL_checkstack(lua, 3, "too many results");
    switch (format.letter()) {
      case 'x':
        break;
      case 'f':
        PushFloat<float>(lua, data + at, format);
        ++results;
        break;
      case 'd':
        PushFloat<double>(lua, data + at, format);
        ++results;
        break;
      case 'c':
        if (size == 0) {
          if (results == 0 || !lua_isnumber(lua, -1)) {
            luaL_error(lua, "format 'c0' needs a previous size");
          }
          const auto wanted = static_cast<uint64_t>(TruncateNumber(lua_tonumber(lua, -1)));
          lua_pop(lua, 1);
          --results;
          luaL_argcheck(lua, has(wanted), 2, "data string too short");
          size = wanted;
        }
        lua_pushlstring(lua, data + at, size);
        ++results;
        break;
      case 's': {
        const void* const end = std::memchr(data + at, '\0', total - at);
        if (end == nullptr) luaL_error(lua, "unfinished string in data");
        size = static_cast<size_t>(static_cast<const char*>(end) - (data + at));
        lua_pushlstring(lua, data + at, size);
        ++size;
        ++results;
        break;
      }
      default:
        PushInteger(lua, data + at, format);
        ++results;
    }
    at += size;
  }
  lua_pushinteger(lua, static_cast<lua_Integer>(at) + 1);
  return results + 1;
}

int Size(lua_State* lua) {
  FormatReader format(lua, luaL_checkstring(lua, 1));
  size_t total = 0;
  while (format.Next()) {
    if (format.letter() == 's' || (format.letter() == 'c' && format.size() == 0)) {
      luaL_argerror(lua, 1,
                    format.letter() == 's' ? "option 's' has no fixed size"
                                           : "option 'c0' has no fixed size");
    }
    total += format.Padding(total) + format.size();
  }
  lua_pushinteger(lua, static_cast<lua_Integer>(total));
  return 1;
}

constexpr luaL_Reg kStruct[] = {
    {"pack", Pack}, {"unpack", Unpack}, {"size", Size}, {nullptr, nullptr}};

}  // namespace

int OpenStruct(lua_State* lua) {
  luaL_newlib(lua, kStruct);
  return 1;
}

}  // namespace dfly
