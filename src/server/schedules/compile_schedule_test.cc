// SPDX-License-Identifier: Apache-2.0
// Libraries and scripts whose sources take several slices to compile, on schedules from a seed:
// loaded, restored, flushed, killed and called by several clients at once, inside EXECs and beside
// them. Each load is done whole or not at all, what clients see at one moment belongs together, and
// everybody gets all replies.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "scripting/source/script_header.h"
#include "server/schedules/shared_client.h"
#include "server/schedules/test_options.h"

namespace dfly {
namespace {

using helio::Random;

constexpr uint64_t kVersions = 3;

// Some slices of the compiler, which come to nothing.
std::string Padding(uint64_t version) {
  std::string text;
  for (int i = 0; i < 700; ++i) text += fmt::format("if x{} then end ", version);
  return fmt::format(" local x{} {}", version, text);
}

// With one function for each of the names, which tells the version.
std::string Library(std::string_view library, const std::vector<std::string>& names,
                    uint64_t version) {
  std::string source = fmt::format("#!lua name={}\n", library);
  for (const std::string& name : names) {
    source += fmt::format("redis.register_function('{}_{}', function() return {} end)\n", name,
                          version, version);
  }
  return source + Padding(version);
}

std::string Script(uint64_t version) {
  return fmt::format("{} return {}", Padding(version), version);
}

// Of FUNCTION DUMP, with two libraries that are always restored together.
std::string BothAs(uint64_t version) {
  FunctionStore store(0, false);
  Interpreter interpreter(16 << 20);
  std::vector<LibraryRef> libraries;
  for (const char* name : {"left", "right"}) {
    const std::string source = Library(name, {name}, version);
    ScriptHeader header;
    std::string error;
    CHECK(!ParseLibraryHeader(source, &header));
    libraries.push_back(store.Compile(source, header, &interpreter, nullptr, &error));
    CHECK(libraries.back() != nullptr) << error;
  }
  CHECK(!store.Add(libraries, FunctionStore::Policy::kAppend));
  return store.Dump();
}

bool IsError(const RespValue& reply, std::string_view begin) {
  return reply.kind == ReplyKind::kError && reply.text.starts_with(begin);
}
bool IsKilled(const RespValue& reply) {
  return IsError(reply, "ERR Script killed by user with SCRIPT KILL... script: ");
}

ReplyCheck IsOrKilled(std::string wanted) {
  return [wanted = std::move(wanted)](const RespValue& reply) {
    return reply.ToString() == wanted || IsKilled(reply) ? "" : "expected " + wanted;
  };
}
std::string FirstOne(const RespValue& reply) {
  return reply.text == "once" || IsKilled(reply) ||
                 IsError(reply, "ERR Library 'once' already exists")
             ? ""
             : "loaded, or it is there";
}
std::string KilledOne(const RespValue& reply) {
  return reply.text == "OK" || IsError(reply, "NOTBUSY") || IsError(reply, "BUSY")
             ? ""
             : "somebody was killed or nobody was there";
}
ReplyCheck IsOrUnknown(uint64_t version) {
  return [version](const RespValue& reply) {
    return reply.ToString() == fmt::format(":{}", version) || IsKilled(reply) ||
                   IsError(reply, "ERR Function not found")
               ? ""
               : "its version, or there is none";
  };
}

// The version that all functions in a reply of FUNCTION LIST have; 0: there are none. -1: several.
int64_t VersionIn(const RespValue& reply, std::string_view library, size_t count) {
  int64_t version = 0;
  for (const RespValue& row : reply.items) {
    if (row.items[1].text != library) continue;
    const RespValue& functions = row.items[5];
    if (functions.items.size() != count) return -1;
    for (const RespValue& function : functions.items) {
      const std::string& name = function.items[1].text;
      const int64_t its_version = name.back() - '0';
      if (version != 0 && its_version != version) return -1;
      version = its_version;
    }
  }
  return version;
}

std::string FitsTogether(const RespValue& reply) {
  if (VersionIn(reply, "pair", 2) < 0) return "two functions of one version";
  const int64_t left = VersionIn(reply, "left", 1);
  return left >= 0 && left == VersionIn(reply, "right", 1) ? "" : "both libraries of one version";
}

class CompilingClients {
 public:
  CompilingClients() {
    for (uint64_t version = 1; version <= kVersions; ++version) both_.push_back(BothAs(version));
  }

  std::unique_ptr<SharedClient> Make(uint64_t seed, Random& random) {
    auto client = std::make_unique<SharedClient>();
    client->leaves = random.OneIn(6);
    for (uint64_t n = 1 + random.Uniform(8); n > 0; --n) {
      if (!random.OneIn(4)) {
        const auto& [args, check] = Any(seed, random);
        client->Add(args, check);
        continue;
      }
      std::vector<Request> queued;
      for (uint64_t m = 1 + random.Uniform(4); m > 0; --m) queued.push_back(Any(seed, random));
      client->Add({"MULTI"}, Is("+OK"));
      for (const Request& request : queued) client->Add(request.args, Is("+QUEUED"));
      client->Add({"EXEC"}, [queued](const RespValue& reply) -> std::string {
        if (reply.items.size() != queued.size()) return "all replies";
        for (size_t i = 0; i < queued.size(); ++i) {
          const std::string wrong = queued[i].check(reply.items[i]);
          if (!wrong.empty()) return queued[i].args[1] + ": " + wrong;
        }
        return "";
      });
    }
    return client;
  }

