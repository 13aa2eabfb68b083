// SPDX-License-Identifier: Apache-2.0
// JSON.*
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kNotJson = "-WRONGTYPE Existing key has wrong Redis type";
constexpr std::string_view kNoDocument =
    "-ERR could not perform this operation on a key that doesn't exist";

class JsonTest : public CommandsTest {
 protected:
  void Make(std::string_view key, std::string_view text) {
    EXPECT_EQ(RunWords({"json.set", std::string(key), "$", std::string(text)}), "+OK") << text;
  }
  // The document, without the quotes of a reply.
  std::string Get(std::string_view key) { return Call({"json.get", std::string(key), "."}).text; }
  std::string Run3(std::string_view line) {
    resp3_ = true;
    std::string reply = Run(line);
    resp3_ = false;
    return reply;
  }
};

// --- SET, GET ---

TEST_P(JsonTest, SetMakesAndReplaces) {
  EXPECT_EQ(Run("json.set d $.a 1"), "-ERR new objects must be created at the root");
  EXPECT_EQ(Run("json.set d $ 1 XX"), "(nil)");
  EXPECT_EQ(Run("json.set d $ {\"a\":2} NX"), "+OK");
  EXPECT_EQ(Run("json.set d $ 1 NX"), "(nil)");
  EXPECT_EQ(Run("json.set d $.a 3"), "+OK");
  EXPECT_EQ(Run("json.set d .b {\"c\":[1,2]}"), "+OK");
  EXPECT_EQ(Run("json.set d b.d \"text\""), "+OK");
  EXPECT_EQ(Get("d"), "{\"a\":3,\"b\":{\"c\":[1,2],\"d\":\"text\"}}");
  EXPECT_EQ(Run("json.set d $.x.y 2"), "(nil)");
  EXPECT_EQ(Run("json.set d $.a.y 2"), "(nil)");
  EXPECT_EQ(Run("json.set d $.a[0] 2"), "(nil)");
  EXPECT_EQ(Run("json.set d $.b.c[1] null"), "+OK");
  EXPECT_EQ(Run("json.set d $.b.c[2] 5"), "-ERR index out of bounds");
  EXPECT_EQ(Run("json.set d $..nothing 5"), "-ERR wrong static path");
  EXPECT_EQ(Run("json.set d $.a 4 NX"), "(nil)");
  EXPECT_EQ(Run("json.set d $.e 4 XX"), "(nil)");
  EXPECT_EQ(Run("json.set d $.e 4 NX"), "+OK");
  EXPECT_EQ(Run("json.set d $.e 5 XX"), "+OK");
  EXPECT_EQ(Get("d"), "{\"a\":3,\"b\":{\"c\":[1,null],\"d\":\"text\"},\"e\":5}");
  EXPECT_EQ(Run("json.set d . [1]"), "+OK");
  EXPECT_EQ(Get("d"), "[1]");
  EXPECT_EQ(Run("type d"), "+ReJSON-RL");
  EXPECT_EQ(Run("object encoding d"), "\"raw\"");
}

TEST_P(JsonTest, SetChangesAllMatches) {
  Make("d", "{\"f1\":{\"a\":1},\"f2\":{\"a\":{\"a\":2}},\"a\":[{\"a\":7}]}");
  EXPECT_EQ(Run("json.set d $..a {\"a\":0}"), "+OK");
  EXPECT_EQ(Get("d"), "{\"f1\":{\"a\":{\"a\":0}},\"f2\":{\"a\":{\"a\":0}},\"a\":{\"a\":0}}");
}

TEST_P(JsonTest, SetRefusesWhatMakesNoSense) {
  Make("d", "{\"a\":1}");
  EXPECT_TRUE(Run("json.set d $ {a").starts_with("-expected a JSON value"));
  EXPECT_TRUE(Run("json.set d $[ 1").starts_with("-Error occurred on position"));
  EXPECT_EQ(Run("json.set d $ 1 NX XX"), kSyntaxError);
  EXPECT_EQ(Run("json.set d $ 1 more"), kSyntaxError);
  for (const char* end : {"FPHA", "FPHA FP8", "FPHA NX", "FPHA FP16 FPHA FP16", "FP16", "XX FPHA",
                          "FPHA FP16 NX XX"}) {
    EXPECT_EQ(Run("json.set d $ [1.5] " + std::string(end)), kSyntaxError) << end;
  }
  MakeHash("h");
  EXPECT_EQ(Run("json.set h $ 1"), kNotJson);
  EXPECT_EQ(Get("d"), "{\"a\":1}");
}

TEST_P(JsonTest, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  Make("d", nested(128));
  EXPECT_EQ(RunWords({"json.set", "e", "$", nested(129)}), "-recursion limit exceeded");
  Make("e", "{\"a\":{\"b\":[]}}");
  EXPECT_EQ(RunWords({"json.set", "e", "$.a.b", nested(127)}), "-ERR recursion limit exceeded");
  EXPECT_EQ(RunWords({"json.set", "e", "$.a.c", nested(127)}), "-ERR recursion limit exceeded");
  EXPECT_EQ(RunWords({"json.arrappend", "e", "$.a.b", nested(126)}),
            "-ERR recursion limit exceeded");
  EXPECT_EQ(RunWords({"json.arrinsert", "e", "$.a.b", "0", nested(126)}),
            "-ERR recursion limit exceeded");
  EXPECT_EQ(RunWords({"json.merge", "e", "$.a.b", nested(127)}), "-ERR recursion limit exceeded");
  EXPECT_EQ(Get("e"), "{\"a\":{\"b\":[]}}");
  EXPECT_EQ(RunWords({"json.arrappend", "e", "$.a.b", nested(125)}), "[:1]");
}

