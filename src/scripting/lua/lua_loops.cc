// SPDX-License-Identifier: Apache-2.0
// Loops over arrays. All numbers are floats (lua_numbers.cc), but a table finds integers faster. So
//
//   for i = 1, #t do x = t[i + 1] end
//
// counts in integers, if it begins with one and has a whole step. Lua has the counter in two
// registers: its own, and the variable of the script. What the script does with its variable is
// changed when a function has been compiled:
//
// * Where it is a key, or a key but for a small number that is added, or in arithmetic that may
//   have integers (lua_integers.h), the counter is used instead.
// * Where nobody could tell an integer from a float (compared; in arithmetic whose other operand is
//   a float; one side of a division), it stays.
// * If it is used in any other way, it becomes a float at the beginning of each turn. If it is a
//   key once or twice then, the loop counts in floats: that takes less.
// * A loop that assigns to its variable, or where a closure may do so, counts in floats. So does
//   one whose first number is not known before it runs, if no counter would be used.
//
// So no integer gets out of a loop, and none has more than 53 bits. For that there are two more
// instructions for each loop, with the linker's help as in lua_numbers.cc: one before the loop that
// makes integers (it is one of Lua's for metamethods, with a number that no metamethod has), and
// one at the beginning of a turn that makes a float, with the one that follows all arithmetic.
#include <cmath>
#include <cstdint>
#include <lua.hpp>

#include "scripting/lua/lua_compiler.h"
#include "scripting/lua/lua_integers.h"
#include "scripting/lua/lua_work.h"

