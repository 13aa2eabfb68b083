// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class StreamReferencesTest : public CommandsTest {
 protected:
  // Entries 1-0 to 6-0. The group g has been given all of them and has acknowledged 2-0 and 4-0;
  // the group h has been given the first four, and has acknowledged 2-0 only.
  void MakeGroups(const std::string& key = "s", int entries = 6) {
    for (int i = 1; i <= entries; ++i) Run("xadd " + key + " " + std::to_string(i) + "-0 a b");
    for (const char* group : {"g", "h"}) Run("xgroup create " + key + " " + group + " 0");
    Run("xreadgroup group g c streams " + key + " >");
    Run("xreadgroup group h c count 4 streams " + key + " >");
    Run("xack " + key + " g 2-0 4-0");
    Run("xack " + key + " h 2-0");
  }
  std::string Ids(const std::string& key = "s") {
    std::string ids;
    for (const auto& entry : Call({"xrange", key, "-", "+"}).items) {
      ids += entry.items[0].ToString().substr(1, 1);
    }
    return ids;
  }
  std::string Pending(const std::string& group, const std::string& key = "s") {
    std::string ids;
    for (const auto& entry : Call({"xpending", key, group, "-", "+", "100"}).items) {
      ids += entry.items[0].ToString().substr(1, 1);
    }
    return ids;
  }
};

TEST_P(StreamReferencesTest, DeletedEntriesStayPendingUnlessOneSaysOtherwise) {
  MakeGroups();
  EXPECT_EQ(Run("xdelex s ids 3 1-0 2-0 9-9"), "[:1, :1, :-1]");
  EXPECT_EQ(Run("xdelex s keepref ids 1 1-0"), "[:-1]");
  EXPECT_EQ(Ids(), "3456");
  EXPECT_EQ(Pending("g"), "1356");
  EXPECT_EQ(Run("xdelex s ids 2 1-0 3-0 delref"), "[:-1, :1]");
  EXPECT_EQ(Ids(), "456");
  EXPECT_EQ(Pending("g"), "56");
  EXPECT_EQ(Pending("h"), "4");
  EXPECT_EQ(Run("xdelex missing ids 2 1-0 2-0"), "[:-1, :-1]");
  EXPECT_EQ(Run("exists missing"), ":0");
}

TEST_P(StreamReferencesTest, AckedDeletesWhatAllGroupsAreDoneWith) {
  MakeGroups();
  // 1-0 is pending in both, 4-0 in h, and h has not been given 5-0.
  EXPECT_EQ(Run("xdelex s acked ids 5 1-0 2-0 4-0 5-0 9-0"), "[:2, :1, :2, :2, :-1]");
  Run("xack s h 4-0");
  EXPECT_EQ(Run("xdelex s acked ids 1 4-0"), "[:1]");
  EXPECT_EQ(Ids(), "1356");
  Run("xgroup destroy s h");
  Run("xgroup destroy s g");
  EXPECT_EQ(Run("xdelex s acked ids 1 1-0"), "[:1]");
}

TEST_P(StreamReferencesTest, XAckDelAcknowledgesAndDeletes) {
  MakeGroups();
  EXPECT_EQ(Run("xackdel s g ids 3 1-0 2-0 9-0"), "[:1, :-1, :-1]");
  EXPECT_EQ(Ids(), "23456");
  EXPECT_EQ(Pending("g"), "356");
  EXPECT_EQ(Pending("h"), "134");
  EXPECT_EQ(Run("xackdel s g acked ids 2 3-0 5-0"), "[:2, :2]");
  EXPECT_EQ(Pending("g"), "6");
  EXPECT_EQ(Run("xackdel s h acked ids 2 3-0 4-0"), "[:1, :1]");
  EXPECT_EQ(Ids(), "256");
  // It has gone; that it was pending goes, too.
  EXPECT_EQ(Run("xackdel s h keepref ids 1 1-0"), "[:-1]");
  EXPECT_EQ(Pending("h"), "");
  EXPECT_EQ(Run("xackdel s nobody ids 1 6-0"), "[:-1]");
  EXPECT_EQ(Run("xackdel missing g ids 1 6-0"), "[:-1]");
  EXPECT_EQ(Ids(), "256");
}

TEST_P(StreamReferencesTest, XAckDelDropsAllReferences) {
  MakeGroups();
  EXPECT_EQ(Run("xackdel s g delref ids 1 3-0"), "[:1]");
  EXPECT_EQ(Pending("h"), "14");
  // Not pending in g, but there: nothing happens. Not there: what others have of it goes.
  EXPECT_EQ(Run("xackdel s g delref ids 1 4-0"), "[:-1]");
  EXPECT_EQ(Pending("h"), "14");
  Run("xdel s 4-0");
  EXPECT_EQ(Run("xackdel s g delref ids 1 4-0"), "[:-1]");
  EXPECT_EQ(Pending("h"), "1");
}

