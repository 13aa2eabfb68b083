// SPDX-License-Identifier: Apache-2.0
// What a backslash means in quoted words: of inline commands, and of configuration files. Pure.
#pragma once

namespace dfly {

// -1: it is no hexadecimal digit.
inline int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What `c` means behind a backslash; itself, if nothing else.
inline char Unescape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

}  // namespace dfly
