// SPDX-License-Identifier: Apache-2.0
// What several sorted sets, or plain sets with scores of 1, have together (ZUNION), in common
// (ZINTER), or the first one alone (ZDIFF): to look at, to count or to keep.
//
// A score of the result is made of those of the inputs one after another, from the smallest input
// to the largest: sums of doubles depend on the order, and this is Redis'.
//
// Over shards:
//
//   ZUNION   one hop: each shard copies what its inputs have
//   ZINTER   hop 1: the sizes. 2: the smallest input is copied. 3: all others tell, at once, what
//            scores they have for the members of that list
//   ZDIFF    the same with the first input
//
// and one more hop writes the target.
//
// Large inputs are read, and a large result is made, in slices (set_operations.cc). In one shard
// ZINTER goes over the smallest input, and ZDIFF over the first one, and asks the others there.
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/collections/set_commands.h"
#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "commands/table/numbers.h"
#include "commands/zsets/zset_commands.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/base/ascii.h"

namespace dfly {

namespace {

enum class Operation : uint8_t { kInter, kUnion, kDiff };
enum class Aggregate : uint8_t {
  kSum,
  kMin,
  kMax,
  kCount,  // the sum of the weights of those that have the member
};
enum class Form : uint8_t { kShow, kStore, kCount };

using Keys = std::span<const std::string_view>;

// --- Arguments ---

struct Options {
  Keys keys;
  std::vector<double> weights;  // of each key
  Aggregate aggregate = Aggregate::kSum;
  bool with_scores = false;
  uint64_t limit = UINT64_MAX;
  // Redis looks at the types of the keys first.
  std::string_view error = {};
};

// Servers before Redis 8.8 do not know COUNT, so the log and replicas get what came out.
bool TellsResult(const Options& options) { return options.aggregate == Aggregate::kCount; }

// "numkeys key [key ...] options" from args[at] on. Replies the error and returns none if the keys
// cannot be told.
std::optional<Options> Parse(Args args, size_t at, Operation operation, Form form,
                             ReplySink& reply) {
  const std::optional<int64_t> count = ParseInt64(args[at]);
  if (!count) return Refuse(reply, kErrNotInteger);
  if (*count < 1) {
    return Refuse(reply, "ERR at least 1 input key is needed for '" +
                             helio::LowerCase(args.name()) + "' command");
  }
  if (static_cast<uint64_t>(*count) > args.size() - at - 1) return Refuse(reply, kErrSyntax);
  const auto key_count = static_cast<size_t>(*count);
  Options options = {.keys = args.from(at + 1).first(key_count),
                     .weights = std::vector<double>(key_count, 1)};
  const bool has_scores = operation != Operation::kDiff && form != Form::kCount;
  const auto fail = [&options](std::string_view error) {
    options.error = error;
    return options;
  };
  for (size_t i = at + 1 + key_count; i < args.size(); ++i) {
    const size_t behind = args.size() - i - 1;
    if (has_scores && behind >= key_count && IsOption(args[i], "WEIGHTS")) {
      for (double& weight : options.weights) {
        const std::optional<double> number = ParseDouble(args[++i]);
        if (!number) return fail("ERR weight value is not a float");
        weight = *number;
      }
    } else if (has_scores && behind >= 1 && IsOption(args[i], "AGGREGATE")) {
      ++i;
      if (IsOption(args[i], "SUM")) {
        options.aggregate = Aggregate::kSum;
      } else if (IsOption(args[i], "MIN")) {
        options.aggregate = Aggregate::kMin;
      } else if (IsOption(args[i], "MAX")) {
        options.aggregate = Aggregate::kMax;
      } else if (IsOption(args[i], "COUNT")) {
        options.aggregate = Aggregate::kCount;
      } else {
        return fail(kErrSyntax);
      }
    } else if (form == Form::kShow && IsOption(args[i], "WITHSCORES")) {
      options.with_scores = true;
    } else if (form == Form::kCount && behind >= 1 && IsOption(args[i], "LIMIT")) {
      const std::optional<int64_t> limit = ParseInt64(args[++i]);
      if (!limit || *limit < 0) return fail("ERR LIMIT can't be negative");
      options.limit = *limit == 0 ? UINT64_MAX : static_cast<uint64_t>(*limit);
    } else {
      return fail(kErrSyntax);
    }
  }
  return options;
}

// --- Inputs and scores ---

// A sorted set, a set, or nothing: an absent key. Stays where it is as long as the shard's table
// does not change.
class Input {
 public:
  Input() = default;
  Input(const CompactValue* value, int64_t now_ms) : value_(value), now_ms_(now_ms) {}

