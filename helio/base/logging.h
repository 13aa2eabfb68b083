// SPDX-License-Identifier: Apache-2.0
// The one way to log and to assert: glog's LOG, VLOG, CHECK and DCHECK. Never include absl/log,
// whose macros have the same names.
#pragma once

#include <glog/logging.h>
