// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_doc.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "core/json/json_walk.h"
#include "core/table/compact_value.h"
#include "core/text/hash.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

// Blocks that one step of a move looks at, about.
constexpr uint64_t kMovedInStep = 256;
constexpr size_t kCopiedInStep = 4096;  // elements, and as many times 64 bytes of texts

constexpr double kPowersOf10[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
constexpr int64_t kDecimalMax = int64_t{1} << 47;
constexpr int64_t kIntegerMax = int64_t{1} << 55;

struct Frame {
  JsonNode* container;
  size_t next;
};
using Frames = absl::InlinedVector<Frame, 16>;

JsonNode* ElementOf(const JsonNode& container, size_t index) {
  return container.is_array() ? &container.items()[index] : &container.members()[index].value;
}

void Destroy(void* object, uint8_t) { delete static_cast<JsonDoc*>(object); }
size_t Bytes(const void* object, uint8_t) { return static_cast<const JsonDoc*>(object)->bytes(); }
bool IsEmpty(const void*, uint8_t) { return false; }
void* Clone(const void* object, uint8_t) {
  auto copy = std::make_unique<JsonDoc>();
  *copy->mutable_root() = copy->CopyOf(static_cast<const JsonDoc*>(object)->root());
  return copy.release();
}
// The copy itself knows where it has come to.
void* CloneSome(const void* object, uint8_t, void* copy, uint64_t* cursor) {
  auto* const to =
      copy == nullptr ? std::make_unique<JsonDoc>().release() : static_cast<JsonDoc*>(copy);
  *cursor = to->CopySome(*static_cast<const JsonDoc*>(object), kCopiedInStep) ? 0 : 1;
  return to;
}
std::string_view EncodingName(const void*, uint8_t) { return "raw"; }
bool FreeSomeOf(void* object, uint8_t, size_t budget) {
  return static_cast<JsonDoc*>(object)->FreeSome(budget);
}
void* MoveOf(void* object, uint8_t, BlockMover& mover, uint64_t* cursor) {
  return JsonDoc::Move(static_cast<JsonDoc*>(object), mover, cursor);
}

}  // namespace

std::string_view JsonTypeName(JsonType type) {
  static constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "number",
                                                "string", "array",   "object"};
  return kNames[static_cast<size_t>(type)];
}

// --- JsonNode ---

JsonType JsonNode::type() const {
  switch (tag()) {
    case kText:
      return JsonType::kString;
    case kDouble:
      return JsonType::kNumber;
    case kInt:
    case kUint:
      return JsonType::kInteger;
    case kArray:
    case kPacked:
      return JsonType::kArray;
    case kObject:
      return JsonType::kObject;
    case kInline:
      break;
  }
  switch (kind()) {
    case kNull:
      return JsonType::kNull;
    case kFalse:
    case kTrue:
      return JsonType::kBool;
    case kInteger:
      return JsonType::kInteger;
    case kDecimal:
      return JsonType::kNumber;
    case kNoItems:
      return JsonType::kArray;
    case kNoMembers:
      return JsonType::kObject;
    default:
      return kind() < kFp16 ? JsonType::kString : JsonType::kNumber;
  }
}

int64_t JsonNode::AsInt() const {
  return tag() == kInt ? InBlock<int64_t>() : static_cast<int64_t>(word_) >> 8;
}

uint64_t JsonNode::AsUint() const {
  return tag() == kUint ? InBlock<uint64_t>() : static_cast<uint64_t>(AsInt());
}

double JsonNode::AsDouble() const {
  switch (tag()) {
    case kDouble:
      return InBlock<double>();
    case kUint:
      return static_cast<double>(InBlock<uint64_t>());
    case kInline:
      if (kind() == kDecimal) {
        return static_cast<double>(static_cast<int64_t>(word_) >> 16) /
               kPowersOf10[word_ >> 8 & 255];
      }
      if (const auto type = float_type()) return DecodeFloat(*type, float_bits());
      [[fallthrough]];
    default:
      return static_cast<double>(AsInt());
  }
}

std::string_view JsonNode::AsText() const {
  DCHECK(is_string());
  if (tag() == kInline) {
    return {reinterpret_cast<const char*>(&word_) + 1, size_t{kind()} - kShortText};
  }
  return {static_cast<const char*>(block()) + sizeof(uint32_t), InBlock<uint32_t>()};
}

