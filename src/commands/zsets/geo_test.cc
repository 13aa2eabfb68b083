// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/types/geo_hash.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class GeoCommandsTest : public CommandsTest {
 protected:
  void AddSicily() {
    ASSERT_EQ(Run("geoadd s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania"), ":2");
    ASSERT_EQ(Run("geoadd s 12.758489 38.788135 edge1 17.241510 38.788135 edge2"), ":2");
  }
  // A key that is in another shard than `key`, if there are several.
  std::string Apart(const std::string& key) {
    for (int i = 0; i < 100; ++i) {
      std::string other = "other" + std::to_string(i);
      if (shards_->ShardOfKey(other, HashKey(other)) != shards_->ShardOfKey(key, HashKey(key))) {
        return other;
      }
    }
    return "other";
  }
};

TEST_P(GeoCommandsTest, PlacesAreKept) {
  AddSicily();
  EXPECT_EQ(Run("zscore s Palermo"), "\"3479099956230698\"");
  EXPECT_EQ(Run("geohash s Palermo missing"), R"(["sqc8b49rny0", (nil)])");
  EXPECT_EQ(Run("geopos s Palermo missing"),
            R"([["13.36138933897018433", "38.11555639549629859"], (nil)])");
  EXPECT_EQ(Run("geodist s Palermo Catania"), "\"166274.1516\"");
  EXPECT_EQ(Run("geodist s Palermo Catania KM"), "\"166.2742\"");
  EXPECT_EQ(Run("geodist s Palermo missing"), "(nil)");
  // Ties of the last digit, as redis-server rounds them; in decimals both are a little below.
  Run("geoadd s 37.706883809771 -79.860900959793 a 179.897989779389 85.05 b");
  EXPECT_EQ(Run("geodist s a b"), "\"19250907.5942\"");
  Run("geoadd s -179.98996176072 -60.202251682973 c -100.000228460457 -85.000140116877 d");
  EXPECT_EQ(Run("geodist s c d"), "\"3259685.0916\"");
  EXPECT_EQ(Run("geodist missing a b"), "(nil)");
  EXPECT_EQ(Run("geohash missing a"), "[(nil)]");
  EXPECT_EQ(Run("type s"), "+zset");
}

TEST_P(GeoCommandsTest, AddOptions) {
  AddSicily();
  EXPECT_EQ(Run("geoadd s nx 1 1 Palermo 2 2 new"), ":1");
  EXPECT_EQ(Run("geoadd s xx ch 1 1 Palermo 3 3 newer"), ":1");
  EXPECT_EQ(Run("geohash s Palermo new newer"), R"(["s00twy01mt0", "s037ms06g70", (nil)])");
  EXPECT_EQ(Run("geoadd s nx xx 1 1 a"), kSyntaxError);
  EXPECT_EQ(Run("geoadd s 1 1 a 2"), kSyntaxError);
  EXPECT_EQ(Run("geoadd s nx ch ch"), kSyntaxError);
  EXPECT_EQ(Run("geoadd s 1 1 a x 2 b"), "-ERR value is not a valid float");
  EXPECT_EQ(Run("geoadd s 1 1 a 181 2 b"),
            "-ERR invalid longitude,latitude pair 181.000000,2.000000");
  EXPECT_EQ(Run("zscore s a"), "(nil)") << "an error changes nothing";
}

