// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dfly {

// A listening socket that one process hands to another, under a name that both have for it. Whoever
// gets it closes it.
struct HandedSocket {
  std::string name;
  int fd = -1;
};

}  // namespace dfly
