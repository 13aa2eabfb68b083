// SPDX-License-Identifier: Apache-2.0
#include "scripting/interpreter.h"

#include "helio/base/block_bytes.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "scripting/lua/lua_arrays.h"
#include "scripting/lua/lua_compiler.h"
#include "scripting/lua/lua_layout.h"
#include "scripting/lua_memory.h"
#include "scripting/lua_reply.h"
#include "scripting/lua_sink.h"
#include "scripting/sandbox.h"
#include "scripting/script_state.h"
#include "scripting/source/global_use.h"
#include "scripting/source/lua51_source.h"

namespace dfly {
namespace {

using Verdict = ScriptHost::Verdict;

// What stays at the bottom of the main stack.
constexpr int kHandlerIndex = 1;  // DescribeError
constexpr int kGlobalsIndex = 2;  // the real table of the globals
constexpr int kMembersIndex = 3;  // the same with the real tables of libraries: GlobalUse::kMembers
constexpr int kKeysIndex = 4;     // KEYS
constexpr int kArgvIndex = 5;     // ARGV
constexpr int kStackBase = 5;

constexpr const char* kScriptChunk = "@user_script";
constexpr const char* kFunctionChunk = "@user_function";
// The code of a library only registers functions.
constexpr int kLoadingTicksMax = 2'000;
// The rest of kStackBytes and kLoadStackBytes is for functions that call no others, and for the
// message handler.
constexpr size_t kNestedStackBytes = 96 << 10;
constexpr size_t kLoadNestedStackBytes = 24 << 10;
constexpr std::string_view kErrUnknown = "ERR unknown error";

int Panic(lua_State* lua) {
  LOG(FATAL) << "Lua error outside of a script: " << lua_tostring(lua, -1);
  return 0;
}

void CountLoading(lua_State* lua, lua_Debug* debug) {
  if (StateOf(lua)->host != nullptr) Tick(lua, debug);
  if (++StateOf(lua)->loading_ticks < kLoadingTicksMax) return;
  lua_createtable(lua, 0, 1);
  lua_pushliteral(lua, "ERR FUNCTION LOAD timeout");
  lua_setfield(lua, -2, "err");
  lua_error(lua);
}

// What scripts use most. Where two names of a table have the same place, the one that came first is
// found first.
constexpr const char* kFrequentNames[] = {"redis",  "KEYS",     "ARGV",  "ipairs",
                                          "cjson",  "tonumber", "pairs", "table",
                                          "string", "tostring", "math",  "type"};

// A table for globals, and in it what these names will have.
void CreateGlobals(lua_State* lua) {
  lua_createtable(lua, 0, 64);
  for (const char* const name : kFrequentNames) {
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, name);
  }
}

// On the stack: the table that holds what the libraries below put into it.
void OpenGlobals(lua_State* lua, const char* redis_version) {
  CreateGlobals(lua);
  OpenBase(lua);
  OpenLua51Libraries(lua);
  OpenRedis(lua, redis_version);
  OpenLibraries(lua);
  for (const char* const name : {"KEYS", "ARGV"}) {
    lua_pushnil(lua);
    lua_setfield(lua, -2, name);
  }
  RefuseUnknownNames(lua);

  lua_pushvalue(lua, -1);
  MakeReadOnly(lua);
  lua_pushvalue(lua, -1);
  lua_setfield(lua, -3, "_G");
  lua_rawseti(lua, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}

// On the stack: the globals, and above them what they are for chunks that read members only.
void OpenMembers(lua_State* lua) {
  CreateGlobals(lua);
  lua_pushnil(lua);
  while (lua_next(lua, kGlobalsIndex) != 0) {
    lua_pushvalue(lua, -2);
    lua_insert(lua, -2);
    lua_rawset(lua, kMembersIndex);
  }
  for (const char* const* name = kLibraryNames; *name != nullptr; ++name) {
    lua_getfield(lua, kGlobalsIndex, *name);
    const bool is_protected = PushProtected(lua, -1);
    CHECK(is_protected) << *name;
    lua_setfield(lua, kMembersIndex, *name);
    lua_pop(lua, 1);
  }
  RefuseUnknownNames(lua);
}

// Sets a global, also for code that a script compiles, which sees the other globals. Its value is
// at the stack's top, and is popped.
void SetGlobal(lua_State* lua, const char* name) {
  for (int index : {kGlobalsIndex, kMembersIndex}) {
    lua_pushstring(lua, name);
    lua_pushvalue(lua, -2);
    lua_rawset(lua, index);
  }
  lua_pop(lua, 1);
}

std::string_view TextAt(lua_State* lua, int index) {
  size_t size;
  const char* const bytes = lua_tolstring(lua, index, &size);
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, size);
}

// As Lua 5.1 has it: the end of the source is quoted, too.
std::string CompileError(lua_State* lua) {
  std::string text(TextAt(lua, -1));
  constexpr std::string_view kEnd = "<eof>";
  if (text.ends_with(kEnd)) text.replace(text.size() - kEnd.size(), kEnd.size(), "'<eof>'");
  return text;
}

// What DescribeError made of an error, at the top of the stack.
std::string ErrorText(lua_State* lua) {
  if (lua_type(lua, -1) != LUA_TTABLE) {  // without a handler: no memory, or an error in it
    return "ERR " + std::string(TextAt(lua, -1));
  }
  lua_pushliteral(lua, "err");
  lua_rawget(lua, -2);
  std::string text(lua_isstring(lua, -1) ? TextAt(lua, -1) : kErrUnknown);
  lua_pop(lua, 1);
  return text;
}

}  // namespace

