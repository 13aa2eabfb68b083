// SPDX-License-Identifier: Apache-2.0
// Paths into JSON documents, as Redis has them: JSONPath, which begins with $, and the older paths
// (".a.b[0]", "a.b"), which are the same without it.
//
//   $.a  $['a']  $.*  $[*]  $..a  $[0]  $[-1]  $[1:5:2]  $['a','b']  $[0,2]  $[?(@.a > 1 && @.b)]
//
// A filter is a condition (json_expr.h): || && ! ( ), == != < <= > >= =~, in nin subsetof anyof
// noneof size empty, and bare values, which ask whether something is there. What they compare are
// paths (@ or $), literals, sums and products, and functions, also written as methods:
//
//   $[?(@.a + 1 > $.limit)]   $[?length(@.a) == 2]   $[?@.a.length() == 2]
//
// A whole path may be such a value instead, which is computed: a projection, as $.a + 1 or $.a~.
// Regular expressions are RE2's: they take linear time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_doc.h"

namespace dfly {

struct JsonExpr;

struct JsonSelector {
  enum class Kind : uint8_t { kName, kIndex, kSlice, kAll, kFilter };

  Kind kind = Kind::kName;
  std::string name = {};
  int64_t index = 0;  // below 0: from the end
  std::optional<int64_t> begin = {}, end = {};
  int64_t step = 1;  // above 0
  std::shared_ptr<const JsonExpr> filter = {};
};

struct JsonStep {
  bool is_deep = false;  // ..: of all that is inside, too
  std::vector<JsonSelector> selectors;
};

// Owner:    who parsed it.
// Suspends: never.
class JsonPath {
 public:
  static constexpr size_t kNestedMax = 16;   // brackets and signs in expressions, and filters
  static constexpr size_t kPartsMax = 2048;  // names, selectors, and parts of expressions

  // Returns why it is none, or nothing. `is_replayed`: it may have been written before there were
  // expressions. REQUIRES: `path` is new.
  [[nodiscard]] static std::string Parse(std::string_view text, JsonPath* path,
                                         bool is_replayed = false);
  // What messages show of a text, which may be long.
  static std::string Excerpt(std::string_view text);

  bool is_legacy() const { return is_legacy_; }
  bool is_root() const { return steps_.empty() && projection_ == nullptr; }
  // It begins with a word that is an operator since Redis 8.10, without $ or a point: "size".
  bool begins_with_operator() const;
  // It names one place: names and indexes only.
  bool is_static() const;
  // As JSONPath, for messages: "$.a".
  const std::string& text() const { return text_; }
  const std::vector<JsonStep>& steps() const { return steps_; }
  // What computes a value instead of selecting places, then there are no steps; or null.
  const JsonExpr* projection() const { return projection_.get(); }

 private:
  friend class JsonPathParser;

  bool is_legacy_ = false;
  bool begins_with_point_ = false;  // or with a bracket
  std::string text_;
  std::vector<JsonStep> steps_;
  std::shared_ptr<const JsonExpr> projection_;
};

}  // namespace dfly
