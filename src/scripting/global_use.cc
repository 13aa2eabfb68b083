// SPDX-License-Identifier: Apache-2.0
#include "scripting/global_use.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <lua.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {
namespace {

static_assert(LUA_VERSION_NUM == 504, "the bytecode of Lua 5.4");

// To a script, its globals are an upvalue, and the instructions that touch it show all that is done
// with it. They are read off the chunk as lua_dump writes it, which is:
//
//   header      "\x1BLua", 2 + 6 bytes, sizes of 3 types, an integer and a number
//   upvalues    1 byte: how many
//   function    source, 2 numbers for lines, 3 bytes, code, constants, upvalues, functions, and
//               four lists for debuggers, which are empty here
//
// Numbers have 7 bits in a byte, the last of which has the 8th bit set.
class ChunkReader {
 public:
  explicit ChunkReader(std::string_view dump) : rest_(dump) {}

  // As MayChangeGlobals; true also if the dump is not as expected.
  bool Run() {
    constexpr size_t kHeader = 4 + 2 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number);
    Skip(kHeader);
    return Byte() != 1 || Function(0) || failed_ || !rest_.empty();
  }

 private:
  // From lopcodes.h: 7 bits of an instruction; then A (8), k (1), B (8), C (8).
  enum Opcode : uint8_t { kGetUpvalue = 9, kSetUpvalue = 10, kSetTableOfUpvalue = 15 };
  static constexpr uint8_t kFloatConstant = 0x13;
  static constexpr uint8_t kIntegerConstant = 0x03;
  static constexpr uint8_t kStringType = 4;

  void Skip(size_t size) {
    if (size > rest_.size()) {
      failed_ = true;
      size = rest_.size();
    }
    rest_.remove_prefix(size);
  }

  uint8_t Byte() {
    const uint8_t byte = rest_.empty() ? 0 : static_cast<uint8_t>(rest_[0]);
    Skip(1);
    return byte;
  }

  size_t Number() {
    size_t number = 0;
    for (;;) {
      const uint8_t byte = Byte();
      number = number << 7 | (byte & 0x7F);
      if ((byte & 0x80) != 0 || failed_) return number;
    }
  }

  void SkipString() {
    const size_t size = Number();  // and 1; 0 for none
    if (size > 0) Skip(size - 1);
  }

  // `globals`: which upvalue has them, if any.
  bool Code(std::optional<size_t> globals) {
    const size_t count = Number();
    if (failed_ || count > rest_.size() / sizeof(uint32_t)) return true;
    bool may_change = false;
    for (size_t i = 0; i < count && globals; ++i) {
      uint32_t instruction;
      std::memcpy(&instruction, rest_.data() + i * sizeof(instruction), sizeof(instruction));
      const uint32_t a = instruction >> 7 & 0xFF;
      const uint32_t b = instruction >> 16 & 0xFF;
      switch (instruction & 0x7F) {
        case kGetUpvalue:
        case kSetUpvalue:
          may_change |= b == *globals;
          break;
        case kSetTableOfUpvalue:
          may_change |= a == *globals;
          break;
        default:
          break;
      }
    }
    Skip(count * sizeof(uint32_t));
    return may_change;
  }

  void SkipConstants() {
    for (size_t i = Number(); i > 0 && !failed_; --i) {
      const uint8_t type = Byte();
      if (type == kFloatConstant || type == kIntegerConstant) {
        Skip(sizeof(lua_Number));
      } else if ((type & 0x0F) == kStringType) {
        SkipString();
      }
    }
  }

  // `outer_globals`: which of the surrounding function's upvalues has the globals. Of a chunk: its
  // only one.
  bool Function(std::optional<size_t> outer_globals, bool is_chunk = true) {
    SkipString();
    Number();
    Number();
    Skip(3);
    // The upvalues come after the code that uses them.
    const std::string_view code = rest_;
    Code(std::nullopt);
    SkipConstants();
    std::optional<size_t> globals;
    const size_t upvalues = Number();
    for (size_t i = 0; i < upvalues && !failed_; ++i) {
      const bool is_local_of_outer = Byte() != 0;
      const size_t index = Byte();
      Skip(1);
      // A chunk's own counts as a local of what loads it.
      if (is_chunk || (!is_local_of_outer && outer_globals && index == *outer_globals)) globals = i;
    }
    if (failed_ || ChunkReader(code).Code(globals)) return true;
    for (size_t i = Number(); i > 0 && !failed_; --i) {
      if (Function(globals, false)) return true;
    }
    for (int i = 0; i < 4; ++i) {
      if (Number() != 0) failed_ = true;
    }
    return failed_;
  }

  std::string_view rest_;
  bool failed_ = false;
};

int AppendDump(lua_State*, const void* bytes, size_t size, void* dump) {
  static_cast<std::string*>(dump)->append(static_cast<const char*>(bytes), size);
  return 0;
}

}  // namespace

bool MayChangeGlobals(lua_State* lua) {
  std::string dump;
  lua_dump(lua, AppendDump, &dump, /*strip=*/1);
  return ChunkReader(dump).Run();
}

}  // namespace dfly
