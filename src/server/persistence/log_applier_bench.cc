// SPDX-License-Identifier: Apache-2.0
// How many commands of a log are loaded in a second, by two threads? The files stay in
// $DFLY_BENCH_LOG, if that names a folder, so that redis-server can be asked the same:
//
//   redis-server --appendonly yes --dir $DFLY_BENCH_LOG/set
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <memory>
#include <string>

#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "helio/proactor/proactor_pool.h"
#include "server/persistence/log_applier.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_testing.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

struct NoParts final : LoadedParts {
  std::string TakeExtras(const SnapshotExtras&) override { return ""; }
  std::string Apply(Args) override { return ""; }
  void RunScript(CoordinatorContext&, Args, ReplySink&) override {}
};

// Of the process; says more than the clock on a busy machine.
double CpuSeconds() {
  rusage usage;
  PCHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

enum class Kind { kSet, kMixed };

std::string CommandOf(Kind kind, uint64_t keys, helio::Random* random) {
  const std::string key = fmt::format("key:{:012}", random->Uniform(keys));
  const uint64_t what = kind == Kind::kSet ? 0 : random->Uniform(8);
  const std::string number = std::to_string(random->Uniform(1000));
  switch (what) {
    case 1:
      return testkit::CommandText({"INCR", "counter:" + number});
    case 2:
      return testkit::CommandText({"HSET", "hash:" + number, "field:" + number, key});
    case 3:
      return testkit::CommandText({"ZADD", "zset:" + number, number, key});
    case 4:
      return testkit::CommandText({"RPUSH", "list:" + number, key});
    case 5:
      return testkit::CommandText({"DEL", key, key + "x"});
    case 6:
      return testkit::CommandText({"PEXPIREAT", key, "4102444800000"});
    default:
      return testkit::CommandText({"SET", key, std::string(64, 'v')});
  }
}

void LoadLog(benchmark::State& state, Kind kind, bool has_epochs) {
  const uint64_t commands = getenv("DFLY_BENCH_SMALL") != nullptr ? 2000 : 3'000'000;
  helio::Random random(1);
  std::string text;
  uint64_t offset = 0;
  for (uint64_t i = 0, number = 1; i < commands; ++number) {
    std::string content;
    for (int j = 0; j < 100 && i < commands; ++j, ++i) {
      content += CommandOf(kind, commands / 2, &random);
    }
    text += has_epochs ? testkit::EpochText(number, offset, content) : content;
    offset += content.size();
  }
  helio::ProactorPool pool({.threads = 2});
  pool.Start();
  MemoryFiles memory;
  const char* const folder = getenv("DFLY_BENCH_LOG");
  FileLayer& files = folder != nullptr ? SystemFiles() : memory;
  const std::string name = kind == Kind::kSet ? "set" : "mixed";
  const std::string dir = folder != nullptr ? fmt::format("{}/{}", folder, name) : name;
  LogDirectory directory(
      &files, {.dir = dir, .directory_name = "appendonlydir", .file_name = "appendonly.aof"});
  pool.at(0)->AwaitFiber("write", [&] {
    CHECK(!files.MakeDirectory(dir));
    CHECK_EQ(directory.Open(), "");
    std::string incremental;
    if (directory.is_new()) CHECK(!directory.NewIncremental(&incremental));
    std::unique_ptr<OutputFile> file;
    CHECK(!files.Create(directory.Path(directory.manifest().incrementals.back().name), &file));
    CHECK(!file->Write(text));
    CHECK(!file->SyncAndClose());
  });
  CommandTable table;
  RegisterStringCommands(&table);
  RegisterKeyCommands(&table);
  RegisterListCommands(&table);
  RegisterZsetCommands(&table);
  RegisterHashCommands(&table);
  double cpu_s = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto shards = std::make_unique<ShardSet>(&pool, 2, 16);
    state.ResumeTiming();
    const double before_s = CpuSeconds();
    pool.at(0)->AwaitFiber("load", [&] {
      NoParts parts;
      ShardsApplier applier(&table, shards.get(), &parts);
      LoadProgress progress;
      LogLoader loader(shards.get(), &files, &directory, &applier, &progress);
      CHECK_EQ(loader.Load(true), "");
      CHECK_EQ(loader.commands(), commands);
    });
    state.PauseTiming();
    cpu_s += CpuSeconds() - before_s;
    shards.reset();
    state.ResumeTiming();
  }
  pool.Stop();
  const auto all = static_cast<double>(commands * state.iterations());
  state.counters["cpu_ns_per_command"] = cpu_s * 1e9 / all;
  state.SetItemsProcessed(static_cast<int64_t>(commands * state.iterations()));
}

BENCHMARK_CAPTURE(LoadLog, set_of_redis, Kind::kSet, false)->UseRealTime();
BENCHMARK_CAPTURE(LoadLog, set_of_ours, Kind::kSet, true)->UseRealTime();
BENCHMARK_CAPTURE(LoadLog, mixed_of_ours, Kind::kMixed, true)->UseRealTime();

}  // namespace
}  // namespace dfly

BENCHMARK_MAIN();
