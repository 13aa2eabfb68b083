// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/types/bit_ops.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

class BitmapTest : public CommandsTest {
 protected:
  static constexpr std::string_view kBitOffset =
      "-ERR bit offset is not an integer or out of range";
  std::string Value(const std::string& key) { return Call({"get", key}).text; }
};

TEST_P(BitmapTest, BitsAreSetAndReadBack) {
  EXPECT_EQ(Run("setbit k 7 1"), ":0");
  EXPECT_EQ(Value("k"), "\x01");
  EXPECT_EQ(Run("setbit k 7 1"), ":1");
  EXPECT_EQ(Run("setbit k 7 0"), ":1");
  EXPECT_EQ(Run("setbit k 100 1"), ":0");
  EXPECT_EQ(Run("strlen k"), ":13");
  EXPECT_EQ(Run("setbit k 1000 0"), ":0");
  EXPECT_EQ(Run("strlen k"), ":126");
  EXPECT_EQ(Run("getbit k 100"), ":1");
  EXPECT_EQ(Run("getbit k 99"), ":0");
  EXPECT_EQ(Run("getbit k 4294967295"), ":0");
  EXPECT_EQ(Run("getbit missing 1"), ":0");
  EXPECT_EQ(Run("exists missing"), ":0");
}

TEST_P(BitmapTest, AnIntegerBecomesRawWhenABitIsSet) {
  Run("set n 12345");
  EXPECT_EQ(Run("getbit n 2"), ":1");
  EXPECT_EQ(Run("object encoding n"), "\"int\"");
  EXPECT_EQ(Run("setbit n 2 1"), ":1");
  EXPECT_EQ(Run("object encoding n"), "\"raw\"");
  EXPECT_EQ(Value("n"), "12345");
}

