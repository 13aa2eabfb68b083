// SPDX-License-Identifier: Apache-2.0
// Rows of settings: what a primary does for its replicas.
#include <climits>
#include <cstdint>
#include <string>

#include "server/options/setting_slots.h"
#include "server/replication/replication.h"
#include "server/settings/rows.h"

namespace dfly {

namespace {

using enum SettingTopic;
using enum SettingKind;
using enum SettingHow;
using Options = ServerOptions;

std::string Apply(SettingHost& host, const SettingChange& change) {
  Server& server = ServerOf(host);
  server.state().pool.at(0)->Await(
      [&] { server.replication().SetOptions(change.now.replication); });
  return "";
}

constexpr SettingRow kRows[] = {
    {.name = "repl-backlog-size",
     .topic = kReplication,
     .kind = kMemory,
     .initial = "1mb",
     .min = 1,
     .max = INT64_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::backlog_bytes>,
     .apply = Apply,
     .help = "Bytes of the stream of changes that stay in memory: a replica that was away for less "
             "goes on without a copy."},
    {.name = "repl-diskless-sync-delay",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "5",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::copy_delay_s>,
     .apply = Apply,
     .help = "Seconds that a replica waits for a copy, so that others can share it."},
    {.name = "repl-diskless-sync-max-replicas",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::copy_replicas_max>,
     .apply = Apply,
     .help = "When so many wait the copy begins at once. 0: it always waits."},
    {.name = "repl-ping-replica-period",
     .old_name = "repl-ping-slave-period",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "10",
     .min = 1,
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::ping_period_s>,
     .apply = Apply,
     .help = "Seconds between two PINGs in the stream, so that replicas see that it is alive."},
    {.name = "repl-timeout",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "60",
     .min = 1,
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::timeout_s>,
     .apply = Apply,
     .help = "Seconds of silence after which a replica is given up."},
};

}  // namespace

std::span<const SettingRow> ReplicaSettings() { return kRows; }

}  // namespace dfly
