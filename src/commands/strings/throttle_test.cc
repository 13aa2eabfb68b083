// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class ThrottleTest : public CommandsTest {};

TEST_P(ThrottleTest, AllowsABurstAndThenTheNominalRate) {
  // 3 at once, and then one each two seconds.
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:0, :3, :2, :-1, :2]");
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:0, :3, :1, :-1, :4]");
  EXPECT_EQ(Run("cl.throttle k 2 30 60 1"), "[:0, :3, :0, :-1, :6]");
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:1, :3, :0, :2, :6]");
  now_ms_ += 1500;
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:1, :3, :0, :1, :5]");  // seconds, rounded up
  now_ms_ += 500;
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:0, :3, :0, :-1, :6]");
  now_ms_ += 5000;
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:0, :3, :1, :-1, :3]");
  now_ms_ += 3001;
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("cl.throttle k 2 30 60"), "[:0, :3, :2, :-1, :2]");
}

TEST_P(ThrottleTest, TakesSeveralAtOnceOrNone) {
  EXPECT_EQ(Run("cl.throttle k 4 1 1 0"), "[:0, :5, :5, :-1, :0]");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("cl.throttle k 4 1 1 3"), "[:0, :5, :2, :-1, :3]");
  EXPECT_EQ(Run("cl.throttle k 4 1 1 3"), "[:1, :5, :2, :1, :3]");
  EXPECT_EQ(Run("cl.throttle k 4 1 1 0"), "[:0, :5, :2, :-1, :3]");
  EXPECT_EQ(Run("cl.throttle k 4 1 1 2"), "[:0, :5, :0, :-1, :5]");
  EXPECT_EQ(Run("cl.throttle k 4 1 1 6"), "[:1, :5, :0, :-1, :5]");  // never
}

TEST_P(ThrottleTest, HighRatesAreKept) {
  for (int i = 0; i < 6000; ++i) {
    EXPECT_EQ(Call({"cl.throttle", "k", "5999", "6000", "1"}).items[0].text, "0") << i;
  }
  EXPECT_EQ(Run("cl.throttle k 5999 6000 1"), "[:1, :6000, :0, :1, :1]");
  now_ms_ += 1;
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(Call({"cl.throttle", "k", "5999", "6000", "1"}).items[0].text, "0");
  EXPECT_EQ(Call({"cl.throttle", "k", "5999", "6000", "1"}).items[0].text, "1");
}

TEST_P(ThrottleTest, RefusesWhatIsNoRate) {
  EXPECT_EQ(Run("cl.throttle k 1 1"), "-ERR wrong number of arguments for 'cl.throttle' command");
  EXPECT_EQ(Run("cl.throttle k 1 1 1 1 1"), kSyntaxError);
  for (const char* wrong : {"x 1 1", "1 x 1", "1 1 1.5", "1 1 1 x"}) {
    EXPECT_EQ(Run("cl.throttle k " + std::string(wrong)), kNotInteger) << wrong;
  }
  for (const char* zero : {"1 0 1", "1 1 0", "1 9223372036854775807 1"}) {
    EXPECT_EQ(Run("cl.throttle k " + std::string(zero)), "-ERR zero rates are not supported")
        << zero;
  }
  for (const char* wrong : {"-1 1 1", "1 -1 1", "1 1 -1", "1 1 1 -1", "9223372036854775807 1 1",
                            "1 1 9223372036854775807", "1 1 1 9223372036854775807",
                            "9223372036854775806 1 9223372036854775807 9223372036854775807"}) {
    EXPECT_EQ(Run("cl.throttle k " + std::string(wrong)), "-ERR value is out of range") << wrong;
  }
  EXPECT_EQ(Run("exists k"), ":0");
  MakeHash("h");
  EXPECT_EQ(Run("cl.throttle h 1 1 1"), kWrongType);
  for (const char* other : {"text", "-5", "9223372036854775807"}) {
    Run("set k " + std::string(other));
    EXPECT_EQ(Run("cl.throttle k 1 1 1"), kNotInteger) << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ThrottleTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
