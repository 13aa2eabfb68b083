// SPDX-License-Identifier: Apache-2.0
// Where a value ends, in Redis' RDB format, without the value: so that one thread can find the
// entries of a file, and others read them.
#pragma once

#include <cstdint>

#include "core/text/byte_stream.h"

namespace dfly {

// True if what follows `type` could be a value as far as lengths tell; `source` is behind it then.
// Whatever ReadRdbValue (core/rdb/rdb_value.h) accepts has the same end here; it may still refuse
// what this does not look at. False for types that are not read, and if the bytes end.
bool SkipRdbValue(uint8_t type, ByteSource* source);

}  // namespace dfly
