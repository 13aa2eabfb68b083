// SPDX-License-Identifier: Apache-2.0
#include "core/table/value_reaper.h"

namespace dfly {

constinit thread_local ValueReaper* ValueReaper::of_thread_ = nullptr;

ValueReaper::~ValueReaper() {
  if (of_thread_ == this) of_thread_ = nullptr;
  while (!FreeSome(SIZE_MAX)) {
  }
}

void ValueReaper::ServeThisThread() {
  if (of_thread_ != nullptr) return;
  of_thread_ = this;
  blocks_.ServeThisThread();
}

void ValueReaper::Take(ValueType type, void* object, uint8_t encoding) {
  values_.push_back({type, encoding, object});
  bytes_ += ObjectTypeOf(type).bytes(object, encoding);
}

bool ValueReaper::FreeSome(size_t budget) {
  if (values_.empty()) {
    blocks_.FreeSome(budget);
    return empty();
  }
  const Value value = values_.back();
  const ObjectType& functions = ObjectTypeOf(value.type);
  bytes_ -= functions.bytes(value.object, value.encoding);
  if (functions.free_some(value.object, value.encoding, budget)) {
    functions.destroy(value.object, value.encoding);
    values_.pop_back();
  } else {
    bytes_ += functions.bytes(value.object, value.encoding);
  }
  return empty();
}

}  // namespace dfly
