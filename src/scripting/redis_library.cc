// SPDX-License-Identifier: Apache-2.0
// The table `redis`, with Redis 7.0's texts of errors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "helio/base/cycle_clock.h"
#include "helio/base/format_number.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "scripting/lua/lua_layout.h"
#include "scripting/lua/sha1.h"
#include "scripting/lua_sink.h"
#include "scripting/sandbox.h"
#include "scripting/script_state.h"

namespace dfly {
namespace {

using Verdict = ScriptHost::Verdict;

constexpr const char* kErrNoArguments =
    "ERR Please specify at least one argument for this redis lib call";
constexpr const char* kErrArgumentType =
    "ERR Lua redis lib command arguments must be strings or integers";
constexpr const char* kErrReplyTooDeep = "ERR reached lua stack limit";

// Pushes {err = text}.
void PushError(lua_State* lua, const char* text) {
  lua_createtable(lua, 0, 1);
  lua_pushstring(lua, text);
  lua_setfield(lua, -2, "err");
}

int RaiseError(lua_State* lua, const char* text) {
  PushError(lua, text);
  return lua_error(lua);
}

// Returns {err = text} or raises it.
int ErrorResult(lua_State* lua, const char* text, bool raise) {
  PushError(lua, text);
  return raise ? lua_error(lua) : 1;
}

// The length of `number` as Redis writes it for a command: a whole number without exponent or
// point, else 17 digits.
size_t FormatArgument(const LuaValue& value, char* out) {
  if (value.type == LuaValue::kInteger) {
    return static_cast<size_t>(helio::FormatInteger(value.integer, out) - out);
  }
  const double number = value.number;
  constexpr double kWholeMax = 4503599627370496;  // 2^52; Redis takes no larger one for an integer
  if (number > -kWholeMax && number < kWholeMax && (number != 0 || !std::signbit(number))) {
    const auto integer = static_cast<int64_t>(number);
    if (static_cast<double>(integer) == number) {
      return static_cast<size_t>(helio::FormatInteger(integer, out) - out);
    }
  }
  return static_cast<size_t>(std::snprintf(out, 32, "%.17g", number));
}

// The script's arguments as views: into its strings, and into texts of its numbers. No allocation,
// once the longest call has been seen.
const char* CollectArguments(lua_State* lua, ScriptState* state) {
  const size_t count = LuaArgumentCount(lua);
  const LuaValue* const values = LuaArguments(lua);
  if (count == 0) return kErrNoArguments;
  if (state->args.size() < count) {
    state->args.resize(count);
    state->number_texts.resize(count);
  }
  for (size_t i = 0; i < count; ++i) {
    if (values[i].is_text()) {
      state->args[i] = values[i].text();
    } else if (values[i].type == LuaValue::kInteger || values[i].type == LuaValue::kFloat) {
      char* const text = state->number_texts[i].data();
      state->args[i] = {text, FormatArgument(values[i], text)};
    } else {
      return kErrArgumentType;
    }
  }
  return nullptr;
}

Args CollectedArguments(lua_State* lua, const ScriptState& state) {
  return std::span(state.args).first(LuaArgumentCount(lua));
}

void AppendInteger(int64_t value, std::string* text) {
  char digits[helio::kMaxIntegerChars];
  text->append(digits, helio::FormatInteger(value, digits));
}

// Ends the script. Remembers where it was, for the text of SCRIPT KILL.
int End(lua_State* lua, Verdict verdict) {
  ScriptState* const state = StateOf(lua);
  state->ending = verdict;
  lua_Debug at;
  for (int level = 0; lua_getstack(lua, level, &at) != 0; ++level) {
    lua_getinfo(lua, "Sl", &at);
    if (at.currentline < 0) continue;
    state->ending_place.assign(at.source).append(":");
    AppendInteger(at.currentline, &state->ending_place);
    break;
  }
  return RaiseEnding(lua);
}

// What a command takes at least.
constexpr size_t kWorkOfCall = 32;
// Longer between two ticks, and the next one comes after fewer occasions.
constexpr int64_t kTickNanosMax = 500'000;

template <bool raise, bool may_defer>
int Call(lua_State* lua) {
  ScriptState* const state = StateOf(lua);
  // Only code that runs while the script is being unwound gets here.
  if (state->ending != Verdict::kGoOn) return RaiseEnding(lua);
  if (const char* error = CollectArguments(lua, state)) return ErrorResult(lua, error, raise);
  Verdict verdict;
  {
    const UnlimitedScope scope(state);
    state->sink.Begin(lua, state->script_resp3);
    verdict = state->host->Call(CollectedArguments(lua, *state), state->sink, may_defer);
  }
  const bool has_reply = verdict == Verdict::kGoOn;
  if (!has_reply && verdict != Verdict::kDeferred) return End(lua, verdict);
  CountWork(kWorkOfCall);
  CollectSomeGarbage(lua);
  if (has_reply && !state->sink.is_complete()) return ErrorResult(lua, kErrReplyTooDeep, raise);
  if (state->memory_used > state->memory_max) {
    lua_gc(lua, LUA_GCCOLLECT);
    if (state->memory_used > state->memory_max) return luaL_error(lua, "not enough memory");
  }
  if (has_reply && state->sink.is_error()) return raise ? lua_error(lua) : 1;
  return may_defer ? 0 : 1;  // deferred or not
}

int SingleField(lua_State* lua, const char* field) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    return ErrorResult(lua, "ERR wrong number or type of arguments", false);
  }
  lua_createtable(lua, 0, 1);
  lua_insert(lua, 1);
  lua_setfield(lua, 1, field);
  return 1;
}

