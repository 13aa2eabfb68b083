// SPDX-License-Identifier: Apache-2.0
// Rows that are much alike in many families.
#pragma once

#include <optional>
#include <string_view>

#include "commands/table/command_table.h"

namespace dfly {

// How a command reads large values in slices (Command::slices), if it does, and how one with many
// arguments is cut into pieces.
struct InSlices {
  CoordinatorHandler across = nullptr;
  bool (*asks_for_many)(Args args) = nullptr;
  bool (*takes_many)(const CompactValue& value, Args args, size_t key_at) = nullptr;
  Pieces pieces = {};
};
constexpr InSlices InPieces(PieceReplies replies, size_t step = 1,
                            std::optional<size_t> (*check)(Args args, ReplySink& reply) = nullptr) {
  return {.pieces = {.replies = replies, .step = step, .check = check}};
}

// Adds the commands of a family whose keys are in one shard.
// Owner:  the function that registers a family, which is where it lives.
// Thread: the one that fills the table.
class FamilyRows {
 public:
  // `group`: of COMMAND DOCS; static. `categories`: of the family, besides those that flags bring.
  FamilyRows(CommandTable* table, std::string_view group, uint32_t categories)
      : table_(*table), group_(group), categories_(categories) {}

  // All texts are static.
  void operator()(std::string_view name, ShardHandler run, int arity, uint32_t flags, KeySpec keys,
                  std::string_view summary, std::string_view since, std::string_view complexity,
                  std::string_view tips = {}, const InSlices& in_slices = {}) const {
    table_.Add({.name = name,
                .run = run,
                .across = in_slices.across,
                .slices = in_slices.across != nullptr,
                .asks_for_many = in_slices.asks_for_many,
                .takes_many = in_slices.takes_many,
                .pieces = in_slices.pieces,
                .arity = arity,
                .flags = flags,
                .categories = categories_,
                .keys = keys,
                .docs = {summary, since, group_, complexity},
                .tips = tips});
  }

 private:
  CommandTable& table_;
  const std::string_view group_;
  const uint32_t categories_;
};

// HELP of a container. `group`: of COMMAND DOCS. Texts are static.
template <ScriptedHandler kHelp>
Command HelpRow(std::string_view since, std::string_view group, uint32_t categories = 0) {
  return {.name = "help",
          .session = ForClient<kHelp>,
          .scripted = kHelp,
          .arity = 2,
          .flags = kLoading | kStale,
          .categories = categories,
          .docs = {"Lists the subcommands.", since, group, "O(1)"}};
}

}  // namespace dfly
