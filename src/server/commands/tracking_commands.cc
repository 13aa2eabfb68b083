// SPDX-License-Identifier: Apache-2.0
// CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR, with redis-server's errors.
#include "server/commands/tracking_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/push/tracking.h"

namespace dfly {

namespace {

constexpr std::string_view kErrMode =
    "ERR You can't switch {} mode {}before disabling tracking for this client, and then "
    "re-enabling it with a different mode.";

struct Options {
  uint64_t redirect = 0;
  uint32_t redirect_thread = 0;
  bool is_broadcast = false;
  bool opt_in = false;
  bool opt_out = false;
  bool no_loop = false;
  std::vector<std::string> prefixes;
};

// On which thread the client is; it stays there, as it gets messages of others from now on.
std::optional<uint32_t> PinTarget(ServerState& server, uint64_t id) {
  std::atomic<int> found{-1};
  AwaitOnAllSessions<WorkerState>(server, [&](WorkerState& worker) {
    worker.ForEachSession([&](Session& session) {
      if (session.connection.id() != id) return;
      Tracking::Here().AddTarget(session);
      found = static_cast<int>(worker.index());
    });
  });
  if (found < 0) return std::nullopt;
  return static_cast<uint32_t>(found.load());
}

// False: the error is replied. Suspends.
bool ParseOptions(ServerState& server, Args args, Options* options, ReplySink& reply) {
  const auto fail = [&reply](std::string_view error) {
    reply.Error(error);
    return false;
  };
  for (size_t i = 3; i < args.size(); ++i) {
    const bool has_more = i + 1 < args.size();
    if (IsWord(args[i], "redirect") && has_more) {
      if (options->redirect != 0) {
        return fail("ERR A client can only redirect to a single other client");
      }
      const auto id = ParseInt64(args[++i]);
      if (!id) return fail(kErrNotInteger);
      const auto thread = *id > 0 ? PinTarget(server, static_cast<uint64_t>(*id)) : std::nullopt;
      if (!thread) return fail("ERR The client ID you want redirect to does not exist");
      options->redirect = static_cast<uint64_t>(*id);
      options->redirect_thread = *thread;
    } else if (IsWord(args[i], "bcast")) {
      options->is_broadcast = true;
    } else if (IsWord(args[i], "optin")) {
      options->opt_in = true;
    } else if (IsWord(args[i], "optout")) {
      options->opt_out = true;
    } else if (IsWord(args[i], "noloop")) {
      options->no_loop = true;
    } else if (IsWord(args[i], "prefix") && has_more) {
      options->prefixes.emplace_back(args[++i]);
    } else {
      return fail(kErrSyntax);
    }
  }
  return true;
}

bool Overlap(std::string_view a, std::string_view b) {
  return a.starts_with(b) || b.starts_with(a);
}

// Prefixes of one client that overlap would tell it of keys twice.
std::string CheckPrefixes(std::span<const std::string> added, std::span<const std::string> known) {
  constexpr std::string_view kText =
      "ERR Prefix '{}' overlaps with {} prefix '{}'. Prefixes for a single client must not "
      "overlap.";
  for (size_t i = 0; i < added.size(); ++i) {
    for (const std::string& other : known) {
      if (Overlap(added[i], other)) {
        return fmt::format(fmt::runtime(kText), Printed(added[i]), "an existing", Printed(other));
      }
    }
    for (size_t j = i + 1; j < added.size(); ++j) {
      if (Overlap(added[i], added[j])) {
        return fmt::format(fmt::runtime(kText), Printed(added[i]), "another provided",
                           Printed(added[j]));
      }
    }
  }
  return "";
}

// Empty, or why these options cannot be.
std::string Check(const Options& options, const TrackingState* state) {
  if (!options.is_broadcast && !options.prefixes.empty()) {
    return "ERR PREFIX option requires BCAST mode to be enabled";
  }
  if (state != nullptr && state->is_broadcast != options.is_broadcast) {
    return fmt::format(fmt::runtime(kErrMode), "BCAST", "on/off ");
  }
  if (options.is_broadcast && (options.opt_in || options.opt_out)) {
    return "ERR OPTIN and OPTOUT are not compatible with BCAST";
  }
  if (options.opt_in && options.opt_out) {
    return "ERR You can't specify both OPTIN mode and OPTOUT mode";
  }
  if (state != nullptr &&
      ((options.opt_in && state->opt_out) || (options.opt_out && state->opt_in))) {
    return fmt::format(fmt::runtime(kErrMode), "OPTIN/OPTOUT", "");
  }
  if (!options.is_broadcast) return "";
  const auto known = state == nullptr ? std::span<const std::string>() : std::span(state->prefixes);
  return CheckPrefixes(options.prefixes, known);
}

void Start(ServerState& server, Session& session, Options options) {
  if (session.connection_closed) return;  // nobody is there any more to end it
  std::vector<std::string> added;
  const auto has = [&session](const std::string& prefix) {
    if (session.tracking == nullptr) return false;
    const auto& known = session.tracking->prefixes;
    return std::find(known.begin(), known.end(), prefix) != known.end();
  };
  if (options.is_broadcast && options.prefixes.empty()) options.prefixes.emplace_back();
  for (std::string& prefix : options.prefixes) {
    if (!has(prefix)) added.push_back(std::move(prefix));
  }
  const bool is_new = session.tracking == nullptr;
  if (is_new) server.tracking_clients.fetch_add(1);
  const uint32_t thread = session.worker.index();
  AwaitOnAll<Tracking>(server, [&](Tracking& tracking) {
    tracking.Enable();
    tracking.AddPrefixes(added, thread);
  });
  if (is_new) {
    auto made = std::make_unique<TrackingState>();
    made->client = {.id = session.connection.id(), .thread = thread, .no_loop = false};
    Tracking::Here().Begin(session, std::move(made));
  }
  if (session.tracking == nullptr) {
    // It closed while the others were told, and what it had before has been forgotten.
    return Tracking::Here().RemovePrefixesEverywhere(std::move(added));
  }
  TrackingState& state = *session.tracking;
  state.client.no_loop = options.no_loop;
  state.is_broadcast = options.is_broadcast;
  state.opt_in = options.opt_in;
  state.opt_out = options.opt_out;
  state.is_broken = false;
  state.redirect = options.redirect;
  state.redirect_thread = options.redirect_thread;
  state.prefixes.insert(state.prefixes.end(), added.begin(), added.end());
  std::sort(state.prefixes.begin(), state.prefixes.end());
  // The same for one that had nothing.
  if (session.connection_closed) Tracking::Here().OnClosed(session);
}

// Suspends.
void ClientTracking(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Session& session = SessionOf(cx);
  Options options;
  if (!ParseOptions(session.server, args, &options, reply)) return;
  if (IsWord(args[2], "off")) {
    Tracking::Here().End(session);
    return reply.Ok();
  }
  if (!IsWord(args[2], "on")) return reply.Error(kErrSyntax);
  const std::string error = Check(options, session.tracking.get());
  if (!error.empty()) return reply.Error(error);
  Start(session.server, session, std::move(options));
  reply.Ok();
}

void ClientCaching(Session& session, Args args, ReplySink& reply) {
  TrackingState* const state = session.tracking.get();
  if (state == nullptr) {
    return reply.Error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
        "OPTOUT mode enabled");
  }
  if (IsWord(args[2], "yes")) {
    if (!state->opt_in) {
      return reply.Error(
          "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
    }
  } else if (IsWord(args[2], "no")) {
    if (!state->opt_out) {
      return reply.Error(
          "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
    }
  } else {
    return reply.Error(kErrSyntax);
  }
  state->has_caching = true;
  reply.Ok();
}

void ClientTrackingInfo(Session& session, Args, ReplySink& reply) {
  const TrackingState* const state = session.tracking.get();
  std::vector<std::string_view> flags = {state == nullptr ? "off" : "on"};
  if (state != nullptr) {
    if (state->is_broadcast) flags.push_back("bcast");
    if (state->opt_in) {
      flags.push_back("optin");
      if (state->has_caching) flags.push_back("caching-yes");
    }
    if (state->opt_out) {
      flags.push_back("optout");
      if (state->has_caching) flags.push_back("caching-no");
    }
    if (state->client.no_loop) flags.push_back("noloop");
    if (state->is_broken) flags.push_back("broken_redirect");
  }
  reply.Map(3);
  reply.Bulk("flags");
  reply.Set(flags.size());
  for (const std::string_view flag : flags) reply.Bulk(flag);
  reply.Bulk("redirect");
  reply.Integer(state == nullptr ? -1 : static_cast<int64_t>(state->redirect));
  reply.Bulk("prefixes");
  reply.Array(state == nullptr ? 0 : state->prefixes.size());
  if (state == nullptr) return;
  for (const std::string& prefix : state->prefixes) reply.Bulk(prefix);
}

void ClientGetRedir(Session& session, Args, ReplySink& reply) {
  const TrackingState* const state = session.tracking.get();
  reply.Integer(state == nullptr ? -1 : static_cast<int64_t>(state->redirect));
}

}  // namespace

std::vector<Command> TrackingSubcommands() {
  const auto row = [](std::string_view name, int arity, std::string_view summary,
                      std::string_view since) {
    return Command{.name = name,
                   .arity = arity,
                   .flags = kNoScript | kLoading | kStale,
                   .categories = kAclConnection,
                   .docs = {summary, since, "connection", "O(1)"}};
  };
  std::vector<Command> rows = {
      row("tracking", -3, "Tells the client when keys change that it has read.", "6.0.0"),
      row("caching", 3, "Chooses whether the next command's keys are tracked.", "6.0.0"),
      row("trackinginfo", 2, "Describes what the client tracks.", "6.2.0"),
      row("getredir", 2, "Returns the client that gets the messages of this one.", "6.0.0")};
  rows[0].coordinate = ClientTracking;
  rows[1].session = ForSession<ClientCaching>;
  rows[2].session = ForSession<ClientTrackingInfo>;
  rows[3].session = ForSession<ClientGetRedir>;
  return rows;
}

}  // namespace dfly
