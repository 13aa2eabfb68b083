// SPDX-License-Identifier: Apache-2.0
// CLIENT and its subcommands. Those about the own connection run at once; LIST, KILL, PAUSE and
// UNPAUSE visit all workers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "server/base/words.h"
#include "server/clients/client_info.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/client_filter.h"
#include "server/commands/client_watch.h"
#include "server/commands/families.h"
#include "server/commands/tracking_commands.h"
#include "server/dispatch/blocking.h"
#include "server/dispatch/gates.h"
#include "server/push/pubsub.h"

namespace dfly {

namespace {

void Id(Session& session, Args, ReplySink& reply) {
  reply.Integer(static_cast<int64_t>(session.connection.id()));
}

void Info(Session& session, Args, ReplySink& reply) {
  ClientInfo info = InfoOfClient(session, helio::MonotonicNanos());
  if (info.commands > 0) --info.commands;  // this one
  reply.Verbatim("txt", FormatClient(info));
}

void SetName(Session& session, Args args, ReplySink& reply) {
  if (!IsValidClientText(args[2])) return reply.Error(kErrClientName);
  session.name = args[2];
  session.CountTexts();
  reply.Ok();
}

void GetName(Session& session, Args, ReplySink& reply) {
  if (session.name.empty()) return reply.Null();
  reply.Bulk(session.name);
}

void SetInfo(Session& session, Args args, ReplySink& reply) {
  std::string* target = nullptr;
  if (IsWord(args[2], "lib-name")) {
    target = &session.lib_name;
  } else if (IsWord(args[2], "lib-ver")) {
    target = &session.lib_version;
  } else {
    return reply.Error(fmt::format("ERR Unrecognized option '{}'", Printed(args[2])));
  }
  if (!IsValidClientText(args[3])) {
    return reply.Error(fmt::format("ERR {} cannot contain spaces, newlines or special characters.",
                                   LowerCase(args[2])));
  }
  *target = args[3];
  session.CountTexts();
  reply.Ok();
}

std::optional<bool> ParseOnOff(std::string_view text) {
  if (IsWord(text, "on")) return true;
  if (IsWord(text, "off")) return false;
  return std::nullopt;
}

void NoEvict(Session& session, Args args, ReplySink& reply) {
  const auto on = ParseOnOff(args[2]);
  if (!on) return reply.Error(kErrSyntax);
  session.no_evict = *on;
  if (!*on) ClientLimiter::Here().OnMemoryChange();
  reply.Ok();
}

void NoTouch(Session& session, Args args, ReplySink& reply) {
  const auto on = ParseOnOff(args[2]);
  if (!on) return reply.Error(kErrSyntax);
  session.no_touch = *on;
  reply.Ok();
}

// Only ON is answered.
void Reply(Session& session, Args args, ReplySink& reply) {
  if (IsWord(args[2], "on")) {
    session.reply_mode = ReplyMode::kOn;
    return reply.Ok();
  }
  if (IsWord(args[2], "off")) {
    session.reply_mode = ReplyMode::kOff;
  } else if (IsWord(args[2], "skip")) {
    if (session.reply_mode != ReplyMode::kOff) session.reply_mode = ReplyMode::kSkipNext;
  } else {
    reply.Error(kErrSyntax);
  }
}

// --- All clients ---

void List(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Session* const me = &SessionOf(cx);
  ServerState& server = me->server;
  ClientFilter filter;
  if (const std::string error = filter.Parse(server, args, ClientFilter::Of::kList);
      !error.empty()) {
    return reply.Error(error);
  }
  std::vector<std::vector<std::pair<uint64_t, std::string>>> found(server.pool.size());
  const uint64_t now_ns = helio::MonotonicNanos();
  AwaitOnAllSessions<WorkerState>(server, [&](WorkerState& worker) {
    worker.ForEachSession([&](Session& session) {
      const uint64_t id = session.connection.id();
      if (session.connection.closing() || !filter.Matches(session, now_ns)) return;
      if (&session == me && filter.skip_me()) return;
      ClientInfo info = InfoOfClient(session, now_ns);
      if (&session == me && info.commands > 0) --info.commands;  // this one
      found[worker.index()].emplace_back(id, FormatClient(info));
    });
  });
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (auto& part : found) std::move(part.begin(), part.end(), std::back_inserter(lines));
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& [id, line] : lines) text += line;
  reply.Verbatim("txt", text);
}

void Kill(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ClientFilter filter;
  const bool is_old_form = args.size() == 3;
  if (is_old_form) {
    if (args[2].empty()) return reply.Error(kErrNoSuchClient);
    filter.SetAddress(args[2]);
  } else {
    filter.set_skip_me(true);
    if (const std::string error = filter.Parse(SessionOf(cx).server, args, ClientFilter::Of::kKill);
        !error.empty()) {
      return reply.Error(error);
    }
  }

  Session* const me = &SessionOf(cx);
  const uint64_t now_ns = helio::MonotonicNanos();
  std::atomic<int64_t> killed{0};
  AwaitOnAllSessions<WorkerState>(me->server, [&](WorkerState& worker) {
    worker.ForEachSession([&](Session& session) {
      if (session.connection.closing() || !filter.Matches(session, now_ns)) return;
      if (&session == me) {
        if (filter.skip_me()) return;
        session.close_after_reply = true;  // its answer comes first
      } else if (session.primary != nullptr) {
        session.connection.CloseWhenSent();  // what it has sent is carried out
      } else {
        session.connection.CloseNow();
        // A PUBLISH behind this command does not count it. Not in Worker::OnClosing: who closes a
        // client for its unsent messages is on the way through all subscribers.
        PubSub::Here().OnClosed(session);
      }
      ++killed;
    });
  });
  if (!is_old_form) return reply.Integer(killed);
  if (killed == 0) return reply.Error(kErrNoSuchClient);
  reply.Ok();
}

// CLIENT UNBLOCK client-id [TIMEOUT | ERROR]
void Unblock(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 4) return reply.Error(SubcommandSyntaxError("client", args[1]));
  const bool with_error = args.size() == 4 && IsWord(args[3], "error");
  if (args.size() == 4 && !with_error && !IsWord(args[3], "timeout")) {
    return reply.Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  }
  const auto id = ParseInt64(args[2]);
  if (!id) return reply.Error(kErrNotInteger);
  std::atomic<bool> is_unblocked{false};
  AwaitOnAllSessions<WorkerState>(SessionOf(cx).server, [&](WorkerState& worker) {
    worker.ForEachSession([&](Session& session) {
      if (session.connection.id() != static_cast<uint64_t>(*id) || session.blocked == nullptr) {
        return;
      }
      is_unblocked = session.blocked->EndWait(with_error ? ClientWait::End::kUnblockedWithError
                                                         : ClientWait::End::kUnblocked);
    });
  });
  reply.Integer(is_unblocked ? 1 : 0);
}

