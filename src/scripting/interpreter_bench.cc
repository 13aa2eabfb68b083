// SPDX-License-Identifier: Apache-2.0
// What a script costs on top of the host, which here answers at once.
//
// On a busy virtual core, best of several runs: an empty script 0.32 us; one call 0.5 us; each of
// 50 calls 0.11 us; BullMQ's arguments with 5 calls 1.6 us; 1000 turns of arithmetic 8.1 us (7.8
// without ticks).
//
// interpreter_bench --run=N SOURCE runs a script N times and measures nothing: for
// tools/bench/lua_cost.py, which compares two builds.
#include "scripting/interpreter.h"

#include <benchmark/benchmark.h>

#include <charconv>
#include <string>
#include <vector>

#include "facade/replies/resp_writer.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

constexpr std::string_view kSha = "0123456789012345678901234567890123456789";

// Answers everything with the same.
class InstantHost final : public ScriptHost {
 public:
  Verdict Call(Args, ReplySink& reply, bool) override {
    reply.Integer(1);
    return Verdict::kGoOn;
  }
  Verdict Finish(ReplySink& reply) override {
    reply.Ok();
    return Verdict::kGoOn;
  }
  Verdict OnTick() override { return Verdict::kGoOn; }
  std::optional<bool> IsAllowed(Args) override { return true; }
};

void RunScript(benchmark::State& state, std::string_view source,
               const std::vector<std::string_view>& keys,
               const std::vector<std::string_view>& args) {
  Interpreter interpreter(64 << 20);
  std::string error;
  CHECK(interpreter.Load(kSha, source, &error)) << error;
  InstantHost host;
  helio::IoBuf out;
  RespWriter reply(&out);
  for (auto _ : state) {
    out.Clear();
    interpreter.Run({.sha = kSha, .keys = keys, .args = args}, &host, reply);
  }
}

void Empty(benchmark::State& state) { RunScript(state, "return 1", {}, {}); }
BENCHMARK(Empty);

void OneKeyOneArgument(benchmark::State& state) {
  RunScript(state, "return redis.call('set', KEYS[1], ARGV[1])", {"key"}, {"value"});
}
BENCHMARK(OneKeyOneArgument);

// Divide by 50 for one call.
void FiftyCalls(benchmark::State& state) {
  RunScript(state, "for i = 1, 50 do redis.call('lpush', KEYS[1], ARGV[1]) end", {"key"},
            {"value"});
}
BENCHMARK(FiftyCalls);

void FiftyCallsWithNumbers(benchmark::State& state) {
  RunScript(state, "for i = 1, 50 do redis.call('zadd', KEYS[1], i, ARGV[1]) end", {"key"},
            {"value"});
}
BENCHMARK(FiftyCallsWithNumbers);

// A job's arguments packed as BullMQ does, and some calls with them.
void PackedArguments(benchmark::State& state) {
  // ["bull:queue:", "", "job", 1700000000000, nil, nil, nil, nil, nil, nil]
  const std::string packed = std::string("\x9A\xAB") + "bull:queue:" + "\xA0\xA3" + "job" +
                             std::string("\xCF\0\0\x01\x8B\xCF\xE5\x68\0", 9) +
                             std::string(6, '\xC0');
  RunScript(state,
            "local rcall = redis.call "
            "local args = cmsgpack.unpack(ARGV[1]) "
            "local prefix = args[1] "
            "local id = rcall('INCR', KEYS[4]) "
            "local key = prefix .. id "
            "rcall('HMSET', key, 'name', args[3], 'data', ARGV[2], 'timestamp', args[4]) "
            "if rcall('EXISTS', KEYS[2]) == 1 then rcall('LPUSH', KEYS[1], id) end "
            "rcall('XADD', KEYS[5], '*', 'event', 'added', 'jobId', id, 'name', args[3]) "
            "return id .. ''",
            {"bull:queue:wait", "bull:queue:meta", "bull:queue:paused", "bull:queue:id",
             "bull:queue:events"},
            {packed, "{\"foo\":\"bar\"}"});
}
BENCHMARK(PackedArguments);

