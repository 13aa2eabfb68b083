// SPDX-License-Identifier: Apache-2.0
// Reading large values in slices, so that others run in between: what the commands with
// Command::slices share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/args.h"
#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "core/memory/large_text.h"
#include "core/memory/work_bytes.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/reply_sink.h"
#include "helio/fibers/long_work.h"

namespace dfly {

// From so many members on a command reads and makes a value in slices of kSliceMembers.
inline constexpr size_t kLargeMembers = 8192;
inline constexpr size_t kSliceMembers = 1024;
inline constexpr size_t kSliceBytes = 256 * 1024;
// Much of a large value, whatever the number of its members.
inline constexpr size_t kManyBytes = 4 * kSliceBytes;
// Of a string that is read and not copied.
inline constexpr size_t kSliceBytesRead = 1024 * 1024;

// Copies of members. They lie in blocks, which never move, and so does the list of where each is:
// it grows to millions without a pause.
class MemberList {
 public:
  MemberList() = default;
  MemberList(MemberList&& other) noexcept { *this = std::move(other); }
  MemberList& operator=(MemberList&& other) noexcept {
    pages_ = std::exchange(other.pages_, {});
    size_ = std::exchange(other.size_, 0);
    blocks_ = std::exchange(other.blocks_, {});
    free_ = std::exchange(other.free_, nullptr);
    left_ = std::exchange(other.left_, 0);
    freed_blocks_ = std::exchange(other.freed_blocks_, 0);
    freed_pages_ = std::exchange(other.freed_pages_, 0);
    counted_ = std::move(other.counted_);
    return *this;
  }
  void Add(std::string_view member) {
    if (free_ == nullptr || member.size() > left_) AddBlock(member.size());
    if (size_ == pages_.size() * kPage) AddPage();
    memcpy(free_, member.data(), member.size());
    pages_[size_ / kPage][size_ % kPage] = {.data = free_, .size = member.size()};
    ++size_;
    free_ += member.size();
    left_ -= member.size();
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Valid as long as the list, or what it was moved to, but for FreeBefore.
  std::string_view operator[](size_t index) const {
    const Place& place = pages_[index / kPage][index % kPage];
    return {place.data, place.size};
  }
  // Those in front of `index` are not needed any more: most of them are freed. For who goes through
  // the list once, when it is complete. They stay counted: mostly a reply has got them.
  void FreeBefore(size_t index) {
    for (; freed_blocks_ + 1 < blocks_.size() && blocks_[freed_blocks_ + 1].first <= index;
         ++freed_blocks_) {
      blocks_[freed_blocks_].bytes.reset();
    }
    for (; freed_pages_ < index / kPage; ++freed_pages_) pages_[freed_pages_].reset();
  }

 private:
  struct Place {
    const char* data;
    size_t size;
  };
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t first;  // index of its first member
  };
  static constexpr size_t kPage = 256;  // places

  void AddPage() {
    pages_.push_back(std::make_unique_for_overwrite<Place[]>(kPage));
    constexpr size_t kCountedTogether = WorkBytes::kMin / sizeof(Place[kPage]);
    if (pages_.size() % kCountedTogether == 0) counted_.Add(WorkBytes::kMin);
  }
  void AddBlock(size_t bytes) {
    constexpr size_t kFirst = 256;
    constexpr size_t kMost = 64 * 1024;
    left_ = std::max(bytes, std::min(kMost, kFirst << std::min<size_t>(blocks_.size(), 8)));
    blocks_.push_back({.bytes = std::make_unique_for_overwrite<char[]>(left_), .first = size_});
    free_ = blocks_.back().bytes.get();
    counted_.AddBlock(left_);
  }

