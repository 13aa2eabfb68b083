// SPDX-License-Identifier: Apache-2.0
// The append-only log of a whole server and machines that stop (log_crash_harness.h). Writers send
// units: single commands, MSET, EXECs and scripts over several shards, and read what others have
// written.
//
// Each writer numbers its units. What is loaded has to be, of each writer, what its first n units
// have made, with `always` at least those that were answered, and those whose numbers were read:
//
//   w<writer>.*  keys of one writer: SET of the number, RENAME, INCRBY, RPUSH, SET with a deadline
//   s*           lists of all, to which units push their names: each is the beginning of the list
//                that there was, so the log has no unit without those that came before it
//   bank*        INCRBY of amounts whose sum is 0
//   group*       in two databases that are flushed and swapped: all keys, or none, with one value
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/clock.h"
#include "server/schedules/log_crash_harness.h"
#include "server/schedules/shared_client.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::StoreModel;
using testkit::Texts;

constexpr size_t kWriters = 4;
constexpr uint64_t kKeys = 4;
constexpr int kGroupDb = 3, kOtherGroupDb = 4;
constexpr uint64_t kSharedLists = 3;
constexpr const char* kReadScript =
    "return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]), "
    "redis.call('LRANGE', KEYS[3], 0, -1)}";
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
    if (effect.command == "RENAME") {
      std::string moved = std::move((*values)[effect.key]);
      values->erase(effect.key);
      (*values)[effect.argument] = std::move(moved);
      continue;
    }
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
  size_t seen = 0;      // the largest number that an answered read has told
  size_t promised = 0;  // so many must never be lost

  void NotePromises() { promised = std::max(answered, seen); }
};

class Writer final : public SharedClient {
 public:
  // `tracks`: of all.
  Writer(size_t number, std::vector<Track>* tracks)
      : prefix_(absl::StrCat("w", number, ".")), tracks_(*tracks), track_((*tracks)[number]) {}

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
          unit.effects.push_back(
              {"RPUSH", absl::StrCat("s", random.Uniform(kSharedLists)), prefix_ + number});
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
    if (!is_mset && random.OneIn(5)) {
      const std::string from = absl::StrCat(prefix_, random.Uniform(kKeys));
      unit.effects.push_back({"SET", from, number});
      unit.effects.push_back({"RENAME", from, absl::StrCat(prefix_, random.Uniform(kKeys))});
    }
    if (!is_mset && random.OneIn(10)) {
      const int64_t in_ms = random.OneIn(2) ? 1 + static_cast<int64_t>(random.Uniform(5)) : 1 << 30;
      unit.effects.assign({{"SET", prefix_ + "due", number, helio::UnixMillis() + in_ms}});
    }
    Send(unit, is_mset, random);
    track_.units.push_back(std::move(unit));
    EndPart();
  }
  // Of what others write. What comes next does not wait for the reply.
  void AddRead(Random& random) {
    const size_t writers[] = {random.Uniform(kWriters), random.Uniform(kWriters)};
    const std::string a = absl::StrCat("w", writers[0], ".", random.Uniform(kKeys));
    const std::string b = absl::StrCat("w", writers[1], ".", random.Uniform(kKeys));
    const std::string list = absl::StrCat("s", random.Uniform(kSharedLists));
    const auto numbers = [this, a = writers[0], b = writers[1]](const RespValue& reply) {
      Saw(a, reply.items.at(0));
      Saw(b, reply.items.at(1));
      if (reply.items.size() > 2) SawAll(reply.items[2]);
      return "";
    };
    const auto one = [this, a = writers[0]](const RespValue& reply) {
      Saw(a, reply);
      return "";
    };
    const auto all = [this](const RespValue& reply) {
      SawAll(reply);
      return "";
    };
    switch (random.Uniform(5)) {
      case 0:
        return Add({"GET", a}, one);
      case 1:
        return Add({"MGET", a, b}, numbers);
      case 2:
        return Add({"LRANGE", list, "0", "-1"}, all);
      case 3:
        return Add({"EVAL", kReadScript, "3", a, b, list}, numbers);
      default:
        Add({"MULTI"}, Is("+OK"));
        Add({"GET", a}, AnyReply);
        Add({"GET", b}, AnyReply);
        Add({"LRANGE", list, "0", "-1"}, AnyReply);
        return Add({"EXEC"}, numbers);
    }
  }
  // In databases of their own; no unit.
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
    if (random.OneIn(2)) {
      Add({"SWAPDB", absl::StrCat(kGroupDb), absl::StrCat(kOtherGroupDb)}, AnyReply);
    }
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
  ReplyCheck Answer() {
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

  void Saw(size_t writer, const RespValue& number) {
    if (number.kind != ReplyKind::kBulk) return;
    tracks_[writer].seen = std::max<size_t>(tracks_[writer].seen, std::stoull(number.text));
  }
  // "w<writer>.<number>"
  void SawAll(const RespValue& names) {
    for (const RespValue& name : names.items) {
      const size_t writer = static_cast<size_t>(name.text[1] - '0');
      Saw(writer, {.kind = ReplyKind::kBulk, .text = name.text.substr(3), .items = {}});
    }
  }

  const std::string prefix_;
  std::vector<Track>& tracks_;
  Track& track_;
  std::vector<Part> parts_;
  size_t next_ = 0;
  size_t replies_ = 0;
};

