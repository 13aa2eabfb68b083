// SPDX-License-Identifier: Apache-2.0
// The same facts as INFO's, under names as Prometheus wants them: base units, counters that end in
// _total, what is of one kind in one family with labels. Nothing is counted here.
#include "server/info/metrics.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

// In base units. Nothing to tell is 0 here: a family has its samples always.
void AddSample(const MetricRow& row, const MetricValue& value, PrometheusText& out) {
  const auto add = [&row, &out](auto number) {
    if (row.label.empty()) return out.Add({}, number);
    out.Add({{row.label, row.label_value}}, number);
  };
  std::visit(
      [&row, &add](const auto& number) {
        using T = std::decay_t<decltype(number)>;
        if constexpr (std::is_arithmetic_v<T>) {
          if (row.unit == MetricUnit::kNanos) return add(static_cast<double>(number) / 1e9);
          if (row.unit == MetricUnit::kMicros) return add(static_cast<double>(number) / 1e6);
          add(number);
        } else {
          add(0);
        }
      },
      value);
}

}  // namespace

std::vector<const MetricRow*> RowsOfMetrics() {
  std::vector<const MetricRow*> rows;
  for (const InfoSection& section : InfoSections()) {
    for (const MetricRow& row : section.rows) {
      if (!row.prom.empty()) rows.push_back(&row);
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MetricRow* a, const MetricRow* b) { return a->place < b->place; });
  return rows;
}

std::string FormatMetrics(const InfoFacts& facts, std::span<const MetricRow* const> rows) {
  PrometheusText out(kMetricsPrefix);
  std::string_view family;
  for (const MetricRow* row : rows) {
    if (row->prom != family) {
      out.Begin(row->prom, NameOf(row->type), row->prom_help.empty() ? row->help : row->prom_help);
      family = row->prom;
    }
    if (row->samples != nullptr) {
      row->samples(facts, out);
    } else {
      AddSample(*row, row->value(facts), out);
    }
  }
  return std::move(out.text());
}

std::string FormatMetrics(const InfoFacts& facts) { return FormatMetrics(facts, RowsOfMetrics()); }

}  // namespace dfly
