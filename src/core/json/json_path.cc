// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_path.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "core/json/json_expr.h"
#include "core/json/json_regex.h"
#include "core/json/json_text.h"

namespace dfly {

namespace {

// Those that are words are reserved, too: no older path begins with one. Longer ones come first.
constexpr std::pair<std::string_view, JsonExpr::Op> kOperators[] = {
    {"==", JsonExpr::Op::kEqual},      {"!=", JsonExpr::Op::kNotEqual},
    {"<=", JsonExpr::Op::kLessEqual},  {">=", JsonExpr::Op::kGreaterEqual},
    {"<", JsonExpr::Op::kLess},        {">", JsonExpr::Op::kGreater},
    {"=~", JsonExpr::Op::kMatches},    {"in", JsonExpr::Op::kIn},
    {"nin", JsonExpr::Op::kNotIn},     {"anyof", JsonExpr::Op::kAnyOf},
    {"noneof", JsonExpr::Op::kNoneOf}, {"subsetof", JsonExpr::Op::kSubsetOf},
    {"sizeof", JsonExpr::Op::kSizeOf}, {"size", JsonExpr::Op::kSizeOf},
    {"empty", JsonExpr::Op::kEmpty}};

struct FunctionRow {
  std::string_view name;
  size_t args_min, args_max;
  JsonExpr::Op op;  // kCall: it gives a value
  JsonFunction function = JsonFunction::kValue;
};
constexpr size_t kAnyCount = SIZE_MAX;
constexpr FunctionRow kFunctions[] = {
    {"length", 1, 1, JsonExpr::Op::kCall, JsonFunction::kLength},
    {"count", 1, 1, JsonExpr::Op::kCall, JsonFunction::kCount},
    {"value", 1, 1, JsonExpr::Op::kCall, JsonFunction::kValue},
    {"keys", 1, 1, JsonExpr::Op::kCall, JsonFunction::kKeys},
    {"concat", 1, kAnyCount, JsonExpr::Op::kCall, JsonFunction::kConcat},
    {"abs", 1, 1, JsonExpr::Op::kCall, JsonFunction::kAbs},
    {"ceiling", 1, 1, JsonExpr::Op::kCall, JsonFunction::kCeiling},
    {"floor", 1, 1, JsonExpr::Op::kCall, JsonFunction::kFloor},
    {"first", 1, 1, JsonExpr::Op::kCall, JsonFunction::kFirst},
    {"last", 1, 1, JsonExpr::Op::kCall, JsonFunction::kLast},
    {"index", 2, 2, JsonExpr::Op::kCall, JsonFunction::kIndex},
    {"min", 1, 1, JsonExpr::Op::kCall, JsonFunction::kMin},
    {"max", 1, 1, JsonExpr::Op::kCall, JsonFunction::kMax},
    {"avg", 1, 1, JsonExpr::Op::kCall, JsonFunction::kAvg},
    {"sum", 1, 1, JsonExpr::Op::kCall, JsonFunction::kSum},
    {"stddev", 1, 1, JsonExpr::Op::kCall, JsonFunction::kStdDev},
    {"append", 2, kAnyCount, JsonExpr::Op::kCall, JsonFunction::kAppend},
    {"match", 2, 2, JsonExpr::Op::kMatchesAll},
    {"search", 2, 2, JsonExpr::Op::kMatches},
    {"subsetof", 2, 2, JsonExpr::Op::kSubsetOf},
    {"anyof", 2, 2, JsonExpr::Op::kAnyOf},
    {"noneof", 2, 2, JsonExpr::Op::kNoneOf},
};

bool IsLetter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr size_t kExcerptMax = 200;
// Not the first byte of one.
bool IsInCharacter(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

std::string LastOf(std::string_view text) {
  if (text.size() <= kExcerptMax) return std::string(text);
  size_t at = text.size() - kExcerptMax;
  while (IsInCharacter(text[at])) ++at;
  return "..." + std::string(text.substr(at));
}

}  // namespace

bool JsonPath::begins_with_operator() const {
  if (!is_legacy_ || begins_with_point_ || steps_.empty() || steps_[0].is_deep) return false;
  return std::ranges::any_of(kOperators, [&](const auto& row) {
    return IsLetter(row.first[0]) && row.first == steps_[0].selectors[0].name;
  });
}

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

