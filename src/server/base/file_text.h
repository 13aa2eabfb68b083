// SPDX-License-Identifier: Apache-2.0
// Small text files as a whole: of users, of the configuration. They block, so they are for
// helio::RunBlocking and for the start.
#pragma once

#include <string>
#include <string_view>

namespace dfly {

// Empty, or why it cannot be read: "No such file or directory". At most 64 MB.
[[nodiscard]] std::string ReadTextFile(const std::string& path, std::string* text);

// Replaces the file, or makes it: as a whole or not at all, with the permissions that it had (else
// 0600). Empty, or what failed.
[[nodiscard]] std::string ReplaceTextFile(const std::string& path, std::string_view text);

}  // namespace dfly
