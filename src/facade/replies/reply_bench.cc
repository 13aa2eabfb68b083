// SPDX-License-Identifier: Apache-2.0
// What does it cost to write a reply, and to put it in order?
#include <benchmark/benchmark.h>

#include <string>

#include "facade/replies/reply_queue.h"
#include "facade/replies/resp_reader.h"
#include "facade/replies/resp_writer.h"

namespace dfly {
namespace {

constexpr int kReplies = 100;

void Report(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kReplies);
  state.counters["per_reply"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kReplies,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <typename Fn>
void WriteAll(benchmark::State& state, Fn fn) {
  helio::IoBuf out;
  RespWriter writer(&out);
  ReplySink* sink = &writer;
  benchmark::DoNotOptimize(sink);  // handlers call through the base class
  for (auto _ : state) {
    for (int i = 0; i < kReplies; i++) fn(sink);
    benchmark::DoNotOptimize(out.data());
    out.Clear();
  }
  Report(state);
}

void BM_WriteOk(benchmark::State& state) {
  WriteAll(state, [](ReplySink* sink) { sink->Ok(); });
}
BENCHMARK(BM_WriteOk);

void BM_WriteBulk64(benchmark::State& state) {
  const std::string value(64, 'v');
  WriteAll(state, [&](ReplySink* sink) { sink->Bulk(value); });
}
BENCHMARK(BM_WriteBulk64);

void BM_WriteInteger(benchmark::State& state) {
  int64_t value = 123456;
  WriteAll(state, [&](ReplySink* sink) { sink->Integer(value++); });
}
BENCHMARK(BM_WriteInteger);

void BM_WriteDouble(benchmark::State& state) {
  WriteAll(state, [](ReplySink* sink) { sink->Double(3.14159); });
}
BENCHMARK(BM_WriteDouble);

void BM_ReadBulk64(benchmark::State& state) {
  helio::IoBuf bytes;
  RespWriter writer(&bytes);
  for (int i = 0; i < kReplies; i++) writer.Bulk(std::string(64, 'v'));
  RespReader reader;
  for (auto _ : state) {
    std::string_view rest = bytes.view();
    while (reader.Parse(rest) == RespReader::Status::kReply) rest.remove_prefix(reader.consumed());
    if (!rest.empty()) state.SkipWithError("parse failed");
  }
  Report(state);
}
BENCHMARK(BM_ReadBulk64);

// A pipeline over the connection's own shard and three others, in turn; the worst mix, since no
// two neighbours share an item.
void BM_QueueOfMixedShards(benchmark::State& state) {
  helio::IoBuf output;
  ReplyQueue queue(&output, [](PendingReplies* batch) { batch->Recycle(); });
  PendingReplies batches[3];
  const std::string reply = "$5\r\nhello\r\n";
  for (auto _ : state) {
    for (int i = 0; i < kReplies; i++) {
      if (i % 4 == 3) {
        queue.BeginLocal()->Append(reply);
        queue.EndLocal();
      } else {
        queue.AddRemote(&batches[i % 4]);
      }
    }
    for (PendingReplies& batch : batches) {
      for (size_t i = 0; i < batch.promised; i++) {
        batch.bytes.Append(reply);
        batch.EndReply();
      }
      queue.Complete(&batch);
    }
    benchmark::DoNotOptimize(queue.Advance());
    output.Clear();
  }
  Report(state);
}
BENCHMARK(BM_QueueOfMixedShards);

}  // namespace
}  // namespace dfly

BENCHMARK_MAIN();
