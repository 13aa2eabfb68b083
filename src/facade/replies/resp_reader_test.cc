// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/resp_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "facade/replies/resp_writer.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

using helio::IoBuf;
using helio::Random;
using Status = RespReader::Status;

struct Case {
  std::string_view bytes;
  ReplyKind kind;
  std::string_view text;
  size_t items;
  std::string_view tree;
};

const Case kCases[] = {
    {"+OK\r\n", ReplyKind::kStatus, "OK", 0, "+OK"},
    {"-ERR x\r\n", ReplyKind::kError, "ERR x", 0, "-ERR x"},
    {"!5\r\nERR x\r\n", ReplyKind::kError, "ERR x", 0, "-ERR x"},
    {":-12\r\n", ReplyKind::kInteger, "-12", 0, ":-12"},
    {"$5\r\nhe\r\no\r\n", ReplyKind::kBulk, "he\r\no", 0, "\"he\r\no\""},
    {"$0\r\n\r\n", ReplyKind::kBulk, "", 0, "\"\""},
    {"$-1\r\n", ReplyKind::kNull, "", 0, "(nil)"},
    {"*-1\r\n", ReplyKind::kNull, "", 0, "(nil)"},
    {"_\r\n", ReplyKind::kNull, "", 0, "(nil)"},
    {",1.5\r\n", ReplyKind::kDouble, "1.5", 0, ",1.5"},
    {"#t\r\n", ReplyKind::kBool, "t", 0, "#t"},
    {"(123\r\n", ReplyKind::kBigNumber, "123", 0, "(123"},
    {"=6\r\ntxt:hi\r\n", ReplyKind::kVerbatim, "txt:hi", 0, "=\"txt:hi\""},
    {"*0\r\n", ReplyKind::kArray, "", 0, "[]"},
    {"*2\r\n:1\r\n*1\r\n+a\r\n", ReplyKind::kArray, "", 2, "[:1, [+a]]"},
    {"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n_\r\n#f\r\n", ReplyKind::kMap, "", 4,
     "{+a: :1, +b: [(nil), #f]}"},
    {"~1\r\n$1\r\nx\r\n", ReplyKind::kSet, "", 1, "~[\"x\"]"},
    {">2\r\n+a\r\n+b\r\n", ReplyKind::kPush, "", 2, ">[+a, +b]"},
    {"|1\r\n+ttl\r\n*1\r\n:9\r\n*1\r\n+x\r\n", ReplyKind::kArray, "", 1, "[+x]"},
    {"*1\r\n*1\r\n*1\r\n-inner\r\n", ReplyKind::kArray, "", 1, "[[[-inner]]]"},
};

std::string AllCases() {
  std::string stream;
  for (const Case& c : kCases) stream += c.bytes;
  return stream;
}

TEST(RespReaderTest, FindsTheEndAndKindOfEachReply) {
  const std::string stream = AllCases();
  std::string_view rest = stream;
  RespReader reader;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.bytes);
    ASSERT_EQ(reader.Parse(rest), Status::kReply);
    EXPECT_EQ(reader.consumed(), c.bytes.size());
    EXPECT_EQ(reader.kind(), c.kind);
    EXPECT_EQ(reader.text(), c.text);
    EXPECT_EQ(reader.items(), c.items);
    RespValue value;
    EXPECT_EQ(ReadRespValue(rest, &value), c.bytes.size());
    EXPECT_EQ(value.ToString(), c.tree);
    EXPECT_EQ(ReadRespValue(c.bytes.substr(0, c.bytes.size() - 1), &value), 0u);
    rest.remove_prefix(c.bytes.size());
  }
  EXPECT_EQ(reader.Parse(rest), Status::kNeedMore);
}

TEST(RespReaderTest, CutsAnywhereChangeNothing) {
  const std::string stream = AllCases();
  for (size_t step = 1; step < stream.size(); step++) {
    RespReader reader;
    size_t begin = 0;
    size_t found = 0;
    for (size_t end = 0; end < stream.size();) {
      end = std::min(end + step, stream.size());
      while (true) {
        const std::vector<char> moved(stream.begin() + static_cast<ptrdiff_t>(begin),
                                      stream.begin() + static_cast<ptrdiff_t>(end));
        const Status status = reader.Parse({moved.data(), moved.size()});
        if (status == Status::kNeedMore) break;
        ASSERT_EQ(status, Status::kReply) << reader.error();
        ASSERT_EQ(reader.kind(), kCases[found].kind);
        ASSERT_EQ(reader.text(), kCases[found].text);
        ASSERT_EQ(reader.items(), kCases[found].items);
        begin += reader.consumed();
        found++;
      }
    }
    ASSERT_EQ(found, std::size(kCases)) << step;
  }
}

