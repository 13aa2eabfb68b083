// SPDX-License-Identifier: Apache-2.0
#include "scripting/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scripting/script_testing.h"

namespace dfly {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Verdict = ScriptHost::Verdict;

class InterpreterTest : public ::testing::Test {
 protected:
  std::string Run(std::string_view source) { return runner_.Run(source); }
  // The reply's bytes without its type and length, if it is a bulk string.
  std::string Text(std::string_view source) {
    const std::string reply = Run(source);
    if (reply.empty() || reply[0] != '$') return reply;
    const size_t begin = reply.find('\n') + 1;
    return reply.size() < begin + 2 ? reply : reply.substr(begin, reply.size() - begin - 2);
  }
  static std::string Error(std::string_view text, int line = 1) {
    return "-" + std::string(text) + " script: " + std::string(ScriptRunner::kSha) +
           ", on @user_script:" + std::to_string(line) + ".\r\n";
  }

  ScriptRunner runner_;
};

TEST_F(InterpreterTest, ValuesBecomeReplies) {
  EXPECT_EQ(Run("return 1"), ":1\r\n");
  EXPECT_EQ(Run("return 3.99"), ":3\r\n");
  EXPECT_EQ(Run("return -3.99"), ":-3\r\n");
  EXPECT_EQ(Run("return math.huge"), ":-9223372036854775808\r\n");
  EXPECT_EQ(Run("return 'abc'"), "$3\r\nabc\r\n");
  EXPECT_EQ(Run("return true"), ":1\r\n");
  EXPECT_EQ(Run("return false"), "$-1\r\n");
  EXPECT_EQ(Run("return nil"), "$-1\r\n");
  EXPECT_EQ(Run(""), "$-1\r\n");
  EXPECT_EQ(Run("return print == nil"), Error("ERR user_script:1: Script attempted to access "
                                              "nonexistent global variable 'print'"));
  EXPECT_EQ(Run("return {1, 'a', {2, {}}, nil, 3}"), "*3\r\n:1\r\n$1\r\na\r\n*2\r\n:2\r\n*0\r\n");
  EXPECT_EQ(Run("return {ok = 'FINE'}"), "+FINE\r\n");
  EXPECT_EQ(Run("return {err = 'BAD thing'}"), "-BAD thing\r\n");
  EXPECT_EQ(Run("return {ok = 1}"), "*0\r\n");
  EXPECT_EQ(Run("return {double = 1.5}"), "$3\r\n1.5\r\n");
  EXPECT_EQ(Run("return {map = {a = 1}}"), "*2\r\n$1\r\na\r\n:1\r\n");
  EXPECT_EQ(Run("return {set = {a = true}}"), "*1\r\n$1\r\na\r\n");
  EXPECT_EQ(Run("return function() end"), "$-1\r\n");
}

}  // namespace
}  // namespace dfly
