// SPDX-License-Identifier: Apache-2.0
// Strings as arrays of bits: SETBIT GETBIT BITCOUNT BITPOS BITOP BITFIELD BITFIELD_RO.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "commands/table/long_reads.h"
#include "commands/table/numbers.h"
#include "core/memory/large_text.h"
#include "core/memory/work_bytes.h"
#include "core/text/numbers.h"
#include "core/types/bit_ops.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrBitOffset = "ERR bit offset is not an integer or out of range";
constexpr std::string_view kErrBitValue = "ERR bit is not an integer or out of range";

// Of a bit, or with '#' of a field of `field_bits` bits.
std::optional<uint64_t> ParseOffset(const ShardContext& cx, std::string_view text,
                                    uint32_t field_bits) {
  const bool is_field = field_bits > 0 && !text.empty() && text[0] == '#';
  const std::optional<int64_t> number = ParseInt64(text.substr(is_field ? 1 : 0));
  int64_t offset;
  if (!number || *number < 0 ||
      __builtin_mul_overflow(*number, is_field ? int64_t{field_bits} : 1, &offset)) {
    return std::nullopt;
  }
  if (static_cast<uint64_t>(offset) >> 3 >= cx.string_max()) return std::nullopt;
  // A field may reach beyond the limit by some bytes, but not beyond what a string can have.
  if ((static_cast<uint64_t>(offset) + field_bits) >> 3 >= UINT32_MAX) return std::nullopt;
  return static_cast<uint64_t>(offset);
}

// The string of a key; an absent one is empty.
std::string_view ViewOf(const ShardContext::ReadHandle& value, char* scratch) {
  return value ? value->View(scratch) : std::string_view();
}

// The bytes of the string, at least so many, to be changed; a missing key is made.
struct Opened {
  std::span<char> bytes;
  bool is_new = false;  // or longer than before
};

std::optional<Opened> OpenString(ShardContext& cx, std::string_view key, uint64_t last_bit) {
  auto value = cx.FindOrCreate(key, ValueType::kString);
  if (value.is_wrong_type()) return std::nullopt;
  const size_t size = value->StringSize();
  Opened opened = {.bytes = value->Widen((last_bit >> 3) + 1)};
  opened.is_new = value.was_created() || opened.bytes.size() != size;
  return opened;
}

// --- Single bits ---

void SetBit(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> offset = ParseOffset(cx, args[2], 0);
  if (!offset) return reply.Error(kErrBitOffset);
  const std::optional<int64_t> bit = ParseInt64(args[3]);
  if (!bit || (*bit != 0 && *bit != 1)) return reply.Error(kErrBitValue);
  const std::optional<Opened> opened = OpenString(cx, args.key(), *offset);
  if (!opened) return reply.Error(kErrWrongType);
  const bool old = dfly::GetBit({opened->bytes.data(), opened->bytes.size()}, *offset);
  if (opened->is_new || old != (*bit == 1)) {
    WriteBitField(opened->bytes.data(), *offset, 1, static_cast<uint64_t>(*bit));
    cx.Changed(args.key(), KeyEvent::kSetBit);
  }
  reply.Integer(old ? 1 : 0);
}

void GetBit(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> offset = ParseOffset(cx, args[2], 0);
  if (!offset) return reply.Error(kErrBitOffset);
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  char scratch[CompactValue::kScratchSize];
  reply.Integer(dfly::GetBit(ViewOf(value, scratch), *offset) ? 1 : 0);
}

// --- Ranges of bits ---

// As the client gave them, in bytes or bits; below 0 they count from the string's end.
struct BitRange {
  int64_t start = 0;
  int64_t end = -1;
  bool has_end = false;
  bool is_in_bits = false;
};

// Bits from `first` to `last`, both included.
struct Bits {
  uint64_t first;
  uint64_t last;
};

// [start [end [BYTE|BIT]]] from `at` on. False: the error was replied.
bool ParseRange(Args args, size_t at, BitRange* range, ReplySink& reply) {
  const auto number = [&](size_t index, int64_t* to) {
    const std::optional<int64_t> parsed = ParseInt64(args[index]);
    if (parsed) *to = *parsed;
    return parsed.has_value();
  };
  if (args.size() > at && !number(at, &range->start)) {
    reply.Error(kErrNotInteger);
    return false;
  }
  if (args.size() > at + 2) {
    range->is_in_bits = IsOption(args[at + 2], "BIT");
    if (!range->is_in_bits && !IsOption(args[at + 2], "BYTE")) {
      reply.Error(kErrSyntax);
      return false;
    }
  }
  range->has_end = args.size() > at + 1;
  if (range->has_end && !number(at + 1, &range->end)) {
    reply.Error(kErrNotInteger);
    return false;
  }
  return true;
}

