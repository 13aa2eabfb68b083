// SPDX-License-Identifier: Apache-2.0
// What one replica gets: first a copy, if it needs one, then the stream, both through the output of
// its connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "helio/proactor/proactor.h"
#include "server/clients/output_feed.h"
#include "server/replication/ack_quorum.h"
#include "server/replication/stream_buffer.h"
#include "storage/snapshot_extras.h"

namespace dfly {

class ReplicaFeed;
class Replicas;
class Session;

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

// Owner:    the session, on its thread.
// Suspends: never.
class ReplicaFeed final : public OutputFeed {
 public:
  ReplicaFeed(Replicas* replicas, Session* session, std::shared_ptr<Replica> replica);
  ~ReplicaFeed() override;

  // Sends `reply`, and then the stream from the replica's pin on; before that `part`, if there is
  // one.
  void BeginStream(std::string_view reply, std::shared_ptr<FilePart> part = nullptr);
  // Sends `reply`, and then the copy from `pin` on, which is in copy->bytes.
  void BeginCopy(std::string_view reply, std::shared_ptr<ReplicaCopy> copy,
                 std::shared_ptr<StreamPin> pin);
  // The copy cannot be finished, or the replica does not do its part. `why`: for the log.
  void End(std::string_view why) override;
  // It gets this error, and nothing else.
  void Refuse(std::string_view error);
  // A line without meaning, so that the replica sees that somebody is there.
  void KeepAlive();
  void OnAck(uint64_t offset, std::optional<uint64_t> durable);
  // Sends what there is, as far as there is room.
  void Pump();

  const std::shared_ptr<Replica>& replica() const { return replica_; }

  void OnRoom() override { Pump(); }
  void OnClosing() override;
  size_t held_bytes() const override;

 private:
  static constexpr size_t kUnsentMax = 512 * 1024;

  // True: there is more, and no room for it.
  bool Push(StreamBuffer& from, StreamPin& pin);
  void BeginToFollow();
  void EndCopy();
  void LeaveCopy();

  Replicas& replicas_;
  Session& session_;
  const std::shared_ptr<Replica> replica_;
  std::shared_ptr<ReplicaCopy> copy_;  // null: it streams, or waits
  std::shared_ptr<StreamPin> copy_pin_;
  std::shared_ptr<FilePart> part_;  // comes before the backlog
  bool has_pin_ = false;            // in the backlog
  bool streams_ = false;
  bool is_pumping_ = false;
};

// Calls function(ReplicaFeed&) on the feed's thread, if it is still there then. Thread: any.
template <typename Function>
void OnFeed(const std::shared_ptr<Replica>& replica, Function function) {
  replica->proactor->Dispatch([replica, function = std::move(function)] {
    if (replica->feed != nullptr) function(*replica->feed);
  });
}

}  // namespace dfly
