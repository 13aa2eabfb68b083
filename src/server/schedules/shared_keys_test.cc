// SPDX-License-Identifier: Apache-2.0
// Several clients on the same keys, on schedules from a seed. No model can know the replies, but
// what all the commands leave as it is has to be so in every reply that shows it.
//
//   token   a string, and a list of one element, that RENAME, RENAMENX, LMOVE and RPOPLPUSH move
//           among keys of all shards: whoever looks at all of them sees exactly one
//   group   keys that only MSET, MSETNX and DEL change, all of them at once: they have one value,
//           or none has any
//   pair    two keys that MSET sets to one value and COPY copies to each other: they are equal
//   bank    MSET of all accounts with the same sum
//   coins   moved by what never overwrites, MOVE and RENAMENX: in the end as many as there were
//
// Two databases have one of each, so SWAPDB changes none of that.
#include <functional>
#include <numeric>

#include "server/schedules/shared_client.h"
#include "server/schedules/test_options.h"

namespace dfly {
namespace {

using helio::Random;

constexpr int kKeys = 6;

std::string OneToken(const RespValue& reply) {
  size_t count = 0;
  for (const RespValue& item : reply.items) count += item.text == "token";
  return reply.items.size() == kKeys && count == 1 ? "" : "there is one token";
}

std::string AllEqual(const RespValue& reply) {
  if (reply.kind != ReplyKind::kArray || reply.items.empty()) return "an array";
  for (const RespValue& item : reply.items) {
    if (item != reply.items[0]) return "all are the same";
  }
  return "";
}

std::string SumsUp(const RespValue& reply) {
  int sum = 0;
  for (const RespValue& item : reply.items) sum += std::atoi(item.text.c_str());
  return sum == 600 ? "" : "the sum is 600";
}

// The keys of one seed.
class Keys {
 public:
  Keys(uint64_t seed, bool has_tags) : prefix_(std::to_string(seed)), has_tags_(has_tags) {}

  std::string Key(const char* family, uint64_t index) const {
    if (!has_tags_) return prefix_ + family + std::to_string(index);
    // Some keys share a tag.
    return "{" + prefix_ + family + std::to_string(index % 4) + "}" + std::to_string(index);
  }
  std::vector<std::string> All(const char* command, const char* family, int count = kKeys) const {
    std::vector<std::string> args{command};
    for (int i = 0; i < count; ++i) args.push_back(Key(family, static_cast<uint64_t>(i)));
    return args;
  }
  std::vector<std::string> MSet(const char* family, const std::vector<std::string>& values,
                                const char* command = "MSET") const {
    std::vector<std::string> args{command};
    for (size_t i = 0; i < values.size(); ++i) {
      args.push_back(Key(family, i));
      args.push_back(values[i]);
    }
    return args;
  }
  std::vector<std::string> Bank(Random& random) const {
    std::vector<int> accounts(kKeys, 100);
    for (int i = 0; i < 4; ++i) {
      const int amount = static_cast<int>(random.Uniform(100));
      accounts[random.Uniform(kKeys)] += amount;
      accounts[random.Uniform(kKeys)] -= amount;
    }
    std::vector<std::string> values;
    for (int account : accounts) values.push_back(std::to_string(account));
    return MSet("bank", values);
  }

