// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua_reply.h"

#include <lua.hpp>
#include <vector>

#include "helio/base/logging.h"
#include "scripting/lua/truncate.h"
#include "scripting/lua_sink.h"

namespace dfly {
namespace {

constexpr std::string_view kErrTooDeep = "ERR reached lua stack limit";
// Redis' own, for nested arrays. A table that contains itself ends here.
constexpr size_t kNestingMax = 7995;
// Of a value in a table of Lua.
constexpr size_t kValueBytes = 16;

// Counts what a reply would need, about.
class SizeSink final : public ReplySink {
 public:
  explicit SizeSink(bool resp3) { set_resp3(resp3); }
  size_t bytes() const { return bytes_; }

  void Status(std::string_view text) override { Add(text.size()); }
  void Error(std::string_view message) override { Add(message.size()); }
  void Integer(int64_t) override { Add(0); }
  void Bulk(std::string_view bytes) override { Add(bytes.size()); }
  void Null() override { Add(0); }
  void NullArray() override { Add(0); }
  void Double(double) override { Add(0); }
  void Decimal(std::string_view digits) override { Add(digits.size()); }
  void Bool(bool) override { Add(0); }
  void BigNumber(std::string_view digits) override { Add(digits.size()); }
  void Verbatim(std::string_view, std::string_view text) override { Add(text.size()); }
  void Array(size_t) override { Add(0); }
  void Map(size_t) override { Add(0); }
  void Set(size_t) override { Add(0); }
  void Push(size_t) override { Add(0); }
  void Attribute(size_t) override { Add(0); }

 private:
  void Add(size_t bytes) { bytes_ += bytes + kValueBytes; }

  size_t bytes_ = 0;
};

// Nested tables are walked with a list and Lua's own stack: they are deeper than a fiber's.
class Converter {
 public:
  Converter(lua_State* lua, bool script_resp3, ReplySink& reply)
      : lua_(lua), script_resp3_(script_resp3), reply_(reply) {}

  void Run() {
    Value();
    while (!open_.empty()) Next();
  }

  // Stops when that is true; then it leaves what it has pushed.
  template <typename Condition>
  void RunUntil(Condition condition) {
    Value();
    while (!open_.empty() && !condition()) Next();
  }

 private:
  enum class Kind : uint8_t { kArray, kMapKey, kMapValue, kSet };
  struct Open {
    Kind kind;
    int64_t index;  // of arrays: the next one
    int64_t count;  // of arrays
  };

  // Replies with the value on the top, and pops it, unless it is a table with items: that stays
  // until they are done.
  void Value();
  void Table();
  void Next();
  bool HasField(const char* name, int type);
  std::string_view Text(int index) {
    size_t size;
    const char* bytes = lua_tolstring(lua_, index, &size);
    return {bytes, size};
  }
  void OpenPairs(Kind kind);

