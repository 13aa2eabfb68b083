// SPDX-License-Identifier: Apache-2.0
// What the files of the stream family share: reading ids, writing entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/kept_reply.h"
#include "commands/table/long_reads.h"
#include "core/types/stream_value.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {

inline constexpr std::string_view kErrInvalidStreamId =
    "ERR Invalid stream ID specified as stream command argument";

inline StreamValue& StreamOf(CompactValue& value) {
  return *static_cast<StreamValue*>(value.object());
}
inline const StreamValue& StreamOf(const CompactValue& value) {
  return *static_cast<const StreamValue*>(value.object());
}
// The stream of a key that FindOrCreate gave; a new one gets an empty stream.
StreamValue& StreamOrNew(ShardContext::WriteHandle& value);

// "ms-seq"; "ms" alone has the number `missing_seq`.
std::optional<StreamId> ParseStreamId(std::string_view text, uint64_t missing_seq);

// An end of a range: also "-", "+", and "(id" for one that does not belong to it. REQUIRES for the
// start of a range: missing_seq == 0. None: the error was replied.
std::optional<StreamId> ParseRangeStart(std::string_view text, ReplySink& reply);
std::optional<StreamId> ParseRangeEnd(std::string_view text, ReplySink& reply);

// None: one of them is no id, and the error was replied.
std::optional<std::vector<StreamId>> ParseStreamIds(std::span<const std::string_view> texts,
                                                    ReplySink& reply);

void ReplyStreamId(StreamId id, ReplySink& reply);
// The id, and an array of names and values: in an array of these two, or two elements of another.
void ReplyEntry(const StreamEntry& entry, ReplySink& reply);
void ReplyEntryParts(const StreamEntry& entry, ReplySink& reply);
// The entry with this id. False: there is none, and nothing was replied.
bool ReplyEntryAt(const StreamEntries& entries, StreamId id, ReplySink& reply);

// Those from `first` to `last`, not more than `most`; 0: all. They die with the next change.
std::vector<StreamEntry> EntriesOf(const StreamEntries& entries, StreamId first, StreamId last,
                                   uint64_t most, bool backwards = false);
void ReplyEntries(const std::vector<StreamEntry>& entries, ReplySink& reply);

// What a hop may still read of a stream: at least one entry. It goes by the bytes of those that are
// read, since few that are left may be large, and much of a stream may be what is pending.
class StreamSlice {
 public:
  static StreamSlice OfHop() { return StreamSlice(kSliceMembers, kSliceBytes); }
  static StreamSlice Unbounded() { return StreamSlice(UINT64_MAX, UINT64_MAX); }

  bool has_room() const { return entries_ > 0 && bytes_ > 0; }
  uint64_t entries() const { return entries_; }
  void Took(size_t bytes) {
    --entries_;
    bytes_ -= std::min<uint64_t>(bytes, bytes_);
  }

 private:
  StreamSlice(uint64_t entries, uint64_t bytes) : entries_(entries), bytes_(bytes) {}

  uint64_t entries_;
  uint64_t bytes_;
};

// The same in slices, of a stream that is locked: keeps the replies of its entries.
class EntryCopy {
 public:
  // `most`: none: all.
  EntryCopy(StreamId first, StreamId last, std::optional<uint64_t> most, bool backwards = false)
      : first_(first), last_(last), left_(most.value_or(UINT64_MAX)), backwards_(backwards) {}

  // For CopyInSlices.
  bool CopySome(ShardContext&, const ShardContext::ReadHandle& value) {
    has_value_ = true;
    if (left_ == 0) return false;
    const StreamEntries& entries = StreamOf(*value).entries();
    StreamSlice slice = StreamSlice::OfHop();
    bool goes_on = false;
    const auto add = [&](const StreamEntry& entry) {
      if (!slice.has_room()) {
        (backwards_ ? last_ : first_) = entry.id;
        goes_on = true;
        return false;
      }
      ReplyEntry(entry, replies_);
      ++count_;
      slice.Took(entry.bytes);
      return --left_ != 0;
    };
    backwards_ ? entries.ForEachBackwards(first_, last_, add) : entries.ForEach(first_, last_, add);
    return goes_on;
  }

