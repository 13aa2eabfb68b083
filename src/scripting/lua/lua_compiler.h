// SPDX-License-Identifier: Apache-2.0
// The beginnings of structures of Lua 5.4's compiler, and what its instructions are made of, for
// lua_compiler.cc, lua_loops.cc, lua_integers.cc and lua_jumps.cc alone. lua_layout.h says which
// versions have them.
#pragma once

#include <cstdint>
#include <lua.hpp>

#include "scripting/lua/lua_layout.h"

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
  void* function;  // that is compiled
  lua_State* lua;
  void* input;
  void* buffer;
  void* strings;
  void* variables;
  LuaText* source;
  LuaText* environment;  // the name of the table of globals
};

struct LuaExpression {
  static constexpr int kFloatConstant = 5;
  static constexpr int kIntegerConstant = 6;
  static constexpr int kLocal = 9;         // `reg`
  static constexpr int kInstruction = 17;  // the one at `place`, whose A is still open
  static constexpr int kNoJump = -1;

  int kind;
  union {
    lua_Integer integer;
    lua_Number number;
    void* text;
    uint8_t reg;
    int place;
  };
  int if_true;
  int if_false;
};

// 7 bits of the code; then either A (8), k (1), B (8), C (8), or A (8) and Bx (17).
struct LuaInstruction {
  enum Code : uint8_t {
    kMove = 0,
    kLoadInteger = 1,  // Bx - kLoadZero
    kLoadFloat = 2,    // the same, as a float
    kLoadConstant = 3,
    kLoadFalse = 5,
    kLoadTrue = 7,
    kLoadNil = 8,
    kGetUpvalue = 9,
    kSetUpvalue = 10,
    kGetFieldOfUpvalue = 11,
    kGetTable = 12,
    kGetIndex = 13,
    kGetField = 14,
    kSetFieldOfUpvalue = 15,
    kSetTable = 16,
    kSetIndex = 17,
    kSetField = 18,
    kSelf = 20,
    kAddSmall = 21,  // R[A] = R[B] + (C - kSmallZero)
    kAddConstant = 22,
    kSubtractConstant = 23,
    kMultiplyConstant = 24,
    kRemainderConstant = 25,
    kPowerConstant = 26,
    kDivideConstant = 27,
    kFloorDivideConstant = 28,
    kAdd = 34,
    kSubtract = 35,
    kMultiply = 36,
    kRemainder = 37,
    kPower = 38,
    kDivide = 39,
    kFloorDivide = 40,
    kMetamethod = 46,  // what follows arithmetic, and is skipped if that was done
    kMetamethodConstant = 48,
    kMinus = 49,
    kNot = 51,
    kLength = 52,
    kJump = 56,
    kEqual = 57,
    kLess = 58,
    kLessOrEqual = 59,
    kEqualConstant = 60,
    kLastComparison = 65,  // those from here on are with small numbers
    kTest = 66,
    kTestAndSet = 67,
    kReturn = 70,
    kReturnOne = 72,
    kForLoop = 73,
    kForPrepare = 74,
    kForInPrepare = 75,
    kForInLoop = 77,
    kClosure = 79,
  };
  // The number of a metamethod (C of kMetamethod) that Lua does not have: lua_loops.cc.
  static constexpr int kCountInIntegers = 0xF0;
  // The size of what makes a float at the beginning of a turn.
  static constexpr int kMakeFloatSize = 2;
  static constexpr int kSmallZero = 127;
  static constexpr int kLoadZero = 65535;
  static constexpr int kJumpZero = 0xFFFFFF;
  static constexpr uint32_t kIsConstantC = 1U << 15;

  uint32_t bits;

