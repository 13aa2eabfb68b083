// SPDX-License-Identifier: Apache-2.0
// Bloom filters: BF.RESERVE BF.ADD BF.MADD BF.INSERT BF.EXISTS BF.MEXISTS BF.CARD BF.INFO
// BF.SCANDUMP BF.LOADCHUNK. Data: core/sketches/bloom_filter.h.
#include "core/sketches/bloom_filter.h"
#include "commands/table/numbers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "commands/sketches/probabilistic.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrNotFound = "ERR not found";
constexpr std::string_view kErrExists = "ERR item exists";
constexpr std::string_view kErrFull = "ERR non scaling filter is full";
constexpr std::string_view kErrBadData = "ERR received bad data";
constexpr int64_t kExpansionMax = 32768;
constexpr size_t kChunkBytes = 1 << 20;  // of BF.SCANDUMP

using AddResult = BloomFilter::AddResult;
using Items = std::span<const std::string_view>;

// --- Options; each returns the error, or nothing ---

std::string_view ParseErrorRate(std::string_view text, BloomFilter::Options* options) {
  const std::optional<double> rate = ParseDouble(text);
  if (!rate) return "ERR bad error rate";
  if (!(*rate > 0 && *rate < 1)) return "ERR (0 < error rate range < 1)";
  options->error_rate = *rate;
  return {};
}

std::string_view ParseCapacity(std::string_view text, BloomFilter::Options* options) {
  const std::optional<int64_t> capacity = ParseInt64(text);
  if (!capacity) return "ERR bad capacity";
  if (*capacity <= 0) return "ERR (capacity should be larger than 0)";
  options->capacity = static_cast<uint64_t>(*capacity);
  return {};
}

std::string_view ParseExpansion(std::string_view text, BloomFilter::Options* options) {
  const std::optional<int64_t> expansion = ParseInt64(text);
  if (!expansion || *expansion < 1 || *expansion > kExpansionMax) return "ERR bad expansion";
  options->expansion = static_cast<uint32_t>(*expansion);
  return {};
}

// Options of BF.RESERVE, and those of BF.INSERT in front of its items.
struct Request {
  BloomFilter::Options options;
  bool must_exist = false;
  size_t end = 0;  // the first argument that is no option
};

std::string_view ParseOptions(Args args, size_t from, bool is_insert, Request* request) {
  bool has_expansion = false, is_fixed = false, has_size = false;
  std::string_view error;
  size_t i = from;
  for (; i < args.size() && error.empty(); ++i) {
    const bool has_value = i + 1 < args.size();
    if (is_insert && IsOption(args[i], "ITEMS")) break;
    if (has_value && IsOption(args[i], "EXPANSION")) {
      error = ParseExpansion(args[++i], &request->options);
      has_expansion = true;
    } else if (IsOption(args[i], "NONSCALING")) {
      is_fixed = true;
    } else if (is_insert && has_value && IsOption(args[i], "CAPACITY")) {
      error = ParseCapacity(args[++i], &request->options);
      has_size = true;
    } else if (is_insert && has_value && IsOption(args[i], "ERROR")) {
      error = ParseErrorRate(args[++i], &request->options);
      has_size = true;
    } else if (is_insert && IsOption(args[i], "NOCREATE")) {
      request->must_exist = true;
    } else {
      error = is_insert ? "Unknown argument received" : kErrSyntax;
    }
  }
  if (!error.empty()) return error;
  if (is_fixed && has_expansion) return "ERR Nonscaling filters cannot expand";
  if (request->must_exist && has_size) return "ERR NOCREATE excludes CAPACITY and ERROR";
  if (is_fixed) request->options.expansion = 0;
  request->end = i;
  return {};
}

// --- Adding ---

// Makes the key a filter. Null: it would be too large. REQUIRES: the key is absent.
BloomFilter* Create(ShardContext& cx, std::string_view key, const BloomFilter::Options& options) {
  std::unique_ptr<BloomFilter> filter = BloomFilter::Make(options, cx.string_max());
  if (filter == nullptr) return nullptr;
  BloomFilter* const made = filter.release();
  cx.FindOrCreate(key, ValueType::kBloomFilter)->SetObject(ValueType::kBloomFilter, made, 0);
  return made;
}

// BF.RESERVE key error_rate capacity [EXPANSION expansion] [NONSCALING]
void Reserve(ShardContext& cx, Args args, ReplySink& reply) {
  Request request;
  std::string_view error = ParseErrorRate(args[2], &request.options);
  if (error.empty()) error = ParseCapacity(args[3], &request.options);
  if (error.empty()) error = ParseOptions(args, 4, false, &request);
  if (!error.empty()) return reply.Error(error);
  const auto value = cx.FindMutable(args.key(), ValueType::kBloomFilter);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (value) return reply.Error(kErrExists);
  if (Create(cx, args.key(), request.options) == nullptr) return reply.Error(kErrTooLarge);
  cx.Changed(args.key(), KeyEvent::kBfReserve);
  reply.Ok();
}

