// SPDX-License-Identifier: Apache-2.0
// Dispatch in a whole server within this process: clients that know what each reply has to be,
// against threads, shards, pauses and stops; and the same on one thread with schedules from a seed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "helio/base/clock.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "server/all_parts.h"
#include "server/clients/session.h"
#include "server/dispatch/gates.h"
#include "server/run/server.h"
#include "server/schedules/checked_client.h"
#include "server/schedules/test_options.h"

namespace dfly {
namespace {

using helio::Random;

std::string Bulk(const std::string* text) {
  if (text == nullptr) return "$-1\r\n";
  return "$" + std::to_string(text->size()) + "\r\n" + *text + "\r\n";
}
std::string Integer(size_t value) { return ":" + std::to_string(value) + "\r\n"; }

// Makes commands on keys of its own, and knows their replies.
class Model {
 public:
  Model(Random* random, std::string prefix) : random_(*random), prefix_(std::move(prefix)) {}

  struct Exchange {
    std::string request;
    std::string reply;
  };
  Exchange Next() { return random_.OneIn(12) ? NextTransaction() : NextCommand(); }

 private:
  // MULTI ... EXEC or DISCARD, with or without a command that cannot be queued; sometimes of keys
  // that are watched, and have been changed since or not.
  Exchange NextTransaction() {
    Exchange all;
    bool is_touched = false;
    if (random_.OneIn(2)) {
      const std::string watched = Key();
      all = {Request({"WATCH", watched, Key()}), "+OK\r\n"};
      if (random_.OneIn(3)) {
        auto& value = dbs_[db_][watched];
        value += "w";
        is_touched = true;
        all.request += Request({"APPEND", watched, "w"});
        all.reply += Integer(value.size());
      } else if (random_.OneIn(2)) {
        all.request += Request({"EXISTS", watched});
        all.reply += Integer(dbs_[db_].count(watched));
      }
      if (random_.OneIn(6)) {
        all.request += Request({"UNWATCH"});
        all.reply += "+OK\r\n";
        is_touched = false;
      }
    }
    all.request += Request({"MULTI"});
    all.reply += "+OK\r\n";
    const auto dbs_before = dbs_;
    const auto lists_before = lists_;
    const int db_before = db_;
    // A tag puts all of them into one shard.
    const bool is_one_shard = random_.OneIn(2);
    if (is_one_shard) tag_ = "{" + std::to_string(random_.Uniform(3)) + "}";
    std::string items;
    size_t count = 0;
    bool is_aborted = false;
    for (uint64_t n = random_.Uniform(6); n > 0; --n) {
      const Exchange next = NextCommand();
      all.request += next.request;
      if (next.reply.starts_with("-ERR wrong number")) {
        all.reply += next.reply;
        is_aborted = true;
        continue;
      }
      all.reply += "+QUEUED\r\n";
      items += next.reply;
      ++count;
    }
    tag_.clear();
    const bool is_discarded = random_.OneIn(8);
    all.request += Request({is_discarded ? "DISCARD" : "EXEC"});
    if (is_discarded || is_aborted || is_touched) {
      dbs_ = dbs_before;
      lists_ = lists_before;
      db_ = db_before;
      all.reply += is_discarded ? "+OK\r\n"
                   : is_aborted ? "-EXECABORT Transaction discarded because of previous errors.\r\n"
                                : "*-1\r\n";
    } else {
      all.reply += "*" + std::to_string(count) + "\r\n" + items;
    }
    return all;
  }