TEST_P(StreamReferencesTest, TrimsDropReferences) {
  MakeGroups();
  EXPECT_EQ(Run("xtrim s maxlen 4 delref"), ":2");
  EXPECT_EQ(Pending("g"), "356");
  EXPECT_EQ(Run("xadd s delref minid 4 7-0 a b"), "\"7-0\"");
  EXPECT_EQ(Ids(), "4567");
  EXPECT_EQ(Pending("g"), "56");
  EXPECT_EQ(Pending("h"), "4");
  EXPECT_EQ(Run("xtrim s keepref maxlen 3"), ":1");
  EXPECT_EQ(Pending("h"), "4");
}

TEST_P(StreamReferencesTest, TrimsKeepWhatIsReferenced) {
  MakeGroups();
  // 2-0 alone may go, from the middle.
  EXPECT_EQ(Run("xtrim s maxlen 0 acked"), ":1");
  EXPECT_EQ(Ids(), "13456");
  EXPECT_EQ(Call({"xinfo", "stream", "s"}).items[9].ToString(), "\"2-0\"");
  Run("xack s g 1-0 3-0");
  Run("xack s h 1-0 3-0 4-0");
  EXPECT_EQ(Run("xtrim s acked minid 3-5"), ":2");
  EXPECT_EQ(Ids(), "456");
  EXPECT_EQ(Call({"xinfo", "stream", "s"}).items[9].ToString(), "\"2-0\"");  // those were in front
  EXPECT_EQ(Run("xadd s acked maxlen 3 7-0 a b"), "\"7-0\"");
  EXPECT_EQ(Ids(), "567");
  EXPECT_EQ(Run("xtrim s maxlen 2 acked"), ":0");
}

TEST_P(StreamReferencesTest, ApproximateTrimsLookAtWholeNodes) {
  for (int i = 1; i <= 250; ++i) Run("xadd s " + std::to_string(i) + "-0 a b");
  Run("xgroup create s g 150-0");
  EXPECT_EQ(Run("xtrim s maxlen ~ 10 acked limit 50"), ":0");
  EXPECT_EQ(Run("xtrim s maxlen ~ 10 acked"), ":150");
  EXPECT_EQ(Run("xtrim s maxlen ~ 0 acked"), ":0");
  Run("xreadgroup group g c streams s >");
  Run("xack s g 160-0");
  EXPECT_EQ(Run("xtrim s minid ~ 240 acked"), ":1");
  EXPECT_EQ(Run("xlen s"), ":99");
  EXPECT_EQ(Run("xtrim s maxlen ~ 10 delref"), ":49");
  EXPECT_EQ(Call({"xpending", "s", "g"}).items[0].ToString(), ":50");
}

TEST_P(StreamReferencesTest, ErrorsChangeNothing) {
  MakeGroups();
  EXPECT_EQ(Run("xdelex s ids 0 1-0"), "-ERR Number of IDs must be a positive integer");
  EXPECT_EQ(Run("xdelex s ids x 1-0"), "-ERR Number of IDs must be a positive integer");
  EXPECT_EQ(Run("xdelex s ids 2 1-0"),
            "-ERR The `numids` parameter must match the number of arguments");
  EXPECT_EQ(Run("xdelex s ids 1 1-0 2-0"), kSyntaxError);
  EXPECT_EQ(Run("xdelex s acked 1 1-0"), kSyntaxError);
  EXPECT_EQ(Run("xdelex s acked delref ids 1 1-0"), kSyntaxError);
  EXPECT_EQ(Run("xdelex s ids 1 1-0 ids"), kSyntaxError);
  EXPECT_EQ(Run("xdelex s acked keepref ids"), kSyntaxError);
  EXPECT_EQ(Run("xdelex s ids 2 1-0 x"),
            "-ERR Invalid stream ID specified as stream command argument");
  EXPECT_EQ(Run("xackdel s g ids 1 x"),
            "-ERR Invalid stream ID specified as stream command argument");
  EXPECT_EQ(Run("xtrim s maxlen 1 acked delref"), kSyntaxError);
  EXPECT_EQ(Run("xadd s acked acked maxlen 1 * a b"), kSyntaxError);
  EXPECT_EQ(Run("xtrim s acked minid"), kSyntaxError);
  EXPECT_EQ(Ids(), "123456");
  EXPECT_EQ(Pending("g"), "1356");
  Run("set k v");
  EXPECT_EQ(Run("xdelex k ids 1 1-0"), kWrongType);
  EXPECT_EQ(Run("xackdel k g ids 1 1-0"), kWrongType);
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamReferencesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
