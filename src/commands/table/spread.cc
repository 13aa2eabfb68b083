// SPDX-License-Identifier: Apache-2.0
#include "commands/table/spread.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/refusing_sink.h"

namespace dfly {

namespace {

// Keeps what the form of a command for one shard replies: an integer, OK, an array of strings and
// nulls, or an error.
class PartReply final : public RefusingSink {
 public:
  // The items of an array: the bytes of all its strings, and where each of them ends.
  struct Item {
    size_t end;
    bool is_null;
  };
  std::string bytes;
  std::vector<Item> items;
  std::optional<std::string> error;
  int64_t integer = 0;

  std::string_view Text(size_t index) const {
    const size_t begin = index == 0 ? 0 : items[index - 1].end;
    return std::string_view(bytes).substr(begin, items[index].end - begin);
  }

  void Status(std::string_view) override {}
  void Error(std::string_view message) override { error.emplace(message); }
  void Integer(int64_t value) override { integer = value; }
  void Bulk(std::string_view text) override {
    bytes.append(text);
    items.push_back({bytes.size(), false});
  }
  void Null() override { items.push_back({bytes.size(), true}); }
  void Array(size_t count) override { items.reserve(count); }

 private:
  void Refuse() override { LOG(DFATAL) << "a command with such replies cannot be spread"; }
};

// The command with the keys of one shard, in their order. Run and answered on the shard's thread.
struct Part {
  std::span<std::string_view> args;
  std::span<uint64_t> hashes;  // of the keys
  PartReply reply;
  size_t merged = 0;  // items of the reply
};

// Sorts the keys by shard, and makes the command's form for each.
class Split {
 public:
  // REQUIRES: the keys and what belongs to them are the rest of `args`, from `first` on.
  Split(const ShardSet& shards, Args args, size_t first, size_t step) : part_of_(shards.size()) {
    const size_t count = (args.size() - first) / step;
    hash_of_.reserve(count);
    order_.reserve(count);
    for (size_t i = first; i < args.size(); i += step) {
      hash_of_.push_back(HashKey(args[i]));
      order_.push_back(shards.ShardOfKey(args[i], hash_of_.back()));
      ++part_of_[order_.back()].keys;
    }
    size_t parts = 0;
    for (PartOfShard& of : part_of_) parts += of.keys != 0;
    parts_ = std::vector<Part>(parts);
    args_.resize(parts * first + count * step);
    hashes_.resize(count);
    size_t next_arg = 0, next_hash = 0;
    parts = 0;
    for (PartOfShard& of : part_of_) {
      if (of.keys == 0) continue;
      of.index = parts++;
      Part& part = parts_[of.index];
      part.args = std::span(args_).subspan(next_arg, first + of.keys * step);
      part.hashes = std::span(hashes_).subspan(next_hash, of.keys);
      next_arg += part.args.size();
      next_hash += of.keys;
      std::copy_n(args.all().begin(), first, part.args.begin());
      of.keys = 0;  // those that are in
    }
    for (size_t i = 0; i < count; ++i) {
      PartOfShard& of = part_of_[order_[i]];
      Part& part = parts_[of.index];
      part.hashes[of.keys] = hash_of_[i];
      const auto key = args.all().begin() + static_cast<ptrdiff_t>(first + i * step);
      std::copy_n(key, step, part.args.begin() + static_cast<ptrdiff_t>(first + of.keys * step));
      ++of.keys;
    }
  }

  Part& part(ShardId shard) { return parts_[part_of_[shard].index]; }
  std::vector<Part>& parts() { return parts_; }
  // Of each key.
  std::span<const ShardId> order() const { return order_; }
  std::span<const uint64_t> hashes() const { return hash_of_; }

 private:
  struct PartOfShard {
    size_t keys = 0;
    size_t index = 0;
  };
  static constexpr size_t kFewKeys = 16;

  absl::InlinedVector<PartOfShard, 8> part_of_;  // by shard
  absl::InlinedVector<uint64_t, kFewKeys> hash_of_;
  absl::InlinedVector<ShardId, kFewKeys> order_;
  std::vector<Part> parts_;
  // Of all parts, each part's together.
  absl::InlinedVector<std::string_view, 3 * kFewKeys> args_;
  absl::InlinedVector<uint64_t, kFewKeys> hashes_;
};

// The items of `count` keys, which begin at `begin`.
void MergeItems(Split& split, size_t begin, size_t count, ReplySink& reply) {
  reply.Array(count);
  for (ShardId id : split.order().subspan(begin, count)) {
    Part& part = split.part(id);
    CHECK_LT(part.merged, part.reply.items.size()) << "fewer items than keys";
    const size_t index = part.merged++;
    if (part.reply.items[index].is_null) {
      reply.Null();
    } else {
      reply.Bulk(part.reply.Text(index));
    }
  }
}

void Merge(Spread spread, Split& split, std::span<const uint32_t> counts, ReplySink& reply) {
  const size_t commands = std::max<size_t>(counts.size(), 1);
  for (const Part& part : split.parts()) {
    if (!part.reply.error) continue;
    for (size_t i = 0; i < commands; ++i) reply.Error(*part.reply.error);
    return;
  }
  switch (spread) {
    case Spread::kSumIntegers: {
      int64_t sum = 0;
      for (const Part& part : split.parts()) sum += part.reply.integer;
      return reply.Integer(sum);
    }
    case Spread::kKeepOrder: {
      if (counts.empty()) return MergeItems(split, 0, split.order().size(), reply);
      size_t begin = 0;
      for (uint32_t count : counts) {
        MergeItems(split, begin, count, reply);
        begin += count;
      }
      return;
    }
    case Spread::kAllOk:
      for (size_t i = 0; i < commands; ++i) reply.Ok();
      return;
    case Spread::kNone:
      LOG(DFATAL) << "not a spread command";
  }
}

}  // namespace

void RunSpread(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply,
               std::span<const uint32_t> counts) {
  if (command.spread == Spread::kNone) {
    LOG(DFATAL) << command.full_name << " has several keys and no way to several shards";
    return reply.Error("ERR not possible with keys in several shards");
  }
  const auto first = static_cast<size_t>(command.keys.first);
  const auto step = static_cast<size_t>(command.keys.step);
  if ((args.size() - first) % step != 0) {
    return reply.Error(WrongArityError(command.full_name));  // MSET with a key that has no value
  }
  Split split(cx.shards(), args, first, step);
  Transaction tx(cx);
  const LockMode mode = command.lock_mode();
  for (size_t i = 0; i < split.order().size(); ++i) {
    const std::string_view key = args[first + i * step];
    tx.Lock(split.order()[i], {cx.shards().LockOfKey(key, split.hashes()[i], cx.db_index()), mode});
  }
  const auto run_part = [&](ShardTurn& turn) {
    Part& part = split.part(turn.shard().id());
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    shard_cx.SetKeyHashes(part.args.subspan(first), step, part.hashes);
    command.run(shard_cx, std::span<const std::string_view>(part.args), part.reply);
  };
  if (!tx.Run(run_part)) return;
  Merge(command.spread, split, counts, reply);
}

}  // namespace dfly
