// SPDX-License-Identifier: Apache-2.0
// The command line.
#pragma once

#include <string>
#include <vector>

#include "server/server.h"

namespace dfly {

// Parses argv. Handles --help, --helpfull and --version, and errors of flags, by ending the
// process. Returns an empty string, or what else is wrong.
[[nodiscard]] std::string ParseFlags(int* argc, char*** argv);

// What the flags ask for and the machine allows. Logs where it gives less than was asked for.
// Returns an empty string, or which flag cannot be. To be called once, before there are threads.
[[nodiscard]] std::string OptionsFromFlags(ServerOptions* options);

// Our flags by topic, then the most useful ones of the libraries.
std::string HelpText();

// Names of the flags in HelpText; for the test that none was forgotten.
std::vector<std::string> FlagsInHelp();

}  // namespace dfly
