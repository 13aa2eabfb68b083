// SPDX-License-Identifier: Apache-2.0
// What the slow log, LATENCY and MONITOR keep and show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/clients/command_timer.h"
#include "server/meters/hot_keys.h"
#include "server/meters/latency_events.h"
#include "server/meters/latency_histogram.h"
#include "server/meters/logged_args.h"
#include "server/meters/slow_log.h"
#include "server/options/options.h"

namespace dfly {
namespace {

using testing::ElementsAre;

TEST(LatencyHistogramTest, APercentileIsKnownToASixteenth) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Percentile(50), 0);
  for (int64_t i = 1; i <= 100'000; ++i) histogram.Add(i * 7);
  EXPECT_EQ(histogram.count(), 100'000u);
  for (double percent : {0.1, 10.0, 50.0, 99.0, 99.9, 100.0}) {
    const double exact = 7 * percent * 1000;
    const auto found = static_cast<double>(histogram.Percentile(percent));
    EXPECT_GE(found, exact) << percent;
    EXPECT_LE(found, exact * 17 / 16 + 1) << percent;
  }
}

TEST(LatencyHistogramTest, ExtremesHaveABucket) {
  LatencyHistogram histogram;
  histogram.Add(INT64_MAX);
  histogram.Add(-5);  // a clock that is not quite one
  EXPECT_EQ(histogram.Percentile(0), 0);
  EXPECT_GE(histogram.Percentile(100), (int64_t{1} << 46) - 1);
  LatencyHistogram other;
  other.Add(3);
  histogram.Merge(other);
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.Percentile(50), 3);
}

TEST(LatencyEventsTest, ASecondHasOneSampleTheWorst) {
  LatencySeries series;
  series.Add(10, 5);
  series.Add(10, 9);
  series.Add(10, 7);
  series.Add(12, 6);
  ASSERT_EQ(series.samples.size(), 2u);
  EXPECT_EQ(series.samples[0].ms, 9u);
  LatencySeries other;
  other.Add(9, 1);
  other.Add(12, 20);
  series.Merge(other);
  ASSERT_EQ(series.samples.size(), 3u);
  EXPECT_EQ(series.samples[0].time_s, 9);
  EXPECT_EQ(series.samples[2].ms, 20u);
  EXPECT_EQ(series.max_ms, 20u);
}

TEST(LatencyEventsTest, OnlyTheNewestSamplesAreKept) {
  LatencySeries series;
  for (int64_t i = 0; i < 1000; ++i) series.Add(i, static_cast<uint32_t>(1000 - i));
  EXPECT_EQ(series.samples.size(), LatencySeries::kSamplesMax);
  EXPECT_EQ(series.samples.back().time_s, 999);
  EXPECT_EQ(series.max_ms, 1000u);  // of all time
}

TEST(HotKeysTest, KeysAreSortedByWhatTheyCost) {
  HotKeys keys({.by_time = true, .by_bytes = true, .count = 2});
  keys.AddCommand(1'000'000'000, 70);
  for (int i = 0; i < 10; ++i) {
    keys.AddKey("slow", 1'000'000'000, 1);
    keys.AddKey("large", 2, 1'000);
    keys.AddKey("neither", 1, 0);
  }
  EXPECT_EQ(keys.bytes(), 70u);
  const auto by_time = keys.TopByMicros();
  ASSERT_EQ(by_time.size(), 2u);
  EXPECT_EQ(by_time[0].text, "slow");
  EXPECT_GE(by_time[0].count, 10 * keys.micros());
  EXPECT_LT(by_time[0].count, 10 * keys.micros() + 10);
  const auto by_bytes = keys.TopByBytes();
  ASSERT_EQ(by_bytes.size(), 2u);
  EXPECT_EQ(by_bytes[0].text, "large");
  EXPECT_EQ(by_bytes[0].count, 10'000u);
  HotKeys other({.by_bytes = true, .count = 2});
  other.AddKey("slow", 0, 20'000);
  other.AddKey(std::string(HotKeys::kKeyMax + 1, 'k'), 0, 1'000'000);  // too long
  keys.Merge(other);
  EXPECT_EQ(keys.TopByBytes()[0].text, "slow");
}

TEST(HotKeysTest, OneOfSomeUsesCountsAndNoneAfterTheEnd) {
  HotKeys keys({.by_bytes = true, .sample_ratio = 3, .start_ms = 100, .end_ms = 500});
  for (int i = 0; i < 30; ++i) keys.AddKey("k", 0, 5);
  EXPECT_EQ(keys.TopByBytes()[0].count, 50u);
  EXPECT_FALSE(keys.is_over(499));
  EXPECT_TRUE(keys.is_over(500));
  keys.End(300, {});
  EXPECT_TRUE(keys.is_over(300));
  keys.End(200, {});  // it was over
  EXPECT_EQ(keys.plan().end_ms, 300);
}

TEST(CommandTimerTest, LargeCommandsGoToTheirLogs) {
  ServerOptions options;
  options.large_request_bytes = 30;
  options.large_reply_bytes = 10;
  options.large_request_max_len = options.large_reply_max_len = 8;
  std::atomic<uint64_t> ids[kLogKinds] = {};
  CommandTimer timer(0, 1, ids, options);
  Command row = {.name = "set"};
  const auto run = [&](std::vector<std::string_view> words, size_t reply_bytes) {
    timer.OnRequest(row, words, Caller(), SlowEntry::Way::kInPlace);
    timer.OnReply(row, words, reply_bytes, Caller(), SlowEntry::Way::kInPlace);
  };
  run({"SET", "k", "vvv"}, 9);  // *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $3\r\nvvv\r\n
  EXPECT_TRUE(timer.log(LogKind::kLargeRequest).entries().empty());
  EXPECT_TRUE(timer.log(LogKind::kLargeReply).entries().empty());
  run({"SET", "k", "vvvv"}, 10);
  ASSERT_EQ(timer.log(LogKind::kLargeRequest).entries().size(), 1u);
  EXPECT_EQ(timer.log(LogKind::kLargeRequest).entries()[0].bytes, 30u);
  ASSERT_EQ(timer.log(LogKind::kLargeReply).entries().size(), 1u);
  EXPECT_EQ(timer.log(LogKind::kLargeReply).entries()[0].bytes, 10u);
  EXPECT_TRUE(timer.slow_log().entries().empty());
  row.flags = kSkipSlowlog;
  run({"SET", "k", "vvvvv"}, 11);
  EXPECT_EQ(timer.log(LogKind::kLargeRequest).entries().size(), 1u);
  EXPECT_EQ(timer.log(LogKind::kLargeReply).entries().size(), 1u);
}

TEST(CommandTimerTest, WhoWantsSmallOnesHasAllLookedAt) {
  ServerOptions options;
  options.slowlog_log_slower_than_us = 10'000;
  options.large_request_bytes = options.large_reply_bytes = -1;
  std::atomic<uint64_t> ids[kLogKinds] = {};
  CommandTimer timer(0, 1, ids, options);
  EXPECT_FALSE(timer.times_all());
  EXPECT_EQ(timer.reply_bytes_untold(), 4096u);
  timer.SetLargest(LogKind::kLargeRequest, 8193);
  EXPECT_FALSE(timer.times_all());
  timer.SetLargest(LogKind::kLargeRequest, 8192);
  EXPECT_TRUE(timer.times_all());
  timer.SetLargest(LogKind::kLargeRequest, -1);
  EXPECT_FALSE(timer.times_all());
  timer.SetLargest(LogKind::kLargeReply, 100);
  EXPECT_TRUE(timer.times_all());
  EXPECT_EQ(timer.reply_bytes_untold(), 99u);
  timer.SetLargest(LogKind::kLargeReply, 1'000'000);
  EXPECT_EQ(timer.reply_bytes_untold(), 4096u);
  timer.StartHotKeys({.by_time = true});
  EXPECT_TRUE(timer.times_all());
  EXPECT_EQ(timer.reply_bytes_untold(), 0u);
  timer.EndHotKeys(1, {});
  EXPECT_FALSE(timer.times_all());
  EXPECT_NE(timer.hot_keys(), nullptr);
  timer.ForgetHotKeys();
  EXPECT_EQ(timer.hot_keys(), nullptr);
}

TEST(SlowLogTest, KeepsTheNewest) {
  SlowLog log;
  log.set_max(2);
  for (uint64_t id = 0; id < 5; ++id) {
    SlowEntry entry;
    entry.id = id;
    log.Add(std::move(entry));
  }
  ASSERT_EQ(log.entries().size(), 2u);
  EXPECT_EQ(log.entries().front().id, 3u);
  log.set_max(0);
  EXPECT_TRUE(log.entries().empty());
  EXPECT_EQ(log.memory_used(), 0u);
  log.Add(SlowEntry());
  EXPECT_TRUE(log.entries().empty());
}

TEST(SlowLogTest, WhatIsSentIsNotedOnceForItsClient) {
  SlowLog log;
  const int64_t second = helio::CycleClock::FromNanos(1'000'000'000);
  for (uint64_t client : {1, 2, 1}) {
    SlowEntry entry;
    entry.client_id = client;
    entry.ended_at = second;
    log.Add(std::move(entry));
  }
  const auto sent = [&log] {
    std::vector<int64_t> seconds;
    for (const SlowEntry& entry : log.entries()) {
      seconds.push_back(entry.send_micros < 0 ? -1 : (entry.send_micros + 1000) / 1'000'000);
    }
    return seconds;
  };
  EXPECT_THAT(sent(), ElementsAre(-1, -1, -1));
  log.OnSent(1, 3 * second, second / 2);
  EXPECT_THAT(sent(), ElementsAre(2, -1, 2));
  log.OnSent(1, 9 * second, 0);
  log.OnSent(2, 0, 0);  // clocks of two cores may differ
  EXPECT_THAT(sent(), ElementsAre(2, 0, 2));
  EXPECT_NEAR(static_cast<double>(log.entries()[0].disk_micros), 500'000, 1000);
  EXPECT_EQ(log.entries()[1].disk_micros, 0);
}

TEST(SlowLogTest, KnowsWhatItTakes) {
  SlowLog log;
  log.set_max(3);
  for (int i = 0; i < 10; ++i) {
    SlowEntry entry;
    entry.args = {"SET", "key", std::string(static_cast<size_t>(100 * i), 'x')};
    log.Add(std::move(entry));
  }
  constexpr size_t kTexts = 700 + 800 + 900;
  EXPECT_GE(log.memory_used(), kTexts + 3 * sizeof(SlowEntry));
  EXPECT_LE(log.memory_used(), kTexts + 3 * (sizeof(SlowEntry) + 200));
  log.Clear();
  EXPECT_EQ(log.memory_used(), 0u);
}

Command Row(std::string full_name) {
  Command command;
  command.full_name = std::move(full_name);
  return command;
}

std::vector<std::string> Logged(std::string name, std::vector<std::string_view> args) {
  return LoggedArgs(Row(std::move(name)), Args(args));
}

TEST(LoggedArgsTest, SecretsAreHidden) {
  EXPECT_THAT(Logged("auth", {"AUTH", "a", "b"}), ElementsAre("AUTH", kRedacted, kRedacted));
  EXPECT_THAT(Logged("hello", {"hello", "3", "AUTH", "u", "p", "SETNAME", "auth"}),
              ElementsAre("hello", "3", "AUTH", kRedacted, kRedacted, "SETNAME", "auth"));
  EXPECT_THAT(Logged("config|set", {"config", "set", "maxmemory", "1", "RequirePass", "x"}),
              ElementsAre("config", "set", "maxmemory", "1", "RequirePass", kRedacted));
  EXPECT_THAT(Logged("acl|setuser", {"acl", "setuser", "u", ">p"}),
              ElementsAre("acl", "setuser", kRedacted, kRedacted));
  EXPECT_THAT(Logged("get", {"get", "auth"}), ElementsAre("get", "auth"));
}

TEST(LoggedArgsTest, TheLastOfThirtyTwoTellsHowManyMoreThereAre) {
  std::vector<std::string_view> args(32, "x");
  EXPECT_EQ(Logged("del", args).back(), "x");
  args.emplace_back("x");
  const auto logged = Logged("del", args);
  ASSERT_EQ(logged.size(), 32u);
  EXPECT_EQ(logged.back(), "... (2 more arguments)");
  const std::string long_text(130, 'A');
  std::string shown(128, 'A');
  shown += "... (2 more bytes)";
  EXPECT_EQ(Logged("get", {"get", long_text})[1], shown);
}

TEST(LoggedArgsTest, HowMuchIsKeptCanBeSaid) {
  const std::vector<std::string_view> words = {"del", "abc", "auth"};
  const auto logged = [&](size_t args, size_t bytes) {
    return LoggedArgs(Row("del"), Args(words), {.args = args, .bytes = bytes});
  };
  EXPECT_THAT(logged(3, 4), ElementsAre("del", "abc", "auth"));
  EXPECT_THAT(logged(3, 3), ElementsAre("del", "abc", "aut... (1 more bytes)"));
  EXPECT_THAT(logged(2, 1), ElementsAre("d... (2 more bytes)", "... (2 more arguments)"));
  EXPECT_THAT(logged(1, 1), ElementsAre("... (3 more arguments)"));
}

TEST(LoggedArgsTest, AMonitorsLineIsPrintable) {
  const std::vector<std::string_view> args = {"set", "a\"\\\n\r\t\a\b\x01\xff", ""};
  EXPECT_EQ(MonitorLine(1'339'518'083'000'412, 2, "lua", Row("set"), Args(args)),
            "+1339518083.000412 [2 lua] \"set\" \"a\\\"\\\\\\n\\r\\t\\a\\b\\x01\\xff\" \"\"\r\n");
}

}  // namespace
}  // namespace dfly
