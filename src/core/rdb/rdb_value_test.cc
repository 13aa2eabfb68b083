// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/rdb/foreign_entries_testing.h"
#include "core/rdb/rdb_value_testing.h"

namespace dfly {
namespace {

using testkit::Blob;
using testkit::IdBytes;
using testkit::kNode;
using testkit::Listpack;
using testkit::Node;
using testkit::StreamParts;
using testkit::Texts;
using testkit::TimeBytes;

// Of texts as they stand in old formats: a number of them, and then they.
std::string Strings(uint64_t count, const Texts& texts) {
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter writer(&sink);
  writer.Length(count);
  for (const std::string& text : texts) writer.String(text);
  writer.Flush();
  return bytes;
}

class RdbValueTest : public testing::Test, protected testkit::RdbValues {
 protected:
  static void SetUpTestSuite() { testkit::RegisterRdbTypes(); }

  RdbRead ReadAny(RdbType type, std::string_view bytes, CompactValue* value,
                  size_t left = 0) const {
    ViewSource source(bytes);
    const RdbRead read = ReadRdbValue(static_cast<uint8_t>(type), limits_, &source, value);
    if (read != RdbRead::kDamaged) {
      EXPECT_EQ(source.left(), left);
    }
    return read;
  }
  bool Read(RdbType type, std::string_view bytes, CompactValue* value, size_t left = 0) const {
    return ReadAny(type, bytes, value, left) == RdbRead::kValue;
  }
  // What is read is what was written; also in a database with other limits.
  void CheckRoundTrip(CompactValue value, RdbType expected) {
    const auto [type, bytes] = testkit::WriteRdb(value);
    EXPECT_EQ(type, expected);
    CompactValue back;
    ASSERT_TRUE(Read(type, bytes, &back));
    EXPECT_EQ(testkit::ContentOf(back), testkit::ContentOf(value));
    EXPECT_EQ(back.type(), value.type());
    if (!value.is_string() && value.type() != ValueType::kList) {
      EXPECT_EQ(back.object_encoding(), value.object_encoding());
    }
    CompactValue expanded;
    const auto [same_type, compressed] = testkit::WriteRdb(value, RdbWriter::Compression::kLzf);
    EXPECT_LE(compressed.size(), bytes.size());
    ASSERT_TRUE(Read(type, compressed, &expanded));
    EXPECT_EQ(testkit::ContentOf(expanded), testkit::ContentOf(value));
    const RdbLimits usual = limits_;
    limits_.list.bytes = 100;
    limits_.set = {.integers = 2, .packed = {.entries = 1, .element_bytes = 1}};
    limits_.zset = limits_.hash = {.entries = 1, .element_bytes = 1};
    CompactValue other;
    EXPECT_TRUE(Read(type, bytes, &other));
    EXPECT_EQ(testkit::ContentOf(other), testkit::ContentOf(value));
    limits_ = usual;
    for (size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 200) {
      EXPECT_FALSE(Read(type, std::string_view(bytes).substr(0, cut), &other)) << cut;
    }
  }
};

TEST_F(RdbValueTest, StringsComeBack) {
  for (const char* text : {"", "a", "12345", "-1", "9223372036854775807"}) {
    CheckRoundTrip(CompactValue(text), RdbType::kString);
  }
  CheckRoundTrip(CompactValue(std::string(100'000, 'x')), RdbType::kString);
}

TEST_F(RdbValueTest, ListsComeBackWhateverTheirSize) {
  CheckRoundTrip(MakeList({"a"}), RdbType::kListQuicklist2);
  CheckRoundTrip(MakeList({"a", "1", "", "-5", "1000000000000"}), RdbType::kListQuicklist2);
  Texts many;
  for (int i = 0; i < 5000; ++i)
    many.push_back(i % 2 ? std::to_string(i) : "e" + std::to_string(i));
  for (size_t size : {8180, 8191, 8192, 8193, 50'000})
    many.insert(many.begin() + 100, std::string(size, 'x'));
  CheckRoundTrip(MakeList(many), RdbType::kListQuicklist2);
}

TEST_F(RdbValueTest, SetsComeBackWithTheirEncoding) {
  CheckRoundTrip(MakeSet({"1", "-2", "3"}), RdbType::kSetIntset);
  CheckRoundTrip(MakeSet({"1", "-70000", "3"}), RdbType::kSetIntset);
  CheckRoundTrip(MakeSet({"9223372036854775807", "-9223372036854775808"}), RdbType::kSetIntset);
  CheckRoundTrip(MakeSet({"1", "a", ""}), RdbType::kSet);
  for (int count : {128, 129, 512, 513}) {
    Texts numbers, texts;
    for (int i = 0; i < count; ++i) {
      numbers.push_back(std::to_string(i));
      texts.push_back("m" + std::to_string(i));
    }
    CheckRoundTrip(MakeSet(numbers), count <= 512 ? RdbType::kSetIntset : RdbType::kSet);
    CheckRoundTrip(MakeSet(texts), RdbType::kSet);
  }
}

TEST_F(RdbValueTest, SortedSetsComeBackWithTheirEncoding) {
  CheckRoundTrip(MakeZset({{"a", 1}, {"b", -1.5}, {"c", INFINITY}, {"", -INFINITY}, {"5", 1e300}}),
                 RdbType::kZsetListpack);
  for (int count : {128, 129}) {
    std::vector<std::pair<std::string, double>> pairs;
    for (int i = 0; i < count; ++i) pairs.emplace_back("m" + std::to_string(i), i * 0.37 - 10);
    CheckRoundTrip(MakeZset(pairs), count == 128 ? RdbType::kZsetListpack : RdbType::kZset2);
  }
  CheckRoundTrip(MakeZset({{std::string(65, 'x'), -0.0}}), RdbType::kZset2);
}

TEST_F(RdbValueTest, HashesComeBackWithTheirEncoding) {
  CheckRoundTrip(MakeHash({{"a", "1"}, {"2", "b"}, {"", ""}}), RdbType::kHashListpack);
  for (int count : {512, 513}) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (int i = 0; i < count; ++i) pairs.emplace_back("f" + std::to_string(i), std::to_string(i));
    CheckRoundTrip(MakeHash(pairs), count == 512 ? RdbType::kHashListpack : RdbType::kHash);
  }
  CheckRoundTrip(MakeHash({{"f", std::string(65, 'x')}}), RdbType::kHash);
}

TEST_F(RdbValueTest, WhatRedisServerHasNoWordsForIsToldApart) {
  CompactValue value = MakeHash({{"a", "1"}});
  HashValue(&value).SetDeadline("a", 1'000'000);
  EXPECT_EQ(RdbTypeOf(value), std::nullopt);
  EXPECT_EQ(DflyTypeOf(value), RdbType::kHashMetadata);
  HashValue(&value).ClearDeadline("a");
  EXPECT_EQ(RdbTypeOf(value), RdbType::kHash);
  EXPECT_EQ(RdbTypeOf(MakeSetWithDeadlines({"a"}, 1)), std::nullopt);
  EXPECT_EQ(RdbTypeOf(MakeBloomFilter({}, 1, true)), std::nullopt);
  EXPECT_EQ(RdbTypeOf(MakeCountMinSketch({}, 1)), std::nullopt);
  EXPECT_EQ(RdbTypeOf(MakeTopK({}, 1)), std::nullopt);
  EXPECT_EQ(RdbTypeOf(MakeJson("1")), std::nullopt);
  EXPECT_TRUE(IsPrivate(RdbType::kSetMetadata));
  EXPECT_FALSE(IsPrivate(RdbType::kHashMetadata));
}

TEST_F(RdbValueTest, DeadlinesOfMembersComeBack) {
  constexpr int64_t kLatest = HashValue::Table::kDeadlineMax;
  for (int64_t at_ms : {int64_t{0}, int64_t{1'700'000'000'000}, kLatest}) {
    CheckRoundTrip(MakeHashWithDeadlines({{"a", "1"}}, at_ms), RdbType::kHashMetadata);
    CheckRoundTrip(MakeSetWithDeadlines({"7"}, at_ms), RdbType::kSetMetadata);
  }
  Texts members;
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < 1000; ++i) {
    members.push_back(i % 3 ? std::to_string(i) : "m" + std::to_string(i));
    pairs.emplace_back(members.back(), std::string(i % 100, 'x'));
  }
  CheckRoundTrip(MakeHashWithDeadlines(pairs, kLatest - 1000), RdbType::kHashMetadata);
  CheckRoundTrip(MakeSetWithDeadlines(members, kLatest - 1000), RdbType::kSetMetadata);
}

TEST_F(RdbValueTest, DueMembersAreLeftOutIfTheClockIsTold) {
  CompactValue hash = MakeHashWithDeadlines({{"a", "1"}, {"b", "2"}, {"c", "3"}}, 1000);
  CompactValue set = MakeSetWithDeadlines({"a", "b", "c"}, 1000);  // "c" is due two later
  const auto written = [this](const CompactValue& value, RdbType type, int64_t now_ms) {
    std::string bytes;
    StringSink sink(&bytes);
    RdbWriter writer(&sink);
    WriteRdbValue(value, type, &writer, now_ms);
    writer.Flush();
    CompactValue back;
    EXPECT_TRUE(Read(type, bytes, &back));
    return testkit::ContentOf(back);
  };
  EXPECT_EQ(written(hash, RdbType::kHash, 0), (Texts{"a=1", "b=2", "c=3"}));
  EXPECT_EQ(written(hash, RdbType::kHash, 1001), (Texts{"b=2", "c=3"}));
  EXPECT_EQ(written(hash, RdbType::kHashMetadata, 1001), (Texts{"b=2", "c=3 until 1002"}));
  EXPECT_EQ(written(hash, RdbType::kHashMetadata, 1003), (Texts{"b=2"}));
  EXPECT_EQ(written(set, RdbType::kSet, 0), (Texts{"a", "b", "c"}));
  EXPECT_EQ(written(set, RdbType::kSet, 1001), (Texts{"b", "c"}));
  EXPECT_EQ(written(set, RdbType::kSetMetadata, 1001), (Texts{"b", "c until 1002"}));
}

TEST_F(RdbValueTest, ProbabilisticValuesComeBack) {
  Texts items;
  for (int i = 0; i < 300; ++i) items.push_back("item" + std::to_string(i % 170));
  items.emplace_back();
  for (const Texts& some : {Texts(), Texts{"a"}, items}) {
    for (const bool scales : {false, true}) {
      CheckRoundTrip(MakeBloomFilter(some, 20, scales), RdbType::kBloomFilter);
    }
    CheckRoundTrip(MakeCountMinSketch(some, 50), RdbType::kCountMinSketch);
    CheckRoundTrip(MakeTopK(some, 10), RdbType::kTopK);
    CheckRoundTrip(MakeTopK(some, 500), RdbType::kTopK);
  }
  CheckRoundTrip(MakeBloomFilter({"a"}, 200'000, true), RdbType::kBloomFilter);  // several pieces
  CheckRoundTrip(MakeCountMinSketch({"a"}, 10'000), RdbType::kCountMinSketch);
  CheckRoundTrip(MakeTopK({"a"}, 3'000), RdbType::kTopK);
}

TEST_F(RdbValueTest, JsonComesBack) {
  for (const char* text :
       {"null", "true", "[]", "{}", "1", "-9223372036854775808", "18446744073709551615", "0.1",
        "\"\"", "\"123\"", R"({"a":[1,{"b":2.5}],"a long name":"a text of many bytes","":-0.0})"}) {
    CheckRoundTrip(MakeJson(text), RdbType::kJson);
  }
  std::string many = "{\"0\":0";
  for (int i = 1; i < 10'000; ++i)
    many += ",\"" + std::to_string(i) + "\":" + std::to_string(i * 0.37);
  CheckRoundTrip(MakeJson(many + "}"), RdbType::kJson);
  for (size_t i = 0; i < kJsonFloats; ++i) {
    const auto type = static_cast<JsonFloat>(i);
    CompactValue value = MakeJson("{\"a\":[[0.1,1],[0.2,2]],\"b\":[3.5]}", type);
    auto& doc = *static_cast<JsonDoc*>(value.object());
    doc.Unpack(JsonDoc::Find(doc.root(), "b"));
    CheckRoundTrip(std::move(value), RdbType::kJson);
  }
  CheckRoundTrip(MakeJson(std::string(1000, '[') + std::string(1000, ']')), RdbType::kJson);
}

TEST_F(RdbValueTest, JsonThatMakesNoSenseIsRefused) {
  const auto refuses = [this](const std::string& bytes) {
    CompactValue value;
    return !Read(RdbType::kJson, bytes, &value);
  };
  const std::string number(8, '\1');
  EXPECT_FALSE(refuses("\3" + number));
  EXPECT_FALSE(refuses(std::string("\7\2\1\2", 4)));
  EXPECT_FALSE(refuses("\x8\1\6" + Blob("a") + "\2"));
  EXPECT_TRUE(refuses(""));
  EXPECT_TRUE(refuses("\xD"));
  EXPECT_FALSE(refuses("\x9" + std::string("\0", 1) + Blob("\1\1\1\1")));
  EXPECT_FALSE(refuses("\xA\1\1"));
  EXPECT_TRUE(refuses("\x9"));
  EXPECT_TRUE(refuses("\x9\4" + Blob("\1\1\1\1")));  // no type
  EXPECT_TRUE(refuses("\x9\1" + Blob("")));
  EXPECT_TRUE(refuses("\x9\1" + Blob("\1\1\1")));    // half a number
  EXPECT_TRUE(refuses("\x9\1" + Blob("\x80\x7F")));  // infinity
  EXPECT_TRUE(refuses("\xA\1"));
  EXPECT_TRUE(refuses(std::string("\xA\0\x7C", 3)));
  EXPECT_TRUE(refuses("\3\1"));
  EXPECT_TRUE(refuses("\6" + Blob("\xff"))) << "no UTF-8";
  EXPECT_TRUE(refuses("\5" + std::string(6, '\0') + "\xf0\x7f")) << "infinite";
  EXPECT_TRUE(refuses("\7\2\1")) << "an element is missing";
  EXPECT_TRUE(refuses("\7\x81" + std::string(8, '\x7f'))) << "so many";
  EXPECT_TRUE(refuses("\x8\1\3" + number + "\2")) << "a name that is no string";
  EXPECT_TRUE(refuses("\x8\2\6" + Blob("a") + "\2\6" + Blob("a") + "\2")) << "twice";
  std::string deep;
  for (int i = 0; i < 1001; ++i) deep += "\7\1";
  EXPECT_TRUE(refuses(deep + "\2"));
}

TEST_F(RdbValueTest, ProbabilisticValuesAreNoLargerThanTheyMayBe) {
  const CompactValue values[] = {MakeBloomFilter({"a"}, 10'000, true),
                                 MakeCountMinSketch({"a"}, 1'000), MakeTopK({"a"}, 100)};
  for (const CompactValue& value : values) {
    const auto [type, bytes] = testkit::WriteRdb(value);
    CompactValue back;
    EXPECT_TRUE(Read(type, bytes, &back));
    limits_.string_max = 1000;
    EXPECT_FALSE(Read(type, bytes, &back)) << static_cast<int>(type);
    limits_.string_max = 1 << 20;
  }
}

// What follows the type, from numbers as lengths and bytes as they are.
class Written {
 public:
  Written& Lengths(const std::vector<uint64_t>& lengths) {
    for (uint64_t length : lengths) writer_.Length(length);
    return *this;
  }
  Written& Little(uint64_t number) {
    writer_.Little(number, 8);
    return *this;
  }
  Written& Bits(double number) {
    writer_.Double(number);
    return *this;
  }
  Written& Raw(std::string_view bytes) {
    writer_.Raw(bytes);
    return *this;
  }
  std::string bytes() {
    writer_.Flush();
    return bytes_;
  }

 private:
  std::string bytes_;
  StringSink sink_{&bytes_};
  RdbWriter writer_{&sink_};
};

// While a value is walked, its bytes leave.
TEST_F(RdbValueTest, LargeValuesReachTheSinkInPieces) {
  struct Sink final : ByteSink {
    size_t bytes = 0, largest = 0;
    void Append(std::string_view piece) override {
      bytes += piece.size();
      largest = std::max(largest, piece.size());
    }
  };
  Texts texts;
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<std::pair<std::string, double>> scores;
  for (int i = 0; i < 50'000; ++i) {
    texts.push_back("element:" + std::to_string(i));
    pairs.emplace_back(texts.back(), std::to_string(i));
    scores.emplace_back(texts.back(), i);
  }
  const CompactValue values[] = {MakeList(texts),
                                 MakeSet(texts),
                                 MakeZset(scores),
                                 MakeHash(pairs),
                                 MakeSetWithDeadlines(texts, 1000),
                                 MakeHashWithDeadlines(pairs, 1000),
                                 MakeStream(texts),
                                 MakeBloomFilter({}, 500'000, true),
                                 MakeCountMinSketch({}, 50'000),
                                 MakeTopK(texts, 3000)};
  for (const CompactValue& value : values) {
    for (const auto compression : {RdbWriter::Compression::kNone, RdbWriter::Compression::kLzf}) {
      Sink sink;
      RdbWriter writer(&sink, compression);
      WriteRdbValue(value, DflyTypeOf(value), &writer);
      writer.Flush();
      EXPECT_GT(sink.bytes, 50'000u) << static_cast<int>(DflyTypeOf(value));
      EXPECT_LE(sink.largest, RdbReader::kPieceBytes) << static_cast<int>(DflyTypeOf(value));
    }
  }
}

// Small ones are built as one block; which must not change what they are.
TEST_F(RdbValueTest, SmallValuesHaveTheEncodingThatTheirMembersGiveThem) {
  const auto encoding_of = [this](RdbType type, const std::string& bytes) {
    CompactValue value;
    EXPECT_TRUE(Read(type, bytes, &value));
    return std::string(value.ObjectEncodingName());
  };
  const std::string longest(64, 'x'), too_long(65, 'x');
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(2, {"a", "1"})), "listpack");
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(2, {"1", "a"})), "listpack");
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(2, {"1", "2"})), "intset");
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(2, {"a", longest})), "listpack");
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(3, {"a", too_long, "b"})), "hashtable");
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(2, {too_long, "b"})), "hashtable");
  EXPECT_EQ(encoding_of(RdbType::kHashListpack, Blob(Listpack({"a", longest}))), "listpack");
  EXPECT_EQ(encoding_of(RdbType::kHashListpack, Blob(Listpack({"a", too_long}))), "hashtable");
  EXPECT_EQ(encoding_of(RdbType::kHashListpack, Blob(Listpack({too_long, "1"}))), "hashtable");
  EXPECT_EQ(encoding_of(RdbType::kZsetListpack, Blob(Listpack({longest, "1"}))), "listpack");
  EXPECT_EQ(encoding_of(RdbType::kZsetListpack, Blob(Listpack({too_long, "1"}))), "skiplist");
  limits_.hash.entries = limits_.zset.entries = limits_.set.packed.entries = 2;
  const Texts three = {"a", "1", "b", "2", "c", "3"};
  EXPECT_EQ(encoding_of(RdbType::kHashListpack, Blob(Listpack(three))), "hashtable");
  EXPECT_EQ(encoding_of(RdbType::kZsetListpack, Blob(Listpack(three))), "skiplist");
  EXPECT_EQ(encoding_of(RdbType::kSet, Strings(3, {"a", "b", "c"})), "hashtable");
}

TEST_F(RdbValueTest, ManySmallMembersAreToldApart) {
  limits_.hash.entries = limits_.set.packed.entries = 5000;
  Texts members, pairs;
  for (int i = 0; i < 3000; ++i) {
    members.push_back("m" + std::to_string(i));
    pairs.insert(pairs.end(), {members.back(), "v"});
  }
  CompactValue value;
  EXPECT_TRUE(Read(RdbType::kSet, Strings(3000, members), &value));
  EXPECT_EQ(testkit::ContentOf(value).size(), 3000u);
  EXPECT_TRUE(Read(RdbType::kHashListpack, Blob(Listpack(pairs)), &value));
  EXPECT_EQ(testkit::ContentOf(value).size(), 3000u);
  for (size_t twice : {1u, 20u, 100u, 1999u, 2999u}) {
    Texts wrong = members;
    wrong[twice] = "m0";
    EXPECT_FALSE(Read(RdbType::kSet, Strings(3000, wrong), &value)) << twice;
    wrong = pairs;
    wrong[2 * twice] = "m0";
    EXPECT_FALSE(Read(RdbType::kHashListpack, Blob(Listpack(wrong)), &value)) << twice;
  }
}

TEST_F(RdbValueTest, SortedSetsInAnotherOrderAreSorted) {
  CompactValue value;
  ASSERT_TRUE(Read(RdbType::kZsetListpack,
                   Blob(Listpack({"b", "2", "d", "1.25", "a", "2", "c", "-0.5", "e", "1e3"})),
                   &value));
  EXPECT_EQ(testkit::ContentOf(value), (Texts{"c -0.5", "d 1.25", "a 2", "b 2", "e 1000"}));
}

TEST_F(RdbValueTest, DeadlinesThatMakeNoSenseAreRefused) {
  const auto members = [](uint64_t earliest_ms, const std::vector<uint64_t>& numbers) {
    return Written().Little(earliest_ms).Lengths(numbers).bytes();
  };
  const std::string a =
      "\x01"
      "a";
  constexpr uint64_t kLatest = HashValue::Table::kDeadlineMax;
  const std::vector<std::pair<std::string, bool>> cases = {
      {members(5, {1, 1}) + a, true},
      {members(kLatest, {1, 1}) + a, true},
      {members(UINT64_MAX, {1, 0}) + a, true},  // nobody has it
      {members(kLatest, {1, 2}) + a, false},
      {members(5, {1, UINT64_MAX}) + a, false},
      {members(UINT64_MAX, {1, 2}) + a, false},  // it overflows
      {members(5, {0}), false},
      {members(5, {2, 0}) + a, false},
      {members(5, {UINT64_MAX, 0}) + a, false},
      {members(0, {1, 1}) + a, true},
      {members(5, {2, 0}) + a + members(0, {}).substr(0, 1) + a, false},  // twice
      {"\x05", false},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    CompactValue value;
    EXPECT_EQ(Read(RdbType::kSetMetadata, cases[i].first, &value), cases[i].second) << i;
    const bool has_text = cases[i].second;
    EXPECT_EQ(Read(RdbType::kHashMetadata, cases[i].first + (has_text ? a : ""), &value),
              cases[i].second)
        << i;
  }
}

// As redis-server 7.4 has written them; from the test files of librdb.
TEST_F(RdbValueTest, HashesWithDeadlinesAreReadAsReleaseCandidatesWroteThem) {
  const Texts expected = {"field1=value1 until 70368744170663",
                          "field2=value2 until 70368744170063", "field3=value3"};
  const std::string table(
      "\x03\x81\x00\x00\x3f\xff\xff\xff\xe4\xa7\x06"
      "field1\x06value1\x00\x06"
      "field3\x06value3\x81\x00\x00\x3f\xff\xff\xff\xe2\x4f\x06"
      "field2\x06value2",
      62);
  CompactValue value;
  ASSERT_TRUE(Read(RdbType::kHashMetadataPreGa, table, &value));
  EXPECT_EQ(testkit::ContentOf(value), expected);
  const std::string packed(
      "\xc3\x3a\x40\x4d\x1c\x4d\x00\x00\x00\x09\x00\x86"
      "field2\x07\x86value2\x07\xf4\x8f\xee\xfe\xff\xff\x3f\x20\x1a\x80\x19\x00\x31\xa0\x19\x03"
      "1\x07\xf4\xff\x40\x00\xe0\x01\x19\x00"
      "3\xa0\x19\x04"
      "3\x07\x00\x01\xff",
      62);
  ASSERT_TRUE(Read(RdbType::kHashListpackExPreGa, packed, &value));
  EXPECT_EQ(testkit::ContentOf(value),
            (Texts{"field1=value1 until 70368744177663", "field2=value2 until 70368744107663",
                   "field3=value3"}));
}

// As Valkey 9.1.2 has written them.
TEST_F(RdbValueTest, HashesWithDeadlinesAreReadAsValkeyWritesThem) {
  const std::string bytes(
      "\x02\x01"
      "a\xc0\x01\xff\x1f\x4a\xa9\xd1\x01\x00\x00\x01"
      "b\x02xx\xff\xff\xff\xff\xff\xff\xff\xff",
      26);
  CompactValue value;
  ASSERT_TRUE(Read(RdbType::kHashValkey, bytes, &value));
  EXPECT_EQ(testkit::ContentOf(value), (Texts{"a=1 until 1999999999999", "b=xx"}));
  std::string late = bytes;
  late[12] = 1;  // past 2^48
  EXPECT_FALSE(Read(RdbType::kHashValkey, late, &value));
  EXPECT_FALSE(Read(RdbType::kHashValkey, std::string_view("\x00", 1), &value));
  EXPECT_FALSE(Read(RdbType::kHashValkey, bytes.substr(0, bytes.size() - 1), &value));
  const std::string twice = "\x02" + bytes.substr(1, 12) + bytes.substr(1, 12);
  EXPECT_FALSE(Read(RdbType::kHashValkey, twice, &value));
}

TEST_F(RdbValueTest, PackedHashesWithDeadlinesAreRead) {
  const auto read = [this](RdbType type, const std::string& bytes) {
    CompactValue value;
    return Read(type, bytes, &value) ? testkit::ContentOf(value) : Texts{"(refused)"};
  };
  const std::string earliest = TimeBytes(9);
  const Texts entries = {"1", "2", "9", "7", "8", "1700000000000", "x", "y", "0"};
  const Texts expected = {"1=2 until 9", "7=8 until 1700000000000", "x=y"};
  EXPECT_EQ(read(RdbType::kHashListpackEx, earliest + Blob(Listpack(entries))), expected);
  EXPECT_EQ(read(RdbType::kHashListpackExPreGa, Blob(Listpack(entries))), expected);
  EXPECT_EQ(read(RdbType::kHashListpackExPreGa, Blob(Listpack({"a", "b", "9007199254740992"}))),
            (Texts{"a=b until 9007199254740992"}));
  for (const Texts& wrong :
       {Texts{}, Texts{"a"}, Texts{"a", "b"}, Texts{"a", "b", "1", "c"}, Texts{"a", "b", "-1"},
        Texts{"a", "b", "x"}, Texts{"a", "b", "9007199254740993"},
        Texts{"a", "b", "1", "a", "c", "2"}}) {
    EXPECT_EQ(read(RdbType::kHashListpackEx, earliest + Blob(Listpack(wrong))), Texts{"(refused)"});
  }
  EXPECT_EQ(read(RdbType::kHashListpackEx, earliest.substr(1)), Texts{"(refused)"});
  EXPECT_EQ(read(RdbType::kHashListpackEx, earliest), Texts{"(refused)"});
}

TEST_F(RdbValueTest, ProbabilisticValuesThatMakeNoSenseAreRefused) {
  const auto refuses = [this](RdbType type, const std::string& bytes) {
    CompactValue value;
    return !Read(type, bytes, &value);
  };
  const auto sketch = [](uint64_t width, uint64_t depth, uint64_t total, size_t bytes) {
    return Written().Lengths({width, depth}).Little(total).Raw(Blob(std::string(bytes, 1))).bytes();
  };
  EXPECT_FALSE(refuses(RdbType::kCountMinSketch, sketch(2, 3, 1, 24)));
  EXPECT_TRUE(refuses(RdbType::kCountMinSketch, sketch(2, 3, 1, 23)));
  EXPECT_TRUE(refuses(RdbType::kCountMinSketch, sketch(2, 3, 1, 25)));
  EXPECT_TRUE(refuses(RdbType::kCountMinSketch, sketch(2, 3, uint64_t{1} << 63, 24)));
  EXPECT_TRUE(refuses(RdbType::kCountMinSketch, sketch(0, 3, 1, 0)));
  EXPECT_TRUE(refuses(RdbType::kCountMinSketch, sketch(uint64_t{1} << 62, 16, 1, 24)));

  const auto top = [](uint64_t k, uint64_t width, double decay, size_t bytes,
                      const std::vector<std::pair<std::string, uint64_t>>& items) {
    Written written;
    written.Lengths({k, width, 2}).Bits(decay).Little(5).Raw(Blob(std::string(bytes, 1)));
    written.Lengths({items.size()});
    for (const auto& [item, count] : items) written.Raw(Blob(item)).Lengths({count});
    return written.bytes();
  };
  EXPECT_FALSE(refuses(RdbType::kTopK, top(2, 3, 0.9, 48, {{"a", 1}, {"b", 1}})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, 0.9, 48, {{"a", 1}, {"a", 2}}))) << "twice";
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, 0.9, 48, {{"a", 1}, {"b", 1}, {"c", 1}})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, 0.9, 48, {{"a", 0}})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, 0.9, 48, {{"a", uint64_t{1} << 32}})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, 0.9, 47, {})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, 0.9, 56, {})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(0, 3, 0.9, 48, {})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2 + (uint64_t{1} << 32), 3, 0.9, 48, {})));
  EXPECT_TRUE(refuses(RdbType::kTopK, top(2, uint64_t{1} << 62, 0.9, 48, {})));
  for (double decay : {0.0, 1.1, -0.5, std::nan("")}) {
    EXPECT_TRUE(refuses(RdbType::kTopK, top(2, 3, decay, 48, {}))) << decay;
  }

  const std::string header =
      BloomFilter::Make({.error_rate = 0.1, .capacity = 10, .expansion = 0}, 1000)->Header();
  const auto bits = [&header](size_t bytes) { return Blob(header) + Blob(std::string(bytes, 1)); };
  const size_t bytes = BloomFilter::FromHeader(header, 1000)->bits_bytes();
  EXPECT_FALSE(refuses(RdbType::kBloomFilter, bits(bytes)));
  EXPECT_TRUE(refuses(RdbType::kBloomFilter, bits(bytes - 8)));
  EXPECT_TRUE(refuses(RdbType::kBloomFilter, bits(bytes + 8)));
  EXPECT_TRUE(refuses(RdbType::kBloomFilter, Blob("DBF1") + Blob(std::string(bytes, 1))));
  EXPECT_TRUE(refuses(RdbType::kBloomFilter, Blob(header) + "\x81" + std::string(8, '\x7f')));
}

