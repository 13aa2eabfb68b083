// SPDX-License-Identifier: Apache-2.0
// Publish and subscribe in a whole server on one thread: five shards, whose messages cross as a
// seed decides. Clients check what they get against what they know; at the end the numbers that
// PUBLISH told have to be the numbers of messages that came.
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "core/text/glob.h"
#include "facade/replies/resp_reader.h"
#include "helio/base/test_seed.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using helio::Random;

// One client: what it has to send, and the replies that it expects between messages.
class Client {
 public:
  // What it listens to: "message", "pmessage" or "smessage", and the channel or pattern.
  using Key = std::pair<std::string, std::string>;

  struct Expected {
    std::string text;              // RespValue::ToString; empty: a number of receivers
    std::vector<Key> begins = {};  // what it listens to from here on
    std::vector<Key> ends = {};
    bool ends_all = false;
    // Of a PUBLISH: its channel, where it begins in the stream, and how many it reaches at least,
    // which is known when it is sent.
    std::string channel = {};
    bool is_shard = false;
    size_t begin = 0;
    uint64_t at_least = 0;
  };
  // How many subscriptions were confirmed, and will not end.
  using CertainFn = std::function<uint64_t(bool is_shard, const std::string& channel)>;

  Client(int fd, bool resp3, std::string name) : fd_(fd), resp3_(resp3), name_(std::move(name)) {
    if (!resp3_) return;
    unsent_ += Request({"HELLO", "3"});
    expected_.push_back({.text = "HELLO"});
  }
  ~Client() { Close(); }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  // Adds a random command.
  void AddCommand(Random* random, bool is_publisher) {
    const uint64_t kind = random->Uniform(is_publisher ? 1 : 10);
    if (kind == 0 && (is_publisher || (resp3_ || planned_.empty()))) {
      const bool is_shard = random->OneIn(4);
      const std::string channel = Channel(random);
      Publish(is_shard, channel);
    } else if (kind == 1) {
      Add({"PING"}, {.text = resp3_ || planned_.empty() ? "+PONG" : "[\"pong\", \"\"]"});
    } else if (kind == 2 && (resp3_ || planned_.empty())) {
      Add({"GET", "none"}, {.text = "(nil)"});
      Add({"EXISTS", "n1", "n2", "n3"}, {.text = ":0"});
    } else if (kind == 3 && random->OneIn(3)) {
      planned_.clear();
      Add({"RESET"}, {.text = "+RESET", .ends_all = true});
      if (resp3_) Add({"HELLO", "3"}, {.text = "HELLO"});
    } else if (kind >= 7) {
      Change(random, false);
    } else {
      Change(random, true);
    }
  }
  void Publish(bool is_shard, const std::string& channel) {
    const std::string id = name_ + ":" + std::to_string(++last_id_);
    Expected expected{.text = ""};
    expected.channel = channel;
    expected.is_shard = is_shard;
    expected.begin = sent_bytes_ + unsent_.size();
    Add({is_shard ? "SPUBLISH" : "PUBLISH", channel, id}, std::move(expected));
  }

  // Sends and receives a part. Returns what is wrong, or nothing.
  std::string Step(Random* random, const CertainFn& certain) {
    if (!unsent_.empty()) {
      const size_t most = random->OneIn(2) ? unsent_.size() : 60;
      const size_t bytes = 1 + random->Uniform(std::min(most, unsent_.size()));
      for (Expected& each : expected_) {
        const bool is_sent_now = each.begin >= sent_bytes_ && each.begin < sent_bytes_ + bytes;
        if (each.text.empty() && is_sent_now) each.at_least = certain(each.is_shard, each.channel);
      }
      const ssize_t sent = send(fd_, unsent_.data(), bytes, MSG_NOSIGNAL);
      PCHECK(sent == static_cast<ssize_t>(bytes));  // a socket pair has room for all
      unsent_.erase(0, bytes);
      sent_bytes_ += bytes;
    }
    char buffer[4096];
    const ssize_t got = read(fd_, buffer, sizeof(buffer));
    if (got > 0) input_.append(buffer, static_cast<size_t>(got));
    RespValue value;
    while (const size_t size = ReadRespValue(input_, &value)) {
      input_.erase(0, size);
      ++steps_;
      const std::string error = Take(value);
      if (!error.empty()) return name_ + ": " + error;
    }
    return "";
  }

