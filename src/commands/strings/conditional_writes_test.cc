// SPDX-License-Identifier: Apache-2.0
// SET with IFEQ, IFNE, IFDEQ and IFDNE; DELEX, DELIFEQ, DIGEST.
#include <gmock/gmock.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

using testing::ElementsAre;

class ConditionalWritesTest : public CommandsTest {
 protected:
  static constexpr std::string_view kBadDigest = "-ERR must be exactly 16 hexadecimal characters";

  std::string DigestOf(const std::string& key) { return Call({"digest", key}).text; }
  static std::string InUpperCase(std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
  }
};

TEST_P(ConditionalWritesTest, DigestIsThatOfXxh3) {
  EXPECT_EQ(Run("digest k"), "(nil)");
  RunWords({"set", "k", "Hello world"});
  EXPECT_EQ(Run("digest k"), "\"b6acb9d84a38ff74\"");
  RunWords(
      {"set", "k",
       "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj76"
       "26sd"});
  EXPECT_EQ(Run("digest k"), "\"00006c38adf31777\"");
  Run("set k 17");
  const std::string of_number = Run("digest k");
  Run("set k 1");
  Run("append k 7");
  EXPECT_EQ(Run("digest k"), of_number);
  Run("set k ''");
  EXPECT_EQ(Run("digest k"), "\"2d06800538d394c2\"");
  MakeHash("h");
  EXPECT_EQ(Run("digest h"), kWrongType);
  EXPECT_EQ(Run("digest"), "-ERR wrong number of arguments for 'digest' command");
}

TEST_P(ConditionalWritesTest, SetComparesTheString) {
  EXPECT_EQ(Run("set k v ifeq v"), "(nil)");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("set k v ifne v"), "+OK");
  EXPECT_EQ(Run("set k w IFNE v"), "(nil)");
  EXPECT_EQ(Run("set k w IfEq x"), "(nil)");
  EXPECT_EQ(Run("get k"), "\"v\"");
  EXPECT_EQ(Run("set k w ifeq v"), "+OK");
  EXPECT_EQ(Run("set k 17 ifne v"), "+OK");
  EXPECT_EQ(Run("set k 18 ifeq 17"), "+OK");
  EXPECT_EQ(Run("set k '' ifeq 18"), "+OK");
  EXPECT_EQ(Run("set k x ifeq ''"), "+OK");
  EXPECT_EQ(Run("get k"), "\"x\"");
}

TEST_P(ConditionalWritesTest, SetComparesTheDigest) {
  EXPECT_EQ(Run("set k v ifdeq 0123456789abcdef"), "(nil)");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("set k v ifdne 0123456789abcdef"), "+OK");
  const std::string digest = DigestOf("k");
  EXPECT_EQ(RunWords({"set", "k", "w", "ifdne", digest}), "(nil)");
  EXPECT_EQ(RunWords({"set", "k", "w", "ifdne", InUpperCase(digest)}), "(nil)");
  EXPECT_EQ(RunWords({"set", "k", "w", "IFDEQ", InUpperCase(digest)}), "+OK");
  EXPECT_EQ(RunWords({"set", "k", "x", "IFDEQ", digest}), "(nil)");
  EXPECT_EQ(Run("get k"), "\"w\"");
  for (std::string_view bad : {"", "123", "0123456789abcdef0", "0123456789abcdeg"}) {
    for (std::string_view option : {"ifdeq", "ifdne"}) {
      EXPECT_EQ(RunWords({"set", "k", "x", std::string(option), std::string(bad)}), kBadDigest);
      EXPECT_EQ(RunWords({"delex", "k", std::string(option), std::string(bad)}), kBadDigest);
    }
  }
  EXPECT_EQ(Run("get k"), "\"w\"");
}

TEST_P(ConditionalWritesTest, SetGetRepliesTheOldStringWhateverTheConditionSays) {
  EXPECT_EQ(Run("set k a ifeq a get"), "(nil)");
  EXPECT_EQ(Run("set k a get ifne a"), "(nil)");
  EXPECT_EQ(Run("set k b ifeq x get"), "\"a\"");
  EXPECT_EQ(Run("set k b get ifeq a"), "\"a\"");
  EXPECT_EQ(Run("get k"), "\"b\"");
}

TEST_P(ConditionalWritesTest, SetTakesOneCondition) {
  Run("set k v");
  for (std::string_view options :
       {"ifeq", "ifne", "ifdeq", "ifeq v ifeq v", "ifeq v ifne w", "nx ifeq v", "ifeq v nx",
        "xx ifeq v", "ifeq v xx", "ifeq v ifdeq 0123456789abcdef", "ifeq v what"}) {
    EXPECT_EQ(Run("set k w " + std::string(options)), kSyntaxError) << options;
  }
  EXPECT_EQ(Run("getex k ifeq v"), kSyntaxError);
  EXPECT_EQ(Run("get k"), "\"v\"");
  // An operand is no option.
  EXPECT_EQ(Run("set k w ifeq nx"), "(nil)");
  EXPECT_EQ(Run("set k w ifeq ifeq ex 10"), "(nil)");
}

