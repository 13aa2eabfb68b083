// SPDX-License-Identifier: Apache-2.0
// --log_format=json: each message of the log is a line of JSON.
#pragma once

#include <string>
#include <string_view>

namespace dfly {

// From now on what is logged is written so, to wherever it would have gone: stderr, or a file in
// --log_dir, one for all levels. What a crash prints stays as it is. After
// google::InitGoogleLogging, once. Empty, or why it cannot.
[[nodiscard]] std::string LogAsJson();

// Writes an error to stderr as the log would.
void PrintJsonError(std::string_view message);

}  // namespace dfly
