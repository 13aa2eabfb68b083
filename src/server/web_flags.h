// SPDX-License-Identifier: Apache-2.0
// The flags of what is told over HTTP.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/server.h"

namespace dfly {

// For --help.
std::vector<std::string_view> WebFlagNames();
// Empty, or which flag cannot be.
[[nodiscard]] std::string WebFromFlags(ServerOptions* options);

}  // namespace dfly
