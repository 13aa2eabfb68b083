// SPDX-License-Identifier: Apache-2.0
// What a signal that ends the server is to do: --shutdown_on_sigint and --shutdown_on_sigterm, in
// the words of redis.conf. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// None of them, "default": it saves if there are save points.
struct StopRule {
  bool save = false;
  bool no_save = false;
  bool now = false;    // do not wait for replicas
  bool force = false;  // even if it cannot save

  std::optional<bool> saves() const {
    return save || no_save ? std::optional<bool>(save) : std::nullopt;
  }
};

// Any of "default save nosave now force", in any case. Empty, or what is wrong, as redis-server
// says it.
[[nodiscard]] std::string ParseStopRule(std::string_view text, StopRule* rule);
// The words in the order of Redis.
std::string ToText(const StopRule& rule);

}  // namespace dfly
