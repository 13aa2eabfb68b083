// SPDX-License-Identifier: Apache-2.0
#include "server/replication/acks/ack_quorum.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

namespace dfly {

void AckQuorum::SetRules(const Rules& rules, uint64_t epoch) {
  const std::lock_guard lock(lock_);
  const bool held = rules_.holds_replies();
  rules_ = rules;
  if (!rules.holds_replies()) {
    pending_.clear();
    limit_ = UINT64_MAX;
  } else if (!held) {
    limit_ = epoch;
  }
}

void AckQuorum::SetVoters(std::vector<std::shared_ptr<const AckState>> voters) {
  const std::lock_guard lock(lock_);
  voters_.swap(voters);
}

void AckQuorum::OnEpoch(uint64_t epoch, uint64_t end) {
  const std::lock_guard lock(lock_);
  if (!rules_.holds_replies()) return;
  // Whoever waits for the last of so many may as well wait for this one.
  if (pending_.size() >= kPendingMax) pending_.pop_back();
  pending_.push_back({.epoch = epoch, .end = end});
}

void AckQuorum::SetSentinels(uint32_t thread, std::vector<Sentinel> sentinels) {
  const std::lock_guard lock(lock_);
  if (sentinels_.size() <= thread) sentinels_.resize(thread + 1);
  sentinels_[thread].swap(sentinels);
}

uint64_t AckQuorum::CountSentinels(uint64_t now_ns) const {
  if (rules_.sentinels == 0) return 0;
  std::vector<std::string_view> heard;
  for (const std::vector<Sentinel>& of_thread : sentinels_) {
    for (const Sentinel& sentinel : of_thread) {
      if (now_ns < sentinel.heard_ns + rules_.fence_ns) heard.push_back(sentinel.id);
    }
  }
  std::ranges::sort(heard);
  const auto again = std::ranges::unique(heard);
  return static_cast<uint64_t>(again.begin() - heard.begin());
}

std::optional<uint64_t> AckQuorum::Acked() const {
  if (rules_.replicas == 0) return UINT64_MAX;
  if (voters_.size() < rules_.replicas) return std::nullopt;
  std::vector<uint64_t> offsets;
  offsets.reserve(voters_.size());
  for (const auto& voter : voters_) {
    offsets.push_back((rules_.is_durable ? voter->durable : voter->received).load());
  }
  const auto nth = offsets.begin() + static_cast<ptrdiff_t>(rules_.replicas - 1);
  std::ranges::nth_element(offsets, nth, std::greater<>());
  return *nth;
}

uint64_t AckQuorum::Limit(uint64_t now_ns) {
  const std::lock_guard lock(lock_);
  if (!rules_.holds_replies()) return UINT64_MAX;
  if (CountSentinels(now_ns) < rules_.sentinels) return limit_;
  const std::optional<uint64_t> acked = Acked();
  while (acked && !pending_.empty() && pending_.front().end <= *acked) {
    limit_ = pending_.front().epoch;
    pending_.pop_front();
  }
  return limit_;
}

AckQuorum::Facts AckQuorum::facts(uint64_t now_ns) const {
  const std::lock_guard lock(lock_);
  const uint64_t sentinels = CountSentinels(now_ns);
  return {.waiting_epochs = pending_.size(),
          .sentinels = sentinels,
          .is_fenced = sentinels < rules_.sentinels};
}

}  // namespace dfly
