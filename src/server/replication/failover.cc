// SPDX-License-Identifier: Apache-2.0
#include "server/replication/failover.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/care/shard_care.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"

namespace dfly {

namespace {

// Nothing that was asked for is lost. But a replica may have come since.
constexpr uint64_t kAskNanos = 1'000'000'000;

}  // namespace

Failover::Failover(ServerState* server, Replicas* replicas, PrimaryLink* link,
                   std::function<void(const std::string& primary)> on_primary)
    : server_(*server), replicas_(*replicas), link_(*link), on_primary_(std::move(on_primary)) {}

Failover::~Failover() { CHECK(!is_under_way()) << "Failover::Stop was not called"; }

std::string_view Failover::state() const {
  switch (state_) {
    case State::kNone:
      return "no-failover";
    case State::kAwaitsSync:
      return "waiting-for-sync";
    case State::kInProgress:
      return "failover-in-progress";
  }
  return "";
}

std::string Failover::RefusalOf(const Request& request) const {
  if (is_under_way()) return "ERR FAILOVER already in progress.";
  if (link_.is_replica()) return "ERR FAILOVER is not valid when server is a replica.";
  const std::vector<ReplicaFacts> all = replicas_.Facts().all;
  if (all.empty()) return "ERR FAILOVER requires connected replicas.";
  if (request.is_forced && (request.timeout_ms == 0 || request.host.empty())) {
    return "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
  }
  if (request.host.empty()) return "";
  const auto target = std::find_if(all.begin(), all.end(), [&request](const ReplicaFacts& facts) {
    return facts.ip == request.host && facts.port == request.port;
  });
  if (target == all.end()) return "ERR FAILOVER target HOST and PORT is not a replica.";
  if (!target->is_online) return "ERR FAILOVER target replica is not online.";
  return "";
}

std::string Failover::Begin(const Request& request) {
  if (std::string error = RefusalOf(request); !error.empty()) return error;
  request_ = request;
  ends_ = false;
  state_ = State::kAwaitsSync;
  LOG(INFO) << "FAILOVER requested"
            << (request.host.empty() ? "" : fmt::format(" to {}:{}", request.host, request.port));
  helio::Fiber("failover", [this] {
    const std::string why = Run();
    LOG_IF(WARNING, !why.empty()) << "there is no failover: " << helio::LogText(why);
    state_ = State::kNone;
  }).Detach();
  return "";
}

std::string Failover::Abort() {
  if (!is_under_way()) return "ERR No failover in progress.";
  Stop();
  return "";
}

void Failover::Stop() {
  ends_ = true;
  server_.shards->AwaitOnAll([](Shard& shard) { Transaction::CancelWaiters(shard); });
  while (is_under_way()) helio::this_fiber::SleepForMillis(kLookSoonMillis);
}

void Failover::HoldWrites(bool holds) {
  WorkerState::HoldWrites(server_, holds);
  replicas_.SetQuiet(holds);
  DispatchOnAll<ShardCare>(server_, [holds](ShardCare& care) {
    care.SetKeepsDue(ShardCare::KeepsDueFor::kFailover, holds);
  });
}

std::string Failover::Run() {
  HoldWrites(true);
  std::string why = AwaitSync();
  if (why.empty()) why = HandOver();
  HoldWrites(false);
  return why;
}

// What was let in before the writes were held is carried out.
void Failover::FinishWrites() {
  WorkerState::AwaitLetIn(server_);
  Transaction lock(server_.shards.get(), nullptr);
  lock.set_origin({.name = "failover"});
  lock.set_cancelled(&ends_);
  lock.LockAllShards(LockMode::kExclusive);
  if (lock.Schedule()) lock.Conclude();
}

std::string Failover::AwaitSync() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  const uint64_t end_ns =
      request_.timeout_ms == 0 ? UINT64_MAX : begin_ns + request_.timeout_ms * 1'000'000;
  FinishWrites();
  std::optional<uint64_t> asked_ns;
  while (true) {
    const uint64_t now_ns = helio::MonotonicNanos();
    if (ends_) return "it was aborted";
    if (now_ns >= end_ns && request_.is_forced) {
      LOG(WARNING) << "Failover to " << request_.host << ':' << request_.port
                   << " time out exceeded, failing over.";
      return "";
    }
    if (now_ns >= end_ns) return "no replica was in sync before the timeout";
    if (!asked_ns || now_ns - *asked_ns >= kAskNanos) {
      asked_ns = now_ns;
      replicas_.AskForAcks();
    }
    if (auto found = replicas_.FindInSync(*asked_ns, request_.host, request_.port)) {
      request_.host = found->ip;
      request_.port = found->port;
      return "";
    }
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  }
}

std::string Failover::HandOver() {
  state_ = State::kInProgress;
  link_.Follow(request_.host, request_.port, PrimaryLink::HandOver::kAsks);
  on_primary_(link_.primary());
  while (link_.hand_over() == PrimaryLink::HandOver::kAsks && !ends_) {
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  }
  if (link_.hand_over() == PrimaryLink::HandOver::kTaken) return "";
  std::string why =
      ends_ ? "it was aborted"
            : fmt::format("Failover target rejected psync request, {}", link_.last_error());
  link_.Leave();
  on_primary_("");
  return why;
}

}  // namespace dfly
