// SPDX-License-Identifier: Apache-2.0
// Commands that wait for something, inside EXECs and scripts and beside them, on schedules from a
// seed: saves, flushes, settings, libraries, the end of the server that is given up. Whoever has
// locks must not wait for what needs them, so everybody gets all replies.
#include <optional>

#include "helio/base/logging.h"
#include "helio/base/test_seed.h"
#include "server/schedules/shared_client.h"
#include "server/schedules/test_options.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using helio::Random;
using Words = std::vector<std::string>;

std::string AnyKey(Random& random) { return "k" + std::to_string(random.Uniform(6)); }

// May be queued.
Words AnyCommand(Random& random) {
  constexpr const char* kLibrary =
      "#!lua name=lib\nredis.register_function('f', function(keys) return #keys end)";
  // Takes some slices to compile.
  static const std::string kPadding = [] {
    std::string text = " local x";
    for (int i = 0; i < 700; ++i) text += " if x then end";
    return text;
  }();
  switch (random.Uniform(32)) {
    case 0:
    case 1:
      return {"FLUSHALL"};
    case 2:
      return {"FLUSHALL", "ASYNC"};
    case 3:
    case 4:
      return {"BGSAVE"};
    case 5:
      return {"BGSAVE", "RDB"};
    case 6:
      return {"SWAPDB", "0", "1"};
    case 7:
      return {"FUNCTION", "LOAD", "REPLACE", kLibrary};
    case 8:
      return {"FUNCTION", "FLUSH"};
    case 9:
      return {"SCRIPT", "LOAD", "return " + std::to_string(random.Uniform(9))};
    case 10:
      return {"SCRIPT", "FLUSH"};
    case 11:
      return {"CONFIG", "SET", "maxmemory", "0"};
    case 12:
      return {"CONFIG", "SET", "save", "3600 1"};
    case 13:
      return {"CONFIG", "GET", "*"};
    case 14:
      return {"INFO"};
    case 15:
      return {"CLIENT", "LIST"};
    case 16:
      return {"ACL", "SETUSER", "somebody", "on", "~*"};
    case 17:
      return {"FCALL", "f", "1", AnyKey(random)};
    case 18:
      return {"CONFIG", "REWRITE"};
    case 19:
      return {"CONFIG", "SET", "list-max-listpack-size", "64", "notify-keyspace-events", "KEA"};
    case 20:
      return {"DEBUG", "RELOAD"};
    case 21:
      return {"DEBUG", "SLEEP", "0.0001"};
    case 22:
      return {"FUNCTION", "DELETE", "lib"};
    case 23:
      return {"FLUSHDB"};
    case 24:
      return {"EVAL", "redis.call('set', KEYS[1], 1) return redis.call('swapdb', 0, 1)", "1",
              AnyKey(random)};
    case 25:  // once DEBUG SET-DISABLE-DENY-SCRIPTS was said
      return {"EVAL", "redis.call('set', KEYS[1], 1) return redis.call('debug', 'reload')", "1",
              AnyKey(random)};
    case 26:
      return {"EVAL", "redis.call('mset', KEYS[1], 1, 'k1', 2) return redis.call('flushall')", "1",
              AnyKey(random)};
    case 27:
      return {"FUNCTION", "LOAD", "REPLACE", kLibrary + kPadding};
    case 28:
      return {"SCRIPT", "LOAD", kPadding + " return " + std::to_string(random.Uniform(9))};
    case 29:
      return {"EVAL", kPadding + " return redis.call('set', KEYS[1], 1)", "1", AnyKey(random)};
    case 30:
      return {random.OneIn(2) ? "SCRIPT" : "FUNCTION", "KILL"};
    default:
      return {"MSET", AnyKey(random), "a", AnyKey(random), "b"};
  }
}

// Asks the server to end, and does not care for an answer.
class StoppingClient final : public ScheduledClient {
 public:
  explicit StoppingClient(const Words& args) { unsent = Request(args); }
  std::string Check() override { return ""; }
  size_t missing() const override { return unsent.empty() ? 0 : 1; }
  size_t total() const override { return 1; }
};

