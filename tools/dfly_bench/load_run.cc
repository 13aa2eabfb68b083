// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/load_run.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "helio/base/clock.h"
#include "helio/net/address.h"
#include "helio/proactor/proactor_pool.h"
#include "tools/dfly_bench/client.h"
#include "tools/dfly_bench/script_load.h"

namespace dfly::bench {

namespace {

constexpr uint64_t kTickNs = 500'000'000;
constexpr uint64_t kSecondNs = 1'000'000'000;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Owner: the main thread.
class Run {
 public:
  explicit Run(const LoadOptions& options)
      : options_(options),
        total_(options.threads * options.connections),
        values_(options.value_size, options.seed),
        pool_({.threads = options.threads, .force_epoll = options.force_epoll}) {}

  ~Run() {
    for (int fd : fds_) close(fd);
  }

  // Loads the scenario's script, if it has one, and makes the commands.
  bool Prepare(std::string* error) {
    ScriptCall call;
    std::string sha;
    *error = ScriptOfScenario(options_, &call);
    if (error->empty() && !call.script.empty()) *error = LoadScript(options_, call.script, &sha);
    if (error->empty()) *error = MakeCommands(options_, call, sha, &commands_);
    return error->empty();
  }

  bool Connect(std::string* error) {
    for (uint32_t i = 0; i < total_; ++i) {
      const int fd = helio::ConnectTcp(options_.host, options_.port, error);
      if (fd < 0) return false;
      helio::SetTcpOptions(fd, 0);
      fds_.push_back(fd);
    }
    return true;
  }

  void Execute(const std::atomic<bool>* interrupt, const ProgressFn& progress, LoadResult* result) {
    interrupt_ = interrupt;
    OpenClients();
    WaitUntilReady();
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const uint64_t begin_ns = helio::MonotonicNanos();
    if (!options_.connect_only) {
      ForEachThread([begin_ns](LoadThread* thread) { thread->Begin(begin_ns); });
    }
    Watch(begin_ns, progress);
    getrusage(RUSAGE_SELF, &after);
    Gather();
    uint64_t end_ns = begin_ns;
    pool_.AwaitOnAll([this](helio::Proactor*) {});  // what the loops wrote is visible from here on
    for (auto& thread : threads_) end_ns = std::max(end_ns, thread->last_reply_ns());
    result->seconds = static_cast<double>(end_ns - begin_ns) * 1e-9;
    result->cpu_user_s = Seconds(after.ru_utime) - Seconds(before.ru_utime);
    result->cpu_system_s = Seconds(after.ru_stime) - Seconds(before.ru_stime);
    result->connections = total_;
    result->interrupted = interrupted_;
    result->stats = std::move(totals_);
    pool_.Stop();
  }

 private:
  template <typename Function>
  void ForEachThread(Function function) {
    pool_.AwaitOnAll(
        [&](helio::Proactor* proactor) { function(threads_[proactor->index()].get()); });
  }

  void OpenClients() {
    signals_.opening = signals_.open = total_;
    for (uint32_t i = 0; i < options_.threads; ++i) {
      threads_.push_back(std::make_unique<LoadThread>(options_, commands_, &values_, &signals_));
    }
    pool_.Start();
    const std::vector<int> fds = std::exchange(fds_, {});
    pool_.AwaitOnAll([&](helio::Proactor* proactor) {
      // Timers on time to the microsecond; the kernel's default is to be up to 50 late.
      if (options_.qps > 0) prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
      const uint32_t first = proactor->index() * options_.connections;
      threads_[proactor->index()]->Open(
          {fds.begin() + first, fds.begin() + first + options_.connections}, first);
    });
  }

  void WaitUntilReady() {
    const uint64_t deadline_ns = helio::MonotonicNanos() + options_.reply_timeout_s * kSecondNs;
    while (signals_.opening.load() > 0 && !*interrupt_) {
      if (helio::MonotonicNanos() > deadline_ns) {
        ForEachThread([](LoadThread* thread) { thread->Abort("the server does not answer"); });
        return;
      }
      Wait();
    }
  }

  // Until something changed, at most one tick.
  void Wait() { (void)signals_.changed.try_acquire_for(std::chrono::nanoseconds(kTickNs)); }

  // Returns what came in since the last call.
  LoadStats Gather() {
    std::vector<LoadStats> parts(options_.threads);
    pool_.AwaitOnAll([&](helio::Proactor* proactor) {
      parts[proactor->index()] = threads_[proactor->index()]->TakeStats();
    });
    LoadStats interval;
    for (const LoadStats& part : parts) interval.Merge(part);
    totals_.Merge(interval);
    return interval;
  }

