// SPDX-License-Identifier: Apache-2.0
// client-output-buffer-limit: how much of its replies and messages a client may leave unread. The
// format is redis.conf's: "class hard soft seconds ...".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

enum class ClientClass : uint8_t {
  kNormal,
  kReplica,
  kPubSub,  // subscribers; monitors, too
};
inline constexpr size_t kClientClasses = 3;

struct OutputLimit {
  uint64_t hard_bytes = 0;  // with more it is disconnected; 0: no limit
  uint64_t soft_bytes = 0;  // the same if it lasts for longer than this; 0: no limit
  uint64_t soft_s = 0;

  // What fits into the buffer of a small reply, as in Redis, is never too much: whatever the limits
  // are, who is in time to read its replies can change them.
  static constexpr uint64_t kSmallReply = 16 << 10;
  static bool IsAbove(uint64_t limit, uint64_t unsent) {
    return limit != 0 && unsent > limit && unsent > kSmallReply;
  }
  bool is_above_hard(uint64_t unsent) const { return IsAbove(hard_bytes, unsent); }
  bool is_above_soft(uint64_t unsent) const { return IsAbove(soft_bytes, unsent); }

  // With more bytes there is something to look at; SIZE_MAX: never.
  size_t least_bytes() const;
};

struct OutputLimits {
  std::array<OutputLimit, kClientClasses> by_class = {};

  const OutputLimit& of(ClientClass its) const { return by_class[static_cast<size_t>(its)]; }

  // Sets the limits of the classes that `text` names. Returns why it cannot, and then nothing has
  // changed; or nothing.
  [[nodiscard]] std::string Set(std::string_view text);
  // All of them, in bytes.
  std::string ToString() const;
};

}  // namespace dfly
