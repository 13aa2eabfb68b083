// SPDX-License-Identifier: Apache-2.0
// The block of a large string, from which a reply is sent as it stands: it has room before the
// string for the header of a reply, and room behind it for the line end, and counts who uses it.
//
//   users, capacity, "$65536\r\n"   the string   "\r\n"
//                    ^ reply begins  ^ data
//
// The key's value is the first user. A reply that is on its way to a client is one more (Lend), on
// any thread. As long as there is one, the value changes in a copy.
//
// One of many megabytes has pages of its own (helio::MappedBlocks): it grows without a copy, bytes
// that are 0 need not be written, and it goes back to the kernel in steps (BlockReaper).
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/allocator.h"

namespace dfly {

// Gives blocks of helio::MappedBlocks back to the kernel in steps: 500 MB at once take a thread
// 50 ms and more. Whoever was the last to use one calls Free.
// Owner:    a ValueReaper, for the thread that it serves.
// Suspends: never.
class BlockReaper {
 public:
  BlockReaper() = default;
  ~BlockReaper();
  BlockReaper(const BlockReaper&) = delete;
  BlockReaper& operator=(const BlockReaper&) = delete;

  // By the reaper of the calling thread; at once if it has none. Thread: any.
  static void Free(char* block, size_t bytes);

  // Becomes that of the calling thread, until it is destroyed there.
  void ServeThisThread() { of_thread_ = this; }
  // Called when there is something to free again, which may be at any time.
  void set_on_work(std::function<void()> on_work) { on_work_ = std::move(on_work); }

  bool empty() const { return blocks_.empty(); }
  size_t size() const { return blocks_.size(); }  // blocks
  size_t bytes() const { return bytes_; }         // exact: what they still have
  // Gives back so many pages of 4 KB.
  void FreeSome(size_t pages);

 private:
  struct Block {
    char* begin;
    size_t bytes;
    size_t left;  // from the front
  };

  static thread_local BlockReaper* of_thread_;
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
  std::function<void()> on_work_;
};

// All static: a block is known by its `data`, where its string begins.
class LentBlock {
 public:
  // Smaller ones are copied into replies.
  static constexpr size_t kMin = 64 * 1024;

  // From there on one has pages of its own.
  static constexpr size_t kMappedMin = 16 << 20;

  // For `capacity` bytes; used by the caller. Thread: any, as for Alloc.
  static char* New(size_t capacity) {
    const bool is_mapped = capacity >= kMappedMin;
    const size_t bytes = kHead + capacity + kTail;
    char* const data = (is_mapped ? NewPages(bytes) : static_cast<char*>(Alloc(bytes))) + kHead;
    new (HeadOf(data)) Head{.users = 1, .is_mapped = is_mapped, .capacity = capacity};
    CountUnwritten(UnwrittenOf(data));
    return data;
  }
  static size_t capacity(const char* data) { return HeadOf(data)->capacity; }
  // What it costs: pages that nobody has written to cost nothing.
  static size_t Bytes(const char* data) { return std::min(Allocated(data), PagesOf(data)); }
  static bool is_mapped(const char* data) { return HeadOf(data)->is_mapped; }

  // The rest is for the owner of the value, but for Return.

  // Somebody else reads it.
  static bool IsLent(const char* data) {
    return HeadOf(data)->users.load(std::memory_order_acquire) > 1;
  }
  // The reply that has its first `size` bytes, until Return(data). While it is lent all ask for the
  // same size.
  static std::string_view Lend(char* data, size_t size) {
    char digits[kHead];
    char* const end = std::to_chars(digits, digits + sizeof(digits), size).ptr;
    const auto count = static_cast<size_t>(end - digits);
    char* const begin = data - count - 3;
    // Whoever reads it reads just that.
    if (!IsLent(data)) {
      *begin = '$';
      memcpy(begin + 1, digits, count);
      memcpy(data - 2, "\r\n", 2);
      memcpy(data + size, "\r\n", 2);
    }
    HeadOf(data)->users.fetch_add(1, std::memory_order_relaxed);
    return {begin, count + 3 + size + 2};
  }
  // The same as Return, by where the reply begins. Thread: any.
  static void ReturnReply(const char* reply) {
    Return(const_cast<char*>(static_cast<const char*>(memchr(reply, '\n', kHead)) + 1));
  }
  // Thread: any.
  static void Return(char* data) {
    if (HeadOf(data)->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    CountUnwritten(-UnwrittenOf(data));
    if (is_mapped(data)) return BlockReaper::Free(data - kHead, PagesOf(data));
    Free(data - kHead);
  }
  // Where it is with room for so many bytes, all that it has included. REQUIRES: mapped, not lent.
  static char* Grow(char* data, size_t capacity);
  // The bytes in [from, to) become 0. REQUIRES: not lent.
  static void Zero(char* data, size_t from, size_t to);

  // What the allocator has given for large strings and nobody counts, as nothing was written there.
  // Thread: any.
  static int64_t unwritten_bytes() { return unwritten.load(std::memory_order_relaxed); }
  static void CountUnwritten(int64_t change) {
    unwritten.fetch_add(change, std::memory_order_relaxed);
  }

  // For BlockMover: where the allocator has it. REQUIRES: not lent, not mapped.
  static void* BlockOf(char* data) { return data - kHead; }
  static char* DataOf(void* block) { return static_cast<char*>(block) + kHead; }

 private:
  struct Head {
    std::atomic<uint32_t> users;
    bool is_mapped;
    size_t capacity;
  };
  static constexpr size_t kHead = 32;  // Head, and "$4294967295\r\n"
  static constexpr size_t kTail = 2;
  static constexpr size_t kPage = 4096;
  static_assert(sizeof(Head) + 13 <= kHead);

  static char* NewPages(size_t bytes);
  static size_t RoundUp(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  static size_t PagesOf(const char* data) { return RoundUp(kHead + capacity(data) + kTail); }
  static size_t Allocated(const char* data) {
    return is_mapped(data) ? PagesOf(data) : UsableSize(data - kHead);
  }
  static int64_t UnwrittenOf(const char* data) {
    return static_cast<int64_t>(Allocated(data) - Bytes(data));
  }
  inline static std::atomic<int64_t> unwritten{0};

  static Head* HeadOf(char* data) { return reinterpret_cast<Head*>(data - kHead); }
  static const Head* HeadOf(const char* data) {
    return reinterpret_cast<const Head*>(data - kHead);
  }
};

}  // namespace dfly
