// SPDX-License-Identifier: Apache-2.0
// A primary, two replicas and a network that fails (replica_network.h), as seeds say. Clients write
// to the primary; links stall, break and come back, so replicas go on with the stream or need a
// copy. Then the primary is cut off, the replica that has most is promoted, the other one follows
// it, and the old primary comes back.
//
//   answered  what a client was answered is in the data of the promoted server, if replies wait for
//             one replica and nobody follows the old primary any more, or for both replicas
//   fenced    if the old primary keeps a replica, and replies wait for one: nothing is answered of
//             what was sent after the fence closed (--fence_without_sentinels). What was answered
//             between the cut and that moment may be lost
//   whole     of each client there are the first n units and nothing of the others; an EXEC over
//             shards is there as a whole
//   equal     in the end all three have the same data
//
// With repl-diskless-load swapdb the promoted one may be in the middle of a copy.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/schedules/replica_network.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::StoreModel;
using Flow = ReplicaNetwork::Flow;
using Words = std::vector<std::string>;

// Writes its numbers: to a list, and some of them to two other keys as well, in one EXEC.
class NumberWriter {
 public:
  explicit NumberWriter(size_t name) : name_(name) {}
  ~NumberWriter() { Disconnect(); }

  void Connect(int fd) {
    Disconnect();
    fd_ = fd;
  }
  void Disconnect() {
    if (fd_ != -1) close(std::exchange(fd_, -1));
    unsent_.clear();
    got_.clear();
    replies_.clear();
  }

  // Sends and receives something.
  void Turn(Random& random) {
    if (fd_ == -1) return;
    if (replies_.size() < 20 && random.OneIn(4)) AddUnit(random.OneIn(3));
    if (!unsent_.empty()) {
      const size_t bytes = 1 + random.Uniform(unsent_.size());
      const ssize_t sent = send(fd_, unsent_.data(), bytes, MSG_NOSIGNAL);
      if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
    }
    char buffer[4096];
    const ssize_t got = read(fd_, buffer, sizeof(buffer));
    if (got > 0) got_.append(buffer, static_cast<size_t>(got));
    RespValue reply;
    while (!replies_.empty()) {
      const size_t bytes = ReadRespValue(got_, &reply);
      if (bytes == 0) break;
      got_.erase(0, bytes);
      const size_t unit = replies_.front();
      replies_.pop_front();
      if (reply.kind == ReplyKind::kError) {
        // The server is no primary any more, or the unit is there and no replica has it.
        return Disconnect();
      }
      if (unit != 0) answered_ = unit;
    }
  }

  // What is sent from now on must not be answered, and some of what was sent may be lost.
  void OnFence() { sent_before_fence_ = is_exec_.size(); }

  // Of what was sent, the first so many units are there. What is wrong, or nothing; then it goes on
  // behind them. Adds to `lost` the answered units that the fence does not promise.
  std::string Check(const StoreModel& model, uint64_t* lost) {
    const auto lines = [&](const std::string& key) -> testkit::Texts {
      const auto it = model.find({0, key});
      return it == model.end() ? testkit::Texts{} : it->second;
    };
    testkit::Texts list = lines(Key("list"));
    if (!list.empty()) list.pop_back();  // its deadline
    if (const auto sent = std::exchange(sent_before_fence_, std::nullopt)) {
      if (answered_ > *sent) {
        return absl::StrCat(Key("list"), ": ", answered_, " was answered and sent after the fence ",
                            "closed at ", *sent);
      }
      if (answered_ > list.size()) *lost += answered_ - list.size();
      answered_ = std::min(answered_, list.size());
    }
    if (list.size() < answered_) {
      return absl::StrCat(Key("list"), " has ", list.size(), " of ", answered_, " answered units");
    }
    size_t last_exec = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] != absl::StrCat(i + 1)) return absl::StrCat(Key("list"), " has ", list[i]);
      if (is_exec_[i]) last_exec = i + 1;
    }
    for (const char* family : {"a", "b"}) {
      const testkit::Texts found = lines(Key(family));
      const std::string value = found.empty() ? "0" : found[0];
      if (value != absl::StrCat(last_exec)) {
        return absl::StrCat(Key(family), " is ", value, " and not ", last_exec, "; ", list.size(),
                            " units are there of ", is_exec_.size(), ", ", answered_, " answered");
      }
    }
    is_exec_.resize(list.size());
    return "";
  }
  size_t answered() const { return answered_; }

 private:
  std::string Key(const char* family) const { return absl::StrCat(family, name_); }
  void Ask(const Words& words, size_t unit) {
    unsent_ += Request(words);
    replies_.push_back(unit);
  }
  void AddUnit(bool is_exec) {
    is_exec_.push_back(is_exec);
    const size_t unit = is_exec_.size();
    const std::string number = absl::StrCat(unit);
    if (!is_exec) return Ask({"RPUSH", Key("list"), number}, unit);
    Ask({"MULTI"}, 0);
    for (const char* family : {"a", "b"}) Ask({"SET", Key(family), number}, 0);
    Ask({"RPUSH", Key("list"), number}, 0);
    Ask({"EXEC"}, unit);
  }

  const size_t name_;
  int fd_ = -1;
  std::string unsent_, got_;
  std::deque<size_t> replies_;  // that are to come: of which unit, or 0
  std::vector<bool> is_exec_;   // all units that were sent, and may be there
  size_t answered_ = 0;
  std::optional<size_t> sent_before_fence_;  // units
};

