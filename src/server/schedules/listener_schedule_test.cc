// SPDX-License-Identifier: Apache-2.0
// Those who listen to the effects of a server come and go while clients write, on schedules from a
// seed: the append-only log is switched on and off, replicas come for a copy, leave and come back,
// the server becomes a replica and a primary again, a backlog without replicas is freed.
//
// When all have written, each listener that is there has exactly what the shards have: a copy and
// the stream behind it, without an effect that is in both or in none. Most commands are such that
// once less or once more is seen: counters, lists, APPEND.
#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/logging.h"
#include "server/persistence/append_log.h"
#include "server/replication/replicas.h"
#include "server/schedules/replica_double.h"
#include "server/schedules/shared_client.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::StoreModel;
using Words = std::vector<std::string>;

constexpr uint64_t kKeys = 8;
constexpr uint64_t kDbs = 3;
constexpr const char* kScript =
    "for i, key in ipairs(KEYS) do redis.call('APPEND', key, ARGV[i]) end return 'done'";

// While somebody has one, not all is written.
using Token = std::shared_ptr<void>;

// Sends units of random commands. They are refused while the server is a replica.
class Writer final : public SharedClient {
 public:
  Writer(size_t number, Token token) : name_(absl::StrCat("w", number)), token_(std::move(token)) {}

  void AddUnit(Random& random) {
    Add({"SELECT", absl::StrCat(random.Uniform(kDbs))}, Is("+OK"));
    switch (random.Uniform(8)) {
      case 0:
      case 1:
        return AddMset(random);
      case 2:
      case 3: {
        Add({"MULTI"}, Is("+OK"));
        for (uint64_t n = 1 + random.Uniform(4); n > 0; --n) Add(Command(random), AnyReply);
        return Add({"EXEC"}, AnyReply);
      }
      case 4:
        return AddScript(random);
      case 5:
        return random.OneIn(4) ? AddOfAll(random) : Add(Command(random), AnyReply);
      default:
        return Add(Command(random), AnyReply);
    }
  }

 private:
  static std::string Key(const char* family, Random& random) {
    return absl::StrCat(family, random.Uniform(kKeys));
  }
  std::string Value() { return absl::StrCat(name_, ".", ++values_, ";"); }

  void AddMset(Random& random) {
    Words args = {"MSET"};
    for (uint64_t n = 2 + random.Uniform(4); n > 0; --n) {
      args.insert(args.end(), {Key("s", random), Value()});
    }
    Add(args, AnyReply);
  }
  void AddScript(Random& random) {
    const uint64_t keys = 1 + random.Uniform(4);
    Words args = {"EVAL", kScript, absl::StrCat(keys)};
    for (uint64_t n = 0; n < keys; ++n) args.push_back(Key("s", random));
    for (uint64_t n = 0; n < keys; ++n) args.push_back(Value());
    Add(args, AnyReply);
  }
  void AddOfAll(Random& random) {
    switch (random.Uniform(4)) {
      case 0:
        return Add({"FLUSHDB"}, AnyReply);
      case 1:
        return Add({"SWAPDB", "0", absl::StrCat(random.Uniform(kDbs))}, AnyReply);
      case 2:
        return Add({"FUNCTION", "FLUSH"}, AnyReply);
      default:
        return Add({"PUBLISH", "news", Value()}, AnyReply);
    }
  }
  Words Command(Random& random) {
    switch (random.Uniform(12)) {
      case 0:
        return {"RPUSH", Key("l", random), Value(), Value()};
      case 1:
        return {"LMOVE", Key("l", random), Key("l", random), "LEFT", "RIGHT"};
      case 2:
        return {"INCR", Key("n", random)};
      case 3:
        return {"APPEND", Key("s", random), Value()};
      case 4:
        return {"SPOP", Key("m", random)};
      case 5:
        return {"SADD", Key("m", random), absl::StrCat("x", random.Uniform(20)), Value()};
      case 6:
        return {"RENAME", Key("s", random), Key("s", random)};
      case 7:
        return {"SUNIONSTORE", Key("m", random), Key("m", random), Key("m", random)};
      case 8:
        return {"MOVE", Key("l", random), absl::StrCat(random.Uniform(kDbs))};
      case 9:
        return {"HINCRBY", Key("h", random), absl::StrCat("f", random.Uniform(3)), "1"};
      case 10:
        return {"DEL", Key("s", random), Key("l", random), Key("n", random)};
      default:
        return {"BLMOVE", Key("l", random), Key("l", random), "LEFT", "RIGHT", "0.001"};
    }
  }

