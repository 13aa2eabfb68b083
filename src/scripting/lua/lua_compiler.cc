// SPDX-License-Identifier: Apache-2.0
// What Lua's compiler makes of a script of Lua 5.1: with the linker's help, as in lua_numbers.cc.
//
// Lengths. The machine's instruction for `#` gives an integer, and those wrap; so the compiler adds
// 0.0 to it. Keys and the counters of loops: lua_loops.cc.
//
// goto is a name in 5.1, and a word of 5.4. ForgetGoto makes it a name. Where a statement begins, a
// name that is followed by another name is an error in 5.1, so there it is still the word.
//
// _ENV is a name like others in 5.1, and in 5.4 that of the table of globals: a script that set it
// would find what it put there in its next run. So the compiler has another name for that table,
// which no source text can have, and which looks the same in C: Lua's messages go by it.
#include "scripting/lua/lua_compiler.h"

#include <cstring>

#include "scripting/lua/lua_layout.h"

namespace {

using dfly::LuaExpression;
using dfly::LuaLexer;
using dfly::LuaText;
using dfly::LuaToken;

// From lcode.h.
constexpr int kOperatorAdd = 0;
constexpr int kOperatorLength = 3;

// Not after what wants an expression or a name.
bool MayBeginStatement(int before) {
  switch (before) {
    case 0:
    case ')':
    case ']':
    case '}':
    case ';':
    case LuaToken::kDots:
      return true;
    case LuaToken::kAnd:
    case LuaToken::kElseif:
    case LuaToken::kFor:
    case LuaToken::kFunction:
    case LuaToken::kIf:
    case LuaToken::kIn:
    case LuaToken::kLocal:
    case LuaToken::kNot:
    case LuaToken::kOr:
    case LuaToken::kReturn:
    case LuaToken::kUntil:
    case LuaToken::kWhile:
    case LuaToken::kGoto:
      return false;
    default:
      break;
  }
  // All that is left: words before a statement or at the end of one, "::", numbers, strings, names.
  constexpr int kColons = LuaToken::kLastOperator + 1;
  return before >= LuaToken::kFirstWord && (before < LuaToken::kFirstOperator || before >= kColons);
}

bool IsGoto(const LuaToken& token) {
  if (token.type != LuaToken::kName || token.text->type != LUA_TSTRING) return false;
  constexpr std::string_view kGoto = "goto";
  return token.text->short_size == kGoto.size() &&
         std::memcmp(token.text + 1, kGoto.data(), kGoto.size()) == 0;
}

}  // namespace

void dfly::ForgetGoto(lua_State* lua) {
  lua_pushliteral(lua, "goto");
  reinterpret_cast<LuaText*>((LuaThreadOf(lua)->top - 1)->object)->extra = 0;
  lua_pop(lua, 1);
}

extern "C" {

int __real_luaX_lookahead(LuaLexer* lexer);
int __wrap_luaX_lookahead(LuaLexer* lexer) {
  return lexer->ahead.type != LuaToken::kEnd ? lexer->ahead.type : __real_luaX_lookahead(lexer);
}

LuaText* luaX_newstring(LuaLexer* lexer, const char* text, size_t size);
void __real_luaX_setinput(lua_State* lua, LuaLexer* lexer, void* input, LuaText* source, int first);
void __wrap_luaX_setinput(lua_State* lua, LuaLexer* lexer, void* input, LuaText* source,
                          int first) {
  __real_luaX_setinput(lua, lexer, input, source, first);
  lexer->environment = luaX_newstring(lexer, "_ENV", sizeof("_ENV"));
}

void __real_luaX_next(LuaLexer* lexer);
void __wrap_luaX_next(LuaLexer* lexer) {
  const int before = lexer->token.type;
  __real_luaX_next(lexer);
  if (IsGoto(lexer->token) && MayBeginStatement(before) &&
      __wrap_luaX_lookahead(lexer) == LuaToken::kName) {
    lexer->token.type = LuaToken::kGoto;
  }
}

void luaK_infix(void* function, int binary, LuaExpression* left);
void luaK_posfix(void* function, int binary, LuaExpression* left, LuaExpression* right, int line);

void __real_luaK_prefix(void* function, int unary, LuaExpression* operand, int line);
void __wrap_luaK_prefix(void* function, int unary, LuaExpression* operand, int line) {
  __real_luaK_prefix(function, unary, operand, line);
  if (unary != kOperatorLength) return;
  luaK_infix(function, kOperatorAdd, operand);
  LuaExpression zero{};
  zero.kind = LuaExpression::kFloatConstant;
  zero.number = 0;
  zero.if_true = zero.if_false = LuaExpression::kNoJump;
  luaK_posfix(function, kOperatorAdd, operand, &zero, line);
}

}  // extern "C"
