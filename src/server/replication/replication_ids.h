// SPDX-License-Identifier: Apache-2.0
// The names of the history that a server's data has.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dfly {

// 40 hexadecimal digits each. Two servers whose stream has the same id and offset have the same
// data.
struct ReplicationIds {
  static constexpr size_t kSize = 40;

  std::string id;
  // Of the history before, whose bytes below second_offset this one has, too.
  std::string id2 = std::string(kSize, '0');
  int64_t second_offset = -1;

  // A new history begins behind `offset`: its first byte has the offset behind that.
  void Shift(std::string new_id, int64_t offset) {
    id2 = std::exchange(id, std::move(new_id));
    second_offset = offset + 1;
  }
};

}  // namespace dfly
