// SPDX-License-Identifier: Apache-2.0
// What a server in the process of a test is told.
#pragma once

#include "server/options/options.h"
#include "server/settings/rows.h"

namespace dfly {

// The initial values of all settings, but for those that let something happen by itself: a test
// asks for that.
inline ServerOptions TestOptions() {
  ServerOptions options = DefaultOptions();
  options.port = 0;                        // clients have sockets of the test's
  options.persistence.dbfilename.clear();  // no file is read or written
  options.persistence.rules.clear();       // no snapshot begins because time has passed
  options.active_defrag = false;           // nor is memory moved
  options.auth_timeout_s = 0;              // nor is a client disconnected
  return options;
}

}  // namespace dfly
