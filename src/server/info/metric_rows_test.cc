// SPDX-License-Identifier: Apache-2.0
// What rows of metrics have to be, and docs/metrics.md, which is made of them. After a change:
//   DFLY_WRITE_GOLDEN=1 build/release/metric_rows_test && git diff docs/metrics.md
#include "server/info/metric_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "commands/testing/doc_examples.h"
#include "server/info/info.h"
#include "server/info/metrics.h"

namespace dfly {
namespace {

std::vector<const MetricRow*> AllRows() {
  std::vector<const MetricRow*> rows;
  for (const InfoSection& section : InfoSections()) {
    for (const MetricRow& row : section.rows) rows.push_back(&row);
  }
  return rows;
}

std::string NameOf(const MetricRow& row) {
  return std::string(row.info.empty() ? row.prom : row.info) + std::string(row.label_value);
}

TEST(MetricRows, EachHasANameAHelpAndAValue) {
  for (const MetricRow* row : AllRows()) {
    const std::string name = NameOf(*row);
    EXPECT_FALSE(name.empty());
    EXPECT_TRUE(row->help.ends_with('.')) << name;
    const bool has_info = row->value != nullptr || row->lines != nullptr;
    const bool has_prom = row->value != nullptr || row->samples != nullptr;
    EXPECT_TRUE(row->info.empty() || has_info) << name;
    EXPECT_TRUE(row->prom.empty() || has_prom) << name;
    EXPECT_EQ(row->lines != nullptr, row->info.find('<') != std::string::npos) << name;
    EXPECT_TRUE(row->value == nullptr || row->samples == nullptr) << name;
    EXPECT_EQ(row->label.empty(), row->label_value.empty() && row->samples == nullptr) << name;
  }
}

TEST(MetricRows, NoNameIsThereTwice) {
  std::set<std::string> names;
  for (const MetricRow* row : AllRows()) {
    const std::string name(row->info);
    EXPECT_TRUE(name.empty() || names.insert(name).second) << name;
    EXPECT_TRUE(!row->has_human || names.insert(name + "_human").second) << name;
  }
  std::set<Place> places;
  for (const MetricRow* row : RowsOfMetrics()) {
    EXPECT_TRUE(row->place == kLastPlace || places.insert(row->place).second) << row->place;
  }
}

TEST(MetricRows, FamiliesStandTogetherAndAreOfOneKind) {
  std::set<std::string_view> families;
  const MetricRow* before = nullptr;
  for (const MetricRow* row : RowsOfMetrics()) {
    if (before != nullptr && before->prom == row->prom) {
      EXPECT_EQ(row->type, before->type) << row->prom;
      EXPECT_EQ(row->label, before->label) << row->prom;
      EXPECT_EQ(row->prom_help, "") << row->prom << ": only the first row has the help";
    } else {
      EXPECT_TRUE(families.insert(row->prom).second) << row->prom;
    }
    before = row;
  }
}

// As Prometheus wants them.
TEST(MetricRows, NamesEndWithWhatTheyAre) {
  for (const MetricRow* row : RowsOfMetrics()) {
    EXPECT_EQ(row->prom.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
              std::string_view::npos);
    EXPECT_EQ(row->prom.ends_with("_total"), row->type == MetricType::kCounter) << row->prom;
    const std::string_view stem =
        row->prom.substr(0, row->prom.size() - (row->prom.ends_with("_total") ? 6 : 0));
    EXPECT_EQ(row->unit == MetricUnit::kBytes, stem.ends_with("_bytes")) << row->prom;
    const bool is_time = row->unit == MetricUnit::kSeconds || row->unit == MetricUnit::kMicros ||
                         row->unit == MetricUnit::kNanos;
    EXPECT_EQ(is_time, stem.ends_with("_seconds")) << row->prom;
  }
}

// Each number of each struct gets another value, for two threads.
template <typename T>
void Fill(T* counts, uint64_t* next) {
  for (const auto& counter : T::kCounters) {
    if (counter.whole != nullptr) {
      counts->*counter.whole = (*next)++;
    } else {
      counts->*counter.real = static_cast<double>((*next)++);
    }
  }
}

template <typename T>
void ExpectMerged(const T& sum, const T& first, const T& second) {
  T expected = first;
  helio::AddCounters(&expected, second);
  for (const auto& counter : T::kCounters) {
    if (counter.whole == nullptr) continue;
    EXPECT_EQ(sum.*counter.whole, expected.*counter.whole);
    EXPECT_NE(sum.*counter.whole, first.*counter.whole);
  }
}

TEST(Counts, EachStructOfTwoThreadsIsMerged) {
  Counts first;
  Counts second;
  uint64_t next = 1;
  for (Counts* counts : {&first, &second}) {
    std::apply([&](auto... structs) { (Fill(&(counts->*structs), &next), ...); }, Counts::kStructs);
  }
  first.transactions = {.global = 3, .widths = {0, 1}};
  second.transactions = {.global = 4, .widths = {0, 10, 20}};
  first.databases = {{.keys = 1, .ttl_ms = 0.5}};
  second.databases = {{.keys = 2, .ttl_ms = 0.25}, {.keys = 5}};
  Counts sum;
  sum.Merge(first);
  sum.Merge(second);
  std::apply(
      [&](auto... structs) { (ExpectMerged(sum.*structs, first.*structs, second.*structs), ...); },
      Counts::kStructs);
  EXPECT_EQ(sum.transactions.global, 7u);
  EXPECT_EQ(sum.transactions.widths, (std::vector<uint64_t>{0, 11, 20}));
  ASSERT_EQ(sum.databases.size(), 2u);
  EXPECT_EQ(sum.databases[0].keys, 3u);
  EXPECT_EQ(sum.databases[0].ttl_ms, 0.75);
  EXPECT_EQ(sum.databases[1].keys, 5u);
}

// --- docs/contributing.md, "Add a metric" ---

constexpr MetricRow kExample[] = {
    // doc-example: begin metric row
    {.info = "total_changes",
     .prom = "changes_total",
     .type = MetricType::kCounter,
     .help = "Changes of keys.",
     .value = Of<&ShardStats::changes>},
    // doc-example: end
};

TEST(MetricRows, TheExampleOfTheDocsWorks) {
  ExpectInDocs("docs/contributing.md", "src/server/info/metric_rows_test.cc", "metric row");
  InfoFacts facts;
  facts.counts.shards.changes = 7;
  EXPECT_EQ(FormatRows(facts, kExample), "total_changes:7\r\n");
  const std::vector<const MetricRow*> rows = {kExample};
  EXPECT_EQ(FormatMetrics(facts, rows),
            "# HELP dragonfly_changes_total Changes of keys.\n"
            "# TYPE dragonfly_changes_total counter\n"
            "dragonfly_changes_total 7\n");
}

// --- docs/metrics.md ---

std::string_view UnitInInfo(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::kBytes:
      return "bytes";
    case MetricUnit::kSeconds:
      return "s";
    case MetricUnit::kMillis:
    case MetricUnit::kNanos:
      return "ms";
    case MetricUnit::kMicros:
      return "us";
    case MetricUnit::kKib:
      return "KiB/s";
    case MetricUnit::kPercent:
      return "%";
    case MetricUnit::kCount:
    case MetricUnit::kRatio:
    case MetricUnit::kOk:
      return "";
  }
  return "";
}

// "`kind`: `data`, `clients`" of the rows of one family.
std::string LabelsOf(const std::vector<const MetricRow*>& family) {
  std::string text = family[0]->label.empty() ? "" : fmt::format("`{}`", family[0]->label);
  for (size_t at = 0; (at = text.find(", ", at)) != std::string::npos; at += 4) {
    text.replace(at, 2, "`, `");
  }
  for (const MetricRow* row : family) {
    if (row->label_value.empty()) continue;
    text += fmt::format("{}`{}`", row == family[0] ? ": " : ", ", row->label_value);
  }
  return text;
}

std::string LineOfFamily(const std::vector<const MetricRow*>& family) {
  std::string fields;
  for (const MetricRow* row : family) {
    if (row->info.empty()) continue;
    fields += fmt::format("{}`{}`", fields.empty() ? "" : ", ", row->info);
  }
  const MetricRow& first = *family[0];
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", first.prom, NameOf(first.type),
                     LabelsOf(family), fields,
                     first.prom_help.empty() ? first.help : first.prom_help);
}

