// SPDX-License-Identifier: Apache-2.0
// Times of an append-only log, as people write and read them. Local time is that of the process'
// zone (TZ).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// "24h", "90m", "30s", "2d"; without a letter, seconds. In seconds. None: it is no such time, or
// longer than 100 years. Pure.
std::optional<int64_t> ParseDuration(std::string_view text);
// The same in hours or minutes if there is no rest, else in seconds: "24h", "90m", "61", "0". Pure.
std::string FormatDuration(int64_t seconds);

// The last that is to stay of a log: epochs that began at this second or before, or up to the one
// of this number. One of both is there.
struct LogPoint {
  std::optional<int64_t> time_s;  // Unix time
  std::optional<uint64_t> epoch;

  bool operator==(const LogPoint&) const = default;
};
// "2026-11-25 10:03:00" in local time, also with a T; with a Z behind it in UTC. "-5m": before
// `now_s`. "1764061380" is Unix time. "epoch:12345". None: it is neither, or there is no such day.
std::optional<LogPoint> ParseLogPoint(std::string_view text, int64_t now_s);

// "2026-11-25 10:03:00 +0100 (1764061380)".
std::string FormatLogTime(int64_t seconds);

}  // namespace dfly
