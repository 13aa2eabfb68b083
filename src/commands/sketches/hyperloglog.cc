// SPDX-License-Identifier: Apache-2.0
// Counting distinct elements: PFADD PFCOUNT PFMERGE, and PFDEBUG and PFSELFTEST. Data:
// core/sketches/hyperloglog.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "commands/table/numbers.h"
#include "core/sketches/hyperloglog.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrNotOne = "WRONGTYPE Key is not a valid HyperLogLog string value.";
constexpr std::string_view kErrCorrupt = "INVALIDOBJ Corrupted HLL object detected";

using Keys = std::span<const std::string_view>;
using Result = HyperLogLog::Result;

// Of a key that was looked up: the error to reply, or none.
template <typename Handle>
std::string_view ErrorOf(const Handle& value) {
  if (value.is_wrong_type()) return kErrWrongType;
  if (!value) return {};
  char scratch[CompactValue::kScratchSize];
  return HyperLogLog::IsValid(value->View(scratch)) ? std::string_view() : kErrNotOne;
}

// PFADD key [element ...]
void PfAdd(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindOrCreate(args.key(), ValueType::kString);
  uint64_t changes = 0;
  if (value.was_created()) {
    value->SetRaw(HyperLogLog().bytes());
    ++changes;
  }
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  char scratch[CompactValue::kScratchSize];
  if (HyperLogLog::IsDense(value->View(scratch))) {
    const std::span<char> bytes = value->Widen(0);
    for (std::string_view element : args.rest()) {
      changes += HyperLogLog::RaiseDense(bytes, HyperLogLog::MarkOf(element));
    }
    if (changes > 0) HyperLogLog::MakeStale(bytes);
  } else {
    const std::string_view bytes = value->View(scratch);
    std::optional<HyperLogLog> log;  // most elements change nothing, and need no copy
    if (changes > 0) log.emplace(bytes);
    for (std::string_view element : args.rest()) {
      const HyperLogLog::Mark mark = HyperLogLog::MarkOf(element);
      Result result = log ? Result::kRaised : HyperLogLog::TestSparse(bytes, mark);
      if (result == Result::kRaised) {
        if (!log) log.emplace(bytes);
        result = log->Raise(mark, cx.shard().hll_sparse_max_bytes());
      }
      if (result == Result::kCorrupt) return reply.Error(kErrCorrupt);
      changes += result == Result::kRaised;
    }
    if (changes > 0) {
      HyperLogLog::MakeStale(log->writable());
      value->SetRaw(log->bytes());
    }
  }
  if (changes > 0) cx.Changed(args.key(), KeyEvent::kPfAdd, changes);
  reply.Integer(changes > 0 ? 1 : 0);
}

// --- Several at once ---

// The registers of several keys together, each the largest one, and the first key that is wrong.
struct Union {
  HyperLogLog::Registers registers = {};
  bool has_dense = false;
  std::string_view error = {};
  size_t error_at = SIZE_MAX;

  // False: it is wrong.
  bool Add(ShardContext& cx, std::string_view key, size_t index) {
    const auto value = cx.FindReadOnly(key, ValueType::kString);
    error = ErrorOf(value);
    if (value && error.empty()) {
      char scratch[CompactValue::kScratchSize];
      const std::string_view bytes = value->View(scratch);
      has_dense |= HyperLogLog::IsDense(bytes);
      if (!HyperLogLog::Merge(bytes, &registers)) error = kErrCorrupt;
    }
    if (!error.empty()) error_at = index;
    return error.empty();
  }
  void Add(const Union& other) {
    for (size_t i = 0; i < registers.size(); ++i) {
      registers[i] = std::max(registers[i], other.registers[i]);
    }
    has_dense |= other.has_dense;
    if (other.error_at < error_at) {
      error = other.error;
      error_at = other.error_at;
    }
  }
};

// 16 KB are much for the stack of a fiber.
using UnionPtr = std::unique_ptr<Union>;

UnionPtr Unite(ShardContext& cx, Keys keys) {
  auto all = std::make_unique<Union>();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!all->Add(cx, keys[i], i)) break;
  }
  return all;
}

// The same over shards; with a target the transaction goes on. Null: it is refused. Suspends.
UnionPtr UniteAcross(KeyParts<UnionPtr>* parts, Keys keys) {
  const auto unite = [keys](ShardContext& cx, KeyParts<UnionPtr>::Item& item) {
    item.part = std::make_unique<Union>();
    for (size_t i : item.indexes) {
      if (!item.part->Add(cx, keys[i], i)) break;
    }
  };
  if (!parts->Hop(unite)) return nullptr;
  UnionPtr all = std::move(parts->items()[0].part);
  for (const auto& item : parts->items()) {
    if (item.part != nullptr) all->Add(*item.part);
  }
  return all;
}