std::string TableOfMetrics() {
  std::string text =
      "| name | type | labels | in INFO | what it is |\n| --- | --- | --- | --- | --- |\n";
  std::vector<const MetricRow*> family;
  for (const MetricRow* row : RowsOfMetrics()) {
    if (!family.empty() && family[0]->prom != row->prom) {
      text += LineOfFamily(family);
      family.clear();
    }
    family.push_back(row);
  }
  return text + LineOfFamily(family);
}

std::string TableOfSection(const InfoSection& section) {
  std::string text = fmt::format("### {}\n\n", section.title);
  if (!section.is_default) text += "Not in a plain `INFO`.\n\n";
  if (section.rows.empty()) return text + "Empty: there are no modules.\n\n";
  text += "| field | unit | what it is |\n| --- | --- | --- |\n";
  for (const MetricRow& row : section.rows) {
    if (row.info.empty()) continue;
    text += fmt::format("| `{}`{} | {} | {} |\n", row.info,
                        row.has_human ? fmt::format(", `{}_human`", row.info) : "",
                        UnitInInfo(row.unit), row.help);
  }
  return text + "\n";
}

std::string Page() {
  std::string text =
      "# Metrics\n\n"
      "All fields of `INFO` and all metrics of `GET /metrics`. [monitoring.md](monitoring.md) says "
      "how to use them.\n\n"
      "The rows of `src/server/info/metric_rows_*.cc` make this page "
      "(`DFLY_WRITE_GOLDEN=1 build/release/metric_rows_test`), `INFO` and `/metrics`.\n"
      "[Add a metric](contributing.md#add-a-metric) has an example.\n\n"
      "## GET /metrics\n\n"
      "Each name begins with `dragonfly_`. Times are seconds, sizes are bytes. Counters begin "
      "again when the server starts, and most of them at `CONFIG RESETSTAT`.\n\n" +
      TableOfMetrics() + "\n## INFO\n\n";
  for (const InfoSection& section : InfoSections()) text += TableOfSection(section);
  text.pop_back();
  return text;
}

