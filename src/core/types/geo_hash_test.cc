// SPDX-License-Identifier: Apache-2.0
#include "core/types/geo_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "helio/base/test_seed.h"

namespace dfly {
namespace {

constexpr GeoPoint kPalermo = {13.361389, 38.115556};
constexpr GeoPoint kCatania = {15.087269, 37.502669};

TEST(GeoHash, PlacesHaveTheNumbersOfRedis) {
  EXPECT_EQ(GeoEncode(kPalermo), 3479099956230698u);
  EXPECT_EQ(GeoEncode(kCatania), 3479447370796909u);
  EXPECT_EQ(GeoText(3479099956230698), "sqc8b49rny0");
  EXPECT_EQ(GeoText(3479447370796909), "sqdtr74hyu0");
  EXPECT_EQ(GeoText(static_cast<double>(GeoEncode({0, 0}))), "s0000000000");
  const GeoPoint decoded = GeoDecode(3479099956230698);
  EXPECT_DOUBLE_EQ(decoded.longitude, 13.36138933897018433);
  EXPECT_DOUBLE_EQ(decoded.latitude, 38.11555639549629859);
}

TEST(GeoHash, DistancesAreThoseOfASphere) {
  const GeoPoint a = GeoDecode(3479099956230698), b = GeoDecode(3479447370796909);
  EXPECT_NEAR(GeoDistance(a, b), 166274.1516, 0.0001);
  EXPECT_EQ(GeoDistance(a, a), 0);
  EXPECT_NEAR(GeoDistance({0, 0}, {180, 0}), 6372797.560856 * std::acos(-1), 0.001);
  EXPECT_NEAR(GeoDistance({179.9, 0}, {-179.9, 0}), GeoDistance({0, 0}, {0.2, 0}), 0.001);
}

TEST(GeoHash, TheEdgesAreOnTheMapAndNothingBehindThem) {
  EXPECT_TRUE(IsOnMap({180, 85.05112878}) && IsOnMap({-180, -85.05112878}));
  EXPECT_FALSE(IsOnMap({180.0001, 0}) || IsOnMap({0, 85.0512}) || IsOnMap({0, -90}));
  EXPECT_FALSE(IsOnMap({std::numeric_limits<double>::infinity(), 0}));
  for (const GeoPoint edge : {GeoPoint{180, 85.05112878}, GeoPoint{-180, -85.05112878}}) {
    const GeoPoint decoded = GeoDecode(static_cast<double>(GeoEncode(edge)));
    EXPECT_TRUE(IsOnMap(decoded));
    EXPECT_NEAR(decoded.latitude, edge.latitude, 0.00001);
  }
}

TEST(GeoHash, AnyScoreIsSomewhere) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double score :
       {-1.0, -kInfinity, kInfinity, 1e19, 9223372036854775808.0, -1e300, 0.5}) {
    EXPECT_TRUE(IsOnMap(GeoDecode(score))) << score;
    EXPECT_EQ(GeoText(score).size(), 11u) << score;
  }
}