TEST_P(BitmapTest, OffsetsAndBitsAreChecked) {
  for (const char* offset : {"-1", "x", "4294967296", "9223372036854775808", "''", "#1"}) {
    EXPECT_EQ(Run("setbit k " + std::string(offset) + " 1"), kBitOffset);
    EXPECT_EQ(Run("getbit k " + std::string(offset)), kBitOffset);
  }
  constexpr std::string_view kBit = "-ERR bit is not an integer or out of range";
  for (const char* bit : {"2", "-1", "x", "''"}) {
    EXPECT_EQ(Run("setbit k 0 " + std::string(bit)), kBit);
  }
  EXPECT_EQ(Run("setbit k x y"), kBitOffset);
  EXPECT_EQ(Run("exists k"), ":0");
  MakeHash("h");
  for (const char* line :
       {"setbit h 0 1", "getbit h 0", "bitcount h", "bitpos h 1", "bitfield h get u8 0",
        "bitfield h set u8 0 1", "bitfield_ro h get u8 0", "bitop not t h"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
}

TEST_P(BitmapTest, CountsInBytesAndBits) {
  Run("set k foobar");
  EXPECT_EQ(Run("bitcount k"), ":26");
  EXPECT_EQ(Run("bitcount k 0 0"), ":4");
  EXPECT_EQ(Run("bitcount k 1 1 BYTE"), ":6");
  EXPECT_EQ(Run("bitcount k 5 30 bit"), ":17");
  EXPECT_EQ(Run("bitcount k -2 -1"), ":7");
  EXPECT_EQ(Run("bitcount k -1 -2"), ":0");
  EXPECT_EQ(Run("bitcount k 3 1"), ":0");
  EXPECT_EQ(Run("bitcount k -100 -1 BIT"), ":26");
  EXPECT_EQ(Run("bitcount k 9223372036854775807 9223372036854775807"), ":0");
  EXPECT_EQ(Run("bitcount k -9223372036854775808 9223372036854775807"), ":26");
  EXPECT_EQ(Run("bitcount missing"), ":0");
  EXPECT_EQ(Run("bitcount missing 0 -1"), ":0");
  EXPECT_EQ(Run("bitcount missing a b"), kNotInteger) << "since 7.2";
  EXPECT_EQ(Run("bitcount k 0"), kSyntaxError);
  EXPECT_EQ(Run("bitcount k 0 1 foo"), kSyntaxError);
  EXPECT_EQ(Run("bitcount k x 1 foo"), kNotInteger);
  EXPECT_EQ(Run("bitcount k 0 x foo"), kNotInteger);
  EXPECT_EQ(Run("bitcount k 0 1 BIT x"), kSyntaxError);
  Run("set e ''");
  EXPECT_EQ(Run("bitcount e"), ":0");
  EXPECT_EQ(Run("bitcount e 0 -1 BIT"), ":0");
}

TEST_P(BitmapTest, FindsBitsInBytesAndBits) {
  RunWords({"set", "k", std::string("\xff\xf0\x00", 3)});
  EXPECT_EQ(Run("bitpos k 0"), ":12");
  EXPECT_EQ(Run("bitpos k 1"), ":0");
  EXPECT_EQ(Run("bitpos k 1 2"), ":-1");
  EXPECT_EQ(Run("bitpos k 0 2"), ":16");
  EXPECT_EQ(Run("bitpos k 0 0 0"), ":-1");
  EXPECT_EQ(Run("bitpos k 0 5 11 BIT"), ":-1");
  EXPECT_EQ(Run("bitpos k 0 5 12 BIT"), ":12");
  EXPECT_EQ(Run("bitpos k 1 -2 -1 BYTE"), ":8");
  RunWords({"set", "ones", std::string(30, '\xff')});
  EXPECT_EQ(Run("bitpos ones 0"), ":240") << "the first zero behind it";
  EXPECT_EQ(Run("bitpos ones 0 5"), ":240");
  EXPECT_EQ(Run("bitpos ones 0 0 -1"), ":-1");
  EXPECT_EQ(Run("bitpos ones 0 100"), ":-1");
  EXPECT_EQ(Run("bitpos missing 0"), ":0");
  EXPECT_EQ(Run("bitpos missing 1"), ":-1");
  EXPECT_EQ(Run("bitpos missing 0 x"), kNotInteger) << "since 7.2";
  EXPECT_EQ(Run("bitpos k 2"), "-ERR The bit argument must be 1 or 0.");
  EXPECT_EQ(Run("bitpos k x"), kNotInteger);
  EXPECT_EQ(Run("bitpos k 1 0 x foo"), kSyntaxError);
  EXPECT_EQ(Run("bitpos k 1 x 0 foo"), kNotInteger);
  EXPECT_EQ(Run("bitpos k 1 0 1 BIT x"), kSyntaxError);
  Run("set e ''");
  EXPECT_EQ(Run("bitpos e 0"), ":-1");
}

TEST_P(BitmapTest, OperationsCombineKeysOfAnyShard) {
  Run("set a foof");
  for (const char* b : {"b", "c", "d", "e"}) {
    const std::string other(b);
    Run("set " + other + " foobar");
    for (const char* t : {"t", "u", "v", "a2"}) {
      const std::string target(t);
      Run("setex " + target + " 100 x");
      EXPECT_EQ(Run("bitop and " + target + " a " + other), ":6");
      EXPECT_EQ(Value(target), std::string("foob\0\0", 6));
      EXPECT_EQ(Run("ttl " + target), ":-1");
      EXPECT_EQ(Run("object encoding " + target), "\"raw\"");
      EXPECT_EQ(Run("bitop OR " + target + " a missing " + other), ":6");
      EXPECT_EQ(Value(target), "foofar");
      EXPECT_EQ(Run("bitop xor " + target + " a " + other + " a"), ":6");
      EXPECT_EQ(Value(target), "foobar");
      EXPECT_EQ(Run("bitop not " + target + " " + other), ":6");
      EXPECT_EQ(Value(target), "\x99\x90\x90\x9d\x9e\x8d");
      EXPECT_EQ(Run("bitop and " + target + " missing none"), ":0");
      EXPECT_EQ(Run("exists " + target), ":0") << "nothing removes the target";
    }
  }
}

TEST_P(BitmapTest, OperationsCheckTheirArgumentsAndTypes) {
  EXPECT_EQ(Run("bitop foo t a"), kSyntaxError);
  EXPECT_EQ(Run("bitop not t a b"), "-ERR BITOP NOT must be called with a single source key.");
  Run("set a v");
  Run("set t old");
  for (const char* h : {"h", "i", "j", "k"}) {
    MakeHash(h);
    for (const std::string& keys : {"a " + std::string(h), h + std::string(" a")}) {
      EXPECT_EQ(Run("bitop or t " + keys), kWrongType);
    }
    EXPECT_EQ(Run("bitop or " + std::string(h) + " a a"), ":1") << "the target may be anything";
    EXPECT_EQ(Run("type " + std::string(h)), "+string");
  }
  EXPECT_EQ(Value("t"), "old");
}

TEST_P(BitmapTest, FieldsAreReadSetAndIncremented) {
  EXPECT_EQ(Run("bitfield k"), "[]");
  EXPECT_EQ(Run("bitfield k get u8 0"), "[:0]");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("bitfield k set u8 0 255 get u8 0 incrby u8 0 1 get u8 0"), "[:0, :255, :0, :0]");
  EXPECT_EQ(Run("bitfield k set u8 #1 65 get u8 8"), "[:0, :65]");
  EXPECT_EQ(Run("strlen k"), ":2");
  EXPECT_EQ(Run("bitfield k overflow fail incrby u2 0 5 overflow sat incrby u2 0 5"),
            "[(nil), :3]");
  EXPECT_EQ(Run("bitfield k set i64 1 -1 get i64 1 get u63 2"),
            "[:-9186780289882390528, :-1, :9223372036854775807]");
  EXPECT_EQ(Run("bitfield_ro k get i5 3 GET u4 #0"), "[:-1, :15]");
  EXPECT_EQ(Run("bitfield_ro k set u8 0 1"), "-ERR BITFIELD_RO only supports the GET subcommand");
  EXPECT_EQ(Run("strlen k"), ":9");
  EXPECT_EQ(Run("bitfield g overflow fail set u8 80 256"), "[(nil)]");
  EXPECT_EQ(Run("strlen g"), ":11") << "the string grows even so";
}

TEST_P(BitmapTest, FieldsAreChecked) {
  constexpr std::string_view kType =
      "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but "
      "i64 is.";
  for (const char* type : {"u64", "i65", "u0", "i0", "8", "x8", "''", "u", "i-1", "u08"}) {
    EXPECT_EQ(Run("bitfield k get " + std::string(type) + " 0"), kType);
  }
  for (const char* offset : {"-1", "x", "#x", "##1", "4294967296", "#9223372036854775807", "''"}) {
    EXPECT_EQ(Run("bitfield k get u8 " + std::string(offset)), kBitOffset);
  }
  EXPECT_EQ(Run("bitfield k set u8 0 x"), kNotInteger);
  EXPECT_EQ(Run("bitfield k overflow foo"), "-ERR Invalid OVERFLOW type specified");
  EXPECT_EQ(Run("bitfield k get u8"), kSyntaxError);
  EXPECT_EQ(Run("bitfield k set u8 0"), kSyntaxError);
  EXPECT_EQ(Run("bitfield k set u8 0 1 foo"), kSyntaxError);
  EXPECT_EQ(Run("exists k"), ":0");
}

// In slices and in one step, as the last letter of the first key decides (DispatchForTest).
class LongBitmapTest : public BitmapTest {
 protected:
  static constexpr size_t kBytes = (5 << 19) + 3;  // several slices of whatever size

  std::string Random(size_t bytes) {
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random_.Uniform(256));
    return text;
  }
  void Store(const std::string& key, const std::string& text) {
    ASSERT_EQ(RunWords({"set", key, text}), "+OK");
  }
  helio::Random random_{7};
};

