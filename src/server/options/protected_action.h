// SPDX-License-Identifier: Apache-2.0
// What only those may do whom a setting of the start allows it: DEBUG, MODULE LOAD, CONFIG SET dir.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dfly {

// --enable_debug_command and its like: nobody, clients on this machine, or all whose ACL allows it.
enum class ProtectedAction : uint8_t { kNo, kLocal, kYes };

// "no", "local" or "yes", in any case.
std::optional<ProtectedAction> ParseProtectedAction(std::string_view text);
std::string_view ToText(ProtectedAction action);

}  // namespace dfly
