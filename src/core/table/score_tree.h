// SPDX-License-Identifier: Apache-2.0
// The order of a large sorted set: a B+ tree of (score, member), by score and then by the member's
// bytes, in which each inner node counts what is below it. So ranks cost no more than look-ups.
//
//   inner   children, how many entries each has, and the first entry of each
//   leaf    scores and members, apart: a search looks at scores alone, but for equal ones
//
// Members are those of the set's table (core/table/compact_key.h): 16 bytes each, and what they
// have on the heap stays there. A full node hands entries to a neighbour before it splits, and a
// leaf that grows at the end of the set splits there, so nodes are well filled: after Bayer and
// McCreight ("Organization and maintenance of large ordered indices", 1972) and Knuth's B* trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/table/compact_key.h"

namespace dfly {

// Owner:    one value of a shard, which also owns the members.
// Suspends: never.
// Scores:   any but NaN; 0 and -0 are equal.
class ScoreTree {
  struct Node;
  struct Leaf;
  struct Inner;

 public:
  // A place in the order; false behind either end. Dies with each change.
  class Cursor {
   public:
    Cursor() = default;
    explicit operator bool() const { return leaf_ != nullptr; }
    // REQUIRES for all: true.
    double score() const;
    std::string_view member(char* scratch) const;  // CompactKeyRef::kScratchSize bytes
    void Next();
    void Previous();

   private:
    friend class ScoreTree;
    Cursor(const Leaf* leaf, uint32_t index) : leaf_(leaf), index_(index) {}
    const Leaf* leaf_ = nullptr;
    uint32_t index_ = 0;
  };

  ScoreTree() = default;
  ~ScoreTree() { Clear(); }
  ScoreTree(const ScoreTree&) = delete;
  ScoreTree& operator=(const ScoreTree&) = delete;

  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }  // exact: its nodes

  // REQUIRES: this member is not in it; it lives until it is erased.
  void Insert(double score, CompactKeyRef member);
  // REQUIRES: it is in it.
  void Erase(double score, std::string_view member);
  // Erases entries from the one at `rank` on, as far as its leaf has them and at most `most`.
  // Returns how many; their members are in `erased`. REQUIRES: there is one, and most > 0.
  static constexpr uint32_t kErasedMax = 62;
  uint32_t EraseSome(size_t rank, size_t most, CompactKeyRef (&erased)[kErasedMax]);
  void Clear();
  // Clear() in steps: frees about `budget` entries; true when nothing is left. Nothing else may be
  // called between the first step and the last.
  bool FreeSome(size_t budget);

  // The member's bytes have another address, and are still at the old one, too. REQUIRES: it is in
  // it.
  void Follow(double score, const CompactKeyRef& member);
  // Moves the leaf of the entry at `rank`, and what is above it. The next rank, 0 at the end.
  uint32_t Move(uint32_t rank, BlockMover& mover);

  // --- O(log n). How many entries are before ... ---

  size_t Rank(double score, std::string_view member) const;
  size_t CountBelow(double score) const;
  size_t CountUpTo(double score) const;
  // By the members alone. REQUIRES: all scores are equal, or the answer is somewhere between.
  size_t CountBelowMember(std::string_view member) const;
  size_t CountUpToMember(std::string_view member) const;

  // False if there are not so many.
  Cursor At(size_t rank) const;

  void CheckInvariants() const;  // O(n)

 private:
  // Nodes take 1,536 bytes, a size that the allocator has.
  static constexpr uint32_t kLeafMax = kErasedMax;
  static constexpr uint32_t kInnerMax = 42;
  static constexpr uint32_t kDepthMax = 16;

  struct Item {
    double score;
    CompactKeyRef member;
  };
  // Where an entry is: by score, and by the member if `member` is given.
  struct Wanted {
    double score;
    std::string_view member;
  };
  // How many entries come first for which `before(score, member)` holds. It holds for none behind
  // one for which it does not.
  template <typename Before>
  size_t CountWhile(Before before) const;
  template <typename N, typename Before>
  static uint32_t Partition(const N& node, Before before);
  static bool IsLess(double score, CompactKeyRef member, const Wanted& wanted);

  template <typename N>
  N* NewNode();
  void FreeNode(Node* node);
  template <typename N>
  static void MoveItems(N* from, uint32_t first, uint32_t count, N* to, uint32_t at);
  template <typename N>
  static void Shift(Inner* parent, uint32_t from, uint32_t to, uint32_t count);
  template <typename N>
  void MakeRoom(Inner* parent, uint32_t index, const Wanted& wanted);
  template <typename N>
  void Refill(Inner* parent, uint32_t index);
  static uint32_t SizeBelow(const Node* node);
  static Item FirstOf(const Node* node);
  static void Describe(Inner* parent, uint32_t index);  // what it says of that child
  void RefillChild(Inner* parent, uint32_t index);
  void LowerRoot();  // behind an erasure
  static bool IsFull(const Node* node);
  static bool IsPoor(const Node* node);
  void CheckNode(const Node* node, uint32_t depth, const Leaf** previous) const;

  Node* root_ = nullptr;
  size_t size_ = 0;
  size_t bytes_ = 0;
  uint32_t height_ = 0;  // inner nodes above each leaf
};

}  // namespace dfly
