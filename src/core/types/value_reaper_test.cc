// SPDX-License-Identifier: Apache-2.0
#include "core/table/value_reaper.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "core/types/hash_value.h"
#include "core/types/set_value.h"
#include "core/types/stream_value.h"
#include "core/types/zset_value.h"

namespace dfly {
namespace {

constexpr int kMany = 20'000;

class ValueReaperTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    HashValue::RegisterType();
    SetValue::RegisterType();
    ZsetValue::RegisterType();
    StreamValue::RegisterType();
  }

  static CompactValue MakeHash(int fields, bool with_deadlines = false) {
    CompactValue value;
    HashValue::Create(&value);
    HashValue hash(&value, 0);
    for (int i = 0; i < fields; ++i) hash.Set("field:" + std::to_string(i), "a value", {});
    for (int i = 0; with_deadlines && i < fields; ++i) {
      hash.SetDeadline("field:" + std::to_string(i), 1000 + i);
    }
    return value;
  }
  static CompactValue MakeSet(int members) {
    CompactValue value;
    SetValue::Create(&value, "x", kMany, {});
    for (int i = 0; i < members; ++i) SetValue(&value).Add("member:" + std::to_string(i), {});
    return value;
  }
  static CompactValue MakeZset(int members) {
    CompactValue value;
    ZsetValue::Create(&value, 1, kMany, {});
    for (int i = 0; i < members; ++i) ZsetValue(&value).Set("member:" + std::to_string(i), i, {});
    return value;
  }
  static CompactValue MakeStream(int entries) {
    auto stream = std::make_unique<StreamValue>();
    const std::string_view pairs[] = {"name", "value", "number", "12345"};
    for (int i = 1; i <= entries; ++i) {
      stream->Append({static_cast<uint64_t>(i), 0}, pairs, StreamLimit());
    }
    CompactValue value;
    value.SetObject(ValueType::kStream, stream.release(), 0);
    return value;
  }

  // Ends a value and sees it freed in steps.
  static void ExpectStepsFor(CompactValue value) {
    ValueReaper reaper;
    reaper.ServeThisThread();
    const size_t bytes = value.HeapBytes();
    ASSERT_GT(bytes, ValueReaper::kLarge);
    value = CompactValue();
    value.SetInt(1);  // what is moved away ends with the temporary, or here
    ASSERT_EQ(reaper.size(), 1u);
    EXPECT_EQ(reaper.bytes(), bytes);
    EXPECT_TRUE(ValueReaper::ThreadHasWork());
    int steps = 1;
    for (size_t before = bytes; !reaper.FreeSome(kMany / 50); ++steps) {
      EXPECT_LE(reaper.bytes(), before);
      before = reaper.bytes();
      ASSERT_LT(steps, kMany);
    }
    EXPECT_GT(steps, 5);  // a table is freed by segments, of up to some 1,700
    EXPECT_EQ(reaper.bytes(), 0u);
    EXPECT_FALSE(ValueReaper::ThreadHasWork());
  }
};

TEST_F(ValueReaperTest, LargeValuesOfAllTypesAreFreedInSteps) {
  ExpectStepsFor(MakeHash(kMany));
  ExpectStepsFor(MakeHash(kMany, true));
  ExpectStepsFor(MakeSet(kMany));
  ExpectStepsFor(MakeZset(kMany));
  ExpectStepsFor(MakeStream(kMany));
}

TEST_F(ValueReaperTest, WhateverEndsAValue) {
  ValueReaper reaper;
  reaper.ServeThisThread();
  CompactValue value = MakeSet(kMany);
  value.SetString("overwritten");
  EXPECT_EQ(reaper.size(), 1u);
  value = MakeSet(kMany);
  value.SetInt(7);
  EXPECT_EQ(reaper.size(), 2u);
  value = MakeSet(kMany);
  ZsetValue::Create(&value, 1, 1, {});
  EXPECT_EQ(reaper.size(), 3u);
  { CompactValue dies = MakeSet(kMany); }
  EXPECT_EQ(reaper.size(), 4u);
}

TEST_F(ValueReaperTest, SmallValuesAndThreadsWithoutOneAreFreedAtOnce) {
  { CompactValue dies = MakeSet(kMany); }  // no reaper
  ValueReaper reaper;
  reaper.ServeThisThread();
  { CompactValue dies = MakeSet(500); }
  { CompactValue dies = MakeHash(3); }
  { CompactValue dies(std::string(1 << 20, 'x')); }
  EXPECT_TRUE(reaper.empty());
  std::thread([] {
    { CompactValue dies = MakeSet(kMany); }
    EXPECT_EQ(ValueReaper::OfThread(), nullptr);
  }).join();
  EXPECT_TRUE(reaper.empty());
}

TEST_F(ValueReaperTest, AStringOfManyMegabytesIsGivenBackInSteps) {
  ValueReaper reaper;
  reaper.ServeThisThread();
  int calls = 0;
  reaper.set_on_block([&calls] { ++calls; });
  CompactValue value(std::string(20 << 20, 'x'));
  const size_t bytes = value.HeapBytes();
  const std::string_view reply = LentBlock::Lend(value.lent_block(), value.StringSize());
  value.SetInt(1);
  EXPECT_TRUE(reaper.empty()) << "it is still being sent";
  LentBlock::ReturnReply(reply.data());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(reaper.size(), 1u);
  EXPECT_EQ(reaper.bytes(), bytes);
  { CompactValue dies = MakeSet(kMany); }
  int steps = 1;
  for (; !reaper.FreeSome(256); ++steps) ASSERT_LT(steps, kMany);
  EXPECT_GT(steps, 20);
  EXPECT_EQ(reaper.bytes(), 0u);
}

TEST_F(ValueReaperTest, TheFirstOfAThreadServesItUntilItIsGone) {
  auto first = std::make_unique<ValueReaper>();
  ValueReaper second;
  first->ServeThisThread();
  second.ServeThisThread();
  { CompactValue dies = MakeSet(kMany); }
  EXPECT_EQ(first->size(), 1u);
  first.reset();  // and what it still has
  EXPECT_EQ(ValueReaper::OfThread(), nullptr);
  second.ServeThisThread();
  { CompactValue dies = MakeSet(kMany); }
  EXPECT_EQ(second.size(), 1u);
}

}  // namespace
}  // namespace dfly
