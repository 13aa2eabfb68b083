// SPDX-License-Identifier: Apache-2.0
#include "core/table/score_tree.h"

#include <algorithm>
#include <cstring>

#include "core/memory/allocator.h"
#include "helio/base/logging.h"

namespace dfly {

struct ScoreTree::Node {
  uint32_t count;
  bool is_leaf;
};

struct ScoreTree::Leaf : Node {
  static constexpr uint32_t kMax = kLeafMax;
  Leaf* previous;
  Leaf* next;
  double scores[kMax];
  CompactKeyRef members[kMax];

  void Copy(uint32_t to, const Leaf& other, uint32_t from, uint32_t n) {
    std::memmove(scores + to, other.scores + from, n * sizeof(scores[0]));
    std::memmove(static_cast<void*>(members + to), other.members + from, n * sizeof(members[0]));
  }
};

// Of each child: what is below it, and its first entry.
struct ScoreTree::Inner : Node {
  static constexpr uint32_t kMax = kInnerMax;
  Node* children[kMax];
  double scores[kMax];
  CompactKeyRef members[kMax];
  uint32_t sizes[kMax];

  void Copy(uint32_t to, const Inner& other, uint32_t from, uint32_t n) {
    std::memmove(children + to, other.children + from, n * sizeof(children[0]));
    std::memmove(scores + to, other.scores + from, n * sizeof(scores[0]));
    std::memmove(static_cast<void*>(members + to), other.members + from, n * sizeof(members[0]));
    std::memmove(sizes + to, other.sizes + from, n * sizeof(sizes[0]));
  }
};

// --- Nodes ---

template <typename N>
N* ScoreTree::NewNode() {
  static_assert(sizeof(N) <= 1536);
  N* const node = new (Alloc(sizeof(N))) N;
  node->count = 0;
  node->is_leaf = std::is_same_v<N, Leaf>;
  bytes_ += UsableSize(node);
  return node;
}

void ScoreTree::FreeNode(Node* node) {
  bytes_ -= UsableSize(node);
  Free(node);
}

bool ScoreTree::IsFull(const Node* node) {
  return node->count == (node->is_leaf ? kLeafMax : kInnerMax);
}

bool ScoreTree::IsPoor(const Node* node) {
  return node->count <= (node->is_leaf ? kLeafMax : kInnerMax) / 4;
}

uint32_t ScoreTree::SizeBelow(const Node* node) {
  if (node->is_leaf) return node->count;
  const auto* inner = static_cast<const Inner*>(node);
  uint32_t size = 0;
  for (uint32_t i = 0; i < inner->count; ++i) size += inner->sizes[i];
  return size;
}

auto ScoreTree::FirstOf(const Node* node) -> Item {
  if (node->is_leaf) {
    const auto* leaf = static_cast<const Leaf*>(node);
    return {leaf->scores[0], leaf->members[0]};
  }
  const auto* inner = static_cast<const Inner*>(node);
  return {inner->scores[0], inner->members[0]};
}

void ScoreTree::Describe(Inner* parent, uint32_t index) {
  const Node* child = parent->children[index];
  const Item first = FirstOf(child);
  parent->scores[index] = first.score;
  parent->members[index] = first.member;
  parent->sizes[index] = SizeBelow(child);
}

template <typename N>
void ScoreTree::MoveItems(N* from, uint32_t first, uint32_t count, N* to, uint32_t at) {
  DCHECK_LE(to->count + count, N::kMax);
  to->Copy(at + count, *to, at, to->count - at);
  to->Copy(at, *from, first, count);
  from->Copy(first, *from, first + count, from->count - first - count);
  to->count += count;
  from->count -= count;
}

// Hands `count` entries of a child to a neighbour.
template <typename N>
void ScoreTree::Shift(Inner* parent, uint32_t from, uint32_t to, uint32_t count) {
  auto* const giver = static_cast<N*>(parent->children[from]);
  auto* const taker = static_cast<N*>(parent->children[to]);
  if (from < to) {
    MoveItems(giver, giver->count - count, count, taker, 0);
  } else {
    MoveItems(giver, 0, count, taker, taker->count);
  }
  Describe(parent, to);
  if (giver->count != 0) Describe(parent, from);
}

// The child is full, and something is going to be inserted below it. REQUIRES: the parent is not
// full.
template <typename N>
void ScoreTree::MakeRoom(Inner* parent, uint32_t index, const Wanted& wanted) {
  const uint32_t room_wanted = N::kMax / 8;  // less would not pay for the move
  const auto room = [&](uint32_t i) { return N::kMax - parent->children[i]->count; };
  if (index > 0 && room(index - 1) >= room_wanted) {
    return Shift<N>(parent, index, index - 1, (room(index - 1) + 1) / 2);
  }
  if (index + 1 < parent->count && room(index + 1) >= room_wanted) {
    return Shift<N>(parent, index, index + 1, (room(index + 1) + 1) / 2);
  }
  auto* const child = static_cast<N*>(parent->children[index]);
  N* const fresh = NewNode<N>();
  if constexpr (std::is_same_v<N, Leaf>) {
    fresh->previous = child;
    fresh->next = child->next;
    if (child->next != nullptr) child->next->previous = fresh;
    child->next = fresh;
  }
  parent->Copy(index + 2, *parent, index + 1, parent->count - index - 1);
  parent->children[index + 1] = fresh;
  ++parent->count;
  // In a set that grows at its end nothing comes behind a half that is left there.
  const uint32_t last = child->count - 1;
  const bool is_end =
      index + 2 == parent->count && IsLess(child->scores[last], child->members[last], wanted);
  Shift<N>(parent, index, index + 1, is_end ? 1 : N::kMax / 2);
}

// The child has few items, and one of them may go.
template <typename N>
void ScoreTree::Refill(Inner* parent, uint32_t index) {
  if (parent->count == 1) return;  // the root, which is about to go
  const uint32_t left = index > 0 ? index - 1 : index;
  const uint32_t right = left + 1;
  auto* const first = static_cast<N*>(parent->children[left]);
  auto* const second = static_cast<N*>(parent->children[right]);
  if (first->count + second->count <= N::kMax * 3 / 4) {
    Shift<N>(parent, right, left, second->count);
    if constexpr (std::is_same_v<N, Leaf>) {
      first->next = second->next;
      if (second->next != nullptr) second->next->previous = first;
    }
    FreeNode(second);
    parent->Copy(right, *parent, right + 1, parent->count - right - 1);
    --parent->count;
    return;
  }
  const uint32_t other = index == left ? right : left;
  const uint32_t surplus = parent->children[other]->count - parent->children[index]->count;
  Shift<N>(parent, other, index, surplus / 2);
}

void ScoreTree::RefillChild(Inner* parent, uint32_t index) {
  if (parent->children[index]->is_leaf) {
    Refill<Leaf>(parent, index);
  } else {
    Refill<Inner>(parent, index);
  }
}

// --- Look-ups ---

bool ScoreTree::IsLess(double score, CompactKeyRef member, const Wanted& wanted) {
  if (score != wanted.score) return score < wanted.score;
  char scratch[CompactKeyRef::kScratchSize];
  return member.View(scratch) < wanted.member;
}

template <typename N, typename Before>
uint32_t ScoreTree::Partition(const N& node, Before before) {
  uint32_t low = 0, high = node.count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (before(node.scores[middle], node.members[middle])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename Before>
size_t ScoreTree::CountWhile(Before before) const {
  size_t rank = 0;
  const Node* node = root_;
  if (node == nullptr) return 0;
  while (!node->is_leaf) {
    const auto* inner = static_cast<const Inner*>(node);
    const uint32_t behind = Partition(*inner, before);
    if (behind == 0) return rank;
    for (uint32_t i = 0; i + 1 < behind; ++i) rank += inner->sizes[i];
    node = inner->children[behind - 1];
  }
  return rank + Partition(*static_cast<const Leaf*>(node), before);
}

size_t ScoreTree::Rank(double score, std::string_view member) const {
  const Wanted wanted = {score, member};
  return CountWhile([&](double its_score, const CompactKeyRef& its_member) {
    return IsLess(its_score, its_member, wanted);
  });
}

size_t ScoreTree::CountBelow(double score) const {
  return CountWhile([&](double its_score, const CompactKeyRef&) { return its_score < score; });
}

size_t ScoreTree::CountUpTo(double score) const {
  return CountWhile([&](double its_score, const CompactKeyRef&) { return its_score <= score; });
}

size_t ScoreTree::CountBelowMember(std::string_view member) const {
  return CountWhile([&](double, const CompactKeyRef& its_member) {
    char scratch[CompactKeyRef::kScratchSize];
    return its_member.View(scratch) < member;
  });
}

size_t ScoreTree::CountUpToMember(std::string_view member) const {
  return CountWhile([&](double, const CompactKeyRef& its_member) {
    char scratch[CompactKeyRef::kScratchSize];
    return its_member.View(scratch) <= member;
  });
}

auto ScoreTree::At(size_t rank) const -> Cursor {
  if (rank >= size_) return {};
  const Node* node = root_;
  while (!node->is_leaf) {
    const auto* inner = static_cast<const Inner*>(node);
    uint32_t i = 0;
    for (; rank >= inner->sizes[i]; ++i) rank -= inner->sizes[i];
    node = inner->children[i];
  }
  return {static_cast<const Leaf*>(node), static_cast<uint32_t>(rank)};
}

double ScoreTree::Cursor::score() const { return leaf_->scores[index_]; }

std::string_view ScoreTree::Cursor::member(char* scratch) const {
  return leaf_->members[index_].View(scratch);
}

void ScoreTree::Cursor::Next() {
  if (++index_ < leaf_->count) return;
  leaf_ = leaf_->next;
  index_ = 0;
}

void ScoreTree::Cursor::Previous() {
  if (index_-- > 0) return;
  leaf_ = leaf_->previous;
  if (leaf_ != nullptr) index_ = leaf_->count - 1;
}

// --- Changes ---

void ScoreTree::Insert(double score, CompactKeyRef member) {
  char scratch[CompactKeyRef::kScratchSize];
  const Wanted wanted = {score, member.View(scratch)};
  const auto before = [&](double its_score, const CompactKeyRef& its_member) {
    return IsLess(its_score, its_member, wanted);
  };
  if (root_ == nullptr) {
    Leaf* const leaf = NewNode<Leaf>();
    leaf->previous = leaf->next = nullptr;
    root_ = leaf;
  }
  if (IsFull(root_)) {
    Inner* const above = NewNode<Inner>();
    above->count = 1;
    above->children[0] = root_;
    Describe(above, 0);
    root_ = above;
    CHECK_LT(++height_, kDepthMax);
  }
  // Makes room on its way down, so that nothing has to be done on the way up.
  Node* node = root_;
  while (!node->is_leaf) {
    auto* const inner = static_cast<Inner*>(node);
    const auto choose = [&] { return std::max(1u, Partition(*inner, before)) - 1; };
    uint32_t index = choose();
    if (IsFull(inner->children[index])) {
      if (inner->children[index]->is_leaf) {
        MakeRoom<Leaf>(inner, index, wanted);
      } else {
        MakeRoom<Inner>(inner, index, wanted);
      }
      index = choose();
    }
    ++inner->sizes[index];
    if (index == 0 && !before(inner->scores[0], inner->members[0])) {
      inner->scores[0] = score;
      inner->members[0] = member;
    }
    node = inner->children[index];
  }
  auto* const leaf = static_cast<Leaf*>(node);
  const uint32_t at = Partition(*leaf, before);
  leaf->Copy(at + 1, *leaf, at, leaf->count - at);
  leaf->scores[at] = score;
  leaf->members[at] = member;
  ++leaf->count;
  ++size_;
}

void ScoreTree::Erase(double score, std::string_view member) {
  const Wanted wanted = {score, member};
  // The entry itself counts, so that it is looked for where it is.
  const auto up_to = [&](double its_score, const CompactKeyRef& its_member) {
    if (its_score != score) return its_score < score;
    char scratch[CompactKeyRef::kScratchSize];
    return its_member.View(scratch) <= member;
  };
  Inner* path[kDepthMax];
  uint32_t indexes[kDepthMax];
  uint32_t depth = 0;
  CHECK(root_ != nullptr);
  Node* node = root_;
  while (!node->is_leaf) {
    auto* const inner = static_cast<Inner*>(node);
    uint32_t index = Partition(*inner, up_to);
    CHECK_GT(index, 0u) << "not in the tree";
    --index;
    if (IsPoor(inner->children[index])) {
      RefillChild(inner, index);
      index = Partition(*inner, up_to) - 1;
    }
    --inner->sizes[index];
    path[depth] = inner;
    indexes[depth++] = index;
    node = inner->children[index];
  }
  auto* const leaf = static_cast<Leaf*>(node);
  const uint32_t at = Partition(*leaf, [&](double its_score, const CompactKeyRef& its_member) {
    return IsLess(its_score, its_member, wanted);
  });
  CHECK_LT(at, leaf->count) << "not in the tree";
  leaf->Copy(at, *leaf, at + 1, leaf->count - at - 1);
  --leaf->count;
  --size_;
  // What begins with it now begins with the next one.
  for (uint32_t i = depth; at == 0 && i > 0 && leaf->count > 0; --i) {
    path[i - 1]->scores[indexes[i - 1]] = leaf->scores[0];
    path[i - 1]->members[indexes[i - 1]] = leaf->members[0];
    if (indexes[i - 1] != 0) break;
  }
  LowerRoot();
}

uint32_t ScoreTree::EraseSome(size_t rank, size_t most, CompactKeyRef (&erased)[kErasedMax]) {
  CHECK_LT(rank, size_);
  Inner* path[kDepthMax];
  uint32_t indexes[kDepthMax];
  uint32_t depth = 0;
  Node* node = root_;
  while (!node->is_leaf) {
    auto* const inner = static_cast<Inner*>(node);
    size_t below = rank;
    const auto choose = [&] {
      uint32_t index = 0;
      for (below = rank; below >= inner->sizes[index]; ++index) below -= inner->sizes[index];
      return index;
    };
    uint32_t index = choose();
    if (IsPoor(inner->children[index])) {
      RefillChild(inner, index);
      index = choose();
    }
    path[depth] = inner;
    indexes[depth++] = index;
    rank = below;
    node = inner->children[index];
  }
  auto* const leaf = static_cast<Leaf*>(node);
  const auto at = static_cast<uint32_t>(rank);
  const auto count = static_cast<uint32_t>(std::min<size_t>(most, leaf->count - at));
  std::copy_n(leaf->members + at, count, erased);
  leaf->Copy(at, *leaf, at + count, leaf->count - at - count);
  leaf->count -= count;
  size_ -= count;
  for (uint32_t i = 0; i < depth; ++i) path[i]->sizes[indexes[i]] -= count;
  if (leaf->count == 0 && size_ > 0) {
    Inner* const parent = path[--depth];
    const uint32_t index = indexes[depth];
    CHECK_GT(parent->count, 1u);
    if (leaf->previous != nullptr) leaf->previous->next = leaf->next;
    if (leaf->next != nullptr) leaf->next->previous = leaf->previous;
    FreeNode(leaf);
    parent->Copy(index, *parent, index + 1, parent->count - index - 1);
    --parent->count;
  }
  // What began with the first of them begins with another one now.
  for (uint32_t i = depth; at == 0 && size_ > 0 && i > 0; --i) {
    const Item first = FirstOf(path[i - 1]->children[indexes[i - 1]]);
    path[i - 1]->scores[indexes[i - 1]] = first.score;
    path[i - 1]->members[indexes[i - 1]] = first.member;
    if (indexes[i - 1] != 0) break;
  }
  LowerRoot();
  return count;
}

void ScoreTree::LowerRoot() {
  while (!root_->is_leaf && root_->count == 1) {
    Node* const below = static_cast<Inner*>(root_)->children[0];
    FreeNode(root_);
    root_ = below;
    --height_;
  }
  if (size_ == 0) Clear();
}

void ScoreTree::Follow(double score, const CompactKeyRef& member) {
  char scratch[CompactKeyRef::kScratchSize];
  const std::string_view bytes = member.View(scratch);
  const auto up_to = [&](double its_score, const CompactKeyRef& its_member) {
    if (its_score != score) return its_score < score;
    char its_scratch[CompactKeyRef::kScratchSize];
    return its_member.View(its_scratch) <= bytes;
  };
  // Inner nodes know the first entry of each child, so it may be at several places on the way.
  const auto follow = [&](auto* node) {
    const uint32_t behind = Partition(*node, up_to);
    CHECK_GT(behind, 0u) << "not in the tree";
    CompactKeyRef& found = node->members[behind - 1];
    char its_scratch[CompactKeyRef::kScratchSize];
    if (node->scores[behind - 1] == score && found.View(its_scratch) == bytes) found.Follow(member);
    return behind - 1;
  };
  Node* node = root_;
  while (!node->is_leaf) {
    auto* const inner = static_cast<Inner*>(node);
    node = inner->children[follow(inner)];
  }
  follow(static_cast<Leaf*>(node));
}

uint32_t ScoreTree::Move(uint32_t rank, BlockMover& mover) {
  if (rank >= size_) return 0;
  uint32_t left = rank;
  Node* node = root_ = mover.Move(root_);
  while (!node->is_leaf) {
    auto* const inner = static_cast<Inner*>(node);
    uint32_t i = 0;
    for (; left >= inner->sizes[i]; ++i) left -= inner->sizes[i];
    node = inner->children[i] = mover.Move(inner->children[i]);
  }
  auto* const leaf = static_cast<Leaf*>(node);
  if (leaf->previous != nullptr) leaf->previous->next = leaf;
  if (leaf->next != nullptr) leaf->next->previous = leaf;
  const uint32_t next = rank - left + leaf->count;
  return next < size_ ? next : 0;
}

void ScoreTree::Clear() {
  while (!FreeSome(SIZE_MAX)) {
  }
}

bool ScoreTree::FreeSome(size_t budget) {
  while (root_ != nullptr && budget > 0) {
    // The last child goes first; an inner node without children goes itself.
    Inner* parent = nullptr;
    Node* node = root_;
    while (!node->is_leaf && node->count > 0) {
      parent = static_cast<Inner*>(node);
      node = parent->children[parent->count - 1];
    }
    budget -= std::min<size_t>(budget, node->is_leaf ? node->count : 1);
    FreeNode(node);
    if (parent != nullptr) {
      --parent->count;
    } else {
      root_ = nullptr;
    }
  }
  if (root_ != nullptr) return false;
  size_ = 0;
  height_ = 0;
  return true;
}

void ScoreTree::CheckNode(const Node* node, uint32_t depth, const Leaf** previous) const {
  if (node->is_leaf) {
    const auto* leaf = static_cast<const Leaf*>(node);
    CHECK_EQ(depth, height_);
    CHECK_EQ(leaf->previous, *previous);
    if (*previous != nullptr) CHECK_EQ((*previous)->next, leaf);
    *previous = leaf;
    for (uint32_t i = 0; i + 1 < leaf->count; ++i) {
      char scratch[CompactKeyRef::kScratchSize];
      CHECK(IsLess(leaf->scores[i], leaf->members[i],
                   {leaf->scores[i + 1], leaf->members[i + 1].View(scratch)}));
    }
    return;
  }
  const auto* inner = static_cast<const Inner*>(node);
  CHECK_GT(inner->count, node == root_ ? 1u : 0u);
  for (uint32_t i = 0; i < inner->count; ++i) {
    const Node* child = inner->children[i];
    CHECK_GT(child->count, 0u);
    CHECK_EQ(inner->sizes[i], SizeBelow(child));
    const Item first = FirstOf(child);
    CHECK_EQ(inner->scores[i], first.score);
    CHECK(std::memcmp(&inner->members[i], &first.member, sizeof(first.member)) == 0);
    if (i > 0) {
      char scratch[CompactKeyRef::kScratchSize];
      CHECK(IsLess(inner->scores[i - 1], inner->members[i - 1],
                   {inner->scores[i], inner->members[i].View(scratch)}));
    }
    CheckNode(child, depth + 1, previous);
  }
}

void ScoreTree::CheckInvariants() const {
  if (root_ == nullptr) {
    CHECK_EQ(size_, 0u);
    CHECK_EQ(bytes_, 0u);
    return;
  }
  CHECK_EQ(size_, SizeBelow(root_));
  const Leaf* previous = nullptr;
  CheckNode(root_, 0, &previous);
  if (previous != nullptr) CHECK(previous->next == nullptr);
}

}  // namespace dfly
