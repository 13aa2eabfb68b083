// SPDX-License-Identifier: Apache-2.0
// DUMP and RESTORE: values in Redis' own payload, so that they can move to redis-server and back.
//
//   payload   type (1), value (core/rdb/rdb_value.h), version (2), checksum of all before it (8)
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "commands/keys/dump.h"
#include "commands/table/numbers.h"
#include "core/rdb/rdb_value.h"
#include "core/text/crc64.h"
#include "core/text/numbers.h"
#include "core/text/packed_entry.h"
#include "core/types/stream_value.h"
#include "engine/keyspace/rdb_limits.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr size_t kVersionBytes = 2;
constexpr size_t kChecksumBytes = 8;

std::string PayloadOf(const CompactValue& value, RdbType type, int64_t now_ms) {
  std::string payload;
  payload.reserve(value.HeapBytes() + 64);
  StringSink sink(&payload);
  RdbWriter writer(&sink, RdbWriter::Compression::kLzf);
  writer.Byte(static_cast<uint8_t>(type));
  WriteRdbValue(value, type, &writer, now_ms);
  writer.Flush();
  // A redis-server that has no words for it, 7.2 and before, says so at once.
  SealPayload(&payload, type == RdbType::kStreamListpacks4 ? kRdbVersionProducers
                        : type == RdbType::kStreamListpacks2 || RdbTypeOf(value)
                            ? kRdbVersionWritten
                            : kRdbVersionDeadlines);
  return payload;
}

void Dump(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key());
  if (!value) return reply.Null();
  reply.Bulk(PayloadOf(*value, DflyTypeOf(*value), cx.now_ms()));
}

struct RestoreOptions {
  bool may_replace = false;
  bool is_absolute = false;  // ABSTTL
  std::optional<int64_t> idle_seconds = {};
  std::optional<uint8_t> frequency = {};
};

