// SPDX-License-Identifier: Apache-2.0
// Values in Redis' RDB format: what files of snapshots have, and DUMP and RESTORE exchange with
// redis-server. Every value can be written; for some the format has no words, or none before 7.4.
//
//   value      written as                                    read besides
//   string     kString                                       compressed ones
//   list       kListQuicklist2: listpacks of about 8 KB      kList, kListZiplist, kListQuicklist
//   set        kSetIntset while it is integers, else kSet    kSetListpack
//   zset       kZsetListpack while it is packed, else kZset2 kZset, kZsetZiplist
//   hash       kHashListpack while it is packed, else kHash  kHashZiplist, kHashTemplateListpack,
//                                                            kHashTemplate
//   stream     kStreamListpacks2 (core/rdb/rdb_stream.h)     kStreamListpacks, 3, 5
//   stream with producers                 kStreamListpacks4; kStreamListpacks2, without them
//   hash, some fields with deadlines      kHashMetadata; kHash, without them; kHashListpackEx,
//                                         kHashListpackExPreGa, kHashMetadataPreGa and
//                                         kHashValkey are read
//   set, some members with deadlines      kSetMetadata, which is ours; kSet, without them
//   Bloom filter, count-min sketch, top-k kinds of ours (core/rdb/rdb_probabilistic.h)
//
//   kHashMetadata   the earliest of all deadlines (8 bytes, the lowest first), count of fields,
//                   fields
//   field           0, or 1 + its deadline - the earliest one (a length); string: name;
//                   string: value
//   kSetMetadata    the same without values
//   kHashMetadataPreGa    count of fields, fields
//   field                 0 or its deadline (a length); string: name; string: value
//   kHashListpackEx       the earliest deadline (8 bytes), string: a listpack of name, value, and 0
//                         or the deadline, for each field
//   kHashListpackExPreGa  the same without the earliest deadline
//   kHashValkey           count of fields, fields
//   field                 string: name; string: value; its deadline (8 bytes), -1 for none
//   kHashTemplate         names, strings: the values in their order
//   kHashTemplateListpack names, string: a listpack of a number and the values
//   names                 0, string: a listpack of them; or 1, their count, strings
//
// Deadlines are Unix times in ms. The forms of hashes with deadlines or names are as librdb (MIT
// licence, github.com/redis/librdb, src/lib/parser.c) reads them; that of Valkey as Valkey 9.1
// writes it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/table/compact_value.h"
#include "core/table/packed_block.h"
#include "core/text/byte_stream.h"
#include "core/text/rdb_encoding.h"
#include "core/types/quick_list.h"
#include "core/types/set_value.h"

namespace dfly {

// How `value` is written for redis-server 7.0. None: it has no words for it.
std::optional<RdbType> RdbTypeOf(const CompactValue& value);
// How it is written so that nothing is lost; the same where RdbTypeOf tells one.
RdbType DflyTypeOf(const CompactValue& value);
// All that follows the type. Members that are due at `now_ms` are left out. REQUIRES: `type` is
// what DflyTypeOf tells; or, without what that has more, kHash, kSet or kStreamListpacks2. Some
// member is not due.
void WriteRdbValue(const CompactValue& value, RdbType type, RdbWriter* writer,
                   int64_t now_ms = INT64_MIN);

// By which the values that are read get their encodings, and what they may be.
struct RdbLimits {
  size_t string_max;
  BlockLimit list;
  SetLimit set;
  PackedLimit zset;
  PackedLimit hash;
};

enum class RdbRead : uint8_t {
  kValue,
  kEmpty,    // a list, set, zset or hash without elements, which Redis had by an error of its own
  kDamaged,  // it makes no sense
};

// Reads what follows `type`; `value` becomes it, or may be anything if kValue is not returned. What
// comes behind the value is left, also if that is empty.
RdbRead ReadRdbValue(uint8_t type, const RdbLimits& limits, ByteSource* source,
                     CompactValue* value);

}  // namespace dfly