namespace {

using dfly::LuaExpression;
using dfly::LuaFunction;
using dfly::LuaFunctionState;
using dfly::LuaInstruction;
using dfly::LuaIntegers;
using dfly::LuaValue;

// A float as a key costs a third of what makes a float of an integer.
constexpr int kFloatKeysMax = 2;
// An instruction has room for the index of so many constants.
constexpr int kConstantsMax = 250;

constexpr int kOperatorAdd = 0;  // from lcode.h

// Most loops begin with a small number of the source and have no step: where that is loaded; null:
// another loop.
LuaInstruction* FindBeginning(const LuaIntegers& integers, const LuaFunction& function, int prepare,
                              uint8_t counter) {
  const LuaInstruction step = function.code[prepare - 2];
  if (step.code() != LuaInstruction::kLoadInteger || step.a() != counter + 2) return nullptr;
  // What computes the limit has only registers above the counter.
  constexpr int kLimitSizeMax = 16;
  for (int i = prepare - 3; i >= 0 && i > prepare - 3 - kLimitSizeMax; --i) {
    if (integers.is_target(i + 1)) return nullptr;  // it may be one of several
    LuaInstruction* const instruction = &function.code[i];
    if (instruction->a() != counter || !instruction->sets_a()) continue;
    return instruction->code() == LuaInstruction::kLoadFloat ? instruction : nullptr;
  }
  return nullptr;
}

// REQUIRES: __wrap_luaK_codeABx made it, with its two instructions.
void FinishLoop(LuaIntegers* integers, const LuaFunction& function, int prepare) {
  const int begin = prepare + 1 + LuaInstruction::kMakeFloatSize;
  const int end = function.code[prepare].target(prepare);
  LuaInstruction& jump_back = function.code[end];
  const uint8_t counter = jump_back.a();
  const auto variable = static_cast<uint8_t>(counter + 3);
  dfly::CountWork(static_cast<size_t>(end - begin) / 16);
  const dfly::LuaLoopUse use = integers->UseOf(variable, begin, end);
  LuaInstruction* const beginning = FindBeginning(*integers, function, prepare, counter);
  // A float as a key takes less than what makes it of an integer. If the script needs no float,
  // and nothing has to be made an integer when it runs, counting takes less.
  const bool helps = use.is_float ? use.keys > kFloatKeysMax : use.keys > 0 || beginning != nullptr;
  const bool is_counted = !use.is_changed && (use.is_integer || helps);
  if (is_counted) {
    integers->UseCounter(variable, counter, begin, end);
    // With a limit out of range such a loop takes years either way.
    if (beginning != nullptr) beginning->set_code(LuaInstruction::kLoadInteger);
  }
  if (!is_counted || beginning != nullptr) integers->Remove(prepare - 1);
  if (is_counted && use.is_float) return;
  if (is_counted || beginning != nullptr) {
    for (int i = 0; i < LuaInstruction::kMakeFloatSize; ++i) integers->Remove(prepare + 1 + i);
  } else {
    jump_back.set_target(end, begin);  // only the first one may be -0, which becomes 0
  }
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
  // In 5.1 the step is subtracted first and added again, so -0 becomes 0.
  if (loop[0].type == LuaValue::kFloat) loop[0].number += 0.0;
  if (!dfly::lua_has_integers) return;
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
         function.is_float(instruction.c()) && function.constants[instruction.c()].number == 0;
}

// Where it does not matter whether a length is an integer: it need not become a float then.
void DropZero(LuaFunctionState* state, LuaExpression* length) {
  if (!dfly::lua_has_integers) return;
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

bool HasLoops(const LuaFunctionState& state) {
  for (int i = 0; i < state.size; ++i) {
    const LuaInstruction instruction = state.function->code[i];
    if (instruction.is_jump() && instruction.target(i) <= i) return true;
  }
  return false;
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
void __wrap_luaK_infix(LuaFunctionState* state, int binary, LuaExpression* left) {
  if (IsComparison(binary)) DropZero(state, left);
  dfly::InfixWithShortList(state, binary, left);
}
void __real_luaK_posfix(LuaFunctionState* state, int binary, LuaExpression* left,
                        LuaExpression* right, int line);
void __wrap_luaK_posfix(LuaFunctionState* state, int binary, LuaExpression* left,
                        LuaExpression* right, int line) {
  if (IsComparison(binary)) DropZero(state, right);
  __real_luaK_posfix(state, binary, left, right, line);
  if (!dfly::lua_has_integers) return;
  // Now the length, that plus 0, and what is done with it: each of these two with what follows
  // arithmetic.
  if (left->kind != LuaExpression::kInstruction || left->place != state->size - 2) return;
  const int zero = left->place - 2;
  LuaInstruction* const code = state->function->code;
  const LuaInstruction last = code[left->place];
  if (last.code() < LuaInstruction::kAddConstant ||
      last.code() > LuaInstruction::kFloorDivideConstant || state->last_target > zero ||
      !state->function->is_float(last.c()) || !IsLengthPlusZero(*state, zero) ||
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
  if (dfly::lua_has_integers) DropZeroOfLimit(state, a);
  luaK_codeABCk(state, LuaInstruction::kMetamethod, a, a + 1, LuaInstruction::kCountInIntegers, 0);
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
  if (dfly::lua_has_integers && state->size <= LuaIntegers::kCodeMax) {
    // Nobody else has the thread meanwhile.
    static thread_local LuaIntegers integers;
    HasLoops(*state) ? integers.Find(state) : integers.FindNothing(state);
    const LuaFunction& function = *state->function;
    for (int i = 1; i < state->size; ++i) {
      if (LuaInstruction::CountsInIntegers(function.code + i)) FinishLoop(&integers, function, i);
    }
    integers.Apply();
    integers.RemoveInstructions();
  }
  __real_luaK_finish(state);
}

// Keys. An index that is a whole number is used as an integer, and so are a length
// (lua_compiler.cc) and a small number that is added.
void __real_luaK_indexed(LuaFunctionState* state, LuaExpression* table, LuaExpression* key);
void __wrap_luaK_indexed(LuaFunctionState* state, LuaExpression* table, LuaExpression* key) {
  if (!dfly::lua_has_integers) return __real_luaK_indexed(state, table, key);
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
    if (const int addend = state->function->SmallAddend(*sum); addend != 0) sum->AddSmall(addend);
  }
  __real_luaK_indexed(state, table, key);
}

// Metamethods see numbers as scripts do.
void __real_luaT_trybinTM(lua_State* lua, const LuaValue* left, const LuaValue* right,
                          LuaValue* result, int event);
void __wrap_luaT_trybinTM(lua_State* lua, LuaValue* left, const LuaValue* right, LuaValue* result,
                          int event) {
  if (event == LuaInstruction::kCountInIntegers) return CountInIntegers(left);
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
