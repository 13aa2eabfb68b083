// SPDX-License-Identifier: Apache-2.0
// Expressions of paths: conditions and values (json_expr.h). A visit stands for about 16 bytes that
// are looked at, and for 4 that are made; a list's value counts as a match does.
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/json/json_finder.h"
#include "core/json/json_regex.h"
#include "core/json/json_walk.h"

namespace dfly {

namespace {

using Op = JsonExpr::Op;

template <typename T>
bool IsOrdered(Op op, const T& a, const T& b) {
  switch (op) {
    case Op::kLess:
      return a < b;
    case Op::kLessEqual:
      return a <= b;
    case Op::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

bool Compares(Op op, const JsonNode& a, const JsonNode& b) {
  if (a.is_number() && b.is_number()) {
    if (op == Op::kEqual) return JsonDoc::IsEqual(a, b);
    if (op == Op::kNotEqual) return !JsonDoc::IsEqual(a, b);
    const bool are_integers = a.type() == JsonType::kInteger && b.type() == JsonType::kInteger &&
                              !a.is_uint() && !b.is_uint();
    return are_integers ? IsOrdered(op, a.AsInt(), b.AsInt())
                        : IsOrdered(op, a.AsDouble(), b.AsDouble());
  }
  if (a.type() != b.type()) return false;
  if (op == Op::kEqual) return JsonDoc::IsEqual(a, b);
  if (op == Op::kNotEqual) return !JsonDoc::IsEqual(a, b);
  return a.is_string() && IsOrdered(op, a.AsText(), b.AsText());
}

// What it takes, about. The allocator is not asked: a number of a packed array has no block.
size_t BytesIn(const JsonNode& node) {
  struct Sum {
    void Begin(const JsonNode& of) {
      bytes += 8 + of.size() * (of.is_object() ? sizeof(JsonMember) : sizeof(JsonNode));
    }
    void End(const JsonNode&) {}
    void Packed(const JsonNode& of) { bytes += 8 + of.packed_bytes().size(); }
    void Scalar(const JsonNode& of) {
      if (of.block() != nullptr) bytes += of.is_string() ? 4 + of.AsText().size() : 8;
    }
    void Element(const JsonNode& container, size_t index) {
      if (container.is_object()) Scalar(container.members()[index].name);
    }
    size_t bytes = 0;
  } sum;
  WalkJson(node, sum);
  return sum.bytes;
}

// To compare them, in visits.
uint64_t CostOf(const JsonNode& a, const JsonNode& b) {
  if (a.is_string()) return a.AsText().size() / 64;
  return a.size() > 0 && a.size() == b.size() ? BytesIn(a) / 16 : 0;
}
// The same for any operator.
uint64_t CostOf(Op op, const JsonNode& a, const JsonNode& b) {
  if (op == Op::kEmpty) return 0;
  if (op == Op::kSizeOf) return a.is_string() ? a.AsText().size() / 8 : 0;
  return CostOf(a, b);
}

// Characters of a text, elements of others; none of what has neither.
std::optional<int64_t> SizeOf(const JsonNode& node) {
  if (node.is_container()) return static_cast<int64_t>(node.size());
  if (!node.is_string()) return std::nullopt;
  const auto is_first = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
  return std::ranges::count_if(node.AsText(), is_first);
}

// REQUIRES: it has a size.
bool IsEmpty(const JsonNode& node) {
  return node.is_string() ? node.AsText().empty() : node.size() == 0;
}

}  // namespace

// --- The scratch ---

JsonNode JsonScratch::Array(std::span<const JsonNode> nodes) {
  JsonNode array = Doc().MakeArray(nodes.size());
  doc_->InsertAll(&array, 0, nodes);
  return Keep(array);
}

void JsonScratch::ReleaseSome(size_t mark) {
  for (; made_.size() > mark; made_.pop_back()) {
    JsonNode& node = made_.back();
    if (node.size() > 0) std::ranges::fill(node.items(), JsonNode());
    doc_->Clear(&node);
  }
}

// --- Conditions ---

// Small, as it recurses the most.
bool JsonFinder::IsTrue(const JsonExpr& condition, JsonNode* element) {
  if (!Work()) return false;
  switch (condition.op) {
    case Op::kOr:
      for (const auto& part : condition.parts) {
        if (IsTrue(*part, element)) return true;
      }
      return false;
    case Op::kAnd:
      for (const auto& part : condition.parts) {
        if (!IsTrue(*part, element)) return false;
      }
      return true;
    case Op::kNot:
      return !IsTrue(*condition.parts[0], element);
    case Op::kExists:
      return IsThere(*condition.parts[0], element);
    case Op::kNever:
      return false;
    default:
      return HoldsForAny(condition, element);
  }
}

bool JsonFinder::IsThere(const JsonExpr& value, JsonNode* element) {
  const JsonValues values = Evaluate(value, element);
  return values.is_spread ? values.nodes[0].size() > 0 : !values.nodes.empty();
}

// Each with each; one pair is enough.
bool JsonFinder::HoldsForAny(const JsonExpr& condition, JsonNode* element) {
  const Op op = condition.op;
  JsonValues left = Evaluate(*condition.parts[0], element);
  if (left.nodes.empty() && !left.is_list) return false;
  JsonValues right = Evaluate(*condition.parts[1], element);
  if (condition.takes_lists && op >= Op::kSubsetOf && op <= Op::kNoneOf) {
    for (JsonValues* const values : {&left, &right}) {
      if (values->is_list) *values = {.nodes = {ArrayOf(values->nodes)}};
    }
  }
  if (left.nodes.empty()) return false;
  const bool is_member = op == Op::kIn || op == Op::kNotIn;
  const bool holds = std::ranges::any_of(left.nodes, [&](const JsonNode& a) {
    return std::ranges::any_of(right.nodes,
                               [&](const JsonNode& b) {
                                 return Work(1 + CostOf(op, a, b)) && Holds(condition, a, b);
                               }) ||
           (is_member && right.is_list && IsIn(a, right.nodes));
  });
  return op == Op::kNotIn ? !holds : holds;
}

bool JsonFinder::Holds(const JsonExpr& condition, const JsonNode& left, const JsonNode& right) {
  const bool has_items = condition.op >= Op::kIn && condition.op <= Op::kNoneOf;
  const JsonNode a = has_items ? Unpacked(left) : left;
  const JsonNode b = has_items ? Unpacked(right) : right;
  switch (condition.op) {
    case Op::kMatches:
    case Op::kMatchesAll:
      return HasMatch(condition, a, b);
    case Op::kIn:
    case Op::kNotIn:  // what does not hold, then
      return b.is_array() && IsIn(a, b.items());
    case Op::kSubsetOf:
      return a.is_array() && b.is_array() &&
             std::ranges::all_of(a.items(),
                                 [&](const JsonNode& of) { return IsIn(of, b.items()); });
    case Op::kAnyOf:
    case Op::kNoneOf: {
      if (!a.is_array() || !b.is_array()) return false;
      const bool has_any = std::ranges::any_of(
          a.items(), [&](const JsonNode& item) { return IsIn(item, b.items()); });
      return has_any == (condition.op == Op::kAnyOf);
    }
    case Op::kSizeOf: {
      const std::optional<int64_t> size = SizeOf(a);
      return size && b.is_number() && static_cast<double>(*size) == std::trunc(b.AsDouble());
    }
    case Op::kEmpty:
      return b.type() == JsonType::kBool && (a.is_container() || a.is_string()) &&
             IsEmpty(a) == b.AsBool();
    default:
      return Compares(condition.op, a, b);
  }
}

bool JsonFinder::IsIn(const JsonNode& value, std::span<const JsonNode> items) {
  return std::ranges::any_of(items, [&](const JsonNode& item) {
    return Work(kItemWork + CostOf(value, item)) && Compares(Op::kEqual, value, item);
  });
}

const re2::RE2* JsonFinder::RegexOf(std::string_view pattern) {
  if (pattern.size() > kJsonRegexMax || !Work(1 + pattern.size() / 64)) return nullptr;
  const auto known = regexes_.find(pattern);
  if (known != regexes_.end()) return known->second.get();
  if (!Work(JsonRegexWork(pattern))) return nullptr;
  if (regexes_.size() == kRegexesMax) regexes_.clear();
  return regexes_.emplace(pattern, CompileJsonRegex(pattern)).first->second.get();
}

bool JsonFinder::HasMatch(const JsonExpr& condition, const JsonNode& text,
                          const JsonNode& pattern) {
  if (!text.is_string() || !pattern.is_string()) return false;
  const re2::RE2* const regex = RegexOf(pattern.AsText());
  if (regex == nullptr) return false;
  const std::string_view subject = text.AsText();
  const auto size = static_cast<uint64_t>(regex->ProgramSize());
  if (!Work(1 + subject.size() * size / 4)) return false;
  const re2::StringPiece piece(subject.data(), subject.size());
  return condition.op == Op::kMatches ? re2::RE2::PartialMatch(piece, *regex)
                                      : re2::RE2::FullMatch(piece, *regex);
}

// --- Values ---

JsonValues JsonFinder::Evaluate(const JsonExpr& value, JsonNode* element) {
  switch (value.op) {
    case Op::kLiteral:
      return {.nodes = {value.literal->root()}};
    case Op::kPath:
      return EvaluatePath(value, element);
    case Op::kSum:
    case Op::kProduct:
    case Op::kMinus:
    case Op::kPlus:
      return Compute(value, element);
    case Op::kKeys:
    case Op::kCall:
      return Call(value, element);
    default:
      return {};
  }
}

JsonValues JsonFinder::EvaluatePath(const JsonExpr& path, JsonNode* element) {
  JsonValues values = {.nodes = {}, .is_list = path.is_list};
  JsonNode* from = path.is_from_root ? root_ : element;
  if (path.is_list) {
    JsonMatches matches;
    if (!Find(from, path.steps, &matches)) matches.clear();
    for (const JsonMatch& match : matches) values.nodes.push_back(match.value());
    return values;
  }
  JsonMatch match = {from, nullptr, 0};
  for (const JsonStep& step : path.steps) {
    const JsonMatch container = match;
    if (!Work() || !OneIn(step.selectors[0], container, &match)) return values;
  }
  values.nodes.push_back(match.value());
  return values;
}

// From left to right; of lists each with each. What cannot be computed is left out.
JsonValues JsonFinder::Compute(const JsonExpr& chain, JsonNode* element) {
  if (!Work()) return {};
  JsonValues result = Evaluate(*chain.parts[0], element);
  result.is_spread = false;
  const auto combine = [&](const JsonValues& right, char sign) {
    JsonValues combined = {.nodes = {}, .is_list = result.is_list || right.is_list};
    for (const JsonNode& a : result.nodes) {
      if (!a.is_number()) continue;
      for (const JsonNode& b : right.nodes) {
        if (!Work(kMatchWork)) return JsonValues();
        if (!b.is_number()) continue;
        const auto number = ComputeJson(sign, JsonNumber::Of(a), JsonNumber::Of(b));
        if (number) combined.nodes.push_back(scratch_.Number(*number));
      }
    }
    return combined;
  };
  if (chain.op == Op::kPlus) {
    const auto is_none = [](const JsonNode& node) { return !node.is_number(); };
    auto& nodes = result.nodes;
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(), is_none), nodes.end());
    return result;
  }
  // -x is x * -1, exactly.
  if (chain.op == Op::kMinus) return combine({.nodes = {JsonDoc().MakeInt(-1)}}, '*');
  for (size_t i = 1; i < chain.parts.size(); ++i) {
    result = combine(Evaluate(*chain.parts[i], element), chain.signs[i - 1]);
  }
  return result;
}

JsonValues JsonFinder::Call(const JsonExpr& call, JsonNode* element) {
  if (!Work()) return {};
  if (call.op == Op::kKeys) return NamesIn(Evaluate(*call.parts[0], element), true);
  switch (call.function) {
    case JsonFunction::kLength:
    case JsonFunction::kAbs:
    case JsonFunction::kCeiling:
    case JsonFunction::kFloor:
      return CallScalar(call, element);
    case JsonFunction::kKeys:
      return NamesIn(Evaluate(*call.parts[0], element), false);
    case JsonFunction::kConcat:
      return Concat(call, element);
    case JsonFunction::kAppend:
      return Append(call, element);
    default:
      return CallArray(call, element);
  }
}

JsonValues JsonFinder::CallScalar(const JsonExpr& call, JsonNode* element) {
  const JsonValues values = Evaluate(*call.parts[0], element);
  JsonValues results = {.nodes = {}, .is_list = values.is_list};
  for (const JsonNode& node : values.nodes) {
    if (!Work(kMatchWork)) return {};
    const auto result = call.function == JsonFunction::kLength ? LengthOf(node) : Round(call, node);
    if (result) results.nodes.push_back(*result);
  }
  return results;
}

std::optional<JsonNode> JsonFinder::LengthOf(const JsonNode& node) {
  if (node.is_string() && !Work(node.AsText().size() / 8)) return std::nullopt;
  const std::optional<int64_t> size = SizeOf(node);
  if (!size) return std::nullopt;
  return scratch_.Number(JsonNumber::Integer(*size));
}

// Integers stay integers of 64 bits, and doubles stay doubles.
std::optional<JsonNode> JsonFinder::Round(const JsonExpr& call, const JsonNode& node) {
  if (!node.is_number() || node.is_uint()) return std::nullopt;
  JsonNumber number = JsonNumber::Of(node);
  const bool is_abs = call.function == JsonFunction::kAbs;
  if (number.is_integer) {
    if (!is_abs) return node;
    if (number.integer == INT64_MIN) return std::nullopt;
    number.integer = std::abs(number.integer);
  } else {
    number.real = is_abs                                    ? std::fabs(number.real)
                  : call.function == JsonFunction::kCeiling ? std::ceil(number.real)
                                                            : std::floor(number.real);
  }
  return scratch_.Number(number);
}

// Functions that give one value of a list or an array.
JsonValues JsonFinder::CallArray(const JsonExpr& call, JsonNode* element) {
  JsonValues of = Evaluate(*call.parts[0], element);
  const auto one = [](JsonNode node) { return JsonValues{.nodes = {node}}; };
  if (call.function == JsonFunction::kCount) {
    const bool is_nothing = of.nodes.empty() && !of.is_list;
    if (is_nothing && call.parts[0]->op != Op::kPath) return {};
    const size_t count = of.is_spread ? of.nodes[0].size() : of.nodes.size();
    return one(scratch_.Number(JsonNumber::Integer(static_cast<int64_t>(count))));
  }
  if (call.function == JsonFunction::kValue) {
    const std::span<const JsonNode> nodes =
        of.is_spread ? std::span<const JsonNode>(of.nodes[0].items()) : of.nodes;
    return nodes.size() == 1 ? one(nodes[0]) : JsonValues();
  }
  const auto items = ItemsOf(of);
  if (!items || items->empty()) return {};
  switch (call.function) {
    case JsonFunction::kFirst:
      return one(items->front());
    case JsonFunction::kLast:
      return one(items->back());
    case JsonFunction::kIndex: {
      const JsonValues at = Evaluate(*call.parts[1], element);
      if (at.nodes.size() != 1 || !at.nodes[0].is_number()) return {};
      double index = std::trunc(at.nodes[0].AsDouble());
      const auto size = static_cast<double>(items->size());
      if (index < 0) index += size;
      if (index < 0 || index >= size) return {};
      return one((*items)[static_cast<size_t>(index)]);
    }
    default: {
      const auto result = Aggregate(call.function, *items);
      return result ? one(*result) : JsonValues();
    }
  }
}

// REQUIRES: there are some. None: one is no number, or the result is not finite.
std::optional<JsonNode> JsonFinder::Aggregate(JsonFunction function,
                                              std::span<const JsonNode> items) {
  if (!Work(1 + 2 * items.size())) return std::nullopt;
  if (!std::ranges::all_of(items, &JsonNode::is_number)) return std::nullopt;
  if (function == JsonFunction::kMin || function == JsonFunction::kMax) {
    const Op op = function == JsonFunction::kMin ? Op::kLess : Op::kGreater;
    const JsonNode* best = &items[0];
    for (const JsonNode& item : items) {
      if (Compares(op, item, *best)) best = &item;
    }
    return *best;
  }
  JsonNumber sum = JsonNumber::Integer(0);
  for (const JsonNode& item : items) {
    const auto next = ComputeJson('+', sum, JsonNumber::Of(item));
    if (!next) return std::nullopt;
    sum = *next;
  }
  if (function == JsonFunction::kSum) return scratch_.Number(sum);
  const auto count = static_cast<double>(items.size());
  double result = sum.AsReal() / count;
  if (function == JsonFunction::kStdDev) {
    const double mean = std::exchange(result, 0);
    for (const JsonNode& item : items) {
      const double off = JsonNumber::Of(item).AsReal() - mean;
      result += off * off;
    }
    result = std::sqrt(result / count);
  }
  if (!std::isfinite(result)) return std::nullopt;
  return scratch_.Number(JsonNumber::Real(result));
}

// As an operator it takes what is no object as one without members; a function gives Nothing.
JsonValues JsonFinder::NamesIn(const JsonValues& of, bool is_operator) {
  const bool is_object = of.is_list || (!of.nodes.empty() && of.nodes[0].is_object());
  if (!is_object && !is_operator) return {};
  std::vector<JsonNode> names;
  for (const JsonNode& node : of.nodes) {
    if (!node.is_object()) continue;
    if (!Work(1 + 2 * node.size())) return {};
    for (const JsonMember& member : node.members()) names.push_back(member.name);
  }
  return {.nodes = {scratch_.Array(names)}, .is_spread = true};
}

// Of lists each with each.
JsonValues JsonFinder::Concat(const JsonExpr& call, JsonNode* element) {
  JsonValues results;
  std::vector<std::string> texts = {""};
  for (const auto& part : call.parts) {
    const JsonValues values = Evaluate(*part, element);
    results.is_list |= values.is_list;
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const JsonNode& node : values.nodes) {
        if (!node.is_string()) continue;
        const std::string_view more = node.AsText();
        if (!Work(kMatchWork + (text.size() + more.size()) / 4)) return {};
        longer.emplace_back(text).append(more);
      }
    }
    texts = std::move(longer);
  }
  for (const std::string& text : texts) results.nodes.push_back(scratch_.Text(text));
  return results;
}

