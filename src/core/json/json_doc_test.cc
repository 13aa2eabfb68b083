// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_doc.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/table/compact_value.h"

namespace dfly {
namespace {

std::unique_ptr<JsonDoc> DocOf(std::string_view text, size_t depth_max = 128) {
  auto doc = std::make_unique<JsonDoc>();
  EXPECT_EQ(ParseJson(text, depth_max, doc.get()), "") << text;
  doc->CheckInvariants();
  return doc;
}

std::string RoundTrip(std::string_view text) { return JsonText(DocOf(text)->root()); }

std::string ErrorOf(std::string_view text, size_t depth_max = 128) {
  JsonDoc doc;
  const std::string error = ParseJson(text, depth_max, &doc);
  EXPECT_TRUE(doc.root().is_null());
  EXPECT_EQ(doc.heap_bytes(), 0u);
  return error;
}

std::string LongObject(size_t members) {
  std::string text = "{";
  for (size_t i = 0; i < members; ++i) {
    if (i > 0) text += ',';
    text += "\"a rather long name " + std::to_string(i) + "\":" + std::to_string(i);
  }
  return text + "}";
}

TEST(JsonTextTest, WhatIsReadIsWrittenAgain) {
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "-1",
                           "36028797018963967",
                           "36028797018963968",
                           "-36028797018963968",
                           "-36028797018963969",
                           "9223372036854775807",
                           "-9223372036854775808",
                           "9223372036854775808",
                           "18446744073709551615",
                           "0.5",
                           "1.0",
                           "64.99",
                           "-13.1",
                           "0.1234567890123",
                           "1e100",
                           "1.5e-7",
                           "0.00001",
                           "\"\"",
                           "\"1234567\"",
                           "\"12345678\"",
                           "[]",
                           "{}",
                           "[[],{}]",
                           "[1,2.5,\"a\",null,true]",
                           "{\"a\":{\"b\":[1,2]},\"a long name\":\"a long text\"}",
                           "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\"",
                           "\"\xC3\xA4\xF0\x9F\x98\x80\""}) {
    EXPECT_EQ(RoundTrip(text), text);
  }
}

TEST(JsonTextTest, NumbersHaveTheirShortestForm) {
  EXPECT_EQ(RoundTrip("1e2"), "100.0");
  EXPECT_EQ(RoundTrip("100.00"), "100.0");
  EXPECT_EQ(RoundTrip("123456789012345680.0"), "1.2345678901234568e17");
  EXPECT_EQ(RoundTrip("1e15"), "1000000000000000.0");
  EXPECT_EQ(RoundTrip("1e16"), "1e16");
  EXPECT_EQ(RoundTrip("0.00000123"), "1.23e-6");
  EXPECT_EQ(RoundTrip("-0.0"), "-0.0");
  EXPECT_EQ(RoundTrip("5e-324"), "5e-324");
  EXPECT_EQ(RoundTrip("1.7976931348623157e308"), "1.7976931348623157e308");
  EXPECT_EQ(RoundTrip("18446744073709551616"), "1.8446744073709552e19");
  EXPECT_EQ(RoundTrip("[-9223372036854775809,\"18446744073709551616\\\"\",1.18446744073709551616]"),
            "[-9.223372036854776e18,\"18446744073709551616\\\"\",1.1844674407370954]");
}

TEST(JsonTextTest, OfEqualNamesTheLastCounts) {
  EXPECT_EQ(RoundTrip("{\"a\":[1,2,3],\"b\":2,\"a\":\"something else\"}"),
            "{\"a\":\"something else\",\"b\":2}");
}

TEST(JsonTextTest, EscapesAreRead) {
  EXPECT_EQ(RoundTrip("\"\\u00e4\\ud83d\\ude00\\/\""), "\"\xC3\xA4\xF0\x9F\x98\x80/\"");
}

TEST(JsonTextTest, WhatIsNoJsonIsRefused) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":}",
                           "{a:1}",
                           "nul",
                           "NaN",
                           "Infinity",
                           "-",
                           "01",
                           "1e999",
                           "+1",
                           "'a'",
                           "\"a",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "[1] 2",
                           "1 1",
                           "\"\x01\"",
                           "\"\xFF\"",
                           "[1",
                           "99999999999999999999999999999x",
                           "{\"a\" 1}",
                           "]"}) {
    EXPECT_TRUE(ErrorOf(text).starts_with("expected a JSON value: ")) << text << ErrorOf(text);
  }
  EXPECT_NE(ErrorOf(std::string_view("1\0", 2)), "");
}

