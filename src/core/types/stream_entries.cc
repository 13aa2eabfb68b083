// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_entries.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/memory/allocator.h"
#include "core/text/numbers.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr size_t kCountBytesMax = 10;  // of WriteCount
constexpr size_t kHeadBytesMax = 6;    // of a packed entry, besides its text

char* WriteCount(uint64_t count, char* at) {
  for (; count >= 128; count >>= 7) *at++ = static_cast<char>(count | 128);
  *at++ = static_cast<char>(count);
  return at;
}

const char* ReadCount(const char* at, uint64_t* count) {
  *count = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(*at++);
    *count |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return at;
  }
}

// --- What Redis' form of a node takes: a listpack, whose elements have their size behind them ---

constexpr size_t kListpackFrame = 7;  // header and end

size_t ListpackBytes(int64_t number) {
  if (number >= 0 && number < 128) return 2;
  if (number >= -4096 && number < 4096) return 3;
  if (number >= INT16_MIN && number <= INT16_MAX) return 4;
  if (number >= -(1 << 23) && number < 1 << 23) return 5;
  if (number >= INT32_MIN && number <= INT32_MAX) return 6;
  return 10;
}

size_t ListpackTextBytes(size_t size) {
  const size_t content = size + (size < 64 ? 1 : size < 4096 ? 2 : 5);
  if (content < 128) return content + 1;
  if (content < 16383) return content + 2;
  if (content < 2097151) return content + 3;
  return content + (content < 268435455 ? 4 : 5);
}

// Writes `text` and adds what the listpack takes for it.
char* WriteText(std::string_view text, char* at, size_t* listpack) {
  const std::optional<int64_t> number = ParseInt64(text);
  *listpack += number ? ListpackBytes(*number) : ListpackTextBytes(text.size());
  const PackedText packed = number ? PackedText(*number) : PackedText::OfBytes(text);
  packed.WriteContent(at);
  return at + packed.content_bytes();
}

// So that differences of ids order as these.
struct IdBytes {
  explicit IdBytes(StreamId id) {
    for (size_t i = 0; i < 8; ++i) {
      bytes[i] = static_cast<uint8_t>(id.ms >> (56 - 8 * i));
      bytes[8 + i] = static_cast<uint8_t>(id.seq >> (56 - 8 * i));
    }
  }
  uint8_t bytes[16];
};

int CommonBytes(StreamId a, StreamId b) {
  const IdBytes left(a), right(b);
  int count = 0;
  while (count < 16 && left.bytes[count] == right.bytes[count]) ++count;
  return count;
}

}  // namespace

// --- Reading ---

StreamEntries::Names::Names(const Node& node) {
  uint64_t names = 0;
  at = ReadCount(node.bytes(), &names);
  count = names;
  end = at;
  for (size_t i = 0; i < count; ++i) end += PackedContentBytes(end);
}

StreamEntries::Walk::Walk(const Node& node) : names_(node), at_(names_.end), limit_(node.limit()) {
  entry_.id = {node.first.ms, node.first.seq - 1};
  if (!done()) Read();
}

void StreamEntries::Walk::Read() {
  const char* at = at_;
  const auto flags = static_cast<uint8_t>(*at++);
  uint64_t ms = 0, seq = 0, fields = 0;
  if ((flags & kHasMs) != 0) at = ReadCount(at, &ms);
  if ((flags & kHasSeq) != 0) at = ReadCount(at, &seq);
  // Within one millisecond the numbers follow one another; a new one begins with 0.
  entry_.id =
      ms != 0 ? StreamId{entry_.id.ms + ms, seq} : StreamId{entry_.id.ms, entry_.id.seq + 1 + seq};
  const bool has_names = (flags & kSameFields) == 0;
  if (has_names) {
    at = ReadCount(at, &fields);
    entry_.fields = fields;
    entry_.names_ = nullptr;
  } else {
    entry_.fields = names_.count;
    entry_.names_ = names_.at;
  }
  entry_.values_ = at;
  for (size_t i = entry_.fields << has_names; i > 0; --i) at += PackedContentBytes(at);
  next_ = at;
  entry_.bytes = static_cast<size_t>(at - at_);
}

