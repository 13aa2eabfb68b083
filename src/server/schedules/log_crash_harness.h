// SPDX-License-Identifier: Apache-2.0
// For tests: a whole server with an append-only log, and machines that stop, on schedules from a
// seed. Clients write while the log is rewritten, its policy changes, and the disk is full or fails
// at times. At one call of the file layer the machine stops: what the files would be then is
// loaded, and the server goes on with it, for three lives.
#pragma once

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/logging.h"
#include "server/persistence/append_log.h"
#include "server/schedules/schedule_harness.h"
#include "storage/memory_files.h"
#include "storage/snapshot_testing.h"

namespace dfly {

// Calls change() `count` times, when the seed says so, while the other clients write, and waits
// until is_over().
class LogChanger final : public ScheduledClient {
 public:
  LogChanger(
      uint64_t count, helio::Random* random, std::function<void()> change,
      std::function<bool()> is_over = [] { return true; })
      : random_(*random),
        change_(std::move(change)),
        is_over_(std::move(is_over)),
        all_(count),
        left_(count) {}
  std::string Check() override {
    if (left_ == 0 || !random_.OneIn(12)) return "";
    change_();
    --left_;
    return "";
  }
  size_t missing() const override { return left_ == 0 && !is_over_() ? 1 : left_; }
  size_t total() const override { return all_; }

 private:
  helio::Random& random_;
  const std::function<void()> change_;
  const std::function<bool()> is_over_;
  const size_t all_;
  size_t left_;
};

class LogCrashHarness : public testing::TestWithParam<ShardReach> {
 protected:
  static constexpr int kLives = 3;

  LogCrashHarness() : server_(Options(&files_), GetParam()) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // some shall fail
    files_.pause = [this] { OnCall(); };
  }
  ~LogCrashHarness() override { FLAGS_minloglevel = google::GLOG_INFO; }

  // --- What a test has to say. Each returns what is wrong, or nothing ---

  virtual void BeginSeed() = 0;
  // What was loaded. It has to have what was promised in the life before.
  virtual std::string CheckLoaded(const testkit::StoreModel& model) = 0;
  // The machine has not begun to fail yet.
  virtual std::string BeginLife(helio::Random&) { return ""; }
  virtual std::vector<std::unique_ptr<ScheduledClient>> Clients(helio::Random& random) = 0;
  // What was answered so far must never be lost.
  virtual void NotePromises() = 0;
  // All has been answered.
  virtual std::string EndLife() = 0;

  std::string RunSeed(helio::Random& random) {
    left_.clear();
    random_ = &random;
    BeginSeed();
    const absl::Cleanup end_seed = [this] { random_ = nullptr; };
    for (int life = 0; life < kLives; ++life) {
      const std::string error = Live(random);
      if (!error.empty()) return absl::StrCat("life ", life, ": ", error);
    }
    return "";
  }

  std::string Drive(std::vector<std::unique_ptr<ScheduledClient>> clients, helio::Random& random) {
    return server_.Drive(std::move(clients), random);
  }
  uint64_t crashes() const { return crashes_; }

  ScheduledServer& server() { return server_; }
  MemoryFiles& files() { return files_; }