void ReplyAdded(AddResult result, ReplySink& reply) {
  switch (result) {
    case AddResult::kAdded:
      return reply.Bool(true);
    case AddResult::kWasThere:
      return reply.Bool(false);
    case AddResult::kFull:
      return reply.Error(kErrFull);
    case AddResult::kTooLarge:
      return reply.Error(kErrTooLarge);
  }
}

// Adds items to a filter that is made if need be, and replies a result for each, in an array unless
// there `is_one`.
void AddItems(ShardContext& cx, std::string_view key, const Request& request, Items items,
              bool is_one, ReplySink& reply) {
  const auto value = cx.FindMutable(key, ValueType::kBloomFilter);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value && request.must_exist) return reply.Error(kErrNotFound);
  uint64_t changes = value ? 0 : 1;
  BloomFilter* const filter =
      value ? &ObjectIn<BloomFilter>(*value) : Create(cx, key, request.options);
  if (filter == nullptr) return reply.Error(kErrTooLarge);
  if (!is_one) reply.Array(items.size());
  for (std::string_view item : items) {
    const AddResult result = filter->Add(HashItem(item), cx.string_max());
    changes += result == AddResult::kAdded;
    ReplyAdded(result, reply);
  }
  if (changes > 0) cx.Changed(key, KeyEvent::kBfAdd, changes);
}

void Add(ShardContext& cx, Args args, ReplySink& reply) {
  AddItems(cx, args.key(), {}, args.rest(), true, reply);
}

void MAdd(ShardContext& cx, Args args, ReplySink& reply) {
  AddItems(cx, args.key(), {}, args.rest(), false, reply);
}

// BF.INSERT key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING]
//   ITEMS item [item ...]
void Insert(ShardContext& cx, Args args, ReplySink& reply) {
  Request request;
  const std::string_view error = ParseOptions(args, 2, true, &request);
  if (!error.empty()) return reply.Error(error);
  if (request.end + 1 >= args.size()) return reply.Error(WrongArityError("bf.insert"));
  AddItems(cx, args.key(), request, args.from(request.end + 1), false, reply);
}

// --- Asking ---

// What is no filter has no items, as in RedisBloom.
const BloomFilter* FindToAsk(ShardContext& cx, std::string_view key) {
  const auto value = cx.FindReadOnly(key, ValueType::kBloomFilter);
  return value ? &ObjectIn<BloomFilter>(*value) : nullptr;
}

void Exists(ShardContext& cx, Args args, ReplySink& reply) {
  const BloomFilter* const filter = FindToAsk(cx, args.key());
  reply.Bool(filter != nullptr && filter->Has(HashItem(args[2])));
}

void MExists(ShardContext& cx, Args args, ReplySink& reply) {
  const BloomFilter* const filter = FindToAsk(cx, args.key());
  reply.Array(args.rest().size());
  for (std::string_view item : args.rest()) {
    reply.Bool(filter != nullptr && filter->Has(HashItem(item)));
  }
}

void Card(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kBloomFilter);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(ObjectIn<BloomFilter>(*value).items()) : 0);
}

struct Fact {
  std::string_view option;
  std::string_view name;
  uint64_t (*get)(const BloomFilter& filter);  // 0 of what does not scale: null
};

constexpr std::array<Fact, 5> kFacts = {{
    {"CAPACITY", "Capacity", [](const BloomFilter& filter) { return filter.capacity(); }},
    {"SIZE", "Size", [](const BloomFilter& filter) -> uint64_t { return filter.bytes(); }},
    {"FILTERS", "Number of filters",
     [](const BloomFilter& filter) -> uint64_t { return filter.layers(); }},
    {"ITEMS", "Number of items inserted", [](const BloomFilter& filter) { return filter.items(); }},
    {"EXPANSION", "Expansion rate",
     [](const BloomFilter& filter) -> uint64_t { return filter.expansion(); }},
}};

void ReplyFact(const Fact& fact, const BloomFilter& filter, ReplySink& reply) {
  const uint64_t number = fact.get(filter);
  if (number == 0 && fact.option == "EXPANSION") return reply.Null();
  reply.Integer(static_cast<int64_t>(number));
}

// BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]
void Info(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(WrongArityError("bf.info"));
  const auto value = cx.FindReadOnly(args.key(), ValueType::kBloomFilter);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Error(kErrNotFound);
  const auto& filter = ObjectIn<BloomFilter>(*value);
  if (args.size() == 2) {
    reply.Map(kFacts.size());
    for (const Fact& fact : kFacts) {
      reply.Status(fact.name);
      ReplyFact(fact, filter, reply);
    }
    return;
  }
  const auto fact = std::find_if(kFacts.begin(), kFacts.end(), [args](const Fact& candidate) {
    return IsOption(args[2], candidate.option);
  });
  if (fact == kFacts.end()) return reply.Error("ERR Invalid information value");
  if (reply.resp3()) {
    reply.Map(1);
    reply.Status(fact->name);
  } else {
    reply.Array(1);
  }
  ReplyFact(*fact, filter, reply);
}

