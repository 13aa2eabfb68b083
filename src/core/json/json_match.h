// SPDX-License-Identifier: Apache-2.0
// What a path selects in a document.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/json/json_doc.h"
#include "core/json/json_path.h"

namespace dfly {

// Nodes stay where they are until the array or object that they are in gets or loses elements.
struct JsonMatch {
  JsonNode* node;    // null: it is a number of a packed array
  JsonNode* parent;  // the array or object that has it; null: it is the root
  uint32_t depth;    // 0: it is the root
  uint32_t at = 0;   // its position in a packed array

  // Of a text in it: AsText() is valid for as long as this copy is.
  JsonNode value() const { return node != nullptr ? *node : parent->item(at); }
  // Its position in its parent. REQUIRES: it has one.
  size_t index() const {
    return node == nullptr ? at
           : parent->is_array()
               ? static_cast<size_t>(node - parent->items().data())
               : static_cast<size_t>(reinterpret_cast<JsonMember*>(reinterpret_cast<char*>(node) -
                                                                   sizeof(JsonNode)) -
                                     parent->members().data());
  }
};
using JsonMatches = std::vector<JsonMatch>;

// All that `steps` select, in the order of the document; something may be there twice if they say
// so ($[0,0]), but what steps with .. select is there once. `work_left`: visits of nodes, from
// which what it takes is subtracted (a match counts as eight). False: none is left, and `matches`
// are not all.
[[nodiscard]] bool FindJson(JsonDoc& doc, std::span<const JsonStep> steps, uint64_t* work_left,
                            JsonMatches* matches);
// The same for who looks once.
[[nodiscard]] inline bool FindJson(JsonDoc& doc, std::span<const JsonStep> steps, uint64_t work_max,
                                   JsonMatches* matches) {
  return FindJson(doc, steps, &work_max, matches);
}

// Shows what a projection computes: no values if that is Nothing. False: no work is left
// (json_evaluate.cc has what counts as a visit), and nothing was shown. The values are words whose
// blocks are gone afterwards.
[[nodiscard]] bool ProjectJson(JsonDoc& doc, const JsonExpr& projection, uint64_t* work_left,
                               absl::FunctionRef<void(std::span<const JsonNode>)> show);

// Each once, the deepest first: in this order all of them can be changed, also those that are
// inside of others.
void SortForChange(JsonMatches* matches);

// Unpacks the arrays of those that have no node: they have one then.
void UnpackForChange(JsonDoc& doc, JsonMatches* matches);
// What that takes, about. REQUIRES: they are sorted.
size_t BytesToUnpack(const JsonMatches& matches);

}  // namespace dfly