  Exchange NextCommand() {
    auto& db = dbs_[db_];
    auto find = [&](const std::string& key) {
      const auto it = db.find(key);
      return it == db.end() ? nullptr : &it->second;
    };
    const std::string key = Key();
    // Those that follow each other are gathered.
    constexpr uint64_t kMget = 8;
    was_mget_ = was_mget_ && !random_.OneIn(4);
    const uint64_t kind = was_mget_ ? kMget : random_.Uniform(21);
    was_mget_ = kind == kMget;
    switch (kind) {
      case 0:
      case 1:
      case 2: {
        const std::string value = std::to_string(++last_value_) +
                                  std::string(random_.OneIn(10) ? random_.Uniform(3000) : 0, '.');
        db[key] = value;
        return {Request({"SET", key, value}), "+OK\r\n"};
      }
      case 3:
      case 4:
      case 5:
        return {Request({"GET", key}), Bulk(find(key))};
      case 6: {
        db[key] += "x";
        return {"append " + key + " \"x\"\r\n", Integer(db[key].size())};
      }
      case 7:
        return {"PING\r\n", "+PONG\r\n"};
      case kMget: {
        std::vector<std::string> args{"MGET"};
        std::string reply;
        const uint64_t count = 1 + random_.Uniform(4);
        for (uint64_t i = 0; i < count; ++i) {
          args.push_back(Key());
          reply += Bulk(find(args.back()));
        }
        return {Request(args), "*" + std::to_string(count) + "\r\n" + reply};
      }
      case 9: {
        std::vector<std::string> args{"MSET"};
        for (uint64_t i = 1 + random_.Uniform(4); i > 0; --i) {
          args.push_back(Key());
          args.push_back(std::to_string(++last_value_));
          db[args[args.size() - 2]] = args.back();
        }
        return {Request(args), "+OK\r\n"};
      }
      case 10: {
        std::vector<std::string> args{"DEL"};
        size_t gone = 0;
        for (uint64_t i = 1 + random_.Uniform(3); i > 0; --i) {
          args.push_back(Key());
          gone += db.erase(args.back());
        }
        return {Request(args), Integer(gone)};
      }
      case 11:
        db_ = static_cast<int>(random_.Uniform(3));
        return {Request({"SELECT", std::to_string(db_)}), "+OK\r\n"};
      case 12:
        return {Request({"GET"}), "-ERR wrong number of arguments for 'get' command\r\n"};
      case 13:
      case 14: {
        const std::string to = Key();
        const bool is_nx = random_.OneIn(2);
        const std::string request = Request({is_nx ? "RENAMENX" : "RENAME", key, to});
        if (find(key) == nullptr) return {request, "-ERR no such key\r\n"};
        if (is_nx && find(to) != nullptr) return {request, ":0\r\n"};
        auto value = db.extract(key);
        db[to] = value.mapped();
        return {request, is_nx ? ":1\r\n" : "+OK\r\n"};
      }
      case 15: {
        const std::string to = Key();
        const int to_db = random_.OneIn(2) ? db_ : static_cast<int>(random_.Uniform(3));
        const std::string request =
            Request({"COPY", key, to, "DB", std::to_string(to_db), "REPLACE"});
        if (to == key && to_db == db_) {
          return {request, "-ERR source and destination objects are the same\r\n"};
        }
        if (find(key) == nullptr) return {request, ":0\r\n"};
        dbs_[to_db][to] = *find(key);
        return {request, ":1\r\n"};
      }
      case 16: {
        const int to_db = (db_ + 1) % 3;
        const std::string request = Request({"MOVE", key, std::to_string(to_db)});
        if (find(key) == nullptr || dbs_[to_db].count(key) != 0) return {request, ":0\r\n"};
        dbs_[to_db].insert(db.extract(key));
        return {request, ":1\r\n"};
      }
      case 17: {
        std::vector<std::string> args{"MSETNX"};
        std::map<std::string, std::string> values;
        for (uint64_t i = 1 + random_.Uniform(3); i > 0; --i) {
          args.push_back(Key());
          args.push_back(std::to_string(++last_value_));
          values[args[args.size() - 2]] = args.back();
        }
        for (const auto& [name, value] : values) {
          if (find(name) != nullptr) return {Request(args), ":0\r\n"};
        }
        db.insert(values.begin(), values.end());
        return {Request(args), ":1\r\n"};
      }
      case 18: {
        const std::string list = ListKey();
        lists_[db_][list].push_back(std::to_string(++last_value_));
        return {Request({"RPUSH", list, lists_[db_][list].back()}),
                Integer(lists_[db_][list].size())};
      }
      case 19: {
        const std::string from = ListKey(), to = ListKey();
        const std::string request = Request({"LMOVE", from, to, "LEFT", "RIGHT"});
        auto& lists = lists_[db_];
        if (lists[from].empty()) return {request, Bulk(nullptr)};
        const std::string text = lists[from].front();
        lists[from].pop_front();
        lists[to].push_back(text);
        return {request, Bulk(&text)};
      }
      case 20: {
        const std::vector<std::string> keys{ListKey(), ListKey(), ListKey()};
        const std::string request = Request({"LMPOP", "3", keys[0], keys[1], keys[2], "RIGHT"});
        for (const std::string& list : keys) {
          auto& texts = lists_[db_][list];
          if (texts.empty()) continue;
          const std::string text = texts.back();
          texts.pop_back();
          return {request, "*2\r\n" + Bulk(&list) + "*1\r\n" + Bulk(&text)};
        }
        return {request, "*-1\r\n"};
      }
      default:
        return {Request({"EXISTS", key}), Integer(find(key) != nullptr)};
    }
  }

