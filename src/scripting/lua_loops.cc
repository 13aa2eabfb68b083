// SPDX-License-Identifier: Apache-2.0
// Loops over arrays. All numbers are floats (lua_numbers.cc), but a table finds integers faster. So
//
//   for i = 1, #t do x = t[i + 1] end
//
// counts in integers, if it begins with one and has a whole step. Lua has the counter in two
// registers: its own, and the variable of the script. What the script does with its variable is
// changed when a function has been compiled:
//
// * Where it is a key, or a key but for a small number that is added, the counter is the key.
// * Where nobody could tell an integer from a float (compared; in arithmetic whose other operand is
//   a float; one side of a division), it stays.
// * If it is used in any other way, it becomes a float at the beginning of each turn.
// * A loop without keys, or one that assigns to its variable, or where a closure may do so, counts
//   in floats as before.
//
// So no integer gets out of a loop, and none has more than 53 bits. For that there are two more
// instructions for each loop, with the linker's help as in lua_numbers.cc: one before the loop that
// makes integers (it is one of Lua's for metamethods, with a number that no metamethod has), and
// one at the beginning of a turn that makes a float, with the one that follows all arithmetic.
#include <cmath>
#include <cstdint>
#include <lua.hpp>

#include "scripting/lua_compiler.h"
#include "scripting/lua_work.h"

// What an instruction of each code does.
extern "C" const uint8_t luaP_opmodes[];

