// SPDX-License-Identifier: Apache-2.0
#include "server/push/monitor.h"

#include <algorithm>
#include <memory>

#include "commands/table/lookup.h"
#include "core/sketches/frequent_items.h"
#include "engine/hops/coordinator.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/inbox.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/meters/logged_args.h"

namespace dfly {

struct Monitors::Line : helio::Message {
  std::string text;
};

Monitors::Monitors(WorkerState* worker)
    : PerThread(this),
      server_(worker->server),
      worker_(*worker),
      counts_(worker->server.pool.size()) {}

Monitors::~Monitors() { DCHECK(sessions_.empty()); }

void Monitors::Change(uint32_t thread, int change) {
  DCHECK(change > 0 || counts_[thread] > 0);
  counts_[thread] += static_cast<uint32_t>(change);
  threads_.clear();
  for (uint32_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] != 0) threads_.push_back(i);
  }
  UpdateIsWatched();
}

void Monitors::BeginCount(FrequentItems* keys) {
  key_counters_.push_back(keys);
  UpdateIsWatched();
}

void Monitors::EndCount(FrequentItems* keys) {
  std::erase(key_counters_, keys);
  UpdateIsWatched();
}

void Monitors::Begin(Session& session) {
  session.monitor = Session::Monitor::kBegins;
  const uint32_t thread = worker_.index();
  AwaitOnAll<Monitors>(server_, [thread](Monitors& monitors) { monitors.Change(thread, 1); });
}

void Monitors::OnReplied(Session& session) {
  if (session.monitor != Session::Monitor::kBegins) return;
  session.monitor = Session::Monitor::kYes;
  sessions_.push_back(&session);
  if (session.connection_closed) End(session);
}

void Monitors::End(Session& session) {
  if (session.monitor != Session::Monitor::kYes) return;
  session.monitor = Session::Monitor::kNo;
  std::erase(sessions_, &session);
  worker_.RunOnFiber("monitor end", [this, thread = worker_.index()] {
    AwaitOnAll<Monitors>(server_, [thread](Monitors& monitors) { monitors.Change(thread, -1); });
  });
}

void Monitors::Feed(int db_index, std::string_view client, const Command& command, Args args) {
  if (!key_counters_.empty()) CountKeys(command, args);
  if (threads_.empty()) return;
  const std::string text = MonitorLine(helio::UnixMicros(), db_index, client, command, args);
  for (uint32_t thread : threads_) {
    MonitorLoad& load = server_.monitor_loads[thread];
    if (load.bytes.load(std::memory_order_relaxed) + text.size() > kBytesOnWayMax) {
      load.is_lost.store(true, std::memory_order_relaxed);
      continue;
    }
    load.bytes.fetch_add(text.size(), std::memory_order_relaxed);
    auto line = std::make_unique<Line>();
    line->text = text;
    line->run = [](helio::Message* message) {
      const std::unique_ptr<Line> arrived(static_cast<Line*>(message));
      Monitors::Here().Deliver(arrived->text);
    };
    // Also to our own: a connection must not be written to inside of its command.
    server_.pool.at(thread)->PostLazily(line.release());
  }
}

void Monitors::CountKeys(const Command& command, Args args) {
  if (!command.keys.has_keys() || command.runs_script || !FindFrom(command, args).is_found())
    return;
  const std::optional<KeyIndexes> keys = command.FindKeys(args);
  if (!keys) return;
  for (size_t i : *keys) {
    for (FrequentItems* counter : key_counters_) counter->Add(args[i]);
  }
}

void Monitors::Deliver(std::string_view line) {
  MonitorLoad& load = server_.monitor_loads[worker_.index()];
  load.bytes.fetch_sub(line.size(), std::memory_order_relaxed);
  if (load.is_lost.load(std::memory_order_relaxed)) [[unlikely]] {
    load.is_lost.store(false, std::memory_order_relaxed);
    return DisconnectAll("lines were lost, as there were too many");
  }
  const std::vector<Session*> sessions = sessions_;  // who is closed leaves the list
  for (Session* session : sessions) {
    Connection& connection = session->connection;
    if (connection.closing()) continue;
    connection.PushMessage(line);
    if (connection.unsent_bytes() > worker_.buffers.bounds.output_watch) [[unlikely]]
      ClientLimiter::Here().CheckMessages(*session);
  }
}

void Monitors::DisconnectAll(std::string_view why) {
  const std::vector<Session*> sessions = sessions_;
  for (Session* session : sessions) {
    if (session->connection.closing()) continue;
    ClientLimiter::Here().CountOutputDisconnection();
    LOG(WARNING) << "closing connection " << session->connection.id() << " of "
                 << session->peer_address << ", a monitor: " << why;
    session->connection.CloseNow();
  }
}

namespace {

void Monitor(CoordinatorContext& cx, Args, ReplySink& reply) {
  if (cx.outer() != nullptr) {
    return reply.Error("ERR MONITOR isn't allowed for DENY BLOCKING client");
  }
  Session& session = SessionOf(cx);
  if (session.monitor == Session::Monitor::kNo) Monitors::Here().Begin(session);
  reply.Ok();
}

}  // namespace

void RegisterMonitorCommand(CommandTable* table) {
  table->Add({.name = "monitor",
              .coordinate = Monitor,
              .arity = 1,
              .flags = kAdmin | kNoScript | kLoading | kStale,
              .docs = {"Shows all commands that the server gets.", "1.0.0", "server", ""}});
}

}  // namespace dfly
