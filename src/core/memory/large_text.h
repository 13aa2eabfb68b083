// SPDX-License-Identifier: Apache-2.0
// A large argument of a command, in a block of its own: it is received there, travels with the
// command to another thread, and becomes the value of a key without being copied.
//
//   parser -> Connection --(Scope)--> handler -> ShardContext::SetString --(Take)--> CompactValue
//                        -> ShardBatch --(Scope)--> ...
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/lent_block.h"

namespace dfly {

// Owner: whoever holds it; it may pass to another thread.
class LargeText {
 public:
  // Smaller ones are copied, which costs less than to keep apart what they are in.
  static constexpr size_t kMin = 16 * 1024;

  // `capacity` bytes, which cost the machine no memory before they are written, if there are many.
  explicit LargeText(size_t capacity)
      : block_(capacity < LentBlock::kMin ? static_cast<char*>(Alloc(capacity))
                                          : LentBlock::New(capacity),
               FreeBlock{.is_lent_block = capacity >= LentBlock::kMin}),
        capacity_(capacity) {
    LentBlock::CountUnwritten(static_cast<int64_t>(capacity));
  }
  ~LargeText() { LentBlock::CountUnwritten(-static_cast<int64_t>(room())); }

  LargeText(LargeText&& other) noexcept
      : block_(std::move(other.block_)),
        capacity_(std::exchange(other.capacity_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  LargeText& operator=(LargeText&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(capacity_, other.capacity_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::string_view view() const { return {block_.get(), size_}; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }

  // Where the next bytes go; Filled says how many came.
  char* end() { return block_.get() + size_; }
  size_t room() const { return capacity_ - size_; }
  void Filled(size_t bytes) {
    LentBlock::CountUnwritten(-static_cast<int64_t>(bytes));
    size_ += bytes;
  }
  // Becomes a larger block. REQUIRES: capacity >= this->capacity().
  void Grow(size_t capacity) {
    if (has_lent_block() && LentBlock::is_mapped(block_.get())) {
      LentBlock::CountUnwritten(static_cast<int64_t>(capacity - capacity_));
      char* const grown = LentBlock::Grow(block_.get(), capacity);
      static_cast<void>(block_.release());
      block_.reset(grown);
      capacity_ = capacity;
      return;
    }
    LargeText grown(capacity);
    memcpy(grown.block_.get(), block_.get(), size_);
    grown.Filled(size_);
    *this = std::move(grown);
  }

  // The commands that run on this thread, as long as this lives, may take `texts`. One at a time.
  class Scope {
   public:
    explicit Scope(std::vector<LargeText>* texts) { given = texts; }
    ~Scope() { given = nullptr; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  // The one of them that is `text`; none: it is none of them. The command's view of it stays good
  // as long as whoever has taken it keeps it as it is.
  static std::optional<LargeText> Take(std::string_view text) {
    if (given == nullptr) return std::nullopt;
    for (LargeText& one : *given) {
      if (one.block_.get() != text.data() || one.size_ != text.size()) continue;
      return std::move(one);  // leaves an empty one there
    }
    return std::nullopt;
  }
  // Its block is a LentBlock's; else one of Alloc.
  bool has_lent_block() const { return block_.get_deleter().is_lent_block; }
  // Where the text is, which the caller owns.
  char* Release() {
    LentBlock::CountUnwritten(-static_cast<int64_t>(room()));
    capacity_ = size_ = 0;
    return block_.release();
  }

 private:
  struct FreeBlock {
    void operator()(char* block) const { is_lent_block ? LentBlock::Return(block) : Free(block); }
    bool is_lent_block = false;
  };
  inline static thread_local std::vector<LargeText>* given = nullptr;

  std::unique_ptr<char, FreeBlock> block_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

}  // namespace dfly
