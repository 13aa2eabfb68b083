// SPDX-License-Identifier: Apache-2.0
// XINFO: what streams, groups and consumers are like.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/streams/stream_support.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

void ReplyField(std::string_view name, int64_t value, ReplySink& reply) {
  reply.Bulk(name);
  reply.Integer(value);
}
void ReplyField(std::string_view name, StreamId value, ReplySink& reply) {
  reply.Bulk(name);
  ReplyStreamId(value, reply);
}
// None: null.
void ReplyKnown(std::string_view name, std::optional<int64_t> value, ReplySink& reply) {
  reply.Bulk(name);
  if (value) {
    reply.Integer(*value);
  } else {
    reply.Null();
  }
}

std::optional<int64_t> ReadsOf(const StreamGroup& group) {
  if (group.entries_read == StreamGroup::kUnknownReads) return std::nullopt;
  return group.entries_read;
}

// Null: the error was replied.
const StreamValue* FindStream(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args[2], ValueType::kStream);
  if (value) return &StreamOf(*value);
  reply.Error(value.is_wrong_type() ? kErrWrongType : kErrNoSuchKey);
  return nullptr;
}

// --- XINFO STREAM ---

void ReplyConsumerInFull(const StreamGroup& group, const StreamConsumer& consumer, size_t most,
                         ReplySink& reply) {
  reply.Map(5);
  reply.Bulk("name");
  reply.Bulk(consumer.name);
  ReplyField("seen-time", consumer.seen_ms, reply);
  ReplyField("active-time", consumer.active_ms, reply);
  ReplyField("pel-count", static_cast<int64_t>(consumer.pending.size()), reply);
  reply.Bulk("pending");
  size_t left = std::min(most, consumer.pending.size());
  reply.Array(left);
  for (auto it = consumer.pending.begin(); left > 0; ++it, --left) {
    const StreamPending& pending = group.pending().find(*it)->second;
    reply.Array(3);
    ReplyStreamId(*it, reply);
    reply.Integer(pending.delivered_ms);
    reply.Integer(static_cast<int64_t>(pending.deliveries));
  }
}

void ReplyGroupInFull(const StreamValue& stream, const StreamGroup& group, size_t most,
                      ReplySink& reply) {
  reply.Map(8);
  reply.Bulk("name");
  reply.Bulk(group.name);
  ReplyField("last-delivered-id", group.last_id, reply);
  ReplyKnown("entries-read", ReadsOf(group), reply);
  ReplyKnown("lag", stream.LagOf(group), reply);
  ReplyField("pel-count", static_cast<int64_t>(group.pending().size()), reply);
  reply.Bulk("pending");
  size_t left = std::min(most, group.pending().size());
  reply.Array(left);
  for (auto it = group.pending().begin(); left > 0; ++it, --left) {
    reply.Array(4);
    ReplyStreamId(it->first, reply);
    reply.Bulk(it->second.owner());
    reply.Integer(it->second.shown_ms());
    reply.Integer(static_cast<int64_t>(it->second.deliveries));
  }
  reply.Bulk("consumers");
  reply.Array(group.consumers().size());
  for (const auto& [name, consumer] : group.consumers()) {
    ReplyConsumerInFull(group, *consumer, most, reply);
  }
  ReplyField("nacked-count", static_cast<int64_t>(group.returned()), reply);
}

// Six fields.
void ReplyProducers(const StreamProducers* producers, ShardContext& cx, ReplySink& reply) {
  const StreamLimit& limit = cx.shard().stream_limit();
  const bool any = producers != nullptr;
  const auto tracked = any ? producers->Count(cx.now_ms()) : StreamProducers::Tracked();
  ReplyField("idmp-duration", any ? producers->duration_s : limit.producer_seconds, reply);
  ReplyField("idmp-maxsize", any ? producers->messages_max : limit.producer_messages, reply);
  ReplyField("pids-tracked", static_cast<int64_t>(tracked.producers), reply);
  ReplyField("iids-tracked", static_cast<int64_t>(tracked.messages), reply);
  ReplyField("iids-added", any ? static_cast<int64_t>(producers->added) : 0, reply);
  ReplyField("iids-duplicates", any ? static_cast<int64_t>(producers->duplicates) : 0, reply);
}

