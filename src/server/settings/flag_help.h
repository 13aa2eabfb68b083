// SPDX-License-Identifier: Apache-2.0
// What --help, --helpfull and docs/configuration.md say about the settings.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dfly {

// What the words of a command line ask to be told: --help, --helpfull, --helpmarkdown or --version.
// Empty: none of them is there. REQUIRES: RegisterSettings.
std::string HelpFor(std::span<const char* const> arguments);

// The flags that most people need, a line each.
std::string ShortHelpText();
// Our flags by topic, then the most useful ones of glog.
std::string HelpText();
// docs/configuration.md.
std::string ConfigurationPage();

}  // namespace dfly
