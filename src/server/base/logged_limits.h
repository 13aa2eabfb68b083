// SPDX-License-Identifier: Apache-2.0
// What logs have of a command (server/meters/logged_args.h).
#pragma once

#include <cstddef>

namespace dfly {

// The rest is told by numbers, as in Redis.
struct LoggedLimits {
  size_t args = 32;
  size_t bytes = 128;  // of an argument
};

}  // namespace dfly
