// SPDX-License-Identifier: Apache-2.0
// For tests of MemcachedParser: what a stream is parsed to, however it is cut.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "facade/parsers/memcached_parser.h"
#include "helio/base/logging.h"

namespace dfly::testkit {

// "op:arg|arg|..." for each command, and "closed: error" if the stream ends so. The stream arrives
// up to each of `ends`, and then as a whole; every command is parsed twice before it is taken, as
// one is that has to wait.
inline std::vector<std::string> ParseMemcached(std::string_view stream,
                                               const MemcachedParser::Limits& limits,
                                               std::vector<size_t> ends = {},
                                               bool authenticated = true) {
  MemcachedParser parser(limits);
  parser.set_authenticated(authenticated);
  ends.push_back(stream.size());
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end : ends) {
    while (begin < end) {
      // A buffer of exactly its size, so that the address sanitizer sees each byte too many.
      const std::vector<char> copy(stream.begin() + static_cast<ptrdiff_t>(begin),
                                   stream.begin() + static_cast<ptrdiff_t>(end));
      const std::string_view data(copy.data(), copy.size());
      auto status = parser.Parse(data);
      if (status == MemcachedParser::Status::kError) {
        out.push_back("closed: " + std::string(parser.error()));
        return out;
      }
      if (status == MemcachedParser::Status::kNeedMore) {
        CHECK_LE(parser.consumed(), data.size());
        begin += parser.consumed();
        break;
      }
      CHECK(parser.Parse(data) == status);
      std::string text = std::to_string(static_cast<int>(parser.op())) + ":";
      for (std::string_view arg : parser.args()) text += std::string(arg) + "|";
      out.push_back(text);
      const size_t taken = parser.Take();
      CHECK_GT(taken, 0u);
      CHECK_LE(taken, data.size());
      begin += taken;
    }
  }
  return out;
}

}  // namespace dfly::testkit