// A Sentinel's connection to a server: its name, and a hello when the last one was answered.
class SentinelDouble {
 public:
  SentinelDouble(size_t sentinel, size_t server) : sentinel_(sentinel), server_(server) {}
  ~SentinelDouble() { Disconnect(); }

  size_t server() const { return server_; }
  void Disconnect() {
    if (fd_ != -1) close(std::exchange(fd_, -1));
    awaits_ = false;
  }
  void Turn(ReplicaNetwork* network) {
    if (fd_ == -1) {
      fd_ = network->Connect(server_);
      Send({"CLIENT", "SETNAME", absl::StrCat("sentinel-0000000", sentinel_, "-cmd")});
    }
    // Which server it takes for the primary: the one that it is connected to.
    if (IsAnswered() && fd_ != -1) {
      Send({"PUBLISH", "__sentinel__:hello",
            absl::StrCat("-,-,-,-,-,", ReplicaNetwork::kAnnouncedIp, ",",
                         ReplicaNetwork::AnnouncedPort(server_), ",-")});
    }
  }
  // The server has heard all that it was sent.
  bool IsAnswered() {
    char buffer[1024];
    const ssize_t got = fd_ == -1 ? 0 : read(fd_, buffer, sizeof(buffer));
    if (got == 0) Disconnect();
    if (got > 0) awaits_ = false;
    return !awaits_;
  }

 private:
  void Send(const Words& words) {
    const std::string request = Request(words);
    awaits_ = true;
    if (send(fd_, request.data(), request.size(), MSG_NOSIGNAL) < 0) Disconnect();
  }

  const size_t sentinel_, server_;
  int fd_ = -1;
  bool awaits_ = false;  // a reply
};

// What waits for replicas, and who can still reach the old primary when it is replaced.
struct Mode {
  uint64_t min_acks;
  bool keeps_a_replica;  // the other replica follows the old primary until it is told
  CopyLoad copy_load = CopyLoad::kDisabled;
  bool has_fence = false;
};

class FailoverScheduleTest : public testing::Test {
 protected:
  static constexpr size_t kServers = ReplicaNetwork::kServers;
  static constexpr size_t kSentinels = 3, kFenceSentinels = 2;
  static constexpr size_t kBallastBytes = 60'000;  // Ask sends them in one piece