TEST_P(JsonTest, GetHasShapes) {
  EXPECT_EQ(Run("json.get d"), "(nil)");
  Make("d", "{\"a\":2,\"b\":3,\"nested\":{\"a\":4,\"b\":null}}");
  EXPECT_EQ(Call({"json.get", "d"}).text, "{\"a\":2,\"b\":3,\"nested\":{\"a\":4,\"b\":null}}");
  EXPECT_EQ(Call({"json.get", "d", "$..b"}).text, "[3,null]");
  EXPECT_EQ(Call({"json.get", "d", "$.x"}).text, "[]");
  EXPECT_EQ(Call({"json.get", "d", ".a"}).text, "2");
  EXPECT_EQ(Run("json.get d x.y"), "-ERR Path '$.x.y' does not exist");
  EXPECT_EQ(Call({"json.get", "d", "..a", "$..b"}).text, "{\"..a\":[2,4],\"$..b\":[3,null]}");
  EXPECT_EQ(Call({"json.get", "d", "a", ".b"}).text, "{\"a\":2,\".b\":3}");
  EXPECT_EQ(Run("json.get d a x"), "-ERR Path '$.x' does not exist");
  EXPECT_EQ(Call({"json.get", "d", "INDENT", " ", "NEWLINE", "\n", "SPACE", " ", "$.nested"}).text,
            "[\n {\n  \"a\": 4,\n  \"b\": null\n }\n]");
  EXPECT_EQ(Call({"json.get", "d", "indent", "\t", "newline", "\n", "a", "b"}).text,
            "{\n\t\"a\":2,\n\t\"b\":3\n}");
  resp3_ = true;
  EXPECT_EQ(Call({"json.get", "d"}).text, "[{\"a\":2,\"b\":3,\"nested\":{\"a\":4,\"b\":null}}]");
  resp3_ = false;
  MakeHash("h");
  EXPECT_EQ(Run("json.get h"), kNotJson);
}

TEST_P(JsonTest, GetShowsWhatAPathComputes) {
  Make("d", "{\"a\":2,\"b\":4,\"arr\":[1,2,3]}");
  Make("e", "{\"a\":\"x\",\"arr\":[]}");
  EXPECT_EQ(Call({"json.get", "d", "$.a + 1"}).text, "[3]");
  EXPECT_EQ(Call({"json.get", "d", "-$.a"}).text, "[-2]");
  EXPECT_EQ(Call({"json.get", "d", "$.a / 0"}).text, "[]");
  EXPECT_EQ(Call({"json.get", "d", "($.a)"}).text, "[2]");
  EXPECT_EQ(Call({"json.get", "d", "$.a + 1", "$.b"}).text, "{\"$.a + 1\":[3],\"$.b\":[4]}");
  // With one of them the others are shown as arrays, too.
  EXPECT_EQ(Call({"json.get", "d", "a", "sum($.arr)"}).text, "{\"a\":[2],\"sum($.arr)\":[6]}");
  EXPECT_EQ(Call({"json.get", "d", "INDENT", " ", "NEWLINE", "\n", "$~"}).text,
            "[\n \"a\",\n \"b\",\n \"arr\"\n]");
  EXPECT_EQ(RunWords({"json.mget", "d", "e", "none", "$.a * 2"}), "[\"[4]\", \"[]\", (nil)]");
  EXPECT_EQ(RunWords({"json.mget", "d", "e", "$.arr.append($.a)"}), "[\"[1,2,3,2]\", \"[\"x\"]\"]");
}

TEST_P(JsonTest, OnlyGetAndMGetTakeWhatComputes) {
  constexpr std::string_view kDoc = "{\"a\":[1,2]}";
  Make("d", kDoc);
  const std::string error =
      "-ERR '$.a.first()' computes a value, which only JSON.GET and JSON.MGET show";
  const std::string path = "$.a.first()";
  for (const Words& words : std::vector<Words>{{"json.set", "d", path, "1"},
                                               {"json.mset", "d", path, "1"},
                                               {"json.mset", "d", "$", "1", "e", path, "1"},
                                               {"json.merge", "d", path, "1"},
                                               {"json.del", "d", path},
                                               {"json.forget", "d", path},
                                               {"json.clear", "d", path},
                                               {"json.type", "d", path},
                                               {"json.resp", "d", path},
                                               {"json.strlen", "d", path},
                                               {"json.arrlen", "d", path},
                                               {"json.objlen", "d", path},
                                               {"json.objkeys", "d", path},
                                               {"json.arrindex", "d", path, "1"},
                                               {"json.debug", "memory", "d", path},
                                               {"json.numincrby", "d", path, "1"},
                                               {"json.nummultby", "d", path, "1"},
                                               {"json.strappend", "d", path, "\"x\""},
                                               {"json.toggle", "d", path},
                                               {"json.arrappend", "d", path, "1"},
                                               {"json.arrinsert", "d", path, "0", "1"},
                                               {"json.arrpop", "d", path},
                                               {"json.arrtrim", "d", path, "0", "1"}}) {
    EXPECT_EQ(RunWords(words), error) << words[0];
  }
  EXPECT_EQ(Get("d"), kDoc);
  EXPECT_EQ(RunWords({"json.numincrby", "d", "$.a[?@ + 1 == 3]", "5"}), "\"[7]\"");
  EXPECT_EQ(RunWords({"json.arrlen", "d", "($.a)"}), "[:2]");
}

TEST_P(JsonTest, WordsOfOperatorsBeginNoOlderPath) {
  Make("d", "{\"size\":1,\"in\":{\"empty\":2}}");
  EXPECT_EQ(Run("json.get d size"),
            "-ERR 'size' begins with a word that is an operator: write '$.size'");
  EXPECT_EQ(Run("json.set d in.empty 3"),
            "-ERR 'in.empty' begins with a word that is an operator: write '$.in.empty'");
  EXPECT_EQ(Call({"json.get", "d", ".size"}).text, "1");
  EXPECT_EQ(Call({"json.get", "d", "$.in.empty"}).text, "[2]");
  EXPECT_EQ(Run("json.set d [\"size\"] 3"), "+OK");
  // Those who replay a log of an older version know what it meant.
  const int64_t now_ms = std::exchange(now_ms_, 0);
  EXPECT_EQ(Run("json.set d size 4"), "+OK");
  EXPECT_EQ(Run("json.mset d in.empty 5 other $ 1 third $ 1"), "+OK");
  EXPECT_EQ(Run("json.numincrby d size 1"), "\"5\"");
  EXPECT_EQ(Run("json.set d -$ 6"), "+OK");
  EXPECT_EQ(Run("json.mset d +$ 7 fourth $ 1 fifth $ 1 sixth $ 1"), "+OK");
  now_ms_ = now_ms;
  EXPECT_EQ(Get("d"), "{\"size\":5,\"in\":{\"empty\":5},\"-$\":6,\"+$\":7}");
}

