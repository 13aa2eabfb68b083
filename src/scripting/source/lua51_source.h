// SPDX-License-Identifier: Apache-2.0
// Lua 5.1's source text for the compiler of 5.4. Inside this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <lua.hpp>
#include <string_view>

namespace dfly {

// In strings, 5.1 just drops a backslash before what means nothing to it. 5.4 refuses some of these
// ("\-") and gives others a meaning ("\x41", "\u{7}", "\z"). This goes through a source, a piece
// after the other, and leaves these backslashes out.
class SourceFilter {
 public:
  // So many bytes more than a piece has may be written: a backslash of the piece before.
  static constexpr size_t kMore = 1;

  // What is left of the next piece, to `out`. Returns the end.
  char* Take(std::string_view piece, char* out);
  // Behind the last one.
  char* End(char* out);

 private:
  enum class In : uint8_t {
    kCode,
    kDash,            // '-' in code
    kBracket,         // '[' in code, then `level_` times '='
    kCommentBegin,    // "--"
    kCommentBracket,  // "--[", then the same
    kComment,         // to the end of the line
    kLong,            // "[==[ ... "
    kLongEnd,         // the same, behind ']' and `end_level_` times '='
    kString,          // that `quote_` ends
    kEscape,          // behind a backslash that was not written yet
    kEscapedLine,     // behind a backslash and `line_end_`
  };

  // False: the byte is looked at again, in another state.
  bool Step(char c, char*& out);
  bool Bracket(char c, char*& out, In otherwise);

  In in_ = In::kCode;
  char quote_ = 0;
  char line_end_ = 0;
  size_t level_ = 0;
  size_t end_level_ = 0;
};

// lua_load of text in Lua 5.1. Raises no error; its result tells of the end of the script, too.
//
// Suspends: as a tick does (lua_work.h).
int LoadSource(lua_State* lua, std::string_view source, const char* name);

}  // namespace dfly
