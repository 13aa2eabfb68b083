// SPDX-License-Identifier: Apache-2.0
// A unit of work that holds its intents on one or several shards over any number of hops.
//
//   Transaction tx(cx);
//   tx.Lock(shard, {fingerprint, LockMode::kExclusive});   // all that it is going to touch
//   if (!tx.Run([&](Shard& shard) { ... })) return;        // one hop, and that was it
//
// or, with more than one hop,
//
//   if (!tx.Schedule()) return;
//   tx.Hop([&](Shard& shard) { ... });
//   tx.HopOn(some, [&](Shard& shard) { ... });
//   tx.Conclude();
//
// engine/queue/tx_queue.h tells what happens on each shard. Announcing itself costs a message to
// each shard; the last of them to grant what it wants sends the first hop's messages itself (Run),
// or calls the coordinator. A refusal anywhere starts it again there and then, with a new number.
//
// Giving up. One that would have to wait for a slow script (SlowScripts) is taken back on all its
// shards, if its command allows that, and so is one that is cancelled: the first call returns
// false, and it has done nothing. Any of its shards may find that out, when it is announced there
// or while it waits, and another one may grant it the last thing that it waits for meanwhile.
// `waits_` decides: it is 0 from the moment when all have granted (it runs), and has the bit
// kGivesUp from the moment when one of them has given up (it never becomes 0 then); each is one
// atomic change, and possible only before the other. Who sets the bit takes it back, but while it
// is being announced: then the last of its shards to have heard of it does, as only one message at
// a time is under way to each. On a single shard its thread decides everything.
#pragma once

#include <absl/container/inlined_vector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/hops/coordinator.h"
#include "engine/hops/shard_set.h"
#include "engine/queue/tx_queue.h"
#include "helio/fibers/hold.h"
#include "helio/fibers/sync.h"

namespace dfly {

// Owner:    the fiber that runs it; between the calls that suspend nobody else touches it.
// Suspends: what says so.
class Transaction {
 public:
  // Past these it reserves its places first, which is not refused but takes a message more.
  static constexpr uint32_t kRefusalsMax = 3;

  // `clock_ms`: see TxEntry.
  Transaction(ShardSet* shards, Transaction* outer, int64_t clock_ms = INT64_MAX)
      : shards_(*shards), outer_(outer), clock_ms_(clock_ms) {}
  // For what it is the outer one of: somebody has all their locks by other means.
  struct IsLocked {};
  // `unit`: its effects are a part of that; null: nobody wants to know them.
  Transaction(ShardSet* shards, IsLocked, Unit* unit)
      : shards_(*shards),
        outer_(nullptr),
        is_locked_(true),
        locked_unit_(unit),
        records_(unit != nullptr),
        is_scheduled_(true) {}
  // Of one command. If that is a part of an EXEC, its hops are hops of that one, which has all the
  // locks: on its own it does nothing.
  explicit Transaction(CoordinatorContext& cx)
      : Transaction(&cx.shards(), cx.outer(), cx.now_ms()) {
    if (cx.may_be_refused()) refusable_ = &cx;
    command_ = &cx;
    timed_ = &cx;
    origin_ = cx.origin();
    client_ = cx.client();
    notes_reads_ = cx.notes_reads();
  }
  // Concludes if need be, so that no error path keeps its locks. Suspends then.
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // What it wants, before the first call below. A tag may come several times.
  void Lock(ShardId shard, TagLock tag) { wanted_.push_back({shard, tag}); }
  // There will be so many.
  void ReserveLocks(size_t count) { wanted_.reserve(count); }
  // See TxEntry::owner. Before Schedule.
  void set_owner(const void* owner) { owner_ = owner; }
  // For those who wait for it; of a command, the context's. Before the first call below.
  void set_origin(const TxOrigin& origin) { origin_ = origin; }
  // Once `flag` is set and CancelWaiters was called on all shards it does not wait for locks any
  // more: the first call below returns false, or the locks have come. `flag` outlives it. Before
  // the first call below.
  void set_cancelled(const std::atomic<bool>* flag) { cancelled_ = flag; }
  // All of all shards, instead of tags.
  void LockAllShards(LockMode mode);

  // One of these three is the first call. False: its command is refused (CoordinatorContext), and
  // it is over.

