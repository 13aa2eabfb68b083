// SPDX-License-Identifier: Apache-2.0
// Over all nodes of a JSON value, without recursion.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstddef>

#include "core/json/json_node.h"

namespace dfly {

template <typename Visitor>
void WalkPackedJson(const JsonNode& array, Visitor& visitor) {
  if constexpr (requires { visitor.Packed(array); }) {
    visitor.Packed(array);
  } else {
    visitor.Begin(array);
    for (size_t i = 0; i < array.size(); ++i) {
      visitor.Element(array, i);
      visitor.Scalar(array.item(i));
    }
    visitor.End(array);
  }
}

// Calls visitor.Begin(node) and End(node) for containers, Scalar(node) for others, and in front of
// each element but the root Element(container, index). For a packed array there is a call of
// Packed(node) instead, if it has that. The value does not change meanwhile.
template <typename Visitor>
void WalkJson(const JsonNode& root, Visitor& visitor) {
  struct Frame {
    const JsonNode* container;
    size_t next;
  };
  absl::InlinedVector<Frame, 16> frames;
  const auto visit = [&](const JsonNode& node) {
    if (!node.is_container()) return visitor.Scalar(node);
    if (node.is_packed()) return WalkPackedJson(node, visitor);
    visitor.Begin(node);
    frames.push_back({&node, 0});
  };
  visit(root);
  while (!frames.empty()) {
    Frame& frame = frames.back();
    const JsonNode& container = *frame.container;
    if (frame.next == container.size()) {
      frames.pop_back();
      visitor.End(container);
      continue;
    }
    const size_t index = frame.next++;
    visitor.Element(container, index);
    visit(container.is_array() ? container.items()[index] : container.members()[index].value);
  }
}

}  // namespace dfly
