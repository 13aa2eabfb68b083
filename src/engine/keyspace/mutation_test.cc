// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/mutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/types/hash_value.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {
namespace {

using testing::ElementsAre;

std::string_view KindOf(MutationKind kind) {
  constexpr std::string_view kNames[] = {"write",   "delete",  "emptied", "expired", "members",
                                         "evicted", "flushed", "swapped", "aside"};
  return kNames[static_cast<size_t>(kind)];
}

// "kind key event", and what is not as usual.
class Recorder final : public MutationListener, public KeyEventListener {
 public:
  void OnMutation(uint32_t, const Mutation& mutation) override {
    std::string text = std::string(KindOf(mutation.kind)) + " " + std::to_string(mutation.db_index);
    if (mutation.other_db >= 0) text += "<>" + std::to_string(mutation.other_db);
    if (!mutation.key.empty()) text += " " + std::string(mutation.key);
    if (mutation.event != KeyEvent::kNone) text += " " + std::string(NameOf(mutation.event));
    if (!mutation.is_told) text += " later";
    if (!mutation.is_watched) text += " unwatched";
    if (mutation.changes != 1) text += " x" + std::to_string(mutation.changes);
    seen_.push_back(std::move(text));
  }
  void OnKeyEvent(uint32_t, int, std::string_view key, KeyEvent event) override {
    events_.push_back(std::string(NameOf(event)) + " " + std::string(key));
  }
  void OnFieldEvent(uint32_t, int, std::string_view key, KeyEvent event,
                    std::span<const std::string_view> fields) override {
    std::string text = std::string(NameOf(event)) + " " + std::string(key) + ":";
    for (std::string_view field : fields) text += " " + std::string(field);
    events_.push_back(text);
  }
  bool HearsFields(uint32_t) const override { return hears_fields_; }
  void set_hears_fields(bool hears) { hears_fields_ = hears; }
  std::vector<std::string> Seen() { return std::exchange(seen_, {}); }
  std::vector<std::string> Events() { return std::exchange(events_, {}); }

 private:
  std::vector<std::string> seen_;
  std::vector<std::string> events_;
  bool hears_fields_ = true;
};

class MutationTest : public testing::Test {
 protected:
  MutationTest() {
    HashValue::RegisterType();
    shard_.set_mutation_listener(&recorder_);
    shard_.set_key_events(&recorder_);
  }
  void Wait(int64_t ms) {
    now_ms_ += ms;
    cx_.Begin(0, now_ms_);
  }
  std::vector<std::string> Seen() { return recorder_.Seen(); }

