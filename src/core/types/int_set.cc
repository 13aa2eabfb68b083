// SPDX-License-Identifier: Apache-2.0
#include "core/types/int_set.h"

#include <algorithm>
#include <cstring>

#include "helio/base/logging.h"

namespace dfly {

namespace {

uint32_t WidthOf(int64_t number) {
  if (number >= INT16_MIN && number <= INT16_MAX) return 2;
  return number >= INT32_MIN && number <= INT32_MAX ? 4 : 8;
}

template <typename T>
T Load(const char* at) {
  T number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

}  // namespace

IntSet IntSet::Make() {
  auto* const block = static_cast<Block*>(Alloc(sizeof(Block)));
  *block = {.count = 0, .width = 2};
  return IntSet(block);
}

IntSet IntSet::Clone() const {
  const size_t bytes = sizeof(Block) + size() * block_->width;
  auto* const copy = static_cast<Block*>(Alloc(bytes));
  std::memcpy(copy, block_, bytes);
  return IntSet(copy);
}

int64_t IntSet::At(size_t index) const {
  DCHECK_LT(index, size());
  const char* const at = block_->at(index);
  switch (block_->width) {
    case 2:
      return Load<int16_t>(at);
    case 4:
      return Load<int32_t>(at);
    default:
      return Load<int64_t>(at);
  }
}

void IntSet::Write(size_t index, int64_t number) {
  // Two's complement, the lowest byte first: a narrow number is the beginning of the wide one.
  std::memcpy(block_->at(index), &number, block_->width);
}

size_t IntSet::LowerBound(int64_t number) const {
  size_t low = 0, high = size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (At(middle) < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool IntSet::Has(int64_t number) const {
  const size_t index = LowerBound(number);
  return index < size() && At(index) == number;
}

void IntSet::Reallocate(size_t numbers) {
  auto* const fresh = static_cast<Block*>(Alloc(sizeof(Block) + numbers * block_->width));
  std::memcpy(fresh, block_, sizeof(Block) + size() * block_->width);
  dfly::Free(block_);
  block_ = fresh;
}

void IntSet::Widen(uint32_t width) {
  const IntSet old = *this;
  block_ = static_cast<Block*>(Alloc(sizeof(Block) + (size() + 1) * width));
  *block_ = {.count = old.block_->count, .width = width};
  for (size_t i = 0; i < size(); ++i) Write(i, old.At(i));
  dfly::Free(old.block_);
}

bool IntSet::Add(int64_t number) {
  const size_t index = LowerBound(number);
  if (index < size() && At(index) == number) return false;
  CHECK_LT(size(), UINT32_MAX);
  const uint32_t width = WidthOf(number);
  if (width > block_->width) {
    Widen(width);
  } else if (sizeof(Block) + (size() + 1) * block_->width > UsableSize(block_)) {
    Reallocate(size() + 1);  // the allocator's classes of sizes are room enough to grow
  }
  std::memmove(block_->at(index + 1), block_->at(index), (size() - index) * block_->width);
  ++block_->count;
  Write(index, number);
  return true;
}

bool IntSet::Erase(int64_t number) {
  const size_t index = LowerBound(number);
  if (index == size() || At(index) != number) return false;
  --block_->count;
  std::memmove(block_->at(index), block_->at(index + 1), (size() - index) * block_->width);
  const size_t used = sizeof(Block) + size() * block_->width;
  if (UsableSize(block_) > 64 && used < UsableSize(block_) / 2) Reallocate(size());
  return true;
}

}  // namespace dfly
