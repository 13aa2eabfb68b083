// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/auto_async.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace dfly {
namespace {

enum class Kind : uint8_t { kName, kValue, kSymbol, kEnd };

// A word of the script. Values are strings and numbers.
struct Token {
  Kind kind = Kind::kEnd;
  std::string_view text;
};

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Splits a script. What is not Lua becomes some token: the compiler will refuse it.
class Tokenizer {
 public:
  explicit Tokenizer(std::string_view source) : source_(source) {}

  Token Next() {
    SkipBlanksAndComments();
    if (at_ == source_.size()) return {};
    const size_t begin = at_;
    const char c = source_[at_];
    Kind kind = Kind::kSymbol;
    if (IsLetter(c)) {
      kind = Kind::kName;
      while (IsLetter(Peek()) || IsDigit(Peek())) ++at_;
    } else if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) {
      kind = Kind::kValue;
      SkipNumber();
    } else if (c == '"' || c == '\'') {
      kind = Kind::kValue;
      SkipString(c);
    } else if (c == '[' && SkipLongBracket()) {
      kind = Kind::kValue;
    } else {
      SkipSymbol();
    }
    return {.kind = kind, .text = source_.substr(begin, at_ - begin)};
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void SkipBlanksAndComments() {
    for (;;) {
      while (at_ < source_.size() &&
             (source_[at_] == ' ' || (source_[at_] >= '\t' && source_[at_] <= '\r')))
        ++at_;
      if (Peek() != '-' || Peek(1) != '-') return;
      at_ += 2;
      if (Peek() == '[' && SkipLongBracket()) continue;
      at_ = std::min(source_.find('\n', at_), source_.size());
    }
  }

  void SkipNumber() {
    while (IsLetter(Peek()) || IsDigit(Peek()) || Peek() == '.') {
      const char c = source_[at_++];
      const bool has_exponent = c == 'e' || c == 'E' || c == 'p' || c == 'P';
      if (has_exponent && (Peek() == '+' || Peek() == '-')) ++at_;
    }
  }

  void SkipString(char quote) {
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, source_.size());
  }

  // [[...]], [=[...]=]. False if there is none.
  bool SkipLongBracket() {
    size_t level = 0;
    while (Peek(1 + level) == '=') ++level;
    if (Peek(1 + level) != '[') return false;
    const std::string end = "]" + std::string(level, '=') + "]";
    const size_t found = source_.find(end, at_ + level + 2);
    at_ = found == std::string_view::npos ? source_.size() : found + end.size();
    return true;
  }

  void SkipSymbol() {
    constexpr std::string_view kPairs[] = {"==", "~=", "<=", ">=", "//", "::", "<<", ">>", ".."};
    if (source_.substr(at_, 3) == "...") {
      at_ += 3;
    } else if (std::find(std::begin(kPairs), std::end(kPairs), source_.substr(at_, 2)) !=
               std::end(kPairs)) {
      at_ += 2;
    } else {
      ++at_;
    }
  }

  const std::string_view source_;
  size_t at_ = 0;
};

