// SPDX-License-Identifier: Apache-2.0
// A client inside of the server. What it sends takes the way of all other commands, over a pair of
// sockets: its user's rights, limits, MONITOR, CLIENT LIST and CLIENT KILL hold for it as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "facade/resp_reader.h"
#include "server/acl_user.h"

namespace dfly {

class Session;

struct InnerCall {
  AclUserRef user;                                     // whose rights it has
  std::span<const std::vector<std::string>> commands;  // each of one argument or more
  size_t reply_bytes_max = 0;                          // of all replies together
  uint64_t deadline_ns = 0;                            // monotonic
};

struct InnerReplies {
  std::vector<RespValue> replies;  // in RESP3
  // Why there are fewer than commands: text of an error; empty: there are not.
  std::string error;
};

// One that is under way. Thread: that of its client.
class RunningInnerCall {
 public:
  // Its client has left, or will send no more: as if one of RESP had ended its side behind the
  // commands. What waits for others ends, the rest is answered.
  virtual void EndSide() = 0;

 protected:
  ~RunningInnerCall() = default;
};

// Carries out commands, one behind the other, for a client that did not bring them in RESP:
// `on_behalf`, which has to outlive the call. From a fiber of its thread. Suspends. When it
// returns, what did not end within its time is as that of a client that has left. Meanwhile it is
// Session::inner_call.
InnerReplies RunAsClient(Session& on_behalf, const InnerCall& call);

}  // namespace dfly
