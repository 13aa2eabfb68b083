// SPDX-License-Identifier: Apache-2.0
// What distinguishes the connections of one port from those of another.
#pragma once

namespace dfly {

struct PortKind {
  bool is_tls = false;
  bool is_admin = false;
  bool is_memcached = false;
  bool is_process = false;  // no port's: the process that takes over is at the other end
  bool operator==(const PortKind&) const = default;
};

}  // namespace dfly
