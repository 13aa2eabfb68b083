// SPDX-License-Identifier: Apache-2.0
// A key in 16 bytes.
//
//   bytes  0..14  payload        byte 15  tag: kind in bits 0..2, flags in bits 3..7
//
//   kind      payload                                                        for
//   kRaw      the bytes, zeros, and the length in byte 14                    0 .. 14 bytes
//   kRaw15    the bytes                                                      15 bytes
//   kAscii16  the characters, 7 bits each                                    16 ASCII characters
//   kAscii17  the characters, 7 bits each                                    17 ASCII characters
//   kNumber   the number (8)                                                 an int64 in canonical
//                                                                            decimal form, 18 .. 20
//                                                                            characters
//   kHeap     pointer (8), length (4), bits 55..32 of the hash (3)           all others
//
// The encoding is canonical: two inline keys are equal when their 16 bytes without the flags are.
// A lookup encodes its key once, into a KeyProbe. The hash bits of a heap key let a table compare
// and move it without touching the heap.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"
#include "core/text/short_text.h"

namespace dfly {

// A key to look for: it refers to the caller's bytes, which must outlive it.
class KeyProbe {
 public:
  // REQUIRES: hash == HashKey(key), key.size() <= 512 MB.
  KeyProbe(std::string_view key, uint64_t hash) : key_(key), hash_(hash) {
    key.size() <= kShortMax ? EncodeShort() : EncodeLong();
  }

  std::string_view key() const { return key_; }
  uint64_t hash() const { return hash_; }

 private:
  friend class CompactKey;
  friend class CompactText;
  static constexpr size_t kShortMax = 15;  // kRaw and kRaw15

  void EncodeShort();
  void EncodeLong();

  std::string_view key_;
  uint64_t hash_;
  uint64_t low_;   // payload bytes 0..7; for a heap key 0
  uint64_t high_;  // payload bytes 8..14 and the tag
};

// The 16 bytes of a CompactKey that somebody else owns, who keeps them until this is gone. May be
// copied, and moved with memcpy.
class CompactKeyRef {
 public:
  static constexpr size_t kScratchSize = 24;  // what View wants

  CompactKeyRef() : low_(0), high_(0) {}  // of the empty key

  // The key's bytes: in `scratch` (kScratchSize bytes), in the object or on the heap; valid as long
  // as both live.
  std::string_view View(char* scratch) const;
  std::string ToString() const;
  size_t size() const;
  bool is_heap() const { return kind() == kHeap; }
  // Null unless it is there.
  const void* HeapAddress() const { return is_heap() ? heap() : nullptr; }
  // From here on its bytes are where the other one's are. REQUIRES: they are the same.
  void Follow(const CompactKeyRef& other) { low_ = other.low_; }

 protected:
  friend class KeyProbe;
  enum Kind : uint8_t { kRaw = 0, kRaw15, kAscii16, kAscii17, kHeap, kNumber };

  CompactKeyRef(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  uint8_t kind() const { return (high_ >> 56) & 7; }
  char* heap() const { return reinterpret_cast<char*>(low_); }

  uint64_t low_;
  uint64_t high_;
};

// Owner:    one table slot. Move only; may be moved with memcpy (trivially relocatable).
// Suspends: never.
class CompactKey : public CompactKeyRef {
 public:
  enum Flag : uint8_t {
    kHasExpire = 0x08,                       // the expiry table holds this key, too
    kSticky = 0x10,                          // never evicted
    kHasMemberExpire = 0x20,                 // members of its value have deadlines
    kTimed = kHasExpire | kHasMemberExpire,  // for has_flag: either
    kCutParity = 0x40,                       // whether the last cut has it; see Database
  };

  CompactKey() = default;
  explicit CompactKey(const KeyProbe& probe);
  CompactKey(CompactKey&& other) noexcept : CompactKeyRef(other.low_, other.high_) {
    other.low_ = other.high_ = 0;
  }
  CompactKey& operator=(CompactKey&& other) noexcept {
    std::swap(low_, other.low_);
    std::swap(high_, other.high_);
    return *this;
  }
  ~CompactKey() {
    if (is_heap()) Free(heap());
  }

  bool Equals(const KeyProbe& probe) const {
    if (((high_ ^ probe.high_) & ~kFlagMask) != 0) return false;
    if (!is_heap()) return low_ == probe.low_;
    return std::memcmp(heap(), probe.key_.data(), probe.key_.size()) == 0;
  }

  uint64_t Hash() const;
  // The heap's copy of hash bits 55..32. REQUIRES: is_heap().
  uint32_t HashBits24() const { return static_cast<uint32_t>(high_ >> 32) & 0xFFFFFF; }

  bool has_flag(Flag flag) const { return (high_ >> 56) & flag; }
  void set_flag(Flag flag, bool on) {
    uint64_t bit = static_cast<uint64_t>(flag) << 56;
    high_ = on ? high_ | bit : high_ & ~bit;
  }

  // Memory besides the 16 bytes.
  size_t HeapBytes() const { return is_heap() ? UsableSize(heap()) : 0; }
  void Move(BlockMover& mover) {
    if (is_heap()) low_ = reinterpret_cast<uint64_t>(mover.Move(heap()));
  }
  // The same for one whose bytes others refer to: follow(*this), with the old ones still there.
  template <typename F>
  void Move(BlockMover& mover, F&& follow) {
    void* const copy = is_heap() ? mover.Copy(heap()) : nullptr;
    if (copy == nullptr) return;
    char* const old = heap();
    low_ = reinterpret_cast<uint64_t>(copy);
    follow(*this);
    Free(old);
  }

 private:
  friend class KeyProbe;
  static constexpr uint64_t kFlagMask = 0xF8ULL << 56;
};

static_assert(sizeof(CompactKey) == 16);

inline void KeyProbe::EncodeShort() {
  const size_t size = key_.size();
  if (size <= 8) {
    low_ = LoadShort(key_.data(), size);
    high_ = uint64_t{size} << 48;
    return;
  }
  low_ = LoadWord(key_.data());
  high_ = LoadWord(key_.data() + size - 8) >> ((16 - size) * 8);
  const uint64_t length = size == kShortMax ? 0 : uint64_t{size} << 48;
  const uint64_t kind = size == kShortMax ? CompactKey::kRaw15 : CompactKey::kRaw;
  high_ |= length | (kind << 56);
}

// A text that is not looked for, kept as a key is: what a field of a hash has.
//
// Owner:    one table slot. Move only; may be moved with memcpy (trivially relocatable).
// Suspends: never.
class CompactText : private CompactKey {
 public:
  using CompactKey::HeapBytes;
  using CompactKey::kScratchSize;
  using CompactKey::Move;
  using CompactKey::ToString;
  using CompactKey::View;

  // A block that fits well is used again. `text` must not lie in this one.
  void Set(std::string_view text);
  CompactText Clone() const;
};

static_assert(sizeof(CompactText) == 16);

}  // namespace dfly
