// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/bloom_filter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "core/table/compact_value.h"

namespace dfly {
namespace {

constexpr size_t kMost = 64 << 20;
using Options = BloomFilter::Options;
using AddResult = BloomFilter::AddResult;

class BloomFilterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { BloomFilter::RegisterType(); }

  static ItemHash Item(uint64_t seed, uint64_t number) {
    return HashItem(fmt::format("{}:{}", seed, number));
  }
  // Adds items until so many were new, all of which must be found then.
  static void AddUntil(BloomFilter* filter, uint64_t seed, uint64_t items) {
    uint64_t number = 0;
    while (filter->items() < items) {
      const AddResult result = filter->Add(Item(seed, number++), kMost);
      EXPECT_TRUE(result == AddResult::kAdded || result == AddResult::kWasThere);
    }
    for (uint64_t i = 0; i < number; ++i) EXPECT_TRUE(filter->Has(Item(seed, i))) << i;
  }
  // The rate at which what was never added is found.
  static constexpr uint64_t kAsked = 200'000;
  static double MeasureRate(const BloomFilter& filter) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < kAsked; ++i) found += filter.Has(Item(1000, i));
    return static_cast<double>(found) / kAsked;
  }
  // By how much that may be off.
  static double NoiseOf(double rate) { return 5 * std::sqrt(rate / kAsked); }
};