TEST_P(JsonTest, MGetAndMSetReachAllShards) {
  EXPECT_EQ(Run("json.mset d1 $ {\"a\":1} d2 $ {\"f\":{\"a\":2}} d3 $ 3 d1 $.b 5"), "+OK");
  EXPECT_EQ(Run("json.mset d1 $.a 2 d2 $.f.a 3 d3 . [1] d2 $.x.y 1"), "+OK");
  MakeHash("h");
  EXPECT_EQ(Run("json.mget d1 none h d2 $..a"), "[\"[2]\", (nil), (nil), \"[3]\"]");
  EXPECT_EQ(Run("json.mget d1 d3 d2 .a"), "[\"2\", (nil), (nil)]");
  EXPECT_EQ(Run("json.mget d1 d2"), "[(nil)]");
  EXPECT_EQ(Run("json.mset d1 $ 1 new $.a 1"), "-ERR new objects must be created at the root");
  EXPECT_EQ(Run("json.mset d1 $ 1 h $ 1"), kNotJson);
  EXPECT_TRUE(Run("json.mset d1 $ 1 d2 $ x").starts_with("-expected"));
  EXPECT_TRUE(Run("json.mset d1 $ 1 d2 $[ 1").starts_with("-Error occurred"));
  EXPECT_EQ(Run("json.mset d1 $ 1 d2 $"), "-ERR wrong number of arguments for 'json.mset' command");
  EXPECT_EQ(Get("d1"), "{\"a\":2,\"b\":5}");
}

TEST_P(JsonTest, MergeIsThatOfRfc7396) {
  EXPECT_EQ(Run("json.merge d $.a 1"), "-ERR new objects must be created at the root");
  EXPECT_EQ(Run("json.merge d $ {\"a\":2,\"n\":null}"), "+OK");
  EXPECT_EQ(Run("json.merge d $.b 8"), "+OK");
  EXPECT_EQ(Run("json.merge d $.a 3"), "+OK");
  EXPECT_EQ(Get("d"), "{\"a\":3,\"b\":8}");
  EXPECT_EQ(Run("json.merge d $ {\"a\":null,\"c\":[2,4]}"), "+OK");
  EXPECT_EQ(Run("json.merge d $.c [10,null]"), "+OK");
  EXPECT_EQ(Run("json.merge d $.e {\"x\":{\"y\":1,\"z\":null}}"), "+OK");
  EXPECT_EQ(Run("json.merge d $ {\"e\":{\"x\":{\"w\":5},\"v\":{}},\"b\":{\"q\":1}}"), "+OK");
  EXPECT_EQ(Get("d"), "{\"b\":{\"q\":1},\"c\":[10,null],\"e\":{\"x\":{\"y\":1,\"w\":5},\"v\":{}}}");
  EXPECT_EQ(Run("json.merge d $.b null"), "+OK");
  EXPECT_EQ(Run("json.merge d $.none null"), "+OK");
  EXPECT_EQ(Run("json.merge d $.x.y 1"), "(nil)");
  EXPECT_EQ(Run("json.merge d $..none 1"), "-ERR wrong static path");
  EXPECT_EQ(Get("d"), "{\"c\":[10,null],\"e\":{\"x\":{\"y\":1,\"w\":5},\"v\":{}}}");
  Make("f", "{\"f1\":{\"a\":1},\"f2\":{\"a\":2}}");
  EXPECT_EQ(Run("json.merge f $ {\"f1\":null,\"f2\":{\"a\":3,\"b\":4},\"f3\":[2,4,6]}"), "+OK");
  EXPECT_EQ(Get("f"), "{\"f2\":{\"a\":3,\"b\":4},\"f3\":[2,4,6]}");
}

// --- DEL, CLEAR ---

TEST_P(JsonTest, DelCountsTheOutermost) {
  EXPECT_EQ(Run("json.del d"), ":0");
  Make("d", "{\"a\":1,\"nested\":{\"a\":2,\"b\":3}}");
  EXPECT_EQ(Run("json.del d $..a"), ":2");
  EXPECT_EQ(Get("d"), "{\"nested\":{\"b\":3}}");
  EXPECT_EQ(Run("json.del d $.x"), ":0");
  EXPECT_EQ(Run("json.forget d .nested.b"), ":1");
  EXPECT_EQ(Get("d"), "{\"nested\":{}}");
  EXPECT_EQ(Run("json.del d $.nested"), ":1");
  EXPECT_EQ(Run("exists d"), ":0");
  Make("d", "{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":[1,2]},{\"a\":3,\"c\":4}]}");
  EXPECT_EQ(Run("json.del d $..a"), ":3");
  EXPECT_EQ(Get("d"), "{\"b\":[{},{\"c\":4}]}");
  Make("d", "[0,[1,2,3],2,[4],4]");
  EXPECT_EQ(Run("json.del d $..[0,2]"), ":5");
  EXPECT_EQ(Get("d"), "[[2],[],4]");
  EXPECT_EQ(Run("json.del d"), ":1");
  EXPECT_EQ(Run("exists d"), ":0");
  Make("d", "{}");
  EXPECT_EQ(Run("json.del d $.a"), ":0");
  EXPECT_EQ(Run("exists d"), ":1");
  MakeHash("h");
  EXPECT_EQ(Run("json.del h"), kNotJson);
}

