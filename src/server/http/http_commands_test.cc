// SPDX-License-Identifier: Apache-2.0
// The JSON of POST /api/commands, and whose requests are believed. The rest is in
// tests/test_console.py.
#include "server/http/http_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Commands = std::vector<std::vector<std::string>>;

Commands Parsed(std::string_view body) {
  Commands commands;
  EXPECT_EQ(ParseCommands(body, &commands), "") << body;
  return commands;
}

std::string WhyNot(std::string_view body) {
  Commands commands;
  return ParseCommands(body, &commands);
}

// As the server sent it, in JSON.
std::string Json(std::string_view resp) {
  RespValue value;
  EXPECT_EQ(ReadRespValue(resp, &value), resp.size()) << resp;
  const std::string text = FormatReplies({value}, "");
  EXPECT_THAT(text, testing::StartsWith("{\"replies\":["));
  EXPECT_THAT(text, testing::EndsWith("]}\n"));
  return text.substr(12, text.size() - 15);
}

TEST(HttpCommandsTest, CommandsAreArraysOrLines) {
  EXPECT_EQ(Parsed(R"({"commands":[]})"), Commands());
  EXPECT_EQ(Parsed(R"({"commands":[["SET","k",""],"GET k"]})"),
            (Commands{{"SET", "k", ""}, {"GET", "k"}}));
  EXPECT_EQ(Parsed(R"({"commands":["SET 'a b' \"\\x00\\n\""]})"),
            (Commands{{"SET", "a b", std::string("\0\n", 2)}}));
  EXPECT_EQ(Parsed(" {\"commands\" : [[\"\\u00e4\\u0000\"]]} "),
            (Commands{{std::string("\xc3\xa4\0", 3)}}));
}

TEST(HttpCommandsTest, WhatIsNoListOfCommandsIsRefused) {
  for (const char* body :
       {"", "{", "x", "{\"commands\":[[\"a\"]]} x", "{\"commands\":[[\"\xff\"]]}"}) {
    EXPECT_EQ(WhyNot(body), "the body is not JSON") << body;
  }
  for (const char* body :
       {"[]", "1", "null", "{}", R"({"commands":1})", R"({"commands":[1]})", R"({"commands":[[]]})",
        R"({"commands":[["GET",1]]})", R"({"commands":[["GET",null]]})",
        R"({"commands":[["a"]],"x":1})", R"({"Commands":[["a"]]})", R"({"commands":[[["a"]]]})"}) {
    EXPECT_THAT(WhyNot(body), HasSubstr("the body has to be")) << body;
  }
  for (const char* body :
       {R"({"commands":[""]})", R"({"commands":["  "]})", R"({"commands":["GET \"a"]})",
        R"({"commands":["*1"]})", R"({"commands":["GET a\nGET b"]})"}) {
    EXPECT_THAT(WhyNot(body), HasSubstr("a line is empty")) << body;
  }
  const std::string deep(100'000, '[');
  EXPECT_EQ(WhyNot("{\"commands\":" + deep), "the body is not JSON");
  EXPECT_THAT(WhyNot("{\"commands\":" + deep + std::string(deep.size(), ']') + "}"),
              HasSubstr("the body has to be"));
}

TEST(HttpCommandsTest, RepliesBecomeJson) {
  EXPECT_EQ(Json("+OK\r\n"), R"("OK")");
  EXPECT_EQ(Json("-ERR no\r\n"), R"({"error":"ERR no"})");
  EXPECT_EQ(Json(":-5\r\n"), "-5");
  EXPECT_EQ(Json(":9007199254740991\r\n"), "9007199254740991");
  EXPECT_EQ(Json(":9007199254740993\r\n"), R"({"integer":"9007199254740993"})");
  EXPECT_EQ(Json(":-9223372036854775808\r\n"), R"({"integer":"-9223372036854775808"})");
  EXPECT_EQ(Json("(123456789012345678901234567890\r\n"),
            R"({"integer":"123456789012345678901234567890"})");
  EXPECT_EQ(Json(",1.5\r\n"), "1.5");
  EXPECT_EQ(Json(",-inf\r\n"), R"({"double":"-inf"})");
  EXPECT_EQ(Json(",nan\r\n"), R"({"double":"nan"})");
  EXPECT_EQ(Json("#t\r\n"), "true");
  EXPECT_EQ(Json("#f\r\n"), "false");
  EXPECT_EQ(Json("_\r\n"), "null");
  EXPECT_EQ(Json("$-1\r\n"), "null");
  EXPECT_EQ(Json("=6\r\ntxt:ab\r\n"), R"("ab")");
  EXPECT_EQ(Json("*0\r\n"), "[]");
  EXPECT_EQ(Json("*2\r\n+a\r\n*1\r\n_\r\n"), R"(["a",[null]])");
  EXPECT_EQ(Json("~1\r\n:1\r\n"), "[1]");
  EXPECT_EQ(Json("%2\r\n+error\r\n:1\r\n:2\r\n*0\r\n"), R"({"map":[["error",1],[2,[]]]})");
}

TEST(HttpCommandsTest, TextsAreUtf8OrBase64) {
  const auto bulk = [](std::string_view bytes) {
    return Json("$" + std::to_string(bytes.size()) + "\r\n" + std::string(bytes) + "\r\n");
  };
  EXPECT_EQ(bulk("a\"\\\n\x01"), R"("a\"\\\n\u0001")");
  EXPECT_EQ(bulk(""), R"("")");
  for (const char* good : {"\xc3\xa4", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc2\x80z"}) {
    EXPECT_EQ(bulk(good), '"' + std::string(good) + '"');
  }
  // Alone, cut off, too long, a surrogate, too large.
  for (const char* bad : {"\x80", "\xc3", "a\xe2\x82", "\xf0\x90\x80", "\xc0\xaf", "\xc1\xbf",
                          "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x28\xa1"}) {
    EXPECT_THAT(bulk(bad), testing::StartsWith(R"({"base64":")")) << bad;
  }
  EXPECT_EQ(bulk(std::string_view("\xff\x00\x01", 3)), R"({"base64":"/wAB"})");
  EXPECT_EQ(bulk("\xff"), R"({"base64":"/w=="})");
}

TEST(HttpCommandsTest, AnErrorStandsBesideTheReplies) {
  EXPECT_EQ(FormatReplies({}, "ERR late"), "{\"replies\":[],\"error\":\"ERR late\"}\n");
}

TEST(HttpCommandsTest, OnlyAddressesAreNoNamesOfOthers) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:6379", "10.1.2.3:80", "[::1]:6379", "[fe80::1]",
                           "localhost", "localhost:6379", "LocalHost"}) {
    EXPECT_TRUE(IsAddressOrLocal(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:6379", "localhost.evil.example", "127.0.0.1.evil.example",
        "1.2.3", "[::1", "[evil.example]", "::1", "127.0.0.1x:6379", "x@127.0.0.1"}) {
    EXPECT_FALSE(IsAddressOrLocal(host)) << host;
  }
}

TEST(HttpCommandsTest, OriginsAreOfTheSameHost) {
  EXPECT_TRUE(IsSameOrigin("http://a:6379", "a:6379"));
  EXPECT_TRUE(IsSameOrigin("https://a", "a"));
  for (const char* origin : {"", "null", "a:6379", "http://b:6379", "http://a:6380", "http://a",
                             "http://a:6379.evil.example", "ftp://a:6379"}) {
    EXPECT_FALSE(IsSameOrigin(origin, "a:6379")) << origin;
  }
}

}  // namespace
}  // namespace dfly
