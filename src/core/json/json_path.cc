// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_path.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "core/json/json_regex.h"
#include "core/json/json_text.h"

namespace dfly {

JsonFilter::JsonFilter() = default;
JsonFilter::~JsonFilter() = default;

bool JsonPath::is_static() const {
  for (const JsonStep& step : steps_) {
    if (step.is_deep || step.selectors.size() != 1) return false;
    const auto kind = step.selectors[0].kind;
    if (kind != JsonSelector::Kind::kName && kind != JsonSelector::Kind::kIndex) return false;
  }
  return true;
}

// Recursive descent; each function is false if it does not find what it is for, and the first one
// says where.
class JsonPathParser {
 public:
  explicit JsonPathParser(std::string_view text) : text_(text) {}

  bool Path(std::vector<JsonStep>* steps) {
    return Steps(steps) && (at_ == text_.size() || Fail());
  }
  void SkipRoot() { ++at_; }

  std::string ErrorText() const {
    const size_t at = std::min(failed_at_, text_.size());
    return "Error occurred on position " + std::to_string(at + 1) + ", \"" +
           std::string(text_.substr(0, at)) + " ---->>>> " + std::string(text_.substr(at)) +
           "\", expected " + expected_ + ".";
  }

 private:
  using Kind = JsonSelector::Kind;
  using Op = JsonFilter::Op;

  bool Fail(const char* expected = "a path element") {
    if (failed_at_ == SIZE_MAX) {
      failed_at_ = at_;
      expected_ = expected;
    }
    return false;
  }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  void SkipBlanks() {
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r') ++at_;
  }

  static bool IsNameByte(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           static_cast<uint8_t>(c) >= 0x80 || std::string_view("_-+/%$^:#;\\").find(c) != SIZE_MAX;
  }

  // Until something comes that is no step.
  bool Steps(std::vector<JsonStep>* steps) {
    for (;;) {
      JsonStep step;
      if (Take("..")) {
        step.is_deep = true;
        if (Peek() == '[') {
          if (!Brackets(&step)) return false;
        } else if (!Name(&step)) {
          return false;
        }
      } else if (Peek() == '.') {
        ++at_;
        if (Peek() == '[') {
          if (!Brackets(&step)) return false;
        } else if (!Name(&step)) {
          return false;
        }
      } else if (Peek() == '[') {
        if (!Brackets(&step)) return false;
      } else {
        return true;
      }
      steps->push_back(std::move(step));
    }
  }

