// SPDX-License-Identifier: Apache-2.0
// What the files of the set family share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command_table.h"
#include "core/set_value.h"
#include "engine/shard_context.h"

namespace dfly {

inline SetValue SetOf(CompactValue& value) { return SetValue(&value); }
// To read only, as its constness says.
inline const SetValue SetOf(const CompactValue& value) {
  return SetValue(const_cast<CompactValue*>(&value));
}

// Copies of members, one behind the other.
class MemberList {
 public:
  void Add(std::string_view member) {
    bytes_.append(member);
    ends_.push_back(bytes_.size());
  }
  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

// SINTER, SUNION and SDIFF with their relatives (set_operations.cc).
void RegisterSetOperations(CommandTable* table);

}  // namespace dfly