  size_t size() const {
    if (value_ == nullptr) return 0;
    return is_zset() ? ToRead(*value_).size() : set().size();
  }
  std::optional<double> Score(std::string_view member) const {
    if (value_ == nullptr) return std::nullopt;
    if (is_zset()) return ToRead(*value_).Score(member);
    return set().Has(member) ? std::optional<double>(1) : std::nullopt;
  }
  // fn(member, score) until it returns false; a large set goes on then, without calling it.
  template <typename F>
  void ForEachUntil(F&& fn) const {
    if (value_ == nullptr) return;
    if (!is_zset()) {
      return set().ForEachUntil([&fn](std::string_view member) { return fn(member, 1.0); });
    }
    bool goes_on = true;
    ToRead(*value_).ForEach([&](std::string_view member, double score) {
      if (goes_on) goes_on = fn(member, score);
    });
  }
  void CopyTo(ScoredMembers* out) const {
    ForEachUntil([out](std::string_view member, double score) {
      out->Add(member, score);
      return true;
    });
  }
  // A slice of about `count`: fn(member, score) for each. False at the end.
  template <typename F>
  bool ScanSome(size_t count, uint32_t* cursor, F&& fn) const {
    if (value_ == nullptr) return false;
    size_t seen = 0;
    const auto see = [&](std::string_view member, double score) {
      ++seen;
      fn(member, score);
    };
    do {
      *cursor = is_zset()
                    ? ToRead(*value_).Scan(*cursor, see)
                    : set().Scan(*cursor, [&see](std::string_view member) { see(member, 1.0); });
    } while (*cursor != 0 && seen < count);
    return *cursor != 0;
  }
  // An absent one has no members, also of those that it had before.
  bool CopySome(uint32_t* cursor, ScoredMembers* out) const {
    if (value_ == nullptr) out->Clear();
    return ScanSome(kSliceMembers, cursor,
                    [out](std::string_view member, double score) { out->Add(member, score); });
  }

 private:
  bool is_zset() const { return value_->type() == ValueType::kZset; }
  const SetValue set() const { return SetValue(*value_, now_ms_); }

  const CompactValue* value_ = nullptr;
  int64_t now_ms_ = 0;
};

// None if the key is something else. `leaves_trace`: as FindReadOnly, else as Peek.
std::optional<Input> FindInput(ShardContext& cx, std::string_view key, bool leaves_trace = true) {
  const auto value = leaves_trace ? cx.FindReadOnly(key) : cx.Peek(key);
  if (!value) return Input();
  if (value->type() != ValueType::kZset && value->type() != ValueType::kSet) return std::nullopt;
  return Input(&*value, cx.now_ms());
}

// In a later hop: without a trace, as Redis looks once.
Input FindAgain(ShardContext& cx, std::string_view key) {
  const auto value = cx.Peek(key);
  return value ? Input(&*value, cx.now_ms()) : Input();
}

// What input number `index` adds to a member that it has: NaN if its score is, or for infinity
// times 0.
double Share(double score, size_t index, const Options& options) {
  const double weight = options.weights[index];
  return options.aggregate == Aggregate::kCount ? weight : score * weight;
}
double FirstShare(double score, size_t index, const Options& options) {
  const double share = Share(score, index, options);
  return std::isnan(share) ? 0 : share;
}

// `other` may be infinity times 0: that leaves a minimum or maximum alone and makes a sum 0, as in
// Redis.
double Combine(double score, double other, Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::kMin:
      return std::min(score, other);
    case Aggregate::kMax:
      return std::max(score, other);
    case Aggregate::kSum:
    case Aggregate::kCount:
      break;
  }
  const double sum = score + other;
  return std::isnan(sum) ? 0 : sum;  // infinity and minus infinity, too
}

// The order in which inputs are gone through: the smallest first.
std::vector<size_t> BySize(std::span<const size_t> sizes) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [sizes](size_t a, size_t b) { return sizes[a] < sizes[b]; });
  return order;
}

