// SPDX-License-Identifier: Apache-2.0
// Which key the next request asks for.
#pragma once

#include <cstdint>

#include "helio/base/random.h"

namespace dfly::bench {

enum class KeyDistribution : char {
  kUniform = 'U',
  kNormal = 'N',      // around the middle; a sixth of the range is the standard deviation
  kZipfian = 'Z',     // the k-th key has weight 1 / k^alpha: the smallest is the hottest
  kSequential = 'S',  // all keys in turn, again from the start after the last
};

struct KeySourceOptions {
  KeyDistribution distribution = KeyDistribution::kUniform;
  uint64_t minimum = 0;
  uint64_t maximum = 0;  // inclusive; maximum - minimum < 2^53, so that doubles can tell keys apart
  double zipf_alpha = 0.99;     // >= 0
  uint64_t sequence_start = 0;  // sequential: the first key is minimum + sequence_start ...
  uint64_t sequence_step = 1;   // ... and this far from it is the next
};

// Numbers in [minimum, maximum]. The same seed gives the same numbers.
//
// Sources that share a key range sequentially start at 0 .. n-1 and step by n: together they visit
// each key once a round.
//
// Owner: one connection. Suspends: never.
class KeySource {
 public:
  KeySource(const KeySourceOptions& options, uint64_t seed);

  uint64_t Next();

 private:
  // Zipfian numbers by rejection-inversion: a table-free method whose cost does not depend on the
  // range. W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from monotone
  // discrete distributions", ACM TOMACS 6(3), 1996. With h(x) = x^-alpha and its integral H, a
  // uniform point under the hat's area is turned by H^-1 into an x, which is rounded, and rarely
  // refused.
  class Zipf {
   public:
    Zipf(uint64_t count, double alpha);
    uint64_t Next(helio::Random* random) const;  // in [1, count]

   private:
    double H(double x) const;
    double HInverse(double y) const;

    double count_;
    double alpha_;
    double area_low_;
    double area_high_;
    double sure_;  // a number this close to its x is accepted without the exact test
  };

  uint64_t NextNormal();

  const KeySourceOptions options_;
  const uint64_t count_;
  helio::Random random_;
  Zipf zipf_;
  uint64_t position_;
};

}  // namespace dfly::bench
