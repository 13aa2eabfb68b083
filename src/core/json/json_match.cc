// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_match.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/json/json_regex.h"

namespace dfly {

namespace {

class JsonFinder {
 public:
  JsonFinder(JsonNode* root, uint64_t work_max) : root_(root), work_left_(work_max) {}

  bool Find(JsonNode* from, std::span<const JsonStep> steps, JsonMatches* matches) {
    matches->clear();
    JsonMatch match = {from, nullptr, 0};
    // Of most paths this is all.
    while (!steps.empty() && HasOne(steps.front())) {
      if (!Work()) return false;
      JsonNode* const node = OneIn(steps.front().selectors[0], *match.node);
      if (node == nullptr) return true;
      match = {node, match.node, match.depth + 1};
      steps = steps.subspan(1);
    }
    matches->push_back(match);
    return Select(steps, matches);
  }

 private:
  using Kind = JsonSelector::Kind;
  using Op = JsonFilter::Op;
  using Operand = JsonFilter::Operand;

  // A match counts as so many visits, for the memory that it takes.
  static constexpr uint64_t kMatchWork = 8;

  // False: none is left.
  bool Work(uint64_t visits = 1) {
    work_left_ -= std::min(work_left_, visits);
    return work_left_ > 0;
  }

  // It selects one place, if that is there.
  static bool HasOne(const JsonStep& step) {
    if (step.is_deep || step.selectors.size() != 1) return false;
    const Kind kind = step.selectors[0].kind;
    return kind == Kind::kName || kind == Kind::kIndex;
  }
  static JsonNode* OneIn(const JsonSelector& selector, const JsonNode& container) {
    if (selector.kind == Kind::kName) {
      return container.is_object() ? JsonDoc::Find(container, selector.name) : nullptr;
    }
    if (!container.is_array()) return nullptr;
    const std::optional<size_t> index = IndexIn(selector.index, container.size());
    return index ? &container.items()[*index] : nullptr;
  }

  bool Select(std::span<const JsonStep> steps, JsonMatches* matches) {
    bool may_contain = false;  // one match another one
    for (const JsonStep& step : steps) {
      JsonMatches found;
      if (step.is_deep) {
        absl::flat_hash_set<const JsonNode*> seen;
        for (const JsonMatch& match : *matches) {
          if (!SelectDeep(step, match, may_contain ? &seen : nullptr, &found)) return false;
        }
        may_contain = true;
      } else {
        for (const JsonMatch& match : *matches) {
          if (!SelectIn(step, match, &found)) return false;
        }
      }
      *matches = std::move(found);
      if (step.selectors.size() > 1) may_contain = true;  // or something is there twice
    }
    return true;
  }

  // In it, and in all that is inside, each in front of what it has. `seen`: what was looked at
  // before, with all that is inside; null: nothing is there twice.
  bool SelectDeep(const JsonStep& step, const JsonMatch& from,
                  absl::flat_hash_set<const JsonNode*>* seen, JsonMatches* found) {
    struct Frame {
      JsonMatch match;
      size_t next;
    };
    absl::InlinedVector<Frame, 8> frames;
    const auto enter = [&](const JsonMatch& match) {
      if (seen != nullptr && !seen->insert(match.node).second) return true;
      if (match.node->size() > 0) frames.push_back({match, 0});
      return SelectIn(step, match, found);
    };
    if (!enter(from)) return false;
    while (!frames.empty()) {
      Frame& frame = frames.back();
      JsonNode* const container = frame.match.node;
      if (frame.next == container->size()) {
        frames.pop_back();
        continue;
      }
      JsonNode* const node = ElementOf(*container, frame.next++);
      if (!Work()) return false;
      if (node->size() > 0 && !enter({node, container, frame.match.depth + 1})) return false;
    }
    return true;
  }

  static JsonNode* ElementOf(const JsonNode& container, size_t index) {
    return container.is_array() ? &container.items()[index] : &container.members()[index].value;
  }

