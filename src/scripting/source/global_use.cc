// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/global_use.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <lua.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

const char* const kLibraryNames[] = {"bit",   "cjson",  "cmsgpack", "coroutine", "math", "os",
                                     "redis", "string", "struct",   "table",     nullptr};

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

  // kAny also if the dump is not as expected.
  GlobalUse Run() {
    constexpr size_t kHeader = 4 + 2 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number);
    Skip(kHeader);
    if (Byte() != 1) return GlobalUse::kAny;
    const GlobalUse use = Function(0);
    return failed_ || !rest_.empty() ? GlobalUse::kAny : use;
  }

 private:
  // From lopcodes.h: 7 bits of an instruction; then A (8), k (1), B (8), C (8).
  enum Opcode : uint8_t {
    kGetUpvalue = 9,
    kSetUpvalue = 10,
    kGetFieldOfUpvalue = 11,
    kGetField = 14,
    kSetFieldOfUpvalue = 15,
  };
  struct Instruction {
    uint8_t opcode, a, b, c;
  };
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

  std::string_view String() {
    const size_t size = Number();  // and 1; 0 for none
    const std::string_view text = rest_.substr(0, size > 0 ? size - 1 : 0);
    if (size > 0) Skip(size - 1);
    return text;
  }

  std::vector<Instruction> Code() {
    std::vector<Instruction> code;
    const size_t count = Number();
    if (failed_ || count > rest_.size() / sizeof(uint32_t)) {
      failed_ = true;
      return code;
    }
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, rest_.data() + i * sizeof(bits), sizeof(bits));
      code.push_back({.opcode = static_cast<uint8_t>(bits & 0x7F),
                      .a = static_cast<uint8_t>(bits >> 7),
                      .b = static_cast<uint8_t>(bits >> 16),
                      .c = static_cast<uint8_t>(bits >> 24)});
    }
    Skip(count * sizeof(uint32_t));
    return code;
  }

  // Those that are strings; the others are empty.
  std::vector<std::string_view> Constants() {
    std::vector<std::string_view> texts;
    for (size_t i = Number(); i > 0 && !failed_; --i) {
      const uint8_t type = Byte();
      texts.emplace_back();
      if (type == kFloatConstant || type == kIntegerConstant) {
        Skip(sizeof(lua_Number));
      } else if ((type & 0x0F) == kStringType) {
        texts.back() = String();
      }
    }
    return texts;
  }

  static bool IsLibrary(std::string_view name) {
    for (const char* const* library = kLibraryNames; *library != nullptr; ++library) {
      if (name == *library) return true;
    }
    return false;
  }

  // `globals`: which upvalue has them.
  static GlobalUse UseIn(const std::vector<Instruction>& code,
                         const std::vector<std::string_view>& constants, size_t globals) {
    GlobalUse use = GlobalUse::kMembers;
    for (size_t i = 0; i < code.size(); ++i) {
      const Instruction& op = code[i];
      // So it is for long names, and behind many constants. Which name, is not looked for.
      if ((op.opcode == kGetUpvalue || op.opcode == kSetUpvalue) && op.b == globals) {
        return GlobalUse::kAny;
      }
      if (op.opcode == kSetFieldOfUpvalue && op.a == globals) return GlobalUse::kAny;
      if (op.opcode != kGetFieldOfUpvalue || op.b != globals) continue;
      if (op.c < constants.size() && !IsLibrary(constants[op.c])) continue;
      // A library. If the next instruction puts a member of it where it is, nobody else sees it.
      const bool is_lost = i + 1 < code.size() && code[i + 1].opcode == kGetField &&
                           code[i + 1].a == op.a && code[i + 1].b == op.a;
      if (!is_lost) use = GlobalUse::kNames;
    }
    return use;
  }

  // `outer_globals`: which of the surrounding function's upvalues has the globals. Of a chunk: its
  // only one.
  GlobalUse Function(std::optional<size_t> outer_globals, bool is_chunk = true) {
    String();
    Number();
    Number();
    Skip(3);
    const std::vector<Instruction> code = Code();
    const std::vector<std::string_view> constants = Constants();
    std::optional<size_t> globals;
    const size_t upvalues = Number();
    for (size_t i = 0; i < upvalues && !failed_; ++i) {
      const bool is_local_of_outer = Byte() != 0;
      const size_t index = Byte();
      Skip(1);
      // A chunk's own counts as a local of what loads it.
      if (is_chunk || (!is_local_of_outer && outer_globals && index == *outer_globals)) globals = i;
    }
    GlobalUse use = globals ? UseIn(code, constants, *globals) : GlobalUse::kMembers;
    for (size_t i = Number(); i > 0 && !failed_; --i) use = std::max(use, Function(globals, false));
    for (int i = 0; i < 4; ++i) {
      if (Number() != 0) failed_ = true;
    }
    return use;
  }

  std::string_view rest_;
  bool failed_ = false;
};

int AppendDump(lua_State*, const void* bytes, size_t size, void* dump) {
  static_cast<std::string*>(dump)->append(static_cast<const char*>(bytes), size);
  return 0;
}

}  // namespace

GlobalUse GlobalUseOf(lua_State* lua) {
  std::string dump;
  lua_dump(lua, AppendDump, &dump, /*strip=*/1);
  return ChunkReader(dump).Run();
}

}  // namespace dfly
