// SPDX-License-Identifier: Apache-2.0
// SORT and SORT_RO: the elements of a list, set or sorted set by number or by text, by themselves
// or by what other keys say of them, perhaps with what other keys say instead of them.
//
// The names of those other keys come out of the elements, so nobody knows before in which shards
// they are: with a pattern the transaction has all of them. Sorting itself happens on the
// connection's thread, and holds up no shard.
#include "commands/keys/sort.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/collections/set_commands.h"
#include "commands/table/command_table.h"
#include "commands/table/numbers.h"
#include "commands/zsets/zset_commands.h"
#include "core/memory/work_bytes.h"
#include "core/text/numbers.h"
#include "core/types/hash_value.h"
#include "core/types/quick_list.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

// BY and GET: the name of a key with an element in the place of the first star, and perhaps a field
// of the hash that it has: "weight_*", "object_*->field", and "#", which is the element itself.
struct Pattern {
  std::string_view prefix, suffix;
  std::optional<std::string_view> field;
  bool is_element = false;
  bool has_star = false;

  static Pattern Parse(std::string_view text) {
    Pattern pattern;
    pattern.is_element = text == "#";
    const size_t star = text.find('*');
    if (star == std::string_view::npos) return pattern;
    pattern.has_star = true;
    pattern.prefix = text.substr(0, star);
    pattern.suffix = text.substr(star + 1);
    const size_t arrow = pattern.suffix.find("->");
    if (arrow != std::string_view::npos && arrow + 2 < pattern.suffix.size()) {
      pattern.field = pattern.suffix.substr(arrow + 2);
      pattern.suffix = pattern.suffix.substr(0, arrow);
    }
    return pattern;
  }

  std::string KeyFor(std::string_view element) const {
    std::string key;
    key.reserve(prefix.size() + element.size() + suffix.size());
    return key.append(prefix).append(element).append(suffix);
  }
};

struct SortOptions {
  bool is_descending = false;
  bool by_text = false;  // ALPHA
  int64_t offset = 0;
  int64_t limit = -1;  // below 0: all
  std::optional<std::string_view> target;
  std::optional<Pattern> by;
  std::vector<Pattern> get;

  // BY without a star: in the order that they have.
  bool keeps_order() const { return by && !by->has_star; }
  bool reads_other_keys() const {
    return (by && by->has_star) ||
           std::any_of(get.begin(), get.end(), [](const Pattern& p) { return p.has_star; });
  }
};

// What stands there is no STORE: dispatch and ACL have to see the target that ParseOptions sees.
size_t ValuesBehind(std::string_view option) {
  if (IsOption(option, "LIMIT")) return 2;
  return IsOption(option, "BY") || IsOption(option, "GET") ? 1 : 0;
}

