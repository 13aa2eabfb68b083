// SPDX-License-Identifier: Apache-2.0
// The append-only log of a whole server and machines that stop, on schedules from a seed. Writers
// send units: single commands, MSET, EXECs and scripts over several shards, while the log is
// rewritten and, at times, the disk fails. At one call of the file layer the machine stops: what
// the files would be then is loaded, and the server goes on with it, for three lives.
//
// Each writer numbers its units. What is loaded has to be, of each writer, what its first n units
// have made, with `always` at least those that were answered:
//
//   w<writer>.*  keys of one writer: SET of the number, INCRBY, RPUSH, SET with a deadline
//   s*           lists of all, to which units push their names: each is the beginning of the list
//                that there was, so the log has no unit without those that came before it
//   bank*        INCRBY of amounts whose sum is 0
//   group*       in a database that is flushed: all keys, or none, with one value
#include <absl/cleanup/cleanup.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/persistence/append_log.h"
#include "server/schedules/shared_client.h"
#include "storage/memory_files.h"
#include "storage/snapshot_testing.h"

namespace dfly {
namespace {

using helio::Random;
using testing::StoreModel;
using testing::Texts;

constexpr size_t kWriters = 4;
constexpr uint64_t kKeys = 4;
constexpr int kGroupDb = 3;
constexpr int kLives = 3;
constexpr const char* kScript =
    "for i, key in ipairs(KEYS) do redis.call(ARGV[2 * i - 1], key, ARGV[2 * i]) end return 'done'";

struct Effect {
  std::string command, key, argument;
  int64_t deadline_ms = 0;
};
struct Unit {
  std::vector<Effect> effects;
  bool is_refused = false;  // the disk had failed, and nothing was done
};

// Strings, and lists with a blank behind each element.
using Values = std::map<std::string, std::string>;

void Apply(const Unit& unit, Values* values, std::map<std::string, int64_t>* deadlines) {
  if (unit.is_refused) return;
  for (const Effect& effect : unit.effects) {
    std::string& value = (*values)[effect.key];
    if (effect.command == "RPUSH") {
      absl::StrAppend(&value, effect.argument, " ");
    } else if (effect.command == "INCRBY") {
      value = absl::StrCat((value.empty() ? 0 : std::stoll(value)) + std::stoll(effect.argument));
    } else {
      value = effect.argument;
      if (effect.deadline_ms > 0) (*deadlines)[effect.key] = effect.deadline_ms;
    }
  }
}

// What one writer has sent, in all its lives.
struct Track {
  std::vector<Unit> units;
  size_t answered = 0;  // of them
  size_t answered_at_crash = 0;
};

class Writer final : public SharedClient {
 public:
  Writer(size_t number, Track* track) : prefix_(absl::StrCat("w", number, ".")), track_(*track) {}

  void AddUnit(Random& random) {
    const std::string number = absl::StrCat(track_.units.size() + 1);
    Unit unit;
    const bool is_mset = random.OneIn(6);
    const uint64_t count = random.OneIn(3) ? 1 : 2 + random.Uniform(4);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string own = absl::StrCat(prefix_, random.Uniform(kKeys));
      switch (is_mset ? 0 : random.Uniform(5)) {
        case 0:
        case 1:
          unit.effects.push_back({"SET", own, number});
          break;
        case 2:
          unit.effects.push_back({"INCRBY", prefix_ + "count", "1"});
          break;
        case 3:
          unit.effects.push_back({"RPUSH", prefix_ + "list", number});
          break;
        default:
          unit.effects.push_back({"RPUSH", absl::StrCat("s", random.Uniform(3)), prefix_ + number});
      }
    }
    if (!is_mset && count > 1 && random.OneIn(3)) {
      const auto amount = static_cast<int64_t>(random.Uniform(90));
      unit.effects.push_back(
          {"INCRBY", absl::StrCat("bank", random.Uniform(kKeys)), absl::StrCat(amount)});
      unit.effects.push_back(
          {"INCRBY", absl::StrCat("bank", random.Uniform(kKeys)), absl::StrCat(-amount)});
      unit.effects.push_back({"RPUSH", "s0", prefix_ + number});
    }
    if (!is_mset && random.OneIn(10)) {
      const int64_t in_ms = random.OneIn(2) ? 1 + static_cast<int64_t>(random.Uniform(5)) : 1 << 30;
      unit.effects.assign({{"SET", prefix_ + "due", number, helio::UnixMillis() + in_ms}});
    }
    Send(unit, is_mset, random);
    track_.units.push_back(std::move(unit));
    EndPart();
  }
  // In a database of its own; no unit.
  void AddGroup(Random& random) {
    Add({"SELECT", absl::StrCat(kGroupDb)}, Is("+OK"));
    std::vector<std::string> args = {"MSET"};
    const std::string value = absl::StrCat(random.Uniform(1000));
    for (uint64_t i = 0; i < kKeys; ++i) {
      args.insert(args.end(), {absl::StrCat("group", i), value});
    }
    Add(args, AnyReply);
    if (random.OneIn(3)) Add({"UNLINK", "group0", "group1", "group2", "group3"}, AnyReply);
    if (random.OneIn(3)) Add({"FLUSHDB"}, AnyReply);
    Add({"SELECT", "0"}, Is("+OK"));
    EndPart();
  }

