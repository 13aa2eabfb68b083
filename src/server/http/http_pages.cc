// SPDX-License-Identifier: Apache-2.0
// On the port of all clients. Without a password: whether the server lives, and whether it is
// ready; and the console, which has nothing in it before its user has one.
#include "server/http/http_pages.h"

#include <fmt/format.h>

#include <array>
#include <system_error>

#include "facade/parsers/http_parser.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/http/console.h"
#include "server/http/http_access.h"
#include "server/http/http_commands.h"
#include "server/info/info_facts.h"
#include "server/info/metrics.h"
#include "server/persistence/persistence.h"
#include "server/run/server.h"

namespace dfly {

namespace {

HttpResponse NotReady(std::string why) { return {.status = 503, .body = std::move(why)}; }

// Suspends.
HttpResponse Readiness(ServerState& server) {
  const PersistenceFacts facts =
      server.pool.at(0)->Await([&server] { return Server::Here().persistence().Facts(); });
  const uint16_t gate = server.settings.gate.load(std::memory_order_relaxed);
  if ((gate & Settings::kStoppingGate) != 0) return NotReady("stopping\n");
  if ((gate & Settings::kLoadingGate) != 0 || facts.is_loading) {
    const double part =
        facts.load_bytes_total == 0
            ? 0
            : static_cast<double>(facts.load_bytes) / static_cast<double>(facts.load_bytes_total);
    return NotReady(fmt::format("loading: {:.0f} %\n", 100 * part));
  }
  if ((gate & Settings::kNoWritesGate) != 0) {
    return NotReady(fmt::format("writes are refused, no snapshot: {}\n", facts.last_error));
  }
  if ((gate & Settings::kNoLogGate) != 0) {
    return NotReady(fmt::format("writes are refused: {}\n",
                                std::generic_category().message(server.settings.log_errno)));
  }
  if (!facts.is_last_ok) return {.body = fmt::format("ok\nno snapshot: {}\n", facts.last_error)};
  return {.body = "ok\n"};
}

// Suspends.
HttpResponse Metrics(Session& session, const HttpQuery& query) {
  ServerState& server = session.server;
  if (!server.options.metrics_nopass) {
    const std::array<std::string_view, 2> args = {"info", "all"};
    auto refusal = RefusalOf(session, AskerOf(session, query), Args(args), true);
    if (refusal) return std::move(*refusal);
  }
  return {.body = FormatMetrics(GatherInfo(server, true)), .type = kMetricsType};
}

// Suspends.
HttpResponse PageOf(Session& session, const HttpQuery& query) {
  if (query.path == "/livez") return {.body = "ok\n"};
  if (query.path == "/readyz") return Readiness(session.server);
  if (query.path == "/metrics") return Metrics(session, query);
  const bool has_console = session.server.options.web_console;
  if (has_console) {
    if (const ConsoleFile* file = FindConsoleFile(query.path)) {
      return {.body = std::string(file->bytes), .type = file->type, .fields = kConsoleFields};
    }
  }
  return {.status = 404,
          .body = has_console ? "There are /, /livez, /readyz and /metrics.\n"
                              : "There are /livez, /readyz and /metrics.\n"};
}

class Pages final : public HttpFrontend {
 public:
  CommandSink::Outcome OnHttp(Connection* connection, Session& session,
                              const HttpRequest& request) override;
};

CommandSink::Outcome Pages::OnHttp(Connection* connection, Session& session,
                                   const HttpRequest& request) {
  using Outcome = CommandSink::Outcome;
  const bool has_body = request.method != "HEAD";
  const bool keep_alive = request.keep_alive;
  const HttpQuery asked(request);
  const bool is_api = asked.path == kApiPath && session.server.options.web_console;
  if (is_api ? request.method != "POST" : has_body && request.method != "GET") {
    const HttpResponse response{.status = 405,
                                .fields = is_api ? "Allow: POST\r\n" : "Allow: GET, HEAD\r\n"};
    connection->replies().BeginLocal()->Append(FormatHttp(response, keep_alive));
    connection->replies().EndLocal();
    return keep_alive ? Outcome::kTaken : Outcome::kClose;
  }
  WorkerState& worker = session.worker;
  ++session.coordinators;
  ++worker.coordinators;
  helio::Fiber("http", [connection, &session, &worker, query = asked, has_body, keep_alive,
                        is_api] {
    const HttpResponse response = is_api ? RunCommands(session, query) : PageOf(session, query);
    if (!connection->closing()) {
      connection->replies().BeginLocal()->Append(FormatHttp(response, keep_alive, has_body));
      connection->replies().EndLocal();
      if (!keep_alive) connection->CloseWhenSent();
    }
    --session.coordinators;
    --worker.coordinators;
    if (session.connection_closed) worker.Forget(&session);
    connection->EndBusy();  // the session may be gone after this
  }).Detach();
  return is_api ? Outcome::kWaits : Outcome::kBusy;
}

}  // namespace

HttpFrontend& HttpPages() {
  static Pages pages;
  return pages;
}

}  // namespace dfly