TEST_F(RdbValueTest, StreamsComeBackNodeByNode) {
  CheckRoundTrip(MakeStream({}), RdbType::kStreamListpacks2);
  CheckRoundTrip(MakeStream({"a"}), RdbType::kStreamListpacks2);
  Texts many;
  for (int i = 0; i < 500; ++i) {
    many.push_back(i % 3 == 0 ? std::to_string(i * 1000) : std::string(i % 70, 'x'));
  }
  CheckRoundTrip(MakeStream(many), RdbType::kStreamListpacks2);
  CompactValue value = MakeStream(many);
  auto& stream = *static_cast<StreamValue*>(value.object());
  stream.set_counters({.last_id = StreamId::Max(),
                       .first_id = stream.counters().first_id,
                       .max_deleted_id = {7, UINT64_MAX},
                       .entries_added = INT64_MAX});
  CheckRoundTrip(std::move(value), RdbType::kStreamListpacks2);
}

TEST_F(RdbValueTest, AStreamThatCameBackGoesOn) {
  const auto [type, bytes] = testkit::WriteRdb(MakeStream({"a", "b", "c", "d"}));
  CompactValue value;
  ASSERT_TRUE(Read(type, bytes, &value));
  auto& stream = *static_cast<StreamValue*>(value.object());
  EXPECT_EQ(stream.entries().nodes(), 1u);
  EXPECT_EQ(stream.size(), 3u);
  for (uint64_t i = 0; i < 300; ++i) {
    const std::string_view pairs[] = {"name", "x", "7", std::string_view("yyyyyyyyyyyy", i % 13)};
    stream.Append({2000, i}, pairs, {});
  }
  EXPECT_EQ(stream.size(), 303u);
  EXPECT_EQ(stream.entries().nodes(), 4u) << "of 100; the first had four already, one of them gone";
  EXPECT_TRUE(stream.Erase({1000, 9}));
  EXPECT_EQ(stream.Trim({.size_max = 5}), 297u);
  stream.CheckInvariants();
}

