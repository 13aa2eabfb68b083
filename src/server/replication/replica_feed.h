// SPDX-License-Identifier: Apache-2.0
// What one replica gets: first a copy, if it needs one, then the stream, both through the output of
// its connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "server/clients/output_feed.h"
#include "server/replication/replica.h"

namespace dfly {

class Replicas;
class Session;

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
