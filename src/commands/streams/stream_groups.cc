// SPDX-License-Identifier: Apache-2.0
// Consumer groups: XGROUP, XACK, XNACK, XPENDING, XCLAIM, XAUTOCLAIM.
//
// What changes nothing but groups is not heard by WATCH, as in Redis.
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
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

std::string NoGroupError(std::string_view key, std::string_view group) {
  return fmt::format("NOGROUP No such key '{}' or consumer group '{}'", Printed(key),
                     Printed(group));
}

// The stream of a key with its group of that name.
struct Found {
  StreamValue* stream = nullptr;
  StreamGroup* group = nullptr;
  bool is_wrong_type = false;  // so there is neither
};

// To change it. Counts a hit or a miss, as Redis does for the commands that use this.
Found FindGroup(ShardContext& cx, std::string_view key, std::string_view name) {
  const auto seen = cx.FindReadOnly(key, ValueType::kStream);
  if (!seen) return {.is_wrong_type = seen.is_wrong_type()};
  const auto value = cx.FindMutable(key, ValueType::kStream);
  StreamValue& stream = StreamOf(*value);
  return {.stream = &stream, .group = stream.FindGroup(name)};
}

// The same once more: counts nothing.
Found FindGroupAgain(ShardContext& cx, std::string_view key, std::string_view name) {
  const auto value = cx.FindMutable(key, ValueType::kStream);
  if (!value) return {.is_wrong_type = value.is_wrong_type()};
  StreamValue& stream = StreamOf(*value);
  return {.stream = &stream, .group = stream.FindGroup(name)};
}

// The error of XCLAIM and XAUTOCLAIM. REQUIRES: there is no group.
std::string ErrorOf(const Found& found, std::string_view key, std::string_view name) {
  return found.is_wrong_type ? std::string(kErrWrongType) : NoGroupError(key, name);
}

// --- XGROUP ---

// The same for a subcommand, in its own words. A group that is absent is left to the caller if it
// `may_lack_group`.
bool FindOfSubcommand(ShardContext& cx, Args args, bool may_lack_group, ReplySink& reply,
                      Found* found) {
  auto value = cx.FindMutable(args[2], ValueType::kStream);
  if (value.is_wrong_type()) {
    reply.Error(kErrWrongType);
    return false;
  }
  if (!value) {
    reply.Error(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to "
        "use the MKSTREAM option to create an empty stream automatically.");
    return false;
  }
  found->stream = &StreamOf(*value);
  found->group = found->stream->FindGroup(args[3]);
  if (found->group != nullptr || may_lack_group) return true;
  reply.Error(fmt::format("NOGROUP No such consumer group '{}' for key name '{}'", Printed(args[3]),
                          Printed(args[2])));
  return false;
}

struct GroupOptions {
  bool make_stream = false;
  int64_t entries_read = StreamGroup::kUnknownReads;
};

// From args[5] on. False: the error was replied.
bool ParseGroupOptions(Args args, bool is_create, ReplySink& reply, GroupOptions* options) {
  for (size_t i = 5; i < args.size(); ++i) {
    if (is_create && IsOption(args[i], "MKSTREAM")) {
      options->make_stream = true;
    } else if (IsOption(args[i], "ENTRIESREAD") && i + 1 < args.size()) {
      const auto number = ParseInteger(args[++i], kErrNotInteger, reply);
      if (!number) return false;
      if (*number < 0 && *number != StreamGroup::kUnknownReads) {
        reply.Error("ERR value for ENTRIESREAD must be positive or -1");
        return false;
      }
      options->entries_read = *number;
    } else {
      reply.Error(SubcommandSyntaxError("XGROUP", args[1]));
      return false;
    }
  }
  return true;
}

// XGROUP CREATE key group id | $ [MKSTREAM] [ENTRIESREAD entries-read]
void Create(ShardContext& cx, Args args, ReplySink& reply) {
  GroupOptions options;
  if (!ParseGroupOptions(args, true, reply, &options)) return;
  if (args.size() > 8) return reply.Error(SubcommandSyntaxError("XGROUP", args[1]));
  const std::string_view key = args[2];
  auto value = cx.FindMutable(key, ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value && !options.make_stream) {
    Found none;
    FindOfSubcommand(cx, args, true, reply, &none);
    return;
  }
  StreamId id = value ? StreamOf(*value).counters().last_id : StreamId();
  if (args[4] != "$") {
    const std::optional<StreamId> given = ParseStreamId(args[4], 0);
    if (!given) return reply.Error(kErrInvalidStreamId);
    id = *given;
  }
  const bool is_new = !value;
  if (is_new) value = cx.FindOrCreate(key, ValueType::kStream);
  StreamValue& stream = StreamOrNew(value);
  if (stream.FindGroup(args[3]) != nullptr) return reply.Error(kErrBusyGroup);
  StreamGroup* const group = stream.AddGroup(args[3]);
  group->last_id = id;
  group->entries_read = options.entries_read;
  if (is_new) {
    cx.Changed(key, KeyEvent::kXGroupCreate);
  } else {
    cx.ChangedUnwatched(key, KeyEvent::kXGroupCreate);
  }
  reply.Ok();
}