// A ziplist of short texts.
std::string Ziplist(const Texts& texts) {
  Texts entries;
  for (const std::string& text : texts) entries.push_back(testkit::ZiplistText(text));
  return testkit::Ziplist(entries);
}

TEST_F(RdbValueTest, OlderAndNewerFormsAreRead) {
  const std::vector<std::tuple<RdbType, std::string, Texts>> cases = {
      {RdbType::kList, Strings(3, {"b", "1", "a"}), {"b", "1", "a"}},
      {RdbType::kListZiplist, Blob(Ziplist({"b", "1", "a"})), {"b", "1", "a"}},
      {RdbType::kListQuicklist,
       "\x02" + Blob(Ziplist({"b"})) + Blob(Ziplist({"1", "a"})),
       {"b", "1", "a"}},
      {RdbType::kListQuicklist2, "\x02\x01\x03xyz\x02" + Blob(Listpack({"1"})), {"xyz", "1"}},
      {RdbType::kSetListpack, Blob(Listpack({"a", "1"})), {"1", "a"}},
      {RdbType::kZset,
       "\x02"
       "\x01"
       "a"
       "\x03"
       "1.5"
       "\x01"
       "b"
       "\xff",
       {"b -inf", "a 1.5"}},
      {RdbType::kZsetZiplist, Blob(Ziplist({"a", "1", "b", "2.5"})), {"a 1", "b 2.5"}},
      {RdbType::kHashZiplist, Blob(Ziplist({"a", "1", "b", "x"})), {"a=1", "b=x"}},
  };
  for (const auto& [type, bytes, expected] : cases) {
    SCOPED_TRACE(static_cast<int>(type));
    CompactValue value;
    ASSERT_TRUE(Read(type, bytes, &value));
    EXPECT_EQ(testkit::ContentOf(value), expected);
    EXPECT_TRUE(Read(type, bytes + "rest", &value, 4)) << "what follows is somebody else's";
  }
}