namespace {

using dfly::LuaExpression;
using dfly::LuaFunction;
using dfly::LuaFunctionState;
using dfly::LuaInstruction;
using dfly::LuaValue;

// The number of a metamethod (C of kMetamethod) that Lua does not have.
constexpr int kCountInIntegers = 0xF0;
// The size of what makes a float at the beginning of a turn.
constexpr int kMakeFloatSize = 2;
// Larger loops are left as they are: a body is looked through once for each loop that it is in.
constexpr uint32_t kBodyMax = 4096;
// An instruction has room for the index of so many constants.
constexpr int kConstantsMax = 250;

constexpr int kOperatorAdd = 0;  // from lcode.h

// How a loop uses its variable.
struct Use {
  bool is_key = false;
  bool is_float = false;    // somewhere it has to be a float
  bool is_changed = false;  // or may be
};

bool SetsA(LuaInstruction instruction) {
  constexpr uint8_t kSetsA = 1 << 3;
  return (luaP_opmodes[instruction.code()] & kSetsA) != 0;
}

// Of arithmetic with a constant.
bool HasFloatConstant(const LuaFunction& function, LuaInstruction instruction) {
  return function.constants[instruction.c()].type == LuaValue::kFloat;
}

bool IsCaptured(const LuaFunction& inner, uint8_t variable) {
  for (int i = 0; i < inner.upvalue_count; ++i) {
    const LuaFunction::Upvalue& upvalue = inner.upvalues[i];
    if (upvalue.is_local != 0 && upvalue.index == variable) return true;
  }
  return false;
}

// A sum that is nothing but a key: __wrap_luaK_indexed made it.
bool IsKeySum(const LuaInstruction* instruction) {
  return instruction->code() == LuaInstruction::kAddSmall &&
         instruction[1].code() == LuaInstruction::kMetamethodConstant;
}

// Adds what this instruction does with the variable. Those that are not listed read only registers
// above all variables, or do with any number the same.
void AddUse(const LuaFunction& function, const LuaInstruction* at, uint8_t variable, Use* use) {
  const LuaInstruction instruction = *at;
  const bool in_a = instruction.a() == variable;
  const bool in_b = instruction.b() == variable;
  const bool in_c = instruction.c() == variable;
  use->is_changed |= in_a && SetsA(instruction);
  switch (instruction.code()) {
    case LuaInstruction::kLoadNil:
      use->is_changed |=
          variable >= instruction.a() && variable <= instruction.a() + instruction.b();
      break;
    case LuaInstruction::kClosure:
      // It may assign to it.
      use->is_changed |= IsCaptured(*function.functions[instruction.bx()], variable);
      break;
    case LuaInstruction::kGetTable:
      use->is_key |= in_c;
      break;
    case LuaInstruction::kSetTable:
      use->is_key |= in_b;
      [[fallthrough]];
    case LuaInstruction::kSetFieldOfUpvalue:
    case LuaInstruction::kSetIndex:
    case LuaInstruction::kSetField:
      use->is_float |= in_c && !instruction.is_constant_c();
      break;
    case LuaInstruction::kAddSmall:
      (IsKeySum(at) ? use->is_key : use->is_float) |= in_b;
      break;
    case LuaInstruction::kAddConstant:
    case LuaInstruction::kSubtractConstant:
    case LuaInstruction::kMultiplyConstant:
    case LuaInstruction::kRemainderConstant:
    case LuaInstruction::kPowerConstant:
    case LuaInstruction::kDivideConstant:
    case LuaInstruction::kFloorDivideConstant:
      use->is_float |= in_b && !HasFloatConstant(function, instruction);
      break;
    case LuaInstruction::kAdd:
    case LuaInstruction::kSubtract:
    case LuaInstruction::kMultiply:
    case LuaInstruction::kRemainder:
    case LuaInstruction::kFloorDivide:
      use->is_float |= in_b || in_c;
      break;
    case LuaInstruction::kMove:
    case LuaInstruction::kSelf:
    case LuaInstruction::kMinus:
    case LuaInstruction::kLength:
    case LuaInstruction::kTestAndSet:
      use->is_float |= in_b;
      break;
    case LuaInstruction::kSetUpvalue:
    case LuaInstruction::kReturn:
    case LuaInstruction::kReturnOne:
      use->is_float |= in_a;
      break;
    default:
      break;
  }
}

void UseCounter(LuaInstruction* instruction, uint8_t variable, uint8_t counter) {
  const uint8_t code = instruction->code();
  if (code == LuaInstruction::kGetTable) {
    if (instruction->c() == variable) instruction->set_c(counter);
  } else if (code == LuaInstruction::kSetTable || IsKeySum(instruction)) {
    if (instruction->b() == variable) instruction->set_b(counter);
  }
}

// From register 0 to register 0.
constexpr uint32_t kNothing = LuaInstruction::kMove;

// Most loops begin with a small number of the source and have no step: those are made integers
// here. True: then nothing is left to do when the script runs. With a limit out of range such a
// loop takes years either way.
bool CountsInIntegers(const LuaFunction& function, int prepare, uint8_t counter) {
  const LuaInstruction step = function.code[prepare - 2];
  if (step.code() != LuaInstruction::kLoadInteger || step.a() != counter + 2) return false;
  // What computes the limit has only registers above the counter. (If the beginning is one of
  // several, as with `and`, the others stay floats, and Lua counts in floats then.)
  constexpr int kLimitSizeMax = 16;
  for (int i = prepare - 3; i >= 0 && i > prepare - 3 - kLimitSizeMax; --i) {
    LuaInstruction* const instruction = &function.code[i];
    if (instruction->a() != counter || !SetsA(*instruction)) continue;
    if (instruction->code() != LuaInstruction::kLoadFloat) return false;
    instruction->set_code(LuaInstruction::kLoadInteger);
    return true;
  }
  return false;
}

// REQUIRES: __wrap_luaK_codeABx made it, with its two instructions.
void FinishLoop(const LuaFunction& function, int prepare) {
  LuaInstruction* const begin = &function.code[prepare + 1];
  const uint32_t size = begin[-1].bx();
  LuaInstruction& jump_back = begin[size];
  const uint8_t counter = jump_back.a();
  const auto variable = static_cast<uint8_t>(counter + 3);
  LuaInstruction& make_integers = begin[-2];
  Use use;
  if (size <= kBodyMax) {
    dfly::CountWork(size / 16);
    for (uint32_t i = kMakeFloatSize; i < size; ++i) AddUse(function, begin + i, variable, &use);
  }
  if (use.is_key && !use.is_changed) {
    for (uint32_t i = kMakeFloatSize; i < size; ++i) UseCounter(begin + i, variable, counter);
    if (CountsInIntegers(function, prepare, counter)) make_integers.bits = kNothing;
    if (use.is_float) return;
  } else {
    make_integers.bits = kNothing;
  }
  jump_back.set_bx(jump_back.bx() - kMakeFloatSize);
}

// What a loop can count in.
bool IsCountable(lua_Integer integer) {
  constexpr lua_Integer kMax = lua_Integer{1} << 51;
  return integer >= -kMax && integer <= kMax;
}
bool MakeInteger(LuaValue* value) {
  if (value->type != LuaValue::kFloat) return false;
  const lua_Integer integer = dfly::WholePart(value->number);
  if (static_cast<double>(integer) != value->number || !IsCountable(integer)) return false;
  if (integer == 0 && std::signbit(value->number)) return false;  // it is printed as it is
  value->integer = integer;
  value->type = LuaValue::kInteger;
  return true;
}

// Begin, limit, step. If they are no such numbers Lua's own instruction, which is next, sees to it.
void CountInIntegers(LuaValue* loop) {
  const LuaValue& limit = loop[1];
  LuaValue& step = loop[2];
  if (limit.type == LuaValue::kFloat) {
    if (!IsCountable(dfly::WholePart(limit.number))) return;
  } else if (limit.type != LuaValue::kInteger || !IsCountable(limit.integer)) {
    return;
  }
  // If none was given, it is the integer 1. It is the last to change: Lua counts in integers if
  // both are.
  const bool is_given = step.type != LuaValue::kInteger;
  if (is_given && step.type != LuaValue::kFloat) return;
  const LuaValue begin = loop[0];
  if (!MakeInteger(&loop[0])) return;
  if (is_given && !MakeInteger(&step)) loop[0] = begin;
}

// A small number that the instruction adds; 0 if it is another one, or another instruction.
int SmallAddend(const LuaFunction& function, LuaInstruction instruction) {
  const bool is_sum = instruction.code() == LuaInstruction::kAddConstant;
  if (!is_sum && instruction.code() != LuaInstruction::kSubtractConstant) return 0;
  if (!HasFloatConstant(function, instruction)) return 0;
  const double number = function.constants[instruction.c()].number;
  if (!(std::fabs(number) <= LuaInstruction::kSmallZero)) return 0;
  const int addend = static_cast<int>(number);
  if (addend != number) return 0;
  return is_sum ? addend : -addend;
}

// As luaK_fixline does it.
void RemoveLast(LuaFunctionState* state) {
  const int last = state->size - 1;
  const int8_t line = state->function->lines[last];
  if (line != LuaFunctionState::kFarLine) {
    state->previous_line -= line;
    --state->since_far_line;
  } else {
    --state->far_lines;
    state->since_far_line = LuaFunctionState::kNextLineIsFar;
  }
  state->size = last;
}

// Whether a sum is of a length and 0, as __wrap_luaK_prefix makes it.
bool IsLengthPlusZero(const LuaFunctionState& state, int sum) {
  if (sum < 1 || state.last_target >= sum) return false;
  const LuaFunction& function = *state.function;
  const LuaInstruction instruction = function.code[sum];
  const LuaInstruction length = function.code[sum - 1];
  return length.code() == LuaInstruction::kLength &&
         instruction.code() == LuaInstruction::kAddConstant && instruction.b() == length.a() &&
         HasFloatConstant(function, instruction) && function.constants[instruction.c()].number == 0;
}

// Where it does not matter whether a length is an integer: it need not become a float then.
void DropZero(LuaFunctionState* state, LuaExpression* length) {
  if (length->kind != LuaExpression::kInstruction || length->if_true != length->if_false ||
      length->place != state->size - 2 || !IsLengthPlusZero(*state, length->place)) {
    return;
  }
  RemoveLast(state);
  RemoveLast(state);
  --length->place;
}

// `for i = 1, #t do`: this length, too, may be an integer.
void DropZeroOfLimit(LuaFunctionState* state, int counter) {
  const int step = state->size - 1;
  const int sum = step - 2;
  LuaInstruction* const code = state->function->code;
  if (state->last_target >= sum || !IsLengthPlusZero(*state, sum) || code[sum].a() != counter + 1 ||
      code[step].a() != counter + 2 || code[step].code() != LuaInstruction::kLoadInteger) {
    return;
  }
  code[sum - 1].set_a(code[sum].a());
  code[sum] = code[step];
  RemoveLast(state);
  RemoveLast(state);
}

}  // namespace