// Makes a union of members that come with a score, in any order, input by input.
class Union {
 public:
  explicit Union(Aggregate aggregate) : aggregate_(aggregate) {}
  // `member` lives as long as this.
  void Add(std::string_view member, double score) {
    const auto [it, is_new] = scores_.try_emplace(member, score);
    if (!is_new) it->second = Combine(it->second, score, aggregate_);
  }
  // For about so many: nothing is moved then.
  void Reserve(size_t count) { scores_.reserve(count); }
  ScoredMembers result(helio::LongWork* work) const {
    ScoredMembers result;
    result.Reserve(scores_.size());
    for (const auto& [member, score] : scores_) {
      result.Add(member, score);
      if (work != nullptr) work->Step();
    }
    return result;
  }

 private:
  struct Hash {
    size_t operator()(std::string_view member) const { return HashKey(member); }
  };
  const Aggregate aggregate_;
  absl::flat_hash_map<std::string_view, double, Hash, std::equal_to<std::string_view>> scores_;
};

// `work`: null in a brief.
ScoredMembers UnionOf(std::span<const ScoredMembers> inputs, const Options& options,
                      helio::LongWork* work = nullptr) {
  std::vector<size_t> sizes;
  for (const ScoredMembers& input : inputs) sizes.push_back(input.size());
  Union all(options.aggregate);
  if (work != nullptr) all.Reserve(std::accumulate(sizes.begin(), sizes.end(), size_t{0}));
  for (size_t index : BySize(sizes)) {
    const ScoredMembers& input = inputs[index];
    for (size_t i = 0; i < input.size(); ++i) {
      all.Add(input.members[i], FirstShare(input.scores[i], index, options));
      if (work != nullptr) work->Step();
    }
  }
  return all.result(work);
}

// --- Inputs of one shard ---

// What all make of a member that inputs[order[0]] has; none if one of them has it not.
std::optional<double> CommonScore(std::span<const Input> inputs, std::span<const size_t> order,
                                  std::string_view member, double score, const Options& options) {
  double combined = FirstShare(score, order[0], options);
  for (size_t index : order.subspan(1)) {
    const std::optional<double> other = inputs[index].Score(member);
    if (!other) return std::nullopt;
    combined = Combine(combined, Share(*other, index, options), options.aggregate);
  }
  return combined;
}
// fn(member, score) for what all have in common, until it returns false.
template <typename F>
void Intersect(std::span<const Input> inputs, const Options& options, F&& fn) {
  std::vector<size_t> sizes;
  for (const Input& input : inputs) sizes.push_back(input.size());
  const std::vector<size_t> order = BySize(sizes);
  inputs[order[0]].ForEachUntil([&](std::string_view member, double score) {
    const auto combined = CommonScore(inputs, order, member, score, options);
    return !combined || fn(member, *combined);
  });
}

// One of those behind the first has it.
bool IsElsewhere(std::span<const Input> inputs, std::string_view member) {
  return std::any_of(inputs.begin() + 1, inputs.end(),
                     [member](const Input& input) { return input.Score(member).has_value(); });
}
ScoredMembers Subtract(std::span<const Input> inputs) {
  ScoredMembers result;
  inputs[0].ForEachUntil([&](std::string_view member, double score) {
    if (!IsElsewhere(inputs, member)) result.Add(member, score);
    return true;
  });
  return result;
}

// None if one of the keys is of another type.
std::optional<std::vector<Input>> FindInputs(ShardContext& cx, Keys keys) {
  cx.ExpectKeys(keys);
  std::vector<Input> inputs;
  for (std::string_view key : keys) {
    const std::optional<Input> input = FindInput(cx, key);
    if (!input) return std::nullopt;
    inputs.push_back(*input);
  }
  return inputs;
}

ScoredMembers Compute(std::span<const Input> inputs, Operation operation, const Options& options) {
  ScoredMembers result;
  switch (operation) {
    case Operation::kInter:
      Intersect(inputs, options, [&result](std::string_view member, double score) {
        result.Add(member, score);
        return true;
      });
      return result;
    case Operation::kUnion: {
      std::vector<ScoredMembers> copies(inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i].CopyTo(&copies[i]);
      return UnionOf(copies, options);
    }
    case Operation::kDiff:
      break;
  }
  return Subtract(inputs);
}

