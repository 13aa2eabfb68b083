// SPDX-License-Identifier: Apache-2.0
// Replies that nobody is to get.
#pragma once

#include <cstddef>

#include "helio/base/io_buf.h"

namespace dfly {

// Drops the reply that begins at `begin`. `keeps_error`: it is for a primary, whose errors are
// counted. What is left then is an error, also if that stands inside of an EXEC's reply.
void DropReply(helio::IoBuf* out, size_t begin, bool keeps_error);

}  // namespace dfly