size_t JsonNode::size() const { return tag() >= kArray ? InBlock<uint32_t>() : 0; }

std::span<JsonNode> JsonNode::items() const {
  DCHECK(is_array() && !is_packed());
  if (tag() == kInline) return {};
  return {reinterpret_cast<JsonNode*>(static_cast<char*>(block()) + 8), InBlock<uint32_t>()};
}

std::span<JsonMember> JsonNode::members() const {
  DCHECK(is_object());
  if (tag() == kInline) return {};
  return {reinterpret_cast<JsonMember*>(static_cast<char*>(block()) + 8), InBlock<uint32_t>()};
}

// --- Blocks ---

void JsonDoc::RegisterType() {
  RegisterObjectType(ValueType::kJson, {.destroy = Destroy,
                                        .bytes = Bytes,
                                        .is_empty = IsEmpty,
                                        .clone = Clone,
                                        .clone_some = CloneSome,
                                        .encoding_name = EncodingName,
                                        .free_some = FreeSomeOf,
                                        .move = MoveOf});
}

void* JsonDoc::NewBlock(size_t bytes) {
  void* const block = Alloc(bytes);
  heap_bytes_ += UsableSize(block);
  return block;
}

void JsonDoc::FreeBlock(void* block) {
  heap_bytes_ -= UsableSize(block);
  Free(block);
}

JsonNode JsonDoc::MakeText(std::string_view text) {
  if (text.size() <= JsonNode::kInlineText) {
    uint64_t payload = 0;
    if (!text.empty()) std::memcpy(&payload, text.data(), text.size());
    return JsonNode::Inline(static_cast<JsonNode::Kind>(JsonNode::kShortText + text.size()),
                            payload);
  }
  void* const block = NewBlock(sizeof(uint32_t) + text.size());
  const auto size = static_cast<uint32_t>(text.size());
  std::memcpy(block, &size, sizeof(size));
  std::memcpy(static_cast<char*>(block) + sizeof(size), text.data(), text.size());
  return JsonNode::Block(JsonNode::kText, block);
}

JsonNode JsonDoc::MakeInt(int64_t number) {
  if (number >= -kIntegerMax && number < kIntegerMax) {
    return JsonNode::Inline(JsonNode::kInteger, static_cast<uint64_t>(number));
  }
  void* const block = NewBlock(sizeof(number));
  std::memcpy(block, &number, sizeof(number));
  return JsonNode::Block(JsonNode::kInt, block);
}

JsonNode JsonDoc::MakeUint(uint64_t number) {
  if (number <= INT64_MAX) return MakeInt(static_cast<int64_t>(number));
  void* const block = NewBlock(sizeof(number));
  std::memcpy(block, &number, sizeof(number));
  return JsonNode::Block(JsonNode::kUint, block);
}

JsonNode JsonDoc::MakeDouble(double number) {
  DCHECK(std::isfinite(number));
  if (std::abs(number) < static_cast<double>(kDecimalMax) &&
      !(number == 0 && std::signbit(number))) {
    for (size_t k = 0; k < std::size(kPowersOf10); ++k) {
      const double scaled = std::nearbyint(number * kPowersOf10[k]);
      if (std::abs(scaled) >= static_cast<double>(kDecimalMax)) break;
      if (scaled / kPowersOf10[k] != number) continue;
      const auto mantissa = static_cast<uint64_t>(static_cast<int64_t>(scaled));
      return JsonNode::Inline(JsonNode::kDecimal, mantissa << 8 | k);
    }
  }
  void* const block = NewBlock(sizeof(number));
  std::memcpy(block, &number, sizeof(number));
  return JsonNode::Block(JsonNode::kDouble, block);
}

JsonNode JsonDoc::MakeArray(size_t capacity) {
  JsonNode array = JsonNode::EmptyArray();
  if (capacity > 0) ResizeArray(&array, capacity);
  return array;
}

JsonNode JsonDoc::MakeObject(size_t capacity) {
  JsonNode object = JsonNode::EmptyObject();
  if (capacity > 0) ResizeObject(&object, capacity);
  return object;
}

