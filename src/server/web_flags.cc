// SPDX-License-Identifier: Apache-2.0
#include "server/web_flags.h"

#include <gflags/gflags.h>

DEFINE_bool(metrics_nopass, false,
            "GET /metrics, for Prometheus, needs no password although there is one. It tells names "
            "of commands and how much there is of everything, nothing of keys.");

namespace dfly {

std::vector<std::string_view> WebFlagNames() { return {"metrics_nopass"}; }

std::string WebFromFlags(ServerOptions* options) {
  options->metrics_nopass = FLAGS_metrics_nopass;
  return "";
}

}  // namespace dfly