// CLIENT PAUSE timeout [WRITE|ALL]
void Pause(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 4) return reply.Error(SubcommandSyntaxError("client", args[1]));
  const bool writes_only = args.size() == 4 && IsWord(args[3], "write");
  if (args.size() == 4 && !writes_only && !IsWord(args[3], "all")) {
    return reply.Error("ERR CLIENT PAUSE mode must be WRITE or ALL");
  }
  const auto timeout_ms = ParseInt64(args[2]);
  if (!timeout_ms) return reply.Error(kErrTimeoutNotInteger);
  if (*timeout_ms < 0) return reply.Error(kErrTimeoutNegative);
  // Nobody waits longer, and this fits all clocks.
  constexpr int64_t kHundredYearsMs = 100ll * 365 * 86400 * 1000;
  if (*timeout_ms > kHundredYearsMs) return reply.Error(kErrTimeoutOutOfRange);
  const int64_t until_ms = helio::UnixMillis() + *timeout_ms;
  AwaitOnAll<Gates>(SessionOf(cx).server,
                    [&](Gates& gates) { gates.Pause(until_ms, writes_only); });
  reply.Ok();
}

void Unpause(CoordinatorContext& cx, Args, ReplySink& reply) {
  AwaitOnAll<Gates>(SessionOf(cx).server, [](Gates& gates) { gates.Pause(0, false); });
  reply.Ok();
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "CLIENT",
            {"CACHING (YES|NO)",
             "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
             "GETREDIR",
             "    Return the client ID we are redirecting to when tracking is enabled.",
             "GETNAME",
             "    Return the name of the current connection.",
             "ID",
             "    Return the ID of the current connection.",
             "INFO",
             "    Return information about the current client connection.",
             "KILL <ip:port>",
             "    Kill connection made from <ip:port>.",
             "KILL <option> <value> [<option> <value> [...]]",
             "    Kill connections. Options are:",
             "    * ADDR (<ip:port>|<unixsocket>:0)",
             "      Kill connections made from the specified address",
             "    * LADDR (<ip:port>|<unixsocket>:0)",
             "      Kill connections made to specified local address",
             "    * TYPE (NORMAL|PRIMARY|MASTER|REPLICA|PUBSUB)",
             "      Kill connections by type.",
             "    * USER <username>",
             "      Kill connections authenticated by <username>.",
             "    * SKIPME (YES|NO)",
             "      Skip killing current connection (default: yes).",
             "    * ID <client-id> [<client-id> ...]",
             "      Kill connections by client id.",
             "    * MAXAGE <maxage>",
             "      Kill connections older than the specified age.",
             "    * FLAGS <flags>",
             "      Kill connections that have all of the flags.",
             "    * NAME <name>, LIB-NAME <name>, LIB-VER <version>",
             "      Kill connections whose clients have given themselves that.",
             "    * IDLE <seconds>",
             "      Kill connections that have sent nothing for as long.",
             "    * DB <index>",
             "      Kill connections that have selected that database.",
             "    * IP <ip>",
             "      Kill connections made from the specified ip.",
             "    * CAPA <letters>",
             "      Kill nobody: no client has a capability here.",
             "    * NOT-<option> <value>",
             "      The others. Not for SKIPME, MAXAGE and IDLE.",
             "LIST [options ...]",
             "    Return information about client connections.",
             "    Options are those of KILL (SKIPME default: no).",
             "UNBLOCK <clientid> [TIMEOUT|ERROR]",
             "    Unblock the specified blocked client.",
             "UNPAUSE",
             "    Stop the current client pause, resuming traffic.",
             "PAUSE <timeout> [WRITE|ALL]",
             "    Suspend all, or just write, clients for <timeout> milliseconds.",
             "REPLY (ON|OFF|SKIP)",
             "    Control the replies sent to the current connection.",
             "BLOCKED",
             "    Which clients wait for keys, for which, and for how long.",
             "HOTKEYS <milliseconds> [<count>]",
             "    Which keys commands name most often, of those that begin in that time.",
             "SETNAME <name>",
             "    Assign the name <name> to the current connection.",
             "SETINFO <option> <value>",
             "    Set client meta attr. Options are:",
             "    * LIB-NAME: the client lib name.",
             "    * LIB-VER: the client lib version.",
             "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
             "         [OPTIN] [OPTOUT] [NOLOOP]",
             "    Control server assisted client side caching.",
             "TRACKINGINFO",
             "    Report tracking status for the current connection.",
             "NO-EVICT (ON|OFF)",
             "    Protect current client connection from eviction.",
             "NO-TOUCH (ON|OFF)",
             "    Will not touch LRU/LFU stats when this mode is on."});
}

