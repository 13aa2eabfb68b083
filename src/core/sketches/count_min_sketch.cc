// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/count_min_sketch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/table/compact_value.h"
#include "helio/base/logging.h"

namespace dfly {

void CountMinSketch::RegisterType() {
  RegisterObjectType(
      ValueType::kCountMinSketch,
      {.destroy = [](void* object, uint8_t) { delete static_cast<CountMinSketch*>(object); },
       .bytes = [](const void* object,
                   uint8_t) { return static_cast<const CountMinSketch*>(object)->bytes(); },
       .is_empty = [](const void*, uint8_t) { return false; },
       .clone = [](const void* object, uint8_t) -> void* {
         return static_cast<const CountMinSketch*>(object)->Clone();
       },
       .encoding_name = [](const void*, uint8_t) -> std::string_view { return "raw"; }});
}

bool CountMinSketch::Shape::IsPossible(size_t bytes_max) const {
  const uint64_t sums_max = bytes_max / sizeof(int64_t);
  return width > 0 && depth > 0 && sums_max > 0 && width <= (sums_max - 1) / depth;
}

CountMinSketch::Shape CountMinSketch::Shape::For(double error, double probability) {
  const double width = std::ceil(2 / error);
  const double depth = std::ceil(-std::log2(probability));
  return {.width = width < 0x1p62 ? static_cast<uint64_t>(width) : uint64_t{1} << 62,
          .depth = std::max<uint64_t>(1, static_cast<uint64_t>(depth))};
}

CountMinSketch::CountMinSketch(const Shape& shape)
    : shape_(shape),
      counters_(static_cast<uint32_t*>(AllocZeroed(shape.counters() * sizeof(uint32_t)))) {}

CountMinSketch* CountMinSketch::Clone() const {
  auto copy = std::make_unique<CountMinSketch>(shape_);
  std::memcpy(copy->counters_, counters_, shape_.counters() * sizeof(uint32_t));
  copy->total_ = total_;
  return copy.release();
}

uint32_t CountMinSketch::Add(const ItemHash& item, uint64_t count) {
  uint32_t smallest = kCountMax;
  for (uint64_t row = 0; row < shape_.depth; ++row) {
    uint32_t& counter = counters_[row * shape_.width + item.At(row, shape_.width)];
    counter += static_cast<uint32_t>(std::min<uint64_t>(count, kCountMax - counter));
    smallest = std::min(smallest, counter);
  }
  total_ +=
      static_cast<int64_t>(std::min<uint64_t>(count, static_cast<uint64_t>(INT64_MAX - total_)));
  return smallest;
}

uint32_t CountMinSketch::CountOf(const ItemHash& item) const {
  uint32_t smallest = kCountMax;
  for (uint64_t row = 0; row < shape_.depth; ++row) {
    smallest = std::min(smallest, counters_[row * shape_.width + item.At(row, shape_.width)]);
  }
  return smallest;
}

bool CountMinSketch::AddTo(std::span<int64_t> sums, int64_t weight) const {
  DCHECK_EQ(sums.size(), SumsOf(shape_));
  bool overflows = false;
  const auto add = [weight, &overflows](int64_t number, int64_t* sum) {
    int64_t product;
    overflows |= __builtin_mul_overflow(number, weight, &product);
    overflows |= __builtin_add_overflow(*sum, product, sum);
  };
  for (size_t i = 0; i < shape_.counters(); ++i) add(counters_[i], &sums[i]);
  add(total_, &sums.back());
  return !overflows;
}

bool CountMinSketch::Assign(std::span<const int64_t> sums) {
  DCHECK_EQ(sums.size(), SumsOf(shape_));
  const auto counters = sums.first(shape_.counters());
  if (sums.back() < 0 || std::any_of(counters.begin(), counters.end(), [](int64_t sum) {
        return sum < 0 || sum > int64_t{kCountMax};
      })) {
    return false;
  }
  for (size_t i = 0; i < counters.size(); ++i) counters_[i] = static_cast<uint32_t>(counters[i]);
  total_ = sums.back();
  return true;
}

}  // namespace dfly