// What of a string it means; none: nothing.
std::optional<Bits> Resolve(const BitRange& range, size_t bytes) {
  const auto size = static_cast<int64_t>(range.is_in_bits ? bytes * 8 : bytes);
  const auto from_front = [size](int64_t index) {
    return index < 0 ? std::max<int64_t>(size + index, 0) : index;
  };
  const int64_t start = from_front(range.start);
  const int64_t end = std::min(from_front(range.end), size - 1);
  if (start > end) return std::nullopt;
  const auto first = static_cast<uint64_t>(start);
  const auto last = static_cast<uint64_t>(end);
  return range.is_in_bits ? Bits{first, last} : Bits{first * 8, last * 8 + 7};
}

// Command::asks_for_many of what reads the range that begins at argument `kAt`.
template <size_t kAt>
bool ReadsLongRange(Args args) {
  if (args.size() <= kAt + 1) return true;
  const bool is_in_bits = args.size() > kAt + 2 && IsOption(args[kAt + 2], "BIT");
  return AsksForLongText(args[kAt], args[kAt + 1], is_in_bits ? 8 : 1);
}

// A walk over the bits of a range: for CopyInSlices, or in one step. `Walk` says with each part
// whether it goes on.
template <typename Walk>
class BitScan : public Walk {
 public:
  BitScan(const BitRange& range, const Walk& walk) : Walk(walk), range_(range) {}

  bool CopySome(ShardContext&, const ShardContext::ReadHandle& value) {
    char scratch[CompactValue::kScratchSize];
    const std::string_view bytes = value->View(scratch);
    if (!left_) {
      this->has_value = true;
      left_ = this->bits = Resolve(range_, bytes.size());
      if (!left_) return false;
    }
    const Bits part = {left_->first, std::min(left_->last, left_->first + kSliceBytesRead * 8 - 1)};
    left_->first = part.last + 1;
    return Walk::Visit(bytes, part) && part.last < left_->last;
  }
  void ScanAll(ShardContext& cx, const ShardContext::ReadHandle& value) {
    while (CopySome(cx, value)) {
    }
  }

 private:
  const BitRange range_;
  std::optional<Bits> left_;
};

struct BitWalk {
  bool has_value = false;
  std::optional<Bits> bits = {};  // the range, if it has some
};

// --- BITCOUNT ---

struct CountWalk : BitWalk {
  bool Visit(std::string_view bytes, const Bits& part) {
    count += CountBits(bytes, part.first, part.last);
    return true;
  }
  uint64_t count = 0;
};

// BITCOUNT key [start end [BYTE|BIT]]. None: the error was replied.
std::optional<BitScan<CountWalk>> ParseBitCount(Args args, ReplySink& reply) {
  BitRange range;
  if (args.size() == 3 || args.size() > 5) return Refuse(reply, kErrSyntax);
  // Both numbers come before the unit, unlike in BITPOS.
  for (size_t i = 2; i < std::min<size_t>(args.size(), 4); ++i) {
    if (!ParseInt64(args[i])) return Refuse(reply, kErrNotInteger);
  }
  if (!ParseRange(args, 2, &range, reply)) return std::nullopt;
  if (range.has_end && range.start < 0 && range.end < 0 && range.start > range.end) {
    range = {.start = 1, .end = 0};  // nothing, also of a string that is shorter than that
  }
  return BitScan<CountWalk>(range, {});
}

void BitCount(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<BitScan<CountWalk>> scan = ParseBitCount(args, reply);
  if (!scan) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (value) scan->ScanAll(cx, value);
  reply.Integer(static_cast<int64_t>(scan->count));
}

// Suspends.
void BitCountInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::optional<BitScan<CountWalk>> scan = ParseBitCount(args, reply);
  if (!scan || !CopyInSlices(cx, args.key(), ValueType::kString, reply, &*scan)) return;
  reply.Integer(static_cast<int64_t>(scan->count));
}

