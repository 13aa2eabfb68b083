// SPDX-License-Identifier: Apache-2.0
#include "commands/spread.h"

#include <optional>
#include <string>
#include <vector>

#include "engine/transaction.h"
#include "facade/error_texts.h"

namespace dfly {

namespace {

// Keeps what the form of a command for one shard replies: an integer, OK, an array of strings and
// nulls, or an error.
class PartReply final : public ReplySink {
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

  void NullArray() override { Refuse(); }
  void Double(double) override { Refuse(); }
  void Bool(bool) override { Refuse(); }
  void BigNumber(std::string_view) override { Refuse(); }
  void Verbatim(std::string_view, std::string_view) override { Refuse(); }
  void Map(size_t) override { Refuse(); }
  void Set(size_t) override { Refuse(); }
  void Push(size_t) override { Refuse(); }

 private:
  static void Refuse() { LOG(DFATAL) << "a command with such replies cannot be spread"; }
};

// The command with the keys of one shard, in their order. Run and answered on the shard's thread.
struct Part {
  std::vector<std::string_view> args;
  std::vector<uint64_t> hashes;  // of the keys
  PartReply reply;
  size_t merged = 0;  // items of the reply
};

// `order` has the shard of each key, `ids` those that have any.
void Merge(Spread spread, std::vector<Part>& parts, const std::vector<ShardId>& ids,
           const std::vector<ShardId>& order, ReplySink& reply) {
  for (ShardId id : ids) {
    if (parts[id].reply.error) return reply.Error(*parts[id].reply.error);
  }
  switch (spread) {
    case Spread::kSumIntegers: {
      int64_t sum = 0;
      for (ShardId id : ids) sum += parts[id].reply.integer;
      return reply.Integer(sum);
    }
    case Spread::kKeepOrder:
      reply.Array(order.size());
      for (ShardId id : order) {
        Part& part = parts[id];
        CHECK_LT(part.merged, part.reply.items.size()) << "fewer items than keys";
        const size_t index = part.merged++;
        if (part.reply.items[index].is_null) {
          reply.Null();
        } else {
          reply.Bulk(part.reply.Text(index));
        }
      }
      return;
    case Spread::kAllOk:
      return reply.Ok();
    case Spread::kNone:
      LOG(DFATAL) << "not a spread command";
  }
}

}  // namespace

void RunSpread(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply) {
  if (command.spread == Spread::kNone) {
    LOG(DFATAL) << command.full_name << " has several keys and no way to several shards";
    return reply.Error("ERR not possible with keys in several shards");
  }
  const auto first = static_cast<size_t>(command.keys.first);
  const auto step = static_cast<size_t>(command.keys.step);
  if ((args.size() - first) % step != 0) {
    return reply.Error(WrongArityError(command.full_name));  // MSET with a key that has no value
  }
  std::vector<Part> parts(cx.shards().size());
  std::vector<ShardId> ids;
  std::vector<ShardId> order;
  Transaction tx(cx);
  const LockMode mode = command.lock_mode();
  order.reserve((args.size() - first) / step);
  for (size_t i = first; i < args.size(); i += step) {
    const uint64_t hash = HashKey(args[i]);
    const ShardId id = cx.shards().ShardOfKey(args[i], hash);
    Part& part = parts[id];
    if (part.args.empty()) {
      ids.push_back(id);
      part.args.assign(args.all().begin(), args.all().begin() + static_cast<ptrdiff_t>(first));
    }
    for (size_t j = 0; j < step; ++j) part.args.push_back(args[i + j]);
    part.hashes.push_back(hash);
    tx.Lock(id, {cx.shards().LockOfKey(args[i], hash, cx.db_index()), mode});
    order.push_back(id);
  }

  tx.Run([&](Shard& shard) {
    Part& part = parts[shard.id()];
    ShardContext shard_cx(shard, cx.db_index(), cx.now_ms());
    const auto keys = std::span<const std::string_view>(part.args).subspan(first);
    shard_cx.SetKeyHashes(keys, step, part.hashes);
    command.run(shard_cx, part.args, part.reply);
  });
  Merge(command.spread, parts, ids, order, reply);
}

}  // namespace dfly
