// SPDX-License-Identifier: Apache-2.0
// Which commands of a log no redis-server 7.0 knows.
#pragma once

#include <string_view>

namespace dfly {

// `name` in any case. Thread: any.
bool IsPrivateCommand(std::string_view name);

}  // namespace dfly
