// SPDX-License-Identifier: Apache-2.0
// Of which stream this server has the data: PSYNC's ids.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dfly {

// Owner: the server, on proactor 0. No two histories may share an id and an offset.
struct ReplicationIds {
  static constexpr size_t kSize = 40;  // hexadecimal digits

  std::string id;
  // The one before, up to an offset: what has it from there can go on with us. -1: there is none.
  std::string id2 = std::string(kSize, '0');
  int64_t second_offset = -1;
  bool is_told = false;  // another server has heard of `id`

  // The stream goes on behind `offset` under another id: a promotion, here or further up.
  void Shift(int64_t offset, std::string new_id) {
    id2 = std::exchange(id, std::move(new_id));
    second_offset = offset + 1;
    is_told = false;
  }
  // Back to the one before, if nothing was done since, and nobody knows the new one: a primary that
  // has started anew, and is to be a replica of who knows it from before.
  void Unshift(int64_t offset) {
    if (is_told || second_offset < 0 || offset + 1 != second_offset) return;
    id = std::exchange(id2, std::string(kSize, '0'));
    second_offset = -1;
    is_told = true;
  }
  // Another stream.
  void Replace(std::string new_id) {
    id = std::move(new_id);
    id2 = std::string(kSize, '0');
    second_offset = -1;
    is_told = false;
  }
};

}  // namespace dfly
