// SPDX-License-Identifier: Apache-2.0
#include "core/types/geo_hash.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace dfly {

namespace {

constexpr uint32_t kSteps = 26;  // halvings of each coordinate
constexpr double kEarthRadius = 6372797.560856;
constexpr double kMercatorMax = 20037726.37;  // half of the equator, about

double Radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }
double Degrees(double radians) { return radians / (std::numbers::pi / 180.0); }

// Bit i goes to bit 2 i.
uint64_t Spread(uint32_t bits) {
  uint64_t word = bits;
  word = (word | (word << 16)) & 0x0000FFFF0000FFFF;
  word = (word | (word << 8)) & 0x00FF00FF00FF00FF;
  word = (word | (word << 4)) & 0x0F0F0F0F0F0F0F0F;
  word = (word | (word << 2)) & 0x3333333333333333;
  return (word | (word << 1)) & 0x5555555555555555;
}

uint32_t Gather(uint64_t word) {
  word &= 0x5555555555555555;
  word = (word | (word >> 1)) & 0x3333333333333333;
  word = (word | (word >> 2)) & 0x0F0F0F0F0F0F0F0F;
  word = (word | (word >> 4)) & 0x00FF00FF00FF00FF;
  word = (word | (word >> 8)) & 0x0000FFFF0000FFFF;
  return static_cast<uint32_t>(word | (word >> 16));
}

// One of 2^steps by 2^steps.
struct Cell {
  uint32_t x = 0;  // to the east
  uint32_t y = 0;  // to the north
  uint32_t steps = 0;

  uint64_t bits() const { return Spread(y) | (Spread(x) << 1); }
  // Around the earth; and over its poles, which is harmless and finds nothing.
  Cell Moved(int east, int north) const {
    const uint32_t mask = (uint32_t{1} << steps) - 1;
    Cell cell = *this;
    if (east != 0) cell.x = (x + static_cast<uint32_t>(east)) & mask;
    if (north != 0) cell.y = (y + static_cast<uint32_t>(north)) & mask;
    return cell;
  }
};

struct Area {
  double west, south, east, north;
};

uint32_t StepOf(double value, double max, uint32_t steps) {
  const double part = (value + max) / (max - -max);
  return static_cast<uint32_t>(part * static_cast<double>(uint64_t{1} << steps));
}

Cell CellOf(GeoPoint point, uint32_t steps, double latitude_max = kLatitudeMax) {
  return {StepOf(point.longitude, kLongitudeMax, steps),
          StepOf(point.latitude, latitude_max, steps), steps};
}

Area AreaOf(const Cell& cell) {
  const auto at = [&cell](uint64_t step, double max) {
    const double part = static_cast<double>(step) / static_cast<double>(uint64_t{1} << cell.steps);
    return -max + part * (max - -max);
  };
  return {.west = at(cell.x, kLongitudeMax),
          .south = at(cell.y, kLatitudeMax),
          .east = at(uint64_t{cell.x} + 1, kLongitudeMax),
          .north = at(uint64_t{cell.y} + 1, kLatitudeMax)};
}

uint64_t BitsOf(double score) {
  constexpr double kEnd = 9223372036854775808.0;
  if (score >= kEnd) return UINT64_MAX;
  return score <= -kEnd ? 0 : static_cast<uint64_t>(static_cast<int64_t>(score));
}

double LatitudeDistance(double a, double b) {
  return kEarthRadius * std::fabs(Radians(a) - Radians(b));
}