// XGROUP SETID key group id | $ [ENTRIESREAD entries-read]
void SetId(ShardContext& cx, Args args, ReplySink& reply) {
  GroupOptions options;
  if (!ParseGroupOptions(args, false, reply, &options)) return;
  Found found;
  if (!FindOfSubcommand(cx, args, false, reply, &found)) return;
  if (args.size() > 7) return reply.Error(SubcommandSyntaxError("XGROUP", args[1]));
  StreamId id = found.stream->counters().last_id;
  if (args[4] == "-") {
    id = StreamId::Min();
  } else if (args[4] == "+") {
    id = StreamId::Max();
  } else if (args[4] != "$") {
    const std::optional<StreamId> given = ParseStreamId(args[4], 0);
    if (!given) return reply.Error(kErrInvalidStreamId);
    id = *given;
  }
  found.group->last_id = id;
  found.group->entries_read = options.entries_read;
  cx.ChangedUnwatched(args[2], KeyEvent::kXGroupSetId);
  reply.Ok();
}

void Destroy(ShardContext& cx, Args args, ReplySink& reply) {
  Found found;
  if (!FindOfSubcommand(cx, args, true, reply, &found)) return;
  if (found.group == nullptr) return reply.Integer(0);
  found.stream->RemoveGroup(found.group);
  cx.ChangedUnwatched(args[2], KeyEvent::kXGroupDestroy);
  reply.Integer(1);
}

void CreateConsumer(ShardContext& cx, Args args, ReplySink& reply) {
  Found found;
  if (!FindOfSubcommand(cx, args, false, reply, &found)) return;
  const bool is_new = found.group->FindConsumer(args[4]) == nullptr;
  ConsumerOrNew(cx, args[2], *found.group, args[4]);
  reply.Integer(is_new);
}

// `acknowledged`: what it had pending, too.
void RemoveConsumer(ShardContext& cx, Args args, const Found& found, StreamConsumer* consumer,
                    size_t acknowledged, ReplySink& reply) {
  const size_t pending = acknowledged + consumer->pending.size();
  found.group->RemoveConsumer(consumer);
  cx.ChangedUnwatched(args[2], KeyEvent::kXGroupDelConsumer);
  reply.Integer(static_cast<int64_t>(pending));
}

void DelConsumer(ShardContext& cx, Args args, ReplySink& reply) {
  Found found;
  if (!FindOfSubcommand(cx, args, false, reply, &found)) return;
  StreamConsumer* const consumer = found.group->FindConsumer(args[4]);
  if (consumer == nullptr) return reply.Integer(0);
  RemoveConsumer(cx, args, found, consumer, 0, reply);
}

// The same of a large stream: what the consumer has pending goes in slices, a hop for each. All of
// them have the key locked, so nobody sees some of it gone. Suspends.
void DelConsumerInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const uint64_t hash = HashKey(args[2]);
  const ShardId id = cx.shards().ShardOfKey(args[2], hash);
  Transaction tx(cx);
  tx.Lock(id, {cx.shards().LockOfKey(args[2], hash, cx.db_index()), LockMode::kExclusive});
  if (!tx.Schedule()) return;
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  size_t acknowledged = 0;
  bool goes_on = false;
  do {
    tx.HopOn({&id, 1}, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
      goes_on = false;
      Found found;
      if (!FindOfSubcommand(shard_cx, args, false, reply, &found)) return;
      StreamConsumer* const consumer = found.group->FindConsumer(args[4]);
      if (consumer == nullptr) return reply.Integer(0);
      const StreamConsumer::Pending& pending = consumer->pending;
      goes_on = pending.size() > kSliceMembers;
      for (size_t i = 0; goes_on && i < kSliceMembers; ++i) {
        found.group->Acknowledge(*pending.begin());
        ++acknowledged;
      }
      if (!goes_on) RemoveConsumer(shard_cx, args, found, consumer, acknowledged, reply);
    });
    work.Step();
  } while (goes_on);
}

