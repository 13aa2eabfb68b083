// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua/lua_arrays.h"

#include <algorithm>

#include "scripting/lua/lua_layout.h"

namespace dfly {
namespace {

constexpr size_t kPlacesMin = 8;   // so that scripts with few items share a table
constexpr size_t kPlacesMax = 64;  // a larger one is only kept for as many items as it has places

void SetItems(lua_State* lua, int index, std::span<const std::string_view> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    lua_pushlstring(lua, items[i].data(), items[i].size());
    lua_rawseti(lua, index, static_cast<lua_Integer>(i) + 1);
  }
}

bool IsGoodFor(const LuaTable& table, size_t items) {
  if (!table.is_plain_array()) return false;
  const size_t places = table.array_places();
  return places == items || (items < places && places <= kPlacesMax);
}

}  // namespace

void PushStrings(lua_State* lua, std::span<const std::string_view> items) {
  lua_createtable(lua, static_cast<int>(items.size()), 0);
  SetItems(lua, lua_gettop(lua), items);
}

bool FillArray(lua_State* lua, int index, std::span<const std::string_view> items) {
  auto* const table = static_cast<LuaTable*>(const_cast<void*>(lua_topointer(lua, index)));
  const bool is_kept = IsGoodFor(*table, items.size());
  if (!is_kept) {
    lua_createtable(lua, static_cast<int>(std::max(items.size(), kPlacesMin)), 0);
    lua_replace(lua, index);
  } else {
    for (size_t i = items.size(); i < table->array_places(); ++i) table->array[i].type = LUA_TNIL;
  }
  SetItems(lua, index, items);
  return is_kept;
}

}  // namespace dfly
