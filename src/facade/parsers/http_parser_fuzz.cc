// SPDX-License-Identifier: Apache-2.0
// Random bytes, however they are cut: the same requests, or the same error.
//
//   input   seed of the cuts (1), stream
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "facade/parsers/http_parser.h"
#include "helio/base/fuzz_target.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

using helio::Random;
using Status = HttpParser::Status;

constexpr size_t kHeadMax = 256;

template <typename Step>
std::vector<std::string> Parse(std::string_view stream, Step step) {
  HttpParser parser({.head_max = kHeadMax, .body_max = 32, .body_path = "/livez"});
  std::vector<std::string> found;
  std::string input;
  while (!stream.empty()) {
    const size_t size = std::min(stream.size(), step());
    input += stream.substr(0, size);
    stream.remove_prefix(size);
    while (!input.empty()) {
      const Status status = parser.Parse(input);
      CHECK_LE(parser.consumed(), input.size());
      if (status == Status::kError) {
        found.push_back("error");
        return found;
      }
      input.erase(0, parser.consumed());
      CHECK_LE(input.size(), kHeadMax + size);
      if (status == Status::kNeedMore) break;
      const HttpRequest& request = parser.request();
      found.emplace_back(request.method);
      found.back().append(" ").append(request.target).append(request.keep_alive ? " +" : " -");
      found.back().append(request.body);
    }
  }
  return found;
}

void CheckOneInput(std::string_view data) {
  if (data.empty()) return;
  Random cuts(static_cast<unsigned char>(data[0]) + 1);
  // How soon an error is seen depends on the cuts, but it is seen before so much has come.
  const std::string stream = std::string(data.substr(1)) + std::string(2 * kHeadMax, 'x');
  const auto expected = Parse(stream, [] { return size_t{1}; });
  CHECK(Parse(stream, [&cuts] { return size_t{cuts.Uniform(60) + 1}; }) == expected);
}

std::string RandomStream(Random* random) {
  static constexpr std::string_view kPieces[] = {"GET ",
                                                 "HEAD ",
                                                 "POST /livez HTTP/1.1\r\n",
                                                 "/livez",
                                                 " HTTP/1.1\r\n",
                                                 " HTTP/1.0\r\n",
                                                 "\r\n",
                                                 "\r\n\r\n",
                                                 "\n",
                                                 "Host: a\r\n",
                                                 "Connection: close\r\n",
                                                 "Connection: keep-alive\r\n",
                                                 "Content-Length: 0\r\n",
                                                 "Content-Length: 2\r\n",
                                                 "Transfer-Encoding: chunked\r\n",
                                                 "GET / HTTP/1.1\r\n\r\n",
                                                 "GET /readyz HTTP/1.1\r\nA: b\r\n\r\n",
                                                 " b",
                                                 ":",
                                                 "0",
                                                 "%41"};
  std::string stream(1, static_cast<char>(random->Next()));
  for (uint64_t n = random->Uniform(24); n > 0; --n) {
    if (random->OneIn(12)) {
      stream.push_back(static_cast<char>(random->Uniform(256)));
    } else {
      stream += kPieces[random->Uniform(std::size(kPieces))];
    }
  }
  return stream;
}

}  // namespace

FUZZ_TARGET(HttpParserFuzz, FindsTheSameHoweverTheBytesAreCut,
            {.check = CheckOneInput, .make_example = RandomStream, .rounds = 20'000})

}  // namespace dfly
