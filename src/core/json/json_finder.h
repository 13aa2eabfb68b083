// SPDX-License-Identifier: Apache-2.0
// What looks for matches, and evaluates expressions: json_match.cc finds, json_evaluate.cc
// evaluates, and each needs the other. Of one look only; others use json_match.h.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>
#include <re2/re2.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_expr.h"
#include "core/json/json_match.h"
#include "core/json/json_number.h"

namespace dfly {

// What an expression gives. Nodes are words whose blocks belong to the document, to a literal or to
// the scratch.
struct JsonValues {
  absl::InlinedVector<JsonNode, 2> nodes;  // empty: Nothing, or an empty list
  bool is_list = false;                    // json_expr.h has what that means
  bool is_spread = false;  // it is one array, which is shown and counted as its elements
};

// Owns what expressions make, until it is released.
class JsonScratch {
 public:
  JsonScratch() = default;
  ~JsonScratch() { Release(0); }
  JsonScratch(const JsonScratch&) = delete;
  JsonScratch& operator=(const JsonScratch&) = delete;

  size_t mark() const { return made_.size(); }
  // Frees what was made since.
  void Release(size_t mark) {
    if (made_.size() > mark) ReleaseSome(mark);
  }

  JsonNode Text(std::string_view text) { return Keep(Doc().MakeText(text)); }
  JsonNode Number(const JsonNumber& number) { return Keep(number.NodeIn(&Doc())); }
  // Its elements' blocks stay whose they are.
  JsonNode Array(std::span<const JsonNode> nodes);

 private:
  JsonNode Keep(JsonNode node) {
    if (node.block() != nullptr) made_.push_back(node);
    return node;
  }
  void ReleaseSome(size_t mark);
  JsonDoc& Doc() {
    if (doc_ == nullptr) doc_ = std::make_unique<JsonDoc>();
    return *doc_;
  }

  std::unique_ptr<JsonDoc> doc_;  // most paths make nothing
  std::vector<JsonNode> made_;
};

class JsonFinder {
 public:
  JsonFinder(JsonNode* root, uint64_t work_max) : root_(root), work_left_(work_max) {}

  // False: it took too much.
  bool Find(JsonNode* from, std::span<const JsonStep> steps, JsonMatches* matches);
  // The same. What `values` has is gone with the finder.
  bool Project(const JsonExpr& expr, JsonValues* values);
  uint64_t work_left() const { return work_left_; }

 private:
  using Kind = JsonSelector::Kind;
  using Op = JsonExpr::Op;

  // A match counts as so many visits, for the memory that it takes.
  static constexpr uint64_t kMatchWork = 8;
  // To look at an item of a list: it costs as much as some visits.
  static constexpr uint64_t kItemWork = 4;
  static constexpr size_t kRegexesMax = 16;

  // False: none is left.
  bool Work(uint64_t visits = 1) {
    work_left_ -= std::min(work_left_, visits);
    return work_left_ > 0;
  }

  // --- json_match.cc ---

  static bool HasOne(const JsonStep& step);
  // False: it is not there.
  static bool OneIn(const JsonSelector& selector, const JsonMatch& from, JsonMatch* found);
  static JsonMatch ElementOf(const JsonMatch& from, size_t index);
  bool Select(std::span<const JsonStep> steps, JsonMatches* matches);
  bool SelectDeep(const JsonStep& step, const JsonMatch& from,
                  absl::flat_hash_set<const JsonNode*>* seen, JsonMatches* found);
  bool SelectIn(const JsonStep& step, const JsonMatch& from, JsonMatches* found);

  // --- json_evaluate.cc. What takes too much work is false, or Nothing, and no work is left. ---

  bool Passes(const JsonExpr& filter, JsonNode* element) {
    const size_t mark = scratch_.mark();
    const bool passes = IsTrue(filter, element);
    scratch_.Release(mark);
    return passes;
  }
  bool IsTrue(const JsonExpr& condition, JsonNode* element);
  bool IsThere(const JsonExpr& value, JsonNode* element);
  bool HoldsForAny(const JsonExpr& condition, JsonNode* element);
  bool Holds(const JsonExpr& condition, const JsonNode& left, const JsonNode& right);
  bool IsIn(const JsonNode& value, std::span<const JsonNode> items);
  // Null: it matches nothing, or took too much.
  const re2::RE2* RegexOf(std::string_view pattern);
  bool HasMatch(const JsonExpr& condition, const JsonNode& text, const JsonNode& pattern);

  JsonValues Evaluate(const JsonExpr& value, JsonNode* element);
  JsonValues EvaluatePath(const JsonExpr& path, JsonNode* element);
  JsonValues Compute(const JsonExpr& chain, JsonNode* element);
  JsonValues Call(const JsonExpr& call, JsonNode* element);
  JsonValues CallScalar(const JsonExpr& call, JsonNode* element);
  JsonValues CallArray(const JsonExpr& call, JsonNode* element);
  std::optional<JsonNode> LengthOf(const JsonNode& node);
  std::optional<JsonNode> Round(const JsonExpr& call, const JsonNode& node);
  std::optional<JsonNode> Aggregate(JsonFunction function, std::span<const JsonNode> items);
  JsonValues NamesIn(const JsonValues& of, bool is_operator);
  JsonValues Concat(const JsonExpr& call, JsonNode* element);
  JsonValues Append(const JsonExpr& call, JsonNode* element);
  // A packed array as one of nodes, which is the scratch's. Null: it took too much.
  JsonNode Unpacked(const JsonNode& node);
  // What stands for an array: a list, or one that is one. None: it is no array.
  std::optional<std::span<const JsonNode>> ItemsOf(JsonValues& values);
  // As one node. Their size counts as work. Null: it took too much.
  JsonNode ArrayOf(std::span<const JsonNode> nodes);

  JsonNode* const root_;
  uint64_t work_left_;
  JsonScratch scratch_;
  // By their patterns, the latest. Null: it is none, or takes too much.
  std::map<std::string, std::unique_ptr<re2::RE2>, std::less<>> regexes_;
};

}  // namespace dfly
