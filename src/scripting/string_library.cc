// SPDX-License-Identifier: Apache-2.0
// Those functions of Lua 5.1's `string` whose work may be large: they count it (lua_work.h).
#include "scripting/string_library.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "helio/base/ascii.h"
#include "scripting/lua/lua_patterns.h"
#include "scripting/lua/lua_work.h"

namespace dfly {
namespace {

struct Bytes {
  const char* data;
  size_t size;
  const char* end() const { return data + size; }
};

Bytes CheckBytes(lua_State* lua, int arg) {
  Bytes bytes;
  bytes.data = luaL_checklstring(lua, arg, &bytes.size);
  return bytes;
}

// string.rep(text, count). As in 5.1 there is no separator.
int Rep(lua_State* lua) {
  const Bytes text = CheckBytes(lua, 1);
  const lua_Integer count = luaL_checkinteger(lua, 2);
  if (count <= 0 || text.size == 0) {
    lua_pushliteral(lua, "");
    return 1;
  }
  const auto times = static_cast<size_t>(count);
  if (times > SIZE_MAX / 2 / text.size) return luaL_error(lua, "resulting string too large");
  const size_t total = times * text.size;
  luaL_Buffer buffer;
  char* const out = luaL_buffinitsize(lua, &buffer, total);
  // What is there is copied behind itself.
  std::memcpy(out, text.data, text.size);
  const size_t piece_max = std::max(text.size, kWorkPiece / text.size * text.size);
  for (size_t done = text.size; done < total;) {
    const size_t piece = std::min({done, total - done, piece_max});
    std::memcpy(out + done, out, piece);
    done += piece;
    DoWork(lua, 1 + piece / kBytesOfUnit);
  }
  luaL_pushresultsize(&buffer, total);
  return 1;
}

// Makes each byte another one, in pieces.
template <typename Change>
int ChangeBytes(lua_State* lua, Change change) {
  const Bytes text = CheckBytes(lua, 1);
  luaL_Buffer buffer;
  char* const out = luaL_buffinitsize(lua, &buffer, text.size);
  for (size_t done = 0; done < text.size;) {
    const size_t piece = std::min(text.size - done, kWorkPiece);
    for (size_t i = done; i < done + piece; ++i) out[i] = change(text, i);
    done += piece;
    DoWork(lua, 1 + piece / kBytesOfUnit);
  }
  luaL_pushresultsize(&buffer, text.size);
  return 1;
}

char ByteOf(Bytes text, size_t i) { return text.data[i]; }

int Lower(lua_State* lua) {
  return ChangeBytes(lua, [](Bytes text, size_t i) { return helio::ToLower(ByteOf(text, i)); });
}

int Upper(lua_State* lua) {
  return ChangeBytes(lua, [](Bytes text, size_t i) { return helio::ToUpper(ByteOf(text, i)); });
}

int Reverse(lua_State* lua) {
  return ChangeBytes(lua, [](Bytes text, size_t i) { return ByteOf(text, text.size - 1 - i); });
}

// Where `what` begins in `text`, null if nowhere.
const char* FindBytes(lua_State* lua, Bytes text, Bytes what) {
  if (text.size < 1024 && what.size < 64) {
    const size_t at = std::string_view(text.data, text.size).find({what.data, what.size});
    return at == std::string_view::npos ? nullptr : text.data + at;
  }
  // memmem begins slower, and takes linear time for any bytes.
  const size_t piece_max = std::max(kWorkPiece, 4 * what.size);
  while (text.size > piece_max) {
    const void* const found = memmem(text.data, piece_max, what.data, what.size);
    if (found != nullptr) return static_cast<const char*>(found);
    const size_t done = piece_max - what.size + 1;
    text = {text.data + done, text.size - done};
    DoWork(lua, piece_max / kBytesOfUnit);
  }
  return static_cast<const char*>(memmem(text.data, text.size, what.data, what.size));
}

// The offset of the optional argument `arg`, a position that may count from the end.
size_t StartOffset(lua_State* lua, int arg, size_t size) {
  lua_Integer at = luaL_optinteger(lua, arg, 1);
  const auto length = static_cast<lua_Integer>(size);
  if (at < 0) at = at < -length ? 0 : at + length + 1;
  return at <= 1 ? 0 : std::min(static_cast<size_t>(at) - 1, size);
}

template <bool is_find>
int Search(lua_State* lua) {
  const Bytes text = CheckBytes(lua, 1);
  const Bytes pattern = CheckBytes(lua, 2);
  const char* at = text.data + StartOffset(lua, 3, text.size);
  if (is_find && (lua_toboolean(lua, 4) || std::strpbrk(pattern.data, "^$*+?.([%-") == nullptr)) {
    const char* const found = FindBytes(lua, {at, static_cast<size_t>(text.end() - at)}, pattern);
    if (found != nullptr) {
      lua_pushinteger(lua, found - text.data + 1);
      lua_pushinteger(lua, found - text.data + static_cast<lua_Integer>(pattern.size));
      return 2;
    }
  } else {
    const bool is_anchored = *pattern.data == '^';
    PatternMatcher matcher(lua, text.data, text.size);
    do {
      const char* const end = matcher.Match(at, pattern.data + is_anchored);
      if (end == nullptr) continue;
      if (!is_find) return matcher.PushCaptures(at, end);
      lua_pushinteger(lua, at - text.data + 1);
      lua_pushinteger(lua, end - text.data);
      return matcher.PushCaptures(at, end, true) + 2;
    } while (at++ < text.end() && !is_anchored);
  }
  lua_pushnil(lua);
  return 1;
}

struct Matches {
  Bytes text;
  const char* pattern;
  const char* next;
};

// Upvalues: the text, the pattern, Matches. As in 5.1, an empty match may follow any other one at
// once, and '^' has no meaning.
int NextMatch(lua_State* lua) {
  auto* const matches = static_cast<Matches*>(lua_touserdata(lua, lua_upvalueindex(3)));
  const Bytes text = matches->text;
  PatternMatcher matcher(lua, text.data, text.size);
  for (const char* at = matches->next; at <= text.end(); ++at) {
    const char* const end = matcher.Match(at, matches->pattern);
    if (end == nullptr) continue;
    matches->next = end + (end == at);
    return matcher.PushCaptures(at, end);
  }
  return 0;
}

int Gmatch(lua_State* lua) {
  const Bytes text = CheckBytes(lua, 1);
  const char* const pattern = luaL_checkstring(lua, 2);
  lua_settop(lua, 2);
  auto* const matches = static_cast<Matches*>(lua_newuserdatauv(lua, sizeof(Matches), 0));
  *matches = {.text = text, .pattern = pattern, .next = text.data};
  lua_pushcclosure(lua, NextMatch, 3);
  return 1;
}

// In a replacement "%1" is a capture, "%0" the whole match, and "%" before anything else just goes.
void AddReplacement(lua_State* lua, luaL_Buffer* out, PatternMatcher* matcher, const char* begin,
                    const char* end) {
  Bytes text;
  text.data = lua_tolstring(lua, 3, &text.size);
  for (size_t i = 0; i < text.size; ++i) {
    const auto* const escape =
        static_cast<const char*>(std::memchr(text.data + i, '%', text.size - i));
    const size_t plain = escape == nullptr ? text.size : static_cast<size_t>(escape - text.data);
    luaL_addlstring(out, text.data + i, plain - i);
    if (escape == nullptr) return;
    i = plain + 1;  // at the end of the text there is a zero byte
    if (std::isdigit(static_cast<unsigned char>(text.data[i])) == 0) {
      luaL_addchar(out, text.data[i]);
    } else if (text.data[i] == '0') {
      luaL_addlstring(out, begin, static_cast<size_t>(end - begin));
    } else {
      matcher->PushCapture(text.data[i] - '1', begin, end);
      luaL_addvalue(out);
    }
  }
}

// What a match becomes.
void AddValue(lua_State* lua, luaL_Buffer* out, PatternMatcher* matcher, const char* begin,
              const char* end) {
  switch (lua_type(lua, 3)) {
    case LUA_TFUNCTION: {
      lua_pushvalue(lua, 3);
      const int count = matcher->PushCaptures(begin, end);
      lua_call(lua, count, 1);
      break;
    }
    case LUA_TTABLE:
      matcher->PushCapture(0, begin, end);
      lua_gettable(lua, 3);
      break;
    default:
      return AddReplacement(lua, out, matcher, begin, end);
  }
  if (!lua_toboolean(lua, -1)) {
    lua_pop(lua, 1);
    luaL_addlstring(out, begin, static_cast<size_t>(end - begin));
    return;
  }
  if (!lua_isstring(lua, -1)) {
    luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
  }
  luaL_addvalue(out);
}

int Gsub(lua_State* lua) {
  const Bytes text = CheckBytes(lua, 1);
  const char* pattern = luaL_checkstring(lua, 2);
  const int type = lua_type(lua, 3);
  luaL_argcheck(
      lua,
      type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
      "string/function/table expected");
  const lua_Integer count_max = luaL_optinteger(lua, 4, static_cast<lua_Integer>(text.size) + 1);
  const bool is_anchored = *pattern == '^';
  pattern += is_anchored;
  lua_settop(lua, 3);
  const char* at = text.data;
  lua_Integer count = 0;
  PatternMatcher matcher(lua, text.data, text.size);
  luaL_Buffer out;
  luaL_buffinit(lua, &out);
  while (count < count_max) {
    const char* const end = matcher.Match(at, pattern);
    if (end != nullptr) {
      ++count;
      AddValue(lua, &out, &matcher, at, end);
      DoWork(lua);
    }
    if (end != nullptr && end > at) {
      at = end;
    } else if (at < text.end()) {
      luaL_addchar(&out, *at++);
    } else {
      break;
    }
    if (is_anchored) break;
  }
  luaL_addlstring(&out, at, static_cast<size_t>(text.end() - at));
  luaL_pushresult(&out);
  lua_pushinteger(lua, count);
  return 2;
}

}  // namespace

const luaL_Reg kStringFunctions[] = {
    {"rep", Rep},      {"reverse", Reverse},   {"lower", Lower},         {"upper", Upper},
    {"gsub", Gsub},    {"find", Search<true>}, {"match", Search<false>}, {"gmatch", Gmatch},
    {"gfind", Gmatch}, {nullptr, nullptr}};

}  // namespace dfly
