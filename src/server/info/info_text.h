// SPDX-License-Identifier: Apache-2.0
// Writes the text of INFO: "name:value" lines.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>

namespace dfly {

// Owner: one fiber. Suspends: never.
class InfoText {
 public:
  template <typename Value>
  void Add(std::string_view name, const Value& value) {
    fmt::format_to(std::back_inserter(text_), "{}:{}\r\n", name, value);
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

}  // namespace dfly
