// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_stream.h"

#include <algorithm>
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

void WriteGroup(const StreamGroup& group, RdbWriter* writer) {
  writer->String(group.name);
  WriteId(group.last_id, writer);
  writer->Length(static_cast<uint64_t>(group.entries_read));
  writer->Length(group.pending().size());
  for (const auto& [id, pending] : group.pending()) {
    WriteBytesOf(id, writer);
    writer->Little(static_cast<uint64_t>(pending.delivered_ms), kTimeBytes);
    writer->Length(pending.deliveries);
  }
  writer->Length(group.consumers().size());
  for (const auto& [name, consumer] : group.consumers()) {
    writer->String(name);
    writer->Little(static_cast<uint64_t>(consumer->seen_ms), kTimeBytes);
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
    return ForEach([&] { return ReadOwned(delivered, group, consumer) != nullptr; });
  }

  // An id that is nobody's yet. Null if there is no such one.
  StreamPending* ReadOwned(const std::vector<Delivered>& delivered, StreamGroup* group,
                           StreamConsumer* consumer) {
    const auto id = ReadBytesOfId();
    if (!id || group->FindPending(*id) != nullptr) return nullptr;
    const auto found =
        std::lower_bound(delivered.begin(), delivered.end(), *id,
                         [](const Delivered& one, StreamId wanted) { return one.id < wanted; });
    if (found == delivered.end() || found->id != *id) return nullptr;
    StreamPending& pending = group->Assign(*id, consumer);
    pending.delivered_ms = found->ms;
    pending.deliveries = found->deliveries;
    return &pending;
  }

  bool ReadReturned(const std::vector<Delivered>& delivered, StreamGroup* group) {
    StreamConsumer* nobody = group->FindConsumer("");
    if (nobody == nullptr) nobody = group->AddConsumer("", 0);
    const StreamPending* const pending = ReadOwned(delivered, group, nobody);
    if (pending == nullptr) return false;
    nobody->seen_ms = std::max(nobody->seen_ms, pending->delivered_ms);
    return true;
  }

  bool SkipLengths(int count) {
    for (; count > 0; --count) {
      if (!reader_.Length()) return false;
    }
    return true;
  }
  bool ReadProducers() {
    const auto message = [this] { return reader_.SkipString() && SkipLengths(2); };
    const auto producer = [&] { return reader_.SkipString() && ForEach(message); };
    return SkipLengths(2) && ForEach(producer) && SkipLengths(2);
  }

  const int version_;
  RdbReader& reader_;
  StreamValue& stream_;
  StreamId largest_id_;
};

}  // namespace

void WriteRdbStream(const StreamValue& stream, RdbWriter* writer) {
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
  for (const auto& [name, group] : stream.groups()) WriteGroup(*group, writer);
}

bool ReadRdbStream(RdbType type, RdbReader* reader, StreamValue* stream) {
  return StreamReader(type, reader, stream).Read();
}

}  // namespace dfly
