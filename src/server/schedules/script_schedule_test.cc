// SPDX-License-Identifier: Apache-2.0
// Scripts that use keys which they do not declare, with others on the same keys, on schedules from
// a seed. A script may give way at each of its calls. What all of them together leave as it is has
// to be so in every reply that shows it, and everybody has to come to an end.
//
//   bank    accounts between which scripts move amounts: both keys declared; one found before it
//           writes, so it starts again; one found after it has written, so it locks late
//   token   one element in one of several lists, which scripts look for and move
//   tally   counters that scripts without atomicity count up, each script all of them
//
// Each seed has scripts of its own. Some have been seen to keep to their keys when it begins, and
// go beyond them now; the others are unknown.
#include <array>

#include "server/schedules/shared_client.h"
#include "server/schedules/test_options.h"

namespace dfly {
namespace {

using helio::Random;

constexpr int kKeys = 6;

// KEYS[1] pays ARGV[2] to KEYS[2].
constexpr std::string_view kDeclared = R"(
  if KEYS[1] == KEYS[2] then return 'same' end
  redis.call('set', KEYS[1], redis.call('get', KEYS[1]) - ARGV[2])
  redis.call('set', KEYS[2], redis.call('get', KEYS[2]) + ARGV[2])
  return 'done')";
// The same with ARGV[1] instead of KEYS[2], which it reads first.
constexpr std::string_view kReadsFirst = R"(
  if KEYS[1] == ARGV[1] then return 'same' end
  local other = redis.call('get', ARGV[1])
  redis.call('set', KEYS[1], redis.call('get', KEYS[1]) - ARGV[2])
  redis.call('set', ARGV[1], other + ARGV[2])
  return 'done')";
// Here it has written when it comes to the key, and may be refused.
constexpr std::string_view kWritesFirst = R"(
  if KEYS[1] == ARGV[1] then return 'same' end
  local mine = redis.call('get', KEYS[1])
  redis.call('set', KEYS[1], mine - ARGV[2])
  local other = redis.pcall('get', ARGV[1])
  if type(other) == 'table' and other.err then
    redis.call('set', KEYS[1], mine)
    return 'refused'
  end
  redis.call('set', ARGV[1], other + ARGV[2])
  return 'done')";
// It comes to two of them, one after the other.
constexpr std::string_view kPaysTwo = R"(
  if KEYS[1] == ARGV[1] or KEYS[1] == ARGV[3] or ARGV[1] == ARGV[3] then return 'same' end
  local mine = redis.call('get', KEYS[1])
  redis.call('set', KEYS[1], mine - 2 * ARGV[2])
  local first = redis.pcall('incrby', ARGV[1], ARGV[2])
  local second = type(first) == 'number' and redis.pcall('incrby', ARGV[3], ARGV[2])
  if type(second) == 'number' then return 'done' end
  if type(first) == 'number' then redis.call('decrby', ARGV[1], ARGV[2]) end
  redis.call('set', KEYS[1], mine)
  return 'refused')";
// After it has written it calls a command that needs all shards.
constexpr std::string_view kLooksAround = R"(
  if KEYS[1] == ARGV[1] then return 'same' end
  local mine = redis.call('get', KEYS[1])
  redis.call('set', KEYS[1], mine - ARGV[2])
  local count = redis.pcall('dbsize')
  local other = type(count) == 'number' and redis.pcall('get', ARGV[1])
  if not other or type(other) == 'table' then
    redis.call('set', KEYS[1], mine)
    return 'refused'
  end
  redis.call('set', ARGV[1], other + ARGV[2])
  return count)";
// Keys declared in several shards, calls that are sent together.
constexpr std::string_view kDefers = R"(
  if KEYS[1] == KEYS[2] then return 'same' end
  local a, b = redis.call('get', KEYS[1]), redis.call('get', KEYS[2])
  redis.acall('set', KEYS[1], a - ARGV[2])
  redis.acall('set', KEYS[2], b + ARGV[2])
  if redis.call('get', KEYS[1]) ~= tostring(a - ARGV[2]) then return redis.error_reply('stale') end
  return 'done')";
