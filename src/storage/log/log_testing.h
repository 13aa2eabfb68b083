// SPDX-License-Identifier: Apache-2.0
// Texts of append-only logs, for tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "storage/log/annotations.h"

namespace dfly::testkit {

using Words = std::vector<std::string>;

inline std::string CommandText(const Words& words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string& word : words) {
    text += fmt::format("${}\r\n", word.size());
    text += word;
    text += "\r\n";
  }
  return text;
}

inline std::string EpochText(uint64_t number, uint64_t stream_offset, std::string_view content,
                             uint64_t unsynced = 0) {
  char buffer[kEpochHeaderMax];
  std::string text(WriteEpochHeader(number, stream_offset, {&content, 1}, buffer, unsynced));
  return text.append(content);
}

// One command, or a MULTI with its EXEC.
inline std::vector<Words> RandomUnit(helio::Random* random) {
  const auto command = [random] {
    Words words = {random->OneIn(2) ? "SET" : "append"};
    for (uint64_t i = random->Uniform(4); i > 0; --i) {
      std::string word(random->Uniform(random->OneIn(20) ? 3000 : 12), '\0');
      // Bytes that mean something in a log are frequent.
      for (char& c : word) c = "*$#\r\n0129.EPOCH:\0x"[random->Uniform(19)];
      words.push_back(std::move(word));
    }
    return words;
  };
  if (!random->OneIn(5)) return {command()};
  std::vector<Words> unit = {{random->OneIn(2) ? "MULTI" : "multi"}};
  for (uint64_t i = random->Uniform(4); i > 0; --i) unit.push_back(command());
  unit.push_back({"EXEC"});
  return unit;
}

}  // namespace dfly::testkit
