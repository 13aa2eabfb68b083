// SPDX-License-Identifier: Apache-2.0
// Clients that cache what they read, and others that change it, on schedules from a seed:
//
//   cache   when nothing happens any more, what a client still has in its cache is what the server
//           has, in whatever mode it tracks and by whatever command it read
//   table   when nobody tracks any more, nothing is noted
#include <fmt/format.h>

#include <deque>
#include <functional>
#include <map>
#include <set>

#include "facade/replies/resp_reader.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using helio::Random;
using Words = std::vector<std::string>;

constexpr uint64_t kKeys = 8;

enum class Mode { kDefault, kOptIn, kOptOut, kNoLoop, kBroadcast, kBroadcastNoLoop, kOff };
constexpr uint64_t kModes = 7;

// Speaks RESP3; looks at its replies, and at messages between them, as they come.
class Client {
 public:
  Client(Server& server, std::string name) : name_(std::move(name)) {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fd_ = fds[0];
    server.OnAccept(fds[1]);
    Ask({"HELLO", "3"});
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  using ReplyFn = std::function<void(const RespValue&)>;
  void Ask(const Words& args, ReplyFn on_reply = nullptr) {
    unsent_ += Request(args);
    asked_.push_back({args[0], std::move(on_reply)});
  }

  // Sends and reads some. True: anything came or went.
  bool Step(Random& random) {
    bool moved = false;
    if (!unsent_.empty()) {
      const size_t most = random.OneIn(2) ? unsent_.size() : 40;
      const size_t bytes = 1 + random.Uniform(std::min(most, unsent_.size()));
      const ssize_t sent = send(fd_, unsent_.data(), bytes, MSG_NOSIGNAL);
      if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
      moved |= sent > 0;
    }
    char buffer[4096];
    const ssize_t got = read(fd_, buffer, sizeof(buffer));
    if (got > 0) got_.append(buffer, static_cast<size_t>(got));
    moved |= got > 0;
    if (got == 0) error_ = "closed";
    RespValue value;
    while (const size_t bytes = ReadRespValue(got_, &value)) {
      got_.erase(0, bytes);
      Take(value);
    }
    return moved;
  }
  bool is_done() const { return asked_.empty() && unsent_.empty(); }
  const std::string& error() const { return error_; }

  // --- Its cache ---

  void Begin(Mode mode) {
    mode_ = mode;
    cache_.clear();
    if (mode == Mode::kOff) return Ask({"CLIENT", "TRACKING", "OFF"}, [this](auto&) { Clear(); });
    Words args = {"CLIENT", "TRACKING", "ON"};
    if (mode == Mode::kOptIn) args.emplace_back("OPTIN");
    if (mode == Mode::kOptOut) args.emplace_back("OPTOUT");
    if (is_broadcast()) args.insert(args.end(), {"BCAST", "PREFIX", "k", "PREFIX", "other"});
    if (has_no_loop()) args.emplace_back("NOLOOP");
    Ask(args);
  }
  // Who changes to another mode has to be without one in between.
  void End() {
    Ask({"CLIENT", "TRACKING", "OFF"}, [this](auto&) { Clear(); });
    mode_ = Mode::kOff;
  }
  Mode mode() const { return mode_; }
  bool is_broadcast() const { return mode_ == Mode::kBroadcast || mode_ == Mode::kBroadcastNoLoop; }
  bool has_no_loop() const { return mode_ == Mode::kNoLoop || mode_ == Mode::kBroadcastNoLoop; }

  // Reads `keys` by `args`, whose reply is their values or has them in `at`.
  void Read(const Words& args, const Words& keys, bool is_kept,
            std::function<std::vector<RespValue>(const RespValue&)> values_of) {
    const uint64_t epoch = epoch_;
    Ask(args, [this, keys, is_kept, epoch, values_of](const RespValue& reply) {
      if (!is_kept || epoch != epoch_) return;
      const std::vector<RespValue> values = values_of(reply);
      for (size_t i = 0; i < keys.size() && i < values.size(); ++i) {
        if (values[i].kind == ReplyKind::kError) continue;  // of another type
        cache_[keys[i]] = values[i].ToString();
        ++kept_;
      }
    });
  }
  // It changes them itself, and hears of that only without NOLOOP.
  void Write(const Words& args, const Words& keys) {
    const bool forgets = has_no_loop();
    Ask(args, [this, forgets, keys](const RespValue&) {
      if (!forgets) return;
      for (const std::string& key : keys) cache_.erase(key);
    });
  }

  // What is cached and not as it is, or nothing.
  std::string FindStale(const std::map<std::string, std::string>& now) const {
    for (const auto& [key, value] : cache_) {
      const auto it = now.find(key);
      if (it != now.end() && it->second == value) continue;
      return fmt::format("{} (mode {}) has {} = {}, it is {}", name_, static_cast<int>(mode_), key,
                         value, it == now.end() ? "not known" : it->second);
    }
    return "";
  }
  size_t cached() const { return cache_.size(); }
  uint64_t kept() const { return kept_; }
  uint64_t told() const { return told_; }

 private:
  struct Asked {
    std::string name;
    ReplyFn on_reply;
  };

  void Clear() {
    ++epoch_;
    cache_.clear();
  }
  void Take(const RespValue& value) {
    if (value.kind == ReplyKind::kPush) {
      if (value.items.size() != 2 || value.items[0].text != "invalidate") {
        error_ = "not an invalidation: " + value.ToString();
        return;
      }
      ++told_;
      if (value.items[1].kind == ReplyKind::kNull) return cache_.clear();
      for (const RespValue& key : value.items[1].items) cache_.erase(key.text);
      return;
    }
    if (asked_.empty()) {
      error_ = "nobody has asked for " + value.ToString();
      return;
    }
    const Asked asked = std::move(asked_.front());
    asked_.pop_front();
    if (asked.on_reply) asked.on_reply(value);
  }

  int fd_;
  const std::string name_;
  std::string unsent_;
  std::string got_;
  std::string error_;
  std::deque<Asked> asked_;
  Mode mode_ = Mode::kOff;
  uint64_t epoch_ = 0;  // replies of an earlier one are not kept
  std::map<std::string, std::string> cache_;
  uint64_t kept_ = 0;
  uint64_t told_ = 0;
};

class TrackingScheduleTest : public testing::TestWithParam<ShardReach> {
 protected:
  TrackingScheduleTest() : server_(TestOptions(), GetParam()) {}

