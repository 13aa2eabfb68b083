// SPDX-License-Identifier: Apache-2.0
#include "storage/log/annotations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/text/crc32c.h"
#include "storage/append_file.h"

namespace dfly {
namespace {

std::string EpochLine(uint64_t number, uint64_t offset, std::vector<std::string_view> pieces) {
  char buffer[kEpochHeaderMax];
  return std::string(WriteEpochHeader(number, offset, pieces, buffer));
}

TEST(AnnotationsTest, AnEpochsLineIsReadBackAndCoversItselfAndItsPieces) {
  const std::string line = EpochLine(7, 1234, {"*1\r\n", "", "$4\r\nPING\r\n"});
  EXPECT_EQ(line, "#EPOCH:7 1234 14 0 89B053EC\r\n");
  EXPECT_EQ(line, EpochLine(7, 1234, {"*1\r\n$4\r\nPING\r\n"}));
  const auto header = ParseEpochHeader(line);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->number, 7u);
  EXPECT_EQ(header->stream_offset, 1234u);
  EXPECT_EQ(header->bytes, 14u);
  EXPECT_EQ(header->crc, Crc32c(0, "#EPOCH:7 1234 14 0 *1\r\n$4\r\nPING\r\n"));
  EXPECT_EQ(header->crc, Crc32c(header->line_crc, "*1\r\n$4\r\nPING\r\n"));
}

TEST(AnnotationsTest, TheLargestLineFitsInItsBuffer) {
  char buffer[kEpochHeaderMax];
  const std::string_view line = WriteEpochHeader(UINT64_MAX, UINT64_MAX, {}, buffer, UINT64_MAX);
  const auto header = ParseEpochHeader(line);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->number, UINT64_MAX);
  EXPECT_EQ(header->stream_offset, UINT64_MAX);
  EXPECT_EQ(header->bytes, 0u);
  EXPECT_EQ(header->synced_end(), 0u);
}

TEST(AnnotationsTest, OtherLinesAreNoEpochs) {
  ASSERT_TRUE(ParseEpochHeader("#EPOCH:1 5 3 2 0123ABCD\r\n"));
  for (std::string_view line : {"",
                                "#",
                                "#EPOCH:",
                                "#EPOCH:\r\n",
                                "#EPOCH:1\r\n",
                                "#EPOCH:1 0\r\n",
                                "#EPOCH:1 5 3 2\r\n",
                                "#EPOCH:1 5 3 0123ABCD\r\n",
                                "#EPOCH:1 5 3 6 0123ABCD\r\n",
                                "#EPOCH:1 5 3 2 \r\n",
                                "#EPOCH:1 5 3 2 0123ABCD\n",
                                "#EPOCH:1 5 3 2 0123ABCD",
                                "#EPOCH:1 5 3 2 0123abcd\r\n",
                                "#EPOCH:1 5 3 2 0123ABC\r\n",
                                "#EPOCH:1 5 3 2 0123ABCDE\r\n",
                                "#EPOCH:1 5 3 2 0123ABCD \r\n",
                                "#EPOCH:01 5 3 2 0123ABCD\r\n",
                                "#EPOCH:1 05 3 2 0123ABCD\r\n",
                                "#EPOCH:-1 5 3 2 0123ABCD\r\n",
                                "#EPOCH: 1 5 3 2 0123ABCD\r\n",
                                "#EPOCH:1  5 3 2 0123ABCD\r\n",
                                "#EPOCH:18446744073709551616 5 3 2 0123ABCD\r\n",
                                "#epoch:1 5 3 2 0123ABCD\r\n",
                                "#EPOCH:x 5 3 2 0123ABCD\r\n",
                                "#EPOCH:1 5 3 2 0123ABCG\r\n",
                                "#TS:1\r\n"}) {
    EXPECT_FALSE(ParseEpochHeader(line)) << line;
  }
}

TEST(AnnotationsTest, ATimestampIsReadBack) {
  char buffer[kTimestampMax];
  EXPECT_EQ(WriteTimestamp(1700000000, buffer), "#TS:1700000000\r\n");
  EXPECT_EQ(ParseTimestamp("#TS:1700000000\r\n"), 1700000000);
  EXPECT_EQ(ParseTimestamp("#TS:1700000000\n"), 1700000000);
  EXPECT_EQ(ParseTimestamp(WriteTimestamp(INT64_MIN, buffer)), INT64_MIN);
  for (std::string_view line : {"", "#TS:\r\n", "#TS:1", "#TS:1x\r\n", "#TS: 1\r\n", "#TT:1\r\n"}) {
    EXPECT_FALSE(ParseTimestamp(line)) << line;
  }
}

TEST(AnnotationsTest, FillerIsALineOfDots) {
  for (const size_t size : {3, 4, 64, 100, 4096}) {
    std::string filler(size, 'x');
    WriteFiller(filler.data(), size);
    while (!filler.empty()) {
      const size_t end = filler.find('\n') + 1;
      EXPECT_TRUE(IsFiller(filler.substr(0, end))) << size;
      filler.erase(0, end);
    }
  }
  for (std::string_view line :
       {"", "#", "#\n", "\r\n", "#..\n", "#.-\r\n", "...\r\n", "#TS:1\r\n"}) {
    EXPECT_FALSE(IsFiller(line)) << line;
  }
}

}  // namespace
}  // namespace dfly
