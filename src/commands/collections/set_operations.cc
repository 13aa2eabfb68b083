// SPDX-License-Identifier: Apache-2.0
// What several sets have in common, together, or one has and others have not; to look at (SINTER),
// to count (SINTERCARD) or to keep (SINTERSTORE).
//
// Over shards. Members travel as seldom as possible, and to look them up they need not:
//
//   SINTER   hop 1: the sizes. 2: the shard with the smallest set copies what its own sets have in
//            common. 3: all others at once read that list where it is, and mark what they have
//   SDIFF    the same with the shard of the first key, and marks for what goes
//   SUNION   one hop: each shard copies what its sets have, each member once
//
// and one more hop writes the target.
//
// Large sets. What takes long is done in slices, and others run in between, on the shards (a hop
// for each slice) and on the command's own thread (LongWork): only the keys are locked meanwhile.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/collections/set_commands.h"
#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

enum class Operation : uint8_t { kInter, kUnion, kDiff };

using Keys = std::span<const std::string_view>;
// None: its key is absent. To read only; good as long as the shard's table does not change.
using MaybeSet = std::optional<SetValue>;
using Sets = std::vector<MaybeSet>;  // in the order of the keys
using SetSpan = std::span<const MaybeSet>;

MaybeSet SetOrNone(const ShardContext& cx, const ShardContext::ReadHandle& value) {
  return value ? MaybeSet(SetOf(cx, value)) : std::nullopt;
}

// None if one of the keys is something else.
std::optional<Sets> FindSets(ShardContext& cx, Keys keys) {
  cx.ExpectKeys(keys);
  Sets sets;
  for (std::string_view key : keys) {
    const auto value = cx.FindReadOnly(key, ValueType::kSet);
    if (value.is_wrong_type()) return std::nullopt;
    sets.push_back(SetOrNone(cx, value));
  }
  return sets;
}

size_t SizeOf(const MaybeSet& set) { return set ? set->size() : 0; }
bool HasAbsent(const Sets& sets) {
  return std::any_of(sets.begin(), sets.end(), [](const MaybeSet& set) { return !set; });
}

// Which encoding a set with certain members gets.
struct Shape {
  size_t count = 0;
  bool is_all_integers = true;
  size_t longest = 0;

  void Add(std::string_view member) {
    ++count;
    longest = std::max(longest, member.size());
    is_all_integers = is_all_integers && ParseInt64(member).has_value();
  }
  // `starts_packed`: not as integers, which too many of them would make a table.
  SetValue::Encoding Encoding(const SetLimit& limit, bool starts_packed) const {
    if (is_all_integers && count <= limit.integers) return SetValue::kIntegers;
    if (is_all_integers && !starts_packed) return SetValue::kTable;
    return count <= limit.packed.entries && longest <= limit.packed.element_bytes
               ? SetValue::kPacked
               : SetValue::kTable;
  }
};

// What an operation has found, and what decides on the encoding of the set that it becomes.
struct Result {
  MemberList members;
  bool starts_packed = false;  // the smallest of the sets that were intersected is not integers
  // Redis' SDIFF copies the first set and takes the others' members away if that is less work; a
  // set that has become a block or a table for the first one's members stays it then.
  bool has_first = false;
  Shape first = {};
  std::optional<CompactValue> set = {};  // the value for the target, if it was made already

  size_t size() const { return set ? SetValue(*set).size() : members.size(); }
};

// --- Sets of one shard ---

// A question to several sets: which of these members does any of you have?
class AnyOf {
 public:
  // For about so many questions.
  AnyOf(SetSpan sets, size_t questions) {
    size_t members = 0;
    for (const MaybeSet& set : sets) {
      if (!set) continue;
      sets_.push_back(set);
      members += set->size();
    }
    const bool is_slow =
        sets_.size() > 1 || (!sets_.empty() && sets_[0]->encoding() == SetValue::kPacked);
    if (!is_slow || members >= questions) return;
    table_ = std::make_unique<SetValue::Table>();
    for (const MaybeSet& set : sets_) {
      set->ForEach([this](std::string_view member) { table_->Add(member); });
    }
  }

