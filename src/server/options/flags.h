// SPDX-License-Identifier: Apache-2.0
// The command line.
#pragma once

#include <string>

#include "server/options/arguments.h"
#include "server/options/options.h"

namespace dfly {

// Sets the flags of RegisterSettings from argv, the environment and a configuration file
// (arguments.h). Returns an empty string, or what is wrong.
[[nodiscard]] std::string ParseFlags(int argc, char** argv, Arguments* arguments);

// What the flags ask for and the machine allows. Logs where it gives less than was asked for.
// Returns an empty string, or which flag cannot be. To be called once, before there are threads.
[[nodiscard]] std::string OptionsFromFlags(ServerOptions* options);

}  // namespace dfly