  // Behind $: steps, and nothing else.
  bool Path(std::vector<JsonStep>* steps) {
    at_ = 1;
    steps->reserve(4);  // of most paths that is all
    return Steps(steps) && (at_ == text_.size() || Fail());
  }

  // What computes a value, or a path in brackets.
  bool Projection(JsonPath* path) {
    ExprPtr expr = Or();
    if (expr == nullptr) return false;
    SkipBlanks();
    if (at_ < text_.size()) return Fail("an operator");
    if (expr->op == Op::kPath) {
      path->steps_ = std::move(expr->steps);
      return true;
    }
    if (expr->is_condition() || expr->op == Op::kLiteral) return Fail("what computes a value");
    path->projection_ = std::move(expr);
    return true;
  }

  size_t failed_at() const { return failed_at_; }
  std::string ErrorText() const {
    const size_t at = std::min(failed_at_, text_.size());
    return "Error occurred on position " + std::to_string(at + 1) + ", \"" +
           LastOf(text_.substr(0, at)) + " ---->>>> " + JsonPath::Excerpt(text_.substr(at)) +
           "\", expected " + expected_ + ".";
  }

 private:
  using Kind = JsonSelector::Kind;
  using Op = JsonExpr::Op;
  using ExprPtr = std::unique_ptr<JsonExpr>;

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
    while (IsBlank(Peek())) ++at_;
  }

  static bool IsNameByte(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           static_cast<uint8_t>(c) >= 0x80 || std::string_view("_-+/%$^:#;\\").find(c) != SIZE_MAX;
  }

