// SPDX-License-Identifier: Apache-2.0
// main() of the unit tests in src/: what the server draws by chance is the same in each run, and so
// is the place of a key. (Not DFLY_SEED: one of many schedules is replayed with the same places.)
#include <gtest/gtest.h>

#include "core/text/hash.h"
#include "helio/base/random.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  helio::FixSystemSeeds(1);
  dfly::SetHashSeed(1);
  return RUN_ALL_TESTS();
}