extern "C" {

int luaK_codeABCk(LuaFunctionState* state, int code, int a, int b, int c, int k);

// Comparisons do not tell integers from floats, nor does arithmetic with a constant, which is a
// float.
static bool IsComparison(int binary) {
  constexpr int kFirst = 13;  // from lcode.h: == < <= ~= > >=
  constexpr int kLast = 18;
  return binary >= kFirst && binary <= kLast;
}
void __real_luaK_infix(LuaFunctionState* state, int binary, LuaExpression* left);
void __wrap_luaK_infix(LuaFunctionState* state, int binary, LuaExpression* left) {
  if (IsComparison(binary)) DropZero(state, left);
  __real_luaK_infix(state, binary, left);
}
void __real_luaK_posfix(LuaFunctionState* state, int binary, LuaExpression* left,
                        LuaExpression* right, int line);
void __wrap_luaK_posfix(LuaFunctionState* state, int binary, LuaExpression* left,
                        LuaExpression* right, int line) {
  if (IsComparison(binary)) DropZero(state, right);
  __real_luaK_posfix(state, binary, left, right, line);
  // Now the length, that plus 0, and what is done with it: each of these two with what follows
  // arithmetic.
  if (left->kind != LuaExpression::kInstruction || left->place != state->size - 2) return;
  const int zero = left->place - 2;
  LuaInstruction* const code = state->function->code;
  const LuaInstruction last = code[left->place];
  if (last.code() < LuaInstruction::kAddConstant ||
      last.code() > LuaInstruction::kFloorDivideConstant || state->last_target > zero ||
      !HasFloatConstant(*state->function, last) || !IsLengthPlusZero(*state, zero) ||
      code[zero].a() != last.b() || last.b() < state->free_register) {  // or a variable has it
    return;
  }
  const uint8_t length = code[zero].b();
  code[zero] = code[zero + 2];
  code[zero].set_b(length);
  code[zero + 1] = code[zero + 3];
  code[zero + 1].set_a(length);
  RemoveLast(state);
  RemoveLast(state);
  left->place = zero;
}

int __real_luaK_codeABx(LuaFunctionState* state, int code, int a, unsigned bx);
int __wrap_luaK_codeABx(LuaFunctionState* state, int code, int a, unsigned bx) {
  if (code != LuaInstruction::kForPrepare || state->constants > kConstantsMax) {
    return __real_luaK_codeABx(state, code, a, bx);
  }
  DropZeroOfLimit(state, a);
  luaK_codeABCk(state, LuaInstruction::kMetamethod, a, a + 1, kCountInIntegers, 0);
  const int prepare = __real_luaK_codeABx(state, code, a, bx);
  const uint8_t variable = static_cast<uint8_t>(a + 3);
  const uint8_t free_register = state->free_register;  // `variable`: it has yet to be reserved
  const int line = state->lexer->line;
  LuaExpression sum{};
  sum.kind = LuaExpression::kLocal;
  sum.reg = variable;
  sum.if_true = sum.if_false = LuaExpression::kNoJump;
  __wrap_luaK_infix(state, kOperatorAdd, &sum);
  LuaExpression zero{};
  zero.kind = LuaExpression::kFloatConstant;
  zero.if_true = zero.if_false = LuaExpression::kNoJump;
  __wrap_luaK_posfix(state, kOperatorAdd, &sum, &zero, line);
  state->function->code[sum.place].bits |= static_cast<uint32_t>(variable) << 7;
  state->free_register = free_register;
  return prepare;
}

void __real_luaK_finish(LuaFunctionState* state);
void __wrap_luaK_finish(LuaFunctionState* state) {
  const LuaFunction& function = *state->function;
  for (int i = 1; i < state->size; ++i) {
    if (function.code[i].code() != LuaInstruction::kForPrepare) continue;
    const LuaInstruction before = function.code[i - 1];
    if (before.code() == LuaInstruction::kMetamethod && before.c() == kCountInIntegers) {
      FinishLoop(function, i);
    }
  }
  __real_luaK_finish(state);
}

// Keys. An index that is a whole number is used as an integer, and so are a length
// (lua_compiler.cc) and a small number that is added.
void __real_luaK_indexed(LuaFunctionState* state, LuaExpression* table, LuaExpression* key);
void __wrap_luaK_indexed(LuaFunctionState* state, LuaExpression* table, LuaExpression* key) {
  if (key->kind == LuaExpression::kFloatConstant) {
    constexpr double kKeyMax = 1 << 30;
    if (std::fabs(key->number) < kKeyMax) {
      const auto integer = static_cast<lua_Integer>(key->number);
      if (static_cast<double>(integer) == key->number) {
        key->kind = LuaExpression::kIntegerConstant;
        key->integer = integer;
      }
    }
  } else if (key->kind == LuaExpression::kInstruction && key->place == state->size - 2 &&
             key->if_true == key->if_false) {
    DropZero(state, key);
    LuaInstruction* const sum = &state->function->code[key->place];
    if (const int addend = SmallAddend(*state->function, *sum); addend != 0) {
      sum->set_code(LuaInstruction::kAddSmall);
      sum->set_c(static_cast<uint8_t>(LuaInstruction::kSmallZero + addend));
    }
  }
  __real_luaK_indexed(state, table, key);
}

// Metamethods see numbers as scripts do.
void __real_luaT_trybinTM(lua_State* lua, const LuaValue* left, const LuaValue* right,
                          LuaValue* result, int event);
void __wrap_luaT_trybinTM(lua_State* lua, LuaValue* left, const LuaValue* right, LuaValue* result,
                          int event) {
  if (event == kCountInIntegers) return CountInIntegers(left);
  // Lua looks where the culprit of an error stands, but not where a number does.
  const LuaValue left_copy = dfly::AsFloat(*left);
  const LuaValue right_copy = dfly::AsFloat(*right);
  __real_luaT_trybinTM(lua, left->type == LuaValue::kInteger ? &left_copy : left,
                       right->type == LuaValue::kInteger ? &right_copy : right, result, event);
}
void __real_luaT_callTMres(lua_State* lua, const LuaValue* method, const LuaValue* table,
                           const LuaValue* key, LuaValue* result);
void __wrap_luaT_callTMres(lua_State* lua, const LuaValue* method, const LuaValue* table,
                           const LuaValue* key, LuaValue* result) {
  const LuaValue copy = dfly::AsFloat(*key);
  __real_luaT_callTMres(lua, method, table, &copy, result);
}
void __real_luaT_callTM(lua_State* lua, const LuaValue* method, const LuaValue* table,
                        const LuaValue* key, const LuaValue* value);
void __wrap_luaT_callTM(lua_State* lua, const LuaValue* method, const LuaValue* table,
                        const LuaValue* key, const LuaValue* value) {
  const LuaValue copy = dfly::AsFloat(*key);
  __real_luaT_callTM(lua, method, table, &copy, value);
}
}  // extern "C"