TEST_P(ConditionalWritesTest, DeadlinesGoWithTheString) {
  Run("set k a ex 100");
  EXPECT_EQ(Run("set k b ifeq x ex 200"), "(nil)");
  EXPECT_EQ(Run("ttl k"), ":100");
  EXPECT_EQ(Run("set k b ifeq a ex 200"), "+OK");
  EXPECT_EQ(Run("ttl k"), ":200");
  EXPECT_EQ(Run("set k c keepttl ifeq b"), "+OK");
  EXPECT_EQ(Run("ttl k"), ":200");
  EXPECT_EQ(Run("set k d ifeq c"), "+OK");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("set k e ifeq x ex 0"), "-ERR invalid expire time in 'set' command");
  EXPECT_EQ(Run("set k e ifeq d pxat 1"), "+OK");
  EXPECT_EQ(Run("exists k"), ":0");
}

TEST_P(ConditionalWritesTest, SetComparesNoOtherType) {
  MakeHash("h");
  for (std::string_view condition :
       {"ifeq v", "ifne v", "ifdeq 0123456789abcdef", "ifdne 0123456789abcdef", "ifeq v get"}) {
    EXPECT_EQ(Run("set h w " + std::string(condition)), kWrongType) << condition;
  }
  EXPECT_EQ(Run("hget h field"), "\"value\"");
}

TEST_P(ConditionalWritesTest, ItsEffectIsAPlainSet) {
  Run("set k v");
  Effects();
  Run("set k w ifeq v");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k w"));
  Run("set k x ifne v keepttl");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k x KEEPTTL"));
  Run("set k y ifeq x get");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k y"));
  Run("set k z ifeq y pxat 1800000000000");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k z PXAT 1800000000000"));
  Run("set k v ifeq other");
  EXPECT_THAT(Effects(), ElementsAre());
}

TEST_P(ConditionalWritesTest, DelExDeletesWhatIsAsExpected) {
  EXPECT_EQ(Run("delex k ifeq v"), ":0");
  EXPECT_EQ(Run("delex k ifne v"), ":0");
  EXPECT_EQ(Run("delex k"), ":0");
  Run("set k v");
  EXPECT_EQ(Run("delex k ifeq w"), ":0");
  EXPECT_EQ(Run("delex k ifne v"), ":0");
  EXPECT_EQ(Run("delex k IFEQ v"), ":1");
  EXPECT_EQ(Run("exists k"), ":0");
  Run("set k 17");
  EXPECT_EQ(Run("delex k ifne 18"), ":1");
  Run("set k v");
  const std::string digest = DigestOf("k");
  EXPECT_EQ(RunWords({"delex", "k", "ifdne", digest}), ":0");
  EXPECT_EQ(Run("delex k ifdeq 0123456789abcdef"), ":0");
  EXPECT_EQ(RunWords({"delex", "k", "ifdeq", InUpperCase(digest)}), ":1");
  Run("set k v");
  EXPECT_EQ(Run("delex k ifdne 0123456789abcdef"), ":1");
  Run("set k v");
  EXPECT_EQ(Run("delex k"), ":1");
  EXPECT_EQ(Run("exists k"), ":0");
}

TEST_P(ConditionalWritesTest, DelExRefusesOtherTypesOnlyWithACondition) {
  MakeHash("h");
  EXPECT_EQ(Run("delex h ifeq v"), kWrongType);
  EXPECT_EQ(Run("delex h ifdne 0123456789abcdef"), kWrongType);
  EXPECT_EQ(Run("exists h"), ":1");
  EXPECT_EQ(Run("delex h"), ":1");
  EXPECT_EQ(Run("exists h"), ":0");
}

TEST_P(ConditionalWritesTest, DelExTakesOneCondition) {
  Run("set k v");
  EXPECT_EQ(Run("delex k ifeq"), "-ERR wrong number of arguments for 'delex' command");
  EXPECT_EQ(Run("delex k ifeq v ifeq"), "-ERR wrong number of arguments for 'delex' command");
  EXPECT_EQ(Run("delex"), "-ERR wrong number of arguments for 'delex' command");
  EXPECT_EQ(Run("delex k nx v"), kSyntaxError);
  EXPECT_EQ(Run("get k"), "\"v\"");
}

TEST_P(ConditionalWritesTest, DelIfEqIsDelExWithIfEq) {
  EXPECT_EQ(Run("delifeq k v"), ":0");
  Run("set k v");
  EXPECT_EQ(Run("delifeq k w"), ":0");
  EXPECT_EQ(Run("delifeq k v"), ":1");
  EXPECT_EQ(Run("exists k"), ":0");
  MakeHash("h");
  EXPECT_EQ(Run("delifeq h v"), kWrongType);
  EXPECT_EQ(Run("delifeq k"), "-ERR wrong number of arguments for 'delifeq' command");
}

TEST_P(ConditionalWritesTest, TheEffectOfADeletionIsDel) {
  for (std::string_view line : {"delex k", "delex k ifeq v", "delifeq k v"}) {
    Run("set k v");
    Effects();
    EXPECT_EQ(Run(line), ":1");
    EXPECT_THAT(Effects(), ElementsAre("0 DEL k")) << line;
    EXPECT_EQ(Run(line), ":0");
    EXPECT_THAT(Effects(), ElementsAre()) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ConditionalWritesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
