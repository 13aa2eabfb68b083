// SPDX-License-Identifier: Apache-2.0
// Streams: adding entries, reading ranges, erasing. Data: core/types/stream_value.h. Groups are in
// stream_groups.cc, XREAD and XREADGROUP in stream_read.cc, XINFO in stream_info.cc.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commands/streams/stream_support.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/refusing_sink.h"

namespace dfly {

namespace {

// --- XADD and XTRIM ---

constexpr std::string_view kErrBothStrategies =
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";

struct AddOrTrim {
  std::optional<StreamEntries::Trim> trim;
  std::optional<References> references;
  bool only_if_present = false;  // NOMKSTREAM
  bool has_producer = false;     // IDMP, IDMPAUTO
  ProducerOption producer;
  size_t id_at = 0;  // XADD: which argument is the id
  StreamId id;       // XADD: if it is given
  bool has_id = false;
  bool has_seq = false;
};

// "ms-*" leaves the number to us.
bool ParseNewId(std::string_view text, AddOrTrim* parsed) {
  parsed->has_id = parsed->has_seq = true;
  std::string_view ms = text;
  if (text.ends_with("-*") && text.find('-') == text.size() - 2) {
    ms.remove_suffix(2);
    parsed->has_seq = false;
  }
  const std::optional<StreamId> id = ParseStreamId(ms, 0);
  if (id) parsed->id = *id;
  return id.has_value();
}

// The options from args[2] on, for XADD up to the id. False: the error was replied.
bool ParseAddOrTrim(ShardContext& cx, Args args, bool is_add, ReplySink& reply, AddOrTrim* parsed) {
  std::optional<int64_t> limit;
  bool is_approximate = false;
  size_t i = 2;
  for (; i < args.size(); ++i) {
    const std::string_view option = args[i];
    const size_t more = args.size() - 1 - i;
    if (is_add && option == "*") break;
    if (is_add && !option.empty() && option[0] >= '0' && option[0] <= '9') {  // no option does
      if (!ParseNewId(option, parsed)) {
        reply.Error(kErrInvalidStreamId);
        return false;
      }
      break;
    }
    const bool is_size = IsOption(option, "MAXLEN");
    if ((is_size || IsOption(option, "MINID")) && more > 0) {
      if (parsed->trim) {
        reply.Error(kErrBothStrategies);
        return false;
      }
      is_approximate = false;
      if (more >= 2 && (args[i + 1] == "~" || args[i + 1] == "=")) {
        is_approximate = args[i + 1] == "~";
        ++i;
      }
      ++i;
      StreamEntries::Trim trim;
      if (is_size) {
        const auto most = ParseInteger(args[i], kErrNotInteger, reply);
        if (!most) return false;
        if (*most < 0) {
          reply.Error("ERR The MAXLEN argument must be >= 0.");
          return false;
        }
        trim.size_max = static_cast<uint64_t>(*most);
      } else {
        const std::optional<StreamId> id = ParseStreamId(args[i], 0);
        if (!id) {
          reply.Error(kErrInvalidStreamId);
          return false;
        }
        trim.id_min = *id;
      }
      parsed->trim = trim;
    } else if (IsOption(option, "LIMIT") && more > 0) {
      limit = ParseInteger(args[++i], kErrNotInteger, reply);
      if (!limit) return false;
      if (*limit < 0) {
        reply.Error("ERR The LIMIT argument must be >= 0.");
        return false;
      }
    } else if (is_add && IsOption(option, "NOMKSTREAM")) {
      parsed->only_if_present = true;
    } else if (is_add && (IsOption(option, "IDMP") || IsOption(option, "IDMPAUTO"))) {
      const bool is_auto = option.size() == std::string_view("IDMPAUTO").size();
      const size_t wanted = is_auto ? 1 : 2;
      if (parsed->has_producer || more < wanted) {
        reply.Error(kErrSyntax);
        return false;
      }
      parsed->has_producer = true;
      parsed->producer = {.name = args[i + 1], .message = is_auto ? "" : args[i + 2]};
      if (parsed->producer.name.empty() || (!is_auto && parsed->producer.message.empty())) {
        reply.Error(kErrEmptyProducer);
        return false;
      }
      i += wanted;
    } else if (const auto references = ReferencesOption(option); references) {
      if (parsed->references) {
        reply.Error(kErrSyntax);
        return false;
      }
      parsed->references = references;
    } else if (is_add) {
      if (!ParseNewId(option, parsed)) {
        reply.Error(kErrInvalidStreamId);
        return false;
      }
      break;
    } else {
      reply.Error(kErrSyntax);
      return false;
    }
  }
  parsed->id_at = i;
  if (parsed->has_producer && parsed->has_id) {
    reply.Error("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs");
    return false;
  }
  if (limit.value_or(0) != 0 && !parsed->trim) {
    reply.Error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
    return false;
  }
  if (!is_add && !parsed->trim) {
    reply.Error("ERR syntax error, XTRIM must be called with a trimming strategy");
    return false;
  }
  if (limit && !is_approximate) {
    reply.Error("ERR syntax error, LIMIT cannot be used without the special ~ option");
    return false;
  }
  if (is_approximate) {
    parsed->trim->is_approximate = true;
    // Without a limit 100 nodes, so that no command takes long.
    constexpr uint64_t kNodes = 100, kUnlimited = 10'000, kMost = 1'000'000;
    const uint64_t of_node = std::min(cx.shard().stream_limit().node_entries, kMost);
    const uint64_t usual = of_node == 0 ? kUnlimited : std::min(kNodes * of_node, kMost);
    parsed->trim->erased_max = limit ? static_cast<uint64_t>(*limit) : usual;
  }
  return true;
}

// None: there is no such id any more.
std::optional<StreamId> NextId(const AddOrTrim& parsed, StreamId last, int64_t now_ms) {
  StreamId id = parsed.id;
  if (!parsed.has_id) {
    const StreamId now = {static_cast<uint64_t>(now_ms), 0};
    if (now.ms > last.ms) return now;
    if (!last.Increment()) return std::nullopt;
    return last;
  }
  if (!parsed.has_seq && id.ms == last.ms) {
    if (last.seq == UINT64_MAX) return std::nullopt;
    id.seq = last.seq + 1;
  }
  if (id <= last) return std::nullopt;
  return id;
}

// Behind what is wrong whatever the key is.
void AddEntry(ShardContext& cx, Args args, const AddOrTrim& parsed, ReplySink& reply) {
  if (parsed.has_id && parsed.has_seq && parsed.id.is_zero()) {
    return reply.Error("ERR The ID specified in XADD must be greater than 0-0");
  }
  const auto pairs = args.from(parsed.id_at + 1);
  size_t bytes = 0;
  for (std::string_view text : pairs) bytes += text.size();

  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value && parsed.only_if_present) return reply.Null();
  if (parsed.has_producer && value) [[unlikely]] {
    if (ReplyIfSentBefore(cx, StreamOf(*value), parsed.producer, reply)) return;
  }
  const StreamId last = value ? StreamOf(*value).counters().last_id : StreamId();
  if (last == StreamId::Max()) {
    return reply.Error(
        "ERR The stream has exhausted the last possible ID, unable to add more items");
  }
  const std::optional<StreamId> id = NextId(parsed, last, cx.now_ms());
  if (!id) {
    return reply.Error(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item");
  }
  if (bytes > StreamEntries::kNodeBytesMax) {
    return reply.Error("ERR Elements are too large to be stored");
  }
  if (!value) value = cx.FindOrCreate(args.key(), ValueType::kStream);
  StreamValue& stream = StreamOrNew(value);
  stream.Append(*id, pairs, cx.shard().stream_limit());
  Trimmed trimmed;
  if (parsed.trim) {
    trimmed = TrimStream(stream, *parsed.trim, parsed.references.value_or(References::kKeep));
  }
  const bool has_trimmed = trimmed.erased > 0;
  if (parsed.has_producer) [[unlikely]]
    NoteSent(cx, stream, parsed.producer, *id);
  cx.Changed(args.key(), KeyEvent::kXAdd);
  if (has_trimmed) cx.Changed(args.key(), KeyEvent::kXTrim, 0);
  if (cx.wants_effects()) {
    char scratch[StreamId::kTextMax];
    std::vector<std::string_view> words = {"XADD", args.key(), id->Format(scratch)};
    words.insert(words.end(), pairs.begin(), pairs.end());
    cx.TellAll(words);
    if (parsed.has_producer) [[unlikely]]
      TellSent(cx, args.key(), stream, parsed.producer, *id);
    if (has_trimmed) TellTrimmed(cx, args.key(), stream, trimmed);
  }
  ReplyStreamId(*id, reply);
}

// XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer | IDMP producer message]
//   [MAXLEN | MINID [= | ~] threshold
//   [LIMIT count]] * | id field value [field value ...]
void XAdd(ShardContext& cx, Args args, ReplySink& reply) {
  AddOrTrim parsed;
  if (!ParseAddOrTrim(cx, args, true, reply, &parsed)) return;
  const size_t first = parsed.id_at + 1;
  if (args.size() < first + 2 || (args.size() - first) % 2 != 0) {
    return reply.Error(WrongArityError("xadd"));
  }
  if (parsed.has_producer) [[unlikely]] {
    const std::string message = MessageOf(parsed.producer, args.from(first));
    parsed.producer.message = message;
    return AddEntry(cx, args, parsed, reply);
  }
  AddEntry(cx, args, parsed, reply);
}

// XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]
void XTrim(ShardContext& cx, Args args, ReplySink& reply) {
  AddOrTrim parsed;
  if (!ParseAddOrTrim(cx, args, false, reply, &parsed)) return;
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  StreamValue& stream = StreamOf(*value);
  const Trimmed trimmed =
      TrimStream(stream, *parsed.trim, parsed.references.value_or(References::kKeep));
  if (trimmed.erased > 0) {
    if (cx.wants_effects()) TellTrimmed(cx, args.key(), stream, trimmed);
    cx.Changed(args.key(), KeyEvent::kXTrim, trimmed.erased);
  }
  reply.Integer(static_cast<int64_t>(trimmed.erased));
}

// XDEL key id [id ...]
void XDel(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  const auto ids = ParseStreamIds(args.rest(), reply);
  if (!ids) return;
  size_t erased = 0;
  for (StreamId id : *ids) erased += StreamOf(*value).Erase(id);
  if (erased > 0) cx.Changed(args.key(), KeyEvent::kXDel, erased);
  reply.Integer(static_cast<int64_t>(erased));
}

// XSETID key id [ENTRIESADDED entries-added] [MAXDELETEDID id]
void XSetId(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<StreamId> id = ParseStreamId(args[2], 0);
  if (!id) return reply.Error(kErrInvalidStreamId);
  std::optional<int64_t> added;
  StreamId max_deleted;
  for (size_t i = 3; i < args.size(); i += 2) {
    const bool has_argument = i + 1 < args.size();
    if (IsOption(args[i], "ENTRIESADDED") && has_argument) {
      added = ParseInteger(args[i + 1], kErrNotInteger, reply);
      if (!added) return;
      if (*added < 0) return reply.Error("ERR entries_added must be positive");
    } else if (IsOption(args[i], "MAXDELETEDID") && has_argument) {
      const std::optional<StreamId> deleted = ParseStreamId(args[i + 1], 0);
      if (!deleted) return reply.Error(kErrInvalidStreamId);
      if (*id < *deleted) {
        return reply.Error(
            "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
      }
      max_deleted = *deleted;
    } else {
      return reply.Error(kErrSyntax);
    }
  }
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Error(kErrNoSuchKey);
  StreamValue& stream = StreamOf(*value);
  StreamValue::Counters counters = stream.counters();
  if (*id < counters.max_deleted_id) {
    return reply.Error(
        "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
  }
  if (const std::optional<StreamId> last = stream.entries().Last()) {
    if (*id < *last) {
      return reply.Error(
          "ERR The ID specified in XSETID is smaller than the target stream top item");
    }
    if (added && static_cast<uint64_t>(*added) < stream.size()) {
      return reply.Error(
          "ERR The entries_added specified in XSETID is smaller than the target stream length");
    }
  }
  counters.last_id = *id;
  if (added) counters.entries_added = static_cast<uint64_t>(*added);
  if (!max_deleted.is_zero()) counters.max_deleted_id = max_deleted;
  stream.set_counters(counters);
  cx.ChangedUnwatched(args.key(), KeyEvent::kXSetId);
  reply.Ok();
}

// --- Reading ---

void XLen(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(StreamOf(*value).size()) : 0);
}

// XRANGE key start end [COUNT count], XREVRANGE key end start [COUNT count]
struct RangeCall {
  StreamId first, last;
  std::optional<uint64_t> count;
};

// None: the error was replied.
template <bool kBackwards>
std::optional<RangeCall> ParseRange(Args args, ReplySink& reply) {
  const std::optional<StreamId> first = ParseRangeStart(args[kBackwards ? 3 : 2], reply);
  if (!first) return std::nullopt;
  const std::optional<StreamId> last = ParseRangeEnd(args[kBackwards ? 2 : 3], reply);
  if (!last) return std::nullopt;
  RangeCall call = {.first = *first, .last = *last, .count = {}};
  for (size_t i = 4; i < args.size(); i += 2) {
    if (!IsOption(args[i], "COUNT") || i + 1 == args.size()) return Refuse(reply, kErrSyntax);
    const auto count = ParseInteger(args[i + 1], kErrNotInteger, reply);
    if (!count) return std::nullopt;
    call.count = static_cast<uint64_t>(std::max<int64_t>(*count, 0));
  }
  return call;
}

template <bool kBackwards>
void XRange(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeCall> call = ParseRange<kBackwards>(args, reply);
  if (!call) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Array(0);
  if (call->count == 0) return reply.NullArray();
  ReplyEntries(EntriesOf(StreamOf(*value).entries(), call->first, call->last,
                         call->count.value_or(0), kBackwards),
               reply);
}

// Suspends.
template <bool kBackwards>
void XRangeInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<RangeCall> call = ParseRange<kBackwards>(args, reply);
  if (!call) return;
  EntryCopy copy(call->first, call->last, call->count, kBackwards);
  if (!CopyInSlices(cx, args.key(), ValueType::kStream, reply, &copy)) return;
  if (copy.has_value() && call->count == 0) return reply.NullArray();
  reply.Array(copy.count());
  copy.replies().GiveInSlices(reply);
}

// Command::asks_for_many. Only an id to itself is known to be few.
bool AsksForManyEntries(Args args) {
  if (args[2] == args[3] && args[2].find('-') != std::string_view::npos) return false;
  if (args.size() < 6) return true;
  const std::optional<int64_t> count = ParseInt64(args[args.size() - 1]);
  return count && *count >= static_cast<int64_t>(kLargeMembers);
}

// For who only asks whether something is valid.
class NoReply final : public RefusingSink {
  void Refuse() override {}
};

// Command::takes_many.
template <bool kBackwards>
bool TakesManyEntries(const CompactValue& value, Args args, size_t) {
  if (value.type() != ValueType::kStream) return false;
  NoReply none;
  const std::optional<StreamId> first = ParseRangeStart(args[kBackwards ? 3 : 2], none);
  const std::optional<StreamId> last = ParseRangeEnd(args[kBackwards ? 2 : 3], none);
  return first && last && TakesMany(StreamOf(value), *first, *last);
}

}  // namespace

void RegisterStreamCommands(CommandTable* table) {
  StreamValue::RegisterType();
  const FamilyRows add(table, "stream", kAclStream);
  constexpr std::string_view kForEachReturned =
      "O(log M + N) where M is the number of nodes and N is the number of entries returned.";
  add("xadd", XAdd, -5, kWrite | kDenyOom | kFast, KeyAt(1),
      "Adds an entry to a stream; makes the key if need be.", "5.0.0",
      "O(1), and O(N) for trimming where N is the number of entries removed.",
      "nondeterministic_output");
  add("xtrim", XTrim, -4, kWrite, KeyAt(1, "RW delete"), "Removes the oldest entries of a stream.",
      "5.0.0", "O(N) where N is the number of entries removed; nodes go as a whole.",
      "nondeterministic_output");
  add("xdel", XDel, -3, kWrite | kFast, KeyAt(1, "RW delete"), "Removes entries from a stream.",
      "5.0.0", "O(log M) for each entry, where M is the number of nodes.");
  add("xsetid", XSetId, -3, kWrite | kDenyOom | kFast, KeyAt(1),
      "Sets the last id of a stream, and what is remembered of entries that have gone.", "5.0.0",
      "O(1)");
  add("xlen", XLen, 2, kReadonly | kFast, KeyAt(1, "RO"),
      "Returns the number of entries of a stream.", "5.0.0", "O(1)");
  add("xrange", XRange<false>, -4, kReadonly, KeyAt(1),
      "Returns the entries of a stream between two ids.", "5.0.0", kForEachReturned, {},
      {.across = XRangeInSlices<false>,
       .asks_for_many = AsksForManyEntries,
       .takes_many = TakesManyEntries<false>});
  add("xrevrange", XRange<true>, -4, kReadonly, KeyAt(1),
      "Returns the entries of a stream between two ids, the last one first.", "5.0.0",
      kForEachReturned, {},
      {.across = XRangeInSlices<true>,
       .asks_for_many = AsksForManyEntries,
       .takes_many = TakesManyEntries<true>});
  RegisterStreamGroupCommands(table);
  RegisterStreamInfoCommands(table);
  RegisterStreamReadCommands(table);
  RegisterStreamReferenceCommands(table);
  RegisterStreamProducerCommands(table);
}

}  // namespace dfly