// --- PFCOUNT ---

// Of one key; keeps the count with it.
void CountOne(ShardContext& cx, std::string_view key, ReplySink& reply) {
  const auto value = cx.FindReadOnly(key, ValueType::kString);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  if (!value) return reply.Integer(0);
  char scratch[CompactValue::kScratchSize];
  const std::string_view bytes = value->View(scratch);
  if (const auto known = HyperLogLog::CachedCount(bytes)) {
    return reply.Integer(static_cast<int64_t>(*known));
  }
  HyperLogLog::Registers registers = {};
  if (!HyperLogLog::Merge(bytes, &registers)) return reply.Error(kErrCorrupt);
  const uint64_t count = HyperLogLog::Estimate(registers);
  HyperLogLog::CacheCount(cx.FindMutable(key)->Widen(0), count);
  cx.Reencoded(key, true);  // as in Redis, WATCH hears of it
  reply.Integer(static_cast<int64_t>(count));
}

void ReplyCount(const Union& all, ReplySink& reply) {
  if (!all.error.empty()) return reply.Error(all.error);
  reply.Integer(static_cast<int64_t>(HyperLogLog::Estimate(all.registers)));
}

// PFCOUNT key [key ...]
void PfCount(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() == 2) return CountOne(cx, args.key(), reply);
  ReplyCount(*Unite(cx, args.from(1)), reply);
}

// Suspends.
void PfCountAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  KeyParts<UnionPtr> parts(cx, args.from(1));
  const UnionPtr all = UniteAcross(&parts, args.from(1));
  if (all != nullptr) ReplyCount(*all, reply);
}

// --- PFMERGE ---

// The target is one of those that are united, and stays sparse if all of them are, as far as that
// goes. Returns the error to reply, or none.
std::string_view Store(ShardContext& cx, std::string_view key, const Union& all) {
  auto value = cx.FindOrCreate(key, ValueType::kString);
  HyperLogLog log;
  if (!value.was_created()) {
    char scratch[CompactValue::kScratchSize];
    log = HyperLogLog(value->View(scratch));
  }
  bool is_sound = !all.has_dense || log.MakeDense();
  for (uint32_t i = 0; is_sound && i < HyperLogLog::kRegisters; ++i) {
    if (all.registers[i] == 0) continue;
    const Result result = log.Raise({i, all.registers[i]}, cx.shard().hll_sparse_max_bytes());
    is_sound = result != Result::kCorrupt;
  }
  if (!is_sound) return kErrCorrupt;
  HyperLogLog::MakeStale(log.writable());
  value->SetRaw(log.bytes());
  cx.Changed(key, KeyEvent::kPfAdd);
  return {};
}

void ReplyDone(std::string_view error, ReplySink& reply) {
  error.empty() ? reply.Ok() : reply.Error(error);
}

// PFMERGE target [key ...]
void PfMerge(ShardContext& cx, Args args, ReplySink& reply) {
  const UnionPtr all = Unite(cx, args.from(1));
  if (!all->error.empty()) return reply.Error(all->error);
  ReplyDone(Store(cx, args.key(), *all), reply);
}

// Suspends.
void PfMergeAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  KeyParts<UnionPtr> parts(cx, args.from(1));
  parts.SetTarget(args.key());
  const UnionPtr all = UniteAcross(&parts, args.from(1));
  if (all == nullptr) return;
  if (!all->error.empty()) return reply.Error(all->error);
  std::string_view error;
  parts.HopToTarget([&](ShardContext& shard_cx) { error = Store(shard_cx, args.key(), *all); });
  ReplyDone(error, reply);
}

// --- PFDEBUG, PFSELFTEST ---

// Makes it dense. True if it was not; none after the error was replied.
std::optional<bool> ToDense(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args[2]);
  char scratch[CompactValue::kScratchSize];
  const std::string_view bytes = value->View(scratch);
  if (HyperLogLog::IsDense(bytes)) return false;
  HyperLogLog log(bytes);
  if (!log.MakeDense()) return Refuse(reply, kErrCorrupt);
  value->SetRaw(log.bytes());
  cx.Reencoded(args[2], false);
  return true;
}