int StatusReply(lua_State* lua) { return SingleField(lua, "ok"); }

// A '-' before the code is dropped; a text of one word gets the code ERR.
int ErrorReply(lua_State* lua) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    return ErrorResult(lua, "ERR wrong number or type of arguments", false);
  }
  const char* text = lua_tostring(lua, 1);
  if (*text == '-') ++text;
  if (std::strchr(text, ' ') != nullptr) {
    lua_pushstring(lua, text);
  } else {
    lua_pushfstring(lua, "ERR %s", text);
  }
  lua_replace(lua, 1);
  return SingleField(lua, "err");
}

int PushSha1(lua_State* lua) {
  if (lua_gettop(lua) != 1) return RaiseError(lua, "ERR wrong number of arguments");
  size_t size;
  const char* const bytes = lua_tolstring(lua, 1, &size);
  const auto hex = Sha1Digits({bytes, bytes == nullptr ? 0 : size});
  lua_pushlstring(lua, hex.data(), hex.size());
  return 1;
}

enum LogLevel : uint8_t { kDebug, kVerbose, kNotice, kWarning };

int Log(lua_State* lua) {
  const int count = lua_gettop(lua);
  if (count < 2) return RaiseError(lua, "ERR redis.log() requires two arguments or more.");
  if (!lua_isnumber(lua, 1)) {
    return RaiseError(lua, "ERR First argument must be a number (log level).");
  }
  const auto level = static_cast<lua_Integer>(lua_tonumber(lua, 1));
  if (level < kDebug || level > kWarning) return RaiseError(lua, "ERR Invalid debug level.");
  luaL_Buffer text;
  luaL_buffinit(lua, &text);
  for (int i = 2; i <= count; ++i) {
    size_t size;
    const char* const bytes = lua_tolstring(lua, i, &size);
    if (bytes == nullptr) continue;
    if (i > 2) luaL_addchar(&text, ' ');
    luaL_addlstring(&text, bytes, size);
  }
  luaL_pushresult(&text);
  size_t size;
  const char* const bytes = lua_tolstring(lua, -1, &size);
  const std::string line = helio::LogText({bytes, size});
  if (level == kWarning) {
    LOG(WARNING) << "script: " << line;
  } else if (level == kNotice) {
    LOG(INFO) << "script: " << line;
  } else {
    VLOG(1) << "script: " << line;
  }
  return 0;
}

