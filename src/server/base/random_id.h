// SPDX-License-Identifier: Apache-2.0
// Names that nobody else has: of a run of the server, of a stream, the mark behind a copy.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>

namespace dfly {

// 40 hexadecimal digits. Thread: any.
inline std::string RandomId() {
  std::random_device random;
  std::string digits;
  for (int i = 0; i < 5; ++i) digits += fmt::format("{:08x}", random());
  return digits;
}

}  // namespace dfly
