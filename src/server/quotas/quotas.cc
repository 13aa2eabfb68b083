// SPDX-License-Identifier: Apache-2.0
#include "server/quotas/quotas.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/base/words.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"

namespace dfly {

namespace {

// After a pass over all clients that found nobody to end.
constexpr uint64_t kBarrenRestNanos = 20'000'000;

void Count(std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

bool Fill(TokenBucket& bucket, int64_t* left) {
  if (!bucket.is_limited() || *left > 0) return true;
  const int64_t portion = bucket.portion();
  if (!bucket.TryTake(helio::MonotonicNanos(), portion)) return false;
  *left = portion;
  return true;
}

// All that it has sent and that was carried out, and all that it was answered.
uint64_t TrafficOf(const Connection& connection) {
  return connection.executed_bytes() + connection.sent_bytes() + connection.unsent_bytes();
}

std::string RateError(const Quota& quota, bool lacks_commands) {
  const QuotaLimits limits = quota.limits();
  if (lacks_commands) {
    return fmt::format("QUOTA {} may run {} commands in a second", quota.Name(), limits.commands);
  }
  return fmt::format("QUOTA {} may send and receive {} bytes in a second", quota.Name(),
                     limits.bytes);
}

std::string NoPlaceError(const Quota& quota) {
  return fmt::format("QUOTA {} has as many connections as it may have, {}", quota.Name(),
                     quota.connections_max());
}

// Takes one, or counts that there is none.
bool TakePlace(Quota& quota) {
  if (quota.TakePlace()) return true;
  Count(quota.counters.refused_connections);
  return false;
}

void LeaveShare(QuotaSeat& seat) {
  if (seat.share != nullptr && seat.has_place) seat.share->quota->GivePlace();
  seat.Unlink();
  seat.share = nullptr;
  seat.has_place = false;
}

}  // namespace

Quotas::Quotas(WorkerState* worker)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      exec_(server_.commands.FindByName("exec")),
      discard_(server_.commands.FindByName("discard")),
      hello_(server_.commands.FindByName("hello")),
      timer_(this, &worker->proactor),
      memory_timer_(this, &worker->proactor) {
  SetTable(server_.quotas);
}

Quotas::~Quotas() = default;

void Quotas::SetTable(QuotaTableRef table) {
  // Who had no place of a quota that stays gets none by the change.
  absl::flat_hash_map<const Session*, std::pair<Places, Places>> places;
  worker_.ForEachSession([&](Session& session) {
    const SessionQuota* const its = session.quotas.get();
    if (its == nullptr) return;
    releases_all_ |= its->waits_for != nullptr;
    const auto place_of = [](const QuotaSeat& seat) {
      return seat.share == nullptr || seat.has_place ? Places::kAny : Places::kNone;
    };
    places[&session] = {place_of(its->user), place_of(its->db)};
    Leave(session);
  });
  TakeBackTold();
  // They live until the end: whoever is in this call may have one.
  const auto before = std::exchange(shares_, {});
  users_.clear();
  memory_dbs_.clear();
  dbs_.assign(static_cast<size_t>(server_.shards->db_count()), nullptr);
  limits_users_memory_ = false;
  table_ = std::move(table);
  for (const auto& [owner, quota] : *table_) {
    shares_.push_back(std::make_unique<QuotaShare>(quota));
    QuotaShare* const share = shares_.back().get();
    share->told_bytes.resize(owner.is_user() ? 1 : server_.shards->size());
    if (owner.is_user()) {
      users_[owner.user] = share;
      limits_users_memory_ |= quota->memory_max() != 0;
    } else {
      dbs_[static_cast<size_t>(owner.db_index)] = share;
      if (quota->memory_max() != 0) memory_dbs_.push_back(share);
    }
  }
  worker_.ForEachSession([&](Session& session) {
    const auto it = places.find(&session);
    const auto [user, db] = it != places.end() ? it->second : std::pair(Places::kAny, Places::kAny);
    Put(session, user, db);
    if (session.multi != nullptr) OnQueued(session);
  });
  worker_.ForEachShard([this](Shard& shard) { PublishMemory(shard); });
  OnClientMemory();
  if (releases_all_) timer_.ArmIn(0);  // the connections go on in the next iteration
}

// Of both kinds, if both are limited.
bool Quotas::HasTokens(QuotaShare& share) {
  return Fill(share.quota->commands, &share.commands) && Fill(share.quota->bytes, &share.bytes);
}

// --- Who a session is ---

QuotaShare* Quotas::ShareOf(std::string_view user) const {
  const auto it = users_.find(user);
  return it == users_.end() ? nullptr : it->second;
}

QuotaShare* Quotas::ShareOf(int db_index) const { return dbs_[static_cast<size_t>(db_index)]; }

bool Quotas::IsLimited(const Session& session) {
  return session.user.is_authenticated && !session.user.is_admin && session.primary == nullptr;
}

SessionQuota& Quotas::QuotaOf(Session& session) {
  if (session.quotas == nullptr) {
    session.quotas = std::make_unique<SessionQuota>();
    session.quotas->session = &session;
    session.quotas->charged_bytes = TrafficOf(session.connection);
  }
  return *session.quotas;
}

std::string Quotas::Enter(Session& session, QuotaShare* share, QuotaSeat SessionQuota::*seat) {
  if (share == nullptr) return "";
  if (session.quotas != nullptr) {
    const QuotaSeat& before = (*session.quotas).*seat;
    if (before.share == share && before.has_place) return "";
  }
  if (!TakePlace(*share->quota)) return NoPlaceError(*share->quota);
  SessionQuota& quota = QuotaOf(session);
  ChargeBytes(quota);
  QuotaSeat& its = quota.*seat;
  LeaveShare(its);
  its.share = share;
  its.has_place = true;
  return "";
}

std::string Quotas::EnterUser(Session& session, std::string_view name) {
  if (session.user.is_admin) return "";
  return Enter(session, ShareOf(name), &SessionQuota::user);
}

std::string Quotas::EnterDatabase(Session& session, int db_index) {
  if (!IsLimited(session)) return "";
  return Enter(session, ShareOf(db_index), &SessionQuota::db);
}

void Quotas::Put(Session& session, Places user_place, Places db_place) {
  const bool is_limited = IsLimited(session);
  QuotaShare* const user = is_limited ? ShareOf(session.user.name) : nullptr;
  QuotaShare* const db = is_limited ? ShareOf(session.db_index) : nullptr;
  if (user == nullptr && db == nullptr) return Leave(session);
  const auto put = [](QuotaSeat& seat, QuotaShare* share, Places places) {
    if (seat.share == share) return;
    LeaveShare(seat);
    seat.share = share;
    if (share == nullptr) return;
    if (places == Places::kAny) share->quota->TakeAnyPlace();
    seat.has_place =
        places == Places::kAny || (places == Places::kFree && TakePlace(*share->quota));
  };
  SessionQuota& quota = QuotaOf(session);
  ChargeBytes(quota);
  put(quota.user, user, user_place);
  put(quota.db, db, db_place);
  session.connection.WatchOutput(limits_bytes(quota));
  session.UpdateChecked();
}

void Quotas::Leave(Session& session) {
  const std::unique_ptr<SessionQuota> its = std::move(session.quotas);
  session.UpdateChecked();
  if (its == nullptr) return;
  session.connection.WatchOutput(false);
  ChargeBytes(*its);
  OnClientMemory();  // what the user's clients use is told anew
  LeaveShare(its->user);
  LeaveShare(its->db);
}

void Quotas::Depart(Session& session) {
  if (session.quotas == nullptr) return;
  SessionQuota& its = *session.quotas;
  ChargeBytes(its);
  its.Unlink();
  its.waits_for = nullptr;
  its.user.Unlink();
  its.db.Unlink();
}

void Quotas::Arrive(Session& session) {
  if (session.quotas == nullptr) return Put(session, Places::kAny, Places::kAny);
  // The shares were those of the other thread.
  SessionQuota& its = *session.quotas;
  its.session = &session;
  QuotaShare*& user = its.user.share;
  QuotaShare*& db = its.db.share;
  if (user != nullptr) user = ShareOf(user->quota->owner.user);
  if (db != nullptr) db = ShareOf(db->quota->owner.db_index);
  session.UpdateChecked();
}

void Quotas::OnQueued(Session& session) {
  if (session.quotas != nullptr || !IsLimited(session)) return;
  if (ShareOf(session.multi->db_index()) == nullptr) return;
  QuotaOf(session);
  session.UpdateChecked();
}

// --- Its commands ---

bool Quotas::IsExempt(const Session& session, const Command& command, Args args) const {
  if ((command.flags & kAdmin) != 0) return true;
  if (&command == exec_ || &command == discard_) return session.multi != nullptr;
  if ((command.flags & kNoAuth) == 0) return false;
  if (&command != hello_) return true;
  return std::ranges::any_of(args.all(), [](std::string_view arg) { return IsWord(arg, "auth"); });
}

QuotaShare* Quotas::LackedPlace(SessionQuota& its) {
  for (QuotaSeat* seat : {&its.user, &its.db}) {
    if (seat->share == nullptr || seat->has_place) continue;
    // Somebody may have left meanwhile.
    seat->has_place = TakePlace(*seat->share->quota);
    if (!seat->has_place) return seat->share;
  }
  return nullptr;
}

Quotas::Verdict Quotas::Take(Session& session, const Command* command, Args args) {
  SessionQuota& its = *session.quotas;
  if (session.feed != nullptr) return {};
  QuotaShare* const db =
      session.multi != nullptr ? ShareOf(session.multi->db_index()) : its.db.share;
  if (its.user.share == nullptr && db == nullptr) return {};
  const uint32_t flags = command != nullptr ? command->flags : 0;
  const bool is_of_connection = command != nullptr && (command->categories & kAclConnection) != 0;
  const uint64_t at = session.connection.executed_bytes();
  // Nobody is locked out, and what is queued was counted.
  if (command != nullptr && IsExempt(session, *command, args)) {
    if ((flags & kNoAuth) != 0 && std::exchange(its.charged_at, at) != at) ChargeExempt(its);
    return {};
  }
  if (!is_of_connection) {
    if (QuotaShare* const lacked = LackedPlace(its); lacked != nullptr) {
      return {.end = lacked == its.user.share ? Verdict::End::kClosed : Verdict::End::kRefused,
              .error = NoPlaceError(*lacked->quota)};
    }
  }
  // What these leave behind is no buffer of the connection.
  if (session.multi != nullptr || (flags & (kPushes | kNotQueued)) != 0) OnClientMemory();
  if (at != its.charged_at) {
    Verdict verdict = TakeTokens(its, db);
    if (verdict.end != Verdict::End::kRuns) return verdict;
  }
  if (command != nullptr && limits_databases()) {
    const int index = session.multi != nullptr ? session.multi->db_index() : session.db_index;
    if (std::string error = MemoryErrorOf(*command, args, index); !error.empty()) {
      return {.end = Verdict::End::kRefused, .error = std::move(error)};
    }
  }
  return {};
}

void Quotas::ChargeBytes(SessionQuota& its) {
  const uint64_t now = TrafficOf(its.session->connection);
  const uint64_t before = std::exchange(its.charged_bytes, now);
  if (std::exchange(its.skips_bytes, false) || now <= before) return;
  if (its.session->feed != nullptr) return;  // a replica's stream
  for (QuotaShare* share : {its.user.share, its.db.share}) {
    if (!LimitsBytes(share)) continue;
    share->bytes -= static_cast<int64_t>(now - before);
    if (share->bytes >= 0) continue;
    // What is owed is owed by all threads.
    share->quota->bytes.Take(helio::MonotonicNanos(), -std::exchange(share->bytes, 0));
  }
}

void Quotas::ChargeExempt(SessionQuota& its) {
  ChargeBytes(its);
  for (QuotaShare* share : {its.user.share, its.db.share}) {
    if (share == nullptr || !share->quota->commands.is_limited()) continue;
    if (Fill(share->quota->commands, &share->commands)) --share->commands;
  }
}

void Quotas::LetPay(QuotaShare& share) {
  constexpr int kLooksMax = 8;  // those behind them have been there for a shorter time
  for (int i = 0; i < kLooksMax && !share.unpaid.empty(); ++i) {
    QuotaSeat* const seat = share.unpaid.PopFront();
    ChargeBytes(seat->its);
    const Session& session = *seat->its.session;
    const Connection& connection = session.connection;
    // Who blocks may do so for long.
    const bool is_answered = connection.replies().empty() && !connection.busy();
    if (!connection.closing() && !is_answered && session.blocked == nullptr) {
      share.unpaid.PushBack(seat);
    }
  }
}

Quotas::Verdict Quotas::TakeTokens(SessionQuota& its, QuotaShare* db) {
  const auto limits_rate = [](const QuotaShare* share) {
    return share != nullptr && share->quota->limits_rate();
  };
  if (!limits_rate(its.user.share) && !limits_rate(db)) return {};
  ChargeBytes(its);
  for (QuotaSeat* seat : {&its.user, &its.db}) {
    if (LimitsBytes(seat->share)) LetPay(*seat->share);
  }
  for (QuotaShare* share : {its.user.share, db}) {
    if (!limits_rate(share)) continue;
    Quota& quota = *share->quota;
    const bool has_turn = share->waiting.empty() || &its == releasing_;
    if (has_turn && HasTokens(*share)) continue;
    if (!quota.is_error()) return Wait(its, *share);
    Count(quota.counters.refused);
    its.skips_bytes = true;
    const bool lacks_commands = quota.commands.is_limited() && share->commands <= 0;
    return {.end = Verdict::End::kRefused, .error = RateError(quota, lacks_commands)};
  }
  for (QuotaShare* share : {its.user.share, db}) {
    if (share != nullptr && share->quota->commands.is_limited()) --share->commands;
  }
  its.charged_at = its.session->connection.executed_bytes();
  for (QuotaSeat* seat : {&its.user, &its.db}) {
    if (!LimitsBytes(seat->share)) continue;
    seat->Unlink();
    seat->share->unpaid.PushBack(seat);
  }
  return {};
}

Quotas::Verdict Quotas::Wait(SessionQuota& its, QuotaShare& share) {
  const uint64_t at = its.session->connection.executed_bytes();
  if (std::exchange(its.delayed_at, at) != at) Count(share.quota->counters.delayed);
  // Something else may have made it go on, a pause that has ended; it keeps its place.
  if (!its.linked() || its.waits_for != &share) {
    its.Unlink();
    its.waits_for = &share;
    share.waiting.PushBack(&its);
  }
  ArmFor(share);
  return {.end = Verdict::End::kWaits, .error = ""};
}

void Quotas::ArmFor(const QuotaShare& share) {
  const Quota& quota = *share.quota;
  uint64_t at_ns = helio::MonotonicNanos() + kTickNanos;
  if (quota.commands.is_limited() && share.commands <= 0) {
    at_ns = std::max(at_ns, quota.commands.FreeAtNanos());
  }
  if (quota.bytes.is_limited() && share.bytes <= 0) {
    at_ns = std::max(at_ns, quota.bytes.FreeAtNanos());
  }
  if (!timer_.armed() || at_ns < timer_.deadline_ns) timer_.ArmAt(at_ns);
}

void Quotas::OnTimer() {
  if (std::exchange(releases_all_, false)) worker_.ReleaseHeld();
  bool goes_on_soon = false;
  for (const auto& share : shares_) {
    if (share->waiting.empty()) continue;
    LetPay(*share);
    // Who goes on takes tokens, or has nothing more to do, or comes back because there are none.
    // What its reply costs is known later: until then the next one waits.
    while (!share->waiting.empty() && HasTokens(*share)) {
      if (share->quota->bytes.is_limited() && !share->unpaid.empty()) break;
      SessionQuota* const its = share->waiting.PopFront();
      its->waits_for = nullptr;
      releasing_ = its;
      its->session->connection.set_held(false);
      releasing_ = nullptr;
    }
    if (share->waiting.empty()) continue;
    ArmFor(*share);
    goes_on_soon |= share->quota->bytes.is_limited() && share->bytes > 0 && !share->unpaid.empty();
  }
  if (goes_on_soon) timer_.ArmIn(kPayNanos);
}

// --- Memory ---

std::string Quotas::MemoryErrorOf(const Command& command, Args args, int db_index) {
  if (memory_dbs_.empty() || !server_.memory.has_limit()) return "";
  QuotaShare* full = nullptr;
  const auto look_at = [&](int db) {
    if (db < 0 || static_cast<size_t>(db) >= dbs_.size()) return;
    QuotaShare* const share = ShareOf(db);
    if (share != nullptr && share->quota->is_full()) full = share;
  };
  if ((command.flags & kDenyOom) != 0) look_at(db_index);
  if (command.other_db != nullptr) look_at(command.other_db(args));
  if (full == nullptr) return "";
  Count(full->quota->counters.refused_writes);
  return fmt::format("OOM command not allowed when {} uses its quota of {} bytes.",
                     full->quota->Name(), full->quota->memory_max());
}

std::string Quotas::MemoryErrorOf(const Multi& multi) {
  if (memory_dbs_.empty()) return "";
  std::vector<std::string_view> args;
  for (const Multi::Item& item : multi.items()) {
    multi.ViewArgs(item, &args);
    std::string error = MemoryErrorOf(*item.command, args, item.db_index);
    if (!error.empty()) return error;
  }
  return "";
}

void Quotas::Tell(QuotaShare& share, size_t part, int64_t bytes, int64_t quantum) {
  const int64_t change = bytes - share.told_bytes[part];
  if (change < quantum && change > -quantum) return;
  share.told_bytes[part] = bytes;
  share.quota->memory.fetch_add(change, std::memory_order_relaxed);
}

void Quotas::TakeBackTold() {
  for (const auto& share : shares_) {
    for (size_t i = 0; i < share->told_bytes.size(); ++i) Tell(*share, i, 0, 1);
  }
}

void Quotas::PublishMemory(Shard& shard) {
  for (QuotaShare* share : memory_dbs_) {
    const Database* const database = shard.FindDb(share->quota->owner.db_index);
    const int64_t bytes = database == nullptr ? 0 : static_cast<int64_t>(database->bytes());
    // Far from the limit it is enough to know about how far.
    const int64_t left = static_cast<int64_t>(share->quota->memory_max()) -
                         share->quota->memory.load(std::memory_order_relaxed);
    const auto shards = static_cast<int64_t>(share->told_bytes.size());
    Tell(*share, shard.id(), bytes, std::clamp<int64_t>(left / (64 * shards), 1, 64 * 1024));
  }
}

void Quotas::PublishAll(ServerState& server) {
  AwaitOnAll<Quotas>(server, [](Quotas& quotas) {
    quotas.worker_.ForEachShard([&quotas](Shard& shard) { quotas.PublishMemory(shard); });
  });
}

void Quotas::OnMemoryTimer() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  absl::flat_hash_map<QuotaShare*, int64_t> sums;
  for (const auto& [name, share] : users_) {
    if (share->quota->memory_max() != 0) sums[share] = 0;
  }
  worker_.ForEachSession([&sums](Session& session) {
    if (session.quotas == nullptr) return;
    const auto it = sums.find(session.quotas->user.share);
    if (it != sums.end()) it->second += static_cast<int64_t>(MemoryOf(session));
  });
  memory_rest_ns_ = std::max(kMemoryNanos, kMemoryShare * (helio::MonotonicNanos() - begin_ns));
  for (const auto& [share, bytes] : sums) {
    Tell(*share, 0, bytes, 1);
    EvictAbove(*share);
  }
}

void Quotas::EvictAbove(const QuotaShare& share) {
  Quota& quota = *share.quota;
  const uint64_t limit = std::max(quota.memory_max(), ClientMemory::kLeastLimit);
  if (quota.memory.load(std::memory_order_relaxed) <= static_cast<int64_t>(limit)) return;
  if (quota.is_evicting.exchange(true)) {
    OnClientMemory();
    return;
  }
  worker_.RunOnFiber("evict clients of a user", [&server = server_, limit, its = share.quota] {
    const std::string text = fmt::format("the clients of {} more than its quota", its->Name());
    const ClientGroup group = {.limit = limit,
                               .text = text,
                               .has =
                                   [&its](const Session& session) {
                                     return session.quotas != nullptr &&
                                            session.quotas->user.share != nullptr &&
                                            session.quotas->user.share->quota == its;
                                   },
                               .evicted = &its->counters.evicted};
    if (EvictClientsOf(server, group) == 0) {
      helio::this_fiber::SleepUntil(helio::MonotonicNanos() + kBarrenRestNanos);
    }
    its->is_evicting.store(false);
  });
}

}  // namespace dfly