TEST_F(BloomFilterTest, ASingleLayerHasTheRateThatWasAskedFor) {
  for (const double rate : {0.5, 0.2, 0.1, 0.03, 0.01, 0.001}) {
    for (const uint64_t seed : {1, 2}) {
      const auto filter =
          BloomFilter::Make({.error_rate = rate, .capacity = 20'000, .expansion = 0}, kMost);
      AddUntil(filter.get(), seed, 20'000);
      const double measured = MeasureRate(*filter);
      EXPECT_LT(measured, rate * 1.05 + NoiseOf(rate)) << "seed " << seed;
      EXPECT_GT(measured, rate * 0.7 - NoiseOf(rate)) << "more memory than needed, seed " << seed;
    }
  }
}

TEST_F(BloomFilterTest, TheRateStaysUnderTheOneAskedForWhenItGrows) {
  for (const uint32_t expansion : {1, 2, 4}) {
    for (const double rate : {0.1, 0.01}) {
      const auto filter =
          BloomFilter::Make({.error_rate = rate, .capacity = 1000, .expansion = expansion}, kMost);
      AddUntil(filter.get(), 7, 20'000);
      const double measured = MeasureRate(*filter);
      EXPECT_LT(measured, rate * 1.05 + NoiseOf(rate)) << expansion;
      EXPECT_GT(measured, rate / 4) << expansion;
      EXPECT_GT(filter->layers(), 2u);
    }
  }
}

TEST_F(BloomFilterTest, LayersGrowByTheExpansion) {
  const auto filter =
      BloomFilter::Make({.error_rate = 0.001, .capacity = 100, .expansion = 3}, kMost);
  EXPECT_EQ(filter->capacity(), 100u);
  AddUntil(filter.get(), 1, 100);
  EXPECT_EQ(filter->layers(), 1u);
  AddUntil(filter.get(), 2, 101);
  EXPECT_EQ(filter->layers(), 2u);
  EXPECT_EQ(filter->capacity(), 400u);
  AddUntil(filter.get(), 3, 401);
  EXPECT_EQ(filter->capacity(), 1300u);
  EXPECT_EQ(filter->items(), 401u);
}

TEST_F(BloomFilterTest, WhatDoesNotScaleIsFull) {
  const auto filter =
      BloomFilter::Make({.error_rate = 0.001, .capacity = 10, .expansion = 0}, kMost);
  AddUntil(filter.get(), 1, 10);
  uint64_t number = 0;
  while (filter->Has(Item(2, number))) ++number;
  EXPECT_EQ(filter->Add(Item(2, number), kMost), AddResult::kFull);
  EXPECT_FALSE(filter->Has(Item(2, number)));
  EXPECT_EQ(filter->Add(Item(1, 0), kMost), AddResult::kWasThere);
  EXPECT_EQ(filter->items(), 10u);
}

TEST_F(BloomFilterTest, NoneIsLargerThanIsAllowed) {
  for (const uint64_t capacity : {uint64_t{1} << 30, uint64_t{1} << 59, uint64_t{INT64_MAX}}) {
    EXPECT_EQ(BloomFilter::Make({.capacity = capacity}, kMost), nullptr);
  }
  EXPECT_EQ(BloomFilter::Make({.error_rate = 1e-300, .capacity = 1 << 20}, kMost), nullptr);
  EXPECT_NE(BloomFilter::Make({.error_rate = 1e-300, .capacity = 1 << 10}, kMost), nullptr);
  EXPECT_NE(BloomFilter::Make({.error_rate = 1 - 0x1p-53, .capacity = 1 << 10}, kMost), nullptr);
  // The first layer fits, the second one does not.
  const auto filter = BloomFilter::Make({.capacity = 100}, 300);
  ASSERT_NE(filter, nullptr);
  AddResult result = AddResult::kAdded;
  for (uint64_t i = 0; i < 1000 && result != AddResult::kTooLarge; ++i) {
    result = filter->Add(Item(1, i), 300);
  }
  EXPECT_EQ(result, AddResult::kTooLarge);
  EXPECT_EQ(filter->items(), 100u);
  // Nor has it more layers.
  const auto slow = BloomFilter::Make({.capacity = 1, .expansion = 1}, kMost);
  uint64_t refused = 0;
  for (uint64_t i = 0; i < 2 * BloomFilter::kLayersMax; ++i) {
    refused += slow->Add(Item(1, i), kMost) == AddResult::kTooLarge;
  }
  EXPECT_GT(refused, BloomFilter::kLayersMax / 2);
  EXPECT_EQ(slow->layers(), BloomFilter::kLayersMax);
}

TEST_F(BloomFilterTest, ACloneIsTheSame) {
  CompactValue value;
  auto made = BloomFilter::Make({.capacity = 50}, kMost);
  BloomFilter* const filter = made.get();
  value.SetObject(ValueType::kBloomFilter, made.release(), 0);
  AddUntil(filter, 1, 500);
  const CompactValue copy = value.Clone();
  EXPECT_EQ(copy.HeapBytes(), value.HeapBytes());
  const auto* const clone = static_cast<const BloomFilter*>(copy.object());
  EXPECT_EQ(clone->items(), 500u);
  for (uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(clone->Has(Item(1, i)), filter->Has(Item(1, i))) << i;
  }
  EXPECT_GE(value.HeapBytes(), filter->bits_bytes());
  EXPECT_FALSE(value.IsEmptyObject());
  EXPECT_EQ(TypeName(value.type()), "MBbloom--");
}

TEST_F(BloomFilterTest, ItCanBeMadeAgainOfItsBytes) {
  const auto filter = BloomFilter::Make({.error_rate = 0.05, .capacity = 50}, kMost);
  AddUntil(filter.get(), 1, 1000);
  for (const size_t most : {size_t{1}, size_t{7}, size_t{100}, size_t{1 << 20}}) {
    const auto copy = BloomFilter::FromHeader(filter->Header(), kMost);
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->bits_bytes(), filter->bits_bytes());
    for (size_t at = 0; at < filter->bits_bytes();) {
      const std::string_view bits = filter->BitsAt(at, most);
      ASSERT_FALSE(bits.empty());
      ASSERT_LE(bits.size(), most);
      ASSERT_TRUE(copy->SetBits(at, bits));
      at += bits.size();
    }
    for (uint64_t i = 0; i < 3000; ++i) {
      ASSERT_EQ(copy->Has(Item(1, i)), filter->Has(Item(1, i))) << i;
    }
    EXPECT_EQ(copy->items(), filter->items());
    EXPECT_EQ(copy->Header(), filter->Header());
    EXPECT_FALSE(copy->SetBits(copy->bits_bytes(), "x"));
    EXPECT_FALSE(copy->SetBits(SIZE_MAX, "xy"));
    const std::string too_many(copy->bits_bytes() + 1, 'x');
    EXPECT_FALSE(copy->SetBits(0, too_many));
    // Over all layers at once.
    EXPECT_TRUE(copy->SetBits(0, std::string(copy->bits_bytes(), '\xff')));
    EXPECT_TRUE(copy->Has(Item(99, 0)));
  }
}

TEST_F(BloomFilterTest, HeadersOfNothingThatCouldBeAreRefused) {
  const auto filter = BloomFilter::Make({.error_rate = 0.05, .capacity = 50}, kMost);
  AddUntil(filter.get(), 1, 120);
  const std::string header = filter->Header();
  ASSERT_EQ(filter->layers(), 2u);
  ASSERT_NE(BloomFilter::FromHeader(header, kMost), nullptr);
  EXPECT_EQ(BloomFilter::FromHeader(header, filter->bits_bytes() - 1), nullptr);
  EXPECT_EQ(BloomFilter::FromHeader(header.substr(1), kMost), nullptr);
  EXPECT_EQ(BloomFilter::FromHeader(header + "x", kMost), nullptr);
  EXPECT_EQ(BloomFilter::FromHeader("", kMost), nullptr);
  const auto with = [&header](size_t at, uint64_t number, size_t bytes) {
    std::string changed = header;
    for (size_t i = 0; i < bytes; ++i) changed[at + i] = static_cast<char>(number >> (8 * i));
    return BloomFilter::FromHeader(changed, kMost);
  };
  EXPECT_EQ(with(0, 'X', 1), nullptr);
  for (const double rate : {0.0, -1.0, 1.0, 2.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(with(4, std::bit_cast<uint64_t>(rate), 8), nullptr) << rate;
  }
  for (const uint64_t capacity : {uint64_t{0}, uint64_t{121}, uint64_t{1} << 40, UINT64_MAX}) {
    EXPECT_EQ(with(12, capacity, 8), nullptr) << capacity;
  }
  EXPECT_EQ(with(20, 0, 4), nullptr) << "two layers of what does not scale";
  for (const uint64_t layers : {0, 1, 3, 1'000'000}) {
    EXPECT_EQ(with(24, layers, 4), nullptr) << layers;
  }
  for (const uint64_t items : {uint64_t{49}, uint64_t{151}, UINT64_MAX}) {
    EXPECT_EQ(with(28, items, 8), nullptr) << items;
  }
  EXPECT_NE(with(28, 150, 8), nullptr);
}

}  // namespace
}  // namespace dfly