// All that it calls is deferred, unless it looks, so it may begin without locks. ARGV[1] is not
// declared.
constexpr std::string_view kDefersAll = R"(
  local other = #KEYS == 2 and KEYS[2] or ARGV[1]
  if ARGV[3] == 'before' and redis.call('exists', KEYS[1], other) == 0 then return 'gone' end
  redis.acall('decrby', KEYS[1], ARGV[2])
  local paid = redis.apcall('incrby', other, ARGV[2])
  if type(paid) == 'table' and paid.err then  -- in place it has written by now
    redis.acall('incrby', KEYS[1], ARGV[2])
    return 'refused'
  end
  if ARGV[3] == 'after' and redis.call('exists', KEYS[1], other) == 0 then return 'gone' end
  return 'done')";
constexpr std::string_view kSumDeclared = R"(
  local sums = {}
  for i, key in ipairs(KEYS) do sums[i] = redis.call('get', key) end
  return sums)";
constexpr std::string_view kSumUndeclared = R"(
  local sums = {redis.call('get', KEYS[1])}
  for i, key in ipairs(ARGV) do sums[i + 1] = redis.call('get', key) end
  return sums)";
constexpr std::string_view kSumAtOnce = "return redis.call('mget', unpack(ARGV))";
// Others may see some of them counted and others not.
constexpr std::string_view kTally = R"(#!lua flags=disable-atomicity
  for i = 1, #KEYS, 2 do redis.call('incr', KEYS[i]) end
  for i = 2, #KEYS, 2 do redis.acall('incr', KEYS[i]) end
  return 'done')";
// Functions that do what kDeclared and kReadsFirst do.
constexpr const char* kLibrary = R"(#!lua name=bank
  local function pay(from, to, amount)
    if from == to then return 'same' end
    local other = redis.call('get', to)
    redis.call('set', from, redis.call('get', from) - amount)
    redis.call('set', to, other + amount)
    return 'done'
  end
  redis.register_function('pay', function(keys, args) return pay(keys[1], keys[2], args[1]) end)
  redis.register_function('pay_other', function(keys, args)
    return pay(keys[1], args[2], args[1])
  end))";
// Moves the token to KEYS[1], wherever it is.
constexpr std::string_view kToken = R"(
  for i, key in ipairs(ARGV) do
    local found = redis.call('lpop', key)
    if found then redis.call('rpush', KEYS[1], found) return 'moved' end
  end
  return 'lost')";

// They use keys that they do not declare.
constexpr std::array kGoBeyond = {kReadsFirst, kWritesFirst, kPaysTwo, kLooksAround};
constexpr uint64_t kVariants = 4;

class ScriptKeys {
 public:
  explicit ScriptKeys(uint64_t seed) : prefix_(std::to_string(seed)) {}

  std::string Key(const char* family, uint64_t index) const {
    return prefix_ + family + std::to_string(index);
  }
  std::vector<std::string> All(const char* family, uint64_t from = 0) const {
    std::vector<std::string> keys;
    for (uint64_t i = from; i < kKeys; ++i) keys.push_back(Key(family, i));
    return keys;
  }
  // Variants do the same, and are learned about each on its own.
  std::string Source(std::string_view script, uint64_t variant) const {
    return std::string(script) + " -- " + prefix_ + "." + std::to_string(variant);
  }
  std::vector<std::string> Eval(std::string_view script, std::vector<std::string> keys,
                                const std::vector<std::string>& args, uint64_t variant = 0,
                                const char* command = "EVAL") const {
    std::vector<std::string> call = {command, Source(script, variant), std::to_string(keys.size())};
    call.insert(call.end(), keys.begin(), keys.end());
    call.insert(call.end(), args.begin(), args.end());
    return call;
  }

 private:
  const std::string prefix_;
};

std::vector<std::string> With(const char* command, std::vector<std::string> args) {
  args.insert(args.begin(), command);
  return args;
}