bool StreamEntries::HasMany(StreamId first, StreamId last, uint64_t entries, size_t bytes) const {
  uint64_t entries_found = 0;
  size_t bytes_found = 0;
  for (size_t i = IndexOf(first); i < nodes_count_; ++i) {
    const Node& node = *at(i);
    if (node.first > last) break;
    if (node.last < first) continue;
    entries_found += node.live;
    bytes_found += node.end;
    if (entries_found >= entries || bytes_found >= bytes) return true;
  }
  return false;
}

size_t StreamEntries::IndexOf(StreamId id) const {
  // Nearly all look for the last ones, or the first ones.
  if (nodes_count_ == 0 || id < at(0)->first) return 0;
  if (id >= at(nodes_count_ - 1)->first) return nodes_count_ - 1;
  size_t low = 0, high = nodes_count_ - 1;  // at(low)->first <= id < at(high)->first
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (at(middle)->first <= id ? low : high) = middle;
  }
  return low;
}

bool StreamEntries::Has(StreamId id) const {
  bool found = false;
  ForEach(id, id, [&](const StreamEntry&) {
    found = true;
    return false;
  });
  return found;
}

std::optional<StreamId> StreamEntries::First() const {
  std::optional<StreamId> id;
  ForEach(StreamId::Min(), StreamId::Max(), [&](const StreamEntry& entry) {
    id = entry.id;
    return false;
  });
  return id;
}

std::optional<StreamId> StreamEntries::Last() const {
  // Nearly always it has not been erased.
  if (nodes_count_ > 0 && at(nodes_count_ - 1)->erased == 0) return at(nodes_count_ - 1)->last;
  std::optional<StreamId> id;
  ForEachBackwards(StreamId::Min(), StreamId::Max(), [&](const StreamEntry& entry) {
    id = entry.id;
    return false;
  });
  return id;
}

// Such a tree has a node for each key, one for each branch, and one for each run of bytes between
// two of these. Where branches are follows from how many bytes neighbours have in common.
size_t StreamEntries::RadixNodes() const {
  if (nodes_count_ == 0) return 1;
  constexpr int kNone = -1;
  size_t count = nodes_count_;
  std::vector<int> open;  // depths of branches
  const auto add_run = [&count](int from, int to) { count += to - from - 1 > 0; };
  int before = kNone;
  for (size_t i = 0; i < nodes_count_; ++i) {
    const int after = i + 1 < nodes_count_ ? CommonBytes(at(i)->first, at(i + 1)->first) : kNone;
    add_run(std::max(before, after), 16);
    while (!open.empty() && open.back() > after) {
      const int depth = open.back();
      open.pop_back();
      ++count;
      add_run(std::max(open.empty() ? kNone : open.back(), after), depth);
    }
    if (after != kNone && (open.empty() || open.back() < after)) open.push_back(after);
    before = after;
  }
  return count;
}

// --- Appending ---

bool StreamEntries::FitsIn(const Node& node, size_t text_bytes, const StreamLimit& limit) const {
  const uint64_t most =
      limit.node_bytes == 0 ? kNodeBytesMax : std::min<uint64_t>(limit.node_bytes, kNodeBytesMax);
  const size_t counts = ListpackBytes(node.live) + ListpackBytes(node.erased);
  if (node.listpack_bytes + counts + text_bytes >= most) return false;
  return limit.node_entries == 0 || node.entries() < limit.node_entries;
}

