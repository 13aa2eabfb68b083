// SPDX-License-Identifier: Apache-2.0
#include "commands/table/spread.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/long_reads.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/refusing_sink.h"
#include "helio/fibers/long_work.h"

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
  void Integer(int64_t value) override { integer += value; }
  void Bulk(std::string_view text) override {
    bytes.append(text);
    items.push_back({bytes.size(), false});
  }
  void Null() override { items.push_back({bytes.size(), true}); }
  void Array(size_t count) override {
    if (items.empty()) items.reserve(count);
  }

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

// The next item of a shard, which has replied for its keys in their order.
template <typename P>
void MergeItem(P& part, ReplySink& reply) {
  CHECK_LT(part.merged, part.reply.items.size()) << "fewer items than keys";
  const size_t index = part.merged++;
  if (part.reply.items[index].is_null) {
    reply.Null();
  } else {
    reply.Bulk(part.reply.Text(index));
  }
}

// The items of `count` keys, which begin at `begin`.
void MergeItems(Split& split, size_t begin, size_t count, ReplySink& reply) {
  reply.Array(count);
  for (ShardId id : split.order().subspan(begin, count)) MergeItem(split.part(id), reply);
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

namespace {

// The keys of a command that has very many, sorted by shard, and what each shard replies.
class KeyPieces {
 public:
  // As Split. Suspends.
  KeyPieces(CoordinatorContext& cx, const Command& command, Args args, size_t keys_each)
      : cx_(cx),
        command_(command),
        args_(args),
        first_(static_cast<size_t>(command.keys.first)),
        step_(static_cast<size_t>(command.keys.step)),
        keys_each_(keys_each),
        parts_(cx.shards().size()) {
    const size_t count = (args.size() - first_) / step_;
    hashes_.reserve(count);
    order_.reserve(count);
    for (size_t i = first_; i < args.size(); i += step_) {
      hashes_.push_back(HashKey(args[i]));
      order_.push_back(cx.shards().ShardOfKey(args[i], hashes_.back()));
      ++parts_[order_.back()].keys;
      work_.Step();
    }
    for (ShardKeys& part : parts_) part.indexes.reserve(part.keys);
    for (size_t i = 0; i < count; ++i) {
      parts_[order_[i]].indexes.push_back(i);
      work_.Step();
    }
    for (ShardId id = 0; id < parts_.size(); ++id) {
      ShardKeys& part = parts_[id];
      if (part.keys == 0) continue;
      ids_.push_back(id);
      if (command.spread == Spread::kKeepOrder) part.reply.items.reserve(part.keys);
    }
  }

  size_t count() const { return order_.size(); }
  // Those that have keys which have not been run.
  std::span<const ShardId> ids() const { return ids_; }

  // All keys, in the order that Transaction wants: to sort a million at once takes 100 ms.
  // Suspends.
  void LockAll(Transaction* tx) {
    tx->ReserveLocks(count());
    for (ShardId id : ids_) {
      constexpr int kBits = 10;
      std::vector<size_t> begin((size_t{1} << kBits) + 1);  // of the tags with these first bits
      const auto bucket_of = [](uint64_t fingerprint) { return fingerprint >> (64 - kBits); };
      const std::vector<size_t>& indexes = parts_[id].indexes;
      for (size_t i : indexes) {
        ++begin[bucket_of(FingerprintOf(i)) + 1];
        work_.Step();
      }
      for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
      const auto sorted = std::make_unique_for_overwrite<uint64_t[]>(indexes.size());
      std::vector<size_t> end(begin.begin(), begin.end() - 1);
      for (size_t i : indexes) {
        const uint64_t fingerprint = FingerprintOf(i);
        sorted[end[bucket_of(fingerprint)]++] = fingerprint;
        work_.Step();
      }
      helio::LongWork sorting(1);
      for (size_t i = 1; i < begin.size(); ++i) {
        std::sort(sorted.get() + begin[i - 1], sorted.get() + begin[i]);
        sorting.Step();
      }
      for (size_t i = 0; i < indexes.size(); ++i) {
        tx->Lock(id, {sorted[i], command_.lock_mode()});
        work_.Step();
      }
    }
  }

  // On a shard of ids(): the next of its keys.
  void RunSome(ShardTurn& turn) {
    ShardKeys& part = parts_[turn.shard().id()];
    part.args.assign(args_.all().begin(), args_.all().begin() + static_cast<ptrdiff_t>(first_));
    part.hashes.clear();
    size_t bytes = 0;
    while (part.next < part.keys && part.hashes.size() < keys_each_ && bytes < kSliceBytes) {
      const size_t index = part.indexes[part.next++];
      part.hashes.push_back(hashes_[index]);
      for (std::string_view arg : args_.all().subspan(first_ + index * step_, step_)) {
        part.args.push_back(arg);
        bytes += arg.size();
      }
    }
    ShardContext& shard_cx = turn.Begin(cx_.db_index(), cx_.now_ms());
    shard_cx.SetKeyHashes(std::span(part.args).subspan(first_), step_, part.hashes);
    command_.run(shard_cx, Args(part.args), part.reply);
  }
  // Behind each hop.
  void EndHop() {
    std::erase_if(ids_, [this](ShardId id) { return parts_[id].next == parts_[id].keys; });
  }

  // Suspends.
  void Reply(ReplySink& reply) {
    for (const ShardKeys& part : parts_) {
      if (part.reply.error) return reply.Error(*part.reply.error);
    }
    if (command_.spread == Spread::kAllOk) return reply.Ok();
    if (command_.spread == Spread::kSumIntegers) {
      int64_t sum = 0;
      for (const ShardKeys& part : parts_) sum += part.reply.integer;
      return reply.Integer(sum);
    }
    reply.Array(count());
    for (ShardId id : order_) {
      MergeItem(parts_[id], reply);
      work_.Step();
    }
  }

 private:
  struct ShardKeys {
    size_t keys = 0;
    std::vector<size_t> indexes;         // of its keys among all
    size_t next = 0;                     // of these: those before it were run
    std::vector<std::string_view> args;  // of the piece, as `hashes`
    std::vector<uint64_t> hashes;
    PartReply reply;
    size_t merged = 0;
  };

  uint64_t FingerprintOf(size_t index) const {
    const std::string_view key = args_[first_ + index * step_];
    return cx_.shards().LockOfKey(key, hashes_[index], cx_.db_index());
  }

  CoordinatorContext& cx_;
  const Command& command_;
  const Args args_;
  const size_t first_, step_, keys_each_;
  helio::LongWork work_;
  std::vector<uint64_t> hashes_;  // of all keys
  std::vector<ShardId> order_;    // and their shards
  std::vector<ShardKeys> parts_;  // by shard
  std::vector<ShardId> ids_;
};

}  // namespace

void RunSpreadInPieces(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply,
                       size_t keys_each) {
  const auto first = static_cast<size_t>(command.keys.first);
  if ((args.size() - first) % static_cast<size_t>(command.keys.step) != 0) {
    return reply.Error(WrongArityError(command.full_name));
  }
  KeyPieces pieces(cx, command, args, keys_each);
  Transaction tx(cx);
  pieces.LockAll(&tx);
  if (!tx.Schedule()) return;
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  while (!pieces.ids().empty()) {
    tx.HopOn(pieces.ids(), [&pieces](ShardTurn& turn) { pieces.RunSome(turn); });
    pieces.EndHop();
    work.Step();
  }
  tx.Conclude();
  pieces.Reply(reply);
}

}  // namespace dfly
