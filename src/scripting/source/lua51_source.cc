// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/lua51_source.h"

#include <algorithm>

#include "helio/base/clock.h"
#include "scripting/lua/lua_work.h"

namespace dfly {
namespace {

// What both versions know behind a backslash: the same.
bool IsEscape(char c) {
  constexpr std::string_view kKnown("abfnrtv\\\"'\n\r0123456789");
  return kKnown.find(c) != std::string_view::npos;
}

// A source, a piece at a time: a large one takes long to compile.
struct Source {
  // Compiling takes 20 to 100 ns for each byte. There are sources that take a millisecond: Lua
  // gives the same hash to numbers that differ little. Pieces become small then.
  static constexpr size_t kPieceMin = 16;
  static constexpr size_t kPieceMax = 2048;
  static constexpr uint64_t kNanosMax = 500'000;
  static constexpr size_t kWorkOfPiece = kPieceMax * 2;

  // Between two pieces.
  void Tick(lua_State* lua) {
    const bool was_slow = helio::MonotonicNanos() - piece_begin_ns > kNanosMax;
    piece_size =
        was_slow ? std::max(piece_size / 2, kPieceMin) : std::min(piece_size * 2, kPieceMax);
    DoWork(lua, kWorkOfPiece);
    piece_begin_ns = helio::MonotonicNanos();
  }

  std::string_view rest;
  SourceFilter filter;
  bool has_begun = false;
  bool has_ended = false;
  size_t piece_size = kPieceMax;
  uint64_t piece_begin_ns = 0;
  char piece[kPieceMax + SourceFilter::kMore];
};

const char* ReadPiece(lua_State* lua, void* its_source, size_t* size) {
  auto* const source = static_cast<Source*>(its_source);
  char* end = source->piece;
  while (end == source->piece && !source->has_ended) {
    if (source->has_begun) source->Tick(lua);
    source->has_begun = true;
    const std::string_view next = source->rest.substr(0, source->piece_size);
    source->rest.remove_prefix(next.size());
    end = source->filter.Take(next, end);
    if (source->rest.empty()) {
      source->has_ended = true;
      end = source->filter.End(end);
    }
  }
  *size = static_cast<size_t>(end - source->piece);
  return source->piece;
}

}  // namespace

bool SourceFilter::Bracket(char c, char*& out, In otherwise) {
  if (c == '=') {
    ++level_;
  } else if (c == '[') {
    in_ = In::kLong;
  } else {
    in_ = otherwise;
    return false;
  }
  *out++ = c;
  return true;
}

bool SourceFilter::Step(char c, char*& out) {
  switch (in_) {
    case In::kCode:
      if (c == '-') {
        in_ = In::kDash;
      } else if (c == '[') {
        in_ = In::kBracket;
        level_ = 0;
      } else if (c == '\'' || c == '"') {
        in_ = In::kString;
        quote_ = c;
      }
      break;
    case In::kDash:
      in_ = c == '-' ? In::kCommentBegin : In::kCode;
      if (c != '-') return false;
      break;
    case In::kBracket:
      return Bracket(c, out, In::kCode);
    case In::kCommentBegin:
      in_ = c == '[' ? In::kCommentBracket : In::kComment;
      if (c != '[') return false;
      level_ = 0;
      break;
    case In::kCommentBracket:
      return Bracket(c, out, In::kComment);
    case In::kComment:
      if (c == '\n') in_ = In::kCode;
      break;
    case In::kLong:
      if (c == ']') {
        in_ = In::kLongEnd;
        end_level_ = 0;
      }
      break;
    case In::kLongEnd:
      if (c == '=') {
        ++end_level_;
      } else if (c == ']' && end_level_ == level_) {
        in_ = In::kCode;
      } else {
        in_ = In::kLong;
        return false;
      }
      break;
    case In::kString:
      if (c == '\\') {
        in_ = In::kEscape;
        return true;
      }
      if (c == quote_ || c == '\n') in_ = In::kCode;  // the end of the line ends what is broken
      break;
    case In::kEscape:
      in_ = In::kString;
      if (!IsEscape(c)) return false;
      *out++ = '\\';
      if (c == '\r' || c == '\n') {
        in_ = In::kEscapedLine;
        line_end_ = c;
      }
      break;
    case In::kEscapedLine:
      in_ = In::kString;
      if ((c != '\r' && c != '\n') || c == line_end_) return false;
      break;
  }
  *out++ = c;
  return true;
}

char* SourceFilter::Take(std::string_view piece, char* out) {
  for (const char c : piece) {
    while (!Step(c, out)) {
    }
  }
  return out;
}

char* SourceFilter::End(char* out) {
  if (in_ == In::kEscape) *out++ = '\\';
  return out;
}

int LoadSource(lua_State* lua, std::string_view source, const char* name) {
  Source pieces;
  pieces.rest = source;
  if (source.size() > Source::kPieceMax) pieces.piece_begin_ns = helio::MonotonicNanos();
  return lua_load(lua, ReadPiece, &pieces, name, "t");
}

}  // namespace dfly
