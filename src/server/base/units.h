// SPDX-License-Identifier: Apache-2.0
// Sizes as people write and read them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// "100", "100b", "1k" (1000), "1kb" (1024), and so on with m and g, in any case, as in redis.conf.
std::optional<uint64_t> ParseMemory(std::string_view text);

// As INFO's *_human fields: "512B", "1.50K", "23.54G".
std::string HumanBytes(uint64_t bytes);

}  // namespace dfly
