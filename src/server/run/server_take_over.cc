// SPDX-License-Identifier: Apache-2.0
// What one process takes over from another: the parts of the old one, and those of the new one.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/acl/acl_store.h"
#include "server/care/shard_care.h"
#include "server/clients/listeners.h"
#include "server/clients/session.h"
#include "server/dispatch/worker.h"
#include "server/persistence/append_log.h"
#include "server/persistence/effect_stream.h"
#include "server/persistence/persistence.h"
#include "server/replication/failover.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/replication/take_over_hold.h"
#include "server/run/server.h"

namespace dfly {

// --------------------------------------------------------------------------- the old process

std::string Server::WhyNot() const {
  if (stop_state_ != StopState::kServes) return "the old process ends";
  if (persistence_->is_loading()) return "the old process loads its data";
  if (failover_->is_under_way()) return "the old process is failing over";
  if (primary_link_->is_replica() || !primary_link_->is_settled()) {
    return "the old process is a replica, which can be restarted without an outage";
  }
  return "";
}

std::string Server::WhyNotTakeOver() {
  std::string why;
  state_.pool.at(0)->Await([&] { why = WhyNot(); });
  return why;
}

uint64_t Server::AddProcess(int fd) {
  constexpr PortKind kKind = {.is_admin = true, .is_process = true};  // --maxclients is not for it
  const uint64_t id = state_.next_client_id.fetch_add(1, std::memory_order_relaxed);
  state_.pool.at(0)->Await([&] {
    const uint32_t thread = state_.connections.Accept(kKind.is_admin);
    state_.pool.at(thread)->Dispatch(
        [fd, id, kKind] { Worker::Here().AddConnection(fd, id, kKind); });
  });
  return id;
}

std::vector<std::string> Server::DescribeUsers() const {
  std::vector<std::string> lines;
  for (const AclUserRef& user : state_.acl->All()) {
    lines.push_back(fmt::format("{} {}", user->name(), user->Describe()));
  }
  return lines;
}

std::string Server::StandStill(uint64_t client_id, uint64_t patience_ns,
                               std::vector<HandedSocket>* listeners, std::string* facts) {
  std::string why;
  state_.pool.at(0)->AwaitFiber("stand still", [&] {
    why = WhyNot();
    if (!why.empty()) return;
    why = take_over_hold_->Begin(client_id, patience_ns);
    if (!why.empty()) return;
    *listeners = listeners_->Rest();
    if (listeners->empty()) {
      take_over_hold_->Undo();
      why = "the old process has no sockets to hand over, or no descriptors left";
      return;
    }
    *facts = fmt::format("{} {} {} {} {}", replicas_->backlog().end(), stream_->last_epoch(),
                         persistence_->unsaved_changes(), persistence_->last_save_s(),
                         append_log_->FullName());
  });
  return why;
}

void Server::GoOn() {
  state_.pool.at(0)->AwaitFiber("go on", [this] {
    listeners_->GoOn();
    take_over_hold_->Undo();
  });
}

void Server::GiveAway() {
  state_.pool.at(0)->AwaitFiber("give away", [this] {
    listeners_->GiveAway();
    // A rewrite would wait for the locks.
    persistence_->StopRules();
    persistence_->CancelSave();
    persistence_->RefuseAll();
    append_log_->Stop({}, /*is_locked=*/true);
  });
}

void Server::CloseClients() {
  constexpr uint64_t kPatienceNanos = 1'000'000'000;
  // What was answered is sent, unless the client does not read it.
  constexpr uint64_t kTurnNanos = 1'000'000;
  const uint64_t end_ns = helio::MonotonicNanos() + kPatienceNanos;
  std::atomic<bool> is_left{true};
  while (is_left && helio::MonotonicNanos() < end_ns) {
    is_left = false;
    AwaitOnAll<WorkerState>(state_, [&is_left](WorkerState& worker) {
      worker.ForEachSession([&is_left](Session& session) {
        if (session.connection.unsent_bytes() == 0) return session.connection.CloseNow();
        session.connection.CloseWhenSent();
        is_left = true;
      });
    });
    if (is_left) helio::Waiter().WaitUntil(helio::MonotonicNanos() + kTurnNanos);
  }
}

// --------------------------------------------------------------------------- the new process

// What goes before the log is there would be in no log, and back after a restart.
void Server::KeepKeys(bool keeps) {
  AwaitOnAll<ShardCare>(state_, [keeps](ShardCare& care) {
    care.SetKeepsDue(ShardCare::KeepsDueFor::kTakeOver, keeps);
  });
}

void Server::FollowProcess(int fd) {
  KeepKeys(true);
  state_.pool.at(0)->AwaitFiber("follow process", [this, fd] {
    primary_link_->FollowSocket(fd);
    replicas_->EndBeginSync();
  });
}

bool Server::HasLink(std::string* error) {
  bool has_link = false;
  state_.pool.at(0)->Await([&] {
    has_link = primary_link_->is_linked();
    *error = primary_link_->last_error();
  });
  return has_link;
}

std::string Server::PrepareTakeOver(std::vector<HandedSocket> handed, uint64_t offset,
                                    uint64_t epoch) {
  std::string error;
  state_.pool.at(0)->AwaitFiber("prepare take over", [&] {
    error = PrepareListeners(std::move(handed));
    if (error.empty() && state_.options.log.is_on) error = append_log_->WhyNotThere();
    if (!error.empty()) return;
    stream_->GoOnBehind(epoch);
    primary_link_->Leave();
    other_id_ = primary_link_->ids().id2;
    other_offset_ = offset;
    while (!primary_link_->is_settled()) helio::this_fiber::SleepForMillis(1);
    if (primary_link_->offset() != static_cast<int64_t>(offset)) {
      error = fmt::format("it has the stream up to {}, and the old process up to {}",
                          primary_link_->offset(), offset);
    }
  });
  return error;
}

void Server::TakeOver(uint64_t unsaved_changes, int64_t last_save_s) {
  // Until TakeOverLog: nothing is answered that the log may lose.
  if (state_.options.log.is_on) {
    WorkerState::HoldWrites(state_, true);
  } else {
    KeepKeys(false);
  }
  state_.pool.at(0)->AwaitFiber("take over", [&] {
    // Its limit may be lower than what the old process had. Nobody is refused for that.
    if (!state_.options.log.is_on) EvictToLimit();
    persistence_->NoteOfOther(unsaved_changes, last_save_s);
    persistence_->StartRules();
    replicas_->CheckGoodReplicas();
  });
  // They are there already.
  if (const std::string error = OpenListeners(); !error.empty()) LOG(ERROR) << error;
}

std::string Server::TakeOverLog(const std::string& name, bool is_clean) {
  std::string error;
  state_.pool.at(0)->AwaitFiber("take over log", [&] {
    error = append_log_->TakeOver({.id = other_id_, .offset = other_offset_}, is_clean, name);
    if (!error.empty()) return;
    KeepKeys(false);
    EvictToLimit();
    WorkerState::HoldWrites(state_, false);
  });
  return error;
}

}  // namespace dfly
