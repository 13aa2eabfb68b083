// SPDX-License-Identifier: Apache-2.0
// Random streams and cuts: the parser must agree with the model, whatever the bytes.
//
//   input   limits (1), seed of the cuts (2), stream
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "facade/parsers/request_parser_model.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::ModelParser;
using testkit::ParseInPieces;

void CheckOneInput(std::string_view data) {
  if (data.size() < 4) return;
  RequestParser::Limits limits;
  limits.authenticated = (data[0] & 1) == 0;
  if (data[0] & 2) limits.max_bulk_len = 20;
  if (data[0] & 4) limits.max_multi_bulk_len = 4;
  if (data[0] & 8) limits.max_inline_len = 12;
  if (data[0] & 16) limits.large_len = 5;
  Random cuts(static_cast<unsigned char>(data[1]) * 256u + static_cast<unsigned char>(data[2]));
  const std::string_view stream = data.substr(3);
  std::vector<size_t> ends;
  for (size_t end = 0; end < stream.size();) {
    end = std::min(stream.size(), end + cuts.Uniform(cuts.OneIn(3) ? 40 : 4));
    ends.push_back(end);
  }
  const auto expected = ModelParser(stream, limits).Run();
  CHECK(ParseInPieces(stream, limits, {stream.size()}) == expected);
  CHECK(ParseInPieces(stream, limits, ends) == expected);
}

std::string RandomStream(Random* random) {
  static constexpr std::string_view kPieces[] = {"*",
                                                 "$",
                                                 "\r\n",
                                                 "\r",
                                                 "\n",
                                                 "*1\r\n",
                                                 "*2\r\n",
                                                 "*3\r\n",
                                                 "*12\r\n",
                                                 "$0\r\n",
                                                 "\r\n",
                                                 "1",
                                                 "0",
                                                 "-1",
                                                 "\"",
                                                 "'",
                                                 "\\x4a",
                                                 "\\",
                                                 " ",
                                                 "PING",
                                                 "\\n",
                                                 "$1\r\na\r\n",
                                                 "$12\r\nabcdefghijkl\r\n",
                                                 "$3\r\nGET\r\n",
                                                 "*-1\r\n",
                                                 "*2147483648\r\n",
                                                 "$536870913\r\n",
                                                 "get \"a b\"\r\n",
                                                 "\t",
                                                 "set 'x' y\n"};
  std::string out;
  for (uint64_t i = random->Uniform(3); i < 3; i++) out += static_cast<char>(random->Next());
  out.resize(3, '\0');
  if (random->OneIn(2)) out[0] = 0;
  const uint64_t pieces = random->Uniform(30);
  for (uint64_t i = 0; i < pieces; i++) {
    switch (random->Uniform(8)) {
      case 0:
        out += static_cast<char>(random->Next());
        break;
      case 1: {
        const uint64_t args = random->Between(1, 11);
        out += "*" + std::to_string(args) + "\r\n";
        for (uint64_t k = 0; k < args; k++) {
          const std::string arg(random->Uniform(random->OneIn(10) ? 120 : 14), 'v');
          out += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
        }
        break;
      }
      default:
        out += kPieces[random->Uniform(std::size(kPieces))];
    }
  }
  return out;
}

}  // namespace

FUZZ_TARGET(RequestParserFuzz, AgreesWithTheModelOnRandomStreams,
            {.check = CheckOneInput, .make_example = RandomStream, .rounds = 100'000})

}  // namespace dfly
