// SPDX-License-Identifier: Apache-2.0
// Rows of settings: replication.
#include <fmt/format.h>

#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/numbers.h"
#include "server/base/words.h"
#include "server/clients/worker_state.h"
#include "server/options/setting_slots.h"
#include "server/replication/peer_host.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/settings/rows.h"

namespace dfly {

namespace {

using enum SettingTopic;
using enum SettingKind;
using enum SettingHow;
using Options = ServerOptions;

// "no one", or a host and its port.
std::string Primary(std::string_view text, std::string* error) {
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.empty()) return "";
  if (words.size() != 2) {
    *error = "wrong number of arguments";
    return "";
  }
  if (IsWord(words[0], "no") && IsWord(words[1], "one")) return "";
  const auto port = ParseInt64(words[1]);
  if (!port || *port < 0 || *port > 65535) *error = "Invalid master port";
  if (!IsPeerHost(words[0])) *error = "Invalid master host";
  return fmt::format("{} {}", words[0], words[1]);
}

// What waits for the disk looks again.
std::string ApplyIgnoresDisk(SettingHost& host, const SettingChange& change) {
  if (change.now.replication.ignores_disk_errors) {
    WorkerState::ReleaseHeldOnAll(ServerOf(host).state());
  }
  return "";
}

constexpr SettingSlot kPrimary = {[](std::string_view value, Options* options) {
                                    std::string error;
                                    options->replication.primary = Primary(value, &error);
                                    return error;
                                  },
                                  kSlot<&Options::replication, &ReplicationOptions::primary>.show};

// On the thread that replication belongs to; from a fiber. Suspends.
std::string ApplyOptions(SettingHost& host, const SettingChange& change) {
  const std::string& announced = change.now.replication.announce_ip;
  if (!announced.empty() && !IsPeerHost(announced)) return "replica-announce-ip is no address";
  Server& server = ServerOf(host);
  server.state().pool.at(0)->AwaitFiber("config replication", [&] {
    server.primary_link().SetOptions(change.now.replication);
    server.replicas().SetOptions(change.now.replication);
  });
  return "";
}

constexpr NamedValue<bool> kAckMeanings[] = {{"received", false}, {"durable", true}};

constexpr NamedValue<CopyLoad> kCopyLoads[] = {{"disabled", CopyLoad::kDisabled},
                                               {"on-empty-db", CopyLoad::kOnEmptyDb},
                                               {"swapdb", CopyLoad::kSwapDb}};

constexpr SettingRow kRows[] = {
    {.name = "replicaof",
     .old_name = "slaveof",
     .topic = kReplication,
     .how = kAtStart,
     .slot = kPrimary,
     .has_words = true,
     .lacks_line_if_empty = true,
     .brief = "\"host port\" of the primary of this replica",
     .help = "Host and port of the primary, of which this server is a replica. REPLICAOF changes "
             "it."},
    {.name = "masterauth",
     .topic = kReplication,
     .slot = kSlot<&Options::replication, &ReplicationOptions::password>,
     .apply = ApplyOptions,
     .takes_controls = true,
     .help = "The password with which a replica comes to its primary."},
    {.name = "masteruser",
     .topic = kReplication,
     .slot = kSlot<&Options::replication, &ReplicationOptions::user>,
     .apply = ApplyOptions,
     .help = "The user who has it; empty: the default one."},
    {.name = "replica-read-only",
     .old_name = "slave-read-only",
     .topic = kReplication,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::replication, &ReplicationOptions::is_read_only>,
     .apply = ApplyOptions,
     .help = "A replica refuses writes of its clients. If it does not, what they write is lost at "
             "the next full copy, and keys that they give a time to live stay until the primary "
             "deletes them."},
    {.name = "replica-ignore-disk-write-errors",
     .topic = kReplication,
     .kind = kBool,
     .initial = "no",
     .slot = kSlot<&Options::replication, &ReplicationOptions::ignores_disk_errors>,
     .live = kStoreLive<&Settings::ignores_disk_errors, &Options::replication,
                        &ReplicationOptions::ignores_disk_errors>,
     .apply = ApplyIgnoresDisk,
     .help = "A replica whose disk fails goes on with what its primary sends. If not, it waits "
             "until the disk is well again; the primary sees how far it is behind."},
    {.name = "replica-serve-stale-data",
     .old_name = "slave-serve-stale-data",
     .topic = kReplication,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::replication, &ReplicationOptions::serves_stale_data>,
     .apply = ApplyOptions,
     .help = "A replica that has lost its primary goes on to answer."},
    {.name = "repl-diskless-load",
     .topic = kReplication,
     .kind = kChoice,
     .initial = "disabled",
     .choices = "disabled on-empty-db swapdb",
     .slot = kChoiceSlot<kCopyLoads, &Options::replication, &ReplicationOptions::copy_load>,
     .apply = ApplyOptions,
     .help = "How a replica takes a full copy. disabled: it writes the copy to a file, drops its "
             "data, then loads the file. swapdb: it loads the copy as it comes, and keeps its data "
             "until the copy is whole. It can be promoted with that data meanwhile. That takes "
             "memory for both. on-empty-db: as swapdb if it has no data, else as disabled."},
    {.name = "replica-priority",
     .old_name = "slave-priority",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "100",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::priority>,
     .apply = ApplyOptions,
     .help = "Sentinel promotes the replica with the lowest one, and none with 0."},
    {.name = "replica-announced",
     .topic = kReplication,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::replication, &ReplicationOptions::is_announced>,
     .apply = ApplyOptions,
     .help = "Sentinel tells its clients of this replica."},
    {.name = "repl-timeout",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "60",
     .min = 1,
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::timeout_s>,
     .apply = ApplyOptions,
     .help = "Seconds of silence after which a replica gives up the link with its primary, or a "
             "primary a replica."},
    {.name = "replica-announce-ip",
     .old_name = "slave-announce-ip",
     .topic = kReplication,
     .slot = kSlot<&Options::replication, &ReplicationOptions::announce_ip>,
     .apply = ApplyOptions,
     .help = "The address of this replica, as its primary is to show it; empty: where the link "
             "comes from."},
    {.name = "replica-announce-port",
     .old_name = "slave-announce-port",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "0",
     .max = 65535,
     .slot = kSlot<&Options::replication, &ReplicationOptions::announce_port>,
     .apply = ApplyOptions,
     .help = "The same for its port; 0: the one where it listens."},
    {.name = "repl-backlog-size",
     .topic = kReplication,
     .kind = kMemory,
     .initial = "1mb",
     .min = 1,
     .max = INT64_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::backlog_bytes>,
     .live = kStoreLive<&Settings::backlog_bytes, &Options::replication,
                        &ReplicationOptions::backlog_bytes>,
     .apply = ApplyOptions,
     .help = "Bytes of the stream of changes that stay in memory: a replica that was away for less "
             "goes on without a copy."},
    {.name = "repl-backlog-ttl",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "3600",
     .max = INT64_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::backlog_ttl_s>,
     .apply = ApplyOptions,
     .help = "Seconds without a replica after which a primary keeps these bytes no more, and the "
             "next replica needs a copy. 0: it keeps them. No effect with the append-only log."},
    {.name = "min-replicas-to-write",
     .old_name = "min-slaves-to-write",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::good_replicas_min>,
     .apply = ApplyOptions,
     .help = "A primary refuses writes (NOREPLICAS) while fewer replicas have acknowledged "
             "something within min-replicas-max-lag. 0: it needs none."},
    {.name = "min-replicas-max-lag",
     .old_name = "min-slaves-max-lag",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "10",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::good_lag_max_s>,
     .apply = ApplyOptions,
     .help = "Seconds since its last acknowledgement within which a replica counts for "
             "min-replicas-to-write. 0: writes need no replica."},
    {.name = "repl-diskless-sync-delay",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "5",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::copy_delay_s>,
     .apply = ApplyOptions,
     .help = "Seconds that a replica waits for a copy, so that others can share it."},
    {.name = "repl-diskless-sync-max-replicas",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::copy_replicas_max>,
     .apply = ApplyOptions,
     .help = "When so many wait the copy begins at once. 0: it always waits."},
    {.name = "min-replicas-to-ack",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::min_replicas_to_ack>,
     .apply = ApplyOptions,
     .brief = "a reply of a write waits for so many replicas",
     .help = "The reply of a write, and of a read that has seen it, leaves when so many replicas "
             "have acknowledged it: a failover to the one that is furthest loses nothing that was "
             "answered. 0: replies do not wait."},
    {.name = "ack-means",
     .topic = kReplication,
     .kind = kChoice,
     .initial = "received",
     .choices = "received durable",
     .slot =
         kChoiceSlot<kAckMeanings, &Options::replication, &ReplicationOptions::acks_are_durable>,
     .apply = ApplyOptions,
     .help = "What a replica has to say. received: it has carried it out. durable: it is on its "
             "disk, too; replicas with an append-only log tell that, but not Redis before 7.2."},
    {.name = "ack-timeout",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "10000",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::ack_timeout_ms>,
     .apply = ApplyOptions,
     .help = "Milliseconds that a reply waits for replicas. Then the client gets the error "
             "UNREPLICATED, and its connection is closed. The write stays. 0: it waits for ever."},
    {.name = "fence-without-sentinels",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::fence_sentinels>,
     .apply = ApplyOptions,
     .help = "Writes are answered only while so many Sentinels are connected, have said something "
             "within fence-ms, and name this server as the primary: who is cut off tells nobody "
             "of writes that a failover loses. 0: no fence."},
    {.name = "fence-ms",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "3000",
     .min = 1,
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::fence_ms>,
     .apply = ApplyOptions,
     .help = "Milliseconds; has to be more than the second between two PINGs of a Sentinel, and "
             "less than its down-after-milliseconds."},
    {.name = "repl-ping-replica-period",
     .old_name = "repl-ping-slave-period",
     .topic = kReplication,
     .kind = kInteger,
     .initial = "10",
     .min = 1,
     .max = INT_MAX,
     .slot = kSlot<&Options::replication, &ReplicationOptions::ping_period_s>,
     .apply = ApplyOptions,
     .help = "Seconds between two PINGs in the stream, so that replicas see that it is alive."},
};

}  // namespace

std::span<const SettingRow> ReplicationSettings() { return kRows; }

}  // namespace dfly
