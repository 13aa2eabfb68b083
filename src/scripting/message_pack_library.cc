// SPDX-License-Identifier: Apache-2.0
// `cmsgpack`: values in the MessagePack format (github.com/msgpack/msgpack, spec.md).
//
// Packing writes the shortest form. A table whose keys are 1..n is an array, also an empty one; a
// float that loses nothing as 4 bytes takes 4; what has no form (a function, a table nested too
// deeply) is nil. Unpacking reads any bytes, without recursion, and needs no more memory than some
// multiple of them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "scripting/libraries.h"
#include "scripting/script_state.h"

namespace dfly {
namespace {

// Redis' own, for packing: a table that contains itself ends here.
constexpr int kPackedNestingMax = 16;
constexpr size_t kUnpackedNestingMax = 1000;
// A larger buffer is given back after its use.
constexpr size_t kKeptBufferMax = 1 << 20;

// --- packing: into ScriptState::pack_buffer, as Lua errors may pass through ---

// The lowest bytes of `value`, the highest of them first.
void AddBytes(std::string* out, uint8_t type, uint64_t value, size_t bytes) {
  char text[9];
  text[0] = static_cast<char>(type);
  for (size_t i = bytes; i > 0; --i) {
    text[i] = static_cast<char>(value);
    value >>= 8;
  }
  out->append(text, bytes + 1);
}

void AddInteger(std::string* out, int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= -32 && value <= 127) return AddBytes(out, static_cast<uint8_t>(value), 0, 0);
  if (value >= 0) {
    if (value <= UINT8_MAX) return AddBytes(out, 0xCC, bits, 1);
    if (value <= UINT16_MAX) return AddBytes(out, 0xCD, bits, 2);
    if (value <= UINT32_MAX) return AddBytes(out, 0xCE, bits, 4);
    return AddBytes(out, 0xCF, bits, 8);
  }
  if (value >= INT8_MIN) return AddBytes(out, 0xD0, bits, 1);
  if (value >= INT16_MIN) return AddBytes(out, 0xD1, bits, 2);
  if (value >= INT32_MIN) return AddBytes(out, 0xD2, bits, 4);
  AddBytes(out, 0xD3, bits, 8);
}

void AddNumber(std::string* out, lua_State* lua) {
  if (lua_isinteger(lua, -1)) return AddInteger(out, lua_tointeger(lua, -1));
  const double number = lua_tonumber(lua, -1);
  lua_Integer integer;
  if (std::floor(number) == number && lua_numbertointeger(number, &integer)) {
    return AddInteger(out, integer);
  }
  const auto narrow = static_cast<float>(number);
  if (static_cast<double>(narrow) == number) {
    return AddBytes(out, 0xCA, std::bit_cast<uint32_t>(narrow), 4);
  }
  AddBytes(out, 0xCB, std::bit_cast<uint64_t>(number), 8);
}

void AddString(std::string* out, lua_State* lua) {
  size_t size;
  const char* const bytes = lua_tolstring(lua, -1, &size);
  if (size < 32) {
    AddBytes(out, static_cast<uint8_t>(0xA0 | size), 0, 0);
  } else if (size <= UINT8_MAX) {
    AddBytes(out, 0xD9, size, 1);
  } else if (size <= UINT16_MAX) {
    AddBytes(out, 0xDA, size, 2);
  } else {
    AddBytes(out, 0xDB, size, 4);
  }
  CountBytes(size);
  out->append(bytes, size);
}

// Of an array: `few` | n for less than 16 items, or `many` and 2 bytes, or `many` + 1 and 4.
void AddCount(std::string* out, size_t count, uint8_t few, uint8_t many) {
  if (count < 16) {
    AddBytes(out, static_cast<uint8_t>(few | count), 0, 0);
  } else if (count <= UINT16_MAX) {
    AddBytes(out, many, count, 2);
  } else {
    AddBytes(out, many + 1, count, 4);
  }
}

struct Shape {
  size_t count;   // of the table's keys
  bool is_array;  // they are 1..count
};

Shape ShapeOf(lua_State* lua) {
  Shape shape = {.count = 0, .is_array = true};
  lua_Integer largest = 0;
  lua_pushnil(lua);
  while (lua_next(lua, -2) != 0) {
    lua_pop(lua, 1);
    ++shape.count;
    int is_integer = 0;
    // Only numbers: lua_tointegerx would take the string "1", too.
    const lua_Integer key =
        lua_type(lua, -1) == LUA_TNUMBER ? lua_tointegerx(lua, -1, &is_integer) : 0;
    if (is_integer == 0 || key < 1) {
      shape.is_array = false;
    } else {
      largest = std::max(largest, key);
    }
  }
  shape.is_array = shape.is_array && static_cast<size_t>(largest) == shape.count;
  return shape;
}

// Packs the value on the top of the stack, and pops it.
void AddValue(lua_State* lua, std::string* out, int level) {
  // Tables that share others can be much larger packed.
  if (out->size() > StateOf(lua)->memory_max) luaL_error(lua, "not enough memory");
  luaL_checkstack(lua, 4, "in function cmsgpack.pack");
  switch (level <= kPackedNestingMax || lua_type(lua, -1) != LUA_TTABLE ? lua_type(lua, -1)
                                                                        : LUA_TNIL) {
    case LUA_TSTRING:
      AddString(out, lua);
      break;
    case LUA_TBOOLEAN:
      AddBytes(out, lua_toboolean(lua, -1) ? 0xC3 : 0xC2, 0, 0);
      break;
    case LUA_TNUMBER:
      AddNumber(out, lua);
      break;
    case LUA_TTABLE: {
      const Shape shape = ShapeOf(lua);
      if (shape.is_array) {
        AddCount(out, shape.count, 0x90, 0xDC);
        for (size_t i = 1; i <= shape.count; ++i) {
          lua_rawgeti(lua, -1, static_cast<lua_Integer>(i));
          AddValue(lua, out, level + 1);
        }
        break;
      }
      AddCount(out, shape.count, 0x80, 0xDE);
      lua_pushnil(lua);
      while (lua_next(lua, -2) != 0) {
        lua_pushvalue(lua, -2);
        AddValue(lua, out, level + 1);
        AddValue(lua, out, level + 1);
      }
      break;
    }
    default:
      AddBytes(out, 0xC0, 0, 0);
  }
  lua_pop(lua, 1);
}

// pack(...): the values one after another.
int Pack(lua_State* lua) {
  const int count = lua_gettop(lua);
  if (count == 0) return luaL_argerror(lua, 0, "MessagePack pack needs input.");
  std::string* const out = &StateOf(lua)->pack_buffer;
  out->clear();
  for (int i = 1; i <= count; ++i) {
    lua_pushvalue(lua, i);
    AddValue(lua, out, 1);
  }
  lua_pushlstring(lua, out->data(), out->size());
  if (out->capacity() > kKeptBufferMax) {
    out->clear();
    out->shrink_to_fit();
  }
  return 1;
}

// --- unpacking ---

// What is left of the input. Holds no memory.
class Input {
 public:
  Input(lua_State* lua, const char* bytes, size_t size)
      : lua_(lua), next_(bytes), end_(bytes + size) {}

