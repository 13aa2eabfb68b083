// SPDX-License-Identifier: Apache-2.0
// DUMP and RESTORE: values in Redis' own payload, so that they can move to redis-server and back.
//
//   payload   type (1), value (core/rdb/rdb_value.h), version (2), checksum of all before it (8)
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "commands/keys/dump.h"
#include "commands/table/key_parts.h"
#include "commands/table/long_reads.h"
#include "commands/table/numbers.h"
#include "core/memory/large_text.h"
#include "core/memory/work_bytes.h"
#include "core/rdb/rdb_value.h"
#include "core/text/byte_stream.h"
#include "core/text/crc64.h"
#include "core/text/numbers.h"
#include "core/text/packed_entry.h"
#include "core/types/stream_value.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/rdb_limits.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr size_t kVersionBytes = 2;
constexpr size_t kChecksumBytes = 8;

// A redis-server that has no words for it, 7.2 and before, says so at once.
uint16_t VersionFor(const CompactValue& value, RdbType type) {
  if (type == RdbType::kStreamListpacks4) return kRdbVersionProducers;
  const bool is_old = type == RdbType::kStreamListpacks2 || RdbTypeOf(value);
  return is_old ? kRdbVersionWritten : kRdbVersionDeadlines;
}

// All but the checksum. Suspends where the sink does.
void WriteUnsealed(const CompactValue& value, RdbType type, int64_t now_ms, ByteSink* sink) {
  RdbWriter writer(sink, RdbWriter::Compression::kLzf);
  writer.Byte(static_cast<uint8_t>(type));
  WriteRdbValue(value, type, &writer, now_ms);
  writer.Little(VersionFor(value, type), kVersionBytes);
}

void AppendChecksum(uint64_t checksum, ByteSink* sink) {
  RdbWriter(sink).Little(checksum, kChecksumBytes);
}

// A payload becomes not much longer.
size_t PayloadRoom(const CompactValue& value) { return value.HeapBytes() + 64; }

std::string PayloadOf(const CompactValue& value, RdbType type, int64_t now_ms) {
  std::string payload;
  payload.reserve(PayloadRoom(value));
  StringSink sink(&payload);
  WriteUnsealed(value, type, now_ms, &sink);
  AppendChecksum(Crc64(0, payload), &sink);
  return payload;
}

// With `work` it suspends now and then.
uint64_t ChecksumOf(std::string_view bytes, helio::LongWork* work) {
  uint64_t checksum = 0;
  do {
    checksum = Crc64(checksum, bytes.substr(0, kSliceBytesRead));
    bytes.remove_prefix(std::min(bytes.size(), kSliceBytesRead));
    if (work != nullptr) work->Step();
  } while (!bytes.empty());
  return checksum;
}

// Owner:    a coordinator.
// Suspends: Append.
class TextSink final : public ByteSink {
 public:
  explicit TextSink(size_t room) : text_(room) { counted_.Set(room); }

  void Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      if (text_.room() == 0) {
        text_.Grow(2 * text_.capacity());
        counted_.Set(text_.capacity());
      }
      const size_t size = std::min({bytes.size(), text_.room(), kSliceBytes});
      memcpy(text_.end(), bytes.data(), size);
      text_.Filled(size);
      bytes.remove_prefix(size);
      work_.Step();
    }
  }
  LargeText& text() { return text_; }

 private:
  LargeText text_;
  WorkBytes counted_;
  helio::LongWork work_{16};
};

// Owner:    a coordinator.
// Suspends: when a window has been read, which is smaller than a file's.
class SlicedSource final : public ByteSource {
 public:
  explicit SlicedSource(std::string_view bytes) : behind_(bytes) { window_ = bytes.substr(0, 0); }

 private:
  static constexpr size_t kWindow = 16 * 1024;

  std::optional<std::string_view> TakeBeyond(size_t count) override {
    if (count > left()) return std::nullopt;
    work_.Step();
    MoveWindow(std::max(count, std::min<size_t>(kWindow, left())));
    return TakeOfWindow(count);
  }
  bool SkipBeyond(uint64_t count) override {
    if (count > left()) return false;
    work_.Step();
    MoveWindow(count);
    window_.remove_prefix(count);
    return true;
  }
  uint64_t left_behind() const override { return behind_.size(); }

