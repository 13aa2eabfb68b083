// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replica.h"

#include <algorithm>

#include "helio/base/clock.h"

namespace dfly {

ReplicaFacts FactsOf(const Replica& replica) {
  const uint64_t now_ns = helio::MonotonicNanos();
  const uint64_t acked_ns = replica.acked_ns;
  const uint64_t since_ns = acked_ns == 0 ? replica.since_ns : acked_ns;
  const uint64_t silent_ns = now_ns - std::min(now_ns, since_ns);
  const uint64_t age_ns = now_ns - std::min(now_ns, replica.since_ns);
  const bool is_online = Follows(replica);
  return {.ip = replica.ip,
          .port = replica.offer.port,
          .state = is_online ? "online" : "wait_bgsave",
          .is_online = is_online,
          .offset = replica.acks.received,
          .lag_s = acked_ns == 0 && !is_online
                       ? 0
                       : static_cast<int64_t>(silent_ns / helio::kNanosPerSecond),
          .age_s = static_cast<int64_t>(age_ns / helio::kNanosPerSecond)};
}

}  // namespace dfly
