// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly::bench {
namespace {

using testing::HasSubstr;

LoadResult Sample() {
  LoadResult result;
  result.seconds = 2;
  result.connections = 50;
  result.stats.replies = 1000;
  result.stats.hits = 300;
  result.stats.misses = 100;
  result.stats.latency_ns.Add(100'000, 990);
  result.stats.latency_ns.Add(7'000'000, 10);
  return result;
}

TEST(ReportTest, TheTableHasTotalsHitRateAndPercentiles) {
  const std::string table = ReportTable(Sample());
  EXPECT_THAT(table, testing::ContainsRegex("requests/s +500\n"));
  EXPECT_THAT(table, testing::ContainsRegex("hit rate +75.00 %\n"));
  EXPECT_THAT(table, testing::ContainsRegex("max +7000.0\n"));
  for (const char* name : {"p50 ", "p90 ", "p99 ", "p99.9 ", "p99.99 "}) {
    EXPECT_THAT(table, HasSubstr(name));
  }
  EXPECT_THAT(table, testing::Not(HasSubstr("first error")));
}

TEST(ReportTest, JsonEscapesWhatTheServerSaid) {
  LoadResult result = Sample();
  result.stats.NoteError("ERR \"x\"\n\\ \xff");
  const std::string json = ReportJson(LoadOptions(), result);
  EXPECT_THAT(json, HasSubstr(R"("first_error": "ERR \"x\"\u000a\\ \u00ff",)"));
  EXPECT_THAT(json, HasSubstr("\"rps\": 500.0,"));
  EXPECT_THAT(json, HasSubstr("\"max\": 7000.000"));
}

TEST(ReportTest, AnEmptyRunIsNoDivisionByZero) {
  const LoadResult empty;
  EXPECT_THAT(ReportTable(empty), testing::ContainsRegex("requests/s +0\n"));
  EXPECT_THAT(ReportJson(LoadOptions(), empty), HasSubstr("\"rps\": 0.0,"));
}

TEST(ReportTest, BrokenConnectionsAndNothingButErrorsAreFailures) {
  EXPECT_TRUE(Succeeded(Sample()));
  LoadResult result = Sample();
  result.stats.error_replies = 999;
  EXPECT_TRUE(Succeeded(result));
  result.stats.error_replies = 1000;
  EXPECT_FALSE(Succeeded(result));
  result = Sample();
  result.stats.connection_errors = 1;
  EXPECT_FALSE(Succeeded(result));
  result = Sample();
  result.stats.protocol_errors = 1;
  EXPECT_FALSE(Succeeded(result));
}

TEST(ReportTest, TheProgressLineIsOneLine) {
  const std::string line = ProgressLine(Sample().stats, 0.5, 12345, 3, 7.25);
  EXPECT_THAT(line, HasSubstr("12345 done, 2000/s, 3 errors, p99 "));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace dfly::bench
