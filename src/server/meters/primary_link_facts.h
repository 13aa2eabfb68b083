// SPDX-License-Identifier: Apache-2.0
// What INFO and ROLE tell of a server's primary, if it has one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

struct PrimaryLinkFacts {
  bool is_replica = false;
  std::string primary_host;
  uint16_t primary_port = 0;
  std::string_view state = "connect";  // as ROLE has it; static
  bool is_up = false;                  // the stream runs
  bool is_syncing = false;             // a copy is received or loaded
  int64_t last_io_s = -1;              // since the primary sent something; -1: no link
  int64_t down_since_s = -1;           // for so long there is no link; -1: there never was one
  int64_t read_offset = 0;
  int64_t applied_offset = 0;
  uint64_t copy_bytes_total = 0;  // 0: not known
  uint64_t copy_bytes_read = 0;
  int64_t copy_last_io_s = -1;
  uint64_t errors = 0;  // that commands of the stream were answered with
  // Of this server, replica or not.
  std::string_view failover_state = "no-failover";  // as INFO has it; static
  uint32_t priority = 0;
  bool is_read_only = true;
  bool is_announced = true;
};

}  // namespace dfly
