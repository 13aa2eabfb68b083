// SPDX-License-Identifier: Apache-2.0
// The parts of the whole server, for main() and for tests that start one in their process.
#pragma once

#include "server/run/server_parts.h"

namespace dfly {

ServerParts AllParts();

}  // namespace dfly
