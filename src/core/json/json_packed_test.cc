// SPDX-License-Identifier: Apache-2.0
// Packed arrays: FPHA of JSON.SET.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/json/json_doc.h"
#include "core/json/json_match.h"
#include "core/json/json_path.h"
#include "core/json/json_text.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

constexpr uint64_t kPackedWork = 1'000'000;
constexpr JsonFloat kTypes[] = {JsonFloat::kFp16, JsonFloat::kBf16, JsonFloat::kFp32,
                                JsonFloat::kFp64};

std::unique_ptr<JsonDoc> PlainDoc(std::string_view text) {
  auto doc = std::make_unique<JsonDoc>();
  EXPECT_EQ(ParseJson(text, 128, doc.get()), "") << text;
  return doc;
}
std::unique_ptr<JsonDoc> Packed(std::string_view text, JsonFloat type) {
  auto doc = PlainDoc(text);
  EXPECT_TRUE(doc->PackArrays(type)) << text;
  doc->CheckInvariants();
  return doc;
}
std::string PackedText(std::string_view text, JsonFloat type) {
  return JsonText(Packed(text, type)->root());
}

// --- Numbers ---

TEST(JsonFloatTest, NumbersOfTwoBytesComeBack) {
  for (const JsonFloat type : {JsonFloat::kFp16, JsonFloat::kBf16}) {
    double last = 0;
    for (uint64_t bits = 0; bits < 1 << 16; ++bits) {
      const double number = DecodeFloat(type, bits);
      if (!std::isfinite(number)) continue;
      ASSERT_EQ(EncodeFloat(type, number), bits) << FloatName(type);
      const std::string text = JsonText(JsonNode::Float(type, bits));
      ASSERT_EQ(EncodeFloat(type, std::strtod(text.c_str(), nullptr)), bits) << text;
      ASSERT_LE(text.size(), 19u) << text;
      if (bits == 0 || bits >= 1 << 15) continue;
      // Halfway between two it is the even one; beyond that, the nearer one.
      const double middle = (last + number) / 2;
      ASSERT_EQ(EncodeFloat(type, middle), bits - bits % 2) << number;
      ASSERT_EQ(EncodeFloat(type, std::nextafter(middle, number)), bits) << number;
      ASSERT_EQ(EncodeFloat(type, std::nextafter(middle, last)), bits - 1) << number;
      last = number;
    }
  }
}

TEST(JsonFloatTest, NumbersOfFourBytesAreFloats) {
  helio::Random random(7);
  for (int i = 0; i < 100'000; ++i) {
    const double number = std::bit_cast<double>(random.Next());
    if (!std::isfinite(number) || std::fabs(number) > FLT_MAX) continue;
    const auto as_float = static_cast<float>(number);
    ASSERT_EQ(EncodeFloat(JsonFloat::kFp32, number), std::bit_cast<uint32_t>(as_float)) << number;
    const auto bits = static_cast<uint32_t>(random.Next());
    const auto other = std::bit_cast<float>(bits);
    if (!std::isfinite(other)) continue;
    ASSERT_EQ(EncodeFloat(JsonFloat::kFp32, other), bits);
    const std::string text = JsonText(JsonNode::Float(JsonFloat::kFp32, bits));
    ASSERT_EQ(std::strtof(text.c_str(), nullptr), other);
  }
}

TEST(JsonFloatTest, TheLargestAndTheSmallest) {
  EXPECT_EQ(EncodeFloat(JsonFloat::kFp16, 65519.99), 0x7BFFu);
  EXPECT_EQ(EncodeFloat(JsonFloat::kFp16, 65520), std::nullopt);
  EXPECT_EQ(EncodeFloat(JsonFloat::kFp16, -65520), std::nullopt);
  EXPECT_EQ(EncodeFloat(JsonFloat::kBf16, 3.38e38), 0x7F7Eu);
  EXPECT_EQ(EncodeFloat(JsonFloat::kBf16, 3.4e38), std::nullopt);
  EXPECT_EQ(EncodeFloat(JsonFloat::kFp32, FLT_MAX), 0x7F7FFFFFu);
  EXPECT_EQ(EncodeFloat(JsonFloat::kFp32, 3.41e38), std::nullopt);
  for (const JsonFloat type : kTypes) {
    EXPECT_EQ(EncodeFloat(type, DBL_MAX).has_value(), type == JsonFloat::kFp64);
    EXPECT_EQ(DecodeFloat(type, *EncodeFloat(type, -0.0)), 0);
    EXPECT_TRUE(std::signbit(DecodeFloat(type, *EncodeFloat(type, -DBL_MIN / 8))));
  }
}