std::string ScriptState::KilledText(std::string_view name) const {
  std::string text = "ERR Script killed by user with SCRIPT KILL... script: ";
  text.append(name);
  if (!ending_place.empty()) text.append(", on ").append(ending_place);
  return text.append(".");
}

Interpreter::Interpreter(size_t memory_max, std::string_view redis_version)
    : state_(std::make_unique<ScriptState>()) {
  ScriptState* const state = state_.get();
  state->memory_max = memory_max;
  state->random.SetOwnSeed(helio::SystemSeed());
  const UnlimitedScope scope(state);
  lua_State* const lua = state->lua = lua_newstate(AllocateForLua, state);
  CHECK(lua != nullptr);
  *static_cast<ScriptState**>(lua_getextraspace(lua)) = state;
  state->redis_version = redis_version;
  lua_atpanic(lua, Panic);
  CheckLayout(lua);
  ForgetGoto(lua);
  lua_pushcfunction(lua, DescribeError);
  OpenGlobals(lua, state->redis_version.c_str());
  OpenMembers(lua);
  lua_createtable(lua, 0, 0);
  lua_createtable(lua, 0, 0);
  CHECK_EQ(lua_gettop(lua), kStackBase);
}

Interpreter::~Interpreter() {
  state_->unlimited = true;
  FreeJsonScratch(state_.get());
  json_call = {};
  lua_close(state_->lua);
}

// Pushes what was compiled. False: `error` is `wrong` and why, and something else was pushed.
bool Interpreter::Compile(std::string_view name, std::string_view body, const char* chunk,
                          const char* wrong, std::string* error) {
  lua_State* const lua = state_->lua;
  int status;
  {
    const TickScope ticks(state_.get(), state_->host == nullptr ? nullptr : Tick);
    status = LoadSource(lua, body, chunk);
  }
  if (status == LUA_OK) return true;
  *error = IsEnding(lua) ? state_->KilledText(name) : wrong + CompileError(lua);
  return false;
}

bool Interpreter::Load(std::string_view sha, std::string_view body, std::string* error,
                       ScriptHost* host) {
  if (IsLoaded(sha)) return true;
  const StackScope stack(state_.get(), kLoadNestedStackBytes);
  lua_State* const lua = state_->lua;
  state_->Start(host);
  const bool is_good =
      Compile(sha, body, kScriptChunk, "ERR Error compiling script (new function): ", error);
  state_->host = nullptr;
  if (!is_good) {
    lua_settop(lua, kStackBase);
    return false;
  }
  const UnlimitedScope scope(state_.get());
  // What globals a large one uses is not looked for: that goes through all of it at once.
  constexpr size_t kAnalyzedMax = 128 << 10;
  const GlobalUse use = body.size() <= kAnalyzedMax ? GlobalUseOf(lua) : GlobalUse::kAny;
  if (use != GlobalUse::kAny) {
    lua_pushvalue(lua, use == GlobalUse::kMembers ? kMembersIndex : kGlobalsIndex);
    lua_setupvalue(lua, -2, 1);
  }
  state_->scripts.emplace(sha, luaL_ref(lua, LUA_REGISTRYINDEX));
  return true;
}

bool Interpreter::IsLoaded(std::string_view sha) const {
  return state_->scripts.find(sha) != state_->scripts.end();
}

void Interpreter::Forget(std::string_view sha) {
  const auto script = state_->scripts.find(sha);
  if (script == state_->scripts.end()) return;
  const UnlimitedScope scope(state_.get());
  luaL_unref(state_->lua, LUA_REGISTRYINDEX, script->second);
  state_->scripts.erase(script);
}

