// SPDX-License-Identifier: Apache-2.0
// The flags of what is told over HTTP.
#pragma once

#include <string>

#include "server/options/options.h"

namespace dfly {

// An error, or nothing.
std::string WebFromFlags(ServerOptions* options);

}  // namespace dfly
