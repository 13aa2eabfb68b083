// SPDX-License-Identifier: Apache-2.0
// The expected texts were recorded from redis-server 7.0.
#include "facade/replies/error_texts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dfly {
namespace {

using Args = std::vector<std::string_view>;

TEST(ErrorTextsTest, UnknownCommandsShowTheirArguments) {
  EXPECT_EQ(UnknownCommandError("foo", Args{}),
            "ERR unknown command 'foo', with args beginning with: ");
  EXPECT_EQ(UnknownCommandError("foo", Args{"a", "b"}),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' ");
}

TEST(ErrorTextsTest, LongNamesAndArgumentsAreCut) {
  const std::string a200(200, 'a');
  const std::string a128(128, 'a');
  EXPECT_EQ(UnknownCommandError("foo", Args{a200, "b"}),
            "ERR unknown command 'foo', with args beginning with: '" + a128 + "' ");
  EXPECT_EQ(UnknownCommandError(a200, Args{}),
            "ERR unknown command '" + a128 + "', with args beginning with: ");
  std::string ten;
  for (int i = 0; i < 10; i++) ten += "'abcdefghij' ";
  EXPECT_EQ(UnknownCommandError("foo", Args(20, "abcdefghij")),
            "ERR unknown command 'foo', with args beginning with: " + ten);
  const std::string a120(120, 'a');  // 123 letters with quotes and space, so 5 are left
  EXPECT_EQ(UnknownCommandError("foo", Args{a120, "0123456789", "x"}),
            "ERR unknown command 'foo', with args beginning with: '" + a120 + "' '01234' ");
  EXPECT_EQ(UnknownSubcommandError("client", a200),
            "ERR unknown subcommand '" + a128 + "'. Try CLIENT HELP.");
}

TEST(ErrorTextsTest, ANulByteEndsWhatIsShown) {
  EXPECT_EQ(UnknownCommandError(std::string_view("f\0o", 3), Args{std::string_view("\0b", 2), "c"}),
            "ERR unknown command 'f', with args beginning with: '' 'c' ");
}

TEST(ErrorTextsTest, NamesAppearAsInRedis) {
  EXPECT_EQ(UnknownSubcommandError("config", "FoO"),
            "ERR unknown subcommand 'FoO'. Try CONFIG HELP.");
  EXPECT_EQ(WrongArityError("config|get"),
            "ERR wrong number of arguments for 'config|get' command");
  EXPECT_EQ(InvalidExpireError("setex"), "ERR invalid expire time in 'setex' command");
  EXPECT_EQ(SubscribedContextError("GET"),
            "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
            "are allowed in this context");
  EXPECT_EQ(ExecAbortError(WrongArityError("exec")),
            "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' "
            "command");
  EXPECT_EQ(ExecAbortError(kErrOutOfMemory),
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory "
            "> 'maxmemory'.");
}

TEST(ErrorTextsTest, ArgumentsAreShownUpToTheirFirstNul) {
  EXPECT_EQ(Printed(std::string_view("a\0b", 3)), "a");
  EXPECT_EQ(Printed("abc", 2), "ab");
  EXPECT_EQ(SubcommandSyntaxError("client", std::string_view("pau\0se", 6)),
            "ERR unknown subcommand or wrong number of arguments for 'pau'. Try CLIENT HELP.");
  EXPECT_EQ(SubcommandSyntaxError("debug", std::string(200, 'x')),
            "ERR unknown subcommand or wrong number of arguments for '" + std::string(128, 'x') +
                "'. Try DEBUG HELP.");
}

}  // namespace
}  // namespace dfly
