// SPDX-License-Identifier: Apache-2.0
// For tests on schedules from a seed: what a client says of a reply.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "facade/replies/resp_reader.h"

namespace dfly {

// What is wrong with the reply, or nothing.
using ReplyCheck = std::function<std::string(const RespValue& reply)>;

inline std::string Unless(bool is_right, const char* what) { return is_right ? "" : what; }
inline std::string AnyReply(const RespValue&) { return ""; }
inline ReplyCheck Is(std::string wanted) {
  return [wanted = std::move(wanted)](const RespValue& reply) {
    return reply.ToString() == wanted ? "" : "expected " + wanted;
  };
}

}  // namespace dfly