// --- BITPOS ---

struct FindWalk : BitWalk {
  bool Visit(std::string_view bytes, const Bits& part) {
    at = FindBit(bytes, bit, part.first, part.last);
    return !at;
  }
  void Reply(ReplySink& reply) const {
    if (!has_value) return reply.Integer(bit ? -1 : 0);  // as if there were zeros without end
    if (at) return reply.Integer(static_cast<int64_t>(*at));
    // Without an end the zeros behind the string count as well.
    const bool is_behind = bits && !bit && !has_end;
    reply.Integer(is_behind ? static_cast<int64_t>(bits->last + 1) : -1);
  }
  bool bit = false;
  bool has_end = false;
  std::optional<uint64_t> at = {};
};

// BITPOS key bit [start [end [BYTE|BIT]]]. None: the error was replied.
std::optional<BitScan<FindWalk>> ParseBitPos(Args args, ReplySink& reply) {
  const std::optional<int64_t> bit = ParseInt64(args[2]);
  if (!bit) return Refuse(reply, kErrNotInteger);
  if (*bit != 0 && *bit != 1) return Refuse(reply, "ERR The bit argument must be 1 or 0.");
  BitRange range;
  if (args.size() > 6) return Refuse(reply, kErrSyntax);
  if (!ParseRange(args, 3, &range, reply)) return std::nullopt;
  FindWalk walk;
  walk.bit = *bit == 1;
  walk.has_end = range.has_end;
  return BitScan<FindWalk>(range, walk);
}

void BitPos(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<BitScan<FindWalk>> scan = ParseBitPos(args, reply);
  if (!scan) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (value) scan->ScanAll(cx, value);
  scan->Reply(reply);
}

// Suspends.
void BitPosInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::optional<BitScan<FindWalk>> scan = ParseBitPos(args, reply);
  if (!scan || !CopyInSlices(cx, args.key(), ValueType::kString, reply, &*scan)) return;
  scan->Reply(reply);
}

// --- BITOP ---

// The operation, or none after the error was replied.
std::optional<BitOperation> ParseOperation(Args args, ReplySink& reply) {
  constexpr std::pair<std::string_view, BitOperation> kNames[] = {
      {"AND", BitOperation::kAnd},     {"OR", BitOperation::kOr},
      {"XOR", BitOperation::kXor},     {"NOT", BitOperation::kNot},
      {"DIFF", BitOperation::kDiff},   {"DIFF1", BitOperation::kDiff1},
      {"ANDOR", BitOperation::kAndOr}, {"ONE", BitOperation::kOne}};
  for (const auto& [name, operation] : kNames) {
    if (!IsOption(args[1], name)) continue;
    if (operation == BitOperation::kNot && args.size() != 4) {
      return Refuse(reply, "ERR BITOP NOT must be called with a single source key.");
    }
    if (SetsFirstApart(operation) && args.size() < 5) {
      reply.Error(fmt::format("ERR BITOP {} must be called with at least two source keys.", name));
      return std::nullopt;
    }
    return operation;
  }
  return Refuse(reply, kErrSyntax);
}

// Adds what key `index` of all has.
void AddTo(BitCombiner* combiner, BitOperation operation, size_t index, std::string_view bytes) {
  if (index == 0 && SetsFirstApart(operation)) {
    combiner->AddFirst(bytes);
  } else {
    combiner->Add(bytes);
  }
}

// The key becomes that string, whatever it was; nothing for the empty one. It may be in a block,
// which goes along. Redis 7.0 knows the first four operations; the effect of the others is what
// they have made.
void StoreBits(ShardContext& cx, BitOperation operation, std::string_view key,
               std::string_view text, std::optional<LargeText> block = {}) {
  const bool is_told = operation > BitOperation::kNot && cx.wants_effects();
  if (text.empty()) {
    if (cx.Delete(key) && is_told) cx.Tell("DEL", key);
    return;
  }
  ShardContext::Detached made;
  block ? made.value.SetBlock(*std::move(block)) : made.value.SetRaw(text);
  cx.access_clock().Start(made.value, cx.noted_ms());
  made.is_sticky = cx.IsSticky(key).value_or(false);
  cx.Put(key, std::move(made), KeyEvent::kSet);
  if (is_told) cx.Tell("SET", key, text);
}