TEST_F(RdbValueTest, StreamsOfAllVersionsAreRead) {
  const Texts entries = {"5-1 node of 45", "5-1 ", "a=x", "5-3 ", "b=7", "c=8"};
  for (const RdbType type :
       {RdbType::kStreamListpacks, RdbType::kStreamListpacks2, RdbType::kStreamListpacks3,
        RdbType::kStreamListpacks4, RdbType::kStreamListpacks5}) {
    SCOPED_TRACE(static_cast<int>(type));
    const bool is_old = type == RdbType::kStreamListpacks;
    CompactValue value;
    ASSERT_TRUE(Read(type, StreamParts().Bytes(type), &value));
    Texts expected = {is_old ? "5-3 5-1 0-0 2" : "5-3 5-1 5-2 3"};
    expected.insert(expected.end(), entries.begin(), entries.end());
    expected.insert(expected.end(), {"g 5-1 1", "c 7", "5-1 c 9 2"});
    const auto& stream = *static_cast<const StreamValue*>(value.object());
    expected[1] = "5-1 node of " + std::to_string(stream.entries().NodeListpackBytes(0));
    Texts lines = testkit::ContentOf(value);
    if (StreamVersionOf(type) >= 4) lines.resize(lines.size() - 3);  // of producers
    EXPECT_EQ(lines, expected);
    const StreamConsumer* const consumer = stream.FindGroup("g")->FindConsumer("c");
    EXPECT_EQ(consumer->active_ms, StreamVersionOf(type) >= 3 ? 6 : 7);
  }
}

