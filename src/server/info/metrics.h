// SPDX-License-Identifier: Apache-2.0
// GET /metrics: what INFO knows, for Prometheus.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/info/info_facts.h"
#include "server/info/metric_rows.h"

namespace dfly {

// The text format 0.0.4 of Prometheus.
inline constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr char kMetricsPrefix[] = "dragonfly_";

std::string FormatMetrics(const InfoFacts& facts);
std::string FormatMetrics(const InfoFacts& facts, std::span<const MetricRow* const> rows);

// The rows of /metrics, in its order: those of one family follow each other.
std::vector<const MetricRow*> RowsOfMetrics();

}  // namespace dfly
