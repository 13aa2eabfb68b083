// SPDX-License-Identifier: Apache-2.0
// `bit`: operations on 32 bits, as documented for Lua BitOp (bitop.luajit.org). Results are signed.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "scripting/libraries.h"
#include "scripting/script_state.h"

namespace dfly {
namespace {

// The argument's value modulo 2^32, rounded to the nearest integer. Adding 2^52 + 2^51 leaves just
// that in the lower half of the double's bits; beyond 2^51 it is as meaningless as in BitOp.
uint32_t CheckBits(lua_State* lua, int arg) {
  constexpr double kBias = 6755399441055744.0;
  return static_cast<uint32_t>(std::bit_cast<uint64_t>(luaL_checknumber(lua, arg) + kBias));
}

int PushBits(lua_State* lua, uint32_t bits) {
  lua_pushinteger(lua, static_cast<int32_t>(bits));
  return 1;
}

int ToBit(lua_State* lua) { return PushBits(lua, CheckBits(lua, 1)); }
int Not(lua_State* lua) { return PushBits(lua, ~CheckBits(lua, 1)); }
int Swap(lua_State* lua) { return PushBits(lua, __builtin_bswap32(CheckBits(lua, 1))); }

// Of one or more arguments.
template <typename Operation>
int Fold(lua_State* lua, Operation operation) {
  uint32_t bits = CheckBits(lua, 1);
  for (int i = lua_gettop(lua); i > 1; --i) bits = operation(bits, CheckBits(lua, i));
  return PushBits(lua, bits);
}

int And(lua_State* lua) {
  return Fold(lua, [](uint32_t a, uint32_t b) { return a & b; });
}
int Or(lua_State* lua) {
  return Fold(lua, [](uint32_t a, uint32_t b) { return a | b; });
}
int Xor(lua_State* lua) {
  return Fold(lua, [](uint32_t a, uint32_t b) { return a ^ b; });
}

// By the lower 5 bits of the second argument.
template <typename Operation>
int Shift(lua_State* lua, Operation operation) {
  const uint32_t bits = CheckBits(lua, 1);
  return PushBits(lua, operation(bits, static_cast<int>(CheckBits(lua, 2) & 31)));
}

int ShiftLeft(lua_State* lua) {
  return Shift(lua, [](uint32_t bits, int by) { return bits << by; });
}
int ShiftRight(lua_State* lua) {
  return Shift(lua, [](uint32_t bits, int by) { return bits >> by; });
}
int ShiftRightSigned(lua_State* lua) {
  return Shift(lua, [](uint32_t bits, int by) {
    return static_cast<uint32_t>(static_cast<int32_t>(bits) >> by);
  });
}
int RotateLeft(lua_State* lua) {
  return Shift(lua, [](uint32_t bits, int by) { return std::rotl(bits, by); });
}
int RotateRight(lua_State* lua) {
  return Shift(lua, [](uint32_t bits, int by) { return std::rotr(bits, by); });
}

// tohex(x [, digits]): digits < 0 for capital letters.
int ToHex(lua_State* lua) {
  uint32_t bits = CheckBits(lua, 1);
  const int32_t wanted = lua_isnone(lua, 2) ? 8 : static_cast<int32_t>(CheckBits(lua, 2));
  const char* const letters = wanted < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
  const auto digits = static_cast<size_t>(wanted < -8 || wanted > 8 ? 8 : std::abs(wanted));
  char text[8];
  for (size_t i = digits; i > 0; --i) {
    text[i - 1] = letters[bits & 15];
    bits >>= 4;
  }
  lua_pushlstring(lua, text, digits);
  return 1;
}

constexpr luaL_Reg kBit[] = {{"tobit", ToBit},
                             {"tohex", ToHex},
                             {"bnot", Not},
                             {"band", And},
                             {"bor", Or},
                             {"bxor", Xor},
                             {"lshift", ShiftLeft},
                             {"rshift", ShiftRight},
                             {"arshift", ShiftRightSigned},
                             {"rol", RotateLeft},
                             {"ror", RotateRight},
                             {"bswap", Swap},
                             {nullptr, nullptr}};

}  // namespace

int OpenBit(lua_State* lua) {
  luaL_newlib(lua, kBit);
  return 1;
}

}  // namespace dfly
