// SPDX-License-Identifier: Apache-2.0
// XINFO: what streams, groups and consumers are like.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/streams/stream_support.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "core/text/numbers.h"
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

// XINFO STREAM FULL: the entries and the groups, some at a time. The stream is locked meanwhile.
class FullInfo {
 public:
  // `most`: of the entries, and of those that a group or a consumer has pending; 0: all.
  explicit FullInfo(uint64_t most) : most_(most == 0 ? UINT64_MAX : most) {}

  // Writes about `budget` of them, and at least one. False: that was all. REQUIRES: budget > 0.
  bool Write(const StreamValue& stream, size_t budget, ReplySink& out) {
    if (!WriteEntries(stream, &budget, out)) return true;
    const StreamValue::Groups& groups = stream.groups();
    for (auto it = groups.lower_bound(group_); it != groups.end(); ++it) {
      group_ = it->first;
      // One that was begun is paid for: a slice that only comes back to it must get further.
      if (stage_ == Stage::kGroup) {
        if (budget == 0) return true;
        --budget;
      }
      if (!WriteGroup(stream, *it->second, &budget, out)) return true;
      stage_ = Stage::kGroup;
    }
    return false;
  }

 private:
  // What comes next.
  enum class Stage : uint8_t { kHead, kEntries, kGroup, kPending, kConsumer, kOfConsumer };

  // These return false if they are not at their end.
  bool WriteEntries(const StreamValue& stream, size_t* budget, ReplySink& out) {
    if (stage_ > Stage::kEntries) return true;
    const StreamEntries& entries = stream.entries();
    if (stage_ == Stage::kHead) {
      Begin(Stage::kEntries, entries.size());
      out.Bulk("entries");
      out.Array(left_);
    }
    if (left_ > 0) {
      entries.ForEach(next_, StreamId::Max(), [&](const StreamEntry& entry) {
        next_ = entry.id;
        if (!Takes(budget)) return false;
        ReplyEntry(entry, out);
        return left_ > 0;
      });
    }
    if (left_ > 0) return false;
    stage_ = Stage::kGroup;
    out.Bulk("groups");
    out.Array(stream.groups().size());
    return true;
  }

  bool WriteGroup(const StreamValue& stream, const StreamGroup& group, size_t* budget,
                  ReplySink& out) {
    const auto& pending = group.pending();
    if (stage_ == Stage::kGroup) {
      Begin(Stage::kPending, pending.size());
      out.Map(8);
      out.Bulk("name");
      out.Bulk(group.name);
      ReplyField("last-delivered-id", group.last_id, out);
      ReplyKnown("entries-read", ReadsOf(group), out);
      ReplyKnown("lag", stream.LagOf(group), out);
      ReplyField("pel-count", static_cast<int64_t>(pending.size()), out);
      out.Bulk("pending");
      out.Array(left_);
    }
    if (stage_ == Stage::kPending) {
      for (auto it = pending.lower_bound(next_); left_ > 0; ++it) {
        next_ = it->first;
        if (!Takes(budget)) return false;
        out.Array(4);
        ReplyStreamId(it->first, out);
        out.Bulk(it->second.owner());
        out.Integer(it->second.shown_ms());
        out.Integer(static_cast<int64_t>(it->second.deliveries));
      }
      stage_ = Stage::kConsumer;
      consumer_.clear();
      out.Bulk("consumers");
      out.Array(group.consumers().size());
    }
    if (!WriteConsumers(group, budget, out)) return false;
    ReplyField("nacked-count", static_cast<int64_t>(group.returned()), out);
    return true;
  }

  bool WriteConsumers(const StreamGroup& group, size_t* budget, ReplySink& out) {
    const auto& all = group.consumers();
    for (auto it = all.lower_bound(consumer_); it != all.end(); ++it) {
      const StreamConsumer& consumer = *it->second;
      if (stage_ == Stage::kConsumer) {
        consumer_ = it->first;
        if (*budget == 0) return false;
        --*budget;
        Begin(Stage::kOfConsumer, consumer.pending.size());
        out.Map(5);
        out.Bulk("name");
        out.Bulk(consumer.name);
        ReplyField("seen-time", consumer.seen_ms, out);
        ReplyField("active-time", consumer.active_ms, out);
        ReplyField("pel-count", static_cast<int64_t>(consumer.pending.size()), out);
        out.Bulk("pending");
        out.Array(left_);
      }
      for (auto id = consumer.pending.lower_bound(next_); left_ > 0; ++id) {
        next_ = *id;
        if (!Takes(budget)) return false;
        const StreamPending& pending = group.pending().find(*id)->second;
        out.Array(3);
        ReplyStreamId(*id, out);
        out.Integer(pending.delivered_ms);
        out.Integer(static_cast<int64_t>(pending.deliveries));
      }
      stage_ = Stage::kConsumer;
    }
    return true;
  }

  void Begin(Stage stage, size_t count) {
    stage_ = stage;
    next_ = StreamId::Min();
    left_ = std::min<uint64_t>(most_, count);
  }
  // False: next_ is for the next call.
  bool Takes(size_t* budget) {
    if (*budget == 0) return false;
    --*budget;
    --left_;
    return true;
  }

  const uint64_t most_;
  Stage stage_ = Stage::kHead;
  std::string group_;     // where it is
  std::string consumer_;  // of that one
  StreamId next_;         // of what is being listed
  uint64_t left_ = 0;     // of that
};

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

