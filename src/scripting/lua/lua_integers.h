// SPDX-License-Identifier: Apache-2.0
// Which numbers of a function may be integers. All numbers of scripts are floats (lua_numbers.cc),
// but Lua finds integers in tables faster, and adds and divides them faster. In
//
//   local i = 1  while i <= #t do  x = t[i]  i = i + 2  end
//
// nobody can tell that `i` is one. A result is an integer if
//
// * it is a small whole constant, a length, or a sum, difference, product or remainder of integers;
// * it is between -2^53 and 2^53, so a float would have been the same, and is never -0;
// * it is only used where a float would do the same: as a key, in a comparison, in arithmetic whose
//   other side is a float, or in arithmetic that gives such an integer again.
//
// A variable may be one if all that is assigned to it is, and no closure has it. What it can be is
// reckoned in ranges. A variable that only grows by small numbers has no bound, but it would take
// hours to get far: kFar.
//
// So no integer gets to where one could tell. The other way round nothing is claimed: where an
// integer may be, a float may be, too, as Lua looks what it has.
// Inside this folder only.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>

#include "scripting/lua/lua_compiler.h"

namespace dfly {

// False only in tests: numbers stay floats, in what is compiled and in what runs from then on.
inline constinit bool lua_has_integers = true;

// How a loop uses its variable.
struct LuaLoopUse {
  int keys = 0;             // so many times as a key, which a float may be, too
  bool is_integer = false;  // in arithmetic of integers
  bool is_float = false;    // somewhere it has to be a float
  bool is_changed = false;  // or may be
};

// Of one function at a time; owned by its thread, as it is too large for the stacks of fibers.
class LuaIntegers {
 public:
  // Longer functions are left as they are.
  static constexpr int kCodeMax = 4096;

  // REQUIRES: state->size <= kCodeMax.
  void Find(LuaFunctionState* state);
  // As if nothing but lengths could be an integer. REQUIRES: the same.
  void FindNothing(LuaFunctionState* state);
  // Makes integers of what was found. And where a small number is added to a float, the instruction
  // has the number instead of the index of a constant, as Lua takes less for it. May raise an error
  // of memory.
  void Apply();

  // What the body of a loop, from `begin` to `end`, does with its variable.
  LuaLoopUse UseOf(uint8_t variable, int begin, int end) const;
  // Lets it use the counter, where that may be an integer.
  void UseCounter(uint8_t variable, uint8_t counter, int begin, int end);

  // Whether something jumps there.
  bool is_target(int at) const { return targets_[static_cast<size_t>(at)]; }

  void Remove(int instruction) { removed_.set(static_cast<size_t>(instruction)); }
  // Those that Remove was called for.
  void RemoveInstructions();

 private:
  struct Range {
    double low;
    double high;
  };
  using MaybeRange = std::optional<Range>;

  struct Variable {
    int begin;
    int end;
    int first_write;
    uint8_t reg;
    bool is_integer;
    MaybeRange range;
  };
  // A `for` that counts.
  struct Loop {
    int begin;
    int end;
    uint8_t variable;
    Range range;
  };

  static constexpr size_t kVariablesMax = 32;
  static constexpr size_t kLoopsMax = 32;

  void FindTargets();
  void FindVariables();
  void FindLoops();
  void FindSmallSums();
  Range RangeOfLoop(int prepare, uint8_t counter) const;
  int FirstWrite(int begin, int end, uint8_t reg) const;
  // The instruction of the same straight piece of code whose result a register has; -1: unknown.
  int LastWrite(int at, uint8_t reg) const;
  bool IsVariable(int at, uint8_t reg) const { return reg < active_[static_cast<size_t>(at)]; }
  const Variable* VariableAt(int at, uint8_t reg) const;
  // The one that an instruction assigns to.
  const Variable* AssignedBy(int at) const;

  bool ReckonRanges();
  MaybeRange RangeOf(int at) const;
  MaybeRange RangeOfOperand(int at, uint8_t reg) const;
  MaybeRange Growth(const Variable& variable, int at) const;
  std::optional<double> Constant(int at) const;
  bool IsLength(int at) const;

  // Whether nobody can tell what the instruction reads there.
  bool IsTolerant(int at, uint8_t reg) const;
  // The same for what reads the result, which is no variable.
  bool IsUserTolerant(int at) const;
  bool IsOtherInteger(int at, uint8_t reg) const;
  bool MayBeInteger(int at) const;
  bool MayBeInteger(const Variable& variable) const;
  void AddUse(int at, uint8_t variable, LuaLoopUse* use) const;
  void SetConstant(int at, double number);

  bool is_integer(int at) const { return integers_[static_cast<size_t>(at)]; }
  LuaInstruction& code(int at) const { return state_->function->code[at]; }

  LuaFunctionState* state_ = nullptr;
  std::bitset<kCodeMax> integers_;
  std::bitset<kCodeMax + 1> targets_;
  std::bitset<kCodeMax> removed_;
  // Sums of a float and a small number.
  std::bitset<kCodeMax> small_sums_;
  // How many registers are variables.
  std::array<uint8_t, kCodeMax> active_;
  // Where the instructions are when some are removed.
  std::array<uint16_t, kCodeMax + 1> places_;
  std::array<Variable, kVariablesMax> variables_;
  std::array<Loop, kLoopsMax> loops_;
  size_t variable_count_ = 0;
  size_t loop_count_ = 0;
  bool has_room_ = false;  // for more constants
};

}  // namespace dfly