// --- BF.SCANDUMP and BF.LOADCHUNK: iterator 1 is the header's, 1 + n that of the bits up to n ---

std::optional<uint64_t> ParseIterator(std::string_view text, ReplySink& reply) {
  const std::optional<int64_t> iterator = ParseInt64(text);
  if (iterator && *iterator >= 0) return static_cast<uint64_t>(*iterator);
  return Refuse(reply, "ERR Second argument must be numeric");
}

// BF.SCANDUMP key iterator
void ScanDump(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kBloomFilter);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Error(kErrNotFound);
  const std::optional<uint64_t> iterator = ParseIterator(args[2], reply);
  if (!iterator) return;
  const auto& filter = ObjectIn<BloomFilter>(*value);
  reply.Array(2);
  if (*iterator == 0) {
    reply.Integer(1);
    return reply.Bulk(filter.Header());
  }
  const bool is_end = *iterator - 1 >= filter.bits_bytes();
  const std::string_view bits = is_end ? "" : filter.BitsAt(*iterator - 1, kChunkBytes);
  reply.Integer(is_end ? 0 : static_cast<int64_t>(*iterator + bits.size()));
  reply.Bulk(bits);
}

// BF.LOADCHUNK key iterator data
void LoadChunk(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> iterator = ParseIterator(args[2], reply);
  if (!iterator) return;
  const std::string_view data = args[3];
  const auto value = cx.FindMutable(args.key(), ValueType::kBloomFilter);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (*iterator == 1) {
    std::unique_ptr<BloomFilter> filter = BloomFilter::FromHeader(data, cx.string_max());
    if (filter == nullptr) return reply.Error(kErrBadData);
    const auto target = value ? value : cx.FindOrCreate(args.key(), ValueType::kBloomFilter);
    target->SetObject(ValueType::kBloomFilter, filter.release(), 0);
  } else {
    if (!value) return reply.Error(kErrNotFound);
    if (*iterator == 0 || data.size() > *iterator - 1 ||
        !ObjectIn<BloomFilter>(*value).SetBits(*iterator - 1 - data.size(), data)) {
      return reply.Error(kErrBadData);
    }
  }
  cx.Changed(args.key(), KeyEvent::kBfLoadChunk);
  reply.Ok();
}

}  // namespace

void RegisterBloomFilterCommands(CommandTable* table) {
  BloomFilter::RegisterType();
  const auto add = [table](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                           std::string_view key_flags, std::string_view summary,
                           std::string_view since, std::string_view complexity) {
    table->Add({.name = name,
                .run = run,
                .arity = arity,
                .flags = flags,
                .keys = KeyAt(1, key_flags),
                .docs = {summary, since, "bf", complexity}});
  };
  constexpr std::string_view kEach =
      "O(K*N) where K is the number of hash functions and N is the number of items.";
  constexpr std::string_view kOne = "O(K) where K is the number of hash functions.";
  add("bf.reserve", Reserve, -4, kWrite | kDenyOom | kFast, "OW insert",
      "Makes an empty Bloom filter.", "1.0.0", "O(1)");
  add("bf.add", Add, 3, kWrite | kDenyOom, "RW insert",
      "Adds an item to a Bloom filter; makes the key if need be.", "1.0.0", kOne);
  add("bf.madd", MAdd, -3, kWrite | kDenyOom, "RW insert",
      "Adds items to a Bloom filter; makes the key if need be.", "1.0.0", kEach);
  add("bf.insert", Insert, -4, kWrite | kDenyOom, "RW insert",
      "Adds items to a Bloom filter; makes the key as the options say.", "1.0.0", kEach);
  add("bf.exists", Exists, 3, kReadonly, "RO",
      "Tells whether an item may have been added to a Bloom filter.", "1.0.0", kOne);
  add("bf.mexists", MExists, -3, kReadonly, "RO",
      "Tells of each of several items whether it may have been added to a Bloom filter.", "1.0.0",
      kEach);
  add("bf.card", Card, 2, kReadonly | kFast, "RO",
      "Tells how many items were added to a Bloom filter.", "2.4.4", "O(1)");
  add("bf.info", Info, -2, kReadonly | kFast, "RO", "Describes a Bloom filter.", "1.0.0", "O(1)");
  add("bf.scandump", ScanDump, 3, kReadonly, "RO access", "Gives a Bloom filter in pieces.",
      "1.0.0", "O(N) where N is the size of the piece.");
  add("bf.loadchunk", LoadChunk, 4, kWrite | kDenyOom, "RW update",
      "Makes a Bloom filter of what BF.SCANDUMP has given.", "1.0.0",
      "O(N) where N is the size of the piece.");
}

void RegisterProbabilisticCommands(CommandTable* table) {
  RegisterBloomFilterCommands(table);
  RegisterCountMinSketchCommands(table);
  RegisterTopKCommands(table);
}

}  // namespace dfly
