// SPDX-License-Identifier: Apache-2.0
// A command as the slow log and MONITOR show it: without passwords.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "server/base/logged_limits.h"

namespace dfly {

// What stands in the place of a secret.
constexpr std::string_view kRedacted = "(redacted)";

// Whether args[i] is, or may be, a password or a key.
bool IsSecretArg(const Command& command, Args args, size_t i);

std::vector<std::string> LoggedArgs(const Command& command, Args args, LoggedLimits limits = {});

// A line of MONITOR: the time, [db client], and the arguments in quotes.
std::string MonitorLine(int64_t now_us, int db_index, std::string_view client,
                        const Command& command, Args args);

}  // namespace dfly
