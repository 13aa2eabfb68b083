// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "scripting/script_testing.h"

namespace dfly {
namespace {

using testing::HasSubstr;

class MessagePackTest : public testing::Test {
 protected:
  // The packed bytes in hex.
  std::string Packed(std::string_view values) {
    return Run("return (string.gsub(cmsgpack.pack(" + std::string(values) +
               "), '.', function(c) return string.format('%02x', string.byte(c)) end))");
  }
  std::string Run(std::string_view source) {
    const std::string reply = runner_.Run(source);
    if (reply[0] == '-') return reply.substr(1, reply.find(" script: ") - 1);
    const size_t begin = reply[0] == '$' ? reply.find('\n') + 1 : 1;
    return reply.substr(begin, reply.size() - begin - 2);
  }
  std::string Unpacked(std::string_view bytes) {
    return Run("local r = {cmsgpack.unpack('" + std::string(bytes) +
               "')} for i = 1, #r do r[i] = tostring(r[i]) end return table.concat(r, ' ')");
  }

  ScriptRunner runner_;
};

TEST_F(MessagePackTest, NumbersTakeTheShortestForm) {
  EXPECT_EQ(Packed("0, 127, 128, 255, 256, 65535, 65536"), "007fcc80ccffcd0100cdffffce00010000");
  EXPECT_EQ(Packed("4294967295, 4294967296"), "ceffffffffcf0000000100000000");
  EXPECT_EQ(Packed("-1, -32, -33, -128, -129"), "ffe0d0dfd080d1ff7f");
  EXPECT_EQ(Packed("-32769, -2147483649"), "d2ffff7fffd3ffffffff7fffffff");
  EXPECT_EQ(Packed("3.0, -0.0, 1.5, 0.1"), "0300ca3fc00000cb3fb999999999999a");
  EXPECT_EQ(Packed("2^53, -2^63, 2^63, 1/0"),
            "cf0020000000000000d38000000000000000ca5f000000ca7f800000");
}

TEST_F(MessagePackTest, TablesAreArraysIfTheyCanBe) {
  EXPECT_EQ(Packed("{}, {1, 2}, {a = 1}, {[1] = 1, [3] = 3} == nil"),
            "90920102"
            "81a16101"
            "c2");
  EXPECT_EQ(Packed("{[0] = 1}, {['1'] = 1}, {[1.5] = 1}"),
            "810001"
            "81a13101"
            "81ca3fc0000001");
  EXPECT_EQ(Packed("{1.0, {2}}"), "92019102");
  EXPECT_EQ(Packed("nil, true, false, cjson.null, function() end, 'x'"), "c0c3c2c0c0a178");
  EXPECT_EQ(Run("local t = {} for i = 1, 70000 do t[i] = 1 end return #cmsgpack.pack(t)"), "70005");
  EXPECT_EQ(Packed("(function() local t = {} for i = 1, 16 do t[i] = 1 end return t end)()"),
            "dc001001010101010101010101010101010101");
}

TEST_F(MessagePackTest, StringsHaveFourForms) {
  for (const auto& [size, head] : {std::pair(31, "bf"), std::pair(32, "d920"),
                                   std::pair(256, "da0100"), std::pair(65536, "db00010000")}) {
    const std::string packed = Packed("string.rep('x', " + std::to_string(size) + ")");
    EXPECT_EQ(packed.substr(0, packed.size() - 2 * static_cast<size_t>(size)), head);
  }
}

TEST_F(MessagePackTest, ATableThatContainsItselfEndsAtSixteenLevels) {
  EXPECT_EQ(Packed("(function() local t = {} t[1] = t return t end)()"),
            "91919191919191919191919191919191c0");
}

TEST_F(MessagePackTest, EveryFormIsRead) {
  EXPECT_EQ(Unpacked("\\204\\200\\205\\1\\2\\206\\255\\255\\255\\255"), "200 258 4294967295");
  EXPECT_EQ(Unpacked("\\207\\0\\0\\0\\1\\0\\0\\0\\0\\207\\255\\255\\255\\255\\255\\255\\255\\255"),
            "4294967296 1.844674407371e+19");
  EXPECT_EQ(Unpacked("\\208\\200\\209\\255\\2\\210\\255\\255\\255\\0\\255\\224"),
            "-56 -254 -256 -1 -32");
  EXPECT_EQ(Unpacked("\\202\\63\\192\\0\\0"), "1.5");
  EXPECT_EQ(Unpacked("\\217\\2ab\\218\\0\\2cd\\219\\0\\0\\0\\2ef\\196\\1g"), "ab cd ef g");
  EXPECT_EQ(Run("return cmsgpack.unpack('\\220\\0\\2\\1\\2')[2]"), "2");
  EXPECT_EQ(Run("return cmsgpack.unpack('\\222\\0\\1\\1\\2')[1]"), "2");
  EXPECT_EQ(Run("return cmsgpack.unpack(cmsgpack.pack({1, {a = {'x'}}}))[2].a[1]"), "x");
}

TEST_F(MessagePackTest, UnpackingCanGoOnWhereItEnded) {
  EXPECT_EQ(Run("return table.concat({cmsgpack.unpack_one('\\1\\2')}, ' ')"), "1 1");
  EXPECT_EQ(Run("return table.concat({cmsgpack.unpack_one('\\1\\2', 1)}, ' ')"), "-1 2");
  EXPECT_EQ(Run("return table.concat({cmsgpack.unpack_limit('\\1\\2\\3', 2)}, ' ')"), "2 1 2");
  EXPECT_EQ(Run("return table.concat({cmsgpack.unpack_limit('\\1\\2\\3', 0)}, ' ')"), "1 2 3");
  EXPECT_EQ(Run("cmsgpack.unpack_one('\\1', 2)"),
            "ERR user_script:1: Start offset 2 greater than input length 1.");
  EXPECT_THAT(Run("cmsgpack.unpack_one('\\1', -1)"), HasSubstr("Invalid request to unpack"));
}

TEST_F(MessagePackTest, BadInputIsAnError) {
  const std::string missing = "ERR user_script:1: Missing bytes in input.";
  for (const char* bytes :
       {"\\146\\1", "\\204", "\\161", "\\221\\255\\255\\255\\255", "\\223\\255\\255\\255\\255\\1",
        "\\219\\255\\255\\255\\255x", "\\129\\1"}) {
    EXPECT_EQ(Unpacked(bytes), missing) << bytes;
  }
  EXPECT_EQ(Unpacked("\\193"), "ERR user_script:1: Bad data format in input.");
  EXPECT_EQ(Unpacked("\\212\\1\\1"), "ERR user_script:1: Bad data format in input.");
  EXPECT_EQ(Unpacked("\\129\\192\\1"), "ERR table index is nil");
  EXPECT_EQ(Run("cmsgpack.unpack(string.rep('\\145', 1001) .. '\\1')"),
            "ERR user_script:1: Too many nested values in input.");
  EXPECT_EQ(Run("cmsgpack.pack()"),
            "ERR user_script:1: bad argument #0 to 'pack' (MessagePack pack needs input.)");
}

}  // namespace
}  // namespace dfly