TEST(JsonTextTest, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(RoundTrip(nested(128)), nested(128));
  EXPECT_EQ(ErrorOf(nested(129)), "recursion limit exceeded");
  EXPECT_EQ(ErrorOf("[[{}]]", 2), "recursion limit exceeded");
  EXPECT_EQ(ErrorOf("[[[1]]]", 2), "recursion limit exceeded");
  EXPECT_EQ(ErrorOf(nested(100'000)), "recursion limit exceeded");
  DocOf(nested(JsonDoc::kDepthMax), JsonDoc::kDepthMax);
  DocOf("1", 1);
  EXPECT_EQ(JsonDoc::DepthOf(DocOf("[1,[2,{\"a\":3}]]")->root()), 3u);
  EXPECT_EQ(JsonDoc::DepthOf(DocOf("5")->root()), 0u);
}

TEST(JsonTextTest, IsWrittenWithLineBreaks) {
  const auto doc = DocOf("{\"a\":[1,{}],\"b\":[]}");
  std::string text;
  AppendJson(doc->root(), {.indent = "  ", .newline = "\n", .space = " "}, 0, &text);
  EXPECT_EQ(text, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
}

TEST(JsonDocTest, SmallValuesTakeNoBlock) {
  for (const char* text : {"null", "12345678901", "64.99", "-0.125", "\"1234567\"", "[]", "{}"}) {
    EXPECT_EQ(DocOf(text)->heap_bytes(), 0u) << text;
  }
  EXPECT_LE(DocOf("\"bar\"")->bytes(), 16u);
  // Redis' page about memory has 56 and 88 bytes for these, besides what a key takes.
  EXPECT_LE(DocOf("[\"\",\"\",\"\",\"\"]")->bytes(), 64u);
  EXPECT_LE(DocOf("[\"\",\"\",\"\",\"\",\"\"]")->bytes(), 64u);
}

TEST(JsonDocTest, LargeObjectsHaveAnIndex) {
  for (size_t members : {31u, 32u, 33u, 1000u}) {
    const auto doc = DocOf(LongObject(members));
    JsonNode* const root = doc->mutable_root();
    EXPECT_EQ(JsonText(*root), LongObject(members));
    for (size_t i = 0; i < members; ++i) {
      const std::string name = "a rather long name " + std::to_string(i);
      JsonNode* const found = JsonDoc::Find(*root, name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->AsInt(), static_cast<int64_t>(i));
    }
    EXPECT_EQ(JsonDoc::Find(*root, "another"), nullptr);
    // The others stay in their order.
    for (size_t i = 0; i < members; i += 2) {
      const std::string name = "a rather long name " + std::to_string(i);
      JsonMember* const member = JsonDoc::FindMember(*root, name);
      doc->EraseMember(root, static_cast<size_t>(member - root->members().data()));
      if (i % 50 == 0) doc->CheckInvariants();
    }
    doc->CheckInvariants();
    ASSERT_EQ(root->size(), members / 2);
    for (size_t i = 0; i < root->size(); ++i) {
      EXPECT_EQ(root->members()[i].value.AsInt(), static_cast<int64_t>(2 * i + 1));
    }
  }
}

TEST(JsonDocTest, SeveralElementsGoAtOnce) {
  auto doc = DocOf("[0,\"a text of many bytes\",2,[3],4]");
  doc->EraseAt(doc->mutable_root(), {1, 3});
  EXPECT_EQ(JsonText(doc->root()), "[0,2,4]");
  doc->EraseAt(doc->mutable_root(), {0, 1, 2});
  EXPECT_EQ(JsonText(doc->root()), "[]");
  EXPECT_EQ(doc->heap_bytes(), 0u);
  doc = DocOf(LongObject(100));
  doc->EraseAt(doc->mutable_root(), {0, 50, 99});
  doc->CheckInvariants();
  EXPECT_EQ(doc->root().size(), 97u);
}

TEST(JsonDocTest, ArraysGrowAndShrink) {
  JsonDoc doc;
  *doc.mutable_root() = doc.MakeArray(0);
  for (int64_t i = 0; i < 1000; ++i) doc.Append(doc.mutable_root(), doc.MakeInt(i));
  doc.CheckInvariants();
  const size_t most = doc.heap_bytes();
  const JsonNode two[] = {doc.MakeText("x"), doc.MakeText("a text of many bytes")};
  doc.InsertAll(doc.mutable_root(), 1, two);
  EXPECT_EQ(doc.root().items()[3].AsInt(), 1);
  JsonNode item = doc.TakeItem(doc.mutable_root(), 2);
  EXPECT_EQ(item.AsText(), "a text of many bytes");
  doc.Clear(&item);
  doc.EraseItems(doc.mutable_root(), 3, 998);
  EXPECT_EQ(JsonText(doc.root()), "[0,\"x\",1]");
  doc.CheckInvariants();
  EXPECT_LT(doc.heap_bytes(), most / 10);
}

TEST(JsonDocTest, EqualityIsByValue) {
  const auto equal = [](std::string_view a, std::string_view b) {
    return JsonDoc::IsEqual(DocOf(a)->root(), DocOf(b)->root());
  };
  EXPECT_TRUE(equal("1", "1.0"));
  EXPECT_TRUE(equal("{\"a\":1,\"b\":[2]}", "{\"b\":[2.0],\"a\":1}"));
  EXPECT_TRUE(equal("9223372036854775807", "9223372036854775807"));
  EXPECT_FALSE(equal("9223372036854775807", "9223372036854775808"));
  EXPECT_FALSE(equal("1", "true"));
  EXPECT_FALSE(equal("[1,2]", "[2,1]"));
  EXPECT_FALSE(equal("{\"a\":1}", "{\"b\":1}"));
  EXPECT_FALSE(equal("{\"a\":1}", "{\"a\":1,\"b\":1}"));
  EXPECT_FALSE(equal("\"a longer text\"", "\"a longer texs\""));
}

class JsonStepsTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string Text() {
    std::string text = GetParam();
    for (size_t at; (at = text.find('@')) != std::string::npos;) {
      text.replace(at, 1, LongObject(500));
    }
    return text;
  }
  static std::unique_ptr<JsonDoc> Doc() {
    auto doc = DocOf(Text());
    EXPECT_TRUE(doc->PackArrays(JsonFloat::kFp32));
    return doc;
  }
};

TEST_P(JsonStepsTest, FreesInSteps) {
  for (size_t budget : {1u, 3u, 1000u}) {
    const auto doc = Doc();
    size_t before = doc->bytes();
    while (!doc->FreeSome(budget)) {
      EXPECT_LE(doc->bytes(), before);
      before = doc->bytes();
    }
    EXPECT_EQ(doc->heap_bytes(), 0u);
  }
  auto doc = Doc();
  doc->FreeSome(5);  // and is destroyed
}

TEST_P(JsonStepsTest, MovesInSteps) {
  auto* doc = Doc().release();
  const std::string text = JsonText(doc->root());
  const size_t bytes = doc->bytes();
  BlockMover mover(nullptr);
  uint64_t cursor = 0, steps = 0;
  do {
    doc = JsonDoc::Move(doc, mover, &cursor);
    doc->CheckInvariants();
    ASSERT_LT(++steps, 1000u);
  } while (cursor != 0);
  EXPECT_EQ(JsonText(doc->root()), text);
  EXPECT_EQ(doc->bytes(), bytes);
  // Cursors of other values.
  for (uint64_t other : {uint64_t{1}, UINT64_MAX, uint64_t{7} << 32 | 3, uint64_t{5} << 40}) {
    cursor = other;
    for (steps = 0; cursor != 0; ++steps) {
      ASSERT_LT(steps, 1000u);
      doc = JsonDoc::Move(doc, mover, &cursor);
    }
    doc->CheckInvariants();
  }
  delete doc;
}

TEST_P(JsonStepsTest, CopiesInSteps) {
  const auto doc = Doc();
  for (size_t budget : {size_t{1}, size_t{3}, size_t{100}}) {
    JsonDoc copy;
    size_t steps = 1;
    while (!copy.CopySome(*doc, budget)) ++steps;
    copy.CheckInvariants();
    EXPECT_EQ(JsonText(copy.root()), JsonText(doc->root()));
    EXPECT_EQ(copy.heap_bytes(), JsonDoc::BytesOf(copy.root()));
    if (budget == 1 && doc->root().branches() > 1) {
      EXPECT_GT(steps, doc->root().size() - 1);
    }
    // One that is left half done is freed.
    JsonDoc half;
    half.CopySome(*doc, budget);
  }
}

TEST_P(JsonStepsTest, CopiesShareNothing) {
  auto doc = Doc();
  auto copy = std::make_unique<JsonDoc>();
  *copy->mutable_root() = copy->CopyOf(doc->root());
  copy->CheckInvariants();
  EXPECT_TRUE(JsonDoc::IsEqual(doc->root(), copy->root()));
  doc.reset();
  EXPECT_EQ(JsonText(copy->root()), JsonText(Doc()->root()));
}

INSTANTIATE_TEST_SUITE_P(Documents, JsonStepsTest,
                         testing::Values("1", "\"a text of many bytes\"", "[]", "[[[[1]]]]", "@",
                                         "[1.5,2,3]", "[[[1.5,2]]]",
                                         "{\"a\":[1.5],\"b\":[@,[2.5,1],[0.5]],\"c\":1}",
                                         "{\"one\":{\"and only\":[@,@,1]}}",
                                         "[@,[],{},[1,[2,[3,@]]],\"a text of many bytes\"]"));

}  // namespace
}  // namespace dfly
