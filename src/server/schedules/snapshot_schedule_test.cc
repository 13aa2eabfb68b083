// SPDX-License-Identifier: Apache-2.0
// Snapshots while clients write, on schedules from a seed, to a disk in memory that fails when the
// seed says so. After each one that has ended well what the disk has is loaded into a store of its
// own, and has to be what there was at one moment between the begin and the end of the save:
//
//   numbers  each writer sets its keys in all shards to the number of its request, by MSET, EXEC,
//            scripts and COPY: all keys have one number, no less than what was answered when the
//            save began, and no more than what was sent when it ended. EXECs push the number to a
//            list, too, which is large enough to be written in parts: it has all up to there
//   bank     EXECs and scripts move amounts between accounts; the sum stays
//   token    one key, which RENAME moves about, and MOVE to the other database
//   swap     two databases that SWAPDB exchanges, each with a mark
//   group    in a database that is flushed: all keys, or none, with one value
//   due      a value that is the key's deadline, set by one EXEC; some are past soon
//   spare    keys with a deadline that eviction may take, of one value if they are there
//
// After one that fails there is still what was there before. After the last one, of a server that
// stops, nothing may be answered any more that it has not.
#include <fmt/format.h>

#include <optional>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/base/test_seed.h"
#include "server/schedules/shared_client.h"
#include "server/schedules/test_options.h"
#include "storage/memory_files.h"
#include "storage/snapshot_load.h"
#include "storage/snapshot_testing.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::StoreModel;

constexpr size_t kKeys = 5;
constexpr size_t kWriters = 3;
constexpr int kTokenDb = 4, kSwapDb = 5, kGroupDb = 7;
constexpr int kSum = 100 * static_cast<int>(kKeys);

constexpr const char* kSetAll =
    "for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1]) end return 'done'";
// All but the first one are not declared.
constexpr const char* kSetUndeclared =
    "redis.call('set', KEYS[1], ARGV[1]) "
    "for i = 2, #ARGV do redis.call('set', ARGV[i], ARGV[1]) end return 'done'";
constexpr const char* kPay =
    "redis.call('decrby', KEYS[1], ARGV[1]) redis.call('incrby', KEYS[2], ARGV[1]) return 'done'";

// Nothing else was done then.
bool IsRefused(const RespValue& reply) {
  return reply.text.starts_with("OOM") || reply.text.starts_with("EXECABORT");
}
std::string NoError(const RespValue& reply) {
  return reply.kind == ReplyKind::kError && !IsRefused(reply) ? "no error" : "";
}

// What a writer has asked for, and knows of.
struct Track {
  struct Request {
    size_t begin;     // of its first byte, in all that is sent
    bool pushes;      // to the list
    bool is_refused;  // for lack of memory; nothing was changed
  };
  std::vector<Request> requests;  // [n - 1] has the number n
  size_t sent_bytes = 0;
  size_t answered = 0;

  size_t sent() const {
    size_t count = 0;
    while (count < requests.size() && requests[count].begin < sent_bytes) ++count;
    return count;
  }
  // The last number that is certainly set.
  size_t set() const {
    size_t number = answered;
    while (number > 0 && requests[number - 1].is_refused) --number;
    return number;
  }
};

class Writer final : public SharedClient {
 public:
  Writer(std::string prefix, Track* track) : prefix_(std::move(prefix)), track_(*track) {}

  std::string Key(size_t index) const { return prefix_ + std::to_string(index); }
  std::string List() const { return prefix_ + "list"; }

  void AddRequest(Random& random) {
    const std::string number = std::to_string(track_.requests.size() + 1);
    track_.requests.push_back({.begin = unsent.size(), .pushes = false, .is_refused = false});
    std::vector<std::string> args;
    switch (random.Uniform(5)) {
      case 0:
      case 1:
        args = {"MSET"};
        for (size_t i = 0; i < kKeys; ++i) args.insert(args.end(), {Key(i), number});
        return Add(args, Answered());
      case 2:
        track_.requests.back().pushes = true;
        Add({"MULTI"}, Is("+OK"));
        for (size_t i = 0; i < kKeys; ++i) {
          if (i > 0 && random.OneIn(4)) {
            Add({"COPY", Key(0), Key(i), "REPLACE"}, AnyReply);
          } else {
            Add({"SET", Key(i), number}, AnyReply);
          }
        }
        Add({"RPUSH", List(), number}, AnyReply);
        return Add({"EXEC"}, Answered());
      case 3:
        args = {"EVAL", kSetAll, std::to_string(kKeys)};
        for (size_t i = 0; i < kKeys; ++i) args.push_back(Key(i));
        args.push_back(number);
        return Add(args, Answered());
      default:
        args = {"EVAL", kSetUndeclared, "1", Key(0), number};
        for (size_t i = 1; i < kKeys; ++i) args.push_back(Key(i));
        return Add(args, Answered());
    }
  }
  void Finish() { all_bytes_ = unsent.size(); }

