// SPDX-License-Identifier: Apache-2.0
#include "server/replication/copy_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/text/crc64.h"

namespace dfly {
namespace {

using Status = CopyReader::Status;

std::string Rdb(std::string_view body) {
  std::string rdb = "REDIS0010";
  rdb += body;
  rdb += '\xff';
  const uint64_t crc = Crc64(0, rdb);
  for (int i = 0; i < 8; ++i) rdb += static_cast<char>(crc >> (8 * i));
  return rdb;
}

const std::string kMark = "0123456789012345678901234567890123456789";

struct Read {
  Status status = Status::kMore;
  std::string rdb;
  std::string rest;  // that is no part of the copy
  std::string error;
};

// In pieces that end at `ends`.
Read ReadPieces(std::string_view text, const std::vector<size_t>& ends) {
  CopyReader reader;
  Read read;
  size_t begin = 0;
  for (size_t end : ends) {
    const std::string_view piece = text.substr(begin, end - begin);
    begin = end;
    if (read.status != Status::kMore) {
      read.rest += piece;
      continue;
    }
    size_t taken = 0;
    read.status = reader.Take(piece, &read.rdb, &taken);
    if (read.status == Status::kDone) {
      read.rest += piece.substr(taken);
    } else if (read.status == Status::kMore) {
      EXPECT_EQ(taken, piece.size());
    }
  }
  read.error = reader.error();
  return read;
}

void ExpectCopy(const std::string& text, const std::string& rdb, const std::string& rest) {
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j : {i, i + 1, i + 7, i + 39, i + 40, text.size()}) {
      if (j < i || j > text.size()) continue;
      const Read read = ReadPieces(text, {i, j, text.size()});
      ASSERT_EQ(read.status, Status::kDone) << i << ' ' << j << ' ' << read.error;
      ASSERT_EQ(read.rdb, rdb) << i << ' ' << j;
      ASSERT_EQ(read.rest, rest) << i << ' ' << j;
    }
  }
  std::vector<size_t> each;
  for (size_t i = 1; i <= text.size(); ++i) each.push_back(i);
  const Read read = ReadPieces(text, each);
  EXPECT_EQ(read.status, Status::kDone);
  EXPECT_EQ(read.rdb, rdb);
  EXPECT_EQ(read.rest, rest);
}

TEST(CopyReader, MarkSplitOverReads) {
  const std::string rdb = Rdb("some keys");
  ExpectCopy("\n\n$EOF:" + kMark + "\r\n" + rdb + kMark, rdb, "");
  ExpectCopy("$EOF:" + kMark + "\r\n" + rdb + kMark + "*1\r\n$4\r\nPING\r\n", rdb,
             "*1\r\n$4\r\nPING\r\n");
}

TEST(CopyReader, BeginningsOfTheMarkAreNotTheMark) {
  const std::string rdb = Rdb(kMark.substr(0, 39) + kMark.substr(0, 39) + kMark.substr(1));
  ExpectCopy("$EOF:" + kMark + "\r\n" + rdb + kMark, rdb, "");
}

TEST(CopyReader, Sized) {
  const std::string rdb = Rdb("some keys " + kMark);
  ExpectCopy(fmt::format("\n${}\r\n", rdb.size()) + rdb + "*1", rdb, "*1");
}

TEST(CopyReader, WithoutChecksum) {
  std::string rdb = Rdb("keys");
  rdb.replace(rdb.size() - 8, 8, std::string(8, '\0'));
  ExpectCopy(fmt::format("${}\r\n", rdb.size()) + rdb, rdb, "");
}

std::string ErrorOf(const std::string& text) {
  const Read read = ReadPieces(text, {text.size()});
  EXPECT_EQ(read.status, Status::kError);
  return read.error;
}

TEST(CopyReader, WrongChecksum) {
  std::string rdb = Rdb("some keys");
  rdb[12] ^= 1;
  EXPECT_EQ(ErrorOf(fmt::format("${}\r\n", rdb.size()) + rdb), "the copy's checksum is wrong");
  EXPECT_EQ(ErrorOf("$EOF:" + kMark + "\r\n" + rdb + kMark), "the copy's checksum is wrong");
}

TEST(CopyReader, HostileHeaders) {
  for (const char* header : {"$-1", "$0", "$9999999999999999999999", "$EOF:short", "$", "+OK", "*3",
                             "$12x", "$EOF:01234567890123456789012345678901234567890"}) {
    EXPECT_NE(ErrorOf(std::string(header) + "\r\n").find("no header of a copy"), std::string::npos)
        << header;
  }
  EXPECT_EQ(ErrorOf("-ERR disk full\r\n"), "the primary cannot make one: -ERR disk full");
  EXPECT_EQ(ErrorOf(std::string(1000, 'x')), "the header of the copy is too long");
}

TEST(CopyReader, NoRdb) {
  EXPECT_EQ(ErrorOf("$EOF:" + kMark + "\r\n" + kMark), "the copy is no RDB file");
  EXPECT_EQ(ErrorOf("$18\r\n" + std::string(18, 'x')), "the copy is no RDB file");
}

// What a header announces is only believed when it comes.
TEST(CopyReader, HugeSizeTakesNoMemory) {
  const Read read = ReadPieces("$9000000000000000000\r\nREDIS0010", {31});
  EXPECT_EQ(read.status, Status::kMore);
  EXPECT_EQ(read.rdb, "REDIS0010");
}

}  // namespace
}  // namespace dfly
