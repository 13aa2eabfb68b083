// SPDX-License-Identifier: Apache-2.0
// Which command is that? Everybody who has the words of a command asks here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "commands/table/command_table.h"

namespace dfly {

// A row, or why there is none.
struct Lookup {
  enum class End : uint8_t { kFound, kUnknown, kUnknownSubcommand, kWrongArity };

  // kUnknown: null. kUnknownSubcommand: the one that has others.
  const Command* row = nullptr;
  End end = End::kFound;

  bool is_found() const { return end == End::kFound; }
  // The error for the client that has sent `args`. REQUIRES: !is_found().
  std::string Error(Args args) const;
};

inline bool AcceptsArgs(const Command& row, size_t count) {
  return row.arity >= 0 ? count == static_cast<size_t>(row.arity)
                        : count >= static_cast<size_t>(-row.arity);
}

// REQUIRES: `row` has subcommands and accepts the arguments, which name one.
Lookup FindAmongSubcommands(const Command& row, Args args);

// The command of `args`, whose name is `row`'s: the row itself or one of its subcommands.
inline Lookup FindFrom(const Command& row, Args args) {
  if (!AcceptsArgs(row, args.size())) [[unlikely]] {
    return {.row = &row, .end = Lookup::End::kWrongArity};
  }
  if (row.subcommands.empty() || args.size() < 2) [[likely]] {
    return {.row = &row};
  }
  return FindAmongSubcommands(row, args);
}

inline Lookup Find(const CommandTable& table, Args args) {
  const Command* const row = table.Find(args.name());
  if (row == nullptr) [[unlikely]] {
    return {.end = Lookup::End::kUnknown};
  }
  return FindFrom(*row, args);
}

}  // namespace dfly
