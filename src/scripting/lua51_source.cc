// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua51_source.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "scripting/lua_work.h"

namespace dfly {
namespace {

// What both versions know behind a backslash: the same.
bool IsEscape(char c) {
  constexpr std::string_view kKnown("abfnrtv\\\"'\n\r0123456789");
  return kKnown.find(c) != std::string_view::npos;
}

// The size of "[[...]]" or "[=[...]=]" at the beginning of `text`, or 0.
size_t LongBracket(std::string_view text) {
  if (!text.starts_with('[')) return 0;
  const size_t second = text.find_first_not_of('=', 1);
  if (second == std::string_view::npos || text[second] != '[') return 0;
  std::string end(second + 1, '=');
  end.front() = end.back() = ']';
  const size_t found = text.find(end, second + 1);
  return found == std::string_view::npos ? text.size() : found + end.size();
}

// The rest of a source, a piece at a time: a large one takes long to compile.
struct RestOfSource {
  const char* next;
  size_t left;
};

const char* ReadRest(lua_State* lua, void* rest_of_source, size_t* size) {
  // Compiling takes 20 to 100 ns for each byte.
  constexpr size_t kPiece = 4096;
  constexpr size_t kWorkOfPiece = kPiece * 2;
  auto* const rest = static_cast<RestOfSource*>(rest_of_source);
  const char* const piece = rest->next;
  *size = std::min(rest->left, kPiece);
  rest->next += *size;
  rest->left -= *size;
  if (rest->left > 0) DoWork(lua, kWorkOfPiece);
  return piece;
}

}  // namespace

char* DropBackslashes(std::string_view source, char* out) {
  const auto copy = [&source, &out](size_t size) {
    std::memcpy(out, source.data(), size);
    out += size;
    source.remove_prefix(size);
  };
  while (!source.empty()) {
    copy(std::min(source.find_first_of("-['\""), source.size()));
    if (source.starts_with("--")) {
      copy(2);
      const size_t size = LongBracket(source);
      copy(size > 0 ? size : std::min(source.find('\n'), source.size()));
    } else if (const size_t size = LongBracket(source); size > 0) {
      copy(size);
    } else if (source.starts_with('\'') || source.starts_with('"')) {
      const char delimiters[] = {source.front(), '\\', '\n'};  // the last one ends what is broken
      copy(1);
      for (;;) {
        copy(std::min(source.find_first_of({delimiters, 3}), source.size()));
        if (!source.starts_with('\\')) break;
        if (source.starts_with("\\\r\n") || source.starts_with("\\\n\r")) {
          copy(3);
        } else if (source.size() == 1 || IsEscape(source[1])) {
          copy(std::min<size_t>(source.size(), 2));
        } else {
          source.remove_prefix(1);
        }
      }
      copy(std::min<size_t>(source.size(), 1));
    } else if (!source.empty()) {
      copy(1);
    }
  }
  return out;
}

int LoadSource(lua_State* lua, std::string_view source, const char* name) {
  std::unique_ptr<char[]> text;  // Lua's errors end in lua_load
  if (source.find('\\') != std::string_view::npos) {
    text = std::make_unique_for_overwrite<char[]>(source.size());
    source = {text.get(), DropBackslashes(source, text.get())};
  }
  RestOfSource rest{.next = source.data(), .left = source.size()};
  return lua_load(lua, ReadRest, &rest, name, "t");
}

}  // namespace dfly