// XINFO STREAM key [FULL [COUNT count]]. Empty, or the error; `most` of FULL: 0: all.
std::string ParseFull(Args args, std::optional<uint64_t>* most) {
  if (args.size() == 3) return {};
  if (!IsOption(args[3], "FULL") || (args.size() != 4 && args.size() != 6) ||
      (args.size() == 6 && !IsOption(args[4], "COUNT"))) {
    return SubcommandSyntaxError("XINFO", args[1]);
  }
  constexpr uint64_t kUsual = 10;
  *most = kUsual;
  if (args.size() == 4) return {};
  const std::optional<int64_t> number = ParseInt64(args[5]);
  if (!number) return std::string(kErrNotInteger);
  if (*number >= 0) *most = static_cast<uint64_t>(*number);
  return {};
}

// What stands in front of the entries.
void ReplyState(ShardContext& cx, const StreamValue& stream, bool is_full, ReplySink& reply) {
  const StreamEntries& entries = stream.entries();
  const StreamValue::Counters& counters = stream.counters();
  reply.Map(is_full ? 15 : 16);
  ReplyField("length", static_cast<int64_t>(entries.size()), reply);
  ReplyField("radix-tree-keys", static_cast<int64_t>(entries.nodes()), reply);
  ReplyField("radix-tree-nodes", static_cast<int64_t>(entries.RadixNodes()), reply);
  ReplyField("last-generated-id", counters.last_id, reply);
  ReplyField("max-deleted-entry-id", counters.max_deleted_id, reply);
  ReplyField("entries-added", static_cast<int64_t>(counters.entries_added), reply);
  ReplyField("recorded-first-entry-id", counters.first_id, reply);
  ReplyProducers(stream.producers(), cx, reply);
}

void Stream(ShardContext& cx, Args args, ReplySink& reply) {
  const StreamValue* const stream = FindStream(cx, args, reply);
  if (stream == nullptr) return;
  std::optional<uint64_t> most;
  const std::string error = ParseFull(args, &most);
  if (!error.empty()) return reply.Error(error);
  ReplyState(cx, *stream, most.has_value(), reply);
  if (most) {
    FullInfo(*most).Write(*stream, SIZE_MAX, reply);
    return;
  }
  const StreamEntries& entries = stream->entries();
  ReplyField("groups", static_cast<int64_t>(stream->groups().size()), reply);
  for (const auto& [name, id] :
       {std::pair("first-entry", entries.First()), std::pair("last-entry", entries.Last())}) {
    reply.Bulk(name);
    if (!id || !ReplyEntryAt(entries, *id, reply)) reply.Null();
  }
}

// For CopyInSlices.
class FullInfoCopy {
 public:
  explicit FullInfoCopy(uint64_t most) : info_(most) {}

  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    const StreamValue& stream = StreamOf(*value);
    if (!has_value_) {
      ReplyState(cx, stream, true, kept_);
      // It stays as it is: its key is locked.
      slice_ = SliceOf(*value, Elements(stream));
      has_value_ = true;
    }
    return info_.Write(stream, slice_, kept_);
  }
  bool has_value() const { return has_value_; }
  KeptReply& kept() { return kept_; }

 private:
  // What FullInfo takes one by one.
  static size_t Elements(const StreamValue& stream) {
    size_t elements = stream.size() + stream.groups().size();
    for (const auto& [name, group] : stream.groups()) {
      elements += group->pending().size() + group->consumers().size();
    }
    return elements;
  }

  FullInfo info_;
  bool has_value_ = false;
  size_t slice_ = 0;
  KeptReply kept_;
};

// Command::asks_for_many.
bool AsksForFullInfo(Args args) {
  std::optional<uint64_t> most;
  return ParseFull(args, &most).empty() && most && (*most == 0 || *most >= kLargeMembers);
}

// REQUIRES: AsksForFullInfo. Suspends.
void FullStreamInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::optional<uint64_t> most;
  ParseFull(args, &most);
  FullInfoCopy copy(most.value_or(0));
  if (!CopyInSlices(cx, args[2], ValueType::kStream, reply, &copy)) return;
  if (!copy.has_value()) return reply.Error(kErrNoSuchKey);
  copy.kept().GiveInSlices(reply);
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
                           std::string_view summary, std::string_view tips = {},
                           const InSlices& in_slices = {}) {
    info.subcommands.push_back({.name = name,
                                .run = run,
                                .across = in_slices.across,
                                .slices = in_slices.across != nullptr,
                                .asks_for_many = in_slices.asks_for_many,
                                .arity = arity,
                                .flags = kReadonly,
                                .categories = kAclStream,
                                .keys = KeyAt(2),
                                .docs = {summary, "5.0.0", "stream", "O(1)"},
                                .tips = tips});
  };
  add("stream", Stream, -3, "Tells what a stream is like.", {},
      {.across = RunOrInSlices<Stream, FullStreamInSlices, AsksForFullInfo, LockMode::kShared, 2>,
       .asks_for_many = AsksForFullInfo});
  add("groups", Groups, 3, "Lists the groups of a stream.");
  add("consumers", Consumers, 4, "Lists the consumers of a group.", "nondeterministic_output");
  info.subcommands.push_back(HelpRow<InfoHelp>("5.0.0", "stream", kAclStream));
  table->Add(std::move(info));
}

}  // namespace dfly