// Command::takes_many.
bool HasManyPending(const CompactValue& value, Args args, size_t) {
  if (value.type() != ValueType::kStream) return false;
  const StreamGroup* const group = StreamOf(value).FindGroup(args[3]);
  const StreamConsumer* const consumer = group != nullptr ? group->FindConsumer(args[4]) : nullptr;
  return consumer != nullptr && consumer->pending.size() > kSliceMembers;
}

void GroupHelp(Args, ReplySink& reply) {
  static constexpr std::string_view kLines[] = {
      "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "CREATE <key> <groupname> <id|$> [option]",
      "    Create a new consumer group. Options are:",
      "    * MKSTREAM",
      "      Create the empty stream if it does not exist.",
      "    * ENTRIESREAD entries_read",
      "      Set the group's entries_read counter (internal use).",
      "CREATECONSUMER <key> <groupname> <consumer>",
      "    Create a new consumer in the specified group.",
      "DELCONSUMER <key> <groupname> <consumer>",
      "    Remove the specified consumer.",
      "DESTROY <key> <groupname>",
      "    Remove the specified group.",
      "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
      "    Set the current group ID and entries_read counter.",
      "HELP",
      "    Prints this help.",
  };
  reply.Array(std::size(kLines));
  for (std::string_view line : kLines) reply.Status(line);
}

// --- XACK and XPENDING ---

// XACK key group id [id ...]
void XAck(ShardContext& cx, Args args, ReplySink& reply) {
  const Found found = FindGroup(cx, args.key(), args[2]);
  if (found.is_wrong_type) return reply.Error(kErrWrongType);
  if (found.group == nullptr) return reply.Integer(0);
  const auto ids = ParseStreamIds(args.from(3), reply);
  if (!ids) return;
  size_t acknowledged = 0;
  for (StreamId id : *ids) acknowledged += found.group->Acknowledge(id);
  if (acknowledged > 0) cx.ChangedUnwatched(args.key(), KeyEvent::kNone, acknowledged);
  reply.Integer(static_cast<int64_t>(acknowledged));
}

// XPENDING key group
void ReplySummary(const StreamGroup& group, ReplySink& reply) {
  const auto& pending = group.pending();
  reply.Array(4);
  reply.Integer(static_cast<int64_t>(pending.size()));
  if (pending.empty()) {
    reply.Null();
    reply.Null();
    return reply.NullArray();
  }
  ReplyStreamId(pending.begin()->first, reply);
  ReplyStreamId(std::prev(pending.end())->first, reply);
  size_t count = 0;
  for (const auto& [name, consumer] : group.consumers()) count += !consumer->pending.empty();
  reply.Array(count);
  for (const auto& [name, consumer] : group.consumers()) {
    if (consumer->pending.empty()) continue;
    reply.Array(2);
    reply.Bulk(name);
    reply.Bulk(std::to_string(consumer->pending.size()));
  }
}

// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
struct PendingCall {
  bool is_summary = false;
  int64_t idle_min = 0;
  uint64_t count = 0;
  StreamId first, last;
  std::optional<std::string_view> consumer;
};

// None: the error was replied.
std::optional<PendingCall> ParsePending(Args args, ReplySink& reply) {
  PendingCall call;
  if (args.size() == 3) {
    call.is_summary = true;
    return call;
  }
  if (args.size() < 6 || args.size() > 9) return Refuse(reply, kErrSyntax);
  size_t at = 3;
  if (IsOption(args[3], "IDLE")) {
    const auto idle = ParseInteger(args[4], kErrNotInteger, reply);
    if (!idle) return std::nullopt;
    if (args.size() < 8) return Refuse(reply, kErrSyntax);
    call.idle_min = *idle;
    at += 2;
  }
  const auto most = ParseInteger(args[at + 2], kErrNotInteger, reply);
  if (!most) return std::nullopt;
  call.count = static_cast<uint64_t>(std::max<int64_t>(*most, 0));
  const std::optional<StreamId> start = ParseRangeStart(args[at], reply);
  if (!start) return std::nullopt;
  const std::optional<StreamId> end = ParseRangeEnd(args[at + 1], reply);
  if (!end) return std::nullopt;
  call.first = *start;
  call.last = *end;
  if (at + 3 < args.size()) call.consumer = args[at + 3];
  return call;
}