  bool Has(std::string_view member) const {
    if (table_ != nullptr) return table_->Find(member) != nullptr;
    return std::any_of(sets_.begin(), sets_.end(),
                       [member](const MaybeSet& set) { return set->Has(member); });
  }

 private:
  Sets sets_;                               // that exist
  std::unique_ptr<SetValue::Table> table_;  // of all their members
};

bool AllHave(SetSpan sets, std::string_view member) {
  return std::all_of(sets.begin(), sets.end(),
                     [member](const MaybeSet& set) { return set->Has(member); });
}

// fn(member) for what all of them have, until it returns false.
template <typename F>
void ForEachOfAll(Sets sets, F&& fn) {
  if (HasAbsent(sets)) return;
  std::stable_sort(sets.begin(), sets.end(),
                   [](const MaybeSet& a, const MaybeSet& b) { return a->size() < b->size(); });
  sets[0]->ForEachUntil([&](std::string_view member) {
    return !AllHave(SetSpan(sets).subspan(1), member) || fn(member);
  });
}

void AddUnion(Sets sets, MemberList* members) {
  constexpr size_t kAskedMax = 3;  // sets to ask one after another whether they have a member
  std::erase_if(sets, [](const MaybeSet& set) { return !set; });
  std::stable_sort(sets.begin(), sets.end(),
                   [](const MaybeSet& a, const MaybeSet& b) { return a->size() > b->size(); });
  std::optional<SetValue::Table> seen;
  if (sets.size() > kAskedMax) seen.emplace();
  for (size_t i = 0; i < sets.size(); ++i) {
    sets[i]->ForEach([&](std::string_view member) {
      const bool is_new =
          seen ? seen->Add(member)
               : std::none_of(sets.begin(), sets.begin() + static_cast<ptrdiff_t>(i),
                              [member](const MaybeSet& set) { return set->Has(member); });
      if (is_new) members->Add(member);
    });
  }
}

void AddDifference(const Sets& sets, MemberList* members) {
  if (!sets[0]) return;
  const AnyOf others(SetSpan(sets).subspan(1), SizeOf(sets[0]));
  sets[0]->ForEach([&](std::string_view member) {
    if (!others.Has(member)) members->Add(member);
  });
}

// What decides between Redis' two ways to a difference.
struct DifferenceCost {
  size_t sets = 0;     // that exist
  size_t members = 0;  // of them

  void Add(const Sets& other) {
    for (const MaybeSet& set : other) {
      sets += set.has_value();
      members += SizeOf(set);
    }
  }
  bool CopiesFirst(size_t first_size) const { return sets * first_size / 2 > members; }
};

void NoteFirst(const SetValue& first, Result* result) {
  result->has_first = true;
  first.ForEach([result](std::string_view member) { result->first.Add(member); });
}

Result Compute(Operation operation, const Sets& sets) {
  Result result;
  switch (operation) {
    case Operation::kInter: {
      size_t smallest = SIZE_MAX;
      for (const MaybeSet& set : sets) {
        if (!set || set->size() >= smallest) continue;
        smallest = set->size();
        result.starts_packed = set->encoding() != SetValue::kIntegers;
      }
      ForEachOfAll(sets, [&result](std::string_view member) {
        result.members.Add(member);
        return true;
      });
      break;
    }
    case Operation::kUnion:
      AddUnion(sets, &result.members);
      break;
    case Operation::kDiff: {
      DifferenceCost cost;
      cost.Add(sets);
      const MaybeSet& first = sets.front();
      if (first && cost.CopiesFirst(first->size())) NoteFirst(*first, &result);
      AddDifference(sets, &result.members);
      break;
    }
  }
  return result;
}

// None if one of the keys is no set.
std::optional<Result> Compute(ShardContext& cx, Operation operation, Keys keys) {
  const std::optional<Sets> sets = FindSets(cx, keys);
  if (!sets) return std::nullopt;
  return Compute(operation, *sets);
}

// --- Results ---

