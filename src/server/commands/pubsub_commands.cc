// SPDX-License-Identifier: Apache-2.0
// SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE SSUBSCRIBE SUNSUBSCRIBE, PUBLISH SPUBLISH, and
// PUBSUB. How it works: server/push/pubsub.h.
#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "core/text/glob.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

// Whoever runs these must call PubSub::AwaitChanges before the reply leaves, and OnReplied after it
// (Worker::Coordinate does).
template <ChannelKind kKind>
void Subscribe(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (kKind == ChannelKind::kShard && cx.outer() != nullptr) {
    return reply.Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
  }
  PubSub::Here().Subscribe(SessionOf(cx), kKind, args.from(1), reply);
}

template <ChannelKind kKind>
void Unsubscribe(CoordinatorContext& cx, Args args, ReplySink& reply) {
  PubSub::Here().Unsubscribe(SessionOf(cx), kKind, args.from(1), reply);
}

// Runs on the shard that owns the channel.
template <ChannelKind kKind>
void Publish(ShardContext& cx, Args args, ReplySink& reply) {
  PubSub& pubsub = PubSub::Here();
  if (WorkerState::Here().server.tells_replicas.load(std::memory_order_relaxed) &&
      cx.wants_effects()) {
    cx.TellOwn();
  }
  reply.Integer(pubsub.Publish(cx.shard().id(), kKind, args[1], args[2]));
}

// --- PUBSUB ---

const ChannelDirectory& DirectoryOf(ShardId shard) { return PubSub::Here().directory(shard); }

// PUBSUB CHANNELS [pattern]
template <ChannelKind kKind>
void Channels(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(SubcommandSyntaxError("pubsub", args[1]));
  std::vector<std::vector<std::string>> found(cx.shards().size());
  cx.shards().AwaitOnAll([&](Shard& shard) {
    for (const auto& [name, counts] : DirectoryOf(shard.id()).names(kKind)) {
      // Some channels are known to all.
      const bool is_owned = cx.shards().ShardOfChannel(name, HashKey(name)) == shard.id();
      if (is_owned && (args.size() == 2 || GlobMatch(args[2], name))) {
        found[shard.id()].push_back(name);
      }
    }
  });
  size_t count = 0;
  for (const auto& names : found) count += names.size();
  reply.Array(count);
  for (const auto& names : found) {
    for (const std::string& name : names) reply.Bulk(name);
  }
}

// PUBSUB NUMSUB [channel ...]
template <ChannelKind kKind>
void NumSub(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const auto channels = args.from(2);
  std::vector<uint64_t> counts(channels.size(), 0);
  std::vector<ShardId> owners(channels.size(), 0);
  for (size_t i = 0; i < channels.size(); ++i) {
    owners[i] = cx.shards().ShardOfChannel(channels[i], HashKey(channels[i]));
  }
  if (!channels.empty()) {
    cx.shards().AwaitOnAll([&](Shard& shard) {
      for (size_t i = 0; i < channels.size(); ++i) {
        if (owners[i] == shard.id()) {
          counts[i] = DirectoryOf(shard.id()).Subscribers(kKind, channels[i]);
        }
      }
    });
  }
  reply.Array(channels.size() * 2);
  for (size_t i = 0; i < channels.size(); ++i) {
    reply.Bulk(channels[i]);
    reply.Integer(static_cast<int64_t>(counts[i]));
  }
}

// PUBSUB NUMPAT. Every shard knows all patterns.
void NumPat(CoordinatorContext& cx, Args, ReplySink& reply) {
  const size_t patterns = cx.shards().Await(
      0, [](Shard& shard) { return DirectoryOf(shard.id()).names(ChannelKind::kPattern).size(); });
  reply.Integer(static_cast<int64_t>(patterns));
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "PUBSUB",
            {"CHANNELS [<pattern>]",
             "    Return the currently active channels matching a <pattern> (default: '*').",
             "NUMPAT", "    Return number of subscriptions to patterns.", "NUMSUB [<channel> ...]",
             "    Return the number of subscribers for the specified channels, excluding",
             "    pattern subscriptions(default: no channels).", "SHARDCHANNELS [<pattern>]",
             "    Return the currently active shard level channels matching a <pattern> (default: "
             "'*').",
             "SHARDNUMSUB [<shardchannel> ...]",
             "    Return the number of subscribers for the specified shard level channel(s)"});
}

