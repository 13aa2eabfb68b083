// SPDX-License-Identifier: Apache-2.0
// What a primary answers to PSYNC:
//
//   +FULLRESYNC <id> <offset>     a copy follows, and then the stream behind this offset
//   +CONTINUE [<id>]              the stream follows; it goes by this id from now on
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

struct PsyncReply {
  enum class Kind : uint8_t { kFullCopy, kContinue, kOther };

  // So that no stream is long enough to overflow an offset.
  static constexpr int64_t kOffsetMax = int64_t{1} << 62;

  Kind kind = Kind::kOther;  // an error, or what nobody understands
  std::string_view id;       // of 40 hexadecimal digits, in the line; empty: kContinue without one
  int64_t offset = 0;        // of kFullCopy; 0 to kOffsetMax
};

// `line`: without its end.
PsyncReply ParsePsyncReply(std::string_view line);

}  // namespace dfly