void StreamEntries::Append(StreamId id, std::span<const std::string_view> pairs,
                           const StreamLimit& limit) {
  size_t text_bytes = 0;
  for (std::string_view text : pairs) text_bytes += text.size();
  const size_t fields = pairs.size() / 2;
  bool has_same = true;
  if (nodes_count_ == 0 || !FitsIn(*at(nodes_count_ - 1), text_bytes, limit)) {
    NewNode(id, pairs, 2);
  } else {
    const Names names(*at(nodes_count_ - 1));
    has_same = names.count == fields;
    const char* name = names.at;
    for (size_t i = 0; i < fields && has_same; ++i) {
      char scratch[PackedElement::kScratchSize];
      has_same = PackedElement(name).View(scratch) == pairs[2 * i];
      name += PackedContentBytes(name);
    }
  }
  AppendToLast(id, pairs,
               {.first = has_same,
                .step = size_t{1} + has_same,
                .fields = fields,
                .shares_names = has_same});
}

void StreamEntries::AppendToLast(StreamId id, std::span<const std::string_view> texts,
                                 const Shape& shape) {
  size_t room = 1 + 3 * kCountBytesMax;
  for (size_t i = shape.first; i < texts.size(); i += shape.step) {
    room += texts[i].size() + kHeadBytesMax;
  }
  Node* const node = Grow(at(nodes_count_ - 1)->end + room);
  DCHECK(id > node->last || node->entries() == 0);
  char* const start = reinterpret_cast<char*>(node) + node->end;
  char* out = start + 1;
  const uint64_t ms = id.ms - node->last.ms;
  const uint64_t seq = ms != 0 ? id.seq : id.seq - node->last.seq - 1;
  if (ms != 0) out = WriteCount(ms, out);
  if (seq != 0) out = WriteCount(seq, out);
  *start = static_cast<char>((shape.shares_names ? kSameFields : 0) | (ms != 0 ? kHasMs : 0) |
                             (seq != 0 ? kHasSeq : 0));
  // Flags, differences from the node's first id, the number of elements.
  size_t listpack = 2 + ListpackBytes(static_cast<int64_t>(id.ms - node->first.ms)) +
                    ListpackBytes(static_cast<int64_t>(id.seq - node->first.seq));
  const size_t elements = shape.shares_names ? shape.fields + 3 : 2 * shape.fields + 4;
  listpack += ListpackBytes(static_cast<int64_t>(elements));
  if (!shape.shares_names) {
    out = WriteCount(shape.fields, out);
    listpack += ListpackBytes(static_cast<int64_t>(shape.fields));
  }
  for (size_t i = shape.first; i < texts.size(); i += shape.step) {
    out = WriteText(texts[i], out, &listpack);
  }
  node->last = id;
  node->end += static_cast<uint32_t>(out - start);
  node->listpack_bytes += static_cast<uint32_t>(listpack);
  ++node->live;
  ++size_;
}

void StreamEntries::BeginNode(StreamId id, std::span<const std::string_view> names) {
  NewNode(id, names, 1);
}

void StreamEntries::AppendToNode(StreamId id, std::span<const std::string_view> texts,
                                 bool shares_names, bool is_erased) {
  const size_t fields = shares_names ? texts.size() : texts.size() / 2;
  const size_t begin = at(nodes_count_ - 1)->end;
  AppendToLast(id, texts, {.first = 0, .step = 1, .fields = fields, .shares_names = shares_names});
  Node* const node = at(nodes_count_ - 1);
  if (is_erased) MarkErased(node, reinterpret_cast<const char*>(node) + begin);
}

void StreamEntries::NewNode(StreamId id, std::span<const std::string_view> texts, size_t step) {
  ShrinkLast();
  size_t room = sizeof(Node) + 1 + 4 * kCountBytesMax;
  for (std::string_view text : texts) room += text.size() + kHeadBytesMax;
  Node* const node = static_cast<Node*>(Alloc(room));
  // The first entry follows one that never was.
  *node = {.first = id,
           .last = {id.ms, id.seq - 1},
           .live = 0,
           .erased = 0,
           .end = 0,
           .listpack_bytes = 0};
  const size_t names = texts.size() / step;
  size_t listpack = kListpackFrame + ListpackBytes(static_cast<int64_t>(names)) + ListpackBytes(0);
  char* out = WriteCount(names, node->bytes());
  for (size_t i = 0; i < texts.size(); i += step) out = WriteText(texts[i], out, &listpack);
  node->end = static_cast<uint32_t>(out - reinterpret_cast<char*>(node));
  node->listpack_bytes = static_cast<uint32_t>(listpack);
  bytes_ += UsableSize(node);
  PushNode(node);
}