  lua_State* const lua_;
  const bool script_resp3_;
  ReplySink& reply_;
  std::vector<Open> open_;  // the tables on Lua's stack, outermost first
};

// Pushes the field of the table on the top if it has the type.
bool Converter::HasField(const char* name, int type) {
  lua_pushstring(lua_, name);
  lua_rawget(lua_, -2);
  if (lua_type(lua_, -1) == type) return true;
  lua_pop(lua_, 1);
  return false;
}

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return line;
}

void Converter::Value() {
  if (open_.size() > kNestingMax || lua_checkstack(lua_, 6) == 0) {
    lua_pop(lua_, 1);
    return reply_.Error(kErrTooDeep);
  }
  switch (lua_type(lua_, -1)) {
    case LUA_TSTRING:
      reply_.Bulk(Text(-1));
      break;
    case LUA_TBOOLEAN:
      if (script_resp3_) {
        reply_.Bool(lua_toboolean(lua_, -1));
      } else if (lua_toboolean(lua_, -1)) {
        reply_.Integer(1);
      } else {
        reply_.Null();
      }
      break;
    case LUA_TNUMBER:
      reply_.Integer(lua_isinteger(lua_, -1) ? lua_tointeger(lua_, -1)
                                             : TruncateNumber(lua_tonumber(lua_, -1)));
      break;
    case LUA_TTABLE:
      return Table();
    default:
      reply_.Null();
  }
  lua_pop(lua_, 1);
}

void Converter::Table() {
  if (HasField("err", LUA_TSTRING)) {
    lua_insert(lua_, -2);
    const bool is_known = IsKnownError(lua_);
    lua_pop(lua_, 1);
    is_known ? reply_.KnownError(Text(-1)) : reply_.Error(Text(-1));
    return lua_pop(lua_, 1);
  }
  if (HasField("ok", LUA_TSTRING)) {
    reply_.Status(OneLine(Text(-1)));
    return lua_pop(lua_, 2);
  }
  if (HasField("double", LUA_TNUMBER)) {
    reply_.Double(lua_tonumber(lua_, -1));
    return lua_pop(lua_, 2);
  }
  if (HasField("map", LUA_TTABLE)) {
    lua_remove(lua_, -2);
    return OpenPairs(Kind::kMapKey);
  }
  if (HasField("set", LUA_TTABLE)) {
    lua_remove(lua_, -2);
    return OpenPairs(Kind::kSet);
  }
  if (HasField("big_number", LUA_TSTRING)) {
    reply_.BigNumber(OneLine(Text(-1)));
    return lua_pop(lua_, 2);
  }
  if (HasField("verbatim_string", LUA_TTABLE)) {
    if (HasField("string", LUA_TSTRING)) {
      lua_pushvalue(lua_, -2);
      if (HasField("format", LUA_TSTRING)) {
        std::string format(Text(-1).substr(0, 3));
        format.resize(3, ' ');
        reply_.Verbatim(format, Text(-3));
        return lua_pop(lua_, 5);
      }
      lua_pop(lua_, 2);
    }
    lua_pop(lua_, 1);
  }
  int64_t count = 0;
  while (lua_rawgeti(lua_, -1, count + 1) != LUA_TNIL) {
    lua_pop(lua_, 1);
    ++count;
  }
  lua_pop(lua_, 1);
  reply_.Array(static_cast<size_t>(count));
  if (count == 0) return lua_pop(lua_, 1);
  open_.push_back({.kind = Kind::kArray, .index = 1, .count = count});
}

void Converter::OpenPairs(Kind kind) {
  size_t pairs = 0;
  lua_pushnil(lua_);
  while (lua_next(lua_, -2) != 0) {
    lua_pop(lua_, 1);
    ++pairs;
  }
  if (kind == Kind::kSet) {
    reply_.Set(pairs);
  } else {
    reply_.Map(pairs);
  }
  lua_pushnil(lua_);
  open_.push_back({.kind = kind, .index = 0, .count = 0});
}

// The stack's top: an array, or a table with pairs and then the key that was last.
void Converter::Next() {
  Open& top = open_.back();
  switch (top.kind) {
    case Kind::kArray:
      if (top.index > top.count) break;
      lua_rawgeti(lua_, -1, top.index++);
      return Value();
    case Kind::kMapKey:
      if (lua_next(lua_, -2) == 0) break;
      top.kind = Kind::kMapValue;
      lua_pushvalue(lua_, -2);  // table, key, value, key
      return Value();
    case Kind::kMapValue:
      top.kind = Kind::kMapKey;
      return Value();  // table, key, value
    case Kind::kSet:
      if (lua_next(lua_, -2) == 0) break;
      lua_pop(lua_, 1);
      lua_pushvalue(lua_, -1);
      return Value();
  }
  lua_pop(lua_, 1);  // the table; lua_next has taken the key
  open_.pop_back();
}

// Is the value on the top an array of values that are no tables, and its reply not too large? That
// is what most tables are.
bool IsShortList(lua_State* lua, size_t bytes_max) {
  size_t bytes = 0;
  for (lua_Integer i = 1; bytes <= bytes_max; ++i) {
    const int type = lua_rawgeti(lua, -1, i);
    if (type == LUA_TSTRING) bytes += lua_rawlen(lua, -1);
    bytes += kValueBytes;
    lua_pop(lua, 1);
    if (type == LUA_TNIL) return i > 1;
    if (type == LUA_TTABLE) return false;
  }
  return false;
}

}  // namespace

bool IsReplyTooLarge(lua_State* lua, bool script_resp3, bool resp3, size_t bytes_max) {
  if (lua_type(lua, -1) != LUA_TTABLE || IsShortList(lua, bytes_max)) return false;
  const int top = lua_gettop(lua);
  SizeSink size(resp3);
  lua_pushvalue(lua, -1);
  Converter(lua, script_resp3, size).RunUntil([&] { return size.bytes() > bytes_max; });
  lua_settop(lua, top);
  return size.bytes() > bytes_max;
}

void ReplyWithValue(lua_State* lua, bool script_resp3, ReplySink& reply) {
  [[maybe_unused]] const int top = lua_gettop(lua);
  Converter(lua, script_resp3, reply).Run();
  DCHECK_EQ(lua_gettop(lua), top - 1);
}

}  // namespace dfly