// `work`: null in a brief.
CompactValue MakeSet(const Result& result, const SetLimit& limit, helio::LongWork* work = nullptr) {
  const MemberList& members = result.members;
  Shape shape;
  for (size_t i = 0; i < members.size(); ++i) {
    shape.Add(members[i]);
    if (work != nullptr) work->Step();
  }
  SetValue::Encoding encoding = shape.Encoding(limit, result.starts_packed);
  if (result.has_first) encoding = std::max(encoding, result.first.Encoding(limit, false));
  CompactValue value;
  SetValue::Create(&value, encoding == SetValue::kIntegers ? "0" : "", 0, limit);
  SetValue set(&value);
  if (encoding == SetValue::kTable) set.MakeTable();
  for (size_t i = 0; i < members.size(); ++i) {
    set.Add(members[i], limit);
    if (work != nullptr) work->Step();
  }
  return value;
}

KeyEvent StoreEvent(Operation operation) {
  switch (operation) {
    case Operation::kInter:
      return KeyEvent::kSInterStore;
    case Operation::kUnion:
      return KeyEvent::kSUnionStore;
    case Operation::kDiff:
      break;
  }
  return KeyEvent::kSDiffStore;
}

// The key becomes the set, whatever it was; nothing for an empty one.
void Store(ShardContext& cx, Operation operation, std::string_view key, Result& result) {
  if (result.size() == 0) {
    cx.Delete(key);
    return;
  }
  ShardContext::Detached made;
  made.value = result.set ? *std::exchange(result.set, std::nullopt)
                          : MakeSet(result, cx.shard().set_limit());
  cx.access_clock().Start(made.value, cx.noted_ms());
  made.is_sticky = cx.IsSticky(key).value_or(false);
  cx.Put(key, std::move(made), StoreEvent(operation));
}

// --- Sets of several shards ---

class AcrossShards {
 public:
  AcrossShards(CoordinatorContext& cx, Keys keys) : parts_(cx, keys) {}

  // Before Run.
  void SetTarget(std::string_view key) {
    parts_.SetTarget(key);
    in_slices_ = true;
  }
  // The first hop is not the last one of a union without a target, so large sets can be read in
  // slices. Before Run.
  void SetInSlices() { in_slices_ = true; }
  bool is_in_one_shard() { return parts_.items().size() == 1; }
  // Nobody needs more members than this. Before Run.
  void set_most(uint64_t most) { most_ = most; }

  // Once. None if one of the keys is no set, or if it needs slices and may have none: then it has
  // done nothing. Suspends, as Store does.
  std::optional<Result> Run(Operation operation) {
    if (is_in_one_shard()) {
      std::optional<Result> found;
      if (!ComputeInOne(operation, &found)) return std::nullopt;
      if (found) return found;
    } else if (operation == Operation::kUnion ? !CopyToUnite() : !Survey()) {
      return std::nullopt;
    }
    Result result;
    switch (operation) {
      case Operation::kInter:
        Intersect(&result);
        break;
      case Operation::kUnion:
        Unite(&result);
        break;
      case Operation::kDiff:
        Subtract(&result);
        break;
    }
    return result;
  }

  bool needs_slices() const { return needs_slices_; }

  // Returns the size of the set.
  size_t Store(Operation operation, std::string_view key, Result& result) {
    if (!result.set && result.size() > kLargeMembers) {
      helio::LongWork work;
      result.set = MakeSet(result, parts_.items()[0].part.limit, &work);
    }
    const size_t size = result.size();
    parts_.HopToTarget([&](ShardContext& cx) { dfly::Store(cx, operation, key, result); });
    return size;
  }

 private:
  // What a shard says of its keys.
  struct Part {
    bool is_wrong_type = false;
    bool has_absent = false;
    bool starts_packed = false;  // the smallest set is not integers
    size_t smallest = SIZE_MAX;  // size of the smallest set
    size_t smallest_at = 0;      // and which of the keys it has
    size_t largest = 0;
    size_t first = 0;          // of the first one
    DifferenceCost cost = {};  // of all
    SetLimit limit = {};
    MemberList members = {};          // SUNION
    std::vector<uint8_t> marks = {};  // for each member of another shard's list
    // How far slices have come.
    size_t key_at = 0;    // of the item's keys
    uint32_t cursor = 0;  // in that one
    size_t mark_at = 0;   // in the list
  };
  using Parts = KeyParts<Part>;
  using Item = Parts::Item;