TEST_P(JsonTest, ClearEmpties) {
  EXPECT_EQ(Run("json.clear d"), kNoDocument);
  Make("d",
       "{\"obj\":{\"a\":1,\"b\":2},\"arr\":[1,2],\"str\":\"foo\",\"bool\":true,\"int\":42,"
       "\"float\":3.14,\"zero\":0,\"none\":[]}");
  EXPECT_EQ(Run("json.clear d $.*"), ":4");
  EXPECT_EQ(Get("d"),
            "{\"obj\":{},\"arr\":[],\"str\":\"foo\",\"bool\":true,\"int\":0,\"float\":0,"
            "\"zero\":0,\"none\":[]}");
  EXPECT_EQ(Run("json.clear d $.x"), ":0");
  EXPECT_EQ(Run("json.clear d"), ":1");
  EXPECT_EQ(Get("d"), "{}");
  EXPECT_EQ(Run("json.clear d"), ":0");
}

// --- What is asked ---

TEST_P(JsonTest, TypesAndLengths) {
  EXPECT_EQ(Run("json.type d $"), "(nil)");
  EXPECT_EQ(Run("json.strlen d $"), kNoDocument);
  EXPECT_EQ(Run("json.strlen d ."), "(nil)");
  EXPECT_EQ(Run("json.objkeys d $"), kNoDocument);
  EXPECT_EQ(Run("json.objlen d"), "(nil)");
  Make("d",
       "{\"s\":\"foo\",\"a\":[3,1.5],\"n\":{\"a\":{\"b\":2,\"c\":1},\"s\":31},\"t\":true,"
       "\"z\":null}");
  EXPECT_EQ(Run("json.type d $.*"), "[\"string\", \"array\", \"object\", \"boolean\", \"null\"]");
  EXPECT_EQ(Run("json.type d $.a[*]"), "[\"integer\", \"number\"]");
  EXPECT_EQ(Run("json.type d .a"), "\"array\"");
  EXPECT_EQ(Run("json.type d .x"), "(nil)");
  EXPECT_EQ(Run("json.type d $.x"), "[]");
  EXPECT_EQ(Run3("json.type d $..s"), "[[\"string\", \"integer\"]]");
  EXPECT_EQ(Run3("json.type d .s"), "[\"string\"]");
  EXPECT_EQ(Run3("json.type d"), "[[\"object\"]]");
  EXPECT_EQ(Run("json.strlen d $..s"), "[:3, (nil)]");
  EXPECT_EQ(Run("json.strlen d s"), ":3");
  EXPECT_EQ(Run("json.strlen d"),
            "-WRONGTYPE wrong type of path value - expected string but found object");
  EXPECT_EQ(Run("json.strlen d x"), "-ERR Path '$.x' does not exist");
  EXPECT_EQ(Run("json.arrlen d $..a"), "[:2, (nil)]");
  EXPECT_EQ(Run("json.arrlen d x"), "(nil)");
  EXPECT_EQ(Run("json.objlen d $..a"), "[(nil), :2]");
  EXPECT_EQ(Run("json.objlen d"), ":5");
  EXPECT_EQ(Run("json.objkeys d $..a"), "[(nil), [\"b\", \"c\"]]");
  EXPECT_EQ(Run("json.objkeys d n.a"), "[\"b\", \"c\"]");
  EXPECT_EQ(Run("json.objkeys d x"), "(nil)");
  EXPECT_EQ(Run("json.objkeys d s"),
            "-WRONGTYPE wrong type of path value - expected object but found string");
  EXPECT_EQ(Run3("json.objlen d"), "[:5]");
}

TEST_P(JsonTest, ArrIndexFinds) {
  Make("d", "{\"a\":[\"x\",1,{\"b\":2},1.0,[],\"x\"],\"n\":{\"a\":5}}");
  EXPECT_EQ(Run("json.arrindex d $..a 1"), "[:1, (nil)]");
  EXPECT_EQ(Run("json.arrindex d .a {\"b\":2.0}"), ":2");
  EXPECT_EQ(Run("json.arrindex d .a []"), ":4");
  EXPECT_EQ(Run("json.arrindex d .a \"x\" 1"), ":5");
  EXPECT_EQ(Run("json.arrindex d .a \"x\" 1 -1"), ":-1");
  EXPECT_EQ(Run("json.arrindex d .a \"x\" -1 0"), ":5");
  EXPECT_EQ(Run("json.arrindex d .a \"x\" -100 100"), ":0");
  EXPECT_EQ(Run("json.arrindex d .a 1 2 4"), ":3");
  EXPECT_EQ(Run("json.arrindex d .a 1 4 2"), ":-1");
  EXPECT_EQ(Run("json.arrindex d .a 9"), ":-1");
  EXPECT_EQ(Run("json.arrindex d .a 9 x"), kNotInteger);
  EXPECT_EQ(Run("json.arrindex d .n 9"),
            "-WRONGTYPE wrong type of path value - expected array but found object");
}

TEST_P(JsonTest, RespAndDebug) {
  Make("d", "{\"a\":[80,64.99,true,null,\"s\"],\"o\":{}}");
  EXPECT_EQ(Run("json.resp d"),
            "[+{, \"a\", [+[, :80, \"64.989999999999995\", +true, (nil), \"s\"], \"o\", [+{]]");
  EXPECT_EQ(Run("json.resp d $..a[0]"), "[:80]");
  EXPECT_EQ(Run("json.resp d a[0]"), ":80");
  EXPECT_EQ(Run("json.resp none"), "(nil)");
  EXPECT_EQ(Run("json.debug memory d .a[0]"), ":8");
  EXPECT_EQ(Run("json.debug memory d $.a[0,4]"), "[:8, :8]");
  EXPECT_EQ(Run("json.debug memory none"), ":0");
  EXPECT_TRUE(Run("json.debug help").starts_with("[\"MEMORY"));
}

// --- What is changed ---

