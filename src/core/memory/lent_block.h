// SPDX-License-Identifier: Apache-2.0
// The block of a large string, from which a reply is sent as it stands: it has room before the
// string for the header of a reply, and room behind it for the line end, and counts who uses it.
//
//   users, capacity, "$65536\r\n"   the string   "\r\n"
//                    ^ reply begins  ^ data
//
// The key's value is the first user. A reply that is on its way to a client is one more (Lend), on
// any thread. As long as there is one, the value changes in a copy.
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "core/memory/allocator.h"

namespace dfly {

// All static: a block is known by its `data`, where its string begins.
class LentBlock {
 public:
  // Smaller ones are copied into replies.
  static constexpr size_t kMin = 64 * 1024;

  // For `capacity` bytes; used by the caller. Thread: any, as for Alloc.
  static char* New(size_t capacity) {
    char* const data = static_cast<char*>(Alloc(kHead + capacity + kTail)) + kHead;
    new (HeadOf(data)) Head{.users = 1, .capacity = capacity};
    CountUnwritten(UnwrittenOf(data));
    return data;
  }
  static size_t capacity(const char* data) { return HeadOf(data)->capacity; }
  // What it costs: pages that nobody has written to cost nothing.
  static size_t Bytes(const char* data) {
    constexpr size_t kPage = 4096;
    const size_t used = kHead + capacity(data) + kTail;
    return std::min(UsableSize(data - kHead), (used + kPage - 1) / kPage * kPage);
  }

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
    Free(data - kHead);
  }

  // What the allocator has given for large strings and nobody counts, as nothing was written there.
  // Thread: any.
  static int64_t unwritten_bytes() { return unwritten.load(std::memory_order_relaxed); }
  static void CountUnwritten(int64_t change) {
    unwritten.fetch_add(change, std::memory_order_relaxed);
  }

  // For BlockMover: where the allocator has it. REQUIRES: not lent.
  static void* BlockOf(char* data) { return data - kHead; }
  static char* DataOf(void* block) { return static_cast<char*>(block) + kHead; }

 private:
  struct Head {
    std::atomic<uint32_t> users;
    size_t capacity;
  };
  static constexpr size_t kHead = 32;  // Head, and "$4294967295\r\n"
  static constexpr size_t kTail = 2;
  static_assert(sizeof(Head) + 13 <= kHead);

  static int64_t UnwrittenOf(const char* data) {
    return static_cast<int64_t>(UsableSize(data - kHead) - Bytes(data));
  }
  inline static std::atomic<int64_t> unwritten{0};

  static Head* HeadOf(char* data) { return reinterpret_cast<Head*>(data - kHead); }
  static const Head* HeadOf(const char* data) {
    return reinterpret_cast<const Head*>(data - kHead);
  }
};

}  // namespace dfly
