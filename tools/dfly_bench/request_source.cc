// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/request_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "helio/base/logging.h"

namespace dfly::bench {

namespace {

// As long as Sidekiq's fetch waits.
constexpr char kPopTimeoutSeconds[] = "2";

std::string MakePlainCommands(const LoadOptions& options, std::vector<CommandArguments>* commands) {
  if (options.command.empty()) {
    *commands = {{"SET", "__key__", "__data__"}, {"GET", "__key__"}};
    return "";
  }
  commands->emplace_back();
  return SplitArguments(options.command, &commands->back());
}

void MakePushesAndPops(uint32_t queues, std::vector<CommandArguments>* commands) {
  const auto name = [](uint32_t queue) { return fmt::format("queue:{}", queue); };
  for (uint32_t i = 0; i < queues; ++i) commands->push_back({"LPUSH", name(i), "__data__"});
  for (uint32_t first = 0; first < queues; ++first) {
    CommandArguments pop = {"BRPOP"};
    for (uint32_t i = 0; i < queues; ++i) pop.push_back(name((first + i) % queues));
    pop.push_back(kPopTimeoutSeconds);
    commands->push_back(std::move(pop));
  }
}

}  // namespace

std::string ScriptOfScenario(const LoadOptions& options, ScriptCall* call) {
  if (options.scenario == Scenario::kBullmq) return ReadScriptCall(options.script_file, call);
  if (options.scenario == Scenario::kLuaLists) {
    CommandArguments keys;
    if (std::string error = SplitArguments(options.list_keys, &keys); !error.empty()) return error;
    *call = LuaListsCall(keys);
  }
  return "";
}

std::string MakeCommands(const LoadOptions& options, const ScriptCall& call, std::string_view sha,
                         std::vector<CommandArguments>* commands) {
  commands->clear();
  switch (options.scenario) {
    case Scenario::kNone:
      return MakePlainCommands(options, commands);
    case Scenario::kBullmq:
      for (uint32_t i = 0; i < options.queues; ++i) {
        commands->push_back(EvalSha(sha, CallForQueue(call, QueueName(options, i))));
      }
      return "";
    case Scenario::kBrpop:
      MakePushesAndPops(options.queues, commands);
      return "";
    case Scenario::kLuaLists:
      commands->push_back(EvalSha(sha, call));
      return "";
  }
  return "";
}

RequestSource::RequestSource(const LoadOptions& options,
                             const std::vector<CommandArguments>& commands, const ValuePool* values)
    : options_(options) {
  templates_.reserve(commands.size());
  for (const CommandArguments& command : commands) {
    templates_.emplace_back(options.key_prefix, values).Compile(command);
  }
}

uint64_t RequestSource::Total() const {
  if (options_.requests == 0) return UINT64_MAX;
  return options_.scenario == Scenario::kBrpop ? options_.requests * 2 : options_.requests;
}

uint64_t RequestSource::PushesLeft(uint64_t request) const {
  const uint64_t turn = request / (2ull * options_.pipeline);
  const uint64_t before = turn * options_.pipeline;  // jobs of the turns before
  const uint64_t jobs = options_.requests == 0
                            ? options_.pipeline
                            : std::min<uint64_t>(options_.pipeline, options_.requests - before);
  const uint64_t done = request - 2 * before;  // pushes and pops of this turn
  return jobs - std::min(jobs, done);
}

uint64_t RequestSource::Window(uint64_t sent) const {
  if (options_.scenario != Scenario::kBrpop) return options_.pipeline;
  return std::max<uint64_t>(1, PushesLeft(sent));
}

bool RequestSource::IsPreparation(uint64_t request) const {
  return options_.scenario == Scenario::kBrpop && PushesLeft(request) > 0;
}

size_t RequestSource::Choose(uint32_t connection, uint64_t request, helio::Random* random) const {
  switch (options_.scenario) {
    case Scenario::kNone: {
      if (templates_.size() == 1 || options_.get_ratio == 0) return 0;
      const uint64_t sum = static_cast<uint64_t>(options_.set_ratio) + options_.get_ratio;
      return options_.set_ratio > 0 && random->Uniform(sum) < options_.set_ratio ? 0 : 1;
    }
    case Scenario::kBullmq:
      return options_.random_queues ? random->Uniform(options_.queues)
                                    : connection % options_.queues;
    case Scenario::kBrpop:
      return random->Uniform(options_.queues) + (IsPreparation(request) ? 0 : options_.queues);
    case Scenario::kLuaLists:
      return 0;
  }
  return 0;
}

void RequestSource::Write(uint32_t connection, uint64_t request, KeySource* keys,
                          helio::Random* random, helio::IoBuf* out) {
  templates_[Choose(connection, request, random)].Write(keys, random, out);
}

}  // namespace dfly::bench