Interpreter::Outcome Interpreter::Run(const ScriptCall& call, ScriptHost* host, ReplySink& reply) {
  lua_State* const lua = state_->lua;
  const auto script = state_->scripts.find(call.sha);
  CHECK(script != state_->scripts.end()) << call.sha;
  state_->Start(host);
  {
    const UnlimitedScope scope(state_.get());
    const bool keeps_keys = FillArray(lua, kKeysIndex, call.keys);
    const bool keeps_args = FillArray(lua, kArgvIndex, call.args);
    if (!keeps_keys || !keeps_args || !state_->shows_arrays) ShowArrays();
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->second);
  }
  return Execute(0, call.sha, reply);
}

void Interpreter::ShowArrays() {
  lua_pushvalue(state_->lua, kKeysIndex);
  SetGlobal(state_->lua, "KEYS");
  lua_pushvalue(state_->lua, kArgvIndex);
  SetGlobal(state_->lua, "ARGV");
  state_->shows_arrays = true;
}

void Interpreter::HideArrays() {
  if (!state_->shows_arrays) return;
  for (const char* const name : {"KEYS", "ARGV"}) {
    lua_pushnil(state_->lua);
    SetGlobal(state_->lua, name);
  }
  state_->shows_arrays = false;
}

// Calls the function below its arguments, at the stack's top.
Interpreter::Outcome Interpreter::Execute(int arguments, std::string_view name, ReplySink& reply) {
  const StackScope stack(state_.get(), kNestedStackBytes);
  lua_State* const lua = state_->lua;
  int status;
  {
    const TickScope ticks(state_.get(), Tick);
    status = lua_pcall(lua, arguments, 1, kHandlerIndex);
  }
  CollectSomeGarbage(lua);
  state_->FreeLargeBuffers();

  const UnlimitedScope scope(state_.get());
  Verdict verdict = state_->ending;
  if (verdict == Verdict::kGoOn) {
    state_->sink.Begin(lua, false);
    verdict = state_->host->Finish(state_->sink);
    if (verdict == Verdict::kGoOn && state_->sink.is_error()) status = LUA_ERRRUN;
    if (!state_->sink.is_error()) lua_settop(lua, kStackBase + 1);
  }
  Outcome outcome = Outcome::kDone;
  if (verdict == Verdict::kAbandon) {
    outcome = Outcome::kAbandoned;
  } else if (verdict == Verdict::kKill) {
    reply.Error(state_->KilledText(name));
  } else if (status == LUA_OK &&
             IsReplyTooLarge(lua, state_->script_resp3, reply.resp3(), state_->memory_max)) {
    std::string text = "ERR not enough memory for the reply script: ";
    reply.Error(text.append(name).append("."));
  } else if (status == LUA_OK) {
    ReplyWithValue(lua, state_->script_resp3, reply);
  } else {
    const bool is_known = IsKnownError(lua);
    const std::string text = DescribedError(name);
    is_known ? reply.KnownError(text) : reply.Error(text);
  }
  lua_settop(lua, kStackBase);
  state_->host = nullptr;
  return outcome;
}

// The error at the top of the stack, as a reply.
std::string Interpreter::DescribedError(std::string_view name) const {
  lua_State* const lua = state_->lua;
  std::string text = ErrorText(lua);
  text.append(" script: ").append(name);
  if (lua_type(lua, -1) == LUA_TTABLE) {
    lua_getfield(lua, -1, "source");
    lua_getfield(lua, -2, "line");
    if (lua_isstring(lua, -2)) {
      text.append(", on ").append(TextAt(lua, -2)).append(":").append(TextAt(lua, -1));
    }
    lua_pop(lua, 2);
  }
  return text.append(".");
}

bool Interpreter::LoadLibrary(std::string_view name, std::string_view body,
                              std::vector<FunctionInfo>* functions, std::string* error,
                              uint64_t version, ScriptHost* host) {
  functions->clear();
  ScriptState* const state = state_.get();
  state->Start(host);
  const bool loaded = RunLibrary(name, body, functions, error);
  state->host = nullptr;
  lua_settop(state->lua, kStackBase);
  const UnlimitedScope scope(state);
  if (!loaded) {
    for (int reference : state->loading_references) {
      luaL_unref(state->lua, LUA_REGISTRYINDEX, reference);
    }
    return false;
  }
  DeleteLibrary(name);
  for (size_t i = 0; i < functions->size(); ++i) {
    const auto [function, is_new] = state->functions.try_emplace((*functions)[i].name);
    if (!is_new) luaL_unref(state->lua, LUA_REGISTRYINDEX, function->second.reference);
    function->second = {std::string(name), version, state->loading_references[i]};
  }
  return true;
}

