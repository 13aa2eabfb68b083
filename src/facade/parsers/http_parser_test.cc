// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/http_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Status = HttpParser::Status;

// What is found in `bytes`, which come `step` at a time: "GET /livez +" (keeps alive) or "-", "400"
// for an error, "..." if the last one is not complete.
std::vector<std::string> Parse(const std::string& bytes, size_t step, size_t head_max = 8192) {
  HttpParser parser({.head_max = head_max});
  std::vector<std::string> found;
  std::string input;
  for (size_t at = 0; at < bytes.size(); at += step) {
    input += bytes.substr(at, step);
    while (!input.empty()) {
      const Status status = parser.Parse(input);
      if (status == Status::kError) {
        found.push_back(std::to_string(parser.error_status()));
        return found;
      }
      if (status == Status::kRequest) {
        const HttpRequest& request = parser.request();
        found.push_back(std::string(request.method) + " " + std::string(request.target) +
                        (request.keep_alive ? " +" : " -"));
      }
      input.erase(0, parser.consumed());
      if (status == Status::kNeedMore) break;
    }
  }
  if (parser.in_request()) found.push_back("...");
  return found;
}

TEST(HttpParser, FindsRequestsHoweverTheyAreCut) {
  const std::string bytes =
      "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
      "HEAD /readyz?verbose HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: y z\r\n\r\n"
      "POST / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /half";
  for (size_t step : {1, 2, 3, 7, 20, 1000}) {
    EXPECT_THAT(Parse(bytes, step),
                ElementsAre("GET /livez +", "HEAD /readyz?verbose -", "POST / -", "GET / +", "..."))
        << step;
  }
}

TEST(HttpParser, TheHeadsLimitIsExactHoweverItIsCut) {
  for (size_t size = 240; size < 280; ++size) {
    std::string head = "GET / HTTP/1.1\r\nA: ";
    head += std::string(size - head.size() - 4, 'a') + "\r\n\r\n";
    ASSERT_EQ(head.size(), size);
    const std::vector<std::string> expected = {size <= 256 ? "GET / +" : "431"};
    for (size_t step : {1, 2, 3, 50, 255, 256, 257, 1000}) {
      EXPECT_EQ(Parse(head, step, 256), expected) << size << " bytes, each " << step;
      const std::vector<std::string> after = Parse(head + "GET / HTTP/1.0\r\n\r\n", step, 256);
      EXPECT_EQ(after.front(), expected.front()) << size << " bytes, each " << step;
    }
  }
}

