// SPDX-License-Identifier: Apache-2.0
// DUMP and RESTORE.
#pragma once

#include "commands/command_table.h"

namespace dfly {

void RegisterDump(CommandTable* table);

}  // namespace dfly
