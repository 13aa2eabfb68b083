// SPDX-License-Identifier: Apache-2.0
// Idempotent producers: XADD IDMP and IDMPAUTO, XCFGSET, XIDMPRECORD. Data:
// core/types/stream_producers.h.
//
// For servers that know nothing of it an entry is an XADD. What it was the message of stands behind
// it, as XCFGSET, if the stream has its first producer, and XIDMPRECORD.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "commands/streams/stream_support.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "core/text/item_hash.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr int64_t kSecondsMax = 86'400;
constexpr int64_t kMessagesMax = 10'000;

// When its entry was added. What is forgotten then goes by this and by no clock, so that it is the
// same for who replays it.
int64_t TimeOf(StreamId id) { return static_cast<int64_t>(std::min<uint64_t>(id.ms, INT64_MAX)); }

// XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE messages]
void XCfgSet(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<int64_t> seconds, messages;
  for (size_t i = 2; i < args.size(); i += 2) {
    const bool is_seconds = IsOption(args[i], "IDMP-DURATION");
    if ((!is_seconds && !IsOption(args[i], "IDMP-MAXSIZE")) || i + 1 == args.size()) {
      return reply.Error(kErrSyntax);
    }
    const std::string_view error = is_seconds
                                       ? "ERR IDMP-DURATION must be between 1 and 86400 seconds"
                                       : "ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
    const std::optional<int64_t> number = ParseInteger(args[i + 1], error, reply);
    if (!number) return;
    if (*number < 1 || *number > (is_seconds ? kSecondsMax : kMessagesMax)) {
      return reply.Error(error);
    }
    (is_seconds ? seconds : messages) = number;
  }
  if (!seconds && !messages) return reply.Error(kErrSyntax);
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Error(kErrNoSuchKey);
  StreamValue& stream = StreamOf(*value);
  const StreamProducers& producers = stream.MakeProducers(cx.shard().stream_limit());
  const auto duration_s = static_cast<uint32_t>(seconds.value_or(producers.duration_s));
  const auto messages_max = static_cast<uint32_t>(messages.value_or(producers.messages_max));
  // With other limits it begins anew.
  if (duration_s != producers.duration_s || messages_max != producers.messages_max) {
    stream.RestartProducers(duration_s, messages_max);
  }
  cx.ChangedUnwatched(args.key(), KeyEvent::kNone);
  // In full: the settings of who replays it may be others.
  if (cx.wants_effects()) {
    cx.Tell("XCFGSET", args.key(), "IDMP-DURATION", duration_s, "IDMP-MAXSIZE", messages_max);
  }
  reply.Ok();
}

// XIDMPRECORD key producer message id: that entry is this message.
void XIdmpRecord(ShardContext& cx, Args args, ReplySink& reply) {
  const std::string_view producer = args[2], message = args[3];
  if (producer.empty() || message.empty()) return reply.Error(kErrEmptyProducer);
  const std::optional<StreamId> id = ParseStreamId(args[4], 0);
  if (!id) return reply.Error(kErrInvalidStreamId);
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Error(kErrNoSuchKey);
  StreamValue& stream = StreamOf(*value);
  // Who replays it does as the other server has done, whose entry may be gone.
  const bool is_replayed = cx.is_replayed();
  if (!is_replayed && !stream.entries().Has(*id)) {
    return reply.Error("ERR The specified stream ID was deleted or doesn't exist");
  }
  const std::optional<StreamId> known =
      stream.producers() == nullptr ? std::nullopt
                                    : stream.producers()->Find(producer, message, TimeOf(*id));
  if (known == *id) return reply.Ok();
  if ((known && !is_replayed) ||
      (stream.producers() != nullptr && stream.producers()->HasEntry(*id))) {
    return reply.Error(
        "ERR The specified IDMP producer-id/idempotent-id pair maps to a different stream ID");
  }
  const ProducerOption sent = {.name = producer, .message = message};
  const bool is_first = stream.producers() == nullptr;
  NoteSent(cx, stream, sent, *id);
  cx.ChangedUnwatched(args.key(), KeyEvent::kNone);
  // With the settings: those of who replays it may be others.
  if (is_first && cx.wants_effects()) TellSent(cx, args.key(), stream, sent, *id);
  reply.Ok();
}

}  // namespace

std::string MessageOf(const ProducerOption& producer, std::span<const std::string_view> pairs) {
  if (!producer.message.empty()) return std::string(producer.message);
  // With their lengths, so that no two entries have the same text.
  std::string text;
  for (std::string_view word : pairs)
    text.append(std::to_string(word.size())).append(1, ':').append(word);
  const ItemHash hash = HashItem(text);
  return fmt::format("{:016x}{:016x}", hash.first, hash.second);
}

bool ReplyIfSentBefore(ShardContext& cx, StreamValue& stream, const ProducerOption& sent,
                       ReplySink& reply) {
  StreamProducers* const producers = stream.mutable_producers();
  if (producers == nullptr) return false;
  const std::optional<StreamId> id = producers->Find(sent.name, sent.message, cx.noted_ms());
  if (!id) return false;
  ++producers->duplicates;
  ReplyStreamId(*id, reply);
  return true;
}

void NoteSent(ShardContext& cx, StreamValue& stream, const ProducerOption& sent, StreamId id) {
  StreamProducers& producers = stream.MakeProducers(cx.shard().stream_limit());
  producers.Add(sent.name, sent.message, id, TimeOf(id), cx.shard().stream_limit().producers_max);
  ++producers.added;
}

void TellSent(ShardContext& cx, std::string_view key, const StreamValue& stream,
              const ProducerOption& sent, StreamId id) {
  const StreamProducers& producers = *stream.producers();
  if (producers.added == 1) {
    cx.Tell("XCFGSET", key, "IDMP-DURATION", producers.duration_s, "IDMP-MAXSIZE",
            producers.messages_max);
  }
  char text[StreamId::kTextMax];
  cx.Tell("XIDMPRECORD", key, sent.name, sent.message, id.Format(text));
}

void RegisterStreamProducerCommands(CommandTable* table) {
  const FamilyRows add(table, "stream", kAclStream);
  add("xcfgset", XCfgSet, -2, kWrite | kFast, KeyAt(1),
      "Says for how long a stream remembers what idempotent producers have sent, and how much.",
      "8.6.0", "O(1), and O(N log N) for N messages that are forgotten.");
  add("xidmprecord", XIdmpRecord, 5, kWrite | kDenyOom | kFast, KeyAt(1),
      "Says which message of an idempotent producer an entry is: for logs and replicas.", "8.8.0",
      "O(log N) where N is the number of messages that are remembered.");
}

}  // namespace dfly
