// SPDX-License-Identifier: Apache-2.0
// Blocking commands on schedules from a seed: producers and consumers share lists of all shards,
// change their type, rename, swap and delete them; consumers wait for some of them, leave, and are
// unblocked.
//
//   elements   each has a name of its own. In the end it was received once, or is in a list, or an
//              EXEC has destroyed it (LRANGE and what destroys, in one); those that left may have
//              taken as many as they had asked for and not more
//   quiet      when nothing happens, nobody waits for a key that is a list
//   order      who waits first is served first (BlockingOrderTest)
//   nothing    is left in the end: no locks, no waiters, no coordinators
#include <functional>
#include <map>
#include <set>

#include "server/schedules/blocking_harness.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;

// What has become of the elements of one seed.
struct Ledger {
  std::map<std::string, int> pushed;  // and how often it was seen since
  size_t may_be_lost = 0;             // with clients that have left
  bool may_destroy = false;           // commands that do not tell what they destroy
  size_t nothing = 0;                 // replies to blocking commands that have got nothing
  size_t unblocked = 0;               // that CLIENT UNBLOCK has counted

  void Push(const Words& elements) {
    for (const std::string& element : elements) pushed.emplace(element, 0);
  }
  void See(const RespValue& element) { ++pushed[element.text]; }
  void SeeAll(const RespValue& array) {
    for (const RespValue& element : array.items) See(element);
  }
};

class BlockingScheduleTest : public BlockingSchedules {
 protected:
  void Begin(uint64_t seed, Random& random) {
    BeginSeed(seed, random);
    ledger_ = Ledger();
    next_element_ = 0;
  }
  void OnLeave(Client& client) override { ledger_.may_be_lost += client.Leave(); }

  Words Elements(uint64_t most) {
    Words elements;
    for (uint64_t n = 1 + random_->Uniform(most); n > 0; --n) {
      elements.push_back("e" + std::to_string(next_element_++));
    }
    return elements;
  }
  // --- What a producer does ---

  void Push(Client& client, const std::string& key) {
    const Words elements = Elements(3);
    client.Add(With({random_->OneIn(2) ? "RPUSH" : "LPUSH", key}, elements), Pushed(elements));
  }
  ReplyCheck Pushed(const Words& elements) {
    return [this, elements](const RespValue& reply) {
      if (reply.kind == ReplyKind::kInteger) ledger_.Push(elements);
      return Unless(reply.kind == ReplyKind::kInteger || StartsWith(reply, "-WRONGTYPE"), "pushed");
    };
  }
  ReplyCheck SeesAll() {
    return [this](const RespValue& reply) {
      if (reply.kind == ReplyKind::kArray) ledger_.SeeAll(reply);
      return Unless(reply.kind == ReplyKind::kArray || StartsWith(reply, "-WRONGTYPE"), "a list");
    };
  }
  ReplyCheck SeesOne() {
    return [this](const RespValue& reply) {
      if (reply.kind == ReplyKind::kBulk) ledger_.See(reply);
      return std::string();
    };
  }
  // What destroys `key`, after telling what that was. `then`: at once after it.
  void Destroy(Client& client, const std::string& key, const Words& how,
               const Words& then = {"PING"}) {
    if (then.front() == "PING" && random_->OneIn(8)) {
      ledger_.may_destroy = true;
      client.Add(how, AnyReply);
      return;
    }
    const auto list = std::make_shared<RespValue>();
    AddExec(client, {{{"LRANGE", key, "0", "-1"},
                      [list](const RespValue& reply) {
                        *list = reply;
                        return std::string();
                      }},
                     {how,
                      [this, list](const RespValue& reply) {
                        const bool is_done = reply.kind != ReplyKind::kError && reply.text != "0";
                        if (is_done) ledger_.SeeAll(*list);
                        return std::string();
                      }},
                     {then, AnyReply}});
  }

