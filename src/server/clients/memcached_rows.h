// SPDX-License-Identifier: Apache-2.0
// The rows of memcached's commands: subcommands of a row "memcached", so that ACL rules, statistics
// and the slow log have names for them (memcached|get). RESP clients cannot call them (kMemcached).
#pragma once

#include <array>

#include "commands/table/command_table.h"
#include "facade/parsers/memcached_parser.h"

namespace dfly {

// Owner: the server, whose commands are added once; then read by all threads.
class MemcachedRows {
 public:
  // `row` is in a table that outlives this.
  void Set(MemcachedOp op, const Command* row) { rows_[static_cast<size_t>(op)] = row; }
  const Command& row(MemcachedOp op) const { return *rows_[static_cast<size_t>(op)]; }

 private:
  std::array<const Command*, static_cast<size_t>(MemcachedOp::kCount)> rows_{};
};

}  // namespace dfly
