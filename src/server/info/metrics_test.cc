// SPDX-License-Identifier: Apache-2.0
#include "server/info/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "helio/base/cycle_clock.h"
#include "server/info/prometheus_text.h"

namespace dfly {
namespace {

using testing::HasSubstr;
using testing::Not;

InfoFacts Example() {
  InfoFacts facts;
  facts.start_s = 1'700'000'000;
  facts.counts.databases = {{.keys = 0, .expires = 0}, {}, {.keys = 7, .expires = 2}};
  facts.commands["get"] = {.calls = 4, .rejected = 1, .failed = 2, .usec = 8};
  facts.commands["config|set"] = {.calls = 1, .rejected = 0, .failed = 0, .usec = 9};
  facts.errors = {{"ERR", 2}, {"\"\\\n\xff", 1}};
  facts.latencies["get"].Add(helio::CycleClock::FromNanos(1800), 3);
  facts.latencies["get"].Add(helio::CycleClock::FromNanos(30'000'000'000), 1);
  facts.per_thread = {{.cpu_user_s = 1.5, .clients = 3}, {}};
  facts.per_shard = {{.thread = 1, .keys = 5}};
  facts.counts.transactions.widths = {0, 3, 0, 1};
  return facts;
}

TEST(Metrics, CommandsErrorsAndDatabasesAreLabels) {
  const std::string text = FormatMetrics(Example());
  for (const char* line :
       {"dragonfly_command_calls_total{cmd=\"get\"} 4\n",
        "dragonfly_command_failed_calls_total{cmd=\"get\"} 2\n",
        "dragonfly_command_rejected_calls_total{cmd=\"get\"} 1\n",
        "dragonfly_command_seconds_total{cmd=\"config|set\"} 9e-06\n",
        "dragonfly_errors_total{code=\"ERR\"} 2\n",
        "dragonfly_errors_total{code=\"\\\"\\\\??\"} 1\n", "dragonfly_db_keys{db=\"db0\"} 0\n",
        "dragonfly_db_keys{db=\"db2\"} 7\n", "dragonfly_db_expiring_keys{db=\"db2\"} 2\n",
        "dragonfly_start_time_seconds 1700000000\n",
        "dragonfly_thread_cpu_seconds_total{thread=\"0\",mode=\"user\"} 1.5\n",
        "dragonfly_shard_keys{shard=\"0\",thread=\"1\"} 5\n",
        "dragonfly_tx_transactions_total{shards=\"3\"} 1\n",
        "# TYPE dragonfly_command_latency_seconds histogram\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("db1")));
}

TEST(Metrics, BucketsAreCumulative) {
  const std::string text = FormatMetrics(Example());
  const std::string bucket = "dragonfly_command_latency_seconds_bucket{cmd=\"get\",le=";
  EXPECT_THAT(text, HasSubstr(bucket + "\"1e-06\"} 0\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "\"2.5e-06\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "\"10\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "\"+Inf\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("dragonfly_command_latency_seconds_count{cmd=\"get\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("dragonfly_command_latency_seconds_sum{cmd=\"get\"} 8e-06\n"));
}

TEST(Metrics, AFamilyIsThereOnceAndEachSampleOnce) {
  std::istringstream lines(FormatMetrics(Example()));
  std::set<std::string> seen;
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string name =
        line.starts_with('#') ? line.substr(0, line.find(' ', 7)) : line.substr(0, line.rfind(' '));
    EXPECT_TRUE(seen.insert(name).second) << line;
  }
  EXPECT_GT(count, 200u);
}

// The samples of memory_kind_bytes, each of which is another power of ten here, are used_memory.
TEST(Metrics, KindsOfMemoryAddUp) {
  InfoFacts facts;
  facts.base_memory = 1;
  facts.data_memory = 10;
  facts.counts.memory = {.clients = 100,
                         .queued_commands = 1'000,
                         .coordinators = 10'000,
                         .fiber_stacks = 100'000,
                         .receive_buffers = 1'000'000,
                         .interpreters = 10'000'000,
                         .snapshot = 100'000'000};
  facts.script_memory = 1'000'000'000;
  facts.function_memory = 10'000'000'000;
  facts.acl_memory = 100'000'000'000;
  uint64_t sum = 0;
  for (const MetricRow* row : RowsOfMetrics()) {
    if (row->prom == "memory_kind_bytes") sum += std::get<uint64_t>(row->value(facts));
  }
  EXPECT_EQ(sum, 111'111'111'111u);
  EXPECT_EQ(facts.CountedMemory(), sum);
}

TEST(PrometheusText, NumbersMayBeInfinite) {
  PrometheusText out("a_");
  out.Gauge("b", "Help.", -INFINITY);
  out.Add({{"x", "y"}, {"z", ""}}, 18446744073709551615u);
  EXPECT_EQ(out.text(),
            "# HELP a_b Help.\n# TYPE a_b gauge\na_b -Inf\na_b{x=\"y\",z=\"\"} "
            "18446744073709551615\n");
}

}  // namespace
}  // namespace dfly
