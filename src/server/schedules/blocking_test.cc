// SPDX-License-Identifier: Apache-2.0
// What may come between the steps of a blocking command: the test runs commands on their shards
// itself, at once, so that nothing else is in between. Each test runs on many schedules.
#include "server/dispatch/blocking.h"

#include "server/schedules/checked_client.h"

namespace dfly {
namespace {

using helio::Random;
using Clients = std::vector<std::unique_ptr<CheckedClient>>;

constexpr uint64_t kSeeds = ByBuild(200, 20);

class BlockingTest : public testing::TestWithParam<ShardReach> {
 protected:
  // test() returns what is wrong. Its clients are gone after it, and nothing may be left of them.
  template <typename Test>
  void RunSeeds(Test test) {
    server_.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) {
      random_ = &random;
      source_ = "source" + std::to_string(seed);
      int number = 0;
      do {
        target_ = "target" + std::to_string(number++);
      } while (ShardOf(target_) == ShardOf(source_));
      std::string error = test();
      clients_.clear();
      server_.AwaitTheEnd();
      for (const std::string& key : {source_, target_}) Run({"DEL", key});
      return error.empty() ? server_.WhatIsLeft() : error;
    });
  }

  ShardSet& shards() { return *server_.server().state().shards; }
  ShardId ShardOf(const std::string& key) { return shards().ShardOfKey(key, HashKey(key)); }

  // Another one in its shard.
  std::string KeyBeside(const std::string& key) {
    std::string near;
    for (int i = 0; near.empty() || ShardOf(near) != ShardOf(key); ++i) {
      near = key + "near" + std::to_string(i);
    }
    return near;
  }

  // The command, here and now, and who is served by it.
  std::string Run(const std::vector<std::string>& args) {
    const Command& command = *server_.server().state().commands.Find(args[0]);
    const std::vector<std::string_view> views(args.begin(), args.end());
    const ShardId id = ShardOf(args[1]);
    helio::IoBuf out;
    RespWriter writer(&out);
    {
      ShardTurn turn(shards().local(id));
      command.run(turn.Begin(0, helio::UnixMillis()), views, writer);
    }
    RespValue reply;
    CHECK_EQ(ReadRespValue(out.view(), &reply), out.size());
    return reply.ToString();
  }

  // A client that waits behind those that do so already.
  CheckedClient& Wait(const std::vector<std::string>& args, ReplyCheck check) {
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    CheckedClient& client = *clients_.back();
    client.Add(args, std::move(check));
    const Worker& worker = Worker::Here();
    const size_t wanted = worker.blocked_clients() + 1;
    while (worker.blocked_clients() != wanted || worker.state().coordinators != wanted) StepAll();
    return client;
  }
  // The connection is closed, here and now.
  void Disconnect(const CheckedClient& client) {
    size_t number = 0;
    while (clients_[number].get() != &client) ++number;
    WorkerState::Here().ForEachSession([&](Session& session) {
      if (number-- == 0) session.connection.CloseNow();
    });
  }
  void Lock(Transaction* tx, const std::string& key) {
    tx->Lock(ShardOf(key), {shards().LockOfKey(key, HashKey(key), 0), LockMode::kExclusive});
  }
  void StepSome() {
    for (int i = 0; i < 50; ++i) StepAll();
  }
  void StepAll() {
    bool moved = false;
    for (const auto& client : clients_) error_ += client->Step(*random_, &moved, nullptr);
    const helio::BoundedWait wait(helio::kItsTurn);  // the test may have locks
    helio::this_fiber::Yield();
  }
  // Until nothing moves but those that wait. Returns what was wrong with any reply since.
  std::string Settle() {
    const Worker& worker = Worker::Here();
    for (int quiet = 0; quiet < 20; ++quiet) {
      StepAll();
      if (worker.state().coordinators != worker.blocked_clients() ||
          Batches::Here().in_flight() > 0) {
        quiet = 0;
      }
    }
    for (ShardId id = 0; id < shards().size(); ++id) {
      Shard& shard = shards().local(id);
      if (shard.waiters().CountReady(shard, 1000) > 0) error_ += "somebody is forgotten";
    }
    return std::exchange(error_, {});
  }