// --- Inputs of several shards ---

class AcrossShards {
 public:
  AcrossShards(CoordinatorContext& cx, const Options& options)
      : parts_(cx, options.keys), options_(options), keys_(options.keys) {}

  // Before Run.
  void SetTarget(std::string_view key) {
    parts_.SetTarget(key);
    in_slices_ = true;
  }
  // The first hop is not the last one of a union without a target, so large inputs can be read in
  // slices. Before Run.
  void SetInSlices() { in_slices_ = true; }
  // Another one has looked at the inputs, and left its traces. Before Run.
  void SetLookedAt() { leaves_trace_ = false; }
  // Only the number of members is wanted: what is found is counted() and has none. Before Run.
  void SetCounts() { counts_ = true; }
  uint64_t counted() const { return counted_; }
  bool is_in_one_shard() { return parts_.items().size() == 1; }

  // Once. None if an error was replied, or if it needs slices and may have none: then it has done
  // nothing. Suspends, as Store does.
  std::optional<ScoredMembers> Run(Operation operation, ReplySink& reply) {
    std::vector<ScoredMembers> copies(keys_.size());
    const bool is_alone = is_in_one_shard() && in_slices_;
    const bool copies_all = operation == Operation::kUnion && options_.error.empty() && !is_alone;
    std::optional<ScoredMembers> found;
    const bool is_right =
        is_alone ? ComputeInOne(operation, &found) : Survey(copies_all ? &copies : nullptr);
    if (!is_right) return Refuse(reply, kErrWrongType);
    if (!options_.error.empty()) return Refuse(reply, options_.error);
    if (found) return found;
    if (operation == Operation::kUnion) {
      needs_slices_ = !in_slices_ && HasLarge();
      if (needs_slices_) return std::nullopt;
      CopyLarge(&copies);
      return UnionOf(copies, options_, &work_);
    }
    const std::vector<size_t> by_size = BySize(sizes_);
    if (is_alone) return GoOver(operation, by_size);
    if (operation == Operation::kInter) return Intersect(by_size);
    return Subtract();
  }

  bool needs_slices() const { return needs_slices_; }

  void Store(std::string_view key, const ScoredMembers& found, KeyEvent event) {
    const Storing storing = {.event = event,
                             .limit = parts_.items()[0].part.limit,
                             .tells_result = TellsResult(options_)};
    StoreZset(parts_, key, found, storing, &work_);
  }

 private:
  struct Part {
    PackedLimit limit = {};
    // How far slices have come.
    size_t at = 0;        // of the item's keys, or of a list's rows
    uint32_t cursor = 0;  // in that key
  };
  using Parts = KeyParts<Part>;
  using Item = Parts::Item;

  void Look(ShardContext& cx, Item* item) const { item->part.limit = cx.shard().zset_limit(); }

  // The sizes of the inputs, and if asked for copies of them: then that was all that is read. False
  // if one is of another type, or it is refused.
  bool Survey(std::vector<ScoredMembers>* copies) {
    sizes_.resize(keys_.size());
    std::vector<uint8_t> is_wrong(keys_.size(), 0);  // bytes, since shards write at the same time
    const auto look = [&](ShardContext& cx, Item& item) {
      Look(cx, &item);
      for (size_t i : item.indexes) {
        const std::optional<Input> input = FindInput(cx, keys_[i], leaves_trace_);
        is_wrong[i] = !input;
        if (!input) continue;
        sizes_[i] = input->size();
        if (copies != nullptr && !IsCopiedLater(i)) input->CopyTo(&(*copies)[i]);
      }
    };
    const bool has_all = copies != nullptr && !in_slices_;
    if (!parts_.Hop(look, has_all ? Parts::More::kNo : Parts::More::kYes)) return false;
    return std::count(is_wrong.begin(), is_wrong.end(), 1) == 0;
  }

