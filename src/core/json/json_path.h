// SPDX-License-Identifier: Apache-2.0
// Paths into JSON documents, as Redis has them: JSONPath, which begins with $, and the older paths
// (".a.b[0]", "a.b"), which are the same without it.
//
//   $.a  $['a']  $.*  $[*]  $..a  $[0]  $[-1]  $[1:5:2]  $['a','b']  $[0,2]  $[?(@.a > 1 && @.b)]
//
// A filter has || && ! ( ), == != < <= > >= =~ between paths (@ or $) and literals, and bare paths,
// which ask whether something is there. Regular expressions are RE2's: they take linear time.
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

struct JsonFilter;

struct JsonSelector {
  enum class Kind : uint8_t { kName, kIndex, kSlice, kAll, kFilter };

  Kind kind;
  std::string name = {};
  int64_t index = 0;  // below 0: from the end
  std::optional<int64_t> begin = {}, end = {};
  int64_t step = 1;  // above 0
  std::shared_ptr<const JsonFilter> filter = {};
};

struct JsonStep {
  bool is_deep = false;  // ..: of all that is inside, too
  std::vector<JsonSelector> selectors;
};

// Owner:    who parsed it.
// Suspends: never.
class JsonPath {
 public:
  static constexpr size_t kNestedMax = 16;   // brackets in a filter, and filters in filters
  static constexpr size_t kPartsMax = 1024;  // names, selectors, and parts of filters

  // Returns why it is none, or nothing.
  [[nodiscard]] static std::string Parse(std::string_view text, JsonPath* path);

  bool is_legacy() const { return is_legacy_; }
  bool is_root() const { return steps_.empty(); }
  // It names one place: names and indexes only.
  bool is_static() const;
  // As JSONPath, for messages: "$.a".
  const std::string& text() const { return text_; }
  const std::vector<JsonStep>& steps() const { return steps_; }

 private:
  friend class JsonPathParser;

  bool is_legacy_ = false;
  std::string text_;
  std::vector<JsonStep> steps_;
};

// A node of a filter's expression.
struct JsonFilter {
  enum class Op : uint8_t {
    kOr,
    kAnd,
    kNot,
    kExists,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kMatches,
    kIn,
    kNotIn,
    kSubsetOf,
    kAnyOf,
    kNoneOf,
    kSizeOf,
    kEmpty,
  };
  struct Operand {
    enum class Kind : uint8_t { kNone, kLiteral, kFromElement, kFromRoot };
    Kind kind = Kind::kNone;
    std::unique_ptr<JsonDoc> literal = {};
    std::vector<JsonStep> steps = {};
  };

  JsonFilter();
  ~JsonFilter();

  Op op = Op::kExists;
  std::vector<std::unique_ptr<JsonFilter>> parts;  // of kOr and kAnd; one: of kNot
  Operand a, b;                                    // of the others; only a: of kExists
};

}  // namespace dfly
