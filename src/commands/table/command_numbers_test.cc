// SPDX-License-Identifier: Apache-2.0
#include "commands/table/numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "facade/replies/error_texts.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/io_buf.h"

namespace dfly {
namespace {

// What a function of numbers.h gave, and the error that it replied.
struct Parsed {
  std::optional<int64_t> number;
  std::string error;

  bool operator==(const Parsed&) const = default;
};
Parsed Number(int64_t number) { return {.number = number, .error = ""}; }
Parsed Error(std::string_view text) { return {.number = {}, .error = std::string(text)}; }

template <typename Function>
Parsed Call(Function parse) {
  helio::IoBuf out;
  RespWriter reply(&out);
  Parsed parsed = {.number = parse(reply), .error = ""};
  std::string_view text = out.view();
  if (text.starts_with("-") && text.ends_with("\r\n")) {
    text.remove_prefix(1);
    text.remove_suffix(2);
  }
  parsed.error = text;
  return parsed;
}

Parsed Deadline(const DeadlineRule& rule, std::string_view text, int64_t unit_ms, int64_t base_ms) {
  return Call([&](ReplySink& reply) {
    return ParseDeadline(rule, text, unit_ms, base_ms, "setex", reply);
  });
}

TEST(CommandNumbersTest, AnIntegerIsCanonical) {
  const auto parse = [](std::string_view text) {
    return Call([text](ReplySink& reply) { return ParseInteger(text, "ERR that is none", reply); });
  };
  EXPECT_EQ(parse("-9223372036854775808"), Number(INT64_MIN));
  for (const char* text : {"", " 1", "+1", "01", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(parse(text), Error("ERR that is none")) << text;
  }
}

TEST(CommandNumbersTest, AtLeastTheLeast) {
  const auto parse = [](std::string_view text) {
    return Call([text](ReplySink& reply) { return ParseAtLeast(1, text, "ERR too few", reply); });
  };
  EXPECT_EQ(parse("1"), Number(1));
  EXPECT_EQ(parse("0"), Error("ERR too few"));
  EXPECT_EQ(parse("x"), Error("ERR too few"));
}

TEST(CommandNumbersTest, UnitsOfDeadlines) {
  EXPECT_EQ(FindDeadlineUnit("ex")->unit_ms, 1000);
  EXPECT_EQ(FindDeadlineUnit("ex")->base_ms(5), 5);
  EXPECT_EQ(FindDeadlineUnit("PxAt")->unit_ms, 1);
  EXPECT_EQ(FindDeadlineUnit("PXAT")->base_ms(5), 0);
  EXPECT_EQ(FindDeadlineUnit("EXAT")->unit_ms, 1000);
  EXPECT_EQ(FindDeadlineUnit("E"), nullptr);
}

TEST(CommandNumbersTest, EachFamilyHasItsRuleForDeadlines) {
  const std::string invalid = InvalidExpireError("setex");
  for (const DeadlineRule& rule : {kAnyDeadline, kNewDeadline, kMemberDeadline}) {
    EXPECT_EQ(Deadline(rule, "3", 1000, 7), Number(3007));
    EXPECT_EQ(Deadline(rule, "x", 1000, 7), Error(kErrNotInteger));
    EXPECT_EQ(Deadline(rule, "9223372036854775", 1000, 1000), Error(invalid));
    EXPECT_EQ(Deadline(rule, "9223372036854775807", 1, 1), Error(invalid));
  }
  EXPECT_EQ(Deadline(kAnyDeadline, "0", 1000, 7), Number(7));
  EXPECT_EQ(Deadline(kAnyDeadline, "-3", 1000, 7), Number(-2993));
  EXPECT_EQ(Deadline(kNewDeadline, "0", 1000, 7), Error(invalid));
  EXPECT_EQ(Deadline(kNewDeadline, "-3", 1000, 7), Error(invalid));
  EXPECT_EQ(Deadline(kMemberDeadline, "0", 1000, 7), Number(7));
  EXPECT_EQ(Deadline(kMemberDeadline, "-3", 1000, 7),
            Error("ERR invalid expire time, must be >= 0"));
  EXPECT_EQ(Deadline(kMemberDeadline, "281474976710656", 1, 0), Number(int64_t{1} << 48));
  EXPECT_EQ(Deadline(kMemberDeadline, "281474976710657", 1, 0), Error(invalid));
  EXPECT_EQ(Deadline(kNewDeadline, "281474976710657", 1, 0), Number(281474976710657));
}

}  // namespace
}  // namespace dfly