  std::string AnyKey() { return fmt::format("k{}", random_->Uniform(kKeys)); }
  std::string NextValue() { return fmt::format("v{}", ++value_); }

  void Read(Client& client) {
    bool is_kept = client.mode() != Mode::kOff;
    if (client.mode() == Mode::kOptIn) {
      is_kept = random_->OneIn(2);
      if (is_kept) client.Ask({"CLIENT", "CACHING", "YES"});
    } else if (client.mode() == Mode::kOptOut && random_->OneIn(3)) {
      is_kept = false;
      client.Ask({"CLIENT", "CACHING", "NO"});
    }
    const auto itself = [](const RespValue& reply) { return std::vector<RespValue>{reply}; };
    const auto items = [](const RespValue& reply) { return reply.items; };
    const std::string a = AnyKey();
    const std::string b = AnyKey();
    switch (random_->Uniform(5)) {
      default:
        return client.Read({"GET", a}, {a}, is_kept, itself);
      case 1:
        // As nil it tells of another type, too.
        return client.Read({"MGET", a, b}, {a, b}, false, items);
      case 2:
        client.Ask({"MULTI"});
        client.Ask({"GET", a});
        client.Ask({"GET", b});
        return client.Read({"EXEC"}, {a, b}, is_kept, items);
      case 3:
        return client.Read({"EVAL", "return redis.pcall('GET', KEYS[1])", "1", a}, {a}, is_kept,
                           itself);
      case 4:
        return client.Read(
            {"EVAL", "return {redis.pcall('GET', KEYS[1]), redis.pcall('GET', KEYS[2])}", "2", a,
             b},
            {a}, is_kept, items);
    }
  }

  void Write(Client& client) {
    const std::string a = AnyKey();
    const std::string b = AnyKey();
    switch (random_->Uniform(13)) {
      default:
        return client.Write({"SET", a, NextValue()}, {a});
      case 1:
        return client.Write({"DEL", a, b}, {a, b});
      case 2:
        return client.Write({"APPEND", a, "x"}, {a});
      case 3:
        return client.Write({"MSET", a, NextValue(), b, NextValue()}, {a, b});
      case 4:
        client.Ask({"MULTI"});
        client.Ask({"SET", a, NextValue()});
        client.Ask({"DEL", b});
        return client.Write({"EXEC"}, {a, b});
      case 5:
        return client.Write({"EVAL", "redis.call('SET', KEYS[1], ARGV[1])", "1", a, NextValue()},
                            {a});
      case 6:
        return client.Write(
            {"EVAL", "redis.call('SET', KEYS[1], ARGV[1]) redis.call('DEL', KEYS[2])", "2", a, b,
             NextValue()},
            {a, b});
      case 7:
        return client.Write({"RENAME", a, b}, {a, b});
      case 8:
        return client.Write({"LPUSH", a, "x"}, {a});
      case 9:
        return client.Write({"BLMOVE", a, b, "LEFT", "RIGHT", "0.001"}, {a, b});
      case 10: {
        Words all;
        for (uint64_t i = 0; i < kKeys; ++i) all.push_back(fmt::format("k{}", i));
        if (!random_->OneIn(8)) return client.Write({"GETDEL", a}, {a});
        return client.Write({"FLUSHALL"}, all);
      }
    }
  }

