// SPDX-License-Identifier: Apache-2.0
// INFO: writes the rows of metrics as lines. The names of sections and fields are those of
// redis-server that tools read; what this server does not have yet is either told as the zero that
// it is, or left out. There must be no field by which a known client takes us for another server
// than Redis ("dragonfly_version").
#include "server/info/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "engine/hops/coordinator.h"
#include "server/base/units.h"
#include "server/base/words.h"
#include "server/clients/worker_state.h"
#include "server/info/info_text.h"

namespace dfly {

namespace {

std::string Printed(const MetricRow& row, const MetricValue& value) {
  return std::visit(
      [&row](const auto& number) -> std::string {
        using T = std::decay_t<decltype(number)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "";
        } else if constexpr (std::is_same_v<T, double>) {
          if (row.unit == MetricUnit::kSeconds) return fmt::format("{:.6f}", number);
          return fmt::format("{:.2f}{}", number, row.unit == MetricUnit::kPercent ? "%" : "");
        } else if constexpr (std::is_same_v<T, uint64_t>) {
          if (row.unit == MetricUnit::kOk) return number != 0 ? "ok" : "err";
          return fmt::format("{}", row.unit == MetricUnit::kNanos ? number / 1'000'000 : number);
        } else {
          return fmt::format("{}", number);
        }
      },
      value);
}

void WriteRow(const InfoFacts& facts, const MetricRow& row, InfoText& out) {
  if (row.info.empty()) return;
  if (row.lines != nullptr) return row.lines(facts, out);
  const MetricValue value = row.value(facts);
  if (std::holds_alternative<std::monostate>(value)) return;
  out.Add(row.info, Printed(row, value));
  if (row.has_human) {
    out.Add(fmt::format("{}_human", row.info), HumanBytes(std::get<uint64_t>(value)));
  }
}

bool IsWanted(const InfoSection& section, std::span<const std::string_view> wanted) {
  if (wanted.empty()) return section.is_default;
  return std::any_of(wanted.begin(), wanted.end(), [&section](std::string_view name) {
    if (IsWord(name, "all") || IsWord(name, "everything")) return !section.is_named_only;
    return IsWord(name, "default") ? section.is_default : IsWord(name, section.name);
  });
}

void Info(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const auto sections = args.from(1);
  const bool with_latencies =
      std::any_of(sections.begin(), sections.end(), [](std::string_view name) {
        return IsWord(name, "latencystats") || IsWord(name, "all") || IsWord(name, "everything");
      });
  ServerState& server = WorkerState::Here().server;
  InfoFacts facts = GatherInfo(server, with_latencies);
  if (std::any_of(sections.begin(), sections.end(),
                  [](std::string_view name) { return IsWord(name, "keysizes"); })) {
    facts.key_sizes =
        GatherKeySizes(cx, server.settings.keysizes_keys_max.load(std::memory_order_relaxed));
  }
  reply.Verbatim("txt", FormatInfo(facts, args.from(1)));
}

}  // namespace

std::string FormatRows(const InfoFacts& facts, std::span<const MetricRow> rows) {
  InfoText out;
  for (const MetricRow& row : rows) WriteRow(facts, row, out);
  return std::move(out.text());
}

std::string FormatInfo(const InfoFacts& facts, std::span<const std::string_view> sections) {
  std::string text;
  for (const InfoSection& section : InfoSections()) {
    if (!IsWanted(section, sections)) continue;
    if (!text.empty()) text += "\r\n";
    text += fmt::format("# {}\r\n", section.title);
    text += FormatRows(facts, section.rows);
  }
  return text;
}

void RegisterInfoCommands(CommandTable* table) {
  table->Add({.name = "info",
              .coordinate = Info,
              .arity = -1,
              .flags = kLoading | kStale,
              .categories = kAclDangerous,
              .docs = {"Tells about the server, in sections.", "1.0.0", "server", "O(1)"},
              .tips = "nondeterministic_output request_policy:all_shards response_policy:special"});
}

}  // namespace dfly