TEST(JsonFloatTest, TextsAreShort) {
  EXPECT_EQ(PackedText("[0.1,1,1e-3,65504,-0.0,6e-8,3.14159265]", JsonFloat::kFp16),
            "[0.1,1.0,0.001,65504.0,-0.0,6e-8,3.14]");
  EXPECT_EQ(PackedText("[0.1,256,257,3.14159265,1e38]", JsonFloat::kBf16),
            "[0.1,256.0,256.0,3.14,1e38]");
  EXPECT_EQ(PackedText("[0.1,16777217,3.14159265358979]", JsonFloat::kFp32),
            "[0.1,16777216.0,3.1415927]");
  EXPECT_EQ(PackedText("[0.1,16777217,3.14159265358979]", JsonFloat::kFp64),
            "[0.1,16777217.0,3.14159265358979]");
}

// --- Arrays ---

TEST(JsonPackedTest, ArraysOfNumbersArePacked) {
  EXPECT_EQ(PackedText("[[1,2,3,4e3],[5,6.0,7,8]]", JsonFloat::kFp16),
            "[[1.0,2.0,3.0,4000.0],[5.0,6.0,7.0,8.0]]");
  EXPECT_EQ(PackedText(R"({"a":[[1.5,70000],[]],"b":[1,2],"c":[1.5,"x"],"d":[1.5,[1]],"e":1.1})",
                       JsonFloat::kFp32),
            R"({"a":[[1.5,70000.0],[]],"b":[1,2],"c":[1.5,"x"],"d":[1.5,[1]],"e":1.1})");
  EXPECT_TRUE(Packed("[1.5]", JsonFloat::kFp16)->root().is_packed());
  EXPECT_FALSE(Packed("[1]", JsonFloat::kFp16)->root().is_packed());
  EXPECT_FALSE(PlainDoc("{\"a\":[1,[70000,0.5]]}")->PackArrays(JsonFloat::kFp16));
  EXPECT_TRUE(PlainDoc("[[70000],70000.5,\"\"]")->PackArrays(JsonFloat::kFp16));
}

TEST(JsonPackedTest, NumbersTakeTheirBytes) {
  std::string text = "[0.5";
  for (int i = 1; i < 1000; ++i) text += ",0.12345678" + std::to_string(i);
  text += "]";
  for (const JsonFloat type : kTypes) {
    const auto doc = Packed(text, type);
    const size_t bytes = 8 + 1000 * FloatBytes(type);
    EXPECT_GE(doc->heap_bytes(), bytes);
    EXPECT_LE(doc->heap_bytes(), bytes + bytes / 4);
  }
}

std::string Found(JsonDoc& doc, std::string_view path_text) {
  JsonPath path;
  EXPECT_EQ(JsonPath::Parse(path_text, &path), "") << path_text;
  std::string text;
  const auto show = [&](const JsonNode& node) {
    AppendJson(node, &text);
    text += ';';
  };
  if (path.projection() != nullptr) {
    uint64_t work_left = kPackedWork;
    EXPECT_TRUE(
        ProjectJson(doc, *path.projection(), &work_left, [&](std::span<const JsonNode> nodes) {
          for (const JsonNode& node : nodes) show(node);
        }));
    return text;
  }
  JsonMatches matches;
  EXPECT_TRUE(FindJson(doc, path.steps(), kPackedWork, &matches)) << path_text;
  for (const JsonMatch& match : matches) {
    show(match.value());
    if (match.parent == nullptr) continue;
    EXPECT_TRUE(match.parent->is_object() ||
                JsonDoc::IsEqual(match.parent->item(match.index()), match.value()));
  }
  return text;
}

// A packed array is looked at as one of nodes is.
TEST(JsonPackedTest, PathsFindNumbers) {
  const std::string text =
      R"({"a":[0.5,1.25,-3,0.5],"b":{"c":[0.1,7,0.123456789]},"d":[1,2],"e":1.25})";
  for (const JsonFloat type : kTypes) {
    const auto packed = Packed(text, type);
    const auto plain = Packed(text, type);
    plain->Unpack(JsonDoc::Find(plain->root(), "a"));
    plain->Unpack(JsonDoc::Find(*JsonDoc::Find(plain->root(), "b"), "c"));
    plain->CheckInvariants();
    ASSERT_FALSE(JsonDoc::Find(plain->root(), "a")->is_packed());
    EXPECT_TRUE(JsonDoc::IsEqual(packed->root(), plain->root()));
    for (const char* path : {"$.a[0]",
                             "$.a[-1]",
                             "$.a[9]",
                             "$.a[*]",
                             "$.a[1:3]",
                             "$.a[0,0,2]",
                             "$..*",
                             "$..[0]",
                             "$.a[?(@ > 0.6)]",
                             "$..[?(@ == 1.25)]",
                             "$.a[0].x",
                             "$.a[0][0]",
                             "$.a[0]..*",
                             "$..c",
                             "$.a.x",
                             "$[?(@ == [0.5,1.25,-3,0.5])]",
                             "$.a[?@ in $.a]",
                             "$[?($.e in @)]",
                             "$[?(@ subsetof $.a)]",
                             "$[?(@ anyof [1.25])]",
                             "$[?(@ noneof [1.25])]",
                             "$[?(@ size 4)]",
                             "$[?(@ empty false)]",
                             "$[?count(@.*) == 3]",
                             "sum($.a)",
                             "$.a.min()",
                             "$.a.max()",
                             "$.b.c.avg()",
                             "$.b.c.stddev()",
                             "first($.a)",
                             "last($.b.c)",
                             "index($.b.c, 1)",
                             "append($.a, 5)",
                             "append($.a, $.b.c)",
                             "append($.d, $.a)",
                             "$.a[*] + 1",
                             "$.a[0] * 2",
                             "abs($.a[*])",
                             "floor($.b.c[0])",
                             "length($.a)",
                             "count($.a[*])",
                             "value($.a[0])",
                             "append($.a[*], 1)",
                             "append($.d, append($.b.c, 1))",
                             "append($.d, $.b.c[*], $.a)",
                             "concat($.a, \"x\")",
                             "$.a~",
                             "keys($.a)"}) {
      EXPECT_EQ(Found(*packed, path), Found(*plain, path)) << path << FloatName(type);
    }
    packed->CheckInvariants();
    EXPECT_EQ(JsonText(packed->root()), JsonText(plain->root()));
  }
}