// redis-server 7.0 has no place for it: there it is some consumer's.
TEST_F(RdbValueTest, WhatWasGivenBackComesBackInItsOrder) {
  for (const bool has_nameless : {false, true}) {
    CompactValue value;
    value.SetObject(ValueType::kStream, std::make_unique<StreamValue>().release(), 0);
    auto& stream = *static_cast<StreamValue*>(value.object());
    StreamGroup* const group = stream.AddGroup("g");
    StreamConsumer* const consumer = group->AddConsumer(has_nameless ? "" : "c", 1'600'000'000'000);
    for (uint64_t i = 1; i <= 4; ++i) {
      const StreamId id = {i, 0};
      group->SetDelivered(id, &group->Assign(id, consumer), 1'600'000'000'000);
    }
    for (uint64_t i : {3, 1, 2}) group->Return({i, 0}).deliveries = i;
    std::string bytes;
    StringSink sink(&bytes);
    RdbWriter writer(&sink);
    WriteRdbValue(value, *RdbTypeOf(value), &writer);
    writer.Flush();
    CompactValue copy;
    ASSERT_TRUE(Read(*RdbTypeOf(value), bytes, &copy));
    EXPECT_EQ(testkit::ContentOf(copy), testkit::ContentOf(value));
    const auto& read = *static_cast<const StreamValue*>(copy.object())->FindGroup("g");
    EXPECT_EQ(read.consumers().size(), 1u);
    EXPECT_EQ(read.Returned(), (std::vector<StreamId>{{3, 0}, {1, 0}, {2, 0}}));
  }
}