  size_t left() const { return static_cast<size_t>(end_ - next_); }

  // Raises an error if there are not as many.
  const char* Take(size_t size) {
    if (size > left()) luaL_error(lua_, "Missing bytes in input.");
    const char* const bytes = next_;
    next_ += size;
    return bytes;
  }

  uint64_t Number(size_t size) {
    const char* const bytes = Take(size);
    uint64_t number = 0;
    for (size_t i = 0; i < size; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
    return number;
  }

 private:
  lua_State* const lua_;
  const char* next_;
  const char* const end_;
};

// Aggregates that lack items; their tables, and a map's key, stand on Lua's stack.
struct Open {
  uint32_t left;  // of a map: keys and values
  uint32_t next;  // of an array: the next index
  bool is_map;
};

class Unpacker {
 public:
  Unpacker(lua_State* lua, Input* input) : lua_(lua), input_(input) {}

  // Pushes one value.
  void Run() {
    do {
      if (ReadValue()) Place();
    } while (depth_ > 0);
  }

 private:
  // True if a whole value was pushed, false if an aggregate was opened.
  bool ReadValue();
  void Place();

  bool String(size_t size) {
    lua_pushlstring(lua_, input_->Take(size), size);
    return true;
  }
  bool Unsigned(uint64_t value) {
    if (value <= INT64_MAX) return Signed(static_cast<int64_t>(value));
    return Float(static_cast<double>(value));
  }
  bool Signed(int64_t value) {
    lua_pushinteger(lua_, value);
    return true;
  }
  bool Float(double value) {
    lua_pushnumber(lua_, value);
    return true;
  }
  bool Aggregate(size_t count, bool is_map) {
    if (depth_ == kUnpackedNestingMax) luaL_error(lua_, "Too many nested values in input.");
    // Each item needs a byte, so no small input makes a large table.
    const size_t items = is_map ? 2 * count : count;
    if (items > input_->left()) luaL_error(lua_, "Missing bytes in input.");
    lua_createtable(lua_, is_map ? 0 : static_cast<int>(count),
                    is_map ? static_cast<int>(count) : 0);
    if (count == 0) return true;
    open_[depth_++] = {.left = static_cast<uint32_t>(items), .next = 1, .is_map = is_map};
    return false;
  }

