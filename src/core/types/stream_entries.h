// SPDX-License-Identifier: Apache-2.0
// The entries of a stream, in the order of their ids, packed in nodes.
//
// A node is one block. It begins with the names of the fields of its first entry; an entry with the
// same ones has only the values:
//
//   Node header | count, names | entry entry entry ... | room, in the last node only
//
//   entry   flags (1 byte)
//           milliseconds since the entry before     only with kHasMs
//           number within them                      only with kHasSeq: see ReadId
//           count of fields                         without kSameFields
//           [name] value [name] value ...           the names without kSameFields
//
// Counts and differences have 7 bits in each byte, the lowest ones first. Names and values are
// packed entries (core/text/packed_entry.h) without the size at their end, since a node is read
// forwards only; for the other direction its entries are found first, and then taken from the back.
// An entry that is erased gets a flag; a node goes when all of its entries have gone.
//
// What `XTRIM ~` removes and XINFO counts is nodes, so they are filled by Redis' rule. That goes by
// the bytes of Redis' own form (a listpack), which each node therefore keeps account of.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/memory/block_mover.h"
#include "core/table/value_limits.h"
#include "core/text/packed_entry.h"
#include "core/types/stream_id.h"

namespace dfly {

// An entry, in place: dies with the next change of the stream.
class StreamEntry {
 public:
  StreamId id;
  size_t fields = 0;
  size_t bytes = 0;  // that it takes, but for names that it shares

  // Whether its names are those in front of its node.
  bool shares_names() const { return names_ != nullptr; }
  // function(PackedElement name, PackedElement value)
  template <typename Function>
  void ForEachField(Function function) const {
    const char* name = names_;
    const char* at = values_;
    for (size_t i = 0; i < fields; ++i) {
      if (names_ == nullptr) {
        name = at;
        at += PackedContentBytes(at);
      }
      function(PackedElement(name), PackedElement(at));
      at += PackedContentBytes(at);
      if (names_ != nullptr) name += PackedContentBytes(name);
    }
  }

 private:
  friend class StreamEntries;
  const char* names_ = nullptr;  // null: they stand before their values
  const char* values_ = nullptr;
};

// Owner:    one value of a shard.
// Suspends: never.
// Cost:     an entry whose id follows closely takes 1 to 4 bytes besides its values, which take a
//           byte each besides their text. Append O(1); Find O(log n).
class StreamEntries {
 public:
  // An entry's texts together are not longer than this, nor is a node.
  static constexpr size_t kNodeBytesMax = size_t{1} << 30;

  explicit StreamEntries(size_t* bytes) : bytes_(*bytes) {}  // counts there what it allocates
  ~StreamEntries() { Clear(); }
  StreamEntries(const StreamEntries&) = delete;
  StreamEntries& operator=(const StreamEntries&) = delete;
  void CopyFrom(const StreamEntries& other);  // REQUIRES: this is empty
  // A step of ObjectType::move: some nodes.
  void Move(BlockMover& mover, uint64_t* cursor);
  void Clear();
  // Clear() in steps: frees the nodes of about `budget` entries; true when nothing is left. Between
  // the first step and the last nothing else may be called.
  bool FreeSome(size_t budget);

  uint64_t size() const { return size_; }
  size_t nodes() const { return nodes_count_; }
  // How many nodes Redis' radix tree of these nodes has.
  size_t RadixNodes() const;

  // REQUIRES: `id` is larger than all that were ever here; `pairs` are names and values, not empty,
  // of at most kNodeBytesMax bytes.
  void Append(StreamId id, std::span<const std::string_view> pairs, const StreamLimit& limit);
  // False: there is no such entry.
  bool Erase(StreamId id);

  bool Has(StreamId id) const;
  std::optional<StreamId> First() const;
  std::optional<StreamId> Last() const;

  // function(const StreamEntry&) -> bool: go on? For those from `first` to `last`, both included.
  template <typename Function>
  void ForEach(StreamId first, StreamId last, Function function) const;
  // Whether there are about so many entries, or bytes of entries, from `first` to `last`. Looks at
  // nodes only.
  bool HasMany(StreamId first, StreamId last, uint64_t entries, size_t bytes) const;
  // The same as ForEach, from `last` to `first`.
  template <typename Function>
  void ForEachBackwards(StreamId first, StreamId last, Function function) const;

  struct Trim {
    std::optional<uint64_t> size_max = {};  // until there are no more than these,
    StreamId id_min = {};                   // or else until none is smaller
    bool is_approximate = false;            // whole nodes only
    uint64_t erased_max = 0;                // of whole nodes; 0: no limit
  };
  // Erases from the front. Returns how many; their ids go to the end of `gone`, if there is one.
  uint64_t TrimFront(const Trim& trim, std::vector<StreamId>* gone = nullptr);
  // The same, but entries that `keeps` wants stay, and those behind them may go instead. The ids of
  // the others go to `gone`. Returns whether none has stayed in front of one that has gone.
  bool TrimBut(const Trim& trim, absl::FunctionRef<bool(StreamId)> keeps,
               std::vector<StreamId>* gone);

