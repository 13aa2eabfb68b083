// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua/lua_integers.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "scripting/lua/lua_work.h"

// What an instruction of each code does.
extern "C" const uint8_t luaP_opmodes[];

namespace dfly {

namespace {

using Code = LuaInstruction;

// Integers are smaller: to a float they are the same.
constexpr double kMax = 0x1p53;
// A remainder of floats is right up to here.
constexpr double kRemainderMax = 0x1p52;
// Of loops: lua_loops.cc.
constexpr double kLoopMax = 0x1p51;
constexpr double kLengthMax = 0x1p40;
// A variable that grows by kGrowthMax at most is not further from where it began after 2^40 turns,
// which take hours.
constexpr double kFar = 0x1p50;
constexpr double kGrowthMax = 1024;
constexpr double kConstantMax = 0x1p31;
// Rounds in which ranges have to become stable.
constexpr int kRoundsMax = 8;
// As each pass may find one contradiction alone. Real functions need some five.
constexpr int kPassesMax = 16;
// So far an instruction looks for what made its operands, and for what uses its result.
constexpr int kDistanceMax = 32;
// An instruction has room for the index of so many constants, and each may become two.
constexpr int kConstantsMax = 120;

bool IsConstantArithmetic(uint8_t code) {
  return code >= Code::kAddConstant && code <= Code::kFloorDivideConstant;
}
bool IsArithmetic(uint8_t code) { return code >= Code::kAdd && code <= Code::kFloorDivide; }
bool IsComparison(uint8_t code) { return code >= Code::kEqual && code <= Code::kLastComparison; }

// Whose result may be an integer.
bool CanBeInteger(uint8_t code) {
  return code == Code::kMove || code == Code::kLoadFloat || code == Code::kLoadConstant ||
         (code >= Code::kAddConstant && code <= Code::kRemainderConstant) ||
         (code >= Code::kAdd && code <= Code::kMultiply);
}

// What neither jumps nor calls nor uses several registers at once.
bool IsSimple(Code instruction) {
  switch (instruction.code()) {
    case Code::kMove:
    case Code::kLoadInteger:
    case Code::kLoadFloat:
    case Code::kLoadConstant:
    case Code::kLoadFalse:
    case Code::kLoadTrue:
    case Code::kGetUpvalue:
    case Code::kGetFieldOfUpvalue:
    case Code::kGetTable:
    case Code::kGetIndex:
    case Code::kGetField:
    case Code::kSetFieldOfUpvalue:
    case Code::kSetTable:
    case Code::kSetIndex:
    case Code::kSetField:
    case Code::kAddSmall:
    case Code::kMinus:
    case Code::kNot:
    case Code::kLength:
      return true;
    default:
      return IsConstantArithmetic(instruction.code()) || IsArithmetic(instruction.code()) ||
             instruction.is_metamethod();
  }
}

// REQUIRES: IsSimple or a comparison.
bool Reads(Code instruction, uint8_t reg) {
  const bool in_a = instruction.a() == reg;
  const bool in_b = instruction.b() == reg;
  const bool in_c = instruction.c() == reg;
  const uint8_t code = instruction.code();
  if (IsConstantArithmetic(code)) return in_b;
  if (IsArithmetic(code)) return in_b || in_c;
  if (code == Code::kEqual || code == Code::kLess || code == Code::kLessOrEqual) {
    return in_a || in_b;
  }
  if (IsComparison(code)) return in_a;
  switch (code) {
    case Code::kMove:
    case Code::kGetIndex:
    case Code::kGetField:
    case Code::kAddSmall:
    case Code::kMinus:
    case Code::kNot:
    case Code::kLength:
      return in_b;
    case Code::kGetTable:
      return in_b || in_c;
    case Code::kSetTable:
      return in_a || in_b || (in_c && !instruction.is_constant_c());
    case Code::kSetIndex:
    case Code::kSetField:
      return in_a || (in_c && !instruction.is_constant_c());
    case Code::kSetFieldOfUpvalue:
      return in_c && !instruction.is_constant_c();
    default:
      return false;
  }
}

bool IsCaptured(const LuaFunction& inner, uint8_t reg) {
  const std::span upvalues(inner.upvalues, static_cast<size_t>(inner.upvalue_count));
  return std::ranges::any_of(upvalues, [reg](const LuaFunction::Upvalue& upvalue) {
    return upvalue.is_local != 0 && upvalue.index == reg;
  });
}

}  // namespace

// --- instructions ---

int LuaInstruction::target(int here) const {
  switch (code()) {
    case kForLoop:
    case kForInLoop:
      return here + 1 - static_cast<int>(bx());
    case kForPrepare:
    case kForInPrepare:
      return here + 1 + static_cast<int>(bx());
    default:
      return here + 1 + static_cast<int>(bits >> 7) - kJumpZero;
  }
}

void LuaInstruction::set_target(int here, int target) {
  const int distance = target - here - 1;
  if (code() == kJump) {
    bits = (bits & 0x7F) | static_cast<uint32_t>(distance + kJumpZero) << 7;
  } else {
    set_bx(static_cast<uint32_t>(std::abs(distance)));
  }
}

bool LuaInstruction::sets_a() const {
  constexpr uint8_t kSetsA = 1 << 3;
  return (luaP_opmodes[code()] & kSetsA) != 0;
}

int LuaFunction::SmallAddend(LuaInstruction instruction) const {
  const bool is_sum = instruction.code() == Code::kAddConstant;
  if (!is_sum && instruction.code() != Code::kSubtractConstant) return 0;
  if (!is_float(instruction.c())) return 0;
  const double number = constants[instruction.c()].number;
  if (!(std::fabs(number) <= Code::kSmallZero)) return 0;
  const int addend = static_cast<int>(number);
  if (addend != number) return 0;
  return is_sum ? addend : -addend;
}

// As Lua keeps lines: the difference to the one before, or kFarLine for one that is listed.
void LuaIntegers::RemoveInstructions() {
  LuaFunction& function = *state_->function;
  for (int i = 0; i < state_->size; ++i) {
    if (!removed_[static_cast<size_t>(i)]) continue;
    const int difference =
        i + 1 < state_->size ? function.lines[i] + function.lines[i + 1] : INT8_MAX;
    const bool is_next_far =
        i + 1 < state_->size && function.lines[i + 1] == LuaFunctionState::kFarLine;
    if (function.lines[i] == LuaFunctionState::kFarLine ||
        (!is_next_far && std::abs(difference) >= INT8_MAX)) {
      code(i).bits = Code::kMove;  // from register 0 to itself
      removed_.reset(static_cast<size_t>(i));
    } else if (!is_next_far) {
      function.lines[i + 1] = static_cast<int8_t>(difference);
    }
  }
  if (removed_.none()) return;
  int size = 0;
  for (int i = 0; i < state_->size; ++i) {
    places_[static_cast<size_t>(i)] = static_cast<uint16_t>(size);
    if (!removed_[static_cast<size_t>(i)]) ++size;
  }
  places_[static_cast<size_t>(state_->size)] = static_cast<uint16_t>(size);
  const auto place = [this](int old) { return int{places_[static_cast<size_t>(old)]}; };
  for (int i = 0; i < state_->size; ++i) {
    if (removed_[static_cast<size_t>(i)]) continue;
    LuaInstruction instruction = code(i);
    if (instruction.is_jump()) instruction.set_target(place(i), place(instruction.target(i)));
    code(place(i)) = instruction;
    function.lines[place(i)] = function.lines[i];
  }
  for (int i = 0; i < state_->far_lines; ++i) {
    function.far_lines[i].instruction = place(function.far_lines[i].instruction);
  }
  for (int i = 0; i < state_->debug_locals; ++i) {
    function.locals[i].begin = place(function.locals[i].begin);
    function.locals[i].end = place(function.locals[i].end);
  }
  state_->size = size;
}

// --- what there is ---

void LuaIntegers::FindTargets() {
  targets_.reset();
  for (int i = 0; i < state_->size; ++i) {
    if (code(i).is_jump()) targets_.set(static_cast<size_t>(code(i).target(i)));
  }
}

int LuaIntegers::LastWrite(int at, uint8_t reg) const {
  for (int i = at - 1; i >= 0 && i >= at - kDistanceMax; --i) {
    if (is_target(i + 1) || !IsSimple(code(i))) return -1;
    if (code(i).sets_a() && code(i).a() == reg) return i;
  }
  return -1;
}

int LuaIntegers::FirstWrite(int begin, int end, uint8_t reg) const {
  // Jumps to where it begins to be in force are those of a loop there.
  for (int i = 0; i < state_->size && is_target(begin); ++i) {
    if (code(i).is_jump() && code(i).target(i) == begin && (i < begin || i >= end)) return -1;
  }
  const int last = begin - 1;
  if (last < 0 || !IsSimple(code(last))) return -1;
  return code(last).sets_a() && code(last).a() == reg ? last : LastWrite(last, reg);
}

void LuaIntegers::FindVariables() {
  const std::span locals(state_->function->locals, static_cast<size_t>(state_->debug_locals));
  active_.fill(0);
  variable_count_ = 0;
  for (const LuaFunction::Local& local : locals) {
    const uint8_t reg = local.begin < state_->size ? active_[static_cast<size_t>(local.begin)] : 0;
    for (int i = local.begin; i < local.end; ++i) ++active_[static_cast<size_t>(i)];
    const bool is_of_loop = *reinterpret_cast<const char*>(local.name + 1) == '(';
    if (is_of_loop || local.begin >= local.end || variable_count_ == kVariablesMax) continue;
    const int first_write = FirstWrite(local.begin, local.end, reg);
    if (first_write < 0 || !CanBeInteger(code(first_write).code())) continue;
    variables_[variable_count_++] = {local.begin, local.end, first_write, reg, true, {}};
  }
}

const LuaIntegers::Variable* LuaIntegers::VariableAt(int at, uint8_t reg) const {
  for (size_t i = 0; i < variable_count_; ++i) {
    const Variable& variable = variables_[i];
    if (variable.reg == reg && at >= variable.begin && at < variable.end) return &variable;
  }
  return nullptr;
}

const LuaIntegers::Variable* LuaIntegers::AssignedBy(int at) const {
  for (size_t i = 0; i < variable_count_; ++i) {
    if (variables_[i].first_write == at) return &variables_[i];
  }
  return VariableAt(at, code(at).a());
}

void LuaIntegers::FindLoops() {
  loop_count_ = 0;
  for (int i = 2; i < state_->size && loop_count_ < kLoopsMax; ++i) {
    if (!Code::CountsInIntegers(&code(i))) continue;
    const int begin = i + 1 + Code::kMakeFloatSize;
    const int end = code(i).target(i);
    const uint8_t counter = code(end).a();
    const auto variable = static_cast<uint8_t>(counter + 3);
    if (UseOf(variable, begin, end).is_changed) continue;
    const Range range = RangeOfLoop(i, counter);  // of those before it
    loops_[loop_count_++] = {begin, end, variable, range};
  }
}

// What is known if it has no step.
LuaIntegers::Range LuaIntegers::RangeOfLoop(int prepare, uint8_t counter) const {
  Range range = {-kLoopMax, kLoopMax};
  const int step = prepare - 2;  // what makes integers is between them
  if (step < 2 || is_target(prepare) || is_target(prepare - 1) ||
      code(step).code() != Code::kLoadInteger || code(step).a() != counter + 2) {
    return range;
  }
  const int limit = LastWrite(step, static_cast<uint8_t>(counter + 1));
  if (limit < 0) return range;
  if (const MaybeRange high = RangeOf(limit)) range.high = high->high;
  if (code(limit).code() == Code::kLength) range.high = kLengthMax;
  const int begin = LastWrite(limit, counter);
  if (begin < 0) return range;
  if (const MaybeRange low = RangeOf(begin)) range.low = low->low;
  // It may not run at all.
  range.high = std::max(range.low, range.high);
  return range;
}

// --- ranges ---

std::optional<double> LuaIntegers::Constant(int at) const {
  const LuaInstruction instruction = code(at);
  const bool is_load = instruction.code() == Code::kLoadConstant;
  const uint32_t index = is_load ? instruction.bx() : instruction.c();
  const LuaFunction& function = *state_->function;
  if (!function.is_float(index) || !has_room_) return {};
  const double number = function.constants[index].number;
  if (!(std::fabs(number) <= kConstantMax) || number != std::trunc(number)) return {};
  if (number == 0 && std::signbit(number)) return {};
  return number;
}

// A length plus 0: lua_compiler.cc.
bool LuaIntegers::IsLength(int at) const {
  if (at < 1 || is_target(at)) return false;
  const LuaInstruction sum = code(at);
  const LuaInstruction length = code(at - 1);
  if (length.code() != Code::kLength || sum.code() != Code::kAddConstant) return false;
  const LuaFunction& function = *state_->function;
  return sum.b() == length.a() && function.is_float(sum.c()) &&
         function.constants[sum.c()].number == 0 && !IsVariable(at, length.a());
}

LuaIntegers::MaybeRange LuaIntegers::RangeOfOperand(int at, uint8_t reg) const {
  if (!IsVariable(at, reg)) {
    const int write = LastWrite(at, reg);
    if (write < 0) return {};
    if (code(write).code() == Code::kLength) return Range{0, kLengthMax};
    return is_integer(write) ? RangeOf(write) : MaybeRange();
  }
  for (size_t i = 0; i < loop_count_; ++i) {
    const Loop& loop = loops_[i];
    if (loop.variable == reg && at >= loop.begin && at < loop.end) return loop.range;
  }
  const Variable* const variable = VariableAt(at, reg);
  return variable != nullptr && variable->is_integer ? variable->range : MaybeRange();
}

// Of the result, if all that it is made of are integers.
LuaIntegers::MaybeRange LuaIntegers::RangeOf(int at) const {
  const LuaInstruction instruction = code(at);
  const uint8_t code = instruction.code();
  switch (code) {
    case Code::kLoadInteger:
    case Code::kLoadFloat: {
      const double number = instruction.number();
      return Range{number, number};
    }
    case Code::kLoadConstant: {
      const std::optional<double> number = Constant(at);
      return number ? Range{*number, *number} : MaybeRange();
    }
    case Code::kMove:
      return RangeOfOperand(at, instruction.b());
    default:
      break;
  }
  if (IsLength(at)) return Range{0, kLengthMax};
  MaybeRange right;
  if (code == Code::kAddSmall) {
    const double number = instruction.c() - Code::kSmallZero;
    right = {number, number};
  } else if (IsConstantArithmetic(code)) {
    const std::optional<double> number = Constant(at);
    if (number) right = {*number, *number};
  } else if (IsArithmetic(code)) {
    right = RangeOfOperand(at, instruction.c());
  }
  if (!right) return {};
  const MaybeRange left = RangeOfOperand(at, instruction.b());
  if (!left) return {};
  Range range;
  switch (code) {
    case Code::kAddSmall:
    case Code::kAddConstant:
    case Code::kAdd:
      range = {left->low + right->low, left->high + right->high};
      break;
    case Code::kSubtractConstant:
    case Code::kSubtract:
      range = {left->low - right->high, left->high - right->low};
      break;
    case Code::kMultiplyConstant:
    case Code::kMultiply:
      if (left->low < 0 || right->low < 0) return {};  // it may be -0
      range = {left->low * right->low, left->high * right->high};
      break;
    case Code::kRemainderConstant:
      if (right->low <= 0 || left->low < -kRemainderMax || left->high > kRemainderMax) return {};
      range = {0, right->low - 1};
      break;
    default:
      return {};
  }
  if (range.low <= -kMax || range.high >= kMax) return {};
  return range;
}

// By how much the variable grows, if a small number is added to itself.
LuaIntegers::MaybeRange LuaIntegers::Growth(const Variable& variable, int at) const {
  const LuaInstruction instruction = code(at);
  const bool is_sum = instruction.code() == Code::kAddConstant ||
                      instruction.code() == Code::kAdd || instruction.code() == Code::kAddSmall;
  const bool is_difference =
      instruction.code() == Code::kSubtractConstant || instruction.code() == Code::kSubtract;
  if ((!is_sum && !is_difference) || VariableAt(at, instruction.b()) != &variable) return {};
  MaybeRange by;
  if (IsArithmetic(instruction.code())) {
    if (VariableAt(at, instruction.c()) == &variable) return {};
    by = RangeOfOperand(at, instruction.c());
  } else if (instruction.code() == Code::kAddSmall) {
    const double number = instruction.c() - Code::kSmallZero;
    by = {number, number};
  } else if (const std::optional<double> number = Constant(at)) {
    by = {*number, *number};
  }
  if (!by || by->low < -kGrowthMax || by->high > kGrowthMax) return {};
  return is_sum ? by : MaybeRange({-by->high, -by->low});
}

// False: something that was an integer is none.
bool LuaIntegers::ReckonRanges() {
  const std::span variables(variables_.data(), variable_count_);
  for (Variable& variable : variables) variable.range = {};
  for (int round = 0;; ++round) {
    Variable* changed = nullptr;
    for (Variable& variable : variables) {
      if (!variable.is_integer) continue;
      MaybeRange range = variable.range;
      const auto add = [&range](Range other) {
        if (range) {
          range = {std::min(range->low, other.low), std::max(range->high, other.high)};
        } else {
          range = other;
        }
      };
      const auto add_write = [&](int at) {
        if (const MaybeRange growth = Growth(variable, at)) {
          if (growth->low < 0) add({-kFar, -kFar});
          if (growth->high > 0) add({kFar, kFar});
        } else if (const MaybeRange other = RangeOf(at)) {
          add(*other);
        }
      };
      add_write(variable.first_write);
      for (int i = variable.begin; i < variable.end; ++i) {
        if (code(i).sets_a() && code(i).a() == variable.reg) add_write(i);
      }
      if (range && (!variable.range || range->low != variable.range->low ||
                    range->high != variable.range->high)) {
        variable.range = range;
        changed = &variable;
      }
    }
    if (changed == nullptr) return true;
    if (round == kRoundsMax) {
      changed->is_integer = false;
      return false;
    }
  }
}

// --- uses ---

bool LuaIntegers::IsTolerant(int at, uint8_t reg) const {
  LuaLoopUse use;
  AddUse(at, reg, &use);
  return !use.is_float;
}

// The other side of arithmetic may be an integer, too: then the result has to be one that is found
// here.
bool LuaIntegers::IsOtherInteger(int at, uint8_t reg) const {
  const LuaInstruction instruction = code(at);
  if (instruction.b() == instruction.c()) return true;
  const uint8_t other = instruction.b() == reg ? instruction.c() : instruction.b();
  return loop_count_ == kLoopsMax || RangeOfOperand(at, other).has_value();
}

bool LuaIntegers::IsUserTolerant(int at) const {
  const uint8_t reg = code(at).a();
  for (int i = at + 1; i < state_->size && i <= at + kDistanceMax; ++i) {
    const LuaInstruction user = code(i);
    if (is_target(i) || (!IsSimple(user) && !IsComparison(user.code()))) return false;
    if (IsVariable(i, reg)) return false;  // it became one that there was no room for
    if (user.is_metamethod() && i == at + 1) continue;
    if (Reads(user, reg)) {
      const uint8_t made_by = code(at).code();
      const bool is_constant = made_by == Code::kLoadFloat || made_by == Code::kLoadConstant;
      return is_constant ? is_integer(i) : IsTolerant(i, reg);
    }
    if (!IsSimple(user) || (user.sets_a() && user.a() == reg)) return false;
  }
  return false;
}

bool LuaIntegers::MayBeInteger(int at) const {
  if (!RangeOf(at)) return false;
  if (const Variable* const variable = AssignedBy(at)) return variable->is_integer;
  return !IsVariable(at, code(at).a()) && IsUserTolerant(at);
}

bool LuaIntegers::MayBeInteger(const Variable& variable) const {
  if (!variable.range || !is_integer(variable.first_write)) return false;
  for (int i = variable.begin; i < variable.end; ++i) {
    const LuaInstruction instruction = code(i);
    LuaLoopUse use;
    AddUse(i, variable.reg, &use);
    if (use.is_changed && !is_integer(i)) return false;
    if (!IsTolerant(i, variable.reg)) return false;
    if (instruction.code() == Code::kClosure &&
        IsCaptured(*state_->function->functions[instruction.bx()], variable.reg)) {
      return false;
    }
  }
  return true;
}

// Those that are not listed read only registers above all variables, or do with any number the
// same.
void LuaIntegers::AddUse(int at, uint8_t variable, LuaLoopUse* use) const {
  const LuaInstruction instruction = code(at);
  const bool in_a = instruction.a() == variable;
  const bool in_b = instruction.b() == variable;
  const bool in_c = instruction.c() == variable;
  use->is_changed |= in_a && instruction.sets_a();
  switch (instruction.code()) {
    case Code::kLoadNil:
      use->is_changed |=
          variable >= instruction.a() && variable <= instruction.a() + instruction.b();
      break;
    case Code::kClosure:
      // It may assign to it.
      use->is_changed |= IsCaptured(*state_->function->functions[instruction.bx()], variable);
      break;
    case Code::kGetTable:
      use->keys += in_c;
      break;
    case Code::kSetTable:
      use->keys += in_b;
      [[fallthrough]];
    case Code::kSetFieldOfUpvalue:
    case Code::kSetIndex:
    case Code::kSetField:
      use->is_float |= in_c && !instruction.is_constant_c();
      break;
    case Code::kAddSmall:  // nothing but a key: __wrap_luaK_indexed made it
      use->keys += in_b;
      break;
    case Code::kAddConstant:
    case Code::kSubtractConstant:
    case Code::kMultiplyConstant:
    case Code::kRemainderConstant:
    case Code::kPowerConstant:
    case Code::kDivideConstant:
    case Code::kFloorDivideConstant:
      if (is_integer(at)) {
        use->is_integer |= in_b;
      } else {
        use->is_float |= in_b && !state_->function->is_float(instruction.c());
      }
      break;
    case Code::kAdd:
    case Code::kSubtract:
    case Code::kMultiply:
    case Code::kRemainder:
    case Code::kFloorDivide:
      if (!in_b && !in_c) break;
      if (is_integer(at)) {
        use->is_integer = true;
      } else {
        use->is_float |= IsOtherInteger(at, variable);
      }
      break;
    case Code::kMove:
      (is_integer(at) ? use->is_integer : use->is_float) |= in_b;
      break;
    case Code::kSelf:
    case Code::kMinus:
    case Code::kLength:
    case Code::kTestAndSet:
      use->is_float |= in_b;
      break;
    case Code::kSetUpvalue:
    case Code::kReturn:
    case Code::kReturnOne:
      use->is_float |= in_a;
      break;
    default:
      break;
  }
}

LuaLoopUse LuaIntegers::UseOf(uint8_t variable, int begin, int end) const {
  LuaLoopUse use;
  for (int i = begin; i < end; ++i) {
    if (!removed_[static_cast<size_t>(i)]) AddUse(i, variable, &use);
  }
  return use;
}

void LuaIntegers::UseCounter(uint8_t variable, uint8_t counter, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    LuaInstruction& instruction = code(i);
    const uint8_t code = instruction.code();
    const bool uses_b = code == Code::kSetTable || code == Code::kAddSmall ||
                        (is_integer(i) &&
                         (code == Code::kMove || IsConstantArithmetic(code) || IsArithmetic(code)));
    const bool uses_c = code == Code::kGetTable || (is_integer(i) && IsArithmetic(code));
    if (uses_b && instruction.b() == variable) instruction.set_b(counter);
    if (uses_c && instruction.c() == variable) instruction.set_c(counter);
  }
}

