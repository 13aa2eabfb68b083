// SPDX-License-Identifier: Apache-2.0
// Keys that get another name or database: RENAME RENAMENX COPY MOVE SWAPDB.
#pragma once

#include "commands/table/command_table.h"

namespace dfly {

void RegisterKeyMoves(CommandTable* table);

}  // namespace dfly