  bool is_done() const { return fd_ < 0 || (unsent_.empty() && expected_.empty()); }
  size_t progress() const { return steps_ - unsent_.size(); }
  uint64_t counted() const { return counted_; }
  uint64_t received() const { return received_; }
  // How many messages one PUBLISH brings it.
  uint64_t Matches(bool is_shard, const std::string& channel) const {
    return CountMatches(active_, is_shard, channel);
  }
  // The same of those that stay.
  uint64_t Certain(bool is_shard, const std::string& channel) const {
    std::set<Key> stay = active_;
    for (const Expected& expected : expected_) {
      if (expected.ends_all) return 0;
      for (const Key& key : expected.ends) stay.erase(key);
    }
    return CountMatches(stay, is_shard, channel);
  }
  // The ids of messages by what brought them and by channel, in the order they came.
  const std::map<std::pair<Key, std::string>, std::vector<std::string>>& heard() const {
    return heard_;
  }
  const std::string& name() const { return name_; }
  std::string front() const { return expected_.empty() ? "nothing" : expected_.front().text; }

 private:
  static uint64_t CountMatches(const std::set<Key>& keys, bool is_shard,
                               const std::string& channel) {
    uint64_t count = 0;
    for (const auto& [word, name] : keys) {
      if (word == "smessage") {
        count += is_shard && name == channel;
      } else if (!is_shard) {
        count += word == "message" ? name == channel : GlobMatch(name, channel);
      }
    }
    return count;
  }
  static std::string Channel(Random* random) { return "c" + std::to_string(random->Uniform(4)); }

  void Add(const std::vector<std::string>& args, Expected expected) {
    unsent_ += Request(args);
    expected_.push_back(std::move(expected));
  }

  void Change(Random* random, bool adds) {
    static const char* const kWords[] = {"", "p", "s"};
    const uint64_t kind = random->OneIn(2) ? 0 : random->Uniform(3);
    const std::string prefix = kWords[kind];
    const std::string verb = prefix + (adds ? "subscribe" : "unsubscribe");
    const std::string word = prefix + "message";
    std::vector<std::string> args{verb};
    std::vector<Expected> confirms;
    const uint64_t names = 1 + random->Uniform(3);
    for (uint64_t i = 0; i < names; ++i) {
      std::string name = Channel(random);
      if (kind == 1) name = random->OneIn(2) ? "c*" : "[" + name + "]" + name.substr(1);
      args.push_back(name);
      const Key key(word, name);
      if (adds) {
        planned_.insert(key);
      } else {
        planned_.erase(key);
      }
      const auto count = std::count_if(planned_.begin(), planned_.end(), [&](const Key& each) {
        return (each.first == "smessage") == (word == "smessage");
      });
      Expected confirm{.text = std::string(resp3_ ? ">" : "") + "[\"" + verb + "\", \"" + name +
                               "\", :" + std::to_string(count) + "]"};
      (adds ? confirm.begins : confirm.ends).push_back(key);
      confirms.push_back(std::move(confirm));
    }
    unsent_ += Request(args);
    for (Expected& confirm : confirms) expected_.push_back(std::move(confirm));
  }

