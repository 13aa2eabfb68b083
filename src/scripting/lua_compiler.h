// SPDX-License-Identifier: Apache-2.0
// The beginnings of structures of Lua 5.4's compiler, for lua_compiler.cc alone. lua_layout.h says
// which versions have them.
#pragma once

#include <cstdint>
#include <lua.hpp>

#include "scripting/lua_layout.h"

namespace dfly {

struct LuaToken {
  // 0 before the first one; a character; or one of these.
  static constexpr int kFirstWord = 256;
  static constexpr int kAnd = kFirstWord;
  static constexpr int kElseif = kFirstWord + 4;
  static constexpr int kFor = kFirstWord + 7;
  static constexpr int kFunction = kFirstWord + 8;
  static constexpr int kGoto = kFirstWord + 9;
  static constexpr int kIf = kFirstWord + 10;
  static constexpr int kIn = kFirstWord + 11;
  static constexpr int kLocal = kFirstWord + 12;
  static constexpr int kNot = kFirstWord + 14;
  static constexpr int kOr = kFirstWord + 15;
  static constexpr int kReturn = kFirstWord + 17;
  static constexpr int kUntil = kFirstWord + 20;
  static constexpr int kWhile = kFirstWord + 21;
  static constexpr int kFirstOperator = kFirstWord + 22;  // "//"
  static constexpr int kDots = kFirstWord + 24;           // "..."
  static constexpr int kLastOperator = kFirstWord + 30;   // ">>"
  static constexpr int kEnd = kFirstWord + 32;
  static constexpr int kName = kFirstWord + 35;

  int type;
  union {
    lua_Number number;
    lua_Integer integer;
    LuaText* text;
  };
};

struct LuaLexer {
  int character;
  int line;
  int last_line;
  LuaToken token;
  LuaToken ahead;  // kEnd: there is none
};

struct LuaExpression {
  static constexpr int kFloatConstant = 5;
  static constexpr int kIntegerConstant = 6;
  static constexpr int kNoJump = -1;

  int kind;
  union {
    lua_Integer integer;
    lua_Number number;
    void* text;
  };
  int if_true;
  int if_false;
};

}  // namespace dfly
