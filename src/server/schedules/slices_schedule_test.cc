// SPDX-License-Identifier: Apache-2.0
// Commands on large values whose keys are all in one shard of another thread, on schedules from a
// seed: they go home to be run in slices, and what the client has sent keeps its order. What a
// client sent before it left is executed as well.
#include <string>
#include <vector>

#include "server/schedules/checked_client.h"
#include "server/schedules/reply_check.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using helio::Random;

constexpr size_t kMembers = 9000;
constexpr size_t kMemberBytes = 40;  // so that the value has more than Database::kLargeValueBytes

std::string Count(size_t value) { return ":" + std::to_string(value); }

// Adds members to a small set, and stores its union with a large one, again and again.
class Storing final : public ScheduledClient {
 public:
  Storing(Random& random, std::string tag) : tag_(std::move(tag)) {
    leaves = random.OneIn(3);
    Add({"DEL", tag_ + "small", tag_ + "union", tag_ + "copy"}, "");
    const uint64_t rounds = 2 + random.Uniform(4);
    for (uint64_t n = 1; n <= rounds; ++n) {
      Add({"SADD", tag_ + "small", std::to_string(n)}, Count(1));
      Add({"SUNIONSTORE", tag_ + "union", tag_ + "large", tag_ + "small"}, Count(kMembers + n));
      if (random.OneIn(2)) {
        Add({"COPY", tag_ + "union", tag_ + "copy", "REPLACE"}, Count(1));
        Add({"SCARD", tag_ + "copy"}, Count(kMembers + n));
      }
      Add({"SISMEMBER", tag_ + "union", std::to_string(n)}, Count(1));
    }
  }
  std::string Check() override {
    RespValue reply;
    while (const size_t bytes = ReadRespValue(got, &reply)) {
      got.erase(0, bytes);
      if (read_ == asked_.size()) return "more replies than requests: " + reply.ToString();
      const Asked& asked = asked_[read_++];
      if (asked.reply.empty() || reply.ToString() == asked.reply) continue;
      return asked.text + "-> " + reply.ToString() + ", expected " + asked.reply;
    }
    return "";
  }
  size_t missing() const override { return asked_.size() - read_; }
  size_t total() const override { return asked_.size(); }

 private:
  struct Asked {
    std::string text;
    std::string reply;  // empty: any
  };
  void Add(const std::vector<std::string>& args, std::string reply) {
    unsent += Request(args);
    std::string text;
    for (const std::string& arg : args) text += arg + ' ';
    asked_.push_back({std::move(text), std::move(reply)});
  }

  std::string tag_;
  std::vector<Asked> asked_;
  size_t read_ = 0;
};

// Asks one thing after another.
std::vector<RespValue> Ask(ScheduledServer& server, Random& random,
                           const std::vector<std::vector<std::string>>& requests) {
  std::vector<RespValue> replies;
  CheckedClient client(server.server());
  for (const std::vector<std::string>& request : requests) {
    client.Add(request, [&replies](const RespValue& reply) {
      replies.push_back(reply);
      return std::string();
    });
  }
  bool moved = false;
  while (client.missing() > 0) {
    const std::string error = client.Step(random, &moved, nullptr);
    CHECK_EQ(error, "");
    helio::this_fiber::Yield();
  }
  return replies;
}

// A client that leaves has sent a part of its rounds. Each union was made with all that was added
// before it, so it lacks the last member at most.
std::string WrongUnion(const RespValue& small, const RespValue& stored) {
  const int added = std::stoi(small.text);
  const int made = std::stoi(stored.text) - static_cast<int>(kMembers);
  const bool is_right = made == added || made == added - 1 || (stored.text == "0" && added <= 1);
  return is_right ? "" : "the union has " + stored.text + ", the small set " + small.text;
}

class SlicesScheduleTest : public testing::TestWithParam<ShardReach> {};

INSTANTIATE_TEST_SUITE_P(Ways, SlicesScheduleTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(SlicesScheduleTest, StoresKeepTheirOrderAndAreExecutedIfTheClientLeaves) {
  constexpr int kClients = 3;
  ScheduledServer server(TestOptions(), GetParam());
  bool is_filled = false;
  server.RunSeeds(ByBuild(150, 8), [&](uint64_t, Random& random) -> std::string {
    if (!std::exchange(is_filled, true)) {
      std::vector<std::vector<std::string>> fill;
      for (int i = 0; i < kClients; ++i) {
        fill.push_back({"SADD", "{" + std::to_string(i) + "}large"});
        for (size_t n = 0; n < kMembers; ++n) {
          std::string member = "member " + std::to_string(n);
          member.resize(kMemberBytes, '.');
          fill.back().push_back(std::move(member));
        }
      }
      Ask(server, random, fill);
    }
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<Storing>(random, "{" + std::to_string(i) + "}"));
    }
    std::string error = server.Drive(std::move(clients), random);
    for (int i = 0; i < kClients && error.empty(); ++i) {
      const std::string tag = "{" + std::to_string(i) + "}";
      const auto sizes = Ask(server, random, {{"SCARD", tag + "small"}, {"SCARD", tag + "union"}});
      error = WrongUnion(sizes[0], sizes[1]);
    }
    server.AwaitTheEnd();
    return error;
  });
}

}  // namespace
}  // namespace dfly
