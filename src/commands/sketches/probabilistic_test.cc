// SPDX-License-Identifier: Apache-2.0
// BF.*, CMS.* and TOPK.*
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kTooLarge = "-ERR it would take more bytes than --max_bulk_len allows";

class ProbabilisticTest : public CommandsTest {};

// --- BF ---

TEST_P(ProbabilisticTest, BloomFiltersAreMadeByTheirFirstItem) {
  EXPECT_EQ(Run("bf.add b x"), ":1");
  EXPECT_EQ(Run("bf.add b x"), ":0");
  EXPECT_EQ(Run("bf.madd b x y z y"), "[:0, :1, :1, :0]");
  EXPECT_EQ(Run("bf.exists b y"), ":1");
  EXPECT_EQ(Run("bf.exists b w"), ":0");
  EXPECT_EQ(Run("bf.mexists b w x"), "[:0, :1]");
  EXPECT_EQ(Run("bf.card b"), ":3");
  EXPECT_EQ(Run("bf.info b capacity"), "[:100]");
  EXPECT_EQ(Run("bf.info b filters"), "[:1]");
  EXPECT_EQ(Run("bf.info b items"), "[:3]");
  EXPECT_EQ(Run("bf.info b expansion"), "[:2]");
  EXPECT_EQ(Run("type b"), "+MBbloom--");
  EXPECT_EQ(Run("object encoding b"), "\"raw\"");
}

TEST_P(ProbabilisticTest, BloomFiltersAnswerInTheWordsOfResp3) {
  resp3_ = true;
  const auto text = [this](const Words& words) { return RunWords(words); };
  EXPECT_EQ(text({"bf.add", "b", "x"}), "#t");
  EXPECT_EQ(text({"bf.mexists", "b", "x", "y"}), "[#t, #f]");
  EXPECT_EQ(text({"bf.info", "b", "items"}), "{+Number of items inserted: :1}");
}

TEST_P(ProbabilisticTest, BloomFiltersAreReserved) {
  EXPECT_EQ(Run("bf.reserve b 0.001 500"), "+OK");
  EXPECT_EQ(Run("bf.reserve b 0.001 500"), "-ERR item exists");
  EXPECT_EQ(Run("bf.info b capacity"), "[:500]");
  EXPECT_EQ(Run("bf.card b"), ":0");
  EXPECT_EQ(Run("bf.reserve c 0.01 1 expansion 4"), "+OK");
  EXPECT_EQ(Run("bf.madd c 1 2"), "[:1, :1]");
  EXPECT_EQ(Run("bf.info c capacity"), "[:5]");
  EXPECT_EQ(Run("bf.reserve d 0.01 2 nonscaling"), "+OK");
  EXPECT_EQ(Run("bf.madd d 1 2 3 1"), "[:1, :1, -ERR non scaling filter is full, :0]");
  EXPECT_EQ(Run("bf.add d 4"), "-ERR non scaling filter is full");
  EXPECT_EQ(Run("bf.info d expansion"), "[(nil)]");
  EXPECT_EQ(Run("bf.reserve e x 10"), "-ERR bad error rate");
  for (const char* rate : {"0", "1", "-1", "inf"}) {
    EXPECT_EQ(Run(fmt::format("bf.reserve e {} 10", rate)), "-ERR (0 < error rate range < 1)");
  }
  EXPECT_EQ(Run("bf.reserve e 0.1 x"), "-ERR bad capacity");
  EXPECT_EQ(Run("bf.reserve e 0.1 0"), "-ERR (capacity should be larger than 0)");
  EXPECT_EQ(Run("bf.reserve e 0.1 -1"), "-ERR (capacity should be larger than 0)");
  for (const char* expansion : {"x", "0", "-1", "32769", "9223372036854775808"}) {
    EXPECT_EQ(Run(fmt::format("bf.reserve e 0.1 10 expansion {}", expansion)),
              "-ERR bad expansion");
  }
  EXPECT_EQ(Run("bf.reserve e 0.1 10 expansion 2 nonscaling"),
            "-ERR Nonscaling filters cannot expand");
  EXPECT_EQ(Run("bf.reserve e 0.1 10 expansion"), kSyntaxError);
  EXPECT_EQ(Run("bf.reserve e 0.1 10 items"), kSyntaxError);
  EXPECT_EQ(Run("bf.reserve e 0.01 9223372036854775807"), kTooLarge);
  EXPECT_EQ(Run("bf.reserve e 0.01 1000000000"), kTooLarge);
  EXPECT_EQ(Run("exists e"), ":0");
}

