// SPDX-License-Identifier: Apache-2.0
// A client inside of the server. What it sends takes the way of all other commands, over a pair of
// sockets: its user's rights, limits, MONITOR, CLIENT LIST and CLIENT KILL hold for it as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "facade/replies/resp_reader.h"
#include "server/acl/acl_user.h"

namespace dfly {

class Session;

struct InnerCall {
  AclUserRef user;                                     // whose rights it has
  std::span<const std::vector<std::string>> commands;  // each of one argument or more
  size_t reply_bytes_max = 0;                          // of all replies together
  uint64_t deadline_ns = 0;                            // monotonic
};

struct InnerReplies {
  std::vector<RespValue> replies;  // in RESP3, one for each command that has ended
  // Empty: each command has its reply. Else the text of an error that says why some have none.
  std::string error;
};

// Carries out commands, one behind the other, for `on_behalf`: a client that did not send them in
// RESP, and whose session outlives the call. Thread: that client's, on a fiber. Suspends. When the
// deadline is over, the inner client leaves: its commands end as those of any client that
// disconnects. During the call Session::inner_call is set.
InnerReplies RunAsClient(Session& on_behalf, const InnerCall& call);

}  // namespace dfly