std::unique_ptr<ScheduledClient> MakeStoppingClient(Random& random) {
  const Words ways[] = {{"SHUTDOWN"}, {"SHUTDOWN", "SAVE"}, {"SHUTDOWN", "NOSAVE"}};
  return std::make_unique<StoppingClient>(ways[random.Uniform(3)]);
}

std::unique_ptr<SharedClient> MakeClient(Random& random) {
  auto client = std::make_unique<SharedClient>();
  client->leaves = random.OneIn(6);
  for (uint64_t n = 1 + random.Uniform(8); n > 0; --n) {
    switch (random.Uniform(6)) {
      case 0:
        client->Add({"SAVE"}, AnyReply);
        break;
      case 1:
        client->Add({"SHUTDOWN", "ABORT"}, AnyReply);
        break;
      case 2:
        client->Add({"DEBUG", "RELOAD"}, AnyReply);
        break;
      case 3:
        client->Add({"EVAL",
                     "#!lua flags=disable-atomicity\nfor i = 1, 3 do redis.call('mset', 'k0', i, "
                     "'k1', i, 'k2', i) redis.call('flushall') redis.call('swapdb', 0, 1) "
                     "redis.call('debug', 'reload') end return 1",
                     "0"},
                    AnyReply);
        break;
      case 4:
        client->Add({"MULTI"}, AnyReply);
        for (uint64_t m = 1 + random.Uniform(6); m > 0; --m) {
          client->Add(AnyCommand(random), AnyReply);
        }
        client->Add({"EXEC"}, AnyReply);
        break;
      default:
        client->Add(AnyCommand(random), AnyReply);
    }
  }
  return client;
}

class HangScheduleTest : public testing::TestWithParam<ShardReach> {
 protected:
  HangScheduleTest() : server_(Options(&files_), GetParam()) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // saves tell of themselves
  }

  static ServerOptions Options(MemoryFiles* files) {
    ServerOptions options = TestOptions();
    options.persistence.files = files;
    options.persistence.dbfilename = "dump";
    options.persistence.rules = {{.seconds = 3600, .changes = 1}};  // so FLUSHALL saves
    options.persistence.sizes = {.large = 60, .flush = 100, .slice = 30, .work_ns = 0};
    options.persistence.script_wait_ns = 0;
    options.interpreters_per_thread = 2;
    options.debug_command = ProtectedAction::kYes;
    options.config_file = testing::TempDir() + "hang_schedule_test.conf";
    // It does not end really: whoever waits for locks then goes on.
    options.request_stop = [] { Server::Here().TakeBackStop(); };
    return options;
  }

  std::string RunSeed(Random& random) {
    files_.pause = [&random] {
      for (uint64_t n = random.Uniform(6); n > 0; --n) helio::this_fiber::Yield();
    };
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (uint64_t n = 2 + random.Uniform(5); n > 0; --n) clients.push_back(MakeClient(random));
    if (random.OneIn(2)) clients.push_back(MakeStoppingClient(random));
    std::string error = server_.Drive(std::move(clients), random);
    files_.pause = [] {};
    return error;
  }

  MemoryFiles files_;
  ScheduledServer server_;
};

INSTANTIATE_TEST_SUITE_P(Ways, HangScheduleTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(HangScheduleTest, EverybodyIsAnswered) {
  bool has_rules = false;
  server_.server().Load([](const std::string&) {});  // rules begin
  server_.server().state().pool.at(0)->AwaitFiber(
      "begin", [&] { has_rules = server_.server().persistence().has_rules(); });
  ASSERT_TRUE(has_rules);
  server_.server().state().settings.scripts_may_debug = true;
  server_.RunSeeds(ByBuild(500, 60), [&](uint64_t, Random& random) { return RunSeed(random); });
}

}  // namespace
}  // namespace dfly
