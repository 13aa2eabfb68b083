// SPDX-License-Identifier: Apache-2.0
// Lists of jumps in Lua's compiler: with the linker's help, as in lua_numbers.cc.
//
// Jumps that lead to one place, which is not known yet, are a list, and Lua appends each new one at
// its end. In a chain of `and`, `or` or `elseif` that takes the square of its length: three minutes
// for 1.5 MB. The order of a list means nothing, so here the longer one is appended to the new one.
//
// What waits for a label, as breaks do for the end of their loop, is taken out of an array. That is
// the square of its length, too, which is 32,767 at most; so a tick may come at each.
#include <utility>

#include "scripting/lua/lua_compiler.h"
#include "scripting/lua/lua_work.h"

namespace {

using dfly::LuaExpression;
using dfly::LuaFunctionState;

// From lcode.h.
constexpr int kOperatorAnd = 19;
constexpr int kOperatorOr = 20;

// What one of these takes out of the array, and then all behind it moves.
constexpr size_t kWorkOfPatch = 500;

}  // namespace

extern "C" {

// Appends `more` to `list`. Of Lua's object files only one calls this function of another one, for
// elseif: with a single jump that is new. A list is the index of its first jump.
void __real_luaK_concat(LuaFunctionState* state, int* list, int more);
void __wrap_luaK_concat(LuaFunctionState* state, int* list, int more) {
  std::swap(*list, more);
  __real_luaK_concat(state, list, more);
}

// To a label behind it or before it.
void __real_luaK_patchlist(LuaFunctionState* state, int list, int target);
void __wrap_luaK_patchlist(LuaFunctionState* state, int list, int target) {
  __real_luaK_patchlist(state, list, target);
  dfly::DoWork(state->lexer->lua, kWorkOfPatch);
}

void __real_luaK_infix(LuaFunctionState* state, int binary, LuaExpression* left);

}  // extern "C"

// luaK_infix appends one jump to one of the lists of `left`, and looks at no other of that list.
void dfly::InfixWithShortList(LuaFunctionState* state, int binary, LuaExpression* left) {
  if (binary != kOperatorAnd && binary != kOperatorOr)
    return __real_luaK_infix(state, binary, left);
  int* const list = binary == kOperatorAnd ? &left->if_false : &left->if_true;
  const int before = std::exchange(*list, LuaExpression::kNoJump);
  __real_luaK_infix(state, binary, left);
  __real_luaK_concat(state, list, before);
}
