// SPDX-License-Identifier: Apache-2.0
// For tests: clients that wait for keys, and others that fill, move and destroy these, on schedules
// from a seed.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "helio/base/test_seed.h"
#include "server/schedules/checked_client.h"
#include "server/schedules/test_options.h"

namespace dfly {

// How the clients of a test reach what they wait for: whether tags are locked, whether a command of
// one shard waits in one hop, and by message or in place.
using BlockingWays = std::tuple<bool, bool, ShardReach>;

inline auto AllBlockingWays() {
  return testing::Combine(testing::Bool(), testing::Bool(),
                          testing::Values(ShardReach::kByMessage, ShardReach::kInPlace));
}
inline std::string NameOfWays(const testing::TestParamInfo<BlockingWays>& info) {
  return std::string(std::get<0>(info.param) ? "tags" : "keys") +
         (std::get<1>(info.param) ? "_one_hop" : "_general") +
         (std::get<2>(info.param) == ShardReach::kInPlace ? "_in_place" : "");
}

class BlockingSchedules : public testing::TestWithParam<BlockingWays> {
 protected:
  using Client = CheckedClient;
  using Clients = std::vector<std::unique_ptr<Client>>;
  using Words = std::vector<std::string>;
  using Random = helio::Random;
  // A command in an EXEC, with what its reply means.
  using Step = std::pair<Words, ReplyCheck>;

  static constexpr int kKeys = 6;

  static bool has_tags() { return std::get<0>(GetParam()); }
  static bool singlehop() { return std::get<1>(GetParam()); }
  static ShardReach reach() { return std::get<2>(GetParam()); }

  BlockingSchedules() : server_(Options(), reach()) {}

  // A client leaves without the replies to its last requests.
  virtual void OnLeave(Client& client) = 0;

  void BeginSeed(uint64_t seed, Random& random) {
    prefix_ = std::to_string(seed);
    random_ = &random;
    log_.clear();
    bursts_ = random.OneIn(3);
  }

