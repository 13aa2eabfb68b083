// SPDX-License-Identifier: Apache-2.0
// Expressions of paths: filters, and projections (json_path.h).
//
// A condition is true or false. A value is one JSON value, or Nothing, or a list: what a path
// selects that may select several places (is_list). An operator or a function of scalars is applied
// to each value of a list, and a condition is true if it is for one of them. A function of arrays
// takes a list as an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/json/json_doc.h"
#include "core/json/json_path.h"

namespace dfly {

enum class JsonFunction : uint8_t {
  kLength,
  kCount,
  kValue,
  kKeys,
  kConcat,
  kAbs,
  kCeiling,
  kFloor,
  kFirst,
  kLast,
  kIndex,
  kMin,
  kMax,
  kAvg,
  kSum,
  kStdDev,
  kAppend,
};

// A node of an expression.
struct JsonExpr {
  // What evaluates an expression recurses. Of nodes below each other, also those of filters in
  // paths, conditions and paths count as one, and others as three.
  static constexpr size_t kDepthMax = 64;

  enum class Op : uint8_t {
    // Conditions. Of conditions:
    kOr,
    kAnd,
    kNot,
    // Of one value: there is one.
    kExists,
    // Of two values.
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kMatches,     // a part of the text
    kMatchesAll,  // the whole text
    kIn,
    kNotIn,
    kSubsetOf,
    kAnyOf,
    kNoneOf,
    kSizeOf,
    kEmpty,
    // A function with a wrong count of arguments: false.
    kNever,

    // Values.
    kNothing,  // the same of a function that gives a value
    kLiteral,
    kPath,
    kSum,
    kProduct,
    kMinus,
    kPlus,
    kKeys,  // ~
    kCall,
  };

  bool is_condition() const { return op <= Op::kNever; }

  Op op = Op::kNothing;
  JsonFunction function = JsonFunction::kValue;  // of kCall
  bool takes_lists = false;                      // of kSubsetOf, kAnyOf, kNoneOf: it is a function
  bool is_from_root = false;                     // of kPath; else it begins at the element
  bool is_list = false;                          // of kPath
  size_t depth = 1;
  std::string signs;  // of kSum and kProduct: in front of each part but the first
  std::vector<std::unique_ptr<JsonExpr>> parts;
  std::vector<JsonStep> steps;       // of kPath
  std::unique_ptr<JsonDoc> literal;  // of kLiteral
};

}  // namespace dfly
