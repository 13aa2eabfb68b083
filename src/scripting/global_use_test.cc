// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/global_use.h"

#include <gtest/gtest.h>

#include <string>

#include "scripting/script_state.h"

namespace dfly {
namespace {

class GlobalUseTest : public testing::Test {
 protected:
  GlobalUseTest() {
    *static_cast<ScriptState**>(lua_getextraspace(lua_)) = &state_;
    state_.memory_max = 64 << 20;
  }
  ~GlobalUseTest() override { lua_close(lua_); }

  GlobalUse UseOf(const std::string& source) {
    EXPECT_EQ(luaL_loadstring(lua_, source.c_str()), LUA_OK) << source;
    const GlobalUse use = GlobalUseOf(lua_);
    lua_settop(lua_, 0);
    return use;
  }
  bool MayChange(const std::string& source) { return UseOf(source) == GlobalUse::kAny; }

  ScriptState state_;
  lua_State* const lua_ = luaL_newstate();
};

TEST_F(GlobalUseTest, ReadingByNameChangesNothing) {
  for (const char* source :
       {"", "return 1", "return redis.call('x', KEYS[1])", "local x = 1 x = 2 return x",
        "local function f() return function() return string.sub(ARGV[1], 1.5, 2) end end",
        "local t = {} t.x = 1 t['y'] = 2 KEYS[1] = 3 local function f() t.z = 1 t[1] = 2 end",
        "local e = _ENV", "_ENV.x = 1", "local _ENV = {} _ENV.x = 1",
        "local up = 1 local function f() up = up + 1 return up, redis end",
        "for i = 1, 10 do local s = 'a' .. i if s == 'a5' then break end end return nil, true"}) {
    EXPECT_FALSE(MayChange(source)) << source;
  }
}

TEST_F(GlobalUseTest, MembersOfLibrariesDoNotLeadToTheLibrary) {
  for (const char* source :
       {"return redis.call('x', KEYS[1])", "local call = redis.call", "f(redis.call)",
        "return cjson.encode(cjson.decode(ARGV[1]))", "local t = {redis.call, string.sub}",
        "local a, b = math.floor(1), table.concat({})", "return (unknown and redis).call",
        "local function f() return function() return bit.band end end", "return redis['call']",
        "local t = {} t.call = 1 t[KEYS[1]] = redis.call", "local redis = {} redis.call = 1"}) {
    EXPECT_EQ(UseOf(source), GlobalUse::kMembers) << source;
  }
  for (const char* source :
       {"local r = redis", "local r = redis r.call = nil", "redis.call = nil", "redis['x'] = 1",
        "f(redis)", "return redis", "redis:call()", "local s = string local sub = s.sub",
        "return redis[KEYS[1]]", "for k in pairs(redis) do end", "local t = {redis}",
        "local function f() return function() return bit end end", "return #redis",
        "local r = redis local c = r.call", "local r r = redis r.call()",
        "local t = {} t.x = redis", "rawset(redis, 'x', 1)", "return unknown and redis"}) {
    EXPECT_EQ(UseOf(source), GlobalUse::kNames) << source;
  }
}

TEST_F(GlobalUseTest, AssignmentsAndTheTableItselfAreSeen) {
  std::string many = "local t = {";
  for (int i = 0; i < 300; ++i) many += "'k" + std::to_string(i) + "',";
  many += "} ";
  const std::string long_name(60, 'x');
  for (const std::string& source :
       {std::string("x = 1"), std::string("redis = nil"), std::string("function f() end"),
        std::string("local function f() return function() x = 1 end end"),
        std::string("local function f() local y = 1 return function() y = 2 x = y end end"),
        std::string("_ENV = {}"), std::string("x, y = 1, 2"),
        std::string("for i = 1, 2 do x = i end"), many + "x = 1", long_name + " = 1"}) {
    EXPECT_TRUE(MayChange(source)) << source;
  }
}

}  // namespace
}  // namespace dfly
