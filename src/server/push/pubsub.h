// SPDX-License-Identifier: Apache-2.0
// Publish and subscribe: a worker's subscribers, and what its shards know of all others.
//
//   PUBLISH   is a shard command: it runs on the shard that the channel's name hashes to, the
//             channel's *owner*. The owner's directory tells which threads have subscribers and how
//             many, so the reply, their number, is known at once. Each of those threads gets the
//             message once, in a *fanout* that is sent at the end of the stage, and hands it to its
//             own subscribers.
//   SUBSCRIBE changes the tables of the client's thread, tells the owners, and is answered when all
//             of them know: whoever publishes after that reply reaches the client. Patterns are
//             told to all shards, as each of them has to match, and so are the channels of keyspace
//             events, to which each of them publishes what happens to its own keys.
//
// A connection does not wait for that answer: the confirmation has a slot among its replies, and
// meanwhile the owners are told of the next change. Celery sends SUBSCRIBE on one connection and
// then, without having read the confirmation, the task on another; if twenty of them took turns,
// some results would be published before anybody listens.
//
// All messages of a channel pass through its owner, so all subscribers see them in one order. Order
// and exact numbers follow from one thing: what an owner sends to a thread, fanouts and answers to
// changes, keeps its order. Each change of a thread has a number, and `acked_` is the last that an
// owner has answered: a message of that owner is for those who had subscribed up to then and had
// not unsubscribed, which is who the owner counted. In a client's stream it stands before the
// confirmation of the client's first change that this owner has not answered.
//
//     client's thread            owner
//     SUBSCRIBE c  (change 7)  ->
//                              <-  fanout of c     not for us: 7 is not acked
//                              <-  ack 7
//                              <-  fanout of c     for us
//
// No mutex, and nothing waits for a subscriber: its messages go to its connection's output, and who
// lets too much of that pile up (client-output-buffer-limit) is disconnected.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/hops/shard_set.h"
#include "facade/replies/reply_sink.h"
#include "helio/base/counters.h"
#include "helio/base/io_buf.h"
#include "helio/fibers/inbox.h"
#include "helio/proactor/proactor.h"
#include "server/base/per_thread.h"
#include "server/clients/server_state.h"
#include "server/clients/subscriptions.h"
#include "server/push/channel_directory.h"

namespace dfly {

struct ServerState;
class Session;
class WorkerState;
struct PendingReplies;

struct PubSubStats {
  uint64_t clients = 0;          // with a subscription
  uint64_t delivered = 0;        // messages, to each client
  uint64_t publishers_held = 0;  // times that PUBLISH had to wait

  static constexpr helio::CounterOf<PubSubStats> kCounters[] = {
      &PubSubStats::clients, &PubSubStats::delivered, &PubSubStats::publishers_held};
};
static_assert(helio::ListsAll<PubSubStats>());

// Owner:    one Worker, on its thread.
// Suspends: only AwaitChanges.
class PubSub : public PerThread<PubSub> {
 public:
  explicit PubSub(WorkerState* worker);
  ~PubSub();

  // --- Of a client of this thread ---

  // Runs `change`, which calls Subscribe or Unsubscribe once, for a command of a pipeline: the
  // replies that it writes leave when all owners know of the change, and nothing waits for that.
  // REQUIRES: MayPipeline(), and that no shard has another command of the connection to run, as
  // what the owners are told may overtake it.
  void ChangeInPipeline(Session& session, absl::FunctionRef<void(ReplySink&)> change);
  // False: too many of its changes are under way.
  static bool MayPipeline(const Session& session);

  // From a fiber. Writes the replies at once; they must not be sent before AwaitChanges returned.
  void Subscribe(Session& session, ChannelKind kind, std::span<const std::string_view> names,
                 ReplySink& reply);
  // No names: all of that kind.
  void Unsubscribe(Session& session, ChannelKind kind, std::span<const std::string_view> names,
                   ReplySink& reply);
  // RESET: unsubscribes from everything, without a reply.
  void UnsubscribeFromAll(Session& session);
  // Waits until the shards know of all changes that the session made. From a fiber that the session
  // outlives. Suspends.
  void AwaitChanges(Session& session);
  // Lets messages go that had to wait for the replies to the session's changes. After each reply
  // that AwaitChanges was called for.
  void OnReplied(Session& session);
  // The connection is gone; or it is killed, and then this is called once more when it is closed.
  void OnClosed(Session& session);

  // --- Of the shards of this thread ---

