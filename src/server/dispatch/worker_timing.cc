// SPDX-License-Identifier: Apache-2.0
// The worker's part of statistics and MONITOR.
#include "commands/table/lookup.h"
#include "helio/net/tls.h"
#include "server/dispatch/worker.h"

namespace dfly {

void Worker::ResetStats() {
  state_.stats = WorkerStats();
  state_.timer.ResetHistograms();
  state_.stats.commands.resize(commands_.id_count());
  runner_.UpdateTiming();
  defrag_.ResetStats();
  pubsub_.ResetStats();
  client_limiter_.ResetStats();
  helio::ThreadTlsStats() = {};
  state_.buffers.traffic = {};
  rates_.Reset();
  for (Shard* shard : state_.shards()) {
    ShardStats& counted = shard->stats();
    counted.hits = counted.misses = counted.expired_keys = counted.evicted_keys = 0;
    counted.expired_members = counted.freed_objects = 0;
  }
}

CommandSink::Outcome Worker::OnLargeCommand(Connection* connection,
                                            std::span<const std::string_view> args) {
  if (CommandRunner::IsSmall(args)) {
    RunNoted();  // what was noted before it would be timed instead of it
    const Lookup found = Find(commands_, Args(args));
    if (found.is_found()) runner_.TimeNext(*found.row);
  }
  return OnCommand(connection, args);
}

void Worker::FeedMonitors(const Session& session, const Command& command, Args args) {
  // Those that carry out others are told before them; that they skip MONITOR is how Redis does it.
  const bool carries_others = command.runs_script || &command == exec_;
  if ((command.flags & kAdmin) != 0) return;
  if ((command.flags & kSkipMonitor) != 0 && !carries_others) return;
  if (care_.LacksRoom(command)) return;
  monitors_.Feed(session.db_index, session.peer_address, command, args);
}

void Worker::FeedExec(const Session& session) {
  if (session.multi == nullptr) return;
  std::vector<std::string_view> args;
  for (const Multi::Item& item : session.multi->items()) {
    if ((item.command->flags & kAdmin) != 0 || item.denial != AclDenial::kNone) continue;
    session.multi->ViewArgs(item, &args);
    monitors_.Feed(item.db_index, session.peer_address, *item.command, Args(args));
  }
}

}  // namespace dfly