  const std::string name_;
  const Token token_;
  uint64_t values_ = 0;
};

// Waits until nobody else has the token, and then writes what shows that a listener has all.
class Fence final : public ScheduledClient {
 public:
  Fence(std::string key, Token token) : key_(std::move(key)), token_(std::move(token)) {}
  std::string Check() override {
    if (is_waiting_ && token_.use_count() == 1) {
      is_waiting_ = false;
      unsent = Request({"SET", key_, "1"});
    }
    if (!got.ends_with('\n')) return "";
    const std::string reply = std::exchange(got, "");
    is_done_ = reply == "+OK\r\n";
    return is_done_ ? "" : absl::StrCat("SET got ", reply);
  }
  size_t missing() const override { return is_done_ ? 0 : 1; }
  size_t total() const override { return 1; }

 private:
  const std::string key_;
  const Token token_;
  bool is_waiting_ = true;
  bool is_done_ = false;
};

// Says the one, and later the other, `count` times, when the seed says so.
class Switch final : public SharedClient {
 public:
  Switch(Words on, Words off, uint64_t count, Random* random, Token token)
      : on_(std::move(on)),
        off_(std::move(off)),
        left_(2 * count),
        random_(*random),
        token_(std::move(token)) {}
  std::string Check() override {
    std::string error = SharedClient::Check();
    if (error.empty() && SharedClient::missing() == 0 && left_ > 0 && random_.OneIn(60)) {
      Add(left_ % 2 == 0 ? on_ : off_, AnyReply);  // the last change may still be under way
      --left_;
    }
    return error;
  }
  size_t missing() const override { return SharedClient::missing() + left_; }

 private:
  const Words on_, off_;
  uint64_t left_;
  Random& random_;
  const Token token_;
};

// Calls change() `count` times, when the seed says so.
class Changer final : public ScheduledClient {
 public:
  Changer(std::function<void()> change, uint64_t count, Random* random, Token token)
      : change_(std::move(change)), left_(count), random_(*random), token_(std::move(token)) {}
  std::string Check() override {
    if (left_ == 0 || !random_.OneIn(60)) return "";
    change_();
    --left_;
    return "";
  }
  size_t missing() const override { return left_; }
  size_t total() const override { return left_ + 1; }

 private:
  const std::function<void()> change_;
  uint64_t left_;
  Random& random_;
  const Token token_;
};

class ListenerScheduleTest : public testing::TestWithParam<ShardReach> {
 protected:
  static constexpr size_t kReplicas = 2;

