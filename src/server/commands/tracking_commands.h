// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "commands/table/command_table.h"

namespace dfly {

// The subcommands of CLIENT that are about caching clients.
std::vector<Command> TrackingSubcommands();

}  // namespace dfly
