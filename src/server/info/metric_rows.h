// SPDX-License-Identifier: Apache-2.0
// The table of metrics. A row is a number under its name in INFO, its name in /metrics, or both;
// docs/metrics.md is made of the rows, too. docs/contributing.md has an example ("Add a metric").
//
// A row does not say how the numbers of threads are put together: the kCounters of the struct do
// (helio/base/counters.h), also for numbers that rows compute something from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "server/info/info_facts.h"

namespace dfly {

class InfoText;
class PrometheusText;

// monostate: there is nothing to tell. INFO has no line then.
using MetricValue = std::variant<std::monostate, uint64_t, int64_t, double, std::string>;

enum class MetricType : uint8_t { kGauge, kCounter, kHistogram };
std::string_view NameOf(MetricType type);

// Of the value. INFO shows a double with two decimals, seconds with six; /metrics shows seconds
// instead of smaller units.
enum class MetricUnit : uint8_t {
  kCount,
  kBytes,
  kSeconds,
  kMillis,
  kMicros,
  kNanos,    // INFO has milliseconds
  kKib,      // in a second
  kRatio,    // of two numbers
  kPercent,  // INFO has a % behind it
  kOk,       // INFO has "ok" or "err"
};

// Families of /metrics are sorted by it: by hundreds one topic. One without is at the end.
using Place = uint16_t;
inline constexpr Place kLastPlace = UINT16_MAX;

struct MetricRow {
  std::string_view info = {};  // name in INFO; empty: it is not there
  std::string_view prom = {};  // name in /metrics, without "dragonfly_"; empty: it is not there
  // The one label of this row, or the names of the labels that `samples` writes.
  std::string_view label = {};
  std::string_view label_value = {};
  MetricType type = MetricType::kGauge;
  MetricUnit unit = MetricUnit::kCount;
  bool has_human = false;  // INFO has a second line of these bytes, for people
  Place place = kLastPlace;
  std::string_view help = {};
  // The help in /metrics if it is another one: that of a family of several rows, in the first one.
  std::string_view prom_help = {};

  // What it is now. Of<> makes one of a member or of a lambda.
  MetricValue (*value)(const InfoFacts& facts) = nullptr;
  // Instead of `value`, for lists: the lines in INFO, the samples in /metrics.
  void (*lines)(const InfoFacts& facts, InfoText& out) = nullptr;
  void (*samples)(const InfoFacts& facts, PrometheusText& out) = nullptr;
};

// A section of INFO: its rows in their order, and those that only /metrics has.
struct InfoSection {
  std::string_view name;
  std::string_view title;
  bool is_default;  // shown by a plain INFO
  std::span<const MetricRow> rows;
  bool is_named_only = false;  // it costs much: not by "all" or "everything" either
};
// In the order of INFO.
std::span<const InfoSection> InfoSections();

// --- Values ---

template <typename T>
MetricValue ToValue(T value) {
  if constexpr (std::is_same_v<T, MetricValue>) {
    return value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(value);
  } else {
    return std::string(value);
  }
}

// The struct of this type, wherever it is in the facts.
template <typename T>
const T& StructOf(const InfoFacts& facts) {
  if constexpr (std::is_same_v<T, InfoFacts>) {
    return facts;
  } else if constexpr (std::is_same_v<T, PersistenceFacts>) {
    return facts.persistence;
  } else if constexpr (std::is_same_v<T, AppendLogFacts>) {
    return facts.append_log;
  } else if constexpr (std::is_same_v<T, ReplicasFacts>) {
    return facts.replicas;
  } else if constexpr (std::is_same_v<T, ShardSnapshotStats>) {
    return facts.persistence.last_shards;
  } else if constexpr (std::is_same_v<T, TransactionStats>) {
    return facts.counts.transactions;
  } else {
    return facts.counts.Get<T>();
  }
}

template <typename Struct, typename Member>
MetricValue ValueOf(const InfoFacts& facts, Member Struct::*member) {
  return ToValue(StructOf<Struct>(facts).*member);
}

// `kSource`: a member of a struct of the facts, like &ShardStats::hits, or a lambda that gets the
// facts.
template <auto kSource>
MetricValue Of(const InfoFacts& facts) {
  if constexpr (std::is_member_pointer_v<decltype(kSource)>) {
    return ValueOf(facts, kSource);
  } else {
    return ToValue(kSource(facts));
  }
}

// --- What Redis has and this server does not ---

inline constexpr std::string_view kNoForks = "Always 0: nothing forks.";

template <int64_t kNumber>
MetricValue Always(const InfoFacts&) {
  return kNumber;
}

// --- The rows of each section ---

std::span<const MetricRow> ServerRows();
std::span<const MetricRow> TlsRows();
std::span<const MetricRow> ClientsRows();
std::span<const MetricRow> MemoryRows();
std::span<const MetricRow> PersistenceRows();
std::span<const MetricRow> StatsRows();
std::span<const MetricRow> ReplicationRows();
std::span<const MetricRow> CpuRows();
std::span<const MetricRow> CommandstatsRows();
std::span<const MetricRow> LatencystatsRows();
std::span<const MetricRow> ErrorstatsRows();
std::span<const MetricRow> ClusterRows();
std::span<const MetricRow> KeyspaceRows();
std::span<const MetricRow> KeysizesRows();
std::span<const MetricRow> DispatchRows();
std::span<const MetricRow> TransactionRows();
std::span<const MetricRow> ThreadsRows();
std::span<const MetricRow> ShardsRows();
std::span<const MetricRow> QuotasRows();

}  // namespace dfly
