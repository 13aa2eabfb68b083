// SPDX-License-Identifier: Apache-2.0
// MEMORY USAGE STATS DOCTOR PURGE. Figures are those of INFO: what is not measured is not told.
#include "server/memory_commands.h"

#include <fmt/format.h>

#include <string>

#include "core/numbers.h"
#include "engine/coordinator.h"
#include "facade/error_texts.h"
#include "server/info.h"
#include "server/server.h"
#include "server/session.h"
#include "server/units.h"
#include "server/words.h"

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

uint64_t KeyCount(const InfoFacts& facts) {
  uint64_t keys = 0;
  for (const auto& database : facts.databases) keys += database.keys;
  return keys;
}

// Redis' names, as far as there is something behind them.
void Stats(CoordinatorContext&, Args, ReplySink& reply) {
  const InfoFacts facts = GatherInfo(Server::LocalWorker()->server());
  const uint64_t keys = KeyCount(facts);
  const uint64_t used = facts.used_memory;
  const uint64_t since_start = used - std::min(used, facts.base_memory);
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
  reply.Map(18);
  bytes("peak.allocated", facts.used_memory_peak);
  bytes("total.allocated", used);
  bytes("startup.allocated", facts.base_memory);
  bytes("replication.backlog", 0);
  bytes("clients.slaves", 0);
  bytes("clients.normal", facts.client_memory);
  bytes("cluster.links", 0);
  bytes("aof.buffer", 0);
  bytes("lua.caches", 0);
  bytes("functions.caches", 0);
  bytes("overhead.total", facts.base_memory + facts.client_memory);
  bytes("keys.count", keys);
  bytes("keys.bytes-per-key", keys == 0 ? 0 : facts.data_memory / keys);
  bytes("dataset.bytes", facts.data_memory);
  number("dataset.percentage", 100 * Ratio(facts.data_memory, since_start));
  number("peak.percentage", 100 * Ratio(used, facts.used_memory_peak));
  number("fragmentation", Ratio(facts.rss, used));
  integer("fragmentation.bytes", static_cast<int64_t>(facts.rss) - static_cast<int64_t>(used));
}

void Doctor(CoordinatorContext&, Args, ReplySink& reply) {
  constexpr uint64_t kTooLittle = 5 << 20;      // bytes; figures of an empty server tell nothing
  constexpr double kHighPeak = 1.5;             // times what is used now
  constexpr double kHighFragmentation = 1.4;    // resident bytes for each used one
  constexpr uint64_t kWasteMin = 10 << 20;      // bytes; less is nobody's problem
  constexpr uint64_t kClientBytes = 200 << 10;  // of buffers, for each connection
  const InfoFacts facts = GatherInfo(Server::LocalWorker()->server());
  const uint64_t used = facts.used_memory;
  if (used < kTooLittle) {
    return reply.Verbatim("txt", fmt::format("Only {} are used: too little to find problems in.\n",
                                             HumanBytes(used)));
  }
  std::string report;
  if (Ratio(facts.used_memory_peak, used) > kHighPeak) {
    report += fmt::format(
        " * Peak: {} were used once, {} are now. The process may still hold the difference; MEMORY "
        "PURGE returns what it can.\n",
        HumanBytes(facts.used_memory_peak), HumanBytes(used));
  }
  if (Ratio(facts.rss, used) > kHighFragmentation && facts.rss > used + kWasteMin) {
    report += fmt::format(" * Fragmentation: {} are resident for {} that are used.\n",
                          HumanBytes(facts.rss), HumanBytes(used));
  }
  if (facts.clients > 0 && facts.client_memory / facts.clients > kClientBytes) {
    report += fmt::format(
        " * Clients: {} connections have {} of buffers. Some send more than they read.\n",
        facts.clients, HumanBytes(facts.client_memory));
  }
  reply.Verbatim("txt", report.empty() ? "No problems found.\n" : "Problems found:\n" + report);
}

// Each thread gives back what its own heap holds free. May suspend.
void Purge(CoordinatorContext&, Args, ReplySink& reply) {
  Server::LocalWorker()->server().AwaitOnWorkers([](Worker& worker) { worker.ReturnMemory(); });
  reply.Ok();
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "MEMORY",
            {"DOCTOR", "    Return memory problems reports.", "PURGE",
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
      {.name = "help",
       .session = ForClient<Help>,
       .scripted = Help,
       .arity = 2,
       .flags = kLoading | kStale,
       .docs = {"Lists the subcommands.", "4.0.0", "server", "O(1)"}},
  };
  return memory;
}

}  // namespace dfly
