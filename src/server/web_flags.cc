// SPDX-License-Identifier: Apache-2.0
#include "server/web_flags.h"

#include <gflags/gflags.h>

DEFINE_bool(metrics_nopass, false,
            "GET /metrics, for Prometheus, needs no password although there is one. It tells names "
            "of commands and how much there is of everything, nothing of keys.");

namespace dfly {

void WebFromFlags(ServerOptions* options) { options->metrics_nopass = FLAGS_metrics_nopass; }

}  // namespace dfly
