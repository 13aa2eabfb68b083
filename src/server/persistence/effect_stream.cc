// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/effect_stream.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/hops/shard_set.h"
#include "engine/journal/sections.h"
#include "helio/base/logging.h"
#include "server/clients/server_state.h"
#include "server/persistence/journal_link.h"
#include "server/persistence/private_commands.h"

namespace dfly {

namespace {

// Nobody waits for a timed epoch; but with replicas, that is how far they are behind.
constexpr uint64_t kListenerPeriodNanos = 1'000'000;

bool HasEffects(const Epoch& epoch) {
  if (epoch.pieces.size() != 1) return true;
  const std::string_view text = epoch.pieces.front();
  return text != kStreamPing && text != kStreamGetAck;
}

}  // namespace

EffectStream::~EffectStream() { CHECK(journal_ == nullptr) << "EffectStream was not closed"; }

uint64_t EffectStream::Open(uint64_t first_epoch, std::string id, uint64_t offset) {
  ++users_;
  const std::lock_guard life(life_mutex_);
  if (journal_ != nullptr) return journal_->open_epoch();
  first_epoch = std::max(first_epoch, last_epoch_ + 1);
  DurableLog* const readers = this;
  journal_ = std::make_unique<Journal>(
      &server_.pool, readers,
      Journal::Options{.pace = Journal::Pace::kTimed,
                       .first_epoch = first_epoch,
                       .period_ns = log_period_ns_,
                       .is_private = &IsPrivateCommand,
                       .on_bytes = [this] {
                         if (log_.load(std::memory_order_acquire) != nullptr) on_bytes_();
                       }});
  Become(std::move(id), offset);
  return first_epoch;
}

void EffectStream::Close() {
  if (--users_ > 0) return;
  const std::lock_guard life(life_mutex_);
  if (users_ > 0 || journal_ == nullptr) return;  // somebody has come, or was here and has gone
  DCHECK(!is_read());
  journal_->Stop();
  last_epoch_ = journal_->newest();
  journal_ = nullptr;
}

uint64_t EffectStream::offset() const {
  const std::lock_guard lock(place_lock_);
  return offset_;
}

uint64_t EffectStream::Cut() {
  const std::lock_guard lock(place_lock_);
  db_index_ = -1;
  return offset_;
}

void EffectStream::Become(std::string id, uint64_t offset) {
  const std::lock_guard lock(place_lock_);
  BecomeLocked(std::move(id), offset);
}

void EffectStream::BecomeLocked(std::string id, uint64_t offset) {
  if (!id.empty()) offset_ = offset;
  id_ = std::make_shared<const std::string>(std::move(id));
  db_index_ = -1;
}

void EffectStream::AttachLog(DurableLog* log, Journal::Pace pace) {
  const bool was_read = is_read();
  if (was_read) (void)journal_->Flush();  // what came before is not for this reader
  log_pace_ = pace;
  log_ = log;
  Cut();
  Link(was_read);
}

void EffectStream::SetLogPace(Journal::Pace pace) {
  log_pace_ = pace;
  Link(true);
}

bool EffectStream::DetachLog() {
  if (listener_ == nullptr) {
    const bool is_durable = UnlinkJournal(server_, journal_.get());
    log_ = nullptr;
    return is_durable;
  }
  const bool is_durable = journal_->Flush();
  log_ = nullptr;
  (void)journal_->Flush();  // an epoch of a key that expires may just be on its way to it
  Link(true);
  // Who has begun to call on_bytes is done: it does not suspend.
  server_.pool.AwaitOnAll([](helio::Proactor*) {});
  return is_durable;
}

void EffectStream::AttachListener(Listener* listener, std::string id, uint64_t offset) {
  const bool was_read = is_read();
  if (was_read) (void)journal_->Flush();
  {
    const std::lock_guard lock(place_lock_);
    BecomeLocked(std::move(id), offset);
    listener_ = listener;
  }
  Link(was_read);
}

void EffectStream::DetachListener() {
  if (log_ == nullptr) {
    (void)UnlinkJournal(server_, journal_.get());
    listener_ = nullptr;
    return;
  }
  listener_ = nullptr;
  (void)journal_->Flush();
  Link(true);
}

void EffectStream::HoldReplies(bool does) {
  holds_replies_ = does;
  {
    const std::lock_guard lock(place_lock_);
    asks_acks_ = does;
  }
  Link(true);
}

void EffectStream::Link(bool was_read) {
  journal_->SetPeriod(listener_ == nullptr ? log_period_ns_ : kListenerPeriodNanos);
  Journal::Pace pace = log_ == nullptr ? Journal::Pace::kTimed : log_pace_;
  if (holds_replies_ && listener_ != nullptr) pace = Journal::Pace::kEach;
  if (was_read) return RelinkJournal(server_, journal_.get(), pace);
  journal_->SetPace(pace);
  LinkJournal(server_, journal_.get(), pace);
}

bool EffectStream::Write(const Epoch& epoch) {
  // Replicas first: they work while the disk does. What a primary loses with its disk is of another
  // history: a start from its log takes a new replication id.
  Place place;
  const Epoch placed = Take(epoch, &place);
  DurableLog* const log = log_.load(std::memory_order_acquire);
  if (log == nullptr || log->Write(placed)) return true;
  return listener_.load(std::memory_order_acquire) != nullptr;  // the log was stopped, and not it
}

Epoch EffectStream::Take(const Epoch& epoch, Place* place) {
  Epoch placed = epoch;
  const bool has_effects = HasEffects(epoch);
  const std::lock_guard lock(place_lock_);
  const bool selects = epoch.first_db != db_index_;
  const bool asks = asks_acks_ && has_effects;
  if (selects || asks) {
    place->pieces.reserve(epoch.pieces.size() + 2);
    if (selects) {
      place->select = SelectCommand(epoch.first_db);
      place->pieces.push_back(place->select);
      placed.first_db = -1;
    }
    place->pieces.insert(place->pieces.end(), epoch.pieces.begin(), epoch.pieces.end());
    if (asks) place->pieces.push_back(kStreamGetAck);
    placed.pieces = place->pieces;
    placed.bytes += place->select.size() + (asks ? kStreamGetAck.size() : 0);
  }
  db_index_ = epoch.last_db;
  place->id = id_;
  placed.stream_id = *place->id;
  placed.stream_offset = offset_;
  offset_ += placed.bytes;
  Listener* const listener = listener_.load(std::memory_order_acquire);
  if (listener != nullptr) {
    const uint64_t effects_end = offset_ - (asks ? kStreamGetAck.size() : 0);
    listener->OnEpoch(placed, has_effects ? effects_end : 0);
  }
  return placed;
}

}  // namespace dfly