// What a call gets of a group's pending entries.
class PendingCopy {
 public:
  PendingCopy(Args args, const PendingCall& call) : args_(args), call_(call), first_(call.first) {}

  void CopyAll(ShardContext& cx, const ShardContext::ReadHandle& value) {
    Copy(cx, value, SIZE_MAX);
  }
  // For CopyInSlices.
  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    return Copy(cx, value, kSliceMembers);
  }
  // give(KeptReply&) gives what was kept.
  template <typename Give>
  void Reply(ReplySink& reply, Give give) {
    if (!has_group_) return reply.Error(NoGroupError(args_.key(), args_[2]));
    if (!call_.is_summary) reply.Array(count_);
    give(kept_);
  }

 private:
  // False: it has all.
  bool Copy(ShardContext& cx, const ShardContext::ReadHandle& value, size_t slice) {
    const StreamGroup* const group = StreamOf(*value).FindGroup(args_[2]);
    has_group_ = group != nullptr;
    if (!has_group_) return false;
    if (call_.is_summary) {
      ReplySummary(*group, kept_);
      return false;
    }
    bool goes_on = false;
    // False: that is enough.
    const auto add = [&](StreamId id, const StreamPending& pending) {
      if (id > call_.last || count_ == call_.count) return false;
      if (slice == 0) {
        first_ = id;
        goes_on = true;
        return false;
      }
      --slice;  // also for those that are passed over
      if (call_.idle_min == 0 || pending.IsIdleFor(call_.idle_min, cx.now_ms())) {
        Keep(id, pending, cx.now_ms());
      }
      return true;
    };
    const auto& all = group->pending();
    if (call_.consumer) {
      const StreamConsumer* const consumer = group->FindConsumer(*call_.consumer);
      if (consumer == nullptr) return false;
      const auto& ids = consumer->pending;
      for (auto it = ids.lower_bound(first_); it != ids.end(); ++it) {
        if (!add(*it, all.find(*it)->second)) break;
      }
    } else {
      for (auto it = all.lower_bound(first_); it != all.end(); ++it) {
        if (!add(it->first, it->second)) break;
      }
    }
    return goes_on;
  }
  void Keep(StreamId id, const StreamPending& pending, int64_t now_ms) {
    ++count_;
    kept_.Array(4);
    ReplyStreamId(id, kept_);
    kept_.Bulk(pending.owner());
    kept_.Integer(pending.is_returned() ? -1 : std::max<int64_t>(now_ms - pending.delivered_ms, 0));
    kept_.Integer(static_cast<int64_t>(pending.deliveries));
  }

  const Args args_;
  const PendingCall call_;
  StreamId first_;  // of those that are left
  bool has_group_ = false;
  size_t count_ = 0;
  KeptReply kept_;
};

void XPending(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<PendingCall> call = ParsePending(args, reply);
  if (!call) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  PendingCopy copy(args, *call);
  if (value) copy.CopyAll(cx, value);
  copy.Reply(reply, [&reply](const KeptReply& kept) { kept.GiveTo(reply); });
}

// Suspends.
void XPendingInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<PendingCall> call = ParsePending(args, reply);
  if (!call) return;
  PendingCopy copy(args, *call);
  if (!CopyInSlices(cx, args.key(), ValueType::kStream, reply, &copy)) return;
  copy.Reply(reply, [&reply](KeptReply& kept) { kept.GiveInSlices(reply); });
}

// Command::asks_for_many. Those that are passed over do not count: a million of them take some
// milliseconds.
bool AsksForManyPending(Args args) {
  if (args.size() < 6) return false;
  const size_t at = IsOption(args[3], "IDLE") ? 7 : 5;
  const std::optional<int64_t> count = at < args.size() ? ParseInt64(args[at]) : std::nullopt;
  return count && *count >= static_cast<int64_t>(kLargeMembers);
}

// --- XNACK ---

// How often what is given back counts as delivered.
struct Returning {
  enum Mode : uint8_t { kSilent, kFail, kFatal };
  Mode mode = kFail;
  std::optional<int64_t> retry_count;
  bool force = false;
  std::vector<StreamId> ids;

  uint64_t DeliveriesOf(const StreamPending* before) const {
    if (retry_count) return static_cast<uint64_t>(*retry_count);
    if (mode == kFatal) return INT64_MAX;
    if (before == nullptr) return 0;
    const uint64_t deliveries = std::min<uint64_t>(before->deliveries, INT64_MAX);
    return deliveries - (mode == kSilent && deliveries > 0);
  }
};