TEST_F(RdbValueTest, WhatProducersHaveSentComesBack) {
  CompactValue value;
  ASSERT_TRUE(
      Read(RdbType::kStreamListpacks4, StreamParts().Bytes(RdbType::kStreamListpacks4), &value));
  EXPECT_EQ(RdbTypeOf(value), std::nullopt);
  ASSERT_EQ(DflyTypeOf(value), RdbType::kStreamListpacks4);
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter writer(&sink);
  WriteRdbValue(value, DflyTypeOf(value), &writer);
  writer.Flush();
  EXPECT_EQ(bytes, StreamParts().Bytes(RdbType::kStreamListpacks4));
  for (const std::string& wrong :
       {std::string("\0\x40\x64\0\x02\x01", 6), std::string("\x0a\0\0\x02\x01", 5),
        std::string("\x0a\x40\x64\x01\x01p\x02\x01"
                    "a\x05\x01\x01"
                    "a\x05\x02\x02\x01"),
        std::string("\x0a\x40\x64\x01\x01p\x02\x01"
                    "a\x05\x01\x01"
                    "b\x05\x01\x02\x01")}) {
    StreamParts parts;
    parts.producers = wrong;
    CompactValue other;
    EXPECT_FALSE(Read(RdbType::kStreamListpacks4, parts.Bytes(RdbType::kStreamListpacks4), &other));
  }
}

