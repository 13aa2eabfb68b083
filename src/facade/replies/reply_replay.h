// SPDX-License-Identifier: Apache-2.0
// Gives a reply that was written as bytes to another sink: how the reply of a shard on another
// thread becomes a script's values.
#pragma once

#include <string_view>

#include "facade/replies/reply_sink.h"

namespace dfly {

// Calls `sink` as the handler did that wrote `bytes`, one complete reply by a RespWriter of this
// process. Null replies of arrays and of strings are told apart as far as the protocol does that.
void ReplayReply(std::string_view bytes, ReplySink& sink);

}  // namespace dfly