// XINFO STREAM key [FULL [COUNT count]]
void Stream(ShardContext& cx, Args args, ReplySink& reply) {
  const StreamValue* const stream = FindStream(cx, args, reply);
  if (stream == nullptr) return;
  const bool is_full = args.size() > 3;
  uint64_t count = 10;
  if (is_full) {
    if (!IsOption(args[3], "FULL") || (args.size() != 4 && args.size() != 6) ||
        (args.size() == 6 && !IsOption(args[4], "COUNT"))) {
      return reply.Error(SubcommandSyntaxError("XINFO", args[1]));
    }
    if (args.size() == 6) {
      const auto number = ParseInteger(args[5], kErrNotInteger, reply);
      if (!number) return;
      count = *number < 0 ? 10 : static_cast<uint64_t>(*number);
    }
  }
  const StreamEntries& entries = stream->entries();
  const StreamValue::Counters& counters = stream->counters();
  reply.Map(is_full ? 15 : 16);
  ReplyField("length", static_cast<int64_t>(entries.size()), reply);
  ReplyField("radix-tree-keys", static_cast<int64_t>(entries.nodes()), reply);
  ReplyField("radix-tree-nodes", static_cast<int64_t>(entries.RadixNodes()), reply);
  ReplyField("last-generated-id", counters.last_id, reply);
  ReplyField("max-deleted-entry-id", counters.max_deleted_id, reply);
  ReplyField("entries-added", static_cast<int64_t>(counters.entries_added), reply);
  ReplyField("recorded-first-entry-id", counters.first_id, reply);
  ReplyProducers(stream->producers(), cx, reply);
  if (!is_full) {
    ReplyField("groups", static_cast<int64_t>(stream->groups().size()), reply);
    for (const auto& [name, id] :
         {std::pair("first-entry", entries.First()), std::pair("last-entry", entries.Last())}) {
      reply.Bulk(name);
      if (!id || !ReplyEntryAt(entries, *id, reply)) reply.Null();
    }
    return;
  }
  reply.Bulk("entries");
  ReplyEntries(EntriesOf(entries, StreamId::Min(), StreamId::Max(), count), reply);
  reply.Bulk("groups");
  reply.Array(stream->groups().size());
  const size_t most = count == 0 ? SIZE_MAX : count;
  for (const auto& [name, group] : stream->groups()) ReplyGroupInFull(*stream, *group, most, reply);
}

// --- XINFO GROUPS, CONSUMERS, HELP ---

void Groups(ShardContext& cx, Args args, ReplySink& reply) {
  const StreamValue* const stream = FindStream(cx, args, reply);
  if (stream == nullptr) return;
  reply.Array(stream->groups().size());
  for (const auto& [name, group] : stream->groups()) {
    reply.Map(6);
    reply.Bulk("name");
    reply.Bulk(name);
    ReplyField("consumers", static_cast<int64_t>(group->consumers().size()), reply);
    ReplyField("pending", static_cast<int64_t>(group->pending().size()), reply);
    ReplyField("last-delivered-id", group->last_id, reply);
    ReplyKnown("entries-read", ReadsOf(*group), reply);
    ReplyKnown("lag", stream->LagOf(*group), reply);
  }
}

void Consumers(ShardContext& cx, Args args, ReplySink& reply) {
  const StreamValue* const stream = FindStream(cx, args, reply);
  if (stream == nullptr) return;
  const StreamGroup* const group = stream->FindGroup(args[3]);
  if (group == nullptr) {
    return reply.Error(fmt::format("NOGROUP No such consumer group '{}' for key name '{}'",
                                   Printed(args[3]), Printed(args[2])));
  }
  reply.Array(group->consumers().size());
  for (const auto& [name, consumer] : group->consumers()) {
    reply.Map(4);
    reply.Bulk("name");
    reply.Bulk(name);
    ReplyField("pending", static_cast<int64_t>(consumer->pending.size()), reply);
    ReplyField("idle", std::max<int64_t>(cx.now_ms() - consumer->seen_ms, 0), reply);
    const int64_t inactive = cx.now_ms() - consumer->active_ms;
    ReplyField("inactive", consumer->active_ms < 0 ? -1 : std::max<int64_t>(inactive, 0), reply);
  }
}

void InfoHelp(Args, ReplySink& reply) {
  static constexpr std::string_view kLines[] = {
      "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "CONSUMERS <key> <groupname>",
      "    Show consumers of <groupname>.",
      "GROUPS <key>",
      "    Show the stream consumer groups.",
      "STREAM <key> [FULL [COUNT <count>]",
      "    Show information about the stream.",
      "HELP",
      "    Prints this help.",
  };
  reply.Array(std::size(kLines));
  for (std::string_view line : kLines) reply.Status(line);
}

}  // namespace

void RegisterStreamInfoCommands(CommandTable* table) {
  Command info;
  info.name = "xinfo";
  info.arity = -2;
  info.docs = {.summary = "A container for commands that look into streams.",
               .since = "5.0.0",
               .group = "stream",
               .complexity = "Depends on subcommand."};
  const auto add = [&info](std::string_view name, ShardHandler run, int arity,
                           std::string_view summary, std::string_view tips = {}) {
    info.subcommands.push_back({.name = name,
                                .run = run,
                                .arity = arity,
                                .flags = kReadonly,
                                .categories = kAclStream,
                                .keys = KeyAt(2),
                                .docs = {summary, "5.0.0", "stream", "O(1)"},
                                .tips = tips});
  };
  add("stream", Stream, -3, "Tells what a stream is like.");
  add("groups", Groups, 3, "Lists the groups of a stream.");
  add("consumers", Consumers, 4, "Lists the consumers of a group.", "nondeterministic_output");
  info.subcommands.push_back(HelpRow<InfoHelp>("5.0.0", "stream", kAclStream));
  table->Add(std::move(info));
}

}  // namespace dfly
