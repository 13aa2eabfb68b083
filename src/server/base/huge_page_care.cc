// SPDX-License-Identifier: Apache-2.0
#include "server/base/huge_page_care.h"

#include <algorithm>
#include <mutex>

#include "helio/base/clock.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

// A fiftieth of the time at most: whoever needs what is just copied waits.
constexpr uint64_t kRestFactor = 50;
constexpr uint64_t kRestMinNanos = 10 * helio::kNanosPerMilli;
constexpr uint64_t kBetweenPassesNanos = 5'000 * helio::kNanosPerMilli;
constexpr uint64_t kNoMemoryNanos = 60'000 * helio::kNanosPerMilli;

}  // namespace

void HugePageCare::Begin() {
  if (!has_begun_.exchange(true)) thread_ = std::thread([this] { Run(); });
}

HugePageCare::~HugePageCare() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    must_end_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

bool HugePageCare::Rest(uint64_t nanos) {
  const uint64_t until_ns = helio::MonotonicNanos() + nanos;
  std::unique_lock lock(mutex_);
  while (!must_end_ && changed_.WaitUntil(lock, until_ns)) {
  }
  return !must_end_;
}

void HugePageCare::Run() {
  uint64_t rest_ns = kBetweenPassesNanos;
  while (Rest(rest_ns)) {
    const uint64_t begin_ns = helio::MonotonicNanos();
    const HugePages::Result result = pages_.CollapseNext();
    bytes_.store(pages_.bytes(), std::memory_order_relaxed);
    const uint64_t took_ns = helio::MonotonicNanos() - begin_ns;
    switch (result) {
      case HugePages::Result::kDone:
        rest_ns = std::max(took_ns * kRestFactor, kRestMinNanos);
        break;
      case HugePages::Result::kEnd:
        rest_ns = std::max(took_ns * kRestFactor, kBetweenPassesNanos);
        break;
      case HugePages::Result::kNoMemory:
        rest_ns = kNoMemoryNanos;
        break;
      case HugePages::Result::kRefused:
        LOG(INFO) << "--huge_pages: the kernel does not make huge pages of what is in use";
        return;
    }
  }
}

}  // namespace dfly
