// SPDX-License-Identifier: Apache-2.0
#include "core/types/quick_list.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "helio/base/logging.h"

namespace dfly {

BlockLimit BlockLimit::FromSetting(int64_t setting) {
  BlockLimit limit;
  if (setting < 0) {
    limit.bytes = size_t{4096} << (-std::max<int64_t>(setting, -5) - 1);
  } else {
    limit.entries = static_cast<uint32_t>(std::clamp<int64_t>(setting, 1, UINT32_MAX));
  }
  return limit;
}

// --- Blocks ---

struct QuickList::Block {
  Block* previous;
  Block* next;
  uint32_t capacity;  // what was allocated
  uint32_t begin;
  uint32_t end;
  uint16_t entries;
  uint16_t stride;  // of an even block; 0: packed

  static constexpr uint32_t kHeader = 32;
  // In longer texts the head and the size are a small part.
  static constexpr size_t kStrideMax = 1023;
  static_assert(kStrideMax <= UINT16_MAX);
  // The largest limit. With more, `entries` would be too small: an even block of a chain has 7/8 of
  // the limit, and an entry has one byte at least; in other blocks it counts two.
  static constexpr size_t kLimitMax = 65536;
  static_assert(kLimitMax - kLimitMax / 8 <= UINT16_MAX && kLimitMax / 2 <= UINT16_MAX);

  // What a block gets whose first entry is `text`. An integer has no body.
  static uint16_t StrideFor(const PackedText& text) {
    const size_t size = text.body().size();
    return size <= kStrideMax ? static_cast<uint16_t>(size) : 0;
  }

  char* at(uint32_t offset) { return reinterpret_cast<char*>(this) + offset; }
  const char* at(uint32_t offset) const { return reinterpret_cast<const char*>(this) + offset; }
  uint32_t used() const { return end - begin; }

  // --- Entries: what differs between even and packed blocks ---

  // The bytes of the entry that begins there, or that ends there.
  uint32_t EntryAt(uint32_t offset) const {
    return stride != 0 ? stride : static_cast<uint32_t>(PackedEntryBytes(at(offset)));
  }
  uint32_t EntryBefore(uint32_t offset) const {
    return stride != 0 ? stride : static_cast<uint32_t>(PackedEntryBytesBefore(at(offset)));
  }
  uint32_t OffsetOf(size_t index) const;
  Element ElementAt(uint32_t offset) const {
    return stride != 0 ? Element::OfText(at(offset), stride) : Element(at(offset));
  }
  bool IsAt(uint32_t offset, const PackedText& text) const {
    if (stride == 0) return text.IsAt(at(offset));
    return text.body() == std::string_view(at(offset), stride);
  }
  // Whether it stays what it is with this entry.
  bool Takes(const PackedText& text) const { return stride == 0 || stride == text.body().size(); }
  // REQUIRES for both: Takes.
  uint32_t BytesOf(const PackedText& text) const {
    return stride != 0 ? stride : static_cast<uint32_t>(text.entry_bytes());
  }
  void Write(uint32_t offset, const PackedText& text) {
    if (stride == 0) return text.Write(at(offset));
    std::memcpy(at(offset), text.body().data(), stride);
  }
  // The bytes of all entries in a block of that stride: 0, or what this one has.
  size_t BytesAs(uint16_t other) const {
    return other == stride ? used() : entries * PackedTextBytes(stride);
  }
  size_t PackedBytes() const { return BytesAs(0); }
  // Writes them so.
  void CopyAs(uint16_t other, char* to) const;

