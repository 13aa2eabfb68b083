// SPDX-License-Identifier: Apache-2.0
#include "commands/streams/stream_support.h"

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr size_t kIdTextMax = 127;  // what is longer is no id

// What Redis reads: a canonical number, or else what C's strtoull takes for one, "+1" and "01" too.
std::optional<uint64_t> ParseIdPart(const char* text) {
  if (const auto number = ParseInt64(text)) {
    if (*number < 0) return std::nullopt;
    return static_cast<uint64_t>(*number);
  }
  char* end = nullptr;
  errno = 0;
  const uint64_t number = strtoull(text, &end, 10);
  if (errno != 0 || *text == '\0' || *end != '\0') return std::nullopt;
  return number;
}

struct RangeEnd {
  StreamId id;
  bool is_excluded = false;
};

std::optional<RangeEnd> ParseEnd(std::string_view text, uint64_t missing_seq) {
  RangeEnd end;
  if (text == "-") return RangeEnd{StreamId::Min()};
  if (text == "+") return RangeEnd{StreamId::Max()};
  if (text.size() > 1 && text[0] == '(') {
    end.is_excluded = true;
    text.remove_prefix(1);
  }
  const std::optional<StreamId> id = ParseStreamId(text, missing_seq);
  if (!id) return std::nullopt;
  end.id = *id;
  return end;
}

}  // namespace

StreamValue& StreamOrNew(ShardContext::WriteHandle& value) {
  if (value.was_created()) {
    value->SetObject(ValueType::kStream, std::make_unique<StreamValue>().release(), 0);
  }
  return StreamOf(*value);
}

std::optional<StreamId> ParseStreamId(std::string_view text, uint64_t missing_seq) {
  if (text.size() > kIdTextMax) return std::nullopt;
  const std::string copy(text);  // with a NUL
  const size_t dash = copy.find('-');
  const std::optional<uint64_t> ms = ParseIdPart(copy.substr(0, dash).c_str());
  if (!ms) return std::nullopt;
  if (dash == std::string::npos) return StreamId{*ms, missing_seq};
  const std::optional<uint64_t> seq = ParseIdPart(copy.c_str() + dash + 1);
  if (!seq) return std::nullopt;
  return StreamId{*ms, *seq};
}

std::optional<StreamId> ParseRangeStart(std::string_view text, ReplySink& reply) {
  std::optional<RangeEnd> end = ParseEnd(text, 0);
  if (!end) return Refuse(reply, kErrInvalidStreamId);
  if (end->is_excluded && !end->id.Increment()) {
    return Refuse(reply, "ERR invalid start ID for the interval");
  }
  return end->id;
}

std::optional<StreamId> ParseRangeEnd(std::string_view text, ReplySink& reply) {
  std::optional<RangeEnd> end = ParseEnd(text, UINT64_MAX);
  if (!end) return Refuse(reply, kErrInvalidStreamId);
  if (end->is_excluded && !end->id.Decrement()) {
    return Refuse(reply, "ERR invalid end ID for the interval");
  }
  return end->id;
}

std::optional<std::vector<StreamId>> ParseStreamIds(std::span<const std::string_view> texts,
                                                    ReplySink& reply) {
  std::vector<StreamId> ids;
  ids.reserve(texts.size());
  for (std::string_view text : texts) {
    const std::optional<StreamId> id = ParseStreamId(text, 0);
    if (!id) return Refuse(reply, kErrInvalidStreamId);
    ids.push_back(*id);
  }
  return ids;
}

void ReplyStreamId(StreamId id, ReplySink& reply) {
  char scratch[StreamId::kTextMax];
  reply.Bulk(id.Format(scratch));
}

void ReplyEntry(const StreamEntry& entry, ReplySink& reply) {
  reply.Array(2);
  ReplyEntryParts(entry, reply);
}

void ReplyEntryParts(const StreamEntry& entry, ReplySink& reply) {
  ReplyStreamId(entry.id, reply);
  reply.Array(entry.fields * 2);
  entry.ForEachField([&reply](PackedElement name, PackedElement value) {
    char scratch[PackedElement::kScratchSize];
    reply.Bulk(name.View(scratch));
    reply.Bulk(value.View(scratch));
  });
}

bool ReplyEntryAt(const StreamEntries& entries, StreamId id, ReplySink& reply) {
  bool found = false;
  entries.ForEach(id, id, [&](const StreamEntry& entry) {
    ReplyEntry(entry, reply);
    found = true;
    return false;
  });
  return found;
}

std::vector<StreamEntry> EntriesOf(const StreamEntries& entries, StreamId first, StreamId last,
                                   uint64_t most, bool backwards) {
  std::vector<StreamEntry> found;
  const auto add = [&found, most](const StreamEntry& entry) {
    found.push_back(entry);
    return found.size() != most;
  };
  if (backwards) {
    entries.ForEachBackwards(first, last, add);
  } else {
    entries.ForEach(first, last, add);
  }
  return found;
}

void ReplyEntries(const std::vector<StreamEntry>& entries, ReplySink& reply) {
  reply.Array(entries.size());
  for (const StreamEntry& entry : entries) ReplyEntry(entry, reply);
}

StreamConsumer* ConsumerOrNew(ShardContext& cx, std::string_view key, StreamGroup& group,
                              std::string_view name) {
  StreamConsumer* consumer = group.FindConsumer(name);
  if (consumer == nullptr) {
    consumer = group.AddConsumer(name, cx.noted_ms());
    cx.ChangedUnwatched(key, KeyEvent::kXGroupCreateConsumer);
    if (cx.wants_effects()) cx.Tell("XGROUP", "CREATECONSUMER", key, group.name, name);
  }
  return consumer;
}

void TellPending(ShardContext& cx, std::string_view key, const StreamGroup& group, StreamId id) {
  const StreamPending& pending = group.pending().find(id)->second;
  char text[StreamId::kTextMax], last[StreamId::kTextMax];
  cx.Tell("XCLAIM", key, group.name, pending.consumer->name, "0", id.Format(text), "TIME",
          pending.delivered_ms, "RETRYCOUNT", pending.deliveries, "FORCE", "JUSTID", "LASTID",
          group.last_id.Format(last));
}

void TellAcknowledged(ShardContext& cx, std::string_view key, const StreamGroup& group,
                      StreamId id) {
  char text[StreamId::kTextMax];
  cx.Tell("XACK", key, group.name, id.Format(text));
}

void TellDelivered(ShardContext& cx, std::string_view key, const StreamGroup& group) {
  char last[StreamId::kTextMax];
  cx.Tell("XGROUP", "SETID", key, group.name, group.last_id.Format(last), "ENTRIESREAD",
          group.entries_read);
}

}  // namespace dfly