  void Produce(Client& client) {
    const std::string key = AnyKey();
    const std::string own = key + client.name;  // in the same shard if there are tags
    const auto push = [&](const std::string& where) {
      const Words elements = Elements(2);
      return std::pair(With({"RPUSH", where}, elements), Pushed(elements));
    };
    const auto push_own = [&] {
      const auto [args, check] = push(own);
      client.Add(args, check);
    };
    switch (random_->Uniform(16)) {
      default:
        return Push(client, key);
      case 12:
        return Hold(client, push(key), {{"LPOP", key}, SeesOne()}, [](const auto& replies) {
          return replies[0].kind == ReplyKind::kError || replies[2].kind == ReplyKind::kBulk;
        });
      case 13:
        return Hold(client, {{"LRANGE", key, "0", "-1"}, AnyReply},
                    {{"LRANGE", key, "0", "-1"}, AnyReply},
                    [](const auto& replies) { return replies[0] == replies[2]; });
      case 0:
        return AddExec(client, {push(key), {{"SET", own + "s", "v"}, Is("+OK")}});
      case 1:
        return AddExec(client, {push(key), push(AnyKey())});
      case 2:
        return AddExec(client, {push(key), {{"LPOP", key}, SeesOne()}});
      case 3:
        push_own();
        return Destroy(client, key, {"RENAME", own, key});
      case 4:
        push_own();
        return client.Add({"LMOVE", own, key, "LEFT", "RIGHT"}, AnyReply);
      case 5:
        push_own();
        return client.Add({"RENAMENX", own, key}, AnyReply);
      case 6:
        push_own();
        return Destroy(client, key, {"COPY", own, key, "REPLACE"}, {"DEL", own});
      case 7:
        return Destroy(client, key, {"DEL", key});
      case 8:
        Destroy(client, key, {"SET", key, "a string"});
        if (random_->OneIn(2)) Push(client, key);
        return Destroy(client, key, {"DEL", key});
      case 9:
        client.Add({"SELECT", "1"}, Is("+OK"));
        Push(client, key);
        client.Add({"MOVE", key, "0"}, AnyReply);
        return client.Add({"SELECT", "0"}, Is("+OK"));
      case 10:
        if (!random_->OneIn(3)) return Push(client, key);
        client.Add({"SELECT", random_->OneIn(2) ? "1" : "0"}, Is("+OK"));
        Push(client, key);
        client.Add({"SWAPDB", "0", "1"}, Is("+OK"));
        return client.Add({"SELECT", "0"}, Is("+OK"));
      case 11:
        return client.Add({"LPOP", key}, SeesOne(), 1);
    }
  }

  // --- What a consumer does ---

  void Consume(Client& client) {
    const Words keys = SomeKeys();
    const char* timeout = timeouts_ ? (random_->OneIn(2) ? "0.001" : "0.002") : "0";
    const char* end = random_->OneIn(2) ? "LEFT" : "RIGHT";
    const auto is_key = [keys](const RespValue& name) {
      return std::find(keys.begin(), keys.end(), name.text) != keys.end();
    };
    const auto refused = [this](const RespValue& reply) {
      if (IsNothing(reply)) ++ledger_.nothing;
      return IsNothing(reply) || StartsWith(reply, "-WRONGTYPE");
    };
    switch (random_->Uniform(4)) {
      default:
        return client.Add(
            With(With({*end == 'L' ? "BLPOP" : "BRPOP"}, keys), {timeout}),
            [=, this](const RespValue& reply) -> std::string {
              if (refused(reply)) return "";
              if (reply.items.size() != 2 || !is_key(reply.items[0])) return "a key and an element";
              ledger_.See(reply.items[1]);
              return "";
            },
            1);
      case 0: {
        const size_t count = 1 + random_->Uniform(3);
        const Words head{"BLMPOP", timeout, std::to_string(keys.size())};
        return client.Add(
            With(With(head, keys), {end, "COUNT", std::to_string(count)}),
            [=, this](const RespValue& reply) -> std::string {
              if (refused(reply)) return "";
              if (reply.items.size() != 2 || !is_key(reply.items[0]) ||
                  reply.items[1].items.empty() || reply.items[1].items.size() > count) {
                return "a key and elements";
              }
              ledger_.SeeAll(reply.items[1]);
              return "";
            },
            count);
      }
      case 1: {
        // It stays in a list.
        const auto check = [=](const RespValue& reply) {
          return Unless(refused(reply) || reply.kind == ReplyKind::kBulk, "an element");
        };
        if (random_->OneIn(2)) {
          return client.Add({"BRPOPLPUSH", keys.front(), AnyKey(), timeout}, check);
        }
        if (random_->OneIn(3)) {
          const uint64_t count = 1 + random_->Uniform(3);
          const auto check_many = [=](const RespValue& reply) {
            return Unless(refused(reply) || (!reply.items.empty() && reply.items.size() <= count),
                          "elements");
          };
          return client.Add({"BLMOVEM", keys.front(), AnyKey(), end, "LEFT", timeout,
                             random_->OneIn(2) ? "COUNT" : "EXACTLY", std::to_string(count),
                             random_->OneIn(2) ? "OBO" : "BULK"},
                            check_many);
        }
        return client.Add({"BLMOVE", keys.front(), AnyKey(), end, "LEFT", timeout}, check);
      }
    }
  }

