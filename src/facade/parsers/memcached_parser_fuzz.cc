// SPDX-License-Identifier: Apache-2.0
// Random streams: whatever the bytes, they are parsed to the same commands however they are cut.
//
//   input   limits (1), seed of the cuts (2), stream
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "facade/parsers/memcached_parser_model.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::ParseMemcached;

void CheckOneInput(std::string_view data) {
  if (data.size() < 4) return;
  MemcachedParser::Limits limits;
  if (data[0] & 1) limits.value_bytes_max = 10;
  if (data[0] & 2) limits.line_bytes_max = 30;
  const bool authenticated = (data[0] & 4) == 0;
  Random cuts(static_cast<unsigned char>(data[1]) * 256u + static_cast<unsigned char>(data[2]));
  const std::string_view stream = data.substr(3);
  std::vector<size_t> ends;
  for (size_t end = 0; end < stream.size();) {
    end = std::min(stream.size(), end + cuts.Uniform(cuts.OneIn(3) ? 40 : 4));
    ends.push_back(end);
  }
  const auto whole = ParseMemcached(stream, limits, {}, authenticated);
  CHECK(ParseMemcached(stream, limits, ends, authenticated) == whole);
}

std::string RandomStream(Random* random) {
  static constexpr std::string_view kPieces[] = {"get a\r\n",
                                                 "gets a bb  c\r\n",
                                                 "gat 0 a b\r\n",
                                                 "set k 0 0 3\r\nabc\r\n",
                                                 "cas k 1 2 1 5\r\n",
                                                 "x\r\n",
                                                 "\r\n",
                                                 "\n",
                                                 " ",
                                                 "noreply",
                                                 "\r",
                                                 "add k 0 0 20\r\n",
                                                 "ms k 2 c T9\r\n",
                                                 "mg YWJj b v k\r\n",
                                                 "mn\r\n",
                                                 "md k q\r\n",
                                                 "incr k 1\r\n",
                                                 "delete k 0\r\n",
                                                 "flush_all 1\r\n",
                                                 "abcdefghijklmnopqrst\r\n",
                                                 "touch k 1\r\n",
                                                 "set k 0 0 -1\r\n",
                                                 "get ",
                                                 "ms k 12 q\r\n",
                                                 "verbosity 1\r\n",
                                                 "mg !!!! b\r\n",
                                                 "stats\r\n",
                                                 "quit\r\n",
                                                 "gat ",
                                                 "set k 0 0 0\r\n\r\n"};
  std::string out;
  for (int i = 0; i < 3; ++i) out += static_cast<char>(random->Next());
  const uint64_t pieces = random->Uniform(30);
  for (uint64_t i = 0; i < pieces; ++i) {
    if (random->OneIn(8)) {
      out += static_cast<char>(random->Next());
    } else {
      out += kPieces[random->Uniform(std::size(kPieces))];
    }
  }
  return out;
}

}  // namespace

FUZZ_TARGET(MemcachedParserFuzz, ParsesTheSameHoweverItIsCut,
            {.check = CheckOneInput, .make_example = RandomStream, .rounds = 100'000})

}  // namespace dfly