TEST_P(ProbabilisticTest, BloomFiltersAreMadeByTheOptionsOfInsert) {
  EXPECT_EQ(Run("bf.insert b nocreate items x"), "-ERR not found");
  EXPECT_EQ(Run("bf.insert b capacity 7 error 0.1 expansion 3 items x y x"), "[:1, :1, :0]");
  EXPECT_EQ(Run("bf.info b capacity"), "[:7]");
  EXPECT_EQ(Run("bf.info b expansion"), "[:3]");
  EXPECT_EQ(Run("bf.insert b nocreate items y items"), "[:0, :1]");
  EXPECT_EQ(Run("bf.insert b capacity 9 items z"), "[:1]");
  EXPECT_EQ(Run("bf.info b capacity"), "[:7]");
  EXPECT_EQ(Run("bf.insert c nonscaling capacity 1 items x y"),
            "[:1, -ERR non scaling filter is full]");
  EXPECT_EQ(Run("bf.insert d items"), "-ERR wrong number of arguments for 'bf.insert' command");
  EXPECT_EQ(Run("bf.insert d items "), "[:1]") << "the empty item";
  EXPECT_EQ(Run("bf.insert e capacity 5"),
            "-ERR wrong number of arguments for 'bf.insert' command");
  EXPECT_EQ(Run("bf.insert e capacity 5 x items y"), "-Unknown argument received");
  EXPECT_EQ(Run("bf.insert e nocreate capacity 5 items y"),
            "-ERR NOCREATE excludes CAPACITY and ERROR");
  EXPECT_EQ(Run("bf.insert e capacity 0 items y"), "-ERR (capacity should be larger than 0)");
  EXPECT_EQ(Run("bf.insert e capacity 1000000000 items y"), kTooLarge);
  EXPECT_EQ(Run("exists e"), ":0");
}