  // Only the target is elsewhere, if that. False: as Survey. Nothing is found where an input is
  // large.
  bool ComputeInOne(Operation operation, std::optional<ScoredMembers>* found) {
    bool is_wrong = false;
    const auto compute = [&](ShardContext& cx, Item& item) {
      Look(cx, &item);
      const auto inputs = FindInputs(cx, keys_);
      is_wrong = !inputs;
      if (!inputs || !options_.error.empty()) return;
      for (const Input& input : *inputs) sizes_.push_back(input.size());
      if (*std::max_element(sizes_.begin(), sizes_.end()) <= kLargeMembers) {
        *found = Compute(*inputs, operation, options_);
        counted_ = (*found)->size();
      }
    };
    if (!parts_.Hop(compute, Parts::More::kYes)) return false;
    copies_later_ = true;
    return !is_wrong;
  }

  // The inputs are in one shard, and one of them is large.
  ScoredMembers GoOver(Operation operation, std::span<const size_t> by_size) {
    const bool is_inter = operation == Operation::kInter;
    const size_t base = is_inter ? by_size[0] : 0;
    const size_t slice = std::max<size_t>(kSliceMembers / keys_.size(), 16);
    ScoredMembers result;
    uint32_t cursor = 0;
    parts_.HopInSlices([](const Item&) { return true; },
                       [&](ShardContext& cx, const Item&) {
                         std::vector<Input> inputs;
                         for (std::string_view key : keys_) inputs.push_back(FindAgain(cx, key));
                         const auto look = [&](std::string_view member, double score) {
                           std::optional<double> its = score;
                           if (is_inter) {
                             its = CommonScore(inputs, by_size, member, score, options_);
                           } else if (IsElsewhere(inputs, member)) {
                             its.reset();
                           }
                           if (its) Take(member, *its, &result);
                         };
                         return inputs[base].ScanSome(slice, &cursor, look) &&
                                counted_ < options_.limit;
                       });
    return result;
  }

  void Take(std::string_view member, double score, ScoredMembers* result) {
    ++counted_;
    if (!counts_) result->Add(member, score);
  }

