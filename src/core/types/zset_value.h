// SPDX-License-Identifier: Apache-2.0
// The value of a sorted set key.
//
//   encoding   object                                                       OBJECT ENCODING
//   kPacked    PackedBlock: member, score, member, score ... in order       listpack
//   kTable     SortedTable: scores by member, and the order of all          skiplist
//
// The order is by score, and of equal scores by the members' bytes. It becomes a table with a
// member that is too long or one too many, and stays one, as in Redis. In a block a score is an
// integer if it is one, and eight bytes otherwise; -0 is 0 there, also as in Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/memory/allocator.h"
#include "core/table/compact_value.h"
#include "core/table/dash_table.h"
#include "core/table/packed_block.h"
#include "core/table/score_tree.h"

namespace dfly {

// The large form. Owner: one value of a shard. Made with new; bytes() is right only then.
struct SortedTable {
  DashTable<double> scores;
  ScoreTree order;  // of the keys of `scores`

  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* table) { Free(table); }
  size_t bytes() const { return UsableSize(this) + scores.bytes() + order.bytes(); }
};

// A way to use a CompactValue that is a sorted set; refers to it as a pointer does.
//
// Owner:    who has the value.
// Suspends: never.
// Scores:   any but NaN.
class ZsetValue {
 public:
  enum Encoding : uint8_t { kPacked, kTable };
  static constexpr size_t kScratchSize = 24;     // for a view of a member
  static constexpr size_t kBlockMax = 64 << 20;  // bytes of a block, whatever the limits are

  // Before the first shard starts.
  static void RegisterType();
  // Makes `value` an empty sorted set, whatever it was, whose encoding suits about `expected`
  // members like this one.
  static void Create(CompactValue* value, size_t member_bytes, size_t expected,
                     const PackedLimit& limit);

  // REQUIRES: value->type() == ValueType::kZset.
  explicit ZsetValue(CompactValue* value) : value_(*value) {}

  size_t size() const;
  Encoding encoding() const { return static_cast<Encoding>(value_.object_encoding()); }

  std::optional<double> Score(std::string_view member) const;
  // Its place in the order, from 0 on, and its score.
  std::optional<std::pair<size_t, double>> Rank(std::string_view member) const;

  // Adds the member, or changes its score. True if it is new. `member` must not lie in this set.
  bool Set(std::string_view member, double score, const PackedLimit& limit);
  // True if it was there. `member` must not lie in this set.
  bool Erase(std::string_view member);

  // How many members come before all with this score, or with a larger one; O(log n) in a table.
  size_t CountBelow(double score) const;
  size_t CountUpTo(double score) const;
  // By the members alone. REQUIRES: all scores are equal, or the answer is somewhere between.
  size_t CountBelowMember(std::string_view member) const;
  size_t CountUpToMember(std::string_view member) const;

  // fn(std::string_view member, double score) for `count` of them, from the one at `first` on, or,
  // in reverse, from the one at `first` back. Changes nothing meanwhile. REQUIRES: they exist.
  template <typename F>
  void ForRange(size_t first, size_t count, bool is_reverse, F&& fn) const;
  template <typename F>
  void ForEach(F&& fn) const {
    ForRange(0, size(), false, fn);
  }
  // Some of them, from `cursor` on; the next cursor, 0 at the end. A packed set gives all at once.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const;

  // Erases `count` members from the one at `first` on. REQUIRES: they exist.
  void EraseRange(size_t first, size_t count);

  // What the block of one that is kPacked has for it; they go in ascending order.
  static void AppendPacked(std::string_view member, double score, PackedBlockBuilder* to);
  // How members are ordered.
  static bool IsBefore(std::string_view member, double score, std::string_view other,
                       double other_score) {
    return score != other_score ? score < other_score : member < other;
  }

 private:
  using Place = PackedBlock::Place;

  PackedBlock block() const { return PackedBlock(value_.object()); }
  SortedTable& table() const { return *static_cast<SortedTable*>(value_.object()); }
  static double ScoreAt(Place at);  // of the member at `at`
  // How many pairs come first for which before(member, score) holds.
  template <typename Before>
  size_t CountPacked(Before before) const;
  void SetPacked(std::string_view member, double score, Place known);
  void SetInTable(std::string_view member, double score, bool* is_new);
  void MakeTable();
  // The present table goes, in steps if it is large.
  void ReplaceTable(SortedTable* table);

  CompactValue& value_;
};

template <typename F>
void ZsetValue::ForRange(size_t first, size_t count, bool is_reverse, F&& fn) const {
  if (count == 0) return;
  char scratch[kScratchSize];
  if (encoding() == kTable) {
    ScoreTree::Cursor cursor = table().order.At(first);
    for (; count > 0; --count) {
      fn(cursor.member(scratch), cursor.score());
      is_reverse ? cursor.Previous() : cursor.Next();
    }
    return;
  }
  Place at = block().At(first * 2);
  while (true) {
    fn(PackedElement(at).View(scratch), ScoreAt(at));
    if (--count == 0) return;
    at = is_reverse ? PackedBlock::Previous(PackedBlock::Previous(at))
                    : PackedBlock::Next(PackedBlock::Next(at));
  }
}

template <typename F>
uint32_t ZsetValue::Scan(uint32_t cursor, F&& fn) const {
  if (encoding() == kPacked) {
    ForEach(fn);
    return 0;
  }
  return table().scores.Scan(cursor, [&](const DashTable<double>::Slot& slot) {
    char scratch[kScratchSize];
    fn(slot.key.View(scratch), slot.value);
  });
}

}  // namespace dfly
