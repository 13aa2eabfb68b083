// SPDX-License-Identifier: Apache-2.0
#include "storage/log/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::string ErrorOf(std::string_view text) {
  Manifest manifest;
  return ParseManifest(text, &manifest);
}

TEST(ManifestTest, WhatIsWrittenIsReadBack) {
  Manifest manifest;
  manifest.base = {.name = "appendonly.aof.2.base.rdb", .seq = 2};
  manifest.history = {{.name = "appendonly.aof.1.base.rdb", .seq = 1},
                      {.name = "appendonly.aof.1.incr.aof", .seq = 1}};
  manifest.incrementals = {
      {.name = "appendonly.aof.3.incr.aof", .seq = 3, .start_offset = 0, .end_offset = 77},
      {.name = "appendonly.aof.4.incr.aof", .seq = 4, .start_offset = 77}};
  const std::string text = FormatManifest(manifest);
  EXPECT_EQ(text,
            "file appendonly.aof.2.base.rdb seq 2 type b\n"
            "file appendonly.aof.1.base.rdb seq 1 type h\n"
            "file appendonly.aof.1.incr.aof seq 1 type h\n"
            "file appendonly.aof.3.incr.aof seq 3 type i startoffset 0 endoffset 77\n"
            "file appendonly.aof.4.incr.aof seq 4 type i startoffset 77\n");
  Manifest read;
  EXPECT_EQ(ParseManifest(text, &read), "");
  EXPECT_EQ(read, manifest);
}

TEST(ManifestTest, NamesOfAnyBytesAreReadBack) {
  for (const std::string& name :
       std::vector<std::string>{"with blanks", "a\"b", "it's", "#1", "tab\tname", "\xff\x01\n"}) {
    Manifest manifest, read;
    manifest.base = {.name = name, .seq = 1};
    EXPECT_EQ(ParseManifest(FormatManifest(manifest), &read), "") << name;
    EXPECT_EQ(read, manifest) << name;
  }
}

TEST(ManifestTest, ALongNameOfAnotherAlphabetFits) {
  std::string name;
  while (name.size() < 252) name += "\xe6\x97\xa5";
  Manifest manifest;
  manifest.incrementals = {{.name = name, .seq = 1, .start_offset = 7}};
  Manifest read;
  ASSERT_EQ(ParseManifest(FormatManifest(manifest), &read), "");
  EXPECT_EQ(read, manifest);
}

TEST(ManifestTest, ANameThatCouldNotBeWrittenAgainIsRefused) {
  EXPECT_THAT(ErrorOf("file " + std::string(300, '\x01') + " seq 1 type i\n"),
              HasSubstr("its name is too long"));
}

TEST(ManifestTest, OneWithoutFilesIsNotEmptyText) {
  const std::string text = FormatManifest({});
  EXPECT_THAT(text, StartsWith("#"));
  EXPECT_EQ(ErrorOf(text), "");
}

// Each was given to redis-check-aof 7.0 or redis-server 7.0, which accept it, too.
TEST(ManifestTest, WhatRedisAcceptsIsAccepted) {
  const std::string padding(1023 - 27, 'v');
  for (const std::string& text :
       {std::string("file a seq 1 type i\n"), std::string("file a seq 1 type i\r\n"),
        std::string("# comment\nfile a seq 1 type i\n"),
        std::string("file a seq 1 type i\n# comment without an end"),
        std::string("file a seq 1 type i other pair\n"), std::string("type i seq 1 file a\n"),
        std::string("FILE a SEQ 1 TYPE i\n"), std::string("file a seq 1 type incremental\n"),
        std::string("  file\ta seq 1   type i \t\n"), std::string("file \"a\" seq 1 type i\n"),
        std::string("file 'a' seq 1 type i\n"), std::string("file b file a seq 1 type i\n"),
        "file a.incr seq 1 type i k " + padding + "\n"}) {
    Manifest manifest;
    EXPECT_EQ(ParseManifest(text, &manifest), "") << text;
    ASSERT_THAT(manifest.incrementals, SizeIs(1)) << text;
    EXPECT_THAT(manifest.incrementals[0].name, StartsWith("a")) << text;
    EXPECT_EQ(manifest.incrementals[0].seq, 1u) << text;
  }
}

