// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_match.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/json/json_finder.h"

namespace dfly {

namespace {

std::optional<size_t> IndexIn(int64_t index, size_t size) {
  const auto signed_size = static_cast<int64_t>(size);
  if (index < 0) index += signed_size;
  if (index < 0 || index >= signed_size) return std::nullopt;
  return static_cast<size_t>(index);
}

size_t BoundIn(int64_t index, size_t size) {
  const auto signed_size = static_cast<int64_t>(size);
  if (index < 0) index = index < -signed_size ? 0 : index + signed_size;
  return static_cast<size_t>(std::min(index, signed_size));
}

// REQUIRES: it is not packed.
JsonNode* NodeIn(const JsonNode& container, size_t index) {
  return container.is_array() ? &container.items()[index] : &container.members()[index].value;
}

}  // namespace

bool JsonFinder::Find(JsonNode* from, std::span<const JsonStep> steps, JsonMatches* matches) {
  matches->clear();
  JsonMatch match = {from, nullptr, 0};
  // Of most paths this is all.
  while (!steps.empty() && HasOne(steps.front())) {
    if (!Work()) return false;
    const JsonMatch container = match;
    if (!OneIn(steps.front().selectors[0], container, &match)) return true;
    steps = steps.subspan(1);
  }
  matches->push_back(match);
  return Select(steps, matches);
}

// It selects one place, if that is there.
bool JsonFinder::HasOne(const JsonStep& step) {
  if (step.is_deep || step.selectors.size() != 1) return false;
  const Kind kind = step.selectors[0].kind;
  return kind == Kind::kName || kind == Kind::kIndex;
}
bool JsonFinder::OneIn(const JsonSelector& selector, const JsonMatch& from, JsonMatch* found) {
  JsonNode* const container = from.node;
  if (container == nullptr) return false;
  if (selector.kind == Kind::kName) {
    JsonNode* const node =
        container->is_object() ? JsonDoc::Find(*container, selector.name) : nullptr;
    *found = {node, container, from.depth + 1};
    return node != nullptr;
  }
  if (!container->is_array()) return false;
  const std::optional<size_t> index = IndexIn(selector.index, container->size());
  if (index) *found = ElementOf(from, *index);
  return index.has_value();
}

JsonMatch JsonFinder::ElementOf(const JsonMatch& from, size_t index) {
  JsonNode* const container = from.node;
  JsonNode* const node = container->is_packed() ? nullptr : NodeIn(*container, index);
  return {node, container, from.depth + 1, static_cast<uint32_t>(index)};
}

bool JsonFinder::Select(std::span<const JsonStep> steps, JsonMatches* matches) {
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
bool JsonFinder::SelectDeep(const JsonStep& step, const JsonMatch& from,
                            absl::flat_hash_set<const JsonNode*>* seen, JsonMatches* found) {
  struct Frame {
    JsonMatch match;
    size_t next;
  };
  absl::InlinedVector<Frame, 8> frames;
  if (from.node == nullptr) return Work();
  const auto enter = [&](const JsonMatch& match) {
    if (seen != nullptr && !seen->insert(match.node).second) return true;
    if (match.node->branches() > 0) frames.push_back({match, 0});
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
    JsonNode* const node = NodeIn(*container, frame.next++);
    if (!Work()) return false;
    if (node->size() > 0 && !enter({node, container, frame.match.depth + 1})) return false;
  }
  return true;
}

bool JsonFinder::SelectIn(const JsonStep& step, const JsonMatch& from, JsonMatches* found) {
  JsonNode* const container = from.node;
  const size_t size = container == nullptr ? 0 : container->size();
  if (size == 0) return Work();
  const auto add = [&](const JsonMatch& match) {
    found->push_back(match);
    return Work(kMatchWork);
  };
  for (const JsonSelector& selector : step.selectors) {
    switch (selector.kind) {
      case Kind::kName:
      case Kind::kIndex: {
        JsonMatch match = {};
        if (OneIn(selector, from, &match) && !add(match)) return false;
        break;
      }
      case Kind::kSlice: {
        if (!container->is_array()) break;
        const size_t begin = BoundIn(selector.begin.value_or(0), size);
        const size_t end = selector.end ? BoundIn(*selector.end, size) : size;
        const auto step_size = static_cast<uint64_t>(selector.step);
        for (size_t i = begin; i < end; i = step_size < end - i ? i + step_size : end) {
          if (!add(ElementOf(from, i))) return false;
        }
        break;
      }
      case Kind::kAll:
        for (size_t i = 0; i < size; ++i) {
          if (!add(ElementOf(from, i))) return false;
        }
        break;
      case Kind::kFilter:
        for (size_t i = 0; i < size; ++i) {
          const JsonMatch match = ElementOf(from, i);
          JsonNode number = match.value();  // who has no node
          if (!Work()) return false;
          JsonNode* const element = match.node == nullptr ? &number : match.node;
          if (Passes(*selector.filter, element) && !add(match)) return false;
        }
        if (work_left_ == 0) return false;
        break;
    }
    if (!Work()) return false;
  }
  return true;
}

bool JsonFinder::Project(const JsonExpr& expr, JsonValues* values) {
  *values = Evaluate(expr, nullptr);
  return work_left_ > 0;
}

bool FindJson(JsonDoc& doc, std::span<const JsonStep> steps, uint64_t* work_left,
              JsonMatches* matches) {
  JsonFinder finder(doc.mutable_root(), *work_left);
  const bool is_all = finder.Find(doc.mutable_root(), steps, matches);
  *work_left = finder.work_left();
  return is_all;
}

bool ProjectJson(JsonDoc& doc, const JsonExpr& projection, uint64_t* work_left,
                 absl::FunctionRef<void(std::span<const JsonNode>)> show) {
  JsonFinder finder(doc.mutable_root(), *work_left);
  JsonValues values;
  const bool is_all = finder.Project(projection, &values);
  *work_left = finder.work_left();
  if (!is_all) return false;
  values.is_spread ? show(values.nodes[0].items()) : show(values.nodes);
  return true;
}

void SortForChange(JsonMatches* matches) {
  if (matches->size() < 2) return;
  std::sort(matches->begin(), matches->end(), [](const JsonMatch& a, const JsonMatch& b) {
    if (a.depth != b.depth || a.node != b.node) {
      return a.depth != b.depth ? a.depth > b.depth : a.node < b.node;
    }
    return a.parent != b.parent ? a.parent < b.parent : a.at < b.at;
  });
  const auto are_one = [](const JsonMatch& a, const JsonMatch& b) {
    return a.node == b.node && (a.node != nullptr || (a.parent == b.parent && a.at == b.at));
  };
  matches->erase(std::unique(matches->begin(), matches->end(), are_one), matches->end());
}

void UnpackForChange(JsonDoc& doc, JsonMatches* matches) {
  for (JsonMatch& match : *matches) {
    if (match.node != nullptr) continue;
    doc.Unpack(match.parent);
    match.node = &match.parent->items()[match.at];
  }
}

size_t BytesToUnpack(const JsonMatches& matches) {
  size_t bytes = 0;
  const JsonNode* last = nullptr;
  for (const JsonMatch& match : matches) {
    if (match.node != nullptr || match.parent == last) continue;
    last = match.parent;
    bytes += sizeof(JsonNode) * last->size();
  }
  return bytes;
}

}  // namespace dfly
