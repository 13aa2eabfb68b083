// SPDX-License-Identifier: Apache-2.0
// What is known of replication, for INFO, ROLE and /metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

struct ReplicaFacts {
  std::string ip;
  uint16_t port = 0;
  std::string_view state;  // as INFO says it
  bool is_online = false;
  uint64_t offset = 0;  // acknowledged
  int64_t lag_s = 0;    // since it last acknowledged something
  int64_t age_s = 0;    // since it has connected
};

struct ReplicasFacts {
  std::vector<ReplicaFacts> all;
  std::optional<uint64_t> good;  // for min-replicas-to-write, if that is set
  std::string id;
  std::string id2;
  int64_t second_offset = -1;
  uint64_t offset = 0;
  bool has_backlog = false;
  uint64_t backlog_limit = 0;
  uint64_t backlog_begin = 0;  // the offset of its first byte; 0: there is none
  uint64_t backlog_bytes = 0;
  uint64_t backlog_memory = 0;
  uint64_t full_copies = 0;
  uint64_t partial_copies = 0;
  uint64_t refused_partial_copies = 0;

  // Replies that wait for replicas.
  uint64_t sync_replicas = 0;        // min_replicas_to_ack, while it is in force
  uint64_t sync_waiting_epochs = 0;  // of the stream, that they have not acknowledged
  uint64_t sync_timeouts = 0;        // connections that were closed for ack_timeout
  uint64_t sentinels_heard = 0;      // that hold the fence open
  bool is_fenced = false;
};

}  // namespace dfly
