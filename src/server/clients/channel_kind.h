// SPDX-License-Identifier: Apache-2.0
// The kinds of what clients subscribe to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dfly {

enum class ChannelKind : uint8_t {
  kChannel,  // SUBSCRIBE
  kPattern,  // PSUBSCRIBE
  kShard,    // SSUBSCRIBE
};
inline constexpr size_t kChannelKinds = 3;
inline constexpr size_t IndexOf(ChannelKind kind) { return static_cast<size_t>(kind); }

}  // namespace dfly
