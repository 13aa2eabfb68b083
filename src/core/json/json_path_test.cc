// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/json/json_match.h"
#include "core/json/json_text.h"

namespace dfly {
namespace {

constexpr uint64_t kWork = 1'000'000;

// After the page of Redis about paths.
constexpr std::string_view kBikes = R"({"inventory":{
  "mountain_bikes":[
    {"id":"bike:1","model":"Phoebe","price":1920,"specs":{"material":"carbon","weight":13.1},
     "colors":["black","silver"]},
    {"id":"bike:2","model":"Quaoar","price":2072,"specs":{"material":"aluminium","weight":7.9},
     "colors":["black","white"]},
    {"id":"bike:3","model":"Weywot","price":3264,"specs":{"material":"alloy","weight":13.8}}],
  "commuter_bikes":[
    {"id":"bike:4","model":"Salacia","price":1475,"specs":{"material":"aluminium","weight":16.6},
     "colors":["black","silver"]},
    {"id":"bike:5","model":"Mimas","price":3941,"specs":{"material":"alloy","weight":11.6}}]},
  "pattern":"^al","limit":2000})";

std::string Select(std::string_view text, std::string_view path_text, uint64_t work = kWork) {
  JsonDoc doc;
  EXPECT_EQ(ParseJson(text, 128, &doc), "") << text;
  JsonPath path;
  const std::string error = JsonPath::Parse(path_text, &path);
  if (!error.empty()) return error;
  JsonMatches matches;
  if (!FindJson(doc, path.steps(), work, &matches)) return "too much";
  std::string result = "[";
  for (const JsonMatch& match : matches) {
    if (result.size() > 1) result += ',';
    AppendJson(match.value(), &result);
    if (match.parent != nullptr) {
      const size_t at = match.index();
      EXPECT_EQ(match.node, match.parent->is_array() ? &match.parent->items()[at]
                                                     : &match.parent->members()[at].value);
    }
  }
  return result + "]";
}

struct Row {
  const char* path;
  const char* found;
};

TEST(JsonPathTest, ExamplesOfThePage) {
  constexpr Row kRows[] = {
      {"$.inventory.mountain_bikes[*].model", R"(["Phoebe","Quaoar","Weywot"])"},
      {R"($.inventory["mountain_bikes"][*].model)", R"(["Phoebe","Quaoar","Weywot"])"},
      {"$..mountain_bikes[*].model", R"(["Phoebe","Quaoar","Weywot"])"},
      {"$..model", R"(["Phoebe","Quaoar","Weywot","Salacia","Mimas"])"},
      {"$..mountain_bikes[0:2].model", R"(["Phoebe","Quaoar"])"},
      {"$..mountain_bikes[?(@.price < 3000 && @.specs.weight < 10)].id", R"(["bike:2"])"},
      {R"($..[?(@.specs.material == "alloy")].model)", R"(["Weywot","Mimas"])"},
      {R"($..[?(@.specs.material =~ "(?i)al")].model)", R"(["Quaoar","Weywot","Salacia","Mimas"])"},
      {"$..[?(@.specs.material =~ $.pattern)].model", R"(["Quaoar","Weywot","Salacia","Mimas"])"},
      {"$.inventory.*[?(@.price<2000)].price", "[1920,1475]"},
      {"$.inventory.*[?(@.price < $.limit)].price", "[1920,1475]"},
      {"$..[*].colors", R"([["black","silver"],["black","white"],["black","silver"]])"},
      {"$.inventory.*[?(@.colors)].id", R"(["bike:1","bike:2","bike:4"])"},
      {"$.inventory.*[?(!@.colors)].id", R"(["bike:3","bike:5"])"},
      {R"($.inventory.*[?(@.colors[*] == "white" || @.price > 3900)].id)",
       R"(["bike:2","bike:5"])"},
      {"$..mountain_bikes[-1].id", R"(["bike:3"])"},
      {"$..mountain_bikes[0,2].id", R"(["bike:1","bike:3"])"},
      {"$..mountain_bikes[::2].id", R"(["bike:1","bike:3"])"},
      {"$..mountain_bikes[-2:].id", R"(["bike:2","bike:3"])"},
      {R"($..mountain_bikes[0]['id', "model"])", R"(["bike:1","Phoebe"])"},
      {"inventory.commuter_bikes[1].specs.weight", "[11.6]"},
      {".inventory.commuter_bikes[1].id", R"(["bike:5"])"},
      {R"(['inventory']["commuter_bikes"][0].id)", R"(["bike:4"])"},
  };
  for (const Row& row : kRows) EXPECT_EQ(Select(kBikes, row.path), row.found) << row.path;
}