  // Returns how many get it. Handlers may call it: what it delivers leaves at the stage's end.
  int64_t Publish(ShardId shard, ChannelKind kind, std::string_view channel,
                  std::string_view message);
  const ChannelDirectory& directory(ShardId shard) const { return directories_[shard]; }
  // Nobody hears of what that shard publishes.
  bool IsUnheard(ShardId shard) const { return directories_[shard].empty(); }
  // Hands on what was published here. Not from inside a command.
  void Flush() {
    if (!open_threads_.empty()) FlushAll();
  }

  // True while too much is under way for another PUBLISH. Who holds a connection for that calls
  // CountHeld; WorkerState::ReleaseHeld is called when it is over.
  bool is_overloaded() const;
  void CountHeld() { ++stats_.publishers_held; }

  const PubSubStats& stats() const { return stats_; }
  void ResetStats();
  // Of the tables of this thread's subscribers, and of its shards.
  size_t memory_used() const { return topic_bytes_ + directory_bytes_; }

 private:
  struct Fanout;
  struct Notice;
  struct FlushHook : helio::LoopHook {
    using LoopHook::LoopHook;
    PubSub* pubsub = nullptr;
  };
  using Topics = absl::flat_hash_map<std::string_view, std::unique_ptr<PubSubTopic>,
                                     ChannelNameHash, std::equal_to<>>;

  Topics& topics(ChannelKind kind) { return topics_[IndexOf(kind)]; }
  PubSubTopic* Find(ChannelKind kind, std::string_view name);
  PubSubTopic* FindOrAdd(ChannelKind kind, std::string_view name);
  static size_t BytesOf(const PubSubTopic& topic);
  void EraseIfEmpty(PubSubTopic* topic);
  Subscriptions& Of(Session& session);
  void ReleaseIfEmpty(Session& session);
  // Takes the session from among the topic's subscribers.
  PubSubTopic::Subscriber TakeSubscriber(Subscriptions& own, PubSubTopic* topic);
  std::vector<std::string> NamesOf(const Subscriptions& own, ChannelKind kind) const;

  // Tells the owners of `names`. `session` waits for it, if it is not null.
  void Tell(Session* session, ChannelKind kind, bool adds, std::vector<std::string> names);
  void PostToOwner(Notice* notice);
  void OnNotice(Notice* notice);      // on the owner's thread
  void OnNoticeBack(Notice* notice);  // on the client's
  void AddSlot(SubscriptionChange* change);
  // All owners know of it.
  void EndChange(SubscriptionChange* change);
  // The confirmation of a change in a pipeline may leave, behind the messages of before.
  void LetLeave(Session& session, SubscriptionChange* change);
  void Count(SubscriptionChange* change);
  static void Delete(PendingReplies* change);
  void EndLeave(ChannelKind kind, std::string_view name, uint64_t number);
  static uint64_t StreamOf(ShardId shard, bool to_owner);

  Fanout* OpenFanout(uint32_t thread);
  void FlushAll();
  void FlushTo(uint32_t thread);
  void OnFanout(Fanout* fanout);
  void Deliver(Fanout* fanout);
  // Hands `message`, RESP2 bytes from `begin` to `end` of the fanout, to the topic's subscribers.
  void DeliverTo(const PubSubTopic& topic, ShardId owner, std::span<const size_t> begins,
                 helio::IoBuf* bytes, size_t begin, size_t end);
  // The change of the session that a message of `owner` goes before; null: none.
  SubscriptionChange* FirstUnknownTo(ShardId owner, const Session& session) const;
  void Send(Session& session, ShardId owner, uint64_t since, std::string_view bytes);

  ServerState& server_;
  WorkerState& worker_;
  ShardSet& shards_;
  PubSubLoad& load_;
  const uint32_t thread_;

  // Subscribers of this thread.
  std::array<Topics, kChannelKinds> topics_;
  uint64_t last_change_ = 0;
  SubscriptionChange* pipelined_ = nullptr;  // what ChangeInPipeline makes
  std::vector<uint64_t> acked_;              // by shard: the last change that it has answered
  size_t topic_bytes_ = 0;

  // Channels of the shards that live here; those of other shards stay empty.
  std::vector<ChannelDirectory> directories_;
  size_t directory_bytes_ = 0;
  std::vector<Fanout*> open_fanouts_;  // by thread: what was published for it in this stage
  std::vector<uint32_t> open_threads_;
  FlushHook flush_hook_;

  struct Target {
    uint32_t thread;
    bool has_channel;
    bool has_pattern;
  };
  std::vector<Target> targets_;   // scratch of Publish
  std::vector<size_t> begins_;    // scratch of Deliver
  helio::IoBuf pattern_message_;  // scratch of Deliver
  PubSubStats stats_;
};

}  // namespace dfly