TEST(JsonPackedTest, ElementsGoInPlace) {
  for (const JsonFloat type : kTypes) {
    const auto doc = Packed("[0.5,1,2,3,4,5,6,7,8,9]", type);
    JsonNode* const array = doc->mutable_root();
    doc->EraseItems(array, 1, 2);
    doc->EraseAt(array, {0, 3, 6});
    EXPECT_EQ(JsonText(*array), "[3.0,4.0,6.0,7.0,9.0]");
    doc->EraseAt(array, {4});
    JsonNode item = doc->TakeItem(array, 1);
    EXPECT_EQ(JsonText(item), "4.0");
    doc->Clear(&item);
    EXPECT_TRUE(array->is_packed());
    EXPECT_EQ(JsonText(*array), "[3.0,6.0,7.0]");
    doc->CheckInvariants();
    doc->EraseItems(array, 0, 3);
    EXPECT_EQ(JsonText(*array), "[]");
    EXPECT_EQ(doc->heap_bytes(), 0u);
  }
}

TEST(JsonPackedTest, WhatIsErasedIsFreed) {
  std::string text = "[0.5";
  for (int i = 1; i < 1000; ++i) text += ",1";
  const auto doc = Packed(text + "]", JsonFloat::kFp64);
  doc->EraseItems(doc->mutable_root(), 10, 990);
  EXPECT_LE(doc->heap_bytes(), 200u);
  doc->CheckInvariants();
}

TEST(JsonPackedTest, WhatGetsAValueIsUnpacked) {
  for (const JsonFloat type : kTypes) {
    const auto doc = Packed("[0.1,1.25]", type);
    const std::string text = JsonText(doc->root());
    const double first = doc->root().item(0).AsDouble();
    doc->Append(doc->mutable_root(), doc->MakeText("a text of many bytes"));
    EXPECT_FALSE(doc->root().is_packed());
    doc->CheckInvariants();
    // Its numbers have the same values and texts.
    EXPECT_EQ(JsonText(doc->root()),
              text.substr(0, text.size() - 1) + ",\"a text of many bytes\"]");
    EXPECT_EQ(doc->root().items()[0].AsDouble(), first);
  }
}

TEST(JsonPackedTest, MatchesGetNodes) {
  const auto doc = Packed(R"({"a":[0.1,1.25],"b":[2.5,3]})", JsonFloat::kFp16);
  JsonPath path;
  ASSERT_EQ(JsonPath::Parse("$.*[0,1,0]", &path), "");
  JsonMatches matches;
  ASSERT_TRUE(FindJson(*doc, path.steps(), kPackedWork, &matches));
  ASSERT_EQ(matches.size(), 6u);
  SortForChange(&matches);
  ASSERT_EQ(matches.size(), 4u);
  EXPECT_EQ(BytesToUnpack(matches), 32u);
  UnpackForChange(*doc, &matches);
  for (const JsonMatch& match : matches) doc->Set(match.node, doc->MakeInt(7));
  EXPECT_EQ(JsonText(doc->root()), R"({"a":[7,7],"b":[7,7]})");
  doc->CheckInvariants();
}

TEST(JsonPackedTest, EqualityIsByValue) {
  const auto packed = Packed("[0.5,2]", JsonFloat::kFp16);
  for (const JsonFloat type : kTypes) {
    EXPECT_TRUE(JsonDoc::IsEqual(packed->root(), Packed("[0.5,2]", type)->root()));
  }
  EXPECT_TRUE(JsonDoc::IsEqual(PlainDoc("[0.5,2]")->root(), packed->root()));
  for (const char* other : {"[0.5,2.1]", "[0.5]", "[0.5,\"2\"]", "[0.5,[2]]", "{}", "1"}) {
    EXPECT_FALSE(JsonDoc::IsEqual(packed->root(), PlainDoc(other)->root())) << other;
    EXPECT_FALSE(JsonDoc::IsEqual(PlainDoc(other)->root(), packed->root())) << other;
  }
}

}  // namespace
}  // namespace dfly
