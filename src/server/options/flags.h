// SPDX-License-Identifier: Apache-2.0
// The command line.
#pragma once

#include <string>
#include <vector>

#include "server/options/arguments.h"
#include "server/options/options.h"

namespace dfly {

// Sets the flags from argv, the environment and a configuration file (server/options/arguments.h).
// Handles --help, --helpfull and --version by ending the process. Returns an empty string, or what
// is wrong.
[[nodiscard]] std::string ParseFlags(int argc, char** argv, Arguments* arguments);

// What the flags ask for and the machine allows. Logs where it gives less than was asked for.
// Returns an empty string, or which flag cannot be. To be called once, before there are threads.
[[nodiscard]] std::string OptionsFromFlags(ServerOptions* options);

// The flags that most people need, a line each.
std::string ShortHelpText();
// Our flags by topic, then the most useful ones of the libraries.
std::string HelpText();
// docs/configuration.md.
std::string ConfigurationPage();

// Names of the flags in HelpText; for the test that none was forgotten.
std::vector<std::string> FlagsInHelp();

}  // namespace dfly