// The machine alone: what the count hook costs shows here.
void Arithmetic(benchmark::State& state) {
  RunScript(state, "local x = 0 for i = 1, 1000 do x = x + i % 7 end return x", {}, {});
}
BENCHMARK(Arithmetic);

// --- library functions; 20 calls each ---

void Call20(benchmark::State& state, const std::string& set_up, const std::string& call) {
  RunScript(state, set_up + " local x for i = 1, 20 do x = " + call + " end return 1", {}, {});
}

void Rep(benchmark::State& state) { Call20(state, "", "string.rep('abc', 30)"); }
BENCHMARK(Rep);

void FindPlain(benchmark::State& state) {
  Call20(state, "local s = string.rep('abc', 30) .. 'key'", "s:find('key', 1, true)");
}
BENCHMARK(FindPlain);

void FindPattern(benchmark::State& state) {
  Call20(state, "local s = string.rep('abc ', 20) .. 'user:1234'", "s:find('user:%d+')");
}
BENCHMARK(FindPattern);

void MatchPattern(benchmark::State& state) {
  Call20(state, "local s = '2024-01-02T03:04:05'", "s:match('^(%d+)-(%d+)-(%d+)')");
}
BENCHMARK(MatchPattern);

void Gsub(benchmark::State& state) {
  Call20(state, "local s = string.rep('hello world ', 10)", "s:gsub('o', '0')");
}
BENCHMARK(Gsub);

void Gmatch(benchmark::State& state) {
  Call20(state, "local s = string.rep('key=value, ', 10)",
         "(function() local n = 0 for k, v in s:gmatch('(%w+)=(%w+)') do n = n + 1 end return n "
         "end)()");
}
BENCHMARK(Gmatch);

constexpr const char* kList = "local t = {} for i = 1, 100 do t[i] = 'value' .. i end";

void Concat(benchmark::State& state) { Call20(state, kList, "table.concat(t, ',')"); }
BENCHMARK(Concat);

void Sort(benchmark::State& state) { Call20(state, kList, "table.sort(t)"); }
BENCHMARK(Sort);

void Pairs(benchmark::State& state) {
  Call20(state, kList, "(function() local n = 0 for k, v in pairs(t) do n = n + 1 end end)()");
}
BENCHMARK(Pairs);

void JsonEncode(benchmark::State& state) { Call20(state, kList, "cjson.encode(t)"); }
BENCHMARK(JsonEncode);

void JsonDecode(benchmark::State& state) {
  Call20(state, std::string(kList) + " local s = cjson.encode(t)", "cjson.decode(s)");
}
BENCHMARK(JsonDecode);

// Floats as indexes: 1000 of them.
void Arrays(benchmark::State& state) {
  RunScript(state,
            "local t = {} for i = 1, 100 do t[i] = i end "
            "local x = 0 for _ = 1, 10 do for i = 1, #t do x = x + t[i] end end return x",
            {}, {});
}
BENCHMARK(Arrays);

// --run=N SOURCE.
int RunMany(std::string_view count, std::string_view source) {
  int runs = 0;
  std::from_chars(count.data(), count.data() + count.size(), runs);
  Interpreter interpreter(64 << 20);
  std::string error;
  CHECK(interpreter.Load(kSha, source, &error)) << error;
  InstantHost host;
  helio::IoBuf out;
  RespWriter reply(&out);
  const std::vector<std::string_view> keys = {"key"};
  const std::vector<std::string_view> args = {"value"};
  for (; runs > 0; --runs) {
    out.Clear();
    interpreter.Run({.sha = kSha, .keys = keys, .args = args}, &host, reply);
  }
  CHECK(!out.view().starts_with('-')) << out.view();
  return 0;
}

}  // namespace
}  // namespace dfly

int main(int argc, char** argv) {
  constexpr std::string_view kRun = "--run=";
  const std::string_view option = argc == 3 ? argv[1] : "";
  if (option.starts_with(kRun)) return dfly::RunMany(option.substr(kRun.size()), argv[2]);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
