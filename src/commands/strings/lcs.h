// SPDX-License-Identifier: Apache-2.0
// One of the commands of strings, in a file of its own.
#pragma once

#include "commands/table/command_table.h"

namespace dfly {

// For RegisterStringCommands.
void RegisterLcs(CommandTable* table);

}  // namespace dfly