  std::unique_ptr<Client> Consumer(int number) {
    auto client = Connect("c" + std::to_string(number));
    client->leaves = random_->OneIn(5);
    AskForId(*client);
    for (uint64_t n = 1 + random_->Uniform(6); n > 0; --n) {
      const std::string text = client->name + "." + std::to_string(n);
      if (random_->OneIn(3)) client->Add({"ECHO", text}, Is('"' + text + '"'));
      if (random_->OneIn(6)) client->Add({"SET", prefix_ + text, text}, Is("+OK"));
      Consume(*client);
      if (random_->OneIn(4)) client->Add({"GET", "absent" + text}, Is("(nil)"));
    }
    return client;
  }

  // --- A seed ---

  std::string Unblock(Clients& clients) {
    auto controller = Connect("controller");
    AddUnblocks(*controller, clients, &ledger_.unblocked);
    if (random_->OneIn(2)) Push(*controller, AnyKey());
    clients.push_back(std::move(controller));
    return RunUntilQuiet(clients);
  }

  std::string RunSeed(uint64_t seed, Random& random) {
    Begin(seed, random);
    Clients clients;
    bool has_leavers = false;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(Consumer(i));
      has_leavers |= clients.back()->leaves;
    }
    for (int i = 0; i < 2; ++i) {
      clients.push_back(Connect("p" + std::to_string(i)));
      for (uint64_t n = 1 + random.Uniform(8); n > 0; --n) Produce(*clients.back());
    }
    std::string error = RunUntilQuiet(clients);
    while (!clients.empty() && error.empty()) error = Unblock(clients);
    if (error.empty()) error = Settle(clients);
    error = EndSeed(clients, std::move(error));
    if (error.empty() && !timeouts_ && !has_leavers && ledger_.nothing != ledger_.unblocked) {
      error = std::to_string(ledger_.unblocked) + " were unblocked, " +
              std::to_string(ledger_.nothing) + " got nothing";
    }
    return WithLog(error);
  }

  // Where all the elements are.
  std::string Settle(Clients& clients) {
    auto client = Connect("last");
    for (const char* db : {"0", "1"}) {
      client->Add({"SELECT", db}, Is("+OK"));
      for (uint64_t i = 0; i < kKeys; ++i) {
        for (const char* suffix : {"", "p0", "p1"}) {
          client->Add({"LRANGE", Key(i) + suffix, "0", "-1"}, SeesAll());
          client->Add({"DEL", Key(i) + suffix}, AnyReply);
        }
      }
    }
    clients.push_back(std::move(client));
    std::string error = RunUntilQuiet(clients);
    if (!error.empty()) return error;
    size_t lost = 0;
    for (const auto& [element, seen] : ledger_.pushed) {
      if (seen > 1) return element + " was received " + std::to_string(seen) + " times";
      lost += seen == 0;
    }
    if (lost > ledger_.may_be_lost && !ledger_.may_destroy) {
      return std::to_string(lost) + " elements are lost, of " +
             std::to_string(ledger_.may_be_lost) + " that could be";
    }
    return "";
  }

  Ledger ledger_;
  uint64_t next_element_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ways, BlockingScheduleTest, AllBlockingWays(), NameOfWays);

constexpr uint64_t kSeeds = ByBuild(1500, 200);

TEST_P(BlockingScheduleTest, NoElementIsLostOrReceivedTwiceAndNobodyIsForgotten) {
  server_.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) { return RunSeed(seed, random); });
  CheckWays();
}

// Their ends depend on the clock, so a seed may pass the next time.
TEST_P(BlockingScheduleTest, TimeoutsLoseNothing) {
  timeouts_ = true;
  server_.RunSeeds(kSeeds / 10,
                   [&](uint64_t seed, Random& random) { return RunSeed(seed, random); });
}

