// SPDX-License-Identifier: Apache-2.0
// dragonfly --recover_list and --recover_to: no server, but the log of its directory as it was.
#pragma once

#include <string>

namespace dfly {

// Prints what can be had, or writes it (storage/log/log_recovery.h), as the flags ask for. Returns
// an empty text, or what is wrong. To be called instead of a server's start. Blocks.
std::string RecoverLog();

// Is one of the flags there?
bool IsRecoveryWanted();

}  // namespace dfly
