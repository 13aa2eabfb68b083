// SPDX-License-Identifier: Apache-2.0
// Count-min sketches: CMS.INITBYDIM CMS.INITBYPROB CMS.INCRBY CMS.QUERY CMS.MERGE CMS.INFO. Data:
// core/sketches/count_min_sketch.h.
#include "core/sketches/count_min_sketch.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commands/sketches/probabilistic.h"
#include "commands/table/key_parts.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrNoKey = "CMS: key does not exist";
constexpr std::string_view kErrKeyExists = "CMS: key already exists";
constexpr std::string_view kErrShapes = "CMS: width/depth is not equal";
constexpr std::string_view kErrMergeOverflow = "CMS: MERGE overflow";

using Shape = CountMinSketch::Shape;

// Of a key that was looked up: the error to reply, or none.
template <typename Handle>
std::string_view ErrorOf(const Handle& value) {
  if (value.is_wrong_type()) return kErrWrongType;
  return value ? std::string_view() : kErrNoKey;
}

// --- CMS.INITBYDIM, CMS.INITBYPROB ---

void Create(ShardContext& cx, std::string_view key, const Shape& shape, ReplySink& reply) {
  if (!shape.IsPossible(cx.string_max())) return reply.Error(kErrTooLarge);
  cx.FindOrCreate(key, ValueType::kCountMinSketch)
      ->SetObject(ValueType::kCountMinSketch, std::make_unique<CountMinSketch>(shape).release(), 0);
  cx.Changed(key, KeyEvent::kCmsInit);
  reply.Ok();
}

// CMS.INITBYDIM key width depth
void InitByDim(ShardContext& cx, Args args, ReplySink& reply) {
  if (cx.FindMutable(args.key())) return reply.Error(kErrKeyExists);
  const std::optional<int64_t> width = ParseInt64(args[2]);
  if (!width || *width < 1) return reply.Error("CMS: invalid width");
  const std::optional<int64_t> depth = ParseInt64(args[3]);
  if (!depth || *depth < 1) return reply.Error("CMS: invalid depth");
  Create(cx, args.key(),
         {.width = static_cast<uint64_t>(*width), .depth = static_cast<uint64_t>(*depth)}, reply);
}

// CMS.INITBYPROB key error probability
void InitByProb(ShardContext& cx, Args args, ReplySink& reply) {
  if (cx.FindMutable(args.key())) return reply.Error(kErrKeyExists);
  const std::optional<double> error = ParseDouble(args[2]);
  if (!error || !(*error > 0 && *error < 1)) {
    return reply.Error("CMS: invalid overestimation value");
  }
  const std::optional<double> probability = ParseDouble(args[3]);
  if (!probability || !(*probability > 0 && *probability < 1)) {
    return reply.Error("CMS: invalid prob value");
  }
  Create(cx, args.key(), Shape::For(*error, *probability), reply);
}

// --- CMS.INCRBY, CMS.QUERY, CMS.INFO ---

// CMS.INCRBY key item increment [item increment ...]
void IncrBy(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() % 2 != 0) return reply.Error(WrongArityError("cms.incrby"));
  const auto value = cx.FindMutable(args.key(), ValueType::kCountMinSketch);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  std::vector<uint64_t> increments;
  for (size_t i = 3; i < args.size(); i += 2) {
    const std::optional<int64_t> number = ParseInt64(args[i]);
    if (!number) return reply.Error("CMS: Cannot parse number");
    if (*number < 0) return reply.Error("CMS: Number cannot be negative");
    increments.push_back(static_cast<uint64_t>(*number));
  }
  auto& sketch = ObjectIn<CountMinSketch>(*value);
  reply.Array(increments.size());
  for (size_t i = 0; i < increments.size(); ++i) {
    const uint32_t count = sketch.Add(HashItem(args[2 + 2 * i]), increments[i]);
    if (count == CountMinSketch::kCountMax) {
      reply.Error("CMS: INCRBY overflow");
    } else {
      reply.Integer(count);
    }
  }
  cx.Changed(args.key(), KeyEvent::kCmsIncrBy, increments.size());
}