  uint8_t code() const { return bits & 0x7F; }
  uint8_t a() const { return static_cast<uint8_t>(bits >> 7); }
  uint8_t b() const { return static_cast<uint8_t>(bits >> 16); }
  uint8_t c() const { return static_cast<uint8_t>(bits >> 24); }
  uint32_t bx() const { return bits >> 15; }
  bool is_constant_c() const { return (bits & kIsConstantC) != 0; }
  void set_code(uint8_t code) { bits = (bits & ~0x7FU) | code; }
  void set_a(uint8_t a) { bits = (bits & ~(0xFFU << 7)) | static_cast<uint32_t>(a) << 7; }
  void set_b(uint8_t b) { bits = (bits & ~(0xFFU << 16)) | static_cast<uint32_t>(b) << 16; }
  void set_c(uint8_t c) { bits = (bits & ~(0xFFU << 24)) | static_cast<uint32_t>(c) << 24; }
  void set_bx(uint32_t bx) { bits = (bits & 0x7FFF) | bx << 15; }

  bool is_metamethod() const { return code() >= kMetamethod && code() <= kMetamethodConstant; }
  // What a load of a small number loads.
  int number() const { return static_cast<int>(bx()) - kLoadZero; }
  bool is_jump() const {
    return code() == kJump || (code() >= kForLoop && code() <= kForInLoop && code() != kForInCall);
  }
  // Where a jump leads, for one that is at `here`. REQUIRES: is_jump().
  int target(int here) const;
  // REQUIRES: it is in the same direction.
  void set_target(int here, int target);
  // Whether this begins a loop that can count in integers. REQUIRES: it is not the first one.
  static bool CountsInIntegers(const LuaInstruction* instruction) {
    const LuaInstruction before = instruction[-1];
    return instruction->code() == kForPrepare && before.code() == kMetamethod &&
           before.c() == kCountInIntegers;
  }
  // Whether A becomes the result.
  bool sets_a() const;
  // Makes it a sum of B and a small number. REQUIRES: it has A and B already.
  void AddSmall(int addend) {
    set_code(kAddSmall);
    set_c(static_cast<uint8_t>(kSmallZero + addend));
  }

 private:
  static constexpr uint8_t kForInCall = 76;
};

// A function while it is compiled, or afterwards (Proto).
struct LuaFunction {
  struct Upvalue {
    void* name;
    uint8_t is_local;  // of the function around it: `index` is its register
    uint8_t index;
    uint8_t kind;
  };

  void* next;
  uint8_t type;
  uint8_t marked;
  uint8_t parameters;
  uint8_t is_variadic;
  uint8_t stack_size;
  int upvalue_count;
  int constant_count;
  int code_size;
  int line_count;
  int function_count;
  int local_count;
  int far_line_count;
  int first_line;
  int last_line;
  LuaValue* constants;
  LuaInstruction* code;
  LuaFunction** functions;
  struct FarLine {
    int instruction;
    int line;
  };
  struct Local {
    LuaText* name;
    int begin;  // the first instruction where it is in force
    int end;    // behind the last one
  };

  Upvalue* upvalues;
  int8_t* lines;  // each relative to the one before
  FarLine* far_lines;
  Local* locals;

  // A constant that arithmetic or a load has.
  bool is_float(uint32_t constant) const { return constants[constant].type == LuaValue::kFloat; }
  // A small number that the instruction adds; 0 if it is another one, or another instruction.
  int SmallAddend(LuaInstruction instruction) const;
};

// FuncState.
struct LuaFunctionState {
  static constexpr int8_t kFarLine = -0x80;
  static constexpr uint8_t kNextLineIsFar = 129;

  LuaFunction* function;
  LuaFunctionState* outer;
  LuaLexer* lexer;
  void* block;
  int size;         // of the code so far
  int last_target;  // the last instruction that something jumps to
  int previous_line;
  int constants;
  int functions;
  int far_lines;
  int first_local;
  int first_label;
  int16_t debug_locals;
  uint8_t active_locals;
  uint8_t upvalues;
  uint8_t free_register;
  uint8_t since_far_line;
};

// Makes `goto` a name like others in what is compiled from now on. REQUIRES: a new state.
void ForgetGoto(lua_State* lua);

// luaK_infix, in a time that does not depend on what stands before `left` (lua_jumps.cc).
void InfixWithShortList(LuaFunctionState* state, int binary, LuaExpression* left);

}  // namespace dfly