  std::string Check() override {
    std::string error = SharedClient::Check();
    if (next_ < parts_.size() && total() - missing() == parts_[next_].begin) {
      unsent = std::move(parts_[next_++].text);
    }
    return error;
  }

 private:
  // Units that are sent without waiting may be executed in any order, if their shards differ.
  struct Part {
    std::string text;
    size_t begin;  // replies before it
  };
  void EndPart() {
    parts_.push_back({std::exchange(unsent, {}), replies_});
    replies_ = total();
  }
  static std::vector<std::string> Words(const Effect& effect) {
    std::vector<std::string> words = {effect.command, effect.key, effect.argument};
    if (effect.deadline_ms > 0) {
      words.insert(words.end(), {"PXAT", absl::StrCat(effect.deadline_ms)});
    }
    return words;
  }

  void Send(const Unit& unit, bool is_mset, Random& random) {
    if (unit.effects.size() == 1) return Add(Words(unit.effects[0]), Answer());
    std::vector<std::string> args;
    if (is_mset) {
      args = {"MSET"};
      for (const Effect& effect : unit.effects) {
        args.insert(args.end(), {effect.key, effect.argument});
      }
      return Add(args, Answer());
    }
    if (random.OneIn(2)) {
      Add({"MULTI"}, Is("+OK"));
      for (const Effect& effect : unit.effects) Add(Words(effect), AnyReply);
      return Add({"EXEC"}, Answer());
    }
    args = {"EVAL", kScript, absl::StrCat(unit.effects.size())};
    for (const Effect& effect : unit.effects) args.push_back(effect.key);
    for (const Effect& effect : unit.effects) {
      args.insert(args.end(), {effect.command, effect.argument});
    }
    Add(args, Answer());
  }
  CheckFn Answer() {
    return [this](const RespValue& reply) -> std::string {
      if (reply.kind == ReplyKind::kError) {
        if (!absl::StrContains(reply.text, "MISCONF") && !reply.text.starts_with("EXECABORT")) {
          return "no such error";
        }
        track_.units[track_.answered].is_refused = true;
      }
      for (const RespValue& item : reply.items) {
        if (item.kind == ReplyKind::kError) return "all of it, or nothing";
      }
      ++track_.answered;
      return "";
    };
  }

  const std::string prefix_;
  Track& track_;
  std::vector<Part> parts_;
  size_t next_ = 0;
  size_t replies_ = 0;
};

// Asks for rewrites while the others write.
class Rewriter final : public ScheduledClient {
 public:
  Rewriter(AppendLog* log, uint64_t count, Random* random)
      : log_(*log), random_(*random), all_(count), left_(count) {}
  std::string Check() override {
    if (left_ == 0 || !random_.OneIn(12)) return "";
    log_.StartRewrite();
    --left_;
    return "";
  }
  size_t missing() const override { return left_; }
  size_t total() const override { return all_; }