// CMS.QUERY key item [item ...]
void Query(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kCountMinSketch);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  const auto& sketch = ObjectIn<CountMinSketch>(*value);
  reply.Array(args.rest().size());
  for (std::string_view item : args.rest()) reply.Integer(sketch.CountOf(HashItem(item)));
}

void Info(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kCountMinSketch);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  const auto& sketch = ObjectIn<CountMinSketch>(*value);
  reply.Map(3);
  reply.Status("width");
  reply.Integer(static_cast<int64_t>(sketch.shape().width));
  reply.Status("depth");
  reply.Integer(static_cast<int64_t>(sketch.shape().depth));
  reply.Status("count");
  reply.Integer(sketch.total());
}

// --- CMS.MERGE target numkeys key [key ...] [WEIGHTS weight [weight ...]] ---

struct MergeRequest {
  std::vector<std::string_view> keys;  // the target, and the sources
  std::vector<int64_t> weights;        // those of the target and the sources
  std::string_view error = {};         // what is wrong behind the target
};

std::string_view ParseSources(Args args, MergeRequest* request) {
  const std::optional<int64_t> count = ParseInt64(args[2]);
  if (!count) return "CMS: invalid numkeys";
  if (*count < 1) return "CMS: Number of keys must be positive";
  if (*count > static_cast<int64_t>(args.size()) - 3) return "CMS: wrong number of keys";
  const auto sources = static_cast<size_t>(*count);
  const size_t options = 3 + sources;
  request->weights.assign(1 + sources, 1);
  if (options < args.size()) {
    if (!IsOption(args[options], "WEIGHTS")) return "CMS: wrong number of keys";
    if (args.size() != options + 1 + sources) return "CMS: wrong number of keys/weights";
    for (size_t i = 0; i < sources; ++i) {
      const std::optional<int64_t> weight = ParseInt64(args[options + 1 + i]);
      if (!weight) return "CMS: invalid weight value";
      request->weights[1 + i] = *weight;
    }
  }
  const auto keys = args.from(3).first(sources);
  request->keys.insert(request->keys.end(), keys.begin(), keys.end());
  return {};
}

MergeRequest ParseMerge(Args args) {
  MergeRequest request;
  request.keys.push_back(args.key());
  request.error = ParseSources(args, &request);
  return request;
}

// What one shard has of the keys.
struct MergePart {
  struct Seen {
    size_t index;
    std::string_view error;  // or none
    Shape shape;
  };
  std::vector<Seen> seen = {};
  Shape shape = {};                // of its first source
  std::vector<int64_t> sums = {};  // of those of its sources that have that shape
  bool overflows = false;
};

void Collect(ShardContext& cx, const MergeRequest& request, std::span<const size_t> indexes,
             MergePart* part) {
  for (size_t i : indexes) {
    const auto value = cx.FindReadOnly(request.keys[i], ValueType::kCountMinSketch);
    MergePart::Seen& seen =
        part->seen.emplace_back(MergePart::Seen{.index = i, .error = ErrorOf(value), .shape = {}});
    if (!seen.error.empty()) continue;
    const auto& sketch = ObjectIn<CountMinSketch>(*value);
    seen.shape = sketch.shape();
    if (i == 0) continue;  // what the target has does not count
    if (part->sums.empty()) {
      part->shape = seen.shape;
      part->sums.resize(CountMinSketch::SumsOf(seen.shape));
    }
    if (seen.shape == part->shape) {
      part->overflows |= !sketch.AddTo(part->sums, request.weights[i]);
    }
  }
}

// Sums up all parts in one of them, or returns the error to reply.
std::string_view SumUp(const MergeRequest& request, std::span<MergePart* const> parts,
                       MergePart** all) {
  std::vector<const MergePart::Seen*> seen(request.keys.size());
  for (const MergePart* part : parts) {
    for (const MergePart::Seen& one : part->seen) seen[one.index] = &one;
  }
  if (!seen[0]->error.empty()) return seen[0]->error;
  if (!request.error.empty()) return request.error;
  for (const MergePart::Seen* one : seen) {
    if (!one->error.empty()) return one->error;
    if (one->shape != seen[0]->shape) return kErrShapes;
  }
  bool overflows = false;
  *all = nullptr;
  for (MergePart* part : parts) {
    overflows |= part->overflows;
    if (part->sums.empty()) continue;
    if (*all == nullptr) {
      *all = part;
      continue;
    }
    for (size_t i = 0; i < part->sums.size(); ++i) {
      int64_t& sum = (*all)->sums[i];
      overflows |= __builtin_add_overflow(sum, part->sums[i], &sum);
    }
  }
  return overflows ? kErrMergeOverflow : std::string_view();
}

