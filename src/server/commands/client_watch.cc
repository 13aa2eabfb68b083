// SPDX-License-Identifier: Apache-2.0
#include "server/commands/client_watch.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/sketches/frequent_items.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/base/waits.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/blocking.h"
#include "server/push/monitor.h"

namespace dfly {

void ClientHotKeys(CoordinatorContext& cx, Args args, ReplySink& reply) {
  constexpr int64_t kMillisMax = 60'000;
  constexpr int64_t kCountMax = 1000;
  constexpr size_t kCounters = 8192;  // of each thread
  constexpr uint64_t kSliceNanos = 100'000'000;
  const auto millis = ParseInt64(args[2]);
  if (args.size() > 4) return reply.Error(kErrSyntax);
  const auto count = args.size() > 3 ? ParseInt64(args[3]) : 20;
  if (!millis || *millis < 1 || *millis > kMillisMax) {
    return reply.Error("ERR the time must be between 1 and 60000 milliseconds");
  }
  if (!count || *count < 1 || *count > kCountMax) {
    return reply.Error("ERR the count must be between 1 and 1000");
  }
  ServerState& server = SessionOf(cx).server;
  std::vector<std::unique_ptr<FrequentItems>> counters;
  for (uint32_t i = 0; i < server.pool.size(); ++i) {
    counters.push_back(std::make_unique<FrequentItems>(kCounters));
  }
  AwaitOnAll<WorkerState>(server, [&counters](WorkerState& worker) {
    Monitors::Here().BeginCount(counters[worker.index()].get());
  });
  // The client may leave meanwhile.
  const uint64_t end_ns = helio::MonotonicNanos() + static_cast<uint64_t>(*millis) * 1'000'000;
  {
    const helio::BoundedWait wait(kItsTime);
    for (uint64_t now_ns = helio::MonotonicNanos();
         now_ns < end_ns && !SessionOf(cx).connection.closing(); now_ns = helio::MonotonicNanos()) {
      helio::this_fiber::SleepUntil(std::min(end_ns, now_ns + kSliceNanos));
    }
  }
  AwaitOnAll<WorkerState>(server, [&counters](WorkerState& worker) {
    Monitors::Here().EndCount(counters[worker.index()].get());
  });
  for (size_t i = 1; i < counters.size(); ++i) counters[0]->Merge(*counters[i]);
  const std::vector<FrequentItems::Item> top = counters[0]->Top(static_cast<size_t>(*count));
  reply.Map(3);
  reply.Bulk("total");
  reply.Integer(static_cast<int64_t>(counters[0]->total()));
  reply.Bulk("error");
  reply.Integer(static_cast<int64_t>(counters[0]->error()));
  reply.Bulk("keys");
  reply.Map(top.size());
  for (const FrequentItems::Item& item : top) {
    reply.Bulk(item.text);
    reply.Integer(static_cast<int64_t>(item.count));
  }
}

void ClientBlocked(CoordinatorContext& cx, Args, ReplySink& reply) {
  struct Blocked {
    uint64_t id;
    std::string address;
    std::string name;
    std::string command;
    std::vector<std::string> keys;
    uint64_t since_ns;
  };
  ServerState& server = SessionOf(cx).server;
  std::vector<std::vector<Blocked>> parts(server.pool.size());
  AwaitOnAllSessions<WorkerState>(server, [&parts](WorkerState& worker) {
    worker.ForEachSession([&](const Session& session) {
      if (session.blocked == nullptr) return;
      parts[worker.index()].push_back({session.connection.id(), session.peer_address, session.name,
                                       session.last_command->full_name, session.blocked->Keys(),
                                       session.blocked->since_ns()});
    });
  });
  std::vector<Blocked> all;
  for (auto& part : parts) std::move(part.begin(), part.end(), std::back_inserter(all));
  std::sort(all.begin(), all.end(),
            [](const Blocked& a, const Blocked& b) { return a.since_ns < b.since_ns; });
  const uint64_t now_ns = helio::MonotonicNanos();
  reply.Array(all.size());
  for (const Blocked& each : all) {
    reply.Map(6);
    reply.Bulk("id");
    reply.Integer(static_cast<int64_t>(each.id));
    reply.Bulk("addr");
    reply.Bulk(each.address);
    reply.Bulk("name");
    reply.Bulk(each.name);
    reply.Bulk("cmd");
    reply.Bulk(each.command);
    reply.Bulk("keys");
    reply.Array(each.keys.size());
    for (const std::string& key : each.keys) reply.Bulk(key);
    reply.Bulk("milliseconds");
    reply.Integer(static_cast<int64_t>((now_ns - std::min(now_ns, each.since_ns)) / 1'000'000));
  }
}

}  // namespace dfly