std::string SumsUp(const RespValue& reply) {
  int sum = 0;
  for (const RespValue& item : reply.items) sum += std::atoi(item.text.c_str());
  return reply.items.size() == kKeys && sum == 600 ? "" : "the sum is 600";
}
std::string NoError(const RespValue& reply) {
  return reply.kind == ReplyKind::kError ? "no error" : "";
}
std::string Moved(const RespValue& reply) {
  return reply.text == "moved" ? "" : "there is always one";
}

std::unique_ptr<SharedClient> SetUpClient(const ScriptKeys& keys, Random& random) {
  auto client = std::make_unique<SharedClient>();
  std::vector<std::string> set = {"MSET"};
  for (uint64_t i = 0; i < kKeys; ++i) {
    set.push_back(keys.Key("bank", i));
    set.push_back("100");
  }
  client->Add(set, Is("+OK"));
  client->Add({"RPUSH", keys.Key("list", random.Uniform(kKeys)), "token"}, Is(":1"));
  // What was learned about its functions is forgotten.
  client->Add({"FUNCTION", "LOAD", "REPLACE", kLibrary}, NoError);
  // With the same account twice they do nothing.
  const std::string account = keys.Key("bank", 0);
  for (std::string_view script : kGoBeyond) {
    for (uint64_t variant = 1; variant < kVariants; ++variant) {
      for (uint32_t i = 0; i < Script::kWatchedRuns; ++i) {
        client->Add(keys.Eval(script, {account}, {account, "1", account}, variant), NoError);
      }
    }
  }
  return client;
}

std::unique_ptr<SharedClient> RandomClient(const ScriptKeys& keys, Random& random) {
  auto client = std::make_unique<SharedClient>();
  client->leaves = random.OneIn(5);
  const auto account = [&] { return keys.Key("bank", random.Uniform(kKeys)); };
  const auto go_beyond = [&](std::string_view script, const std::string& amount) {
    client->Add(
        keys.Eval(script, {account()}, {account(), amount, account()}, random.Uniform(kVariants)),
        NoError);
  };
  for (uint64_t n = 1 + random.Uniform(16); n > 0; --n) {
    const std::string amount = std::to_string(1 + random.Uniform(50));
    switch (random.Uniform(21)) {
      case 0:
        client->Add(keys.Eval(kDeclared, {account(), account()}, {"", amount}), NoError);
        break;
      case 1:
      case 2:
        go_beyond(kReadsFirst, amount);
        break;
      case 3:
      case 4:
        go_beyond(kWritesFirst, amount);
        break;
      case 5:
      case 6:
        go_beyond(kPaysTwo, amount);
        break;
      case 7:
        go_beyond(kLooksAround, amount);
        break;
      case 8:
        client->Add(keys.Eval(kDefers, {account(), account()}, {"", amount}), NoError);
        break;
      case 14:
      case 15:
      case 16: {
        const std::string other = account();
        const char* const looks = random.OneIn(4) ? "before" : random.OneIn(4) ? "after" : "";
        const std::vector<std::string> used =
            random.OneIn(2) ? std::vector{account()} : std::vector{account(), other};
        client->Add(keys.Eval(kDefersAll, used, {other, amount, looks}, random.Uniform(kVariants)),
                    NoError);
        break;
      }
      case 17:
        client->Add({"FCALL", "pay", "2", account(), account(), amount}, NoError);
        break;
      case 18:
      case 19:
        client->Add({"FCALL", "pay_other", "1", account(), amount, account()}, NoError);
        break;
      case 20:
        client->Add(keys.Eval(kTally, keys.All("tally"), {}), NoError);
        break;
      case 9:
        client->Add(
            keys.Eval(kSumDeclared, keys.All("bank"), {}, 0, random.OneIn(2) ? "EVAL" : "EVAL_RO"),
            SumsUp);
        break;
      case 10:
        if (random.OneIn(2)) {
          client->Add(keys.Eval(kSumUndeclared, {keys.Key("bank", 0)}, keys.All("bank", 1)),
                      SumsUp);
        } else {
          client->Add(keys.Eval(kSumAtOnce, {}, keys.All("bank")), SumsUp);
        }
        break;
      case 11:
        client->Add(With("MGET", keys.All("bank")), SumsUp);
        break;
      case 12:
        if (random.OneIn(2)) {
          client->Add(
              keys.Eval(kToken, {keys.Key("list", random.Uniform(kKeys))}, keys.All("list")),
              Moved);
        } else {
          client->Add(With("EXISTS", keys.All("list")), Is(":1"));
        }
        break;
      default:
        client->Add({"MULTI"}, Is("+OK"));
        client->Add(keys.Eval(kWritesFirst, {account()}, {account(), amount}), Is("+QUEUED"));
        client->Add(With("MGET", keys.All("bank")), Is("+QUEUED"));
        client->Add({"EXEC"}, [](const RespValue& reply) {
          return reply.items.size() == 2 ? SumsUp(reply.items[1]) : "two replies";
        });
    }
  }
  return client;
}

