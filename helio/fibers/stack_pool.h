// SPDX-License-Identifier: Apache-2.0
// Stacks for fibers: mapped memory with a guard page below, kept for reuse.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <vector>

namespace helio {

// One mapped stack. [bottom, bottom + size) is usable; the page below `bottom` is not mapped, so an
// overflow faults instead of writing into other memory.
struct Stack {
  char* bottom = nullptr;
  size_t size = 0;
};

// Owner: one thread. Suspends: never.
// Keeps up to kept_max stacks of the size that was asked for last; stacks of other sizes are mapped
// and unmapped.
class StackPool {
 public:
  explicit StackPool(size_t kept_max = 64) : kept_max_(kept_max) {}
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  // `size` is rounded up to whole pages. Throws std::bad_alloc if no memory can be mapped.
  Stack Get(size_t size);
  void Put(Stack stack);
  // Those that nobody uses go.
  void Drop();
  // A half of them does.
  void Halve();

  size_t kept() const { return free_.size(); }
  size_t mapped() const { return mapped_.size(); }  // kept, and in use

  // What they cost, about: each has touched the pages of its first frames. It is what is worth
  // counting all the time; deep ones are few.
  static constexpr size_t kTouchedBytes = 8 * 1024;
  size_t bytes() const { return mapped_.size() * kTouchedBytes; }
  // What they cost now. Beyond `looked_at_max` of them it goes by these.
  size_t ResidentBytes(size_t looked_at_max) const;

 private:
  void Unmap(Stack stack);

  const size_t kept_max_;
  std::vector<Stack> free_;
  absl::flat_hash_map<char*, size_t> mapped_;  // bottom -> size
};

}  // namespace helio