TEST_P(JsonTest, Numbers) {
  EXPECT_EQ(Run("json.numincrby d $ 1"), kNoDocument);
  Make("d", "{\"a\":\"b\",\"b\":[{\"a\":2},{\"a\":5},{\"a\":\"c\"}],\"f\":1.5}");
  EXPECT_EQ(Run("json.numincrby d $.a 2"), "\"[null]\"");
  EXPECT_EQ(Run("json.numincrby d $..a 2"), "\"[null,4,7,null]\"");
  EXPECT_EQ(Run("json.nummultby d $..a 2"), "\"[null,8,14,null]\"");
  EXPECT_EQ(Run("json.numincrby d $.x 2"), "\"[]\"");
  EXPECT_EQ(Run("json.numincrby d .f 0.5"), "\"2.0\"");
  EXPECT_EQ(Run("json.numincrby d b[0].a 0.25"), "\"8.25\"");
  EXPECT_EQ(Run("json.numincrby d .a 1"),
            "-ERR Path '$.a' does not exist or does not contains a number");
  EXPECT_EQ(Run("json.numincrby d .f \"x\""), "-ERR bad input number");
  EXPECT_TRUE(Run("json.numincrby d .f x").starts_with("-expected"));
  EXPECT_EQ(Run3("json.numincrby d $..a 1"), "[(nil), ,9.25, :15, (nil)]");
  EXPECT_EQ(Run3("json.numincrby d f 1"), "[,3]");
  Make("e", "[9223372036854775807,1e308]");
  EXPECT_EQ(Run("json.numincrby e $[0] 1"), "\"[9.223372036854776e18]\"");
  EXPECT_EQ(Run("json.nummultby e $[*] 10"), "-ERR result is not a number");
  EXPECT_EQ(Get("e"), "[9.223372036854776e18,1e308]");
}

TEST_P(JsonTest, StringsAndBooleans) {
  EXPECT_EQ(Run("json.strappend d $ \"x\""), kNoDocument);
  Make("d", "{\"a\":\"foo\",\"n\":{\"a\":\"hello\"},\"m\":{\"a\":31},\"t\":true}");
  EXPECT_EQ(Run("json.strappend d $..a \"baz\""), "[:6, :8, (nil)]");
  EXPECT_EQ(Run("json.strappend d .a \"!\""), ":7");
  EXPECT_EQ(Run("json.strappend d \"!\""), "-ERR Path '$' does not exist or not a string");
  EXPECT_EQ(Run("json.strappend d .a 1"),
            "-WRONGTYPE wrong type of path value - expected string but found integer");
  EXPECT_EQ(Run("json.toggle d $.t"), "[:0]");
  EXPECT_EQ(Run("json.toggle d .t"), ":1");
  EXPECT_EQ(Run("json.toggle d $.*"), "[(nil), (nil), (nil), :0]");
  EXPECT_EQ(Run("json.toggle d .a"), "-ERR Path '$.a' does not exist or not a bool");
  EXPECT_EQ(Get("d"),
            "{\"a\":\"foobaz!\",\"n\":{\"a\":\"hellobaz\"},\"m\":{\"a\":31},\"t\":false}");
  Make("s", "\"ab\"");
  EXPECT_EQ(Run("json.strappend s \"cd\""), ":4");
}

TEST_P(JsonTest, Arrays) {
  EXPECT_EQ(Run("json.arrappend d $ 1"), kNoDocument);
  Make("d", "{\"a\":[1],\"n\":{\"a\":[]},\"m\":{\"a\":3}}");
  EXPECT_EQ(Run("json.arrappend d $..a 2 {\"x\":[]}"), "[:3, :2, (nil)]");
  EXPECT_EQ(Run("json.arrappend d .a 4"), ":4");
  EXPECT_EQ(Run("json.arrappend d .m.a 4"), "-ERR Path '$.m.a' does not exist or not an array");
  EXPECT_EQ(Run("json.arrinsert d $.a 1 \"i\" \"j\""), "[:6]");
  EXPECT_EQ(Run("json.arrinsert d .a -1 \"k\""), ":7");
  EXPECT_EQ(Run("json.arrinsert d .a 8 0"), "-ERR index out of bounds");
  EXPECT_EQ(Run("json.arrinsert d $..a 3 0"), "-ERR index out of bounds");
  EXPECT_EQ(Get("d"),
            "{\"a\":[1,\"i\",\"j\",2,{\"x\":[]},\"k\",4],\"n\":{\"a\":[2,{\"x\":[]}]},"
            "\"m\":{\"a\":3}}");
  EXPECT_EQ(Run("json.arrpop d $..a"), "[\"4\", \"{\"x\":[]}\", (nil)]");
  EXPECT_EQ(Run("json.arrpop d .a 0"), "\"1\"");
  EXPECT_EQ(Run("json.arrpop d .a -100"), "\"\"i\"\"");
  EXPECT_EQ(Run("json.arrpop d .a 100"), "\"\"k\"\"");
  EXPECT_EQ(Run("json.arrtrim d $.a 1 -1"), "[:2]");
  EXPECT_EQ(Run("json.arrtrim d .a 0 0"), ":1");
  EXPECT_EQ(Get("d"), "{\"a\":[2],\"n\":{\"a\":[2]},\"m\":{\"a\":3}}");
  EXPECT_EQ(Run("json.arrtrim d $..a 5 7"), "[:0, :0, (nil)]");
  EXPECT_EQ(Run("json.arrpop d .a"), "(nil)");
  EXPECT_EQ(Run("json.arrpop d .m"), "-ERR Path '$.m' does not exist or not an array");
  Make("e", "[[1,[2]],[3]]");
  EXPECT_EQ(Run("json.arrappend e $..[*] 0"), "[:3, :2, (nil), :2, (nil), (nil)]");
  EXPECT_EQ(Get("e"), "[[1,[2,0],0],[3,0]]");
  EXPECT_EQ(Run("json.arrpop e"), "\"[3,0]\"");
}

