// SPDX-License-Identifier: Apache-2.0
// Places on the earth as numbers of 52 bits, in which near places are mostly near: longitude and
// latitude are halved 26 times each, and the bits alternate (Morton, "A computer oriented geodetic
// data base", 1966; G. Niemeyer's geohash). So the places of a cell, whose bits begin alike, are a
// range of numbers, and what lies within a circle or a box is within a cell of about its size or
// one of the eight around it.
//
//   bits   51    50   49    48   ...    1     0
//          lon   lat  lon   lat         lon   lat
//
// The numbers, the distances and the order of the cells are those of Redis. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dfly {

struct GeoPoint {
  double longitude = 0;
  double latitude = 0;
};
// Of what can be encoded: the square of the Web Mercator projection (EPSG:3857).
inline constexpr double kLongitudeMax = 180;
inline constexpr double kLatitudeMax = 85.05112878;
// Not for NaN.
bool IsOnMap(GeoPoint point);

// REQUIRES: IsOnMap(point).
uint64_t GeoEncode(GeoPoint point);
// The middle of the cell. For any score, also one that is no such number: then it is somewhere on
// the map.
GeoPoint GeoDecode(double score);
// The 11 letters that others know as geohash; the last one says nothing.
std::string GeoText(double score);

// In metres, on a sphere.
double GeoDistance(GeoPoint a, GeoPoint b);

// A circle, or a box as wide as it is at the latitude of each point, around a centre, in metres; or
// a polygon, whose sides are straight in degrees.
struct GeoShape {
  GeoPoint center;
  bool is_box = false;
  double radius = 0;
  double width = 0;
  double height = 0;
  std::vector<GeoPoint> vertices = {};      // of the polygon; empty: it is none
  GeoPoint southwest = {}, northeast = {};  // of the polygon: the corners of what it is in

  // Makes it a polygon around the mean of its vertices on the sphere. What an even number of sides
  // is around is outside. REQUIRES: some are given.
  void SetPolygon(std::vector<GeoPoint> points);

  // How far the point is from the centre; none if it is outside.
  std::optional<double> DistanceWithin(GeoPoint point) const;
};

struct GeoScores {
  double begin;
  double end;  // not included
};
// Where everything in the shape is, and more: at most nine ranges, the cell of the centre first.
std::vector<GeoScores> GeoCover(const GeoShape& shape);

}  // namespace dfly