TEST(HttpParser, WhatIsNoneIsAnError) {
  const auto parse = [](const std::string& bytes) {
    std::vector<std::string> at_once = Parse(bytes, bytes.size());
    EXPECT_EQ(Parse(bytes, 1), at_once) << bytes;
    return at_once;
  };
  EXPECT_THAT(parse("GET / HTTP/2.0\r\n\r\n"), ElementsAre("505"));
  EXPECT_THAT(parse("GET / HTTP/x\r\n\r\n"), ElementsAre("505"));
  EXPECT_THAT(parse("GET / HTTP/1.1\r\nno colon\r\n\r\n"), ElementsAre("400"));
  EXPECT_THAT(parse("GET / HTTP/1.1\r\nA: b\r\n\r\nnonsense\r\n\r\n"),
              ElementsAre("GET / +", "400"));
  EXPECT_THAT(parse(std::string("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 24)), ElementsAre("400"));
  EXPECT_THAT(parse("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), ElementsAre("413"));
  EXPECT_THAT(parse("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
              ElementsAre("413"));
  EXPECT_THAT(parse("GET / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
              ElementsAre("400"));
}

TEST(HttpParser, OnePathMayHaveABodyOfALimitedSize) {
  const auto parse = [](const std::string& bytes, size_t step) {
    HttpParser parser({.body_max = 8, .body_path = "/api"});
    std::string input;
    std::string found;
    for (size_t at = 0; at < bytes.size(); at += step) {
      input += bytes.substr(at, step);
      while (!input.empty()) {
        const Status status = parser.Parse(input);
        if (status == Status::kError) return found + std::to_string(parser.error_status());
        input.erase(0, parser.consumed());
        if (status == Status::kNeedMore) break;
        const HttpRequest& request = parser.request();
        found.append(request.content_type).append("<").append(request.body).append("> ");
      }
    }
    return found + (parser.in_request() ? "..." : "");
  };
  const std::string head = "POST /api?x HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: ";
  const std::string good = head + "8\r\n\r\n{\"a\": 1}";
  for (size_t step : {1, 2, 5, 1000}) {
    EXPECT_EQ(parse(good + good + head + "0\r\n\r\n", step),
              "a/b<{\"a\": 1}> a/b<{\"a\": 1}> a/b<> ");
    EXPECT_EQ(parse(head + "8\r\n\r\n1234567", step), "...");
    EXPECT_EQ(parse(head + "9\r\n\r\n123456789", step), "413");
    EXPECT_EQ(parse("POST /other HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", step), "413");
    EXPECT_EQ(parse("GET /api HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", step), "413");
    EXPECT_EQ(parse("POST /api HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", step),
              "411");
  }
}

TEST(HttpParser, FieldsAreFound) {
  HttpParser parser({});
  ASSERT_EQ(parser.Parse(
                "GET / HTTP/1.1\r\nhost: h:1\r\nAUTHORIZATION: Basic eA==\r\nOrigin: http://h\r\n"
                "x-requested-with: me\r\n\r\n"),
            Status::kRequest);
  const HttpRequest& request = parser.request();
  EXPECT_EQ(request.host, "h:1");
  EXPECT_EQ(request.authorization, "Basic eA==");
  EXPECT_EQ(request.origin, "http://h");
  EXPECT_EQ(request.requested_with, "me");
  EXPECT_EQ(request.content_type, "");
}

TEST(HttpParser, HeadsAreLimited) {
  const std::string start = "GET / HTTP/1.1\r\nA: ";
  for (size_t step : {1, 100, 10'000}) {
    EXPECT_THAT(Parse(start + std::string(900, 'a') + "\r\n\r\n", step, 1024),
                ElementsAre("GET / +"));
    EXPECT_THAT(Parse(start + std::string(1100, 'a') + "\r\n\r\n", step, 1024), ElementsAre("431"));
    EXPECT_THAT(Parse(start + std::string(5000, 'a'), step, 1024), ElementsAre("431"));
    EXPECT_THAT(Parse("GET /" + std::string(5000, 'a'), step, 1024), ElementsAre("431"));
  }
}

TEST(HttpParser, RequestLinesAreKnown) {
  const auto is_one = [](std::string_view line) {
    std::vector<std::string_view> words;
    while (!line.empty()) {
      const size_t end = std::min(line.find(' '), line.size());
      words.push_back(line.substr(0, end));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    return HttpParser::IsRequestLine(words);
  };
  EXPECT_TRUE(is_one("GET / HTTP/1.1"));
  EXPECT_TRUE(is_one("PATCH x HTTP/"));
  EXPECT_FALSE(is_one("get / HTTP/1.1"));
  EXPECT_FALSE(is_one("SET k HTTP/1.1"));
  EXPECT_FALSE(is_one("GET HTTP/1.1"));
  EXPECT_FALSE(is_one("SET k v"));
  EXPECT_FALSE(is_one("SET k HTTP/1.1 NX"));
}

TEST(HttpParser, ResponsesSayHowLongTheyAre) {
  const HttpResponse response{.status = 405, .body = "no\n", .fields = "Allow: GET, HEAD\r\n"};
  EXPECT_EQ(FormatHttp(response, true),
            "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 3\r\nCache-Control: no-store\r\nAllow: GET, HEAD\r\n\r\nno\n");
  EXPECT_THAT(FormatHttp(response, false), HasSubstr("\r\nConnection: close\r\n\r\nno\n"));
  EXPECT_TRUE(FormatHttp(response, true, false).ends_with("HEAD\r\n\r\n"));
}

}  // namespace
}  // namespace dfly
