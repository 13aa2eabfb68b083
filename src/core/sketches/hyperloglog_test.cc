// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/hyperloglog.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "helio/base/random.h"

namespace dfly {
namespace {

using helio::Random;
using Registers = HyperLogLog::Registers;
using Result = HyperLogLog::Result;

Registers RegistersOf(std::string_view bytes) {
  Registers registers = {};
  EXPECT_TRUE(HyperLogLog::Merge(bytes, &registers));
  return registers;
}

TEST(HyperLogLogTest, ANewOneIsOneRunOfZeros) {
  const HyperLogLog log;
  EXPECT_EQ(log.bytes(), std::string("HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", 18));
  EXPECT_TRUE(HyperLogLog::IsValid(log.bytes()));
  EXPECT_EQ(HyperLogLog::CachedCount(log.bytes()), 0u);
  EXPECT_EQ(HyperLogLog::DescribeRuns(log.bytes()), "Z:16384");
  EXPECT_EQ(HyperLogLog::Estimate(RegistersOf(log.bytes())), 0u);
}

TEST(HyperLogLogTest, ElementsMarkTheRegistersThatRedisMarks) {
  HyperLogLog log;
  for (const char* element : {"a", "b", "c"}) {
    EXPECT_EQ(log.Raise(HyperLogLog::MarkOf(element), 3000), Result::kRaised);
    EXPECT_EQ(log.Raise(HyperLogLog::MarkOf(element), 3000), Result::kUnchanged);
  }
  // PFDEBUG DECODE of redis-server.
  EXPECT_EQ(HyperLogLog::DescribeRuns(log.bytes()), "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603");
  EXPECT_EQ(HyperLogLog::Estimate(RegistersOf(log.bytes())), 3u);
}

TEST(HyperLogLogTest, RunsAreSplitAndJoined) {
  HyperLogLog log;
  for (uint32_t index : {10u, 12u, 11u, 13u, 14u, 9u}) log.Raise({index, 3}, 3000);
  EXPECT_EQ(HyperLogLog::DescribeRuns(log.bytes()), "z:9 v:3,1 v:3,4 v:3,1 Z:16369");
  log.Raise({12, 5}, 3000);
  EXPECT_EQ(HyperLogLog::DescribeRuns(log.bytes()), "z:9 v:3,3 v:5,1 v:3,2 Z:16369");
  log.Raise({0, 1}, 3000);
  log.Raise({16383, 32}, 3000);
  EXPECT_EQ(HyperLogLog::DescribeRuns(log.bytes()), "v:1,1 z:8 v:3,3 v:5,1 v:3,2 Z:16368 v:32,1");
}

TEST(HyperLogLogTest, TheCountIsKeptUntilItIsStale) {
  HyperLogLog log;
  HyperLogLog::CacheCount(log.writable(), 0x0123456789);
  EXPECT_EQ(log.bytes().substr(8, 8), std::string("\x89\x67\x45\x23\x01\0\0\0", 8));
  EXPECT_EQ(HyperLogLog::CachedCount(log.bytes()), 0x0123456789u);
  HyperLogLog::MakeStale(log.writable());
  EXPECT_EQ(HyperLogLog::CachedCount(log.bytes()), std::nullopt);
  EXPECT_EQ(log.bytes()[15], '\x80');
}

// Random registers, as elements would never choose them, in both forms and in an array.
TEST(HyperLogLogTest, BothFormsKeepWhatAnArrayKeeps) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    HyperLogLog sparse, dense, small;
    ASSERT_TRUE(dense.MakeDense());
    auto model = std::make_unique<Registers>();
    model->fill(0);
    const uint32_t clusters = static_cast<uint32_t>(1 + random.Uniform(64));
    for (int i = 0; i < 3000; ++i) {
      const auto index = static_cast<uint32_t>(
          random.Uniform(clusters) * (HyperLogLog::kRegisters / clusters) + random.Uniform(40));
      const auto value = static_cast<uint8_t>(1 + random.Uniform(random.OneIn(50) ? 32 : 3));
      const bool raises = (*model)[index] < value;
      (*model)[index] = std::max((*model)[index], value);
      const Result expected = raises ? Result::kRaised : Result::kUnchanged;
      ASSERT_EQ(sparse.Raise({index, value}, SIZE_MAX), expected);
      ASSERT_EQ(dense.Raise({index, value}, 0), expected);
      ASSERT_EQ(small.Raise({index, value}, 500), expected);
    }
    EXPECT_EQ(RegistersOf(sparse.bytes()), *model);
    EXPECT_EQ(RegistersOf(dense.bytes()), *model);
    EXPECT_EQ(RegistersOf(small.bytes()), *model);
    EXPECT_FALSE(HyperLogLog::IsDense(sparse.bytes()));
    EXPECT_TRUE(HyperLogLog::IsDense(small.bytes()) || small.bytes().size() <= 500);
    ASSERT_TRUE(sparse.MakeDense());
    EXPECT_EQ(sparse.bytes(), dense.bytes());
  }
}

