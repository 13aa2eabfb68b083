// SPDX-License-Identifier: Apache-2.0
// What paths have since Redis 8.10: the examples of its page about paths, and each rule of it.
#include "core/json/json_expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_match.h"
#include "core/json/json_text.h"

namespace dfly {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kEnoughWork = 1'000'000;

// What JSON.GET shows, or why it does not.
std::string Get(std::string_view text, std::string_view path_text, uint64_t work = kEnoughWork) {
  JsonDoc doc;
  EXPECT_EQ(ParseJson(text, 128, &doc), "") << text;
  JsonPath path;
  const std::string error = JsonPath::Parse(path_text, &path);
  if (!error.empty()) return error;
  std::string result = "[";
  const auto show = [&](const JsonNode& node) {
    if (result.size() > 1) result += ',';
    AppendJson(node, &result);
  };
  if (path.projection() != nullptr) {
    const auto show_all = [&](std::span<const JsonNode> nodes) {
      for (const JsonNode& node : nodes) show(node);
    };
    if (!ProjectJson(doc, *path.projection(), &work, show_all)) return "too much";
  } else {
    JsonMatches matches;
    if (!FindJson(doc, path.steps(), work, &matches)) return "too much";
    for (const JsonMatch& match : matches) show(match.value());
  }
  doc.CheckInvariants();
  EXPECT_EQ(JsonText(doc.root()), [&] {
    JsonDoc same;
    EXPECT_EQ(ParseJson(text, 128, &same), "");
    return JsonText(same.root());
  }()) << "a look changed it";
  return result + "]";
}

struct Example {
  const char* text;
  const char* path;
  const char* shown;
};

void Check(const std::vector<Example>& rows) {
  for (const Example& row : rows) EXPECT_EQ(Get(row.text, row.path), row.shown) << row.path;
}

TEST(JsonExprTest, ExamplesOfThePage) {
  Check({
      {R"([{"a":1,"b":1},{"b":2},{"a":1},{"c":3}])", "$[?!@.a]", R"([{"b":2},{"c":3}])"},
      {R"([{"a":1,"b":1},{"b":2},{"a":1},{"c":3}])", "$[?!(@.a==1)]", R"([{"b":2},{"c":3}])"},
      {R"([{"a":1,"b":1},{"b":2},{"a":1},{"c":3}])", "$[?!@.a && @.b]", R"([{"b":2}])"},
      {R"({"arrs":[[1],[2],[1,2],[1,[2]]]})", "$.arrs[?(@ == [1])]", "[[1]]"},
      {R"({"arrs":[[1],[2],[1,2],[1,[2]]]})", "$.arrs[?(@ == [1,[2]])]", "[[1,[2]]]"},
      {R"({"objs":[{"x":1},{"x":2},{"y":1}]})", R"($.objs[?(@ == {"x":1})])", R"([{"x":1}])"},
      {R"([{"a":2,"b":3},{"a":5,"b":2}])", "$[?@.a + 1 == 3]", R"([{"a":2,"b":3}])"},
      {R"([{"a":2,"b":3},{"a":5,"b":2}])", "$[?@.a + @.b * 2 == 8]", R"([{"a":2,"b":3}])"},
      {R"([{"a":2,"b":3},{"a":5,"b":2}])", "$[?(@.a + @.b) * 2 == 10]", R"([{"a":2,"b":3}])"},
      {R"({"obj":{"x":1,"y":2},"books":[{"t":"a"},{"t":"b"}]})", "$.obj~", R"(["x","y"])"},
      {R"({"obj":{"x":1,"y":2},"books":[{"t":"a"},{"t":"b"}]})", "$~", R"(["obj","books"])"},
      {R"({"obj":{"x":1,"y":2},"books":[{"t":"a"},{"t":"b"}]})", "$.books~", "[]"},
      {R"({"a":[[1,2,3],[1],"abcd","x"]})", "$.a[?length(@) > 2]", R"([[1,2,3],"abcd"])"},
      {R"([{"a":1,"b":2,"c":3},{"a":1}])", "$[?count(@.*) == 3]", R"([{"a":1,"b":2,"c":3}])"},
      {R"([{"a":1},{"a":2}])", "$[?value(@.a) == 1]", R"([{"a":1}])"},
      {R"({"obj":{"x":1,"y":2}})", "$.obj.keys()", R"(["x","y"])"},
      {R"({"obj":{"x":1,"y":2}})", "$.obj.keys().count()", "[2]"},
      {R"({"a":["abc","xabc","a","b"]})", R"($.a[?match(@, "a.*")])", R"(["abc","a"])"},
      {R"({"a":["abc","xyz","b"]})", R"($.a[?search(@, "b")])", R"(["abc","b"])"},
      {R"({"a":[{"x":"a","y":"b"},{"x":"a","y":"c"}]})", R"($.a[?concat(@.x, @.y) == "ab"])",
       R"([{"x":"a","y":"b"}])"},
      {R"({"a":[2.1,3.9,1.0]})", "$.a[?ceiling(@) == 3]", "[2.1]"},
      {R"({"a":[2.1,2.9,3.5]})", "$.a[?floor(@) == 2]", "[2.1,2.9]"},
      {R"({"a":[{"n":-5},{"n":5},{"n":-3}]})", "$.a[?abs(@.n) == 5]", R"([{"n":-5},{"n":5}])"},
      {R"({"a":[{"n":[1,2]},{"n":[9,8]}]})", "$.a[?first(@.n) == 1]", R"([{"n":[1,2]}])"},
      {R"({"a":[{"n":[1,2]},{"n":[9,8]}]})", "$.a[?last(@.n) == 8]", R"([{"n":[9,8]}])"},
      {R"({"a":[{"n":[1,2]},{"n":[9,8]}]})", "$.a[?index(@.n, -1) == 2]", R"([{"n":[1,2]}])"},
      {R"({"a":[{"n":[3,1,2]},{"n":[5,6]}]})", "$.a[?sum(@.n) == 6]", R"([{"n":[3,1,2]}])"},
      {R"({"a":[{"n":[3,1,2]},{"n":[5,6]}]})", "$.a[?avg(@.n) == 2]", R"([{"n":[3,1,2]}])"},
      {R"({"arr":[1,2,3]})", "$.arr.append(9)", "[1,2,3,9]"},
      {R"({"books":[{"t":"a","price":30},{"t":"b","price":5}]})",
       R"($.books[?(@.price >= 10)].append({"t":"X"}))", R"([{"t":"a","price":30},{"t":"X"}])"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "$.a + 1", "[3]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "$.a * $.b", "[8]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "($.a + $.b) / 2", "[3.0]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "$.arr.length()", "[3]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "length($.arr)", "[3]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "-$.a", "[-2]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "($.a)", "[2]"},
      {R"({"a":2,"b":4,"arr":[1,2,3]})", "$.a / 0", "[]"},
  });
}

TEST(JsonExprTest, Arithmetic) {
  constexpr const char* kDoc =
      R"({"a":7,"b":2,"f":2.5,"s":"x","n":null,"most":9223372036854775807,)"
      R"("least":-9223372036854775808,"u":18446744073709551615,"big":1e308,"a+1":5,"l":[1,"x",3]})";
  Check({
      {kDoc, "$.a - $.b", "[5]"},
      {kDoc, "$.a - $.b - 1", "[4]"},
      {kDoc, "$.a - ($.b - 1)", "[6]"},
      {kDoc, "$.a + $.b * 2 % 3", "[8]"},
      {kDoc, "1 + $.a", "[8]"},
      {kDoc, "2 * 3 + 1", "[7]"},
      {kDoc, "$.a / 2", "[3.5]"},
      {kDoc, "$.b / 2", "[1.0]"},
      {kDoc, "$.a % 4", "[3]"},
      {kDoc, "-$.a % 4", "[-3]"},
      {kDoc, "$.f % 2", "[0.5]"},
      {kDoc, "$.a % 0", "[]"},
      {kDoc, "$.a % 0.0", "[]"},
      {kDoc, "$.f * 2", "[5.0]"},
      {kDoc, "- -$.a", "[7]"},
      {kDoc, "+$.f", "[2.5]"},
      {kDoc, "+$.u", "[18446744073709551615]"},
      {kDoc, "$.a - -3", "[10]"},
      {kDoc, "-($.a + 1)", "[-8]"},
      // Text is no number, and a name may have signs in it.
      {kDoc, "$.s + 1", "[]"},
      {kDoc, "$.n * 1", "[]"},
      {kDoc, "-$.s", "[]"},
      {kDoc, "+$.s", "[]"},
      {kDoc, "$.none + 1", "[]"},
      {kDoc, "$.a+1", "[5]"},
      {kDoc, "$.a+1 + 1", "[6]"},
      // Beyond 64 bits they are doubles, and beyond those Nothing.
      {kDoc, "$.most + 1", "[9.223372036854776e18]"},
      {kDoc, "-$.least", "[9.223372036854776e18]"},
      {kDoc, "$.least % -1", "[0]"},
      {kDoc, "$.big * 10", "[]"},
      // Each of a list, without those that are no numbers.
      {kDoc, "$.l[*] * 2", "[2,6]"},
      {kDoc, "$.l[*] + $.l[*]", "[2,4,4,6]"},
      {kDoc, "-$.l[*]", "[-1,-3]"},
      {R"([{"v":[1,2]},{"v":[3]},{"v":["x"]},{}])", "$[?@.v[*] + 1 == 3].v", "[[1,2]]"},
      {"[1,2,3,4]", "$[?@ % 2 == 0]", "[2,4]"},
      {"[1,2,3,4]", "$[?-@ < -2]", "[3,4]"},
      {"[1,\"a\",2]", "$[?@ + 0]", "[1,2]"},
  });
}

// Nothing makes a condition false, whatever it is, and its negation true.
TEST(JsonExprTest, Nothing) {
  constexpr const char* kDoc = R"([{"a":1},{"a":"x"},{}])";
  for (const char* path :
       {"$[?@.a / 0 == 1]",    "$[?@.a % 0 != 1]",       "$[?@.b < 1]",
        "$[?@.a + @.b]",       "$[?length() == 0]",      "$[?length(@.a, 1) == 1]",
        "$[?match(@.a)]",      "$[?@.a.match()]",        "$[?subsetof(@.a)]",
        "$[?index(@.a) == 1]", "$[?index([1], 1) == 1]", "$[?concat(@.a, 1) == 'x1']",
        "$[?concat() == '']",  "$[?append(@.a) == 1]",   "$[?@.a.length(1)]",
        "$[?sum([]) == 0]",    "$[?match(@.a, '[')]",    "$[?search(@.a, 1)]",
        "$[?@.b in [1]]",      "$[?@.b nin [1]]",        "$[?1 / 0 nin [1]]",
        "$[?abs('x')]",        "$[?keys(@.a)]",          "$[?@.a.first()]"}) {
    EXPECT_EQ(Get(kDoc, path), "[]") << path;
  }
  EXPECT_EQ(Get(kDoc, "$[?!(@.a / 0 == 1)]"), kDoc);
  EXPECT_EQ(Get(kDoc, "$[?!match(@.a)]"), kDoc);
  for (const char* path :
       {"length($[0].a)", "$.none.length()", "first($[2])", "sum($[*].a)", "$[0].a.keys()",
        "value($[*])", "index($, 3)", "index($, '0')", "$.append($.none)", "$.none.append(1)",
        "$[7:].append(1)", "count(1 / 0)", "length($, 1)", "min()"}) {
    EXPECT_EQ(Get(kDoc, path), "[]") << path;
  }
}

TEST(JsonExprTest, ComparesNumbersOfBothKinds) {
  constexpr const char* kDoc = R"({"l":[1,1.0,2],"o":{"x":1.0},"s":[[1],[2]]})";
  Check({
      {kDoc, "$.l[?@ == 1]", "[1,1.0]"},
      {kDoc, "$.l[?@ in [1]]", "[1,1.0]"},
      {kDoc, "$.l[?@ nin [1.0]]", "[2]"},
      {kDoc, "$[?@ == {\"x\":1}]", R"([{"x":1.0}])"},
      {kDoc, "$.s[?@ subsetof [1.0]]", "[[1]]"},
      {kDoc, "$.s[?@ < [2]]", "[]"},
      {kDoc, "$.s[?@ >= [1]]", "[]"},
      {kDoc, "$.s[?[1] == @]", "[[1]]"},
      {kDoc, "$.s[?@ != [1]]", "[[2]]"},
      {kDoc, "$.l[?@ == '1']", "[]"},
  });
}

TEST(JsonExprTest, NotBindsTightly) {
  constexpr const char* kDoc = R"([{"a":1,"b":1},{"b":2},{"a":1},{"c":3}])";
  Check({
      {kDoc, "$[?!!@.a]", R"([{"a":1,"b":1},{"a":1}])"},
      {kDoc, "$[?!@.a || @.b]", R"([{"a":1,"b":1},{"b":2},{"c":3}])"},
      {kDoc, "$[?!(@.a || @.b)]", R"([{"c":3}])"},
      {kDoc, "$[?! (@.a && @.b)]", R"([{"b":2},{"a":1},{"c":3}])"},
      {kDoc, "$[?!@.b == 1]", R"([{"b":2},{"a":1},{"c":3}])"},
      {kDoc, "$[?@.a != 1 || @.b == 2]", R"([{"b":2}])"},
  });
}

TEST(JsonExprTest, ListsMatchAny) {
  constexpr const char* kDoc =
      R"({"l":[{"v":[1,5]},{"v":[6,[1]]},{"v":[]},{"v":"xy"}],"w":[[1,2],[3]]})";
  Check({
      {kDoc, "$.l[?@.v[*] == 5].v", "[[1,5]]"},
      {kDoc, "$.l[?@.v[*] size 1].v", "[[6,[1]]]"},
      {kDoc, "$.l[?length(@.v[*]) == 1].v", "[[6,[1]]]"},
      {kDoc, "$.l[?@.v.* nin [1,6]].v", "[]"},
      {kDoc, "$.w[0][?@ in $.w[*]]", "[1,2]"},
      {kDoc, "$.w[0][?@ in $.w[1:]]", "[]"},
      {kDoc, "$.w[?@ in $.w[*]]", "[[1,2],[3]]"},
      {kDoc, "$.l[?1 in @.v].v", "[[1,5]]"},
      {kDoc, "$.l[?5 in @.v[*]].v", "[[1,5]]"},
      {kDoc, "$.l[?@.v[*] empty false].v", "[[6,[1]]]"},
      // A function takes a list as an array.
      {kDoc, "$.l[?subsetof(@.v[*], [1,5,7])].v", R"([[1,5],[],"xy"])"},
      {kDoc, "$.l[?anyof(@.v[*], [5])].v", "[[1,5]]"},
      {kDoc, "$.l[?@.v.noneof([5])].v", "[[6,[1]],[]]"},
      {kDoc, "$.w[?@.subsetof([3,4])]", "[[3]]"},
      {kDoc, "sum($.l[0].v[*])", "[6]"},
      {kDoc, "$.w[*].length()", "[2,1]"},
      {kDoc, "count($.w[*][*])", "[3]"},
      {kDoc, "first($.w[*])", "[[1,2]]"},
  });
}

TEST(JsonExprTest, Functions) {
  constexpr const char* kDoc =
      R"({"i":[3,-1,2],"f":[1.5,-2.5],"m":[1,"x"],"e":[],"s":"\u20acx","o":{"b":1,"a":{}},)"
      R"("least":-9223372036854775808,"u":18446744073709551615,"t":["ab","c",1],"n":null,)"
      R"("big":[1e308,1e308],"l":[{"x":1},{"y":2},3]})";
  Check({
      {kDoc, "length($.s)", "[2]"},
      {kDoc, "$.o.length()", "[2]"},
      {kDoc, "$.length()", "[12]"},
      {kDoc, "length('abc')", "[3]"},
      {kDoc, "$.n.length()", "[]"},
      {kDoc, "count($.none)", "[0]"},
      {kDoc, "count($.o)", "[1]"},
      {kDoc, "count($..none)", "[0]"},
      {kDoc, "value($.i[?@ > 2])", "[3]"},
      {kDoc, "value($.i)", "[[3,-1,2]]"},
      {kDoc, "$.l[*].keys()", R"(["x","y"])"},
      {kDoc, "$.l[*]~", R"(["x","y"])"},
      {kDoc, "$.n~", "[]"},
      {kDoc, "$.none~", "[]"},
      {kDoc, "$.o.keys().first()", R"(["b"])"},
      {kDoc, "$.o.keys().length()", "[2]"},
      {kDoc, "$.o.keys().append('c')", R"(["b","a","c"])"},
      {kDoc, R"($[?@.keys() == ["b","a"]])", R"([{"b":1,"a":{}}])"},
      {kDoc, R"($[?@~ anyof ["a"]])", R"([{"b":1,"a":{}}])"},
      {kDoc, "$.l[?'x' in @~]", R"([{"x":1}])"},
      {kDoc, "$.l[?@~]", R"([{"x":1},{"y":2}])"},
      {kDoc, "concat($.s, '!', 'x')", "[\"\xE2\x82\xACx!x\"]"},
      {kDoc, "concat($.t[*], '-')", R"(["ab-","c-"])"},
      {kDoc, "abs($.i[*])", "[3,1,2]"},
      {kDoc, "$.f[*].abs()", "[1.5,2.5]"},
      {kDoc, "$.f[*].ceiling()", "[2.0,-2.0]"},
      {kDoc, "$.f[*].floor()", "[1.0,-3.0]"},
      {kDoc, "floor($.i[0])", "[3]"},
      {kDoc, "abs($.least)", "[]"},
      {kDoc, "abs($.u)", "[]"},
      {kDoc, "floor($.least)", "[-9223372036854775808]"},
      {kDoc, "index($.i, 1.9)", "[-1]"},
      {kDoc, "index($.i, -0.5)", "[3]"},
      {kDoc, "index($.i, -3)", "[3]"},
      {kDoc, "index($.i, -4)", "[]"},
      {kDoc, "index($.i, 1e300)", "[]"},
      {kDoc, "$.i.last()", "[2]"},
      {kDoc, "$.e.last()", "[]"},
      {kDoc, "$.i.min()", "[-1]"},
      {kDoc, "$.i.max()", "[3]"},
      {kDoc, "$.f.min()", "[-2.5]"},
      {kDoc, "$.i.sum()", "[4]"},
      {kDoc, "$.f.sum()", "[-1.0]"},
      {kDoc, "$.i.avg() * 3", "[4.0]"},
      {kDoc, "[2,4,4,4,5,5,7,9].stddev()", "[2.0]"},
      {kDoc, "stddev([7])", "[0.0]"},
      {kDoc, "$.big.sum()", "[]"},
      {kDoc, "$.big.stddev()", "[]"},
      {kDoc, "$.m.max()", "[]"},
      {kDoc, "$.e.min()", "[]"},
      {kDoc, "$.e.append(1, [2], $.o)", R"([1,[2],{"b":1,"a":{}}])"},
      {kDoc, "$.e.append($.i[*])", "[[3,-1,2]]"},
      {kDoc, "$.e.append($.i[?@ > 2])", "[3]"},
      {kDoc, "$.e.append($.i.append(4))", "[[3,-1,2,4]]"},
      {kDoc, "$.i.append(4).append(5).sum()", "[13]"},
      {kDoc, "$.i.append(4).count()", "[4]"},
      {kDoc, "$.s.append(1)", "[]"},
      {kDoc, "abs( $.i[1] )", "[1]"},
      {kDoc, "(($.i)).sum()", "[4]"},
      // A field may have the name of a function or of an operator.
      {R"({"length":1,"size":{"in":2},"a~b":3})", "$.length", "[1]"},
      {R"({"length":1,"size":{"in":2},"a~b":3})", "$.size.in", "[2]"},
      {R"({"length":1,"size":{"in":2},"a~b":3})", "$['size'].length()", "[1]"},
      {R"({"length":1,"size":{"in":2},"a~b":3})", "$['a~b']", "[3]"},
  });
}

TEST(JsonExprTest, WhatIsNoExpressionIsRefused) {
  for (const char* path : {"$.obj~.x",
                           "$.obj~~",
                           "$.obj.keys()~",
                           "$.obj~.keys()",
                           "$.a~b",
                           "$.a +1",
                           "$.a+ 1",
                           "$.a *2",
                           "$.a*2",
                           "$.a + ",
                           "$.a + + ",
                           "$.a == 1",
                           "$.a && $.b",
                           "!$.a",
                           "match($.a, 'x')",
                           "$.a.anyof([1])",
                           "@.a + 1",
                           "length(@)",
                           "$.a + @",
                           "length($.a",
                           "length($.a))",
                           "length ($.a)",
                           "length($.a,)",
                           "len($.a)",
                           "$.a.len()",
                           "$..length()",
                           "$.a.size()",
                           "$.first().x",
                           "$.first()[0]",
                           "$.a size 2",
                           "($.a",
                           "()",
                           "'text'",
                           "[1] + ",
                           "$[?length(@.a == 1)]",
                           "$[?(@.a == 1) + 1]",
                           "$[?(@.a == 1) == true]",
                           "$[?@.a == @.b == @.c]",
                           "$[?-(@.a && @.b)]",
                           "$[?@.a =~ 1]",
                           ".a.length()",
                           "a.length()",
                           "a + 1",
                           "a~"}) {
    EXPECT_THAT(Get("{}", path), StartsWith("Error occurred on position ")) << path;
  }
  EXPECT_THAT(Get("{}", "$.a +1"), HasSubstr("expected blanks around the sign"));
  EXPECT_THAT(Get("{}", "a[?(@.b == )]"), HasSubstr("\"$.a[?(@.b ==  ---->>>> )]\""));
  EXPECT_THAT(Get("{}", "length($.a"), HasSubstr("\"length($.a ---->>>> \", expected ')'"));
}

TEST(JsonExprTest, KnowsPathsFromProjections) {
  const auto path_of = [](std::string_view text) {
    JsonPath path;
    EXPECT_EQ(JsonPath::Parse(text, &path), "") << text;
    return path;
  };
  for (const char* text :
       {"$", "$.a", "$..x", "($.a)", "(($.a))", "$[?(@.a + 1 == 2)]", "a", "-a", "+", "1", ".-$"}) {
    EXPECT_EQ(path_of(text).projection(), nullptr) << text;
  }
  for (const char* text :
       {"$.a + 1", "-$.a", "- $.a", "$.a.length()", "length($.a)", "$~", "2 * $.a", "($.a + 1)"}) {
    EXPECT_NE(path_of(text).projection(), nullptr) << text;
    EXPECT_FALSE(path_of(text).is_legacy()) << text;
    EXPECT_FALSE(path_of(text).is_root()) << text;
    EXPECT_EQ(path_of(text).text(), text);
  }
  EXPECT_FALSE(path_of("($.a)").is_legacy());
  EXPECT_TRUE(path_of("($.a)").is_static());
  EXPECT_TRUE(path_of("-a").is_legacy());
  for (const char* text : {"in", "nin.a", "size", "sizeof", "empty[0]", "anyof..a"}) {
    EXPECT_TRUE(path_of(text).begins_with_operator()) << text;
  }
  for (const char* text : {".size", "$.size", "sizes", "a.size", "['size']", "..size", "."}) {
    EXPECT_FALSE(path_of(text).begins_with_operator()) << text;
  }
}

// --- Bounds ---

std::string Repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(JsonExprTest, DepthIsBounded) {
  EXPECT_EQ(Get("1", Repeated("abs(", 15) + "$" + Repeated(")", 15)), "[1]");
  EXPECT_EQ(Get("[1]", "$" + Repeated(".append(1)", 15) + ".count()"), "[16]");
  for (const std::string& path :
       {Repeated("abs(", 17) + "$" + Repeated(")", 17), Repeated("-", 17) + "$",
        "$" + Repeated(".abs()", 30), Repeated("abs(", 100'000), Repeated("-", 100'000) + "$",
        "$" + Repeated(".abs()", 100'000), "$" + Repeated(" + 1", 100'000),
        "$[?" + Repeated("!", 100'000) + "@]"}) {
    EXPECT_THAT(Get("1", path), StartsWith("Error occurred")) << path.substr(0, 40);
  }
  EXPECT_EQ(Get("1", "$" + Repeated(" + 1", 500)), "[501]");
  EXPECT_EQ(Get("[1]", "$[?@ == 2" + Repeated(" || @ == 1", 400) + "]"), "[1]");
}

TEST(JsonExprTest, WorkIsBounded) {
  std::string many = "0";
  for (int i = 1; i < 1'000; ++i) many += "," + std::to_string(i);
  const std::string array = "[" + many + "]";
  const std::string text = "[\"" + std::string(100'000, 'x') + "\"]";
  struct {
    std::string text;
    std::string path;
    uint64_t enough;
  } const rows[] = {
      {array, "sum($)", 2'100},
      {array, "$.append(1)", 2'100},
      {array, "$[*] + 1", 20'000},
      {array, "$[*] + $[*]", 8'100'000},
      {array, "append($, $[*])", 20'000},
      {array, "$[?sum($) == @]", 2'100'000},
      {"[" + array + "]", "$[?@ subsetof $[0]]", 2'100'000},
      {text, "length($[0])", 14'000},
      {text, "$[?@ size 3]", 14'000},
      {text, "concat($[0], $[0])", 80'000},
      {text, "$[?match(@, 'x*')]", 250'000},
      {"{\"a\":" + array + "}", "$.a.append($).append($).count()", 10'000},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(Get(row.text, row.path, row.enough / 3) == "too much") << row.path;
    EXPECT_FALSE(Get(row.text, row.path, row.enough) == "too much") << row.path;
  }
  // What doubles at each step ends soon.
  std::string twice = "$[0]";
  for (int i = 0; i < 8; ++i) twice = "concat(" + twice + ", " + twice + ")";
  EXPECT_TRUE(Get(text, twice, 16'000'000) == "too much");
  std::string arrays = "$[0,0,0,0,0,0,0,0]";
  for (int i = 0; i < 8; ++i) arrays = "append($, " + arrays + "[*][0,0,0,0,0,0,0,0])";
  EXPECT_THAT(Get("[[[1]]]", arrays), StartsWith("Error"));
  std::string lists = "$";
  for (int i = 0; i < 8; ++i) lists += "[0,0,0,0,0,0,0,0]";
  EXPECT_EQ(Get("[[[[[[[[1]]]]]]]]", "concat(" + lists + ", " + lists + ")"), "too much");
  EXPECT_EQ(Get("[[[[[[[[1]]]]]]]]", lists + " + " + lists), "too much");
}

// A pattern costs by what it takes to compile, and few are compiled twice.
TEST(JsonExprTest, RegularExpressionsAreWork) {
  const auto filter = [](const std::string& pattern) { return "$[?@ =~ '" + pattern + "']"; };
  EXPECT_EQ(Get(R"(["ab"])", filter("b"), 5'000), R"(["ab"])");
  EXPECT_EQ(Get(R"(["ab"])", filter(Repeated("[^c]?", 100)), 50'000), "too much");
  for (const char* dear : {"\\\\pL", "\\\\PL", "b{1,900}"}) {
    EXPECT_EQ(Get(R"(["ab"])", filter(dear), 50'000), "too much") << dear;
    EXPECT_NE(Get(R"(["ab"])", filter(dear), 100'000), "too much") << dear;
  }
  EXPECT_EQ(Get(R"(["ab"])", filter(Repeated("\\\\pL", 300)), 3'000'000), "too much");
  // One of a path is refused, one of the document matches nothing.
  const std::string longest(1024, '.');
  EXPECT_EQ(Get(R"(["ab"])", filter(longest)), "[]");
  for (const char* path : {"$[?@ =~ '", "$[?match(@, '", "$[?search(@, '"}) {
    const std::string end = path[5] == '=' ? "']" : "')]";
    EXPECT_THAT(Get(R"(["ab"])", path + longest + "." + end), HasSubstr("of at most 1024 bytes"));
  }
  EXPECT_EQ(Get(R"(["b",")" + std::string(1025, 'b') + R"("])", "$[?'b' =~ @]", 3'000), R"(["b"])");
  // Patterns that take turns.
  std::string texts = R"("a","b")";
  for (int i = 0; i < 500; ++i) texts += R"(,"a","b")";
  EXPECT_NE(Get("[" + texts + "]", "$[?'ab' =~ @]", 30'000), "too much");
  std::string many = "\"0\"";
  for (int i = 1; i < 1000; ++i) many += ",\"" + std::to_string(i % 100) + "\"";
  EXPECT_EQ(Get("[" + many + "]", "$[?'ab' =~ @]", 1'000'000), "too much");
}

// An error shows a part of a long path.
TEST(JsonExprTest, ErrorsAreShort) {
  const std::string name(100'000, 'a');
  for (const std::string& path :
       {"$." + name + "!", "$['" + name, "$." + name + "[?(]", "$.[!" + name}) {
    const std::string error = Get("1", path);
    EXPECT_THAT(error, StartsWith("Error occurred on position ")) << path.substr(0, 10);
    EXPECT_LT(error.size(), 600u) << path.substr(0, 10);
  }
  EXPECT_EQ(JsonPath::Excerpt("$.a"), "$.a");
  EXPECT_EQ(JsonPath::Excerpt(std::string(199, 'a') + "\u00e9\u00e9"),
            std::string(199, 'a') + "...");
}

// Names of older paths may begin with a sign and $.
TEST(JsonExprTest, WhatIsReplayedHasOlderNames) {
  for (const char* text : {"-$.a", "+$", "-$"}) {
    JsonPath path;
    EXPECT_EQ(JsonPath::Parse(text, &path, true), "") << text;
    EXPECT_EQ(path.projection(), nullptr) << text;
    EXPECT_EQ(path.text(), std::string("$.") + text);
  }
  for (const char* text : {"$", "$.a", "$['a']", "($.a)", "$ "}) {
    JsonPath path, replayed;
    EXPECT_EQ(JsonPath::Parse(text, &path), "");
    EXPECT_EQ(JsonPath::Parse(text, &replayed, true), "");
    EXPECT_EQ(path.text(), replayed.text());
    EXPECT_EQ(path.is_static(), replayed.is_static());
    EXPECT_EQ(path.steps().size(), replayed.steps().size());
  }
}

}  // namespace
}  // namespace dfly