// Whatever is within a shape has its score in one of the ranges, and they do not overlap.
TEST(GeoHash, TheCoverHasAllThatIsWithin) {
  std::mt19937_64 random(helio::TestSeed());
  const auto uniform = [&random](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  };
  size_t within = 0;
  for (int i = 0; i < 3000; ++i) {
    GeoShape shape;
    shape.center = {uniform(-180, 180), uniform(-85, 85)};
    shape.is_box = i % 2 == 0;
    shape.radius = std::pow(10, uniform(0, 6.3));
    shape.width = std::pow(10, uniform(0, 6.3));
    shape.height = std::pow(10, uniform(0, 6.3));
    const std::vector<GeoScores> cover = GeoCover(shape);
    ASSERT_LE(cover.size(), 9u);
    for (size_t a = 0; a < cover.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        EXPECT_TRUE(cover[a].end <= cover[b].begin || cover[b].end <= cover[a].begin);
      }
    }
    const double extent = shape.is_box ? std::max(shape.width, shape.height) : shape.radius * 2;
    const double degrees = extent / 111'000;
    for (int j = 0; j < 50; ++j) {
      GeoPoint point = {shape.center.longitude + uniform(-degrees, degrees),
                        shape.center.latitude + uniform(-degrees, degrees)};
      if (!IsOnMap(point)) continue;
      const auto score = static_cast<double>(GeoEncode(point));
      const auto distance = shape.DistanceWithin(GeoDecode(score));
      if (!distance) continue;
      ++within;
      bool is_covered = false;
      for (const GeoScores& range : cover) {
        is_covered = is_covered || (range.begin <= score && score < range.end);
      }
      // As in Redis, a wide box near a pole may reach further than its edge nearer to the equator,
      // and what a circle over a pole has on its other side may be missed.
      const bool is_over_pole = std::fabs(shape.center.latitude) + degrees / 2 > 89.5;
      if (shape.is_box ? std::fabs(point.latitude) + degrees < 60 : !is_over_pole) {
        EXPECT_TRUE(is_covered) << shape.center.longitude << " " << shape.center.latitude << ", "
                                << point.longitude << " " << point.latitude;
      }
    }
  }
  EXPECT_GT(within, 10'000u);
}

TEST(GeoHash, APolygonIsAroundTheMeanOfItsVertices) {
  GeoShape shape;
  shape.SetPolygon({{0, 0}, {2, 0}, {2, 2}, {0, 2}, {0, 0}});
  EXPECT_NEAR(shape.center.longitude, 0.8, 1e-3);
  EXPECT_NEAR(shape.center.latitude, 0.8, 1e-3);
  EXPECT_EQ(shape.DistanceWithin({0.5, 1.5}), GeoDistance(shape.center, {0.5, 1.5}));
  EXPECT_FALSE(shape.DistanceWithin({2.5, 1}));
  EXPECT_FALSE(shape.DistanceWithin({1, -0.5}));
  shape.SetPolygon({{0, 0}, {2, 2}, {2, 0}, {0, 2}});  // its sides cross
  EXPECT_TRUE(shape.DistanceWithin({0.2, 1}));
  EXPECT_TRUE(shape.DistanceWithin({1.8, 1}));
  EXPECT_FALSE(shape.DistanceWithin({1, 0.5}));
  EXPECT_FALSE(shape.DistanceWithin({1, 1.5}));
  shape.SetPolygon({{1, 1}, {1, 1}, {1, 1}});
  EXPECT_FALSE(shape.DistanceWithin({1, 1}));
}

TEST(GeoHash, WhatIsInAPolygonIsCovered) {
  std::mt19937_64 random(7);
  const auto uniform = [&random](double min, double max) {
    return std::uniform_real_distribution<double>(min, max)(random);
  };
  const auto point_near = [&](GeoPoint center, double degrees) {
    return GeoPoint{
        std::clamp(center.longitude + uniform(-degrees, degrees), -kLongitudeMax, kLongitudeMax),
        std::clamp(center.latitude + uniform(-degrees, degrees), -kLatitudeMax, kLatitudeMax)};
  };
  size_t within = 0;
  for (int i = 0; i < 5000; ++i) {
    const GeoPoint center = {uniform(-180, 180), uniform(-85, 85)};
    const double degrees = std::pow(10, uniform(-4, 2.2));
    std::vector<GeoPoint> vertices;
    while (vertices.size() < 3 + static_cast<size_t>(i) % 6) {
      vertices.push_back(point_near(center, degrees));
    }
    GeoShape shape;
    shape.SetPolygon(vertices);
    const std::vector<GeoScores> cover = GeoCover(shape);
    for (int j = 0; j < 50; ++j) {
      const auto score = static_cast<double>(GeoEncode(point_near(center, degrees)));
      if (!shape.DistanceWithin(GeoDecode(score))) continue;
      ++within;
      EXPECT_TRUE(std::any_of(cover.begin(), cover.end(), [score](const GeoScores& range) {
        return range.begin <= score && score < range.end;
      })) << i;
    }
  }
  EXPECT_GT(within, 10'000u);
}

}  // namespace
}  // namespace dfly
