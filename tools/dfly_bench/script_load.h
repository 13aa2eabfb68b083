// SPDX-License-Identifier: Apache-2.0
// Makes a script known to the server before the load begins.
#pragma once

#include <string>

#include "tools/dfly_bench/load_options.h"

namespace dfly::bench {

// SCRIPT LOAD over a connection of its own, after AUTH if there is a password. Returns what is
// wrong, with the server's words if it refused, or nothing and `*sha`. Thread: a plain one, which
// is blocked meanwhile.
std::string LoadScript(const LoadOptions& options, const std::string& script, std::string* sha);

}  // namespace dfly::bench