// What the shape is in, in degrees. Past the date line it goes on.
Area BoundsOf(const GeoShape& shape) {
  if (!shape.vertices.empty()) {
    return {.west = shape.southwest.longitude,
            .south = shape.southwest.latitude,
            .east = shape.northeast.longitude,
            .north = shape.northeast.latitude};
  }
  const double height = shape.is_box ? shape.height / 2 : shape.radius;
  const double width = shape.is_box ? shape.width / 2 : shape.radius;
  const double latitude = shape.center.latitude, longitude = shape.center.longitude;
  const double up = Degrees(height / kEarthRadius);
  // A degree of longitude is shortest at the side that is nearer to a pole.
  const double nearest_pole = latitude < 0 ? latitude - up : latitude + up;
  const double aside = Degrees(width / kEarthRadius / std::cos(Radians(nearest_pole)));
  return {.west = longitude - aside,
          .south = latitude - up,
          .east = longitude + aside,
          .north = latitude + up};
}

// Of a circle around the centre that has the shape in it, about.
double RadiusOf(const GeoShape& shape) {
  if (!shape.vertices.empty()) {
    double radius = 0;
    for (const double latitude : {shape.southwest.latitude, shape.northeast.latitude}) {
      for (const double longitude : {shape.southwest.longitude, shape.northeast.longitude}) {
        radius = std::max(radius, GeoDistance(shape.center, {longitude, latitude}));
      }
    }
    return radius;
  }
  if (!shape.is_box) return shape.radius;
  return std::sqrt(shape.width / 2 * (shape.width / 2) + shape.height / 2 * (shape.height / 2));
}

// A ray to the east crosses an odd number of sides.
bool IsInPolygon(const GeoShape& shape, GeoPoint point) {
  if (point.longitude < shape.southwest.longitude || point.longitude > shape.northeast.longitude ||
      point.latitude < shape.southwest.latitude || point.latitude > shape.northeast.latitude) {
    return false;
  }
  bool is_inside = false;
  GeoPoint from = shape.vertices.back();
  for (const GeoPoint to : shape.vertices) {
    if ((to.latitude > point.latitude) != (from.latitude > point.latitude)) {
      const double crossing = (from.longitude - to.longitude) * (point.latitude - to.latitude) /
                                  (from.latitude - to.latitude) +
                              to.longitude;
      if (point.longitude < crossing) is_inside = !is_inside;
    }
    from = to;
  }
  return is_inside;
}

// So that a cell is about as large as the radius. Towards the poles cells are narrower.
uint32_t StepsFor(double radius, double latitude) {
  if (radius == 0) return kSteps;
  int steps = 1;
  for (; radius < kMercatorMax; radius *= 2) ++steps;
  steps -= 2;
  if (std::fabs(latitude) > 66) --steps;
  if (std::fabs(latitude) > 80) --steps;
  return static_cast<uint32_t>(std::clamp(steps, 1, static_cast<int>(kSteps)));
}

}  // namespace

bool IsOnMap(GeoPoint point) {
  return std::fabs(point.longitude) <= kLongitudeMax && std::fabs(point.latitude) <= kLatitudeMax;
}

uint64_t GeoEncode(GeoPoint point) { return CellOf(point, kSteps).bits(); }

GeoPoint GeoDecode(double score) {
  const uint64_t bits = BitsOf(score);
  const Area area = AreaOf({.x = Gather(bits >> 1), .y = Gather(bits), .steps = kSteps});
  return {std::clamp((area.west + area.east) / 2, -kLongitudeMax, kLongitudeMax),
          std::clamp((area.south + area.north) / 2, -kLatitudeMax, kLatitudeMax)};
}

std::string GeoText(double score) {
  constexpr char kLetters[] = "0123456789bcdefghjkmnpqrstuvwxyz";
  // It counts latitudes up to the poles.
  const uint64_t bits = CellOf(GeoDecode(score), kSteps, 90).bits();
  std::string text;
  for (int shift = 52 - 5; shift >= 0; shift -= 5) text.push_back(kLetters[(bits >> shift) & 31]);
  return text + '0';
}