// --- all together ---

void LuaIntegers::FindNothing(LuaFunctionState* state) {
  state_ = state;
  has_room_ = state->constants <= kConstantsMax;
  integers_.reset();
  removed_.reset();
  active_.fill(0);
  variable_count_ = loop_count_ = 0;
  FindTargets();
  FindSmallSums();
}

void LuaIntegers::Find(LuaFunctionState* state) {
  state_ = state;
  has_room_ = state->constants <= kConstantsMax;
  integers_.reset();
  removed_.reset();
  FindTargets();
  FindVariables();
  FindLoops();
  for (int i = 0; i < state->size; ++i) {
    if (CanBeInteger(code(i).code())) integers_.set(static_cast<size_t>(i));
  }
  // All that may be one is taken for one, until nothing contradicts.
  int passes = 0;
  for (bool is_done = false; !is_done;) {
    CountWork(static_cast<size_t>(state->size));
    if (++passes > kPassesMax) {
      integers_.reset();
      variable_count_ = 0;
      break;
    }
    is_done = ReckonRanges();
    for (int i = 0; i < state->size; ++i) {
      if (!is_integer(i) || MayBeInteger(i)) continue;
      integers_.reset(static_cast<size_t>(i));
      is_done = false;
    }
    for (size_t i = 0; i < variable_count_; ++i) {
      Variable& variable = variables_[i];
      if (!variable.is_integer || MayBeInteger(variable)) continue;
      variable.is_integer = false;
      is_done = false;
    }
  }
  FindSmallSums();
}

