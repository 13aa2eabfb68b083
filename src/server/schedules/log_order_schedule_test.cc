// SPDX-License-Identifier: Apache-2.0
// The append-only log and machines that stop (log_crash_harness.h): results that depend on the
// order. EXECs and scripts over several shards and databases count up one clock, so the replies
// tell in which order they were executed. The test executes them once more in a model: each reply
// has to be the model's, and what is loaded after a crash is all that the model had after some
// unit; with `always` no less than what any client was told, also by reads.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/schedules/log_crash_harness.h"
#include "server/schedules/shared_client.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::StoreModel;
using testkit::Texts;
using Words = std::vector<std::string>;

constexpr size_t kWriters = 4;
constexpr int kDbs = 3;  // 1 to 3; the clock is in 0
constexpr const char* kClock = "clock";
// What a FLUSHALL sets the clock to is a multiple, and no two do the same.
constexpr int64_t kEra = 1000;
constexpr const char* kScript = R"(
local replies, at = {}, 1
while at <= #ARGV do
  local words = {}
  for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end
  local call = #replies < 2 and redis.call or redis.pcall -- who is refused ends
  replies[#replies + 1] = call(unpack(words))
  at = at + #words + 1
end
return replies)";

// What strings, lists ("l*") and sets ("m*") have, as testkit::ContentOf.
class Model {
 public:
  // What is wrong with the reply, or nothing.
  std::string Run(const Words& words, const RespValue& reply) {
    const std::string wanted = Answer(words, reply);
    if (wanted == (reply.kind == ReplyKind::kError ? "-" : reply.ToString())) return "";
    return absl::StrCat(words[0], " ", words.size() > 1 ? words[1] : "", " -> ", reply.ToString(),
                        " and not ", wanted);
  }
  int64_t clock() const {
    const auto it = keys_.find({0, kClock});
    return it == keys_.end() ? 0 : std::stoll(it->second[0]);
  }
  bool IsSame(const StoreModel& found) const {
    return std::ranges::equal(keys_, found, [](const auto& ours, const auto& theirs) {
      const Texts& lines = theirs.second;  // the last one has the deadline
      return ours.first == theirs.first &&
             std::equal(ours.second.begin(), ours.second.end(), lines.begin(), lines.end() - 1);
    });
  }

 private:
  // "-" is an error.
  std::string Answer(const Words& words, const RespValue& reply) {
    const std::string& name = words[0];
    if (name == "SELECT") {
      db_ = std::stoi(words[1]);
      return "+OK";
    }
    if (name == "FLUSHALL") {
      keys_.clear();
      return "+OK";
    }
    if (name == "FLUSHDB") {
      std::erase_if(keys_, [this](const auto& key) { return key.first.first == db_; });
      return "+OK";
    }
    if (name == "SWAPDB") {
      Swap(std::stoi(words[1]), std::stoi(words[2]));
      return "+OK";
    }
    if (name == "MSET") {
      for (size_t i = 1; i < words.size(); i += 2) keys_[{db_, words[i]}] = {words[i + 1]};
      return "+OK";
    }
    return AnswerOfKey(name, {db_, words[1]}, words, reply);
  }

