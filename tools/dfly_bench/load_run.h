// SPDX-License-Identifier: Apache-2.0
// A whole run: connects, loads the server from all threads, watches, and adds up.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "tools/dfly_bench/load_options.h"

namespace dfly::bench {

// Called on the caller's thread about twice a second: the counts since the last call, and the
// requests done and seconds gone in all.
using ProgressFn =
    std::function<void(const LoadStats& interval, double interval_s, uint64_t done, double gone_s)>;

// Thread: a plain one, which is blocked meanwhile. Ends early, in good order, when `*interrupt`
// becomes true. Returns false with `*error` if the server could not be connected to; everything
// that goes wrong later is counted in the result.
bool RunLoad(const LoadOptions& options, const std::atomic<bool>* interrupt,
             const ProgressFn& progress, LoadResult* result, std::string* error);

// What is wrong with `options`, or nothing.
std::string CheckOptions(const LoadOptions& options);

}  // namespace dfly::bench