TEST_P(LongBitmapTest, OperationsInSlicesMakeTheSame) {
  const std::string a = Random(kBytes), b = Random(kBytes / 2), c = Random(kBytes / 5);
  for (const auto& [key, text] : {std::pair("{t}a", a), {"{t}b", b}, {"{t}c", c}}) {
    Store(key, text);
    Store(key + 3, text);  // in whatever shard
  }
  for (const char* operation : {"and", "or", "xor", "diff", "diff1", "andor", "one"}) {
    for (const std::vector<std::string>& keys :
         {std::vector<std::string>{"a", "b", "c"}, {"c", "none", "b"}, {"b", "c", "b", "a"}}) {
      for (const std::string& tag : {std::string("{t}"), std::string()}) {
        std::vector<std::string> words = {"bitop", operation, "{t}2"};
        for (const std::string& key : keys) words.push_back(tag + key);
        const std::string reply = RunWords(words);
        words[2] = "{t}1";
        EXPECT_EQ(RunWords(words), reply);
        const std::string brief = Value("{t}2");
        EXPECT_EQ(reply, ":" + std::to_string(brief.size()));
        EXPECT_TRUE(Value("{t}1") == brief) << operation;
        for (size_t i = 0; i < brief.size(); i += 997) {
          int ones = 0, first = 0;
          bool all = true;
          for (size_t k = 0; k < keys.size(); ++k) {
            const std::string& text = keys[k] == "a" ? a : keys[k] == "b" ? b : c;
            const int bit = keys[k] != "none" && i < text.size() ? text[i] & 1 : 0;
            if (k == 0) first = bit;
            ones += bit;
            all &= bit == 1;
          }
          const bool others = ones > first;
          const std::string_view op = operation;
          const bool expected = op == "and"     ? all
                                : op == "or"    ? ones > 0
                                : op == "xor"   ? ones % 2 == 1
                                : op == "diff"  ? first == 1 && !others
                                : op == "diff1" ? first == 0 && others
                                : op == "andor" ? first == 1 && others
                                                : ones == 1;
          ASSERT_EQ(brief[i] & 1, expected ? 1 : 0) << operation << " at " << i;
        }
      }
    }
  }
  for (const char* target : {"{t}1", "{t}2"}) {
    EXPECT_EQ(RunWords({"bitop", "not", target, "{t}a"}), ":" + std::to_string(kBytes));
    std::string inverse = a;
    for (char& byte : inverse) byte = static_cast<char>(~byte);
    EXPECT_TRUE(Value(target) == inverse);
    EXPECT_EQ(Run("object encoding " + std::string(target)), "\"raw\"");
  }
}