  // Only the target is elsewhere, if that. False: one of the keys is no set, or it is refused.
  // Nothing is found where one of the sets is large.
  bool ComputeInOne(Operation operation, std::optional<Result>* result) {
    const auto compute = [&](ShardContext& cx, Item& item) {
      const std::optional<Sets> sets = FindSets(cx, item.keys);
      item.part.is_wrong_type = !sets;
      if (!sets) return;
      Note(cx, *sets, &item);
      const bool is_large =
          operation == Operation::kUnion ? IsLarge(item) : item.part.largest > kLargeMembers;
      if (!in_slices_ || !is_large) *result = Compute(operation, *sets);
    };
    return parts_.Hop(compute, MoreIf(in_slices_)) && !IsWrongType();
  }

  bool IsWrongType() {
    return std::any_of(parts_.items().begin(), parts_.items().end(),
                       [](const Item& item) { return item.part.is_wrong_type; });
  }

  // What the shards have. False if one of the keys is no set, or it is refused.
  bool Survey() {
    const auto look = [](ShardContext& cx, Item& item) {
      const std::optional<Sets> sets = FindSets(cx, item.keys);
      item.part.is_wrong_type = !sets;
      if (sets) Note(cx, *sets, &item);
    };
    return parts_.Hop(look, Parts::More::kYes) && !IsWrongType();
  }
  static void Note(ShardContext& cx, const Sets& sets, Item* item) {
    Part* const part = &item->part;
    part->limit = cx.shard().set_limit();
    part->has_absent = HasAbsent(sets);
    part->first = SizeOf(sets[0]);
    part->cost.Add(sets);
    for (size_t i = 0; i < sets.size(); ++i) {
      const MaybeSet& set = sets[i];
      part->largest = std::max(part->largest, SizeOf(set));
      if (!set || set->size() >= part->smallest) continue;
      part->smallest = set->size();
      part->smallest_at = i;
      part->starts_packed = set->encoding() != SetValue::kIntegers;
    }
  }

  // Keeps of `list` what nobody has marked.
  void KeepUnmarked(const MemberList& list, MemberList* kept) {
    helio::LongWork work;
    for (size_t i = 0; i < list.size(); ++i) {
      const bool is_marked = std::any_of(
          parts_.items().begin(), parts_.items().end(),
          [i](const Item& item) { return !item.part.marks.empty() && item.part.marks[i] != 0; });
      if (!is_marked) kept->Add(list[i]);
      work.Step();
    }
  }

  // function(ShardContext&, Item&) on the shard of `base`.
  template <typename F>
  void HopTo(const Item& base, F&& function) {
    parts_.HopOn([&base](const Item& item) { return &item == &base; }, function, Parts::More::kYes);
  }
  // The others mark members of `list`: mark(const Sets&, first, last, std::vector<uint8_t>*).
  template <typename F>
  void MarkOnOthers(const Item& base, const MemberList& list, F&& mark) {
    if (parts_.items().size() == 1) return;
    const auto others = [&base](const Item& item) { return &item != &base; };
    const auto mark_some = [&](ShardContext& cx, Item& item) {
      Part& part = item.part;
      const Sets sets = FindAgain(cx, item.keys);
      part.marks.resize(list.size());
      const size_t first = part.mark_at;
      part.mark_at = std::min(list.size(), first + kSliceMembers);
      mark(sets, first, part.mark_at, &part.marks);
      return part.mark_at < list.size();
    };
    if (list.size() > kSliceMembers) return parts_.HopInSlices(others, mark_some);
    parts_.HopOn(others, mark_some);
  }

