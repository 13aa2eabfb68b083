// SPDX-License-Identifier: Apache-2.0
// Rows of metrics: replication.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "server/info/info_text.h"
#include "server/info/metric_rows.h"
#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

void ReplicaLines(const InfoFacts& facts, InfoText& out) {
  size_t number = 0;
  for (const ReplicaFacts& replica : facts.replicas.all) {
    out.Add(fmt::format("slave{}", number++),
            fmt::format("ip={},port={},state={},offset={},lag={},age={}", replica.ip, replica.port,
                        replica.state, replica.offset, replica.lag_s, replica.age_s));
  }
}

std::string NameOf(const ReplicaFacts& replica) {
  return fmt::format("{}:{}", replica.ip, replica.port);
}

void LagSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const ReplicaFacts& replica : facts.replicas.all) {
    if (!replica.is_online) continue;
    const uint64_t end = facts.replicas.offset;
    out.Add({{"replica", NameOf(replica)}}, end - std::min(end, replica.offset));
  }
}

void AgeSamples(const InfoFacts& facts, PrometheusText& out) {
  for (const ReplicaFacts& replica : facts.replicas.all) {
    if (replica.is_online) out.Add({{"replica", NameOf(replica)}}, replica.lag_s);
  }
}

// What only a replica tells; and of these, what it tells during a copy, and without its primary.
template <auto kSource>
MetricValue OfReplica(const InfoFacts& facts) {
  if (!facts.primary_link.is_replica) return {};
  return ToValue(kSource(facts.primary_link));
}
template <auto kSource>
MetricValue WhileSyncing(const InfoFacts& facts) {
  if (!facts.primary_link.is_syncing) return {};
  return OfReplica<kSource>(facts);
}
template <auto kSource>
MetricValue WhileDown(const InfoFacts& facts) {
  if (facts.primary_link.is_up) return {};
  return OfReplica<kSource>(facts);
}