  // Calls function(ShardTurn&) on all its shards at once, and concludes. Suspends.
  template <typename Function>
  [[nodiscard]] bool Run(Function function) {
    SetWork(function);
    return StartRun(true);
  }
  // Announces itself, and calls function(ShardTurn&) on all its shards as soon as it has its locks,
  // which it keeps. Suspends.
  template <typename Function>
  [[nodiscard]] bool ScheduleAndHop(Function function) {
    SetWork(function);
    return StartRun(false);
  }
  // Announces itself, and returns when it has its locks. Suspends.
  [[nodiscard]] bool Schedule();

  bool is_scheduled() const { return is_scheduled_; }

  // Somebody wants to know what it does, and it may change something. From when it has its locks.
  bool records() const { return records_; }
  // What the command does, see Unit::Tell. REQUIRES: records().
  template <typename... Words>
  void Tell(int db_index, const Words&... words) {
    TellWords(db_index, {EffectWord(words).text()...});
  }
  void TellAll(int db_index, std::span<const std::string_view> words) {
    unit().Tell(db_index, words);
  }
  // REQUIRES: no hop is under way.
  Unit& unit() {
    if (outer_ != nullptr) return outer_->unit();
    return locked_unit_ != nullptr ? *locked_unit_ : unit_;
  }
  // Calls function(ShardTurn&) on all its shards at once. Suspends.
  template <typename Function>
  void Hop(Function function) {
    SetWork(function);
    StartHop(ids_, false);
  }
  // The same on some of its shards.
  template <typename Function>
  void HopOn(std::span<const ShardId> ids, Function function) {
    SetWork(function);
    StartHop(ids, false);
  }
  // A last hop on some of its shards; ends on all.
  template <typename Function>
  void HopAndConclude(std::span<const ShardId> ids, Function function) {
    SetWork(function);
    StartHop(ids, true);
  }
  // Lets its intents go. Suspends.
  void Conclude();
  // It keeps its locks beyond the end of this fiber, and another one concludes it. From here on
  // nobody is checked to wait for hops only: the caller sees to it that what is waited for until
  // then needs no locks.
  void OutliveFiber() { holding_.End(); }
  // For other entries of the one that has it.
  helio::Hold* holding() { return outer_ != nullptr ? outer_->holding() : &holding_; }

  // The shards it is on.
  std::span<const ShardId> shard_ids() const { return ids_; }
  uint32_t attempts() const { return attempts_; }

  // Those that wait on the shard for a script that is slow, and may be refused, give up. On its
  // thread.
  static void RefuseWaiters(Shard& shard, SlowScripts* slow);
  // Those that wait and are cancelled give up. On the shard's thread.
  static void CancelWaiters(Shard& shard);

 private:
  struct Wanted {
    ShardId shard;
    TagLock tag;
  };
  // Its stand on one shard. `message` carries it there, and is free again when it runs.
  struct Part : TxEntry, helio::Message {
    Transaction* tx = nullptr;
    ShardId shard = 0;
    bool works = false;         // in this hop; else it only concludes
    bool is_announced = false;  // in this attempt
    bool is_reserved = false;
    bool waits = false;  // and is not granted yet
  };
  // An exception ends the process there: half a hop cannot be taken back.
  using WorkFn = void (*)(void* function, ShardTurn& turn) noexcept;

  template <typename Function>
  void SetWork(Function& function) {
    work_arg_ = &function;
    work_ = [](void* arg, ShardTurn& turn) noexcept { (*static_cast<Function*>(arg))(turn); };
  }

