// SPDX-License-Identifier: Apache-2.0
#include "server/info/metric_rows.h"

#include <array>

namespace dfly {

std::string_view NameOf(MetricType type) {
  switch (type) {
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kCounter:
      return "counter";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

std::span<const InfoSection> InfoSections() {
  static const std::array kSections = {
      InfoSection{"server", "Server", true, ServerRows()},
      InfoSection{"tls", "TLS", false, TlsRows()},
      InfoSection{"clients", "Clients", true, ClientsRows()},
      InfoSection{"memory", "Memory", true, MemoryRows()},
      InfoSection{"persistence", "Persistence", true, PersistenceRows()},
      InfoSection{"stats", "Stats", true, StatsRows()},
      InfoSection{"replication", "Replication", true, ReplicationRows()},
      InfoSection{"cpu", "CPU", true, CpuRows()},
      InfoSection{"modules", "Modules", true, {}},
      InfoSection{"commandstats", "Commandstats", false, CommandstatsRows()},
      InfoSection{"latencystats", "Latencystats", false, LatencystatsRows()},
      InfoSection{"errorstats", "Errorstats", true, ErrorstatsRows()},
      InfoSection{"cluster", "Cluster", true, ClusterRows()},
      InfoSection{"quotas", "Quotas", false, QuotasRows()},
      InfoSection{"keyspace", "Keyspace", true, KeyspaceRows()},
      InfoSection{"keysizes", "Keysizes", false, KeysizesRows(), true},
      InfoSection{"dispatch", "Dispatch", false, DispatchRows()},
      InfoSection{"transaction", "Transaction", false, TransactionRows()},
      InfoSection{"threads", "Threads", false, ThreadsRows()},
      InfoSection{"shards", "Shards", false, ShardsRows()},
  };
  return kSections;
}

}  // namespace dfly