constexpr MetricRow kReplication[] = {
    {.info = "role",
     .help = "`master`, or `slave`: a replica.",
     .value =
         Of<[](const InfoFacts& f) { return f.primary_link.is_replica ? "slave" : "master"; }>},
    {.info = "master_host",
     .help = "Of a replica, as all down to `replica_announced`: its primary.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return f.primary_host; }>},
    {.info = "master_port",
     .help = "Its port.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return uint64_t{f.primary_port}; }>},
    {.info = "master_link_status",
     .help = "`up`: the stream of the primary runs; or `down`.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return f.is_up ? "up" : "down"; }>},
    {.info = "master_last_io_seconds_ago",
     .help = "Since the primary has sent something; -1: there is no link.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return f.last_io_s; }>},
    {.info = "master_sync_in_progress",
     .help = "1: a full copy is received or loaded.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return uint64_t{f.is_syncing}; }>},
    {.info = "slave_read_repl_offset",
     .help = "Of the stream, what has been read.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return f.read_offset; }>},
    {.info = "slave_repl_offset",
     .help = "And what has been carried out. Without a link since it was told to follow this "
             "primary: 0 if it was a primary, half of it if it followed another one.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return f.applied_offset; }>},
    {.info = "master_sync_total_bytes",
     .help = "During a full copy: its bytes; 0: not known.",
     .value = WhileSyncing<[](const PrimaryLinkFacts& f) { return f.copy_bytes_total; }>},
    {.info = "master_sync_read_bytes",
     .help = "Of these, what is here.",
     .value = WhileSyncing<[](const PrimaryLinkFacts& f) { return f.copy_bytes_read; }>},
    {.info = "master_sync_left_bytes",
     .help = "And what is not.",
     .value = WhileSyncing<[](const PrimaryLinkFacts& f) {
       return static_cast<int64_t>(f.copy_bytes_total) - static_cast<int64_t>(f.copy_bytes_read);
     }>},
    {.info = "master_sync_perc",
     .help = "The same in percent.",
     .value = WhileSyncing<[](const PrimaryLinkFacts& f) {
       return f.copy_bytes_total == 0 ? 0.0
                                      : 100 * static_cast<double>(f.copy_bytes_read) /
                                            static_cast<double>(f.copy_bytes_total);
     }>},
    {.info = "master_sync_last_io_seconds_ago",
     .help = "Since a part of it has come.",
     .value = WhileSyncing<[](const PrimaryLinkFacts& f) { return f.copy_last_io_s; }>},
    {.info = "master_link_down_since_seconds",
     .help = "Without a link: since when; -1: there never was one.",
     .value = WhileDown<[](const PrimaryLinkFacts& f) { return f.down_since_s; }>},
    {.info = "slave_priority",
     .help = "`replica-priority`.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return uint64_t{f.priority}; }>},
    {.info = "slave_read_only",
     .help = "`replica-read-only`.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return uint64_t{f.is_read_only}; }>},
    {.info = "replica_announced",
     .help = "`replica-announced`.",
     .value = OfReplica<[](const PrimaryLinkFacts& f) { return uint64_t{f.is_announced}; }>},
    {.info = "connected_slaves",
     .prom = "connected_replicas",
     .place = 1300,
     .help = "Replicas that are connected.",
     .value = Of<[](const InfoFacts& facts) { return facts.replicas.all.size(); }>},
    {.info = "min_slaves_good_slaves",
     .help = "With `min-replicas-to-write`: replicas that count for it.",
     .value =
         [](const InfoFacts& facts) {
           const auto& good = facts.replicas.good;
           return good ? ToValue(*good) : MetricValue();
         }},
    {.info = "slave<n>",
     .help = "A replica: its address, its state, up to where it has acknowledged the stream, how "
             "many seconds ago, and for how many it has been connected.",
     .lines = ReplicaLines},
    {.prom = "replica_lag_bytes",
     .label = "replica",
     .unit = MetricUnit::kBytes,
     .place = 1302,
     .help = "Bytes of the stream that a replica has not acknowledged.",
     .samples = LagSamples},
    {.prom = "replica_ack_age_seconds",
     .label = "replica",
     .unit = MetricUnit::kSeconds,
     .place = 1303,
     .help = "How long ago a replica has acknowledged something.",
     .samples = AgeSamples},
    {.prom = "replication_is_replica",
     .place = 1306,
     .help = "1: it is a replica; 0: a primary.",
     .value = Of<[](const InfoFacts& f) { return uint64_t{f.primary_link.is_replica}; }>},
    {.prom = "replication_link_up",
     .place = 1307,
     .help = "0: it is a replica, and the stream of its primary does not run; else 1.",
     .value = Of<[](const InfoFacts& f) {
       return uint64_t{!f.primary_link.is_replica || f.primary_link.is_up};
     }>},
    {.prom = "replication_stream_errors_total",
     .type = MetricType::kCounter,
     .place = 1308,
     .help = "Commands of its primary that have failed at this replica: its data may not be the "
             "same any more.",
     .value = Of<[](const InfoFacts& f) { return f.primary_link.errors; }>},
    {.info = "min_replicas_to_ack",
     .help = "So many replicas have to acknowledge a write before it is answered; 0: none, or this "
             "server is a replica.",
     .value = Of<&ReplicasFacts::sync_replicas>},
    {.info = "ack_waiting_epochs",
     .prom = "replication_ack_waiting_epochs",
     .place = 1320,
     .help = "Epochs of the stream that too few replicas have acknowledged.",
     .value = Of<&ReplicasFacts::sync_waiting_epochs>},
    {.info = "ack_timeouts",
     .prom = "replication_ack_timeouts_total",
     .type = MetricType::kCounter,
     .place = 1321,
     .help =
         "Clients that were not told of their writes, as too few replicas had acknowledged them "
         "within `ack-timeout`.",
     .value = Of<&ReplicasFacts::sync_timeouts>},
    {.info = "fence_sentinels",
     .help = "Sentinels that were heard within `fence-ms`, if there is a fence.",
     .value = Of<&ReplicasFacts::sentinels_heard>},
    {.info = "is_fenced",
     .prom = "replication_fenced",
     .place = 1322,
     .help = "1: writes are not answered, as too few Sentinels are heard.",
     .value = Of<[](const InfoFacts& f) { return uint64_t{f.replicas.is_fenced}; }>},
    {.info = "master_failover_state",
     .help = "Of `FAILOVER`: `no-failover`, `waiting-for-sync` or `failover-in-progress`.",
     .value = Of<[](const InfoFacts& f) { return f.primary_link.failover_state; }>},
    {.info = "master_replid",
     .help = "Which stream this is; of a replica, the one of its primary.",
     .value = Of<&ReplicasFacts::id>},
    {.info = "master_replid2",
     .help = "Which one it was before a promotion; zeros: there was none.",
     .value = Of<&ReplicasFacts::id2>},
    {.info = "master_repl_offset",
     .prom = "replication_offset_bytes",
     .type = MetricType::kGauge,
     .unit = MetricUnit::kBytes,
     .place = 1304,
     .help = "Bytes of the stream since it began; 0 before the first replica. Of a replica, those "
             "that it has carried out.",
     .value = Of<[](const InfoFacts& f) {
       return f.primary_link.is_replica ? static_cast<uint64_t>(f.primary_link.applied_offset)
                                        : f.replicas.offset;
     }>},
    {.info = "second_repl_offset",
     .help = "Up to where `master_replid2` counts; -1: not at all.",
     .value = Of<&ReplicasFacts::second_offset>},
    {.info = "repl_backlog_active",
     .help = "1: the stream is kept for replicas that come back.",
     .value = Of<&ReplicasFacts::has_backlog>},
    {.info = "repl_backlog_size",
     .unit = MetricUnit::kBytes,
     .help = "The setting `repl-backlog-size`.",
     .value = Of<&ReplicasFacts::backlog_limit>},
    {.info = "repl_backlog_first_byte_offset",
     .help = "The offset of the first byte that is kept.",
     .value = Of<&ReplicasFacts::backlog_begin>},
    {.info = "repl_backlog_histlen",
     .prom = "replication_backlog_bytes",
     .unit = MetricUnit::kBytes,
     .place = 1305,
     .help = "Bytes of the stream that are kept.",
     .value = Of<&ReplicasFacts::backlog_bytes>},
};

}  // namespace

std::span<const MetricRow> ReplicationRows() { return kReplication; }

}  // namespace dfly
