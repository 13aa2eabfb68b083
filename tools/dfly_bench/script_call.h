// SPDX-License-Identifier: Apache-2.0
// A call of a Lua script as a client library makes it, recorded in a file or built in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/dfly_bench/load_options.h"

namespace dfly::bench {

struct ScriptCall {
  std::string script;
  std::vector<std::string> keys;
  std::vector<std::string> args;
};

// Reads what tools/bench/bullmq/capture.js writes: a line for each string, "script TEXT" once and
// then "key TEXT" and "arg TEXT" in their order; '#' begins a comment line. In TEXT, \\ is a
// backslash and \xHH any byte. Returns what is wrong, or nothing.
std::string ParseScriptCall(std::string_view text, ScriptCall* call);
std::string ReadScriptCall(const std::string& path, ScriptCall* call);

// "bull:q3", or "bull:{q3}": what the keys of a queue begin with.
std::string QueueName(const LoadOptions& options, uint32_t queue);

// The call with `queue_name` in its gaps:
//   __queue__         the name
//   __packed_queue__  the name and a colon as a MessagePack string, which begins with its length
ScriptCall CallForQueue(const ScriptCall& call, std::string_view queue_name);

// EVALSHA sha numkeys key ... arg ...
std::vector<std::string> EvalSha(std::string_view sha, const ScriptCall& call);

// A batch job: a JSON array is decoded, its 9 elements go to each of 5 lists, and each list is
// trimmed to 50 elements. 50 commands.
ScriptCall LuaListsCall(const std::vector<std::string>& keys);

}  // namespace dfly::bench
