// SPDX-License-Identifier: Apache-2.0
// Rows of metrics: replication.
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "server/info/info_text.h"
#include "server/info/metric_rows.h"
#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

void ReplicaLines(const InfoFacts& facts, InfoText& out) {
  size_t number = 0;
  for (const ReplicaFacts& replica : facts.replication.replicas) {
    out.Add(fmt::format("slave{}", number++),
            fmt::format("ip={},port={},state={},offset={},lag={}", replica.ip, replica.port,
                        replica.state, replica.offset, replica.lag_s));
  }
}

std::string NameOf(const ReplicaFacts& replica) {
  return fmt::format("{}:{}", replica.ip, replica.port);
}

void LagSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const ReplicaFacts& replica : facts.replication.replicas) {
    if (!replica.is_online) continue;
    const uint64_t end = facts.replication.offset;
    out.Add({{"replica", NameOf(replica)}}, end - std::min(end, replica.offset));
  }
}

void AgeSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const ReplicaFacts& replica : facts.replication.replicas) {
    if (replica.is_online) out.Add({{"replica", NameOf(replica)}}, replica.lag_s);
  }
}

constexpr MetricRow kReplication[] = {
    {.info = "role",
     .help = "Always `master`.",
     .value = Of<[](const InfoFacts&) { return "master"; }>},
    {.info = "connected_slaves",
     .prom = "connected_replicas",
     .place = 1000,
     .help = "Replicas that are connected.",
     .value = Of<[](const InfoFacts& facts) { return facts.replication.replicas.size(); }>},
    {.info = "slave<n>",
     .help = "A replica: its address, its state, up to where it has acknowledged the stream, and "
             "how many seconds ago.",
     .lines = ReplicaLines},
    {.prom = "replica_lag_bytes",
     .label = "replica",
     .unit = MetricUnit::kBytes,
     .place = 1002,
     .help = "Bytes of the stream that a replica has not acknowledged.",
     .samples = LagSamples},
    {.prom = "replica_ack_age_seconds",
     .label = "replica",
     .unit = MetricUnit::kSeconds,
     .place = 1003,
     .help = "How long ago a replica has acknowledged something.",
     .samples = AgeSamples},
    {.info = "master_failover_state",
     .help = "Always `no-failover`.",
     .value = Of<[](const InfoFacts&) { return "no-failover"; }>},
    {.info = "master_replid",
     .help = "The name of the history that the data has.",
     .value = Of<&ReplicationFacts::id>},
    {.info = "master_replid2",
     .help = "That of the history before, or zeros.",
     .value = Of<&ReplicationFacts::id2>},
    {.info = "master_repl_offset",
     .prom = "replication_offset_bytes",
     .type = MetricType::kGauge,
     .unit = MetricUnit::kBytes,
     .place = 1004,
     .help = "Bytes of the stream since it began; 0 before the first replica.",
     .value = Of<&ReplicationFacts::offset>},
    {.info = "second_repl_offset",
     .help = "Up to where `master_replid2` counts; -1: not at all.",
     .value = Of<&ReplicationFacts::second_offset>},
    {.info = "repl_backlog_active",
     .help = "1: the stream is kept for replicas that come back.",
     .value = Of<&ReplicationFacts::has_backlog>},
    {.info = "repl_backlog_size",
     .unit = MetricUnit::kBytes,
     .help = "The setting `repl-backlog-size`.",
     .value = Of<&ReplicationFacts::backlog_limit>},
    {.info = "repl_backlog_first_byte_offset",
     .help = "The offset of the first byte that is kept.",
     .value = Of<&ReplicationFacts::backlog_begin>},
    {.info = "repl_backlog_histlen",
     .prom = "replication_backlog_bytes",
     .unit = MetricUnit::kBytes,
     .place = 1005,
     .help = "Bytes of the stream that are kept.",
     .value = Of<&ReplicationFacts::backlog_bytes>},
};

}  // namespace

std::span<const MetricRow> ReplicationRows() { return kReplication; }

}  // namespace dfly
