// SPDX-License-Identifier: Apache-2.0
// Replies and the journal, on schedules from a seed: no client is told of anything that the log
// does not have yet. The log takes its time. Clients count up counters in all ways that there are
// (commands here and on other shards, EXEC, scripts, waiters that are served), and read them; each
// number that comes back has to be in the log by then.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/journal/journal_testing.h"
#include "facade/replies/resp_reader.h"
#include "server/persistence/journal_link.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using helio::Random;

constexpr int kKeys = 6;

// How often a key was counted up, popped from, deleted.
using Counts = std::map<std::string, int64_t>;

// Becomes durable after random turns of the loop.
class SlowLog final : public DurableLog {
 public:
  explicit SlowLog(Random* random) : random_(*random) {}

  bool Write(const Epoch& epoch) override {
    std::string text;
    for (std::string_view piece : epoch.pieces) text += piece;
    for (uint64_t turns = random_.Uniform(20); turns > 0; --turns) helio::this_fiber::Yield();
    for (const std::string& command : CommandsOf(text)) Note(absl::StrSplit(command, ' '));
    return true;
  }
  int64_t Of(const std::string& what) const {
    const auto it = counts_.find(what);
    return it == counts_.end() ? 0 : it->second;
  }

 private:
  void Note(const std::vector<std::string>& words) {
    const auto is = [&](const char* name) { return absl::EqualsIgnoreCase(words[0], name); };
    if (is("incr")) ++counts_["count " + words[1]];
    if (is("set") && words.size() > 2) counts_["count " + words[1]] = std::stoll(words[2]);
    if (is("rpush")) counts_["push " + words[1]] += static_cast<int64_t>(words.size()) - 2;
    if (is("lpop")) ++counts_["pop " + words[1]];
    if (is("del")) ++counts_["del " + words[1]];
  }

  Random& random_;
  Counts counts_;
};

// What a reply tells.
enum class Tells : uint8_t {
  kNothing,
  kCount,   // the key's counter, or those of several keys
  kPop,     // an element was popped from the key
  kDelete,  // 1: the key was deleted
};
struct Step {
  Tells tells;
  std::vector<std::string> keys;
};

class Client final : public ScheduledClient {
 public:
  // `told`: of all clients.
  Client(const SlowLog* log, Counts* told, std::string prefix)
      : log_(*log), told_(*told), prefix_(std::move(prefix)) {}

  void Add(const std::vector<std::string>& args, Tells tells, std::vector<std::string> keys) {
    unsent += Request(args);
    steps_.push_back({tells, std::move(keys)});
  }
  void AddRandom(Random& random) {
    const std::string a = Key("c", random.Uniform(kKeys));
    const std::string b = Key("c", random.Uniform(kKeys));
    const std::string list = Key("l", random.Uniform(2));
    const std::string deleted = Key("d", random.Uniform(2));
    switch (random.Uniform(13)) {
      case 0:
      case 1:
        return Add({"INCR", a}, Tells::kCount, {a});
      case 2:
      case 3:
        return Add({"GET", a}, Tells::kCount, {a});
      case 4:
        return Add({"MGET", a, b}, Tells::kCount, {a, b});
      case 5: {
        Add({"MULTI"}, Tells::kNothing, {});
        Add({"INCR", a}, Tells::kNothing, {});
        Add({"GET", b}, Tells::kNothing, {});
        return Add({"EXEC"}, Tells::kCount, {a, b});
      }
      case 6:
        return Add(
            {"EVAL", "return {redis.call('INCR', KEYS[1]), redis.call('GET', KEYS[2])}", "2", a, b},
            Tells::kCount, {a, b});
      case 7:
        return Add(
            {"EVAL", "return {redis.call('GET', ARGV[1]), redis.call('INCR', KEYS[1])}", "1", a, b},
            Tells::kCount, {b, a});
      case 8:
        return Add({"BLPOP", list, Key("l", random.Uniform(2)), "0.001"}, Tells::kPop, {list});
      case 9:
        return Add({"RPUSH", list, "x"}, Tells::kNothing, {});
      case 10:
        return random.OneIn(2) ? Add({"SET", deleted, "1"}, Tells::kNothing, {})
                               : Add({"DEL", deleted}, Tells::kDelete, {deleted});
      case 11:
        return Add({"LPOP", list}, Tells::kPop, {list});
      default:
        return Add({"STRLEN", a}, Tells::kNothing, {});
    }
  }

