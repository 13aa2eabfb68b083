// SPDX-License-Identifier: Apache-2.0
// Entries that go, and the groups that refer to them: XDELEX, XACKDEL, and what KEEPREF, DELREF and
// ACKED mean for XADD and XTRIM.
//
// A group refers to an entry that is pending there, and, for ACKED, to one that it has not been
// given yet. Effects are what every server knows: XDEL, XTRIM and XACK.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/streams/stream_support.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

// What is replied for an id.
enum Deletion : int8_t { kAbsent = -1, kDeleted = 1, kReferenced = 2 };

// The effect of entries that have gone; no command becomes too long.
void TellErased(ShardContext& cx, std::string_view key, std::span<const StreamId> ids) {
  constexpr size_t kMost = 1024;
  std::vector<std::string> texts;
  std::vector<std::string_view> words;
  while (!ids.empty()) {
    const auto some = ids.first(std::min(kMost, ids.size()));
    texts.clear();
    for (StreamId id : some) {
      char scratch[StreamId::kTextMax];
      texts.emplace_back(id.Format(scratch));
    }
    words = {"XDEL", key};
    words.insert(words.end(), texts.begin(), texts.end());
    cx.TellAll(words);
    ids = ids.subspan(some.size());
  }
}

// It is pending nowhere any more. Returns whether it was.
bool DropEverywhere(StreamValue& stream, StreamId id, std::vector<Trimmed::Dropped>* dropped) {
  bool was_pending = false;
  for (const auto& [name, group] : stream.groups()) {
    if (!group->Acknowledge(id)) continue;
    was_pending = true;
    dropped->push_back({group, id});
  }
  return was_pending;
}

void TellDropped(ShardContext& cx, std::string_view key,
                 const std::vector<Trimmed::Dropped>& dropped) {
  for (const Trimmed::Dropped& one : dropped) TellAcknowledged(cx, key, *one.group, one.id);
}

// --- XDELEX and XACKDEL ---

struct DeleteCall {
  References references = References::kKeep;
  std::vector<StreamId> ids;
};