auto StreamEntries::Grow(size_t end) -> Node* {
  Node*& node = slot(nodes_count_ - 1);
  const size_t usable = UsableSize(node);
  if (end <= usable) return node;
  void* const larger = Alloc(std::max(end, usable + usable / 2));
  std::memcpy(larger, node, node->end);
  bytes_ += UsableSize(larger) - usable;
  Free(node);
  node = static_cast<Node*>(larger);
  return node;
}

void StreamEntries::ShrinkLast() {
  if (nodes_count_ == 0) return;
  Node*& node = slot(nodes_count_ - 1);
  void* const smaller = Alloc(node->end);
  if (UsableSize(smaller) >= UsableSize(node)) return Free(smaller);
  std::memcpy(smaller, node, node->end);
  bytes_ -= UsableSize(node) - UsableSize(smaller);
  Free(node);
  node = static_cast<Node*>(smaller);
}

void StreamEntries::PushNode(Node* node) {
  if (nodes_count_ == capacity_) {
    const size_t capacity = std::max<size_t>(1, capacity_ * 2);
    auto** const ring = static_cast<Node**>(Alloc(capacity * sizeof(Node*)));
    for (size_t i = 0; i < nodes_count_; ++i) ring[i] = at(i);
    bytes_ += UsableSize(ring) - UsableSize(ring_);
    Free(ring_);
    ring_ = ring;
    capacity_ = capacity;
    head_ = 0;
  }
  ++nodes_count_;
  slot(nodes_count_ - 1) = node;
}

// --- Erasing ---

void StreamEntries::RemoveNode(size_t index) {
  Node* const node = at(index);
  bytes_ -= UsableSize(node);
  Free(node);
  if (index < nodes_count_ / 2) {
    for (size_t i = index; i > 0; --i) slot(i) = at(i - 1);
    head_ = (head_ + 1) & (capacity_ - 1);
  } else {
    for (size_t i = index; i + 1 < nodes_count_; ++i) slot(i) = at(i + 1);
  }
  --nodes_count_;
}

void StreamEntries::MarkErased(Node* node, const char* at) {
  *const_cast<char*>(at) = static_cast<char>(static_cast<uint8_t>(*at) | kErased);
  --node->live;
  ++node->erased;
  --size_;
}

bool StreamEntries::Erase(StreamId id) {
  if (nodes_count_ == 0) return false;
  const size_t index = IndexOf(id);
  Node* const node = at(index);
  if (id < node->first || id > node->last) return false;
  for (Walk walk(*node); !walk.done() && walk.entry().id <= id; walk.Next()) {
    if (walk.entry().id != id || walk.is_erased()) continue;
    MarkErased(node, walk.at());
    if (node->live == 0) RemoveNode(index);
    return true;
  }
  return false;
}

uint64_t StreamEntries::TrimFront(const Trim& trim, std::vector<StreamId>* gone) {
  uint64_t erased = 0;
  while (nodes_count_ > 0 && (!trim.size_max || size_ > *trim.size_max)) {
    Node* const node = at(0);
    if (trim.erased_max != 0 && erased + node->live > trim.erased_max) break;
    if (trim.size_max ? size_ - node->live >= *trim.size_max : node->last < trim.id_min) {
      erased += node->live;
      size_ -= node->live;
      for (Walk walk(*node); gone != nullptr && !walk.done(); walk.Next()) {
        if (!walk.is_erased()) gone->push_back(walk.entry().id);
      }
      RemoveNode(0);
      continue;
    }
    if (trim.is_approximate) break;
    for (Walk walk(*node); !walk.done(); walk.Next()) {
      if (trim.size_max ? size_ <= *trim.size_max : walk.entry().id >= trim.id_min) break;
      if (walk.is_erased()) continue;
      MarkErased(node, walk.at());
      if (gone != nullptr) gone->push_back(walk.entry().id);
      ++erased;
    }
    break;
  }
  return erased;
}

