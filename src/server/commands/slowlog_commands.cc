// SPDX-License-Identifier: Apache-2.0
// SLOWLOG: what others of its kind show of an entry is what Redis shows; EXPLAIN is ours. And
// COMMANDLOG, which is Valkey's.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/commands/families.h"

namespace dfly {

namespace {

constexpr size_t kCountByDefault = 10;

uint64_t MaxOf(LogKind kind, const Settings& settings) {
  switch (kind) {
    case LogKind::kSlow:
      return settings.slowlog_max_len.load(std::memory_order_relaxed);
    case LogKind::kLargeRequest:
      return settings.large_request_max_len.load(std::memory_order_relaxed);
    case LogKind::kLargeReply:
      return settings.large_reply_max_len.load(std::memory_order_relaxed);
  }
  return 0;
}

// The newest entries of all threads, newest first.
std::vector<SlowEntry> Newest(LogKind kind, size_t count) {
  ServerState& server = WorkerState::Here().server;
  count = std::min(count, static_cast<size_t>(MaxOf(kind, server.settings)));
  std::vector<std::vector<SlowEntry>> parts(server.pool.size());
  AwaitOnAll<WorkerState>(server, [&](WorkerState& worker) {
    const auto& entries = worker.timer.log(kind).entries();
    const size_t taken = std::min(count, entries.size());
    parts[worker.index()].assign(entries.end() - static_cast<ptrdiff_t>(taken), entries.end());
  });
  std::vector<SlowEntry> all;
  for (auto& part : parts) std::move(part.begin(), part.end(), std::back_inserter(all));
  std::sort(all.begin(), all.end(),
            [](const SlowEntry& a, const SlowEntry& b) { return a.id > b.id; });
  if (all.size() > count) all.resize(count);
  return all;
}

// A count, where -1 is all. False: the error was replied.
bool ParseCount(std::string_view text, size_t* count, ReplySink& reply) {
  const auto number = ParseInt64(text);
  if (!number || *number < -1) {
    reply.Error("ERR count should be greater than or equal to -1");
    return false;
  }
  *count = *number == -1 ? SIZE_MAX : static_cast<size_t>(*number);
  return true;
}

void ReplyArgs(const SlowEntry& entry, ReplySink& reply) {
  reply.Array(entry.args.size());
  for (const std::string& arg : entry.args) reply.Bulk(arg);
}

void ReplyNewest(LogKind kind, size_t count, ReplySink& reply) {
  const std::vector<SlowEntry> entries = Newest(kind, count);
  reply.Array(entries.size());
  for (const SlowEntry& entry : entries) {
    reply.Array(6);
    reply.Integer(static_cast<int64_t>(entry.id));
    reply.Integer(entry.time_s);
    reply.Integer(kind == LogKind::kSlow ? entry.micros : static_cast<int64_t>(entry.bytes));
    ReplyArgs(entry, reply);
    reply.Bulk(entry.address);
    reply.Bulk(entry.client_name);
  }
}

void Empty(LogKind kind) {
  AwaitOnAll<WorkerState>(WorkerState::Here().server,
                          [kind](WorkerState& worker) { worker.timer.log(kind).Clear(); });
}

void Get(CoordinatorContext&, Args args, ReplySink& reply) {
  size_t count = kCountByDefault;
  if (args.size() > 2 && !ParseCount(args[2], &count, reply)) return;
  ReplyNewest(LogKind::kSlow, count, reply);
}

std::string_view NameOf(SlowEntry::Way way) {
  switch (way) {
    case SlowEntry::Way::kInPlace:
      return "in-place";
    case SlowEntry::Way::kBatch:
      return "batch";
    case SlowEntry::Way::kFiber:
      return "fiber";
  }
  return "";
}

// SLOWLOG EXPLAIN [count]: where the time of these went.
void Explain(CoordinatorContext&, Args args, ReplySink& reply) {
  size_t count = kCountByDefault;
  if (args.size() > 2 && !ParseCount(args[2], &count, reply)) return;
  const std::vector<SlowEntry> entries = Newest(LogKind::kSlow, count);
  reply.Array(entries.size());
  for (const SlowEntry& entry : entries) {
    const auto number = [&reply](std::string_view name, int64_t value) {
      reply.Bulk(name);
      reply.Integer(value);
    };
    reply.Map(17);
    number("id", static_cast<int64_t>(entry.id));
    number("time", entry.time_s);
    number("usec", entry.micros);
    number("run-usec", std::max<int64_t>(0, entry.micros - entry.locks_micros));
    number("locks-usec", entry.locks_micros);
    reply.Bulk("locks-held-by");
    reply.Bulk(entry.held_by.name != nullptr ? entry.held_by.name : "");
    number("locks-held-by-client", static_cast<int64_t>(entry.held_by.client_id));
    number("queue-usec", entry.queue_micros);
    number("keys-usec", entry.waited_micros);
    number("send-usec", entry.send_micros);
    number("disk-usec", entry.disk_micros);
    number("hops", entry.hops);
    reply.Bulk("way");
    reply.Bulk(NameOf(entry.way));
    number("thread", entry.thread);
    reply.Bulk("client");
    reply.Bulk(entry.address);
    reply.Bulk("client-name");
    reply.Bulk(entry.client_name);
    reply.Bulk("command");
    ReplyArgs(entry, reply);
  }
}

void Len(CoordinatorContext&, Args, ReplySink& reply) {
  reply.Integer(static_cast<int64_t>(Newest(LogKind::kSlow, SIZE_MAX).size()));
}

void Reset(CoordinatorContext&, Args, ReplySink& reply) {
  Empty(LogKind::kSlow);
  reply.Ok();
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(
      reply, "SLOWLOG",
      {"GET [<count>]",
       "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
       "    Entries are made of:",
       "    id, timestamp, time in microseconds, arguments array, client IP and port,",
       "    client name", "EXPLAIN [<count>]", "    The same entries, with where their time went.",
       "LEN", "    Return the length of the slowlog.", "RESET", "    Reset the slowlog."});
}

// --- COMMANDLOG ---

bool ParseKind(std::string_view word, LogKind* kind, ReplySink& reply) {
  if (IsWord(word, "slow")) {
    *kind = LogKind::kSlow;
  } else if (IsWord(word, "large-request")) {
    *kind = LogKind::kLargeRequest;
  } else if (IsWord(word, "large-reply")) {
    *kind = LogKind::kLargeReply;
  } else {
    reply.Error("ERR type should be one of the following: slow, large-request, large-reply");
    return false;
  }
  return true;
}

void GetOfKind(CoordinatorContext&, Args args, ReplySink& reply) {
  size_t count = 0;
  LogKind kind;
  if (!ParseCount(args[2], &count, reply) || !ParseKind(args[3], &kind, reply)) return;
  ReplyNewest(kind, count, reply);
}

void LenOfKind(CoordinatorContext&, Args args, ReplySink& reply) {
  LogKind kind;
  if (!ParseKind(args[2], &kind, reply)) return;
  reply.Integer(static_cast<int64_t>(Newest(kind, SIZE_MAX).size()));
}

void ResetOfKind(CoordinatorContext&, Args args, ReplySink& reply) {
  LogKind kind;
  if (!ParseKind(args[2], &kind, reply)) return;
  Empty(kind);
  reply.Ok();
}

void HelpOfKinds(Args, ReplySink& reply) {
  ReplyHelp(reply, "COMMANDLOG",
            {"GET <count> <type>",
             "    Return top <count> entries of the specified <type> from the commandlog (-1 mean "
             "all).",
             "    Entries are made of:", "    id, timestamp,",
             "        time in microseconds for type of slow,",
             "        or size in bytes for type of large-request,",
             "        or size in bytes for type of large-reply",
             "    arguments array, client IP and port,", "    client name", "LEN <type>",
             "    Return the length of the specified type of commandlog.", "RESET <type>",
             "    Reset the specified type of commandlog."});
}

}  // namespace

void RegisterSlowLogCommands(CommandTable* table) {
  constexpr uint32_t kFlags = kAdmin | kLoading | kStale;
  const auto docs = [](std::string_view summary, std::string_view since,
                       std::string_view complexity) {
    return CommandDocs{summary, since, "server", complexity};
  };
  const auto row = [&](std::string_view name, CoordinatorHandler handler, int arity,
                       CommandDocs its_docs) {
    return Command{.name = name,
                   .coordinate = handler,
                   .arity = arity,
                   .flags = kFlags,
                   .docs = its_docs,
                   .tips = "request_policy:all_nodes"};
  };
  Command slowlog = {
      .name = "slowlog",
      .arity = -2,
      .docs = docs("A container for slow log commands.", "2.2.12", "Depends on subcommand.")};
  slowlog.subcommands = {
      row("get", Get, -2, docs("Returns the newest slow commands.", "2.2.12", "O(N), N entries")),
      row("explain", Explain, -2,
          docs("Returns where the time of slow commands went.", "7.4.0", "O(N), N entries")),
      row("len", Len, 2, docs("Counts the slow commands that are kept.", "2.2.12", "O(1)")),
      row("reset", Reset, 2, docs("Forgets the slow commands.", "2.2.12", "O(N), N entries")),
      HelpRow<Help>("6.2.0", "server"),
  };
  Command commandlog = {
      .name = "commandlog",
      .arity = -2,
      .docs = docs("A container for command log commands.", "8.1.0", "Depends on subcommand.")};
  commandlog.subcommands = {
      row("get", GetOfKind, 4,
          docs("Returns the newest entries of a log.", "8.1.0", "O(N), N entries")),
      row("len", LenOfKind, 3, docs("Counts the entries of a log.", "8.1.0", "O(1)")),
      row("reset", ResetOfKind, 3, docs("Empties a log.", "8.1.0", "O(N), N entries")),
      HelpRow<HelpOfKinds>("8.1.0", "server"),
  };
  const auto set_tips = [](Command& subcommand) {
    if (subcommand.name == "get" || subcommand.name == "explain") {
      subcommand.tips = "request_policy:all_nodes nondeterministic_output";
    } else if (subcommand.name == "len") {
      subcommand.tips = "request_policy:all_nodes response_policy:agg_sum nondeterministic_output";
    } else if (subcommand.name == "reset") {
      subcommand.tips = "request_policy:all_nodes response_policy:all_succeeded";
    }
  };
  for (Command& subcommand : slowlog.subcommands) set_tips(subcommand);
  for (Command& subcommand : commandlog.subcommands) set_tips(subcommand);
  table->Add(std::move(slowlog));
  table->Add(std::move(commandlog));
}

}  // namespace dfly