// None: the error was replied.
std::optional<Returning> ParseReturning(Args args, ReplySink& reply) {
  Returning returning;
  if (IsOption(args[3], "SILENT")) {
    returning.mode = Returning::kSilent;
  } else if (IsOption(args[3], "FATAL")) {
    returning.mode = Returning::kFatal;
  } else if (!IsOption(args[3], "FAIL")) {
    return Refuse(reply, "ERR mode must be SILENT, FAIL, or FATAL");
  }
  std::optional<std::span<const std::string_view>> texts;
  for (size_t i = 4; i < args.size(); ++i) {
    if (IsOption(args[i], "IDS") && !texts) {
      texts = ParseIdsBlock(args, &i, reply);
      if (!texts) return std::nullopt;
    } else if (IsOption(args[i], "RETRYCOUNT") && i + 1 < args.size()) {
      constexpr std::string_view kError = "ERR Invalid RETRYCOUNT option argument for XNACK";
      returning.retry_count = ParseInteger(args[++i], kError, reply);
      if (!returning.retry_count) return std::nullopt;
      if (*returning.retry_count < 0) return Refuse(reply, kError);
    } else if (IsOption(args[i], "FORCE")) {
      returning.force = true;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  if (!texts) return Refuse(reply, kErrSyntax);
  auto ids = ParseStreamIds(*texts, reply);
  if (!ids) return std::nullopt;
  returning.ids = std::move(*ids);
  return returning;
}

// XNACK key group SILENT | FAIL | FATAL IDS count id [id ...] [RETRYCOUNT count] [FORCE]
void XNack(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<Returning> returning = ParseReturning(args, reply);
  if (!returning) return;
  const Found found = FindGroup(cx, args.key(), args[2]);
  if (found.group == nullptr) return reply.Error(ErrorOf(found, args.key(), args[2]));
  StreamGroup& group = *found.group;
  uint64_t count = 0;
  for (StreamId id : returning->ids) {
    const StreamPending* const before = group.FindPending(id);
    if (before == nullptr && !(returning->force && found.stream->entries().Has(id))) continue;
    const uint64_t deliveries = returning->DeliveriesOf(before);
    group.Return(id).deliveries = deliveries;
    ++count;
    if (!cx.wants_effects()) continue;
    char text[StreamId::kTextMax];
    cx.Tell("XNACK", args.key(), args[2], "FAIL", "IDS", 1, id.Format(text), "RETRYCOUNT",
            deliveries, "FORCE");
  }
  if (count > 0) cx.ChangedUnwatched(args.key(), KeyEvent::kNone, count);
  reply.Integer(static_cast<int64_t>(count));
}

// --- XCLAIM and XAUTOCLAIM ---

// XCLAIM's options, behind the ids.
struct ClaimOptions {
  int64_t idle_min = 0;
  std::optional<int64_t> delivered_ms;
  std::optional<int64_t> deliveries;
  bool force = false;
  bool just_ids = false;
  StreamId last_id;
};

// From args[at] on. False: the error was replied.
bool ParseClaimOptions(Args args, size_t at, int64_t now_ms, ReplySink& reply,
                       ClaimOptions* options) {
  for (size_t i = at; i < args.size(); ++i) {
    const std::string_view option = args[i];
    const bool has_argument = i + 1 < args.size();
    if (IsOption(option, "FORCE")) {
      options->force = true;
    } else if (IsOption(option, "JUSTID")) {
      options->just_ids = true;
    } else if (IsOption(option, "IDLE") && has_argument) {
      const auto idle =
          ParseInteger(args[++i], "ERR Invalid IDLE option argument for XCLAIM", reply);
      if (!idle) return false;
      options->delivered_ms =
          static_cast<int64_t>(static_cast<uint64_t>(now_ms) - static_cast<uint64_t>(*idle));
    } else if (IsOption(option, "TIME") && has_argument) {
      options->delivered_ms =
          ParseInteger(args[++i], "ERR Invalid TIME option argument for XCLAIM", reply);
      if (!options->delivered_ms) return false;
    } else if (IsOption(option, "RETRYCOUNT") && has_argument) {
      options->deliveries =
          ParseInteger(args[++i], "ERR Invalid RETRYCOUNT option argument for XCLAIM", reply);
      if (!options->deliveries) return false;
    } else if (IsOption(option, "LASTID") && has_argument) {
      const std::optional<StreamId> id = ParseStreamId(args[++i], 0);
      if (!id) {
        reply.Error(kErrInvalidStreamId);
        return false;
      }
      options->last_id = *id;
    } else {
      reply.Error(fmt::format("ERR Unrecognized XCLAIM option '{}'", Printed(option)));
      return false;
    }
  }
  return true;
}

// With the entries that belong to them, or the ids alone.
void ReplyClaimed(const StreamEntries& entries, const std::vector<StreamId>& ids, bool just_ids,
                  ReplySink& reply) {
  reply.Array(ids.size());
  for (StreamId id : ids) {
    if (just_ids) {
      ReplyStreamId(id, reply);
    } else {
      ReplyEntryAt(entries, id, reply);
    }
  }
}

// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-ms]
//   [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]
void XClaim(ShardContext& cx, Args args, ReplySink& reply) {
  const Found found = FindGroup(cx, args.key(), args[2]);
  if (found.group == nullptr) return reply.Error(ErrorOf(found, args.key(), args[2]));
  StreamGroup& group = *found.group;
  const StreamEntries& entries = found.stream->entries();
  ClaimOptions options;
  const auto idle = ParseInteger(args[4], "ERR Invalid min-idle-time argument for XCLAIM", reply);
  if (!idle) return;
  options.idle_min = *idle;
  // Options begin with what is no id.
  std::vector<StreamId> ids;
  size_t at = 5;
  for (; at < args.size(); ++at) {
    const std::optional<StreamId> id = ParseStreamId(args[at], 0);
    if (!id) break;
    ids.push_back(*id);
  }
  const int64_t now_ms = cx.noted_ms();
  if (!ParseClaimOptions(args, at, now_ms, reply, &options)) return;

  const bool is_further = options.last_id > group.last_id;
  if (is_further) group.last_id = options.last_id;
  int64_t delivered_ms = options.delivered_ms.value_or(now_ms);
  if (delivered_ms < 0 || delivered_ms > now_ms) delivered_ms = now_ms;
  StreamConsumer* const consumer = ConsumerOrNew(cx, args.key(), group, args[3]);
  consumer->seen_ms = now_ms;

  std::vector<StreamId> claimed;
  uint64_t changes = 0;
  for (StreamId id : ids) {
    const StreamPending* const before = group.FindPending(id);
    if (!entries.Has(id)) {
      if (!group.Acknowledge(id)) continue;  // nobody can read it any more
      ++changes;
      if (cx.wants_effects()) TellAcknowledged(cx, args.key(), group, id);
      continue;
    }
    if (before == nullptr && !options.force) continue;
    if (before != nullptr && options.idle_min > 0 && !before->IsIdleFor(options.idle_min, now_ms)) {
      continue;
    }
    const bool is_new = before == nullptr;
    StreamPending& pending = group.Assign(id, consumer);
    if (is_new) pending.deliveries = 1;
    group.SetDelivered(id, &pending, delivered_ms);
    if (options.deliveries && *options.deliveries >= 0) {
      pending.deliveries = static_cast<uint64_t>(*options.deliveries);
    } else if (!options.just_ids) {
      pending.deliveries = NextDelivery(pending.deliveries);
    }
    consumer->active_ms = now_ms;
    claimed.push_back(id);
    ++changes;
    if (cx.wants_effects()) TellPending(cx, args.key(), group, id);
  }
  ReplyClaimed(entries, claimed, options.just_ids, reply);
  if (changes == 0) changes = is_further;
  if (is_further && cx.wants_effects()) TellDelivered(cx, args.key(), group);
  if (changes > 0) cx.ChangedUnwatched(args.key(), KeyEvent::kNone, changes);
}

// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
struct AutoClaimCall {
  int64_t idle_min = 0;
  StreamId start;
  int64_t count = 100;
  bool just_ids = false;
};

// None: the error was replied.
std::optional<AutoClaimCall> ParseAutoClaim(Args args, ReplySink& reply) {
  constexpr int64_t kCountMax = INT64_MAX / 16;
  AutoClaimCall call;
  const auto idle =
      ParseInteger(args[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM", reply);
  if (!idle) return std::nullopt;
  call.idle_min = *idle;
  const std::optional<StreamId> start = ParseRangeStart(args[5], reply);
  if (!start) return std::nullopt;
  call.start = *start;
  for (size_t i = 6; i < args.size(); ++i) {
    if (IsOption(args[i], "COUNT") && i + 1 < args.size()) {
      const std::optional<int64_t> number = ParseInt64(args[++i]);
      if (!number || *number < 1 || *number > kCountMax) {
        return Refuse(reply, "ERR COUNT must be > 0");
      }
      call.count = *number;
    } else if (IsOption(args[i], "JUSTID")) {
      call.just_ids = true;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  return call;
}

// A call's walk over pending entries, in one step or in several.
class AutoClaim {
 public:
  AutoClaim(Args args, const AutoClaimCall& call)
      : args_(args),
        call_(call),
        next_(call.start),
        attempts_(call.count * kAttemptsForEach),
        left_(call.count) {}

  // Looks at `most` of them. False: that was all.
  bool Claim(ShardContext& cx, const Found& found, int64_t most) {
    StreamGroup& group = *found.group;
    const std::string_view key = args_.key();
    StreamConsumer* const consumer = ConsumerOrNew(cx, key, group, args_[3]);
    const int64_t now_ms = cx.noted_ms();
    consumer->seen_ms = now_ms;
    uint64_t changes = 0;
    auto it = group.pending().lower_bound(next_);
    const auto goes_on = [&] { return attempts_ > 0 && left_ > 0 && it != group.pending().end(); };
    for (; most > 0 && goes_on(); --most, --attempts_) {
      const StreamId id = it->first;
      if (!found.stream->entries().Has(id)) {
        gone_.push_back(id);
        group.Acknowledge(id);
        if (cx.wants_effects()) TellAcknowledged(cx, key, group, id);
        it = group.pending().upper_bound(id);
        --left_;
        ++changes;
        continue;
      }
      if (call_.idle_min > 0 && !it->second.IsIdleFor(call_.idle_min, now_ms)) {
        ++it;
        continue;
      }
      StreamPending& pending = group.Assign(id, consumer);
      group.SetDelivered(id, &pending, now_ms);
      if (!call_.just_ids) pending.deliveries = NextDelivery(pending.deliveries);
      consumer->active_ms = now_ms;
      Keep(found.stream->entries(), id);
      if (cx.wants_effects()) TellPending(cx, key, group, id);
      --left_;
      ++changes;
      ++it;
    }
    next_ = it == group.pending().end() ? StreamId() : it->first;
    const bool has_more = goes_on();
    if (changes > 0) cx.ChangedUnwatched(key, KeyEvent::kNone, changes);
    return has_more;
  }
  // give(KeptReply&) gives what was kept.
  template <typename Give>
  void Reply(ReplySink& reply, Give give) {
    reply.Array(3);
    ReplyStreamId(next_, reply);
    reply.Array(claimed_);
    give(kept_);
    reply.Array(gone_.size());
    for (StreamId id : gone_) ReplyStreamId(id, reply);
  }

 private:
  static constexpr int64_t kAttemptsForEach = 10;

  // With the entry that belongs to it, or the id alone.
  void Keep(const StreamEntries& entries, StreamId id) {
    ++claimed_;
    if (call_.just_ids) {
      ReplyStreamId(id, kept_);
    } else {
      ReplyEntryAt(entries, id, kept_);
    }
  }

  const Args args_;
  const AutoClaimCall call_;
  StreamId next_;
  int64_t attempts_;
  int64_t left_;
  size_t claimed_ = 0;
  KeptReply kept_;  // of these
  std::vector<StreamId> gone_;
};

void XAutoClaim(ShardContext& cx, Args args, ReplySink& reply) {
  const Found found = FindGroup(cx, args.key(), args[2]);
  const std::optional<AutoClaimCall> call = ParseAutoClaim(args, reply);
  if (!call) return;
  if (found.group == nullptr) return reply.Error(ErrorOf(found, args.key(), args[2]));
  AutoClaim claim(args, *call);
  claim.Claim(cx, found, INT64_MAX);
  claim.Reply(reply, [&reply](const KeptReply& kept) { kept.GiveTo(reply); });
}

// A slice in each hop. All of them have the key locked, so it is one step nevertheless. Suspends.
void XAutoClaimInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<AutoClaimCall> call = ParseAutoClaim(args, reply);
  if (!call) return;
  AutoClaim claim(args, *call);
  std::string error;
  bool goes_on = false;
  const uint64_t hash = HashKey(args.key());
  const ShardId id = cx.shards().ShardOfKey(args.key(), hash);
  Transaction tx(cx);
  tx.Lock(id, {cx.shards().LockOfKey(args.key(), hash, cx.db_index()), LockMode::kExclusive});
  if (!tx.Schedule()) return;
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  bool is_first = true;
  do {
    tx.HopOn({&id, 1}, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
      const Found found = std::exchange(is_first, false)
                              ? FindGroup(shard_cx, args.key(), args[2])
                              : FindGroupAgain(shard_cx, args.key(), args[2]);
      if (found.group == nullptr) {
        error = ErrorOf(found, args.key(), args[2]);
        goes_on = false;
        return;
      }
      const auto value = shard_cx.Peek(args.key());
      const size_t elements = found.stream->entries().size() + found.group->pending().size();
      goes_on = claim.Claim(shard_cx, found, static_cast<int64_t>(SliceOf(*value, elements)));
    });
    work.Step();
  } while (goes_on);
  tx.Conclude();
  if (!error.empty()) return reply.Error(error);
  claim.Reply(reply, [&reply](KeptReply& kept) { kept.GiveInSlices(reply); });
}

// Command::asks_for_many.
bool AsksToClaimMany(Args args) {
  for (size_t i = 6; i + 1 < args.size(); ++i) {
    if (!IsOption(args[i], "COUNT")) continue;
    const std::optional<int64_t> count = ParseInt64(args[i + 1]);
    return count && *count >= static_cast<int64_t>(kLargeMembers / 8);
  }
  return false;
}

}  // namespace

void RegisterStreamGroupCommands(CommandTable* table) {
  const FamilyRows add(table, "stream", kAclStream);
  constexpr std::string_view kForEachClaimed =
      "O(N log P) where N is the number of entries looked at and P that of pending ones.";
  add("xack", XAck, -4, kWrite | kFast, KeyAt(1),
      "Acknowledges entries that a group has delivered.", "5.0.0",
      "O(log P) for each id, where P is the number of pending entries.");
  add("xpending", XPending, -3, kReadonly, KeyAt(1),
      "Returns what a group has delivered and nobody has acknowledged.", "5.0.0",
      "O(N) where N is the number of entries returned or passed over; of consumers, for a summary.",
      "nondeterministic_output", {.across = XPendingInSlices, .asks_for_many = AsksForManyPending});
  add("xclaim", XClaim, -6, kWrite | kFast, KeyAt(1), "Gives pending entries to another consumer.",
      "5.0.0", kForEachClaimed, "nondeterministic_output");
  add("xautoclaim", XAutoClaim, -6, kWrite | kFast, KeyAt(1, "RW delete"),
      "Gives entries that have been pending for long to another consumer.", "6.2.0",
      kForEachClaimed, "nondeterministic_output",
      {.across = XAutoClaimInSlices, .asks_for_many = AsksToClaimMany});

  add("xnack", XNack, -7, kWrite | kFast, KeyAt(1),
      "Gives pending entries back to their group, without acknowledging them.", "8.8.0",
      "O(log P) for each id, where P is the number of pending entries.");

  Command group;
  group.name = "xgroup";
  group.arity = -2;
  group.docs = {.summary = "A container for commands on consumer groups.",
                .since = "5.0.0",
                .group = "stream",
                .complexity = "Depends on subcommand."};
  const auto add_sub = [&group](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                                std::string_view key_flags, std::string_view summary,
                                std::string_view since, std::string_view complexity,
                                const InSlices& in_slices = {}) {
    group.subcommands.push_back({.name = name,
                                 .run = run,
                                 .across = in_slices.across,
                                 .slices = in_slices.across != nullptr,
                                 .takes_many = in_slices.takes_many,
                                 .arity = arity,
                                 .flags = flags,
                                 .categories = kAclStream,
                                 .keys = KeyAt(2, key_flags),
                                 .docs = {summary, since, "stream", complexity}});
  };
  add_sub("create", Create, -5, kWrite | kDenyOom, "RW insert", "Makes a group.", "5.0.0", "O(1)");
  add_sub("setid", SetId, -5, kWrite, "RW update", "Sets what a group has delivered last.", "5.0.0",
          "O(1)");
  add_sub("destroy", Destroy, 4, kWrite, "RW delete", "Removes a group.", "5.0.0",
          "O(N) where N is the number of its pending entries.");
  add_sub("createconsumer", CreateConsumer, 5, kWrite | kDenyOom, "RW insert",
          "Makes a consumer in a group.", "6.2.0", "O(1)");
  add_sub("delconsumer", DelConsumer, 5, kWrite, "RW delete", "Removes a consumer from a group.",
          "5.0.0", "O(N) where N is the number of its pending entries.",
          {.across = DelConsumerInSlices, .takes_many = HasManyPending});
  group.subcommands.push_back(HelpRow<GroupHelp>("5.0.0", "stream", kAclStream));
  table->Add(std::move(group));
}

}  // namespace dfly
