// SPDX-License-Identifier: Apache-2.0
#include "server/clients/client_limiter.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"

namespace dfly {

namespace {

// Between two looks at who is above a soft limit.
constexpr uint64_t kTickNanos = helio::kNanosPerSecond / 2;
// After a pass over all clients that found nobody to end.
constexpr uint64_t kBarrenRestNanos = 20'000'000;

// Pages are long, and each request may have its own password.
constexpr size_t kHttpStrangerMax = 1 << 20;

// By ClientClass, for the log.
constexpr std::string_view kTexts[] = {"client-output-buffer-limit normal",
                                       "client-output-buffer-limit replica",
                                       "client-output-buffer-limit pubsub"};

// With what a client has queued, watches and is subscribed to; its tables by their sizes.
size_t ExtraOf(const Session& session) {
  constexpr size_t kWatch = sizeof(WatchedKey) + 64;  // with the shard's part
  constexpr size_t kTopic = 64;
  size_t bytes = 0;
  const Multi* const multi = session.executing != nullptr ? session.executing : session.multi.get();
  if (multi != nullptr) bytes += multi->memory_used();
  for (const WatchedKey& watched : session.watches.keys) bytes += kWatch + watched.key.size();
  if (session.subscriptions != nullptr) {
    bytes += session.subscriptions->held.capacity();
    for (const auto& topics : session.subscriptions->topics) bytes += topics.size() * kTopic;
  }
  if (session.tracking != nullptr) {
    bytes += session.tracking->held.capacity();
    for (const std::string& prefix : session.tracking->prefixes) {
      bytes += sizeof(prefix) + prefix.capacity();
    }
  }
  return bytes;
}

// Of a replica what is kept for it alone: a copy does not count, and a feed gives its connection
// little at a time.
size_t UnsentOf(const Session& session) {
  return session.feed == nullptr ? session.connection.unsent_bytes() : session.feed->held_bytes();
}

}  // namespace

size_t MemoryOf(const Session& session) {
  return session.connection.memory_used() + sizeof(Session) + ExtraOf(session);
}

// --- Memory of all clients ---

namespace {

void Evict(Session& session, std::string_view why, std::atomic<uint64_t>* evicted) {
  LOG(WARNING) << "evicting client " << session.connection.id() << " of " << session.peer_address
               << ": it uses " << MemoryOf(session) << " bytes, and " << why;
  evicted->fetch_add(1, std::memory_order_relaxed);
  session.connection.CloseNow();
}

constexpr std::string_view kAllClients = "all clients more than maxmemory-clients";

}  // namespace

void EvictClients(ServerState& server) {
  const uint64_t limit = server.client_memory.Limit(server.settings.maxmemory);
  if (limit == 0) return;
  EvictClientsOf(server, {.limit = limit,
                          .text = kAllClients,
                          .has = [](const Session&) { return true; },
                          .evicted = &server.client_memory.evicted});
}

size_t EvictClientsOf(ServerState& server, const ClientGroup& group) {
  struct Client {
    size_t bytes;
    uint64_t id;
  };
  struct Part {
    uint64_t bytes = 0;
    std::vector<Client> clients;
  };
  std::vector<Part> parts(server.pool.size());
  AwaitOnAllSessions<WorkerState>(server, [&](WorkerState& worker) {
    Part& part = parts[worker.index()];
    worker.ForEachSession([&](Session& session) {
      // Who is to be closed anyway shall not cost another one its connection.
      if (!group.has(session) || ClientLimiter::Here().CheckOutput(session)) return;
      const size_t bytes = MemoryOf(session);
      part.bytes += bytes;
      if (!session.no_evict && !session.user.is_admin)
        part.clients.push_back({bytes, session.connection.id()});
    });
  });
  uint64_t used = 0;
  std::vector<Client> clients;
  for (const Part& part : parts) {
    used += part.bytes;
    clients.insert(clients.end(), part.clients.begin(), part.clients.end());
  }
  std::sort(clients.begin(), clients.end(),
            [](const Client& a, const Client& b) { return a.bytes > b.bytes; });
  absl::flat_hash_set<uint64_t> chosen;
  for (const Client& client : clients) {
    if (used <= group.limit) break;
    used -= client.bytes;
    chosen.insert(client.id);
  }
  if (chosen.empty()) return 0;
  AwaitOnAllSessions<WorkerState>(server, [&](WorkerState& worker) {
    worker.ForEachSession([&](Session& session) {
      const Connection& connection = session.connection;
      if (!connection.closing() && chosen.contains(connection.id())) {
        Evict(session, group.text, group.evicted);
      }
    });
  });
  return chosen.size();
}

void ClientLimiter::OnMemoryLimit() {
  SetMemoryLimit();
  if (!limits_memory_) return;
  worker_.ForEachSession([this](Session& session) { Recount(session); });
  OnMemoryChange();
}

void ClientLimiter::SetMemoryLimit() {
  limits_memory_ = server_.client_memory.has_limit();
  const uint64_t limit = server_.client_memory.Limit(server_.settings.maxmemory);
  worker_.buffers.bounds.input_watch = limit == 0 ? SIZE_MAX : limit;
}

bool ClientLimiter::EndIfAloneTooLarge(Session& session) {
  if (session.no_evict || session.user.is_admin) return false;
  if (!session.connection.closing()) {
    Evict(session, kAllClients, &server_.client_memory.evicted);
  }
  return true;
}

void ClientLimiter::Recount(Session& session) {
  if (!limits_memory_ || session.connection_closed) return;
  const auto bytes = static_cast<int64_t>(ExtraOf(session));
  extra_bytes_ += bytes - session.counted_extra;
  session.counted_extra = bytes;
  OnMemoryChange();
}

void ClientLimiter::OnMemoryChange() {
  if (!limits_memory_) return;
  const auto own = static_cast<int64_t>(worker_.buffers.client_bytes() +
                                        worker_.connection_count() * sizeof(Session)) +
                   extra_bytes_;
  published_bytes_.store(static_cast<uint64_t>(std::max<int64_t>(own, 0)),
                         std::memory_order_relaxed);
  ClientMemory& memory = server_.client_memory;
  const uint64_t limit = memory.Limit(server_.settings.maxmemory);
  if (limit == 0) return;
  if (memory.UsedBytes() <= limit) return;
  // What grows behind a pass is another pass's: the flag is set before its fiber is looked for, and
  // read after that has said it ends.
  memory.is_asked.store(true);
  if (memory.is_evicting.exchange(true)) return;
  worker_.RunOnFiber("evict clients", [&memory, &server = server_] {
    do {
      while (memory.is_asked.exchange(false)) {
        const uint64_t before = memory.evicted.load(std::memory_order_relaxed);
        EvictClients(server);
        // Who may not be ended can be above the limit for long.
        if (memory.evicted.load(std::memory_order_relaxed) == before) {
          helio::this_fiber::SleepUntil(helio::MonotonicNanos() + kBarrenRestNanos);
        }
      }
      memory.is_evicting.store(false);
    } while (memory.is_asked.load() && !memory.is_evicting.exchange(true));
  });
}

void ClientLimiter::OnLeft(Session& session) {
  above_soft_.erase(&session);
  extra_bytes_ -= std::exchange(session.counted_extra, 0);
}

// --- Output ---

ClientLimiter::ClientLimiter(WorkerState* worker)
    : PerThread(this),
      server_(worker->server),
      worker_(*worker),
      timer_([](helio::Timer* timer) { static_cast<SoftTimer*>(timer)->limiter->OnTick(); }),
      published_bytes_(worker->server.client_memory.used_by[worker->index()].bytes) {
  timer_.limiter = this;
  SetMemoryLimit();
}

ClientLimiter::~ClientLimiter() {
  DCHECK(above_soft_.empty());
  worker_.proactor.timers().Disarm(&timer_);
}

void ClientLimiter::SetOutputLimits(const OutputLimits& limits) {
  output_limits_ = limits;
  worker_.buffers.bounds.output_watch = SIZE_MAX;
  for (const OutputLimit& limit : limits.by_class) {
    size_t& watch = worker_.buffers.bounds.output_watch;
    watch = std::min(watch, limit.least_bytes());
  }
  above_soft_.clear();  // it begins anew
}

OutputLimit ClientLimiter::LimitOf(ClientClass its) const {
  OutputLimit limit = output_limits_.of(its);
  if (its == ClientClass::kReplica && limit.hard_bytes != 0) {
    limit.hard_bytes = std::max(limit.hard_bytes, server_.settings.backlog_bytes.load());
  }
  return limit;
}

bool ClientLimiter::CheckOutput(Session& session, size_t held) {
  if (session.feed != nullptr) return Check(session, ClientClass::kReplica, held);
  const bool gets_messages = session.is_subscribed() || session.monitor != Session::Monitor::kNo;
  return Check(session, gets_messages ? ClientClass::kPubSub : ClientClass::kNormal, held);
}

bool ClientLimiter::CheckMessages(Session& session, size_t held) {
  return Check(session, ClientClass::kPubSub, held);
}

bool ClientLimiter::Check(Session& session, ClientClass its, size_t held) {
  if (session.connection.closing()) return true;
  const size_t stranger_max =
      session.connection.is_http() ? kHttpStrangerMax : Connection::kUnauthenticatedOutputMax;
  const bool is_stranger = !session.user.is_authenticated && !session.is_known_http;
  if (is_stranger && session.connection.unsent_bytes() > stranger_max) {
    CloseFor(session, session.connection.unsent_bytes(), "it may leave without a password");
    return true;
  }
  if (session.user.is_admin) return false;
  const OutputLimit limit = LimitOf(its);
  const size_t unsent = UnsentOf(session) + held;
  if (limit.is_above_hard(unsent)) {
    CloseFor(session, unsent, kTexts[static_cast<size_t>(its)]);
    return true;
  }
  if (!limit.is_above_soft(unsent)) return false;
  const uint64_t now_ns = helio::MonotonicNanos();
  const auto [it, is_new] = above_soft_.try_emplace(&session, Above{now_ns, its});
  if (is_new) {
    if (!timer_.armed()) worker_.proactor.timers().Arm(&timer_, now_ns + kTickNanos);
    return false;
  }
  if (now_ns - it->second.since_ns <= limit.soft_s * helio::kNanosPerSecond) return false;
  CloseFor(session, unsent, kTexts[static_cast<size_t>(its)]);
  return true;
}

void ClientLimiter::CloseFor(Session& session, size_t unsent, std::string_view limit) {
  ++output_disconnections_;
  LOG(WARNING) << "closing connection " << session.connection.id() << " of " << session.peer_address
               << ": " << unsent << " bytes wait for it, more than " << limit;
  session.connection.CloseNow();
}

void ClientLimiter::OnTick() {
  const uint64_t now_ns = helio::MonotonicNanos();
  std::vector<std::pair<Session*, ClientClass>> late;
  for (auto it = above_soft_.begin(); it != above_soft_.end();) {
    Session& session = *it->first;
    const OutputLimit& limit = output_limits_.of(it->second.its);
    if (session.connection.closing() || !limit.is_above_soft(UnsentOf(session))) {
      above_soft_.erase(it++);
      continue;
    }
    if (now_ns - it->second.since_ns > limit.soft_s * helio::kNanosPerSecond) {
      late.emplace_back(&session, it->second.its);
    }
    ++it;
  }
  for (const auto& [session, its] : late) {
    CloseFor(*session, session->connection.unsent_bytes(), kTexts[static_cast<size_t>(its)]);
  }
  if (!above_soft_.empty()) worker_.proactor.timers().Arm(&timer_, now_ns + kTickNanos);
}

}  // namespace dfly