  bool SelectIn(const JsonStep& step, const JsonMatch& from, JsonMatches* found) {
    JsonNode* const container = from.node;
    const size_t size = container->size();
    if (size == 0) return Work();
    const auto add = [&](JsonNode* node) {
      found->push_back({node, container, from.depth + 1});
      return Work(kMatchWork);
    };
    for (const JsonSelector& selector : step.selectors) {
      switch (selector.kind) {
        case Kind::kName:
        case Kind::kIndex: {
          JsonNode* const node = OneIn(selector, *container);
          if (node != nullptr && !add(node)) return false;
          break;
        }
        case Kind::kSlice: {
          if (!container->is_array()) break;
          const size_t begin = BoundIn(selector.begin.value_or(0), size);
          const size_t end = selector.end ? BoundIn(*selector.end, size) : size;
          const auto step_size = static_cast<uint64_t>(selector.step);
          for (size_t i = begin; i < end; i = step_size < end - i ? i + step_size : end) {
            if (!add(ElementOf(*container, i))) return false;
          }
          break;
        }
        case Kind::kAll:
          for (size_t i = 0; i < size; ++i) {
            if (!add(ElementOf(*container, i))) return false;
          }
          break;
        case Kind::kFilter:
          for (size_t i = 0; i < size; ++i) {
            JsonNode* const node = ElementOf(*container, i);
            if (!Work()) return false;
            if (Passes(*selector.filter, node) && !add(node)) return false;
          }
          if (work_left_ == 0) return false;
          break;
      }
      if (!Work()) return false;
    }
    return true;
  }

  static std::optional<size_t> IndexIn(int64_t index, size_t size) {
    const auto signed_size = static_cast<int64_t>(size);
    if (index < 0) index += signed_size;
    if (index < 0 || index >= signed_size) return std::nullopt;
    return static_cast<size_t>(index);
  }
  static size_t BoundIn(int64_t index, size_t size) {
    const auto signed_size = static_cast<int64_t>(size);
    if (index < 0) index = index < -signed_size ? 0 : index + signed_size;
    return static_cast<size_t>(std::min(index, signed_size));
  }

  // --- Filters. What takes too much work is false, and no work is left then. ---

  bool Passes(const JsonFilter& filter, JsonNode* element) {
    if (!Work()) return false;
    const auto passes = [&](const std::unique_ptr<JsonFilter>& part) {
      return Passes(*part, element);
    };
    switch (filter.op) {
      case Op::kOr:
        return std::any_of(filter.parts.begin(), filter.parts.end(), passes);
      case Op::kAnd:
        return std::all_of(filter.parts.begin(), filter.parts.end(), passes);
      case Op::kNot:
        return !passes(filter.parts[0]);
      case Op::kExists: {
        JsonMatches values;
        FindValues(filter.a, element, &values);
        return !values.empty();
      }
      default:
        break;
    }
    // Each with each; one pair is enough.
    JsonMatches left, right;
    FindValues(filter.a, element, &left);
    if (left.empty()) return false;
    FindValues(filter.b, element, &right);
    const bool holds = std::any_of(left.begin(), left.end(), [&](const JsonMatch& a) {
      return std::any_of(right.begin(), right.end(), [&](const JsonMatch& b) {
        return Work(1 + CostOf(filter.op, *a.node, *b.node)) && Holds(filter, *a.node, *b.node);
      });
    });
    return filter.op == Op::kNotIn ? !holds : holds;
  }

  bool Holds(const JsonFilter& filter, const JsonNode& a, const JsonNode& b) {
    switch (filter.op) {
      case Op::kMatches:
        return Matches(filter, a, b);
      case Op::kIn:
      case Op::kNotIn:  // what does not hold, then
        return IsIn(a, b);
      case Op::kSubsetOf:
        return a.is_array() && b.is_array() &&
               std::ranges::all_of(a.items(), [&](const JsonNode& item) { return IsIn(item, b); });
      case Op::kAnyOf:
      case Op::kNoneOf: {
        if (!a.is_array() || !b.is_array()) return false;
        const bool has_any =
            std::ranges::any_of(a.items(), [&](const JsonNode& item) { return IsIn(item, b); });
        return has_any == (filter.op == Op::kAnyOf);
      }
      case Op::kSizeOf:
        return b.is_number() && SizeOf(a) == std::trunc(b.AsDouble());
      case Op::kEmpty:
        return b.type() == JsonType::kBool && (a.is_container() || a.is_string()) &&
               IsEmpty(a) == b.AsBool();
      default:
        return Compares(filter.op, a, b);
    }
  }