  void Intersect(Result* result) {
    std::vector<Item>& items = parts_.items();
    for (const Item& item : items) {
      if (item.part.has_absent) return;
    }
    Item& base = *std::min_element(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return a.part.smallest < b.part.smallest;
    });
    result->starts_packed = base.part.starts_packed;
    MemberList list;
    if (base.part.smallest > kLargeMembers) {
      IntersectInSlices(base, &list);
    } else {
      HopTo(base, [&list](ShardContext& cx, Item& item) {
        ForEachOfAll(FindAgain(cx, item.keys), [&list](std::string_view member) {
          list.Add(member);
          return true;
        });
      });
    }
    if (list.empty()) return;
    MarkOnOthers(base, list,
                 [&list](const Sets& sets, size_t first, size_t last, std::vector<uint8_t>* marks) {
                   const bool is_empty = HasAbsent(sets);
                   for (size_t i = first; i < last; ++i) {
                     (*marks)[i] = is_empty || !AllHave(sets, list[i]);
                   }
                 });
    KeepUnmarked(list, &result->members);
  }

  // What the sets of `base` have in common.
  void IntersectInSlices(const Item& base, MemberList* list) {
    // Other shards may not have what is found here, so all of it is looked for.
    const uint64_t most = is_in_one_shard() ? most_ : UINT64_MAX;
    parts_.HopInSlices([&base](const Item& item) { return &item == &base; },
                       [list, most](ShardContext& cx, Item& item) {
                         Part& part = item.part;
                         const Sets sets = FindAgain(cx, item.keys);
                         ScanSome(*sets[part.smallest_at], &part.cursor,
                                  [&](std::string_view member) {
                                    if (AllHave(sets, member)) list->Add(member);
                                  });
                         return part.cursor != 0 && list->size() < most;
                       });
  }

  void Subtract(Result* result) {
    const Item& base = parts_.items()[0];  // has the first key first
    if (base.part.first == 0) return;
    DifferenceCost cost;
    for (const Item& item : parts_.items()) {
      cost.sets += item.part.cost.sets;
      cost.members += item.part.cost.members;
    }
    const bool notes_first = parts_.has_target() && cost.CopiesFirst(base.part.first);
    MemberList list;
    if (base.part.first > kLargeMembers) {
      SubtractInSlices(base, notes_first ? result : nullptr, &list);
    } else {
      HopTo(base, [&](ShardContext& cx, Item& item) {
        const Sets sets = FindAgain(cx, item.keys);
        if (notes_first && sets[0]) NoteFirst(*sets[0], result);
        AddDifference(sets, &list);
      });
    }
    if (list.empty()) return;
    MarkOnOthers(base, list,
                 [&list](const Sets& sets, size_t first, size_t last, std::vector<uint8_t>* marks) {
                   const AnyOf any(sets, last - first);
                   for (size_t i = first; i < last; ++i) (*marks)[i] = any.Has(list[i]);
                 });
    KeepUnmarked(list, &result->members);
  }

  // What the first set of `base` has, and its others have not; `noted`: gets the first one's shape.
  void SubtractInSlices(const Item& base, Result* noted, MemberList* list) {
    if (noted != nullptr) noted->has_first = true;
    parts_.HopInSlices([&base](const Item& item) { return &item == &base; },
                       [noted, list](ShardContext& cx, Item& item) {
                         Part& part = item.part;
                         const Sets sets = FindAgain(cx, item.keys);
                         const AnyOf others(SetSpan(sets).subspan(1), kSliceMembers);
                         ScanSome(*sets[0], &part.cursor, [&](std::string_view member) {
                           if (noted != nullptr) noted->first.Add(member);
                           if (!others.Has(member)) list->Add(member);
                         });
                         return part.cursor != 0;
                       });
  }

  // The first hop of a union. False: as Survey.
  bool CopyToUnite() {
    const auto copy = [](ShardContext& cx, Item& item) {
      const std::optional<Sets> sets = FindSets(cx, item.keys);
      item.part.is_wrong_type = !sets;
      if (!sets) return;
      Note(cx, *sets, &item);
      if (!IsLarge(item)) AddUnion(*sets, &item.part.members);
    };
    if (!parts_.Hop(copy, MoreIf(in_slices_)) || IsWrongType()) return false;
    needs_slices_ = !in_slices_ && HasLarge();
    return !needs_slices_;
  }
  void Unite(Result* result) {
    std::vector<Item>& items = parts_.items();
    if (HasLarge()) {
      parts_.HopInSlices(IsLarge, CopySome);
      if (parts_.has_target()) return UniteLarge(result);
    }
    if (items.size() == 1 && items[0].keys.size() == 1) {
      result->members = std::move(items[0].part.members);
      return;
    }
    helio::LongWork work;
    SetValue::Table seen;
    for (const Item& item : items) {
      const MemberList& members = item.part.members;
      for (size_t i = 0; i < members.size(); ++i) {
        if (seen.Add(members[i])) result->members.Add(members[i]);
        work.Step();
      }
    }
    while (!seen.FreeSome(kSliceMembers)) work.Step();
  }

  // One of its sets is: the union is a table then, whatever the others have.
  static bool IsLarge(const Item& item) {
    const SetLimit& limit = item.part.limit;
    return item.part.largest >
           std::max<size_t>({kLargeMembers, limit.integers, limit.packed.entries});
  }
  bool HasLarge() { return std::any_of(parts_.items().begin(), parts_.items().end(), IsLarge); }
  void UniteLarge(Result* result) {
    helio::LongWork work;
    const SetLimit limit = parts_.items()[0].part.limit;
    CompactValue& value = result->set.emplace();
    SetValue::Create(&value, "", 0, limit);
    SetValue set(&value);
    set.MakeTable();
    for (const Item& item : parts_.items()) {
      const MemberList& members = item.part.members;
      for (size_t i = 0; i < members.size(); ++i) {
        set.Add(members[i], limit);
        work.Step();
      }
    }
  }
  // A slice of the item's sets. What several of them have comes more than once.
  static bool CopySome(ShardContext& cx, Item& item) {
    Part& part = item.part;
    const MaybeSet set = SetOrNone(cx, cx.Peek(item.keys[part.key_at]));
    if (set) {
      ScanSome(*set, &part.cursor, [&part](std::string_view member) { part.members.Add(member); });
    }
    if (part.cursor != 0) return true;
    return ++part.key_at < item.keys.size();
  }
  // A slice of one set.
  template <typename F>
  static void ScanSome(const SetValue& set, uint32_t* cursor, F&& fn) {
    size_t count = 0;
    do {
      *cursor = set.Scan(*cursor, [&](std::string_view member) {
        ++count;
        fn(member);
      });
    } while (*cursor != 0 && count < kSliceMembers);
  }

  // In a later hop: without a trace, as Redis looks once.
  static Sets FindAgain(ShardContext& cx, Keys keys) {
    Sets sets;
    for (std::string_view key : keys) sets.push_back(SetOrNone(cx, cx.Peek(key)));
    return sets;
  }

  static Parts::More MoreIf(bool more) { return more ? Parts::More::kYes : Parts::More::kNo; }

  Parts parts_;
  bool in_slices_ = false;
  bool needs_slices_ = false;
  uint64_t most_ = UINT64_MAX;
};

