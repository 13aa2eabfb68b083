// SPDX-License-Identifier: Apache-2.0
// What does a value cost that is written to an RDB file, and read again?
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/rdb_value_testing.h"

namespace dfly {
namespace {

using testing::RdbValues;
using testing::Texts;

bool IsSmall() { return std::getenv("DFLY_BENCH_SMALL") != nullptr; }
size_t LargeSize() { return IsSmall() ? 2000 : 1'000'000; }

// As a snapshot has it: a block that is given away when it is full.
class BlockSink final : public ByteSink {
 public:
  void Append(std::string_view bytes) override {
    block_.append(bytes);
    total_ += bytes.size();
    if (block_.size() < kBlock) return;
    benchmark::DoNotOptimize(block_.data());
    block_.clear();
  }
  size_t total() const { return total_; }

 private:
  static constexpr size_t kBlock = 64 << 10;
  std::string block_;
  size_t total_ = 0;
};

Texts MakeTexts(size_t count, size_t bytes) {
  Texts texts;
  for (size_t i = 0; i < count; ++i) {
    std::string text = "element:" + std::to_string(i * 7919 % 1'000'003);
    text.resize(bytes, 'x');
    texts.push_back(text);
  }
  return texts;
}

std::vector<std::pair<std::string, std::string>> Pairs(size_t count) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : MakeTexts(count, 14)) pairs.emplace_back(text, text.substr(8));
  return pairs;
}

std::vector<std::pair<std::string, double>> Scores(size_t count) {
  std::vector<std::pair<std::string, double>> pairs;
  for (const std::string& text : MakeTexts(count, 14)) {
    pairs.emplace_back(text, static_cast<double>(pairs.size()) * 1.5);
  }
  return pairs;
}

Texts Numbers(size_t count) {
  Texts texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(std::to_string(i * 7919 % 1'000'003));
  return texts;
}

// A thousand values of one kind, or one that is large.
std::vector<CompactValue> MakeValues(const std::string& kind) {
  testing::RegisterRdbTypes();
  const RdbValues makes;
  std::vector<CompactValue> values;
  const size_t count = IsSmall() ? 10 : 1000;
  const auto fill = [&](auto make) {
    for (size_t i = 0; i < count; ++i) values.push_back(make(i));
  };
  if (kind == "string of 32") fill([](size_t i) { return CompactValue(MakeTexts(i + 1, 32)[i]); });
  if (kind == "string of 10") fill([](size_t) { return CompactValue("abcdefghij"); });
  if (kind == "integer") fill([](size_t i) { return CompactValue(std::to_string(i * 7919)); });
  if (kind == "list of 20") fill([&](size_t) { return makes.MakeList(MakeTexts(20, 12)); });
  if (kind == "set of 20") fill([&](size_t) { return makes.MakeSet(MakeTexts(20, 12)); });
  if (kind == "intset of 20") fill([&](size_t) { return makes.MakeSet(Numbers(20)); });
  if (kind == "zset of 20") fill([&](size_t) { return makes.MakeZset(Scores(20)); });
  if (kind == "hash of 20") fill([&](size_t) { return makes.MakeHash(Pairs(20)); });
  if (kind == "stream of 20") fill([&](size_t) { return makes.MakeStream(MakeTexts(20, 12)); });
  const size_t large = LargeSize();
  if (kind == "large list") values.push_back(makes.MakeList(MakeTexts(large, 14)));
  if (kind == "large set") values.push_back(makes.MakeSet(MakeTexts(large, 14)));
  if (kind == "large zset") values.push_back(makes.MakeZset(Scores(large)));
  if (kind == "large hash") values.push_back(makes.MakeHash(Pairs(large)));
  if (kind == "large stream") values.push_back(makes.MakeStream(MakeTexts(large / 10, 14)));
  return values;
}

void CountValues(size_t each, benchmark::State* state) {
  state->counters["value"] =
      benchmark::Counter(static_cast<double>(state->iterations() * each),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Write(benchmark::State& state, const std::string& kind) {
  const std::vector<CompactValue> values = MakeValues(kind);
  BlockSink sink;
  RdbWriter writer(&sink);
  for (auto _ : state) {
    for (const CompactValue& value : values) {
      const RdbType type = DflyTypeOf(value);
      writer.Byte(static_cast<uint8_t>(type));
      WriteRdbValue(value, type, &writer);
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(sink.total()));
  CountValues(values.size(), &state);
}

void Read(benchmark::State& state, const std::string& kind) {
  const std::vector<CompactValue> values = MakeValues(kind);
  std::string bytes;
  StringSink sink(&bytes);
  {
    RdbWriter writer(&sink);
    for (const CompactValue& value : values) {
      writer.Byte(static_cast<uint8_t>(DflyTypeOf(value)));
      WriteRdbValue(value, DflyTypeOf(value), &writer);
    }
  }
  const RdbLimits limits = RdbValues().limits_;
  for (auto _ : state) {
    ViewSource source(bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      CompactValue value;
      const auto type = static_cast<uint8_t>((*source.Take(1))[0]);
      CHECK(ReadRdbValue(type, limits, &source, &value));
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
  CountValues(values.size(), &state);
}

void RegisterAll() {
  for (const char* kind : {"string of 32", "string of 10", "integer", "list of 20", "set of 20",
                           "intset of 20", "zset of 20", "hash of 20", "stream of 20", "large list",
                           "large set", "large zset", "large hash", "large stream"}) {
    benchmark::RegisterBenchmark((std::string("write ") + kind).c_str(), Write, kind);
    benchmark::RegisterBenchmark((std::string("read ") + kind).c_str(), Read, kind);
  }
}

}  // namespace
}  // namespace dfly

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  dfly::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
}