TEST(HyperLogLogTest, AValueThatASparseOneCannotHoldMakesItDense) {
  HyperLogLog log;
  EXPECT_EQ(log.Raise({5, 32}, 3000), Result::kRaised);
  EXPECT_FALSE(HyperLogLog::IsDense(log.bytes()));
  EXPECT_EQ(log.Raise({5, 33}, 3000), Result::kRaised);
  EXPECT_TRUE(HyperLogLog::IsDense(log.bytes()));
  EXPECT_EQ(RegistersOf(log.bytes())[5], 33);
}

TEST(HyperLogLogTest, EstimatesAreAsGoodAsTheTheorySays) {
  HyperLogLog log;
  uint64_t added = 0;
  for (uint64_t goal : {1u, 10u, 100u, 1000u, 10'000u, 100'000u}) {
    for (; added < goal; ++added) {
      log.Raise(HyperLogLog::MarkOf(fmt::format("e{}", added)), 3000);
    }
    const auto estimate = static_cast<double>(HyperLogLog::Estimate(RegistersOf(log.bytes())));
    const auto count = static_cast<double>(added);
    EXPECT_LE(std::abs(estimate - count), 0.0081 * 4 * count + 0.5) << count;
  }
}

TEST(HyperLogLogTest, HeadersAreChecked) {
  const std::string sound = HyperLogLog().bytes();
  EXPECT_FALSE(HyperLogLog::IsValid(""));
  EXPECT_FALSE(HyperLogLog::IsValid(sound.substr(0, 15)));
  EXPECT_TRUE(HyperLogLog::IsValid(sound.substr(0, 16))) << "the runs are looked at later";
  for (size_t at : {0, 3}) {
    std::string wrong = sound;
    wrong[at] = 'x';
    EXPECT_FALSE(HyperLogLog::IsValid(wrong));
  }
  for (char encoding : {'\0', '\2', '\xff'}) {
    std::string wrong = sound;
    wrong[4] = encoding;
    EXPECT_FALSE(HyperLogLog::IsValid(wrong)) << "a dense one has one size";
  }
}

TEST(HyperLogLogTest, RunsThatMakeNoSenseAreRefused) {
  const std::string header = HyperLogLog().bytes().substr(0, 16);
  Registers registers = {};
  for (const std::string& runs :
       {std::string(), std::string("\x7f\xfe", 2), std::string("\x7f", 1),
        std::string("\x7f\xff\0", 3), std::string("\x80\x7f\xff", 3), std::string(70000, '\x83')}) {
    const std::string bytes = header + runs;
    ASSERT_TRUE(HyperLogLog::IsValid(bytes));
    EXPECT_FALSE(HyperLogLog::Merge(bytes, &registers));
    EXPECT_FALSE(HyperLogLog(bytes).MakeDense());
    EXPECT_EQ(HyperLogLog::DescribeRuns(bytes), std::nullopt);
    HyperLogLog log(bytes);
    Result result = Result::kUnchanged;
    for (uint32_t i : {0u, 16383u}) {
      if (result != Result::kCorrupt) result = log.Raise({i, 40}, 3000);
    }
    EXPECT_EQ(result, Result::kCorrupt) << "33 and more need a dense one";
  }
}

}  // namespace
}  // namespace dfly