  ListenerScheduleTest() : server_(Options(&files_), GetParam()) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // connections to the primary that is none
  }
  ~ListenerScheduleTest() override { FLAGS_minloglevel = google::GLOG_INFO; }

  static ServerOptions Options(MemoryFiles* files) {
    ServerOptions options = TestOptions();
    options.persistence.files = files;
    options.persistence.sizes = {.large = 60, .flush = 100, .slice = 30, .work_ns = 0};
    options.persistence.script_wait_ns = 0;
    options.replication.copy_delay_s = 0;
    options.replication.ping_period_s = 3600;  // a silence means that nothing comes any more
    options.replication.backlog_bytes = 16 * 1024;
    return options;
  }

  Server& server() { return server_.server(); }
  StoreModel Content() { return testkit::ContentOf(*server().state().shards); }

  std::string RunSeed(uint64_t seed, Random& random) {
    for (ReplicaData& replica : replicas_) replica = {};
    std::string error = BeginAnew(random);
    for (int round = 0; round < 3 && error.empty(); ++round) {
      error = RunRound(absl::StrCat("fence", seed, ".", round), random);
      if (!error.empty()) error = absl::StrCat("round ", round, ": ", error);
    }
    for (const ReplicaData& replica : replicas_) {
      copies_ += replica.copies;
      continued_ += replica.continued;
    }
    return error;
  }

  // As it was before the first seed.
  std::string BeginAnew(Random& random) {
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    auto client = std::make_unique<SharedClient>();
    client->Add({"CONFIG", "SET", "appendonly", "no"}, Is("+OK"));
    client->Add({"FLUSHALL"}, Is("+OK"));
    clients.push_back(std::move(client));
    std::string error = server_.Drive(std::move(clients), random);
    FreeBacklog();
    server_.AwaitTheEnd(error);
    return error;
  }

  std::string RunRound(const std::string& fence, Random& random) {
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    auto token = std::make_shared<int>();
    for (size_t w = 0; w < 4; ++w) {
      auto writer = std::make_unique<Writer>(w, token);
      for (uint64_t n = 2 + random.Uniform(40); n > 0; --n) writer->AddUnit(random);
      clients.push_back(std::move(writer));
    }
    const auto add_switch = [&](const Words& on, const Words& off, uint64_t count) {
      clients.push_back(std::make_unique<Switch>(on, off, count, &random, token));
    };
    add_switch({"CONFIG", "SET", "appendonly", "yes"}, {"CONFIG", "SET", "appendonly", "no"},
               random.Uniform(3));
    if (random.OneIn(2)) {
      add_switch({"PING"}, {"CONFIG", "SET", "appendonly", random.OneIn(2) ? "yes" : "no"}, 1);
    }
    add_switch({"BGREWRITEAOF"}, {"PING"}, random.Uniform(2));
    if (random.OneIn(2)) {
      add_switch({"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"},
                 1 + random.Uniform(2));
    }
    const auto free_backlog = [this] { FreeBacklog(); };
    clients.push_back(std::make_unique<Changer>(free_backlog, random.Uniform(3), &random, token));
    std::vector<const ReplicaData*> there;
    for (ReplicaData& replica : replicas_) {
      if (random.OneIn(3)) continue;
      if (random.OneIn(4)) replica.id.clear();  // it begins anew
      there.push_back(&replica);
      const uint64_t leaves = random.Uniform(3);
      clients.push_back(
          std::make_unique<ReplicaDouble>(&server(), &random, &replica, leaves, fence));
    }
    clients.push_back(std::make_unique<Fence>(fence, std::move(token)));
    std::string error = server_.Drive(std::move(clients), random);
    return error.empty() ? Compare(there) : error;
  }

  // As if repl-backlog-ttl had passed since the last replica has left.
  void FreeBacklog() {
    constexpr uint64_t kDayNanos = 86'400'000'000'000;
    server().replicas().FreeBacklogIfIdle(helio::MonotonicNanos() + kDayNanos);
  }

  // Nothing is under way.
  std::string Compare(const std::vector<const ReplicaData*>& there) {
    const StoreModel content = Content();
    std::string error;
    for (const ReplicaData* replica : there) {
      const StoreModel found = ContentOfLog(server(), replica->Files(), &error);
      if (error.empty()) error = Difference(content, found);
      if (!error.empty()) return absl::StrCat("a replica: ", error);
    }
    AppendLog& log = server().append_log();
    while (log.is_changing() || log.Facts().is_rewriting || log.Facts().waiting_bytes > 0) {
      helio::this_fiber::SleepForMillis(1);
    }
    if (!log.is_on()) return "";
    ++logs_;
    const StoreModel found = ContentOfLog(server(), files_.files, &error);
    if (error.empty()) error = Difference(content, found);
    return error.empty() ? "" : absl::StrCat("the log: ", error);
  }

  MemoryFiles files_;
  ScheduledServer server_;
  ReplicaData replicas_[kReplicas];
  uint64_t logs_ = 0, copies_ = 0, continued_ = 0;  // in all seeds
};

INSTANTIATE_TEST_SUITE_P(Reaches, ListenerScheduleTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(ListenerScheduleTest, EachHasWhatTheShardsHave) {
  server_.RunSeeds(ByBuild(200, 10),
                   [&](uint64_t seed, Random& random) { return RunSeed(seed, random); });
  if (helio::IsReplay()) return;
  EXPECT_GT(logs_, 0u);
  EXPECT_GT(copies_, 0u);
  EXPECT_GT(continued_, 0u);
}

}  // namespace
}  // namespace dfly
