// SPDX-License-Identifier: Apache-2.0
// What the server tells over HTTP: the console, /api/commands, /metrics, /livez and /readyz.
#pragma once

#include "server/clients/http_frontend.h"

namespace dfly {

// It has no state: one for all servers of the process.
HttpFrontend& HttpPages();

}  // namespace dfly