// Clients that come one after the other wait for one list, in all the ways there are. Some leave.
// Elements come in all the ways there are, one by one or many at a time: each goes to the next.
// Others come late: they are served last, though transactions may stand in between. (Not if there
// is a BLMOVE, which goes behind transactions itself.)
TEST_P(BlockingScheduleTest, WhoWaitsFirstIsServedFirst) {
  server_.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) {
    Begin(seed, random);
    const std::string key = AnyKey();
    const bool moves = random.OneIn(2);
    Clients waiters, leavers;
    std::string error;
    std::vector<std::string> got;  // the elements in the order of who waits for them
    for (int i = 0; i < 6 && error.empty(); ++i) {
      auto client = Connect("w" + std::to_string(i));
      const bool leaves = random.OneIn(4);
      const size_t at = got.size();
      if (!leaves) got.emplace_back();
      const auto take = [&got, at, leaves](const RespValue& element) {
        if (leaves || !got[at].empty()) return "it is not this one's turn";
        got[at] = element.text;
        return "";
      };
      const auto pop = [=](const RespValue& reply) -> std::string {
        if (reply.items.size() != 2) return "a key and an element";
        const RespValue& last = reply.items[1];
        return take(last.kind == ReplyKind::kArray ? last.items[0] : last);
      };
      switch (random.Uniform(moves ? 5 : 3)) {
        case 0:
          client->Add({"BLPOP", key, "0"}, pop);
          break;
        case 1:
          client->Add({"BLPOP", prefix_ + "a", key, key, prefix_ + "b", "0"}, pop);
          break;
        case 2:
          client->Add({"BLMPOP", "0", "2", prefix_ + "a", key, "LEFT"}, pop);
          break;
        case 3:
          client->Add({"BLMOVE", key, key + "t", "LEFT", "LEFT", "0"}, take);
          break;
        case 4:
          client->Add({"BLMOVE", key, "{" + key + "}t", "LEFT", "LEFT", "0"}, take);
      }
      // It has to stand in the queue before the next one comes.
      error = RunUntilItWaits(*client, waiters.size() + leavers.size());
      (leaves ? leavers : waiters).push_back(std::move(client));
    }
    leavers.clear();
    while (Worker::Here().blocked_clients() != waiters.size()) helio::this_fiber::Yield();

    size_t count = waiters.size();
    waiters.push_back(Connect("producer"));
    Client& producer = *waiters.back();
    for (uint64_t n = moves ? 0 : random.Uniform(3); n > 0; --n, ++count) {
      waiters.push_back(Connect("late"));
      waiters.back()->Add({"BLPOP", prefix_ + "a", key, prefix_ + "b", "0"}, AnyReply);
    }
    const std::string own = random.OneIn(2) ? "{" + key + "}own" : key + "own";
    for (size_t next = 0; next < count;) {
      const auto name = [&] { return "e" + std::to_string(next++); };
      switch (random.Uniform(7)) {
        case 0:
          producer.Add({"RPUSH", key, name()}, AnyReply);
          break;
        case 1: {
          const std::string first = name();
          producer.Add({"RPUSH", key, first, name()}, AnyReply);
          break;
        }
        case 2:
          AddExec(producer, {{{"RPUSH", key, name()}, AnyReply},
                             {{"SET", own, "v"}, AnyReply},
                             {{"DEL", own}, AnyReply}});
          break;
        case 3:
          producer.Add({"RPUSH", own, name()}, AnyReply);
          producer.Add({"LMOVE", own, key, "LEFT", "RIGHT"}, AnyReply);
          break;
        case 4: {
          // Appends, whatever is there already.
          const std::string first = name();
          AddExec(producer,
                  {{{"RPUSH", key, first}, AnyReply}, {{"RPUSH", key, name()}, AnyReply}});
          break;
        }
        case 5:
          AddExec(producer, {{{"RPUSH", key, "x"}, AnyReply}, {{"RPOP", key}, AnyReply}});
          break;
        case 6:
          AddExec(producer, {{{"LPUSH", own, name()}, AnyReply},
                             {{"LMOVE", own, key, "LEFT", "RIGHT"}, AnyReply}});
      }
    }
    if (error.empty()) error = RunUntilQuiet(waiters);
    for (size_t i = 0; i < got.size() && error.empty(); ++i) {
      if (got[i] != "e" + std::to_string(i)) {
        error = "number " + std::to_string(i) + " has got " + got[i];
      }
    }
    waiters.clear();
    server_.AwaitTheEnd();
    Clients last;
    last.push_back(Connect("last"));
    last[0]->Add({"DEL", key, key + "t", "{" + key + "}t", own}, AnyReply);
    if (error.empty()) error = RunUntilQuiet(last);
    error = EndSeed(last, std::move(error));
    return WithLog(error);
  });
}

}  // namespace
}  // namespace dfly