  // Of all shards; with tags two of them share one.
  std::string Key(uint64_t index) const {
    if (!has_tags()) return prefix_ + "q" + std::to_string(index);
    return "{" + prefix_ + "q" + std::to_string(index % 4) + "}" + std::to_string(index);
  }
  std::string AnyKey() { return Key(random_->Uniform(kKeys)); }
  // Keys for one command: often in several shards, sometimes one twice.
  Words SomeKeys() {
    Words keys;
    const uint64_t base = random_->Uniform(kKeys);
    const bool same_tag = random_->OneIn(3);
    for (uint64_t n = 1 + random_->Uniform(4); n > 0; --n) {
      keys.push_back(same_tag ? Key((base + 4 * n) % kKeys) : AnyKey());
    }
    return keys;
  }
  static Words With(Words args, const Words& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static bool StartsWith(const RespValue& reply, std::string_view prefix) {
    return reply.ToString().starts_with(prefix);
  }
  static bool IsNothing(const RespValue& reply) {
    return reply.kind == ReplyKind::kNull || StartsWith(reply, "-UNBLOCKED");
  }

  std::unique_ptr<Client> Connect(std::string name) {
    auto client = std::make_unique<Client>(server_.server());
    client->name = std::move(name);
    return client;
  }
  // For CLIENT UNBLOCK.
  static void AskForId(Client& client) {
    client.Add({"CLIENT", "ID"}, [&id = client.id](const RespValue& reply) {
      id = reply.text;
      return std::string();
    });
  }

  void AddExec(Client& client, const std::vector<Step>& commands) {
    client.Add({"MULTI"}, Is("+OK"));
    for (const auto& [args, check] : commands) client.Add(args, Is("+QUEUED"));
    client.Add({"EXEC"}, [commands](const RespValue& reply) -> std::string {
      if (reply.items.size() != commands.size()) return "one reply each";
      for (size_t i = 0; i < commands.size(); ++i) {
        std::string wrong = commands[i].second(reply.items[i]);
        if (!wrong.empty()) return wrong;
      }
      return "";
    });
  }
  // An EXEC that holds its locks for three hops. `is_right`: what its replies have to be, as nobody
  // may come in between.
  void Hold(Client& client, const Step& first, const Step& last,
            bool (*is_right)(const std::vector<RespValue>& replies)) {
    const auto replies = std::make_shared<std::vector<RespValue>>();
    const auto kept = [replies](const Step& step) {
      return Step(step.first, [replies, check = step.second](const RespValue& reply) {
        replies->push_back(reply);
        return check(reply);
      });
    };
    const Step between({"MGET", prefix_ + "1", prefix_ + "2", prefix_ + "3"}, AnyReply);
    const auto check_all = [last, replies, is_right](const RespValue& reply) {
      const std::string wrong = last.second(reply);
      replies->push_back(reply);
      return wrong.empty() ? Unless(is_right(*replies), "somebody came in between") : wrong;
    };
    AddExec(client, {kept(first), kept(between), {last.first, check_all}});
  }

  // CLIENT UNBLOCK for most of the clients that have asked for their ids; counts those that were.
  void AddUnblocks(Client& controller, const Clients& clients, size_t* unblocked) {
    for (const auto& client : clients) {
      if (client->id.empty() || random_->OneIn(4)) continue;
      const auto count = [unblocked](const RespValue& reply) {
        *unblocked += reply.text == "1";
        return Unless(reply.kind == ReplyKind::kInteger, "0 or 1");
      };
      const Words args{"CLIENT", "UNBLOCK", client->id};
      if (random_->OneIn(3)) {
        controller.Add(args, count);
      } else {
        controller.Add(With(args, {random_->OneIn(2) ? "ERROR" : "TIMEOUT"}), count);
      }
    }
  }

  // Until nothing happens any more: all that is left are clients that wait for keys.
  std::string RunUntilQuiet(Clients& clients) {
    const Worker& worker = Worker::Here();
    for (int quiet = 0, idle = 0; quiet < 40;) {
      // Not last: a timeout between the look at who waits and the check would end a wait.
      for (uint64_t n = random_->Uniform(3); n > 0; --n) helio::this_fiber::Yield();
      bool moved = false;
      for (uint64_t n = bursts_ ? 1 + random_->Uniform(8) : 1; n > 0 && !clients.empty(); --n) {
        auto& client = clients[random_->Uniform(clients.size())];
        const std::string error = client->Step(*random_, &moved, log());
        if (!error.empty()) return error;
        if (client->leaves && random_->OneIn(30)) {
          Log(client->name + " leaves");
          OnLeave(*client);
          moved = true;
        }
        if (client->missing() == 0) {
          std::swap(client, clients.back());
          clients.pop_back();
          moved = true;
        }
      }
      const bool all_sent = std::none_of(clients.begin(), clients.end(),
                                         [](const auto& client) { return client->has_unsent(); });
      const bool at_rest = worker.state().coordinators == worker.blocked_clients() &&
                           Batches::Here().in_flight() == 0;
      quiet = moved || !at_rest || (!all_sent && idle < 2000) ? 0 : quiet + 1;
      idle = moved ? 0 : idle + 1;
      if (idle > (timeouts_ ? 200'000 : 20'000))
        return "something does not end, waiting are " + std::to_string(worker.blocked_clients()) +
               " of " + Describe(clients);
      // Replies are still to be read: of what has run, or of waits that the clock has ended.
      if (clients.size() != worker.blocked_clients()) quiet = 0;
    }
    return CheckQuiet(clients);
  }

  std::string Describe(const Clients& clients) {
    std::string text;
    for (const auto& client : clients) text += client->name + " " + client->asks() + "; ";
    for (ShardId id = 0; id < server_.server().state().shards->size(); ++id) {
      text += "[" + server_.server().state().shards->local(id).transactions().Describe() + "]";
    }
    return text;
  }

  std::string CheckQuiet(const Clients& clients) {
    for (ShardId id = 0; id < server_.server().state().shards->size(); ++id) {
      Shard& shard = server_.server().state().shards->local(id);
      if (!shard.transactions().empty()) return "locks are left: " + Describe(clients);
      if (shard.waiters().CountReady(shard, 1000) > 0) {
        return "somebody waits for a key that is ready: " + Describe(clients);
      }
    }
    return server_.WrongBytes();
  }

  // `client` alone, until its one request waits behind those of `waiting` others.
  std::string RunUntilItWaits(Client& client, size_t waiting) {
    const Worker& worker = Worker::Here();
    std::string error;
    while (error.empty() && (worker.blocked_clients() != waiting + 1 ||
                             worker.state().coordinators != worker.blocked_clients())) {
      bool moved = false;
      error = client.Step(*random_, &moved, log());
      helio::this_fiber::Yield();
    }
    return error;
  }

  // What a seed leaves. `error`: what went wrong in it.
  std::string EndSeed(Clients& clients, std::string error) {
    // Who goes, even on an error, is gone before the next seed.
    clients.clear();
    server_.AwaitTheEnd();
    if (error.empty()) error = server_.WhatIsLeft();
    return error;
  }
  std::string WithLog(const std::string& error) const {
    return error.empty() || !logs() ? error : error + "\n" + log_;
  }

  // The schedules have gone the way that they are for.
  void CheckWays() {
    if (logs()) return;
    WorkerStats stats;
    server_.server().state().pool.at(0)->Await([&] { stats = WorkerState::Here().stats; });
    EXPECT_EQ(stats.blocking_tried > 0, singlehop());
    EXPECT_EQ(stats.blocking_one_hop > 0, singlehop());
    EXPECT_GT(stats.blocking_general, 0u);
  }

  static bool logs() { return helio::IsReplay(); }
  std::string* log() { return logs() ? &log_ : nullptr; }
  void Log(const std::string& line) {
    if (logs()) log_ += line + '\n';
  }

  ScheduledServer server_;
  std::string prefix_;
  Random* random_ = nullptr;
  bool timeouts_ = false;
  bool bursts_ = false;  // what several clients have sent arrives together
  std::string log_;

 private:
  static ServerOptions Options() {
    ServerOptions options = TestOptions();
    options.tag_rules.locks_tags = has_tags();
    options.singlehop_blocking = singlehop();
    return options;
  }
};

}  // namespace dfly
