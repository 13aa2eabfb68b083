// SPDX-License-Identifier: Apache-2.0
// A dull request parser for tests: it takes the whole stream at once and copies everything.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facade/parsers/request_parser.h"

namespace dfly::testkit {

using Command = std::vector<std::string>;

struct ParsedStream {
  std::vector<Command> commands;
  std::string error;  // empty: the stream ended, perhaps inside of a command

  bool operator==(const ParsedStream&) const = default;
};

// What redis-server's protocol description says, one rule after the other.
class ModelParser {
 public:
  ModelParser(std::string_view stream, const RequestParser::Limits& limits)
      : stream_(stream), limits_(limits) {
    constexpr size_t kCeiling = size_t{1} << 40;
    limits_.max_bulk_len = std::min(limits_.max_bulk_len, kCeiling);
    limits_.max_multi_bulk_len = std::min(limits_.max_multi_bulk_len, kCeiling);
  }

  ParsedStream Run() {
    while (pos_ < stream_.size() && Step()) {
    }
    return std::move(result_);
  }

 private:
  bool Fail(const std::string& what) {
    result_.error = "ERR Protocol error: " + what;
    return false;
  }

  bool Step() { return stream_[pos_] == '*' ? Array() : Inline(); }

  // The text between the type byte and CR. Moves behind the line.
  std::optional<std::string> HeaderLine(bool* too_long) {
    const size_t cr = stream_.find('\r', pos_);
    *too_long = cr == std::string_view::npos ? stream_.size() - pos_ > limits_.max_inline_len
                                             : cr - pos_ > limits_.max_inline_len;
    if (*too_long || cr == std::string_view::npos || cr + 1 >= stream_.size()) return std::nullopt;
    std::string line(stream_.substr(pos_, cr - pos_));
    pos_ = cr + 2;
    return line;
  }

  static bool Number(const std::string& text, long long* value) {
    try {
      size_t used = 0;
      *value = std::stoll(text, &used);
      return std::to_string(*value) == text;  // only the canonical form
    } catch (const std::exception&) {
      return false;
    }
  }

  bool Array() {
    bool too_long = false;
    auto line = HeaderLine(&too_long);
    if (too_long) return Fail("too big mbulk count string");
    if (!line) return false;
    long long count = 0;
    if (!Number(line->substr(1), &count) ||
        count > static_cast<long long>(limits_.max_multi_bulk_len)) {
      return Fail("invalid multibulk length");
    }
    if (count > 10 && !limits_.authenticated) return Fail("unauthenticated multibulk length");
    Command command;
    for (long long i = 0; i < count; i++) {
      if (pos_ >= stream_.size()) return false;
      line = HeaderLine(&too_long);
      if (too_long) return Fail("too big bulk count string");
      if (!line) return false;
      const char type = line->empty() ? ' ' : (*line)[0];
      if (type != '$') {
        return Fail(std::string("expected '$', got '") + (type == '\n' ? ' ' : type) + "'");
      }
      long long size = 0;
      if (!Number(line->substr(1), &size) || size < 0 ||
          size > static_cast<long long>(limits_.max_bulk_len)) {
        return Fail("invalid bulk length");
      }
      if (size > 16384 && !limits_.authenticated) return Fail("unauthenticated bulk length");
      if (stream_.size() - pos_ < static_cast<size_t>(size) + 2) return false;
      command.emplace_back(stream_.substr(pos_, static_cast<size_t>(size)));
      pos_ += static_cast<size_t>(size) + 2;
    }
    if (!command.empty()) result_.commands.push_back(std::move(command));
    return true;
  }

  bool Inline() {
    const size_t newline = stream_.find('\n', pos_);
    const size_t size = newline == std::string_view::npos ? stream_.size() - pos_ : newline - pos_;
    if (size > limits_.max_inline_len) return Fail("too big inline request");
    if (newline == std::string_view::npos) return false;
    std::string line(stream_.substr(pos_, size));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    pos_ = newline + 1;

    Command command;
    size_t i = 0;
    auto space = [&](size_t at) { return isspace(static_cast<unsigned char>(line[at])) != 0; };
    auto hex = [&](size_t at) {
      return at < line.size() && isxdigit(static_cast<unsigned char>(line[at])) != 0;
    };
    while (true) {
      while (i < line.size() && space(i)) i++;
      if (i == line.size()) break;
      std::string word;
      char quote = 0;
      bool done = false;
      while (!done) {
        if (i == line.size()) {
          if (quote) return Fail("unbalanced quotes in request");
          break;
        }
        const char c = line[i];
        if (quote == '"' && c == '\\' && i + 1 < line.size()) {
          if (line[i + 1] == 'x' && hex(i + 2) && hex(i + 3)) {
            word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
            i += 4;
          } else {
            const std::string from = "nrtba", to = "\n\r\t\b\a";
            const size_t at = from.find(line[i + 1]);
            word += at == std::string::npos ? line[i + 1] : to[at];
            i += 2;
          }
        } else if (quote == '\'' && c == '\\' && i + 1 < line.size() && line[i + 1] == '\'') {
          word += '\'';
          i += 2;
        } else if (quote && c == quote) {
          i++;
          if (i < line.size() && !space(i)) return Fail("unbalanced quotes in request");
          done = true;
        } else if (!quote && (c == '"' || c == '\'')) {
          quote = c;
          i++;
        } else if (!quote && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
          done = true;
        } else {
          word += c;
          i++;
        }
      }
      command.push_back(std::move(word));
    }
    if (!command.empty()) result_.commands.push_back(std::move(command));
    return true;
  }

  const std::string_view stream_;
  RequestParser::Limits limits_;
  size_t pos_ = 0;
  ParsedStream result_;
};

// Feeds `stream` to a RequestParser in pieces that end at the given offsets, as a connection would.
// Each piece is seen at a new address, so that a kept pointer is caught by the address sanitizer.
// Now and then a command with large arguments is asked for again.
inline ParsedStream ParseInPieces(std::string_view stream, const RequestParser::Limits& limits,
                                  const std::vector<size_t>& ends) {
  ParsedStream result;
  RequestParser parser(limits);
  std::vector<char> kept;
  size_t fed = 0;
  size_t commands = 0;
  for (size_t end : ends) {
    std::string_view piece = stream.substr(fed, end - fed);
    fed = end;
    piece.remove_prefix(parser.Fill(piece));
    std::vector<char> moved(kept);
    moved.insert(moved.end(), piece.begin(), piece.end());
    std::string_view rest(moved.data(), moved.size());
    while (true) {
      auto status = parser.Parse(rest);
      if (status == RequestParser::Status::kError) {
        result.error = parser.error();
        return result;
      }
      if (status == RequestParser::Status::kCommand) {
        if (parser.has_large() && ++commands % 2 == 0) {
          parser.Repeat();
          status = parser.Parse(rest);
        }
        result.commands.emplace_back(parser.args().begin(), parser.args().end());
      }
      rest.remove_prefix(parser.consumed());
      if (status == RequestParser::Status::kNeedMore) break;
    }
    rest.remove_suffix(parser.TakenFromEnd());
    kept.assign(rest.begin(), rest.end());
  }
  return result;
}

}  // namespace dfly::testkit