JsonNode JsonFinder::Unpacked(const JsonNode& node) {
  if (!node.is_packed()) return node;
  if (!Work(2 * (1 + node.size()))) return {};
  std::vector<JsonNode> numbers(node.size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = node.item(i);
  return scratch_.Array(numbers);
}

std::optional<std::span<const JsonNode>> JsonFinder::ItemsOf(JsonValues& values) {
  if (values.is_list) return values.nodes;
  if (values.nodes.empty()) return std::nullopt;
  JsonNode& node = values.nodes[0];
  node = Unpacked(node);
  if (!node.is_array()) return std::nullopt;
  return node.items();
}

JsonNode JsonFinder::ArrayOf(std::span<const JsonNode> nodes) {
  for (const JsonNode& node : nodes) {
    if (!Work(2 + (node.block() == nullptr ? 0 : BytesIn(node) / 4))) return {};
  }
  return scratch_.Array(nodes);
}

// A list behind it becomes one element.
JsonValues JsonFinder::Append(const JsonExpr& call, JsonNode* element) {
  JsonValues to = Evaluate(*call.parts[0], element);
  if (to.nodes.empty()) return {};
  if (to.is_list) to = {.nodes = {ArrayOf(to.nodes)}};
  if (!to.nodes[0].is_array()) return {};
  to.nodes[0] = Unpacked(to.nodes[0]);
  if (to.nodes[0].is_null()) return {};
  const std::span<const JsonNode> items = to.nodes[0].items();
  if (!Work(1 + 2 * items.size())) return {};
  std::vector<JsonNode> all(items.begin(), items.end());
  for (size_t i = 1; i < call.parts.size(); ++i) {
    const JsonValues values = Evaluate(*call.parts[i], element);
    if (values.nodes.empty()) return {};
    const JsonNode more = ArrayOf(values.nodes);
    if (work_left_ == 0) return {};
    all.push_back(values.nodes.size() == 1 ? values.nodes[0] : more);
  }
  return {.nodes = {scratch_.Array(all)}, .is_spread = true};
}

}  // namespace dfly