  void TellWords(int db_index, std::initializer_list<std::string_view> words) {
    TellAll(db_index, std::span(words.begin(), words.size()));
  }
  void Prepare();
  // The effects of its command begin, and end: then they are delivered before its intents go. If
  // somebody wants to know them a hop that ends it is two, as they are not known before.
  // Whether somebody does is asked with its locks: the sink comes and goes while all shards are
  // locked. On the thread of a shard, or the coordinator's if the locks are the outer one's.
  void BeginEffects();
  void EndEffects();
  bool Writes() const;
  // What its shards did in a hop.
  void MergeParts();
  bool StartRun(bool concludes);
  bool AwaitLocks();  // what the first call returns
  void NoteWait(int64_t begin_cycles);
  void StartHop(std::span<const ShardId> ids, bool concludes);
  void AnnounceAll();  // with a new number
  void ReserveAll();
  void TakeBack(Part* part);  // what is left of the attempt before, on the part's shard
  void SendHop();             // to all parts that work or conclude
  void Send(Part* part, helio::Message::RunFn run);
  void CallHome();
  // One thing less to wait for before the first hop: 1 or kAnnounces.
  void OnReady(uint32_t what);
  // On the part's shard: gives up, if it is cancelled or waits there for a slow script, and if it
  // is not too late. False: it did not. True and a single shard: it may be gone.
  bool MayGiveUp(Part* part);
  bool GiveUp(Part* part, Slow what);
  bool IsCancelled() const {
    return cancelled_ != nullptr && cancelled_->load(std::memory_order_acquire);
  }
  void TakeBackAll();

  // On a shard's thread.
  static void OnAnnounce(helio::Message* message);
  static void OnReserve(helio::Message* message);
  static void OnTakeBack(helio::Message* message);
  static void OnGranted(TxEntry* entry);
  static bool OnRevoked(TxEntry* entry);
  static void OnHop(helio::Message* message);
  static bool RunPart(TxEntry* entry);
  static void PartDone(TxEntry* entry);

  struct HomeCall : helio::Message {
    using Message::Message;
    Transaction* tx = nullptr;
  };

  // Of a hop to one shard.
  ShardId OnlyShard() const;
  // The shards of tags_, or all of them, into ids_.
  void CollectShards();
  void HopOfOuter(std::span<const ShardId> ids);
  void HopLocked(std::span<const ShardId> ids);

  ShardSet& shards_;
  Transaction* const outer_;
  const bool is_locked_ = false;
  Unit* const locked_unit_ = nullptr;
  CoordinatorContext* command_ = nullptr;  // null: no single command
  bool records_ = false;
  bool has_begun_effects_ = false;
  bool in_command_ = false;  // its effects have begun, and are not at their end
  Unit unit_;                // of the outermost
  std::unique_ptr<Unit[]> part_units_;
  const int64_t clock_ms_ = INT64_MAX;
  const void* owner_ = nullptr;
  CoordinatorContext* refusable_ = nullptr;  // null: it waits for whatever there is
  const std::atomic<bool>* cancelled_ = nullptr;
  bool has_given_up_ = false;
  Slow given_up_for_ = Slow::kNone;
  CoordinatorContext* timed_ = nullptr;  // that wants to know where its time goes
  int64_t granted_at_ = 0;               // in cycles; 0: at once, on a single shard
  TxOrigin origin_;
  const CachingClient* client_ = nullptr;  // of the hop that is under way
  bool notes_reads_ = false;
  helio::Proactor* home_ = nullptr;
  absl::InlinedVector<Wanted, 8> wanted_;
  absl::InlinedVector<TagLock, 8> tags_;  // of all parts, each part's together
  std::optional<LockMode> all_shards_;
  absl::InlinedVector<ShardId, 8> ids_;
  std::unique_ptr<Part[]> parts_;
  size_t parts_count_ = 0;
  WorkFn work_ = nullptr;
  void* work_arg_ = nullptr;
  HomeCall home_call_;
  // From when it has its locks until it has concluded, its fiber waits for hops only, and for what
  // says why it ends.
  helio::Hold holding_;
  std::optional<helio::BlockingCounter> at_home_;
  bool is_scheduled_ = false;
  bool runs_at_once_ = false;  // the first hop follows the announcement
  bool concludes_ = false;     // with the hop under way
  uint32_t attempts_ = 0;
  uint64_t number_ = 0;                  // of this attempt
  std::atomic<uint32_t> left_{0};        // parts that have not answered
  std::atomic<bool> is_refused_{false};  // somewhere, in this attempt
  // Parts that wait to be granted, kAnnounces until all are announced without a refusal, and
  // kGivesUp.
  static constexpr uint32_t kAnnounces = 1u << 30;
  static constexpr uint32_t kGivesUp = 1u << 31;
  std::atomic<uint32_t> waits_{kAnnounces};
};

}  // namespace dfly