TEST_P(GeoCommandsTest, Searches) {
  AddSicily();
  const std::string near = "geosearch s fromlonlat 15 37 ";
  EXPECT_EQ(Run(near + "byradius 200 km asc"), R"(["Catania", "Palermo"])");
  EXPECT_EQ(Run(near + "byradius 200 km desc"), R"(["Palermo", "Catania"])");
  EXPECT_EQ(Run(near + "bybox 400 400 km asc"), R"(["Catania", "Palermo", "edge2", "edge1"])");
  EXPECT_EQ(Run(near + "bybox 400 400 km count 2"), R"(["Catania", "Palermo"])");
  EXPECT_EQ(Run(near + "bybox 400 400 km desc count 1"), R"(["edge1"])");
  EXPECT_EQ(Call({"geosearch", "s", "fromlonlat", "15", "37", "bybox", "400", "400", "km", "count",
                  "3", "any"})
                .items.size(),
            3u);
  EXPECT_EQ(Run(near + "byradius 100 km withdist withhash withcoord"),
            R"([["Catania", "56.4413", :3479447370796909, ["15.08726745843887329", )"
            R"("37.50266842333162032"]]])");
  EXPECT_EQ(Run("geosearch s frommember Palermo byradius 0 m"), R"(["Palermo"])");
  EXPECT_EQ(Run("geosearch missing frommember x byradius 1 m"), "[]");
  EXPECT_EQ(Run("georadius s 15 37 200 km withdist asc"),
            R"([["Catania", "56.4413"], ["Palermo", "190.4424"]])");
  EXPECT_EQ(Run("georadiusbymember_ro s Catania 200000 m asc"), R"(["Catania", "Palermo"])");
}

TEST_P(GeoCommandsTest, SearchesRefuseWhatMakesNoSense) {
  AddSicily();
  const std::string near = "geosearch s fromlonlat 15 37 ";
  for (const auto& [command, error] : std::vector<std::pair<std::string, std::string>>{
           {near + "byradius x km", "need numeric radius"},
           {near + "byradius -1 km", "radius cannot be negative"},
           {near + "byradius 1 cm", "unsupported unit provided. please use M, KM, FT, MI"},
           {near + "bybox 1 x m", "need numeric height"},
           {near + "bybox 1 -1 m", "height or width cannot be negative"},
           {near + "byradius 1 m count 0", "COUNT must be > 0"},
           {near + "byradius 1 m any", "the ANY argument requires COUNT argument"},
           {near + "byradius 1 m frommember Palermo", "syntax error"},
           {near + "byradius 1 m store x", "syntax error"},
           {"geosearch s frommember nobody byradius 1 what",
            "could not decode requested zset member"},
           {"geosearch s byradius 1 m asc desc",
            "exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch"},
           {near + "asc desc asc",
            "exactly one of BYRADIUS and BYBOX can be specified for geosearch"},
           {"georadius s 15 37 1 m withdist store t",
            "STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD "
            "options"},
           {"georadius_ro s 15 37 1 m store t", "syntax error"},
       }) {
    EXPECT_EQ(Run(command), "-ERR " + error) << command;
  }
  Run("set text x");
  for (const char* command :
       {"geoadd text 1 1 a", "geodist text a b", "geopos text a", "geohash text a",
        "georadius text 1 1 x x", "geosearch text frommember a byradius 1 m",
        "geosearchstore t text what is all this x"}) {
    EXPECT_EQ(Run(command), kWrongType) << command;
  }
}

TEST_P(GeoCommandsTest, ResultsAreStored) {
  AddSicily();
  for (const std::string& target : {std::string("{s}t"), Apart("s")}) {
    EXPECT_EQ(Run("geosearchstore " + target + " s fromlonlat 15 37 byradius 200 km"), ":2");
    EXPECT_EQ(Run("zrange " + target + " 0 -1 withscores"),
              R"(["Palermo", "3479099956230698", "Catania", "3479447370796909"])");
    EXPECT_EQ(Run("georadius s 15 37 200 km count 1 storedist " + target), ":1");
    EXPECT_EQ(Run("zrange " + target + " 0 -1"), R"(["Catania"])");
    EXPECT_EQ(Run("georadiusbymember s Palermo 1 m store other_target store " + target), ":1");
    EXPECT_EQ(Run("exists other_target"), ":0") << "the last one counts";
    EXPECT_EQ(Run("georadiusbymember s nobody 1 m store " + target),
              "-ERR could not decode requested zset member");
    EXPECT_EQ(Run("georadius s 15 37 1 x store " + target),
              "-ERR unsupported unit provided. please use M, KM, FT, MI");
    EXPECT_EQ(Run("exists " + target), ":1") << "an error changes nothing";
    EXPECT_EQ(Run("geosearchstore " + target + " s fromlonlat 0 0 byradius 1 m"), ":0");
    EXPECT_EQ(Run("exists " + target), ":0");
  }
}