int SetResp(lua_State* lua) {
  if (lua_gettop(lua) != 1) return RaiseError(lua, "ERR redis.setresp() requires one argument.");
  const lua_Number version = lua_tonumber(lua, 1);
  if (version != 2 && version != 3) return RaiseError(lua, "ERR RESP version must be 2 or 3.");
  StateOf(lua)->script_resp3 = version == 3;
  return 0;
}

// What a script does is always replicated by its effects, so these change nothing.
int ReplicateCommands(lua_State* lua) {
  lua_pushboolean(lua, 1);
  return 1;
}

int SetRepl(lua_State* lua) {
  if (lua_gettop(lua) != 1) return RaiseError(lua, "ERR redis.set_repl() requires two arguments.");
  const lua_Number flags = lua_tonumber(lua, 1);
  if (!(flags >= 0 && flags < 4)) {
    return RaiseError(
        lua, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.");
  }
  return 0;
}

// There is no debugger.
int Breakpoint(lua_State* lua) {
  lua_pushboolean(lua, 0);
  return 1;
}
int Debug(lua_State*) { return 0; }

int AclCheckCmd(lua_State* lua) {
  ScriptState* const state = StateOf(lua);
  if (state->ending != Verdict::kGoOn) return RaiseEnding(lua);
  if (const char* error = CollectArguments(lua, state)) return RaiseError(lua, error);
  const std::optional<bool> allowed = state->host->IsAllowed(CollectedArguments(lua, *state));
  if (!allowed) return RaiseError(lua, "ERR Invalid command passed to redis.acl_check_cmd()");
  lua_pushboolean(lua, *allowed);
  return 1;
}

// --- redis.register_function ---

// Reads the table of flags at `index`. False if one is not known.
bool ReadFlags(lua_State* lua, int index, uint32_t* flags) {
  for (lua_Integer i = 1;; ++i) {
    const int type = lua_rawgeti(lua, index, i);
    if (type == LUA_TNIL) {
      lua_pop(lua, 1);
      return true;
    }
    std::optional<ScriptFlag> flag;
    if (type == LUA_TSTRING) flag = ScriptFlagOf(lua_tostring(lua, -1));
    if (!flag) return false;
    *flags |= *flag;
    lua_pop(lua, 1);
  }
}

// register_function(name, callback) and register_function{function_name=, callback=, flags=,
// description=}. Both end with 1 name, 2 callback, 3 flags or nil, 4 description or nil.
const char* ReadNamedArguments(lua_State* lua) {
  constexpr const char* kNames[] = {"function_name", "callback", "flags", "description"};
  lua_pushnil(lua);
  while (lua_next(lua, 1) != 0) {
    lua_pop(lua, 1);
    bool is_known = false;
    if (lua_type(lua, -1) == LUA_TSTRING) {
      for (const char* const name : kNames) is_known |= !std::strcmp(name, lua_tostring(lua, -1));
    }
    if (!is_known) return "ERR unknown argument given to redis.register_function";
  }
  for (const char* const name : kNames) {
    lua_pushstring(lua, name);
    lua_rawget(lua, 1);
  }
  lua_remove(lua, 1);
  if (!lua_isnil(lua, 1) && !lua_isstring(lua, 1)) {
    return "ERR function_name argument given to redis.register_function must be a string";
  }
  if (!lua_isnil(lua, 4) && !lua_isstring(lua, 4)) {
    return "ERR description argument given to redis.register_function must be a string";
  }
  if (!lua_isnil(lua, 2) && !lua_isfunction(lua, 2)) {
    return "ERR callback argument given to redis.register_function must be a function";
  }
  if (!lua_isnil(lua, 3) && !lua_istable(lua, 3)) {
    return "ERR flags argument to redis.register_function must be a table representing function "
           "flags";
  }
  if (lua_isnil(lua, 1)) return "ERR redis.register_function must get a function name argument";
  if (lua_isnil(lua, 2)) return "ERR redis.register_function must get a callback argument";
  return nullptr;
}

const char* ReadTwoArguments(lua_State* lua) {
  if (!lua_isstring(lua, 1)) {
    return "ERR first argument to redis.register_function must be a string";
  }
  if (!lua_isfunction(lua, 2)) {
    return "ERR second argument to redis.register_function must be a function";
  }
  lua_settop(lua, 4);
  return nullptr;
}

// A name may have zeros in it, which is to be noticed. REQUIRES: a string is there.
std::string_view TextAt(lua_State* lua, int index) {
  size_t size = 0;
  const char* const text = lua_tolstring(lua, index, &size);
  return {text, size};
}

int RegisterFunction(lua_State* lua) {
  auto* const functions = StateOf(lua)->loading;
  if (functions == nullptr) {
    return RaiseError(lua,
                      "ERR redis.register_function can only be called on FUNCTION LOAD "
                      "command");
  }
  const char* error = nullptr;
  switch (lua_gettop(lua)) {
    case 1:
      error = lua_istable(lua, 1)
                  ? ReadNamedArguments(lua)
                  : "ERR calling redis.register_function with a single argument is only "
                    "applicable to Lua table (representing named arguments).";
      break;
    case 2:
      error = ReadTwoArguments(lua);
      break;
    default:
      error = "ERR wrong number of arguments to redis.register_function";
  }
  if (error != nullptr) return RaiseError(lua, error);
  uint32_t flags = 0;
  if (lua_istable(lua, 3) && !ReadFlags(lua, 3, &flags)) {
    return RaiseError(lua, "ERR unknown flag given");
  }
  if (!IsFunctionName(TextAt(lua, 1))) {
    return RaiseError(lua,
                      "ERR Library names can only contain letters, numbers, or underscores(_) and "
                      "must be at least one character long");
  }
  for (const Interpreter::FunctionInfo& other : *functions) {
    if (other.name == TextAt(lua, 1)) {
      return RaiseError(lua, "ERR Function already exists in the library");
    }
  }
  lua_pushvalue(lua, 2);
  const int reference = luaL_ref(lua, LUA_REGISTRYINDEX);
  // No errors from here on.
  Interpreter::FunctionInfo& function = functions->emplace_back();
  StateOf(lua)->loading_references.push_back(reference);
  function.name = TextAt(lua, 1);
  function.flags = flags;
  if (lua_isstring(lua, 4)) {
    function.has_description = true;
    function.description = TextAt(lua, 4);
  }
  return 0;
}

constexpr luaL_Reg kRedis[] = {
    {"call", Call<true, false>},
    {"pcall", Call<false, false>},
    {"acall", Call<true, true>},
    {"apcall", Call<false, true>},
    {"status_reply", StatusReply},
    {"error_reply", ErrorReply},
    {"sha1hex", PushSha1},
    {"log", Log},
    {"setresp", SetResp},
    {"replicate_commands", ReplicateCommands},
    {"set_repl", SetRepl},
    {"breakpoint", Breakpoint},
    {"debug", Debug},
    {"acl_check_cmd", AclCheckCmd},
    {nullptr, nullptr},
};

constexpr luaL_Reg kRedisForLoading[] = {
    {"register_function", RegisterFunction}, {"log", Log}, {nullptr, nullptr}};

struct Constant {
  const char* name;
  int value;
};
constexpr Constant kLogLevels[] = {{"LOG_DEBUG", kDebug},
                                   {"LOG_VERBOSE", kVerbose},
                                   {"LOG_NOTICE", kNotice},
                                   {"LOG_WARNING", kWarning}};
constexpr Constant kReplication[] = {
    {"REPL_NONE", 0}, {"REPL_AOF", 1}, {"REPL_SLAVE", 2}, {"REPL_REPLICA", 2}, {"REPL_ALL", 3}};

template <size_t count>
void SetConstants(lua_State* lua, const Constant (&constants)[count]) {
  for (const Constant& constant : constants) {
    lua_pushinteger(lua, constant.value);
    lua_setfield(lua, -2, constant.name);
  }
}

// Of the table on the top.
void SetVersion(lua_State* lua, const char* version) {
  lua_pushstring(lua, version);
  lua_setfield(lua, -2, "REDIS_VERSION");
  int major = 0;
  int minor = 0;
  int patch = 0;
  std::sscanf(version, "%d.%d.%d", &major, &minor, &patch);
  lua_pushinteger(lua, major << 16 | minor << 8 | patch);
  lua_setfield(lua, -2, "REDIS_VERSION_NUM");
}

}  // namespace