TEST_P(ProbabilisticTest, BloomFiltersOfOtherTypesAndOfNothing) {
  MakeHash("h");
  for (const char* line :
       {"bf.add h x", "bf.madd h x", "bf.insert h items x", "bf.card h", "bf.info h",
        "bf.reserve h 0.1 10", "bf.scandump h 0", "bf.loadchunk h 1 x"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(Run("bf.exists h x"), ":0") << "as in RedisBloom";
  EXPECT_EQ(Run("bf.mexists h x y"), "[:0, :0]");
  EXPECT_EQ(Run("bf.exists missing x"), ":0");
  EXPECT_EQ(Run("bf.card missing"), ":0");
  EXPECT_EQ(Run("bf.info missing"), "-ERR not found");
  EXPECT_EQ(Run("bf.scandump missing 0"), "-ERR not found");
  EXPECT_EQ(Run("bf.loadchunk missing 5 x"), "-ERR not found");
  EXPECT_EQ(Run("bf.info h x y"), "-ERR wrong number of arguments for 'bf.info' command");
  Run("bf.add b x");
  EXPECT_EQ(Run("bf.info b foo"), "-ERR Invalid information value");
  EXPECT_EQ(Run("get b"), kWrongType);
  EXPECT_EQ(Run("cms.query b x"), kWrongType);
  EXPECT_EQ(Run("topk.query b x"), kWrongType);
}

TEST_P(ProbabilisticTest, BloomFiltersAreDumpedAndLoaded) {
  Run("bf.reserve b 0.01 1000000");  // more than one piece
  Words words = {"bf.madd", "b"};
  for (int i = 0; i < 1000; ++i) words.push_back(fmt::format("i{}", i));
  RunWords(words);
  Run("bf.add copy old");  // is overwritten
  std::string iterator = "0";
  int pieces = 0;
  for (;; ++pieces) {
    const RespValue reply = Call({"bf.scandump", "b", iterator});
    ASSERT_EQ(reply.items.size(), 2u);
    iterator = reply.items[0].ToString().substr(1);
    if (iterator == "0") {
      EXPECT_EQ(reply.items[1].text, "");
      break;
    }
    EXPECT_EQ(RunWords({"bf.loadchunk", "copy", iterator, reply.items[1].text}), "+OK");
  }
  EXPECT_GE(pieces, 3);
  words[0] = "bf.mexists";
  words[1] = "copy";
  const RespValue found = Call(words);
  for (const RespValue& item : found.items) EXPECT_EQ(item.ToString(), ":1");
  EXPECT_EQ(Run("bf.card copy"), ":1000");
  EXPECT_EQ(Run("bf.info copy"), Run("bf.info b"));
  EXPECT_EQ(Run("bf.scandump b x"), "-ERR Second argument must be numeric");
  EXPECT_EQ(Run("bf.scandump b -1"), "-ERR Second argument must be numeric");
  EXPECT_EQ(Run("bf.loadchunk copy x y"), "-ERR Second argument must be numeric");
  for (const char* at : {"0", "1", "2", "9223372036854775807"}) {
    EXPECT_EQ(Run(fmt::format("bf.loadchunk copy {} xyz", at)), "-ERR received bad data") << at;
  }
  EXPECT_EQ(Run("bf.card copy"), ":1000");
}

TEST_P(ProbabilisticTest, KeysOfTheseTypesAreCopiedRenamedAndDeleted) {
  Run("bf.add b x");
  Run("cms.initbydim c 100 3");
  Run("cms.incrby c x 5");
  Run("topk.reserve t 3");
  Run("topk.add t x");
  for (const std::string key : {"b", "c", "t"}) {
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(Run(fmt::format("copy {0} {0}{1}", key, i)), ":1");
      EXPECT_EQ(Run(fmt::format("rename {0}{1} {0}:{1}", key, i)), "+OK");
    }
    EXPECT_EQ(Run("expire " + key + " 100"), ":1");
  }
  Run("set text 1");
  EXPECT_EQ(Run("object encoding t:3"), "\"raw\"");
  std::string cursor = "0";
  size_t found = 0;
  do {
    const RespValue reply = Call({"scan", cursor, "count", "1000", "type", "mbBLOOM--"});
    ASSERT_EQ(reply.items.size(), 2u);
    cursor = reply.items[0].text;
    found += reply.items[1].items.size();
  } while (cursor != "0");
  EXPECT_EQ(found, 7u);
  EXPECT_EQ(Run("bf.exists b:5 x"), ":1");
  EXPECT_EQ(Run("cms.query c:5 x"), "[:5]");
  EXPECT_EQ(Run("topk.list t:5"), "[\"x\"]");
  EXPECT_EQ(Run("del b c t b:0 c:0 t:0"), ":6");
  EXPECT_EQ(Run("set c:1 now"), "+OK");
  EXPECT_EQ(Run("flushall"), "+OK");
}

// --- CMS ---

TEST_P(ProbabilisticTest, SketchesCount) {
  EXPECT_EQ(Run("cms.initbydim c 2000 5"), "+OK");
  EXPECT_EQ(Run("cms.incrby c foo 10 bar 42"), "[:10, :42]");
  EXPECT_EQ(Run("cms.incrby c foo 0 foo 1"), "[:10, :11]");
  EXPECT_EQ(Run("cms.query c foo bar baz"), "[:11, :42, :0]");
  EXPECT_EQ(Run("cms.info c"), "[+width, :2000, +depth, :5, +count, :53]");
  EXPECT_EQ(Run("type c"), "+CMSk-TYPE");
  EXPECT_EQ(Run("object encoding c"), "\"raw\"");
  EXPECT_EQ(Run("cms.initbyprob p 0.001 0.01"), "+OK");
  EXPECT_EQ(Run("cms.info p"), "[+width, :2000, +depth, :7, +count, :0]");
  resp3_ = true;
  EXPECT_EQ(Run("cms.info c"), "{+width: :2000, +depth: :5, +count: :53}");
}

TEST_P(ProbabilisticTest, SketchesRefuseWhatMakesNoSense) {
  MakeHash("h");
  for (const char* line :
       {"cms.initbydim h 10 10", "cms.initbyprob h 0.1 0.1", "cms.initbydim h x x"}) {
    EXPECT_EQ(Run(line), "-CMS: key already exists") << line;
  }
  for (const char* line : {"cms.incrby h x 1", "cms.query h x", "cms.info h", "cms.merge h 1 x"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  for (const char* line :
       {"cms.incrby m x 1", "cms.query m x", "cms.info m", "cms.merge m 1 x", "cms.merge m x y"}) {
    EXPECT_EQ(Run(line), "-CMS: key does not exist") << line;
  }
  for (const char* bad : {"0", "-1", "x"}) {
    EXPECT_EQ(Run(fmt::format("cms.initbydim c {} 5", bad)), "-CMS: invalid width");
    EXPECT_EQ(Run(fmt::format("cms.initbydim c 5 {}", bad)), "-CMS: invalid depth");
  }
  for (const char* bad : {"0", "1", "-1", "x", "inf"}) {
    EXPECT_EQ(Run(fmt::format("cms.initbyprob c {} 0.1", bad)),
              "-CMS: invalid overestimation value");
    EXPECT_EQ(Run(fmt::format("cms.initbyprob c 0.1 {}", bad)), "-CMS: invalid prob value");
  }
  for (const char* sizes : {"1000000000 5", "9223372036854775807 9223372036854775807",
                            "4294967296 4294967296", "1 1000000000"}) {
    EXPECT_EQ(Run(fmt::format("cms.initbydim c {}", sizes)), kTooLarge) << sizes;
  }
  EXPECT_EQ(Run("cms.initbyprob c 1e-300 0.1"), kTooLarge);
  EXPECT_EQ(Run("cms.initbydim c 10 2"), "+OK");
  EXPECT_EQ(Run("cms.incrby c a 1 b"), "-ERR wrong number of arguments for 'cms.incrby' command");
  EXPECT_EQ(Run("cms.incrby c a 1 b x"), "-CMS: Cannot parse number");
  EXPECT_EQ(Run("cms.incrby c a 1 b -1"), "-CMS: Number cannot be negative");
  EXPECT_EQ(Run("cms.query c a"), "[:0]") << "all or nothing";
  EXPECT_EQ(Run("cms.incrby c a 9223372036854775807"), "[-CMS: INCRBY overflow]");
  EXPECT_EQ(Run("cms.query c a"), "[:4294967295]");
}

TEST_P(ProbabilisticTest, SketchesAreMergedOverShards) {
  for (int i = 0; i < 6; ++i) {
    Run(fmt::format("cms.initbydim c{} 1000 4", i));
    Run(fmt::format("cms.incrby c{} x {} y{} 1", i, i + 1, i));
  }
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2"), "+OK");
  EXPECT_EQ(Run("cms.query c0 x y0 y1 y2"), "[:5, :0, :1, :1]") << "what it had is gone";
  EXPECT_EQ(Run("cms.info c0"), "[+width, :1000, +depth, :4, +count, :7]");
  EXPECT_EQ(Run("cms.merge c0 3 c0 c3 c4 weights 2 10 100"), "+OK");
  EXPECT_EQ(Run("cms.query c0 x y1 y3 y4"), "[:550, :2, :10, :100]");
  EXPECT_EQ(Run("cms.merge c0 3 c1 c1 c2 weights 3 -1 -1"), "-CMS: MERGE overflow") << "of y2";
  EXPECT_EQ(Run("cms.merge c0 3 c1 c1 c2 weights 3 -1 1"), "+OK");
  EXPECT_EQ(Run("cms.query c0 x y1 y2"), "[:7, :2, :1]");
}

TEST_P(ProbabilisticTest, MergingRefusesWhatMakesNoSense) {
  for (int i = 0; i < 4; ++i) {
    Run(fmt::format("cms.initbydim c{} 1000 4", i));
    Run(fmt::format("cms.incrby c{} x 3", i));
  }
  Run("cms.initbydim small 999 4");
  Run("cms.initbydim other 4 1000");
  MakeHash("h");
  EXPECT_EQ(Run("cms.merge c0 x c1"), "-CMS: invalid numkeys");
  EXPECT_EQ(Run("cms.merge c0 0 c1"), "-CMS: Number of keys must be positive");
  EXPECT_EQ(Run("cms.merge c0 -1 c1"), "-CMS: Number of keys must be positive");
  EXPECT_EQ(Run("cms.merge c0 2 c1"), "-CMS: wrong number of keys");
  EXPECT_EQ(Run("cms.merge c0 9223372036854775807 c1"), "-CMS: wrong number of keys");
  EXPECT_EQ(Run("cms.merge c0 1 c1 c2"), "-CMS: wrong number of keys");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights 1"), "-CMS: wrong number of keys/weights");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights 1 2 3"), "-CMS: wrong number of keys/weights");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights 1 x"), "-CMS: invalid weight value");
  EXPECT_EQ(Run("cms.merge c0 2 c1 missing"), "-CMS: key does not exist");
  EXPECT_EQ(Run("cms.merge missing 2 c1 h"), "-CMS: key does not exist");
  EXPECT_EQ(Run("cms.merge c0 3 c1 h missing"), kWrongType);
  EXPECT_EQ(Run("cms.merge c0 3 c1 missing h"), "-CMS: key does not exist");
  EXPECT_EQ(Run("cms.merge c0 3 c1 small h"), "-CMS: width/depth is not equal");
  EXPECT_EQ(Run("cms.merge c0 3 c1 h small"), kWrongType);
  EXPECT_EQ(Run("cms.merge c0 1 other"), "-CMS: width/depth is not equal");
  EXPECT_EQ(Run("cms.merge c0 2 small small"), "-CMS: width/depth is not equal");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights -1 -1"), "-CMS: MERGE overflow");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights 4294967295 1"), "-CMS: MERGE overflow");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights 9223372036854775807 1"), "-CMS: MERGE overflow");
  EXPECT_EQ(Run("cms.merge c0 2 c1 c2 weights 3000000000000000000 3000000000000000000"),
            "-CMS: MERGE overflow");
  EXPECT_EQ(Run("cms.query c0 x"), "[:3]");
  EXPECT_EQ(Run("cms.merge c0 3 c1 c2 c3 weights 1 1 -1"), "+OK");
  EXPECT_EQ(Run("cms.query c0 x"), "[:3]");
}