  std::string Check() override {
    RespValue value;
    while (answered_ < steps_.size()) {
      const size_t used = ReadRespValue(got, &value);
      if (used == 0) return "";
      got.erase(0, used);
      const Step& step = steps_[answered_++];
      if (std::string error = CheckOne(step, value); !error.empty()) return error;
    }
    return "";
  }
  size_t missing() const override { return steps_.size() - answered_; }
  size_t total() const override { return steps_.size(); }

 private:
  std::string Key(const char* family, uint64_t index) const {
    return absl::StrCat(prefix_, family, index);
  }
  std::string CheckOne(const Step& step, const RespValue& value) {
    if (value.kind == ReplyKind::kError) return "error " + value.text;
    switch (step.tells) {
      case Tells::kNothing:
        return "";
      case Tells::kCount:
        if (step.keys.size() == 1) return CheckCount(step.keys[0], value);
        for (size_t i = 0; i < step.keys.size(); ++i) {
          std::string error = CheckCount(step.keys[i], value.items.at(i));
          if (!error.empty()) return error;
        }
        return "";
      case Tells::kPop:
        if (value.kind == ReplyKind::kNull) return "";
        return CheckNumber("pop " + (value.items.empty() ? step.keys[0] : value.items[0].text));
      case Tells::kDelete:
        return value.text == "1" ? CheckNumber("del " + step.keys[0]) : "";
    }
    return "";
  }
  std::string CheckCount(const std::string& key, const RespValue& value) {
    if (value.kind == ReplyKind::kNull) return "";
    const int64_t logged = log_.Of("count " + key);
    if (logged >= std::stoll(value.text)) return "";
    return absl::StrCat(key, " is told to be ", value.text, ", and ", logged, " in the log");
  }
  // One more than all clients were told before.
  std::string CheckNumber(const std::string& what) {
    const int64_t told = ++told_[what];
    const int64_t logged = log_.Of(what);
    if (logged >= told) return "";
    return absl::StrCat(told, " times ", what, ", and ", logged, " in the log");
  }

  const SlowLog& log_;
  Counts& told_;
  const std::string prefix_;
  std::vector<Step> steps_;
  size_t answered_ = 0;
};

class LogRepliesTest : public testing::TestWithParam<ShardReach> {};

INSTANTIATE_TEST_SUITE_P(Reaches, LogRepliesTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(LogRepliesTest, NothingIsToldBeforeItIsInTheLog) {
  ScheduledServer scheduled(TestOptions(), GetParam());
  ServerState& state = scheduled.server().state();
  uint64_t first_epoch = 1;
  scheduled.RunSeeds(ByBuild(400, 60), [&](uint64_t seed, Random& random) {
    Random log_random(seed);
    SlowLog log(&log_random);
    auto journal = std::make_unique<Journal>(
        &state.pool, &log, Journal::Options{.first_epoch = first_epoch, .pause_ns = 0});
    LinkJournal(state, journal.get(), Journal::Pace::kEach);
    Counts told;
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (int i = 0; i < 5; ++i) {
      auto client = std::make_unique<Client>(&log, &told, absl::StrCat(seed, "."));
      client->leaves = random.OneIn(6);
      for (int command = 0; command < 20; ++command) client->AddRandom(random);
      clients.push_back(std::move(client));
    }
    std::string error = scheduled.Drive(std::move(clients), random);
    first_epoch = journal->newest() + 1;
    if (!UnlinkJournal(state, journal.get())) error += " the log stopped";
    return error;
  });
}

}  // namespace
}  // namespace dfly