JsonNode JsonDoc::TakeRoot(JsonDoc* other) {
  heap_bytes_ += std::exchange(other->heap_bytes_, 0);
  return std::exchange(other->root_, JsonNode());
}

JsonNode JsonDoc::ShallowCopyOf(const JsonNode& node) {
  if (node.is_packed()) return MakePacked(node.packed_type(), node.packed_bytes());
  if (node.is_array()) return MakeArray(node.size());
  if (node.is_object()) return MakeObject(node.size());
  if (node.block() == nullptr) return node;
  if (node.is_string()) return MakeText(node.AsText());
  JsonNode copy = node;
  void* const block = NewBlock(sizeof(uint64_t));
  std::memcpy(block, node.block(), sizeof(uint64_t));
  copy.word_ = reinterpret_cast<uint64_t>(block) | node.tag();
  return copy;
}

JsonNode JsonDoc::CopyOf(const JsonNode& node) {
  struct Copying {
    const JsonNode* from;
    JsonNode* to;
  };
  JsonNode result = ShallowCopyOf(node);
  std::vector<Copying> todo;
  if (node.branches() > 0) todo.push_back({&node, &result});
  while (!todo.empty()) {
    const Copying copying = todo.back();
    todo.pop_back();
    Header* const header = HeaderOf(*copying.to);
    const size_t size = copying.from->size();
    header->size = static_cast<uint32_t>(size);
    for (size_t i = 0; i < size; ++i) {
      const JsonNode* const from = ElementOf(*copying.from, i);
      JsonNode* const to = ElementOf(*copying.to, i);
      if (copying.from->is_object()) {
        copying.to->members()[i].name = ShallowCopyOf(copying.from->members()[i].name);
      }
      *to = ShallowCopyOf(*from);
      if (from->branches() > 0) todo.push_back({from, to});
    }
    if (copying.from->is_object()) BuildIndex(*copying.to);
  }
  return result;
}

void JsonDoc::Clear(JsonNode* node) {
  Frames frames;
  const auto free = [&](JsonNode* of) {
    if (of->branches() > 0) {
      frames.push_back({of, 0});
    } else {
      FreeScalar(*of);
    }
  };
  free(node);
  while (!frames.empty()) {
    Frame& frame = frames.back();
    const JsonNode container = *frame.container;
    if (frame.next == container.size()) {
      FreeScalar(container);
      frames.pop_back();
      continue;
    }
    const size_t index = frame.next++;
    if (container.is_object()) FreeScalar(container.members()[index].name);
    free(ElementOf(container, index));
  }
  *node = JsonNode();
}

// --- Arrays ---

void JsonDoc::ResizeArray(JsonNode* array, size_t capacity) {
  const size_t size = array->size();
  void* const block = NewBlock(sizeof(Header) + capacity * sizeof(JsonNode));
  auto* const header = static_cast<Header*>(block);
  header->size = static_cast<uint32_t>(size);
  header->capacity = static_cast<uint32_t>((UsableSize(block) - sizeof(Header)) / sizeof(JsonNode));
  if (size > 0) std::memcpy(header + 1, array->items().data(), size * sizeof(JsonNode));
  FreeScalar(*array);
  *array = JsonNode::Block(JsonNode::kArray, block);
}

void JsonDoc::InsertAll(JsonNode* array, size_t at, std::span<const JsonNode> values) {
  DCHECK(array->is_array());
  if (values.empty()) return;
  Unpack(array);
  const size_t size = array->size();
  DCHECK_LE(at, size);
  const size_t wanted = size + values.size();
  if (array->block() == nullptr || wanted > HeaderOf(*array)->capacity) {
    ResizeArray(array, std::max(wanted, size + size / 2));
  }
  HeaderOf(*array)->size = static_cast<uint32_t>(wanted);
  JsonNode* const items = array->items().data();
  std::memmove(items + at + values.size(), items + at, (size - at) * sizeof(JsonNode));
  std::copy(values.begin(), values.end(), items + at);
}

JsonNode JsonDoc::TakeItem(JsonNode* array, size_t at) {
  const JsonNode item =
      array->is_packed() ? CopyOf(array->item(at)) : std::exchange(array->items()[at], JsonNode());
  EraseItems(array, at, 1);
  return item;
}

