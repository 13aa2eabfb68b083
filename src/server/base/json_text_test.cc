// SPDX-License-Identifier: Apache-2.0
#include "server/base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dfly {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonForLog(text, &out);
  return out;
}

TEST(JsonText, EscapesWhatQuotesMayNotHave) {
  EXPECT_EQ(Quoted("plain"), "\"plain\"");
  EXPECT_EQ(Quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(Quoted("1\n2\r3\t"), "\"1\\n2\\r3\\t\"");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\\u007f\"");
  EXPECT_EQ(Quoted("Grüße"), "\"Grüße\"");
}

TEST(JsonText, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(Quoted("a\xff\xfe z"), "\"a\\ufffd\\ufffd z\"");
  EXPECT_EQ(Quoted("\xc3"), "\"\\ufffd\"");
  EXPECT_EQ(Quoted("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");  // a surrogate
}

TEST(JsonText, AnyBytesAreALineThatParses) {
  for (int first = 0; first < 256; ++first) {
    const std::string text = {static_cast<char>(first), 'x'};
    JsonLine line;
    const std::string made = line.Text("t", text).Number("n", -5).Raw("r", "[1]").Take();
    EXPECT_EQ(made.find('\n'), std::string::npos);
    const nlohmann::json parsed = nlohmann::json::parse(made);
    EXPECT_EQ(parsed["n"], -5);
    EXPECT_EQ(parsed["r"][0], 1);
    if (first < 128) {
      EXPECT_EQ(parsed["t"], text);
    }
  }
}

TEST(JsonText, TimesAreOfRfc3339) {
  EXPECT_EQ(JsonTime(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(JsonTime(1'700'000'123'000'045), "2023-11-14T22:15:23.000045Z");
}

}  // namespace
}  // namespace dfly