  ScheduledServer server_{TestOptions(), GetParam()};
  Random* random_ = nullptr;
  std::string source_;  // a key, and one in another shard
  std::string target_;
  Clients clients_;
  std::string error_;
};

INSTANTIATE_TEST_SUITE_P(Ways, BlockingTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

std::string Expect(const std::string& got, const std::string& wanted, const char* what) {
  return got == wanted ? "" : std::string(what) + " is " + got + "; ";
}

// --- BLMOVE to another shard: it is woken, and fetches the element itself ---

TEST_P(BlockingTest, AWokenMoveWhoseClientGoesLeavesTheElementToTheNext) {
  RunSeeds([&] {
    CheckedClient& mover = Wait({"BLMOVE", source_, target_, "LEFT", "LEFT", "0"}, AnyReply);
    CheckedClient& next = Wait({"BLPOP", source_, "0"}, Is("[\"" + source_ + "\", \"e\"]"));
    Run({"RPUSH", source_, "e"});
    std::string error = Expect(Run({"LLEN", source_}), ":1", "the list that the first fetches");
    Disconnect(mover);
    mover.Leave();
    error += Settle();
    if (next.missing() > 0) error += "the next one was not served; ";
    return error + Expect(Run({"EXISTS", source_}), ":0", "the source") +
           Expect(Run({"EXISTS", target_}), ":0", "the target");
  });
}

TEST_P(BlockingTest, AMoveWhoseClientGoesAtAnyStepLosesNothing) {
  RunSeeds([&] {
    CheckedClient& mover = Wait({"BLMOVE", source_, target_, "LEFT", "LEFT", "0"}, AnyReply);
    std::string got;
    CheckedClient& next = Wait({"BLPOP", source_, "0"}, [&](const RespValue& reply) {
      got = reply.items.at(1).text;
      return std::string();
    });
    Run({"RPUSH", source_, "e"});
    for (uint64_t n = random_->Uniform(20); n > 0; --n) helio::this_fiber::Yield();
    Disconnect(mover);
    mover.Leave();
    std::string error = Settle();
    const bool was_moved = Run({"LLEN", target_}) == ":1";
    if (was_moved == (next.missing() == 0)) error += "the element is in two places, or in none; ";
    if (was_moved) Run({"RPUSH", source_, "f"});
    error += Settle();
    return error + Expect(got, was_moved ? "f" : "e", "what the next one has got");
  });
}

TEST_P(BlockingTest, AWokenMoveWhoseSourceHasBecomeAStringWaitsOnInItsPlace) {
  RunSeeds([&] {
    CheckedClient& mover = Wait({"BLMOVE", source_, target_, "LEFT", "LEFT", "0"}, Is("\"f\""));
    CheckedClient& next = Wait({"BLPOP", source_, "0"}, Is("[\"" + source_ + "\", \"g\"]"));
    Run({"RPUSH", source_, "e"});
    Run({"SET", source_, "a string"});
    std::string error = Settle();
    if (mover.missing() + next.missing() != 2) error += "somebody has got a reply; ";
    Run({"DEL", source_});
    Run({"RPUSH", source_, "f"});
    error += Settle();
    if (mover.missing() != 0 || next.missing() != 1) error += "it was not the first one's turn; ";
    Run({"RPUSH", source_, "g"});
    error += Settle();
    if (next.missing() != 0) error += "the next one was not served; ";
    return error + Expect(Run({"LPOP", target_}), "\"f\"", "what was moved");
  });
}

TEST_P(BlockingTest, AWokenMoveThatFindsNothingKeepsItsPlace) {
  RunSeeds([&] {
    CheckedClient& mover = Wait({"BLMOVE", source_, target_, "LEFT", "LEFT", "0"}, Is("\"f\""));
    CheckedClient& next = Wait({"BLPOP", source_, "0"}, Is("[\"" + source_ + "\", \"g\"]"));
    Run({"RPUSH", source_, "e"});
    Run({"LPOP", source_});
    std::string error = Settle();
    if (mover.missing() + next.missing() != 2) error += "somebody has got a reply; ";
    Run({"RPUSH", source_, "f", "g"});
    error += Settle();
    if (mover.missing() + next.missing() != 0) error += "somebody was not served; ";
    return error + Expect(Run({"LPOP", target_}), "\"f\"", "what was moved");
  });
}

// As redis-server does: the error is the reply, and the element the next one's.
TEST_P(BlockingTest, AWokenMoveWhoseTargetHasBecomeAStringIsToldSo) {
  RunSeeds([&] {
    const bool before = random_->OneIn(2);  // it is woken
    CheckedClient& mover =
        Wait({"BLMOVE", source_, target_, "LEFT", "LEFT", "0"},
             Is("-WRONGTYPE Operation against a key holding the wrong kind of value"));
    CheckedClient& next = Wait({"BLPOP", source_, "0"}, Is("[\"" + source_ + "\", \"e\"]"));
    if (before) Run({"SET", target_, "a string"});
    Run({"RPUSH", source_, "e"});
    if (!before) Run({"SET", target_, "a string"});
    std::string error = Settle();
    if (mover.missing() > 0) error += "no error came; ";
    if (next.missing() > 0) error += "the next one was not served; ";
    return error + Expect(Run({"GET", target_}), "\"a string\"", "the target") +
           Expect(Run({"EXISTS", source_}), ":0", "the source");
  });
}

TEST_P(BlockingTest, AWokenMoveCannotBeUnblockedUntilItHasLooked) {
  RunSeeds([&] {
    CheckedClient& mover = Wait({"BLMOVE", source_, target_, "LEFT", "LEFT", "0"}, Is("(nil)"));
    Session* session = nullptr;
    WorkerState::Here().ForEachSession([&](Session& each) { session = &each; });
    Run({"RPUSH", source_, "e"});
    Run({"DEL", source_});
    std::string error;
    if (session->blocked->EndWait(BlockedCommand::End::kUnblocked)) error += "it was unblocked; ";
    error += Settle();
    if (mover.missing() != 1) error += "it has got a reply; ";
    if (!session->blocked->EndWait(BlockedCommand::End::kUnblocked)) error += "it was not; ";
    error += Settle();
    return error + (mover.missing() == 0 ? "" : "no reply came");
  });
}

// --- Locks ---

TEST_P(BlockingTest, NobodyIsServedWhileATransactionRunsOnItsKey) {
  RunSeeds([&] {
    CheckedClient& client = Wait({"BLPOP", source_, target_, "0"}, AnyReply);
    Transaction tx(&shards(), nullptr);
    Lock(&tx, source_);
    EXPECT_TRUE(tx.Schedule());
    tx.Hop([](Shard&) {});
    Run({"RPUSH", source_, "e"});
    StepSome();
    std::string error = client.missing() == 1 ? "" : "it was served; ";
    tx.Conclude();
    error += Settle();
    return error + (client.missing() == 0 ? "" : "it was not served in the end; ");
  });
}

// Or it would starve where transactions follow each other.
TEST_P(BlockingTest, ATransactionThatHasNotRunOnTheKeyHindersNobody) {
  RunSeeds([&] {
    CheckedClient& client = Wait({"BLPOP", source_, target_, "0"}, AnyReply);
    std::string other = source_;
    for (int i = 0; other == source_ || ShardOf(other) != ShardOf(source_); ++i) {
      other = source_ + "near" + std::to_string(i);
    }
    Transaction holder(&shards(), nullptr);
    Lock(&holder, other);
    EXPECT_TRUE(holder.Schedule());
    helio::Fiber waiting("waits for the holder", [&] {
      Transaction tx(&shards(), nullptr);
      Lock(&tx, source_);
      Lock(&tx, other);
      EXPECT_TRUE(tx.Schedule());
    });
    StepSome();
    Run({"RPUSH", source_, "e"});
    std::string error = Settle();
    if (client.missing() > 0) error += "it was not served; ";
    holder.Conclude();
    waiting.Join();
    return error;
  });
}

TEST_P(BlockingTest, AMoveWaitsForTheLockOfItsTarget) {
  RunSeeds([&] {
    const bool is_across = random_->OneIn(2);
    std::string source = source_;
    for (int i = 0; !is_across && ShardOf(source) != ShardOf(target_); ++i) {
      source = source_ + "near" + std::to_string(i);
    }
    CheckedClient& mover = Wait({"BLMOVE", source, target_, "LEFT", "LEFT", "0"}, Is("\"e\""));
    Transaction tx(&shards(), nullptr);
    Lock(&tx, target_);
    EXPECT_TRUE(tx.Schedule());
    if (random_->OneIn(2)) tx.Hop([](Shard&) {});
    Run({"RPUSH", source, "e"});
    StepSome();
    std::string error = mover.missing() == 1 ? "" : "it has moved; ";
    error += Expect(Run({"EXISTS", target_}), ":0", "the target");
    tx.Conclude();
    error += Settle();
    return error + Expect(Run({"LPOP", target_}), "\"e\"", "what was moved");
  });
}

TEST_P(BlockingTest, ABlockingCommandDoesNotOvertakeWhatItsClientHasSentBefore) {
  RunSeeds([&] {
    const std::string near = KeyBeside(source_);
    Run({"RPUSH", source_, "e", "f"});
    Transaction tx(&shards(), nullptr);
    Lock(&tx, near);
    EXPECT_TRUE(tx.Schedule());
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    CheckedClient& client = *clients_.back();
    client.Add({"SETNX", near, "v"}, Is(":1"));
    client.Add({"LPOP", source_}, Is("\"e\""));
    client.Add({"BLPOP", source_, "0"}, Is("[\"" + source_ + "\", \"f\"]"));
    client.Add({"DEL", near}, Is(":1"));
    StepSome();
    std::string error = client.missing() == 4 ? "" : "something was not held up; ";
    tx.Conclude();
    error += Settle();
    return error + (client.missing() == 0 ? "" : "replies are missing");
  });
}

// --- The first try ---

TEST_P(BlockingTest, TheFirstTryIsNotHinderedByLocksOfKeysThatItNeedNotLookAt) {
  RunSeeds([&] {
    const uint64_t tried = WorkerState::Here().stats.blocking_tried;
    Run({"RPUSH", source_, "e"});
    Transaction tx(&shards(), nullptr);
    Lock(&tx, target_);
    EXPECT_TRUE(tx.Schedule());
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    CheckedClient& client = *clients_.back();
    client.Add({"BLPOP", source_, target_, "0"}, Is("[\"" + source_ + "\", \"e\"]"));
    std::string error = Settle();
    if (client.missing() > 0) error += "it waits for the lock of a key behind; ";
    tx.Conclude();
    error += Settle();
    if (WorkerState::Here().stats.blocking_tried != tried + 1) error += "no first try; ";
    return error;
  });
}

TEST_P(BlockingTest, AKeyBehindAnEmptyOneOfAnotherShardIsTakenOnlyIfBothAreSeenAtOnce) {
  RunSeeds([&] {
    // Both lists get their elements at one moment, so the first one is never seen empty before.
    // Who waits is served by whichever shard is the first, so nobody does here.
    constexpr int kRounds = 4;
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    CheckedClient& pusher = *clients_[0];
    CheckedClient& popper = *clients_[1];
    const std::string empty = KeyBeside(source_);  // where each pop looks first
    int from_first = 0;
    int from_second = 0;
    const auto pop = [&] {
      popper.Add({"BLPOP", empty, target_, source_, "0"}, [&](const RespValue& reply) {
        ++(reply.items.at(0).text == target_ ? from_first : from_second);
        return Unless(from_first >= from_second, "an element that was there was passed over");
      });
    };
    for (int i = 0; i < kRounds; ++i) {
      pusher.Add({"MULTI"}, AnyReply);
      pusher.Add({"RPUSH", source_, "e"}, AnyReply);
      pusher.Add({"RPUSH", target_, "f"}, AnyReply);
      pusher.Add({"EXEC"}, [&](const RespValue&) {
        pop();
        pop();
        return std::string();
      });
    }
    std::string error = Settle();
    while (error.empty() && popper.missing() + pusher.missing() > 0) error = Settle();
    return error + Unless(from_first == kRounds && from_second == kRounds, "not all were taken");
  });
}

TEST_P(BlockingTest, AClientThatGoesDuringItsFirstTryLeavesNothing) {
  RunSeeds([&] {
    Transaction tx(&shards(), nullptr);
    Lock(&tx, source_);
    EXPECT_TRUE(tx.Schedule());
    const bool has_something = random_->OneIn(2);
    if (has_something) Run({"RPUSH", source_, "e"});
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    CheckedClient& client = *clients_.back();
    client.Add({"BLPOP", source_, target_, "0"}, AnyReply);
    StepSome();
    std::string error = client.missing() == 1 ? "" : "it was not held up; ";
    Disconnect(client);
    client.Leave();
    StepSome();
    tx.Conclude();
    error += Settle();
    Run({"RPUSH", source_, "f"});
    // What was executed for it is lost with it, as any reply; but nobody takes anything later.
    const std::string left = Run({"LRANGE", source_, "0", "-1"});
    if (left != "[\"f\"]" && left != "[\"e\", \"f\"]") error += "there is left " + left;
    return error;
  });
}

TEST_P(BlockingTest, WhoseFirstTriesFindNothingWaitsAndTriesAgainOnceItHasFoundSomething) {
  RunSeeds([&] {
    clients_.push_back(std::make_unique<CheckedClient>(server_.server()));
    CheckedClient& client = *clients_.back();
    std::string error;
    for (int i = 0; i < 6; ++i) {
      client.Add({"BLPOP", source_, target_, "0"}, AnyReply);
      client.Add({"PING"}, Is("+PONG"));
      error += Settle();
      if (client.missing() != 2) error += "it does not wait; ";
      Run({"RPUSH", random_->OneIn(2) ? source_ : target_, "e"});
      error += Settle();
      if (client.missing() != 0) error += "it was not served; ";
    }
    const uint64_t tried = WorkerState::Here().stats.blocking_tried;
    Run({"RPUSH", source_, "e", "e"});
    for (int i = 0; i < 2; ++i) client.Add({"BLPOP", source_, target_, "0"}, AnyReply);
    error += Settle();
    if (client.missing() != 0) error += "it has not found what is there; ";
    if (WorkerState::Here().stats.blocking_tried == tried) error += "it has not tried; ";
    return error;
  });
}

// --- Many keys ---

TEST_P(BlockingTest, ManyKeysAndOneKeyManyTimesWaitOnceEach) {
  server_.RunSeeds(1, [&](uint64_t, Random& random) {
    random_ = &random;
    constexpr size_t kKeys = 10'000;
    std::vector<std::string> args{"BLPOP"};
    for (size_t i = 0; i < 2 * kKeys; ++i) args.push_back("k" + std::to_string(i < kKeys ? i : 7));
    args.push_back("0");
    CheckedClient& client = Wait(args, Is("[\"k9999\", \"e\"]"));
    size_t waited = 0;
    WorkerState::Here().ForEachShard([&](Shard& shard) { waited += shard.waiters().keys(); });
    std::string error = waited == kKeys ? "" : std::to_string(waited) + " keys are waited for; ";
    Run({"RPUSH", "k9999", "e"});
    error += Settle();
    if (client.missing() > 0) error += "it was not served; ";
    clients_.clear();
    server_.AwaitTheEnd();
    return error.empty() ? server_.WhatIsLeft() : error;
  });
}

}  // namespace
}  // namespace dfly
