// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace dfly {

inline constexpr std::string_view kVersion = "0.1.0";
// The Redis whose behaviour clients may expect: what HELLO and INFO tell.
inline constexpr std::string_view kRedisVersion = "7.4.0";

}  // namespace dfly