 private:
  struct Request {
    std::vector<std::string> args;
    ReplyCheck check;
  };

  Request Any(uint64_t seed, Random& random) const {
    const uint64_t version = 1 + random.Uniform(kVersions);
    const std::string number = std::to_string(version);
    const std::string key = "k" + std::to_string(random.Uniform(4));
    // New in each seed, and compiled when it is called first.
    const std::string script = Script(version) + " -- " + std::to_string(seed);
    switch (random.Uniform(18)) {
      case 0:
      case 1:
      case 2:
        return {{"FUNCTION", "LOAD", "REPLACE", Library("pair", {"one", "two"}, version)},
                IsOrKilled("\"pair\"")};
      case 3:
        return {{"FUNCTION", "LOAD", Library("once", {"once"}, version)}, FirstOne};
      case 4:
      case 5:
        return {{"FUNCTION", "RESTORE", both_[version - 1], "REPLACE"}, IsOrKilled("+OK")};
      case 6:
        return {{"FUNCTION", "RESTORE", both_[version - 1], "FLUSH"}, IsOrKilled("+OK")};
      case 7:
        return {{"FUNCTION", "FLUSH"}, Is("+OK")};
      case 8:
        return {{"FUNCTION", "DELETE", random.OneIn(2) ? "pair" : "once"}, AnyReply};
      case 9:
      case 10:
        return {{"FUNCTION", "LIST"}, FitsTogether};
      case 11:
        return {{"FCALL", (random.OneIn(2) ? "one_" : "two_") + number, "1", key},
                IsOrUnknown(version)};
      case 12:
        return {{"FCALL", (random.OneIn(2) ? "left_" : "right_") + number, "0"},
                IsOrUnknown(version)};
      case 13:
        return {{random.OneIn(2) ? "FUNCTION" : "SCRIPT", "KILL"}, KilledOne};
      case 14:
        return {{"SCRIPT", "LOAD", script}, IsOrKilled("\"" + Sha1Hex(script) + "\"")};
      case 15:
        return {{"SCRIPT", "FLUSH"}, Is("+OK")};
      case 16:
        return {{"EVALSHA", Sha1Hex(script), "1", key}, [number](const RespValue& reply) {
                  return reply.ToString() == ":" + number || IsKilled(reply) ||
                                 IsError(reply, "NOSCRIPT")
                             ? ""
                             : "its version";
                }};
      default:
        return {{random.OneIn(2) ? "EVAL" : "EVAL_RO", script, "1", key}, IsOrKilled(":" + number)};
    }
  }

  std::vector<std::string> both_;  // by version
};

struct Way {
  const char* name;
  ShardReach reach;
  uint32_t interpreters;
};

class CompileScheduleTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, CompileScheduleTest,
                         testing::Values(Way{"by_message", ShardReach::kByMessage, 16},
                                         Way{"in_place", ShardReach::kInPlace, 2},
                                         Way{"one_state", ShardReach::kByMessage, 1}),
                         [](const auto& info) { return info.param.name; });

TEST_P(CompileScheduleTest, LoadsAreWholeAndEverybodyIsAnswered) {
  ServerOptions options = TestOptions();
  options.interpreters_per_thread = GetParam().interpreters;
  ScheduledServer server(options, GetParam().reach);
  CompilingClients maker;
  server.RunSeeds(ByBuild(600, 40), [&](uint64_t seed, Random& random) {
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (uint64_t n = 2 + random.Uniform(4); n > 0; --n)
      clients.push_back(maker.Make(seed, random));
    std::string error = server.Drive(std::move(clients), random);
    if (error.empty() && RunningScripts::Here().interpreters().in_use() > 0) {
      error = "an interpreter is left";
    }
    // What is left over of kills is no half of anything.
    auto last = std::make_unique<SharedClient>();
    last->Add({"FUNCTION", "LIST"}, FitsTogether);
    last->Add({"FUNCTION", "LOAD", "REPLACE", Library("pair", {"one", "two"}, 1)}, Is("\"pair\""));
    last->Add({"FCALL", "one_1", "0"}, Is(":1"));
    last->Add({"EVAL", Script(2) + " -- " + std::to_string(seed), "0"}, Is(":2"));
    last->Add({"FUNCTION", "FLUSH"}, Is("+OK"));
    last->Add({"SCRIPT", "FLUSH"}, Is("+OK"));
    std::vector<std::unique_ptr<ScheduledClient>> lasts;
    lasts.push_back(std::move(last));
    return error.empty() ? server.Drive(std::move(lasts), random) : error;
  });
  uint64_t gave_way = 0;
  server.server().state().pool.at(0)->Await(
      [&] { gave_way = WorkerState::Here().stats.scripts.gave_way; });
  EXPECT_TRUE(gave_way > 100 || helio::IsReplay()) << gave_way;
}

}  // namespace
}  // namespace dfly
