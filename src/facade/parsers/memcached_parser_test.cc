// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/memcached_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facade/parsers/memcached_parser_model.h"

namespace dfly {
namespace {

using testing::ElementsAre;

std::string Of(MemcachedOp op, std::string_view args) {
  return std::to_string(static_cast<int>(op)) + ":" + std::string(args);
}
std::string Error(std::string_view text) {
  return Of(MemcachedOp::kError, "error|" + std::string(text) + "|");
}

class MemcachedParserTest : public testing::Test {
 protected:
  // As a whole, and byte by byte.
  std::vector<std::string> Parse(std::string_view stream) {
    std::vector<size_t> ends;
    for (size_t end = 1; end < stream.size(); ++end) ends.push_back(end);
    const auto whole = testkit::ParseMemcached(stream, limits_);
    EXPECT_EQ(testkit::ParseMemcached(stream, limits_, ends), whole);
    return whole;
  }

  MemcachedParser::Limits limits_;
};

TEST_F(MemcachedParserTest, HandsOutEachKeyOfALine) {
  EXPECT_THAT(Parse("gets a  bb\r\nget c\n"),
              ElementsAre(Of(MemcachedOp::kGets, "gets|a|"), Of(MemcachedOp::kGets, "gets|bb|"),
                          Of(MemcachedOp::kEnd, "end|"), Of(MemcachedOp::kGet, "get|c|"),
                          Of(MemcachedOp::kEnd, "end|")));
  EXPECT_THAT(Parse("gat 5 a b \r\n"),
              ElementsAre(Of(MemcachedOp::kGat, "gat|a|5|"), Of(MemcachedOp::kGat, "gat|b|5|"),
                          Of(MemcachedOp::kEnd, "end|")));
}

TEST_F(MemcachedParserTest, TakesDataAsItIs) {
  EXPECT_THAT(Parse("set k 1 2 4\r\n\r\n\r\n\r\ncas k 1 2 0 9 noreply\r\n\r\n"),
              ElementsAre(Of(MemcachedOp::kSet, "set|k|1|2|\r\n\r\n|"),
                          Of(MemcachedOp::kCas, "cas|k|1|2||9|noreply|")));
  EXPECT_THAT(Parse("set k 0 0 1\r\nab\r\nmn\r\n"),
              ElementsAre(Error("CLIENT_ERROR bad data chunk"), Error("ERROR"),
                          Of(MemcachedOp::kMetaNoop, "mn|")));
}

TEST_F(MemcachedParserTest, SkipsWhatIsTooLarge) {
  limits_.value_bytes_max = 3;
  EXPECT_THAT(
      Parse("set k 0 0 5\r\nget a\r\n\nmn\r\nset k 0 0 3\r\nabc\r\n"),
      ElementsAre(Of(MemcachedOp::kTooLarge, "toolarge|k|set|"), Error("ERROR"),
                  Of(MemcachedOp::kMetaNoop, "mn|"), Of(MemcachedOp::kSet, "set|k|0|0|abc|")));
}

TEST_F(MemcachedParserTest, DecodesKeys) {
  EXPECT_THAT(Parse("mg YSBi b v\r\nms YSBi 1 b\r\nx\r\nmg a b\r\n"),
              ElementsAre(Of(MemcachedOp::kMetaGet, "mg|a b|b|v|"),
                          Of(MemcachedOp::kMetaSet, "ms|a b|x|b|"),
                          Error("CLIENT_ERROR error decoding key")));
}

TEST_F(MemcachedParserTest, BoundsKeysAndLines) {
  const std::string long_key(251, 'k');
  EXPECT_THAT(Parse("get " + long_key + "\r\n"),
              ElementsAre(Error("CLIENT_ERROR bad command line format")));
  EXPECT_EQ(Parse(std::string(2050, 'x')).back(), "closed: CLIENT_ERROR line too long");
  limits_.line_bytes_max = 4096;
  EXPECT_EQ(Parse("get " + std::string(2100, ' ') + "a\r\n").size(), 2u);
  EXPECT_EQ(Parse("get " + std::string(4100, ' ')).back(), "closed: CLIENT_ERROR line too long");
}

TEST_F(MemcachedParserTest, KnowsOnlyPasswordsBeforehand) {
  EXPECT_THAT(
      testkit::ParseMemcached("get a\r\nset x 0 0 3\r\nu p\r\n", {}, {}, false),
      ElementsAre(Error("CLIENT_ERROR unauthenticated"), Of(MemcachedOp::kAuth, "auth|u p|")));
}

TEST_F(MemcachedParserTest, KeepsNothingWhenReleased) {
  MemcachedParser parser(limits_);
  std::string line = "mg " + std::string(200, 'k');
  for (int i = 0; i < 100; ++i) line += " O" + std::to_string(i);
  line += "\r\n";
  ASSERT_EQ(parser.Parse(line), MemcachedParser::Status::kCommand);
  parser.Take();
  EXPECT_GT(parser.memory_used(), 1000u);
  parser.Release();
  EXPECT_EQ(parser.memory_used(), 0u);
}

}  // namespace
}  // namespace dfly
