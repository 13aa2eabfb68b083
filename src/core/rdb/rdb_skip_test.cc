// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_skip.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/rdb/rdb_value_testing.h"

namespace dfly {
namespace {

using testkit::Blob;
using testkit::StreamParts;
using testkit::TimeBytes;

// How many bytes are left behind the value; none if it was refused.
std::optional<size_t> LeftBehind(RdbType type, std::string_view bytes) {
  ViewSource source(bytes);
  if (!SkipRdbValue(static_cast<uint8_t>(type), &source)) return std::nullopt;
  return source.left();
}

void CheckSkips(RdbType type, const std::string& bytes) {
  SCOPED_TRACE(static_cast<int>(type));
  EXPECT_EQ(LeftBehind(type, bytes), 0u);
  EXPECT_EQ(LeftBehind(type, bytes + "rest"), 4u);
  for (size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 200) {
    EXPECT_EQ(LeftBehind(type, std::string_view(bytes).substr(0, cut)), std::nullopt) << cut;
  }
}

TEST(RdbSkipTest, WhatWeWriteIsSkipped) {
  testkit::RegisterRdbTypes();
  std::vector<int> seen(256);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    helio::Random random(seed);
    const CompactValue value = testkit::RdbValues().MakeAny(&random);
    const auto [type, bytes] = testkit::WriteRdb(value);
    ++seen[static_cast<uint8_t>(type)];
    CheckSkips(type, bytes);
  }
  for (const RdbType type :
       {RdbType::kString, RdbType::kListQuicklist2, RdbType::kSet, RdbType::kSetIntset,
        RdbType::kSetMetadata, RdbType::kZset2, RdbType::kZsetListpack, RdbType::kHash,
        RdbType::kHashListpack, RdbType::kHashMetadata, RdbType::kStreamListpacks2,
        RdbType::kBloomFilter, RdbType::kCountMinSketch, RdbType::kTopK, RdbType::kJson}) {
    EXPECT_GT(seen[static_cast<uint8_t>(type)], 0) << static_cast<int>(type);
  }
}

TEST(RdbSkipTest, OlderAndNewerFormsAreSkipped) {
  const std::string text = Blob(std::string(100, 'x'));
  const std::string number("\xc2\x01\x02\x03\x04");
  const std::string compressed("\xc3\x05\x0a\x00x\xe0\x00\x00", 8);
  for (const RdbType type :
       {RdbType::kString, RdbType::kListZiplist, RdbType::kSetIntset, RdbType::kZsetZiplist,
        RdbType::kHashZiplist, RdbType::kHashListpack, RdbType::kZsetListpack,
        RdbType::kSetListpack, RdbType::kHashListpackExPreGa}) {
    for (const std::string& one :
         {text, number, compressed, std::string("\xc0\x01"), std::string("\xc1\x01\x02")}) {
      CheckSkips(type, one);
    }
  }
  CheckSkips(RdbType::kList, "\x03" + text + number + compressed);
  CheckSkips(RdbType::kListQuicklist, "\x02" + text + compressed);
  CheckSkips(RdbType::kListQuicklist2, "\x02\x01" + text + "\x02" + compressed);
  CheckSkips(RdbType::kZset, "\x04" + text +
                                 "\x03"
                                 "1.5" +
                                 number + "\xfd" + text + "\xfe" + text + "\xff");
  CheckSkips(RdbType::kZset, "\x01" + text + "\xfc" + std::string(252, '1'));
  CheckSkips(RdbType::kHashMetadataPreGa,
             std::string("\x02\x00", 2) + text + number + "\x41\x07" + number + text);
  CheckSkips(RdbType::kHashListpackEx, TimeBytes(9) + text);
  CheckSkips(RdbType::kHashValkey,
             "\x02" + text + number + TimeBytes(9) + compressed + text + std::string(8, '\xff'));
  for (const RdbType type :
       {RdbType::kStreamListpacks, RdbType::kStreamListpacks2, RdbType::kStreamListpacks3,
        RdbType::kStreamListpacks4, RdbType::kStreamListpacks5}) {
    CheckSkips(type, StreamParts().Bytes(type));
  }
  StreamParts returned;
  returned.pending = std::string("\0", 1);
  returned.returned = "\x01" + testkit::IdBytes(5, 1);
  CheckSkips(RdbType::kStreamListpacks5, returned.Bytes(RdbType::kStreamListpacks5));
  const std::string packed_names = std::string("\0", 1) + Blob(testkit::Listpack({"a", "bc"}));
  const std::string plain_names = "\x01\x02" + text + number;
  for (const std::string& names : {packed_names, plain_names}) {
    CheckSkips(RdbType::kHashTemplateListpack, names + compressed);
    CheckSkips(RdbType::kHashTemplate, names + text + number);
  }
}

TEST(RdbSkipTest, WhatCannotBeIsRefused) {
  const std::string many = "\x81" + std::string(8, '\xff');
  for (int type = 0; type < 256; ++type) {
    EXPECT_EQ(LeftBehind(static_cast<RdbType>(type), ""), std::nullopt) << type;
    EXPECT_EQ(LeftBehind(static_cast<RdbType>(type), many + many), std::nullopt) << type;
  }
  EXPECT_EQ(LeftBehind(RdbType::kString, "\xc4\x01"), std::nullopt);
  EXPECT_EQ(LeftBehind(RdbType::kString, "\xc3\xc1\x01\x01\x01"), std::nullopt);
  EXPECT_EQ(LeftBehind(RdbType::kString, "\xc3" + many + "\x01" + "abc"), std::nullopt);
  for (const int type : {6, 7, 8, 9, 28, 30, 32, 33, 127, 132, 255}) {
    EXPECT_EQ(LeftBehind(static_cast<RdbType>(type), Blob("abc")), std::nullopt) << type;
  }
}

}  // namespace
}  // namespace dfly
