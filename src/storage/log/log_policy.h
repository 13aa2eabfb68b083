// SPDX-License-Identifier: Apache-2.0
// When what was written to the append-only log is on the device.
#pragma once

#include <cstdint>

namespace dfly {

enum class LogPolicy : uint8_t {
  kAlways,    // an epoch that was written is on the device
  kEverySec,  // once a second, by a fiber of its own, while appends go on
  kNo,        // when the system likes it
};

}  // namespace dfly
