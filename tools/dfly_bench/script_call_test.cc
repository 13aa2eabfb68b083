// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/script_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace dfly::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ScriptCallTest, ARecordedCallIsReadWithItsEscapes) {
  ScriptCall call;
  EXPECT_EQ(ParseScriptCall("# bullmq\nscript return\\x0a1\\\\\n\nkey a\nkey b c\narg \\x00\\xFf\n"
                            "arg \n",
                            &call),
            "");
  EXPECT_EQ(call.script, "return\n1\\");
  EXPECT_THAT(call.keys, ElementsAre("a", "b c"));
  EXPECT_THAT(call.args, ElementsAre(std::string("\0\xff", 2), ""));
}

TEST(ScriptCallTest, WhatIsNoRecordedCallIsRefusedWithItsLine) {
  ScriptCall call;
  EXPECT_THAT(ParseScriptCall("script a\nkeys b\n", &call), HasSubstr("line 2"));
  EXPECT_THAT(ParseScriptCall("script a\nscript b\n", &call), HasSubstr("line 2"));
  EXPECT_THAT(ParseScriptCall("script\n", &call), HasSubstr("line 1"));
  for (const char* escape : {"\\", "\\n", "\\x", "\\x1", "\\x1g", "\\xg1"}) {
    EXPECT_THAT(ParseScriptCall(std::string("script ") + escape, &call), HasSubstr("line 1"))
        << escape;
  }
  EXPECT_EQ(ParseScriptCall("key a\n", &call), "there is no script");
  EXPECT_THAT(ReadScriptCall("/nonexistent/call", &call), HasSubstr("/nonexistent/call: No such"));
}

TEST(ScriptCallTest, AFileIsReadToItsEnd) {
  const std::string path = testing::TempDir() + "dfly_script_call_test";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fprintf(file, "script %s\nkey k\n", std::string(10'000, 's').c_str());
  fclose(file);
  ScriptCall call;
  EXPECT_EQ(ReadScriptCall(path, &call), "");
  remove(path.c_str());
  EXPECT_EQ(call.script.size(), 10'000u);
  EXPECT_THAT(call.keys, ElementsAre("k"));
}

TEST(ScriptCallTest, AQueuesNameFillsKeysAndPackedArguments) {
  LoadOptions options;
  EXPECT_EQ(QueueName(options, 3), "bull:q3");
  options.braces = true;
  options.queue_prefix = "p";
  EXPECT_EQ(QueueName(options, 12), "p:{q12}");
  const ScriptCall call{
      "s", {"__queue__:wait", "__queue__:__queue__"}, {"\x99__packed_queue__\xa0"}};
  const ScriptCall filled = CallForQueue(call, "bull:q3");
  EXPECT_EQ(filled.script, "s");
  EXPECT_THAT(filled.keys, ElementsAre("bull:q3:wait", "bull:q3:bull:q3"));
  EXPECT_THAT(filled.args, ElementsAre("\x99\xa8"
                                       "bull:q3:\xa0"));
}

TEST(ScriptCallTest, LongerNamesHaveLongerMessagePackHeaders) {
  const ScriptCall call{"s", {}, {"__packed_queue__"}};
  const auto packed = [&](size_t size) {
    return CallForQueue(call, std::string(size, 'n')).args[0];
  };
  EXPECT_EQ(packed(30), "\xbf" + std::string(30, 'n') + ":");
  EXPECT_EQ(packed(31), "\xd9\x20" + std::string(31, 'n') + ":");
  EXPECT_EQ(packed(254), "\xd9\xff" + std::string(254, 'n') + ":");
  EXPECT_EQ(packed(255), std::string("\xda\x01\x00", 3) + std::string(255, 'n') + ":");
}

TEST(ScriptCallTest, EvalShaCountsItsKeys) {
  EXPECT_THAT(EvalSha("0123", {"s", {"k1", "k2"}, {"a"}}),
              ElementsAre("EVALSHA", "0123", "2", "k1", "k2", "a"));
  EXPECT_THAT(EvalSha("0123", {"s", {}, {}}), ElementsAre("EVALSHA", "0123", "0"));
}

TEST(ScriptCallTest, TheListsScriptGetsAnArrayOfNineValues) {
  const ScriptCall call = LuaListsCall({"a", "b", "c", "d", "e"});
  EXPECT_EQ(call.keys.size(), 5u);
  ASSERT_EQ(call.args.size(), 1u);
  EXPECT_EQ(call.args[0],
            R"(["__data__","__data__","__data__","__data__","__data__","__data__","__data__",)"
            R"("__data__","__data__"])");
}

}  // namespace
}  // namespace dfly::bench
