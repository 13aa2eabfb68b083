// SPDX-License-Identifier: Apache-2.0
// Nobody starves. Hostile clients keep full pipelines of commands on a few keys of all shards; a
// victim wants the same keys. From the step on at which a shard knows the victim until it runs
// there, no more commands that conflict with it are executed on that shard than were ahead of it
// (engine/queue/tx_queue.h tells why): one of each hostile client, counted with all that is in an
// EXEC. Counted in commands, on schedules from a seed.
//
// The commands are the test's own: "hit" writes a key, "peek" reads one, both are counted by shard;
// "probe" and "rprobe" note at what count they run. They are found in the queues by a key that
// nobody else uses.
#include <array>
#include <functional>
#include <optional>

#include "facade/replies/resp_reader.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using helio::Random;
using Words = std::vector<std::string>;

constexpr int kHostile = 6;  // clients
constexpr ShardId kShards = 5;

// One that never ends, and keeps its pipeline full.
class Flood {
 public:
  Flood(Server& server, std::function<std::string(Random&)> next) : next_(std::move(next)) {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fd_ = fds[0];
    server.OnAccept(fds[1]);
  }
  ~Flood() { close(fd_); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  void Step(Random& random) {
    while (unsent_.size() < 2000) unsent_ += next_(random);
    const ssize_t sent = send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
    char buffer[16384];
    while (read(fd_, buffer, sizeof(buffer)) > 0) continue;
  }

 private:
  std::function<std::string(Random&)> next_;
  int fd_;
  std::string unsent_;
};

// What the victim asks for, and where it is to be found.
struct Victim {
  const char* name;
  std::vector<Words> requests;
  std::vector<ShardId> ids;  // where it stands; on each it wants the key "own<id>", or the shard
  bool reads_only = false;
  bool is_global = false;
};

// What the handlers count; of one thread.
struct Counts {
  struct OfShard {
    uint64_t hits = 0;
    uint64_t peeks = 0;
    uint64_t number = 0;            // under which the victim was seen in the queue
    std::optional<uint64_t> known;  // and at what count
    std::optional<uint64_t> ran;    // and has run
  };
  bool only_hits = false;  // conflict with the victim
  std::array<OfShard, kShards> shards;

  uint64_t Now(ShardId id) const { return shards[id].hits + (only_hits ? 0 : shards[id].peeks); }
};
Counts counts;

void Hit(ShardContext& cx, Args, ReplySink& reply) {
  ++counts.shards[cx.shard().id()].hits;
  reply.Integer(1);
}
void Peek(ShardContext& cx, Args, ReplySink& reply) {
  ++counts.shards[cx.shard().id()].peeks;
  reply.Integer(1);
}
void Probe(ShardContext& cx, Args, ReplySink& reply) {
  const ShardId id = cx.shard().id();
  counts.shards[id].ran = counts.Now(id);
  reply.Integer(1);
}

class StarvationTest : public testing::Test {
 protected:
  static ServerOptions Options() {
    ServerOptions options = TestOptions();
    options.add_commands = [](CommandTable* table) {
      const auto add = [table](const char* name, ShardHandler run, uint32_t flags) {
        table->Add({.name = name,
                    .run = run,
                    .arity = -2,
                    .flags = flags,
                    .keys = KeysFrom(1),
                    .spread = Spread::kSumIntegers});
      };
      add("hit", Hit, kWrite);
      add("peek", Peek, kReadonly);
      add("probe", Probe, kWrite);
      add("rprobe", Probe, kReadonly);
    };
    return options;
  }

  StarvationTest() : server_(Options()) {
    ShardSet& shards = *server_.server().state().shards;
    for (ShardId id = 0; id < kShards; ++id) {
      hot_.push_back(KeyOn(id, "hot", shards));
      own_.push_back(KeyOn(id, "own", shards));
    }
  }
  static std::string KeyOn(ShardId id, const std::string& name, ShardSet& shards) {
    for (int n = 0;; ++n) {
      std::string key = name + std::to_string(n);
      if (shards.ShardOfKey(key, HashKey(key)) == id) return key;
    }
  }
  Worker& worker() { return Worker::Here(); }

