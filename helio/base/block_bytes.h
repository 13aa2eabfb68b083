// SPDX-License-Identifier: Apache-2.0
// What blocks of memory really take, for those who count what they have: the allocator rounds up,
// of large blocks by as much as a half.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <string>
#include <vector>

namespace helio {

// `block` was allocated by malloc or new, or is null.
// Thread: any.
// Some nanoseconds.
inline size_t BlockBytes(const void* block) { return malloc_usable_size(const_cast<void*>(block)); }

// Of an object of a class with virtual functions, whatever part of it the pointer points to.
template <typename Object>
size_t ObjectBytes(const Object* object) {
  return BlockBytes(dynamic_cast<const void*>(object));
}

// 0: it is short, and in the object itself.
inline size_t HeapBytes(const std::string& text) {
  return text.capacity() > sizeof(std::string) / 2 ? BlockBytes(text.data()) : 0;
}

template <typename T>
size_t HeapBytes(const std::vector<T>& vector) {
  return BlockBytes(vector.data());
}

// Of an absl::flat_hash_map: a slot and a byte for each entry that it has room for.
template <typename Map>
size_t MapBytes(const Map& map) {
  return map.capacity() * (sizeof(typename Map::value_type) + 1);
}

// After entries were erased: an absl table keeps the room of the most that it ever had. It goes
// when seven of eight places are free, so each rehash is paid by the erasures before it, as that of
// growth is by insertions. Iterators die.
template <typename Map>
void ShrinkIfSparse(Map* map) {
  constexpr size_t kKept = 1024;  // entries; so little room is not worth it
  if (map->capacity() > kKept && map->size() < map->capacity() / 8) [[unlikely]]
    map->rehash(0);
}

}  // namespace helio