 private:
  const std::string prefix_;
  const bool has_tags_;
};

std::unique_ptr<SharedClient> SetUpClient(const Keys& keys, Random& random) {
  auto client = std::make_unique<SharedClient>();
  for (const char* db : {"0", "1"}) {
    client->Add({"SELECT", db}, Is("+OK"));
    client->Add({"SET", keys.Key("token", random.Uniform(kKeys)), "token"}, Is("+OK"));
    client->Add({"RPUSH", keys.Key("list", random.Uniform(kKeys)), "token"}, Is(":1"));
    client->Add(keys.MSet("pair", {"v", "v"}), Is("+OK"));
    client->Add(keys.Bank(random), Is("+OK"));
    client->Add({"SET", keys.Key("coin", 0), "coin"}, Is("+OK"));
    client->Add({"SET", keys.Key("coin", 1), "coin"}, Is("+OK"));
  }
  return client;
}

std::unique_ptr<SharedClient> RandomClient(const Keys& keys, Random& random, int number) {
  auto client = std::make_unique<SharedClient>();
  client->leaves = random.OneIn(4);
  const auto key = [&](const char* family) { return keys.Key(family, random.Uniform(kKeys)); };
  const auto one_of = [&](const char* first, const char* second) {
    return std::string(random.OneIn(2) ? first : second);
  };
  const uint64_t family = random.Uniform(12);  // mostly one, for conflicts; 6 and more: of all
  for (uint64_t n = 1 + random.Uniform(25); n > 0; --n) {
    const std::string value = std::to_string(number) + "." + std::to_string(n);
    const bool looks = random.OneIn(2);
    switch (family < 6 ? family : random.Uniform(6)) {
      case 0:
        if (looks) {
          client->Add(keys.All("MGET", "token"), OneToken);
        } else {
          client->Add({one_of("RENAME", "RENAMENX"), key("token"), key("token")}, AnyReply);
        }
        break;
      case 1:
        if (looks) {
          client->Add(keys.All("EXISTS", "list"), Is(":1"));
        } else if (random.OneIn(3)) {
          client->Add({"RPOPLPUSH", key("list"), key("list")}, AnyReply);
        } else if (random.OneIn(2)) {
          client->Add({"RENAME", key("list"), key("list")}, AnyReply);
        } else {
          client->Add({"LMOVE", key("list"), key("list"), one_of("LEFT", "RIGHT"), "LEFT"},
                      AnyReply);
        }
        break;
      case 2:
        if (looks) {
          client->Add(keys.All("MGET", "group"), AllEqual);
        } else if (random.OneIn(3)) {
          client->Add(keys.All("DEL", "group"), [](const RespValue& reply) -> std::string {
            return reply.text == "0" || reply.text == "6" ? "" : "all or none";
          });
        } else {
          const std::string command = one_of("MSET", "MSETNX");
          client->Add(keys.MSet("group", std::vector<std::string>(kKeys, value), command.c_str()),
                      AnyReply);
        }
        break;
      case 3: {
        const uint64_t from = random.Uniform(2);
        if (looks) {
          client->Add(keys.All("MGET", "pair", 2), AllEqual);
        } else if (random.OneIn(3)) {
          client->Add(keys.MSet("pair", {value, value}), Is("+OK"));
        } else {
          client->Add({"COPY", keys.Key("pair", from), keys.Key("pair", 1 - from), "REPLACE"},
                      Is(":1"));
        }
        break;
      }
      case 4:
        if (looks) {
          client->Add(keys.All("MGET", "bank"), SumsUp);
        } else {
          client->Add(keys.Bank(random), Is("+OK"));
        }
        break;
      default:
        if (looks) {
          client->Add({"RENAMENX", key("coin"), key("coin")}, AnyReply);
        } else {
          client->Add({"MOVE", key("coin"), one_of("0", "1")}, AnyReply);
        }
    }
    if (random.OneIn(12)) client->Add({"SELECT", one_of("0", "1")}, Is("+OK"));
    if (random.OneIn(25)) client->Add({"SWAPDB", "1", "0"}, Is("+OK"));
  }
  return client;
}

std::unique_ptr<SharedClient> LastClient(const Keys& keys, size_t* coins) {
  auto client = std::make_unique<SharedClient>();
  const auto count = [coins](const RespValue& reply) {
    *coins += static_cast<size_t>(std::atoi(reply.text.c_str()));
    return std::string();
  };
  for (const char* db : {"0", "1"}) {
    client->Add({"SELECT", db}, Is("+OK"));
    client->Add(keys.All("MGET", "token"), OneToken);
    client->Add(keys.All("EXISTS", "list"), Is(":1"));
    client->Add(keys.All("MGET", "group"), AllEqual);
    client->Add(keys.All("MGET", "pair", 2), AllEqual);
    client->Add(keys.All("MGET", "bank"), SumsUp);
    client->Add(keys.All("EXISTS", "coin"), count);
    for (const char* family : {"token", "list", "group", "pair", "bank", "coin"}) {
      client->Add(keys.All("DEL", family), AnyReply);
    }
  }
  return client;
}

// By how transactions lock, and how the shards are reached.
class SharedKeysTest : public testing::TestWithParam<std::tuple<bool, ShardReach>> {};

INSTANTIATE_TEST_SUITE_P(Ways, SharedKeysTest,
                         testing::Combine(testing::Bool(), testing::Values(ShardReach::kByMessage,
                                                                           ShardReach::kInPlace)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "on_tags" : "on_keys") +
                                  (std::get<1>(info.param) == ShardReach::kInPlace ? "_in_place"
                                                                                   : "");
                         });

TEST_P(SharedKeysTest, EverySchedulesRepliesKeepWhatNobodyChanges) {
  ServerOptions options = TestOptions();
  const auto [has_tags, reach] = GetParam();
  options.tag_rules.locks_tags = has_tags;
  ScheduledServer server(options, reach);
  constexpr uint64_t kSeeds = ByBuild(5000, 1000);
  server.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) {
    const Keys keys(seed, std::get<0>(GetParam()));
    const auto drive = [&](auto... clients) {
      std::vector<std::unique_ptr<ScheduledClient>> all;
      (all.push_back(std::move(clients)), ...);
      return server.Drive(std::move(all), random);
    };
    std::string error = drive(SetUpClient(keys, random));
    if (!error.empty()) return error;
    error = drive(RandomClient(keys, random, 1), RandomClient(keys, random, 2),
                  RandomClient(keys, random, 3), RandomClient(keys, random, 4));
    if (!error.empty()) return error;
    size_t coins = 0;
    error = drive(LastClient(keys, &coins));
    if (error.empty() && coins != 4) error = "coins in the end: " + std::to_string(coins);
    return error;
  });
}

// Or no failure could be seen again.
class ScheduledServerTest : public testing::TestWithParam<ShardReach> {};
INSTANTIATE_TEST_SUITE_P(Ways, ScheduledServerTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(ScheduledServerTest, TheSeedDecidesEachReplyAndWhenItComes) {
  std::string logs[2];
  for (std::string& log : logs) {
    ScheduledServer server(TestOptions(), GetParam());
    server.RunSeeds(30, [&](uint64_t seed, Random& random) {
      const Keys keys(seed, false);
      std::vector<std::unique_ptr<ScheduledClient>> clients;
      clients.push_back(SetUpClient(keys, random));
      std::string error = server.Drive(std::move(clients), random);
      if (!error.empty()) return error;
      std::vector<std::unique_ptr<ScheduledClient>> four;
      for (int i = 0; i < 4; ++i) {
        auto client = RandomClient(keys, random, i);
        client->log = &log;
        four.push_back(std::move(client));
      }
      return server.Drive(std::move(four), random);
    });
  }
  EXPECT_GT(logs[0].size(), 10'000u);
  EXPECT_TRUE(logs[0] == logs[1]);
}

}  // namespace
}  // namespace dfly
