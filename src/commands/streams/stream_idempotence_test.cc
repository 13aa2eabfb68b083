// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class StreamIdempotenceTest : public CommandsTest {
 protected:
  // Of XINFO STREAM: pids-tracked iids-tracked iids-added iids-duplicates.
  std::string Counts(const std::string& key = "s") {
    const auto items = Call({"xinfo", "stream", key}).items;
    std::string counts;
    for (size_t i = 19; i <= 25; i += 2) counts += items[i].ToString();
    return counts;
  }
};

TEST_P(StreamIdempotenceTest, AMessageThatComesAgainIsNoSecondEntry) {
  const std::string first = Run("xadd s idmp p 1 * a b");
  now_ms_ += 50;
  EXPECT_EQ(Run("xadd s idmp p 1 * a other"), first);
  EXPECT_EQ(Run("xlen s"), ":1");
  EXPECT_NE(Run("xadd s idmp p 2 * a b"), first);
  EXPECT_NE(Run("xadd s idmp q 1 * a b"), first);
  EXPECT_EQ(Run("xlen s"), ":3");
  EXPECT_EQ(Counts(), ":2:3:3:1");
  // Also when its entry has gone.
  Run("xtrim s maxlen 0");
  EXPECT_EQ(Run("xadd s maxlen 5 idmp p 1 * a b"), first);
  EXPECT_EQ(Run("xlen s"), ":0");
}

TEST_P(StreamIdempotenceTest, AnEntryCanBeItsOwnName) {
  const std::string first = Run("xadd s idmpauto p * a b c d");
  EXPECT_EQ(Run("xadd s idmpauto p * a b c d"), first);
  EXPECT_NE(Run("xadd s idmpauto p * a bc d e"), first);
  EXPECT_NE(Run("xadd s idmpauto p * ab c d e"), first);
  EXPECT_NE(Run("xadd s idmpauto q * a b c d"), first);
  EXPECT_EQ(Run("xlen s"), ":4");
}

TEST_P(StreamIdempotenceTest, MessagesAreForgottenByTimeAndByNumber) {
  const std::string first = Run("xadd s idmp p 1 * a b");
  EXPECT_EQ(Run("xcfgset s idmp-duration 5"), "+OK");
  EXPECT_EQ(Counts(), ":0:0:1:0");  // other limits: it begins anew
  EXPECT_NE(Run("xadd s idmp p 1 * a b"), first);
  now_ms_ += 4999;
  EXPECT_EQ(Run("xcfgset s idmp-duration 5 idmp-maxsize 100"), "+OK");  // the same ones
  Run("xadd s idmp p 1 * a b");
  EXPECT_EQ(Run("xlen s"), ":2");
  now_ms_ += 1;
  EXPECT_EQ(Counts(), ":0:0:2:1");
  Run("xadd s idmp p 1 * a b");
  EXPECT_EQ(Run("xlen s"), ":3");
  EXPECT_EQ(Run("xcfgset s idmp-maxsize 2"), "+OK");
  for (const char* message : {"1", "2", "3", "3", "2", "1"}) {
    Run("xadd t" + std::string(message) + " * a b");
    Run("xadd s idmp p " + std::string(message) + " * a b");
  }
  EXPECT_EQ(Run("xlen s"), ":7");
  EXPECT_EQ(Counts(), ":1:2:7:3");
}

TEST_P(StreamIdempotenceTest, ErrorsChangeNothing) {
  constexpr std::string_view kNotAuto =
      "-ERR IDMP/IDMPAUTO can be used only with auto-generated IDs";
  constexpr std::string_view kEmpty =
      "-ERR IDMP producer and message identifiers must not be empty";
  EXPECT_EQ(Run("xadd s idmp p 1 5-5 a b"), kNotAuto);
  EXPECT_EQ(Run("xadd s idmpauto p 5-* a b"), kNotAuto);
  EXPECT_EQ(Run("xadd s idmp p 1 idmp p 1 * a b"), kSyntaxError);
  EXPECT_EQ(Run("xadd s idmpauto p idmp p 1 * a b"), kSyntaxError);
  EXPECT_EQ(Call({"xadd", "s", "idmp", "", "1", "*", "a", "b"}).ToString(), kEmpty);
  EXPECT_EQ(Call({"xadd", "s", "idmp", "p", "", "*", "a", "b"}).ToString(), kEmpty);
  EXPECT_EQ(Run("xadd s nomkstream idmp p 1 * a b"), "(nil)");
  EXPECT_EQ(Run("xcfgset s idmp-duration 5"), "-ERR no such key");
  EXPECT_EQ(Run("exists s"), ":0");
  Run("xadd s idmp p 1 * a b");
  for (const char* number : {"0", "86401", "x", "-1"}) {
    EXPECT_EQ(Run(std::string("xcfgset s idmp-duration ") + number),
              "-ERR IDMP-DURATION must be between 1 and 86400 seconds");
  }
  EXPECT_EQ(Run("xcfgset s idmp-duration 7 idmp-maxsize 10001"),
            "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
  EXPECT_EQ(Run("xcfgset s"), kSyntaxError);
  EXPECT_EQ(Run("xcfgset s idmp-duration"), kSyntaxError);
  EXPECT_EQ(Run("xcfgset s foo 1"), kSyntaxError);
  EXPECT_EQ(Counts(), ":1:1:1:0");
  EXPECT_EQ(Run("xidmprecord s p 1 9-9"),
            "-ERR The specified stream ID was deleted or doesn't exist");
  Run("xadd s 1700000001000-0 a b");
  EXPECT_EQ(Run("xidmprecord s p 1 1700000001000-0"),
            "-ERR The specified IDMP producer-id/idempotent-id pair maps to a different stream ID");
  EXPECT_EQ(Run("xidmprecord s p 1 1700000000000-0"), "+OK");
  EXPECT_EQ(Run("xidmprecord none p 1 1-1"), "-ERR no such key");
  Run("set k v");
  EXPECT_EQ(Run("xcfgset k idmp-duration 5"), kWrongType);
  EXPECT_EQ(Run("xidmprecord k p 1 1-1"), kWrongType);
  EXPECT_EQ(Run("xadd k idmp p 1 * a b"), kWrongType);
}

TEST_P(StreamIdempotenceTest, CopiesAndPayloadsHaveTheMessages) {
  const std::string first = Run("xadd {t}s idmp p 1 * a b");
  Run("xcfgset {t}s idmp-duration 100 idmp-maxsize 100");
  EXPECT_EQ(Run("copy {t}s {t}copy"), ":1");
  EXPECT_EQ(Run("xadd {t}copy idmp p 1 * a b"), first);
  const auto payload = Call({"dump", "{t}s"});
  EXPECT_EQ(Call({"restore", "made", "0", payload.text}).ToString(), "+OK");
  EXPECT_EQ(Run("xadd made idmp p 1 * a b"), first);
  EXPECT_EQ(Counts("made"), ":1:1:1:1");
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamIdempotenceTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
