// SPDX-License-Identifier: Apache-2.0
// A growable byte queue in one contiguous block: bytes are appended at the end and consumed from
// the front.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include "helio/base/logging.h"

namespace helio {

// Owner:    whoever holds it; not thread-safe.
// Suspends: never.
// An empty IoBuf that was never written, or was Release()d, owns no memory.
// A block of 1 MB or more has pages of its own (MappedBlocks): it grows without a copy, and what is
// consumed goes back to the kernel piece by piece.
// Pointers and views into it die with the next Reserve, Append, Consume, Release or move.
class IoBuf {
 public:
  IoBuf() = default;
  IoBuf(IoBuf&& other) noexcept { Swap(other); }
  IoBuf& operator=(IoBuf&& other) noexcept {
    if (this != &other) {
      Release();
      Swap(other);
    }
    return *this;
  }
  IoBuf(const IoBuf&) = delete;
  IoBuf& operator=(const IoBuf&) = delete;
  ~IoBuf() { Release(); }

  const char* data() const { return block_ + begin_; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  size_t capacity() const { return capacity_; }
  std::string_view view() const { return {data(), size()}; }
  // What is best consumed in one go: a piece of a large block, which is given back then; else all.
  std::string_view front() const {
    return is_mapped() ? view().substr(0, kPiece - begin_ % kPiece) : view();
  }

  // Makes room for at least `bytes` more bytes and returns where they go. Commit() says how many
  // were written.
  char* Reserve(size_t bytes) {
    if (capacity_ - end_ < bytes) Grow(bytes);
    return block_ + end_;
  }
  void Commit(size_t bytes) {
    DCHECK_LE(bytes, capacity_ - end_);
    end_ += bytes;
  }
  void Append(std::string_view bytes) {
    if (bytes.empty()) return;
    memcpy(Reserve(bytes.size()), bytes.data(), bytes.size());
    end_ += bytes.size();
  }

  // The bytes of somebody else, which are only read: they are copied when something is appended,
  // and given back by return_to(bytes.data()) when they are not needed any more. Instead of what is
  // here, and counted as memory of this buffer.
  using ReturnFn = void (*)(const char* bytes);
  void Borrow(std::string_view bytes, ReturnFn return_to);

  // Drops `bytes` from the front. Emptying the buffer rewinds it but keeps its memory.
  void Consume(size_t bytes) {
    DCHECK_LE(bytes, size());
    begin_ += bytes;
    if (begin_ == end_) return Clear();
    if (capacity_ >= kMappedMin) [[unlikely]]
      GiveBack(begin_ - bytes);
  }
  // Drops bytes from the end, so that `size` are left. REQUIRES: size <= size().
  void Truncate(size_t size) {
    DCHECK_LE(size, this->size());
    if (size == 0) return Clear();
    end_ = begin_ + size;
    if (return_to_ != nullptr) [[unlikely]]
      capacity_ = end_;
  }
  void Clear() {
    if (return_to_ != nullptr) [[unlikely]]
      Release();
    begin_ = end_ = 0;
  }

  // Drops the content and frees the memory.
  void Release();

  void Swap(IoBuf& other) noexcept;

 private:
  static constexpr size_t kMappedMin = 1024 * 1024;  // from there on a block is one of MappedBlocks
  static constexpr size_t kPiece = 256 * 1024;       // what is given back of one at once

  bool is_mapped() const { return capacity_ >= kMappedMin && return_to_ == nullptr; }
  // Moves the content to the front, or to a block at least twice as large, so that `bytes` more
  // fit.
  void Grow(size_t bytes);
  void GrowMapped(size_t capacity);
  // After a Consume, which began at `begin`.
  void GiveBack(size_t begin);
  void FreeBlock();

  char* block_ = nullptr;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t capacity_ = 0;  // of what is borrowed: to the end
  ReturnFn return_to_ = nullptr;
};

}  // namespace helio