  // Until all connections are closed.
  void Watch(uint64_t begin_ns, const ProgressFn& progress) {
    const uint64_t timeout_ns = options_.reply_timeout_s * kSecondNs +
                                (options_.qps > 0 ? static_cast<uint64_t>(2e9 / options_.qps) : 0);
    const uint64_t end_ns =
        options_.test_time_s == 0 ? UINT64_MAX : begin_ns + options_.test_time_s * kSecondNs;
    uint64_t last_reply_ns = begin_ns;
    uint64_t last_tick_ns = begin_ns;
    bool stopping = false;
    while (signals_.open.load() > 0) {
      uint64_t now_ns = helio::MonotonicNanos();
      if (!stopping && now_ns < end_ns) {
        const uint64_t most_ns = std::min(kTickNs, end_ns - now_ns);
        (void)signals_.changed.try_acquire_for(std::chrono::nanoseconds(most_ns));
      } else {
        Wait();
      }
      now_ns = helio::MonotonicNanos();
      if (!stopping && (now_ns >= end_ns || *interrupt_)) {
        interrupted_ = *interrupt_;
        stopping = true;
        last_reply_ns = now_ns;
        ForEachThread([](LoadThread* thread) { thread->Stop(); });
      }
      if (now_ns - last_tick_ns < kTickNs && !stopping) continue;
      const LoadStats interval = Gather();
      if (interval.replies > 0 || (options_.connect_only && !stopping)) last_reply_ns = now_ns;
      if (progress && now_ns - last_tick_ns >= kTickNs) {
        progress(interval, static_cast<double>(now_ns - last_tick_ns) * 1e-9, totals_.replies,
                 static_cast<double>(now_ns - begin_ns) * 1e-9);
      }
      last_tick_ns = now_ns;
      if (now_ns - last_reply_ns > timeout_ns) {
        ForEachThread([](LoadThread* thread) { thread->Abort("the server does not answer"); });
        last_reply_ns = now_ns;
      }
    }
  }

  const LoadOptions& options_;
  const uint32_t total_;  // connections
  const ValuePool values_;
  std::vector<CommandArguments> commands_;
  const std::atomic<bool>* interrupt_ = nullptr;
  LoadSignals signals_;
  std::vector<int> fds_;  // connected, not yet handed to the threads
  std::vector<std::unique_ptr<LoadThread>> threads_;
  helio::ProactorPool pool_;  // below what its threads use
  LoadStats totals_;
  bool interrupted_ = false;
};

}  // namespace

std::string CheckOptions(const LoadOptions& options) {
  constexpr uint64_t kKeysMax = 1ull << 53;
  constexpr uint64_t kConnectionsMax = 1'000'000;
  if (options.threads == 0 || options.threads > 1024) return "threads: between 1 and 1024";
  if (options.connections == 0) return "-c: at least one connection";
  if (static_cast<uint64_t>(options.threads) * options.connections > kConnectionsMax)
    return "-c: too many connections";
  if (options.pipeline == 0 || options.pipeline > 100'000) return "--pipeline: 1 to 100000";
  if (!(options.qps >= 0 && options.qps <= 1e9)) return "--qps: 0 to 1e9";
  if (options.keys.minimum > options.keys.maximum) return "--key_minimum is above --key_maximum";
  if (options.keys.maximum - options.keys.minimum >= kKeysMax) return "more than 2^53 keys";
  if (!(options.keys.zipf_alpha >= 0 && options.keys.zipf_alpha <= 100))
    return "--zipf_alpha: 0 to 100";
  if (options.requests == 0 && options.test_time_s == 0) return "-n or --test_time must be given";
  if (options.connect_only && options.test_time_s == 0)
    return "--connect_only needs --test_time, the seconds to stay connected";
  if (options.value_size > (512u << 20)) return "-d: at most 512 MiB";
  if (static_cast<uint64_t>(options.value_size) * options.pipeline > (4ull << 30))
    return "-d times --pipeline: at most 4 GiB";
  if (options.command.empty() && options.set_ratio + static_cast<uint64_t>(options.get_ratio) == 0)
    return "--ratio: 0:0 asks for nothing";
  if (options.queues == 0 || options.queues > 10'000) return "--queues: 1 to 10000";
  if (options.scenario == Scenario::kBullmq && options.script_file.empty())
    return "--scenario=bullmq needs a --script_file, which tools/bench/bullmq/capture.js writes";
  if (options.scenario == Scenario::kBrpop && options.qps > 0)
    return "--scenario=brpop waits for its replies; --qps is not for it";
  if (options.scenario != Scenario::kNone && !options.command.empty())
    return "--scenario and --command: one of them";
  std::vector<std::string> words;
  std::string error = SplitArguments(options.list_keys, &words);
  if (!error.empty() || words.size() != 5) return "--list_keys: five keys";
  if (options.command.empty()) return "";
  error = SplitArguments(options.command, &words);
  return error.empty() ? "" : "--command: " + error;
}

bool RunLoad(const LoadOptions& options, const std::atomic<bool>* interrupt,
             const ProgressFn& progress, LoadResult* result, std::string* error) {
  *error = CheckOptions(options);
  if (!error->empty()) return false;
  Run run(options);
  if (!run.Prepare(error) || !run.Connect(error)) return false;
  run.Execute(interrupt, progress, result);
  return true;
}

}  // namespace dfly::bench
