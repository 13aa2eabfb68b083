// SPDX-License-Identifier: Apache-2.0
// BF.LOADCHUNK: a header of any bytes is refused, or makes a filter of at most so many bytes; any
// bits may follow, and are those that BF.SCANDUMP has again.
//
//   input   header (36), then chunks: offset (2), count (1), that many bytes
#include "core/sketches/bloom_filter.h"

#include <gtest/gtest.h>

#include "core/table/compact_value.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using AddResult = BloomFilter::AddResult;

constexpr size_t kHeaderBytes = 36;
constexpr size_t kBytesMax = 1 << 14;

std::string BitsOf(const BloomFilter& filter) {
  std::string bits;
  while (bits.size() < filter.bits_bytes()) bits += filter.BitsAt(bits.size(), 1000);
  return bits;
}

void LoadChunks(helio::fuzz::Feed* chunks, BloomFilter* filter) {
  std::string model = BitsOf(*filter);
  CHECK_EQ(model, std::string(model.size(), '\0'));
  while (!chunks->empty()) {
    size_t offset = chunks->Number(2);
    if (offset >= 0xFF00) offset = SIZE_MAX - (0xFFFF - offset);
    const std::string_view bytes = chunks->Take(chunks->Byte());
    const bool fits = offset <= model.size() && bytes.size() <= model.size() - offset;
    CHECK_EQ(filter->SetBits(offset, bytes), fits);
    if (fits) model.replace(offset, bytes.size(), bytes);
  }
  CHECK(BitsOf(*filter) == model);
}

void CheckItems(BloomFilter* filter) {
  for (uint64_t i = 0; i < 20; ++i) {
    const ItemHash item = HashItem(std::to_string(i));
    const bool was_there = filter->Has(item);
    const uint64_t items = filter->items();
    switch (filter->Add(item, kBytesMax)) {
      case AddResult::kAdded:
        CHECK(!was_there && filter->Has(item));
        CHECK_EQ(filter->items(), items + 1);
        break;
      case AddResult::kWasThere:
        CHECK(was_there);
        break;
      case AddResult::kFull:
      case AddResult::kTooLarge:
        CHECK(!was_there && !filter->Has(item));
        CHECK_EQ(filter->items(), filter->capacity());
        break;
    }
  }
  CHECK_LE(filter->bits_bytes(), kBytesMax);
}

void CheckOneInput(std::string_view data) {
  [[maybe_unused]] static const bool is_registered = (BloomFilter::RegisterType(), true);
  const std::optional<size_t> allocated_before = helio::fuzz::AllocatedBytes();
  {
    helio::fuzz::Feed feed(data);
    const std::string_view header = feed.Take(kHeaderBytes);
    auto made = BloomFilter::FromHeader(header, kBytesMax);
    if (made != nullptr) {
      BloomFilter* const filter = made.get();
      CompactValue value;
      value.SetObject(ValueType::kBloomFilter, made.release(), 0);
      CHECK_EQ(filter->Header(), header);
      CHECK_LE(filter->bits_bytes(), kBytesMax);
      CHECK_LE(filter->items(), filter->capacity());
      LoadChunks(&feed, filter);
      const CompactValue copy = value.Clone();
      const auto* const clone = static_cast<const BloomFilter*>(copy.object());
      CHECK_EQ(clone->Header(), header);
      CHECK(BitsOf(*clone) == BitsOf(*filter));
      CheckItems(filter);
      if (allocated_before) {
        CHECK_EQ(*helio::fuzz::AllocatedBytes() - *allocated_before,
                 value.HeapBytes() + copy.HeapBytes());
      }
    }
  }
  CHECK(helio::fuzz::AllocatedBytes() == allocated_before);
}

std::string MakeExample(Random* random) {
  const BloomFilter::Options options = {
      .error_rate = random->OneIn(2) ? 0.01 : random->NextDouble() / 2 + 1e-9,
      .capacity = 1 + random->Uniform(50),
      .expansion = static_cast<uint32_t>(random->Uniform(4))};
  const auto filter = BloomFilter::Make(options, kBytesMax);
  for (uint64_t i = random->Uniform(200); i > 0; --i)
    filter->Add(HashItem(std::to_string(i)), kBytesMax);
  std::string example = filter->Header();
  for (uint64_t i = random->Uniform(4); i > 0; --i) {
    const size_t offset = random->Uniform(filter->bits_bytes() + 1);
    const std::string_view bits =
        offset < filter->bits_bytes() ? filter->BitsAt(offset, random->Uniform(100)) : "";
    example +=
        {static_cast<char>(offset), static_cast<char>(offset >> 8), static_cast<char>(bits.size())};
    example += bits;
  }
  return example;
}

}  // namespace

FUZZ_TARGET(BloomFilterFuzz, HostileChunksAreRefusedOrLoaded,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 100'000})

}  // namespace dfly
