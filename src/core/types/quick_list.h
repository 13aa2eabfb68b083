// SPDX-License-Identifier: Apache-2.0
// The value of a list key: texts in order, packed into a chain of blocks.
//
//   QuickList   head --> block <--> block <--> block <-- tail
//
//   block       previous, next (8 + 8), capacity, begin, end (4 each), entries, stride (2 each)
//               | room | entry entry entry ... | room |
//                      ^ begin                 ^ end        offsets from the block's first byte
//   entry       in a packed block, stride 0: see core/text/packed_entry.h
//               in an even block: the bytes of a text and nothing else; each has `stride` of them
//
// Many lists have texts of one length, as ids are. Their blocks are even: no head, no size, and
// each entry is found at once. An integer is never in one: packed it is shorter. The first entry
// decides what a block is. An even block that gets an entry of another kind is packed as a whole,
// and stays packed. So that happens to a block once at most.
//
// Room at both ends of a block makes pushing and popping cheap there: nothing moves. A block grows
// by a part of itself up to the limit; then the next one begins, and from there on 7/8 of the limit
// are enough. An entry that is larger than that has a block for itself. A list costs 32 bytes, and
// 32 for each block.
//
// A list is a "listpack" while it has never outgrown one block, as in Redis 7.2; then a "quicklist"
// until it fits in half a block again. There an even block counts as if it were packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"
#include "core/text/packed_entry.h"

namespace dfly {

// How large a block may become.
struct BlockLimit {
  size_t bytes = 8192;  // its header included
  uint32_t entries = UINT32_MAX;

  // What list-max-listpack-size means. -1 .. -5: 4, 8, 16, 32, 64 KB; from 1 on: so many entries,
  // and 8 KB. Others mean the nearest of these.
  static BlockLimit FromSetting(int64_t setting);
};

// Owner:    one value of a shard. Made with new; bytes() is right only then.
// Suspends: never.
class QuickList {
  struct Block;

 public:
  using Element = PackedElement;                          // in place: dies when the list changes
  static constexpr size_t kElementMax = size_t{1} << 31;  // bytes of one text
  static constexpr size_t kScratchSize = Element::kScratchSize;

  enum class End : uint8_t { kFront, kBack };

  // A place in the list; false behind either end. Dies when the list changes.
  class Cursor {
   public:
    Cursor() = default;
    explicit operator bool() const { return block_ != nullptr; }
    // REQUIRES for all: true.
    Element operator*() const;
    bool Is(const PackedText& text) const;
    void Next();
    void Previous();
    void Move(End towards) { towards == End::kBack ? Next() : Previous(); }

   private:
    friend class QuickList;
    Cursor(Block* block, uint32_t at) : block_(block), at_(at) {}
    Block* block_ = nullptr;
    uint32_t at_ = 0;
  };

  QuickList() = default;
  ~QuickList();
  QuickList(const QuickList&) = delete;
  QuickList& operator=(const QuickList&) = delete;
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* list) { Free(list); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // What all of it costs, exactly; sizeof(QuickList) is a size that the allocator has.
  size_t bytes() const { return sizeof(QuickList) + block_bytes_; }
  // False: OBJECT ENCODING says "quicklist".
  bool is_listpack() const { return !outgrown_; }
  size_t CountBlocks() const;  // O(blocks)

  // False if there is no such element; from the nearer end, O(blocks + entries of a block).
  Cursor At(size_t index) const;
  Cursor At(End end) const;

  // --- Changes. Cursors die; `text` must not lie in this list and is at most kElementMax. ---

  void Push(End end, std::string_view text, const BlockLimit& limit);
  // REQUIRES: not empty.
  void Pop(End end, const BlockLimit& limit);
  // REQUIRES for both: `where` is true.
  void InsertBefore(Cursor where, std::string_view text, const BlockLimit& limit);
  void InsertAfter(Cursor where, std::string_view text, const BlockLimit& limit);
  void Replace(Cursor where, std::string_view text, const BlockLimit& limit);
  // The elements from `first` on, `count` of them. REQUIRES: they exist.
  void Erase(size_t first, size_t count, const BlockLimit& limit);
  // Removes `text` wherever it stands, at most `max` times, beginning at `from`. How often it did.
  size_t Remove(std::string_view text, size_t max, End from, const BlockLimit& limit);

  // Frees the blocks of about `budget` elements; true when none is left. Between the first step and
  // the last only bytes() may be called, or the destructor.
  bool FreeSome(size_t budget);

  // Steps of ObjectType::move, some blocks each.
  static QuickList* Move(QuickList* list, BlockMover& mover, uint64_t* cursor);

  // A copy of all of it, allocated by the calling thread; blocks without much room.
  QuickList* Clone() const;
  // The same in steps: adds about `bytes` to `copy`, which is null at first, and returns it.
  // *cursor is 0 at first, and at the end. On one thread, the one that calls Move; after that
  // O(blocks that it has) besides.
  QuickList* CopySome(QuickList* copy, uint64_t* cursor, size_t bytes) const;

  void CheckInvariants() const;  // O(n)

 private:
  // What a block may have: the limit, or a little less in a chain.
  size_t BytesMax(const BlockLimit& limit) const;
  bool Fits(const Block& block, const PackedText& text, const BlockLimit& limit) const;

  Block* AddBlock(Block* previous, Block* next, size_t capacity, uint16_t stride);
  void RemoveBlock(Block* block);
  // Another block for the same entries; all room behind them, or in front of them.
  // Its stride becomes 0, or stays.
  Block* Reallocate(Block* block, size_t capacity, End room, uint16_t stride);
  void Relink(Block* old, Block* fresh);
  // Makes room for `bytes` at *at and counts an entry; both may move.
  Block* OpenGap(Block* block, uint32_t* at, size_t bytes, const BlockLimit& limit);
  // Packs an even block, with room for `bytes` at *at; both may move.
  Block* Pack(Block* block, uint32_t* at, size_t bytes, const BlockLimit& limit);
  // Puts an entry into this block. REQUIRES: it fits, or the block has none.
  void PutAt(Block* block, uint32_t at, const PackedText& text, const BlockLimit& limit);
  void Cut(Block* block, uint32_t from, uint32_t to, uint32_t entries);
  // A new first or last block for `text`, without entries.
  Block* AddBlockAt(End end, const PackedText& text, const BlockLimit& limit);
  void InsertAt(Block* block, uint32_t at, const PackedText& text, const BlockLimit& limit);
  // Puts the entries from `at` on into a block of their own. REQUIRES: begin < at < end.
  void SplitAt(Block* block, uint32_t at);
  size_t RemoveFrom(Block* block, const PackedText& text, size_t max);
  size_t RemoveFromBack(Block* block, const PackedText& text, size_t max);
  // Puts a block and the next one together if they are small. The block that they are in then.
  Block* MergeWithNext(Block* block, const BlockLimit& limit);
  Block* GiveBackRoom(Block* block);  // if there is much
  void AfterRemoval(const BlockLimit& limit);

  Block* head_ = nullptr;
  Block* tail_ = nullptr;
  uint64_t size_ : 63 = 0;
  uint64_t outgrown_ : 1 = 0;
  size_t block_bytes_ = 0;
};

static_assert(sizeof(QuickList) == 32);

}  // namespace dfly