TEST_P(JsonTest, WorkIsLimited) {
  pool_.at(0)->AwaitFiber("limit", [this] {
    shards_->AwaitOnAll([](Shard& shard) { shard.limits().json_path_visits = 1000; });
  });
  std::string text = "[0";
  for (int i = 0; i < 1000; ++i) text += ",0";
  Make("d", text + "]");
  constexpr std::string_view kTooMuch =
      "-ERR the path visits more nodes than --json_path_visits_max allows";
  EXPECT_EQ(Run("json.get d $[*]"), kTooMuch);
  EXPECT_EQ(Run("json.type d $[*]"), kTooMuch);
  EXPECT_EQ(Run("json.set d $[*] 1"), kTooMuch);
  EXPECT_EQ(Run("json.numincrby d $[*] 1"), kTooMuch);
  EXPECT_EQ(Run("json.mget d $[*]"), kTooMuch);
  // All paths and all keys of a command share it.
  Run("json.set d $ [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]");
  std::string get = "json.get d $[*]";
  std::string mget = "json.mget d";
  EXPECT_THAT(Run(get), testing::StartsWith("\"[0,0"));
  EXPECT_THAT(Run(mget + " $[*]"), testing::StartsWith("[\"[0,0"));
  for (int i = 0; i < 9; ++i) get += " $[*]";
  for (int i = 0; i < 9; ++i) mget += " d";
  EXPECT_EQ(Run(get), kTooMuch);
  EXPECT_EQ(Run(mget + " $[*]"), kTooMuch);
  EXPECT_EQ(Run(mget + " k0 k1 k2 k3 k4 k5 k6 k7 $[*]"), kTooMuch);  // in all shards
  std::string mset = "json.mset";
  for (int i = 0; i < 10; ++i) mset += " d $[*] 1";
  EXPECT_EQ(Run(mset), kTooMuch);
  std::string sums = "json.get d";
  for (int i = 0; i < 40; ++i) sums += " sum($)";
  EXPECT_EQ(Run(sums), kTooMuch);
  EXPECT_EQ(Run("json.arrlen d ."), ":20");
}

