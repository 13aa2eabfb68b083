// SPDX-License-Identifier: Apache-2.0
// Rows of metrics: the quotas of users and databases (the setting `quota`).
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/info/info_text.h"
#include "server/info/metric_rows.h"
#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

using QuotaFacts = InfoFacts::QuotaFacts;

void QuotaLines(const InfoFacts& facts, InfoText& out) {
  for (const QuotaFacts& quota : facts.quotas) {
    const QuotaLimits& limits = quota.limits;
    out.Add(fmt::format("quota_{}_{}", quota.owner.kind(), quota.owner.name()),
            fmt::format("commands={},bytes={},connections={},memory={},action={},"
                        "used_connections={},used_memory={},delayed={},refused={},"
                        "refused_connections={},refused_writes={},evicted_clients={}",
                        limits.commands, limits.bytes, limits.connections, limits.memory,
                        limits.action == QuotaAction::kError ? "error" : "delay", quota.connections,
                        quota.memory, quota.delayed, quota.refused, quota.refused_connections,
                        quota.refused_writes, quota.evicted_clients));
  }
}

template <uint64_t QuotaFacts::*kMember>
void QuotaSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const QuotaFacts& quota : facts.quotas) {
    out.Add({{"owner", quota.owner.kind()}, {"name", quota.owner.name()}}, quota.*kMember);
  }
}

void LimitSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const QuotaFacts& quota : facts.quotas) {
    const std::pair<std::string_view, uint64_t> limits[] = {
        {"commands", quota.limits.commands},
        {"bytes", quota.limits.bytes},
        {"connections", quota.limits.connections},
        {"memory", quota.limits.memory}};
    for (const auto& [name, limit] : limits) {
      if (limit == 0) continue;
      out.Add({{"owner", quota.owner.kind()}, {"name", quota.owner.name()}, {"of", name}}, limit);
    }
  }
}

constexpr std::string_view kOwner = "owner, name";

constexpr MetricRow kQuotas[] = {
    {.info = "quota_<owner>_<name>",
     .help = "The limits of a user or a database (0: none), what is used of them, and what became "
             "of what was too much.",
     .lines = QuotaLines},
    {.prom = "quota_limit",
     .label = "owner, name, of",
     .place = 410,
     .help = "A limit of a user or a database: of commands and bytes in a second, of connections, "
             "or of bytes of memory.",
     .samples = LimitSamples},
    {.prom = "quota_connections",
     .label = kOwner,
     .place = 411,
     .help = "Connections of a user or a database that has a quota.",
     .samples = QuotaSamples<&QuotaFacts::connections>},
    {.prom = "quota_memory_bytes",
     .label = kOwner,
     .unit = MetricUnit::kBytes,
     .place = 412,
     .help = "What the keys of a database, or the clients of a user, take that has a quota of it.",
     .samples = QuotaSamples<&QuotaFacts::memory>},
    {.prom = "quota_delayed_commands_total",
     .label = kOwner,
     .type = MetricType::kCounter,
     .place = 413,
     .help = "Commands that had to wait for a quota of commands or bytes.",
     .samples = QuotaSamples<&QuotaFacts::delayed>},
    {.prom = "quota_refused_commands_total",
     .label = kOwner,
     .type = MetricType::kCounter,
     .place = 414,
     .help = "Commands that were answered with an error for such a quota.",
     .samples = QuotaSamples<&QuotaFacts::refused>},
    {.prom = "quota_refused_connections_total",
     .label = kOwner,
     .type = MetricType::kCounter,
     .place = 415,
     .help = "Times that a connection found no place.",
     .samples = QuotaSamples<&QuotaFacts::refused_connections>},
    {.prom = "quota_refused_writes_total",
     .label = kOwner,
     .type = MetricType::kCounter,
     .place = 416,
     .help = "Commands that were refused as their database uses all its memory.",
     .samples = QuotaSamples<&QuotaFacts::refused_writes>},
    {.prom = "quota_evicted_clients_total",
     .label = kOwner,
     .type = MetricType::kCounter,
     .place = 417,
     .help = "Clients that were disconnected as those of their user use too much memory.",
     .samples = QuotaSamples<&QuotaFacts::evicted_clients>},
};

}  // namespace

std::span<const MetricRow> QuotasRows() { return kQuotas; }

}  // namespace dfly