 private:
  AppendLog& log_;
  Random& random_;
  const size_t all_;
  size_t left_;
};

class LogCrashTest : public ::testing::TestWithParam<ShardReach> {
 protected:
  LogCrashTest() : server_(Options(&files_), GetParam()) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // some shall fail
    files_.pause = [this] { OnCall(); };
  }
  ~LogCrashTest() override { FLAGS_minloglevel = google::GLOG_INFO; }

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
      log_ = std::make_unique<AppendLog>(&server_.server().state(), &server_.server().persistence(),
                                         options, kRetryNanos);
    }
    return *log_;
  }

  std::string RunSeed(Random& random) {
    tracks_.assign(kWriters, {});
    lists_.clear();
    left_.clear();
    has_promised_ = false;
    random_ = &random;
    const absl::Cleanup end_seed = [this] { random_ = nullptr; };
    for (int life = 0; life < kLives; ++life) {
      const std::string error = Live(random);
      if (!error.empty()) return absl::StrCat("life ", life, ": ", error);
    }
    return "";
  }

  std::string Live(Random& random) {
    files_.Restart(std::move(left_));
    shards().AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kSync); });
    constexpr LogPolicy kPolicies[] = {LogPolicy::kAlways, LogPolicy::kAlways, LogPolicy::kEverySec,
                                       LogPolicy::kNo};
    const LogPolicy policy = kPolicies[random.Uniform(4)];
    LogOptions rules;
    rules.has_timestamps = random.OneIn(2);
    log().SetRules(rules);
    std::string error = log().SetPolicy(policy);
    LoadProgress progress;
    if (error.empty()) error = log().Find();
    if (error.empty()) error = log().Load(&progress);
    if (error.empty()) error = CheckLoaded();
    has_promised_ = policy == LogPolicy::kAlways;
    if (error.empty()) error = WriteUntilItStops(random);
    const std::string end_error = log().SetOn(false);
    while (log().is_on()) helio::this_fiber::SleepForMillis(1);
    return error.empty() ? end_error : error;
  }

  std::string WriteUntilItStops(Random& random) {
    calls_left_ = random.Uniform(random.OneIn(2) ? 300 : 40);
    is_running_ = true;
    // A log that is not synced keeps nothing that would mend it.
    may_fail_ = has_promised_ && random.OneIn(3);
    std::string error;
    for (int round = 0; round < 2 && error.empty(); ++round) {
      std::vector<std::unique_ptr<ScheduledClient>> clients;
      for (size_t w = 0; w < kWriters; ++w) {
        auto writer = std::make_unique<Writer>(w, &tracks_[w]);
        for (uint64_t n = 1 + random.Uniform(10); n > 0; --n) writer->AddUnit(random);
        if (random.OneIn(3)) writer->AddGroup(random);
        clients.push_back(std::move(writer));
      }
      clients.push_back(std::make_unique<Rewriter>(&log(), random.Uniform(3), &random));
      error = server_.Drive(std::move(clients), random);
      while (error.empty() && log().Facts().waiting_bytes > 0) helio::this_fiber::SleepForMillis(1);
    }
    if (is_running_) StopMachine();
    lists_ = SharedLists(testing::ContentOf(shards()));
    return error;
  }

  // Each call of the file layer takes its time.
  void OnCall() {
    if (random_ == nullptr) return;
    for (uint64_t n = random_->Uniform(6); n > 0; --n) helio::this_fiber::Yield();
    if (!is_running_) return;
    if (may_fail_ && random_->OneIn(40)) {
      files_.calls_left = random_->Uniform(8);
      files_.calls_failing = 1 + random_->Uniform(3);
    }
    if (calls_left_-- == 0) StopMachine();
  }

  void StopMachine() {
    is_running_ = false;
    files_.calls_left = SIZE_MAX;
    // A process that is killed loses nothing that was written.
    left_ = random_->OneIn(4) ? files_.files : files_.AfterCrash(random_);
    for (Track& track : tracks_) track.answered_at_crash = track.answered;
    ++crashes_;
  }

  static std::string Joined(const Texts& lines) {
    std::string text;
    for (size_t i = 0; i + 1 < lines.size(); ++i) absl::StrAppend(&text, lines[i], " ");
    return text;
  }
  static Values SharedLists(const StoreModel& model) {
    Values lists;
    for (const auto& [where, lines] : model) {
      if (where.second.starts_with("s")) lists[where.second] = Joined(lines);
    }
    return lists;
  }

  // What of the store is a writer's, in the form of Apply.
  static Values OfWriter(const StoreModel& model, const std::string& prefix) {
    Values values;
    for (const auto& [where, lines] : model) {
      const std::string& key = where.second;
      if (where.first != 0) continue;
      if (key.starts_with(prefix)) {
        values[key] = key.ends_with("list") ? Joined(lines) : lines[0];
      } else if (key.starts_with("s")) {
        for (size_t i = 0; i + 1 < lines.size(); ++i) {
          if (lines[i].starts_with(prefix)) absl::StrAppend(&values[key], lines[i], " ");
        }
      }
    }
    return values;
  }

  // As far as values differ a deadline has passed.
  static bool IsSame(const Values& wanted, const std::map<std::string, int64_t>& deadlines,
                     const Values& found) {
    for (const auto& [key, value] : found) {
      const auto it = wanted.find(key);
      if (it == wanted.end() || it->second != value) return false;
    }
    for (const auto& [key, value] : wanted) {
      if (found.contains(key) || key.starts_with("bank")) continue;
      const auto deadline = deadlines.find(key);
      if (deadline == deadlines.end() || deadline->second > helio::UnixMillis()) return false;
    }
    return true;
  }

  std::string CheckLoaded() {
    const StoreModel model = testing::ContentOf(shards());
    Values bank;
    std::map<std::string, int64_t> none;
    for (size_t w = 0; w < kWriters; ++w) {
      if (std::string error = CheckWriter(model, w); !error.empty()) return error;
      for (const Unit& unit : tracks_[w].units) Apply(unit, &bank, &none);
    }
    for (const auto& [key, value] : bank) {
      if (!key.starts_with("bank")) continue;
      const auto it = model.find({0, key});
      if (it == model.end() || it->second[0] != value) {
        return absl::StrCat(key, " should be ", value);
      }
    }
    for (const auto& [key, list] : SharedLists(model)) {
      if (lists_[key].starts_with(list)) continue;
      return absl::StrCat(key, " is ", list, " and was ", lists_[key]);
    }
    for (uint64_t i = 1; i < kKeys; ++i) {
      const auto first = model.find({kGroupDb, "group0"});
      const auto other = model.find({kGroupDb, absl::StrCat("group", i)});
      if ((first == model.end()) != (other == model.end()) ||
          (first != model.end() && first->second != other->second)) {
        return "a torn group";
      }
    }
    return "";
  }

  // Forgets the units that are not there any more.
  std::string CheckWriter(const StoreModel& model, size_t writer) {
    Track& track = tracks_[writer];
    const std::string prefix = absl::StrCat("w", writer, ".");
    const Values found = OfWriter(model, prefix);
    Values wanted;
    std::map<std::string, int64_t> deadlines;
    int64_t there = -1;
    for (size_t n = 0; n <= track.units.size(); ++n) {
      if (n > 0) Apply(track.units[n - 1], &wanted, &deadlines);
      if (IsSame(wanted, deadlines, found)) there = static_cast<int64_t>(n);
    }
    if (there < 0) {
      std::string text;
      for (const auto& [key, value] : found) absl::StrAppend(&text, key, "=", value, " ");
      absl::StrAppend(&text, "\nafter\n");
      for (const Unit& unit : track.units) {
        for (const Effect& effect : unit.effects) {
          absl::StrAppend(&text, effect.command, " ", effect.key, " ", effect.argument, "; ");
        }
        absl::StrAppend(&text, unit.is_refused ? "refused\n" : "\n");
      }
      return absl::StrCat("writer ", writer, " has no such moment: ", text);
    }
    const auto count = static_cast<size_t>(there);
    if (has_promised_ && count < track.answered_at_crash) {
      return fmt::format("{} units of writer {} are there, and {} were answered", count, writer,
                         track.answered_at_crash);
    }
    lost_ += track.units.size() - count;
    track.units.resize(count);
    track.answered = count;
    return "";
  }

  static constexpr uint64_t kRetryNanos = 10'000;

  MemoryFiles files_;
  std::unique_ptr<AppendLog> log_;  // goes last: what it has posted may come late
  ScheduledServer server_;
  Random* random_ = nullptr;
  bool is_running_ = false;  // the machine
  bool may_fail_ = false;
  uint64_t calls_left_ = 0;  // until it stops
  std::vector<Track> tracks_;
  Values lists_;                             // of all, when the last life was over
  std::map<std::string, std::string> left_;  // files
  bool has_promised_ = false;                // `always`, in the last life
  uint64_t crashes_ = 0;
  uint64_t lost_ = 0;  // units
};

INSTANTIATE_TEST_SUITE_P(Reaches, LogCrashTest,
                         ::testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(LogCrashTest, WhatWasPromisedIsThereAndUnitsAreWhole) {
  server_.RunSeeds(ByBuild(100, 10), [&](uint64_t, Random& random) { return RunSeed(random); });
  if (helio::IsReplay()) return;
  EXPECT_GT(lost_, crashes_ / 10) << "too little was under way";
}

}  // namespace
}  // namespace dfly