CommandDocs Docs(std::string_view summary, std::string_view since, std::string_view complexity) {
  return {summary, since, "pubsub", complexity};
}

constexpr uint32_t kAlways = kPubsub | kLoading | kStale;

Command Change(std::string_view name, CoordinatorHandler handler, int arity, CommandDocs docs) {
  return {.name = name,
          .coordinate = handler,
          .arity = arity,
          .flags = kAlways | kNoScript | kPushes | kSubscribed,
          .docs = docs};
}

Command Sub(std::string_view name, CoordinatorHandler handler, int arity, CommandDocs docs) {
  return {.name = name, .coordinate = handler, .arity = arity, .flags = kAlways, .docs = docs};
}

}  // namespace

void RegisterPubSubCommands(CommandTable* table) {
  constexpr std::string_view kPerChannel = "O(N), N channels";
  constexpr std::string_view kPerPattern = "O(N), N patterns";
  table->Add(Change("subscribe", Subscribe<ChannelKind::kChannel>, -2,
                    Docs("Listens to channels.", "2.0.0", kPerChannel)));
  table->Add(Change("unsubscribe", Unsubscribe<ChannelKind::kChannel>, -1,
                    Docs("Ends listening to channels, or to all.", "2.0.0", kPerChannel)));
  table->Add(Change("psubscribe", Subscribe<ChannelKind::kPattern>, -2,
                    Docs("Listens to all channels that match.", "2.0.0", kPerPattern)));
  table->Add(Change("punsubscribe", Unsubscribe<ChannelKind::kPattern>, -1,
                    Docs("Ends listening to patterns, or to all.", "2.0.0", kPerPattern)));
  Command ssubscribe = Change("ssubscribe", Subscribe<ChannelKind::kShard>, -2,
                              Docs("Listens to shard channels.", "7.0.0", kPerChannel));
  ssubscribe.keys = KeysFrom(1, 1, "not_key");
  table->Add(std::move(ssubscribe));
  Command sunsubscribe =
      Change("sunsubscribe", Unsubscribe<ChannelKind::kShard>, -1,
             Docs("Ends listening to shard channels, or to all.", "7.0.0", kPerChannel));
  sunsubscribe.keys = KeysFrom(1, 1, "not_key");
  table->Add(std::move(sunsubscribe));

  table->Add({.name = "publish",
              .run = Publish<ChannelKind::kChannel>,
              .arity = 3,
              .flags = kAlways | kFast | kMayReplicate,
              .channel_at = 1,
              .docs = Docs("Sends a message to a channel.", "2.0.0",
                           "O(N + M), N subscribers and M patterns")});
  table->Add({.name = "spublish",
              .run = Publish<ChannelKind::kShard>,
              .arity = 3,
              .flags = kAlways | kFast | kMayReplicate,
              .keys = KeyAt(1, "not_key"),
              .channel_at = 1,
              .docs = Docs("Sends a message to a shard channel.", "7.0.0", "O(N), N subscribers")});

  Command pubsub = {
      .name = "pubsub",
      .arity = -2,
      .docs = Docs("A container for Pub/Sub commands.", "2.8.0", "Depends on subcommand.")};
  pubsub.subcommands = {
      Sub("channels", Channels<ChannelKind::kChannel>, -2,
          Docs("Lists channels with subscribers.", "2.8.0", kPerChannel)),
      Sub("numsub", NumSub<ChannelKind::kChannel>, -2,
          Docs("Counts the subscribers of channels.", "2.8.0", kPerChannel)),
      Sub("numpat", NumPat, 2, Docs("Counts the patterns.", "2.8.0", "O(1)")),
      Sub("shardchannels", Channels<ChannelKind::kShard>, -2,
          Docs("Lists shard channels with subscribers.", "7.0.0", kPerChannel)),
      Sub("shardnumsub", NumSub<ChannelKind::kShard>, -2,
          Docs("Counts the subscribers of shard channels.", "7.0.0", kPerChannel)),
      {.name = "help",
       .session = ForClient<Help>,
       .scripted = Help,
       .arity = 2,
       .flags = kLoading | kStale,
       .docs = Docs("Lists the subcommands.", "6.2.0", "O(1)")},
  };
  table->Add(std::move(pubsub));
}

}  // namespace dfly
