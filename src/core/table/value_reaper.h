// SPDX-License-Identifier: Apache-2.0
// Frees large values in steps, so that deleting one of a million elements does not stop its shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/memory/lent_block.h"
#include "core/table/compact_value.h"

namespace dfly {

// Every value ends in CompactValue, whoever overwrites, deletes, expires or flushes it; there, one
// that is large goes to the reaper of the thread, if it has one, and is destroyed if not.
// The block of a string that has pages of its own comes here when nobody uses it any more.
// Owner:    one shard, whose thread it serves: values of the thread's other shards come here, too.
// Suspends: never.
class ValueReaper {
 public:
  // From here on a value may take longer to free than a shard should be away: about 1/10 ms.
  static constexpr size_t kLarge = 128 * 1024;  // bytes

  ValueReaper() = default;
  ~ValueReaper();
  ValueReaper(const ValueReaper&) = delete;
  ValueReaper& operator=(const ValueReaper&) = delete;

  // Of the calling thread; null if it has none.
  static ValueReaper* OfThread() { return of_thread_; }
  // Becomes that of the calling thread, if it has none, until it is destroyed there.
  void ServeThisThread();
  static bool ThreadHasWork() { return of_thread_ != nullptr && !of_thread_->empty(); }

  // Called when there is a block to free again, which may be when no command runs.
  void set_on_block(std::function<void()> on_block) { blocks_.set_on_work(std::move(on_block)); }

  bool empty() const { return values_.empty() && blocks_.empty(); }
  size_t size() const { return values_.size() + blocks_.size(); }  // values
  // Exact: what they still have; asked for often.
  size_t bytes() const { return bytes_ + blocks_.bytes(); }

  // Takes an object over. REQUIRES: its type can be freed in steps.
  void Take(ValueType type, void* object, uint8_t encoding);
  // Frees about `budget` elements, or pages of blocks; true when nothing is left.
  bool FreeSome(size_t budget);

 private:
  struct Value {
    ValueType type;
    uint8_t encoding;
    void* object;
  };

  static thread_local ValueReaper* of_thread_;
  std::vector<Value> values_;
  size_t bytes_ = 0;
  BlockReaper blocks_;
};

}  // namespace dfly