// --- Handlers ---

template <Operation kOperation>
void Show(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<Result> result = Compute(cx, kOperation, args.from(1));
  if (!result) return reply.Error(kErrWrongType);
  reply.Set(result->size());
  for (size_t i = 0; i < result->size(); ++i) reply.Bulk(result->members[i]);
}

// None if one of the keys is no set. It may find less if that is at least `most`. The locks are
// gone when it returns. Suspends.
std::optional<Result> RunAcross(CoordinatorContext& cx, Operation operation, Keys keys,
                                uint64_t most = UINT64_MAX) {
  std::optional<AcrossShards> sets(std::in_place, cx, keys);
  if (sets->is_in_one_shard()) sets->SetInSlices();  // one of them is large
  sets->set_most(most);
  std::optional<Result> result = sets->Run(operation);
  if (sets->needs_slices()) {
    sets.emplace(cx, keys);
    sets->SetInSlices();
    result = sets->Run(operation);
  }
  return result;
}

// Suspends.
template <Operation kOperation>
void ShowAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::optional<Result> result = RunAcross(cx, kOperation, args.from(1));
  if (!result) return reply.Error(kErrWrongType);
  reply.Set(result->size());
  ReplyWithMembers(result->members, reply);  // long ones, without locks
}

template <Operation kOperation>
void Keep(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<Result> result = Compute(cx, kOperation, args.from(2));
  if (!result) return reply.Error(kErrWrongType);
  Store(cx, kOperation, args.key(), *result);
  reply.Integer(static_cast<int64_t>(result->members.size()));
}