  // The server begins with these files, or an error.
  std::string Start(std::map<std::string, std::string> files) {
    files_.Restart(std::move(files));
    shards().AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kSync); });
    LoadProgress progress;
    std::string error = log().SetPolicy(policy_);
    if (error.empty()) error = log().Find();
    if (error.empty()) error = log().Load(&progress);
    return error;
  }
  std::string End() {
    std::string error = log().SetOn(false);
    while (log().is_on()) helio::this_fiber::SleepForMillis(1);
    return error;
  }

 private:
  // What may happen in one life.
  struct Faults {
    bool errors = false;  // of any call
    bool full = false;    // for a while
  };

  static ServerOptions Options(MemoryFiles* files) {
    ServerOptions options = TestOptions();
    options.persistence.files = files;
    options.persistence.sizes = {.large = 60, .flush = 100, .slice = 30, .work_ns = 0};
    options.persistence.script_wait_ns = 0;
    return options;
  }

  ShardSet& shards() { return *server_.server().state().shards; }
  // One for all lives, as of a server on which it is switched off and on.
  AppendLog& log() {
    if (log_ == nullptr) {
      LogOptions options;
      options.directory_name = "log";
      options.file_name = "a";
      options.loads_truncated = true;
      stream_ = std::make_unique<EffectStream>(&server_.server().state());
      log_ = std::make_unique<AppendLog>(
          &server_.server().state(), &server_.server().persistence(), stream_.get(), options,
          AppendLogTimes{
              .retry_ns = 10'000, .sync_ns = 200'000, .epoch_ns = 20'000, .base_retry_ms = 1});
    }
    return *log_;
  }

  std::string Live(helio::Random& random) {
    constexpr LogPolicy kPolicies[] = {LogPolicy::kAlways, LogPolicy::kAlways, LogPolicy::kEverySec,
                                       LogPolicy::kNo};
    policy_ = kPolicies[random.Uniform(4)];
    LogOptions rules;
    rules.has_timestamps = random.OneIn(2);
    log().SetRules(rules);
    std::string error = Start(std::exchange(left_, {}));
    if (error.empty()) error = CheckLoaded(testkit::ContentOf(shards()));
    promises_ = policy_ == LogPolicy::kAlways;
    if (error.empty()) error = WriteUntilItStops(random);
    if (error.empty()) error = EndLife();
    const std::string end_error = End();
    return error.empty() ? end_error : error;
  }

  std::string WriteUntilItStops(helio::Random& random) {
    calls_left_ = random.Uniform(random.OneIn(2) ? 300 : 40);
    is_running_ = true;
    may_fail_ = {};
    std::string error = BeginLife(random);
    // A log that is never synced keeps nothing that would mend it.
    may_fail_ = {.errors = policy_ != LogPolicy::kNo && random.OneIn(3), .full = random.OneIn(5)};
    for (int round = 0; round < 2 && error.empty(); ++round) {
      std::vector<std::unique_ptr<ScheduledClient>> clients = Clients(random);
      clients.push_back(std::make_unique<LogChanger>(random.Uniform(3), &random,
                                                     [this] { log().StartRewrite(); }));
      clients.push_back(std::make_unique<LogChanger>(
          random.OneIn(6), &random, [this] { ChangePolicy(); },
          [this] { return !log().is_changing(); }));
      error = server_.Drive(std::move(clients), random);
      while (error.empty() && log().Facts().waiting_bytes > 0) helio::this_fiber::SleepForMillis(1);
    }
    if (is_running_) StopMachine();
    return error;
  }

  void ChangePolicy() {
    policy_ = policy_ == LogPolicy::kAlways ? LogPolicy::kEverySec : LogPolicy::kAlways;
    // What `always` has promised so far holds; nothing after that.
    if (is_running_ && std::exchange(promises_, false)) NotePromises();
    (void)log().SetPolicy(policy_);  // another change may be under way: then it stays as it is
  }

  // Each call of the file layer takes its time.
  void OnCall() {
    if (random_ == nullptr) return;
    for (uint64_t n = random_->Uniform(6); n > 0; --n) helio::this_fiber::Yield();
    if (!is_running_) return;
    if (may_fail_.errors && random_->OneIn(40)) {
      files_.calls_left = random_->Uniform(8);
      files_.calls_failing = 1 + random_->Uniform(3);
    }
    if (files_.fails_after != SIZE_MAX) {
      if (random_->OneIn(6)) files_.fails_after = SIZE_MAX;
    } else if (may_fail_.full && random_->OneIn(20)) {
      files_.fails_after = random_->Uniform(2000);
    }
    if (calls_left_-- == 0) StopMachine();
  }

  void StopMachine() {
    is_running_ = false;
    files_.calls_left = SIZE_MAX;
    files_.fails_after = SIZE_MAX;
    // A process that is killed loses nothing that was written.
    left_ = random_->OneIn(4) ? files_.files : files_.AfterCrash(random_);
    if (promises_) NotePromises();
    ++crashes_;
  }

  MemoryFiles files_;
  std::unique_ptr<EffectStream> stream_;
  std::unique_ptr<AppendLog> log_;  // goes last: what it has posted may come late
  ScheduledServer server_;
  helio::Random* random_ = nullptr;
  bool is_running_ = false;  // the machine
  LogPolicy policy_ = LogPolicy::kAlways;
  bool promises_ = false;  // it was `always` since the life began
  Faults may_fail_;
  uint64_t calls_left_ = 0;                  // until it stops
  std::map<std::string, std::string> left_;  // files
  uint64_t crashes_ = 0;
};

}  // namespace dfly
