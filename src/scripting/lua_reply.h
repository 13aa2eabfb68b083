// SPDX-License-Identifier: Apache-2.0
// What a script returns, as a reply.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "facade/replies/reply_sink.h"

struct lua_State;

namespace dfly {

// Would the reply for the value on the top of the stack take more than `bytes_max` bytes? Tables
// and strings that are used many times are written each time, so a small value may have a reply
// that no memory holds. Raises no Lua error. REQUIRES: an UnlimitedScope.
bool IsReplyTooLarge(lua_State* lua, bool script_resp3, bool resp3, size_t bytes_max);

// Writes exactly one reply, for the value on the top of the stack, and pops it. `script_resp3`:
// the script has called redis.setresp(3), so its booleans are booleans.
// Raises no Lua error. REQUIRES: an UnlimitedScope.
void ReplyWithValue(lua_State* lua, bool script_resp3, ReplySink& reply);

}  // namespace dfly