TEST(JsonPathTest, Selectors) {
  constexpr std::string_view kDoc =
      R"({"a":{"a":{"a":1},"b":[0,1,2,3,4,5,[6]]},"b c":"x","$d":2,"":3,"e\"":[],"n":null})";
  constexpr Row kRows[] = {
      {"$..a", R"([{"a":{"a":1},"b":[0,1,2,3,4,5,[6]]},{"a":1},1])"},
      {"$.a.b[1:6:2]", "[1,3,5]"},
      {"$.a.b[:2]", "[0,1]"},
      {"$.a.b[:-5]", "[0,1]"},
      {"$.a.b[5:100]", "[5,[6]]"},
      {"$.a.b[-100:1]", "[0]"},
      {"$.a.b[3:1]", "[]"},
      {"$.a.b[7]", "[]"},
      {"$.a.b[-8]", "[]"},
      {"$.a.b[-9223372036854775808]", "[]"},
      {"$.a.b[0:9223372036854775807:9223372036854775807]", "[0]"},
      {"$.a.b[0,0]", "[0,0]"},
      {"$.[\"b c\"]", R"(["x"])"},
      {"$['b c']", R"(["x"])"},
      {"$.$d", "[2]"},
      {"$d", "[2]"},
      {"$['']", "[3]"},
      {R"($['e"'])", "[[]]"},
      {R"($["e\""])", "[[]]"},
      {R"($["\u006e"])", "[null]"},
      {"$.n", "[null]"},
      {"$.n.x", "[]"},
      {"$.x", "[]"},
      {"$.a[0]", "[]"},
      {"$.a.b.a", "[]"},
      {"$.a.b[*][*]", "[6]"},
      {"$..b[-1][0]", "[6]"},
      {"$..[0]", "[0,6]"},
      {"$.a..*..a", "[1]"},
      {"$.a.b[?(@>2)]", "[3,4,5]"},
      {"$.a.b[?@ >= 4]", "[4,5]"},
      {"$.a.b[?(@ != 3 && (@ <= 4))]", "[0,1,2,4]"},
      {"$.a.b[?(4 < @)]", "[5]"},
      {"$.a.b[?(@[0])]", "[[6]]"},
      {"$.a.b[?(@ == [6])]", "[[6]]"},
      {"$[?(@ == \"x\")]", R"(["x"])"},
      {"$[?(@ == 'x')]", R"(["x"])"},
      {"$[?(@ == null)]", "[null]"},
      {"$[?(@.a[?(@.a)])].b[0]", "[]"},
      {"$[?(@.a.a == 1)].b[0]", "[0]"},
      {"$[?(@ =~ \"[\")]", "[]"},
      {"$",
       R"([{"a":{"a":{"a":1},"b":[0,1,2,3,4,5,[6]]},"b c":"x","$d":2,"":3,"e\"":[],"n":null}])"},
  };
  for (const Row& row : kRows) EXPECT_EQ(Select(kDoc, row.path), row.found) << row.path;
}

TEST(JsonPathTest, ComparesOnlyWhatIsOfOneType) {
  constexpr std::string_view kDoc = R"([1,1.0,"1",true,null,[1],{"a":1},18446744073709551615,2.5])";
  constexpr Row kRows[] = {
      {"$[?(@ == 1)]", "[1,1.0]"},
      {"$[?(@ != 1)]", "[18446744073709551615,2.5]"},
      {"$[?(@ > 1)]", "[18446744073709551615,2.5]"},
      {"$[?(@ >= \"1\")]", R"(["1"])"},
      {"$[?(@ == true)]", "[true]"},
      {"$[?(@ > true)]", "[]"},
      {"$[?(@ == {\"a\":1.0})]", R"([{"a":1}])"},
      {"$[?(@ == 18446744073709551615)]", "[18446744073709551615]"},
  };
  for (const Row& row : kRows) EXPECT_EQ(Select(kDoc, row.path), row.found) << row.path;
}