TEST(MetricRows, ThePageOfMetricsIsCurrent) {
  if (getenv("DFLY_WRITE_GOLDEN") != nullptr) {
    std::ofstream(PathInSource("docs/metrics.md")) << Page();
  }
  EXPECT_EQ(Page(), ReadSource("docs/metrics.md"))
      << "DFLY_WRITE_GOLDEN=1 build/release/metric_rows_test";
}

// Names of /metrics are known by their ends.
TEST(MetricRows, MonitoringNamesOnlyWhatThereIs) {
  std::set<std::string_view> names;
  for (const MetricRow* row : RowsOfMetrics()) names.insert(row->prom);
  const std::string page = ReadSource("docs/monitoring.md");
  size_t count = 0;
  for (size_t begin = 0; (begin = page.find('`', begin)) != std::string::npos;) {
    const size_t end = page.find('`', ++begin);
    const std::string_view word = std::string_view(page).substr(begin, end - begin);
    if (word.starts_with('_')) continue;  // an end alone
    if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string_view::npos) continue;
    if (word.ends_with("_total") || word.ends_with("_bytes") || word.ends_with("_seconds")) {
      EXPECT_TRUE(names.contains(word)) << word;
      ++count;
    }
  }
  EXPECT_GT(count, 5u);
}

}  // namespace
}  // namespace dfly
