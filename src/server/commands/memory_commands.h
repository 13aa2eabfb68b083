// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "commands/table/command_table.h"

namespace dfly {

// The row of MEMORY with its subcommands. For RegisterAdminCommands.
Command MemoryContainer();

}  // namespace dfly
