// SPDX-License-Identifier: Apache-2.0
#include "server/replication/acks/ack_waits.h"

namespace dfly {

uint64_t AckWaits::CountAcked(const Wait& wait) const {
  return wait.target == UINT64_MAX ? 0 : source_.CountAcked(wait.target, wait.is_durable);
}

bool AckWaits::FindTarget(Wait* wait) {
  if (wait->target != UINT64_MAX || !source_.NewestEpoch()) return false;
  const AckSource::Streamed newest = source_.NewestStreamed();
  if (newest.epoch < wait->epoch) return false;
  wait->target = newest.offset;
  return true;
}

bool AckWaits::Begin(Wait* wait) {
  wait->epoch = source_.NewestEpoch().value_or(0);
  const bool has_target = FindTarget(wait);
  if (IsOver(*wait)) return false;
  waits_.PushBack(wait);
  // Who acknowledges, or adds to the stream, looks at the count after it has told that.
  count_.fetch_add(1, std::memory_order_seq_cst);
  source_.Hurry();
  if (has_target) source_.AskForAcks();
  Look();
  return true;
}

uint64_t AckWaits::End(Wait* wait) {
  if (wait->linked()) Unlink(wait);
  return CountAcked(*wait);
}

void AckWaits::Unlink(Wait* wait) {
  wait->Unlink();
  count_.fetch_sub(1, std::memory_order_seq_cst);
}

void AckWaits::Look() {
  is_look_posted_ = false;
  bool has_new = false;
  for (auto it = waits_.begin(); it != waits_.end();) {
    Wait& wait = *it;
    ++it;
    has_new |= FindTarget(&wait);
    if (!IsOver(wait)) continue;
    Unlink(&wait);
    if (wait.on_end) wait.on_end();
  }
  if (has_new && !waits_.empty()) source_.AskForAcks();
}

}  // namespace dfly
