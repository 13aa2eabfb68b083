// SPDX-License-Identifier: Apache-2.0
// What do a document's text, its tree and its paths cost? (docs/json.md has the answers.)
#include <benchmark/benchmark.h>

#include <string>

#include "core/json/json_doc.h"
#include "core/json/json_match.h"
#include "core/json/json_path.h"
#include "core/json/json_text.h"

namespace dfly {
namespace {

constexpr std::string_view kSmall =
    R"({"name":"Wireless earbuds","description":"Wireless Bluetooth in-ear headphones",)"
    R"("connection":{"wireless":true,"type":"Bluetooth"},"price":64.99,"stock":17,)"
    R"("colors":["black","white"],"max_level":[80,100,120]})";

std::string TextOf(int64_t documents) {
  if (documents == 1) return std::string(kSmall);
  std::string text = "[";
  for (int64_t i = 0; i < documents; ++i) {
    if (i > 0) text += ',';
    text += kSmall;
  }
  return text + "]";
}

void Parse(benchmark::State& state) {
  const std::string text = TextOf(state.range(0));
  size_t bytes = 0;
  for (auto _ : state) {
    JsonDoc doc;
    if (!ParseJson(text, 128, &doc).empty()) state.SkipWithError("no JSON");
    bytes = doc.heap_bytes();
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["text"] = static_cast<double>(text.size());
}
BENCHMARK(Parse)->Arg(1)->Arg(200);

void Write(benchmark::State& state) {
  const std::string text = TextOf(state.range(0));
  JsonDoc doc;
  if (!ParseJson(text, 128, &doc).empty()) state.SkipWithError("no JSON");
  for (auto _ : state) benchmark::DoNotOptimize(JsonText(doc.root()));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}
BENCHMARK(Write)->Arg(1)->Arg(200);

void Select(benchmark::State& state, const char* path_text) {
  JsonDoc doc;
  if (!ParseJson(TextOf(200), 128, &doc).empty()) state.SkipWithError("no JSON");
  for (auto _ : state) {
    JsonPath path;
    JsonMatches matches;
    if (!JsonPath::Parse(path_text, &path).empty() ||
        !FindJson(doc, path.steps(), 1'000'000, &matches)) {
      state.SkipWithError("no path");
    }
    benchmark::DoNotOptimize(matches.data());
  }
}
BENCHMARK_CAPTURE(Select, one_place, "$[7].connection.type");
BENCHMARK_CAPTURE(Select, all, "$[*].price");
BENCHMARK_CAPTURE(Select, deep, "$..price");
BENCHMARK_CAPTURE(Select, filter, "$[?(@.price > 10 && @.stock < 20)].name");

}  // namespace
}  // namespace dfly

BENCHMARK_MAIN();
