// SPDX-License-Identifier: Apache-2.0
// HOTKEYS, as Redis 8.6 documents it. Each thread counts for itself, while it is on.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/commands/families.h"
#include "server/dispatch/command_runner.h"
#include "server/meters/hot_keys.h"

namespace dfly {

namespace {

constexpr int64_t kCountMax = 64;
constexpr int64_t kSecondsMax = 1'000'000'000;

// args[*next] is an option that has a number in [1, max]. False: the error was replied.
bool ParseNumber(Args args, size_t* next, int64_t max, std::string_view error, int64_t* number,
                 ReplySink& reply) {
  if (*next + 1 >= args.size()) {
    reply.Error(kErrSyntax);
    return false;
  }
  const auto parsed = ParseInt64(args[*next + 1]);
  if (!parsed || *parsed < 1 || *parsed > max) {
    reply.Error(error);
    return false;
  }
  *number = *parsed;
  *next += 2;
  return true;
}

// METRICS count [CPU] [NET], from args[2] on. 0: the error was replied; else where it ends.
size_t ParseMetrics(Args args, HotKeysPlan* plan, ReplySink& reply) {
  if (args.size() < 4 || !IsWord(args[2], "metrics")) {
    reply.Error("ERR METRICS parameter is required");
    return 0;
  }
  const auto count = ParseInt64(args[3]);
  if (!count || *count < 1) {
    reply.Error("ERR METRICS count must be positive");
    return 0;
  }
  size_t i = 4;
  for (; i < args.size(); ++i) {
    bool& metric = IsWord(args[i], "cpu") ? plan->by_time : plan->by_bytes;
    if (!IsWord(args[i], "cpu") && !IsWord(args[i], "net")) break;
    if (metric) {
      reply.Error(kErrSyntax);
      return 0;
    }
    metric = true;
  }
  if (i == 4) {
    reply.Error("ERR METRICS no valid metrics passed. Supported: CPU|NET");
    return 0;
  }
  if (static_cast<uint64_t>(*count) != i - 4) {
    reply.Error("ERR METRICS count does not match number of metric types provided");
    return 0;
  }
  return i;
}

// False: the error was replied.
bool ParseStart(Args args, HotKeysPlan* plan, ReplySink& reply) {
  size_t i = ParseMetrics(args, plan, reply);
  if (i == 0) return false;
  plan->start_ms = helio::UnixMillis();
  plan->cpu_at_start = CpuMillis::Now();
  while (i < args.size()) {
    int64_t number = 0;
    if (IsWord(args[i], "count")) {
      if (!ParseNumber(args, &i, kCountMax, "ERR COUNT must be between 1 and 64", &number, reply))
        return false;
      plan->count = static_cast<uint32_t>(number);
    } else if (IsWord(args[i], "duration")) {
      if (!ParseNumber(args, &i, kSecondsMax, "ERR DURATION must be between 1 and 1000000000",
                       &number, reply))
        return false;
      plan->end_ms = plan->start_ms + number * 1000;
    } else if (IsWord(args[i], "sample")) {
      if (!ParseNumber(args, &i, INT32_MAX, "ERR SAMPLE ratio must be between 1 and 2147483647",
                       &number, reply))
        return false;
      plan->sample_ratio = static_cast<uint32_t>(number);
    } else if (IsWord(args[i], "slots")) {
      reply.Error("ERR SLOTS parameter cannot be used in non-cluster mode");
      return false;
    } else {
      reply.Error(kErrSyntax);
      return false;
    }
  }
  return true;
}

bool IsActive(const ServerState& server) {
  return helio::UnixMillis() < server.hot_keys_end_ms.load(std::memory_order_relaxed);
}

// What was counted stays.
void EndOnAll(ServerState& server, int64_t now_ms) {
  const CpuMillis cpu = CpuMillis::Now();
  AwaitOnAll<CommandRunner>(server, [now_ms, cpu](CommandRunner& runner) {
    WorkerState::Here().timer.EndHotKeys(now_ms, cpu);
    runner.UpdateTiming();
  });
}

void Start(CoordinatorContext&, Args args, ReplySink& reply) {
  HotKeysPlan plan;
  if (!ParseStart(args, &plan, reply)) return;
  ServerState& server = WorkerState::Here().server;
  int64_t end_ms = server.hot_keys_end_ms.load(std::memory_order_relaxed);
  // One of two that come at the same time is refused.
  if (plan.start_ms < end_ms || !server.hot_keys_end_ms.compare_exchange_strong(
                                    end_ms, plan.end_ms, std::memory_order_relaxed)) {
    return reply.Error("ERR hotkeys tracking session already in progress");
  }
  AwaitOnAll<CommandRunner>(server, [&plan](CommandRunner& runner) {
    WorkerState::Here().timer.StartHotKeys(plan);
    runner.UpdateTiming();
  });
  reply.Ok();
}

void Stop(CoordinatorContext&, Args, ReplySink& reply) {
  ServerState& server = WorkerState::Here().server;
  const int64_t now_ms = helio::UnixMillis();
  if (server.hot_keys_end_ms.exchange(now_ms, std::memory_order_relaxed) <= now_ms) {
    return reply.Error("ERR hotkeys tracking session is not in progress");
  }
  EndOnAll(server, now_ms);
  reply.Ok();
}

void Reset(CoordinatorContext&, Args, ReplySink& reply) {
  ServerState& server = WorkerState::Here().server;
  if (IsActive(server)) {
    return reply.Error("ERR hotkeys tracking session is in progress, stop it first");
  }
  AwaitOnAll<CommandRunner>(server, [](CommandRunner& runner) {
    WorkerState::Here().timer.ForgetHotKeys();
    runner.UpdateTiming();
  });
  reply.Ok();
}

void ReplyItems(const std::vector<FrequentItems::Item>& items, ReplySink& reply) {
  reply.Array(2 * items.size());
  for (const FrequentItems::Item& item : items) {
    reply.Bulk(item.text);
    reply.Integer(static_cast<int64_t>(item.count));
  }
}

void Get(CoordinatorContext&, Args, ReplySink& reply) {
  ServerState& server = WorkerState::Here().server;
  // By its DURATION.
  if (!IsActive(server)) EndOnAll(server, helio::UnixMillis());
  // Each thread's is copied on that thread.
  std::vector<std::optional<HotKeys>> parts(server.pool.size());
  AwaitOnAll<WorkerState>(server, [&parts](WorkerState& worker) {
    if (const HotKeys* const keys = worker.timer.hot_keys(); keys != nullptr) {
      parts[worker.index()].emplace(*keys);
    }
  });
  if (!parts[0]) return reply.Null();
  HotKeys& all = *parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i]) all.Merge(*parts[i]);
  }
  const HotKeysPlan& plan = all.plan();
  const int64_t now_ms = helio::UnixMillis();
  reply.Array(1);  // of each server, says Redis
  reply.Map(7 + (plan.by_time ? 3 : 0) + (plan.by_bytes ? 2 : 0));
  const auto number = [&reply](std::string_view name, int64_t value) {
    reply.Bulk(name);
    reply.Integer(value);
  };
  number("tracking-active", all.is_over(now_ms) ? 0 : 1);
  number("sample-ratio", plan.sample_ratio);
  reply.Bulk("selected-slots");
  reply.Array(0);
  number("all-commands-all-slots-us", static_cast<int64_t>(all.micros()));
  number("net-bytes-all-commands-all-slots", static_cast<int64_t>(all.bytes()));
  number("collection-start-time-unix-ms", plan.start_ms);
  number("collection-duration-ms", std::min(now_ms, plan.end_ms) - plan.start_ms);
  if (plan.by_time) {
    const CpuMillis cpu = all.cpu();
    number("total-cpu-time-user-ms", cpu.user);
    number("total-cpu-time-sys-ms", cpu.system);
    reply.Bulk("by-cpu-time-us");
    ReplyItems(all.TopByMicros(), reply);
  }
  if (plan.by_bytes) {
    number("total-net-bytes", static_cast<int64_t>(all.bytes()));
    reply.Bulk("by-net-bytes");
    ReplyItems(all.TopByBytes(), reply);
  }
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "HOTKEYS",
            {"START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
             "    Begin to count what the keys of commands cost: time, and bytes of network.",
             "STOP", "    Stop that, and keep what was counted.", "GET",
             "    Return the keys that have cost most, and how much all commands have.", "RESET",
             "    Forget what was counted."});
}

}  // namespace

void RegisterHotKeysCommands(CommandTable* table) {
  const auto docs = [](std::string_view summary, std::string_view complexity) {
    return CommandDocs{summary, "8.6.0", "server", complexity};
  };
  const auto row = [&](std::string_view name, CoordinatorHandler handler, int arity,
                       CommandDocs its_docs) {
    return Command{.name = name,
                   .coordinate = handler,
                   .arity = arity,
                   .flags = kAdmin | kNoScript,
                   .docs = its_docs,
                   .tips = "request_policy:special response_policy:special"};
  };
  Command hotkeys = {.name = "hotkeys",
                     .arity = -2,
                     .docs = docs("A container for commands about keys that cost much.",
                                  "Depends on subcommand.")};
  hotkeys.subcommands = {
      row("start", Start, -2, docs("Begins to count what keys cost.", "O(1)")),
      row("stop", Stop, 2, docs("Stops to count what keys cost.", "O(1)")),
      row("get", Get, 2, docs("Returns the keys that have cost most.", "O(K), K keys")),
      row("reset", Reset, 2, docs("Forgets what keys have cost.", "O(1)")),
      HelpRow<Help>("8.6.0", "server"),
  };
  table->Add(std::move(hotkeys));
}

}  // namespace dfly
