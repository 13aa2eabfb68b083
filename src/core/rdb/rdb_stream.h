// SPDX-License-Identifier: Apache-2.0
// Streams in Redis' RDB format, for core/rdb/rdb_value.h.
//
//   stream    count of nodes, nodes, count of entries, last id,
//             first id, largest id that was deleted, count of all ever added   (*)
//             count of groups, groups
//             seconds and count of a producer's messages that are remembered  (****)
//             count of producers, producers, count of messages, of those that came twice  (****)
//   node      string: its id (16 bytes, the highest first); string: a listpack of
//               live entries, deleted ones, count of names, names, 0, entries
//   entry     flags (1: deleted, 2: the names are those in front),
//             milliseconds and number, from the node's id on,
//             [count of fields, without 2] [name] value [name] value ...
//             the number of elements of this entry
//   group     name, last id, count of entries it has read (*), count of pending, pending,
//             count of consumers, consumers
//             count of pending that consumers gave back, their ids (16 bytes each)  (***)
//   pending   id (16 bytes), Unix time in ms of its delivery (8 bytes, lowest first), deliveries
//   consumer  name, Unix time in ms of its last try, and of its last success (**), count of its
//             pending ids, these (16 bytes each)
//   producer  name, count of messages, for each: its name and the id of its entry
//
// Ids are two lengths where nothing is said. (*) since 7.0, (**) since 7.2, (***) since 8.8, (****)
// since 8.6; we write as 7.0 does, or as 8.6, if there are producers. What was given back belongs
// to a consumer of an unused name whose last try was at 0, and each has instead of a time its
// place, from 0 on. Who reads this knows it by that.
#pragma once

#include "core/text/rdb_encoding.h"
#include "core/types/stream_value.h"

namespace dfly {

// All that follows `type`: kStreamListpacks2, or kStreamListpacks4 for one with producers.
void WriteRdbStream(const StreamValue& stream, RdbType type, RdbWriter* writer);

// What has (****), alone; and into a stream that has been read without. False: it makes no sense.
void WriteRdbProducers(const StreamProducers& producers, RdbWriter* writer);
bool ReadRdbProducers(RdbReader* reader, StreamValue* stream);

// 1 to 5: in which form. REQUIRES: it is one of streams.
constexpr int StreamVersionOf(RdbType type) {
  switch (type) {
    case RdbType::kStreamListpacks:
      return 1;
    case RdbType::kStreamListpacks2:
      return 2;
    case RdbType::kStreamListpacks3:
      return 3;
    case RdbType::kStreamListpacks4:
      return 4;
    default:
      return 5;
  }
}

// Reads what follows `type`, one of those of streams, into an empty one. False if it makes no
// sense; `stream` may only be destroyed then.
bool ReadRdbStream(RdbType type, RdbReader* reader, StreamValue* stream);

}  // namespace dfly