  std::string Take(const RespValue& value) {
    const bool is_list = value.kind == ReplyKind::kArray || value.kind == ReplyKind::kPush;
    if (is_list && value.items.size() >= 3 && value.items[0].text.ends_with("message")) {
      if ((value.kind == ReplyKind::kPush) != resp3_) return "another protocol's message";
      const Key key(value.items[0].text, value.items[1].text);
      if (!active_.contains(key)) return "not subscribed: " + value.ToString();
      const std::string& channel = value.items[value.items.size() - 2].text;
      heard_[{key, channel}].push_back(value.items.back().text);
      ++received_;
      return "";
    }
    if (expected_.empty()) return "unexpected " + value.ToString();
    const Expected expected = std::move(expected_.front());
    expected_.pop_front();
    if (expected.text.empty() && value.kind == ReplyKind::kInteger) {
      const uint64_t receivers = std::strtoull(value.text.c_str(), nullptr, 10);
      if (receivers < expected.at_least) {
        return value.text + " have got what was published to " + expected.channel + ", and " +
               std::to_string(expected.at_least) + " had subscribed before";
      }
      counted_ += receivers;
    } else if (expected.text == "HELLO" && value.kind == ReplyKind::kMap) {
    } else if (value.ToString() != expected.text) {
      return "expected " + expected.text + ", got " + value.ToString();
    }
    active_.insert(expected.begins.begin(), expected.begins.end());
    for (const Key& key : expected.ends) active_.erase(key);
    if (expected.ends_all) active_.clear();
    return "";
  }

  int fd_;
  const bool resp3_;
  const std::string name_;
  std::string unsent_;
  size_t sent_bytes_ = 0;
  std::string input_;
  std::deque<Expected> expected_;
  std::set<Key> planned_;  // when all that was added is executed
  std::set<Key> active_;   // as the replies have told so far
  uint64_t last_id_ = 0;
  uint64_t counted_ = 0;
  uint64_t received_ = 0;
  size_t steps_ = 0;
  std::map<std::pair<Key, std::string>, std::vector<std::string>> heard_;
};

// All have heard what they have in common in the same order.
std::string CheckOrder(const std::vector<std::unique_ptr<Client>>& clients) {
  std::map<std::pair<bool, std::string>, std::vector<const std::vector<std::string>*>> by_channel;
  for (const auto& client : clients) {
    for (const auto& [source, ids] : client->heard()) {
      by_channel[{source.first.first == "smessage", source.second}].push_back(&ids);
    }
  }
  for (const auto& [channel, lists] : by_channel) {
    for (const auto* one : lists) {
      std::map<std::string, size_t> places;
      for (size_t i = 0; i < one->size(); ++i) places[(*one)[i]] = i;
      for (const auto* two : lists) {
        size_t last = 0;
        for (const std::string& id : *two) {
          const auto it = places.find(id);
          if (it == places.end()) continue;
          if (it->second < last) return "two orders of " + channel.second + " at " + id;
          last = it->second;
        }
      }
    }
  }
  return "";
}