void JsonDoc::EraseItems(JsonNode* array, size_t at, size_t count) {
  if (count == 0) return;
  if (array->is_packed()) {
    const size_t width = FloatBytes(array->packed_type());
    char* const numbers = const_cast<char*>(array->packed_bytes().data());
    const size_t size = array->size();
    std::memmove(numbers + at * width, numbers + (at + count) * width, (size - at - count) * width);
    return CutPacked(array, size - count);
  }
  const std::span<JsonNode> items = array->items();
  DCHECK_LE(at + count, items.size());
  for (JsonNode& item : items.subspan(at, count)) Clear(&item);
  std::memmove(items.data() + at, items.data() + at + count,
               (items.size() - at - count) * sizeof(JsonNode));
  HeaderOf(*array)->size -= static_cast<uint32_t>(count);
  ShrinkIfEmptier(array);
}

void JsonDoc::ShrinkIfEmptier(JsonNode* container) {
  const Header header = *HeaderOf(*container);
  if (header.size == 0) {
    FreeScalar(*container);
    *container = container->is_array() ? JsonNode::EmptyArray() : JsonNode::EmptyObject();
  } else if (header.capacity > 8 && header.size < header.capacity / 4) {
    container->is_array() ? ResizeArray(container, header.size)
                          : ResizeObject(container, header.size);
  }
}

// --- Objects ---

size_t JsonDoc::SlotsFor(size_t capacity) {
  return capacity < kIndexMin ? 0 : std::bit_ceil(capacity + capacity / 4);
}

size_t JsonDoc::ObjectBytes(size_t capacity) {
  return sizeof(Header) + capacity * sizeof(JsonMember) + SlotsFor(capacity) * sizeof(uint32_t);
}

std::span<uint32_t> JsonDoc::IndexOf(const JsonNode& object) {
  if (object.block() == nullptr) return {};
  const size_t capacity = HeaderOf(object)->capacity;
  char* const members = static_cast<char*>(object.block()) + sizeof(Header);
  return {reinterpret_cast<uint32_t*>(members + capacity * sizeof(JsonMember)), SlotsFor(capacity)};
}

uint32_t* JsonDoc::FindSlot(const JsonNode& object, std::string_view name) {
  const std::span<uint32_t> slots = IndexOf(object);
  const std::span<JsonMember> members = object.members();
  for (size_t at = HashKey(name);; ++at) {
    uint32_t& slot = slots[at & (slots.size() - 1)];
    if (slot == 0 || members[slot - 1].name.AsText() == name) return &slot;
  }
}

void JsonDoc::BuildIndex(const JsonNode& object) {
  const std::span<uint32_t> slots = IndexOf(object);
  if (slots.empty()) return;
  std::fill(slots.begin(), slots.end(), 0);
  const std::span<JsonMember> members = object.members();
  for (size_t i = 0; i < members.size(); ++i) {
    *FindSlot(object, members[i].name.AsText()) = static_cast<uint32_t>(i + 1);
  }
}

// What follows in the same run moves back where it may, so that no look-up meets a hole.
void JsonDoc::RemoveFromIndex(const JsonNode& object, size_t at) {
  const std::span<uint32_t> slots = IndexOf(object);
  if (slots.empty()) return;
  const size_t mask = slots.size() - 1;
  const std::span<JsonMember> members = object.members();
  auto hole = static_cast<size_t>(FindSlot(object, members[at].name.AsText()) - slots.data());
  for (size_t i = (hole + 1) & mask; slots[i] != 0; i = (i + 1) & mask) {
    const size_t home = HashKey(members[slots[i] - 1].name.AsText()) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;  // it would be in front of its home
    slots[hole] = slots[i];
    hole = i;
  }
  slots[hole] = 0;
  for (uint32_t& slot : slots) slot -= slot > at + 1 ? 1 : 0;
}

void JsonDoc::ResizeObject(JsonNode* object, size_t capacity) {
  const size_t size = object->size();
  void* const block = NewBlock(ObjectBytes(capacity));
  auto* const header = static_cast<Header*>(block);
  header->size = static_cast<uint32_t>(size);
  header->capacity = static_cast<uint32_t>(capacity);
  if (size > 0) std::memcpy(header + 1, object->members().data(), size * sizeof(JsonMember));
  FreeScalar(*object);
  *object = JsonNode::Block(JsonNode::kObject, block);
  BuildIndex(*object);
}

