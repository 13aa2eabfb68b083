// SPDX-License-Identifier: Apache-2.0
// HyperLogLogs that a client has SET: any bytes are refused, or they are what a plain decoder says
// they are, and adding to them, merging them and making them dense agrees with an array.
//
//   input   what is done (8), the string
#include "core/sketches/hyperloglog.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using Registers = HyperLogLog::Registers;
using Result = HyperLogLog::Result;

// The registers, as the description of the bytes has them; none: it does not describe these.
std::optional<Registers> Decode(std::string_view bytes) {
  Registers registers = {};
  const auto at = [bytes](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (at(4) == 0) {
    for (size_t i = 0; i < HyperLogLog::kRegisters; ++i) {
      const size_t bit = 8 * HyperLogLog::kHeaderBytes + 6 * i;
      const uint32_t high = bit / 8 + 1 < bytes.size() ? at(bit / 8 + 1) : 0;
      registers[i] = static_cast<uint8_t>((high << 8 | at(bit / 8)) >> bit % 8 & 63);
    }
    return registers;
  }
  size_t next = 0;
  for (size_t i = HyperLogLog::kHeaderBytes; i < bytes.size(); ++i) {
    size_t run = (at(i) & 63u) + 1;
    uint8_t value = 0;
    if (at(i) & 0x80) {
      run = (at(i) & 3u) + 1;
      value = static_cast<uint8_t>((at(i) >> 2 & 31) + 1);
    } else if (at(i) & 0x40) {
      if (i + 1 == bytes.size()) return std::nullopt;
      run = ((at(i) & 63u) << 8 | at(i + 1)) + 1;
      ++i;
    }
    for (; run > 0; --run, ++next) {
      if (next == registers.size()) return std::nullopt;
      registers[next] = value;
    }
  }
  if (next != registers.size()) return std::nullopt;
  return registers;
}

void CheckIs(std::string_view bytes, const Registers& model) {
  CHECK(HyperLogLog::IsValid(bytes));
  Registers registers = {};
  CHECK(HyperLogLog::Merge(bytes, &registers));
  CHECK(registers == model);
}

// Often at the ends, and of few values, so that neighbours are joined. From 33 on none is sparse.
HyperLogLog::Mark RandomMark(uint64_t value_max, Random* random) {
  constexpr uint32_t kLast = HyperLogLog::kRegisters - 1;
  uint32_t index = static_cast<uint32_t>(random->Uniform(HyperLogLog::kRegisters));
  if (random->OneIn(3)) index = random->OneIn(2) ? index % 8 : kLast - index % 8;
  const uint64_t most = random->OneIn(30) ? value_max : 3;
  return {.index = index, .value = static_cast<uint8_t>(1 + random->Uniform(most))};
}

// PFADD: first what it would come to, then it.
void CheckRaises(HyperLogLog log, std::optional<Registers> model, Random* random) {
  const size_t sparse_max = random->OneIn(2) ? 3000 : random->Uniform(200);
  for (uint64_t i = random->Uniform(30); i > 0; --i) {
    const HyperLogLog::Mark mark = RandomMark(51, random);
    const size_t before = log.bytes().size();
    std::optional<Result> tested;
    if (!HyperLogLog::IsDense(log.bytes())) tested = HyperLogLog::TestSparse(log.bytes(), mark);
    const Result result = log.Raise(mark, sparse_max);
    CHECK(HyperLogLog::IsValid(log.bytes()));
    if (!HyperLogLog::IsDense(log.bytes()))
      CHECK_LE(log.bytes().size(), std::max(before, sparse_max));
    if (!model) continue;
    uint8_t& known = (*model)[mark.index];
    const Result expected = known < mark.value ? Result::kRaised : Result::kUnchanged;
    CHECK(result == expected);
    CHECK(!tested || *tested == expected);
    known = std::max(known, mark.value);
  }
  if (model) CheckIs(log.bytes(), *model);
}

void CheckOneInput(std::string_view data) {
  helio::fuzz::Feed feed(data);
  Random random(feed.Number(8));
  const std::string_view bytes = feed.rest();
  if (!HyperLogLog::IsValid(bytes)) return;
  const bool is_dense = HyperLogLog::IsDense(bytes);
  const std::optional<Registers> model = Decode(bytes);
  CHECK(model || !is_dense);

  // PFCOUNT and PFMERGE, into what is there already.
  Registers merged, expected;
  merged.fill(3);
  CHECK_EQ(HyperLogLog::Merge(bytes, &merged), model.has_value());
  if (model) {
    std::transform(model->begin(), model->end(), expected.begin(),
                   [](uint8_t value) { return std::max<uint8_t>(value, 3); });
    CHECK(merged == expected);
  }
  if (model) HyperLogLog::Estimate(*model);
  CHECK(is_dense || HyperLogLog::DescribeRuns(bytes).has_value() == model.has_value());

  HyperLogLog cached(bytes);
  HyperLogLog::CachedCount(bytes);
  HyperLogLog::CacheCount(cached.writable(), data.size());
  CHECK(HyperLogLog::CachedCount(cached.bytes()) == data.size());
  HyperLogLog::MakeStale(cached.writable());
  CHECK(!HyperLogLog::CachedCount(cached.bytes()));

  HyperLogLog dense(bytes);
  CHECK_EQ(dense.MakeDense(), model.has_value());
  if (model) CheckIs(dense.bytes(), *model);
  if (!model) CHECK(dense.bytes() == bytes);

  CheckRaises(HyperLogLog(bytes), model, &random);
}

std::string MakeExample(Random* random) {
  HyperLogLog log;
  for (uint64_t i = random->Uniform(random->OneIn(3) ? 300 : 12); i > 0; --i) {
    log.Raise(RandomMark(32, random), 3000);
  }
  if (random->OneIn(6)) log.MakeDense();
  CHECK(Decode(log.bytes())) << "no example";
  std::string example(8, '\0');
  for (char& c : example) c = static_cast<char>(random->Next());
  return example + log.bytes();
}

}  // namespace

FUZZ_TARGET(HyperLogLogFuzz, HostileStringsAreRefusedOrHandled,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 20'000})

}  // namespace dfly