  std::string ListKey() { return tag_ + prefix_ + "list" + std::to_string(random_.Uniform(4)); }
  std::string Key() { return tag_ + prefix_ + std::to_string(random_.Uniform(12)); }

  Random& random_;
  const std::string prefix_;
  std::string tag_;
  int db_ = 0;
  uint64_t last_value_ = 0;
  bool was_mget_ = false;
  std::map<int, std::map<std::string, std::string>> dbs_;
  std::map<int, std::map<std::string, std::deque<std::string>>> lists_;
};

struct Param {
  uint32_t threads;
  uint32_t shards;
  bool epoll;
};

class DispatchTest : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_), nullptr);
    StartServer();
  }
  void TearDown() override {
    server_.reset();
    unlink(path_.c_str());
    rmdir(directory_);
  }
  void StartServer() {
    ServerOptions options = TestOptions();
    path_ = std::string(directory_) + "/s.sock";
    options.unix_socket = path_;
    options.threads = GetParam().threads;
    options.num_shards = GetParam().shards;
    options.force_epoll = GetParam().epoll;
    options.limits.reply_bytes_max = kReplyBytesMax;
    options.add_commands = [](CommandTable* table) {
      // Closes its own connection, in the middle of its reply.
      table->Add({.name = "test.close",
                  .session =
                      [](CommandClient& client, Args, ReplySink& reply) {
                        auto& session = static_cast<Session&>(client);
                        reply.Bulk("gone");
                        session.connection.CloseNow();
                        reply.Bulk("gone");
                      },
                  .arity = 1});
      table->Add({.name = "test.long",
                  .session = [](CommandClient&, Args,
                                ReplySink& reply) { reply.Bulk(std::string(kLongSize, 'L')); },
                  .arity = 1});
    };
    server_ = std::make_unique<Server>(options, AllParts());
    ASSERT_EQ(server_->Start(), "");
  }

  static constexpr size_t kReplyBytesMax = 1'000'000;
  static constexpr size_t kLongSize = 50'000;

  int Connect() {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
    return -1;
  }
  static bool Send(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  static std::string Receive(int fd, size_t bytes) {
    std::string out;
    char buffer[16384];
    pollfd entry{fd, POLLIN, 0};
    while (out.size() < bytes && poll(&entry, 1, 60'000) == 1) {
      const ssize_t got = read(fd, buffer, std::min(sizeof(buffer), bytes - out.size()));
      if (got <= 0) break;
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }

  // Pipelines of random commands until `stop`. Returns what went wrong first, or nothing.
  // `may_break`: the server may close the connection at any time, which ends it.
  std::string RunClient(uint64_t seed, int number, const std::atomic<bool>& stop, bool may_break) {
    Random random(seed + static_cast<uint64_t>(number) * 1000);
    for (int generation = 0; !stop; ++generation) {
      Model model(&random, "c" + std::to_string(number) + "g" + std::to_string(generation) + ":");
      const int fd = Connect();
      if (fd < 0) return may_break ? "" : "cannot connect";
      const uint64_t rounds = 1 + random.Uniform(10);
      for (uint64_t round = 0; round < rounds && !stop; ++round) {
        std::string requests, replies;
        for (uint64_t n = random.OneIn(3) ? 1 : 1 + random.Uniform(100); n > 0; --n) {
          const auto [request, reply] = model.Next();
          requests += request;
          replies += reply;
        }
        if (round + 1 == rounds && random.OneIn(3)) {  // goes away in the middle
          Send(fd, requests.substr(0, random.Uniform(requests.size())));
          break;
        }
        if (round + 1 == rounds && random.OneIn(4)) {
          Send(fd, requests + Request({"GET", "x"}) + Request({"TEST.CLOSE"}) + requests);
          Receive(fd, SIZE_MAX);
          break;
        }
        std::string_view rest = requests;
        bool alive = true;
        while (!rest.empty() && alive) {
          const size_t bytes =
              random.OneIn(2) ? rest.size() : std::min(rest.size(), 1 + random.Uniform(200));
          alive = Send(fd, rest.substr(0, bytes));
          rest.remove_prefix(bytes);
        }
        const std::string got = Receive(fd, replies.size());
        if (got == replies) continue;
        close(fd);
        if (may_break && got == replies.substr(0, got.size())) return "";
        return "sent " + requests + "\nexpected " + replies + "\ngot " + got;
      }
      close(fd);
    }
    return "";
  }

  // Runs `count` clients while `meanwhile` runs on this thread.
  template <typename Function>
  void WithClients(int count, bool may_break, Function meanwhile) {
    const uint64_t seed = helio::TestSeed();
    std::atomic<bool> stop{false};
    std::vector<std::string> errors(static_cast<size_t>(count));
    std::vector<std::thread> clients;
    for (int i = 0; i < count; ++i) {
      clients.emplace_back(
          [&, i] { errors[static_cast<size_t>(i)] = RunClient(seed, i, stop, may_break); });
    }
    meanwhile();
    stop = true;
    for (std::thread& client : clients) client.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }

  // Lets the server's own clock pass.
  void Pass(uint64_t millis) {
    server_->state().pool.at(0)->AwaitFiber("pass",
                                            [=] { helio::this_fiber::SleepForMillis(millis); });
  }

  char directory_[32] = "/tmp/dispatch_test_XXXXXX";
  std::string path_;
  std::unique_ptr<Server> server_;
};

INSTANTIATE_TEST_SUITE_P(Servers, DispatchTest,
                         testing::Values(Param{1, 1, false}, Param{2, 2, false}, Param{4, 4, false},
                                         Param{2, 7, false}, Param{1, 1, true}, Param{4, 4, true},
                                         Param{2, 7, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.threads) + "_threads_" +
                                  std::to_string(info.param.shards) + "_shards_" +
                                  (info.param.epoll ? "epoll" : "io_uring");
                         });

TEST_P(DispatchTest, EachReplyIsTheModelsWhateverTheSplitsAndDisconnects) {
  WithClients(4, false, [&] { Pass(400); });
}

TEST_P(DispatchTest, AKeysCommandsKeepTheirOrderAmongThoseOfOtherShards) {
  const int fd = Connect();
  std::string requests, replies;
  const std::string one = "1", two = "2", other = "other";
  for (int i = 0; i < 200; ++i) {
    const std::string key = "k" + std::to_string(i % 5);
    for (const std::string* value : {&one, &two}) {
      requests += Request({"SET", key, *value});
      for (int n = 0; n < 8; ++n) requests += Request({"SET", "o" + std::to_string(n), other});
      requests += Request({"GET", key});
      replies += "+OK\r\n";
      for (int n = 0; n < 8; ++n) replies += "+OK\r\n";
      replies += Bulk(value);
    }
  }
  ASSERT_TRUE(Send(fd, requests));
  EXPECT_EQ(Receive(fd, replies.size()), replies);
  close(fd);
}

// The fiber's end executes the rest of the input; nothing else happens on the connection.
TEST_P(DispatchTest, ASingleCommandBehindAnAcrossShardsOneIsAnswered) {
  const int fd = Connect();
  const std::string request =
      Request({"MGET", "a", "b", "c", "d", "e", "f", "g"}) + Request({"GET", "a"});
  const std::string reply = "*7\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n";
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Send(fd, request));
    ASSERT_EQ(Receive(fd, reply.size()), reply) << i;
  }
  close(fd);
}

