// SPDX-License-Identifier: Apache-2.0
// What does a value cost that is written to an RDB file, and read again?
//
// ns for each value, in the cache unless large; 14-byte elements; Xeon (2 virtual cores, shared),
// Debian 12, g++ 12, November 2026. In parentheses: before writers had a piece and sources a
// window, and before small collections were read as one block.
//
//                     write          write, LZF   read
//   string of 32           7 (21)            47      20 (26)
//   string of 200          9                777      22
//   integer                7 (31)             7      25 (34)
//   list of 20           535 (1,090)        765     924 (895)
//   set of 20            157 (270)          156     553 (2,000)
//   set of 20 integers    59 (1,030)        183     653 (825)
//   sorted set of 20   1,240 (1,360)      1,610   1,830 (5,660)
//   hash of 20           633 (920)        1,120   1,700 (3,640)
//   stream of 20       2,950 (4,490)      3,340   7,470 (8,020)
//   list of a million     24 (37)            49      39 (43)       for each element, as below
//   set                   10                  9     226
//   sorted set            12                 13     430
//   hash                  25                 25     242
//
// A cache that is too small for the table is what large sets, sorted sets and hashes wait for. LZF
// costs Redis as much (rdbcompression): both use liblzf.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/rdb/rdb_value_testing.h"

namespace dfly {
namespace {

using testkit::RdbValues;
using testkit::Texts;

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

// With about as many repetitions as such texts have.
std::string JsonText(size_t seed, size_t bytes) {
  constexpr std::string_view kWords[] = {"{\"user\":\"",   "\",\"name\":\"", "\",\"token\":\"",
                                         "http://",        "example.com/",   "true",
                                         "\"timestamp\":", "false"};
  helio::Random random(seed);
  std::string text;
  while (text.size() < bytes) {
    text += kWords[random.Uniform(std::size(kWords))];
    text += std::to_string(random.Uniform(10'000));
  }
  text.resize(bytes);
  return text;
}

// A thousand values of one kind, or one that is large.
std::vector<CompactValue> MakeValues(const std::string& kind) {
  testkit::RegisterRdbTypes();
  const RdbValues makes;
  std::vector<CompactValue> values;
  const size_t count = IsSmall() ? 10 : 1000;
  const auto fill = [&](auto make) {
    for (size_t i = 0; i < count; ++i) values.push_back(make(i));
  };
  if (kind == "string of 32") fill([](size_t i) { return CompactValue(MakeTexts(i + 1, 32)[i]); });
  if (kind == "string of 200") fill([](size_t i) { return CompactValue(JsonText(i, 200)); });
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

void Write(benchmark::State& state, const std::string& kind,
           RdbWriter::Compression compression = RdbWriter::Compression::kNone) {
  const std::vector<CompactValue> values = MakeValues(kind);
  BlockSink sink;
  RdbWriter writer(&sink, compression);
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
      CHECK(ReadRdbValue(type, limits, &source, &value) == RdbRead::kValue);
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
  CountValues(values.size(), &state);
}

void RegisterAll() {
  for (const char* kind : {"string of 32", "string of 200", "string of 10", "integer", "list of 20",
                           "set of 20", "intset of 20", "zset of 20", "hash of 20", "stream of 20",
                           "large list", "large set", "large zset", "large hash", "large stream"}) {
    benchmark::RegisterBenchmark((std::string("write ") + kind).c_str(), Write, kind,
                                 RdbWriter::Compression::kNone);
    benchmark::RegisterBenchmark((std::string("write ") + kind + ", LZF").c_str(), Write, kind,
                                 RdbWriter::Compression::kLzf);
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