// From args[at] on. None: the error was replied.
std::optional<DeleteCall> ParseDelete(Args args, size_t at, ReplySink& reply) {
  DeleteCall call;
  bool has_references = false;
  std::optional<std::span<const std::string_view>> texts;
  for (; at < args.size(); ++at) {
    if (const auto references = ReferencesOption(args[at]); references && !has_references) {
      call.references = *references;
      has_references = true;
    } else if (IsOption(args[at], "IDS") && !texts) {
      texts = ParseIdsBlock(args, &at, reply);
      if (!texts) return std::nullopt;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  if (!texts) return Refuse(reply, kErrSyntax);
  auto ids = ParseStreamIds(*texts, reply);
  if (!ids) return std::nullopt;
  call.ids = std::move(*ids);
  return call;
}

void ReplyDeletions(const std::vector<Deletion>& deletions, ReplySink& reply) {
  reply.Array(deletions.size());
  for (Deletion deletion : deletions) reply.Integer(deletion);
}

// What XDELEX and XACKDEL do to an id, after XACKDEL has acknowledged it in its group.
class Deleting {
 public:
  Deleting(ShardContext& cx, std::string_view key, StreamValue* stream)
      : cx_(cx), key_(key), stream_(*stream) {}

  Deletion Delete(StreamId id, References references) {
    if (references == References::kDrop) DropEverywhere(stream_, id, &dropped_);
    if (!stream_.entries().Has(id)) return kAbsent;
    if (references == References::kRespect && stream_.IsReferenced(id)) return kReferenced;
    stream_.Erase(id);
    erased_.push_back(id);
    return kDeleted;
  }
  // False: it was not pending there.
  bool Acknowledge(StreamGroup* group, StreamId id) {
    if (!group->Acknowledge(id)) return false;
    dropped_.push_back({group, id});
    return true;
  }
  // Reports all of it.
  void Finish() {
    if (!erased_.empty()) {
      cx_.Changed(key_, KeyEvent::kXDel, erased_.size());
    } else if (!dropped_.empty()) {
      cx_.ChangedUnwatched(key_, KeyEvent::kNone, dropped_.size());
    }
    if (!cx_.wants_effects()) return;
    TellErased(cx_, key_, erased_);
    TellDropped(cx_, key_, dropped_);
  }

 private:
  ShardContext& cx_;
  const std::string_view key_;
  StreamValue& stream_;
  std::vector<StreamId> erased_;
  std::vector<Trimmed::Dropped> dropped_;
};

// XDELEX key [KEEPREF | DELREF | ACKED] IDS count id [id ...]
void XDelEx(ShardContext& cx, Args args, ReplySink& reply) {
  const auto call = ParseDelete(args, 2, reply);
  if (!call) return;
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::vector<Deletion> deletions(call->ids.size(), kAbsent);
  if (!value) return ReplyDeletions(deletions, reply);
  Deleting deleting(cx, args.key(), &StreamOf(*value));
  for (size_t i = 0; i < deletions.size(); ++i) {
    deletions[i] = deleting.Delete(call->ids[i], call->references);
  }
  deleting.Finish();
  ReplyDeletions(deletions, reply);
}

// XACKDEL key group [KEEPREF | DELREF | ACKED] IDS count id [id ...]
void XAckDel(ShardContext& cx, Args args, ReplySink& reply) {
  const auto call = ParseDelete(args, 3, reply);
  if (!call) return;
  auto value = cx.FindMutable(args.key(), ValueType::kStream);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  StreamValue* const stream = value ? &StreamOf(*value) : nullptr;
  StreamGroup* const group = stream != nullptr ? stream->FindGroup(args[2]) : nullptr;
  std::vector<Deletion> deletions(call->ids.size(), kAbsent);
  if (group == nullptr) return ReplyDeletions(deletions, reply);
  Deleting deleting(cx, args.key(), stream);
  for (size_t i = 0; i < deletions.size(); ++i) {
    const StreamId id = call->ids[i];
    const bool was_pending = deleting.Acknowledge(group, id);
    // What other groups have of an entry that is not there any more goes in any case.
    const bool is_dangling = call->references == References::kDrop && !stream->entries().Has(id);
    if (was_pending || is_dangling) deletions[i] = deleting.Delete(id, call->references);
  }
  deleting.Finish();
  ReplyDeletions(deletions, reply);
}

}  // namespace

std::optional<References> ReferencesOption(std::string_view text) {
  if (IsOption(text, "KEEPREF")) return References::kKeep;
  if (IsOption(text, "DELREF")) return References::kDrop;
  if (IsOption(text, "ACKED")) return References::kRespect;
  return std::nullopt;
}

Trimmed TrimReferenced(StreamValue& stream, const StreamEntries::Trim& trim,
                       References references) {
  Trimmed trimmed;
  if (stream.groups().empty()) {
    trimmed.erased = stream.Trim(trim);
    return trimmed;
  }
  trimmed.referenced = std::make_unique<Trimmed::Referenced>();
  std::vector<StreamId> gone;
  if (references == References::kRespect) {
    const bool is_front = stream.TrimUnreferenced(trim, &gone);
    trimmed.erased = gone.size();
    if (!is_front) trimmed.referenced->gone = std::move(gone);
    return trimmed;
  }
  trimmed.erased = stream.Trim(trim, &gone);
  for (StreamId id : gone) DropEverywhere(stream, id, &trimmed.referenced->dropped);
  return trimmed;
}

void TellTrimmed(ShardContext& cx, std::string_view key, const StreamValue& stream,
                 const Trimmed& trimmed) {
  if (trimmed.referenced == nullptr || trimmed.referenced->gone.empty()) {
    // How many an approximate trim takes follows from how the nodes are cut: so many are left.
    cx.Tell("XTRIM", key, "MAXLEN", "=", stream.size());
  } else {
    TellErased(cx, key, trimmed.referenced->gone);
  }
  if (trimmed.referenced != nullptr) TellDropped(cx, key, trimmed.referenced->dropped);
}

std::optional<std::span<const std::string_view>> ParseIdsBlock(Args args, size_t* at,
                                                               ReplySink& reply) {
  constexpr std::string_view kErrCount = "ERR Number of IDs must be a positive integer";
  const size_t more = args.size() - 1 - *at;
  if (more == 0) return Refuse(reply, kErrSyntax);
  const auto count = ParseInteger(args[*at + 1], kErrCount, reply);
  if (!count) return std::nullopt;
  if (*count <= 0) return Refuse(reply, kErrCount);
  if (static_cast<uint64_t>(*count) > more - 1) {
    return Refuse(reply, "ERR The `numids` parameter must match the number of arguments");
  }
  const auto ids = args.from(*at + 2).first(static_cast<size_t>(*count));
  *at += 1 + ids.size();
  return ids;
}

void RegisterStreamReferenceCommands(CommandTable* table) {
  const FamilyRows add(table, "stream", kAclStream);
  constexpr std::string_view kForEachId =
      "O(G log P) for each id, where G is the number of groups and P that of pending entries.";
  add("xdelex", XDelEx, -5, kWrite | kFast, KeyAt(1, "RW delete"),
      "Removes entries from a stream, and says what becomes of groups' references.", "8.2.0",
      kForEachId);
  add("xackdel", XAckDel, -6, kWrite | kFast, KeyAt(1, "RW update delete"),
      "Acknowledges entries in a group, and removes them from the stream.", "8.2.0", kForEachId);
}

}  // namespace dfly
