// SPDX-License-Identifier: Apache-2.0
#include "server/replication/absent_replicas.h"

#include <algorithm>
#include <utility>

#include "helio/base/clock.h"

namespace dfly {

void AbsentReplicas::OnLeft(std::string address, uint64_t offset, uint64_t now_ns) {
  OnBack(address);
  if (all_.size() == kMax) all_.erase(all_.begin());
  all_.push_back({.address = std::move(address), .offset = offset, .left_ns = now_ns});
}

void AbsentReplicas::OnBack(const std::string& address) {
  std::erase_if(all_, [&](const Absent& absent) { return absent.address == address; });
}

std::vector<std::string> AbsentReplicas::Expire(uint64_t now_ns, uint64_t ttl_s) {
  std::vector<std::string> expired;
  if (ttl_s == 0) return expired;
  std::erase_if(all_, [&](const Absent& absent) {
    const uint64_t away_ns = now_ns - std::min(now_ns, absent.left_ns);
    if (away_ns / helio::kNanosPerSecond < ttl_s) return false;
    expired.push_back(absent.address);
    return true;
  });
  return expired;
}

uint64_t AbsentReplicas::first_offset() const {
  uint64_t first = kNoOffset;
  for (const Absent& absent : all_) first = std::min(first, absent.offset);
  return first;
}

}  // namespace dfly
