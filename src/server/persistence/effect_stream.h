// SPDX-License-Identifier: Apache-2.0
// The stream of effects of all shards: one journal, and who reads it.
//
//   units --Journal--> EffectStream --> the listener (replication)
//                                   --> the append-only log
//
// While nobody reads it there is no journal, and the shards note nothing.
//
// All readers get the same bytes: what the log has is what replicas got. So the stream says where a
// SELECT stands, and counts its bytes; and it tells, once there is a replica, of which replication
// stream the epochs are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/journal/journal.h"
#include "helio/base/spin_lock.h"
#include "helio/fibers/sync.h"

namespace dfly {

struct ServerState;

// What the primary says in the stream besides effects. Replicas need not have it.
inline constexpr std::string_view kStreamPing = "*1\r\n$4\r\nPING\r\n";
inline constexpr std::string_view kStreamGetAck =
    "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

// Owner:    the server. Its state belongs to proactor 0, and so do all methods.
// Suspends: what says so.
class EffectStream final : private DurableLog {
 public:
  // Who has to know each epoch, before it is on the disk. It begins with SELECT where its database
  // is not the one behind the epoch before (first_db is -1 then).
  class Listener {
   public:
    // `effects_end`: the offset behind its last effect; 0: it has none, and is a PING or the like.
    // Thread: any proactor's, one call at a time, in the order of the epochs. Suspends: never.
    virtual void OnEpoch(const Epoch& epoch, uint64_t effects_end) = 0;

   protected:
    ~Listener() = default;
  };

  // `server` outlives it.
  explicit EffectStream(ServerState* server) : server_(*server) {}
  ~EffectStream();
  EffectStream(const EffectStream&) = delete;
  EffectStream& operator=(const EffectStream&) = delete;

  // There is a journal until as many have called Close as Open. Returns the number of the next
  // epoch. If there was no journal that is at least `first_epoch`, and the stream is the
  // replication stream `id` from `offset` on (Become). Suspends.
  uint64_t Open(uint64_t first_epoch, std::string id = "", uint64_t offset = 0);
  // REQUIRES: Open, and its caller does not read any more. Suspends.
  void Close();
  // The newest so far; 0: there was none.
  uint64_t last_epoch() const { return journal_ == nullptr ? last_epoch_ : journal_->newest(); }
  // The next journal's epochs are behind this one, which was another process'. REQUIRES: it is not
  // open.
  void GoOnBehind(uint64_t epoch) { last_epoch_ = std::max(last_epoch_, epoch); }
  // Null: it is not open.
  Journal* journal() { return journal_.get(); }
  const Journal* journal() const { return journal_.get(); }

  // Where its next byte goes. Thread: any.
  uint64_t offset() const;
  // The same, and that byte begins a SELECT: what is before is of another reader. Thread: any. An
  // epoch that is written at the same time is whole before it, or behind it.
  uint64_t Cut();
  // From its next byte on it is the replication stream `id`, at `offset`; an empty id: of none, and
  // it goes on where it is. It begins with SELECT.
  void Become(std::string id, uint64_t offset);

  // --- REQUIRES: it is open, and no unit is under way, and none begins meanwhile: nobody is served
  // yet, or the caller has locked all shards. All suspend ---

  // From the next epoch on the log gets them, and clients wait for it if the pace says so.
  void AttachLog(DurableLog* log, Journal::Pace pace);
  void SetLogPace(Journal::Pace pace);
  // False: the log had stopped before it had all of them.
  [[nodiscard]] bool DetachLog();
  // It gets the replication stream `id`, whose next byte is at `offset` (Become).
  void AttachListener(Listener* listener, std::string id, uint64_t offset);
  void DetachListener();
  // Whether replies wait for epochs, as Journal::SetReplyLimit lets them, whatever the log's pace;
  // then each epoch ends at once, and with the question how far replicas are.
  void HoldReplies(bool does);

  // Of timed epochs, while nobody but the log reads them. Before Open.
  void set_log_period(uint64_t nanos) { log_period_ns_ = nanos; }
  // Journal::Options::on_bytes, while there is a log. Before the first Open.
  void set_on_bytes(std::function<void()> on_bytes) { on_bytes_ = std::move(on_bytes); }

 private:
  // Where an epoch stands.
  struct Place {
    std::string select;  // that it begins with
    std::vector<std::string_view> pieces;
    std::shared_ptr<const std::string> id;
  };

  void BecomeLocked(std::string id, uint64_t offset);
  bool Write(const Epoch& epoch) override;
  // The epoch as the readers get it. The listener has got it.
  Epoch Take(const Epoch& epoch, Place* place);
  bool is_read() const { return log_ != nullptr || listener_ != nullptr; }
  // What the shards and replies have to know, after the readers have changed.
  void Link(bool was_read);

  ServerState& server_;
  std::function<void()> on_bytes_;
  uint32_t users_ = 0;       // Open without its Close
  helio::Mutex life_mutex_;  // held while the journal is made and while it ends
  std::unique_ptr<Journal> journal_;
  uint64_t last_epoch_ = 0;  // of all journals so far; gates are open for them (ReplyGate)
  uint64_t log_period_ns_ = Journal::Options{}.period_ns;
  Journal::Pace log_pace_ = Journal::Pace::kTimed;
  bool holds_replies_ = false;
  std::atomic<DurableLog*> log_{nullptr};     // read by whoever leads
  std::atomic<Listener*> listener_{nullptr};  // the same

  mutable helio::SpinLock place_lock_;  // guards what follows, and the order of OnEpoch
  int db_index_ = -1;                   // selected at its end; -1: none
  bool asks_acks_ = false;
  uint64_t offset_ = 0;
  std::shared_ptr<const std::string> id_ = std::make_shared<const std::string>();
};

}  // namespace dfly