class PubSubScheduleTest : public testing::Test {
 protected:
  // Returns what went wrong, or nothing. On the proactor's fiber.
  static std::string Run(ScheduledServer* scheduled, Random& random) {
    Server* const server = &scheduled->server();
    Worker& worker = Worker::Here();
    // In some runs hardly a message may be under way: publishers wait.
    server->state().pubsub_load.max_bytes = random.OneIn(3) ? 50 : 1 << 20;
    std::vector<std::unique_ptr<Client>> clients;
    const auto connect = [&](bool resp3, const std::string& name) {
      int fds[2];
      PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
      server->OnAccept(fds[1]);
      clients.push_back(std::make_unique<Client>(fds[0], resp3, name));
      return clients.back().get();
    };
    // In some runs clients go away in the middle: then less may arrive than was counted.
    const bool some_leave = random.OneIn(4);
    for (int i = 0; i < 5; ++i) {
      Client* client = connect(i != 0 && random.OneIn(2), "client" + std::to_string(i));
      for (uint64_t n = 1 + random.Uniform(20); n > 0; --n) client->AddCommand(&random, i < 2);
    }
    std::string error = Drive(&random, clients, some_leave, [&] {
      return std::all_of(clients.begin(), clients.end(), [](auto& c) { return c->is_done(); });
    });
    if (error.empty() && !some_leave) {
      error = Drive(&random, clients, false, [&] {
        uint64_t balance = 0;
        for (const auto& client : clients) balance += client->counted() - client->received();
        return balance == 0;
      });
      if (!error.empty()) error = "counted messages did not come: " + error;
    }
    if (error.empty()) error = CheckOrder(clients);
    // Now all is quiet, and who listens to what is known exactly.
    if (error.empty() && !some_leave) {
      Client* last = connect(false, "last");
      uint64_t wanted = 0;
      for (const bool is_shard : {false, true}) {
        for (int i = 0; i < 4; ++i) {
          const std::string channel = "c" + std::to_string(i);
          last->Publish(is_shard, channel);
          for (const auto& client : clients) wanted += client->Matches(is_shard, channel);
        }
      }
      error = Drive(&random, clients, false, [&] { return last->is_done(); });
      if (error.empty() && last->counted() != wanted) {
        error = std::to_string(last->counted()) + " receivers instead of " + std::to_string(wanted);
      }
    }
    for (const auto& client : clients) client->Close();
    scheduled->AwaitTheEnd();
    while (server->state().pubsub_load.messages > 0) helio::this_fiber::Yield();
    worker.state().ForEachShard([&](Shard& shard) {
      for (ChannelKind kind : {ChannelKind::kChannel, ChannelKind::kPattern, ChannelKind::kShard}) {
        if (!PubSub::Here().directory(shard.id()).names(kind).empty()) error += " (left behind)";
      }
    });
    if (PubSub::Here().stats().clients != 0) error += " (clients left)";
    // The tables keep some room. What is left in each run would soon be more.
    constexpr size_t kEmptyTables = 16 * 1024;
    if (PubSub::Here().memory_used() > kEmptyTables) error += " (topics left)";
    return error;
  }

  template <typename Done>
  static std::string Drive(Random* random, const std::vector<std::unique_ptr<Client>>& clients,
                           bool some_leave, Done done) {
    std::set<Client*> gone;
    const auto certain = [&](bool is_shard, const std::string& channel) {
      uint64_t count = 0;
      for (const auto& client : clients) count += client->Certain(is_shard, channel);
      return some_leave ? 0 : count;
    };
    for (int idle = 0; !done() && gone.size() < clients.size();) {
      Client* const client = clients[random->Uniform(clients.size())].get();
      const size_t before = client->progress();
      if (!gone.contains(client)) {
        const std::string error = client->Step(random, certain);
        if (!error.empty()) return error;
      }
      WorkerState::Here().ForEachSession([](Session& session) {
        if (session.subscriptions == nullptr) return;
        most_changes_ = std::max(most_changes_, session.subscriptions->pending_changes);
      });
      idle = client->progress() == before ? idle + 1 : 0;
      if (idle > 5000) {
        if (some_leave && !gone.empty()) return "";
        return "nothing more comes; " + client->name() + " waits for " + client->front();
      }
      if (some_leave && random->OneIn(100)) {
        client->Close();
        gone.insert(client);
      }
      for (uint64_t n = random->Uniform(3); n > 0; --n) helio::this_fiber::Yield();
    }
    return "";
  }

  // Of one client, under way at the same time.
  static inline size_t most_changes_ = 0;
};

TEST_F(PubSubScheduleTest, WhatIsCountedArrivesInOneOrderAndOnlyWhileSubscribed) {
  ScheduledServer server;
  constexpr uint64_t kSeeds = ByBuild(5000, 500);
  server.RunSeeds(kSeeds, [&](uint64_t, Random& random) { return Run(&server, random); });
  uint64_t held = 0;
  server.server().state().pool.at(0)->Await([&] { held = PubSub::Here().stats().publishers_held; });
  if (helio::TestSeeds(kSeeds).count < kSeeds) return;
  EXPECT_GT(held, 0u);
  EXPECT_GT(most_changes_, 3u);  // none waits for the one before
}

}  // namespace
}  // namespace dfly