void OpenRedis(lua_State* lua, const char* version) {
  lua_createtable(lua, 0, 32);  // once for all: `call` and `pcall` keep the best places
  luaL_setfuncs(lua, kRedis, 0);
  SetConstants(lua, kLogLevels);
  SetConstants(lua, kReplication);
  SetVersion(lua, version);
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "redis");
}

void OpenRedisForLoading(lua_State* lua, const char* version) {
  luaL_newlib(lua, kRedisForLoading);
  SetConstants(lua, kLogLevels);
  SetVersion(lua, version);
  RefuseUnknownNames(lua);
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "redis");
}

void Tick(lua_State* lua, lua_Debug*) {
  ScriptState* const state = StateOf(lua);
  if (state->ending != Verdict::kGoOn) {
    RaiseEnding(lua);
    return;
  }
  // What took long may go on so: a loop over a slow command, or over a table with many numbers that
  // Lua gives the same hash.
  const int64_t took = state->last_tick == 0 ? 0 : helio::CycleClock::Now() - state->last_tick;
  const int64_t took_ns = helio::CycleClock::ToNanos(took);
  if (took_ns <= kTickNanosMax) {
    state->occasions = std::min(state->occasions * 2, Interpreter::kTickOccasions);
  } else {
    state->occasions =
        static_cast<int>(std::max<int64_t>(state->occasions * kTickNanosMax / took_ns, 1));
  }
  const Verdict verdict = state->host->OnTick();
  state->last_tick = helio::CycleClock::Now();
  work_to_tick = state->occasions;
  if (verdict != Verdict::kGoOn) End(lua, verdict);
}

