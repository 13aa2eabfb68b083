// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/effect_stream.h"

#include <algorithm>

#include "engine/hops/shard_set.h"
#include "helio/base/logging.h"
#include "server/clients/server_state.h"
#include "server/persistence/journal_link.h"
#include "server/persistence/private_commands.h"

namespace dfly {

namespace {

// Nobody waits for a timed epoch; but with replicas, that is how far they are behind.
constexpr uint64_t kListenerPeriodNanos = 1'000'000;

}  // namespace

EffectStream::~EffectStream() { CHECK(journal_ == nullptr) << "EffectStream was not closed"; }

uint64_t EffectStream::Open(uint64_t first_epoch) {
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
  return first_epoch;
}

void EffectStream::Close() {
  if (journal_ == nullptr || is_read()) return;
  journal_->Stop();
  last_epoch_ = journal_->newest();
  journal_ = nullptr;
}

void EffectStream::AttachLog(DurableLog* log, Journal::Pace pace) {
  const bool was_read = is_read();
  if (was_read) (void)journal_->Flush();  // what came before is not for this reader
  log_pace_ = pace;
  log_ = log;
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

void EffectStream::AttachListener(Listener* listener) {
  const bool was_read = is_read();
  if (was_read) (void)journal_->Flush();
  listener_ = listener;
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

void EffectStream::Link(bool was_read) {
  journal_->SetPeriod(listener_ == nullptr ? log_period_ns_ : kListenerPeriodNanos);
  const Journal::Pace pace = log_ == nullptr ? Journal::Pace::kTimed : log_pace_;
  if (was_read) return RelinkJournal(server_, journal_.get(), pace);
  journal_->SetPace(pace);
  LinkJournal(server_, journal_.get(), pace);
}

bool EffectStream::Write(const Epoch& epoch) {
  // Replicas first: they work while the disk does. What a primary loses with its disk is of another
  // history: a start from its log takes a new replication id.
  Listener* const listener = listener_.load(std::memory_order_acquire);
  if (listener != nullptr) listener->OnEpoch(epoch);
  DurableLog* const log = log_.load(std::memory_order_acquire);
  if (log == nullptr || log->Write(epoch)) return true;
  return listener != nullptr;  // the log was stopped; the stream goes on
}

}  // namespace dfly
