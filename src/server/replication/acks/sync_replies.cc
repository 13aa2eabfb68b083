// SPDX-License-Identifier: Apache-2.0
#include "server/replication/acks/sync_replies.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "server/clients/sentinels.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/persistence/effect_stream.h"

namespace dfly {

namespace {

constexpr uint64_t kTickMillisMax = 100;
constexpr std::string_view kTimeoutError =
    "UNREPLICATED The write was carried out here, but too few replicas have acknowledged it within "
    "ack_timeout. A failover may lose it.";
constexpr std::string_view kDemotedError =
    "UNREPLICATED The write was carried out here, but too few replicas have acknowledged it, and "
    "this server is a replica now.";

std::string Shown(const AnnouncedAddress& announced) {
  if (announced.ip.empty() && announced.port == 0) return {};
  return fmt::format(" (replica-announce-ip '{}', -port {})", announced.ip, announced.port);
}

}  // namespace

// The thread's own.
struct alignas(64) SyncReplies::Thread {
  struct Waiting {
    uint64_t epoch;
    uint64_t since_ns;
  };
  uint64_t task = 0;      // 0: it does not look
  uint64_t fence_ns = 0;  // 0: there is no fence
  AnnouncedAddress announced;
  absl::flat_hash_map<uint64_t, Waiting> waiting;  // by the client's id
};

SyncReplies::SyncReplies(ServerState* server, EffectStream* stream)
    : server_(*server),
      stream_(*stream),
      threads_(std::make_unique<Thread[]>(server->options.threads)) {}

SyncReplies::~SyncReplies() = default;

void SyncReplies::Apply(const AckQuorum::Rules& rules) {
  Journal* const journal = stream_.journal();
  (void)journal->Flush();
  const bool held = rules_.holds_replies();
  const bool holds = rules.holds_replies();
  rules_ = rules;
  const uint64_t newest = journal->newest();
  quorum_.SetRules(rules, newest);
  if (holds != held) {
    journal->SetReplyLimit(holds ? newest : UINT64_MAX);
    holds_ = holds;
    stream_.HoldReplies(holds);
  }
  UpdateTicks();
  Release();
}

void SyncReplies::FailAll() {
  if (!holds_) return;
  // Replies that shards have sent to the threads of their connections arrive.
  for (int round = 0; round < 2; ++round) server_.pool.AwaitOnAll([](helio::Proactor*) {});
  AwaitOnAll<WorkerState>(server_, [](WorkerState& worker) {
    worker.ForEachSession([](Session& session) {
      if (session.connection.awaited_epoch() != 0) session.connection.FailAwaited(kDemotedError);
    });
  });
  Apply({});
}

void SyncReplies::SetOptions(const ReplicationOptions& options) {
  timeout_ns_ = options.ack_timeout_ms * helio::kNanosPerMilli;
  announced_ = {.ip = options.announce_ip, .port = options.announce_port};
  UpdateTicks();
}

void SyncReplies::Stop() {
  holds_ = false;
  UpdateTicks();
}

void SyncReplies::SetVoters(std::vector<std::shared_ptr<const AckState>> voters) {
  quorum_.SetVoters(std::move(voters));
  Release();
}

void SyncReplies::Release() {
  if (!holds_.load(std::memory_order_acquire)) return;
  const uint64_t limit = quorum_.Limit(helio::MonotonicNanos());
  // Rules that have just begun to hold may not be known here; they have set the limit themselves.
  if (limit != UINT64_MAX) stream_.journal()->RaiseReplyLimit(limit);
}

void SyncReplies::UpdateTicks() {
  uint64_t shortest_ns = UINT64_MAX;
  if (rules_.sentinels > 0) shortest_ns = rules_.fence_ns;
  if (timeout_ns_ > 0) shortest_ns = std::min(shortest_ns, timeout_ns_.load());
  const bool looks = holds_ && shortest_ns != UINT64_MAX;
  const uint64_t millis =
      std::clamp<uint64_t>(shortest_ns / 4 / helio::kNanosPerMilli, 1, kTickMillisMax);
  server_.pool.AwaitOnAll([&](helio::Proactor* proactor) {
    const uint32_t index = proactor->index();
    Thread* const thread = &threads_[index];
    if (thread->task != 0) proactor->RemovePeriodic(std::exchange(thread->task, 0));
    thread->waiting.clear();
    thread->fence_ns = rules_.sentinels > 0 ? rules_.fence_ns : 0;
    thread->announced = announced_;
    quorum_.SetSentinels(index, {});
    if (!looks) return;
    Tick(thread, index);
    thread->task = proactor->AddPeriodic(millis, [this, thread, index] { Tick(thread, index); });
  });
}

// Who was silent for too long has to say anew that this server is the primary: there may have been
// a failover meanwhile, and then a Sentinel needs some seconds until it demotes this one.
bool SyncReplies::HoldsFenceOpen(Session& session, const Thread& thread, uint64_t now_ns) {
  if (thread.fence_ns == 0) return false;
  if (session.hello == nullptr || SentinelIdOf(session).empty()) return false;
  const uint64_t heard_ns = session.connection.last_active_ns();
  if (!session.hello->HasLasted(heard_ns, now_ns, thread.fence_ns)) {
    session.hello = nullptr;
    return false;
  }
  if (NamesThisServer(session, thread.announced)) return true;
  if (!std::exchange(session.hello->is_told, true)) {
    LOG(WARNING) << "the Sentinel " << helio::LogText(SentinelIdOf(session)) << " names "
                 << helio::LogText(session.hello->primary_host) << ' '
                 << session.hello->primary_port << " as the primary, and this server is at "
                 << session.local_address << Shown(thread.announced)
                 << ": it does not hold the fence open";
  }
  return false;
}

void SyncReplies::Tick(Thread* thread, uint32_t index) {
  const uint64_t now_ns = helio::MonotonicNanos();
  const uint64_t timeout_ns = timeout_ns_.load(std::memory_order_relaxed);
  std::vector<AckQuorum::Sentinel> sentinels;
  absl::flat_hash_map<uint64_t, Thread::Waiting> waiting;
  std::vector<Session*> late;
  WorkerState::Here().ForEachSession([&](Session& session) {
    const Connection& connection = session.connection;
    if (HoldsFenceOpen(session, *thread, now_ns)) {
      sentinels.push_back(
          {.id = std::string(SentinelIdOf(session)), .heard_ns = connection.last_active_ns()});
    }
    const uint64_t epoch = connection.awaited_epoch();
    if (epoch == 0 || timeout_ns == 0) return;
    const auto before = thread->waiting.find(connection.id());
    const bool is_same = before != thread->waiting.end() && before->second.epoch == epoch;
    const uint64_t since_ns = is_same ? before->second.since_ns : now_ns;
    if (now_ns - since_ns >= timeout_ns) {
      late.push_back(&session);
    } else {
      waiting[connection.id()] = {.epoch = epoch, .since_ns = since_ns};
    }
  });
  thread->waiting.swap(waiting);
  quorum_.SetSentinels(index, std::move(sentinels));
  Release();
  for (Session* const session : late) session->connection.FailAwaited(kTimeoutError);
  timeouts_.fetch_add(late.size(), std::memory_order_relaxed);
}

void SyncReplies::AddFacts(ReplicasFacts* facts) const {
  const AckQuorum::Facts quorum = quorum_.facts(helio::MonotonicNanos());
  facts->sync_replicas = rules_.replicas;
  facts->sync_waiting_epochs = quorum.waiting_epochs;
  facts->sync_timeouts = timeouts_.load(std::memory_order_relaxed);
  facts->sentinels_heard = quorum.sentinels;
  facts->is_fenced = quorum.is_fenced;
}

}  // namespace dfly
