// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_stream.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/rdb/foreign_entries.h"
#include "core/text/numbers.h"

namespace dfly {

namespace {

constexpr int64_t kErasedFlag = 1;
constexpr int64_t kSameNamesFlag = 2;
constexpr size_t kIdBytes = 16;
constexpr size_t kTimeBytes = 8;

// What stands in an entry besides its texts: flags, id, and the count of fields.
constexpr int64_t ElementsOf(size_t fields, bool shares_names) {
  return static_cast<int64_t>(shares_names ? fields + 3 : 2 * fields + 4);
}

// --- Writing ---

void WriteBytesOf(StreamId id, RdbWriter* writer) {
  writer->Little(__builtin_bswap64(id.ms), 8);
  writer->Little(__builtin_bswap64(id.seq), 8);
}

void WriteId(StreamId id, RdbWriter* writer) {
  writer->Length(id.ms);
  writer->Length(id.seq);
}

void WriteNode(const StreamEntries::NodeView& node, RdbWriter* writer) {
  ListpackWriter packed;
  const auto append = [&packed](PackedElement element) { packed.Append(element); };
  packed.Append(int64_t{node.live()});
  packed.Append(int64_t{node.erased()});
  packed.Append(static_cast<int64_t>(node.names()));
  node.ForEachName(append);
  packed.Append(int64_t{0});
  node.ForEachEntry([&](const StreamEntry& entry, bool is_erased) {
    const bool is_same = entry.shares_names();
    packed.Append((is_erased ? kErasedFlag : 0) | (is_same ? kSameNamesFlag : 0));
    packed.Append(static_cast<int64_t>(entry.id.ms - node.first().ms));
    packed.Append(static_cast<int64_t>(entry.id.seq - node.first().seq));
    if (!is_same) packed.Append(static_cast<int64_t>(entry.fields));
    entry.ForEachField([&](PackedElement name, PackedElement value) {
      if (!is_same) append(name);
      append(value);
    });
    packed.Append(ElementsOf(entry.fields, is_same));
  });
  writer->Length(kIdBytes);
  WriteBytesOf(node.first(), writer);
  writer->String(packed.Finish());
}

// What was given back is some consumer's in the form of 7.0: of one that was never seen, and whose
// entries have instead of times their places among what was given back.
constexpr int64_t kNeverSeen = 0;
constexpr int64_t kPlaceMax = int64_t{1} << 32;  // no time that a server has seen

void WriteGroup(const StreamGroup& group, bool has_active_time, RdbWriter* writer) {
  const std::vector<StreamId> returned = group.Returned();
  std::map<StreamId, int64_t> places;
  for (StreamId id : returned) places.emplace(id, static_cast<int64_t>(places.size()));
  writer->String(group.name);
  WriteId(group.last_id, writer);
  writer->Length(static_cast<uint64_t>(group.entries_read));
  writer->Length(group.pending().size());
  for (const auto& [id, pending] : group.pending()) {
    WriteBytesOf(id, writer);
    const int64_t ms = pending.is_returned() ? places[id] : pending.delivered_ms;
    writer->Little(static_cast<uint64_t>(ms), kTimeBytes);
    writer->Length(pending.deliveries);
  }
  writer->Length(group.consumers().size() + !returned.empty());
  if (!returned.empty()) {
    writer->String(group.UnusedName());
    writer->Little(kNeverSeen, kTimeBytes);
    if (has_active_time) writer->Little(kNeverSeen, kTimeBytes);
    writer->Length(returned.size());
    for (StreamId id : returned) WriteBytesOf(id, writer);
  }
  for (const auto& [name, consumer] : group.consumers()) {
    writer->String(name);
    writer->Little(static_cast<uint64_t>(consumer->seen_ms), kTimeBytes);
    if (has_active_time) writer->Little(static_cast<uint64_t>(consumer->active_ms), kTimeBytes);
    writer->Length(consumer->pending.size());
    for (StreamId id : consumer->pending) WriteBytesOf(id, writer);
  }
}

// --- Reading ---

// Of 16 bytes.
StreamId IdOf(std::string_view bytes) {
  return {__builtin_bswap64(packed::ReadLittle(bytes.data(), 8)),
          __builtin_bswap64(packed::ReadLittle(bytes.data() + 8, 8))};
}

std::vector<std::string_view> ViewsOf(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// The elements of one node.
class NodeReader {
 public:
  NodeReader(StreamId id, std::string_view block, StreamEntries* entries)
      : id_(id),
        size_(block.size()),
        elements_(ForeignEntries::Kind::kListpack, block),
        entries_(*entries) {}

  // Its ids have to be larger than `last`, which becomes the largest.
  bool Read(StreamId* last) {
    const auto live = Number();
    const auto erased = live ? Number() : std::nullopt;
    const auto fields = erased ? Number() : std::nullopt;
    if (!fields || *live < 1 || *erased < 0 || *fields < 1 || !ReadTexts(*fields, &names_) ||
        Number() != 0) {
      return false;
    }
    const uint64_t live_before = entries_.size();
    const auto count = static_cast<uint64_t>(*live) + static_cast<uint64_t>(*erased);
    for (uint64_t i = 0; i < count; ++i) {
      if (!ReadEntry(i == 0, last)) return false;
    }
    return !elements_.Next() && elements_.is_sound() &&
           entries_.size() - live_before == static_cast<uint64_t>(*live);
  }

 private:
  std::optional<int64_t> Number() {
    const auto text = elements_.Next();
    return text ? ParseInt64(*text) : std::nullopt;
  }

  bool ReadTexts(uint64_t count, std::vector<std::string>* texts) {
    texts->clear();
    for (uint64_t i = 0; i < count; ++i) {
      const auto element = elements_.Next();
      if (!element) return false;
      texts->emplace_back(*element);
    }
    return true;
  }

  bool ReadEntry(bool is_first, StreamId* last) {
    const auto flags = Number();
    const auto ms = flags ? Number() : std::nullopt;
    const auto seq = ms ? Number() : std::nullopt;
    if (!seq || (*flags & ~(kErasedFlag | kSameNamesFlag)) != 0) return false;
    const StreamId id = {id_.ms + static_cast<uint64_t>(*ms),
                         id_.seq + static_cast<uint64_t>(*seq)};
    if (id <= *last) return false;
    *last = id;
    const bool is_same = (*flags & kSameNamesFlag) != 0;
    const auto fields = is_same ? static_cast<int64_t>(names_.size()) : Number();
    if (!fields || *fields < 1 || static_cast<uint64_t>(*fields) > size_) return false;
    const auto count = static_cast<uint64_t>(*fields);
    if (!ReadTexts(is_same ? count : 2 * count, &texts_)) return false;
    if (Number() != ElementsOf(count, is_same)) return false;
    if (is_first) entries_.BeginNode(id, ViewsOf(names_));
    entries_.AppendToNode(id, ViewsOf(texts_), is_same, (*flags & kErasedFlag) != 0);
    return true;
  }

  const StreamId id_;
  const size_t size_;
  ForeignEntries elements_;
  StreamEntries& entries_;
  std::vector<std::string> names_;
  std::vector<std::string> texts_;  // of an entry
};

class StreamReader {
 public:
  StreamReader(RdbType type, RdbReader* reader, StreamValue* stream)
      : version_(StreamVersionOf(type)), reader_(*reader), stream_(*stream) {}

  bool Read() {
    return ReadNodes() && ReadCounters() && ForEach([this] { return ReadGroup(); }) &&
           (version_ < 4 || ReadProducers());
  }

  bool ReadProducers() {
    const auto seconds = reader_.Length();
    const auto messages = seconds ? reader_.Length() : std::nullopt;
    if (!messages || *seconds == 0 || *seconds > UINT32_MAX || *messages == 0 ||
        *messages > UINT32_MAX) {
      return false;
    }
    StreamProducers& producers =
        stream_.MakeProducers({.producer_seconds = static_cast<uint32_t>(*seconds),
                               .producer_messages = static_cast<uint32_t>(*messages)});
    const auto read_producer = [&] {
      const auto name = reader_.String();
      if (!name) return false;
      const std::string producer(*name);
      return ForEach([&] {
        const auto text = reader_.String();
        if (!text) return false;
        const std::string message(*text);
        const auto id = ReadId();
        return id && producers.Restore(producer, message, *id);
      });
    };
    if (!ForEach(read_producer)) return false;
    const auto added = reader_.Length();
    const auto duplicates = added ? reader_.Length() : std::nullopt;
    if (!duplicates) return false;
    producers.added = *added;
    producers.duplicates = *duplicates;
    return true;
  }

 private:
  struct Delivered {
    StreamId id;
    int64_t ms;
    uint64_t deliveries;
  };

  // read() as often as is said here, until it returns false.
  template <typename F>
  bool ForEach(F read) {
    const auto count = reader_.Count();
    if (!count) return false;
    for (uint64_t i = 0; i < *count; ++i) {
      if (!read()) return false;
    }
    return true;
  }

  std::optional<StreamId> ReadId() {
    const auto ms = reader_.Length();
    const auto seq = ms ? reader_.Length() : std::nullopt;
    if (!seq) return std::nullopt;
    return StreamId{*ms, *seq};
  }
  std::optional<StreamId> ReadBytesOfId() {
    const auto bytes = reader_.Raw(kIdBytes);
    if (!bytes) return std::nullopt;
    return IdOf(*bytes);
  }
  // One since 1970; `min` for none at all.
  std::optional<int64_t> ReadTime(int64_t min = 0) {
    const auto bits = reader_.Little(kTimeBytes);
    if (!bits || static_cast<int64_t>(*bits) < min) return std::nullopt;
    return static_cast<int64_t>(*bits);
  }

  bool ReadNodes() {
    return ForEach([this] {
      const auto key = reader_.String();
      if (!key || key->size() != kIdBytes) return false;
      const StreamId id = IdOf(*key);
      const auto block = reader_.String();
      if (!block || block->size() > StreamEntries::kNodeBytesMax) return false;
      return NodeReader(id, *block, &stream_.mutable_entries()).Read(&largest_id_);
    });
  }

  bool ReadCounters() {
    const auto size = reader_.Length();
    const auto last_id = size ? ReadId() : std::nullopt;
    if (!last_id || *size != stream_.size() || *last_id < largest_id_) return false;
    StreamValue::Counters counters = {.last_id = *last_id,
                                      .first_id = stream_.entries().First().value_or(StreamId()),
                                      .max_deleted_id = {},
                                      .entries_added = *size};
    if (version_ >= 2) {
      const auto first_id = ReadId();  // the same, or wrong
      const auto max_deleted_id = first_id ? ReadId() : std::nullopt;
      const auto added = max_deleted_id ? reader_.Length() : std::nullopt;
      if (!added || *added < *size || *added > INT64_MAX) return false;
      counters.max_deleted_id = *max_deleted_id;
      counters.entries_added = *added;
    }
    stream_.set_counters(counters);
    return true;
  }

  bool ReadGroup() {
    const auto name = reader_.String();
    if (!name || stream_.FindGroup(*name) != nullptr) return false;
    StreamGroup* const group = stream_.AddGroup(*name);
    const auto last_id = ReadId();
    if (!last_id) return false;
    group->last_id = *last_id;
    if (version_ >= 2) {
      const auto reads = reader_.Length();
      if (!reads || static_cast<int64_t>(*reads) < StreamGroup::kUnknownReads) return false;
      group->entries_read = static_cast<int64_t>(*reads);
    } else {
      group->entries_read = stream_.CountUpTo(*last_id);
    }
    std::vector<Delivered> delivered;
    return ForEach([&] { return ReadDelivered(&delivered); }) &&
           ForEach([&] { return ReadConsumer(delivered, group); }) &&
           (version_ < 5 || ForEach([&] { return ReadReturned(delivered, group); })) &&
           group->pending().size() == delivered.size();  // each is somebody's
  }

  bool ReadDelivered(std::vector<Delivered>* delivered) {
    const auto id = ReadBytesOfId();
    const auto ms = id ? ReadTime() : std::nullopt;
    const auto deliveries = ms ? reader_.Length() : std::nullopt;
    if (!deliveries || (!delivered->empty() && *id <= delivered->back().id)) return false;
    delivered->push_back({*id, *ms, *deliveries});
    return true;
  }

  bool ReadConsumer(const std::vector<Delivered>& delivered, StreamGroup* group) {
    const auto name = reader_.String();
    if (!name || group->FindConsumer(*name) != nullptr) return false;
    StreamConsumer* const consumer = group->AddConsumer(*name, 0);
    const auto seen_ms = ReadTime();
    const auto active_ms = seen_ms && version_ >= 3 ? ReadTime(-1) : seen_ms;
    if (!active_ms) return false;
    consumer->seen_ms = *seen_ms;
    consumer->active_ms = *active_ms;
    bool has_places = *seen_ms == kNeverSeen;
    std::vector<StreamGroup::Delivery> all;
    const auto read = [&] {
      const std::optional<StreamId> id = ReadOwned(delivered, group, consumer);
      if (!id) return false;
      if (!has_places) return true;
      all.push_back({group->FindPending(*id)->delivered_ms, *id});
      has_places = all.back().ms < kPlaceMax;
      return true;
    };
    if (!ForEach(read)) return false;
    if (!has_places || all.empty()) return true;
    std::sort(all.begin(), all.end());
    for (const StreamGroup::Delivery& one : all) group->Return(one.id);
    group->RemoveConsumer(consumer);
    return true;
  }

  // Of an id that is pending: what was delivered. Null if there is no such one.
  static const Delivered* Find(const std::vector<Delivered>& delivered, StreamId id) {
    const auto found =
        std::lower_bound(delivered.begin(), delivered.end(), id,
                         [](const Delivered& one, StreamId wanted) { return one.id < wanted; });
    return found == delivered.end() || found->id != id ? nullptr : &*found;
  }

  // An id that was not read before. None if there is no such one.
  std::optional<StreamId> ReadOwned(const std::vector<Delivered>& delivered, StreamGroup* group,
                                    StreamConsumer* consumer) {
    const auto id = ReadBytesOfId();
    if (!id || group->FindPending(*id) != nullptr) return std::nullopt;
    const Delivered* const found = Find(delivered, *id);
    if (found == nullptr) return std::nullopt;
    StreamPending& pending = group->Assign(*id, consumer);
    group->SetDelivered(*id, &pending, found->ms);
    pending.deliveries = found->deliveries;
    return id;
  }

  bool ReadReturned(const std::vector<Delivered>& delivered, StreamGroup* group) {
    const auto id = ReadBytesOfId();
    if (!id || group->FindPending(*id) != nullptr) return false;
    const Delivered* const found = Find(delivered, *id);
    if (found == nullptr) return false;
    group->Return(*id).deliveries = found->deliveries;
    return true;
  }

  const int version_;
  RdbReader& reader_;
  StreamValue& stream_;
  StreamId largest_id_;
};

}  // namespace

void WriteRdbProducers(const StreamProducers& producers, RdbWriter* writer) {
  writer->Length(producers.duration_s);
  writer->Length(producers.messages_max);
  writer->Length(producers.producers());
  producers.ForEach(
      [writer](std::string_view name, size_t messages) {
        writer->String(name);
        writer->Length(messages);
      },
      [writer](std::string_view message, StreamId id) {
        writer->String(message);
        WriteId(id, writer);
      });
  writer->Length(producers.added);
  writer->Length(producers.duplicates);
}

bool ReadRdbProducers(RdbReader* reader, StreamValue* stream) {
  return StreamReader(RdbType::kStreamListpacks4, reader, stream).ReadProducers();
}

void WriteRdbStream(const StreamValue& stream, RdbType type, RdbWriter* writer) {
  writer->Length(stream.entries().nodes());
  stream.entries().ForEachNode(
      [writer](const StreamEntries::NodeView& node) { WriteNode(node, writer); });
  const StreamValue::Counters& counters = stream.counters();
  writer->Length(stream.size());
  WriteId(counters.last_id, writer);
  WriteId(counters.first_id, writer);
  WriteId(counters.max_deleted_id, writer);
  writer->Length(counters.entries_added);
  writer->Length(stream.groups().size());
  const int version = StreamVersionOf(type);
  for (const auto& [name, group] : stream.groups()) WriteGroup(*group, version >= 3, writer);
  if (version >= 4) WriteRdbProducers(*stream.producers(), writer);
}

bool ReadRdbStream(RdbType type, RdbReader* reader, StreamValue* stream) {
  return StreamReader(type, reader, stream).Read();
}

}  // namespace dfly
