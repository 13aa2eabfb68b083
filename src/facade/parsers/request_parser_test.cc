// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "facade/parsers/request_parser_model.h"
#include "helio/base/io_buf.h"

namespace dfly {
namespace {

using testkit::Command;
using testkit::ModelParser;
using testkit::ParsedStream;
using testkit::ParseInPieces;
using Limits = RequestParser::Limits;
using Status = RequestParser::Status;

std::string Encode(const Command& args) {
  std::string out = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) {
    out += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  }
  return out;
}

ParsedStream ParseWhole(std::string_view stream, const Limits& limits = {}) {
  return ParseInPieces(stream, limits, {stream.size()});
}

std::vector<size_t> ByteByByte(std::string_view stream) {
  std::vector<size_t> ends(stream.size());
  for (size_t i = 0; i < ends.size(); i++) ends[i] = i + 1;
  return ends;
}

std::string ErrorOf(std::string_view stream, const Limits& limits = {}) {
  const ParsedStream whole = ParseWhole(stream, limits);
  EXPECT_EQ(ParseInPieces(stream, limits, ByteByByte(stream)), whole);
  EXPECT_EQ(ModelParser(stream, limits).Run(), whole);
  return whole.error;
}

std::string MixedStream() {
  return Encode({"SET", "key", "value"}) + "PING\r\n" + "\r\n" + Encode({"GET", ""}) + "*0\r\n" +
         "*-1\r\n" + "set a \"b c\\x41\\n\" 'it\\'s'\n" + Encode({std::string(200, 'x'), "\r\n"}) +
         "  \t  \r\n" + Encode({"a", "b", "c", "d", "e", "f", "g", "h", "i"}) +
         Encode({std::string(12, 'y')}) + "QUIT";
}

TEST(RequestParserTest, FindsArgumentsInPlace) {
  const std::string input = "*2\r\n$3\r\nGET\r\n$5\r\nhello\r\nrest";
  RequestParser parser;
  ASSERT_EQ(parser.Parse(input), Status::kCommand);
  ASSERT_EQ(parser.args().size(), 2u);
  EXPECT_EQ(parser.args()[0].data(), input.data() + 8);
  EXPECT_EQ(parser.args()[1], "hello");
  EXPECT_EQ(parser.consumed(), input.size() - 4);
  EXPECT_FALSE(parser.in_command());
}

TEST(RequestParserTest, TwoCutsAnywhereChangeNothing) {
  const std::string stream = MixedStream();
  const ParsedStream whole = ModelParser(stream, {}).Run();
  EXPECT_EQ(whole.commands.size(), 7u);
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(ParseWhole(stream), whole);
  EXPECT_EQ(ParseInPieces(stream, {}, ByteByByte(stream)), whole);
  for (size_t a = 0; a <= stream.size(); a++) {
    for (size_t b = a; b <= stream.size(); b += 1 + (b - a) / 8) {
      ASSERT_EQ(ParseInPieces(stream, {}, {a, b, stream.size()}), whole) << a << " " << b;
    }
  }
}

TEST(RequestParserTest, SoDoTwoCutsInLargeArguments) {
  const std::string stream = MixedStream();
  const Limits limits = {.large_len = 12};
  const ParsedStream expected = ModelParser(stream, limits).Run();
  for (size_t a = 1; a < stream.size(); ++a) {
    for (size_t b = a; b < stream.size(); ++b) {
      ASSERT_EQ(ParseInPieces(stream, limits, {a, b, stream.size()}), expected) << a << " " << b;
    }
  }
}

TEST(RequestParserTest, SplitsInlineLinesAsRedisDoes) {
  auto words = [](std::string line) {
    const ParsedStream parsed = ParseWhole(line + "\r\n");
    EXPECT_EQ(parsed.commands.size(), 1u) << line << parsed.error;
    return parsed.commands.empty() ? Command{} : parsed.commands[0];
  };
  EXPECT_EQ(words("  get   key "), (Command{"get", "key"}));
  EXPECT_EQ(words("get \"\" ''"), (Command{"get", "", ""}));
  EXPECT_EQ(words("a\"b c\" 'd e'"), (Command{"ab c", "d e"}));
  EXPECT_EQ(words("\"\\x00\\xfF\\xzz\\\"\\q\\\\\""), (Command{std::string("\0\xffxzz\"q\\", 8)}));
  EXPECT_EQ(words("'\\n\\''"), (Command{"\\n'"}));
  EXPECT_EQ(words("a\\nb"), (Command{"a\\nb"}));
  EXPECT_EQ(words("a\vb\tc"), (Command{"a\vb", "c"}));
}

TEST(RequestParserTest, QuotesThatDontBalanceAreAnError) {
  for (const char* line : {"\"\n", "'\n", "\"abc\n", "get \"a\"b\n", "get 'a'b\n", "\"a\\\"\n",
                           "'a\\'\n", "'a\\\n", "a\"\n"}) {
    EXPECT_EQ(ErrorOf(line), "ERR Protocol error: unbalanced quotes in request") << line;
  }
}

TEST(RequestParserTest, BrokenHeadersAreWordedAsInRedis) {
  const std::string multibulk = "ERR Protocol error: invalid multibulk length";
  for (const char* text :
       {"*\r\n", "*a\r\n", "*+1\r\n", "*01\r\n", "*-0\r\n", "*1 \r\n", "*1a\r\n", "*2147483648\r\n",
        "*99999999999999999999\r\n", "*9223372036854775808\r\n", "*-\r\n", "*--1\r\n"}) {
    EXPECT_EQ(ErrorOf(text), multibulk) << text;
  }
  const std::string bulk = "ERR Protocol error: invalid bulk length";
  for (const char* text : {"*1\r\n$\r\n", "*1\r\n$-1\r\n", "*1\r\n$a\r\n", "*1\r\n$00\r\n",
                           "*1\r\n$536870913\r\n", "*1\r\n$99999999999999999999\r\n"}) {
    EXPECT_EQ(ErrorOf(text), bulk) << text;
  }
  EXPECT_EQ(ErrorOf("*1\r\nfoo\r\n"), "ERR Protocol error: expected '$', got 'f'");
  EXPECT_EQ(ErrorOf("*1\r\n\r\n"), "ERR Protocol error: expected '$', got ' '");
  EXPECT_EQ(ErrorOf("*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n"),
            "ERR Protocol error: expected '$', got 'f'");
}

TEST(RequestParserTest, EndlessLinesAreAnError) {
  const std::string junk(70'000, '1');
  EXPECT_EQ(ParseWhole("*" + junk).error, "ERR Protocol error: too big mbulk count string");
  EXPECT_EQ(ParseWhole("*1\r\n$" + junk).error, "ERR Protocol error: too big bulk count string");
  EXPECT_EQ(ParseWhole(junk).error, "ERR Protocol error: too big inline request");
  EXPECT_EQ(ParseWhole(junk + "\r\n").error, "ERR Protocol error: too big inline request");
  const std::string longest(65'535, 'a');
  EXPECT_EQ(ParseWhole(longest + "\r\n").commands, (std::vector<Command>{{longest}}));
}

TEST(RequestParserTest, LimitsAreInclusive) {
  const Limits limits{.max_bulk_len = 5, .max_multi_bulk_len = 2};
  EXPECT_EQ(ParseWhole(Encode({"a", "12345"}), limits).commands.size(), 1u);
  EXPECT_EQ(ErrorOf(Encode({"a", "123456"}), limits), "ERR Protocol error: invalid bulk length");
  EXPECT_EQ(ErrorOf(Encode({"a", "b", "c"}), limits),
            "ERR Protocol error: invalid multibulk length");
}

TEST(RequestParserTest, BeforeAuthenticationRequestsAreSmall) {
  const Limits limits{.authenticated = false};
  EXPECT_EQ(ParseWhole(Encode(Command(10, std::string(16384, 'x'))), limits).commands.size(), 1u);
  EXPECT_EQ(ErrorOf("*11\r\n", limits), "ERR Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$16385\r\n", limits), "ERR Protocol error: unauthenticated bulk length");
  EXPECT_EQ(ErrorOf("*2147483648\r\n", limits), "ERR Protocol error: invalid multibulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$536870913\r\n", limits), "ERR Protocol error: invalid bulk length");
}

TEST(RequestParserTest, EmptyCommandsCanBeDroppedAtOnce) {
  RequestParser parser;
  EXPECT_EQ(parser.Parse("\r\n\n*0\r\n*-7\r\n  \r\n*1\r"), Status::kNeedMore);
  EXPECT_EQ(parser.consumed(), 16u);
  EXPECT_TRUE(parser.in_command());
  EXPECT_EQ(parser.Parse("*1\r\n$1\r\na\r\n"), Status::kCommand);
}

TEST(RequestParserTest, TellsHowMuchIsMissing) {
  RequestParser parser;
  EXPECT_EQ(parser.Parse("*2\r\n$3\r\nGET\r\n$100\r\nab"), Status::kNeedMore);
  EXPECT_EQ(parser.needed(), 100u);  // 98 and CR LF
  EXPECT_EQ(parser.Parse("*2\r\n$3\r\nGET\r\n$100\r\nabcd"), Status::kNeedMore);
  EXPECT_EQ(parser.needed(), 98u);
}

TEST(RequestParserTest, HostileHeadersCostNothing) {
  RequestParser parser;
  EXPECT_EQ(parser.Parse("*2147483647\r\n$536870912\r\nabc"), Status::kNeedMore);
  EXPECT_EQ(parser.memory_used(), 0u);
  EXPECT_EQ(parser.Parse("*2147483647\r\n$536870912\r\nabcd"), Status::kNeedMore);
  EXPECT_EQ(parser.memory_used(), 0u);
}

TEST(RequestParserTest, MemoryOfABigCommandIsGivenBack) {
  RequestParser parser;
  const std::string big = Encode(Command(100'000, "x"));
  ASSERT_EQ(parser.Parse(big), Status::kCommand);
  EXPECT_EQ(parser.args().size(), 100'000u);
  EXPECT_GT(parser.memory_used(), 1'000'000u);
  const std::string small = Encode({"PING"});
  ASSERT_EQ(parser.Parse(small), Status::kCommand);
  EXPECT_EQ(parser.memory_used(), 0u);

  const std::string twenty = Encode(Command(20, "x"));
  ASSERT_EQ(parser.Parse(twenty), Status::kCommand);
  EXPECT_GT(parser.memory_used(), 0u);
  parser.Release();
  EXPECT_EQ(parser.memory_used(), 0u);
  ASSERT_EQ(parser.Parse(twenty), Status::kCommand);
  EXPECT_EQ(parser.args().size(), 20u);
}

TEST(RequestParserTest, SteadyStateKeepsItsMemory) {
  RequestParser parser;
  const std::string command = Encode(Command(500, "x"));
  ASSERT_EQ(parser.Parse(command), Status::kCommand);
  const std::string_view* args = parser.args().data();
  for (int i = 0; i < 10; i++) {
    ASSERT_EQ(parser.Parse(command), Status::kCommand);
    EXPECT_EQ(parser.args().data(), args);
  }
}

// With a scan from the start for each piece these would take minutes.
TEST(RequestParserTest, HugeRequestsInSmallPiecesAreLinear) {
  for (const std::string& stream :
       {Encode({"SET", "k", std::string(100'000'000, 'v')}), Encode(Command(1'000'000, "x"))}) {
    RequestParser parser;
    Status status = Status::kNeedMore;
    for (size_t size = 0; status == Status::kNeedMore && size < stream.size();) {
      size = std::min(size + 16384, stream.size());
      status = parser.Parse(std::string_view(stream).substr(0, size));
    }
    EXPECT_EQ(status, Status::kCommand);
    EXPECT_EQ(parser.consumed(), stream.size());
  }
}

TEST(RequestParserTest, EndlessHeaderInSmallPiecesIsLinear) {
  const Limits limits{.max_inline_len = 10'000'000};
  std::string line = "*1\r\n$" + std::string(9'000'000, '1');
  RequestParser parser(limits);
  for (size_t size = 100; size < line.size(); size += 100) {
    ASSERT_EQ(parser.Parse(std::string_view(line).substr(0, size)), Status::kNeedMore);
  }
}

TEST(RequestParserTest, AbsurdLimitsDoNotOverflow) {
  const Limits limits{
      .max_bulk_len = SIZE_MAX, .max_multi_bulk_len = SIZE_MAX, .max_inline_len = SIZE_MAX};
  RequestParser parser(limits);
  EXPECT_EQ(parser.Parse("*1099511627776\r\n$1099511627776\r\n"), Status::kNeedMore);
  EXPECT_EQ(parser.needed(), 1099511627778u);
  EXPECT_EQ(ErrorOf("*9223372036854775807\r\n", limits),
            "ERR Protocol error: invalid multibulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$9223372036854775807\r\n", limits),
            "ERR Protocol error: invalid bulk length");
}

TEST(RequestParserTest, ResetForgetsAHalfArrivedCommand) {
  RequestParser parser;
  EXPECT_EQ(parser.Parse("*2\r\n$3\r\nGET\r\n$1"), Status::kNeedMore);
  parser.Reset();
  EXPECT_FALSE(parser.in_command());
  EXPECT_EQ(parser.Parse("*1\r\n$4\r\nPING\r\n"), Status::kCommand);
  EXPECT_EQ(parser.args().size(), 1u);
}

TEST(RequestParserTest, LargeArgumentsHaveBlocksOfTheirOwn) {
  RequestParser parser({.large_len = 5});
  const std::string head = "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n";
  ASSERT_EQ(parser.Parse(head + "ab"), Status::kNeedMore);
  EXPECT_EQ(parser.TakenFromEnd(), 2u);
  EXPECT_EQ(parser.TakenFromEnd(), 0u) << "it is dropped once";
  EXPECT_EQ(parser.large_bytes(), 2u);
  EXPECT_EQ(parser.Fill("c"), 1u);
  ASSERT_EQ(parser.room().size(), 2u);
  memcpy(parser.room().data(), "de", 2);
  parser.Filled(2);
  EXPECT_TRUE(parser.room().empty());
  EXPECT_EQ(parser.Fill("\r\n"), 0u) << "that is input again";
  ASSERT_EQ(parser.Parse(head), Status::kNeedMore);
  EXPECT_EQ(parser.needed(), 2u);
  // What is here as a whole stays where it is.
  const std::string rest = "\r\n$6\r\nfghijk\r\n";
  const std::string whole = head + rest;
  ASSERT_EQ(parser.Parse(whole), Status::kCommand);
  EXPECT_THAT(parser.args(), testing::ElementsAre("SET", "k", "abcde", "fghijk"));
  EXPECT_TRUE(parser.holds_args());
  EXPECT_TRUE(parser.has_large());
  EXPECT_EQ(parser.consumed(), head.size() + rest.size());
  parser.Repeat();
  const std::string moved = head + rest;
  ASSERT_EQ(parser.Parse(moved), Status::kCommand);
  EXPECT_THAT(parser.args(), testing::ElementsAre("SET", "k", "abcde", "fghijk"));
  EXPECT_EQ(parser.args()[1].data(), moved.data() + 17);
  {
    const LargeText::Scope scope(parser.large());
    EXPECT_FALSE(LargeText::Take(parser.args()[3]));
    EXPECT_FALSE(LargeText::Take(parser.args()[2].substr(1)));
    std::optional<LargeText> taken = LargeText::Take(parser.args()[2]);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->view(), "abcde");
    EXPECT_FALSE(LargeText::Take(parser.args()[2])) << "once";
  }
  EXPECT_FALSE(LargeText::Take(parser.args()[2]));
  ASSERT_EQ(parser.Parse("*1\r\n$4\r\nPING\r\n"), Status::kCommand);
  EXPECT_FALSE(parser.has_large());
  EXPECT_FALSE(parser.holds_args());
}

TEST(RequestParserTest, ALargeArgumentsMemoryGrowsWithWhatHasArrived) {
  constexpr size_t kBytes = 40 << 20;
  const int64_t unwritten = LentBlock::unwritten_bytes();
  RequestParser parser({.large_len = 5});
  const std::string head = "*1\r\n$" + std::to_string(kBytes) + "\r\n";
  ASSERT_EQ(parser.Parse(head), Status::kNeedMore);
  EXPECT_LT(parser.memory_used(), 200u);
  EXPECT_LE(parser.room().size(), 16u << 20) << "it is trusted so far";
  EXPECT_GE(LentBlock::unwritten_bytes(), unwritten + (16 << 20));
  const std::string piece(1 << 20, 'x');
  for (size_t i = 0; i < kBytes >> 20; ++i) EXPECT_EQ(parser.Fill(piece), piece.size());
  ASSERT_EQ(parser.Parse(head + "\r\n"), Status::kCommand);
  EXPECT_TRUE(parser.args()[0] == std::string(kBytes, 'x'));
  EXPECT_GE(parser.memory_used(), kBytes);
  EXPECT_LT(LentBlock::unwritten_bytes(), unwritten + (16 << 20));
  parser.Release();
  EXPECT_EQ(LentBlock::unwritten_bytes(), unwritten);
  EXPECT_EQ(parser.memory_used(), 0u);
}

TEST(RequestParserTest, TellsWhetherArgumentsAreItsOwn) {
  RequestParser parser;
  ASSERT_EQ(parser.Parse("get k\r\n"), RequestParser::Status::kCommand);
  EXPECT_FALSE(parser.holds_args());
  ASSERT_EQ(parser.Parse("get \"k\"\r\n"), RequestParser::Status::kCommand);
  EXPECT_TRUE(parser.holds_args());
  ASSERT_EQ(parser.Parse("*1\r\n$4\r\nPING\r\n"), RequestParser::Status::kCommand);
  EXPECT_FALSE(parser.holds_args());
}

}  // namespace
}  // namespace dfly