TEST(RespReaderTest, BadBytesAreAnError) {
  for (std::string_view bytes :
       {"?\r\n", "hello\r\n", "$a\r\n", "$-2\r\n", "$\r\n", "*1x\r\n", "*99999999999999999\r\n",
        "$1\r\nabc\r\n", "+OK\rx", "%-1\r\n", "*1\r\n@\r\n"}) {
    RespReader reader;
    EXPECT_EQ(reader.Parse(bytes), Status::kError) << bytes;
    EXPECT_NE(reader.error(), "");
  }
  std::string deep;
  for (int i = 0; i < 100'000; i++) deep += "*1\r\n";
  RespValue value;
  EXPECT_EQ(ReadRespValue(deep + ":1\r\n", &value), 0u);
  RespReader reader;  // needs no stack
  EXPECT_EQ(reader.Parse(deep), Status::kNeedMore);
  EXPECT_EQ(reader.Parse(deep + ":1\r\n"), Status::kReply);
}

TEST(RespReaderTest, RandomBytesNeverCrash) {
  const uint64_t seed = 99;
  SCOPED_TRACE(seed);
  Random random(seed);
  const std::string alphabet = "*$%~>|+-:_,#(=!0123456789\r\n\r\n\r\nab";
  for (int i = 0; i < 50'000; i++) {
    std::string bytes;
    for (uint64_t n = random.Uniform(40); n > 0; n--) {
      bytes += alphabet[random.Uniform(alphabet.size())];
    }
    RespReader whole;
    RespReader pieces;
    const Status expected = whole.Parse(bytes);
    Status status = Status::kNeedMore;
    for (size_t end = 1; end <= bytes.size() && status == Status::kNeedMore; end++) {
      status = pieces.Parse(std::string_view(bytes).substr(0, end));
    }
    ASSERT_EQ(status, expected) << testing::PrintToString(bytes);
    RespValue value;
    const size_t size = ReadRespValue(bytes, &value);
    ASSERT_LE(size, bytes.size());
    if (expected == Status::kReply) {
      ASSERT_EQ(pieces.consumed(), whole.consumed());
      ASSERT_EQ(size, whole.consumed());
    }
  }
}

TEST(RespReaderTest, BigRepliesInSmallPiecesAreLinear) {
  const std::string bulk = "$100000000\r\n" + std::string(100'000'000, '\r') + "\r\n";
  std::string array = "*1000000\r\n";
  for (int i = 0; i < 1'000'000; i++) array += "$1\r\nx\r\n";
  for (const std::string* stream : std::vector<const std::string*>{&bulk, &array}) {
    RespReader reader;
    Status status = Status::kNeedMore;
    for (size_t size = 0; status == Status::kNeedMore && size < stream->size();) {
      size = std::min(size + 16384, stream->size());
      status = reader.Parse(std::string_view(*stream).substr(0, size));
    }
    EXPECT_EQ(status, Status::kReply);
    EXPECT_EQ(reader.consumed(), stream->size());
  }
}

// What the writer writes, the reader reads.
void WriteRandom(Random* random, int depth, ReplySink* sink) {
  const uint64_t n = random->Uniform(4);
  switch (random->Uniform(depth > 4 ? 9 : 13)) {
    case 0:
      return sink->Ok();
    case 1:
      return sink->Error("ERR random");
    case 2:
      return sink->Integer(static_cast<int64_t>(random->Next()));
    case 3:
      return sink->Bulk(std::string(random->Uniform(300), '\n'));
    case 4:
      return sink->Null();
    case 5:
      return sink->Double(random->NextDouble());
    case 6:
      return sink->Bool(random->OneIn(2));
    case 7:
      return sink->Verbatim("txt", "some\r\ntext");
    case 8:
      return sink->NullArray();
    case 9:
      sink->Array(n);
      break;
    case 10:
      sink->Set(n);
      break;
    case 11:
      sink->Push(n);
      break;
    default:
      sink->Map(n);
      for (uint64_t i = 0; i < n; i++) WriteRandom(random, depth + 1, sink);
  }
  for (uint64_t i = 0; i < n; i++) WriteRandom(random, depth + 1, sink);
}

TEST(RespReaderTest, ReadsWhatTheWriterWrites) {
  for (uint64_t seed = 0; seed < 3000; seed++) {
    SCOPED_TRACE(seed);
    Random random(seed);
    IoBuf out;
    RespWriter writer(&out, seed % 2 == 1);
    WriteRandom(&random, 0, &writer);
    RespReader reader;
    ASSERT_EQ(reader.Parse(out.view()), Status::kReply) << reader.error();
    ASSERT_EQ(reader.consumed(), out.size());
    RespValue value;
    ASSERT_EQ(ReadRespValue(out.view(), &value), out.size());
  }
}

}  // namespace
}  // namespace dfly