  bool IsCopiedLater(size_t index) const { return copies_later_ || sizes_[index] > kLargeMembers; }
  bool HasLarge() const {
    return std::any_of(sizes_.begin(), sizes_.end(),
                       [](size_t size) { return size > kLargeMembers; });
  }
  void CopyLarge(std::vector<ScoredMembers>* copies) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (IsCopiedLater(i)) (*copies)[i].Reserve(sizes_[i]);
    }
    const auto is_large = [this](const Item& item) {
      return std::any_of(item.indexes.begin(), item.indexes.end(),
                         [this](size_t index) { return IsCopiedLater(index); });
    };
    parts_.HopInSlices(is_large, [&](ShardContext& cx, Item& item) {
      Part& part = item.part;
      const size_t index = item.indexes[part.at];
      ScoredMembers& copy = (*copies)[index];
      const bool goes_on =
          IsCopiedLater(index) && FindAgain(cx, keys_[index]).CopySome(&part.cursor, &copy);
      if (goes_on) return true;
      part.cursor = 0;
      return ++part.at < item.indexes.size();
    });
  }

  ScoredMembers CopyOf(size_t index) {
    ScoredMembers copy;
    copy.Reserve(sizes_[index]);
    uint32_t cursor = 0;
    const auto has_it = [index](const Item& item) {
      return std::find(item.indexes.begin(), item.indexes.end(), index) != item.indexes.end();
    };
    parts_.HopInSlices(has_it, [&](ShardContext& cx, const Item&) {
      return FindAgain(cx, keys_[index]).CopySome(&cursor, &copy);
    });
    return copy;
  }

  // The scores that each input has for the members of `list`, NaN for none. The last that is read.
  std::vector<std::vector<double>> AskAll(const ScoredMembers& list) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::vector<std::vector<double>> columns(keys_.size());
    const auto ask_some = [&](ShardContext& cx, Item& item) {
      Part& part = item.part;
      std::vector<Input> inputs;
      for (size_t i : item.indexes) inputs.push_back(FindAgain(cx, keys_[i]));
      const size_t end = std::min(list.size(), part.at + kSliceMembers);
      for (size_t k = 0; k < inputs.size(); ++k) {
        std::vector<double>& column = columns[item.indexes[k]];
        column.reserve(list.size());
        for (size_t row = part.at; row < end; ++row) {
          column.push_back(inputs[k].Score(list.members[row]).value_or(kNan));
        }
      }
      part.at = end;
      return end < list.size();
    };
    const auto all = [](const Item&) { return true; };
    if (list.size() > kSliceMembers) {
      parts_.HopInSlices(all, ask_some);
    } else {
      parts_.HopOn(all, ask_some);
    }
    return columns;
  }

  ScoredMembers Intersect(std::span<const size_t> by_size) {
    ScoredMembers result;
    const size_t base = by_size[0];
    if (sizes_[base] == 0) return result;
    const ScoredMembers list = CopyOf(base);
    const std::vector<std::vector<double>> columns = AskAll(list);
    for (size_t row = 0; row < list.size(); ++row) {
      double combined = FirstShare(list.scores[row], base, options_);
      bool is_everywhere = true;
      for (size_t i : by_size.subspan(1)) {
        is_everywhere = is_everywhere && !std::isnan(columns[i][row]);
        combined = Combine(combined, Share(columns[i][row], i, options_), options_.aggregate);
      }
      if (is_everywhere) Take(list.members[row], combined, &result);
      work_.Step();
    }
    return result;
  }

  ScoredMembers Subtract() {
    ScoredMembers result;
    if (sizes_[0] == 0) return result;
    const ScoredMembers list = CopyOf(0);
    const std::vector<std::vector<double>> columns = AskAll(list);
    for (size_t row = 0; row < list.size(); ++row) {
      const bool is_elsewhere = std::any_of(
          columns.begin() + 1, columns.end(),
          [row](const std::vector<double>& column) { return !std::isnan(column[row]); });
      if (!is_elsewhere) result.Add(list.members[row], list.scores[row]);
      work_.Step();
    }
    return result;
  }

  Parts parts_;
  helio::LongWork work_;
  const Options& options_;
  const Keys keys_;
  std::vector<size_t> sizes_;  // of the inputs
  bool in_slices_ = false;
  bool needs_slices_ = false;
  bool leaves_trace_ = true;
  bool counts_ = false;
  uint64_t counted_ = 0;       // members that were found
  bool copies_later_ = false;  // all of them: the first hop only looked
};

// --- Handlers ---

// In the order of a sorted set. `work`: null in a brief.
void ReplyWith(const ScoredMembers& found, bool with_scores, ReplySink& reply,
               helio::LongWork* work = nullptr) {
  const auto step = [work] {
    if (work != nullptr) work->Step();
  };
  std::vector<size_t> order;
  order.reserve(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    order.push_back(i);
    step();
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    step();
    if (found.scores[a] != found.scores[b]) return found.scores[a] < found.scores[b];
    return found.members[a] < found.members[b];
  });
  RangeWriter write(found.size(), with_scores, reply);
  for (size_t index : order) {
    write(found.members[index], found.scores[index]);
    step();
  }
}

KeyEvent StoreEvent(Operation operation) {
  switch (operation) {
    case Operation::kInter:
      return KeyEvent::kZInterStore;
    case Operation::kUnion:
      return KeyEvent::kZUnionStore;
    case Operation::kDiff:
      break;
  }
  return KeyEvent::kZDiffStore;
}

constexpr size_t CountAt(Form form) { return form == Form::kStore ? 2 : 1; }

template <Operation kOperation, Form kForm>
void Run(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<Options> options = Parse(args, CountAt(kForm), kOperation, kForm, reply);
  if (!options) return;
  const auto inputs = FindInputs(cx, options->keys);
  if (!inputs) return reply.Error(kErrWrongType);
  if (!options->error.empty()) return reply.Error(options->error);
  if constexpr (kForm == Form::kCount) {
    uint64_t count = 0;
    Intersect(*inputs, *options,
              [&](std::string_view, double) { return ++count < options->limit; });
    return reply.Integer(static_cast<int64_t>(count));
  }
  const ScoredMembers found = Compute(*inputs, kOperation, *options);
  if (kForm == Form::kShow) return ReplyWith(found, options->with_scores, reply);
  StoreZset(cx, args.key(), found, StoreEvent(kOperation));
  if (TellsResult(*options) && cx.wants_effects()) {
    TellZset(args.key(), found, [&cx](auto words) { cx.TellAll(words); });
  }
  reply.Integer(static_cast<int64_t>(found.size()));
}

