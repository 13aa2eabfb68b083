// SPDX-License-Identifier: Apache-2.0
// MEMORY USAGE STATS DOCTOR PURGE MALLOC-STATS. Figures are those of INFO, and what the kernel and
// the allocator say besides.
#include "server/commands/memory_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "commands/table/rows.h"
#include "core/memory/allocator.h"
#include "core/memory/allocator_facts.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/base/units.h"
#include "server/base/words.h"
#include "server/care/resident_memory.h"
#include "server/care/shard_care.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/info/info_facts.h"
#include "server/run/server.h"

namespace dfly {

namespace {

// MEMORY USAGE key [SAMPLES count]. Sizes are exact, so the count changes nothing.
void Usage(ShardContext& cx, Args args, ReplySink& reply) {
  for (size_t i = 3; i < args.size(); i += 2) {
    if (!IsWord(args[i], "samples") || i + 1 == args.size()) return reply.Error(kErrSyntax);
    const auto count = ParseInt64(args[i + 1]);
    if (!count) return reply.Error(kErrNotInteger);
    if (*count < 0) return reply.Error(kErrSyntax);
  }
  const auto bytes = cx.MemoryUsage(args[2]);
  if (!bytes) return reply.Null();
  reply.Integer(static_cast<int64_t>(*bytes));
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

int64_t Difference(uint64_t whole, uint64_t part) {
  return static_cast<int64_t>(whole) - static_cast<int64_t>(part);
}

uint64_t KeyCount(const InfoFacts& facts) {
  uint64_t keys = 0;
  for (const auto& database : facts.counts.databases) keys += database.keys;
  return keys;
}

// Redis' names, as far as there is something behind them.
void Stats(CoordinatorContext&, Args, ReplySink& reply) {
  ServerState& server = WorkerState::Here().server;
  const InfoFacts facts = GatherInfo(server);
  const uint64_t keys = KeyCount(facts);
  // Of the moment at which the heaps were looked at.
  const ResidentMemory resident = ReadResidentMemory(server);
  const WorkerMemory& memory = resident.counted;
  const uint64_t data = resident.data;
  const uint64_t of_process = facts.script_memory + facts.function_memory + facts.acl_memory;
  const uint64_t used = facts.base_memory + data + memory.Sum() + of_process;
  const uint64_t since_start = used - std::min(used, facts.base_memory);
  const ResidentMemory& at_start = Server::Here().resident_at_start();
  const auto integer = [&reply](std::string_view name, int64_t value) {
    reply.Bulk(name);
    reply.Integer(value);
  };
  const auto bytes = [&integer](std::string_view name, uint64_t value) {
    integer(name, static_cast<int64_t>(value));
  };
  const auto number = [&reply](std::string_view name, double value) {
    reply.Bulk(name);
    reply.Double(value);
  };
  reply.Map(41);
  bytes("peak.allocated", std::max(facts.used_memory_peak, used));
  bytes("total.allocated", used);
  bytes("startup.allocated", facts.base_memory);
  bytes("replication.backlog", 0);
  bytes("clients.slaves", 0);
  bytes("clients.normal", memory.clients + memory.queued_commands);
  bytes("cluster.links", 0);
  bytes("aof.buffer", 0);
  bytes("lua.caches", memory.interpreters + facts.script_memory);
  bytes("functions.caches", facts.function_memory);
  bytes("coordinators", memory.coordinators);
  bytes("fiber.stacks", memory.fiber_stacks);
  bytes("receive.buffers", memory.receive_buffers);
  bytes("snapshot", memory.snapshot);
  bytes("acl.users", facts.acl_memory);
  bytes("overhead.total", used - data);
  bytes("keys.count", keys);
  bytes("keys.bytes-per-key", keys == 0 ? 0 : data / keys);
  bytes("dataset.bytes", data);
  number("dataset.percentage", 100 * Ratio(data, since_start));
  number("peak.percentage", 100 * Ratio(used, facts.used_memory_peak));
  bytes("allocator.allocated", resident.heap.allocated);
  bytes("allocator.active", resident.heap.active);
  bytes("allocator.resident", resident.heap.resident);
  number("allocator-fragmentation.ratio", Ratio(resident.heap.active, resident.heap.allocated));
  integer("allocator-fragmentation.bytes",
          Difference(resident.heap.active, resident.heap.allocated));
  number("allocator-rss.ratio", Ratio(resident.heap.resident, resident.heap.active));
  integer("allocator-rss.bytes", Difference(resident.heap.resident, resident.heap.active));
  number("rss-overhead.ratio", Ratio(facts.rss, resident.heap.resident));
  integer("rss-overhead.bytes", Difference(facts.rss, resident.heap.resident));
  number("fragmentation", Ratio(facts.rss, used));
  integer("fragmentation.bytes", Difference(facts.rss, used));

  // RSS is: the parts above that are on the heap (data, clients, Lua, functions, coordinators, the
  // snapshot, users), and these.
  const uint64_t on_heap = data + memory.clients + memory.queued_commands + memory.interpreters +
                           memory.coordinators + memory.snapshot + of_process;
  bytes("rss.total", resident.rss);
  bytes("rss.files", resident.files);
  integer("rss.program", at_start.rest());
  bytes("rss.startup-heap", at_start.heap.allocated);
  bytes("rss.fiber-stacks", resident.fiber_stacks);
  bytes("rss.receive-buffers", resident.receive_buffers);
  integer("rss.allocator-overhead", Difference(resident.heap.resident, resident.heap.touched));
  // Blocks count as a whole. What nobody has written to yet is in large ones.
  integer("rss.untouched-buffers", Difference(resident.heap.touched, resident.heap.allocated));
  integer("rss.unexplained",
          Difference(resident.heap.allocated, at_start.heap.allocated + on_heap) + resident.rest() -
              at_start.rest());
}

void Doctor(CoordinatorContext&, Args, ReplySink& reply) {
  constexpr uint64_t kTooLittle = 5 << 20;      // bytes; figures of an empty server tell nothing
  constexpr double kHighPeak = 1.5;             // times what is used now
  constexpr double kHighFragmentation = 1.4;    // resident bytes of the allocator for each used one
  constexpr double kHighSnapshot = 0.1;         // of what is used
  constexpr uint64_t kWasteMin = 10 << 20;      // bytes; less is nobody's problem
  constexpr uint64_t kClientBytes = 200 << 10;  // of buffers, for each connection
  ServerState& server = WorkerState::Here().server;
  const InfoFacts facts = GatherInfo(server);
  const uint64_t used = facts.used_memory;
  if (used < kTooLittle) {
    return reply.Verbatim("txt", fmt::format("Only {} are used: too little to find problems in.\n",
                                             HumanBytes(used)));
  }
  std::string report;
  if (Ratio(facts.used_memory_peak, used) > kHighPeak &&
      facts.used_memory_peak > used + kWasteMin) {
    report += fmt::format(
        " * Peak: {} were used once, {} are now. The process may still hold the difference; MEMORY "
        "PURGE returns what it can.\n",
        HumanBytes(facts.used_memory_peak), HumanBytes(used));
  }
  const HeapFacts heap = ReadResidentMemory(server).heap;
  if (Ratio(heap.resident, heap.touched) > kHighFragmentation &&
      heap.resident > heap.touched + kWasteMin) {
    report += fmt::format(
        " * Fragmentation: the allocator has {} resident for {} that are used. MEMORY PURGE "
        "returns "
        "what of it is whole pages.\n",
        HumanBytes(heap.resident), HumanBytes(heap.touched));
  }
  if (facts.counts.memory.snapshot > kWasteMin &&
      Ratio(facts.counts.memory.snapshot, used) > kHighSnapshot) {
    report +=
        fmt::format(" * Snapshot: {} wait to be written. The disk is slower than the changes.\n",
                    HumanBytes(facts.counts.memory.snapshot));
  }
  const uint64_t of_clients = facts.counts.memory.clients + facts.counts.memory.queued_commands;
  if (facts.clients > 0 && of_clients > kWasteMin && of_clients / facts.clients > kClientBytes) {
    report += fmt::format(
        " * Clients: {} connections have {} of buffers. Some send more than they read.\n",
        facts.clients, HumanBytes(of_clients));
  }
  reply.Verbatim("txt", report.empty() ? "No problems found.\n" : "Problems found:\n" + report);
}

// Each thread gives back what its own heap holds free. May suspend.
void Purge(CoordinatorContext&, Args, ReplySink& reply) {
  AwaitOnAll<ShardCare>(WorkerState::Here().server, [](ShardCare& care) { care.Purge(); });
  reply.Ok();
}

void MallocStats(CoordinatorContext&, Args, ReplySink& reply) {
  reply.Verbatim("txt", AllocatorStatistics());
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "MEMORY",
            {"DOCTOR", "    Return memory problems reports.", "MALLOC-STATS",
             "    Return internal statistics report from the memory allocator.", "PURGE",
             "    Attempt to purge dirty pages for reclamation by the allocator.", "STATS",
             "    Return information about the memory usage of the server.",
             "USAGE <key> [SAMPLES <count>]",
             "    Return memory in bytes used by <key> and its value. It is exact, whatever",
             "    <count> is."});
}

constexpr std::string_view kTips =
    "nondeterministic_output request_policy:all_shards response_policy:special";

}  // namespace

Command MemoryContainer() {
  Command memory = {
      .name = "memory",
      .arity = -2,
      .docs = {"A container for memory diagnostics.", "4.0.0", "server", "Depends on subcommand."}};
  memory.subcommands = {
      {.name = "usage",
       .run = Usage,
       .arity = -3,
       .flags = kReadonly,
       .keys = KeyAt(2, "RO"),
       .docs = {"Tells how many bytes a key costs.", "4.0.0", "server", "O(1)"}},
      {.name = "stats",
       .coordinate = Stats,
       .arity = 2,
       .docs = {"Tells what the server's memory is used for.", "4.0.0", "server", "O(1)"},
       .tips = kTips},
      {.name = "doctor",
       .coordinate = Doctor,
       .arity = 2,
       .docs = {"Reports problems with memory.", "4.0.0", "server", "O(1)"},
       .tips = kTips},
      {.name = "purge",
       .coordinate = Purge,
       .arity = 2,
       .docs = {"Returns free memory to the system.", "4.0.0", "server",
                "Depends on how much memory is free."},
       .tips = "request_policy:all_shards response_policy:all_succeeded"},
      {.name = "malloc-stats",
       .coordinate = MallocStats,
       .arity = 2,
       .docs = {"Returns the allocator's statistics.", "4.0.0", "server",
                "Depends on how much memory is allocated, could be slow"},
       .tips = kTips},
      HelpRow<Help>("4.0.0", "server"),
  };
  return memory;
}

}  // namespace dfly
