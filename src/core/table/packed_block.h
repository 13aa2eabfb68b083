// SPDX-License-Identifier: Apache-2.0
// A small collection in one allocation: entries one after another (core/text/packed_entry.h).
//
//   end, entries (4 bytes each) | entry entry entry ... | room
//
// Looking for something is a walk over all of it, so it is for a hundred entries or so. Fields and
// values of a hash, members and scores of a sorted set alternate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/memory/allocator.h"
#include "core/table/value_limits.h"
#include "core/text/packed_entry.h"

namespace dfly {

// Refers to a block as a pointer does: copies mean the same one, and nobody frees it but Free().
//
// Owner:    who holds its address, a value of a shard.
// Suspends: never.
class PackedBlock {
 public:
  // A place: at an entry or at the end. Dies with each change but the one that returns it.
  using Place = const char*;

  static PackedBlock Make(size_t capacity = 0);  // for so many bytes of entries at first
  // REQUIRES: of another one's address().
  explicit PackedBlock(void* address) : block_(static_cast<Block*>(address)) {}
  // Changes with each change.
  void* address() const { return block_; }
  void Free() { dfly::Free(block_); }
  PackedBlock Clone() const;

  size_t entries() const { return block_->entries; }
  bool empty() const { return block_->entries == 0; }
  // What it costs, exactly.
  size_t bytes() const { return UsableSize(block_); }
  // Of its entries alone.
  size_t entry_bytes() const { return block_->end - sizeof(Block); }

  Place begin() const { return block_->bytes(); }
  Place end() const { return reinterpret_cast<const char*>(block_) + block_->end; }
  static Place Next(Place at) { return at + PackedEntryBytes(at); }
  Place Skip(Place at, size_t count) const {
    for (; count > 0; --count) at = Next(at);
    return at;
  }
  static Place Previous(Place at) { return at - PackedEntryBytesBefore(at); }
  // From the nearer end. REQUIRES: index <= entries().
  Place At(size_t index) const;
  // The first of every `stride` entries that is `text`, or end().
  Place Find(const PackedText& text, size_t stride = 1) const;

  // --- Changes. What they are given must not lie in this block. They return the place of the first
  // entry that is new, or of what follows those that are gone. ---

  Place Insert(Place before, const PackedText& text) { return Replace(before, before, text); }
  Place Append(const PackedText& text) { return Insert(end(), text); }
  // A copy of an entry of another block.
  void AppendEntry(Place entry);
  // Instead of the entry at `at`.
  Place Set(Place at, const PackedText& text) { return Replace(at, Next(at), text); }
  Place Erase(Place at, size_t count);

  // Every byte belongs to an entry that is written as it would be here, and both ways lead through
  // all of them. False for a block that something else wrote; never reads beyond it.
  static bool IsSound(std::string_view bytes, size_t entries);

 private:
  struct Block {
    uint32_t end;  // offset from the block's first byte
    uint32_t entries;

    char* bytes() { return reinterpret_cast<char*>(this + 1); }
  };

  friend class PackedBlockBuilder;
  explicit PackedBlock(Block* block) : block_(block) {}
  // Puts `text` where [from, to) is: one entry, or none.
  Place Replace(Place from, Place to, const PackedText& text);
  // Another allocation for the same bytes.
  void Reallocate(size_t bytes);

  Block* block_;
};

// Entries of a block to come, so that it is allocated once, and fits.
class PackedBlockBuilder {
 public:
  void Append(const PackedText& text) {
    const size_t at = bytes_.size();
    bytes_.resize(at + text.entry_bytes());
    text.Write(bytes_.data() + at);
    ++entries_;
  }
  size_t entries() const { return entries_; }
  size_t entry_bytes() const { return bytes_.size(); }
  // REQUIRES: entry_bytes() is less than 1 GB.
  PackedBlock Build() const;

 private:
  std::string bytes_;
  size_t entries_ = 0;
};

}  // namespace dfly