// Replies the error and returns none if they are not valid.
std::optional<SortOptions> ParseOptions(Args args, bool is_readonly, ReplySink& reply) {
  SortOptions options;
  for (size_t i = 2; i < args.size(); ++i) {
    const size_t left = args.size() - i - 1;
    if (IsOption(args[i], "ASC")) {
      options.is_descending = false;
    } else if (IsOption(args[i], "DESC")) {
      options.is_descending = true;
    } else if (IsOption(args[i], "ALPHA")) {
      options.by_text = true;
    } else if (IsOption(args[i], "LIMIT") && left >= 2) {
      const auto offset = ParseInt64(args[i + 1]);
      const auto limit = offset ? ParseInt64(args[i + 2]) : std::nullopt;
      if (!limit) return Refuse(reply, kErrNotInteger);
      options.offset = *offset;
      options.limit = *limit;
      i += 2;
    } else if (!is_readonly && IsOption(args[i], "STORE") && left >= 1) {
      options.target = args[++i];
    } else if (IsOption(args[i], "BY") && left >= 1) {
      options.by = Pattern::Parse(args[++i]);
    } else if (IsOption(args[i], "GET") && left >= 1) {
      options.get.push_back(Pattern::Parse(args[++i]));
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  return options;
}

// The elements of the key that is sorted, read in slices, so that its shard goes on meanwhile.
class Source {
 public:
  ValueType type() const { return type_; }
  bool is_wrong_type() const { return is_wrong_type_; }
  const std::vector<std::string>& elements() const { return elements_; }

  // In a hop. False: it has all.
  bool ReadSome(ShardContext& cx, std::string_view key) {
    const bool is_first = std::exchange(is_new_, false);
    const auto value = is_first ? cx.FindReadOnly(key) : cx.Peek(key);
    if (!value) return false;
    type_ = value->type();
    switch (type_) {
      case ValueType::kList:
        return ReadList(*static_cast<const QuickList*>(value->object()));
      case ValueType::kSet:
        return Scan(SetOf(cx, value), [this](std::string_view member) { Add(member); });
      case ValueType::kZset:
        return ReadZset(ToRead(*value));
      default:
        is_wrong_type_ = true;
        return false;
    }
  }

 private:
  static constexpr size_t kSlice = 4 * kSliceMembers;

  void Add(std::string_view element) {
    elements_.emplace_back(element);
    bytes_ += sizeof(std::string) + element.size();
    if (bytes_ - counted_.bytes() >= WorkBytes::kMin) counted_.Set(bytes_);
  }
  // Returns how many elements come now, of a value in which they have places.
  size_t Next(size_t size) {
    elements_.reserve(size);
    return std::min(size - elements_.size(), kSlice);
  }
  bool ReadList(const QuickList& list) {
    char scratch[QuickList::kScratchSize];
    size_t count = Next(list.size());
    for (auto at = list.At(elements_.size()); count > 0; --count, at.Next()) {
      Add((*at).View(scratch));
    }
    return elements_.size() < list.size();
  }
  bool ReadZset(const ZsetValue& zset) {
    const size_t count = Next(zset.size());
    zset.ForRange(elements_.size(), count, false,
                  [this](std::string_view member, double) { Add(member); });
    return elements_.size() < zset.size();
  }
  template <typename F>
  bool Scan(const SetValue& set, F&& fn) {
    elements_.reserve(set.size());
    const size_t end = elements_.size() + kSlice;
    do {
      cursor_ = set.Scan(cursor_, fn);
    } while (cursor_ != 0 && elements_.size() < end);
    return cursor_ != 0;
  }

  bool is_new_ = true;
  bool is_wrong_type_ = false;
  ValueType type_ = ValueType::kList;
  uint32_t cursor_ = 0;  // in a set
  std::vector<std::string> elements_;
  size_t bytes_ = 0;  // of them, about
  WorkBytes counted_;
};

using Text = std::optional<std::string>;

// What the key, or its field, has; none if it is absent or something else.
Text ReadPattern(ShardContext& cx, const Pattern& pattern, std::string_view key) {
  const auto value = cx.FindReadOnly(key);
  if (!value) return std::nullopt;
  if (!pattern.field) {
    if (!value->is_string()) return std::nullopt;
    return value->ToString();
  }
  if (value->type() != ValueType::kHash) return std::nullopt;
  char scratch[HashValue::kScratchSize];
  const auto text = HashValue(*value, cx.now_ms()).Get(*pattern.field, scratch);
  if (!text) return std::nullopt;
  return std::string(*text);
}

// As C's strtod reads it, up to the first NUL, spaces in front included; "" is 0.
std::optional<double> ParseWeight(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const double weight = std::strtod(text.c_str(), &end);
  if (*end != '\0' || errno == ERANGE || std::isnan(weight)) return std::nullopt;
  return weight;
}

// An element in the order that is asked for.
struct Item {
  size_t index = 0;  // into the source's elements
  double weight = 0;
  const std::string* text = nullptr;  // null: the key that would say it is absent
};

class Sorting {
 public:
  // Suspends in Run.
  Sorting(CoordinatorContext& cx, std::string_view key, SortOptions options)
      : cx_(cx), tx_(cx), key_(key), options_(std::move(options)) {}

  void Run(ReplySink& reply) {
    LockKeys();
    if (!tx_.Schedule()) return;
    helio::LongWork work(1);  // a hop to this thread's own shard does not wait
    bool goes_on;
    do {
      work.Step();
      tx_.HopOn({&source_id_, 1}, [&](ShardTurn& turn) {
        ShardContext& cx = turn.Begin(cx_.db_index(), cx_.now_ms());
        goes_on = source_.ReadSome(cx, key_);
        list_limit_ = turn.shard().list_limit();
      });
    } while (goes_on);
    if (source_.is_wrong_type()) return reply.Error(kErrWrongType);
    if (!Order()) return reply.Error("ERR One or more scores can't be converted into double");
    ReadResults();
    if (!options_.target) return Reply(reply);
    Store();
    reply.Integer(static_cast<int64_t>(results_.size()));
  }

 private:
  void LockKeys() {
    ShardSet& shards = cx_.shards();
    const uint64_t hash = HashKey(key_);
    source_id_ = shards.ShardOfKey(key_, hash);
    const uint64_t target_hash = options_.target ? HashKey(*options_.target) : 0;
    if (options_.target) target_id_ = shards.ShardOfKey(*options_.target, target_hash);
    if (options_.reads_other_keys()) {
      return tx_.LockAllShards(options_.target ? LockMode::kExclusive : LockMode::kShared);
    }
    tx_.Lock(source_id_, {shards.LockOfKey(key_, hash, cx_.db_index()), LockMode::kShared});
    if (!options_.target) return;
    tx_.Lock(target_id_, {shards.LockOfKey(*options_.target, target_hash, cx_.db_index()),
                          LockMode::kExclusive});
  }

  // texts[i * stride + offset] becomes what `pattern` says of items_[i]. `texts` has the room.
  void ReadAll(const Pattern& pattern, size_t offset, size_t stride, std::vector<Text>* texts) {
    std::vector<std::string> keys(items_.size());
    std::vector<std::vector<size_t>> of_shard(cx_.shards().size());
    for (size_t i = 0; i < items_.size(); ++i) {
      keys[i] = pattern.KeyFor(source_.elements()[items_[i].index]);
      of_shard[cx_.shards().ShardOfKey(keys[i], HashKey(keys[i]))].push_back(i);
      work_.Step();
    }
    size_t most = 0;
    for (const std::vector<size_t>& indexes : of_shard) most = std::max(most, indexes.size());
    helio::LongWork work(1);
    for (size_t begin = 0; begin == 0 || begin < most; begin += kSliceMembers) {
      work.Step();
      tx_.Hop([&](ShardTurn& turn) {
        ShardContext& cx = turn.Begin(cx_.db_index(), cx_.now_ms());
        const std::vector<size_t>& indexes = of_shard[turn.shard().id()];
        const size_t end = std::min(indexes.size(), begin + kSliceMembers);
        for (size_t at = begin; at < end; ++at) {
          const size_t i = indexes[at];
          (*texts)[i * stride + offset] = ReadPattern(cx, pattern, keys[i]);
        }
      });
    }
  }

  // Fills items_, those that are asked for. False if a weight is no number.
  bool Order() {
    const size_t count = source_.elements().size();
    items_.resize(count);
    for (size_t i = 0; i < count; ++i) items_[i].index = i;
    // What is stored, or what a script does, must not depend on how a set happens to lie in memory.
    const bool is_set_to_sort =
        source_.type() == ValueType::kSet && (options_.target.has_value() || cx_.is_scripted());
    if (options_.keeps_order() && !is_set_to_sort) {
      const bool is_reversed = source_.type() != ValueType::kSet && options_.is_descending;
      if (is_reversed) std::reverse(items_.begin(), items_.end());
    } else if (!SortItems(options_.keeps_order())) {
      return false;
    }
    const auto first = static_cast<size_t>(
        std::min<int64_t>(std::max<int64_t>(options_.offset, 0), static_cast<int64_t>(count)));
    const size_t left = count - first;
    const size_t wanted =
        options_.limit < 0 ? left : std::min<size_t>(left, static_cast<size_t>(options_.limit));
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(first));
    items_.resize(wanted);
    return true;
  }

  // `by_element`: by their own texts, whatever the options say.
  bool SortItems(bool by_element) {
    const bool by_text = options_.by_text || by_element;
    const bool by_pattern = options_.by && !by_element;
    std::vector<Text> weights;
    if (by_pattern) {
      weights.resize(items_.size());
      ReadAll(*options_.by, 0, 1, &weights);
    }
    for (Item& item : items_) {
      const Text* weight = by_pattern ? &weights[item.index] : nullptr;
      if (weight != nullptr && !*weight) continue;  // no weight: 0, or before all texts
      item.text = weight == nullptr ? &source_.elements()[item.index] : &**weight;
      if (by_text) continue;
      const auto number = ParseWeight(*item.text);
      if (!number) return false;
      item.weight = *number;
      work_.Step();
    }
    const auto is_before = [&](const Item& a, const Item& b) {
      work_.Step();
      const int order = by_text ? CompareTexts(a.text, b.text) : CompareWeights(a, b);
      return options_.is_descending ? order > 0 : order < 0;
    };
    std::stable_sort(items_.begin(), items_.end(), is_before);
    return true;
  }

  static int CompareTexts(const std::string* a, const std::string* b) {
    if (a == nullptr || b == nullptr) return static_cast<int>(a != nullptr) - (b != nullptr);
    return a->compare(*b);
  }
  int CompareWeights(const Item& a, const Item& b) const {
    if (a.weight != b.weight) return a.weight < b.weight ? -1 : 1;
    return source_.elements()[a.index].compare(source_.elements()[b.index]);
  }

  void ReadResults() {
    const size_t stride = std::max<size_t>(options_.get.size(), 1);
    results_.resize(items_.size() * stride);
    for (size_t at = 0; at < stride; ++at) {
      const Pattern* const pattern = options_.get.empty() ? nullptr : &options_.get[at];
      if (pattern != nullptr && pattern->has_star) {
        ReadAll(*pattern, at, stride, &results_);
      } else if (pattern == nullptr || pattern->is_element) {
        for (size_t i = 0; i < items_.size(); ++i) {
          results_[i * stride + at] = source_.elements()[items_[i].index];
          work_.Step();
        }
      }
    }
  }

  void Reply(ReplySink& reply) const {
    reply.Array(results_.size());
    for (const Text& text : results_) {
      if (text) {
        reply.Bulk(*text);
      } else {
        reply.Null();
      }
    }
  }

  void Store() {
    // A large list is made here, while others go on.
    std::unique_ptr<QuickList> list;
    const auto push_all = [&](const BlockLimit& limit, helio::LongWork* work) {
      list = std::make_unique<QuickList>();
      for (const Text& text : results_) {
        list->Push(QuickList::End::kBack, text ? *text : std::string_view(), limit);
        if (work != nullptr) work->Step();
      }
    };
    if (results_.size() > kLargeMembers) push_all(list_limit_, &work_);
    tx_.HopAndConclude({&target_id_, 1}, [&](ShardTurn& turn) {
      ShardContext& cx = turn.Begin(cx_.db_index(), cx_.now_ms());
      if (cx.wants_effects()) TellStored(cx);
      if (results_.empty()) {
        cx.Delete(*options_.target);
        return;
      }
      if (list == nullptr) push_all(turn.shard().list_limit(), nullptr);
      ShardContext::Detached made;
      made.value.SetObject(ValueType::kList, list.release(), 0);
      cx.Put(*options_.target, std::move(made), KeyEvent::kSortStore, results_.size());
    });
  }

  // The result: with BY a pattern that is no key the order is not told by the elements.
  void TellStored(ShardContext& cx) {
    cx.Tell("DEL", *options_.target);
    if (results_.empty()) return;
    std::vector<std::string_view> words = {"RPUSH", *options_.target};
    for (const Text& text : results_) words.push_back(text ? *text : std::string_view());
    cx.TellAll(words);
  }

  CoordinatorContext& cx_;
  Transaction tx_;
  const std::string_view key_;
  const SortOptions options_;
  ShardId source_id_ = 0;
  ShardId target_id_ = 0;
  BlockLimit list_limit_;
  Source source_;
  helio::LongWork work_;
  std::vector<Item> items_;
  std::vector<Text> results_;
};

// Suspends.
template <bool kIsReadonly>
void Sort(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::optional<SortOptions> options = ParseOptions(args, kIsReadonly, reply);
  if (!options) return;
  Sorting(cx, args.key(), *std::move(options)).Run(reply);
}

}  // namespace

void RegisterSort(CommandTable* table) {
  constexpr uint32_t kCategories = kAclSet | kAclSortedSet | kAclList | kAclDangerous;
  constexpr std::string_view kComplexity =
      "O(N+M*log(M)) where N is the number of elements and M the number of those that are "
      "returned.";
  table->Add(
      {.name = "sort",
       .coordinate = Sort<false>,
       .arity = -2,
       .flags = kWrite | kDenyOom | kMovableKeys,
       .categories = kCategories,
       .keys = KeyAndOption("RO access", "STORE", 2, "OW update", ValuesBehind),
       .docs = {"Sorts the elements of a list, a set or a sorted set, and returns or stores them.",
                "1.0.0", "generic", kComplexity}});
  table->Add({.name = "sort_ro",
              .coordinate = Sort<true>,
              .arity = -2,
              .flags = kReadonly | kMovableKeys,
              .categories = kCategories,
              .keys = KeyAt(1, "RO access"),
              .docs = {"Returns the sorted elements of a list, a set or a sorted set.", "7.0.0",
                       "generic", kComplexity}});
}

}  // namespace dfly
