// SPDX-License-Identifier: Apache-2.0
#include "server/replication/take_over_hold.h"

#include <optional>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/sync.h"
#include "server/care/shard_care.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/persistence/append_log.h"
#include "server/replication/replica.h"
#include "server/replication/replicas.h"

namespace dfly {

namespace {

constexpr helio::WaitReason kNewProcess = {"the process that takes over",
                                           "it waits for that one, for take_over_pause_ms at most"};

// Nothing that was asked for is lost. But the replica may have begun to stream since.
constexpr uint64_t kAskNanos = 1'000'000'000;

}  // namespace

TakeOverHold::TakeOverHold(ServerState* server, Replicas* replicas, AppendLog* log)
    : server_(*server), replicas_(*replicas), log_(*log) {}

TakeOverHold::~TakeOverHold() { CHECK(!is_held()) << "neither Undo nor End was called"; }

void TakeOverHold::HoldCommands(bool holds) {
  WorkerState::HoldAll(server_, holds);
  replicas_.SetQuiet(holds);
  AwaitOnAll<ShardCare>(server_, [holds](ShardCare& care) {
    care.SetKeepsDue(ShardCare::KeepsDueFor::kTakeOver, holds);
  });
}

void TakeOverHold::Watch(uint64_t end_ns) {
  while (!is_over_ && !ends_ && helio::MonotonicNanos() < end_ns) {
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  }
  if (is_over_) return;
  ends_ = true;
  server_.shards->AwaitOnAll([](Shard& shard) { Transaction::CancelWaiters(shard); });
}

std::string TakeOverHold::Begin(uint64_t client_id, uint64_t patience_ns) {
  // The log's disk is asked before anybody has to wait for it.
  if (std::string error = log_.SyncAll(); !error.empty()) return error;
  ends_ = is_over_ = false;
  helio::BlockingCounter watched(1);
  helio::Fiber("take over watch", [&, end_ns = helio::MonotonicNanos() + patience_ns] {
    Watch(end_ns);
    watched.Done();
  }).Detach();
  std::string error = Run(client_id);
  is_over_ = true;
  {
    const helio::BoundedWait wait(kNewProcess);
    watched.Wait();
  }
  if (!error.empty()) Undo();
  return error;
}

std::string TakeOverHold::Run(uint64_t client_id) {
  constexpr std::string_view kTooLong =
      "clients would have to wait for longer than "
      "take_over_pause_ms of the old process: ";
  const auto too_long = [&](std::string_view what) { return std::string(kTooLong).append(what); };
  HoldCommands(true);
  WorkerState::AwaitLetIn(server_, &ends_);
  if (ends_) return too_long("commands that write do not end");
  lock_ = std::make_unique<Transaction>(server_.shards.get(), nullptr);
  lock_->set_origin({.name = "take over"});
  lock_->set_cancelled(&ends_);
  lock_->LockAllShards(LockMode::kExclusive);
  if (!lock_->Schedule()) return too_long("locks are not given back");
  const helio::BoundedWait wait(kNewProcess);
  if (std::string error = AwaitAck(client_id); !error.empty()) return error;
  if (ends_) return too_long("the new process has not acknowledged all changes");
  if (std::string error = log_.SyncAll(ends_); !error.empty()) return error;
  lock_->OutliveFiber();  // until Undo or End, on another one
  return "";
}

std::string TakeOverHold::AwaitAck(uint64_t client_id) {
  std::optional<uint64_t> asked_ns;
  while (!ends_) {
    const uint64_t now_ns = helio::MonotonicNanos();
    if (!asked_ns || now_ns - *asked_ns >= kAskNanos) {
      asked_ns = now_ns;
      replicas_.AskForAcks();
    }
    const std::optional<bool> is_in_sync = replicas_.IsInSync(*asked_ns, client_id);
    if (!is_in_sync) return "the new process follows no more";
    if (*is_in_sync) return "";
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  }
  return "";
}

void TakeOverHold::Undo() {
  lock_ = nullptr;
  HoldCommands(false);
}

}  // namespace dfly
