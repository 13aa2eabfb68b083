// SPDX-License-Identifier: Apache-2.0
// JSON documents as bytes, in a form of ours (RedisJSON's is that of a module):
//
//   node     a byte, and what follows it
//            0, 1, 2   null, false, true          3   an integer in 8 bytes, the lowest first
//            4         the same above INT64_MAX   5   a double (8)
//            6         a string                   7   count of elements, nodes
//            8         count of members, and for each a node that is a string, and another node
//            9         a packed array: its JsonFloat (1), its numbers as a string
//            10 .. 12  an FP16, BF16 (2), FP32 (4)
//
// Versions before FPHA refuse what has 9 to 12.
#pragma once

#include <memory>

#include "core/json/json_doc.h"
#include "core/text/rdb_encoding.h"

namespace dfly {

void WriteRdbJson(const JsonDoc& doc, RdbWriter* writer);
// Null if the bytes make no sense.
std::unique_ptr<JsonDoc> ReadRdbJson(RdbReader* reader);
bool SkipRdbJson(RdbReader* reader);

}  // namespace dfly
