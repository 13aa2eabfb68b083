// SPDX-License-Identifier: Apache-2.0
// Packed blocks as others write them: for tests.
#pragma once

#include <string>
#include <vector>

#include "core/rdb/foreign_entries.h"
#include "helio/base/logging.h"

namespace dfly::testkit {

using Texts = std::vector<std::string>;

inline std::string Listpack(const Texts& texts) {
  ListpackWriter writer;
  for (const std::string& text : texts) writer.Append(text);
  CHECK_EQ(writer.entries(), texts.size());
  const size_t bytes = writer.bytes();
  const std::string block(writer.Finish());
  CHECK_EQ(block.size(), bytes);
  return block;
}

// A ziplist, as redis-server before 7.0 would write it, of `entries` without the size in front.
inline std::string Ziplist(const Texts& entries) {
  std::string body;
  size_t before = 0;
  for (const std::string& entry : entries) {
    const size_t begin = body.size();
    if (before < 254) {
      body.push_back(static_cast<char>(before));
    } else {
      body.push_back(static_cast<char>(254));
      for (int i = 0; i < 4; ++i) body.push_back(static_cast<char>(before >> (8 * i)));
    }
    body += entry;
    before = body.size() - begin;
  }
  const size_t size = 10 + body.size() + 1;
  std::string block;
  for (int i = 0; i < 4; ++i) block.push_back(static_cast<char>(size >> (8 * i)));
  block += std::string(4, '\0');  // where the last one is; nobody looks
  for (int i = 0; i < 2; ++i) block.push_back(static_cast<char>(entries.size() >> (8 * i)));
  return block + body + '\xFF';
}

// Such an entry of a text. REQUIRES: it is shorter than 64 bytes.
inline std::string ZiplistText(const std::string& text) {
  return static_cast<char>(text.size()) + text;
}

}  // namespace dfly::testkit
