// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua_sink.h"

#include <algorithm>
#include <lua.hpp>

#include "core/text/numbers.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

// A header tells how many items follow, but a table is made no larger than this at once.
constexpr size_t kPreallocatedMax = 1 << 16;

}  // namespace

void LuaSink::Begin(lua_State* lua, bool resp3) {
  lua_ = lua;
  resp3_ = resp3;
  open_.clear();
  complete_ = failed_ = is_error_ = false;
}

// Each level of nesting needs a table, a key and a value; for the first one a C function has room.
bool LuaSink::Reserve() {
  DCHECK(!complete_) << "a second reply";
  if (open_.empty()) return true;
  if (!failed_ && lua_checkstack(lua_, 4) == 0) failed_ = true;
  return !failed_;
}

void LuaSink::Field(const char* name, std::string_view text) {
  lua_createtable(lua_, 0, 1);
  lua_pushlstring(lua_, text.data(), text.size());
  lua_setfield(lua_, -2, name);
}

void LuaSink::Place() {
  while (!open_.empty()) {
    Open& top = open_.back();
    switch (top.kind) {
      case Kind::kArray:
        lua_rawseti(lua_, -2, top.next_index++);
        break;
      case Kind::kMapKey:
        top.kind = Kind::kMapValue;  // the key stays where it is
        break;
      case Kind::kMapValue:
        top.kind = Kind::kMapKey;
        if (lua_isnil(lua_, -2)) {
          lua_pop(lua_, 2);
        } else {
          lua_rawset(lua_, -3);
        }
        break;
      case Kind::kSet:
        if (lua_isnil(lua_, -1)) {
          lua_pop(lua_, 1);
        } else {
          lua_pushboolean(lua_, 1);
          lua_rawset(lua_, -3);
        }
        break;
      case Kind::kSkipped:
        lua_pop(lua_, 1);
        break;
    }
    if (--top.left > 0) return;
    const Kind kind = top.kind;
    open_.pop_back();
    if (kind == Kind::kSkipped) return;  // what it tells about comes next
    if (kind == Kind::kMapKey) lua_setfield(lua_, -2, "map");
    if (kind == Kind::kSet) lua_setfield(lua_, -2, "set");
  }
  complete_ = true;
}

bool IsKnownError(lua_State* lua) {
  if (lua_type(lua, -1) != LUA_TTABLE) return false;
  lua_pushstring(lua, kKnownErrorField);
  lua_rawget(lua, -2);
  const bool is_known = lua_toboolean(lua, -1) != 0;
  lua_pop(lua, 1);
  return is_known;
}

void LuaSink::Status(std::string_view text) {
  if (!Reserve()) return;
  Field("ok", text);
  Place();
}

void LuaSink::Error(std::string_view message) {
  CountError(message);
  if (!Reserve()) return;
  lua_createtable(lua_, 0, 2);
  lua_pushlstring(lua_, message.data(), message.size());
  lua_setfield(lua_, -2, "err");
  lua_pushboolean(lua_, 1);
  lua_setfield(lua_, -2, kKnownErrorField);
  is_error_ = open_.empty();
  Place();
}

void LuaSink::Integer(int64_t value) {
  if (!Reserve()) return;
  lua_pushinteger(lua_, value);
  Place();
}

void LuaSink::Bulk(std::string_view bytes) {
  if (!Reserve()) return;
  lua_pushlstring(lua_, bytes.data(), bytes.size());
  Place();
}

void LuaSink::Null() {
  if (!Reserve()) return;
  if (resp3_) {
    lua_pushnil(lua_);
  } else {
    lua_pushboolean(lua_, 0);
  }
  Place();
}

void LuaSink::Double(double value) {
  if (!resp3_) {
    char text[kDoubleTextMax];
    return Bulk(FormatDouble(value, text));
  }
  if (!Reserve()) return;
  lua_createtable(lua_, 0, 1);
  lua_pushnumber(lua_, value);
  lua_setfield(lua_, -2, "double");
  Place();
}

void LuaSink::Decimal(std::string_view digits) {
  if (!resp3_) return Bulk(digits);
  if (!Reserve()) return;
  lua_createtable(lua_, 0, 1);
  // What is no double for ParseDouble is "nan", or too long to matter.
  lua_pushnumber(lua_, ParseDouble(digits).value_or(0.0 / 0.0));
  lua_setfield(lua_, -2, "double");
  Place();
}

void LuaSink::Bool(bool value) {
  if (!resp3_) return Integer(value ? 1 : 0);
  if (!Reserve()) return;
  lua_pushboolean(lua_, value);
  Place();
}

void LuaSink::BigNumber(std::string_view digits) {
  if (!resp3_) return Bulk(digits);
  if (!Reserve()) return;
  Field("big_number", digits);
  Place();
}

void LuaSink::Verbatim(std::string_view format, std::string_view text) {
  if (!resp3_) return Bulk(text);
  if (!Reserve()) return;
  lua_createtable(lua_, 0, 1);
  lua_createtable(lua_, 0, 2);
  lua_pushlstring(lua_, format.data(), format.size());
  lua_setfield(lua_, -2, "format");
  lua_pushlstring(lua_, text.data(), text.size());
  lua_setfield(lua_, -2, "string");
  lua_setfield(lua_, -2, "verbatim_string");
  Place();
}

void LuaSink::OpenTable(Kind kind, size_t items, size_t array, size_t pairs, const char* wrapper) {
  if (!Reserve()) return;
  if (wrapper != nullptr) lua_createtable(lua_, 0, 1);
  lua_createtable(lua_, static_cast<int>(std::min(array, kPreallocatedMax)),
                  static_cast<int>(std::min(pairs, kPreallocatedMax)));
  if (items > 0) {
    open_.push_back({.kind = kind, .left = items, .next_index = 1});
    return;
  }
  if (wrapper != nullptr) lua_setfield(lua_, -2, wrapper);
  Place();
}

void LuaSink::Array(size_t items) { OpenTable(Kind::kArray, items, items, 0, nullptr); }

void LuaSink::Map(size_t pairs) {
  if (!resp3_) return Array(2 * pairs);
  OpenTable(Kind::kMapKey, 2 * pairs, 0, pairs, "map");
}

void LuaSink::Set(size_t items) {
  if (!resp3_) return Array(items);
  OpenTable(Kind::kSet, items, 0, items, "set");
}

void LuaSink::Attribute(size_t pairs) {
  if (pairs == 0 || !Reserve()) return;
  open_.push_back({.kind = Kind::kSkipped, .left = 2 * pairs, .next_index = 0});
}

}  // namespace dfly