  // Its entry; null: it is not known.
  const TxEntry* Find(ShardId id, const Victim& victim) {
    const uint64_t tag = server_.server().state().shards->LockOfKey(own_[id], HashKey(own_[id]), 0);
    const TxEntry* found = nullptr;
    server_.server().state().shards->local(id).transactions().ForEach([&](const TxEntry& entry) {
      if (victim.ids.size() > 1 && !entry.has_number) return;  // a place that it has reserved
      if (entry.locks_shard && victim.is_global) found = &entry;
      for (const TagLock& lock : entry.tags) {
        if (lock.fingerprint == tag) found = &entry;
      }
    });
    return found;
  }
  // Before each step.
  void Look(const Victim& victim) {
    for (ShardId id : victim.ids) {
      Counts::OfShard& shard = counts.shards[id];
      if (shard.ran) continue;
      const TxEntry* const entry = Find(id, victim);
      if (entry == nullptr) {
        shard.known.reset();  // not yet, or it was refused
      } else if (!shard.known || shard.number != entry->number) {
        shard.number = entry->number;
        shard.known = counts.Now(id);
      }
    }
  }

  // Returns what goes wrong. `most` becomes the most commands that were executed on one shard.
  std::string RunSeed(Random& random, const Victim& victim,
                      const std::function<std::string(Random&)>& flood, uint64_t* most,
                      uint64_t* waits) {
    counts = Counts();
    counts.only_hits = victim.reads_only;
    std::vector<std::unique_ptr<Flood>> hostile;
    for (int i = 0; i < kHostile; ++i) {
      hostile.push_back(std::make_unique<Flood>(server_.server(), flood));
    }
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    server_.server().OnAccept(fds[1]);
    const auto turn = [&] {
      for (uint64_t n = 1 + random.Uniform(3); n > 0; --n) {
        hostile[random.Uniform(hostile.size())]->Step(random);
      }
      for (uint64_t n = 1 + random.Uniform(3); n > 0; --n) helio::this_fiber::Yield();
    };
    for (int i = 0; i < 30; ++i) turn();

    std::string requests;
    for (const Words& args : victim.requests) requests += Request(args);
    PCHECK(send(fds[0], requests.data(), requests.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(requests.size()));
    worker().state().shuffle->SetStepHook([&] { Look(victim); });
    std::string error, got;
    size_t missing = victim.requests.size();
    for (int turns = 0; missing > 0 && error.empty(); ++turns) {
      if (turns > 5000) error = "it gets no reply";
      turn();
      Look(victim);
      char buffer[4096];
      const ssize_t bytes = read(fds[0], buffer, sizeof(buffer));
      if (bytes > 0) got.append(buffer, static_cast<size_t>(bytes));
      RespValue reply;
      while (const size_t taken = ReadRespValue(got, &reply)) {
        got.erase(0, taken);
        --missing;
        if (reply.kind == ReplyKind::kError) error = "it gets " + reply.ToString();
      }
    }
    worker().state().shuffle->SetStepHook(nullptr);
    for (const Counts::OfShard& shard : counts.shards) {
      if (!shard.known || !shard.ran) continue;  // it did not have to wait
      *most = std::max(*most, *shard.ran - *shard.known);
      ++*waits;
    }
    close(fds[0]);
    hostile.clear();
    while (server_.server().state().connections.all() > 0 || worker().state().coordinators > 0 ||
           Batches::Here().in_flight() > 0 || !worker().state().shuffle->empty()) {
      helio::this_fiber::Yield();
    }
    return error;
  }

  // `cost`: what one command of the flood counts on a shard at most.
  void Run(const char* name, const std::function<std::string(Random&)>& flood, uint64_t cost,
           bool with_global = true) {
    std::vector<Victim> victims{
        {"write of 3 shards", {All("PROBE", 3)}, {0, 1, 2}},
        {"read of 3 shards", {All("RPROBE", 3)}, {0, 1, 2}, true},
        {"write of all shards", {All("PROBE", 5)}, {0, 1, 2, 3, 4}},
        {"EXEC, squashed",
         {{"MULTI"}, {"PROBE", hot_[0], own_[0]}, {"PROBE", hot_[1], own_[1]}, {"EXEC"}},
         {0, 1}},
        {"EXEC", {{"MULTI"}, All("PROBE", 3), {"SET", hot_[1], "v"}, {"EXEC"}}, {0, 1, 2}},
        // Of one shard: parked.
        {"write of 1 shard", {{"PROBE", hot_[1], own_[1]}}, {1}},
        {"read of 1 shard", {{"RPROBE", hot_[1], own_[1]}}, {1}, true},
        {"EXEC of 1 shard",
         {{"MULTI"}, {"PROBE", hot_[1], own_[1]}, {"SET", hot_[1], "v"}, {"EXEC"}},
         {1}}};
    if (with_global) {
      const std::vector<ShardId> all{0, 1, 2, 3, 4};
      victims.push_back({"SWAPDB",
                         {{"MULTI"}, All("PROBE", 5), {"SWAPDB", "0", "1"}, {"EXEC"}},
                         all,
                         false,
                         true});
      victims.push_back(
          {"FLUSHALL", {{"MULTI"}, All("PROBE", 5), {"FLUSHALL"}, {"EXEC"}}, all, false, true});
    }
    constexpr uint64_t kSeeds = ByBuild(50, 5);
    const uint64_t bound = kHostile * cost;
    for (const Victim& victim : victims) {
      uint64_t most = 0, waits = 0;
      server_.RunSeeds(kSeeds, [&](uint64_t, Random& random) {
        std::string error = RunSeed(random, victim, flood, &most, &waits);
        if (error.empty() && most > bound) {
          error = std::to_string(most) + " were executed before it, though it was known";
        }
        return error;
      });
      printf("%-22s %-20s waits for %3d at most, %3d may be ahead; it had to wait %d times\n", name,
             victim.name, static_cast<int>(most), static_cast<int>(bound), static_cast<int>(waits));
      if (HasFailure()) return;
    }
  }
  Words All(const char* command, size_t shards) const {
    Words args{command};
    for (size_t i = 0; i < shards; ++i) {
      args.push_back(hot_[i]);
      args.push_back(own_[i]);
    }
    return args;
  }
  std::string Hot(Random& random) const { return hot_[random.Uniform(kShards)]; }
  std::string AllHot(const char* command) const {
    Words args{command};
    args.insert(args.end(), hot_.begin(), hot_.end());
    return Request(args);
  }

  ScheduledServer server_;
  std::vector<std::string> hot_;
  std::vector<std::string> own_;
};

TEST_F(StarvationTest, SingleReadsAndWrites) {
  const auto flood = [this](Random& random) {
    return Request({random.OneIn(2) ? "PEEK" : "HIT", Hot(random)});
  };
  Run("reads, writes", flood, 1);
}

// Shared intents are always there.
TEST_F(StarvationTest, ReadsAlone) {
  const auto flood = [this](Random& random) {
    return random.OneIn(2) ? Request({"PEEK", Hot(random)}) : AllHot("PEEK");
  };
  Run("reads of one, of all", flood, 1);
}

TEST_F(StarvationTest, WritesOfAllKeys) {
  Run(
      "writes of all", [this](Random&) { return AllHot("HIT"); }, 1);
}

TEST_F(StarvationTest, Execs) {
  const auto flood = [this](Random& random) {
    return Request({"MULTI"}) + Request({"HIT", Hot(random)}) + Request({"PEEK", Hot(random)}) +
           Request({"HIT", Hot(random)}) + (random.OneIn(2) ? AllHot("PEEK") : "") +
           Request({"EXEC"});
  };
  Run("EXEC", flood, 4);
}

TEST_F(StarvationTest, GlobalTransactions) {
  const auto flood = [this](Random& random) {
    if (random.OneIn(8)) return Request({"FLUSHALL"});
    if (random.OneIn(8)) return Request({"SWAPDB", "0", "1"});
    return Request({"HIT", Hot(random)});
  };
  Run("FLUSHALL, SWAPDB", flood, 1, false);
}

TEST_F(StarvationTest, AllOfThem) {
  const auto flood = [this](Random& random) {
    switch (random.Uniform(6)) {
      case 0:
        return AllHot("HIT");
      case 1:
        return AllHot("PEEK");
      case 2:
        return Request({"MULTI"}) + Request({"HIT", Hot(random)}) + Request({"PEEK", Hot(random)}) +
               Request({"EXEC"});
      default:
        return Request({random.OneIn(2) ? "PEEK" : "HIT", Hot(random)});
    }
  };
  Run("all of these", flood, 2);
}

}  // namespace
}  // namespace dfly
