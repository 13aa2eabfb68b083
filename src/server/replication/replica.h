// SPDX-License-Identifier: Apache-2.0
// What is known of one replica, and of what it gets beside the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "helio/proactor/proactor.h"
#include "server/clients/output_feed.h"
#include "server/meters/replicas_facts.h"
#include "server/replication/acks/ack_quorum.h"
#include "server/replication/stream_buffer.h"
#include "storage/snapshot_extras.h"

namespace dfly {

class ReplicaFeed;

// Waiting fibers look again after so long: for what a disk or a network does, and for what another
// thread does.
inline constexpr uint64_t kLookMillis = 20;
inline constexpr uint64_t kLookSoonMillis = 1;

enum class ReplicaState : uint8_t {
  kSeeks,         // what it lacks is looked for in the log's files
  kWaitsForCopy,  // which has not begun
  kCopies,
  kLoads,   // has the copy, and has not acknowledged anything since
  kStreams  // online
};

// What a copy has, and how it comes. Those that ask for the same share one.
struct CopyForm {
  bool has_keys = true;  // rdb-filter-only: without them
  bool has_functions = true;
  bool is_sized = false;  // its size is told first: for those that do not look for a mark

  bool operator==(const CopyForm&) const = default;
};

// A copy of all data, on its way to some replicas.
struct ReplicaCopy {
  ReplicaCopy() : bytes(0, 0) {}
  CopyForm form;
  StreamBuffer bytes;
  std::string mark;                      // stands behind it, unless the form is sized
  StreamPlace place;                     // at its moment
  bool may_attach = false;               // its cut locks exclusively
  std::atomic<bool> is_complete{false};  // all of it is in `bytes`
  std::atomic<uint32_t> readers{0};      // that still want it
  bool has_begun = false;                // proactor 0's: replicas have been told of it
};

// A part of the stream that stands only in the log's files, on its way to a replica.
struct FilePart {
  explicit FilePart(uint64_t begin) : bytes(begin, 0), pin(bytes.Pin(begin)) {}
  StreamBuffer bytes;
  const std::shared_ptr<StreamPin> pin;
  std::atomic<bool> is_complete{false};  // what follows is in the backlog, at Replica::pin
};

// What is known of a replica on all threads. Owner: shared.
struct Replica {
  // Set before others know it.
  uint64_t client_id = 0;
  helio::Proactor* proactor = nullptr;  // its connection's
  ReplicaOffer offer;
  std::string ip;               // as it is to be shown
  bool is_old_command = false;  // it has sent SYNC
  bool is_process = false;      // it takes over, and waits for nobody else who wants a copy
  std::string wanted_id;        // of PSYNC; "?": any
  int64_t wanted_offset = -1;   // the first byte that it lacks
  std::string refusal;          // the error that it gets; proactor 0's
  uint64_t since_ns = 0;

  // Its thread's. Null: its connection has ended.
  ReplicaFeed* feed = nullptr;

  // Thread: any.
  std::atomic<ReplicaState> state{ReplicaState::kWaitsForCopy};
  AckState acks;
  std::atomic<uint64_t> active_ns{0};   // when it last said or took something; monotonic
  std::atomic<uint64_t> acked_ns{0};    // when it last acknowledged; 0: never
  std::shared_ptr<StreamPin> pin;       // in the backlog; set by proactor 0 before it streams
  std::shared_ptr<StreamPin> copy_pin;  // in its copy; set by proactor 0 before it copies
  const ReplicaCopy* copy = nullptr;    // the same; only to compare
};

// It has its copy, or needs none.
inline bool Follows(const Replica& replica) {
  return replica.state == ReplicaState::kStreams || replica.state == ReplicaState::kLoads;
}
inline bool WaitsForCopy(const Replica& replica) {
  return replica.state == ReplicaState::kWaitsForCopy;
}
// Its copy is being made, and nothing of it was sent.
inline bool AwaitsSizedCopy(const Replica& replica) {
  return replica.state == ReplicaState::kCopies && !replica.offer.has_eof &&
         replica.copy_pin->offset == 0;
}

// As it is now. Thread: any.
ReplicaFacts FactsOf(const Replica& replica);

}  // namespace dfly