  // Until something comes that is no step.
  bool Steps(std::vector<JsonStep>* steps) {
    while (Peek() == '.' || Peek() == '[') {
      const size_t begin = at_;
      JsonStep* const step = &steps->emplace_back();
      if (Peek() == '.') {
        ++at_;
        step->is_deep = Take(".");
      }
      if (Peek() == '[') {
        if (!Brackets(step)) return false;
      } else if (!Name(step)) {
        return false;
      } else if (Peek() == '(' && !step->is_deep) {  // a method
        at_ = begin;
        steps->pop_back();
        return true;
      }
    }
    return true;
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
    step->selectors.emplace_back().name.assign(text_, begin, at_ - begin);
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
      ++filters_;
      ExprPtr filter = AsCondition(Or());
      if (filter == nullptr) return false;
      --filters_;
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
      const size_t end = std::min(text_.find_first_of("\"'\\", at_), text_.size());
      json.append(text_, at_, end - at_);
      at_ = end;
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

  // --- Expressions ---

  bool CountPart() { return ++parts_ <= JsonPath::kPartsMax || Fail("fewer parts"); }
  bool Nest() {
    return ++nested_ <= JsonPath::kNestedMax || Fail("fewer brackets inside of each other");
  }
  ExprPtr FailExpr(const char* expected) {
    Fail(expected);
    return nullptr;
  }

  // Null if a part is, or if there are too many of them.
  template <typename... Parts>
  ExprPtr Make(Op op, Parts... parts) {
    auto expr = std::make_unique<JsonExpr>();
    expr->op = op;
    if constexpr (sizeof...(parts) > 0) expr->parts.reserve(sizeof...(parts));
    const bool is_whole = (Add(expr.get(), std::move(parts)) && ...);
    return is_whole && CountPart() ? std::move(expr) : nullptr;
  }
  bool Add(JsonExpr* expr, ExprPtr part) {
    if (part == nullptr) return false;
    // What computes a value takes more of the stack.
    const size_t own = expr->is_condition() ? 1 : 3;
    expr->depth = std::max(expr->depth, part->depth + own);
    expr->parts.push_back(std::move(part));
    return expr->depth <= JsonExpr::kDepthMax || Fail("fewer operations inside of each other");
  }

  // A value alone asks whether it is there.
  ExprPtr AsCondition(ExprPtr expr) {
    if (expr == nullptr || expr->is_condition()) return expr;
    if (expr->op == Op::kLiteral) return FailExpr("an operator");
    return Make(Op::kExists, std::move(expr));
  }
  ExprPtr AsValue(ExprPtr expr) {
    if (expr == nullptr || !expr->is_condition()) return expr;
    return FailExpr("no condition where a value is needed");
  }

  ExprPtr Or() {
    return Chain("||", Op::kOr, [this] { return And(); });
  }
  ExprPtr And() {
    return Chain("&&", Op::kAnd, [this] { return Not(); });
  }

  template <typename Next>
  ExprPtr Chain(std::string_view sign, Op op, Next next) {
    ExprPtr first = next();
    SkipBlanks();
    if (first == nullptr || !Take(sign)) return first;
    ExprPtr chain = Make(op, AsCondition(std::move(first)));
    do {
      if (chain == nullptr || !Add(chain.get(), AsCondition(next()))) return nullptr;
      SkipBlanks();
    } while (Take(sign));
    return chain;
  }

  ExprPtr Not() {
    SkipBlanks();
    if (Peek() != '!' || Peek(1) == '=') return Comparison();
    ++at_;
    if (!Nest()) return nullptr;
    ExprPtr expr = Make(Op::kNot, AsCondition(Not()));
    --nested_;
    return expr;
  }

  ExprPtr Comparison() {
    ExprPtr left = Sum();
    if (left == nullptr) return nullptr;
    SkipBlanks();
    if (!MayBeginOperator(Peek())) return left;
    for (const auto& [sign, op] : kOperators) {
      if (!TakeOperator(sign)) continue;
      SkipBlanks();
      ExprPtr right = Sum();
      if (op == Op::kMatches && right != nullptr && right->op == Op::kLiteral &&
          !right->literal->root().is_string()) {
        return FailExpr("a string behind =~");
      }
      left = AsValue(std::move(left));
      if (left == nullptr) return nullptr;
      return WithFairPattern(Make(op, std::move(left), AsValue(std::move(right))));
    }
    return left;
  }

  // Null: its regular expression is too long. One that a document has matches nothing then.
  ExprPtr WithFairPattern(ExprPtr expr) {
    if (expr == nullptr || (expr->op != Op::kMatches && expr->op != Op::kMatchesAll)) return expr;
    if (expr->parts[1]->op != Op::kLiteral) return expr;
    const JsonNode pattern = expr->parts[1]->literal->root();
    if (!pattern.is_string() || pattern.AsText().size() <= kJsonRegexMax) return expr;
    return FailExpr("a regular expression of at most 1024 bytes");
  }

  static bool MayBeginOperator(char c) {
    return c == '=' || c == '!' || c == '<' || c == '>' || (c >= 'a' && c <= 'z');
  }
  // A word ends where no other letter follows.
  bool TakeOperator(std::string_view sign) {
    if (IsLetter(sign[0]) && IsLetter(Peek(sign.size()))) return false;
    return Take(sign);
  }

  ExprPtr Sum() {
    return Arithmetic(Op::kSum, [this] { return Product(); });
  }
  ExprPtr Product() {
    return Arithmetic(Op::kProduct, [this] { return Signed(); });
  }

  // Blanks stand around its signs, which are bytes of names as well.
  template <typename Next>
  ExprPtr Arithmetic(Op op, Next next) {
    ExprPtr first = next();
    SkipBlanks();
    if (first == nullptr || !IsSign(op)) return first;
    first = AsValue(std::move(first));
    ExprPtr chain = first == nullptr ? nullptr : Make(op, std::move(first));
    while (IsSign(op)) {
      if (!IsBlank(text_[at_ - 1]) || !IsBlank(Peek(1))) {
        return FailExpr("blanks around the sign");
      }
      if (chain == nullptr) return nullptr;
      chain->signs += text_[at_++];
      if (!Add(chain.get(), AsValue(next()))) return nullptr;
      SkipBlanks();
    }
    return chain;
  }
  bool IsSign(Op op) const {
    const char c = Peek();
    return op == Op::kSum ? c == '+' || c == '-' : c == '*' || c == '/' || c == '%';
  }

  ExprPtr Signed() {
    SkipBlanks();
    const bool is_number = Peek() == '-' && Peek(1) >= '0' && Peek(1) <= '9';
    if ((Peek() != '-' && Peek() != '+') || is_number) return Methods();
    const Op op = Peek() == '-' ? Op::kMinus : Op::kPlus;
    ++at_;
    if (!Nest()) return nullptr;
    ExprPtr expr = AsValue(Signed());
    if (expr != nullptr) expr = Make(op, std::move(expr));
    --nested_;
    return expr;
  }

  // Something, and .f() behind it, which is f(something).
  ExprPtr Methods() {
    ExprPtr expr = Primary();
    while (expr != nullptr && expr->op != Op::kKeys && Peek() == '.') {
      ++at_;
      expr = AsValue(std::move(expr));
      if (expr != nullptr) expr = Call(std::move(expr));
    }
    return expr;
  }

  ExprPtr Primary() {
    if (Peek() == '(') {
      ++at_;
      if (!Nest()) return nullptr;
      ExprPtr expr = Or();
      SkipBlanks();
      if (expr != nullptr && !Take(")")) return FailExpr("')'");
      --nested_;
      return expr;
    }
    if (Peek() == '@' || Peek() == '$') return PathValue();
    if (IsFunction()) return Call(nullptr);
    return Literal();
  }

  ExprPtr PathValue() {
    const bool is_from_root = Peek() == '$';
    if (!is_from_root && filters_ == 0) return FailExpr("no @ outside of filters");
    ++at_;
    ExprPtr expr = Make(Op::kPath);
    if (expr == nullptr || !Steps(&expr->steps)) return nullptr;
    expr->is_from_root = is_from_root;
    for (const JsonStep& step : expr->steps) {
      expr->is_list |= step.is_deep || step.selectors.size() != 1;
      for (const JsonSelector& selector : step.selectors) {
        expr->is_list |= selector.kind != Kind::kName && selector.kind != Kind::kIndex;
        if (selector.filter != nullptr) {
          expr->depth = std::max(expr->depth, selector.filter->depth + 1);
        }
      }
    }
    if (expr->depth > JsonExpr::kDepthMax) return FailExpr("fewer filters inside of each other");
    return Take("~") ? Make(Op::kKeys, std::move(expr)) : std::move(expr);
  }

  size_t WordSize() const {
    size_t size = 0;
    while (IsLetter(Peek(size))) ++size;
    return size;
  }
  bool IsFunction() const {
    const size_t size = WordSize();
    return size > 0 && Peek(size) == '(';
  }

  // `receiver`: what stands in front of a method, or null.
  ExprPtr Call(ExprPtr receiver) {
    const std::string_view name = text_.substr(at_, WordSize());
    const auto* const row = std::ranges::find(kFunctions, name, &FunctionRow::name);
    if (row == std::end(kFunctions)) return FailExpr("a function");
    at_ += name.size();
    if (!Take("(")) return FailExpr("'('");
    if (!Nest()) return nullptr;
    ExprPtr call = Make(row->op);
    if (call == nullptr || (receiver != nullptr && !Add(call.get(), std::move(receiver)))) {
      return nullptr;
    }
    SkipBlanks();
    if (Peek() != ')') {
      do {
        if (!Add(call.get(), AsValue(Sum()))) return nullptr;
        SkipBlanks();
      } while (Take(","));
    }
    if (!Take(")")) return FailExpr("')'");
    --nested_;
    call->function = row->function;
    call->takes_lists = true;
    const size_t count = call->parts.size();
    if (count < row->args_min || count > row->args_max) {
      call->op = call->is_condition() ? Op::kNever : Op::kNothing;
    }
    return WithFairPattern(std::move(call));
  }

  ExprPtr Literal() {
    ExprPtr expr = Make(Op::kLiteral);
    if (expr == nullptr) return nullptr;
    expr->literal = std::make_unique<JsonDoc>();
    if (Peek() == '"' || Peek() == '\'') {
      std::string text;
      if (!Quoted(&text)) return nullptr;
      *expr->literal->mutable_root() = expr->literal->MakeText(text);
      return expr;
    }
    const size_t size = LiteralSize();
    const std::string_view json = text_.substr(at_, size);
    if (size == 0 || !ParseJson(json, JsonPath::kNestedMax, expr->literal.get()).empty()) {
      return FailExpr("a path or a value");
    }
    at_ += size;
    return expr;
  }

  // Of an array, an object, a number or a word.
  size_t LiteralSize() const {
    const std::string_view rest = text_.substr(at_);
    if (rest.empty() || (rest[0] != '[' && rest[0] != '{')) {
      size_t size = 0;
      while (size < rest.size() &&
             (IsLetter(rest[size]) || std::string_view("+-.").find(rest[size]) != SIZE_MAX)) {
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
  size_t filters_ = 0;  // that it is in
  size_t parts_ = 0;
  size_t failed_at_ = SIZE_MAX;
  const char* expected_ = "";
};

namespace {

// Whether it is no older path. Those have no brackets of this kind. Before there were expressions,
// they might begin with a sign and $.
bool IsExpression(std::string_view text) {
  if (text.starts_with('$')) {
    return text.size() == 1 || std::string_view(".[~ ").find(text[1]) != SIZE_MAX;
  }
  const size_t at = text.find_first_not_of("+- ");
  return at != SIZE_MAX && (text[at] == '(' || (at > 0 && IsExpression(text.substr(at))));
}

}  // namespace

std::string JsonPath::Excerpt(std::string_view text) {
  if (text.size() <= kExcerptMax) return std::string(text);
  size_t size = kExcerptMax;
  while (IsInCharacter(text[size])) --size;
  return std::string(text.substr(0, size)) + "...";
}

std::string JsonPath::Parse(std::string_view text, JsonPath* path, bool is_replayed) {
  if (!IsUtf8(text)) return "ERR a path is not UTF-8";
  // What begins with a sign and is an expression computes a value: none was replayed.
  const bool is_older = is_replayed && (text.starts_with('-') || text.starts_with('+'));
  const bool is_expression = !is_older && IsExpression(text);
  path->is_legacy_ = !is_expression;
  if (is_expression) {
    path->text_ = text;
  } else if (text == ".") {
    path->text_ = "$";
  } else {
    path->begins_with_point_ = text.starts_with('.') || text.starts_with('[');
    path->text_ = (path->begins_with_point_ ? "$" : "$.") + std::string(text);
  }
  if (path->text_[0] == '$') {
    JsonPathParser parser(path->text_);
    if (parser.Path(&path->steps_)) return {};
    path->steps_.clear();
    if (path->is_legacy_) {
      JsonPathParser projection(text);
      const size_t prefix = path->text_.size() - text.size();
      if (!projection.Projection(path)) {
        const bool gets_farther = projection.failed_at() + prefix > parser.failed_at();
        return gets_farther ? projection.ErrorText() : parser.ErrorText();
      }
      path->is_legacy_ = false;
      path->text_ = text;
      return {};
    }
  }
  JsonPathParser parser(path->text_);
  return parser.Projection(path) ? std::string() : parser.ErrorText();
}

}  // namespace dfly
