// SPDX-License-Identifier: Apache-2.0
#include "server/options/web_flags.h"

#include <gflags/gflags.h>

#include "server/base/units.h"

DEFINE_bool(metrics_nopass, false,
            "GET /metrics, for Prometheus, needs no password although there is one. It tells names "
            "of commands and how much there is of everything, nothing of keys.");

DEFINE_bool(web_console, true,
            "Serves a console for browsers at / on the main port, and commands for it at "
            "/api/commands. Users of it are those of the ACL.");
DEFINE_string(http_body_max, "1mb", "Bytes of the commands in one HTTP request.");
DEFINE_string(http_reply_max, "64mb",
              "Bytes of the replies to the commands in one HTTP request; more is an error.");
DEFINE_uint64(http_timeout_ms, 10'000,
              "Milliseconds that the commands of one HTTP request may take. Those that go on then "
              "are as those of a client that has left.");

namespace dfly {

std::string WebFromFlags(ServerOptions* options) {
  options->metrics_nopass = FLAGS_metrics_nopass;
  options->web_console = FLAGS_web_console;
  const auto body_max = ParseMemory(FLAGS_http_body_max);
  if (!body_max || *body_max < 64 || *body_max > (1 << 30)) {
    return "--http_body_max: must be between 64 and 1gb";
  }
  const auto reply_max = ParseMemory(FLAGS_http_reply_max);
  if (!reply_max || *reply_max < 1024 || *reply_max > (1 << 30)) {
    return "--http_reply_max: must be between 1kb and 1gb";
  }
  if (FLAGS_http_timeout_ms < 1 || FLAGS_http_timeout_ms > 3'600'000) {
    return "--http_timeout_ms: must be between 1 and 3600000";
  }
  options->http_reply_max = *reply_max;
  options->http_timeout_ms = FLAGS_http_timeout_ms;
  if (options->web_console) {
    options->limits.http.body_path = kApiPath;
    options->limits.http.body_max = *body_max;
  }
  return "";
}

}  // namespace dfly