// --- TOPK ---

TEST_P(ProbabilisticTest, TheMostFrequentAreListed) {
  EXPECT_EQ(Run("topk.reserve t 2 1000 5 0.9"), "+OK");
  EXPECT_EQ(Run("topk.add t foo bar foo"), "[(nil), (nil), (nil)]");
  EXPECT_EQ(Run("topk.list t"), "[\"foo\", \"bar\"]");
  EXPECT_EQ(Run("topk.list t withcount"), "[\"foo\", :2, \"bar\", :1]");
  EXPECT_EQ(Run("topk.incrby t baz 5 foo 1"), "[\"bar\", (nil)]");
  EXPECT_EQ(Run("topk.query t foo bar baz"), "[:1, :0, :1]");
  EXPECT_EQ(Run("topk.count t foo bar baz none"), "[:3, :1, :5, :0]");
  EXPECT_EQ(Run("topk.info t"), "[+k, :2, +width, :1000, +depth, :5, +decay, \"0.9\"]");
  EXPECT_EQ(Run("type t"), "+TopK-TYPE");
  EXPECT_EQ(Run("topk.reserve d 50"), "+OK");
  EXPECT_EQ(Run("topk.info d"), "[+k, :50, +width, :8, +depth, :7, +decay, \"0.9\"]");
  EXPECT_EQ(Run("topk.list d"), "[]");
  resp3_ = true;
  EXPECT_EQ(Run("topk.query t foo bar"), "[#t, #f]");
  EXPECT_EQ(Run("topk.info t"), "{+k: :2, +width: :1000, +depth: :5, +decay: ,0.9}");
  EXPECT_EQ(Run("topk.list t withcount"), "[\"baz\", :5, \"foo\", :3]");
}