// An integer stays one when a small one is added.
void LuaIntegers::FindSmallSums() {
  small_sums_.reset();
  if (loop_count_ == kLoopsMax) return;  // what other loops count is not known
  for (int i = 0; i < state_->size; ++i) {
    if (state_->function->SmallAddend(code(i)) == 0 || is_integer(i)) continue;
    if (!RangeOfOperand(i, code(i).b())) small_sums_.set(static_cast<size_t>(i));
  }
}

extern "C" int luaK_exp2RK(LuaFunctionState* state, LuaExpression* expression);

// Of an integer. If there is no room for it, the result is a float, which is right as well.
void LuaIntegers::SetConstant(int at, double number) {
  constexpr uint32_t kIndexMax = 255;
  LuaExpression constant{};
  constant.kind = LuaExpression::kIntegerConstant;
  constant.integer = static_cast<lua_Integer>(number);
  constant.if_true = constant.if_false = LuaExpression::kNoJump;
  if (state_->constants > static_cast<int>(kIndexMax) || luaK_exp2RK(state_, &constant) == 0)
    return;
  if (code(at).code() == Code::kLoadConstant) {
    code(at).set_bx(static_cast<uint32_t>(constant.place));
  } else {
    code(at).set_c(static_cast<uint8_t>(constant.place));
  }
}

void LuaIntegers::Apply() {
  for (int i = 0; i < state_->size; ++i) {
    if (small_sums_[static_cast<size_t>(i)])
      code(i).AddSmall(state_->function->SmallAddend(code(i)));
    if (!is_integer(i)) continue;
    LuaInstruction& instruction = code(i);
    switch (instruction.code()) {
      case Code::kLoadFloat:
        instruction.set_code(Code::kLoadInteger);
        break;
      case Code::kAddConstant:
      case Code::kSubtractConstant: {
        if (IsLength(i)) {
          code(i - 1).set_a(instruction.a());
          Remove(i);
          Remove(i + 1);
          break;
        }
        const double number = *Constant(i);
        const double addend = instruction.code() == Code::kAddConstant ? number : -number;
        if (std::fabs(addend) <= Code::kSmallZero) {
          instruction.AddSmall(static_cast<int>(addend));
          break;
        }
        SetConstant(i, number);
        break;
      }
      case Code::kLoadConstant:
      case Code::kMultiplyConstant:
      case Code::kRemainderConstant:
        SetConstant(i, *Constant(i));
        break;
      default:
        break;
    }
  }
}

}  // namespace dfly
