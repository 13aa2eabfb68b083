// SPDX-License-Identifier: Apache-2.0
// The parts of an RDB stream besides values: what stands before, between and behind them. Both of
// our formats have such a stream; the files around it: storage/rdb_file.h, storage/frame_file.h.
//
//   stream   aux fields, functions, then for each database: 254 number, 251 keys deadlines, entries
//   entry    [252 deadline: Unix ms in 8 bytes, lowest first] type key value
//   aux      250 name text
//
// Of aux fields a reader that does not know them takes no notice. Ours are
//   dfly-sticky     the next entry is never evicted
//   dfly-deadlines  of members of the next entry's value, which its type has no place for: for each
//                   the member and Unix ms in 8 bytes
//   dfly-producers  what idempotent producers have sent to the next entry's stream
//                   (core/rdb/rdb_stream.h)
//   dfly-memcached  what clients of memcached keep of the next entry: flags, cas unique, marks
//   dfly-entry      a whole entry whose type redis-server does not know
//   dfly-placement  a tag and, behind the last blank, its shard (--shard_round_robin_prefix)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/table/compact_value.h"
#include "core/text/byte_stream.h"
#include "core/text/rdb_encoding.h"
#include "engine/keyspace/memcached_items.h"

namespace dfly {

enum class RdbOpcode : uint8_t {
  kHashNames = 242,   // of Redis since 8.10: of the fields of hashes
  kSlotImport = 243,  // of Valkey 9; of Redis since 8.6, what modules keep about the next key
  kSlotInfo = 244,    // since Redis 7.4
  kFunction = 245,
  kFunctionOfRc = 246,  // of a release candidate of Redis 7.0
  kModuleAux = 247,
  kIdle = 248,
  kFrequency = 249,
  kAux = 250,
  kResize = 251,
  kDeadlineMs = 252,
  kDeadline = 253,  // in seconds
  kSelectDb = 254,
  kEnd = 255,
};

inline constexpr std::string_view kAuxSticky = "dfly-sticky";
inline constexpr std::string_view kAuxDeadlines = "dfly-deadlines";
inline constexpr std::string_view kAuxProducers = "dfly-producers";
inline constexpr std::string_view kAuxMemcached = "dfly-memcached";
inline constexpr std::string_view kAuxEntry = "dfly-entry";
inline constexpr std::string_view kAuxPlacement = "dfly-placement";

// How values are written that redis-server does not know.
enum class SnapshotDialect : uint8_t {
  kOurs,   // with types of our own
  kRedis,  // redis-server reads the stream, without these
};

struct SnapshotForm {
  SnapshotDialect dialect = SnapshotDialect::kOurs;
  RdbWriter::Compression compression = RdbWriter::Compression::kNone;  // of single texts
};

// What a key has besides its value.
struct EntryFacts {
  std::optional<int64_t> deadline_ms;
  bool is_sticky = false;
  MemcachedItem memcached = {};
};

// Owner: who writes. Suspends: as its sink.
class EntryWriter {
 public:
  explicit EntryWriter(ByteSink* sink, const SnapshotForm& form = {})
      : form_(form), writer_(sink, form.compression) {}

  // The sink has all that was written then; it has at the end in any case.
  void Flush() { writer_.Flush(); }
  void Aux(std::string_view name, std::string_view text);
  void Function(std::string_view source);
  void SelectDb(int index);
  // Of databases that have keys; before these.
  void Resize(uint64_t keys, uint64_t deadlines);
  void Entry(std::string_view key, const EntryFacts& facts, const CompactValue& value);

 private:
  void Opcode(RdbOpcode opcode) { writer_.Byte(static_cast<uint8_t>(opcode)); }
  void PlainEntry(RdbType type, std::string_view key, const EntryFacts& facts,
                  const CompactValue& value);

  const SnapshotForm form_;
  RdbWriter writer_;
};

}  // namespace dfly
