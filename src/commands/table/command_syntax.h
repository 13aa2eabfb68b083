// SPDX-License-Identifier: Apache-2.0
// The arguments of commands, as COMMAND DOCS tells clients: for hints, and for tools that offer a
// form.
//
//   name            an argument: a string, or what the suffix says: :i integer, :d double,
//                   :t Unix time, :p pattern, :k0 key of the first key specification (:k1 ...; a
//                   pattern of keys may be of one, too: :p1)
//   TOKEN           a word that is written as it is; its name is that in lower case
//   name=TOKEN      the same, with another name
//   TOKEN name      an argument behind a word
//   [ ]             optional
//   x...            once or more; x.... each time behind its word again
//   <name: a | b>   one of these
//   (name: a b)     these together
//   x@6.2.0         since that version of Redis; x@@2.8.12 deprecated since
//
// What the fields of the reply are: https://redis.io/docs/latest/commands/command-docs/
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dfly {

struct CommandArgument {
  std::string name;
  std::string_view type;   // "string", "oneof", ...
  int key_spec = -1;       // -1: no key
  std::string_view token;  // empty: none
  std::string_view since;
  std::string_view deprecated_since;
  bool is_optional = false;
  bool is_multiple = false;
  bool repeats_token = false;
  std::vector<CommandArgument> parts;  // of "oneof" and "block"
};

// Of a command's full name ("get", "client|list"). Empty: it has no arguments, or we do not say.
std::string_view SyntaxOf(std::string_view full_name);

// REQUIRES: a text of SyntaxOf, or one of that form.
std::vector<CommandArgument> ParseSyntax(std::string_view syntax);

}  // namespace dfly
