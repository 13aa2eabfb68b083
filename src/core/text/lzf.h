// SPDX-License-Identifier: Apache-2.0
// LZF, by which Redis compresses long strings in RDB files and DUMP payloads:
//
//   000nnnnn                    n + 1 bytes follow as they are
//   nnnooooo oooooooo           n + 2 bytes once more, from o + 1 bytes back; 1 <= n <= 6
//   111ooooo nnnnnnnn oooooooo  the same with n + 9
//
// This is liblzf, compiled from Debian's sources: the compressor of the shared library wants 256 KB
// of stack, of which a fiber has 64. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dfly {

// Writes the `size` bytes that `packed` stands for to `to`, whatever that was. False if it stands
// for something else or for nothing; a size that cannot be is refused before memory is taken.
bool ExpandLzf(std::string_view packed, size_t size, std::string* to);

// Writes what stands for `text` to `to`, where `room` bytes are. Returns how many that are; 0 if
// they are too many. The same text gives the same bytes, which are those that redis-server has.
// REQUIRES: text is smaller than 4 GB.
size_t CompressLzf(std::string_view text, char* to, size_t room);

}  // namespace dfly