  bool has_value() const { return has_value_; }  // there is such a key
  size_t count() const { return count_; }
  KeptReply& replies() { return replies_; }

 private:
  StreamId first_, last_;  // of those that are left
  uint64_t left_;
  const bool backwards_;
  bool has_value_ = false;
  size_t count_ = 0;
  KeptReply replies_;
};

// For Command::takes_many: whether there is much from `first` to `last`.
inline bool TakesMany(const StreamValue& stream, StreamId first, StreamId last) {
  return stream.entries().HasMany(first, last, kLargeMembers, kManyBytes);
}

// The consumer of that name, made and reported if need be.
StreamConsumer* ConsumerOrNew(ShardContext& cx, std::string_view key, StreamGroup& group,
                              std::string_view name);

// How often an entry was delivered when it is once more. Redis has signed integers for it.
constexpr uint64_t NextDelivery(uint64_t deliveries) {
  return deliveries < INT64_MAX ? deliveries + 1 : INT64_MAX;
}

// Effects of a group's: what a consumer has been given, as the group has it now; that one is not
// pending any more; and what the group has delivered. REQUIRES: wants_effects.
void TellPending(ShardContext& cx, std::string_view key, const StreamGroup& group, StreamId id);
void TellAcknowledged(ShardContext& cx, std::string_view key, const StreamGroup& group,
                      StreamId id);
void TellDelivered(ShardContext& cx, std::string_view key, const StreamGroup& group);

// --- What happens to groups' references when entries go (stream_references.cc) ---

enum class References : uint8_t {
  kKeep,    // KEEPREF: entries stay pending
  kDrop,    // DELREF: they are pending nowhere any more
  kRespect  // ACKED: who is pending, or was not delivered to some group, does not go
};
std::optional<References> ReferencesOption(std::string_view text);

// What a trim has done.
struct Trimmed {
  struct Dropped {
    const StreamGroup* group;
    StreamId id;
  };
  // What it does to references, or because of them.
  struct Referenced {
    std::vector<StreamId> gone;    // if it has not erased from the front only
    std::vector<Dropped> dropped;  // what was pending
  };
  uint64_t erased = 0;
  std::unique_ptr<Referenced> referenced;
};
Trimmed TrimReferenced(StreamValue& stream, const StreamEntries::Trim& trim, References references);
inline Trimmed TrimStream(StreamValue& stream, const StreamEntries::Trim& trim,
                          References references) {
  if (references == References::kKeep) [[likely]]
    return {.erased = stream.Trim(trim), .referenced = nullptr};
  return TrimReferenced(stream, trim, references);
}
// Its effects. REQUIRES: wants_effects, and that it has erased something.
void TellTrimmed(ShardContext& cx, std::string_view key, const StreamValue& stream,
                 const Trimmed& trimmed);

// IDS count id [id ...] at args[*at], which goes to the last one. None: the error was replied.
std::optional<std::span<const std::string_view>> ParseIdsBlock(Args args, size_t* at,
                                                               ReplySink& reply);

// --- Idempotent producers (stream_producers.cc) ---

inline constexpr std::string_view kErrEmptyProducer =
    "ERR IDMP producer and message identifiers must not be empty";

struct ProducerOption {
  std::string_view name;
  std::string_view message;  // its name; empty: IDMPAUTO, it follows from what the entry says
};
std::string MessageOf(const ProducerOption& producer, std::span<const std::string_view> pairs);
// True: the message is an entry already, whose id was replied.
bool ReplyIfSentBefore(ShardContext& cx, StreamValue& stream, const ProducerOption& sent,
                       ReplySink& reply);
// It has become an entry. And the effect of that, which needs the entry to be there.
void NoteSent(ShardContext& cx, StreamValue& stream, const ProducerOption& sent, StreamId id);
void TellSent(ShardContext& cx, std::string_view key, const StreamValue& stream,
              const ProducerOption& sent, StreamId id);

// The rest of the family, each in its file.
void RegisterStreamProducerCommands(CommandTable* table);
void RegisterStreamReferenceCommands(CommandTable* table);
void RegisterStreamGroupCommands(CommandTable* table);
void RegisterStreamInfoCommands(CommandTable* table);
void RegisterStreamReadCommands(CommandTable* table);

}  // namespace dfly
