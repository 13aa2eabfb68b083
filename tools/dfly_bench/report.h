// SPDX-License-Identifier: Apache-2.0
// What a run's outcome looks like: a progress line, a table, JSON.
#pragma once

#include <string>

#include "tools/dfly_bench/load_options.h"

namespace dfly::bench {

// One line without its end: done, rate, errors, p99.
std::string ProgressLine(const LoadStats& interval, double interval_s, uint64_t done,
                         uint64_t errors, double gone_s);

std::string ReportTable(const LoadResult& result);

// One object; latencies in microseconds.
std::string ReportJson(const LoadOptions& options, const LoadResult& result);

// False if a connection failed, the protocol was broken, or every reply was an error.
bool Succeeded(const LoadResult& result);

}  // namespace dfly::bench
