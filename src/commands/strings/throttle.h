// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dfly {

class CommandTable;

void RegisterThrottle(CommandTable* table);  // CL.THROTTLE

}  // namespace dfly
