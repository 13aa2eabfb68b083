// SPDX-License-Identifier: Apache-2.0
// dragonfly --healthcheck: asks the server that these options would start, for containers without a
// shell and without a client.
#pragma once

#include <string>

#include "server/options/options.h"

namespace dfly {

// Empty: it answers GET /livez (or /readyz, if `ready`) with 200; or why it is not healthy. On a
// port with TLS, where this has no certificate, accepting connections is enough. Blocks, for two
// seconds at most.
std::string CheckHealth(const ServerOptions& options, bool ready);

}  // namespace dfly