// Suspends.
template <Operation kOperation>
void KeepAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  AcrossShards sets(cx, args.from(2));
  sets.SetTarget(args.key());
  std::optional<Result> result = sets.Run(kOperation);
  if (!result) return reply.Error(kErrWrongType);
  reply.Integer(static_cast<int64_t>(sets.Store(kOperation, args.key(), *result)));
}

struct CountOptions {
  Keys keys;
  uint64_t limit = UINT64_MAX;
};

// numkeys key [key ...] [LIMIT limit], and for SUNIONCARD also [APPROX], which is allowed to be
// exact. Replies the error and returns none if they are not valid.
std::optional<CountOptions> ParseCount(Operation operation, Args args, ReplySink& reply) {
  const auto count = ParseAtLeast(1, args[1], "ERR numkeys should be greater than 0", reply);
  if (!count) return std::nullopt;
  if (static_cast<uint64_t>(*count) > args.size() - 2) {
    return Refuse(reply, "ERR Number of keys can't be greater than number of args");
  }
  CountOptions options = {.keys = args.from(2).first(static_cast<size_t>(*count))};
  for (size_t i = 2 + options.keys.size(); i < args.size(); ++i) {
    if (operation == Operation::kUnion && IsOption(args[i], "APPROX")) continue;
    if (!IsOption(args[i], "LIMIT") || i + 1 == args.size()) return Refuse(reply, kErrSyntax);
    const auto limit = ParseAtLeast(0, args[++i], "ERR LIMIT can't be negative", reply);
    if (!limit) return std::nullopt;
    options.limit = *limit == 0 ? UINT64_MAX : static_cast<uint64_t>(*limit);
  }
  return options;
}

void SInterCard(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<CountOptions> options = ParseCount(Operation::kInter, args, reply);
  if (!options) return;
  const std::optional<Sets> sets = FindSets(cx, options->keys);
  if (!sets) return reply.Error(kErrWrongType);
  uint64_t count = 0;
  ForEachOfAll(*sets, [&](std::string_view) { return ++count < options->limit; });
  reply.Integer(static_cast<int64_t>(count));
}

uint64_t CountUnion(const Sets& sets, uint64_t limit) {
  uint64_t largest = 0, others = 0;
  for (const MaybeSet& set : sets) {
    others += std::min<uint64_t>(largest, SizeOf(set));
    largest = std::max<uint64_t>(largest, SizeOf(set));
  }
  if (largest >= limit) return limit;
  return others == 0 ? largest : std::min<uint64_t>(limit, Compute(Operation::kUnion, sets).size());
}

uint64_t CountDifference(const Sets& sets, uint64_t limit) {
  if (!sets[0]) return 0;
  const AnyOf others(SetSpan(sets).subspan(1), SizeOf(sets[0]));
  uint64_t count = 0;
  sets[0]->ForEachUntil(
      [&](std::string_view member) { return others.Has(member) || ++count < limit; });
  return count;
}

void SUnionCard(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<CountOptions> options = ParseCount(Operation::kUnion, args, reply);
  if (!options) return;
  const std::optional<Sets> sets = FindSets(cx, options->keys);
  if (!sets) return reply.Error(kErrWrongType);
  reply.Integer(static_cast<int64_t>(CountUnion(*sets, options->limit)));
}