constexpr uint32_t kOwn = kNoScript | kLoading | kStale;
constexpr uint32_t kAll = kAdmin | kOwn;

Command Own(std::string_view name, SessionHandler handler, int arity, CommandDocs docs,
            uint32_t more_flags = 0) {
  return {.name = name,
          .session = handler,
          .arity = arity,
          .flags = kOwn | more_flags,
          .categories = kAclConnection,
          .docs = docs};
}

Command All(std::string_view name, CoordinatorHandler handler, int arity, CommandDocs docs) {
  return {.name = name,
          .coordinate = handler,
          .arity = arity,
          .flags = kAll,
          .categories = kAclConnection | kAclDangerous,
          .docs = docs};
}

CommandDocs Docs(std::string_view summary, std::string_view since,
                 std::string_view complexity = "O(1)") {
  return {summary, since, "connection", complexity};
}

}  // namespace

void RegisterClientCommands(CommandTable* table) {
  Command client = {.name = "client",
                    .arity = -2,
                    .docs = Docs("A container for client connection commands.", "2.4.0",
                                 "Depends on subcommand.")};
  client.subcommands = {
      Own("id", ForSession<Id>, 2, Docs("Returns the connection's id.", "5.0.0")),
      Own("info", ForSession<Info>, 2, Docs("Describes the connection.", "6.2.0")),
      Own("setname", ForSession<SetName>, 3, Docs("Names the connection.", "2.6.9")),
      Own("getname", ForSession<GetName>, 2, Docs("Returns the connection's name.", "2.6.9")),
      Own("setinfo", ForSession<SetInfo>, 4,
          Docs("Tells the client library's name or version.", "7.2.0")),
      Own("no-evict", ForSession<NoEvict>, 3,
          Docs("Protects the connection from eviction.", "7.0.0"), kAdmin),
      Own("no-touch", ForSession<NoTouch>, 3,
          Docs("Reads leave no trace in access clocks.", "7.2.0"), kBarrier),
      Own("reply", ForSession<Reply>, 3, Docs("Chooses whether commands are answered.", "3.2.0")),
      All("list", List, -2, Docs("Describes all connections.", "2.4.0", "O(N), N connections")),
      All("kill", Kill, -3, Docs("Closes connections.", "2.4.0", "O(N), N connections")),
      All("blocked", ClientBlocked, 2,
          Docs("Lists the clients that wait for keys.", "7.4.0", "O(N), N connections")),
      All("hotkeys", ClientHotKeys, -3,
          Docs("Counts for some time which keys commands name most.", "7.4.0")),
      All("pause", Pause, -3, Docs("Suspends the commands of all clients.", "2.9.50")),
      All("unblock", Unblock, -3,
          Docs("Ends the wait of a blocked client.", "5.0.0", "O(N), N connections")),
      All("unpause", Unpause, 2, Docs("Ends a pause.", "6.2.0", "O(N), N connections")),
      HelpRow<Help>("5.0.0", "connection", kAclConnection),
  };
  for (Command& subcommand : TrackingSubcommands()) {
    client.subcommands.push_back(std::move(subcommand));
  }
  for (Command& subcommand : client.subcommands) {
    if (subcommand.name == "no-evict") subcommand.categories |= kAclDangerous;
    if (subcommand.name == "info" || subcommand.name == "list") {
      subcommand.tips = "nondeterministic_output";
    }
  }
  table->Add(std::move(client));
}

}  // namespace dfly
