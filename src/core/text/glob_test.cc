// SPDX-License-Identifier: Apache-2.0
#include "core/text/glob.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "helio/base/test_seed.h"

namespace dfly {
namespace {

TEST(GlobTest, MatchesLiteralsAndWildcards) {
  EXPECT_TRUE(GlobMatch("", ""));
  EXPECT_FALSE(GlobMatch("", "a"));
  EXPECT_FALSE(GlobMatch("a", ""));
  EXPECT_TRUE(GlobMatch("*", ""));
  EXPECT_TRUE(GlobMatch("**", "anything"));
  EXPECT_TRUE(GlobMatch("h?llo", "hello"));
  EXPECT_FALSE(GlobMatch("h?llo", "hllo"));
  EXPECT_TRUE(GlobMatch("h*llo", "heeeello"));
  EXPECT_TRUE(GlobMatch("user:*:name", "user:1:2:name"));
  EXPECT_FALSE(GlobMatch("user:*:name", "user:1:names"));
  EXPECT_TRUE(GlobMatch("*foo*", "a foo"));
}

TEST(GlobTest, MatchesClasses) {
  EXPECT_TRUE(GlobMatch("h[ae]llo", "hallo"));
  EXPECT_FALSE(GlobMatch("h[ae]llo", "hillo"));
  EXPECT_TRUE(GlobMatch("h[^e]llo", "hallo"));
  EXPECT_FALSE(GlobMatch("h[^e]llo", "hello"));
  EXPECT_TRUE(GlobMatch("h[a-c]llo", "hbllo"));
  EXPECT_TRUE(GlobMatch("h[c-a]llo", "hbllo"));  // a reversed range is put right
  EXPECT_FALSE(GlobMatch("h[a-c]llo", "hdllo"));
  EXPECT_TRUE(GlobMatch("[\\]]", "]"));
  EXPECT_TRUE(GlobMatch("[a-", "a"));
  EXPECT_TRUE(GlobMatch("[abc", "b"));
  EXPECT_FALSE(GlobMatch("[]", "]"));
  EXPECT_TRUE(GlobMatch("*[0-9]", "abc7"));
  EXPECT_FALSE(GlobMatch("[", "a"));
}

TEST(GlobTest, BackslashTakesTheNextCharacterAsItIs) {
  EXPECT_TRUE(GlobMatch("h\\*llo", "h*llo"));
  EXPECT_FALSE(GlobMatch("h\\*llo", "hello"));
  EXPECT_TRUE(GlobMatch("a\\", "a\\"));
  EXPECT_TRUE(GlobMatch("\\\\", "\\"));
}

TEST(GlobTest, IgnoresCaseOnRequest) {
  EXPECT_FALSE(GlobMatch("MAX*", "maxmemory"));
  EXPECT_TRUE(GlobMatch("MAX*", "maxmemory", GlobCase::kIgnore));
  EXPECT_TRUE(GlobMatch("[A-C]x", "bX", GlobCase::kIgnore));
}

TEST(GlobTest, HostilePatternsCostLittle) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  pattern += "*b";
  EXPECT_FALSE(GlobMatch(pattern, std::string(2000, 'a')));
}

// The definition, written down without any thought for speed.
bool Slow(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t i = 0; i <= text.size(); ++i) {
      if (Slow(pattern.substr(1), text.substr(i))) return true;
    }
    return false;
  }
  if (text.empty()) return false;
  return (pattern[0] == '?' || pattern[0] == text[0]) && Slow(pattern.substr(1), text.substr(1));
}

TEST(GlobTest, AgreesWithTheDefinition) {
  std::mt19937_64 random(helio::TestSeed());
  for (int i = 0; i < 50000; ++i) {
    std::string pattern, text;
    for (size_t n = random() % 8; n > 0; --n) pattern += "ab*?"[random() % 4];
    for (size_t n = random() % 8; n > 0; --n) text += "ab"[random() % 2];
    ASSERT_EQ(GlobMatch(pattern, text), Slow(pattern, text)) << pattern << " " << text;
  }
}

}  // namespace
}  // namespace dfly