  std::string Check() override {
    track_.sent_bytes = all_bytes_ - unsent.size();
    return SharedClient::Check();
  }

 private:
  ReplyCheck Answered() {
    return [this](const RespValue& reply) -> std::string {
      if (reply.kind == ReplyKind::kError) {
        if (!IsRefused(reply)) return "no such error";
        track_.requests[track_.answered].is_refused = true;
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
  size_t all_bytes_ = 0;
};

std::string KeyOf(const char* family, uint64_t index) { return family + std::to_string(index); }

std::unique_ptr<SharedClient> SetUpClient(bool has_others) {
  auto client = std::make_unique<SharedClient>();
  client->Add({"FLUSHALL"}, Is("+OK"));
  if (!has_others) return client;
  std::vector<std::string> accounts = {"MSET"};
  for (size_t i = 0; i < kKeys; ++i) accounts.insert(accounts.end(), {KeyOf("bank", i), "100"});
  client->Add(accounts, Is("+OK"));
  client->Add({"SET", "token0", "token"}, Is("+OK"));
  client->Add({"SELECT", std::to_string(kSwapDb)}, Is("+OK"));
  client->Add({"SET", "mark", "one"}, Is("+OK"));
  client->Add({"SELECT", std::to_string(kSwapDb + 1)}, Is("+OK"));
  client->Add({"SET", "mark", "two"}, Is("+OK"));
  return client;
}

// All that is not numbers.
std::unique_ptr<SharedClient> OtherClient(Random& random, int number) {
  auto client = std::make_unique<SharedClient>();
  client->leaves = random.OneIn(4);
  const auto any = [&](const char* family) { return KeyOf(family, random.Uniform(kKeys)); };
  const auto select = [&](int db) { client->Add({"SELECT", std::to_string(db)}, Is("+OK")); };
  for (uint64_t n = 1 + random.Uniform(12); n > 0; --n) {
    const std::string value = std::to_string(number) + "." + std::to_string(n);
    switch (random.Uniform(7)) {
      case 0: {
        const std::string amount = std::to_string(random.Uniform(50));
        if (random.OneIn(2)) {
          client->Add({"EVAL", kPay, "2", any("bank"), any("bank"), amount}, NoError);
          break;
        }
        client->Add({"MULTI"}, Is("+OK"));
        client->Add({"DECRBY", any("bank"), amount}, AnyReply);
        client->Add({"INCRBY", any("bank"), amount}, AnyReply);
        client->Add({"EXEC"}, NoError);
        break;
      }
      case 1:
        if (random.OneIn(2)) {
          client->Add({"RENAME", any("token"), any("token")}, AnyReply);
        } else {
          const bool is_back = random.OneIn(2);
          if (is_back) select(kTokenDb);
          client->Add({"MOVE", any("token"), std::to_string(is_back ? 0 : kTokenDb)}, AnyReply);
          if (is_back) select(0);
        }
        break;
      case 2:
        client->Add({"SWAPDB", std::to_string(kSwapDb), std::to_string(kSwapDb + 1)}, Is("+OK"));
        break;
      case 3: {
        select(kGroupDb);
        std::vector<std::string> group = {"MSET"};
        for (size_t i = 0; i < kKeys; ++i) group.insert(group.end(), {KeyOf("group", i), value});
        client->Add(group, NoError);
        if (random.OneIn(2)) client->Add({"FLUSHDB"}, Is("+OK"));
        select(0);
        break;
      }
      case 4:
      case 5: {
        const int64_t wait_ms = random.OneIn(2) ? 1 : 1'000'000;
        const std::string at_ms =
            std::to_string(helio::UnixMillis() + wait_ms + static_cast<int64_t>(random.Uniform(9)));
        const std::string key = any("due");
        client->Add({"MULTI"}, Is("+OK"));
        client->Add({"SET", key, at_ms}, AnyReply);
        client->Add({"PEXPIREAT", key, at_ms}, AnyReply);
        client->Add({"EXEC"}, NoError);
        if (random.OneIn(3)) client->Add({"DEL", any("due")}, NoError);
        break;
      }
      default:
        client->Add({"RENAMENX", any("token"), any("token")}, AnyReply);
    }
  }
  return client;
}

// Something to evict.
std::unique_ptr<SharedClient> SpareClient(Random& random) {
  auto client = std::make_unique<SharedClient>();
  for (uint64_t n = 1 + random.Uniform(20); n > 0; --n) {
    client->Add({"SET", KeyOf("spare", random.Uniform(30)), std::string(400, 's'), "EX", "10000"},
                AnyReply);
  }
  return client;
}

std::unique_ptr<SharedClient> FlushClient(Random& random) {
  auto client = std::make_unique<SharedClient>();
  for (uint64_t n = 1 + random.Uniform(3); n > 0; --n) {
    for (uint64_t i = random.Uniform(30); i > 0; --i) client->Add({"PING"}, Is("+PONG"));
    client->Add({"FLUSHALL", random.OneIn(2) ? "ASYNC" : "SYNC"}, Is("+OK"));
  }
  return client;
}

// What a seed decides for all.
struct Plan {
  SnapshotFormat format = SnapshotFormat::kOurs;
  bool flushes = false;  // FLUSHALL: numbers, and nothing else
  bool evicts = false;
  bool stops = false;  // the last save is that of a server that stops
};

class SnapshotScheduleTest : public testing::TestWithParam<ShardReach> {
 protected:
  SnapshotScheduleTest()
      : server_(Options(&files_), GetParam()),
        loaded_(&server_.server().state().pool, 3, server_.server().state().options.db_count) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // saves tell of themselves, and some shall fail
  }

  static ServerOptions Options(MemoryFiles* files) {
    ServerOptions options = TestOptions();
    options.persistence.files = files;
    options.persistence.dbfilename = "dump";
    options.persistence.rules = {};
    // Small, so that all that large stores see is seen; and nothing waits for a clock.
    options.persistence.sizes = {.large = 60, .flush = 100, .slice = 30, .work_ns = 0};
    options.persistence.script_wait_ns = 0;
    options.eviction.rules.policy = EvictionPolicy::kVolatileRandom;
    return options;
  }

  Persistence& persistence() { return server_.server().persistence(); }

  // What the disk has, or an error.
  std::string LoadDisk(const Plan& plan, StoreModel* model) {
    MemoryFiles copy;
    copy.files = files_.files;
    loaded_.AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kSync); });
    LoadProgress progress;
    SnapshotLoader loader(&loaded_, &copy, &progress);
    std::string error = loader.Load({.directory = "", .name = "dump", .format = plan.format});
    *model = testkit::ContentOf(loaded_);
    return error;
  }

  // Makes snapshots while the others write, and looks at each. The last one may be that of a server
  // that stops: it holds its locks until others have had time to be answered.
  class Saver final : public ScheduledClient {
   public:
    Saver(SnapshotScheduleTest* test, const Plan& plan, std::vector<Track>* tracks, Random* random)
        : test_(*test),
          plan_(plan),
          tracks_(*tracks),
          random_(*random),
          all_(1 + random->Uniform(3)),
          left_(all_) {}
    ~Saver() override {  // after an error, which could not be told if others waited for ever
      if (is_holding_) test_.persistence().EndStop();
      while (test_.persistence().is_saving()) helio::this_fiber::Yield();
    }
    size_t missing() const override { return left_; }
    size_t total() const override { return all_; }

    std::string Check() override {
      if (left_ == 0) return "";
      if (is_holding_) return Hold();
      if (is_saving_) {
        if (test_.persistence().is_saving()) return "";
        is_saving_ = false;
        --left_;
        return test_.CheckDisk(plan_, tracks_, set_before_, !has_failures_);
      }
      if (!random_.OneIn(8)) return "";
      set_before_ = SetOf(tracks_);
      if (plan_.stops && left_ == 1) return Stop();
      has_failures_ = random_.OneIn(4);
      if (has_failures_) {
        test_.files_.calls_left = random_.Uniform(40);
        test_.files_.calls_failing = random_.OneIn(2) ? 1 + random_.Uniform(2) : SIZE_MAX;
      }
      if (test_.persistence().StartSave({.format = plan_.format}) != Persistence::Start::kStarted) {
        return "the save did not begin";
      }
      is_saving_ = true;
      return "";
    }

   private:
    static constexpr int kTurnsHeld = 40;

    std::string Stop() {
      std::string error = test_.persistence().SaveForStop();
      if (error.empty()) error = test_.CheckDisk(plan_, tracks_, set_before_, true);
      is_holding_ = true;
      turns_ = kTurnsHeld;
      return error;
    }
    std::string Hold() {
      if (--turns_ > 0) return "";
      test_.persistence().EndStop();
      is_holding_ = false;
      left_ = 0;
      return CheckNumbers(plan_, *test_.last_good_, tracks_, SetOf(tracks_));
    }

    SnapshotScheduleTest& test_;
    const Plan plan_;
    const std::vector<Track>& tracks_;
    Random& random_;
    std::vector<size_t> set_before_;
    const size_t all_;
    size_t left_;
    bool is_saving_ = false;
    bool has_failures_ = false;
    bool is_holding_ = false;
    int turns_ = 0;
  };

  static std::vector<size_t> SetOf(const std::vector<Track>& tracks) {
    std::vector<size_t> set;
    for (const Track& track : tracks) set.push_back(track.set());
    return set;
  }

  // A save has ended; `set_before`: what each writer knew when it began.
  std::string CheckDisk(const Plan& plan, const std::vector<Track>& tracks,
                        const std::vector<size_t>& set_before, bool has_disk) {
    const PersistenceFacts facts = persistence().Facts();
    files_.calls_left = SIZE_MAX;
    if (has_disk && !facts.last_error.empty()) return facts.last_error;
    ++(facts.last_error.empty() ? saved_ : failed_);
    StoreModel model;
    if (!facts.last_error.empty()) {
      if (!last_good_) {
        const SnapshotPath path = {.directory = "", .name = "dump", .format = plan.format};
        return files_.files.contains(path.Main()) ? "a failure has left a snapshot" : "";
      }
      const std::string error = LoadDisk(plan, &model);
      if (!error.empty()) return "after a failure: " + error;
      // What was due meanwhile is left out now.
      const auto without_due = [](StoreModel& all) {
        std::erase_if(all, [](const auto& entry) { return entry.first.second.starts_with("due"); });
      };
      without_due(model);
      without_due(*last_good_);
      return model == last_good_ ? "" : "after a failure there is something else";
    }
    const std::string error = LoadDisk(plan, &model);
    if (!error.empty()) return error;
    last_good_ = model;
    const std::string wrong = CheckNumbers(plan, model, tracks, set_before);
    return !wrong.empty() || plan.flushes ? wrong : CheckOthers(model);
  }

  static std::optional<std::string> TextOf(const StoreModel& model, int db,
                                           const std::string& key) {
    const auto it = model.find({db, key});
    if (it == model.end()) return std::nullopt;
    return it->second[0];
  }

  static std::string CheckNumbers(const Plan& plan, const StoreModel& model,
                                  const std::vector<Track>& tracks,
                                  const std::vector<size_t>& set_before) {
    for (size_t w = 0; w < tracks.size(); ++w) {
      const std::string prefix = "writer" + std::to_string(w) + ".";
      const auto first = TextOf(model, 0, prefix + "0");
      for (size_t i = 1; i < kKeys; ++i) {
        if (TextOf(model, 0, prefix + std::to_string(i)) != first) return "a torn request";
      }
      const size_t number = first ? std::strtoull(first->c_str(), nullptr, 10) : 0;
      if (number > tracks[w].sent()) return "a number that was not sent";
      if (number > 0 && tracks[w].requests[number - 1].is_refused) return "a refused number";
      if (number < set_before[w] && (first || !plan.flushes)) {
        return "number " + std::to_string(number) + " and " + std::to_string(set_before[w]) +
               " had been answered";
      }
      if (plan.flushes) continue;
      testkit::Texts list;
      if (const auto it = model.find({0, prefix + "list"}); it != model.end()) {
        list.assign(it->second.begin(), it->second.end() - 1);  // behind it: the key's facts
      }
      testkit::Texts wanted;
      for (size_t n = 1; n <= number; ++n) {
        const Track::Request& request = tracks[w].requests[n - 1];
        if (!request.pushes || request.is_refused) continue;
        const std::string text = std::to_string(n);
        // It may have been refused, and nobody has read that yet.
        const bool is_unsure = plan.evicts && n > tracks[w].answered;
        if (!is_unsure || std::find(list.begin(), list.end(), text) != list.end()) {
          wanted.push_back(text);
        }
      }
      if (list != wanted) {
        return fmt::format("number {}: the list is {}, and should be {}", number,
                           fmt::join(list, " "), fmt::join(wanted, " "));
      }
    }
    return "";
  }

  static std::string CheckOthers(const StoreModel& model) {
    int sum = 0;
    size_t tokens = 0, group = 0;
    for (size_t i = 0; i < kKeys; ++i) {
      sum += std::atoi(TextOf(model, 0, KeyOf("bank", i)).value_or("0").c_str());
      tokens += model.contains({0, KeyOf("token", i)});
      tokens += model.contains({kTokenDb, KeyOf("token", i)});
      group += model.contains({kGroupDb, KeyOf("group", i)});
      if (TextOf(model, kGroupDb, KeyOf("group", i)) != TextOf(model, kGroupDb, KeyOf("group", 0)))
        return "a torn group";
      if (const auto it = model.find({0, KeyOf("due", i)}); it != model.end()) {
        if (it->second[1] != it->second[0] + " false") return "a value without its deadline";
      }
    }
    if (sum != kSum) return "the sum is " + std::to_string(sum);
    if (tokens != 1) return std::to_string(tokens) + " tokens";
    const auto one = TextOf(model, kSwapDb, "mark"), two = TextOf(model, kSwapDb + 1, "mark");
    if (!one || !two || *one == *two) return "a swap that is not whole";
    for (const auto& [where, lines] : model) {
      if (where.second.starts_with("spare") && lines[0] != std::string(400, 's')) {
        return "another value of a spare key";
      }
    }
    return "";
  }

  std::string RunSeed(Random& random) {
    Plan plan;
    plan.format = random.OneIn(2) ? SnapshotFormat::kOurs : SnapshotFormat::kRdb;
    plan.flushes = random.OneIn(5);
    plan.evicts = !plan.flushes && random.OneIn(4);
    plan.stops = random.OneIn(3);
    // SaveForStop has no other.
    if (plan.stops) plan.format = SnapshotFormat::kOurs;
    files_.files.clear();
    last_good_.reset();
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    clients.push_back(SetUpClient(!plan.flushes));
    std::string error = server_.Drive(std::move(clients), random);
    if (!error.empty()) return error;

    std::vector<Track> tracks(kWriters);
    clients.clear();
    for (size_t w = 0; w < kWriters; ++w) {
      auto writer = std::make_unique<Writer>("writer" + std::to_string(w) + ".", &tracks[w]);
      for (uint64_t n = 1 + random.Uniform(30); n > 0; --n) writer->AddRequest(random);
      writer->Finish();
      writer->leaves = random.OneIn(5);
      clients.push_back(std::move(writer));
    }
    if (plan.flushes) {
      clients.push_back(FlushClient(random));
    } else {
      for (int i = 0; i < 3; ++i) clients.push_back(OtherClient(random, i));
    }
    if (plan.evicts) clients.push_back(SpareClient(random));
    clients.push_back(std::make_unique<Saver>(this, plan, &tracks, &random));
    files_.pause = [&random] {
      for (uint64_t n = random.Uniform(6); n > 0; --n) helio::this_fiber::Yield();
    };
    if (plan.evicts) {
      const auto used = static_cast<uint64_t>(server_.server().state().memory.used());
      server_.server().state().settings.maxmemory = used + random.Uniform(20'000);
    }
    error = server_.Drive(std::move(clients), random);
    server_.server().state().settings.maxmemory = 0;
    files_.pause = [] {};
    return error;
  }

  MemoryFiles files_;
  ScheduledServer server_;
  ShardSet loaded_;
  std::optional<StoreModel> last_good_;  // what the last save without an error has left on the disk
  uint64_t saved_ = 0;
  uint64_t failed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ways, SnapshotScheduleTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(SnapshotScheduleTest, EachIsWhatThereWasAtOneMoment) {
  server_.RunSeeds(ByBuild(2000, 200), [&](uint64_t, Random& random) { return RunSeed(random); });
  if (helio::IsReplay()) return;
  EXPECT_GT(saved_, 100u);
  EXPECT_GT(failed_, 10u);
}

}  // namespace
}  // namespace dfly