TEST(ManifestTest, OnlyCommentsAreANewLog) {
  Manifest manifest;
  EXPECT_EQ(ParseManifest("# nothing\n", &manifest), "");
  EXPECT_EQ(manifest, Manifest());
}

TEST(ManifestTest, FilesOfOneTypeKeepTheirOrderAndTypesMayMix) {
  Manifest manifest;
  EXPECT_EQ(ParseManifest("file i1 seq 1 type i\nfile h1 seq 1 type h\nfile b1 seq 1 type b\n"
                          "file h2 seq 1 type h\nfile i9 seq 9 type i\n",
                          &manifest),
            "");
  EXPECT_EQ(manifest.base->name, "b1");
  EXPECT_THAT(manifest.history, SizeIs(2));
  ASSERT_THAT(manifest.incrementals, SizeIs(2));
  EXPECT_EQ(manifest.incrementals[1].name, "i9");
}

// Each was given to redis-check-aof 7.0 or redis-server 7.0, which refuse it, too.
TEST(ManifestTest, WhatRedisRefusesIsRefusedWithLineAndReason) {
  EXPECT_EQ(ErrorOf(""), "the manifest is empty");
  EXPECT_EQ(ErrorOf("\n"), "line 1: it is empty: ''");
  EXPECT_EQ(ErrorOf("file a seq 1 type i\n\n"), "line 2: it is empty: ''");
  EXPECT_EQ(ErrorOf("file a seq 1 type i\n  \r\n"), "line 2: it is empty: '  .'");
  EXPECT_EQ(ErrorOf("file a seq 1 type i"), "line 1: it has no end: 'file a seq 1 type i'");
  EXPECT_THAT(ErrorOf(" # comment\n"), HasSubstr("needs a file"));
  EXPECT_THAT(ErrorOf("file a seq 1 type i x\n"), HasSubstr("the last word has no value"));
  EXPECT_THAT(ErrorOf("file a seq 1\n"), HasSubstr("needs a file"));
  EXPECT_THAT(ErrorOf("file a seq 1 seq 2\n"), HasSubstr("type is not"));
  EXPECT_THAT(ErrorOf("name a seq 1 type i\n"), HasSubstr("needs a file"));
  EXPECT_THAT(ErrorOf("file a seq 1 type I\n"), HasSubstr("type is not"));
  EXPECT_THAT(ErrorOf("file a seq 1 type \"\"\n"), HasSubstr("type is not"));
  EXPECT_THAT(ErrorOf("file a seq 0 type i\n"), HasSubstr("seq is not"));
  EXPECT_THAT(ErrorOf("file a seq -1 type i\n"), HasSubstr("seq is not"));
  EXPECT_THAT(ErrorOf("file a seq 1 type i\nfile b seq 1 type i\n"),
              StartsWith("line 2: seq does not rise"));
  EXPECT_THAT(ErrorOf("# c\nfile a seq 1 type b\nfile b seq 2 type b\n"),
              StartsWith("line 3: there is a second base"));
  EXPECT_THAT(ErrorOf("file ./a seq 1 type i\n"), HasSubstr("may not be a path"));
  EXPECT_THAT(ErrorOf("file \"a\\\\b\" seq 1 type i\n"), HasSubstr("may not be a path"));
  EXPECT_THAT(ErrorOf("file .. seq 1 type i\n"), HasSubstr("may not be a path"));
  EXPECT_THAT(ErrorOf("file \"\" seq 1 type i\n"), HasSubstr("may not be a path"));
  EXPECT_THAT(ErrorOf("file \"a seq 1 type i\n"), HasSubstr("a quote has no end"));
  EXPECT_THAT(ErrorOf("file a seq 1 type i" + std::string(2000, ' ') + "\n"),
              StartsWith("line 1: it is too long"));
  EXPECT_THAT(ErrorOf("#" + std::string(2000, ' ') + "\n"), StartsWith("line 1: it is too long"));
}

}  // namespace
}  // namespace dfly