// Leaves what it pushes.
bool Interpreter::RunLibrary(std::string_view name, std::string_view body,
                             std::vector<FunctionInfo>* functions, std::string* error) {
  ScriptState* const state = state_.get();
  lua_State* const lua = state->lua;
  const StackScope stack(state, kLoadNestedStackBytes);
  state->loading_references.clear();
  constexpr int kGlobals = kStackBase + 1;
  constexpr int kRedis = kStackBase + 2;
  constexpr int kCode = kStackBase + 3;
  {
    const UnlimitedScope scope(state);
    lua_createtable(lua, 0, 1);
    OpenRedisForLoading(lua, state->redis_version.c_str());
    lua_getfield(lua, -1, "redis");
    lua_insert(lua, kGlobals);
    RefuseUnknownNames(lua);
    MakeReadOnly(lua);
    lua_insert(lua, kGlobals);
  }
  if (!Compile(name, body, kFunctionChunk, "ERR Error compiling function: ", error)) return false;
  lua_pushvalue(lua, kGlobals);
  lua_setupvalue(lua, kCode, 1);  // of a chunk, that is its globals

  state->loading = functions;
  state->loading_ticks = 0;
  int status;
  {
    const TickScope ticks(state, CountLoading);
    status = lua_pcall(lua, 0, 0, kHandlerIndex);
  }
  state->loading = nullptr;
  if (status != LUA_OK) {
    *error = IsEnding(lua) ? state->KilledText(name)
                           : "ERR Error registering functions: " + ErrorText(lua);
    return false;
  }
  if (functions->empty()) {
    *error = "ERR No functions registered";
    return false;
  }
  // From now on the library's functions see what scripts see.
  const UnlimitedScope scope(state);
  lua_settop(lua, kRedis);
  lua_getfield(lua, kGlobalsIndex, "redis");
  PushProtected(lua, -1);
  lua_pushvalue(lua, kRedis);
  SetProtected(lua);
  lua_pushvalue(lua, kGlobalsIndex);
  lua_pushvalue(lua, kGlobals);
  SetProtected(lua);
  return true;
}

void Interpreter::DeleteLibrary(std::string_view name) {
  const UnlimitedScope scope(state_.get());
  absl::erase_if(state_->functions, [this, name](const auto& entry) {
    if (entry.second.library != name) return false;
    luaL_unref(state_->lua, LUA_REGISTRYINDEX, entry.second.reference);
    return true;
  });
}

bool Interpreter::HasFunction(std::string_view function, uint64_t version) const {
  const auto found = state_->functions.find(function);
  return found != state_->functions.end() && found->second.version == version;
}

Interpreter::Outcome Interpreter::CallFunction(std::string_view function, const ScriptCall& call,
                                               ScriptHost* host, ReplySink& reply) {
  lua_State* const lua = state_->lua;
  const auto found = state_->functions.find(function);
  CHECK(found != state_->functions.end()) << function;
  state_->Start(host);
  {
    const UnlimitedScope scope(state_.get());
    HideArrays();  // functions get them as arguments, and may keep those
    lua_rawgeti(lua, LUA_REGISTRYINDEX, found->second.reference);
    PushStrings(lua, call.keys);
    PushStrings(lua, call.args);
  }
  return Execute(2, function, reply);
}

size_t Interpreter::memory_used() const {
  // Each compiled script has its digest as its key.
  constexpr size_t kDigest = 48;
  return state_->memory_used + state_->OutsideBytes() + state_->scripts.size() * kDigest +
         helio::MapBytes(state_->scripts) + helio::MapBytes(state_->functions);
}

void Interpreter::BeginCollection() {
  const UnlimitedScope scope(state_.get());
  // Lua frees all garbage that is newer than the newest object that lives in one go. Here is one.
  lua_createtable(state_->lua, 0, 0);
  lua_rawsetp(state_->lua, LUA_REGISTRYINDEX, state_.get());
}

bool Interpreter::CollectStep() {
  // As logarithms of what a script would allocate meanwhile; 13 is Lua's own, a millisecond's work.
  constexpr int kSmallStep = 7;
  constexpr int kOwnStep = 13;
  lua_State* const lua = state_->lua;
  lua_gc(lua, LUA_GCINC, 0, 0, kSmallStep);
  const bool is_end = lua_gc(lua, LUA_GCSTEP, 0) != 0;
  lua_gc(lua, LUA_GCINC, 0, 0, kOwnStep);
  return is_end;
}

void Interpreter::ForgetAll() {
  const UnlimitedScope scope(state_.get());
  lua_State* const lua = state_->lua;
  for (const auto& [sha, reference] : state_->scripts)
    luaL_unref(lua, LUA_REGISTRYINDEX, reference);
  for (const auto& [name, function] : state_->functions) {
    luaL_unref(lua, LUA_REGISTRYINDEX, function.reference);
  }
  state_->scripts = {};
  state_->functions = {};
  HideArrays();
  for (const int index : {kKeysIndex, kArgvIndex}) {
    lua_createtable(lua, 0, 0);
    lua_replace(lua, index);
  }
}

}  // namespace dfly
