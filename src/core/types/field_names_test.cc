// SPDX-License-Identifier: Apache-2.0
#include "core/types/field_names.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/types/hash_value.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

constexpr PackedLimit kLimits = {.entries = 100, .element_bytes = 64};
// More than enough until a list is made: the last name must be common first, then all of them.
constexpr int kMany = 3 * SeenHashes::kOften;

using Fields = std::vector<std::pair<std::string, std::string>>;

// Each test has a thread, and with it no lists in the beginning.
void OnThread(void (*run)()) { std::thread(run).join(); }

class FieldNamesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { HashValue::RegisterType(); }
};

// As a command that sets all of them at once.
CompactValue Made(const Fields& fields, const PackedLimit& limit = kLimits) {
  CompactValue value;
  HashValue::Create(&value);
  HashValue hash(&value);
  std::vector<std::string_view> pairs;
  for (const auto& [field, text] : fields) pairs.insert(pairs.end(), {field, text});
  const auto sharing = hash.SetAllShared(pairs, limit);
  if (sharing == HashValue::Sharing::kDone) return value;
  for (const auto& [field, text] : fields) hash.Set(field, text, limit);
  if (sharing == HashValue::Sharing::kUnknown) hash.ShareNames();
  return value;
}

// So many that the next one is shared if it can be.
std::vector<CompactValue> MadeMany(const Fields& fields, const PackedLimit& limit = kLimits) {
  std::vector<CompactValue> values;
  for (int i = 0; i < kMany; ++i) values.push_back(Made(fields, limit));
  return values;
}

Fields In(const CompactValue& value) {
  Fields fields;
  HashValue(value).ForEach(
      [&](std::string_view field, std::string_view text) { fields.emplace_back(field, text); });
  return fields;
}

bool IsShared(const CompactValue& value) {
  return HashValue(value).encoding() == HashValue::kShared;
}

Fields Numbered(size_t count, size_t name_bytes) {
  Fields fields;
  for (size_t i = 0; i < count; ++i) {
    std::string name = "n" + std::to_string(i);
    name.resize(name_bytes, '.');
    fields.emplace_back(name, std::to_string(i));
  }
  return fields;
}

const Fields kUser = {{"full_name", "Ada"}, {"mail_address", "ada@example.org"}, {"7", "12"}};

TEST_F(FieldNamesTest, HashesOfTheSameNamesHaveTheirValuesAlone) {
  OnThread([] {
    std::vector<CompactValue> users = MadeMany(kUser);
    EXPECT_FALSE(IsShared(users.front()));
    EXPECT_TRUE(IsShared(users.back()));
    EXPECT_EQ(users.back().ObjectEncodingName(), "listpack");
    EXPECT_LT(users.back().HeapBytes(), users.front().HeapBytes());
    EXPECT_EQ(In(users.back()), kUser);
    EXPECT_EQ(HashValue(users.back()).size(), 3u);
    EXPECT_FALSE(users.back().IsEmptyObject());
    EXPECT_EQ(CommonNames::Here().lists(), 1u);

    // In another order they are others.
    EXPECT_FALSE(IsShared(Made({{"mail_address", "x"}, {"full_name", "y"}, {"7", "12"}})));
    EXPECT_FALSE(IsShared(Made({{"full_name", "x"}, {"full_name", "y"}, {"7", "12"}})));
  });
}

TEST_F(FieldNamesTest, AFieldThatComesOrGoesLeadsToAnotherListOrToNone) {
  OnThread([] {
    Fields longer = kUser;
    longer.emplace_back("born", "1815");
    const std::vector<CompactValue> users = MadeMany(kUser), more = MadeMany(longer);
    CompactValue value = Made(kUser);
    HashValue hash(&value);
    ASSERT_TRUE(IsShared(value));
    EXPECT_TRUE(hash.Set("born", "1815", kLimits));
    EXPECT_TRUE(IsShared(value));
    EXPECT_EQ(In(value), longer);
    EXPECT_FALSE(hash.Set("7", "thirteen", kLimits));
    longer[2].second = "thirteen";
    EXPECT_EQ(In(value), longer);
    EXPECT_TRUE(hash.Erase("born"));
    EXPECT_FALSE(hash.Erase("born"));
    EXPECT_TRUE(IsShared(value));
    longer.pop_back();
    EXPECT_EQ(In(value), longer);

    EXPECT_TRUE(hash.Set("nobody else has it", "x", kLimits));
    EXPECT_EQ(hash.encoding(), HashValue::kPacked);
    longer.emplace_back("nobody else has it", "x");
    EXPECT_EQ(In(value), longer);

    value = Made(kUser);
    ASSERT_TRUE(IsShared(value));
    EXPECT_TRUE(hash.Erase("mail_address"));
    EXPECT_EQ(hash.encoding(), HashValue::kPacked);
    EXPECT_EQ(In(value), (Fields{kUser[0], kUser[2]}));
  });
}

TEST_F(FieldNamesTest, ATooLongValueOrADeadlineMakesATable) {
  OnThread([] {
    const std::vector<CompactValue> users = MadeMany(kUser);
    for (const bool has_deadline : {false, true}) {
      CompactValue value = Made(kUser);
      ASSERT_TRUE(IsShared(value));
      HashValue hash(&value);
      has_deadline ? hash.SetDeadline("full_name", 1)
                   : static_cast<void>(hash.Set("x", std::string(65, 'x'), kLimits));
      EXPECT_EQ(hash.encoding(), HashValue::kTable);
      EXPECT_EQ(hash.size(), has_deadline ? 3u : 4u);
      char scratch[HashValue::kScratchSize];
      EXPECT_EQ(hash.Get("mail_address", scratch), "ada@example.org");
    }
    EXPECT_FALSE(IsShared(Made(kUser, {.entries = 2, .element_bytes = 64})));
    EXPECT_FALSE(IsShared(Made(kUser, {.entries = 100, .element_bytes = 14})));
  });
}