  using Key = std::pair<int, std::string>;
  std::string AnswerOfKey(const std::string& name, const Key& key, const Words& words,
                          const RespValue& reply) {
    const bool is_there = keys_.contains(key);
    if (name == "SET") {
      keys_[key] = {words[2]};
      return "+OK";
    }
    if (name == "INCR") {
      const int64_t number = (is_there ? std::stoll(keys_[key][0]) : 0) + 1;
      keys_[key] = {absl::StrCat(number)};
      return absl::StrCat(":", number);
    }
    if (name == "APPEND") {
      const std::string text = (is_there ? keys_[key][0] : "") + words[2];
      keys_[key] = {text};
      return absl::StrCat(":", text.size());
    }
    if (name == "RPUSH") {
      keys_[key].push_back(words[2]);
      return absl::StrCat(":", keys_[key].size());
    }
    if (name == "SADD") {
      Texts& members = keys_[key];
      if (std::ranges::find(members, words[2]) != members.end()) return ":0";
      members.insert(std::ranges::upper_bound(members, words[2]), words[2]);
      return ":1";
    }
    if (name == "DEL") return keys_.erase(key) > 0 ? ":1" : ":0";
    if (name == "RENAME") {
      if (!is_there) return "-";
      const Texts moved = keys_[key];
      keys_.erase(key);
      keys_[{db_, words[2]}] = moved;
      return "+OK";
    }
    if (name == "MOVE") {
      const Key to = {std::stoi(words[2]), key.second};
      if (to == key) return "-";
      if (!is_there || keys_.contains(to)) return ":0";
      keys_[to] = keys_[key];
      keys_.erase(key);
      return ":1";
    }
    if (name == "LRANGE") {
      std::string text;
      if (is_there) {
        for (const std::string& item : keys_[key]) {
          absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", item, "\"");
        }
      }
      return absl::StrCat("[", text, "]");
    }
    if (!is_there) return "(nil)";
    if (name == "LPOP") return '"' + Take(key, 0) + '"';
    if (name == "LMOVE") {
      const std::string item = Take(key, 0);
      keys_[{db_, words[2]}].push_back(item);
      return '"' + item + '"';
    }
    if (name == "SPOP") {  // any of them
      const auto member = std::ranges::find(keys_[key], reply.text);
      if (member == keys_[key].end()) return "a member";
      return '"' + Take(key, static_cast<size_t>(member - keys_[key].begin())) + '"';
    }
    CHECK(name == "GET") << name;
    return '"' + keys_[key][0] + '"';
  }
  std::string Take(const Key& key, size_t index) {
    Texts& items = keys_[key];
    std::string item = items[index];
    items.erase(items.begin() + static_cast<ptrdiff_t>(index));
    if (items.empty()) keys_.erase(key);
    return item;
  }
  void Swap(int a, int b) {
    std::map<Key, Texts> swapped;
    for (auto& [key, lines] : keys_) {
      const int db = key.first == a ? b : key.first == b ? a : key.first;
      swapped[{db, key.second}] = std::move(lines);
    }
    keys_ = std::move(swapped);
  }

  int db_ = 0;
  std::map<Key, Texts> keys_;
};

struct Unit {
  std::vector<Words> commands;
  std::vector<RespValue> replies;  // none: it was refused, and nothing was done
  bool is_promised = false;        // what it was told must never be lost

  // What the clock was when it began, and is when it ends. REQUIRES: it was not refused.
  int64_t begin = 0;
  std::optional<int64_t> era;  // that it begins
  bool is_read = false;        // begins with GET of the clock, and changes nothing
  bool is_flush = false;       // FLUSHALL and nothing else
};

class Writer final : public SharedClient {
 public:
  // `units` get what this one sends; `next_era` is of all.
  Writer(std::deque<Unit>* units, int64_t* next_era) : units_(*units), next_era_(*next_era) {}

  void AddUnit(Random& random) {
    Unit& unit = units_.emplace_back();
    unit.commands = {{"SELECT", "0"}, {"INCR", kClock}};
    const uint64_t count = 1 + random.Uniform(5);
    for (uint64_t i = 0; i < count; ++i) {
      if (i == 0 || random.OneIn(3)) unit.commands.push_back({"SELECT", Db(random)});
      unit.commands.push_back(random.OneIn(12) ? WordsOfAll(random) : WordsOfKey(random));
    }
    if (random.OneIn(12)) BeginEra(&unit, random);
    Send(&unit, random.OneIn(2));
  }
  // A clock that no other era has.
  void AddEra(Random& random) {
    Unit& unit = units_.emplace_back();
    unit.commands = {{"SELECT", "0"}, {"INCR", kClock}};
    SetClock(&unit);
    Send(&unit, random.OneIn(2));
  }
  void AddRead(Random& random) {
    Unit& unit = units_.emplace_back();
    unit.is_read = true;
    unit.commands = {{"SELECT", "0"}, {"GET", kClock}};
    for (uint64_t i = random.Uniform(4); i > 0; --i) {
      unit.commands.push_back({"SELECT", Db(random)});
      unit.commands.push_back(random.OneIn(2) ? Words{"GET", Key("s", random)}
                                              : Words{"LRANGE", Key("l", random), "0", "-1"});
    }
    Send(&unit, random.OneIn(2));
  }
  void AddFlush() {
    Unit& unit = units_.emplace_back();
    unit.is_flush = true;
    unit.commands = {{"FLUSHALL"}};
    Add({"FLUSHALL"}, [&unit](const RespValue& reply) {
      if (reply.kind != ReplyKind::kError) unit.replies = {reply};
      return IsRefused(reply) || reply.text == "OK" ? "" : "OK";
    });
  }

