// SPDX-License-Identifier: Apache-2.0
// What the server tells over HTTP, on the port of all clients. Without a password: whether it
// lives, and whether it is ready.
#include <fmt/format.h>

#include <array>

#include "facade/http_parser.h"
#include "helio/fibers/fiber.h"
#include "server/http_access.h"
#include "server/info.h"
#include "server/metrics.h"
#include "server/server.h"

namespace dfly {

namespace {

HttpResponse NotReady(std::string why) { return {.status = 503, .body = std::move(why)}; }

// Suspends.
HttpResponse Readiness(Server& server) {
  const PersistenceFacts facts =
      server.pool().at(0)->Await([&server] { return server.persistence().Facts(); });
  const uint8_t gate = server.settings().gate.load(std::memory_order_relaxed);
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
  if (!facts.is_last_ok) return {.body = fmt::format("ok\nno snapshot: {}\n", facts.last_error)};
  return {.body = "ok\n"};
}

// Suspends.
HttpResponse Metrics(Session& session, const HttpQuery& query) {
  Server& server = session.server;
  if (!server.options().metrics_nopass) {
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
  return {.status = 404, .body = "There are /livez, /readyz and /metrics.\n"};
}

}  // namespace

CommandSink::Outcome Worker::OnHttp(Connection* connection, const HttpRequest& request) {
  const bool has_body = request.method != "HEAD";
  const bool keep_alive = request.keep_alive;
  if (has_body && request.method != "GET") {
    const HttpResponse response{.status = 405, .fields = "Allow: GET, HEAD\r\n"};
    connection->replies().BeginLocal()->Append(FormatHttp(response, keep_alive));
    connection->replies().EndLocal();
    return keep_alive ? Outcome::kTaken : Outcome::kClose;
  }
  Session& session = SessionOf(connection);
  ++session.coordinators;
  ++coordinators_;
  helio::Fiber("http", [this, connection, &session, query = HttpQuery(request), has_body,
                        keep_alive] {
    const HttpResponse response = PageOf(session, query);
    if (!connection->closing()) {
      connection->replies().BeginLocal()->Append(FormatHttp(response, keep_alive, has_body));
      connection->replies().EndLocal();
      if (!keep_alive) connection->CloseWhenSent();
    }
    --session.coordinators;
    --coordinators_;
    if (session.connection_closed) Forget(&session);
    connection->EndBusy();  // the session may be gone after this
  }).Detach();
  return Outcome::kBusy;
}

}  // namespace dfly