  // Until all is answered, and nothing is on its way to anybody.
  std::string RunUntilQuiet(std::vector<std::unique_ptr<Client>>& clients) {
    const Worker& worker = Worker::Here();
    for (int quiet = 0, idle = 0; quiet < 100;) {
      bool moved = false;
      for (uint64_t n = 1 + random_->Uniform(4); n > 0; --n) {
        Client& client = *clients[random_->Uniform(clients.size())];
        moved |= client.Step(*random_);
        if (!client.error().empty()) return client.error();
      }
      for (uint64_t n = random_->Uniform(3); n > 0; --n) helio::this_fiber::Yield();
      const bool all_done = std::all_of(clients.begin(), clients.end(),
                                        [](const auto& client) { return client->is_done(); });
      const bool at_rest = worker.state().coordinators == 0 && Batches::Here().in_flight() == 0;
      quiet = moved || !all_done || !at_rest ? 0 : quiet + 1;
      idle = moved ? 0 : idle + 1;
      if (idle > 200'000) return "something does not end";
    }
    return "";
  }

  std::string RunSeed(Random& random) {
    random_ = &random;
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(std::make_unique<Client>(server_.server(), fmt::format("client {}", i)));
      clients.back()->Begin(static_cast<Mode>(random.Uniform(kModes)));
    }
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 60; ++i) {
        Client& client = *clients[random.Uniform(clients.size())];
        if (random.OneIn(40)) {
          client.End();
          client.Begin(static_cast<Mode>(random.Uniform(kModes)));
        }
        random.OneIn(2) ? Read(client) : Write(client);
        if (random.OneIn(3)) client.Step(random);
        if (random.OneIn(3)) helio::this_fiber::Yield();
        if (random.OneIn(80)) {  // somebody goes, whatever is on its way to him
          auto& leaves = clients[random.Uniform(clients.size())];
          leaves = std::make_unique<Client>(server_.server(), fmt::format("client {} later", i));
          leaves->Begin(static_cast<Mode>(random.Uniform(kModes)));
        }
      }
      std::string error = RunUntilQuiet(clients);
      if (error.empty()) error = FindStale(clients);
      if (!error.empty()) return error;
    }
    for (const auto& client : clients) {
      kept_ += client->kept();
      told_ += client->told();
      still_cached_ += client->cached();
    }
    clients.clear();
    server_.AwaitTheEnd();
    const TrackingCounts counts = Tracking::Here().counts();
    if (counts.keys + counts.items + counts.prefixes != 0) return "the table keeps what it noted";
    return server_.WhatIsLeft();
  }

  // Against what an observer sees, who tracks nothing.
  std::string FindStale(const std::vector<std::unique_ptr<Client>>& clients) {
    std::map<std::string, std::string> now;
    std::vector<std::unique_ptr<Client>> observers;
    observers.push_back(std::make_unique<Client>(server_.server(), "observer"));
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string key = fmt::format("k{}", i);
      observers[0]->Ask({"GET", key},
                        [&now, key](const RespValue& reply) { now[key] = reply.ToString(); });
    }
    std::string error = RunUntilQuiet(observers);
    for (const auto& client : clients) {
      if (error.empty()) error = client->FindStale(now);
    }
    return error;
  }

  ScheduledServer server_;
  Random* random_ = nullptr;
  uint64_t value_ = 0;
  uint64_t kept_ = 0;
  uint64_t told_ = 0;
  uint64_t still_cached_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ways, TrackingScheduleTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(TrackingScheduleTest, WhatIsCachedIsWhatIsThere) {
  const uint64_t seeds = ByBuild(400, 40);
  server_.RunSeeds(seeds, [&](uint64_t, Random& random) { return RunSeed(random); });
  if (helio::IsReplay()) return;
  // Something was cached at the end, and something else was told of.
  EXPECT_GT(kept_, 10 * seeds);
  EXPECT_GT(told_, 5 * seeds);
  EXPECT_GT(still_cached_, seeds);
}

}  // namespace
}  // namespace dfly