// BITOP operation target key [key ...]
void BitOp(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<BitOperation> operation = ParseOperation(args, reply);
  if (!operation) return;
  BitCombiner combiner(*operation);
  const auto keys = args.from(3);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto value = cx.FindReadOnly(keys[i], ValueType::kString);
    if (value.is_wrong_type()) return reply.Error(kErrWrongType);
    char scratch[CompactValue::kScratchSize];
    AddTo(&combiner, *operation, i, ViewOf(value, scratch));
  }
  const std::string result = combiner.Finish();
  StoreBits(cx, *operation, args[2], result);
  reply.Integer(static_cast<int64_t>(result.size()));
}

// Each shard combines what it has, slice by slice; the results are combined the same way. Suspends.
void BitOpAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<BitOperation> operation = ParseOperation(args, reply);
  if (!operation) return;
  const auto keys = args.from(3);
  struct Part {
    std::optional<BitCombiner> combiner;  // of a slice
    size_t size = 0;                      // of its longest string
    bool is_wrong_type = false;
  };
  using Parts = KeyParts<Part>;
  Parts parts(cx, keys);
  parts.SetTarget(args[2]);
  size_t begin = 0;  // of the slice
  const auto add = [&](Part& part, size_t index, const ShardContext::ReadHandle& value) {
    char scratch[CompactValue::kScratchSize];
    const std::string_view text = ViewOf(value, scratch);
    part.size = std::max(part.size, text.size());
    AddTo(&*part.combiner, *operation, index,
          text.substr(std::min(begin, text.size()), kSliceBytes));
  };
  const bool may_go_on = parts.Hop([&](ShardContext& shard_cx, Parts::Item& item) {
    item.part.combiner.emplace(*operation);
    for (size_t i : item.indexes) {
      const auto value = shard_cx.FindReadOnly(keys[i], ValueType::kString);
      item.part.is_wrong_type |= value.is_wrong_type();
      if (item.part.is_wrong_type) return;
      add(item.part, i, value);
    }
  });
  if (!may_go_on) return;
  auto& items = parts.items();
  size_t size = 0;
  for (const auto& item : items) {
    if (item.part.is_wrong_type) return reply.Error(kErrWrongType);
    size = std::max(size, item.part.size);
  }
  const auto combined = [&items] {
    BitCombiner& combiner = *items[0].part.combiner;
    for (const auto& item : items) {
      if (&item != &items[0]) combiner.Merge(*item.part.combiner);
    }
    return combiner.Finish();
  };
  if (size <= kSliceBytes) {
    const std::string result = combined();
    parts.HopToTarget(
        [&](ShardContext& shard_cx) { StoreBits(shard_cx, *operation, args[2], result); });
    return reply.Integer(static_cast<int64_t>(size));
  }
  LargeText result(size);
  WorkBytes counted;
  counted.Set(size);
  helio::LongWork work(1);
  while (true) {
    const std::string slice = combined();
    memcpy(result.end(), slice.data(), slice.size());
    result.Filled(slice.size());
    begin += slice.size();
    if (begin == size) break;
    work.Step();
    for (auto& item : items) item.part.combiner.emplace(*operation);
    parts.HopOn([&](const Parts::Item& item) { return item.part.size > begin; },
                [&](ShardContext& shard_cx, Parts::Item& item) {
                  for (size_t i : item.indexes) add(item.part, i, shard_cx.Peek(keys[i]));
                },
                Parts::More::kYes);
    for (auto& item : items) {
      if (item.part.size > begin) continue;
      for (size_t i : item.indexes) AddTo(&*item.part.combiner, *operation, i, {});
    }
  }
  parts.HopToTarget([&](ShardContext& shard_cx) {
    const std::string_view text = result.view();
    StoreBits(shard_cx, *operation, args[2], text, std::move(result));
  });
  reply.Integer(static_cast<int64_t>(size));
}

// --- BITFIELD ---

struct FieldOperation {
  enum class Kind : uint8_t { kGet, kSet, kIncrBy };

  Kind kind;
  BitFieldType type;
  uint64_t offset;
  BitFieldOverflow overflow;
  int64_t number = 0;
};