  bool Name(JsonStep* step) {
    if (!CountPart()) return false;
    if (Take("*")) {
      step->selectors.push_back({.kind = Kind::kAll});
      return true;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
    if (at_ == begin) return Fail("a name, or '*'");
    step->selectors.push_back(
        {.kind = Kind::kName, .name = std::string(text_.substr(begin, at_ - begin))});
    return true;
  }

  bool Brackets(JsonStep* step) {
    ++at_;
    do {
      SkipBlanks();
      if (!Selector(step)) return false;
      SkipBlanks();
    } while (Take(","));
    if (!Take("]")) return Fail("']'");
    return true;
  }

  bool Selector(JsonStep* step) {
    if (!CountPart()) return false;
    if (Take("*")) {
      step->selectors.push_back({.kind = Kind::kAll});
      return true;
    }
    if (Peek() == '"' || Peek() == '\'') {
      JsonSelector selector = {.kind = Kind::kName};
      if (!Quoted(&selector.name)) return false;
      step->selectors.push_back(std::move(selector));
      return true;
    }
    if (Take("?")) {
      if (!Nest()) return false;
      FilterPtr filter = Or();
      if (filter == nullptr) return false;
      --nested_;
      step->selectors.push_back({.kind = Kind::kFilter, .filter = std::move(filter)});
      return true;
    }
    JsonSelector selector = {.kind = Kind::kIndex};
    std::optional<int64_t> number;
    if (!OptionalNumber(&number)) return false;
    SkipBlanks();
    if (!Take(":")) {
      if (!number) return Fail("a name in quotes, a number, a slice, a filter, or '*'");
      selector.index = *number;
      step->selectors.push_back(std::move(selector));
      return true;
    }
    selector.kind = Kind::kSlice;
    selector.begin = number;
    SkipBlanks();
    if (!OptionalNumber(&selector.end)) return false;
    SkipBlanks();
    if (Take(":")) {
      SkipBlanks();
      std::optional<int64_t> by;
      if (!OptionalNumber(&by)) return false;
      selector.step = by.value_or(1);
      if (selector.step <= 0) return Fail("a step above 0");
    }
    step->selectors.push_back(std::move(selector));
    return true;
  }

  // False: it is out of range.
  bool OptionalNumber(std::optional<int64_t>* number) {
    const char* const begin = text_.data() + at_;
    int64_t value;
    const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
    if (result.ec == std::errc::invalid_argument) return true;
    if (result.ec != std::errc()) return Fail("an index of 64 bits");
    at_ += static_cast<size_t>(result.ptr - begin);
    *number = value;
    return true;
  }

  // In quotes of either kind, with the escapes of JSON.
  bool Quoted(std::string* text) {
    const char quote = Peek();
    std::string json = "\"";
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) return Fail("a closing quote");
      const char c = text_[at_];
      if (c == quote) break;
      if (c == '\\') {
        const char escaped = Peek(1);
        if (escaped == '\0') return Fail("a closing quote");
        ++at_;
        if (escaped != '\'') json += '\\';
        json += escaped;
      } else if (c == '"') {
        json += "\\\"";
      } else {
        json += c;
      }
    }
    ++at_;
    json += '"';
    JsonDoc doc;
    if (!ParseJson(json, 1, &doc).empty()) return Fail("a string");
    *text = doc.root().AsText();
    return true;
  }

  // --- Filters ---

  using FilterPtr = std::unique_ptr<JsonFilter>;

  FilterPtr Or() {
    return Chain("||", Op::kOr, [this] { return And(); });
  }
  FilterPtr And() {
    return Chain("&&", Op::kAnd, [this] { return Unary(); });
  }

  template <typename Next>
  FilterPtr Chain(std::string_view sign, Op op, Next next) {
    FilterPtr first = next();
    SkipBlanks();
    if (first == nullptr || !Take(sign)) return first;
    auto chain = std::make_unique<JsonFilter>();
    chain->op = op;
    chain->parts.push_back(std::move(first));
    do {
      if (!CountPart()) return nullptr;
      FilterPtr part = next();
      if (part == nullptr) return nullptr;
      chain->parts.push_back(std::move(part));
      SkipBlanks();
    } while (Take(sign));
    return chain;
  }

  bool CountPart() { return ++parts_ <= JsonPath::kPartsMax || Fail("fewer parts"); }
  bool Nest() {
    return ++nested_ <= JsonPath::kNestedMax || Fail("fewer brackets inside of each other");
  }

  FilterPtr Unary() {
    SkipBlanks();
    if (Peek() == '!' && Peek(1) != '=') {
      ++at_;
      if (!Nest()) return nullptr;
      auto filter = std::make_unique<JsonFilter>();
      filter->op = Op::kNot;
      filter->parts.push_back(Unary());
      if (filter->parts[0] == nullptr) return nullptr;
      --nested_;
      return filter;
    }
    if (Take("(")) {
      if (!Nest()) return nullptr;
      FilterPtr filter = Or();
      if (filter == nullptr) return nullptr;
      SkipBlanks();
      if (!Take(")")) {
        Fail("')'");
        return nullptr;
      }
      --nested_;
      return filter;
    }
    auto filter = std::make_unique<JsonFilter>();
    return Comparison(filter.get()) ? std::move(filter) : nullptr;
  }