  lua_State* const lua_;
  Input* const input_;
  size_t depth_ = 0;
  Open open_[kUnpackedNestingMax];
};

bool Unpacker::ReadValue() {
  luaL_checkstack(lua_, 3, "too many nested values");
  const auto type = static_cast<uint8_t>(*input_->Take(1));
  if (type <= 0x7F) return Signed(type);
  if (type >= 0xE0) return Signed(static_cast<int8_t>(type));
  if (type <= 0x8F) return Aggregate(type & 15, true);
  if (type <= 0x9F) return Aggregate(type & 15, false);
  if (type <= 0xBF) return String(type & 31);
  switch (type) {
    case 0xC0:
      lua_pushnil(lua_);
      return true;
    case 0xC2:
    case 0xC3:
      lua_pushboolean(lua_, type & 1);
      return true;
    case 0xC4:
    case 0xD9:
      return String(input_->Number(1));
    case 0xC5:
    case 0xDA:
      return String(input_->Number(2));
    case 0xC6:
    case 0xDB:
      return String(input_->Number(4));
    case 0xCA:
      return Float(std::bit_cast<float>(static_cast<uint32_t>(input_->Number(4))));
    case 0xCB:
      return Float(std::bit_cast<double>(input_->Number(8)));
    case 0xCC:
      return Unsigned(input_->Number(1));
    case 0xCD:
      return Unsigned(input_->Number(2));
    case 0xCE:
      return Unsigned(input_->Number(4));
    case 0xCF:
      return Unsigned(input_->Number(8));
    case 0xD0:
      return Signed(static_cast<int8_t>(input_->Number(1)));
    case 0xD1:
      return Signed(static_cast<int16_t>(input_->Number(2)));
    case 0xD2:
      return Signed(static_cast<int32_t>(input_->Number(4)));
    case 0xD3:
      return Signed(static_cast<int64_t>(input_->Number(8)));
    case 0xDC:
      return Aggregate(input_->Number(2), false);
    case 0xDD:
      return Aggregate(input_->Number(4), false);
    case 0xDE:
      return Aggregate(input_->Number(2), true);
    case 0xDF:
      return Aggregate(input_->Number(4), true);
    default:  // extension types, and 0xC1
      luaL_error(lua_, "Bad data format in input.");
      return false;
  }
}

// The value on the top is whole: into the table that it belongs to, and so on outwards.
void Unpacker::Place() {
  while (depth_ > 0) {
    Open& open = open_[depth_ - 1];
    --open.left;
    if (!open.is_map) {
      lua_rawseti(lua_, -2, open.next++);
    } else if (open.left % 2 == 0) {
      lua_rawset(lua_, -3);
    }  // else it is a key, which waits for its value
    if (open.left > 0) return;
    --depth_;
  }
}

// `limit` values (0: all) from `offset` on. With `tell_next`, the first result is the offset of
// what follows them, or -1 at the end.
int UnpackValues(lua_State* lua, lua_Integer limit, lua_Integer offset, bool tell_next) {
  size_t size;
  const char* const bytes = luaL_checklstring(lua, 1, &size);
  if (offset < 0 || limit < 0) {
    return luaL_error(lua, "Invalid request to unpack with offset of %d and limit of %d.",
                      static_cast<int>(offset), static_cast<int>(size));
  }
  if (static_cast<uint64_t>(offset) > size) {
    return luaL_error(lua, "Start offset %d greater than input length %d.",
                      static_cast<int>(offset), static_cast<int>(size));
  }
  const int below = lua_gettop(lua);
  if (tell_next) lua_pushinteger(lua, -1);
  const auto start = static_cast<size_t>(offset);
  Input input(lua, bytes + start, size - start);
  Unpacker unpacker(lua, &input);
  for (lua_Integer count = 0; input.left() > 0 && (limit == 0 || count < limit); ++count) {
    unpacker.Run();
  }
  if (tell_next && input.left() > 0) {
    lua_pushinteger(lua, static_cast<lua_Integer>(size - input.left()));
    lua_replace(lua, below + 1);
  }
  return lua_gettop(lua) - below;
}

int Unpack(lua_State* lua) { return UnpackValues(lua, 0, 0, false); }

int UnpackOne(lua_State* lua) {
  const lua_Integer offset = luaL_optinteger(lua, 2, 0);
  return UnpackValues(lua, 1, offset, true);
}

int UnpackLimit(lua_State* lua) {
  const lua_Integer limit = luaL_checkinteger(lua, 2);
  return UnpackValues(lua, limit, luaL_optinteger(lua, 3, 0), limit != 0);
}

constexpr luaL_Reg kMessagePack[] = {{"pack", Pack},
                                     {"unpack", Unpack},
                                     {"unpack_one", UnpackOne},
                                     {"unpack_limit", UnpackLimit},
                                     {nullptr, nullptr}};

}  // namespace

int OpenMessagePack(lua_State* lua) {
  luaL_newlib(lua, kMessagePack);
  lua_pushliteral(lua, "cmsgpack");
  lua_setfield(lua, -2, "_NAME");
  lua_pushliteral(lua, "lua-cmsgpack 0.4.0");  // the behaviour that scripts may expect
  lua_setfield(lua, -2, "_VERSION");
  return 1;
}

}  // namespace dfly