// "u8", "i64"; none for what there is not.
std::optional<BitFieldType> ParseFieldType(std::string_view text) {
  if (text.empty() || (text[0] != 'i' && text[0] != 'u')) return std::nullopt;
  const bool is_signed = text[0] == 'i';
  const std::optional<int64_t> bits = ParseInt64(text.substr(1));
  if (!bits || *bits < 1 || *bits > (is_signed ? 64 : 63)) return std::nullopt;
  return BitFieldType{is_signed, static_cast<uint32_t>(*bits)};
}

// None: the error was replied.
std::optional<std::vector<FieldOperation>> ParseFieldOperations(const ShardContext& cx, Args args,
                                                                ReplySink& reply) {
  using Kind = FieldOperation::Kind;
  std::vector<FieldOperation> operations;
  BitFieldOverflow overflow = BitFieldOverflow::kWrap;
  for (size_t i = 2; i < args.size(); ++i) {
    const size_t left = args.size() - i - 1;
    Kind kind;
    if (IsOption(args[i], "GET") && left >= 2) {
      kind = Kind::kGet;
    } else if (IsOption(args[i], "SET") && left >= 3) {
      kind = Kind::kSet;
    } else if (IsOption(args[i], "INCRBY") && left >= 3) {
      kind = Kind::kIncrBy;
    } else if (IsOption(args[i], "OVERFLOW") && left >= 1) {
      const std::string_view name = args[++i];
      if (IsOption(name, "WRAP")) {
        overflow = BitFieldOverflow::kWrap;
      } else if (IsOption(name, "SAT")) {
        overflow = BitFieldOverflow::kSaturate;
      } else if (IsOption(name, "FAIL")) {
        overflow = BitFieldOverflow::kFail;
      } else {
        return Refuse(reply, "ERR Invalid OVERFLOW type specified");
      }
      continue;
    } else {
      return Refuse(reply, kErrSyntax);
    }
    const std::optional<BitFieldType> type = ParseFieldType(args[i + 1]);
    if (!type) {
      return Refuse(
          reply,
          "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported "
          "but i64 is.");
    }
    const std::optional<uint64_t> offset = ParseOffset(cx, args[i + 2], type->bits);
    if (!offset) return Refuse(reply, kErrBitOffset);
    FieldOperation operation = {
        .kind = kind, .type = *type, .offset = *offset, .overflow = overflow};
    if (kind != Kind::kGet) {
      const std::optional<int64_t> number = ParseInt64(args[i + 3]);
      if (!number) return Refuse(reply, kErrNotInteger);
      operation.number = *number;
    }
    operations.push_back(operation);
    i += kind == Kind::kGet ? 2 : 3;
  }
  return operations;
}

void ReadFields(ShardContext& cx, std::string_view key, std::span<const FieldOperation> operations,
                ReplySink& reply) {
  const auto value = cx.FindReadOnly(key, ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  char scratch[CompactValue::kScratchSize];
  const std::string_view bytes = ViewOf(value, scratch);
  reply.Array(operations.size());
  for (const FieldOperation& operation : operations) {
    reply.Integer(static_cast<int64_t>(ReadBitField(bytes, operation.offset, operation.type)));
  }
}

void WriteFields(ShardContext& cx, std::string_view key, std::span<const FieldOperation> operations,
                 ReplySink& reply) {
  uint64_t last_bit = 0;
  for (const FieldOperation& operation : operations) {
    if (operation.kind == FieldOperation::Kind::kGet) continue;
    last_bit = std::max(last_bit, operation.offset + operation.type.bits - 1);
  }
  const std::optional<Opened> opened = OpenString(cx, key, last_bit);
  if (!opened) return reply.Error(kErrWrongType);
  const std::string_view bytes(opened->bytes.data(), opened->bytes.size());
  uint64_t changes = 0;
  reply.Array(operations.size());
  for (const FieldOperation& operation : operations) {
    const uint64_t old = ReadBitField(bytes, operation.offset, operation.type);
    if (operation.kind == FieldOperation::Kind::kGet) {
      reply.Integer(static_cast<int64_t>(old));
      continue;
    }
    const bool is_set = operation.kind == FieldOperation::Kind::kSet;
    const std::optional<uint64_t> number =
        is_set ? AddToBitField(operation.type, static_cast<uint64_t>(operation.number), 0,
                               operation.overflow)
               : AddToBitField(operation.type, old, operation.number, operation.overflow);
    if (!number) {
      reply.Null();
      continue;
    }
    WriteBitField(opened->bytes.data(), operation.offset, operation.type.bits, *number);
    changes += opened->is_new || *number != old;
    reply.Integer(static_cast<int64_t>(is_set ? old : *number));
  }
  if (changes > 0) {
    cx.Changed(key, KeyEvent::kSetBit, changes);
  } else if (opened->is_new) {
    cx.ChangedUnwatched(key, KeyEvent::kNone, 0);  // as in Redis: it is there, and nobody hears
  }
}

enum class FieldAccess : uint8_t { kReadWrite, kReadOnly };

template <FieldAccess kAccess>
void BitField(ShardContext& cx, Args args, ReplySink& reply) {
  const auto parsed = ParseFieldOperations(cx, args, reply);
  if (!parsed) return;
  const std::vector<FieldOperation>& operations = *parsed;
  const bool writes = std::any_of(
      operations.begin(), operations.end(),
      [](const FieldOperation& operation) { return operation.kind != FieldOperation::Kind::kGet; });
  if (!writes) return ReadFields(cx, args.key(), operations, reply);
  if (kAccess == FieldAccess::kReadOnly) {
    return reply.Error("ERR BITFIELD_RO only supports the GET subcommand");
  }
  WriteFields(cx, args.key(), operations, reply);
}

}  // namespace