template <size_t count>
bool IsOneOf(std::string_view text, const std::array<std::string_view, count>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

constexpr std::array<std::string_view, 11> kForbidden = {
    "pcall", "xpcall", "error",        "coroutine", "load",  "loadstring",
    "_G",    "_ENV",   "setmetatable", "goto",      "assert"};

// After these a statement begins, whatever they end.
constexpr std::array<std::string_view, 5> kBeforeStatement = {"then", "do", "else", "repeat", ";"};
// These begin a statement, or end a block: so the statement before them is over.
constexpr std::array<std::string_view, 13> kAfterStatement = {
    "local", "if",       "for", "while", "repeat", "return", "break",
    "do",    "function", "end", "else",  "elseif", "until"};
// Operators that are words: what follows them belongs to an expression.
constexpr std::array<std::string_view, 3> kWordOperators = {"and", "or", "not"};

class Rewriter {
 public:
  explicit Rewriter(std::string_view source) : source_(source) {
    Tokenizer tokenizer(source);
    do tokens_.push_back(tokenizer.Next());
    while (tokens_.back().kind != Kind::kEnd);
  }

  std::optional<std::string> Run() {
    if (!IsSimple()) return std::nullopt;
    std::string result;
    size_t copied = 0;
    for (size_t i = 0; i + 4 < tokens_.size(); ++i) {
      if (!IsDiscardedCall(i)) continue;
      const auto name = static_cast<size_t>(tokens_[i + 2].text.data() - source_.data());
      result.append(source_, copied, name - copied).append("a");
      copied = name;
    }
    if (copied == 0) return std::nullopt;
    return result.append(source_, copied);
  }

 private:
  bool Is(size_t index, std::string_view text) const {
    return index < tokens_.size() && tokens_[index].kind != Kind::kValue &&
           tokens_[index].text == text;
  }

  bool IsSimple() const {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind != Kind::kName) continue;
      const bool is_field = i > 0 && (Is(i - 1, ".") || Is(i - 1, ":"));
      if (token.text == "redis") {
        // redis.call may be kept under another name (then those calls stay as they are), but
        // `redis` must stay what it is, and its functions, too.
        if (is_field || !Is(i + 1, ".") || Is(i + 3, "=")) return false;
        if (i > 0 && (Is(i - 1, "local") || Is(i - 1, "function"))) return false;
        // redis.pcall(...) itself is fine.
        if (Is(i + 2, "pcall") && !Is(i + 3, "(")) return false;
        continue;
      }
      if (!IsOneOf(token.text, kForbidden)) continue;
      if (token.text == "pcall" && i >= 2 && Is(i - 1, ".") && Is(i - 2, "redis")) continue;
      return false;
    }
    return true;
  }

  // At `i` stands a statement redis.call(...) or redis.pcall(...), and nothing else.
  bool IsDiscardedCall(size_t i) const {
    if (!Is(i, "redis") || !Is(i + 1, ".") || !Is(i + 3, "(")) return false;
    if (!Is(i + 2, "call") && !Is(i + 2, "pcall")) return false;
    if (!BeginsStatement(i)) return false;
    size_t depth = 0;
    size_t end = i + 3;
    for (;; ++end) {
      if (tokens_[end].kind == Kind::kEnd) return false;
      if (tokens_[end].kind != Kind::kSymbol) continue;
      const std::string_view text = tokens_[end].text;
      if (text == "(" || text == "{" || text == "[") ++depth;
      if ((text == ")" || text == "}" || text == "]") && --depth == 0) break;
    }
    return EndsStatement(end + 1);
  }

  bool BeginsStatement(size_t i) const {
    if (i == 0) return true;
    const Token& before = tokens_[i - 1];
    if (before.kind == Kind::kValue) return true;  // "local x = 1 redis.call()"
    if (before.kind == Kind::kName) {
      if (IsOneOf(before.text, kWordOperators)) return false;
      if (IsOneOf(before.text, kBeforeStatement) || before.text == "end") return true;
      // Any other keyword ("return", "in", "if", "until", ...) wants an expression; a name, `nil`
      // or `true` ends one.
      constexpr std::array<std::string_view, 9> kWantExpression = {
          "return", "in", "if", "elseif", "while", "until", "for", "local", "function"};
      return !IsOneOf(before.text, kWantExpression);
    }
    // A closing bracket ends an expression, or a list of parameters; all else wants more.
    return before.text == ")" || before.text == "]" || before.text == "}" || before.text == ";" ||
           before.text == "...";
  }

  // What follows the call's closing parenthesis cannot belong to it.
  bool EndsStatement(size_t i) const {
    const Token& after = tokens_[i];
    if (after.kind == Kind::kEnd) return true;
    if (after.kind == Kind::kSymbol) return after.text == ";";
    if (after.kind == Kind::kValue) return false;  // f(...)"x" is a call of the result
    if (IsOneOf(after.text, kAfterStatement)) return true;
    return !IsOneOf(after.text, kWordOperators);  // a name: another statement
  }

  const std::string_view source_;
  std::vector<Token> tokens_;
};

}  // namespace

std::optional<std::string> RewriteDiscardedCalls(std::string_view source) {
  return Rewriter(source).Run();
}

}  // namespace dfly
