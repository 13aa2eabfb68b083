// SPDX-License-Identifier: Apache-2.0
// GET /metrics: what INFO knows, for Prometheus.
#pragma once

#include <string>

#include "server/info/info.h"

namespace dfly {

// The text format 0.0.4 of Prometheus.
inline constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

std::string FormatMetrics(const InfoFacts& facts);

}  // namespace dfly
