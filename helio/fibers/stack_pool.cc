// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/stack_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "helio/base/logging.h"
#include "helio/base/resident.h"
#include "helio/base/sanitizers.h"

namespace helio {

namespace {

size_t PageSize() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

StackPool::~StackPool() {
  Drop();
  DCHECK(mapped_.empty());
}

Stack StackPool::Get(size_t size) {
  const size_t page = PageSize();
  size = (size + page - 1) / page * page;
  if (!free_.empty() && free_.back().size == size) {
    Stack stack = free_.back();
    free_.pop_back();
    UnpoisonMemory(stack.bottom, stack.size);
    return stack;
  }
  void* block = mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(block, page, PROT_NONE) != 0) {
    munmap(block, size + page);
    throw std::bad_alloc();
  }
  // The addresses may be those of a thread's stack that was unmapped, poison and all.
  UnpoisonMemory(block, size + page);
  const Stack stack{static_cast<char*>(block) + page, size};
  mapped_.emplace(stack.bottom, size);
  return stack;
}

void StackPool::Put(Stack stack) {
  if (!free_.empty() && free_.back().size != stack.size) Drop();
  if (free_.size() < kept_max_) {
    free_.push_back(stack);
  } else {
    Unmap(stack);
  }
}

void StackPool::Drop() {
  for (Stack stack : free_) Unmap(stack);
  free_.clear();
}

void StackPool::Halve() {
  for (size_t left = free_.size() / 2; free_.size() > left; free_.pop_back()) Unmap(free_.back());
}

void StackPool::Unmap(Stack stack) {
  const size_t page = PageSize();
  mapped_.erase(stack.bottom);
  UnpoisonMemory(stack.bottom, stack.size);  // whoever gets the addresses next knows nothing of it
  CHECK_EQ(munmap(stack.bottom - page, stack.size + page), 0);
}

size_t StackPool::ResidentBytes(size_t looked_at_max) const {
  size_t looked_at = 0;
  size_t bytes = 0;
  for (const auto& [bottom, size] : mapped_) {
    if (looked_at == looked_at_max) break;
    bytes += helio::ResidentBytes(bottom, size);
    ++looked_at;
  }
  return looked_at == 0 ? 0 : bytes * mapped_.size() / looked_at;
}

}  // namespace helio
