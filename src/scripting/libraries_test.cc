// SPDX-License-Identifier: Apache-2.0
// cjson, bit and struct. What is expected was read off redis-server 7.0.15.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scripting/script_testing.h"

namespace dfly {
namespace {

using testing::HasSubstr;

class LibrariesTest : public testing::Test {
 protected:
  // What tostring() makes of the expression's values, with blanks between; or the error's text.
  std::string Eval(std::string_view expression) {
    std::string reply =
        runner_.Run("local r = {" + std::string(expression) +
                    "} for i = 1, #r do r[i] = tostring(r[i]) end return table.concat(r, ' ')");
    if (reply[0] == '-') return reply.substr(1, reply.find(" script: ") - 1);
    const size_t begin = reply.find('\n') + 1;
    return reply.substr(begin, reply.size() - begin - 2);
  }

  ScriptRunner runner_;
};

TEST_F(LibrariesTest, BitsAre32AndSigned) {
  EXPECT_EQ(Eval("bit.tobit(2^31), bit.tobit(3.5), bit.tobit(2.5), bit.tobit('0x10')"),
            "-2147483648 4 2 16");
  EXPECT_EQ(Eval("bit.tobit(2^52 + 5), bit.tobit(2^60), bit.tobit(0/0)"), "2 0 0");
  EXPECT_EQ(Eval("bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -4), bit.tohex(1, 20)"),
            "000000ff 00ff 00FF 00000001");
  EXPECT_EQ(Eval("bit.band(15, 7, 3), bit.bor(1, 2, 4), bit.bxor(255, 240, 1), bit.bnot(0)"),
            "3 7 14 -1");
  EXPECT_EQ(Eval("bit.lshift(1, 33), bit.rshift(-1, 4), bit.arshift(-256, 4)"), "2 268435455 -16");
  EXPECT_EQ(Eval("bit.rol(0x12345678, 8), bit.ror(0x12345678, 8), bit.bswap(0x12345678)"),
            "878082066 2014458966 2018915346");
  EXPECT_EQ(Eval("bit.band()"),
            "ERR user_script:1: bad argument #1 to 'band' (number expected, got no value)");
  EXPECT_EQ(Eval("bit.bnot('x')"),
            "ERR user_script:1: bad argument #1 to 'bnot' (number expected, got string)");
}

TEST_F(LibrariesTest, StructSizesAndAlignment) {
  EXPECT_EQ(Eval("struct.size('bTlLhHfdx'), struct.size('c10'), struct.size('i0')"), "42 10 0");
  EXPECT_EQ(Eval("struct.size('bi'), struct.size('!bi'), struct.size('!2bi')"), "5 8 6");
  EXPECT_EQ(Eval("struct.size('!16bi16'), struct.size('!64b'), struct.size('!bx!ih')"), "32 1 10");
  EXPECT_EQ(Eval("struct.size('c2147483647c2147483647')"), "4294967294");
  EXPECT_EQ(Eval("struct.size('!3i')"), "ERR user_script:1: alignment 3 is not a power of 2");
  EXPECT_EQ(Eval("struct.size('i33')"),
            "ERR user_script:1: integral size 33 is larger than limit of 32");
  EXPECT_EQ(Eval("struct.size('c2147483648')"), "ERR user_script:1: integral size overflow");
  EXPECT_EQ(Eval("struct.size('s')"),
            "ERR user_script:1: bad argument #1 to 'size' (option 's' has no fixed size)");
  EXPECT_EQ(Eval("struct.size('q')"),
            "ERR user_script:1: bad argument #1 to 'size' (invalid format option 'q')");
}

TEST_F(LibrariesTest, StructPacksAndUnpacks) {
  EXPECT_EQ(Eval("struct.unpack('>h<h!8 b d f', struct.pack('>h<h!8 b d f', 1, -2, 3, 4.5, 6.25))"),
            "1 -2 3 4.5 6.25 21");
  EXPECT_EQ(Eval("struct.unpack('>I3', '\\1\\2\\3')"), "66051 4");
  EXPECT_EQ(Eval("struct.unpack('I3', '\\1\\2\\3')"), "197121 4");
  EXPECT_EQ(Eval("struct.unpack('L', string.rep('\\255', 8))"), "1.844674407371e+19 9");
  EXPECT_EQ(Eval("struct.unpack('i16', string.rep('\\255', 16))"), "-1 17");
  EXPECT_EQ(Eval("struct.pack('bc0s', 2, 'ab', 'cd') == '\\2abcd\\0'"), "true");
  EXPECT_EQ(Eval("struct.unpack('bc0', '\\2abc')"), "ab 4");
  EXPECT_EQ(Eval("struct.unpack('sxs', 'ab\\0_cd\\0')"), "ab cd 8");
  EXPECT_EQ(Eval("struct.unpack('h', '\\1\\2\\3\\4', 3)"), "1027 5");
  EXPECT_EQ(Eval("struct.pack('c5', 'abc')"),
            "ERR user_script:1: bad argument #3 to 'pack' (string too short)");
  EXPECT_EQ(Eval("struct.pack('i')"),
            "ERR user_script:1: bad argument #2 to 'pack' (number expected, got nil)");
}

TEST_F(LibrariesTest, StructRefusesWhatIsNotThere) {
  const std::string too_short =
      "ERR user_script:1: bad argument #2 to 'unpack' (data string too short)";
  EXPECT_EQ(Eval("struct.unpack('i', 'abc')"), too_short);
  EXPECT_EQ(Eval("struct.unpack('i', 'abcdef', 10)"), too_short);
  EXPECT_EQ(Eval("struct.unpack('bc0', '\\5abc')"), too_short);
  EXPECT_EQ(Eval("struct.unpack('dc0', struct.pack('d', -3) .. 'abcd')"), too_short);
  EXPECT_EQ(Eval("struct.unpack('c2147483647', 'abc')"), too_short);
  EXPECT_EQ(Eval("struct.unpack('b', 'a', 2^53)"), too_short);
  EXPECT_EQ(Eval("struct.unpack('i', 'abcdef', 0)"),
            "ERR user_script:1: bad argument #3 to 'unpack' (offset must be 1 or greater)");
  EXPECT_EQ(Eval("struct.unpack('c0', 'abc')"),
            "ERR user_script:1: format 'c0' needs a previous size");
  EXPECT_EQ(Eval("struct.unpack('s', 'abc')"), "ERR user_script:1: unfinished string in data");
  EXPECT_EQ(Eval("struct.unpack(string.rep('x', 100) .. 's', string.rep('a', 100))"),
            "ERR user_script:1: unfinished string in data");
}

TEST_F(LibrariesTest, JsonIsEncodedAsInRedis) {
  EXPECT_EQ(Eval("cjson.encode({1, 2.5, 'a', true, cjson.null, {}, {{}}})"),
            "[1,2.5,\"a\",true,null,{},[{}]]");
  EXPECT_EQ(Eval("cjson.encode({[1] = 1, [3] = 3})"), "[1,null,3]");
  EXPECT_EQ(Eval("cjson.encode({1/3, 10/2, 1e15, 2^53, 1234567890123456})"),
            "[0.33333333333333,5,1e+15,9.007199254741e+15,1.2345678901235e+15]");
  EXPECT_EQ(Eval("cjson.encode({['1'] = 2})"), "{\"1\":2}");
  EXPECT_THAT(Eval("cjson.encode({[1] = 1, [100] = 2})"), HasSubstr("excessively sparse array"));
  EXPECT_THAT(Eval("cjson.encode({1/0})"), HasSubstr("must not be NaN or Inf"));
  EXPECT_THAT(Eval("cjson.encode({f = function() end})"), HasSubstr("type not supported"));
}

TEST_F(LibrariesTest, JsonIsDecodedAsInRedis) {
  EXPECT_EQ(
      Eval("unpack(cjson.decode('[1, 1.5, 1e3, \"a\\\\u00e9\", true, 12345678901234567890]'))"),
      "1 1.5 1000 a\xC3\xA9 true 1.2345678901235e+19");
  EXPECT_EQ(Eval("cjson.decode('{\"a\": {\"b\": [null]}}').a.b[1] == cjson.null"), "true");
  EXPECT_THAT(Eval("cjson.decode('[1,]')"), HasSubstr("Expected value but found T_ARR_END"));
}

TEST_F(LibrariesTest, JsonHasADepthThatScriptsCannotRaise) {
  EXPECT_THAT(Eval("cjson.decode(string.rep('[', 1001))"), HasSubstr("too many nested data"));
  EXPECT_THAT(Eval("cjson.decode_max_depth(1001)"), HasSubstr("between 1 and 1000"));
  EXPECT_THAT(Eval("cjson.encode_max_depth(2^31)"), HasSubstr("between 1 and 1000"));
  EXPECT_THAT(Eval("cjson.new().decode_max_depth(1001)"), HasSubstr("between 1 and 1000"));
  EXPECT_THAT(Eval("cjson.new().new().encode_max_depth(5000)"), HasSubstr("between 1 and 1000"));
  EXPECT_EQ(Eval("cjson.new().encode_max_depth(3)"), "3");
  EXPECT_EQ(Eval("cjson.encode_max_depth()"), "1000");
}

TEST_F(LibrariesTest, EncodingSaysThatItKeepsNoBuffer) {
  EXPECT_EQ(Eval("cjson.encode_keep_buffer(), cjson.encode_keep_buffer(false), "
                 "cjson.encode_keep_buffer(), cjson.encode({1}), cjson.encode_keep_buffer(true)"),
            "true false false [1] true");
  EXPECT_EQ(Eval("cjson.new().encode({1, {2}})"), "[1,[2]]");
}

}  // namespace
}  // namespace dfly
