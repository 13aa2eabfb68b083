// SPDX-License-Identifier: Apache-2.0
// What distinguishes the connections of one port from those of another.
#pragma once

namespace dfly {

struct PortKind {
  bool is_tls = false;
  bool is_admin = false;
  bool is_memcached = false;
  bool operator==(const PortKind&) const = default;
};

}  // namespace dfly