  // So many bytes are in it then.
  void MoveWindow(size_t size) {
    const std::string_view all(window_.data(), left());
    window_ = all.substr(0, size);
    behind_ = all.substr(size);
  }

  std::string_view behind_;
  helio::LongWork work_{1};
};

void Dump(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key());
  if (!value) return reply.Null();
  reply.Bulk(PayloadOf(*value, DflyTypeOf(*value), cx.now_ms()));
}

// Of a copy, which is made in slices. Suspends.
void DumpInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::string_view key = args.key();
  std::optional<ShardContext::Detached> copy;
  {
    struct Nothing {};
    using Parts = KeyParts<Nothing>;
    Parts parts(cx, {&key, 1});
    uint64_t cursor = 0;
    const auto look = [&](ShardContext& shard_cx, Parts::Item&) {
      if (shard_cx.FindReadOnly(key)) shard_cx.CopySome(key, &copy, &cursor);
    };
    if (!parts.Hop(look, Parts::More::kYes)) return;
    parts.HopInSlices([&cursor](const Parts::Item&) { return cursor != 0; },
                      [&](ShardContext& shard_cx, Parts::Item&) {
                        shard_cx.CopySome(key, &copy, &cursor);
                        return cursor != 0;
                      });
  }
  if (!copy) return reply.Null();
  TextSink sink(PayloadRoom(copy->value));
  WriteUnsealed(copy->value, DflyTypeOf(copy->value), cx.now_ms(), &sink);
  helio::LongWork work(1);
  AppendChecksum(ChecksumOf(sink.text().view(), &work), &sink);
  ReplyWithText(std::move(sink.text()), reply);
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

constexpr std::string_view kErrTtl = "ERR Invalid TTL value, must be >= 0";

// What the arguments of RESTORE say, if they are valid.
struct Restored {
  int64_t ttl = 0;
  uint16_t version = 0;
  uint8_t type = 0;
  ShardContext::Detached made = {};
};

// Returns the error, or nothing. With `work` it suspends now and then.
template <typename Source>
std::string ReadRestored(Args args, const RdbLimits& limits, helio::LongWork* work, Restored* to) {
  constexpr std::string_view kErrBadFormat = "ERR Bad data format";
  const std::optional<int64_t> ttl = ParseInt64(args[2]);
  if (!ttl) return std::string(kErrNotInteger);
  if (*ttl < 0) return std::string(kErrTtl);
  to->ttl = *ttl;
  const std::optional<Payload> payload = UnsealPayload(args[3], work);
  if (!payload) return std::string(kErrDumpPayload);
  to->version = payload->version;
  Source source(payload->bytes);
  const std::optional<std::string_view> number = source.Take(1);
  if (!number) return std::string(kErrBadFormat);
  to->type = RdbTypeIn(RdbFamilyOf(payload->version), static_cast<uint8_t>(number->front()));
  if (!IsRdbTypeRead(to->type)) {
    return fmt::format("{}: {} (type {}), which this server does not read", kErrBadFormat,
                       RdbTypeName(to->type), RdbNumberOf(to->type));
  }
  const RdbRead read = ReadRdbValue(to->type, limits, &source, &to->made.value);
  return std::string(read == RdbRead::kValue ? std::string_view() : kErrBadFormat);
}

// The key is free, or may be replaced. Returns the error, or nothing.
std::string_view PutRestored(ShardContext& cx, Args args, const RestoreOptions& options,
                             Restored&& restored) {
  ShardContext::Detached& made = restored.made;
  if (restored.ttl != 0) {
    int64_t deadline_ms = restored.ttl;
    if (!options.is_absolute && __builtin_add_overflow(restored.ttl, cx.now_ms(), &deadline_ms)) {
      return kErrTtl;
    }
    if (deadline_ms <= cx.now_ms()) {  // it is over before it has begun
      if (cx.Delete(args.key()) && cx.wants_effects()) cx.Tell("DEL", args.key());
      return {};
    }
    made.deadline_ms = deadline_ms;
  }
  if (options.frequency) {
    cx.access_clock().StartUsed(made.value, cx.noted_ms(), *options.frequency);
  } else {
    cx.access_clock().StartIdle(made.value, cx.noted_ms(), options.idle_seconds.value_or(0));
  }
  if (cx.Peek(args.key())) cx.AlsoHappened(args.key(), KeyEvent::kNew);  // in place of the old one
  const int64_t at_ms = made.deadline_ms.value_or(0);
  // As DUMP would make it, with members that are due: redis-server 7.0 refuses newer versions.
  std::string older;
  if (cx.wants_effects() && restored.version > kRdbVersionWritten) {
    const RdbType plain = DflyTypeOf(made.value);
    older = PayloadOf(made.value,
                      plain == RdbType::kStreamListpacks4 ? RdbType::kStreamListpacks2 : plain,
                      INT64_MIN);
  }
  cx.Put(args.key(), std::move(made), KeyEvent::kRestore);
  if (cx.wants_effects()) {
    TellRestored(cx, args, older.empty() ? args[3] : older, options, at_ms);
    if (restored.type == static_cast<uint8_t>(RdbType::kStreamListpacks4) ||
        restored.type == static_cast<uint8_t>(RdbType::kStreamListpacks5)) {
      const auto& stream = *static_cast<const StreamValue*>(cx.Peek(args.key())->object());
      TellProducers(cx, args.key(), stream.producers());
    }
  }
  return {};
}

