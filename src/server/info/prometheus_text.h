// SPDX-License-Identifier: Apache-2.0
// Writes Prometheus' text format (prometheus.io, "Exposition formats"): families of samples.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace dfly {

// Owner: one fiber. Suspends: never.
class PrometheusText {
 public:
  struct Label {
    std::string_view name;
    std::string_view value;
  };
  using Labels = std::initializer_list<Label>;

  explicit PrometheusText(std::string_view prefix) : prefix_(prefix) {}

  // A family of one sample. `name`: without the prefix; that of a counter ends with _total.
  template <typename Value>
  void Counter(std::string_view name, std::string_view help, Value value) {
    Begin(name, "counter", help);
    Add({}, value);
  }
  template <typename Value>
  void Gauge(std::string_view name, std::string_view help, Value value) {
    Begin(name, "gauge", help);
    Add({}, value);
  }

  // A family whose samples follow. `type`: counter, gauge or histogram.
  void Begin(std::string_view name, std::string_view type, std::string_view help) {
    family_ = prefix_ + std::string(name);
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", family_, help,
                   family_, type);
  }
  // `suffix`: of the parts of a histogram.
  template <typename Value>
  void Add(Labels labels, Value value, std::string_view suffix = "") {
    text_.append(family_).append(suffix);
    char before = '{';
    for (const Label& label : labels) {
      fmt::format_to(std::back_inserter(text_), "{}{}=\"", before, label.name);
      AppendEscaped(label.value);
      text_ += '"';
      before = ',';
    }
    if (labels.size() > 0) text_ += '}';
    fmt::format_to(std::back_inserter(text_), " {}\n", Printed(value));
  }

  std::string& text() { return text_; }

 private:
  template <typename Value>
  static std::string Printed(Value value) {
    if constexpr (std::is_floating_point_v<Value>) {
      if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
      if (std::isnan(value)) return "NaN";
    }
    return fmt::format("{}", value);
  }
  // Values have to be UTF-8, and what comes from clients may be anything.
  void AppendEscaped(std::string_view value) {
    for (char c : value) {
      if (c == '\\' || c == '"') text_ += '\\';
      text_ += c >= ' ' && c <= '~' ? c : '?';
    }
  }

  const std::string prefix_;
  std::string family_;
  std::string text_;
};

}  // namespace dfly
