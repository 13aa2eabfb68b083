// SPDX-License-Identifier: Apache-2.0
// What the commands about scripts and those about functions have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/coordinator.h"
#include "facade/reply_sink.h"

namespace dfly {

// SCRIPT KILL and FUNCTION KILL: each ends its own kind only.
void KillRunning(CoordinatorContext& cx, bool of_functions, ReplySink& reply);

// Of ScriptFlags.
std::vector<std::string_view> FlagNames(uint32_t flags);

}  // namespace dfly