double GeoDistance(GeoPoint a, GeoPoint b) {
  const double half_east = std::sin((Radians(b.longitude) - Radians(a.longitude)) / 2);
  if (half_east == 0) return LatitudeDistance(a.latitude, b.latitude);
  const double latitude_a = Radians(a.latitude), latitude_b = Radians(b.latitude);
  const double half_north = std::sin((latitude_b - latitude_a) / 2);
  // The haversine formula.
  const double square =
      half_north * half_north + std::cos(latitude_a) * std::cos(latitude_b) * half_east * half_east;
  return 2 * kEarthRadius * std::asin(std::sqrt(square));
}

void GeoShape::SetPolygon(std::vector<GeoPoint> points) {
  vertices = std::move(points);
  southwest = northeast = vertices[0];
  double x = 0, y = 0, z = 0;  // the mean is in the earth, below the centre
  for (const GeoPoint point : vertices) {
    southwest = {std::min(southwest.longitude, point.longitude),
                 std::min(southwest.latitude, point.latitude)};
    northeast = {std::max(northeast.longitude, point.longitude),
                 std::max(northeast.latitude, point.latitude)};
    const double longitude = Radians(point.longitude), latitude = Radians(point.latitude);
    x += std::cos(latitude) * std::cos(longitude);
    y += std::cos(latitude) * std::sin(longitude);
    z += std::sin(latitude);
  }
  const auto count = static_cast<double>(vertices.size());
  x /= count;
  y /= count;
  z /= count;
  center = {Degrees(std::atan2(y, x)), Degrees(std::atan2(z, std::sqrt(x * x + y * y)))};
}

std::optional<double> GeoShape::DistanceWithin(GeoPoint point) const {
  if (!vertices.empty()) {
    return IsInPolygon(*this, point) ? std::optional(GeoDistance(center, point)) : std::nullopt;
  }
  if (is_box) {
    if (LatitudeDistance(point.latitude, center.latitude) > height / 2) return std::nullopt;
    const GeoPoint abreast = {center.longitude, point.latitude};
    if (GeoDistance(point, abreast) > width / 2) return std::nullopt;
    return GeoDistance(center, point);
  }
  const double distance = GeoDistance(center, point);
  return distance <= radius ? std::optional(distance) : std::nullopt;
}

std::vector<GeoScores> GeoCover(const GeoShape& shape) {
  const Area bounds = BoundsOf(shape);
  Cell cell = CellOf(shape.center, StepsFor(RadiusOf(shape), shape.center.latitude));
  const bool is_short = AreaOf(cell.Moved(0, 1)).north < bounds.north ||
                        AreaOf(cell.Moved(0, -1)).south > bounds.south ||
                        AreaOf(cell.Moved(1, 0)).east < bounds.east ||
                        AreaOf(cell.Moved(-1, 0)).west > bounds.west;
  if (is_short && cell.steps > 1) cell = CellOf(shape.center, cell.steps - 1);

  // Neighbours that the shape does not reach.
  const Area area = AreaOf(cell);
  const bool may_skip = cell.steps >= 2;
  const bool no_south = may_skip && area.south < bounds.south;
  const bool no_north = may_skip && area.north > bounds.north;
  const bool no_west = may_skip && area.west < bounds.west;
  const bool no_east = may_skip && area.east > bounds.east;
  constexpr int kAround[9][2] = {{0, 0}, {0, 1},  {0, -1}, {1, 0},  {-1, 0},
                                 {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};  // east, north
  std::vector<GeoScores> ranges;
  for (const auto& [east, north] : kAround) {
    if ((north > 0 && no_north) || (north < 0 && no_south)) continue;
    if ((east > 0 && no_east) || (east < 0 && no_west)) continue;
    const uint64_t bits = cell.Moved(east, north).bits();
    const uint32_t shift = 2 * (kSteps - cell.steps);
    const GeoScores range = {static_cast<double>(bits << shift),
                             static_cast<double>((bits + 1) << shift)};
    // With one step a cell's neighbours on both sides are the same one.
    const bool is_known = std::any_of(ranges.begin(), ranges.end(), [&](const GeoScores& other) {
      return other.begin == range.begin;
    });
    if (!is_known) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace dfly
