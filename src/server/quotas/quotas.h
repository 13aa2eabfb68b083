// SPDX-License-Identifier: Apache-2.0
// Holds the clients of a thread to the quotas of their users and databases (the setting `quota`).
// docs/quotas.md tells what is limited and what becomes of what is too much.
//
//   Quota         one for each entry of the setting; all threads share it
//   QuotaShare    a thread's part of it: tokens that it took from the buckets ahead, so that a
//                 command mostly costs a subtraction; the connections that wait for tokens; and
//                 what the thread has told of memory
//   SessionQuota  of a session: its two shares, and what was counted. Sessions whose user and
//                 database have none have no such object, and are never looked at
//
// Clients of the admin port, replicas and the primary have no quotas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/clients/session.h"
#include "server/clients/session_quota.h"
#include "server/meters/quota.h"

namespace dfly {

class Shard;
class WorkerState;

// Owner:    a worker; on its thread.
// Suspends: where it says so.
class Quotas : public PerThread<Quotas> {
 public:
  explicit Quotas(WorkerState* worker);
  ~Quotas();

  const QuotaTableRef& table() const { return table_; }
  // CONFIG SET. Who is connected keeps its place; who waits looks anew. No connection is on its way
  // to another thread meanwhile.
  void SetTable(QuotaTableRef table);

  // --- Who a session is ---

  // Before the session becomes this user, or goes to this database: takes a place there. An error:
  // there is none, and nothing has changed.
  [[nodiscard]] std::string EnterUser(Session& session, std::string_view name);
  [[nodiscard]] std::string EnterDatabase(Session& session, int db_index);
  // The session's user, its rights or its database are others now. If it lacks a place its commands
  // are refused until there is one.
  void Update(Session& session) { Put(session, Places::kFree, Places::kFree); }
  // It goes to another thread, and keeps its places.
  void Depart(Session& session);
  // It has come from there.
  void Arrive(Session& session);
  // It is closed.
  void Leave(Session& session);
  // Something was queued in its MULTI, maybe a SELECT.
  void OnQueued(Session& session);
  // Replies or messages are about to be sent to it (Connection::WatchOutput). REQUIRES: the session
  // has a SessionQuota.
  static void OnOutput(Session& session) { ChargeBytes(*session.quotas); }
  // It waits for tokens.
  static bool waits(const Session& session) {
    return session.quotas != nullptr && session.quotas->waits_for != nullptr;
  }
  // What it is answered is limited: it has to be paid for before the next command is taken.
  static bool limits_bytes(const SessionQuota& its) {
    return LimitsBytes(its.user.share) || LimitsBytes(its.db.share);
  }

  // --- Its commands ---

  struct Verdict {
    enum class End : uint8_t {
      kRuns,
      kWaits,    // it is to be held until this thread's timer ends that
      kRefused,  // with `error`
      kClosed,   // the same, and its connection ends
    };
    End end = End::kRuns;
    std::string error;
  };
  // A command is about to be taken; null: there is no such. REQUIRES: the session has a
  // SessionQuota.
  Verdict Take(Session& session, const Command* command, Args args);

  // --- Memory ---

  // Some database has a quota of memory.
  bool limits_databases() const { return !memory_dbs_.empty(); }
  // Why a command with kDenyOom may not run in this database, or change that other one; empty: it
  // may, as on a replica. Counts what it refuses.
  std::string MemoryErrorOf(const Command& command, Args args, int db_index);
  // The same for all that is queued.
  std::string MemoryErrorOf(const Multi& multi);
  // The keys of a shard of this thread have changed.
  void PublishMemory(Shard& shard);
  // Those of all shards have. From a fiber. Suspends.
  static void PublishAll(ServerState& server);
  // The buffers of some connections have changed.
  void OnClientMemory() {
    if (limits_users_memory_ && !memory_timer_.armed()) memory_timer_.ArmIn(memory_rest_ns_);
  }

 private:
  // Clients are added up so often at most, and for a fiftieth of the thread's time.
  static constexpr uint64_t kMemoryNanos = 10'000'000;
  static constexpr uint64_t kMemoryShare = 50;
  // Who waits is looked at so often at most.
  static constexpr uint64_t kTickNanos = 1'000'000;
  // And at who has gone on, until its reply is paid for: about a hop.
  static constexpr uint64_t kPayNanos = 50'000;

  // kNone: it has none, and takes one when there is one.
  enum class Places : uint8_t { kFree, kAny, kNone };

  static bool LimitsBytes(const QuotaShare* share) {
    return share != nullptr && share->quota->bytes.is_limited();
  }
  QuotaShare* ShareOf(std::string_view user) const;
  QuotaShare* ShareOf(int db_index) const;
  static bool HasTokens(QuotaShare& share);
  static bool IsLimited(const Session& session);
  SessionQuota& QuotaOf(Session& session);
  std::string Enter(Session& session, QuotaShare* share, QuotaSeat SessionQuota::*seat);
  void Put(Session& session, Places user_place, Places db_place);
  static void ChargeBytes(SessionQuota& its);
  // Takes a token for a command that is not refused, if there is one.
  static void ChargeExempt(SessionQuota& its);
  // Charges those of its sessions that were answered meanwhile.
  static void LetPay(QuotaShare& share);
  // Who has no place for it; null: it has all.
  QuotaShare* LackedPlace(SessionQuota& its);
  bool IsExempt(const Session& session, const Command& command, Args args) const;
  Verdict TakeTokens(SessionQuota& its, QuotaShare* db);
  Verdict Wait(SessionQuota& its, QuotaShare& share);
  void OnTimer();
  void ArmFor(const QuotaShare& share);
  void OnMemoryTimer();
  void Tell(QuotaShare& share, size_t part, int64_t bytes, int64_t quantum);
  void TakeBackTold();
  void EvictAbove(const QuotaShare& share);

  WorkerState& worker_;
  ServerState& server_;
  const Command* const exec_;
  const Command* const discard_;
  const Command* const hello_;
  QuotaTableRef table_;
  std::vector<std::unique_ptr<QuotaShare>> shares_;
  std::map<std::string, QuotaShare*, std::less<>> users_;
  std::vector<QuotaShare*> dbs_;         // by index; null: it has none
  std::vector<QuotaShare*> memory_dbs_;  // that have a quota of memory
  bool limits_users_memory_ = false;
  uint64_t memory_rest_ns_ = kMemoryNanos;  // until clients are added up the next time
  bool releases_all_ = false;
  const SessionQuota* releasing_ = nullptr;  // goes on, before those who wait behind it
  OwnedTimer<&Quotas::OnTimer> timer_;       // armed while a connection waits
  OwnedTimer<&Quotas::OnMemoryTimer> memory_timer_;
};

}  // namespace dfly
