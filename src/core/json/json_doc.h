// SPDX-License-Identifier: Apache-2.0
// A JSON document: a tree of nodes (json_node.h) whose blocks it owns and counts.
//
// Members of an object stand in the order in which they came. One with room for kIndexMin or more
// has a table behind them (open addressing, linear probing), by the secret hash of keys.
//
//   array    size (4), capacity (4), nodes
//   object   size (4), capacity (4), members, and the table: slots of 4 bytes, 0 or 1 + a position
//   packed   size (4), JsonFloat (4), numbers
//
// JSON.SET packs arrays for FPHA. An array that gets a value is unpacked: its numbers become nodes
// of the same type, so nobody who reads it can tell.
//
// No function here recurses, so a document may be as deep as whoever made it allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/json/json_node.h"
#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"

namespace dfly {

// Owner:    one value of a shard, or who is making one.
// Suspends: never.
class JsonDoc {
 public:
  // No document that is read, from a client or a file, is deeper.
  static constexpr size_t kDepthMax = 1000;
  static constexpr size_t kIndexMin = 32;  // members

  // Before the first shard starts.
  static void RegisterType();

  JsonDoc() = default;  // null
  ~JsonDoc() { Clear(&root_); }
  JsonDoc(const JsonDoc&) = delete;
  JsonDoc& operator=(const JsonDoc&) = delete;
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* doc) { Free(doc); }

  const JsonNode& root() const { return root_; }
  JsonNode* mutable_root() { return &root_; }
  size_t heap_bytes() const { return heap_bytes_; }
  // What it costs, exactly. REQUIRES: made with new.
  size_t bytes() const { return UsableSize(this) + heap_bytes_; }

  // --- Nodes that belong to this document, but are nowhere in it yet ---

  JsonNode MakeText(std::string_view text);  // REQUIRES: less than 4 GB
  JsonNode MakeInt(int64_t number);
  JsonNode MakeUint(uint64_t number);
  JsonNode MakeDouble(double number);
  JsonNode MakeArray(size_t capacity);   // empty
  JsonNode MakeObject(size_t capacity);  // empty
  JsonNode CopyOf(const JsonNode& node);
  // REQUIRES: `bytes` are some numbers of the type.
  JsonNode MakePacked(JsonFloat type, std::string_view bytes);
  // The root of another one, which is null then.
  JsonNode TakeRoot(JsonDoc* other);

  // --- Changes. `node` is a node of this document. ---

  // Frees what it has; it is null then.
  void Clear(JsonNode* node);
  void Set(JsonNode* node, JsonNode value) {
    Clear(node);
    *node = value;
  }
  // REQUIRES: an array. Nodes of it move.
  void Append(JsonNode* array, JsonNode value) { Insert(array, array->size(), value); }
  void Insert(JsonNode* array, size_t at, JsonNode value) { InsertAll(array, at, {&value, 1}); }
  void InsertAll(JsonNode* array, size_t at, std::span<const JsonNode> values);
  JsonNode TakeItem(JsonNode* array, size_t at);
  void EraseItems(JsonNode* array, size_t at, size_t count);
  // REQUIRES: an object. Members of it move if one is added, which is null at first.
  JsonNode* FindOrAdd(JsonNode* object, std::string_view name);
  // Of an object; null if it has none of that name.
  static JsonNode* Find(const JsonNode& object, std::string_view name);
  // The same with its position.
  static JsonMember* FindMember(const JsonNode& object, std::string_view name);
  void EraseMember(JsonNode* object, size_t at);
  // Of a container: the elements at these positions, which ascend.
  void EraseAt(JsonNode* container, const std::vector<size_t>& positions);
  // Packs each array that has numbers only, of which one is no integer. False: a number is beyond
  // the type; some arrays are packed then.
  [[nodiscard]] bool PackArrays(JsonFloat type);
  // Its items() are valid then. REQUIRES: an array.
  void Unpack(JsonNode* array);

  // --- Of a part ---

  // Of all its blocks, exactly.
  static size_t BytesOf(const JsonNode& node);
  // Containers inside of each other: 0 for a scalar, 1 for [1].
  static size_t DepthOf(const JsonNode& node);
  // By value: 1 equals 1.0, and the order of members does not matter.
  static bool IsEqual(const JsonNode& left, const JsonNode& right);

  // ObjectType::free_some, clone_some and move. A copy begins as null, and is complete when
  // CopySome returns true; until then only CopySome and the destructor are called.
  bool FreeSome(size_t budget);
  bool CopySome(const JsonDoc& from, size_t budget);
  static JsonDoc* Move(JsonDoc* doc, BlockMover& mover, uint64_t* cursor);

  void CheckInvariants() const;  // O(n)

 private:
  struct Header {
    uint32_t size;
    uint32_t capacity;
  };

  static Header* HeaderOf(const JsonNode& node) { return static_cast<Header*>(node.block()); }
  static size_t SlotsFor(size_t capacity);
  static size_t ObjectBytes(size_t capacity);
  static std::span<uint32_t> IndexOf(const JsonNode& object);  // empty if it has none
  // The slot that has the name, or the free one where it belongs. REQUIRES: it has an index.
  static uint32_t* FindSlot(const JsonNode& object, std::string_view name);
  static void BuildIndex(const JsonNode& object);
  static void RemoveFromIndex(const JsonNode& object, size_t at);

  // A container has no elements yet.
  JsonNode ShallowCopyOf(const JsonNode& node);
  void* NewBlock(size_t bytes);
  void FreeBlock(void* block);
  void FreeScalar(const JsonNode& node) {
    if (node.block() != nullptr) FreeBlock(node.block());
  }
  void ResizeArray(JsonNode* array, size_t capacity);
  void ResizeObject(JsonNode* object, size_t capacity);
  void ShrinkIfEmptier(JsonNode* container);
  // Drops the numbers behind the first `size`.
  void CutPacked(JsonNode* array, size_t size);
  static void MoveBlock(JsonNode* node, BlockMover& mover);
  static void MoveTree(JsonNode* node, BlockMover& mover);

  JsonNode root_;
  size_t heap_bytes_ = 0;
};

}  // namespace dfly