  bool IsIn(const JsonNode& value, const JsonNode& array) {
    if (!array.is_array()) return false;
    return std::ranges::any_of(array.items(), [&](const JsonNode& item) {
      return Work(1 + CostOf(value, item)) && Compares(Op::kEqual, value, item);
    });
  }

  // Characters of a text, elements of others; none of what has neither.
  static std::optional<double> SizeOf(const JsonNode& node) {
    if (node.is_container()) return static_cast<double>(node.size());
    if (!node.is_string()) return std::nullopt;
    const auto is_first = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    return static_cast<double>(std::ranges::count_if(node.AsText(), is_first));
  }

  // REQUIRES: it has a size.
  static bool IsEmpty(const JsonNode& node) {
    return node.is_string() ? node.AsText().empty() : node.size() == 0;
  }

  void FindValues(const Operand& operand, JsonNode* element, JsonMatches* values) {
    if (operand.kind == Operand::Kind::kLiteral) {
      values->push_back({operand.literal->mutable_root(), nullptr, 0});
    } else if (!Find(operand.kind == Operand::Kind::kFromElement ? element : root_, operand.steps,
                     values)) {
      values->clear();
    }
  }

  // The same for any operator.
  static uint64_t CostOf(Op op, const JsonNode& a, const JsonNode& b) {
    if (op == Op::kEmpty) return 0;
    if (op == Op::kSizeOf) return a.is_string() ? a.AsText().size() / 16 : 0;
    return CostOf(a, b);
  }

  // To compare them, in visits.
  static uint64_t CostOf(const JsonNode& a, const JsonNode& b) {
    if (a.is_string()) return a.AsText().size() / 64;
    return a.size() > 0 && a.size() == b.size() ? JsonDoc::BytesOf(a) / 16 : 0;
  }

  static bool Compares(Op op, const JsonNode& a, const JsonNode& b) {
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

  template <typename T>
  static bool IsOrdered(Op op, const T& a, const T& b) {
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

  bool Matches(const JsonFilter& filter, const JsonNode& text, const JsonNode& pattern) {
    if (!text.is_string() || !pattern.is_string()) return false;
    Regex& regex = regexes_[&filter];
    if (!regex.is_made || regex.pattern != pattern.AsText()) {
      if (!Work(kRegexWork)) return false;
      regex.is_made = true;
      regex.pattern = pattern.AsText();
      regex.compiled = CompileJsonRegex(regex.pattern);
    }
    const std::string_view subject = text.AsText();
    if (regex.compiled == nullptr) return false;
    const auto size = static_cast<uint64_t>(regex.compiled->ProgramSize());
    if (!Work(1 + subject.size() * size / 8)) return false;
    return re2::RE2::PartialMatch(re2::StringPiece(subject.data(), subject.size()),
                                  *regex.compiled);
  }

  struct Regex {
    bool is_made = false;
    std::string pattern;
    std::unique_ptr<re2::RE2> compiled;  // null: it is none, or takes too much
  };
  // To compile one.
  static constexpr uint64_t kRegexWork = 20'000;

  JsonNode* const root_;
  uint64_t work_left_;
  absl::flat_hash_map<const JsonFilter*, Regex> regexes_;
};

}  // namespace

bool FindJson(JsonDoc& doc, std::span<const JsonStep> steps, uint64_t work_max,
              JsonMatches* matches) {
  JsonFinder finder(doc.mutable_root(), work_max);
  return finder.Find(doc.mutable_root(), steps, matches);
}

void SortForChange(JsonMatches* matches) {
  if (matches->size() < 2) return;
  std::sort(matches->begin(), matches->end(), [](const JsonMatch& a, const JsonMatch& b) {
    return a.depth != b.depth ? a.depth > b.depth : a.node < b.node;
  });
  const auto end =
      std::unique(matches->begin(), matches->end(),
                  [](const JsonMatch& a, const JsonMatch& b) { return a.node == b.node; });
  matches->erase(end, matches->end());
}

}  // namespace dfly