// Operators of 8.10: the examples of their page, and edges.
TEST(JsonPathTest, ComparesWithArrays) {
  struct {
    const char* text;
    const char* path;
    const char* found;
  } const rows[] = {
      {R"([{"a":1,"b":1},{"b":2},{"a":1},{"c":3}])", "$[?!@.a]", R"([{"b":2},{"c":3}])"},
      {R"({"a":[[1],[2],[1,2],[1,[2]]]})", "$.a[?(@ == [1,[2]])]", "[[1,[2]]]"},
      {R"({"a":[1,2,3,4],"allow":[2,3]})", "$.a[?@ in [2,4]]", "[2,4]"},
      {R"({"a":[1,2,3,4],"allow":[2,3]})", "$.a[?@ nin [2,4]]", "[1,3]"},
      {R"({"a":[1,2,3,4],"allow":[2,3]})", "$.a[?@ in $.allow]", "[2,3]"},
      {R"({"a":[1,2.0,"2",[2],null,{"x":1}]})", R"($.a[?@ in [2,[2.0],{"x":1},null]])",
       R"([2.0,[2],null,{"x":1}])"},
      {"[1,2]", "$[?@ in 1]", "[]"},
      {"[1,2]", "$[?@ nin 1]", "[1,2]"},
      {"[1,2]", "$[?@ nin $.none]", "[1,2]"},
      {R"([{"a":1},{"b":1}])", "$[?@.a nin [2]]", R"([{"a":1}])"},
      {R"([{"a":[1,5]},{"a":[6]}])", "$[?@.a[*] in [5,7]]", R"([{"a":[1,5]}])"},
      {R"([{"a":[1,5]},{"a":[6]}])", "$[?@.a[*] nin [5,7]]", R"([{"a":[6]}])"},
      {R"({"a":[[1,2],[1,5],[],3]})", "$.a[?@ subsetof [1,2,3]]", "[[1,2],[]]"},
      {R"({"a":[[1,9],[8,9],[],1]})", "$.a[?@ anyof [1,2,3]]", "[[1,9]]"},
      {R"({"a":[[4,5],[1,9],[],1]})", "$.a[?@ noneof [1,2,3]]", "[[4,5],[]]"},
      {R"({"a":[[4,5],[1],[7,8,9]]})", "$.a[?@ sizeof 2]", "[[4,5]]"},
      {R"({"a":[[4,5],"ab","\u20ac\u20ac",{"x":1,"y":2},2,null]})", "$.a[?@ size 2.9]",
       R"([[4,5],"ab","\u20ac\u20ac",{"x":1,"y":2}])"},
      {R"([[],"",[0]])", "$[?@ size -0.5]", R"([[],""])"},
      {R"([[],"x"])", R"($[?@ size "0"])", "[]"},
      {R"({"a":[[],[1],"",[2,3],{},{"k":1},0,null]})", "$.a[?@ empty true]", R"([[],"",{}])"},
      {R"({"a":[[],[1],"",[2,3],{},{"k":1},0,null]})", "$.a[?@ empty false]",
       R"([[1],[2,3],{"k":1}])"},
      {R"([[],[1]])", "$[?@ empty 1]", "[]"},
      {R"([{"in":1,"size":2},{"in":3}])", "$[?@.in in [1] && @.size == 2]",
       R"([{"in":1,"size":2}])"},
      {"[1,2]", "$[?(@in [1])]", "[1]"},
  };
  for (const auto& row : rows) {
    JsonDoc expected;
    ASSERT_EQ(ParseJson(row.found, 128, &expected), "") << row.found;
    EXPECT_EQ(Select(row.text, row.path), JsonText(expected.root())) << row.path;
  }
  // A text is counted, which takes as long as it is; whether it is empty is known.
  const std::string large = "[\"" + std::string(160'000, 'x') + "\"]";
  EXPECT_EQ(Select(large, "$[?@ size 160000]", 9'000), "too much");
  EXPECT_EQ(Select(large, "$[?@ size 160000]", 21'000), large);
  EXPECT_EQ(Select(large, "$[?@ empty false]", 100), large);
  for (const char* path : {"$[?@ inn [1]]", "$[?@ in]", "$[?@ sizeof]", "$[?@ empty]",
                           "$[?@ within [1]]", "$[?@ in in [1]]"}) {
    EXPECT_THAT(Select("[1]", path), testing::StartsWith("Error")) << path;
  }
}

TEST(JsonPathTest, WhatIsNoPathIsRefused) {
  for (const char* text : {"$.",
                           "$..",
                           "$[",
                           "$[]",
                           "$[1",
                           "$['a",
                           "$.a[$]",
                           "$[1,]",
                           "$[::0]",
                           "$[::-1]",
                           "$[?]",
                           "$[?(]",
                           "$[?(@.a == )]",
                           "$[?(@.a",
                           "$[?(1)]",
                           "$.a b",
                           "$.a[?(@ == tru)]",
                           "$[99999999999999999999]",
                           "$['\\x']",
                           "$[?(@ =~ 1)]",
                           "a..",
                           "",
                           "$[?(@.a = 1)]",
                           "$[?(@ == 1 &&)]"}) {
    EXPECT_TRUE(Select("{}", text).starts_with("Error occurred on position ")) << text;
  }
  EXPECT_EQ(Select("{}", "$.a\xFF"), "ERR a path is not UTF-8");
  const auto nested = [](size_t count) {
    return "$[?" + std::string(count, '(') + "@.a" + std::string(count, ')') + "]";
  };
  EXPECT_EQ(Select("[{\"a\":1}]", nested(15)), "[{\"a\":1}]");
  EXPECT_TRUE(Select("[]", nested(16)).starts_with("Error occurred")) << "too deep";
  EXPECT_TRUE(Select("[]", "$[?" + std::string(100'000, '!') + "@]").starts_with("Error occurred"));
  EXPECT_TRUE(Select("[]", nested(100'000)).starts_with("Error occurred"));
}

TEST(JsonPathTest, KnowsItsKind) {
  const auto path_of = [](std::string_view text) {
    JsonPath path;
    EXPECT_EQ(JsonPath::Parse(text, &path), "");
    return path;
  };
  EXPECT_TRUE(path_of("$").is_root());
  EXPECT_FALSE(path_of("$").is_legacy());
  EXPECT_TRUE(path_of(".").is_root());
  EXPECT_TRUE(path_of(".").is_legacy());
  EXPECT_EQ(path_of("a.b").text(), "$.a.b");
  EXPECT_EQ(path_of(".a").text(), "$.a");
  EXPECT_EQ(path_of("[0]").text(), "$[0]");
  EXPECT_EQ(path_of("..a").text(), "$..a");
  EXPECT_TRUE(path_of("$.a[0]['b']").is_static());
  for (const char* text : {"$..a", "$.*", "$[0,1]", "$[0:1]", "$[?(@)]"}) {
    EXPECT_FALSE(path_of(text).is_static()) << text;
  }
}

// Nothing takes exponential time, whatever it says.
TEST(JsonPathTest, WorkIsBounded) {
  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = "[" + deep + "]";
  std::string path = "$";
  for (int i = 0; i < 50; ++i) path += "..*";
  EXPECT_EQ(
      Select(deep, path), "[" + std::string(50, '[') + "1" + std::string(50, ']') + [] {
        std::string rest;
        for (int i = 49; i >= 0; --i) {
          rest += "," + std::string(static_cast<size_t>(i), '[') + "1" +
                  std::string(static_cast<size_t>(i), ']');
        }
        return rest;
      }() + "]");
  std::string twice = "$";
  for (int i = 0; i < 50; ++i) twice += "[0,0]";
  EXPECT_EQ(Select(deep, twice), "too much");
  EXPECT_EQ(Select("[1,2,3]", "$[*]", 10), "too much");
  EXPECT_EQ(Select("[1,2,3]", "$[*]", 100), "[1,2,3]");
  EXPECT_EQ(Select("[1,2,3,4,5,6,7,8,9,10,11,12]", "$[?(@ > 100)]", 10), "too much");
  EXPECT_EQ(Select("[[1],[2],[3]]", "$..[?($..[?($..[?(@ == 7)])])]", 100), "too much");
  std::string many = "0";
  for (int i = 1; i < 1000; ++i) many += "," + std::to_string(i);
  const std::string arrays = "[[" + many + "],[" + many + "]]";
  for (const char* word : {"subsetof", "anyof", "noneof"}) {
    const std::string filter = std::string("$[?@ ") + word + " $[1]]";
    EXPECT_EQ(Select(arrays, filter, 500), "too much") << word;
    EXPECT_NE(Select(arrays, filter, 5'000'000), "too much") << word;
  }
  EXPECT_EQ(Select(arrays, "$[0][?@ nin $[1]]", 100'000), "too much");
}

TEST(JsonPathTest, SortsForChange) {
  JsonDoc doc;
  ASSERT_EQ(ParseJson("{\"a\":{\"a\":{\"a\":1}}}", 128, &doc), "");
  JsonPath path;
  ASSERT_EQ(JsonPath::Parse("$['a','a']..a", &path), "");
  JsonMatches matches;
  ASSERT_TRUE(FindJson(doc, path.steps(), kWork, &matches));
  SortForChange(&matches);
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0].depth, 3u);
  EXPECT_EQ(matches[1].depth, 2u);
}

}  // namespace
}  // namespace dfly