  void MoveBytes(uint32_t to, uint32_t from, uint32_t bytes) {
    std::memmove(at(to), at(from), bytes);
  }
};

uint32_t QuickList::Block::OffsetOf(size_t index) const {
  if (stride != 0) return begin + static_cast<uint32_t>(index) * stride;
  uint32_t offset;
  if (index < entries / 2) {
    offset = begin;
    for (; index > 0; --index) offset += EntryAt(offset);
  } else {
    offset = end;
    for (; index < entries; ++index) offset -= EntryBefore(offset);
  }
  return offset;
}

void QuickList::Block::CopyAs(uint16_t other, char* to) const {
  if (other == stride) {
    std::memcpy(to, at(begin), used());
    return;
  }
  for (uint32_t offset = begin; offset < end; offset += stride) {
    const PackedText text = PackedText::OfBytes({at(offset), stride});
    text.Write(to);
    to += text.entry_bytes();
  }
}

namespace {

// How often a block of a list of this thread has moved.
thread_local uint64_t block_moves = 0;

// A block that must grow gets this for `needed` bytes.
size_t Grown(size_t needed) { return needed + (needed < 512 ? needed / 4 : needed / 8); }

}  // namespace

QuickList::~QuickList() { FreeSome(SIZE_MAX); }

bool QuickList::FreeSome(size_t budget) {
  for (size_t freed = 0; head_ != nullptr && freed < budget;) {
    Block* const block = head_;
    head_ = block->next;
    freed += block->entries;
    block_bytes_ -= block->capacity;
    Free(block);
  }
  return head_ == nullptr;
}

inline size_t QuickList::BytesMax(const BlockLimit& limit) const {
  // Blocks whose distance is a power of two share few lines of the cache; following a long chain of
  // them would wait for memory at each.
  return outgrown_ ? limit.bytes - limit.bytes / 8 : limit.bytes;
}

inline bool QuickList::Fits(const Block& block, const PackedText& text,
                            const BlockLimit& limit) const {
  DCHECK_LE(limit.bytes, Block::kLimitMax);
  if (block.entries >= limit.entries) return false;
  const size_t used = size_t{Block::kHeader} + block.used();
  if (block.stride == 0 || (outgrown_ && block.Takes(text))) {
    return used + block.BytesOf(text) <= BytesMax(limit);
  }
  // As if it were packed: it is going to be, or the list may be a listpack no longer.
  return Block::kHeader + block.PackedBytes() + text.entry_bytes() <= limit.bytes &&
         used + text.entry_bytes() <= BytesMax(limit);
}

QuickList::Block* QuickList::AddBlock(Block* previous, Block* next, size_t capacity,
                                      uint16_t stride) {
  static_assert(sizeof(Block) == Block::kHeader);
  auto* block = static_cast<Block*>(Alloc(capacity));
  capacity = UsableSize(block);
  CHECK_LE(capacity, UINT32_MAX);
  *block = {.previous = previous,
            .next = next,
            .capacity = static_cast<uint32_t>(capacity),
            .begin = Block::kHeader,
            .end = Block::kHeader,
            .entries = 0,
            .stride = stride};
  Relink(block, block);
  block_bytes_ += capacity;
  return block;
}

void QuickList::Relink(Block* old, Block* fresh) {
  (old->previous != nullptr ? old->previous->next : head_) = fresh;
  (old->next != nullptr ? old->next->previous : tail_) = fresh;
}

void QuickList::RemoveBlock(Block* block) {
  (block->previous != nullptr ? block->previous->next : head_) = block->next;
  (block->next != nullptr ? block->next->previous : tail_) = block->previous;
  block_bytes_ -= block->capacity;
  Free(block);
}

QuickList::Block* QuickList::Reallocate(Block* block, size_t capacity, End room, uint16_t stride) {
  Block* fresh = AddBlock(block->previous, block->next, capacity, stride);
  const auto bytes = static_cast<uint32_t>(block->BytesAs(stride));
  if (room == End::kFront) fresh->begin = fresh->capacity - bytes;
  fresh->end = fresh->begin + bytes;
  fresh->entries = block->entries;
  block->CopyAs(stride, fresh->at(fresh->begin));
  block_bytes_ -= block->capacity;
  Free(block);
  return fresh;
}

QuickList* QuickList::Move(QuickList* list, BlockMover& mover, uint64_t* cursor) {
  // A step has to find its first block, from the head on: few steps, but none that takes long.
  constexpr uint64_t kBlocks = 128;
  if (*cursor == 0) list = mover.Move(list);
  Block* block = list->head_;
  for (uint64_t i = 0; i < *cursor && block != nullptr; ++i) block = block->next;
  for (uint64_t i = 0; i < kBlocks && block != nullptr; ++i) {
    if (void* const copy = mover.Copy(block)) {
      ++block_moves;
      list->Relink(block, static_cast<Block*>(copy));
      Free(block);
      block = static_cast<Block*>(copy);
    }
    block = block->next;
  }
  *cursor = block == nullptr ? 0 : *cursor + kBlocks;
  return list;
}

QuickList* QuickList::Clone() const {
  uint64_t cursor = 0;
  return CopySome(nullptr, &cursor, SIZE_MAX);
}

QuickList* QuickList::CopySome(QuickList* copy, uint64_t* cursor, size_t bytes) const {
  // The cursor is how many blocks are copied, and above that the moves of blocks up to then. Where
  // to go on is in size_ of the copy, which is unused until the end; after a move that may be gone.
  constexpr int kCountBits = 36;
  constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
  if (copy == nullptr) copy = std::make_unique<QuickList>().release();
  uint64_t done = *cursor & kCountMask;
  const uint64_t moves = block_moves << kCountBits;
  const Block* block = head_;
  if (done != 0 && (*cursor & ~kCountMask) == moves) {
    block = reinterpret_cast<const Block*>(uint64_t{copy->size_});
  } else {
    for (uint64_t i = 0; i < done; ++i) block = block->next;
  }
  for (size_t copied = 0; block != nullptr && copied < bytes; block = block->next) {
    Block* const fresh =
        copy->AddBlock(copy->tail_, nullptr, Block::kHeader + block->used(), block->stride);
    fresh->end = fresh->begin + block->used();
    fresh->entries = block->entries;
    std::memcpy(fresh->at(fresh->begin), block->at(block->begin), block->used());
    copied += block->used();
    ++done;
  }
  if (block != nullptr) {
    copy->size_ = reinterpret_cast<uint64_t>(block);
    *cursor = done | moves;
    return copy;
  }
  copy->size_ = size_;
  copy->outgrown_ = outgrown_;
  *cursor = 0;
  return copy;
}

QuickList::Block* QuickList::OpenGap(Block* block, uint32_t* at, size_t size,
                                     const BlockLimit& limit) {
  const auto bytes = static_cast<uint32_t>(size);
  const uint32_t before = *at - block->begin;
  const uint32_t after = block->end - *at;
  const uint32_t used = block->used();
  const uint32_t room_front = block->begin - Block::kHeader;
  const uint32_t room_back = block->capacity - block->end;
  ++block->entries;
  ++size_;

  // The side with less to move, if it has room.
  const bool is_front = before < after || (before == after && room_back < bytes);
  if (is_front && room_front >= bytes) {
    block->MoveBytes(block->begin - bytes, block->begin, before);
    block->begin -= bytes;
    *at -= bytes;
    return block;
  }
  if (!is_front && room_back >= bytes) {
    block->MoveBytes(*at + bytes, *at, after);
    block->end += bytes;
    return block;
  }

  // Else everything moves, and all room goes to that side. Moving within the block must win a part
  // of what it moves, or a queue that is always about full would move all of it for each push.
  const uint32_t room = room_front + room_back;
  if (room >= bytes + used / 4) {
    if (is_front) {
      const uint32_t begin = block->capacity - used - bytes;
      block->MoveBytes(block->capacity - after, *at, after);
      block->MoveBytes(begin, block->begin, before);
      block->begin = begin;
      block->end = block->capacity;
    } else {
      const uint32_t begin = Block::kHeader;
      block->MoveBytes(begin, block->begin, before);
      block->MoveBytes(begin + before + bytes, *at, after);
      block->begin = begin;
      block->end = begin + used + bytes;
    }
    *at = block->begin + before;
    return block;
  }

  const size_t needed = Block::kHeader + used + size;
  const size_t bytes_max = BytesMax(limit);
  size_t capacity = Grown(needed);
  if (capacity > bytes_max) {
    // Above the limit only if the bytes fit and their place is the trouble.
    const bool is_queue = room >= bytes;
    capacity = std::max(bytes_max, needed + (is_queue ? needed / 4 : 0));
  }
  Block* fresh = AddBlock(block->previous, block->next, capacity, block->stride);
  fresh->entries = block->entries;
  if (is_front) fresh->begin = fresh->capacity - used - bytes;
  fresh->end = fresh->begin + used + bytes;
  std::memcpy(fresh->at(fresh->begin), block->at(block->begin), before);
  std::memcpy(fresh->at(fresh->end - after), block->at(*at), after);
  *at = fresh->begin + before;
  block_bytes_ -= block->capacity;
  Free(block);
  return fresh;
}

QuickList::Block* QuickList::Pack(Block* block, uint32_t* at, size_t bytes,
                                  const BlockLimit& limit) {
  const uint32_t before = (*at - block->begin) / block->stride;
  const size_t entry = PackedTextBytes(block->stride);
  const size_t needed = Block::kHeader + block->PackedBytes() + bytes;
  // What was allocated in advance stays so.
  const size_t capacity =
      std::max<size_t>(block->capacity, std::max(needed, std::min(Grown(needed), BytesMax(limit))));
  // Where OpenGap is going to look for it.
  const End room = before < block->entries - before ? End::kFront : End::kBack;
  block = Reallocate(block, capacity, room, 0);
  *at = block->begin + static_cast<uint32_t>(before * entry);
  return block;
}

inline void QuickList::PutAt(Block* block, uint32_t at, const PackedText& text,
                             const BlockLimit& limit) {
  DCHECK_LE(text.body().size(), kElementMax);
  if (!block->Takes(text)) block = Pack(block, &at, text.entry_bytes(), limit);
  block = OpenGap(block, &at, block->BytesOf(text), limit);
  block->Write(at, text);
}

void QuickList::Cut(Block* block, uint32_t from, uint32_t to, uint32_t entries) {
  const uint32_t before = from - block->begin;
  const uint32_t after = block->end - to;
  if (before < after) {
    block->MoveBytes(to - before, block->begin, before);
    block->begin += to - from;
  } else {
    block->MoveBytes(from, to, after);
    block->end -= to - from;
  }
  block->entries -= entries;
  size_ -= entries;
}

void QuickList::SplitAt(Block* block, uint32_t at) {
  uint32_t entries = 0;
  for (uint32_t offset = at; offset < block->end; offset += block->EntryAt(offset)) ++entries;
  const uint32_t bytes = block->end - at;
  Block* rest = AddBlock(block, block->next, Block::kHeader + bytes, block->stride);
  rest->end = rest->begin + bytes;
  rest->entries = entries;
  std::memcpy(rest->at(rest->begin), block->at(at), bytes);
  block->end = at;
  block->entries -= entries;
}

QuickList::Block* QuickList::MergeWithNext(Block* block, const BlockLimit& limit) {
  Block* next = block->next;
  if (next == nullptr) return nullptr;
  const uint32_t entries = uint32_t{block->entries} + next->entries;
  // Well below the limit, or the next insertion would split it again; packed, too.
  if (Block::kHeader + block->PackedBytes() + next->PackedBytes() > limit.bytes / 2 ||
      entries > limit.entries / 2) {
    return nullptr;
  }
  const uint16_t stride = block->stride == next->stride ? block->stride : 0;
  const auto more = static_cast<uint32_t>(next->BytesAs(stride));
  if (block->stride != stride || block->capacity - block->end < more) {
    block = Reallocate(block, Block::kHeader + block->BytesAs(stride) + more, End::kBack, stride);
  }
  next->CopyAs(stride, block->at(block->end));
  block->end += more;
  block->entries = static_cast<uint16_t>(entries);
  RemoveBlock(next);
  return block;
}

QuickList::Block* QuickList::GiveBackRoom(Block* block) {
  const size_t needed = size_t{Block::kHeader} + block->used();
  if (block->capacity <= 128 || block->capacity / 3 < needed) return block;
  return Reallocate(block, needed + needed / 4, End::kBack, block->stride);
}

void QuickList::AfterRemoval(const BlockLimit& limit) {
  if (head_ != tail_) return;
  if (head_ == nullptr) {
    outgrown_ = 0;
    return;
  }
  const Block& block = *GiveBackRoom(head_);
  if (outgrown_ == 0) return;
  if (Block::kHeader + block.PackedBytes() <= limit.bytes / 2 &&
      block.entries <= limit.entries / 2) {
    outgrown_ = 0;
  }
}

// --- Looking ---

QuickList::Element QuickList::Cursor::operator*() const { return block_->ElementAt(at_); }

bool QuickList::Cursor::Is(const PackedText& text) const { return block_->IsAt(at_, text); }

void QuickList::Cursor::Next() {
  at_ += block_->EntryAt(at_);
  if (at_ != block_->end) return;
  block_ = block_->next;
  if (block_ != nullptr) at_ = block_->begin;
}

void QuickList::Cursor::Previous() {
  if (at_ == block_->begin) {
    block_ = block_->previous;
    if (block_ == nullptr) return;
    at_ = block_->end;
  }
  at_ -= block_->EntryBefore(at_);
}

QuickList::Cursor QuickList::At(size_t index) const {
  if (index >= size_) return {};
  if (index < size_ / 2) {
    Block* block = head_;
    for (; index >= block->entries; block = block->next) index -= block->entries;
    return {block, block->OffsetOf(index)};
  }
  size_t behind = size_ - index;  // entries from here to the end
  Block* block = tail_;
  for (; behind > block->entries; block = block->previous) behind -= block->entries;
  return {block, block->OffsetOf(block->entries - behind)};
}

QuickList::Cursor QuickList::At(End end) const {
  if (head_ == nullptr) return {};
  if (end == End::kFront) return {head_, head_->begin};
  return {tail_, tail_->end - tail_->EntryBefore(tail_->end)};
}

size_t QuickList::CountBlocks() const {
  size_t count = 0;
  for (const Block* block = head_; block != nullptr; block = block->next) ++count;
  return count;
}

// --- Changing ---

void QuickList::Push(End end, std::string_view text, const BlockLimit& limit) {
  const PackedText packed(text);
  Block* block = end == End::kFront ? head_ : tail_;
  if (block == nullptr || !Fits(*block, packed, limit)) block = AddBlockAt(end, packed, limit);
  PutAt(block, end == End::kFront ? block->begin : block->end, packed, limit);
}

QuickList::Block* QuickList::AddBlockAt(End end, const PackedText& text, const BlockLimit& limit) {
  Block* block = end == End::kFront ? head_ : tail_;
  if (block != nullptr || Block::kHeader + text.entry_bytes() > limit.bytes) outgrown_ = 1;
  const uint16_t stride = Block::StrideFor(text);
  size_t capacity = Block::kHeader + (stride != 0 ? stride : text.entry_bytes());
  if (block != nullptr) {
    // Nothing is going to be pushed there any more; and the next block becomes about as large.
    const size_t needed = size_t{Block::kHeader} + block->used();
    if (block->capacity - needed > needed / 8) {
      Reallocate(block, needed, End::kBack, block->stride);
    }
    capacity = std::max(capacity, std::min(needed / 2, BytesMax(limit)));
  }
  if (end == End::kBack) return AddBlock(tail_, nullptr, capacity, stride);
  block = AddBlock(nullptr, head_, capacity, stride);
  block->begin = block->end = block->capacity;
  return block;
}

void QuickList::Pop(End end, const BlockLimit& limit) {
  Block* block = end == End::kFront ? head_ : tail_;
  if (end == End::kFront) {
    block->begin += block->EntryAt(block->begin);
  } else {
    block->end -= block->EntryBefore(block->end);
  }
  --block->entries;
  --size_;
  if (block->entries == 0) RemoveBlock(block);
  AfterRemoval(limit);
}

void QuickList::InsertBefore(Cursor where, std::string_view text, const BlockLimit& limit) {
  InsertAt(where.block_, where.at_, PackedText(text), limit);
}

void QuickList::InsertAfter(Cursor where, std::string_view text, const BlockLimit& limit) {
  InsertAt(where.block_, where.at_ + where.block_->EntryAt(where.at_), PackedText(text), limit);
}

void QuickList::InsertAt(Block* block, uint32_t at, const PackedText& text,
                         const BlockLimit& limit) {
  if (!Fits(*block, text, limit)) {
    outgrown_ = 1;
    if (at != block->begin && at != block->end) SplitAt(block, at);
    Block* left = at == block->begin ? block->previous : block;
    Block* right = at == block->begin ? block : block->next;
    if (left != nullptr && Fits(*left, text, limit)) {
      block = left;
      at = left->end;
    } else if (right != nullptr && Fits(*right, text, limit)) {
      block = right;
      at = right->begin;
    } else {
      block = AddBlock(left, right, Block::kHeader + text.entry_bytes(), Block::StrideFor(text));
      at = block->begin;
    }
  }
  PutAt(block, at, text, limit);
}

void QuickList::Replace(Cursor where, std::string_view text, const BlockLimit& limit) {
  Block* block = where.block_;
  uint32_t at = where.at_;
  const PackedText packed(text);
  const uint32_t old_bytes = block->EntryAt(at);
  if (block->Takes(packed) && block->BytesOf(packed) == old_bytes) {
    block->Write(at, packed);
    return;
  }
  if (block->entries == 1) {
    // A block never stays without entries.
    const size_t capacity = Block::kHeader + packed.entry_bytes();
    if (capacity > limit.bytes) outgrown_ = 1;
    Block* fresh = AddBlock(block->previous, block->next, capacity, Block::StrideFor(packed));
    fresh->end = fresh->begin + fresh->BytesOf(packed);
    fresh->entries = 1;
    fresh->Write(fresh->begin, packed);
    block_bytes_ -= block->capacity;
    Free(block);
  } else {
    const uint32_t before = at - block->begin;
    Cut(block, at, at + old_bytes, 1);
    InsertAt(block, block->begin + before, packed, limit);
  }
  AfterRemoval(limit);
}

void QuickList::Erase(size_t first, size_t count, const BlockLimit& limit) {
  if (count == 0) return;
  DCHECK_LE(first + count, size_);
  Cursor where = At(first);
  Block* block = where.block_;
  uint32_t at = where.at_;
  Block* left = block->previous;  // what is in front of the gap
  while (count > 0) {
    Block* next = block->next;
    uint32_t entries = 0;
    if (at == block->begin && block->entries <= count) {
      entries = block->entries;
      size_ -= entries;
      RemoveBlock(block);
    } else {
      const bool keeps_front = at != block->begin;
      uint32_t to = at;
      for (; entries < count && to < block->end; ++entries) to += block->EntryAt(to);
      Cut(block, at, to, entries);
      block = GiveBackRoom(block);
      if (keeps_front) left = block;
    }
    count -= entries;
    block = next;
    if (block != nullptr) at = block->begin;
  }
  Block* whole = left != nullptr ? left : head_;
  for (int i = 0; i < 2 && whole != nullptr; ++i) whole = MergeWithNext(whole, limit);
  AfterRemoval(limit);
}

size_t QuickList::RemoveFrom(Block* block, const PackedText& text, size_t max) {
  size_t removed = 0;
  uint32_t kept = block->begin;  // where the next entries that stay go to
  uint32_t run = block->begin;   // the first of them
  uint32_t at = block->begin;
  while (at < block->end && removed < max) {
    const uint32_t bytes = block->EntryAt(at);
    if (block->IsAt(at, text)) {
      block->MoveBytes(kept, run, at - run);
      kept += at - run;
      run = at + bytes;
      ++removed;
    }
    at += bytes;
  }
  if (removed > 0) {
    block->MoveBytes(kept, run, block->end - run);
    block->end = kept + (block->end - run);
  }
  return removed;
}

size_t QuickList::RemoveFromBack(Block* block, const PackedText& text, size_t max) {
  size_t removed = 0;
  uint32_t kept = block->end;  // where the next entries that stay end
  uint32_t run = block->end;   // the end of them
  uint32_t at = block->end;
  while (at > block->begin && removed < max) {
    const uint32_t bytes = block->EntryBefore(at);
    at -= bytes;
    if (block->IsAt(at, text)) {
      const uint32_t stays = run - (at + bytes);
      block->MoveBytes(kept - stays, at + bytes, stays);
      kept -= stays;
      run = at;
      ++removed;
    }
  }
  if (removed > 0) {
    const uint32_t stays = run - block->begin;
    block->MoveBytes(kept - stays, block->begin, stays);
    block->begin = kept - stays;
  }
  return removed;
}

size_t QuickList::Remove(std::string_view text, size_t max, End from, const BlockLimit& limit) {
  const PackedText packed(text);
  size_t removed = 0;
  Block* block = from == End::kFront ? head_ : tail_;
  while (block != nullptr && removed < max) {
    const size_t count = from == End::kFront ? RemoveFrom(block, packed, max - removed)
                                             : RemoveFromBack(block, packed, max - removed);
    Block* next = from == End::kFront ? block->next : block->previous;
    if (count > 0) {
      removed += count;
      size_ -= count;
      block->entries -= static_cast<uint32_t>(count);
      if (block->entries == 0) {
        RemoveBlock(block);
      } else {
        block = GiveBackRoom(block);
        // Only what was looked at already is drawn in, so `next` stays what it is.
        if (from == End::kFront && block->previous != nullptr) {
          MergeWithNext(block->previous, limit);
        } else if (from == End::kBack) {
          MergeWithNext(block, limit);
        }
      }
    }
    block = next;
  }
  if (removed > 0) AfterRemoval(limit);
  return removed;
}

void QuickList::CheckInvariants() const {
  size_t size = 0;
  size_t bytes = 0;
  const Block* previous = nullptr;
  for (const Block* block = head_; block != nullptr; previous = block, block = block->next) {
    CHECK(block->previous == previous);
    CHECK_GT(block->entries, 0u);
    CHECK_GE(block->begin, Block::kHeader);
    CHECK_LE(block->end, block->capacity);
    CHECK_EQ(block->capacity, UsableSize(block));
    uint32_t entries = 0;
    uint32_t at = block->begin;
    for (; at < block->end; ++entries) {
      const uint32_t entry = block->EntryAt(at);
      at += entry;
      CHECK_LE(at, block->end);
      CHECK_EQ(block->EntryBefore(at), entry);
      // An integer in an even block would not be found.
      if (block->stride != 0) {
        CHECK_EQ(PackedText({block->at(at - entry), entry}).body().size(), entry);
      }
    }
    CHECK_EQ(entries, block->entries);
    size += entries;
    bytes += block->capacity;
  }
  CHECK(previous == tail_);
  CHECK_EQ(size, size_);
  CHECK_EQ(bytes, block_bytes_);
  if (outgrown_ == 0) CHECK(head_ == tail_);
}

}  // namespace dfly