TEST_F(RdbValueTest, WhatAConsumerHasGivenBackIsNobodys) {
  StreamParts parts;
  parts.delivered =
      "\x02" + IdBytes(5, 1) + TimeBytes(9) + "\x02" + IdBytes(5, 3) + TimeBytes(11) + "\x04";
  parts.returned = "\x01" + IdBytes(5, 3);
  CompactValue value;
  ASSERT_TRUE(Read(RdbType::kStreamListpacks5, parts.Bytes(RdbType::kStreamListpacks5), &value));
  const Texts lines = testkit::ContentOf(value);
  const Texts group(lines.end() - 8, lines.end());
  EXPECT_EQ(group, (Texts{"g 5-1 1", "c 7", "5-1 c 9 2", "5-3  0 4", "5-3 was given back",
                          "10 s, 100, added 2, again 1", "p1 has sent 1", "5-1 id1"}));
  for (const std::string& wrong :
       {std::string("\0", 1), "\x01" + IdBytes(5, 1), "\x01" + IdBytes(5, 2),
        "\x02" + IdBytes(5, 3) + IdBytes(5, 3), std::string("\x01")}) {
    parts.returned = wrong;
    CompactValue other;
    EXPECT_FALSE(Read(RdbType::kStreamListpacks5, parts.Bytes(RdbType::kStreamListpacks5), &other));
  }
}

TEST_F(RdbValueTest, HashesWithNamesInFrontAreRead) {
  const std::string packed = std::string("\0", 1) + Blob(Listpack({"7", "b", "aa"}));
  const std::string plain = "\x01" + Strings(3, {"7", "b", "aa"});
  const std::string block = Blob(Listpack({"12", "x", "-5", "y"}));
  const std::string texts = Blob("x") + Blob("-5") + Blob("y");
  for (const std::string& names : {packed, plain}) {
    for (const auto& [type, values] : {std::pair(RdbType::kHashTemplateListpack, block),
                                       std::pair(RdbType::kHashTemplate, texts)}) {
      CompactValue value;
      ASSERT_TRUE(Read(type, names + values, &value));
      EXPECT_EQ(testkit::ContentOf(value), (Texts{"7=x", "aa=y", "b=-5"}));
      CompactValue other;
      EXPECT_FALSE(Read(type, names, &other));
      EXPECT_FALSE(Read(type, names + values.substr(0, values.size() - 1), &other));
    }
  }
  const std::vector<std::pair<RdbType, std::string>> cases = {
      {RdbType::kHashTemplate, "\x02" + texts},
      {RdbType::kHashTemplate, std::string("\0", 1) + Blob(Listpack({}))},
      {RdbType::kHashTemplate, std::string("\x01\0", 2)},
      {RdbType::kHashTemplate, "\x01" + Strings(2, {"a", "a"}) + texts},
      {RdbType::kHashTemplate, "\x01" + Strings(2, {"bb", "a"}) + texts},
      {RdbType::kHashTemplateListpack, plain + Blob(Listpack({"x", "1", "2", "3"}))},
      {RdbType::kHashTemplateListpack, plain + Blob(Listpack({"1", "1", "2"}))},
      {RdbType::kHashTemplateListpack, plain + Blob(Listpack({"1", "1", "2", "3", "4"}))},
      {RdbType::kHashTemplateListpackRef, block},
      {RdbType::kHashTemplateRef, "\x0c" + texts},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    CompactValue value;
    EXPECT_FALSE(Read(cases[i].first, cases[i].second, &value)) << i;
  }
}