TEST_P(ProbabilisticTest, ListsOfTheMostFrequentRefuseWhatMakesNoSense) {
  MakeHash("h");
  EXPECT_EQ(Run("topk.reserve h 3"), "-TopK: key already exists");
  for (const char* line : {"topk.add h x", "topk.incrby h x 1", "topk.query h x", "topk.count h x",
                           "topk.list h", "topk.info h"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  for (const char* line : {"topk.add m x", "topk.incrby m x 1", "topk.query m x", "topk.count m x",
                           "topk.list m", "topk.info m"}) {
    EXPECT_EQ(Run(line), "-TopK: key does not exist") << line;
  }
  EXPECT_EQ(Run("topk.list m foo"), "-WITHCOUNT keyword expected");
  for (const char* bad : {"0", "-1", "x", "100001", "9223372036854775807"}) {
    EXPECT_EQ(Run(fmt::format("topk.reserve t {}", bad)), "-TopK: invalid k");
  }
  for (const char* bad : {"0", "-1", "x"}) {
    EXPECT_EQ(Run(fmt::format("topk.reserve t 3 {} 7 0.9", bad)), "-TopK: invalid width");
    EXPECT_EQ(Run(fmt::format("topk.reserve t 3 7 {} 0.9", bad)), "-TopK: invalid depth");
  }
  for (const char* bad : {"0", "-1", "x", "1.1", "inf"}) {
    EXPECT_EQ(Run(fmt::format("topk.reserve t 3 7 7 {}", bad)),
              "-TopK: invalid decay value. must be '<= 1' & '> 0'");
  }
  for (const char* line :
       {"topk.reserve t 3 7", "topk.reserve t 3 7 7", "topk.reserve t 3 7 7 0.9 1"}) {
    EXPECT_EQ(Run(line), "-ERR wrong number of arguments for 'topk.reserve' command");
  }
  EXPECT_EQ(Run("topk.reserve t 3 9223372036854775807 9223372036854775807 0.9"), kTooLarge);
  EXPECT_EQ(Run("topk.reserve t 3 1000000000 1 0.9"), kTooLarge);
  EXPECT_EQ(Run("topk.reserve t 3 7 7 1"), "+OK");
  EXPECT_EQ(Run("topk.incrby t x 1 y"), "-ERR wrong number of arguments for 'topk.incrby' command");
  for (const char* bad : {"0", "-1", "x", "100001"}) {
    EXPECT_EQ(Run(fmt::format("topk.incrby t x 1 y {}", bad)),
              "-TopK: an increment is an integer from 1 to 100000");
  }
  EXPECT_EQ(Run("topk.count t x"), "[:0]") << "all or nothing";
}

INSTANTIATE_TEST_SUITE_P(Shards, ProbabilisticTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