// None: the error was replied.
std::optional<RestoreOptions> ParseRestoreOptions(Args args, ReplySink& reply) {
  RestoreOptions options;
  for (size_t i = 4; i < args.size(); ++i) {
    const bool has_next = i + 1 < args.size();
    if (IsOption(args[i], "REPLACE")) {
      options.may_replace = true;
    } else if (IsOption(args[i], "ABSTTL")) {
      options.is_absolute = true;
    } else if (IsOption(args[i], "IDLETIME") && has_next && !options.frequency) {
      const std::optional<int64_t> seconds = ParseInt64(args[++i]);
      if (!seconds) return Refuse(reply, kErrNotInteger);
      if (*seconds < 0) return Refuse(reply, "ERR Invalid IDLETIME value, must be >= 0");
      options.idle_seconds = seconds;
    } else if (IsOption(args[i], "FREQ") && has_next && !options.idle_seconds) {
      const std::optional<int64_t> frequency = ParseInt64(args[++i]);
      if (!frequency) return Refuse(reply, kErrNotInteger);
      if (*frequency < 0 || *frequency > 255) {
        return Refuse(reply, "ERR Invalid FREQ value, must be >= 0 and <= 255");
      }
      options.frequency = static_cast<uint8_t>(*frequency);
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  return options;
}

// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
// At an absolute time, and whatever is there. `at_ms`: 0 is none.
void TellRestored(ShardContext& cx, Args args, std::string_view payload,
                  const RestoreOptions& options, int64_t at_ms) {
  if (options.frequency) {
    cx.Tell("RESTORE", args.key(), at_ms, payload, "REPLACE", "ABSTTL", "FREQ", *options.frequency);
  } else if (options.idle_seconds) {
    cx.Tell("RESTORE", args.key(), at_ms, payload, "REPLACE", "ABSTTL", "IDLETIME",
            *options.idle_seconds);
  } else {
    cx.Tell("RESTORE", args.key(), at_ms, payload, "REPLACE", "ABSTTL");
  }
}

// What the payload of a stream that was told does not have.
void TellProducers(ShardContext& cx, std::string_view key, const StreamProducers* producers) {
  if (producers == nullptr) return;
  cx.Tell("XCFGSET", key, "IDMP-DURATION", producers->duration_s, "IDMP-MAXSIZE",
          producers->messages_max);
  std::string_view producer;
  producers->ForEach([&producer](std::string_view name, size_t) { producer = name; },
                     [&](std::string_view message, StreamId id) {
                       char text[StreamId::kTextMax];
                       cx.Tell("XIDMPRECORD", key, producer, message, id.Format(text));
                     });
}

void Restore(ShardContext& cx, Args args, ReplySink& reply) {
  constexpr std::string_view kErrTtl = "ERR Invalid TTL value, must be >= 0";
  constexpr std::string_view kErrBadFormat = "ERR Bad data format";
  const std::optional<RestoreOptions> options = ParseRestoreOptions(args, reply);
  if (!options) return;
  if (!options->may_replace && cx.FindMutable(args.key())) return reply.Error(kErrBusyKey);
  const std::optional<int64_t> ttl = ParseInt64(args[2]);
  if (!ttl) return reply.Error(kErrNotInteger);
  if (*ttl < 0) return reply.Error(kErrTtl);
  const std::optional<Payload> payload = UnsealPayload(args[3]);
  if (!payload) return reply.Error(kErrDumpPayload);
  ViewSource source(payload->bytes);
  ShardContext::Detached made;
  const std::optional<std::string_view> number = source.Take(1);
  if (!number) return reply.Error(kErrBadFormat);
  const uint8_t type =
      RdbTypeIn(RdbFamilyOf(payload->version), static_cast<uint8_t>(number->front()));
  if (!IsRdbTypeRead(type)) {
    return reply.Error(fmt::format("{}: {} (type {}), which this server does not read",
                                   kErrBadFormat, RdbTypeName(type), RdbNumberOf(type)));
  }
  if (ReadRdbValue(type, RdbLimitsOf(cx.shard()), &source, &made.value) != RdbRead::kValue) {
    return reply.Error(kErrBadFormat);
  }
  if (*ttl != 0) {
    int64_t deadline_ms = *ttl;
    if (!options->is_absolute && __builtin_add_overflow(*ttl, cx.now_ms(), &deadline_ms)) {
      return reply.Error(kErrTtl);
    }
    if (deadline_ms <= cx.now_ms()) {  // it is over before it has begun
      if (cx.Delete(args.key()) && cx.wants_effects()) cx.Tell("DEL", args.key());
      return reply.Ok();
    }
    made.deadline_ms = deadline_ms;
  }
  if (options->frequency) {
    cx.access_clock().StartUsed(made.value, cx.noted_ms(), *options->frequency);
  } else {
    cx.access_clock().StartIdle(made.value, cx.noted_ms(), options->idle_seconds.value_or(0));
  }
  if (cx.Peek(args.key())) cx.AlsoHappened(args.key(), KeyEvent::kNew);  // in place of the old one
  const int64_t at_ms = made.deadline_ms.value_or(0);
  // As DUMP would make it, with members that are due: redis-server 7.0 refuses newer versions.
  std::string older;
  if (cx.wants_effects() && payload->version > kRdbVersionWritten) {
    const RdbType plain = DflyTypeOf(made.value);
    older = PayloadOf(made.value,
                      plain == RdbType::kStreamListpacks4 ? RdbType::kStreamListpacks2 : plain,
                      INT64_MIN);
  }
  cx.Put(args.key(), std::move(made), KeyEvent::kRestore);
  if (cx.wants_effects()) {
    TellRestored(cx, args, older.empty() ? args[3] : older, *options, at_ms);
    if (type == static_cast<uint8_t>(RdbType::kStreamListpacks4) ||
        type == static_cast<uint8_t>(RdbType::kStreamListpacks5)) {
      const auto& stream = *static_cast<const StreamValue*>(cx.Peek(args.key())->object());
      TellProducers(cx, args.key(), stream.producers());
    }
  }
  reply.Ok();
}

}  // namespace

void SealPayload(std::string* payload, uint16_t version) {
  StringSink sink(payload);
  RdbWriter writer(&sink);
  writer.Little(version, kVersionBytes);
  writer.Flush();
  writer.Little(Crc64(0, *payload), kChecksumBytes);
}

std::optional<Payload> UnsealPayload(std::string_view payload) {
  if (payload.size() < kVersionBytes + kChecksumBytes) return std::nullopt;
  const size_t checked = payload.size() - kChecksumBytes;
  const uint64_t checksum = packed::ReadLittle(payload.data() + checked, kChecksumBytes);
  const uint64_t version =
      packed::ReadLittle(payload.data() + checked - kVersionBytes, kVersionBytes);
  if (Crc64(0, payload.substr(0, checked)) != checksum) return std::nullopt;
  return Payload{.bytes = payload.substr(0, checked - kVersionBytes),
                 .version = static_cast<uint16_t>(version)};
}

void RegisterDump(CommandTable* table) {
  table->Add({.name = "dump",
              .run = Dump,
              .arity = 2,
              .flags = kReadonly,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Returns the value of a key in the form that RESTORE takes.", "2.6.0",
                       "generic", "O(N) where N is the number of bytes."},
              .tips = "nondeterministic_output"});
  table->Add(
      {.name = "restore",
       .run = Restore,
       .arity = -4,
       .flags = kWrite | kDenyOom,
       .categories = kAclKeyspace | kAclDangerous,
       .keys = KeyAt(1, "OW update"),
       .docs = {"Makes a key with a value that DUMP has returned, here or elsewhere.", "2.6.0",
                "generic", "O(N) where N is the number of bytes; O(N*log(N)) for sorted sets."}});
}

}  // namespace dfly