std::string_view Store(ShardContext& cx, std::string_view key, const MergePart& all) {
  const auto value = cx.FindMutable(key, ValueType::kCountMinSketch);
  if (!ObjectIn<CountMinSketch>(*value).Assign(all.sums)) return kErrMergeOverflow;
  cx.Changed(key, KeyEvent::kCmsMerge);
  return {};
}

void ReplyMerged(std::string_view error, ReplySink& reply) {
  error.empty() ? reply.Ok() : reply.Error(error);
}

void Merge(ShardContext& cx, Args args, ReplySink& reply) {
  const MergeRequest request = ParseMerge(args);
  std::vector<size_t> indexes(request.keys.size());
  std::iota(indexes.begin(), indexes.end(), 0);
  MergePart part;
  Collect(cx, request, indexes, &part);
  MergePart* all = &part;
  std::string_view error = SumUp(request, {{&part}}, &all);
  if (error.empty()) error = Store(cx, args.key(), *all);
  ReplyMerged(error, reply);
}

// Suspends.
void MergeAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const MergeRequest request = ParseMerge(args);
  KeyParts<MergePart> parts(cx, request.keys);
  parts.SetTarget(args.key());
  const auto collect = [&request](ShardContext& shard_cx, KeyParts<MergePart>::Item& item) {
    Collect(shard_cx, request, item.indexes, &item.part);
  };
  if (!parts.Hop(collect)) return;
  std::vector<MergePart*> seen;
  for (auto& item : parts.items()) seen.push_back(&item.part);
  MergePart* all = nullptr;
  std::string_view error = SumUp(request, seen, &all);
  if (error.empty()) {
    parts.HopToTarget([&](ShardContext& shard_cx) { error = Store(shard_cx, args.key(), *all); });
  }
  ReplyMerged(error, reply);
}

}  // namespace

void RegisterCountMinSketchCommands(CommandTable* table) {
  CountMinSketch::RegisterType();
  const auto add = [table](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                           std::string_view key_flags, std::string_view summary,
                           std::string_view complexity) {
    table->Add({.name = name,
                .run = run,
                .arity = arity,
                .flags = flags,
                .keys = KeyAt(1, key_flags),
                .docs = {summary, "2.0.0", "cms", complexity}});
  };
  add("cms.initbydim", InitByDim, 4, kWrite | kDenyOom | kFast, "OW insert",
      "Makes an empty count-min sketch of so many counters.", "O(1)");
  add("cms.initbyprob", InitByProb, 4, kWrite | kDenyOom | kFast, "OW insert",
      "Makes an empty count-min sketch for errors of that size and probability.", "O(1)");
  add("cms.incrby", IncrBy, -4, kWrite | kDenyOom, "RW access update",
      "Counts items in a count-min sketch.",
      "O(N*D) where N is the number of items and D is the depth of the sketch.");
  add("cms.query", Query, -3, kReadonly, "RO access",
      "Estimates how often items were counted in a count-min sketch.",
      "O(N*D) where N is the number of items and D is the depth of the sketch.");
  add("cms.info", Info, 2, kReadonly | kFast, "RO", "Describes a count-min sketch.", "O(1)");
  table->Add({.name = "cms.merge",
              .run = Merge,
              .across = MergeAcross,
              .arity = -4,
              .flags = kWrite | kDenyOom | kMovableKeys,
              .keys = TargetAndKeysCounted("RW update", "RO access"),
              .docs = {"Counts in one count-min sketch what was counted in others.", "2.0.0", "cms",
                       "O(N*M) where N is the number of sketches and M is that of their "
                       "counters."}});
}

}  // namespace dfly
