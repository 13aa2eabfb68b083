// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replica_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "facade/connection.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/clients/client_limiter.h"
#include "server/clients/session.h"
#include "server/replication/replicas.h"

namespace dfly {

ReplicaFeed::ReplicaFeed(Replicas* replicas, Session* session, std::shared_ptr<Replica> replica)
    : replicas_(*replicas), session_(*session), replica_(std::move(replica)) {
  replica_->feed = this;
  replicas_.feeds().Add(this);
}

ReplicaFeed::~ReplicaFeed() { DCHECK(replica_->feed == nullptr) << "OnClosing was not called"; }

void ReplicaFeed::OnClosing() {
  if (std::exchange(replica_->feed, nullptr) == nullptr) return;
  LeaveCopy();
  replicas_.feeds().Remove(this);
  replicas_.OnEnded(replica_);
}

size_t ReplicaFeed::held_bytes() const {
  if (!has_pin_) return 0;
  return replicas_.backlog().end() - replica_->pin->offset.load(std::memory_order_relaxed);
}

void ReplicaFeed::BeginStream(std::string_view reply, std::shared_ptr<FilePart> part) {
  if (!reply.empty()) session_.connection.PushMessage(reply);
  part_ = std::move(part);
  has_pin_ = part_ == nullptr;
  streams_ = true;
  Pump();
}

void ReplicaFeed::BeginCopy(std::string_view reply, std::shared_ptr<ReplicaCopy> copy,
                            std::shared_ptr<StreamPin> pin) {
  if (!reply.empty()) session_.connection.PushMessage(reply);
  has_pin_ = true;
  copy_ = std::move(copy);
  copy_pin_ = std::move(pin);
  Pump();
}

void ReplicaFeed::End(std::string_view why) {
  if (session_.connection.closing()) return;
  LOG(WARNING) << "closing the connection of the replica " << replica_->ip << ":"
               << replica_->offer.port << ": " << why;
  session_.connection.CloseNow();
}

void ReplicaFeed::Refuse(std::string_view error) {
  session_.connection.PushMessage(fmt::format("-{}\r\n", error));
  session_.connection.CloseWhenSent();
}

void ReplicaFeed::KeepAlive() {
  if (copy_ != nullptr && copy_pin_->offset != 0) return;  // it would be a part of the copy
  replica_->active_ns = helio::MonotonicNanos();
  session_.connection.PushMessage("\n");
}

void ReplicaFeed::OnAck(uint64_t offset, std::optional<uint64_t> durable) {
  if (std::max(offset, durable.value_or(0)) > replicas_.backlog().end()) {
    return End(fmt::format("it acknowledges {}, which it was never sent", offset));
  }
  const uint64_t now_ns = helio::MonotonicNanos();
  replica_->active_ns = now_ns;
  replica_->acked_ns = now_ns;
  AckState& acks = replica_->acks;
  if (offset > acks.received) acks.received = offset;
  if (durable && *durable > acks.durable) acks.durable = *durable;
  if (replica_->state == ReplicaState::kLoads) {
    BeginToFollow();
    replicas_.feeds().PumpSoon();  // not now: this is the middle of a command
  }
  replicas_.OnAck();
}

void ReplicaFeed::Pump() {
  if (is_pumping_ || session_.connection.is_leaving()) return;
  is_pumping_ = true;
  bool is_full = false;
  if (copy_ != nullptr) {
    is_full = Push(copy_->bytes, *copy_pin_);
    if (!is_full && copy_->is_complete && copy_pin_->offset == copy_->bytes.end()) EndCopy();
  }
  if (part_ != nullptr) {
    is_full = Push(part_->bytes, *part_->pin);
    if (!is_full && part_->is_complete && part_->pin->offset == part_->bytes.end()) {
      part_ = nullptr;
      has_pin_ = true;
    }
  }
  if (streams_ && has_pin_ && copy_ == nullptr && !is_full)
    is_full = Push(replicas_.backlog(), *replica_->pin);
  // The stream goes on while it copies or loads, and is kept for it.
  if (has_pin_ && !streams_) replicas_.feeds().WantWake();
  session_.connection.set_wants_room(is_full);
  is_pumping_ = false;
  if (session_.connection.closing()) return;
  if (held_bytes() > 0) ClientLimiter::Here().CheckOutput(session_);
}

bool ReplicaFeed::Push(StreamBuffer& from, StreamPin& pin) {
  Connection& connection = session_.connection;
  std::shared_ptr<const char[]> holder;
  uint64_t offset = pin.offset.load(std::memory_order_relaxed);
  bool is_full = false;
  while (true) {
    is_full = connection.unsent_bytes() >= kUnsentMax;
    if (is_full || connection.is_leaving()) break;
    const std::string_view bytes = from.Read(offset, &holder);
    if (bytes.empty()) {
      // Asked first, and then looked once more: who publishes does it the other way round.
      replicas_.feeds().WantWake();
      if (from.end() == offset) break;
      continue;
    }
    connection.PushMessage(bytes);
    offset += bytes.size();
    replica_->active_ns.store(helio::MonotonicNanos(), std::memory_order_relaxed);
  }
  pin.offset.store(offset, std::memory_order_release);
  return is_full;
}

void ReplicaFeed::BeginToFollow() {
  replica_->state = ReplicaState::kStreams;
  streams_ = true;
  LOG(INFO) << "the replica " << replica_->ip << ":" << replica_->offer.port
            << " has its copy and follows";
}

void ReplicaFeed::EndCopy() {
  const bool is_sized = copy_->form.is_sized;
  LeaveCopy();
  if (replica_->offer.is_rdb_only) return session_.connection.CloseWhenSent();
  if (is_sized) return BeginToFollow();  // it knows where the copy ends, and may never acknowledge
  // Not a byte of the stream before its acknowledgement: replicas look for the end of the copy only
  // at the end of what they have just read.
  replica_->state = ReplicaState::kLoads;
}

void ReplicaFeed::LeaveCopy() {
  if (copy_ == nullptr) return;
  copy_->bytes.Unpin(copy_pin_);
  copy_->readers.fetch_sub(1);
  copy_ = nullptr;
}

}  // namespace dfly
