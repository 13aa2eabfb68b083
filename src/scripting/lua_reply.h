// SPDX-License-Identifier: Apache-2.0
// What a script returns, as a reply.
#pragma once

#include <string>
#include <string_view>

#include "facade/reply_sink.h"

struct lua_State;

namespace dfly {

// Writes exactly one reply, for the value on the top of the stack, and pops it. `script_resp3`:
// the script has called redis.setresp(3), so its booleans are booleans.
// Raises no Lua error. REQUIRES: an UnlimitedScope.
void ReplyWithValue(lua_State* lua, bool script_resp3, ReplySink& reply);

}  // namespace dfly