  std::vector<std::unique_ptr<Place[]>> pages_;
  size_t size_ = 0;
  std::vector<Block> blocks_;
  char* free_ = nullptr;  // in the last block
  size_t left_ = 0;       // there
  size_t freed_blocks_ = 0, freed_pages_ = 0;
  WorkBytes counted_;
};

// How many of a value's `elements` a slice takes.
inline size_t SliceOf(const CompactValue& value, size_t elements) {
  const size_t bytes_each = value.HeapBytes() / std::max<size_t>(elements, 1) + 1;
  return std::clamp<size_t>(kSliceBytes / bytes_each, 1, kSliceMembers);
}

// Command::asks_for_many of LRANGE and its like: whether from index `args[2]` to `args[3]` there
// may be many elements.
inline bool AsksForLongRange(Args args) {
  const std::optional<int64_t> start = ParseInt64(args[2]);
  const std::optional<int64_t> stop = ParseInt64(args[3]);
  if (!start || !stop) return false;  // the command says so
  const bool is_known = (*start < 0) == (*stop < 0);
  return !is_known || *stop - *start >= static_cast<int64_t>(kLargeMembers);
}

// The same of those that take bytes of a string, or, with `per_byte` 8, bits.
inline bool AsksForLongText(std::string_view start_text, std::string_view stop_text,
                            int64_t per_byte = 1) {
  const std::optional<int64_t> start = ParseInt64(start_text);
  const std::optional<int64_t> stop = ParseInt64(stop_text);
  if (!start || !stop) return false;
  int64_t bytes;
  if ((*start < 0) != (*stop < 0) || __builtin_sub_overflow(*stop, *start, &bytes)) return true;
  return bytes / per_byte >= static_cast<int64_t>(Database::kLargeStringBytes);
}

// The same of LPOP and its like, which may have a count behind the key.
inline bool AsksToPopMany(Args args) {
  const std::optional<int64_t> count = args.size() == 3 ? ParseInt64(args[2]) : std::nullopt;
  return count && *count >= static_cast<int64_t>(kLargeMembers);
}

// What CopyInSlices keeps between two hops.
struct CopyLook {
  bool is_wrong_type = false;
  bool goes_on = false;
};

// Copies of the value at a key what a command needs, in a hop for each slice, with the key locked,
// so that it stays: copy->CopySome(ShardContext&, const ShardContext::ReadHandle&) takes the next
// one; false: it has all. `parts` reads this key alone, and may have a target. Returns false if an
// error was replied, or it is refused. Suspends.
template <typename Copy>
bool CopyInSlices(KeyParts<CopyLook>& parts, std::string_view key, ValueType type, ReplySink& reply,
                  Copy* copy) {
  using Parts = KeyParts<CopyLook>;
  const auto look = [&](ShardContext& shard_cx, Parts::Item& item) {
    const auto value = shard_cx.FindReadOnly(key, type);
    item.part.is_wrong_type = value.is_wrong_type();
    item.part.goes_on = value && copy->CopySome(shard_cx, value);
  };
  if (!parts.Hop(look, Parts::More::kYes)) return false;
  const CopyLook& first = parts.items()[0].part;
  if (first.is_wrong_type) {
    reply.Error(kErrWrongType);
    return false;
  }
  // Later ones look without a trace, as Redis looks once.
  parts.HopInSlices([](const Parts::Item& item) { return item.part.goes_on; },
                    [&](ShardContext& shard_cx, Parts::Item&) {
                      const auto value = shard_cx.Peek(key);
                      return value && copy->CopySome(shard_cx, value);
                    });
  return true;
}
// For a command that has nothing else to do with the key. Its lock is gone when it returns.
template <typename Copy>
bool CopyInSlices(CoordinatorContext& cx, std::string_view key, ValueType type, ReplySink& reply,
                  Copy* copy) {
  KeyParts<CopyLook> parts(cx, {&key, 1});
  return CopyInSlices(parts, key, type, reply, copy);
}

// Command::across of one that can work in slices on its only key: if it asks for many, or else,
// which only tests call it for, in one step. Suspends.
template <ShardHandler kRun, CoordinatorHandler kInSlices, bool (*kAsksForMany)(Args),
          LockMode kMode = LockMode::kShared, size_t kKeyAt = 1>
void RunOrInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (kAsksForMany(args)) return kInSlices(cx, args, reply);
  const uint64_t hash = HashKey(args[kKeyAt]);
  Transaction tx(cx);
  tx.Lock(cx.shards().ShardOfKey(args[kKeyAt], hash),
          {cx.shards().LockOfKey(args[kKeyAt], hash, cx.db_index()), kMode});
  const bool is_run =
      tx.Run([&](ShardTurn& turn) { kRun(turn.Begin(cx.db_index(), cx.now_ms()), args, reply); });
  if (!is_run) return;  // refused
}

// A text that was made for the reply. It is not copied if it is large.
inline void ReplyWithText(LargeText text, ReplySink& reply) {
  if (!text.has_lent_block()) return reply.Bulk(text.view());
  const size_t size = text.size();
  char* const block = text.Release();
  reply.LentBulk(block, size);
  LentBlock::Return(block);
}

// The copied members as bulk strings; the header is there already. Frees them on the way. Suspends.
inline void ReplyWithMembers(MemberList& members, ReplySink& reply) {
  helio::LongWork work;
  for (size_t i = 0; i < members.size(); ++i) {
    members.FreeBefore(i);
    reply.Bulk(members[i]);
    work.Step();
  }
}

}  // namespace dfly