void Restore(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RestoreOptions> options = ParseRestoreOptions(args, reply);
  if (!options) return;
  if (!options->may_replace && cx.FindMutable(args.key())) return reply.Error(kErrBusyKey);
  Restored restored;
  std::string error = ReadRestored<ViewSource>(args, RdbLimitsOf(cx.shard()), nullptr, &restored);
  if (error.empty()) error = PutRestored(cx, args, *options, std::move(restored));
  error.empty() ? reply.Ok() : reply.Error(error);
}

// The value is made here, and the key locked when it is there. Suspends.
void RestoreInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<RestoreOptions> options = ParseRestoreOptions(args, reply);
  if (!options) return;
  const uint64_t hash = HashKey(args.key());
  const ShardId id = cx.shards().ShardOfKey(args.key(), hash);
  const RdbLimits limits =
      cx.Hop(id, [](ShardContext& shard_cx) { return RdbLimitsOf(shard_cx.shard()); });
  Restored restored;
  helio::LongWork work(1);
  std::string error = ReadRestored<SlicedSource>(args, limits, &work, &restored);
  Transaction tx(cx);
  tx.Lock(id, {cx.shards().LockOfKey(args.key(), hash, cx.db_index()), LockMode::kExclusive});
  const auto put = [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    if (!options->may_replace && shard_cx.FindMutable(args.key())) {
      error = kErrBusyKey;
    } else if (error.empty()) {
      error = PutRestored(shard_cx, args, *options, std::move(restored));
    }
  };
  if (!tx.Run(put)) return;
  error.empty() ? reply.Ok() : reply.Error(error);
}

// Command::brings_much.
bool RestoresMuch(Args args) { return args[3].size() >= Database::kLargeValueBytes; }

}  // namespace

void SealPayload(std::string* payload, uint16_t version) {
  StringSink sink(payload);
  RdbWriter writer(&sink);
  writer.Little(version, kVersionBytes);
  writer.Flush();
  writer.Little(Crc64(0, *payload), kChecksumBytes);
}

std::optional<Payload> UnsealPayload(std::string_view payload, helio::LongWork* work) {
  if (payload.size() < kVersionBytes + kChecksumBytes) return std::nullopt;
  const size_t checked = payload.size() - kChecksumBytes;
  const uint64_t checksum = packed::ReadLittle(payload.data() + checked, kChecksumBytes);
  const uint64_t version =
      packed::ReadLittle(payload.data() + checked - kVersionBytes, kVersionBytes);
  if (ChecksumOf(payload.substr(0, checked), work) != checksum) return std::nullopt;
  return Payload{.bytes = payload.substr(0, checked - kVersionBytes),
                 .version = static_cast<uint16_t>(version)};
}

void RegisterDump(CommandTable* table) {
  table->Add({.name = "dump",
              .run = Dump,
              .across = DumpInSlices,
              .slices = true,
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
       .across = RestoreInSlices,
       .slices = true,
       .brings_much = RestoresMuch,
       .arity = -4,
       .flags = kWrite | kDenyOom,
       .categories = kAclKeyspace | kAclDangerous,
       .keys = KeyAt(1, "OW update"),
       .docs = {"Makes a key with a value that DUMP has returned, here or elsewhere.", "2.6.0",
                "generic", "O(N) where N is the number of bytes; O(N*log(N)) for sorted sets."}});
}

}  // namespace dfly
