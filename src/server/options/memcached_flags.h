// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/options/options.h"

namespace dfly {

// Takes over what the flags of memcached's protocol say. An error, or nothing.
[[nodiscard]] std::string MemcachedFromFlags(ServerOptions* options);

}  // namespace dfly
