// SPDX-License-Identifier: Apache-2.0
#include "server/base/pulse.h"

#include <algorithm>

namespace dfly {

Pulse::Pulse(helio::ProactorPool* pool) : pool_(*pool) {
  for (uint32_t i = 0; i < pool_.size(); ++i) beats_.push_back(std::make_shared<Beat>());
}

uint64_t Pulse::LongestSilence(uint64_t now_ns) {
  uint64_t longest_ns = 0;
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    const std::shared_ptr<Beat>& beat = beats_[i];
    if (!beat->is_asked.load(std::memory_order_acquire)) {
      beat->asked_ns = now_ns;
      beat->is_asked.store(true, std::memory_order_relaxed);
      pool_.at(i)->Dispatch([beat] { beat->is_asked.store(false, std::memory_order_release); });
    }
    longest_ns = std::max(longest_ns, now_ns - beat->asked_ns);
  }
  return longest_ns;
}

void Pulse::Forget(uint64_t now_ns) {
  for (const std::shared_ptr<Beat>& beat : beats_) beat->asked_ns = now_ns;
}

}  // namespace dfly