std::unique_ptr<SharedClient> LastClient(const ScriptKeys& keys) {
  auto client = std::make_unique<SharedClient>();
  client->Add(With("MGET", keys.All("bank")), SumsUp);
  client->Add(With("EXISTS", keys.All("list")), Is(":1"));
  client->Add(With("MGET", keys.All("tally")), [](const RespValue& reply) {
    for (const RespValue& item : reply.items) {
      if (item.text != reply.items[0].text) return "all tallies are equal";
    }
    return "";
  });
  client->Add(With("DEL", keys.All("tally")), NoError);
  client->Add(With("DEL", keys.All("bank")), Is(":6"));
  client->Add(With("DEL", keys.All("list")), Is(":1"));
  client->Add({"SCRIPT", "FLUSH"}, Is("+OK"));
  return client;
}

struct Way {
  const char* name;
  ShardReach reach;
  bool singlehop_scripts;
  uint32_t interpreters;
};

class ScriptScheduleTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, ScriptScheduleTest,
                         testing::Values(Way{"by_message", ShardReach::kByMessage, true, 16},
                                         Way{"in_place", ShardReach::kInPlace, true, 16},
                                         Way{"over_shards", ShardReach::kByMessage, false, 16},
                                         Way{"two_states", ShardReach::kInPlace, true, 2},
                                         Way{"one_state", ShardReach::kByMessage, false, 1}),
                         [](const auto& info) { return info.param.name; });

TEST_P(ScriptScheduleTest, ScriptsAreAtomicAndEndWhateverKeysTheyUse) {
  ServerOptions options = TestOptions();
  options.singlehop_scripts = GetParam().singlehop_scripts;
  options.interpreters_per_thread = GetParam().interpreters;
  ScheduledServer server(options, GetParam().reach);
  constexpr uint64_t kSeeds = ByBuild(2000, 200);
  server.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) {
    const ScriptKeys keys(seed);
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    clients.push_back(SetUpClient(keys, random));
    std::string error = server.Drive(std::move(clients), random);
    if (!error.empty()) return error;
    std::vector<std::unique_ptr<ScheduledClient>> several;
    for (uint64_t n = 2 + random.Uniform(4); n > 0; --n) {
      several.push_back(RandomClient(keys, random));
    }
    error = server.Drive(std::move(several), random);
    if (!error.empty()) return error;
    std::vector<std::unique_ptr<ScheduledClient>> last;
    last.push_back(LastClient(keys));
    return server.Drive(std::move(last), random);
  });
  // All the ways were gone.
  ScriptStats stats;
  server.server().state().pool.at(0)->Await([&] { stats = WorkerState::Here().stats.scripts; });
  EXPECT_GT(stats.restarts, 0u);
  EXPECT_GT(stats.global, 0u);
  EXPECT_GT(GetParam().singlehop_scripts ? stats.in_place : stats.across, 0u);
  EXPECT_LT(stats.refused_keys * 20, stats.runs()) << "hardly any is refused";
}

}  // namespace
}  // namespace dfly