bool StreamEntries::TrimBut(const Trim& trim, absl::FunctionRef<bool(StreamId)> keeps,
                            std::vector<StreamId>* gone) {
  bool has_kept = false, is_front = true;
  const size_t before = gone->size();
  for (size_t index = 0; index < nodes_count_ && (!trim.size_max || size_ > *trim.size_max);) {
    Node* const node = at(index);
    if (trim.erased_max != 0 && gone->size() - before + node->live > trim.erased_max) break;
    if (!trim.size_max && node->first >= trim.id_min) break;
    const bool goes_whole =
        trim.size_max ? size_ - node->live >= *trim.size_max : node->last < trim.id_min;
    if (!goes_whole && trim.is_approximate) break;
    for (Walk walk(*node); !walk.done(); walk.Next()) {
      const StreamId id = walk.entry().id;
      if (trim.size_max ? size_ <= *trim.size_max : id >= trim.id_min) break;
      if (walk.is_erased()) continue;
      if (keeps(id)) {
        has_kept = true;
        continue;
      }
      is_front = is_front && !has_kept;
      MarkErased(node, walk.at());
      gone->push_back(id);
    }
    if (node->live == 0) {
      RemoveNode(index);
    } else {
      ++index;
    }
  }
  return is_front;
}

void StreamEntries::Clear() {
  while (!FreeSome(SIZE_MAX)) {
  }
}

bool StreamEntries::FreeSome(size_t budget) {
  for (size_t freed = 0; nodes_count_ > 0 && freed < budget; --nodes_count_) {
    Node* const node = at(nodes_count_ - 1);
    freed += node->entries();
    bytes_ -= UsableSize(node);
    Free(node);
  }
  if (nodes_count_ > 0) return false;
  bytes_ -= UsableSize(ring_);
  Free(ring_);
  ring_ = nullptr;
  capacity_ = head_ = size_ = 0;
  return true;
}

void StreamEntries::CopyFrom(const StreamEntries& other) {
  DCHECK_EQ(nodes_count_, 0u);
  for (size_t i = 0; i < other.nodes_count_; ++i) {
    const Node* const node = other.at(i);
    void* const copy = Alloc(node->end);
    std::memcpy(copy, node, node->end);
    bytes_ += UsableSize(copy);
    PushNode(static_cast<Node*>(copy));
  }
  size_ = other.size_;
}

void StreamEntries::Move(BlockMover& mover, uint64_t* cursor) {
  constexpr uint64_t kNodes = 64;
  if (*cursor == 0) ring_ = mover.Move(ring_);
  const uint64_t end = std::min<uint64_t>(*cursor + kNodes, nodes_count_);
  for (uint64_t i = *cursor; i < end; ++i) slot(i) = mover.Move(slot(i));
  *cursor = end < nodes_count_ ? end : 0;
}

size_t StreamEntries::NodeListpackBytes(size_t index) const {
  const Node& node = *at(index);
  return node.listpack_bytes + ListpackBytes(node.live) + ListpackBytes(node.erased);
}

void StreamEntries::CheckInvariants() const {
  CHECK(std::has_single_bit(capacity_) || capacity_ == 0);
  uint64_t live_in_all = 0;
  StreamId before;
  for (size_t i = 0; i < nodes_count_; ++i) {
    const Node& node = *at(i);
    CHECK_LE(node.end, UsableSize(&node));
    CHECK(i == 0 || before < node.first);
    uint32_t live = 0, erased = 0;
    for (Walk walk(node); !walk.done(); walk.Next()) {
      CHECK(live + erased > 0 ? before < walk.entry().id : walk.entry().id == node.first);
      before = walk.entry().id;
      ++(walk.is_erased() ? erased : live);
    }
    CHECK(before == node.last);
    CHECK_EQ(live, node.live);
    CHECK_EQ(erased, node.erased);
    live_in_all += live;
  }
  CHECK_EQ(live_in_all, size_);
}

}  // namespace dfly