TEST_F(RdbValueTest, StreamsThatMakeNoSenseAreRefused) {
  const auto node = [](size_t at, const char* text) {
    Texts elements = kNode;
    elements[at] = text;
    return "\x01" + Node(elements);
  };
  const std::string never = std::string(8, '\xFF');
  const std::vector<StreamParts> cases = {
      {.nodes = std::string("\0", 1)},                            // but two entries
      {.nodes = "\x02" + Node(kNode) + Node(kNode)},              // twice the same ids
      {.nodes = "\x01" + Blob("short") + Blob(Listpack(kNode))},  // no id
      {.nodes = node(0, "3")},                                    // more entries than there are
      {.nodes = node(0, "1")},                                    // fewer
      {.nodes = node(0, "-1")},
      {.nodes = node(0, "x")},
      {.nodes = node(1, "1")},
      {.nodes = node(1, "9223372036854775807")},
      {.nodes = node(2, "0")},  // no names
      {.nodes = node(2, "9223372036854775807")},
      {.nodes = node(4, "1")},
      {.nodes = node(5, "6")},   // unknown flags
      {.nodes = node(5, "3")},   // deleted, but counted
      {.nodes = node(6, "-6")},  // before 0-0
      {.nodes = node(9, "5")},   // so many elements it has not
      {.nodes = node(12, "0")},  // the id of the one before
      {.nodes = node(12, "-1")},
      {.nodes = node(13, "0")},
      {.nodes = node(13, "3")},
      {.nodes = node(13, "9223372036854775807")},
      {.nodes = node(13, "-1")},
      {.counters = "\x03\x05\x03"},                       // three entries
      {.counters = "\x02\x05\x02"},                       // the last one is 5-3
      {.more_counters = "\x05\x01\x05\x02\x01"},          // one of two was added
      {.more_counters = "\x05\x01\x05\x02\x81" + never},  // more than a number has
      {.reads = "\x81" + never.substr(1) + "\xFE"},       // -2
      {.delivered = std::string("\0", 1)},                // but somebody's
      {.delivered =
           "\x02" + IdBytes(5, 1) + TimeBytes(9) + "\x02" + IdBytes(5, 1) + TimeBytes(9) + "\x02"},
      {.delivered = "\x02" + IdBytes(5, 1) + TimeBytes(9) + "\x02" + IdBytes(5, 3) + TimeBytes(9) +
                    "\x02"},  // 5-3 is nobody's
      {.delivered = "\x01" + IdBytes(5, 1) + never + "\x02"},
      {.seen = never},
      {.pending = "\x01" + IdBytes(5, 2)},
      {.pending = "\x02" + IdBytes(5, 1) + IdBytes(5, 1)},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    CompactValue value;
    EXPECT_FALSE(
        Read(RdbType::kStreamListpacks2, cases[i].Bytes(RdbType::kStreamListpacks2), &value))
        << i;
  }
  StreamParts unknown;
  unknown.reads = "\x81" + never;
  CompactValue value;
  EXPECT_TRUE(Read(RdbType::kStreamListpacks2, unknown.Bytes(RdbType::kStreamListpacks2), &value));
  StreamParts never_active;
  never_active.active = never;
  EXPECT_TRUE(
      Read(RdbType::kStreamListpacks3, never_active.Bytes(RdbType::kStreamListpacks3), &value));
}

TEST_F(RdbValueTest, WhatMakesNoSenseIsRefused) {
  const std::vector<std::pair<RdbType, std::string>> cases = {
      {RdbType::kString, ""},
      {RdbType::kList, Strings(2, {"a"})},
      {RdbType::kList, Strings(UINT64_MAX, {"a"})},
      {RdbType::kListQuicklist2, "\x01\x03" + Blob(Listpack({"a"}))},
      {RdbType::kSet, Strings(2, {"a", "a"})},
      {RdbType::kSet, Strings(2, {"1", "1"})},
      {RdbType::kSetListpack, Blob(Listpack({"a", "a"}))},
      {RdbType::kSetIntset, Blob(std::string("\2\0\0\0\0\0\0\0", 8))},
      {RdbType::kSetIntset, Blob(std::string("\2\0\0\0\2\0\0\0\1\0\1\0", 12))},
      {RdbType::kSetIntset, Blob(std::string("\3\0\0\0\1\0\0\0\1\0\1", 11))},
      {RdbType::kSetIntset, Blob(std::string("\2\0\0\0\xff\xff\xff\xff\1\0", 10))},
      {RdbType::kSetIntset, Blob("\2")},
      {RdbType::kZset,
       "\x01"
       "\x01"
       "a"
       "\xfd"},
      {RdbType::kZsetListpack, Blob(Listpack({"a"}))},
      {RdbType::kZsetListpack, Blob(Listpack({"a", "x"}))},
      {RdbType::kZsetListpack, Blob(Listpack({"a", "nan"}))},
      {RdbType::kZsetListpack, Blob(Listpack({"a", "1", "a", "2"}))},
      {RdbType::kHashListpack, Blob(Listpack({"a", "1", "a", "2"}))},
      {RdbType::kHashListpack, Blob(Listpack({"a", "1", "b"}))},
      {RdbType::kHash, Strings(2, {"a", "1", "a", "2"})},
      {RdbType::kHash, Strings(1, {"a"})},
      {RdbType::kStreamListpacks, Strings(1, {"a"})},
      {static_cast<RdbType>(6), Strings(1, {"a"})},
      {static_cast<RdbType>(9), Strings(1, {"a"})},
      {static_cast<RdbType>(255), Strings(1, {"a"})},
  };
  for (const auto& [type, bytes] : cases) {
    CompactValue value;
    EXPECT_EQ(ReadAny(type, bytes, &value), RdbRead::kDamaged)
        << static_cast<int>(type) << " " << bytes.size();
  }
}

TEST_F(RdbValueTest, CollectionsWithoutElementsAreToldApartFromDamagedOnes) {
  const std::string none = Strings(0, {});
  const std::string no_entries = Blob(Listpack({}));
  const std::vector<std::pair<RdbType, std::string>> cases = {
      {RdbType::kList, none},
      {RdbType::kListZiplist, Blob(Ziplist({}))},
      {RdbType::kListQuicklist, none},
      {RdbType::kListQuicklist, "\x01" + Blob(Ziplist({}))},
      {RdbType::kListQuicklist2, none},
      {RdbType::kListQuicklist2, "\x02\x02" + no_entries + "\x02" + no_entries},
      {RdbType::kSet, none},
      {RdbType::kSetListpack, no_entries},
      {RdbType::kSetMetadata, TimeBytes(0) + none},
      {RdbType::kZset, none},
      {RdbType::kZset2, none},
      {RdbType::kZsetZiplist, Blob(Ziplist({}))},
      {RdbType::kZsetListpack, no_entries},
      {RdbType::kHash, none},
      {RdbType::kHashZiplist, Blob(Ziplist({}))},
      {RdbType::kHashListpack, no_entries},
      {RdbType::kHashMetadata, TimeBytes(0) + none},
      {RdbType::kHashMetadataPreGa, none},
      {RdbType::kHashListpackEx, TimeBytes(0) + no_entries},
      {RdbType::kHashListpackExPreGa, no_entries},
      {RdbType::kHashValkey, none},
  };
  for (const auto& [type, bytes] : cases) {
    SCOPED_TRACE(static_cast<int>(type));
    CompactValue value;
    EXPECT_EQ(ReadAny(type, bytes, &value), RdbRead::kEmpty);
    EXPECT_EQ(ReadAny(type, bytes + "rest", &value, 4), RdbRead::kEmpty);
    EXPECT_EQ(ReadAny(type, bytes.substr(0, bytes.size() - 1), &value), RdbRead::kDamaged);
  }
}

}  // namespace
}  // namespace dfly