TEST_P(LongBitmapTest, CountsInSlicesAreTheSame) {
  const std::string text = Random(kBytes);
  Store("k1", text);
  Store("k2", text);
  for (const char* range : {"", " 0 -1", " 5 -5", " 100 3000000", " 1048576 1048577", " -1 -2",
                            " 3 20000000 BIT", " -2000000 -9 BIT", " 8388607 8388608 BIT"}) {
    EXPECT_EQ(Run("bitcount k1" + std::string(range)), Run("bitcount k2" + std::string(range)));
  }
  size_t ones = 0;
  for (char c : text) ones += static_cast<size_t>(__builtin_popcount(static_cast<uint8_t>(c)));
  EXPECT_EQ(Run("bitcount k1"), ":" + std::to_string(ones));
}

TEST_P(LongBitmapTest, BitsAreFoundInWhateverSlice) {
  for (size_t at : {size_t{0}, size_t{1} << 20, (size_t{1} << 21) - 1, kBytes - 1}) {
    for (const bool bit : {false, true}) {
      std::string text(kBytes, bit ? '\0' : '\xff');
      text[at] = bit ? '\x01' : '\xfe';
      const std::string found = ":" + std::to_string(at * 8 + 7);
      for (const std::string& key : {std::string("k1"), std::string("k2")}) {
        Store(key, text);
        const std::string find = "bitpos " + key + (bit ? " 1" : " 0");
        EXPECT_EQ(Run(find), found);
        EXPECT_EQ(Run(find + " 0 -1"), found);
        EXPECT_EQ(Run(find + " -1"), at == kBytes - 1 ? found
                                     : bit            ? ":-1"
                                                      : ":" + std::to_string(kBytes * 8));
        EXPECT_EQ(Run(find + " 0 " + std::to_string(at * 8 + 6) + " BIT"), ":-1");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, BitmapTest, testing::Values(1, 4));
INSTANTIATE_TEST_SUITE_P(Shards, LongBitmapTest, testing::Values(1, 4));

// Strings of at most 2000 bytes.
class SmallBitmapTest : public CommandsTest {
 protected:
  SmallBitmapTest() : CommandsTest(2000) {}
};

TEST_P(SmallBitmapTest, TheLimitOfStringsIsThatOfOffsets) {
  EXPECT_EQ(Run("setbit k 15999 1"), ":0");
  EXPECT_EQ(Run("strlen k"), ":2000");
  EXPECT_EQ(Run("setbit k 16000 1"), "-ERR bit offset is not an integer or out of range");
  EXPECT_EQ(Run("getbit k 16000"), "-ERR bit offset is not an integer or out of range");
  EXPECT_EQ(Run("bitfield k set u8 15999 1"), "[:128]") << "where a field begins counts";
  EXPECT_EQ(Run("strlen k"), ":2001");
}

TEST_P(BitmapTest, OperationsOfRedis8SetTheFirstKeyApart) {
  Run("set x abc");
  Run("set y1 a");
  Run("set y2 bbbbb");
  EXPECT_EQ(Run("bitop diff d x y1 y2"), ":5");
  EXPECT_EQ(Call({"get", "d"}).text, std::string("\0\0\1\0\0", 5));
  EXPECT_EQ(Run("bitop DIFF1 d x y1 y2"), ":5");
  EXPECT_EQ(Call({"get", "d"}).text, std::string("\2\0\0bb", 5));
  EXPECT_EQ(Run("bitop andor d x y1 y2"), ":5");
  EXPECT_EQ(Call({"get", "d"}).text, std::string("abb\0\0", 5));
  EXPECT_EQ(Run("bitop one d x y1 y2"), ":5");
  EXPECT_EQ(Call({"get", "d"}).text, std::string("\2\0\1bb", 5));
  // A key that is absent is empty, and one that comes twice counts twice.
  EXPECT_EQ(Run("bitop diff d none x"), ":3");
  EXPECT_EQ(Call({"get", "d"}).text, std::string(3, '\0'));
  EXPECT_EQ(Run("bitop one d x x"), ":3");
  EXPECT_EQ(Call({"get", "d"}).text, std::string(3, '\0'));
  EXPECT_EQ(Run("bitop one d x"), ":3");
  EXPECT_EQ(Run("get d"), "\"abc\"");
  EXPECT_EQ(Run("bitop andor d none none"), ":0");
  EXPECT_EQ(Run("exists d"), ":0");
  EXPECT_EQ(Run("bitop diff x x y1"), ":3");  // the target is a source
  EXPECT_EQ(Call({"get", "x"}).text, std::string("\0bc", 3));
}

TEST_P(BitmapTest, OperationsOfRedis8RefuseOneKeyAndOtherTypes) {
  Run("set x a");
  for (std::string_view name : {"DIFF", "DIFF1", "ANDOR"}) {
    const std::string operation(name);
    EXPECT_EQ(Run("bitop " + operation + " d x"),
              "-ERR BITOP " + operation + " must be called with at least two source keys.");
  }
  MakeHash("h");
  for (std::string_view rest : {"diff d h x", "diff1 d x h", "andor d x x h", "one d h"}) {
    EXPECT_EQ(Run("bitop " + std::string(rest)), kWrongType) << rest;
  }
  EXPECT_EQ(Run("exists d"), ":0");
}

TEST_P(BitmapTest, TheirEffectIsTheResult) {
  Run("set x abc");
  Run("set y b");
  Effects();
  Run("bitop diff d x y");
  EXPECT_THAT(Effects(), testing::ElementsAre("0 SET d " + std::string("\1bc", 3)));
  Run("bitop one d none");
  EXPECT_THAT(Effects(), testing::ElementsAre("0 DEL d"));
  Run("bitop or d x y");
  EXPECT_THAT(Effects(), testing::ElementsAre("0 bitop or d x y"));
}

INSTANTIATE_TEST_SUITE_P(Shards, SmallBitmapTest, testing::Values(1));

}  // namespace
}  // namespace dfly