void RegisterBitmapCommands(CommandTable* table) {
  table->Add(
      {.name = "setbit",
       .run = SetBit,
       .arity = 4,
       .flags = kWrite | kDenyOom,
       .categories = kAclBitmap,
       .keys = KeyAt(1, "RW access update"),
       .docs = {"Sets one bit of a string, which gets zeros up to there, and returns what it "
                "was.",
                "2.2.0", "bitmap", "O(1)"}});
  table->Add({.name = "getbit",
              .run = GetBit,
              .arity = 3,
              .flags = kReadonly | kFast,
              .categories = kAclBitmap,
              .keys = KeyAt(1),
              .docs = {"Returns one bit of a string.", "2.2.0", "bitmap", "O(1)"}});
  table->Add({.name = "bitcount",
              .run = BitCount,
              .across = BitCountInSlices,
              .slices = true,
              .asks_for_many = ReadsLongRange<2>,
              .arity = -2,
              .flags = kReadonly,
              .categories = kAclBitmap,
              .keys = KeyAt(1),
              .docs = {"Counts the bits that are 1, in a string or a part of it.", "2.6.0",
                       "bitmap", "O(N) where N is the number of bytes looked at."}});
  table->Add({.name = "bitpos",
              .run = BitPos,
              .across = BitPosInSlices,
              .slices = true,
              .asks_for_many = ReadsLongRange<3>,
              .arity = -3,
              .flags = kReadonly,
              .categories = kAclBitmap,
              .keys = KeyAt(1),
              .docs = {"Finds the first bit that is 1, or 0, in a string or a part of it.", "2.8.7",
                       "bitmap", "O(N) where N is the number of bytes looked at."}});
  table->Add({.name = "bitop",
              .run = BitOp,
              .across = BitOpAcross,
              .slices = true,
              .arity = -4,
              .flags = kWrite | kDenyOom,
              .categories = kAclBitmap,
              .keys = {2, -1, 1, "OW update", 0, "RO access"},
              .docs = {"Combines strings bit by bit and stores the result.", "2.6.0", "bitmap",
                       "O(N) where N is the number of bytes of all strings."}});
  table->Add({.name = "bitfield",
              .run = BitField<FieldAccess::kReadWrite>,
              .arity = -2,
              .flags = kWrite | kDenyOom,
              .categories = kAclBitmap,
              .keys = KeyAt(1, "RW access update variable_flags"),
              .docs = {"Reads, sets and increments integers of any width within a string.", "3.2.0",
                       "bitmap", "O(1) for each subcommand."}});
  table->Add({.name = "bitfield_ro",
              .run = BitField<FieldAccess::kReadOnly>,
              .arity = -2,
              .flags = kReadonly | kFast,
              .categories = kAclBitmap,
              .keys = KeyAt(1),
              .docs = {"Reads integers of any width within a string.", "6.0.0", "bitmap",
                       "O(1) for each subcommand."}});
}

}  // namespace dfly