TEST_P(DispatchTest, AProtocolErrorComesAfterTheReplyOfASingleCommand) {
  const int fd = Connect();
  ASSERT_TRUE(Send(fd, Request({"GET", "a"}) + "*x\r\n"));
  EXPECT_EQ(Receive(fd, SIZE_MAX), "$-1\r\n-ERR Protocol error: invalid multibulk length\r\n");
  close(fd);
}

TEST_P(DispatchTest, PausesDelayPipelinesAndLoseNothing) {
  WithClients(3, false, [&] {
    for (int i = 0; i < 20; ++i) {
      AwaitOnAll<Gates>(server_->state(), [&](Gates& gates) {
        gates.Pause(helio::UnixMillis() + (i % 4 == 0 ? 60'000 : 5), i % 2 == 0);
      });
      Pass(8);
      AwaitOnAll<Gates>(server_->state(), [](Gates& gates) { gates.Pause(0, false); });
      Pass(4);
    }
  });
}

// Nothing tells how large the replies of other shards will be: small ones raise the expectation.
TEST_P(DispatchTest, LongRepliesOfAnyShardWaitForAClientThatDoesNotRead) {
  constexpr int kKeys = 20;
  const int writer = Connect();
  for (int i = 0; i < kKeys; ++i) {
    const std::string value(kLongSize, static_cast<char>('a' + i));
    ASSERT_TRUE(Send(writer, Request({"SET", "k" + std::to_string(i), value})));
    ASSERT_EQ(Receive(writer, 5), "+OK\r\n");
  }
  close(writer);
  for (const bool of_keys : {true, false}) {
    std::string requests, replies;
    for (int i = 0; i < 1000; ++i) {
      const bool is_large = i > 500 && i % 5 != 0;
      const char fill = !is_large || of_keys ? static_cast<char>('a' + i % kKeys) : 'L';
      const std::string value(kLongSize, fill);
      requests += is_large && !of_keys
                      ? "TEST.LONG\r\n"
                      : Request({"GET", (is_large ? "k" : "none") + std::to_string(i % kKeys)});
      replies += Bulk(is_large ? &value : nullptr);
    }
    for (const bool reads : {true, false}) {
      const int fd = Connect();
      ASSERT_TRUE(Send(fd, requests));
      // Until nothing changes any more: the client's buffer is full.
      size_t unsent = 0, before = 0;
      do {
        before = unsent;
        Pass(50);
        std::atomic<size_t> now{0};
        AwaitOnAll<WorkerState>(server_->state(), [&](WorkerState& worker) {
          worker.ForEachSession([&](Session& s) { now += s.connection.unsent_bytes(); });
        });
        unsent = now;
      } while (unsent == 0 || unsent != before);
      // The command that passes the limit does so by its reply, and so does a batch for each shard.
      EXPECT_LT(unsent, kReplyBytesMax + (GetParam().shards + 1) * (kLongSize + 5000));
      if (reads) {
        EXPECT_TRUE(Receive(fd, replies.size()) == replies);
      }
      close(fd);
    }
  }
}

TEST_P(DispatchTest, StopEndsInTheMiddleOfPipelines) {
  for (int i = 0; i < 20; ++i) {
    WithClients(3, true, [&] {
      Pass(static_cast<uint64_t>(i));
      alarm(60);  // it hangs: the signal ends the test
      server_->Stop();
      alarm(0);
    });
    StartServer();
  }
}

// What MSET writes to keys of several shards is seen as a whole, or not at all; and what a client
// has been told is seen by whoever asks after that.
TEST_P(DispatchTest, AnMSetOverShardsIsSeenAsAWhole) {
  constexpr int kKeys = 6;
  std::atomic<bool> stop{false};
  std::vector<std::string> errors(4);
  std::atomic<int> told{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      const int fd = Connect();
      std::vector<std::string> mget{"MGET"};
      for (int key = 0; key < kKeys; ++key) mget.push_back("w" + std::to_string(key));
      for (int n = 1; !stop; ++n) {
        if (i == 0) {  // the writer
          std::vector<std::string> mset{"MSET"};
          for (int key = 0; key < kKeys; ++key) {
            mset.push_back("w" + std::to_string(key));
            mset.push_back(std::to_string(1'000'000 + n));
          }
          Send(fd, Request(mset));
          if (Receive(fd, 5) != "+OK\r\n") errors[0] = "no OK";
          told = 1'000'000 + n;
        } else {
          const int before = told;
          Send(fd, Request(mget));
          const std::string reply = Receive(fd, 4 + kKeys * 13);
          for (int key = 0; key < kKeys; ++key) {
            const std::string value = reply.substr(4 + static_cast<size_t>(key) * 13, 13);
            if (value != reply.substr(4, 13)) errors[static_cast<size_t>(i)] = reply;
            if (std::atoi(value.c_str() + 4) < before) {
              errors[static_cast<size_t>(i)] = "old: " + reply;
            }
          }
        }
      }
      close(fd);
    });
    while (i == 0 && told == 0) std::this_thread::yield();
  }
  Pass(200);
  stop = true;
  for (std::thread& client : clients) client.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// --- Schedules from a seed: five shards and all connections on one thread ---

class ModelClient final : public ScheduledClient {
 public:
  ModelClient(Random& random, std::string prefix) : model_(&random, std::move(prefix)) {
    leaves = random.OneIn(4);
    for (uint64_t n = 1 + random.Uniform(25); n > 0; --n) {
      auto [request, reply] = model_.Next();
      unsent += request;
      expected_ += reply;
    }
  }
  std::string Check() override {
    if (got == expected_.substr(0, got.size())) return "";
    return "expected " + expected_ + "\ngot " + got;
  }
  size_t missing() const override { return expected_.size() - got.size(); }
  size_t total() const override { return expected_.size(); }

 private:
  Model model_;
  std::string expected_;
};

class ScheduleTest : public testing::TestWithParam<std::tuple<bool, ShardReach>> {};

INSTANTIATE_TEST_SUITE_P(Limits, ScheduleTest,
                         testing::Combine(testing::Bool(), testing::Values(ShardReach::kByMessage,
                                                                           ShardReach::kInPlace)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)
                                                  ? "long_replies_wait"
                                                  : "long_replies_come_at_once") +
                                  (std::get<1>(info.param) == ShardReach::kInPlace ? "_in_place"
                                                                                   : "");
                         });

