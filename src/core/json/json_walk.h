// SPDX-License-Identifier: Apache-2.0
// Over all nodes of a JSON value, without recursion.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstddef>

#include "core/json/json_node.h"

namespace dfly {

// Calls visitor.Begin(node) and End(node) for containers, Scalar(node) for others, and in front of
// each element but the root Element(container, index). The value does not change meanwhile.
template <typename Visitor>
void WalkJson(const JsonNode& root, Visitor& visitor) {
  struct Frame {
    const JsonNode* container;
    size_t next;
  };
  absl::InlinedVector<Frame, 16> frames;
  const auto visit = [&](const JsonNode& node) {
    if (!node.is_container()) return visitor.Scalar(node);
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
