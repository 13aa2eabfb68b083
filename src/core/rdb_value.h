// SPDX-License-Identifier: Apache-2.0
// Values in Redis' RDB format: what DUMP and RESTORE exchange with redis-server.
//
//   value      written as                                    read besides
//   string     kString                                       compressed ones
//   list       kListQuicklist2: listpacks of about 8 KB      kList, kListZiplist, kListQuicklist
//   set        kSetIntset while it is integers, else kSet    kSetListpack
//   zset       kZsetListpack while it is packed, else kZset2 kZset, kZsetZiplist
//   hash       kHashListpack while it is packed, else kHash  kHashZiplist
//   stream     kStreamListpacks2 (core/rdb_stream.h)         kStreamListpacks, kStreamListpacks3
#pragma once

#include <cstdint>
#include <optional>

#include "core/byte_stream.h"
#include "core/compact_value.h"
#include "core/packed_block.h"
#include "core/quick_list.h"
#include "core/rdb_encoding.h"
#include "core/set_value.h"

namespace dfly {

// How `value` is written. None: the format has no words for it (deadlines of members).
std::optional<RdbType> RdbTypeOf(const CompactValue& value);
// All that follows the type. REQUIRES: RdbTypeOf tells one.
void WriteRdbValue(const CompactValue& value, ByteSink* sink);

// By which the values that are read get their encodings, and what they may be.
struct RdbLimits {
  size_t string_max;
  BlockLimit list;
  SetLimit set;
  PackedLimit zset;
  PackedLimit hash;
};

// Reads what follows `type`; `value` becomes it. False if it makes no sense, and for an empty
// collection; `value` may be anything then. What comes behind the value is left.
bool ReadRdbValue(uint8_t type, const RdbLimits& limits, ByteSource* source, CompactValue* value);

}  // namespace dfly