  explicit FailoverScheduleTest(Mode mode = {.min_acks = 1, .keeps_a_replica = false})
      : mode_(mode), network_([&](ServerOptions& options) {
          options.replication.min_replicas_to_ack = mode.min_acks;
          // What makes copies is to make many of them, if these matter.
          options.replication.backlog_bytes = swaps() ? 1024 : 16 * 1024;
          options.replication.copy_load = mode.copy_load;
          if (mode.has_fence) options.replication.fence_sentinels = kFenceSentinels;
          options.replication.fence_ms = 10;
        }) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // links break
    if (!mode.has_fence) return;
    for (size_t server = 0; server < kServers; ++server) {
      for (size_t i = 0; i < kSentinels; ++i) {
        sentinels_.push_back(std::make_unique<SentinelDouble>(i, server));
      }
    }
  }
  ~FailoverScheduleTest() override { FLAGS_minloglevel = google::GLOG_INFO; }

  void RunSeeds(uint64_t usual) {
    const helio::SeedRange seeds = helio::TestSeeds(usual);
    for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
      Random random(seed);
      ASSERT_EQ(RunSeed(random), "") << "DFLY_SEED=" << seed;
    }
    if (helio::IsReplay()) return;
    EXPECT_GT(answered_, 0u);
    uint64_t copies = 0, continued = 0;
    for (size_t i = 0; i < kServers; ++i) {
      const ReplicasFacts facts =
          network_.On(i, [](Server& server) { return server.replicas().Facts(); });
      copies += facts.full_copies;
      continued += facts.partial_copies;
    }
    EXPECT_GT(copies, 0u);
    EXPECT_GT(continued, 0u);
  }

  std::string RunSeed(Random& random) {
    network_.Reseed(random);
    network_.SetFlows(Flow::kOpen);
    primary_ = random.Uniform(kServers);
    std::string error = BeginAnew(random);
    for (int round = 0; round < 2 && error.empty(); ++round) {
      // Who was never linked with this primary may have units of an older one in their place.
      if (mode_.has_fence) error = Settle(random);
      if (!error.empty()) break;
      Write(random);
      error = FailOver(random);
    }
    if (error.empty()) error = Settle(random);
    for (const auto& writer : writers_) answered_ += writer->answered();
    writers_.clear();
    return error;
  }

  std::vector<size_t> Replicas() const {
    std::vector<size_t> replicas;
    for (size_t i = 0; i < kServers; ++i) {
      if (i != primary_) replicas.push_back(i);
    }
    return replicas;
  }

  std::string BeginAnew(Random& random) {
    network_.Leave(primary_);
    for (const size_t replica : Replicas()) network_.Follow(replica, primary_);
    if (!Ask({"FLUSHALL"}, random)) return "FLUSHALL is not answered";
    // A copy takes some turns of the network, and may be under way when the primary is cut off.
    if (swaps() && !Ask({"SET", "ballast", std::string(kBallastBytes, 'x')}, random)) {
      return "SET is not answered";
    }
    // It was not promoted because it has most, so what others have could be taken for more.
    std::string error = AwaitEqual(random);
    if (!error.empty()) return error;
    for (size_t i = 0; i < 3; ++i) writers_.push_back(std::make_unique<NumberWriter>(i));
    return "";
  }

  // A command of a client of the primary's, until it is answered.
  bool Ask(const Words& words, Random& random) {
    int fd = -1;
    std::string got;
    const bool is_done = network_.Await(random, [&] {
      TurnSentinels();
      if (fd == -1) {
        fd = network_.Connect(primary_);
        const std::string request = Request(words);
        PCHECK(send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0);
      }
      char buffer[1024];
      const ssize_t bytes = read(fd, buffer, sizeof(buffer));
      if (bytes > 0) got.append(buffer, static_cast<size_t>(bytes));
      if (got.ends_with("\n") && !got.starts_with("-")) return true;
      if (bytes == 0 || got.ends_with("\n")) {  // its role was just changed
        close(std::exchange(fd, -1));
        got.clear();
      }
      return false;
    });
    if (fd != -1) close(fd);
    return is_done;
  }

  void TurnAll(Random& random) {
    network_.Turn(random);
    if (random.OneIn(2)) network_.AwaitBytes();
    for (const auto& writer : writers_) writer->Turn(random);
    TurnSentinels();
  }
  // Of those of the server that is fenced, the first so many reach it still.
  bool IsCutOff(size_t i) const {
    return sentinels_[i]->server() == fenced_ && i % kSentinels >= fenced_reach_;
  }
  void TurnSentinels() {
    for (size_t i = 0; i < sentinels_.size(); ++i) {
      if (!IsCutOff(i)) sentinels_[i]->Turn(&network_);
    }
  }
  // What was under way when they were cut off has been heard: it would open the fence again.
  bool AreCutOffAnswered() {
    bool are_answered = true;
    for (size_t i = 0; i < sentinels_.size(); ++i) {
      if (IsCutOff(i)) are_answered &= sentinels_[i]->IsAnswered();
    }
    return are_answered;
  }
  // Too few Sentinels reach the primary, and it has noticed. A real Sentinel waits for its
  // down-after-milliseconds, which is longer.
  std::string CloseFence(Random& random) {
    fenced_ = primary_;
    fenced_reach_ = random.Uniform(kFenceSentinels);
    const bool is_shut = network_.Await(random, [&] {
      TurnAll(random);
      return AreCutOffAnswered() && network_.On(primary_, [](Server& server) {
        return server.replicas().Facts().is_fenced;
      });
    });
    for (const auto& writer : writers_) writer->OnFence();
    return is_shut ? "" : "the fence stays open";
  }
  // How a link is lost: also in one direction alone.
  static Flow Cut(Random& random) {
    constexpr Flow kFlows[] = {Flow::kCut, Flow::kStalls, Flow::kOnlyToPrimary,
                               Flow::kOnlyToReplica};
    return kFlows[random.Uniform(4)];
  }

  void Write(Random& random) {
    for (const auto& writer : writers_) writer->Connect(network_.Connect(primary_));
    for (uint64_t turns = 50 + random.Uniform(600); turns > 0; --turns) {
      if (random.OneIn(60)) {
        const size_t replica = Replicas()[random.Uniform(2)];
        network_.SetFlow(primary_, replica, random.OneIn(2) ? Flow::kOpen : Cut(random));
        if (random.OneIn(2)) network_.BreakLinks(primary_, replica);
      }
      TurnAll(random);
    }
  }

  // As INFO tells it to Sentinel. While it loads a copy that replaces its data at once it has none,
  // and ends that first.
  int64_t OffsetOf(size_t index, Random& random) {
    std::optional<int64_t> offset;
    EXPECT_TRUE(network_.Await(random, [&] {
      offset = network_.On(index, [this](Server& server) -> std::optional<int64_t> {
        const bool is_loading = (server.state().settings.gate & Settings::kLoadingGate) != 0;
        if (is_loading && !swaps()) return std::nullopt;
        return server.primary_link().Facts().applied_offset;
      });
      return offset.has_value();
    }));
    return offset.value_or(-1);
  }

  // Both replicas lose their links, and the primary does more than its backlog can hold. So they
  // begin to copy.
  void BeginCopies(Random& random) {
    for (const size_t replica : Replicas()) {
      network_.SetFlow(primary_, replica, Flow::kStalls);
      network_.BreakLinks(primary_, replica);
    }
    const int fd = network_.Connect(primary_);
    const std::string request = Request({"SET", "ballast", std::string(kBallastBytes, 'y')});
    for (int i = 0; i < 3; ++i) {
      PCHECK(send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0);
      for (int turns = 0; turns < 10; ++turns) TurnAll(random);
    }
    network_.SetFlows(Flow::kOpen);
    const auto is_loading = [this](size_t replica) { return IsLoading(replica); };
    const std::vector<size_t> replicas = Replicas();
    for (int turns = 0; turns < 300; ++turns) {
      if (std::any_of(replicas.begin(), replicas.end(), is_loading)) break;
      TurnAll(random);
    }
    for (uint64_t turns = random.Uniform(30); turns > 0; --turns) TurnAll(random);
    close(fd);
  }

  std::string FailOver(Random& random) {
    const size_t old = primary_;
    if (swaps() && random.OneIn(2)) BeginCopies(random);
    const std::vector<size_t> replicas = Replicas();
    // Nobody hears of the old primary. With keeps_a_replica one still does, and acknowledges.
    const size_t kept = replicas[random.Uniform(2)];
    for (const size_t replica : replicas) {
      if (!mode_.keeps_a_replica || replica != kept) {
        // A copy that stalls is under way still, one that is cut is not. An acknowledgement that
        // still arrives would be one of a replica that follows.
        Flow flow = swaps() ? Flow::kStalls : Cut(random);
        if (flow == Flow::kOnlyToPrimary && !mode_.keeps_a_replica) flow = Flow::kOnlyToReplica;
        network_.SetFlow(old, replica, flow);
      }
    }
    network_.Turn(random);
    if (mode_.has_fence) {
      if (std::string error = CloseFence(random); !error.empty()) return error;
    }
    const size_t other = mode_.has_fence ? kept : Behind(replicas, random);
    const size_t best = other == replicas[0] ? replicas[1] : replicas[0];
    promoted_in_loads_ += IsLoading(best);
    network_.Leave(best);
    for (uint64_t turns = random.Uniform(200); turns > 0; --turns) TurnAll(random);
    primary_ = best;
    for (const auto& writer : writers_) writer->Disconnect();
    fenced_ = kServers;
    network_.SetFlows(Flow::kOpen);
    network_.Follow(other, best);
    network_.Follow(old, best);
    if (!Ask({"SET", "probe", "1"}, random)) return "the new primary answers nobody";
    const StoreModel model = ContentOf(best);
    for (const auto& writer : writers_) {
      std::string error = writer->Check(model, &lost_);
      if (!error.empty()) return absl::StrCat(old, " -> ", best, ": ", error);
    }
    return "";
  }

  // Sentinel promotes the other one, if it reaches both.
  size_t Behind(const std::vector<size_t>& replicas, Random& random) {
    const bool is_first = OffsetOf(replicas[0], random) < OffsetOf(replicas[1], random);
    return replicas[is_first ? 0 : 1];
  }

  bool swaps() const { return mode_.copy_load == CopyLoad::kSwapDb; }
  bool IsLoading(size_t index) {
    return network_.On(index, [](Server& server) {
      constexpr uint16_t kLoads = Settings::kLoadingGate | Settings::kAsyncLoadingGate;
      return (server.state().settings.gate & kLoads) != 0;
    });
  }

  StoreModel ContentOf(size_t index) {
    return network_.On(index,
                       [](Server& server) { return testkit::ContentOf(*server.state().shards); });
  }

  // All have the same in the end.
  std::string Settle(Random& random) {
    network_.SetFlows(Flow::kOpen);
    if (!Ask({"SET", "fence", absl::StrCat(random.Next())}, random)) return "nobody is answered";
    return AwaitEqual(random);
  }

  std::string AwaitEqual(Random& random) {
    const auto has_all = [&](size_t replica) {
      const uint64_t end =
          network_.On(primary_, [](Server& server) { return server.replicas().backlog().end(); });
      return network_.On(replica, [&](Server& server) {
        return server.primary_link().is_linked() &&
               server.primary_link().offset() == static_cast<int64_t>(end);
      });
    };
    const StoreModel model = ContentOf(primary_);
    for (const size_t replica : Replicas()) {
      if (!network_.Await(random, [&] { return has_all(replica); })) {
        return absl::StrCat(replica, " does not catch up");
      }
      const StoreModel found = ContentOf(replica);
      if (found != model) return absl::StrCat(replica, " has other data than ", primary_);
    }
    return "";
  }

  const Mode mode_;
  ReplicaNetwork network_;
  size_t primary_ = 0;
  uint64_t answered_ = 0;           // units, in all seeds
  uint64_t promoted_in_loads_ = 0;  // servers, in all seeds
  uint64_t lost_ = 0;               // answered units that the fence does not save, in all seeds
  size_t fenced_ = kServers;        // the server that most Sentinels do not reach; kServers: none
  size_t fenced_reach_ = 0;         // so many do
  std::vector<std::unique_ptr<SentinelDouble>> sentinels_;
  std::vector<std::unique_ptr<NumberWriter>> writers_;
};