  int64_t now_ms_ = 1'700'000'000'000;
  Recorder recorder_;
  Shard shard_{0, 16};
  ShardContext cx_{shard_, 0, now_ms_};
};

TEST_F(MutationTest, WritesAndDeletesAreToldWithTheirEvents) {
  cx_.SetString("k", "v", {.keep_deadline = false, .deadline_ms = now_ms_ + 100});
  EXPECT_THAT(Seen(), ElementsAre("write 0 k set"));
  EXPECT_THAT(recorder_.Events(), ElementsAre("new k", "set k", "expire k"));
  cx_.Persist("k");
  cx_.SetDeadline("k", now_ms_ + 100);
  cx_.Delete("k");
  EXPECT_THAT(Seen(), ElementsAre("write 0 k persist", "write 0 k expire", "delete 0 k del"));
  cx_.Delete("k");
  EXPECT_THAT(Seen(), ElementsAre());
}

TEST_F(MutationTest, ACollectionThatLosesItsLastElementIsEmptied) {
  auto value = cx_.FindOrCreate("h", ValueType::kHash);
  HashValue::Create(&*value);
  HashValue(&*value).Set("f", "v", shard_.hash_limit());
  cx_.Changed("h", KeyEvent::kHSet);
  HashValue(&*cx_.FindMutable("h")).Erase("f");
  cx_.Changed("h", KeyEvent::kHDel);
  EXPECT_THAT(Seen(), ElementsAre("write 0 h hset", "write 0 h hdel", "emptied 0 h del x0"));
  EXPECT_EQ(shard_.stats().changes, 2u);
}

TEST_F(MutationTest, WhatIsMovedIsToldOnceForEachKeyAndTheKeyspaceWhenBothAreDone) {
  cx_.SetString("from", "v");
  recorder_.Events();
  Seen();
  auto taken = cx_.Take("from", KeyEvent::kRenameFrom, ShardContext::Telling::kLater);
  cx_.Put("to", *std::move(taken), KeyEvent::kRenameTo, 0, ShardContext::Telling::kLater);
  EXPECT_THAT(Seen(),
              ElementsAre("delete 0 from rename_from later", "write 0 to rename_to later x0"));
  EXPECT_THAT(recorder_.Events(), ElementsAre("new to"));
}

TEST_F(MutationTest, WhatGoesByItselfHasItsOwnKind) {
  cx_.SetString("k", "v", {.keep_deadline = false, .deadline_ms = now_ms_ + 10});
  auto value = cx_.FindOrCreate("h", ValueType::kHash);
  HashValue::Create(&*value);
  HashValue hash(&*value);
  hash.Set("f", "v", shard_.hash_limit());
  hash.SetDeadline("f", now_ms_ + 10);
  cx_.Changed("h", KeyEvent::kHExpire);
  Seen();
  const uint64_t changes = shard_.stats().changes;
  Wait(1000);
  shard_.ExpireStep(now_ms_, 100);
  EXPECT_THAT(Seen(), testing::UnorderedElementsAre("expired 0 k expired", "members 0 h hexpired",
                                                    "emptied 0 h del"));
  EXPECT_EQ(shard_.stats().expired_keys, 1u);
  EXPECT_EQ(shard_.stats().changes, changes + 2);
}

TEST_F(MutationTest, ManyFieldsThatExpireAreToldInPortions) {
  constexpr size_t kFields = 1000;
  constexpr size_t kPortion = 300;
  shard_.set_mutation_listener(nullptr);
  shard_.set_key_events(&recorder_, true);
  const auto make = [&] {
    auto value = cx_.FindOrCreate("h", ValueType::kHash);
    HashValue::Create(&*value);
    HashValue hash(&*value);
    for (size_t i = 0; i < kFields; ++i) {
      hash.Set(std::to_string(i), "v", shard_.hash_limit());
      hash.SetDeadline(std::to_string(i), now_ms_ + 10);
    }
    cx_.Changed("h", KeyEvent::kHExpire);
    Wait(1000);
    recorder_.Events();
  };
  make();
  EXPECT_FALSE(cx_.Peek("h"));  // a command that meets it does not wait for all of them
  cx_.Finish();
  EXPECT_THAT(recorder_.Events(), ElementsAre());
  size_t fields = 0;
  std::vector<std::string> events;
  while (shard_.ExpireStep(now_ms_, kPortion).is_more_due) {
    cx_.Begin(0, now_ms_);
    EXPECT_FALSE(cx_.Peek("h"));
    cx_.Finish();
  }
  for (std::string& event : recorder_.Events()) {
    if (!event.starts_with("hexpired h: ")) {
      events.push_back(std::move(event));
      continue;
    }
    const auto told = static_cast<size_t>(std::count(event.begin(), event.end(), ' ')) - 1;
    EXPECT_LE(told, kPortion);
    fields += told;
  }
  EXPECT_EQ(fields, kFields);
  EXPECT_THAT(events, ElementsAre("hexpired h", "hexpired h", "hexpired h", "hexpired h", "del h"));
  EXPECT_EQ(shard_.stats().expired_members, kFields);

  // Its name is used again at once.
  make();
  cx_.SetString("h", "v");
  EXPECT_THAT(recorder_.Events(), ElementsAre("hexpired h", testing::StartsWith("hexpired h: "),
                                              "del h", "new h", "set h"));
  // Nobody listens: it goes as a whole.
  recorder_.set_hears_fields(false);
  cx_.Delete("h");
  make();
  EXPECT_FALSE(cx_.Peek("h"));
  cx_.Finish();
  EXPECT_THAT(recorder_.Events(), ElementsAre("hexpired h", "del h"));
}

TEST_F(MutationTest, WholeDatabasesAreTold) {
  cx_.SetString("a", "v");
  cx_.SetString("b", "v");
  Seen();
  shard_.SwapDatabases(0, 3);
  shard_.FlushAll(FlushMode::kSync);
  EXPECT_THAT(Seen(), ElementsAre("swapped 0<>3 x0", "flushed 3 x2"));
}

TEST_F(MutationTest, WhatIsBesideTheValueIsAside) {
  cx_.SetString("k", "v");
  Seen();
  recorder_.Events();
  const uint64_t changes = shard_.stats().changes;
  cx_.SetSticky("k", true);
  cx_.SetSticky("k", true);
  cx_.SetMemcachedItem("k", {.cas = 1, .client_flags = 2});
  EXPECT_THAT(Seen(), ElementsAre("aside 0 k unwatched x0", "aside 0 k unwatched x0"));
  EXPECT_EQ(shard_.stats().changes, changes);
  EXPECT_EQ(shard_.memcached().Find("k").client_flags, 2u);
  cx_.Reencoded("k", true);
  cx_.Reencoded("k", false);
  EXPECT_THAT(Seen(), ElementsAre("aside 0 k", "aside 0 k unwatched"));
  EXPECT_THAT(recorder_.Events(), ElementsAre());
}

TEST_F(MutationTest, EveryEventHasItsNameAndClass) {
  for (auto event = KeyEvent::kDel; event <= KeyEvent::kKeyMiss;
       event = static_cast<KeyEvent>(static_cast<int>(event) + 1)) {
    EXPECT_FALSE(NameOf(event).empty());
    EXPECT_NE(ClassOf(event), 0u);
  }
  EXPECT_EQ(NameOf(KeyEvent::kNone), "");
}

}  // namespace
}  // namespace dfly
