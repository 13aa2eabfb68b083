// SPDX-License-Identifier: Apache-2.0
#include "commands/streams/stream_read_call.h"

#include <fmt/format.h>

#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"

namespace dfly {

namespace {

bool IsReadGroup(Args args) { return args.name().size() == std::string_view("xreadgroup").size(); }

// A timeout in milliseconds. Empty: it is one; else why not.
std::string_view ParseMillis(std::string_view text, std::optional<int64_t>* timeout_ms) {
  const std::optional<int64_t> millis = ParseInt64(text);
  if (!millis) return kErrTimeoutNotInteger;
  if (*millis < 0) return kErrTimeoutNegative;
  // The deadline has to be a time, too.
  if (*millis > INT64_MAX - helio::UnixMillis()) return kErrTimeoutOutOfRange;
  *timeout_ms = *millis;
  return {};
}

// How many arguments an option of XREAD and XREADGROUP has besides its name.
size_t ArgumentsOf(std::string_view option) {
  for (const std::string_view one : {"BLOCK", "COUNT", "CLAIM", "MAXCOUNT", "MAXSIZE"}) {
    if (IsOption(option, one)) return 1;
  }
  return IsOption(option, "GROUP") ? 2 : 0;
}

// MAXCOUNT and MAXSIZE. None: the error was replied.
std::optional<uint64_t> ParseMost(std::string_view name, std::string_view text, ReplySink& reply) {
  const std::optional<int64_t> most = ParseInt64(text);
  if (most && *most > 0) return static_cast<uint64_t>(*most);
  return Refuse(reply, fmt::format("ERR {} must be a positive integer", name));
}

// Where the group of an XREADGROUP stands, the consumer behind it; 0: nowhere.
size_t FindGroupName(Args args) {
  for (size_t i = 1; i + 2 < args.size() && !IsOption(args[i], "STREAMS"); ++i) {
    if (IsOption(args[i], "GROUP")) return i + 1;
    i += ArgumentsOf(args[i]);
  }
  return 0;
}

}  // namespace

std::optional<KeyRange> FindStreamKeys(Args args) {
  for (size_t i = 1; i < args.size(); ++i) {
    if (IsOption(args[i], "STREAMS")) {
      const size_t keys = (args.size() - i - 1) / 2;
      if (keys == 0) return std::nullopt;
      return KeyRange{i + 1, i + 1 + keys};
    }
    i += ArgumentsOf(args[i]);
  }
  return std::nullopt;
}

std::optional<ReadCall> ParseRead(Args args, ReplySink& reply) {
  ReadCall call;
  call.of_group = IsReadGroup(args);
  bool has_group = false;
  for (size_t i = 1; i < args.size(); ++i) {
    const std::string_view option = args[i];
    const size_t more = args.size() - i - 1;
    if (IsOption(option, "BLOCK") && more > 0) {
      const std::string_view error = ParseMillis(args[++i], &call.timeout_ms);
      if (!error.empty()) return Refuse(reply, error);
    } else if (IsOption(option, "COUNT") && more > 0) {
      const std::optional<int64_t> count = ParseInt64(args[++i]);
      if (!count) return Refuse(reply, kErrNotInteger);
      call.count = static_cast<uint64_t>(std::max<int64_t>(*count, 0));
    } else if (IsOption(option, "MAXCOUNT") && more > 0) {
      const std::optional<uint64_t> most = ParseMost("MAXCOUNT", args[++i], reply);
      if (!most) return std::nullopt;
      call.most_entries = *most;
    } else if (IsOption(option, "MAXSIZE") && more > 0) {
      const std::optional<uint64_t> most = ParseMost("MAXSIZE", args[++i], reply);
      if (!most) return std::nullopt;
      call.most_bytes = *most;
    } else if (IsOption(option, "STREAMS") && more > 0) {
      if (more % 2 != 0) {
        return Refuse(
            reply, fmt::format("ERR Unbalanced '{}' list of streams: for each stream key an ID or "
                               "'{}' must be specified.",
                               call.of_group ? "xreadgroup" : "xread", call.of_group ? '>' : '$'));
      }
      call.keys = args.from(i + 1).first(more / 2);
      call.ids = args.from(i + 1 + more / 2);
      break;
    } else if (IsOption(option, "GROUP") && more >= 2) {
      if (!call.of_group) {
        return Refuse(
            reply,
            "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
      }
      call.group = args[i + 1];
      call.consumer = args[i + 2];
      has_group = true;
      i += 2;
    } else if (IsOption(option, "CLAIM") && more > 0) {
      if (!call.of_group) {
        return Refuse(
            reply,
            "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.");
      }
      call.claim_idle_ms = ParseInt64(args[++i]);
      if (!call.claim_idle_ms || *call.claim_idle_ms < 0) {
        return Refuse(reply, "ERR min-idle-time must be a positive integer");
      }
    } else if (IsOption(option, "NOACK")) {
      if (!call.of_group) {
        return Refuse(
            reply,
            "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
      }
      call.no_ack = true;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  if (call.keys.empty()) return Refuse(reply, kErrSyntax);
  if (call.of_group && !has_group) return Refuse(reply, "ERR Missing GROUP option for XREADGROUP");
  if (call.count > call.most_entries) {
    return Refuse(reply, "ERR MAXCOUNT must be greater than or equal to COUNT");
  }
  return call;
}

bool HasTimeout(Args args) {
  for (size_t i = 1; i < args.size() && !IsOption(args[i], "STREAMS"); ++i) {
    if (IsOption(args[i], "BLOCK")) return true;
    i += ArgumentsOf(args[i]);
  }
  return false;
}

bool AsksForManyBehind(Args args) {
  for (size_t i = 1; i + 1 < args.size() && !IsOption(args[i], "STREAMS"); ++i) {
    if (IsOption(args[i], "COUNT") || IsOption(args[i], "MAXCOUNT")) {
      const int64_t most = ParseInt64(args[i + 1]).value_or(1);
      if (most > 0 && most < static_cast<int64_t>(kLargeMembers)) return false;
    } else if (IsOption(args[i], "BLOCK")) {
      return false;
    } else if (IsReadGroup(args) && (IsOption(args[i], "CLAIM") || IsOption(args[i], "MAXSIZE"))) {
      return false;  // one step, whatever it gets
    }
    i += ArgumentsOf(args[i]);
  }
  return true;
}

bool TakesManyBehind(const CompactValue& value, Args args, size_t key_at) {
  const std::optional<KeyRange> keys = FindStreamKeys(args);
  if (value.type() != ValueType::kStream || !keys) return false;
  const size_t id_at = key_at + (keys->end - keys->first);
  if (id_at >= args.size()) return false;
  const StreamValue& stream = StreamOf(value);
  if (!IsReadGroup(args)) {
    std::optional<StreamId> after = ParseStreamId(args[id_at], 0);  // not "$" or "+": one at most
    return after && after->Increment() && TakesMany(stream, *after, StreamId::Max());
  }
  const size_t name_at = FindGroupName(args);
  const StreamGroup* const group = name_at != 0 ? stream.FindGroup(args[name_at]) : nullptr;
  if (group == nullptr) return false;
  if (args[id_at] == ">") {
    StreamId after = group->last_id;
    return after.Increment() && TakesMany(stream, after, StreamId::Max());
  }
  const StreamConsumer* const consumer = group->FindConsumer(args[name_at + 1]);
  if (consumer == nullptr) return false;
  const size_t pending = consumer->pending.size();
  const size_t bytes_each = value.HeapBytes() / (stream.size() + group->pending().size() + 1);
  return pending >= kLargeMembers || pending * bytes_each >= kManyBytes;
}

}  // namespace dfly
