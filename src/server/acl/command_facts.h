// SPDX-License-Identifier: Apache-2.0
// What a row of the command table means in the words of COMMAND INFO and of ACL. Pure.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"

namespace dfly {

// "readonly", "fast", ... in Redis' order. Our own flags have no names.
std::vector<std::string_view> FlagsOf(const Command& command);

// "@read", "@string", ... in Redis' order: the row's own and those that follow from its flags. A
// container of subcommands has none but "@slow".
std::vector<std::string_view> AclCategoriesOf(const Command& command);
// All that there are, with the "@".
std::vector<std::string_view> AclCategories();
inline bool IsAclCategory(std::string_view name) {
  const auto all = AclCategories();
  return std::find(all.begin(), all.end(), name) != all.end();
}

// How its keys are accessed: "RO" and "access", or "RW" and "update" ...
std::vector<std::string_view> KeyFlagsOf(const Command& command);
// The same for these arguments, which the command accepts.
std::vector<std::string_view> KeyFlagsOf(const Command& command, Args args);

// COMMAND DOCS: the row's, or, where it names none, the one that follows from its categories.
std::string_view GroupOf(const Command& command);

}  // namespace dfly