// PFDEBUG GETREG|DECODE|ENCODING|TODENSE key
void PfDebug(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindMutable(args[2], ValueType::kString);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  if (!value) return reply.Error("ERR The specified key does not exist");
  char scratch[CompactValue::kScratchSize];
  const std::string_view bytes = value->View(scratch);
  if (IsOption(args[1], "GETREG")) {
    if (!ToDense(cx, args, reply)) return;
    HyperLogLog::Registers registers = {};
    HyperLogLog::Merge(cx.Peek(args[2])->View(scratch), &registers);
    reply.Array(registers.size());
    for (uint8_t number : registers) reply.Integer(number);
  } else if (IsOption(args[1], "DECODE")) {
    if (HyperLogLog::IsDense(bytes)) return reply.Error("ERR HLL encoding is not sparse");
    const std::optional<std::string> text = HyperLogLog::DescribeRuns(bytes);
    if (!text) return reply.Error(kErrCorrupt);
    reply.Bulk(*text);
  } else if (IsOption(args[1], "ENCODING")) {
    reply.Status(HyperLogLog::IsDense(bytes) ? "dense" : "sparse");
  } else if (IsOption(args[1], "TODENSE")) {
    const std::optional<bool> was_sparse = ToDense(cx, args, reply);
    if (was_sparse) reply.Integer(*was_sparse ? 1 : 0);
  } else {
    reply.Error(fmt::format("ERR Unknown PFDEBUG subcommand '{}'", Printed(args[1])));
  }
}

// Both forms have the same registers, and the estimates are as good as the theory says. A few
// milliseconds.
void PfSelfTest(CoordinatorContext&, Args, ReplySink& reply) {
  constexpr uint32_t kElements = 10'000;
  constexpr uint32_t kOfSparse = 1000;  // which takes longer with each
  HyperLogLog dense, sparse;
  auto registers = std::make_unique<HyperLogLog::Registers>();
  auto other = std::make_unique<HyperLogLog::Registers>();
  dense.MakeDense();
  for (uint32_t count = 1, next = 1; count <= kElements; ++count) {
    const HyperLogLog::Mark mark = HyperLogLog::MarkOf(fmt::format("element:{}", count));
    const Result raised = dense.Raise(mark, 0);
    if (count <= kOfSparse && sparse.Raise(mark, SIZE_MAX) != raised) {
      return reply.Error("ERR TESTFAILED sparse and dense registers are not raised alike");
    }
    if (count != next) continue;
    next *= 10;
    registers->fill(0);
    other->fill(0);
    if (!HyperLogLog::Merge(dense.bytes(), registers.get()) ||
        !HyperLogLog::Merge(sparse.bytes(), other.get()) ||
        (count <= kOfSparse && *registers != *other)) {
      return reply.Error("ERR TESTFAILED sparse and dense registers differ");
    }
    const auto estimate = static_cast<double>(HyperLogLog::Estimate(*registers));
    const double error = 1.04 / std::sqrt(static_cast<double>(HyperLogLog::kRegisters));
    if (std::abs(estimate - count) > 5 * error * count + 1) {
      return reply.Error(fmt::format("ERR TESTFAILED {} elements were estimated as {}", count,
                                     static_cast<uint64_t>(estimate)));
    }
  }
  reply.Ok();
}

}  // namespace

void RegisterHyperLogLogCommands(CommandTable* table) {
  table->Add({.name = "pfadd",
              .run = PfAdd,
              .arity = -2,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclHyperLogLog,
              .keys = KeyAt(1, "RW insert"),
              .docs = {"Notes elements, whose number is to be estimated.", "2.8.9", "hyperloglog",
                       "O(1) for each element."}});
  table->Add({.name = "pfcount",
              .run = PfCount,
              .across = PfCountAcross,
              .arity = -2,
              .flags = kReadonly | kMayReplicate,
              .categories = kAclHyperLogLog,
              .keys = KeysFrom(1, 1, "RW access"),
              .docs = {"Estimates how many distinct elements were noted in one key, or in several "
                       "together.",
                       "2.8.9", "hyperloglog",
                       "O(1) for one key, whose count is kept; else O(N) where N is the number of "
                       "keys."}});
  table->Add({.name = "pfmerge",
              .run = PfMerge,
              .across = PfMergeAcross,
              .arity = -2,
              .flags = kWrite | kDenyOom,
              .categories = kAclHyperLogLog,
              .keys = TargetAndKeys("RW access insert", "RO access"),
              .docs = {"Notes in one key what was noted in others.", "2.8.9", "hyperloglog",
                       "O(N) where N is the number of keys."}});
  table->Add({.name = "pfdebug",
              .run = PfDebug,
              .arity = 3,
              .flags = kWrite | kDenyOom | kAdmin,
              .categories = kAclHyperLogLog,
              .keys = KeyAt(2, "RW access"),
              .docs = {"Shows the inside of a HyperLogLog.", "2.8.9", "hyperloglog", "N/A"}});
  table->Add({.name = "pfselftest",
              .coordinate = PfSelfTest,
              .arity = 1,
              .flags = kAdmin,
              .categories = kAclHyperLogLog,
              .docs = {"Tests the HyperLogLog code.", "2.8.9", "hyperloglog", "N/A"}});
}

}  // namespace dfly
