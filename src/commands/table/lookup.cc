// SPDX-License-Identifier: Apache-2.0
#include "commands/table/lookup.h"

#include "facade/replies/error_texts.h"

namespace dfly {

std::string Lookup::Error(Args args) const {
  switch (end) {
    case End::kUnknownSubcommand:
      return UnknownSubcommandError(row->called, args[1]);
    case End::kWrongArity:
      return WrongArityError(row->full_name);
    case End::kUnknown:
    case End::kFound:
      break;
  }
  return UnknownCommandError(args.name(), args.from(1));
}

Lookup FindAmongSubcommands(const Command& row, Args args) {
  const Command* const subcommand = CommandTable::FindSubcommand(row, args[1]);
  if (subcommand == nullptr) return {.row = &row, .end = Lookup::End::kUnknownSubcommand};
  return FindFrom(*subcommand, args);
}

}  // namespace dfly