class LogCrashTest : public LogCrashHarness {
 protected:
  void BeginSeed() override {
    tracks_.assign(kWriters, {});
    lists_.clear();
  }
  std::vector<std::unique_ptr<ScheduledClient>> Clients(Random& random) override {
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (size_t w = 0; w < kWriters; ++w) {
      auto writer = std::make_unique<Writer>(w, &tracks_);
      for (uint64_t n = 1 + random.Uniform(10); n > 0; --n) {
        if (random.OneIn(3)) writer->AddRead(random);
        writer->AddUnit(random);
      }
      if (random.OneIn(3)) writer->AddGroup(random);
      clients.push_back(std::move(writer));
    }
    return clients;
  }
  void NotePromises() override {
    for (Track& track : tracks_) track.NotePromises();
  }
  std::string EndLife() override {
    lists_ = SharedLists(testkit::ContentOf(*server().server().state().shards));
    return "";
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

  std::string CheckLoaded(const StoreModel& model) override {
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
    return IsWhole(model, kGroupDb) && IsWhole(model, kOtherGroupDb) ? "" : "a torn group";
  }
  static bool IsWhole(const StoreModel& model, int db) {
    const auto first = model.find({db, "group0"});
    for (uint64_t i = 1; i < kKeys; ++i) {
      const auto other = model.find({db, absl::StrCat("group", i)});
      if ((first == model.end()) != (other == model.end())) return false;
      if (first != model.end() && first->second != other->second) return false;
    }
    return true;
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
    if (count < track.promised) {
      return fmt::format("{} units of writer {} are there, and {} were told", count, writer,
                         track.promised);
    }
    lost_ += track.units.size() - count;
    track.units.resize(count);
    track.answered = track.seen = count;
    track.promised = 0;
    return "";
  }

  std::vector<Track> tracks_;
  Values lists_;       // of all, when the last life was over
  uint64_t lost_ = 0;  // units
};

INSTANTIATE_TEST_SUITE_P(Reaches, LogCrashTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(LogCrashTest, WhatWasPromisedIsThereAndUnitsAreWhole) {
  server().RunSeeds(ByBuild(100, 10), [&](uint64_t, Random& random) { return RunSeed(random); });
  if (helio::IsReplay()) return;
  EXPECT_GT(lost_, crashes() / 10) << "too little was under way";
}

// A key that is due when the server starts: when it goes the log says so, or it comes back with the
// next load.
TEST_P(LogCrashTest, NoKeyExpiresBeforeTheLogIsWrittenAgain) {
  const auto run = [&](Random& random, const std::vector<std::string>& args, std::string reply) {
    auto client = std::make_unique<SharedClient>();
    client->Add(args, Is(std::move(reply)));
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    clients.push_back(std::move(client));
    return Drive(std::move(clients), random);
  };
  std::string error;
  server().server().state().pool.at(0)->AwaitFiber("lives", [&] {
    Random random(1);
    const int64_t due_ms = helio::UnixMillis() + 100;
    error = Start({});
    if (error.empty()) error = run(random, {"SET", "k", "5", "PXAT", absl::StrCat(due_ms)}, "+OK");
    auto left = files().files;
    if (error.empty()) error = End();
    while (helio::UnixMillis() <= due_ms) helio::this_fiber::SleepForMillis(1);

    const auto pause = std::exchange(files().pause, [] { helio::this_fiber::SleepForMillis(50); });
    if (error.empty()) error = Start(std::move(left));
    files().pause = pause;
    if (error.empty()) error = run(random, {"INCR", "k"}, ":1");
    left = files().files;
    if (error.empty()) error = End();

    if (error.empty()) error = Start(std::move(left));
    if (error.empty()) error = run(random, {"GET", "k"}, "\"1\"");
    const std::string end_error = End();
    if (error.empty()) error = end_error;
  });
  EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace dfly