constexpr uint64_t kSeeds = ByBuild(40, 6);

TEST_F(FailoverScheduleTest, WhatWasAnsweredIsThereAndAllAreEqual) { RunSeeds(kSeeds); }

class BothReplicasTest : public FailoverScheduleTest {
 protected:
  BothReplicasTest() : FailoverScheduleTest({.min_acks = 2, .keeps_a_replica = true}) {}
};

// The other replica follows the old primary, which may go on answering: for that it needs both.
TEST_F(BothReplicasTest, ThePromotedOneHasWhatTheOldPrimaryStillAnswers) { RunSeeds(kSeeds); }

class SwapDbTest : public FailoverScheduleTest {
 protected:
  SwapDbTest()
      : FailoverScheduleTest(
            {.min_acks = 1, .keeps_a_replica = false, .copy_load = CopyLoad::kSwapDb}) {}
};

// Also if the promoted one is in the middle of a copy.
TEST_F(SwapDbTest, WhatWasAnsweredIsThereAndAllAreEqual) {
  RunSeeds(kSeeds);
  // How many there are depends on how fast the machine loads: 7 and 11 were seen, with 40 seeds.
  RecordProperty("promoted_in_loads", static_cast<int>(promoted_in_loads_));
}

class FenceTest : public FailoverScheduleTest {
 protected:
  FenceTest() : FailoverScheduleTest({.min_acks = 1, .keeps_a_replica = true, .has_fence = true}) {}
};

// The primary is cut off with one replica, which acknowledges all, and the other one is promoted.
TEST_F(FenceTest, NothingIsAnsweredOnceTooFewSentinelsAreHeard) {
  RunSeeds(kSeeds);
  // The counter-example of docs/replication.md: a fence does not save what was answered before.
  RecordProperty("lost_before_the_fence", static_cast<int>(lost_));
}

}  // namespace
}  // namespace dfly
