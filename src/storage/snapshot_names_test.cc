// SPDX-License-Identifier: Apache-2.0
#include "storage/snapshot_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {

using testing::HasSubstr;

constexpr int64_t kNoonMs = 1'700'000'000'000;  // 2023-11-14 22:13:20 UTC

TEST(SnapshotNamesTest, TheEndingDecidesTheFormat) {
  EXPECT_EQ(FormatOf("dump.rdb"), SnapshotFormat::kRdb);
  EXPECT_EQ(FormatOf("dump"), SnapshotFormat::kOurs);
  EXPECT_EQ(FormatOf("dump.dfs"), SnapshotFormat::kOurs);
  EXPECT_EQ(FormatOf(".rdb"), SnapshotFormat::kOurs);
  EXPECT_EQ(NameAt("dump.rdb", kNoonMs), "dump");
  EXPECT_EQ(NameAt("dump-{timestamp}.rdb", kNoonMs), "dump-2023-11-14T22-13-20");
  EXPECT_EQ(NameAt("{timestamp}", kNoonMs), "2023-11-14T22-13-20");
}

TEST(SnapshotNamesTest, ATimestampOrNoneButNoPath) {
  EXPECT_EQ(CheckDbFileName(""), "");
  EXPECT_EQ(CheckDbFileName("dump-{timestamp}"), "");
  EXPECT_THAT(CheckDbFileName("a/b"), HasSubstr("can't be a path"));
  EXPECT_THAT(CheckDbFileName("{timestamp}{timestamp}"), HasSubstr("twice"));
  EXPECT_THAT(CheckDbFileName(std::string(300, 'a')), HasSubstr("too long"));
}

TEST(SnapshotNamesTest, FindsItsSnapshotsAndNoOthers) {
  const auto format_of = [](std::string_view dbfilename, std::string_view file) {
    const auto path = SnapshotOf(dbfilename, "d", file);
    return !path ? "none" : path->format == SnapshotFormat::kRdb ? "rdb" : "ours";
  };
  // Of both formats, whichever is asked for: the other one may be what there is.
  for (const char* name : {"dump", "dump.rdb"}) {
    EXPECT_STREQ(format_of(name, "dump.rdb"), "rdb");
    EXPECT_STREQ(format_of(name, "dump-summary.dfs"), "ours");
    for (const char* file : {"dump", "dump2.rdb", "dum.rdb", "dump-0000000000000001-00000.dfs",
                             "dump-0000000000000001-00000.tmp", "dump.rdb.tmp", "-summary.dfs"}) {
      EXPECT_STREQ(format_of(name, file), "none") << file;
    }
  }
  EXPECT_STREQ(format_of("a-{timestamp}-b", "a-2023-11-14T22-13-20-b.rdb"), "rdb");
  EXPECT_STREQ(format_of("a-{timestamp}-b", "a-2023-11-14T22-13-2x-b.rdb"), "none");
  EXPECT_STREQ(format_of("a-{timestamp}-b", "a-b.rdb"), "none");
  EXPECT_EQ(SnapshotOf("dump", "d", "dump.rdb")->Main(), "d/dump.rdb");
  EXPECT_EQ(SnapshotOf("dump", "", "dump-summary.dfs")->Main(), "dump-summary.dfs");
}

TEST(SnapshotNamesTest, KnowsThePartsOfItsOwn) {
  SnapshotPath path{.directory = "d", .name = "dump", .format = SnapshotFormat::kOurs};
  EXPECT_EQ(path.ShardFile(0x1234, 7), "d/dump-0000000000001234-00007.dfs");
  EXPECT_EQ(GenerationOf(path, "dump-0000000000001234-00007.dfs"), 0x1234u);
  EXPECT_EQ(GenerationOf(path, "dump-0000000000001234-00000.tmp"), 0x1234u);
  EXPECT_EQ(path.Temporary(0x1234), "d/dump-0000000000001234-00000.tmp");
  for (const char* other :
       {"dump-summary.dfs", "dump.rdb", "dump-0000000000001234-00007.rdb", "dump-1234-00007.dfs",
        "dump2-0000000000001234-00007.dfs", "dump-000000000000123x-00007.dfs",
        "dump-0000000000001234-0007x.dfs", "dump-0000000000001234-000070.dfs"}) {
    EXPECT_FALSE(GenerationOf(path, other)) << other;
  }
  // An RDB file has no parts: what there is belongs to a snapshot of our own format.
  path.format = SnapshotFormat::kRdb;
  EXPECT_FALSE(GenerationOf(path, "dump-0000000000001234-00007.dfs"));
  EXPECT_EQ(GenerationOf(path, "dump-0000000000001234-00000.tmp"), 0x1234u);
}

}  // namespace
}  // namespace dfly
