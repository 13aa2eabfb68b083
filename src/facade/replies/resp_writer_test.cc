// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/resp_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/memory/lent_block.h"

namespace dfly {
namespace {

template <typename Fn>
std::string Written(bool resp3, Fn fn) {
  helio::IoBuf out;
  RespWriter writer(&out, resp3);
  fn(writer);
  return std::string(out.view());
}

// The same calls in RESP2 and in RESP3.
template <typename Fn>
void ExpectBytes(std::string_view resp2, std::string_view resp3, Fn fn) {
  EXPECT_EQ(Written(false, fn), resp2);
  EXPECT_EQ(Written(true, fn), resp3);
}

TEST(RespWriterTest, SimpleTypesLookTheSameInBothProtocols) {
  auto fn = [](ReplySink& reply) {
    reply.Ok();
    reply.Status("PONG");
    reply.Error("ERR syntax error");
    reply.Integer(0);
    reply.Integer(-42);
    reply.Integer(INT64_MIN);
    reply.Integer(1234567);
    reply.Bulk("");
    reply.Bulk("hello");
    reply.Bulk("twelve chars");
    reply.Array(3);
    reply.Array(1000);
  };
  const std::string bytes =
      "+OK\r\n+PONG\r\n-ERR syntax error\r\n:0\r\n:-42\r\n:-9223372036854775808\r\n:1234567\r\n"
      "$0\r\n\r\n$5\r\nhello\r\n$12\r\ntwelve chars\r\n*3\r\n*1000\r\n";
  ExpectBytes(bytes, bytes, fn);
}

TEST(RespWriterTest, NewTypesFallBackInResp2) {
  ExpectBytes("$-1\r\n", "_\r\n", [](ReplySink& r) { r.Null(); });
  ExpectBytes("*-1\r\n", "_\r\n", [](ReplySink& r) { r.NullArray(); });
  ExpectBytes("$3\r\n1.5\r\n", ",1.5\r\n", [](ReplySink& r) { r.Double(1.5); });
  ExpectBytes("$4\r\n-inf\r\n", ",-inf\r\n", [](ReplySink& r) { r.Double(-INFINITY); });
  ExpectBytes("$3\r\nnan\r\n", ",nan\r\n", [](ReplySink& r) { r.Double(NAN); });
  ExpectBytes(":1\r\n", "#t\r\n", [](ReplySink& r) { r.Bool(true); });
  ExpectBytes(":0\r\n", "#f\r\n", [](ReplySink& r) { r.Bool(false); });
  ExpectBytes("$3\r\n123\r\n", "(123\r\n", [](ReplySink& r) { r.BigNumber("123"); });
  ExpectBytes("$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n", [](ReplySink& r) { r.Verbatim("txt", "hi"); });
  ExpectBytes("*4\r\n", "%2\r\n", [](ReplySink& r) { r.Map(2); });
  ExpectBytes("*2\r\n", "~2\r\n", [](ReplySink& r) { r.Set(2); });
  ExpectBytes("*3\r\n", ">3\r\n", [](ReplySink& r) { r.Push(3); });
}

TEST(RespWriterTest, AnAttributeStandsBeforeItsReply) {
  EXPECT_EQ(Written(true,
                    [](ReplySink& r) {
                      r.Attribute(1);
                      r.Bulk("k");
                      r.Integer(1);
                      r.Ok();
                    }),
            "|1\r\n$1\r\nk\r\n:1\r\n+OK\r\n");
}

TEST(RespWriterTest, LineBreaksCannotForgeAReply) {
  ExpectBytes("-ERR a  +OK\r\n+x y\r\n", "-ERR a  +OK\r\n+x y\r\n", [](ReplySink& r) {
    r.Error("ERR a\r\n+OK\r\n\n");
    r.Status("x\ny");
  });
}

TEST(RespWriterTest, BulkOfEverySizeHasItsLength) {
  helio::IoBuf out;
  RespWriter writer(&out);
  for (size_t size = 0; size < 3000; size++) {
    const std::string value(size, 'v');
    writer.Bulk(value);
    ASSERT_EQ(out.view(), "$" + std::to_string(size) + "\r\n" + value + "\r\n");
    out.Consume(out.size());
  }
}

TEST(RespWriterTest, CountsErrorsByTheirFirstWord) {
  helio::IoBuf first, second;
  RespWriter writer(&first);
  EXPECT_EQ(writer.error_count(), 0u);
  EXPECT_EQ(writer.last_error_code(), "");
  writer.Error("WRONGTYPE Operation against a key");
  EXPECT_EQ(writer.last_error_code(), "WRONGTYPE");
  writer.Reset(&second, true);
  writer.Error("OOPS");
  EXPECT_EQ(writer.last_error_code(), "ERR");  // as Redis: no blank, no code
  writer.Error(std::string(30, 'x') + " just fits");
  EXPECT_EQ(writer.last_error_code(), std::string(30, 'x'));
  writer.Error(std::string(31, 'x') + " long");
  EXPECT_EQ(writer.error_count(), 4u);
  EXPECT_EQ(writer.last_error_code(), "ERR");
  EXPECT_EQ(first.view(), "-WRONGTYPE Operation against a key\r\n");
  EXPECT_TRUE(second.view().starts_with("-OOPS\r\n-xxx"));
}

TEST(RespWriterTest, ALentBulkIsSentFromItsBlockIfItIsTheFirst) {
  constexpr size_t kBytes = 100'000;
  char* const data = LentBlock::New(kBytes);
  memset(data, 'x', kBytes);
  const std::string expected = "$100000\r\n" + std::string(kBytes, 'x') + "\r\n";
  {
    helio::IoBuf first, second;
    RespWriter writer(&first);
    writer.LentBulk(data, kBytes);
    EXPECT_EQ(first.view(), expected);
    EXPECT_EQ(first.data() + 9, data);
    EXPECT_TRUE(LentBlock::IsLent(data));
    writer.Reset(&second, true);
    writer.Ok();
    writer.LentBulk(data, kBytes);
    EXPECT_EQ(second.view(), "+OK\r\n" + expected);
    writer.Reset(&first, false);
    writer.Integer(7);
    EXPECT_EQ(first.view(), expected + ":7\r\n");
    EXPECT_FALSE(LentBlock::IsLent(data)) << "there was more, so it was copied";
    second.Clear();
    writer.Reset(&second, true);
    writer.LentBulk(data, kBytes);
    EXPECT_TRUE(LentBlock::IsLent(data));
  }
  EXPECT_FALSE(LentBlock::IsLent(data));
  LentBlock::Return(data);
}

}  // namespace
}  // namespace dfly