JsonMember* JsonDoc::FindMember(const JsonNode& object, std::string_view name) {
  const std::span<JsonMember> members = object.members();
  if (!IndexOf(object).empty()) {
    const uint32_t slot = *FindSlot(object, name);
    return slot == 0 ? nullptr : &members[slot - 1];
  }
  if (name.size() <= JsonNode::kInlineText) {
    const JsonNode wanted = JsonDoc().MakeText(name);
    for (JsonMember& member : members) {
      if (member.name.IsSameWord(wanted)) return &member;
    }
    return nullptr;
  }
  for (JsonMember& member : members) {
    if (member.name.AsText() == name) return &member;
  }
  return nullptr;
}

JsonNode* JsonDoc::Find(const JsonNode& object, std::string_view name) {
  JsonMember* const member = FindMember(object, name);
  return member == nullptr ? nullptr : &member->value;
}

JsonNode* JsonDoc::FindOrAdd(JsonNode* object, std::string_view name) {
  if (JsonNode* const found = Find(*object, name)) return found;
  const size_t size = object->size();
  if (object->block() == nullptr || size == HeaderOf(*object)->capacity) {
    ResizeObject(object, size + size / 2 + 1);
  }
  ++HeaderOf(*object)->size;
  JsonMember& member = object->members()[size];
  member = {MakeText(name), JsonNode()};
  if (!IndexOf(*object).empty()) *FindSlot(*object, name) = static_cast<uint32_t>(size + 1);
  return &member.value;
}

void JsonDoc::EraseMember(JsonNode* object, size_t at) {
  RemoveFromIndex(*object, at);
  const std::span<JsonMember> members = object->members();
  Clear(&members[at].name);
  Clear(&members[at].value);
  std::memmove(&members[at], &members[at] + 1, (members.size() - at - 1) * sizeof(JsonMember));
  --HeaderOf(*object)->size;
  ShrinkIfEmptier(object);
}

void JsonDoc::EraseAt(JsonNode* container, const std::vector<size_t>& positions) {
  if (positions.empty()) return;
  if (positions.size() == 1) {
    return container->is_array() ? EraseItems(container, positions[0], 1)
                                 : EraseMember(container, positions[0]);
  }
  const size_t size = container->size();
  size_t kept = 0, next = 0;
  if (container->is_packed()) {
    const size_t width = FloatBytes(container->packed_type());
    char* const numbers = const_cast<char*>(container->packed_bytes().data());
    for (size_t i = 0; i < size; ++i) {
      if (next < positions.size() && positions[next] == i) {
        ++next;
      } else {
        std::memmove(numbers + kept++ * width, numbers + i * width, width);
      }
    }
    return CutPacked(container, kept);
  }
  for (size_t i = 0; i < size; ++i) {
    const bool goes = next < positions.size() && positions[next] == i;
    next += goes;
    if (container->is_array()) {
      JsonNode& item = container->items()[i];
      if (goes) {
        Clear(&item);
      } else {
        container->items()[kept++] = item;
      }
    } else {
      JsonMember& member = container->members()[i];
      if (goes) {
        Clear(&member.name);
        Clear(&member.value);
      } else {
        container->members()[kept++] = member;
      }
    }
  }
  HeaderOf(*container)->size = static_cast<uint32_t>(kept);
  if (container->is_object()) BuildIndex(*container);
  ShrinkIfEmptier(container);
}

// --- Of a part ---

size_t JsonDoc::BytesOf(const JsonNode& node) {
  struct Sum {
    void Begin(const JsonNode& of) { Scalar(of); }
    void End(const JsonNode&) {}
    void Packed(const JsonNode& of) { Scalar(of); }
    void Scalar(const JsonNode& of) { bytes += UsableSize(of.block()); }
    void Element(const JsonNode& container, size_t index) {
      if (container.is_object()) Scalar(container.members()[index].name);
    }
    size_t bytes = 0;
  } sum;
  WalkJson(node, sum);
  return sum.bytes;
}

