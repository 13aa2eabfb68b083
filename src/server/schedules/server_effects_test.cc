// SPDX-License-Identifier: Apache-2.0
// The effects of commands that change no key: what a server keeps beside them, and a log and
// replicas have to know. (Those of keys: commands/testing/command_effects_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/keyspace/effects.h"
#include "facade/replies/resp_reader.h"
#include "helio/base/spin_lock.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using testing::ElementsAre;

const std::string kLibrary =
    "#!lua name=lib\nredis.register_function('f', function(keys) "
    "return redis.call('SET', keys[1], 'v') end)";
const std::string kLoaded = "FUNCTION LOAD " + kLibrary;

class Units final : public EffectSink {
 public:
  uint64_t OnUnit(const Effects& effects, UnitOrigin) override {
    std::string unit;
    effects.ForEach([&](int, std::string_view resp) {
      RespValue value;
      CHECK_EQ(ReadRespValue(resp, &value), resp.size());
      unit += unit.empty() ? "" : "; ";
      for (size_t i = 0; i < value.items.size(); ++i) {
        unit += (i == 0 ? "" : " ") + value.items[i].text;
      }
    });
    const std::lock_guard guard(mutex_);
    units_.push_back(std::move(unit));
    return 0;
  }
  std::vector<std::string> Take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(units_, {});
  }

 private:
  helio::SpinLock mutex_;
  std::vector<std::string> units_;
};

class ServerEffectsTest : public testing::TestWithParam<uint32_t> {
 protected:
  ServerEffectsTest() {
    EXPECT_EQ(server_.Start(), "");
    state_.shards->SetEffectSink(&units_);
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    fd_ = fds[0];
    state_.pool.at(0)->Await([&] { server_.OnAccept(fds[1]); });
  }
  ~ServerEffectsTest() override {
    close(fd_);
    state_.shards->SetEffectSink(nullptr);
    server_.Stop();
  }

  static ServerOptions Options() {
    ServerOptions options = TestOptions();
    options.threads = GetParam();
    options.num_shards = GetParam();
    return options;
  }
  RespValue Ask(const std::vector<std::string>& args) {
    const std::string request = Request(args);
    PCHECK(write(fd_, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
    RespValue value;
    while (true) {
      const size_t used = ReadRespValue(unread_, &value);
      if (used != 0) {
        unread_.erase(0, used);
        return value;
      }
      char buffer[4096];
      const ssize_t got = read(fd_, buffer, sizeof(buffer));
      PCHECK(got > 0);
      unread_.append(buffer, static_cast<size_t>(got));
    }
  }
  void Expect(const std::vector<std::string>& args, const std::string& reply) {
    EXPECT_EQ(Ask(args).text, reply) << args[0];
  }

  Server server_{Options(), AllParts()};
  ServerState& state_ = server_.state();
  Units units_;
  int fd_ = -1;
  std::string unread_;
};

TEST_P(ServerEffectsTest, LibrariesOfFunctions) {
  Expect({"FUNCTION", "LOAD", kLibrary}, "lib");
  EXPECT_THAT(units_.Take(), ElementsAre(kLoaded));
  EXPECT_EQ(Ask({"FUNCTION", "LOAD", kLibrary}).kind, ReplyKind::kError);
  EXPECT_EQ(Ask({"FUNCTION", "DELETE", "none"}).kind, ReplyKind::kError);
  EXPECT_THAT(units_.Take(), ElementsAre());
  const std::string dump = Ask({"FUNCTION", "DUMP"}).text;
  Expect({"FUNCTION", "DELETE", "lib"}, "OK");
  Expect({"FUNCTION", "RESTORE", dump, "APPEND"}, "OK");
  Expect({"function", "flush"}, "OK");
  EXPECT_THAT(units_.Take(), ElementsAre("FUNCTION DELETE lib",
                                         "FUNCTION RESTORE " + dump + " APPEND", "function flush"));
}

TEST_P(ServerEffectsTest, Scripts) {
  const std::string sha = Ask({"SCRIPT", "LOAD", "return 1"}).text;
  EXPECT_EQ(Ask({"SCRIPT", "LOAD", "return 1"}).text, sha);
  EXPECT_EQ(Ask({"SCRIPT", "LOAD", "return ("}).kind, ReplyKind::kError);
  Expect({"SCRIPT", "FLUSH", "SYNC"}, "OK");
  EXPECT_THAT(units_.Take(), ElementsAre("SCRIPT LOAD return 1", "SCRIPT FLUSH SYNC"));
}

TEST_P(ServerEffectsTest, InAnExecTheyAreAPartOfItsUnit) {
  Expect({"MULTI"}, "OK");
  Ask({"SET", "a", "1"});
  Ask({"FUNCTION", "LOAD", kLibrary});
  Ask({"GET", "a"});
  Ask({"SET", "b", "2"});
  EXPECT_EQ(Ask({"EXEC"}).items.size(), 4u);
  EXPECT_THAT(units_.Take(), ElementsAre("SET a 1; " + kLoaded + "; SET b 2"));
  Expect({"MULTI"}, "OK");
  Ask({"FUNCTION", "FLUSH"});
  EXPECT_EQ(Ask({"EXEC"}).items.size(), 1u);
  EXPECT_THAT(units_.Take(), ElementsAre("FUNCTION FLUSH"));
}

TEST_P(ServerEffectsTest, AFunctionTellsWhatItDid) {
  Expect({"FUNCTION", "LOAD", kLibrary}, "lib");
  Expect({"FCALL", "f", "1", "a"}, "OK");
  EXPECT_THAT(units_.Take(), ElementsAre(kLoaded, "SET a v"));
}

INSTANTIATE_TEST_SUITE_P(Threads, ServerEffectsTest, testing::Values(1, 3));

}  // namespace
}  // namespace dfly
