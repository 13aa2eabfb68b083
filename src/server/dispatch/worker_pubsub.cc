// SPDX-License-Identifier: Apache-2.0
// How commands of publish/subscribe are taken from a connection.
#include "facade/replies/error_texts.h"
#include "server/clients/sentinels.h"
#include "server/clients/session.h"
#include "server/dispatch/worker.h"

namespace dfly {

std::optional<CommandSink::Outcome> Worker::DispatchSubscribed(Connection* connection,
                                                               Session& session,
                                                               const Command& command, Args args) {
  if (session.is_subscribed() && !session.resp3 && (command.flags & kSubscribed) == 0) {
    return Refuse(connection, &command, args, {.error = SubscribedContextError(command.full_name)});
  }
  if (command.name != "reset") return {};
  // The shards have to know that it has left before it is answered.
  if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
  const auto leave_and_reset = [](CoordinatorContext& cx, Args its_args, ReplySink& reply) {
    Worker& worker = Worker::Here();
    worker.pubsub_.UnsubscribeFromAll(SessionOf(cx));
    worker.pubsub_.AwaitChanges(SessionOf(cx));  // what still comes is in the protocol of before
    worker.commands_.FindByName("reset")->session(SessionOf(cx), its_args, reply);
  };
  Coordinate(connection, session, command, leave_and_reset, args);
  return Outcome::kBusy;
}

CommandSink::Outcome Worker::DispatchPublish(Connection* connection, const Command& command,
                                             Args args) {
  if (pubsub_.is_overloaded()) [[unlikely]] {
    // As for a pause: it stays in the input until ReleaseHeld.
    RunNoted();
    pubsub_.CountHeld();
    connection->set_held(true);
    return Outcome::kBarrier;
  }
  const std::string_view channel = args[command.routed_by(args)];
  if (channel == kSentinelHelloChannel) [[unlikely]]
    NoteSentinelHello(SessionOf(connection), args);
  const uint64_t hash = HashKey(channel);
  const ShardId shard = shards_.ShardOfChannel(channel, hash);
  const bool is_here = state_.local(shard) != nullptr && !all_remote_;
  Note(connection, is_here ? Action::kLocal : Action::kRemote, &command, args, shard, hash);
  return Outcome::kTaken;
}

CommandSink::Outcome Worker::DispatchChange(Connection* connection, Session& session,
                                            const Command& command, Args args) {
  // What it has sent to shards is carried out first: a message that it has published is none for
  // what it subscribes to afterwards. Changes of before may still be under way.
  RunNoted();
  batches_.Send();
  if (connection->has_batches() || !PubSub::MayPipeline(session)) return Outcome::kBarrier;
  ++state_.stats.commands_processed;
  rates_.Count(helio::UnixMillis());
  ++session.commands;
  session.last_command = &command;
  if (monitors_.any()) [[unlikely]]
    FeedMonitors(session, command, args);
  if (session.tracking != nullptr) session.tracking->TakeReads(command, false);
  pubsub_.ChangeInPipeline(session, [&](ReplySink& reply) {
    CoordinatorContext cx(&shards_, &session, session.db_index, helio::UnixMillis());
    const CallerScope scope(state_.timer, {.session = &session});
    runner_.RunCounted(command, args, reply, [&] { command.coordinate(cx, args, reply); });
  });
  session.AdvanceReplyMode();
  client_limiter_.Recount(session);
  return Outcome::kTaken;
}

}  // namespace dfly