size_t JsonDoc::DepthOf(const JsonNode& node) {
  struct Depth {
    void Begin(const JsonNode&) { most = std::max(most, ++now); }
    void End(const JsonNode&) { --now; }
    void Packed(const JsonNode& of) {
      Begin(of);
      End(of);
    }
    void Scalar(const JsonNode&) {}
    void Element(const JsonNode&, size_t) {}
    size_t now = 0, most = 0;
  } depth;
  WalkJson(node, depth);
  return depth.most;
}

bool JsonDoc::IsEqual(const JsonNode& left, const JsonNode& right) {
  const auto are_same_numbers = [](const JsonNode& a, const JsonNode& b) {
    if (a.type() != JsonType::kInteger || b.type() != JsonType::kInteger) {
      return a.AsDouble() == b.AsDouble();
    }
    return a.is_uint() == b.is_uint() && a.AsUint() == b.AsUint();
  };
  std::vector<std::pair<const JsonNode*, const JsonNode*>> todo = {{&left, &right}};
  while (!todo.empty()) {
    const auto [a, b] = todo.back();
    todo.pop_back();
    if (a->IsSameWord(*b)) continue;
    if (a->is_number() && b->is_number()) {
      if (!are_same_numbers(*a, *b)) return false;
    } else if (a->is_string() && b->is_string()) {
      if (a->AsText() != b->AsText()) return false;
    } else if (a->is_array() && b->is_array()) {
      if (a->size() != b->size()) return false;
      if (a->is_packed() || b->is_packed()) {
        for (size_t i = 0; i < a->size(); ++i) {
          const JsonNode x = a->item(i), y = b->item(i);
          if (!x.is_number() || !y.is_number() || !are_same_numbers(x, y)) return false;
        }
        continue;
      }
      for (size_t i = 0; i < a->size(); ++i) todo.push_back({&a->items()[i], &b->items()[i]});
    } else if (a->is_object() && b->is_object()) {
      if (a->size() != b->size()) return false;
      for (const JsonMember& member : a->members()) {
        const JsonNode* const other = Find(*b, member.name.AsText());
        if (other == nullptr) return false;
        todo.push_back({&member.value, other});
      }
    } else {
      return false;
    }
  }
  return true;
}

// --- Steps ---

// The last element goes first, so what is left is a tree at any time.
bool JsonDoc::FreeSome(size_t budget) {
  absl::InlinedVector<JsonNode*, 16> path;
  const auto descend = [&path](JsonNode* node) {
    for (; node->branches() > 0; node = ElementOf(*node, node->size() - 1)) path.push_back(node);
  };
  descend(&root_);
  for (; budget > 0; --budget) {
    if (path.empty()) {
      FreeScalar(root_);
      root_ = JsonNode();
      return true;
    }
    JsonNode* const container = path.back();
    const size_t last = container->size() - 1;
    FreeScalar(*ElementOf(*container, last));
    if (container->is_object()) FreeScalar(container->members()[last].name);
    HeaderOf(*container)->size = static_cast<uint32_t>(last);
    if (last == 0) {
      path.pop_back();  // its block goes as its parent's last element
    } else {
      descend(ElementOf(*container, last - 1));
    }
  }
  return false;
}

// Elements are copied in the order of the text, so all that the copy lacks is behind its last
// elements: on the way from the root to the last element of the last element (...).
bool JsonDoc::CopySome(const JsonDoc& from, size_t budget) {
  struct Level {
    const JsonNode* from;
    JsonNode* to;
  };
  absl::InlinedVector<Level, 16> path;
  if (root_.is_null()) root_ = ShallowCopyOf(from.root_);
  for (Level level = {&from.root_, &root_}; level.from->branches() > 0;) {
    path.push_back(level);
    const size_t copied = level.to->size();
    if (copied == 0) break;
    level = {ElementOf(*level.from, copied - 1), ElementOf(*level.to, copied - 1)};
  }
  for (;;) {
    while (!path.empty() && path.back().to->size() == path.back().from->size()) path.pop_back();
    if (path.empty()) return true;
    if (budget == 0) return false;
    const Level level = path.back();
    const size_t at = level.to->size();
    const JsonNode* const element = ElementOf(*level.from, at);
    size_t text_bytes = element->is_string()   ? element->AsText().size()
                        : element->is_packed() ? element->packed_bytes().size()
                                               : 0;
    HeaderOf(*level.to)->size = static_cast<uint32_t>(at + 1);
    *ElementOf(*level.to, at) = ShallowCopyOf(*element);
    if (level.from->is_object()) {
      const JsonNode& name = level.from->members()[at].name;
      text_bytes += name.AsText().size();
      level.to->members()[at].name = ShallowCopyOf(name);
      if (!IndexOf(*level.to).empty()) {
        *FindSlot(*level.to, name.AsText()) = static_cast<uint32_t>(at + 1);
      }
    }
    if (element->branches() > 0) path.push_back({element, ElementOf(*level.to, at)});
    budget -= std::min(budget, 1 + text_bytes / 64);
  }
}