// With `true` batches come back after a few replies, and go on later.
TEST_P(ScheduleTest, EverySchedulesRepliesAreTheModels) {
  ServerOptions options = TestOptions();
  const auto [has_limit, reach] = GetParam();
  if (has_limit) options.limits.reply_bytes_max = 30'000;
  ScheduledServer server(options, reach);
  constexpr uint64_t kSeeds = ByBuild(10000, 600);
  server.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) {
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (int i = 0; i < 3; ++i) {
      const std::string prefix = std::to_string(seed) + ":" + std::to_string(i);
      clients.push_back(std::make_unique<ModelClient>(random, prefix));
    }
    return server.Drive(std::move(clients), random);
  });
}

class WatchScheduleTest : public testing::TestWithParam<ShardReach> {};

INSTANTIATE_TEST_SUITE_P(Ways, WatchScheduleTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

// Between EXEC and what it does there is time for the end of its connection.
TEST_P(WatchScheduleTest, WatchesEndWithAConnectionWhoseExecNeverRuns) {
  ServerOptions options = TestOptions();
  options.add_commands = [](CommandTable* table) {
    table->Add({.name = "test.close",
                .session = [](CommandClient& client, Args,
                              ReplySink&) { static_cast<Session&>(client).connection.CloseNow(); },
                .arity = 1,
                .flags = kFast | kNotQueued});
  };
  ScheduledServer server(options, GetParam());
  size_t refused = 0;
  server.RunSeeds(200, [&](uint64_t, Random& random) {
    CheckedClient client(server.server());
    bool moved = false;
    client.Add({"WATCH", "k"}, Is("+OK"));
    std::string error;
    while (client.missing() > 0 && error.empty()) {
      error = client.Step(random, &moved, nullptr);
      helio::this_fiber::Yield();
    }
    using Request = std::vector<std::string>;
    for (const Request& request : {Request{"MULTI"}, {"GET", "k"}, {"TEST.CLOSE"}, {"EXEC"}}) {
      client.Add(request, AnyReply);
    }
    while (error.empty()) {
      error = client.Step(random, &moved, nullptr);
      helio::this_fiber::Yield();
    }
    refused += error.starts_with("closed before");
    client.Leave();
    server.AwaitTheEnd();
    return server.WhatIsLeft();
  });
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace dfly