 private:
  static std::string Db(Random& random) { return absl::StrCat(1 + random.Uniform(kDbs)); }
  static std::string Key(const char* family, Random& random) {
    return absl::StrCat(family, random.Uniform(3));
  }
  std::string Number() { return absl::StrCat(units_.size()); }
  static bool IsRefused(const RespValue& reply) {
    return reply.kind == ReplyKind::kError &&
           (reply.text.starts_with("MISCONF") || reply.text.starts_with("EXECABORT"));
  }

  Words WordsOfKey(Random& random) {
    const char* const families[] = {"s", "n", "l", "m"};
    switch (random.Uniform(13)) {
      case 0:
        return {"SET", Key("s", random), Number()};
      case 1:
      case 2:
        return {"INCR", Key("n", random)};
      case 3:
        return {"APPEND", Key("s", random), Number() + ","};
      case 4:
        return {"RPUSH", Key("l", random), Number()};
      case 5:
        return {"LPOP", Key("l", random)};
      case 6:
        return {"LMOVE", Key("l", random), Key("l", random), "LEFT", "RIGHT"};
      case 7:
        return {"SADD", Key("m", random), absl::StrCat("x", random.Uniform(9))};
      case 8:
        return {"SPOP", Key("m", random)};
      case 9: {
        const char* const family = families[random.Uniform(4)];
        return {"RENAME", Key(family, random), Key(family, random)};
      }
      case 10:
        return {"MSET", Key("s", random), Number(), Key("s", random), Number()};
      case 11:
        return {"MOVE", Key(families[random.Uniform(4)], random), Db(random)};
      default:
        return {"DEL", Key(families[random.Uniform(4)], random)};
    }
  }
  static Words WordsOfAll(Random& random) {
    return random.OneIn(2) ? Words{"SWAPDB", Db(random), Db(random)} : Words{"FLUSHDB"};
  }
  void SetClock(Unit* unit) {
    unit->era = next_era_++ * kEra;
    unit->commands.push_back({"SET", kClock, absl::StrCat(*unit->era)});
  }
  // FLUSHALL, and perhaps more.
  void BeginEra(Unit* unit, Random& random) {
    unit->commands.push_back({"FLUSHALL"});
    unit->commands.push_back({"SELECT", "0"});
    SetClock(unit);
    if (!random.OneIn(2)) return;
    unit->commands.push_back({"SELECT", Db(random)});
    unit->commands.push_back(WordsOfKey(random));
  }

  void Send(Unit* unit, bool as_script) {
    const auto check = [unit](const RespValue& reply) -> std::string {
      if (IsRefused(reply)) return "";
      if (reply.items.size() != unit->commands.size()) return "a reply of each command";
      const RespValue& clock = reply.items[1];
      if (clock.kind == ReplyKind::kError) return "no error";
      unit->begin = clock.kind == ReplyKind::kNull ? 0 : std::stoll(clock.text);
      if (!unit->is_read) --unit->begin;
      unit->replies = reply.items;
      return "";
    };
    if (as_script) {
      Words args = {"EVAL", kScript, "1", kClock};
      for (const Words& words : unit->commands) {
        args.push_back(absl::StrCat(words.size()));
        args.insert(args.end(), words.begin(), words.end());
      }
      return Add(args, check);
    }
    Add({"MULTI"}, Is("+OK"));
    for (const Words& words : unit->commands) Add(words, AnyReply);
    Add({"EXEC"}, check);
  }

  std::deque<Unit>& units_;
  int64_t& next_era_;
};

class LogOrderTest : public LogCrashHarness {
 protected:
  void BeginSeed() override {
    moments_.assign(1, {});
    promised_ = 0;
    next_era_ = 1;
  }

  // The life begins with an era of its own, so that the clock tells all moments apart.
  std::string BeginLife(Random& random) override {
    units_.clear();
    may_flush_ = true;
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    auto writer = std::make_unique<Writer>(&units_, &next_era_);
    writer->AddEra(random);
    clients.push_back(std::move(writer));
    return Drive(std::move(clients), random);
  }
  std::vector<std::unique_ptr<ScheduledClient>> Clients(Random& random) override {
    std::vector<std::unique_ptr<ScheduledClient>> clients;
    for (size_t w = 0; w < kWriters; ++w) {
      auto writer = std::make_unique<Writer>(&units_, &next_era_);
      for (uint64_t n = 1 + random.Uniform(8); n > 0; --n) {
        if (random.OneIn(3)) writer->AddRead(random);
        writer->AddUnit(random);
        // What comes after it counts from 0. A second one could not be told from it.
        if (may_flush_ && random.OneIn(60)) {
          may_flush_ = false;
          writer->AddFlush();
        }
      }
      clients.push_back(std::move(writer));
    }
    return clients;
  }
  void NotePromises() override {
    for (Unit& unit : units_) unit.is_promised = !unit.replies.empty();
  }

