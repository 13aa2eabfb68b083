// SPDX-License-Identifier: Apache-2.0
// --lua_auto_async: finds the calls whose results a script throws away. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// `source` with redis.acall(...) instead of redis.call(...) wherever that is a whole statement, and
// redis.apcall for redis.pcall. None if there is no such statement, or if the script could notice
// that a command runs later than it was called: it raises or catches errors (error, assert, pcall,
// xpcall, coroutine), runs code that is not seen here (load, loadstring, setmetatable, _G, _ENV),
// or uses the name `redis` for anything but redis.<name>. Lines keep their numbers.
//
// redis.pcall is only rewritten as a statement, where it means that errors do not matter.
std::optional<std::string> RewriteDiscardedCalls(std::string_view source);

}  // namespace dfly