TEST_P(GeoCommandsTest, SearchesFindWhatAWalkOverAllFinds) {
  std::mt19937 random(helio::TestSeed());
  const auto uniform = [&random](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  };
  const auto text = [](double number) { return fmt::format("{:.17g}", number); };
  std::vector<GeoPoint> points;
  for (size_t i = 0; i < 500; ++i) {
    const GeoPoint point = {uniform(-180, 180), uniform(-85, 85)};
    points.push_back(GeoDecode(static_cast<double>(GeoEncode(point))));
    RunWords(
        {"geoadd", "all", text(point.longitude), text(point.latitude), "m" + std::to_string(i)});
  }
  for (int i = 0; i < 200; ++i) {
    const GeoPoint center = {uniform(-180, 180), uniform(-60, 60)};
    const double radius = std::pow(10, uniform(4, 6.5));
    std::vector<std::string> expected;
    for (size_t j = 0; j < points.size(); ++j) {
      if (GeoDistance(center, points[j]) <= radius) expected.push_back("m" + std::to_string(j));
    }
    const std::vector<std::string> words = {
        "geosearch",           "all",      "fromlonlat", text(center.longitude),
        text(center.latitude), "byradius", text(radius), "m"};
    std::vector<std::string> found;
    for (const RespValue& item : Call(words).items) found.push_back(item.text);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected) << "around " << words[3] << " " << words[4] << ", " << radius;
  }
}

