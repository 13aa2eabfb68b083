// SPDX-License-Identifier: Apache-2.0
// What the files of the set family share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "core/types/set_value.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {

// The set of a key that was found, at the time of the command.
inline SetValue SetOf(const ShardContext& cx, const ShardContext::WriteHandle& value) {
  return SetValue(&*value, cx.now_ms());
}
inline const SetValue SetOf(const ShardContext& cx, const ShardContext::ReadHandle& value) {
  return SetValue(*value, cx.now_ms());
}
// The set of a key that FindOrCreate gave; a new one gets a set for about `expected` members like
// this one, which must be filled.
inline SetValue SetOrNew(const ShardContext& cx, const ShardContext::WriteHandle& value,
                         std::string_view member, size_t expected, const SetLimit& limit) {
  if (value.was_created()) {
    SetValue::Create(&*value, member, expected, limit);
  } else {
    SetOf(cx, value).Expect(expected, limit);
  }
  return SetOf(cx, value);
}

// Copies of members. They lie in blocks, which never move, so a list of millions grows without a
// pause.
class MemberList {
 public:
  void Add(std::string_view member) {
    if (free_ == nullptr || member.size() > left_) AddBlock(member.size());
    memcpy(free_, member.data(), member.size());
    members_.emplace_back(free_, member.size());
    free_ += member.size();
    left_ -= member.size();
  }
  // Room for about so many.
  void Reserve(size_t count) { members_.reserve(count); }
  size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }
  // Valid as long as the list, or what it was moved to.
  std::string_view operator[](size_t index) const { return members_[index]; }
  // Forgets those from `size` on.
  void Truncate(size_t size) { members_.resize(size); }

 private:
  void AddBlock(size_t bytes) {
    constexpr size_t kFirst = 256;
    constexpr size_t kMost = 64 * 1024;
    left_ = std::max(bytes, std::min(kMost, kFirst << std::min<size_t>(blocks_.size(), 8)));
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    free_ = blocks_.back().get();
  }

  std::vector<std::string_view> members_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;  // in the last block
  size_t left_ = 0;
};

// From so many members on a command over shards reads and makes a value in slices of kSliceMembers,
// and others run in between.
inline constexpr size_t kLargeMembers = 8192;
inline constexpr size_t kSliceMembers = 1024;

// SMEMBERS of a large set, or SUNION. Suspends.
void ShowInSlices(CoordinatorContext& cx, Args args, ReplySink& reply);
// SINTER, SUNION and SDIFF with their relatives (set_operations.cc).
void RegisterSetOperations(CommandTable* table);

}  // namespace dfly