void SDiffCard(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<CountOptions> options = ParseCount(Operation::kDiff, args, reply);
  if (!options) return;
  const std::optional<Sets> sets = FindSets(cx, options->keys);
  if (!sets) return reply.Error(kErrWrongType);
  reply.Integer(static_cast<int64_t>(CountDifference(*sets, options->limit)));
}

// Suspends.
template <Operation kOperation>
void CountAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<CountOptions> options = ParseCount(kOperation, args, reply);
  if (!options) return;
  const auto result = RunAcross(cx, kOperation, options->keys, options->limit);
  if (!result) return reply.Error(kErrWrongType);
  reply.Integer(static_cast<int64_t>(std::min<uint64_t>(result->size(), options->limit)));
}

}  // namespace

void ShowInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ShowAcross<Operation::kUnion>(cx, args, reply);
}

void RegisterSetOperations(CommandTable* table) {
  const auto add = [table](std::string_view name, ShardHandler run, CoordinatorHandler across,
                           int arity, uint32_t flags, KeySpec keys, std::string_view summary,
                           std::string_view since, std::string_view complexity,
                           std::string_view tips = {}) {
    table->Add({.name = name,
                .run = run,
                .across = across,
                .slices = true,
                .arity = arity,
                .flags = flags,
                .categories = kAclSet,
                .keys = keys,
                .docs = {summary, since, "set", complexity},
                .tips = tips});
  };
  constexpr Operation kInter = Operation::kInter;
  constexpr Operation kUnion = Operation::kUnion;
  constexpr Operation kDiff = Operation::kDiff;
  constexpr std::string_view kSmallestTimesSets =
      "O(N*M) where N is the size of the smallest set and M is the number of sets.";
  constexpr std::string_view kAllMembers = "O(N) where N is the number of members of all sets.";
  constexpr std::string_view kAnyOrder = "nondeterministic_output_order";
  add("sinter", Show<kInter>, ShowAcross<kInter>, -2, kReadonly, KeysFrom(1),
      "Returns what sets have in common.", "1.0.0", kSmallestTimesSets, kAnyOrder);
  add("sunion", Show<kUnion>, ShowAcross<kUnion>, -2, kReadonly, KeysFrom(1),
      "Returns what sets have together.", "1.0.0", kAllMembers, kAnyOrder);
  add("sdiff", Show<kDiff>, ShowAcross<kDiff>, -2, kReadonly, KeysFrom(1),
      "Returns what the first set has and the others have not.", "1.0.0", kAllMembers, kAnyOrder);
  constexpr uint32_t kKeeps = kWrite | kDenyOom;
  add("sinterstore", Keep<kInter>, KeepAcross<kInter>, -3, kKeeps,
      TargetAndKeys("RW update", "RO access"), "Makes a set of what sets have in common.", "1.0.0",
      kSmallestTimesSets);
  add("sunionstore", Keep<kUnion>, KeepAcross<kUnion>, -3, kKeeps,
      TargetAndKeys("OW update", "RO access"), "Makes a set of what sets have together.", "1.0.0",
      kAllMembers);
  add("sdiffstore", Keep<kDiff>, KeepAcross<kDiff>, -3, kKeeps,
      TargetAndKeys("OW update", "RO access"),
      "Makes a set of what the first set has and the others have not.", "1.0.0", kAllMembers);
  add("sintercard", SInterCard, CountAcross<kInter>, -3, kReadonly | kMovableKeys, KeysCountedAt(1),
      "Returns how many members sets have in common.", "7.0.0", kSmallestTimesSets);
  add("sunioncard", SUnionCard, CountAcross<kUnion>, -3, kReadonly | kMovableKeys, KeysCountedAt(1),
      "Returns how many members sets have together.", "8.10.0", kAllMembers);
  add("sdiffcard", SDiffCard, CountAcross<kDiff>, -3, kReadonly | kMovableKeys, KeysCountedAt(1),
      "Returns how many members the first set has and the others have not.", "8.10.0", kAllMembers);
}

}  // namespace dfly