// "g1" is searched in slices, "g2" at once, and so "t1" and "t2" are made.
TEST_P(GeoCommandsTest, LargeSetsAreSearchedInSlices) {
  std::mt19937 random(helio::TestSeed());
  std::vector<std::string> words = {"geoadd", ""};
  for (size_t i = 0; i < 12'000; ++i) {
    words.push_back(fmt::format("{:.6f}", std::uniform_real_distribution<>(-180, 180)(random)));
    words.push_back(fmt::format("{:.6f}", std::uniform_real_distribution<>(-85, 85)(random)));
    words.push_back("m" + std::to_string(i));
  }
  for (const char* key : {"{1}g1", "{2}g2"}) {
    words[1] = key;
    EXPECT_EQ(RunWords(words), ":12000");
  }
  const auto expect_same = [&](const std::string& before, const std::string& after) {
    const std::string found = Run(before + "{1}g1 " + after);
    EXPECT_EQ(found, Run(before + "{2}g2 " + after)) << before << after;
    return found;
  };
  for (const char* center : {"fromlonlat 15 37 ", "frommember m7 ", "frommember none "}) {
    for (const char* shape :
         {"byradius 21000 km", "byradius 900 km", "bybox 30000 9000 km", "byradius x km"}) {
      for (const char* options :
           {"", " asc", " desc withdist", " count 5000 asc withcoord", " count 9000 any",
            " count 3 any withhash", " count 10 desc", " any", " what"}) {
        expect_same("geosearch ", std::string(center) + shape + options);
        if (options == std::string(" asc")) continue;
        Effects();
        const std::string stored = Run("geosearchstore {1}t1 {1}g1 " + std::string(center) + shape +
                                       options + " storedist");
        const std::vector<std::string> told = Effects();
        EXPECT_EQ(stored, Run("geosearchstore {2}t2 {2}g2 " + std::string(center) + shape +
                              options + " storedist"));
        EXPECT_EQ(told.size(), Effects().size());
        EXPECT_EQ(Run("zrange {1}t1 0 -1 withscores"), Run("zrange {2}t2 0 -1 withscores"));
      }
    }
  }
  EXPECT_EQ(
      Call({"geosearch", "{1}g1", "fromlonlat", "1", "1", "byradius", "21000", "km"}).items.size(),
      12'000u);
  expect_same("georadius_ro ", "15 37 8000 km withdist asc");
  expect_same("georadiusbymember_ro ", "m7 8000 km count 7000");
  expect_same("georadiusbymember_ro ", "m7 x km");
  const std::string polygon = "bypolygon 4 -100 -60 100 -60 100 60 -100 60";
  expect_same("geosearch ", polygon + " asc");
  expect_same("geosearch ", polygon + " count 4000 any");
  for (const char* radius : {"15 37 8000 km ", "15 37 21000 km count 9000 "}) {
    EXPECT_EQ(Run("georadius {1}g1 " + std::string(radius) + "store {1}t1"),
              Run("georadius {2}g2 " + std::string(radius) + "store {2}t2"));
    EXPECT_EQ(Run("zrange {1}t1 0 -1 withscores"), Run("zrange {2}t2 0 -1 withscores"));
  }
  EXPECT_EQ(Run("geosearchstore {1}t1 {1}none fromlonlat 1 1 byradius 1 km"), ":0");
  EXPECT_EQ(Run("exists {1}t1"), ":0");
}

TEST_P(GeoCommandsTest, PolygonsAreSearchedAndStored) {
  Run("geoadd g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 14 38 Mid 0 0 zero");
  const std::string square = "bypolygon 4 12 37 16 37 16 39 12 39";
  EXPECT_EQ(Run("geosearch g " + square + " asc"), "[\"Mid\", \"Palermo\", \"Catania\"]");
  EXPECT_EQ(Run("geosearch g " + square + " desc count 2"), "[\"Catania\", \"Palermo\"]");
  EXPECT_EQ(Run("geosearch g " + square + " withdist count 1"), "[[\"Mid\", \"1884.0123\"]]");
  EXPECT_EQ(Run("geosearch none " + square), "[]");
  EXPECT_EQ(Run("geosearchstore d g " + square + " storedist"), ":3");
  EXPECT_EQ(Run("zrange d 0 0 withscores"), "[\"Mid\", \"1884.0122919407615\"]");
  EXPECT_EQ(Run("geosearchstore d g bypolygon 3 1 1 2 2 3 3"), ":0");
  EXPECT_EQ(Run("exists d"), ":0");
  // The last one counts.
  EXPECT_EQ(Run("geosearch g " + square + " bypolygon 3 -1 -1 1 -1 0 1"), "[\"zero\"]");
}

TEST_P(GeoCommandsTest, PolygonsRefuseWhatMakesNoSense) {
  Run("geoadd g 1 1 a");
  const std::string polygon = "bypolygon 3 0 0 2 0 1 2";
  for (std::string_view few : {"2 0 0 2 0 1 2", "3 0 0 2 0 1", "0 0 0 2 0", "-3 0 0 2 0"}) {
    EXPECT_EQ(Run("geosearch g bypolygon " + std::string(few)),
              "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
  }
  for (std::string_view count : {"x", "3.0", "2147483651", "9223372036854775807"}) {
    EXPECT_EQ(Run("geosearch g bypolygon " + std::string(count) + " 0 0 2 0 1 2"),
              "-ERR invalid number of vertices");
  }
  EXPECT_EQ(Run("geosearch g bypolygon 3 0 0 2 0 300 3"),
            "-ERR invalid longitude,latitude pair 300.000000,3.000000");
  EXPECT_EQ(Run("geosearch g bypolygon 3 0 0 2 0 nan 3"), "-ERR value is not a valid float");
  for (std::string_view other :
       {"frommember a", "fromlonlat 1 1", "byradius 1 km", "bybox 1 1 km"}) {
    EXPECT_EQ(Run("geosearch g " + polygon + " " + std::string(other)), kSyntaxError) << other;
    EXPECT_EQ(Run("geosearch g " + std::string(other) + " " + polygon), kSyntaxError) << other;
  }
  EXPECT_EQ(Run("geosearch g " + polygon + " 5 5"), kSyntaxError);
  EXPECT_EQ(Run("georadius g 1 1 1 km " + polygon), kSyntaxError);
  Run("set text v");
  EXPECT_EQ(Run("geosearch text " + polygon), kWrongType);
  EXPECT_EQ(Run("geosearchstore d g " + polygon + " withdist"),
            "-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
}

INSTANTIATE_TEST_SUITE_P(Shards, GeoCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
