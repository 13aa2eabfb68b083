// SPDX-License-Identifier: Apache-2.0
#include "commands/spread.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "facade/error_texts.h"

namespace dfly {

namespace {

// Keeps the one reply of a one-key form: an integer, a string or null (perhaps in an array of one),
// OK, or an error.
class PieceReply final : public ReplySink {
 public:
  std::optional<std::string> text;  // a string
  std::optional<std::string> error;
  int64_t integer = 0;

  void Status(std::string_view) override {}
  void Error(std::string_view message) override { error.emplace(message); }
  void Integer(int64_t value) override { integer = value; }
  void Bulk(std::string_view bytes) override { text.emplace(bytes); }
  void Null() override {}
  void Array(size_t items) override { DCHECK_EQ(items, 1u); }

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

// One key's form of the command. Filled in on the key's shard.
struct Piece {
  uint64_t hash;
  size_t first_arg;
  PieceReply reply;
};

void Merge(Spread spread, const std::vector<const PieceReply*>& replies, ReplySink& reply) {
  for (const PieceReply* piece : replies) {
    if (piece->error) return reply.Error(*piece->error);
  }
  switch (spread) {
    case Spread::kSumIntegers: {
      int64_t sum = 0;
      for (const PieceReply* piece : replies) sum += piece->integer;
      return reply.Integer(sum);
    }
    case Spread::kKeepOrder:
      reply.Array(replies.size());
      for (const PieceReply* piece : replies) {
        if (piece->text) {
          reply.Bulk(*piece->text);
        } else {
          reply.Null();
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
    // Until there are transactions; see docs/architecture.md.
    return reply.Error(fmt::format("ERR '{}' with keys in several shards is not supported yet",
                                   command.full_name));
  }
  const auto step = static_cast<size_t>(command.keys.step);
  if ((args.size() - static_cast<size_t>(command.keys.first)) % step != 0) {
    return reply.Error(WrongArityError(command.full_name));  // MSET with a key that has no value
  }
  std::vector<std::vector<Piece>> parts(cx.shards().size());
  std::vector<ShardId> ids;
  std::vector<std::pair<ShardId, size_t>>
      order;  // of the keys: their shard and their place among its pieces
  for (size_t i = static_cast<size_t>(command.keys.first); i < command.KeysEnd(args.size());
       i += step) {
    const uint64_t hash = HashKey(args[i]);
    const ShardId shard = cx.shards().ShardOfKey(args[i], hash);
    if (parts[shard].empty()) ids.push_back(shard);
    order.emplace_back(shard, parts[shard].size());
    parts[shard].push_back({.hash = hash, .first_arg = i, .reply = {}});
  }

  cx.shards().AwaitOn(ids, [&](Shard& shard) {
    ShardContext context(shard);
    std::vector<std::string_view> piece_args(step + 1, args[0]);
    for (Piece& piece : parts[shard.id()]) {
      for (size_t i = 0; i < step; ++i) piece_args[i + 1] = args[piece.first_arg + i];
      context.Begin(cx.db_index(), cx.now_ms());
      context.SetKeyHash(piece_args[1], piece.hash);
      command.run(context, piece_args, piece.reply);
    }
  });

  std::vector<const PieceReply*> replies;
  replies.reserve(order.size());
  for (const auto& [shard, index] : order) replies.push_back(&parts[shard][index].reply);
  Merge(command.spread, replies, reply);
}

}  // namespace dfly