TEST_P(JsonTest, FiltersAreWork) {
  pool_.at(0)->AwaitFiber("limit", [this] {
    shards_->AwaitOnAll([](Shard& shard) { shard.limits().json_path_visits = 50'000; });
  });
  constexpr std::string_view kTooMuch =
      "-ERR the path visits more nodes than --json_path_visits_max allows";
  Make("d", R"({"n":[1,"ab"],"s":")" + std::string(100'000, 'a') + "\"}");
  EXPECT_EQ(RunWords({"json.get", "d", R"($.n[?(@=~"a.")])"}), "\"[\"ab\"]\"");
  // 25 expressions are too many, and so is a long text for one that is not small.
  std::string path = "$.n[?(@=~\"0\"";
  for (int i = 1; i < 25; ++i) path += "||@=~\"" + std::to_string(i) + "\"";
  EXPECT_EQ(RunWords({"json.get", "d", path + ")]"}), kTooMuch);
  EXPECT_EQ(RunWords({"json.get", "d", R"($[?(@=~"ab?c?ab?c?x")])"}), kTooMuch);
  // Each part of a filter counts for each element, and what is compared by its size.
  std::string text = "[0";
  for (int i = 0; i < 100; ++i) text += ",0";
  Make("e", text + "]");
  path = "$[?(@";
  for (int i = 0; i < 600; ++i) path += "&&@";
  EXPECT_EQ(RunWords({"json.get", "e", path + ")]"}), kTooMuch);
  for (int i = 0; i < 600; ++i) path += "&&@";
  EXPECT_THAT(RunWords({"json.get", "e", path + ")]"}), testing::HasSubstr("fewer parts"));
  EXPECT_EQ(RunWords({"json.get", "d", "$[?($.s==$.s&&@==0)]"}), "\"[]\"");
  for (int i = 0; i < 5; ++i) Run("json.set d $.k" + std::to_string(i) + " 0");
  std::string many = "$[?(@==1";
  for (int i = 0; i < 10; ++i) many += "||$.s!=$.s";
  EXPECT_EQ(RunWords({"json.get", "d", many + ")]"}), kTooMuch);
}

TEST_P(JsonTest, MSetChangesAllOrNothing) {
  Make("d", "{\"z\":[0]}");
  const std::string deep = std::string(127, '[') + std::string(127, ']');
  EXPECT_EQ(RunWords({"json.mset", "d", "$.z[0]", deep}), "-ERR recursion limit exceeded");
  EXPECT_EQ(RunWords({"json.mset", "d", "$..z", deep}), "+OK");
  EXPECT_EQ(RunWords({"json.mset", "d", "$..[0]", deep}), "-ERR recursion limit exceeded");
}

// Those who replay it have the limits that they have.
TEST_P(JsonTest, WhatIsReplayedHasNoLimits) {
  pool_.at(0)->AwaitFiber("limit", [this] {
    shards_->AwaitOnAll([](Shard& shard) { shard.limits().json_depth = 300; });
  });
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  EXPECT_EQ(RunWords({"json.set", "d", "$", deep}), "+OK");
  EXPECT_EQ(RunWords({"json.arrappend", "d", "$", deep}), "[:2]");
}

// --- FPHA ---

TEST_P(JsonTest, FphaPacksArrays) {
  EXPECT_EQ(Run("json.set d $ [[1,2,3,4e3],[5,6.0,7,8]] FPHA FP16"), "+OK");
  EXPECT_EQ(Get("d"), "[[1.0,2.0,3.0,4000.0],[5.0,6.0,7.0,8.0]]");
  EXPECT_EQ(Run("json.set d $ {\"a\":[0.1,1],\"b\":[1,2]} XX fpha bf16"), "+OK");
  EXPECT_EQ(Run("json.set d $.c [0.1] FPHA fp32 NX"), "+OK");
  EXPECT_EQ(Run("json.set d $.c [0.2] FPHA fp32 NX"), "(nil)");
  EXPECT_EQ(Run("json.set d $.e [1,[0.1]] FPHA FP64"), "+OK");
  const std::string text = "{\"a\":[0.1,1.0],\"b\":[1,2],\"c\":[0.1],\"e\":[1,[0.1]]}";
  EXPECT_EQ(Get("d"), text);
  EXPECT_EQ(Run("json.set d $.a [70000.5] FPHA FP16"), "-ERR value out of range for FP16");
  EXPECT_EQ(Run("json.set d $ [1,[0.5,1e39]] FPHA BF16"), "-ERR value out of range for BF16");
  EXPECT_EQ(Run("json.set d $ [1.5e39] FPHA FP32"), "-ERR value out of range for FP32");
  EXPECT_EQ(Get("d"), text);
}

TEST_P(JsonTest, PackedArraysAreRead) {
  EXPECT_EQ(Run("json.set d $ {\"a\":[0.5,1,-2]} FPHA FP16"), "+OK");
  EXPECT_EQ(Run("json.get d $.a[1:]"), "\"[1.0,-2.0]\"");
  EXPECT_EQ(Run("json.get d a[0]"), "\"0.5\"");
  EXPECT_EQ(Run("json.get d $.a[?(@>0.7)]"), "\"[1.0]\"");
  EXPECT_EQ(Run("json.type d $..*"), "[\"array\", \"number\", \"number\", \"number\"]");
  EXPECT_EQ(Run("json.type d .a[0]"), "\"number\"");
  EXPECT_EQ(Run("json.arrlen d $..*"), "[:3, (nil), (nil), (nil)]");
  EXPECT_EQ(Run("json.arrlen d .a[0]"),
            "-WRONGTYPE wrong type of path value - expected array but found number");
  EXPECT_EQ(Run("json.arrindex d $.a -2"), "[:2]");
  EXPECT_EQ(Run("json.arrindex d $.a 3"), "[:-1]");
  EXPECT_EQ(Run("json.resp d $..*"), "[[+[, \"0.5\", \"1\", \"-2\"], \"0.5\", \"1\", \"-2\"]");
  EXPECT_EQ(Run("json.debug memory d $.a[0,1]"), "[:2, :2]");
  EXPECT_EQ(Run("json.objlen d $.a[*]"), "[(nil), (nil), (nil)]");
}

TEST_P(JsonTest, PackedArraysChange) {
  const auto set = [&] {
    EXPECT_EQ(Run("json.set d $ {\"a\":[0.5,1,-2],\"b\":[[0.1,2]]} FPHA FP16"), "+OK");
  };
  const auto after = [&](std::string_view line, std::string_view reply, std::string_view text) {
    set();
    EXPECT_EQ(Run(line), reply) << line;
    EXPECT_EQ(Get("d"), text) << line;
  };
  after("json.numincrby d $.a[1] 2", "\"[3.0]\"", "{\"a\":[0.5,3.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.numincrby d $..* 1", "\"[null,null,1.5,2.0,-1.0,null,1.0999755859375,3.0]\"",
        "{\"a\":[1.5,2.0,-1.0],\"b\":[[1.0999755859375,3.0]]}");
  after("json.numincrby d $.a[*] 1e308", "\"[1e308,1e308,1e308]\"",
        "{\"a\":[1e308,1e308,1e308],\"b\":[[0.1,2.0]]}");
  after("json.set d $.a[0] null", "+OK", "{\"a\":[null,1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.set d $..[0] 7", "+OK", "{\"a\":[7,1.0,-2.0],\"b\":[7]}");
  after("json.set d $.a[0].x 7", "(nil)", "{\"a\":[0.5,1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.set d $.a[3] 7", "-ERR index out of bounds",
        "{\"a\":[0.5,1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.merge d $.a[0] {\"x\":1}", "+OK", "{\"a\":[{\"x\":1},1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.merge d $.a[0] null", "+OK", "{\"a\":[1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.merge d $ {\"a\":[1]}", "+OK", "{\"a\":[1],\"b\":[[0.1,2.0]]}");
  after("json.del d $.a[0,2]", ":2", "{\"a\":[1.0],\"b\":[[0.1,2.0]]}");
  after("json.del d $.a[*]", ":3", "{\"a\":[],\"b\":[[0.1,2.0]]}");
  after("json.del d $..[0]", ":2", "{\"a\":[1.0,-2.0],\"b\":[]}");
  after("json.del d $..*", ":2", "");  // the key, too
  after("json.clear d $.a[0,1]", ":2", "{\"a\":[0,0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.clear d $.a", ":1", "{\"a\":[],\"b\":[[0.1,2.0]]}");
  after("json.clear d $..*", ":8", "{\"a\":[],\"b\":[]}");
  after("json.toggle d $.a[0]", "[(nil)]", "{\"a\":[0.5,1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.arrappend d $.a 1 \"x\"", "[:5]", "{\"a\":[0.5,1.0,-2.0,1,\"x\"],\"b\":[[0.1,2.0]]}");
  after("json.arrinsert d $.a 1 []", "[:4]", "{\"a\":[0.5,[],1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.arrpop d $.a 0", "[\"0.5\"]", "{\"a\":[1.0,-2.0],\"b\":[[0.1,2.0]]}");
  after("json.arrpop d $..*", "[\"-2.0\", \"[0.1]\", (nil), (nil), (nil), \"2.0\", (nil), (nil)]",
        "{\"a\":[0.5,1.0],\"b\":[]}");
  after("json.arrtrim d $.a 1 1", "[:1]", "{\"a\":[1.0],\"b\":[[0.1,2.0]]}");
  after("json.mset d $.a[0] 5 d $.b[0][0] 6", "+OK", "{\"a\":[5,1.0,-2.0],\"b\":[[6,2.0]]}");
}

// Packed, and with single numbers of the type.
TEST_P(JsonTest, PackedArraysAreCopiedAndDumped) {
  for (const char* type : {"FP16", "BF16", "FP32", "FP64"}) {
    EXPECT_EQ(Run("json.set d $ {\"a\":[0.1,1,-2],\"b\":[0.1,3]} FPHA " + std::string(type)),
              "+OK");
    EXPECT_EQ(Run("json.arrappend d $.b 1"), "[:3]");
    const std::string memory = Run("json.debug memory d $..*");
    EXPECT_EQ(Run("copy d other replace"), ":1");
    EXPECT_EQ(Get("other"), "{\"a\":[0.1,1.0,-2.0],\"b\":[0.1,3.0,1]}");
    EXPECT_EQ(Run("json.debug memory other $..*"), memory);
    const std::string dump = Call({"dump", "d"}).text;
    EXPECT_EQ(RunWords({"restore", "back", "0", dump, "REPLACE"}), "+OK");
    EXPECT_EQ(Get("back"), Get("d"));
    EXPECT_EQ(Run("json.debug memory back $..*"), memory);
    EXPECT_EQ(Call({"dump", "back"}).text, dump);
    EXPECT_EQ(Run("json.get back $.b[?(@==$.a[0])]"), "\"[0.1]\"");
  }
}

// --- Documents among other keys ---

TEST_P(JsonTest, DocumentsAreCopiedRenamedAndDumped) {
  Make("d",
       "{\"a\":[1,2.5,\"a text of many bytes\"],\"b\":{\"c\":null,\"d\":18446744073709551615}}");
  const std::string text = Get("d");
  EXPECT_EQ(Run("copy d other"), ":1");
  EXPECT_EQ(Get("other"), text);
  EXPECT_EQ(Run("rename other third"), "+OK");
  EXPECT_EQ(Get("third"), text);
  const std::string dump = Call({"dump", "d"}).text;
  EXPECT_EQ(RunWords({"restore", "back", "0", dump}), "+OK");
  EXPECT_EQ(Get("back"), text);
  EXPECT_EQ(Run("json.del back $.a"), ":1");
  EXPECT_EQ(Get("d"), text);
  EXPECT_EQ(Run("set d x"), "+OK");
  EXPECT_EQ(Run("get third"), kWrongType);
}

INSTANTIATE_TEST_SUITE_P(Shards, JsonTest, testing::Values(1, 4));

class SmallJsonTest : public CommandsTest {
 protected:
  SmallJsonTest() : CommandsTest(2000) {}
};

TEST_P(SmallJsonTest, SizeIsLimited) {
  constexpr std::string_view kTooLarge = "-ERR it would take more bytes than --max_bulk_len allows";
  const std::string text = "\"" + std::string(700, 'x') + "\"";
  EXPECT_EQ(RunWords({"json.set", "d", "$", "[" + text + "]"}), "+OK");
  EXPECT_EQ(RunWords({"json.arrappend", "d", "$", text}), "[:2]");
  EXPECT_EQ(RunWords({"json.arrappend", "d", "$", text}), kTooLarge);
  EXPECT_EQ(RunWords({"json.arrinsert", "d", "$", "0", text}), kTooLarge);
  EXPECT_EQ(RunWords({"json.strappend", "d", "$[0]", text}), kTooLarge);
  EXPECT_EQ(RunWords({"json.set", "d", "$[*]", "[" + text + "," + text + "]"}), kTooLarge);
  EXPECT_EQ(RunWords({"json.set", "e", "$", "[" + text + "," + text + "," + text + "]"}),
            kTooLarge);
  EXPECT_EQ(RunWords({"json.mset", "e", "$", "[" + text + "," + text + "," + text + "]"}),
            kTooLarge);
  EXPECT_EQ(Run("json.arrlen d ."), ":2");
  EXPECT_EQ(Run("exists e"), ":0");
}

TEST_P(SmallJsonTest, UnpackingIsLimited) {
  constexpr std::string_view kTooLarge = "-ERR it would take more bytes than --max_bulk_len allows";
  std::string numbers = "[0.5";
  for (int i = 1; i < 300; ++i) numbers += ",1";
  EXPECT_EQ(RunWords({"json.set", "d", "$", numbers + "]", "FPHA", "FP16"}), "+OK");
  const std::string memory = Run("json.debug memory d");
  const std::string text = Run("json.get d .");
  for (const char* line :
       {"json.set d $[0] 1", "json.merge d $[0] 1", "json.numincrby d $[0] 1", "json.clear d $[0]",
        "json.arrappend d $ 1", "json.arrinsert d $ 0 1", "json.mset d $[0] 1"}) {
    EXPECT_EQ(Run(line), kTooLarge) << line;
    EXPECT_EQ(Run("json.debug memory d"), memory) << line;
  }
  EXPECT_EQ(Run("json.get d ."), text);
  EXPECT_EQ(Run("json.arrpop d $ 0"), "[\"0.5\"]");
}

// A path may select one value many times.
TEST_P(SmallJsonTest, RepliesAreLimited) {
  constexpr std::string_view kTooLarge =
      "-ERR the reply would take more bytes than --max_bulk_len allows";
  const auto times = [](const std::string& selector, int count) {
    std::string path = "$[" + selector;
    for (int i = 1; i < count; ++i) path += "," + selector;
    return path + "]";
  };
  const std::string text(500, 'x');
  const std::string array = R"([["a",")" + text + R"("],{")" + text + R"(":1}])";
  ASSERT_EQ(RunWords({"json.set", "d", "$", array}), "+OK");
  EXPECT_EQ(RunWords({"json.get", "d", times("0", 4)}), kTooLarge);
  EXPECT_EQ(RunWords({"json.resp", "d", times("0", 4)}), kTooLarge);
  EXPECT_EQ(RunWords({"json.resp", "d", times("1", 4)}), kTooLarge);
  EXPECT_EQ(RunWords({"json.objkeys", "d", times("1", 4)}), kTooLarge);
  EXPECT_EQ(RunWords({"json.arrpop", "d", times("0", 4)}), kTooLarge);
  EXPECT_EQ(RunWords({"json.arrlen", "d", times("0", 600)}), kTooLarge);
  EXPECT_EQ(Call({"json.get", "d", "."}).text, array);
  // Less is shown, once for each time.
  EXPECT_EQ(RunWords({"json.arrlen", "d", times("0", 3)}), "[:2, :2, :2]");
  EXPECT_EQ(RunWords({"json.arrindex", "d", times("0", 3), "\"" + text + "\""}), "[:1, :1, :1]");
  const std::string key = "[\"" + text + "\"]";
  EXPECT_EQ(RunWords({"json.objkeys", "d", times("1", 3)}),
            "[" + key + ", " + key + ", " + key + "]");
  EXPECT_EQ(RunWords({"json.resp", "d", times("1", 2)}),
            "[[+{, \"" + text + "\", :1], [+{, \"" + text + "\", :1]]");
  const std::string popped = "\"\"" + text + "\"\"";
  EXPECT_EQ(RunWords({"json.arrpop", "d", times("0", 3)}),
            "[" + popped + ", " + popped + ", " + popped + "]");
  EXPECT_EQ(RunWords({"json.arrlen", "d", "$[0]"}), "[:1]");
}

INSTANTIATE_TEST_SUITE_P(Shards, SmallJsonTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