// Suspends.
template <Operation kOperation, Form kForm>
void RunAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<Options> options = Parse(args, CountAt(kForm), kOperation, kForm, reply);
  if (!options) return;
  std::optional<AcrossShards> inputs(std::in_place, cx, *options);
  if (kForm == Form::kStore) {
    inputs->SetTarget(args.key());
  } else if (inputs->is_in_one_shard()) {
    inputs->SetInSlices();  // one of them is large
  }
  if (kForm == Form::kCount) inputs->SetCounts();
  std::optional<ScoredMembers> found = inputs->Run(kOperation, reply);
  if (inputs->needs_slices()) {
    // If it would wait for a slow script it is refused, too: nothing has been changed.
    inputs.emplace(cx, *options);
    inputs->SetInSlices();
    inputs->SetLookedAt();
    found = inputs->Run(kOperation, reply);
  }
  if (!found) return;
  if (kForm == Form::kCount) {
    return reply.Integer(static_cast<int64_t>(std::min(inputs->counted(), options->limit)));
  }
  if (kForm == Form::kStore) inputs->Store(args.key(), *found, StoreEvent(kOperation));
  inputs.reset();  // others need not wait for the reply
  if (kForm == Form::kShow) {
    helio::LongWork work;
    return ReplyWith(*found, options->with_scores, reply, &work);
  }
  reply.Integer(static_cast<int64_t>(found->size()));
}

template <Operation kOperation, Form kForm>
void Register(CommandTable* table, std::string_view name, std::string_view summary,
              std::string_view since, std::string_view complexity) {
  constexpr bool kStores = kForm == Form::kStore;
  table->Add({.name = name,
              .run = Run<kOperation, kForm>,
              .across = RunAcross<kOperation, kForm>,
              .slices = true,
              .arity = kStores ? -4 : -3,
              .flags = kMovableKeys | (kStores ? kWrite | kDenyOom : kReadonly),
              .categories = kAclSortedSet,
              .keys = kStores ? TargetAndKeysCounted("OW update", "RO access") : KeysCountedAt(1),
              .docs = {summary, since, "sorted-set", complexity}});
}

}  // namespace

void RegisterZsetOperations(CommandTable* table) {
  constexpr std::string_view kAllMembers =
      "O(N+M*log(M)) where N is the number of members of all inputs and M is that of the result.";
  constexpr std::string_view kSmallestTimesInputs =
      "O(N*K+M*log(M)) where N is the size of the smallest input, K is the number of inputs and M "
      "is the size of the result.";
  constexpr std::string_view kFirstTimesInputs =
      "O(N*K+M*log(M)) where N is the size of the first input, K is the number of inputs and M is "
      "the size of the result.";
  Register<Operation::kUnion, Form::kShow>(
      table, "zunion", "Returns what sorted sets have together.", "6.2.0", kAllMembers);
  Register<Operation::kInter, Form::kShow>(
      table, "zinter", "Returns what sorted sets have in common.", "6.2.0", kSmallestTimesInputs);
  Register<Operation::kDiff, Form::kShow>(
      table, "zdiff", "Returns what the first sorted set has and the others have not.", "6.2.0",
      kFirstTimesInputs);
  Register<Operation::kUnion, Form::kStore>(table, "zunionstore",
                                            "Makes a sorted set of what sorted sets have together.",
                                            "2.0.0", kAllMembers);
  Register<Operation::kInter, Form::kStore>(
      table, "zinterstore", "Makes a sorted set of what sorted sets have in common.", "2.0.0",
      kSmallestTimesInputs);
  Register<Operation::kDiff, Form::kStore>(
      table, "zdiffstore",
      "Makes a sorted set of what the first sorted set has and the others have not.", "6.2.0",
      kFirstTimesInputs);
  Register<Operation::kInter, Form::kCount>(
      table, "zintercard", "Returns how many members sorted sets have in common.", "7.0.0",
      "O(N*K) where N is the size of the smallest input and K is the number of inputs.");
}

}  // namespace dfly
