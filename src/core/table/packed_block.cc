// SPDX-License-Identifier: Apache-2.0
#include "core/table/packed_block.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "helio/base/logging.h"

namespace dfly {

PackedBlock PackedBlock::Make(size_t capacity) {
  auto* const block = static_cast<Block*>(Alloc(sizeof(Block) + capacity));
  *block = {.end = sizeof(Block), .entries = 0};
  return PackedBlock(block);
}

PackedBlock PackedBlock::Clone() const {
  PackedBlock copy = Make(entry_bytes());
  std::memcpy(copy.block_, block_, block_->end);
  return copy;
}

auto PackedBlock::At(size_t index) const -> Place {
  DCHECK_LE(index, entries());
  if (index <= entries() / 2) return Skip(begin(), index);
  Place at = end();
  for (size_t left = entries() - index; left > 0; --left) at = Previous(at);
  return at;
}

auto PackedBlock::Find(const PackedText& text, size_t stride) const -> Place {
  const Place last = end();
  for (Place at = begin(); at != last; at = Skip(at, stride)) {
    if (text.IsAt(at)) return at;
  }
  return last;
}

void PackedBlock::Reallocate(size_t bytes) {
  CHECK_LE(bytes, UINT32_MAX);
  auto* const fresh = static_cast<Block*>(Alloc(bytes));
  std::memcpy(fresh, block_, block_->end);
  dfly::Free(block_);
  block_ = fresh;
}

auto PackedBlock::Replace(Place from, Place to, const PackedText& text) -> Place {
  const size_t at = static_cast<size_t>(from - reinterpret_cast<const char*>(block_));
  const size_t gone = static_cast<size_t>(to - from);
  const size_t rest = block_->end - at - gone;
  const size_t end = at + text.entry_bytes() + rest;
  const size_t capacity = UsableSize(block_);
  // The allocator's classes of sizes are room enough to grow.
  if (end > capacity) Reallocate(end);
  char* const place = reinterpret_cast<char*>(block_) + at;
  std::memmove(place + text.entry_bytes(), place + gone, rest);
  text.Write(place);
  block_->end = static_cast<uint32_t>(end);
  if (gone == 0) ++block_->entries;
  return place;
}

void PackedBlock::AppendEntry(Place entry) {
  const size_t bytes = PackedEntryBytes(entry);
  const size_t end = block_->end + bytes;
  if (end > UsableSize(block_)) Reallocate(end);
  std::memcpy(reinterpret_cast<char*>(block_) + block_->end, entry, bytes);
  block_->end = static_cast<uint32_t>(end);
  ++block_->entries;
}

auto PackedBlock::Erase(Place at, size_t count) -> Place {
  const Place to = Skip(at, count);
  const size_t offset = static_cast<size_t>(at - reinterpret_cast<const char*>(block_));
  char* place = reinterpret_cast<char*>(block_) + offset;
  const size_t rest = static_cast<size_t>(end() - to);
  std::memmove(place, to, rest);
  block_->end = static_cast<uint32_t>(offset + rest);
  block_->entries -= static_cast<uint32_t>(count);
  if (UsableSize(block_) > 64 && block_->end < UsableSize(block_) / 2) {
    Reallocate(block_->end);
    place = reinterpret_cast<char*>(block_) + offset;
  }
  return place;
}

PackedBlock PackedBlockBuilder::Build() const {
  DCHECK_LE(bytes_.size(), size_t{1} << 30);
  const PackedBlock made = PackedBlock::Make(bytes_.size());
  PackedBlock::Block* const block = made.block_;
  bytes_.copy(block->bytes(), bytes_.size());
  block->end += static_cast<uint32_t>(bytes_.size());
  block->entries = static_cast<uint32_t>(entries_);
  return made;
}

bool PackedBlock::IsSound(std::string_view bytes, size_t entries) {
  size_t at = 0;
  for (; entries > 0; --entries) {
    const size_t left = bytes.size() - at;
    const char* const entry = bytes.data() + at;
    if (left == 0) return false;
    const uint8_t first = packed::Byte(entry);
    // A text's length may be in its second byte, and that of a large one in four more.
    if (first > packed::kLargeText || left < (first == packed::kLargeText ? 5 : 2)) return false;
    const packed::Extent extent = packed::ExtentAt(entry);
    const size_t content = extent.head + extent.body;
    const size_t size_bytes = packed::SizeBytes(content);
    if (content + size_bytes > left) return false;
    const bool is_large_int = first >= packed::kLargeInt && first < packed::kLargeText;
    if (is_large_int && (extent.head < 1 + 2 || extent.head > 1 + 8)) return false;
    const PackedElement element(entry);
    const std::optional<int64_t> number = element.TryInt();
    char scratch[PackedElement::kScratchSize];
    const PackedText text =
        number ? PackedText(*number) : PackedText::OfBytes(element.View(scratch));
    if (text.content_bytes() != content || !text.IsAt(entry)) return false;
    char size[16];
    packed::WriteSize(content, size);
    if (std::memcmp(entry + content, size, size_bytes) != 0) return false;
    at += content + size_bytes;
  }
  return at == bytes.size();
}

}  // namespace dfly
