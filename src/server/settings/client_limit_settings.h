// SPDX-License-Identifier: Apache-2.0
// Flags of what one client, or all, may use.
#pragma once

#include <string>
#include <utility>

namespace dfly {

struct ServerOptions;

// Takes them over. Which flag cannot be, and why; or nothing.
std::pair<std::string, std::string> ClientLimitsFromFlags(ServerOptions* options);

}  // namespace dfly