void JsonDoc::MoveBlock(JsonNode* node, BlockMover& mover) {
  if (node->block() == nullptr) return;
  node->word_ = reinterpret_cast<uint64_t>(mover.Move(node->block())) | node->tag();
}

void JsonDoc::MoveTree(JsonNode* node, BlockMover& mover) {
  Frames frames;
  const auto visit = [&](JsonNode* of) {
    MoveBlock(of, mover);
    if (of->branches() > 0) frames.push_back({of, 0});
  };
  visit(node);
  while (!frames.empty()) {
    Frame& frame = frames.back();
    const JsonNode container = *frame.container;
    if (frame.next == container.size()) {
      frames.pop_back();
      continue;
    }
    const size_t index = frame.next++;
    if (container.is_object()) MoveBlock(&container.members()[index].name, mover);
    visit(ElementOf(container, index));
  }
}

// A step moves whole elements of elements of the first container that has more than one. The cursor
// is where it goes on: the position in that container (32 bits), and in its element (32 bits).
JsonDoc* JsonDoc::Move(JsonDoc* doc, BlockMover& mover, uint64_t* cursor) {
  const bool is_first = *cursor == 0;
  if (is_first) doc = mover.Move(doc);
  JsonNode* pivot = &doc->root_;
  for (;; pivot = ElementOf(*pivot, 0)) {
    if (is_first) MoveBlock(pivot, mover);
    if (pivot->branches() != 1) break;
    if (is_first && pivot->is_object()) MoveBlock(&pivot->members()[0].name, mover);
  }
  const uint64_t enough = mover.work() + kMovedInStep;
  size_t inner = *cursor & UINT32_MAX;
  for (size_t outer = *cursor >> 32; outer < pivot->branches(); ++outer, inner = 0) {
    JsonNode* const element = ElementOf(*pivot, outer);
    if (inner == 0) {
      if (pivot->is_object()) MoveBlock(&pivot->members()[outer].name, mover);
      MoveBlock(element, mover);
    }
    for (; inner < element->branches(); ++inner) {
      if (mover.work() >= enough && inner > 0) {
        *cursor = uint64_t{outer} << 32 | inner;
        return doc;
      }
      if (element->is_object()) MoveBlock(&element->members()[inner].name, mover);
      MoveTree(ElementOf(*element, inner), mover);
      mover.CountVisit();
    }
    mover.CountVisit();
    if (mover.work() >= enough && outer + 1 < pivot->branches()) {
      *cursor = uint64_t{outer + 1} << 32;
      return doc;
    }
  }
  *cursor = 0;
  return doc;
}

void JsonDoc::CheckInvariants() const {
  CHECK_EQ(heap_bytes_, BytesOf(root_));
  struct Check {
    void Begin(const JsonNode& node) {
      if (node.block() == nullptr) return;
      CHECK_GT(node.size(), 0u);
      CHECK_LE(node.size(), HeaderOf(node)->capacity);
      if (node.is_array()) return;
      for (const JsonMember& member : node.members()) {
        CHECK_EQ(FindMember(node, member.name.AsText()), &member) << "twice, or not indexed";
      }
    }
    void End(const JsonNode&) {}
    void Packed(const JsonNode& node) {
      CHECK_GT(node.size(), 0u);
      for (size_t i = 0; i < node.size(); ++i) CHECK(std::isfinite(node.item(i).AsDouble()));
    }
    void Scalar(const JsonNode&) {}
    void Element(const JsonNode&, size_t) {}
  } check;
  WalkJson(root_, check);
}

}  // namespace dfly
