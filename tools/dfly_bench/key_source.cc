// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/key_source.h"

#include <algorithm>
#include <cmath>

#include "helio/base/logging.h"

namespace dfly::bench {

namespace {

constexpr double kNearOne = 1e-9;  // an alpha this close to 1 is 1: the integral is a logarithm

}  // namespace

KeySource::Zipf::Zipf(uint64_t count, double alpha)
    : count_(static_cast<double>(count)), alpha_(alpha) {
  area_low_ = H(1.5) - 1;
  area_high_ = H(count_ + 0.5);
  sure_ = 2 - HInverse(H(2.5) - std::pow(2.0, -alpha_));
}

double KeySource::Zipf::H(double x) const {
  if (std::abs(1 - alpha_) < kNearOne) return std::log(x);
  // (x^(1-alpha) - 1) / (1 - alpha), without loss of digits near alpha = 1.
  return std::expm1((1 - alpha_) * std::log(x)) / (1 - alpha_);
}

double KeySource::Zipf::HInverse(double y) const {
  if (std::abs(1 - alpha_) < kNearOne) return std::exp(y);
  // y (1-alpha) >= -1 by construction; rounding may break that by a hair.
  return std::exp(std::log1p(std::max(-1.0, y * (1 - alpha_))) / (1 - alpha_));
}

uint64_t KeySource::Zipf::Next(helio::Random* random) const {
  while (true) {
    const double area = area_high_ + random->NextDouble() * (area_low_ - area_high_);
    const double x = HInverse(area);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (k - x <= sure_ || area >= H(k + 0.5) - std::pow(k, -alpha_))
      return static_cast<uint64_t>(k);
  }
}

KeySource::KeySource(const KeySourceOptions& options, uint64_t seed)
    : options_(options),
      count_(options.maximum - options.minimum + 1),
      random_(seed),
      zipf_(count_, options.zipf_alpha),
      position_(options.sequence_start % count_) {
  CHECK_LE(options.minimum, options.maximum);
}

// Marsaglia's polar method; what falls outside of the range is drawn again.
uint64_t KeySource::NextNormal() {
  const double count = static_cast<double>(count_);
  while (true) {
    const double a = 2 * random_.NextDouble() - 1;
    const double b = 2 * random_.NextDouble() - 1;
    const double square = a * a + b * b;
    if (square >= 1 || square == 0) continue;
    const double normal = a * std::sqrt(-2 * std::log(square) / square);
    const double place = std::floor(count / 2 + normal * count / 6);
    if (place >= 0 && place < count) return static_cast<uint64_t>(place);
  }
}

uint64_t KeySource::Next() {
  switch (options_.distribution) {
    case KeyDistribution::kUniform:
      return options_.minimum + random_.Uniform(count_);
    case KeyDistribution::kNormal:
      return options_.minimum + NextNormal();
    case KeyDistribution::kZipfian:
      return options_.minimum + zipf_.Next(&random_) - 1;
    case KeyDistribution::kSequential: {
      const uint64_t place = position_;
      position_ = (position_ + options_.sequence_step) % count_;
      return options_.minimum + place;
    }
  }
  return options_.minimum;
}

}  // namespace dfly::bench
