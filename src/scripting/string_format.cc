// SPDX-License-Identifier: Apache-2.0
// Lua 5.1's string.format: C's conversions of doubles and strings.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "scripting/lua/truncate.h"
#include "scripting/string_library.h"

namespace dfly {
namespace {

// Room for what one conversion makes: at most 309 digits, a point and 99 digits, or a string of 100
// bytes.
constexpr size_t kTextMax = 512;
// "%", 5 flags, 2 digits, ".", 2 digits, "ll", a letter, a zero.
constexpr size_t kConversionMax = 16;
// Longer strings go in as they are.
constexpr size_t kFormattedStringMax = 100;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Copies flags, width and precision behind the '%' of `conversion`. Returns where they end in
// `format`; `*end` is where they end in `conversion`.
const char* ReadModifiers(lua_State* lua, const char* format, char** end) {
  constexpr std::string_view kFlags("-+ #0");
  const auto copy = [&format, end] { *(*end)++ = *format++; };
  size_t flags = 0;
  while (*format != '\0' && kFlags.find(*format) != std::string_view::npos) {
    if (++flags > kFlags.size()) luaL_error(lua, "invalid format (repeated flags)");
    copy();
  }
  for (int i = 0; i < 2 && IsDigit(*format); ++i) copy();
  if (*format == '.') {
    copy();
    for (int i = 0; i < 2 && IsDigit(*format); ++i) copy();
  }
  if (IsDigit(*format)) luaL_error(lua, "invalid format (width or precision too long)");
  return format;
}

uint64_t Unsigned(double number) {
  constexpr double kSignedLimit = 9223372036854775808.0;
  if (number >= kSignedLimit && number < 2 * kSignedLimit) return static_cast<uint64_t>(number);
  return static_cast<uint64_t>(TruncateNumber(number));
}

void AddQuoted(lua_State* lua, luaL_Buffer* out, int arg) {
  size_t size;
  const char* const bytes = luaL_checklstring(lua, arg, &size);
  luaL_addchar(out, '"');
  for (const char c : std::string_view(bytes, size)) {
    if (c == '\r') {
      luaL_addstring(out, "\\r");
    } else if (c == '\0') {
      luaL_addstring(out, "\\000");
    } else {
      if (c == '"' || c == '\\' || c == '\n') luaL_addchar(out, '\\');
      luaL_addchar(out, c);
    }
  }
  luaL_addchar(out, '"');
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

// `conversion` begins with '%' and modifiers, up to `end`; `letter` is what follows them.
void AddConverted(lua_State* lua, luaL_Buffer* out, int arg, char* conversion, char* end,
                  char letter) {
  const auto finish = [&end, letter](std::string_view length) {
    end += length.copy(end, length.size());
    *end++ = letter;
    *end = '\0';
  };
  char text[kTextMax];
  switch (letter) {
    case 'c':
      finish("");
      std::snprintf(text, sizeof(text), conversion,
                    static_cast<int>(TruncateNumber(luaL_checknumber(lua, arg))));
      break;
    case 'd':
    case 'i':
      finish("ll");
      std::snprintf(text, sizeof(text), conversion,
                    static_cast<long long>(TruncateNumber(luaL_checknumber(lua, arg))));
      break;
    case 'o':
    case 'u':
    case 'x':
    case 'X':
      finish("ll");
      std::snprintf(text, sizeof(text), conversion,
                    static_cast<unsigned long long>(Unsigned(luaL_checknumber(lua, arg))));
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'g':
    case 'G':
      finish("");
      std::snprintf(text, sizeof(text), conversion, luaL_checknumber(lua, arg));
      break;
    case 'q':
      return AddQuoted(lua, out, arg);
    case 's': {
      size_t size;
      const char* const bytes = luaL_checklstring(lua, arg, &size);
      finish("");
      if (size >= kFormattedStringMax && std::strchr(conversion, '.') == nullptr) {
        lua_pushvalue(lua, arg);
        return luaL_addvalue(out);
      }
      std::snprintf(text, sizeof(text), conversion, bytes);
      break;
    }
    default:
      luaL_error(lua, "invalid option '%%%c' to 'format'", letter);
      return;
  }
  luaL_addstring(out, text);
}

#pragma GCC diagnostic pop

}  // namespace

int FormatString(lua_State* lua) {
  const int count = lua_gettop(lua);
  size_t size;
  const char* at = luaL_checklstring(lua, 1, &size);
  const char* const end = at + size;
  int arg = 1;
  luaL_Buffer out;
  luaL_buffinit(lua, &out);
  while (at < end) {
    if (*at != '%') {
      luaL_addchar(&out, *at++);
      continue;
    }
    if (*++at == '%') {
      luaL_addchar(&out, *at++);
      continue;
    }
    if (++arg > count) luaL_argerror(lua, arg, "no value");
    char conversion[kConversionMax] = "%";
    char* conversion_end = conversion + 1;
    at = ReadModifiers(lua, at, &conversion_end);
    AddConverted(lua, &out, arg, conversion, conversion_end, *at);
    ++at;
  }
  luaL_pushresult(&out);
  return 1;
}

}  // namespace dfly