  // A node, for who writes all of them.
  class NodeView;
  // function(const NodeView&)
  template <typename Function>
  void ForEachNode(Function function) const;
  // Makes a node again, whatever its size: its names, and then its entries, of which the first one
  // has `id`. REQUIRES: as Append, and an entry that is not erased before anything else is called.
  void BeginNode(StreamId id, std::span<const std::string_view> names);
  // `texts`: the values if the names are those of the node, or else names and values.
  void AppendToNode(StreamId id, std::span<const std::string_view> texts, bool shares_names,
                    bool is_erased);

  // Of the block of the node at `index`: for tests.
  size_t NodeListpackBytes(size_t index) const;
  void CheckInvariants() const;

 private:
  enum Flags : uint8_t { kErased = 1, kSameFields = 2, kHasMs = 4, kHasSeq = 8 };

  struct Node {
    StreamId first;  // of the first entry that was ever in it
    StreamId last;   // of the last one
    uint32_t live;
    uint32_t erased;
    uint32_t end;             // bytes, this header included
    uint32_t listpack_bytes;  // of Redis' form, but for the two counts in front

    uint32_t entries() const { return live + erased; }
    char* bytes() { return reinterpret_cast<char*>(this + 1); }
    const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
    const char* limit() const { return reinterpret_cast<const char*>(this) + end; }
  };

  // The names that stand in front of a node.
  struct Names {
    explicit Names(const Node& node);
    const char* at;
    size_t count;
    const char* end;  // the first entry
  };
  // One entry after another, erased ones too.
  class Walk {
   public:
    explicit Walk(const Node& node);
    bool done() const { return at_ == limit_; }
    void Next() {
      at_ = next_;
      if (!done()) Read();
    }
    const StreamEntry& entry() const { return entry_; }
    bool is_erased() const { return (*at_ & kErased) != 0; }
    const char* at() const { return at_; }

   private:
    void Read();

    Names names_;
    const char* at_;
    const char* limit_;
    const char* next_ = nullptr;
    StreamEntry entry_;
  };

  Node* at(size_t index) const { return ring_[(head_ + index) & (capacity_ - 1)]; }
  Node*& slot(size_t index) { return ring_[(head_ + index) & (capacity_ - 1)]; }
  // The last node that begins at or before `id`, or 0.
  size_t IndexOf(StreamId id) const;
  bool FitsIn(const Node& node, size_t text_bytes, const StreamLimit& limit) const;
  // Each `step`-th of `texts` is a name. There is room for all of them and the head of an entry.
  void NewNode(StreamId id, std::span<const std::string_view> texts, size_t step);
  // Which of the texts of an entry are written, and what that means.
  struct Shape {
    size_t first;
    size_t step;
    size_t fields;
    bool shares_names;
  };
  void AppendToLast(StreamId id, std::span<const std::string_view> texts, const Shape& shape);
  // Of the last node, to at least `end` bytes.
  Node* Grow(size_t end);
  void ShrinkLast();
  void PushNode(Node* node);
  void RemoveNode(size_t index);
  void MarkErased(Node* node, const char* at);

  size_t& bytes_;
  uint64_t size_ = 0;
  // Nodes in the order of their ids: a ring, whose size is a power of two.
  Node** ring_ = nullptr;
  size_t capacity_ = 0;
  size_t head_ = 0;
  size_t nodes_count_ = 0;
};

class StreamEntries::NodeView {
 public:
  explicit NodeView(const Node& node) : node_(node) {}
  StreamId first() const { return node_.first; }
  uint32_t live() const { return node_.live; }
  uint32_t erased() const { return node_.erased; }
  size_t names() const { return Names(node_).count; }
  // function(PackedElement)
  template <typename Function>
  void ForEachName(Function function) const {
    const Names names(node_);
    for (const char* name = names.at; name != names.end; name += PackedContentBytes(name)) {
      function(PackedElement(name));
    }
  }
  // function(const StreamEntry&, bool is_erased)
  template <typename Function>
  void ForEachEntry(Function function) const {
    for (Walk walk(node_); !walk.done(); walk.Next()) function(walk.entry(), walk.is_erased());
  }

 private:
  const Node& node_;
};

template <typename Function>
void StreamEntries::ForEachNode(Function function) const {
  for (size_t i = 0; i < nodes_count_; ++i) function(NodeView(*at(i)));
}

template <typename Function>
void StreamEntries::ForEach(StreamId first, StreamId last, Function function) const {
  for (size_t i = IndexOf(first); i < nodes_count_; ++i) {
    const Node& node = *at(i);
    if (node.first > last) return;
    if (node.last < first) continue;
    for (Walk walk(node); !walk.done(); walk.Next()) {
      const StreamEntry& entry = walk.entry();
      if (entry.id > last) return;
      if (walk.is_erased() || entry.id < first) continue;
      if (!function(entry)) return;
    }
  }
}

template <typename Function>
void StreamEntries::ForEachBackwards(StreamId first, StreamId last, Function function) const {
  std::vector<StreamEntry> found;
  for (size_t i = IndexOf(last) + 1; i-- > 0;) {
    if (i >= nodes_count_) continue;  // there are none
    const Node& node = *at(i);
    if (node.last < first) return;
    found.clear();
    found.reserve(node.live);
    for (Walk walk(node); !walk.done(); walk.Next()) {
      if (walk.entry().id > last) break;
      if (!walk.is_erased() && walk.entry().id >= first) found.push_back(walk.entry());
    }
    for (size_t j = found.size(); j-- > 0;) {
      if (!function(found[j])) return;
    }
  }
}

}  // namespace dfly
