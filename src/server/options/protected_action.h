// SPDX-License-Identifier: Apache-2.0
// What only those may do whom a setting of the start allows it: DEBUG, MODULE LOAD, CONFIG SET dir.
#pragma once

#include <cstdint>

namespace dfly {

// --enable_debug_command and its like: nobody, clients on this machine, or all whose ACL allows it.
enum class ProtectedAction : uint8_t { kNo, kLocal, kYes };

}  // namespace dfly