int DescribeError(lua_State* lua) {
  if (IsEnding(lua)) return 1;
  lua_settop(lua, 1);
  ConvertErrorText(lua);
  lua_createtable(lua, 0, 4);  // 1 error, 2 what is made of it
  if (lua_type(lua, 1) == LUA_TTABLE) {
    lua_pushvalue(lua, 1);
    const bool is_known = IsKnownError(lua);
    lua_pop(lua, 1);
    lua_pushboolean(lua, is_known);
    lua_setfield(lua, 2, kKnownErrorField);
    lua_pushliteral(lua, "err");
    lua_rawget(lua, 1);
  } else {
    lua_pushliteral(lua, "ERR ");
    luaL_tolstring(lua, 1, nullptr);
    lua_concat(lua, 2);
  }
  lua_setfield(lua, 2, "err");
  // A C function like redis.call stands nowhere: its caller does.
  lua_Debug at;
  int level = 1;
  while (lua_getstack(lua, level, &at) != 0 && lua_getinfo(lua, "Sl", &at) != 0) {
    if (at.currentline >= 0) {
      lua_pushstring(lua, at.source);
      lua_setfield(lua, 2, "source");
      lua_pushinteger(lua, at.currentline);
      lua_setfield(lua, 2, "line");
      break;
    }
    ++level;
  }
  return 1;
}

}  // namespace dfly
