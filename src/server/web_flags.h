// SPDX-License-Identifier: Apache-2.0
// The flags of what is told over HTTP.
#pragma once

#include "server/server.h"

namespace dfly {

void WebFromFlags(ServerOptions* options);

}  // namespace dfly