  // The order of the units, in which they lead from what was loaded to what there is.
  std::string EndLife() override {
    promised_ = 0;
    std::string error = Append(units_.front());
    if (!error.empty()) return error;
    std::map<int64_t, const Unit*> changes;  // by the clock when they begin
    std::vector<const Unit*> reads;
    const Unit* flush = nullptr;
    for (const Unit& unit : units_) {
      if (unit.replies.empty() || &unit == &units_.front()) continue;
      if (unit.is_flush) {
        flush = &unit;
      } else if (unit.is_read) {
        reads.push_back(&unit);
      } else if (!changes.emplace(unit.begin, &unit).second) {
        return absl::StrCat("two units have begun when the clock was ", unit.begin);
      }
    }
    std::map<int64_t, size_t> moment_of;
    while (true) {
      moment_of[moments_.back().clock()] = moments_.size() - 1;
      const auto next = changes.find(moments_.back().clock());
      const Unit* const unit = next == changes.end() ? std::exchange(flush, nullptr) : next->second;
      if (unit == nullptr) break;
      if (next != changes.end()) changes.erase(next);
      if (!(error = Append(*unit)).empty()) return error;
    }
    if (!changes.empty()) return "no order explains all units";
    for (const Unit* unit : reads) {
      const auto moment = moment_of.find(unit->begin);
      if (moment == moment_of.end()) return absl::StrCat("there was no clock ", unit->begin);
      Model model = moments_[moment->second];
      if (!(error = Run(*unit, &model)).empty()) return error;
      if (unit->is_promised) promised_ = std::max(promised_, moment->second);
    }
    return moments_.back().IsSame(testkit::ContentOf(*server().server().state().shards))
               ? ""
               : "the replies do not explain what there is";
  }
  // What there was after it.
  std::string Append(const Unit& unit) {
    Model model = moments_.back();
    if (std::string error = Run(unit, &model); !error.empty()) return error;
    if (unit.is_promised) promised_ = moments_.size();
    moments_.push_back(std::move(model));
    return "";
  }
  static std::string Run(const Unit& unit, Model* model) {
    if (unit.replies.empty()) return "the machine had not begun to fail";
    for (size_t i = 0; i < unit.commands.size(); ++i) {
      const std::string error = model->Run(unit.commands[i], unit.replies[i]);
      if (!error.empty()) return absl::StrCat("at clock ", unit.begin, ": ", error);
    }
    return "";
  }

  std::string CheckLoaded(const StoreModel& found) override {
    const auto moment = std::find_if(moments_.rbegin(), moments_.rend(),
                                     [&](const Model& model) { return model.IsSame(found); });
    if (moment == moments_.rend()) {
      std::string text;
      for (const auto& [where, lines] : found) {
        absl::StrAppend(&text, where.first, ".", where.second, "=");
        for (const std::string& line : lines) absl::StrAppend(&text, line, " ");
      }
      return "there was no such moment: " + text;
    }
    const auto number = static_cast<size_t>(moments_.rend() - moment) - 1;
    if (number < promised_) return absl::StrCat("moment ", number, " of ", promised_);
    lost_ += moments_.size() - 1 - number;
    Model now = moments_[number];
    moments_.assign(1, std::move(now));
    return "";
  }

  std::deque<Unit> units_;      // of this life
  std::vector<Model> moments_;  // from the beginning of the life on
  size_t promised_ = 0;         // the last moment that must not be lost
  int64_t next_era_ = 1;
  bool may_flush_ = true;
  uint64_t lost_ = 0;  // moments
};

INSTANTIATE_TEST_SUITE_P(Reaches, LogOrderTest,
                         testing::Values(ShardReach::kByMessage, ShardReach::kInPlace),
                         NameOfReach);

TEST_P(LogOrderTest, WhatIsLoadedIsOneMoment) {
  server().RunSeeds(ByBuild(100, 10), [&](uint64_t, Random& random) { return RunSeed(random); });
  if (helio::IsReplay()) return;
  EXPECT_GT(lost_, crashes() / 10) << "too little was under way";
}

}  // namespace
}  // namespace dfly