  bool Comparison(JsonFilter* filter) {
    static constexpr std::pair<std::string_view, Op> kOps[] = {
        {"==", Op::kEqual},        {"!=", Op::kNotEqual},   {"<=", Op::kLessEqual},
        {">=", Op::kGreaterEqual}, {"<", Op::kLess},        {">", Op::kGreater},
        {"=~", Op::kMatches},      {"in", Op::kIn},         {"nin", Op::kNotIn},
        {"anyof", Op::kAnyOf},     {"noneof", Op::kNoneOf}, {"subsetof", Op::kSubsetOf},
        {"sizeof", Op::kSizeOf},   {"size", Op::kSizeOf},   {"empty", Op::kEmpty}};
    if (!Operand(&filter->a)) return false;
    SkipBlanks();
    for (const auto& [sign, op] : kOps) {
      if (!TakeOperator(sign)) continue;
      SkipBlanks();
      filter->op = op;
      if (!Operand(&filter->b)) return false;
      if (op == Op::kMatches && filter->b.literal != nullptr) {
        if (!filter->b.literal->root().is_string()) return Fail("a string behind =~");
      }
      return true;
    }
    filter->op = Op::kExists;
    if (filter->a.kind == JsonFilter::Operand::Kind::kLiteral) return Fail("an operator");
    return true;
  }

  // A word ends where no other letter follows.
  bool TakeOperator(std::string_view sign) {
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (is_letter(sign[0]) && is_letter(Peek(sign.size()))) return false;
    return Take(sign);
  }

  bool Operand(JsonFilter::Operand* operand) {
    using OperandKind = JsonFilter::Operand::Kind;
    if (Peek() == '@' || Peek() == '$') {
      operand->kind = Peek() == '@' ? OperandKind::kFromElement : OperandKind::kFromRoot;
      ++at_;
      return Steps(&operand->steps);
    }
    operand->kind = OperandKind::kLiteral;
    operand->literal = std::make_unique<JsonDoc>();
    if (Peek() == '"' || Peek() == '\'') {
      std::string text;
      if (!Quoted(&text)) return false;
      *operand->literal->mutable_root() = operand->literal->MakeText(text);
      return true;
    }
    const size_t size = LiteralSize();
    const std::string_view json = text_.substr(at_, size);
    if (size == 0 || !ParseJson(json, JsonPath::kNestedMax, operand->literal.get()).empty()) {
      return Fail("a path or a value");
    }
    at_ += size;
    return true;
  }

  // Of an array, an object, a number or a word.
  size_t LiteralSize() const {
    const std::string_view rest = text_.substr(at_);
    if (rest.empty() || (rest[0] != '[' && rest[0] != '{')) {
      size_t size = 0;
      while (size < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[size])) != 0 ||
                                    std::string_view("+-.").find(rest[size]) != SIZE_MAX)) {
        ++size;
      }
      return size;
    }
    size_t open = 0;
    bool is_quoted = false;
    for (size_t i = 0; i < rest.size(); ++i) {
      if (is_quoted) {
        if (rest[i] == '\\') {
          ++i;
        } else if (rest[i] == '"') {
          is_quoted = false;
        }
      } else if (rest[i] == '"') {
        is_quoted = true;
      } else if (rest[i] == '[' || rest[i] == '{') {
        ++open;
      } else if ((rest[i] == ']' || rest[i] == '}') && --open == 0) {
        return i + 1;
      }
    }
    return 0;
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t nested_ = 0;
  size_t parts_ = 0;
  size_t failed_at_ = SIZE_MAX;
  const char* expected_ = "";
};

std::string JsonPath::Parse(std::string_view text, JsonPath* path) {
  *path = JsonPath();
  const bool is_json_path = text == "$" || text.starts_with("$.") || text.starts_with("$[");
  path->is_legacy_ = !is_json_path;
  if (is_json_path) {
    path->text_ = text;
  } else if (text == ".") {
    path->text_ = "$";
  } else if (text.starts_with('.') || text.starts_with('[')) {
    path->text_ = "$" + std::string(text);
  } else {
    path->text_ = "$." + std::string(text);
  }
  if (!IsUtf8(text)) return "ERR a path is not UTF-8";
  JsonPathParser parser(path->text_);
  parser.SkipRoot();
  if (!parser.Path(&path->steps_)) return parser.ErrorText();
  return {};
}

}  // namespace dfly