TEST_F(FieldNamesTest, LongListsAreNotShared) {
  OnThread([] {
    constexpr size_t kMost = FieldNames::kNamesMax;
    EXPECT_TRUE(IsShared(MadeMany(Numbered(kMost, 8)).back()));
    EXPECT_FALSE(IsShared(MadeMany(Numbered(kMost + 1, 8)).back()));
    EXPECT_FALSE(IsShared(MadeMany(Numbered(1, 8)).back()));
    // An entry has two bytes besides its text.
    EXPECT_TRUE(IsShared(MadeMany(Numbered(FieldNames::kBytesMax / 32, 30)).back()));
    EXPECT_FALSE(IsShared(MadeMany(Numbered(FieldNames::kBytesMax / 32, 31)).back()));
  });
}

TEST_F(FieldNamesTest, ListsThatNoHashHasMakeRoomForOthers) {
  OnThread([] {
    const auto of_kind = [](size_t kind) {
      return Fields{{"first of " + std::to_string(kind), "1"}, {"last", "2"}};
    };
    std::vector<CompactValue> kept;
    for (size_t kind = 0; kind < CommonNames::kListsMax; ++kind) {
      kept.push_back(std::move(MadeMany(of_kind(kind)).back()));
      ASSERT_TRUE(IsShared(kept.back()));
    }
    EXPECT_EQ(CommonNames::Here().lists(), CommonNames::kListsMax);
    EXPECT_FALSE(IsShared(MadeMany(of_kind(1000)).back())) << "all are in use";
    EXPECT_EQ(CommonNames::Here().lists(), CommonNames::kListsMax);
    for (size_t kind = 0; kind < CommonNames::kListsMax; ++kind) {
      ASSERT_EQ(In(kept[kind]), of_kind(kind));
    }
    kept.resize(10);
    EXPECT_TRUE(IsShared(MadeMany(of_kind(1001)).back()));
    EXPECT_EQ(CommonNames::Here().lists(), 11u);
    for (size_t kind = 0; kind < kept.size(); ++kind) ASSERT_EQ(In(kept[kind]), of_kind(kind));
  });
}

TEST_F(FieldNamesTest, AHashMayOutliveTheThreadThatMadeIt) {
  CompactValue value;
  std::thread([&] { value = std::move(MadeMany(kUser).back()); }).join();
  ASSERT_TRUE(IsShared(value));
  EXPECT_EQ(In(value), kUser);
  CompactValue copy = value.Clone();
  HashValue hash(&value);
  EXPECT_TRUE(hash.Set("more", "x", kLimits));
  EXPECT_EQ(hash.encoding(), HashValue::kPacked) << "this thread has no list";
  EXPECT_EQ(hash.size(), 4u);
  EXPECT_EQ(In(copy), kUser);
}

TEST_F(FieldNamesTest, ManyThreadsMakeAndDropTheSameLists) {
  const auto work = [] {
    for (int round = 0; round < 20; ++round) {
      std::vector<CompactValue> users = MadeMany(kUser);
      ASSERT_EQ(In(users.back()), kUser);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(FieldNamesTest, RandomChangesAgreeWithModels) {
  OnThread([] {
    helio::Random random(helio::TestSeed());
    constexpr size_t kHashes = 60;
    const std::vector<std::string> names = {"a", "b", "12", "a longer name", "name"};
    std::vector<CompactValue> values(kHashes);
    std::vector<std::map<std::string, std::string>> models(kHashes);
    for (CompactValue& value : values) HashValue::Create(&value);
    BlockMover mover(nullptr);
    size_t shared = 0;
    for (int step = 0; step < 30'000; ++step) {
      const size_t at = random.Uniform(kHashes);
      CompactValue& value = values[at];
      auto& model = models[at];
      HashValue hash(&value);
      const std::string& name = names[random.Uniform(names.size())];
      const std::string text = random.OneIn(2) ? std::to_string(step) : std::string(step % 50, 't');
      switch (random.Uniform(8)) {
        case 0: {  // all anew, mostly with the same names
          Fields fields;
          for (const std::string& each : names) {
            if (!random.OneIn(20)) fields.emplace_back(each, text);
          }
          value = Made(fields);
          model = {fields.begin(), fields.end()};
          break;
        }
        case 1:
        case 2:
          ASSERT_EQ(hash.Erase(name), model.erase(name) > 0);
          break;
        case 3:
          value = value.Clone();
          break;
        case 4: {
          uint64_t cursor = 0;
          value.Move(mover, &cursor);
          break;
        }
        default:
          ASSERT_EQ(hash.Set(name, text, kLimits), !model.contains(name));
          model[name] = text;
          hash.ShareNames();
      }
      HashValue now(&value);
      ASSERT_EQ(now.size(), model.size());
      ASSERT_EQ(now.Has(name), model.contains(name));
      std::map<std::string, std::string> seen;
      now.ForEach([&](std::string_view field, std::string_view its_text) {
        ASSERT_TRUE(seen.emplace(field, its_text).second);
      });
      ASSERT_EQ(seen, model);
      shared += now.encoding() == HashValue::kShared;
      if (model.empty()) continue;
      now.Random([&] { return static_cast<uint32_t>(random.Next()); },
                 [&](std::string_view field, std::string_view its_text) {
                   ASSERT_EQ(model.at(std::string(field)), its_text);
                 });
    }
    EXPECT_GT(shared, 1000u);
  });
}

}  // namespace
}  // namespace dfly
