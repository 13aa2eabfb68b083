// SPDX-License-Identifier: Apache-2.0
#include "server/push/pubsub.h"

#include <algorithm>
#include <utility>

#include "core/text/glob.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/block_bytes.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"

namespace dfly {

namespace {

// So many confirmations of a client may be under way; each message to it looks through them.
constexpr size_t kPipelinedMax = 128;

// What a thread may have open for another one before it is sent ahead of the stage's end.
constexpr size_t kFanoutBytesMax = 256 * 1024;

constexpr std::string_view kSubscribeWords[] = {"subscribe", "psubscribe", "ssubscribe"};
constexpr std::string_view kUnsubscribeWords[] = {"unsubscribe", "punsubscribe", "sunsubscribe"};

// All shards know of patterns, as each of them has to match, and of the channels of keyspace
// events, as each of them publishes there: so a shard's events need no hop, and keep their order.
bool IsToldToAll(ChannelKind kind, std::string_view name) {
  return kind == ChannelKind::kPattern ||
         (kind == ChannelKind::kChannel &&
          (name.starts_with("__keyspace@") || name.starts_with("__keyevent@")));
}

void Confirm(ReplySink& reply, std::string_view word, const std::string_view* name, size_t count) {
  reply.Push(3);
  reply.Bulk(word);
  if (name != nullptr) {
    reply.Bulk(*name);
  } else {
    reply.Null();
  }
  reply.Integer(static_cast<int64_t>(count));
}

// Of each subscriber of a topic: its place there, and the topic's place in its own table, a third
// of which is free.
constexpr size_t kSubscriberBytes =
    sizeof(PubSubTopic::Subscriber) + (sizeof(std::pair<PubSubTopic*, uint32_t>) + 1) * 3 / 2;

}  // namespace

// What one thread published for the subscribers of another (or its own), in order.
struct PubSub::Fanout : helio::Message {
  struct Item {
    ShardId owner;
    ChannelKind kind;
    bool has_channel;  // the thread has subscribers of the channel itself
    bool has_pattern;  // and of a pattern that matches
    size_t begin;      // of the message in `bytes`, which is a whole RESP2 reply
    size_t tail;       // of the channel's name as bulk, which the message itself follows
    size_t name;       // of the name
    size_t name_size;
    size_t end;
  };
  uint32_t thread = 0;
  helio::IoBuf bytes;
  std::vector<Item> items;

  std::string_view NameOf(const Item& item) const {
    return bytes.view().substr(item.name, item.name_size);
  }
};

// What one owner is told of a change; it comes back as the answer.
struct PubSub::Notice : helio::Message {
  SubscriptionChange* change = nullptr;
  ShardId owner = 0;
  std::vector<std::string> names;  // besides those that all owners are told
};

// What one command changes. Owner: the client's thread; owners only read it. In a pipeline it is
// also the slot of its confirmation: what is sent before that is in `bytes`.
struct SubscriptionChange : PendingReplies {
  PubSub* home = nullptr;
  ChannelKind kind = ChannelKind::kChannel;
  bool adds = false;
  uint64_t number = 0;
  std::vector<std::string> names;  // told to all owners
  std::vector<ShardId> owners;     // who are told
  size_t left = 0;                 // of them, those who have not answered
  Session* session = nullptr;      // that waits for it; null: none, or it has gone
  bool is_pipelined = false;
  helio::IoBuf confirmation;

  bool IsFor(ShardId owner) const {
    return std::find(owners.begin(), owners.end(), owner) != owners.end();
  }
};

PubSub::PubSub(WorkerState* worker)
    : PerThread(this),
      server_(worker->server),
      worker_(*worker),
      shards_(*worker->server.shards),
      load_(worker->server.pubsub_load),
      thread_(worker->index()),
      acked_(shards_.size(), 0),
      directories_(shards_.size()),
      open_fanouts_(worker->server.pool.size(), nullptr),
      flush_hook_(
          [](helio::LoopHook* hook) { static_cast<FlushHook*>(hook)->pubsub->FlushAll(); }) {
  flush_hook_.pubsub = this;
}

PubSub::~PubSub() {
  DCHECK(open_threads_.empty());
  DCHECK_EQ(stats_.clients, 0u);
  for (const Topics& topics : topics_) DCHECK(topics.empty());
  worker_.proactor.CancelHook(&flush_hook_);
  for (Fanout* fanout : open_fanouts_) delete fanout;
}

void PubSub::ResetStats() { stats_ = PubSubStats{.clients = stats_.clients}; }

// --- Subscribers ---

PubSubTopic* PubSub::Find(ChannelKind kind, std::string_view name) {
  const auto it = topics(kind).find(name);
  return it == topics(kind).end() ? nullptr : it->second.get();
}

PubSubTopic* PubSub::FindOrAdd(ChannelKind kind, std::string_view name) {
  if (PubSubTopic* topic = Find(kind, name)) return topic;
  auto topic = std::make_unique<PubSubTopic>();
  topic->kind = kind;
  topic->name = name;
  Topics& all = topics(kind);
  topic_bytes_ += BytesOf(*topic) - helio::MapBytes(all);
  const std::string_view key = topic->name;
  PubSubTopic* const added = all.emplace(key, std::move(topic)).first->second.get();
  topic_bytes_ += helio::MapBytes(all);
  return added;
}

size_t PubSub::BytesOf(const PubSubTopic& topic) {
  return helio::BlockBytes(&topic) + helio::HeapBytes(topic.name);
}

void PubSub::EraseIfEmpty(PubSubTopic* topic) {
  if (!topic->subscribers.empty() || !topic->leavers.empty()) return;
  Topics& all = topics(topic->kind);
  topic_bytes_ -= BytesOf(*topic) + helio::MapBytes(all);
  const auto it = all.find(std::string_view(topic->name));
  const std::unique_ptr<PubSubTopic> last = std::move(it->second);  // the map's key is in it
  all.erase(it);
  helio::ShrinkIfSparse(&all);
  topic_bytes_ += helio::MapBytes(all);
}

Subscriptions& PubSub::Of(Session& session) {
  if (session.subscriptions == nullptr) {
    session.subscriptions = std::make_unique<Subscriptions>();
  }
  return *session.subscriptions;
}

void PubSub::ReleaseIfEmpty(Session& session) {
  Subscriptions& own = *session.subscriptions;
  if (own.empty() && own.pending_changes == 0) session.subscriptions.reset();
}

PubSubTopic::Subscriber PubSub::TakeSubscriber(Subscriptions& own, PubSubTopic* topic) {
  auto& mine = own.topics[IndexOf(topic->kind)];
  const auto it = mine.find(topic);
  const uint32_t place = it->second;
  mine.erase(it);
  topic_bytes_ -= kSubscriberBytes;
  const PubSubTopic::Subscriber taken = topic->subscribers[place];
  const PubSubTopic::Subscriber last = topic->subscribers.back();
  topic->subscribers.pop_back();
  if (place < topic->subscribers.size()) {
    topic->subscribers[place] = last;
    last.session->subscriptions->topics[IndexOf(topic->kind)][topic] = place;
  }
  if (own.empty()) --stats_.clients;
  return taken;
}

std::vector<std::string> PubSub::NamesOf(const Subscriptions& own, ChannelKind kind) const {
  std::vector<std::string> names;
  names.reserve(own.size(kind));
  for (const auto& [topic, place] : own.topics[IndexOf(kind)]) names.push_back(topic->name);
  return names;
}

void PubSub::Subscribe(Session& session, ChannelKind kind, std::span<const std::string_view> names,
                       ReplySink& reply) {
  if (session.connection_closed) return;  // nobody is there to tell, or to leave again
  Subscriptions& own = Of(session);
  std::vector<std::string> added;
  const uint64_t number = last_change_ + 1;
  for (const std::string_view& name : names) {
    PubSubTopic* const topic = FindOrAdd(kind, name);
    const bool was_empty = own.empty();
    const auto place = static_cast<uint32_t>(topic->subscribers.size());
    if (own.topics[IndexOf(kind)].try_emplace(topic, place).second) {
      topic->subscribers.push_back({&session, number});
      topic_bytes_ += kSubscriberBytes;
      added.emplace_back(name);
      stats_.clients += was_empty;
    }
    Confirm(reply, kSubscribeWords[IndexOf(kind)], &name, own.told_count(kind));
  }
  Tell(&session, kind, true, std::move(added));
}

void PubSub::Unsubscribe(Session& session, ChannelKind kind,
                         std::span<const std::string_view> names, ReplySink& reply) {
  const std::string_view word = kUnsubscribeWords[IndexOf(kind)];
  if (session.connection_closed) return;
  std::vector<std::string> removed;
  std::vector<std::string> all;
  std::vector<std::string_view> all_views;
  Subscriptions* const own = session.subscriptions.get();
  if (names.empty()) {
    if (own != nullptr) all = NamesOf(*own, kind);
    all_views.assign(all.begin(), all.end());
    names = all_views;
    if (names.empty()) {
      return Confirm(reply, word, nullptr, own == nullptr ? 0 : own->told_count(kind));
    }
  }
  const uint64_t number = last_change_ + 1;
  for (const std::string_view& name : names) {
    if (own != nullptr) {
      PubSubTopic* const topic = Find(kind, name);
      if (topic != nullptr && own->topics[IndexOf(kind)].contains(topic)) {
        const PubSubTopic::Subscriber taken = TakeSubscriber(*own, topic);
        topic->leavers.push_back({&session, taken.since, number});
        removed.emplace_back(name);
      }
    }
    Confirm(reply, word, &name, own == nullptr ? 0 : own->told_count(kind));
  }
  Tell(&session, kind, false, std::move(removed));
}

void PubSub::UnsubscribeFromAll(Session& session) {
  if (session.subscriptions == nullptr || session.connection_closed) return;
  helio::IoBuf unsent;
  RespWriter writer(&unsent);
  for (ChannelKind kind : {ChannelKind::kChannel, ChannelKind::kPattern, ChannelKind::kShard}) {
    if (session.subscriptions->size(kind) > 0) Unsubscribe(session, kind, {}, writer);
    unsent.Clear();
  }
}

bool PubSub::MayPipeline(const Session& session) {
  return session.subscriptions == nullptr ||
         session.subscriptions->pipelined.size() < kPipelinedMax;
}

void PubSub::ChangeInPipeline(Session& session, absl::FunctionRef<void(ReplySink&)> change) {
  DCHECK(pipelined_ == nullptr);
  pipelined_ = new SubscriptionChange;
  RespWriter writer(&pipelined_->confirmation, session.resp3);
  change(writer);
  // Tell has taken it, or there was nothing to tell.
  const std::unique_ptr<SubscriptionChange> untold(std::exchange(pipelined_, nullptr));
  if (untold != nullptr) session.connection.PushMessage(untold->confirmation.view());
}

void PubSub::AddSlot(SubscriptionChange* change) {
  Session& session = *change->session;
  change->is_pipelined = true;
  change->release = Delete;
  Count(change);
  session.subscriptions->pipelined.push_back(change);
  session.subscriptions_told = change->number;  // messages of the new subscriptions come behind it
  session.connection.replies().AddRemote(change);
}

void PubSub::AwaitChanges(Session& session) {
  Subscriptions* const own = session.subscriptions.get();
  if (own == nullptr || own->pending_changes == 0) return;
  helio::BlockingCounter done(1);
  DCHECK(own->waiter == nullptr);
  own->waiter = &done;
  done.Wait();
}

void PubSub::OnReplied(Session& session) {
  if (session.subscriptions == nullptr) return;
  Subscriptions& own = *session.subscriptions;
  session.subscriptions_told = last_change_;
  // Who has left everything gets nothing any more in RESP2: it would be taken for a reply.
  const bool may_send = session.resp3 || !own.empty();
  if (may_send && !own.held.empty() && !session.connection.closing())
    session.connection.PushMessage(own.held.view());
  own.held.Release();
  ReleaseIfEmpty(session);
}

void PubSub::OnClosed(Session& session) {
  if (session.subscriptions == nullptr) return;
  Subscriptions& own = *session.subscriptions;
  for (ChannelKind kind : {ChannelKind::kChannel, ChannelKind::kPattern, ChannelKind::kShard}) {
    std::vector<std::string> names = NamesOf(own, kind);
    for (const std::string& name : names) {
      PubSubTopic* const topic = Find(kind, name);
      TakeSubscriber(own, topic);
      EraseIfEmpty(topic);
    }
    Tell(nullptr, kind, false, std::move(names));
  }
}

// --- What owners know ---

void PubSub::Tell(Session* session, ChannelKind kind, bool adds, std::vector<std::string> names) {
  if (names.empty()) return;
  SubscriptionChange* change = std::exchange(pipelined_, nullptr);
  const bool is_pipelined = change != nullptr;
  if (!is_pipelined) change = new SubscriptionChange;
  change->home = this;
  change->kind = kind;
  change->adds = adds;
  change->number = ++last_change_;
  change->session = session;
  if (session != nullptr) ++session->subscriptions->pending_changes;
  std::vector<Notice*> notices;
  const auto add = [&](ShardId owner) {
    auto* const notice = new Notice;
    notice->change = change;
    notice->owner = owner;
    notices.push_back(notice);
    change->owners.push_back(owner);
    return notice;
  };
  std::vector<Notice*> by_owner(shards_.size(), nullptr);
  for (std::string& name : names) {
    if (IsToldToAll(kind, name)) {
      change->names.push_back(std::move(name));
      continue;
    }
    const ShardId owner = shards_.ShardOfChannel(name, HashKey(name));
    if (by_owner[owner] == nullptr) by_owner[owner] = add(owner);
    by_owner[owner]->names.push_back(std::move(name));
  }
  for (ShardId owner = 0; owner < shards_.size() && !change->names.empty(); ++owner) {
    if (by_owner[owner] == nullptr) add(owner);
  }
  change->left = notices.size();
  load_.messages.fetch_add(notices.size(), std::memory_order_relaxed);
  if (is_pipelined) AddSlot(change);
  for (Notice* notice : notices) PostToOwner(notice);
}

uint64_t PubSub::StreamOf(ShardId shard, bool to_owner) {
  return (1ull << 63) | (uint64_t{shard} * 2 + (to_owner ? 1 : 0));
}

void PubSub::PostToOwner(Notice* notice) {
  notice->run = [](helio::Message* message) {
    PubSub::Here().OnNotice(static_cast<Notice*>(message));
  };
  if (worker_.shuffle != nullptr) [[unlikely]]
    return worker_.shuffle->Add(notice, StreamOf(notice->owner, true));
  if (shards_.is_local(notice->owner)) return OnNotice(notice);
  shards_.owner(notice->owner)->PostLazily(notice);
}

void PubSub::OnNotice(Notice* notice) {
  const SubscriptionChange& change = *notice->change;
  PubSub* const home = change.home;
  // What was published before is for those who were there before.
  FlushTo(home->thread_);
  ChannelDirectory& directory = directories_[notice->owner];
  directory_bytes_ -= directory.memory_used();
  for (const std::vector<std::string>* names : {&std::as_const(notice->names), &change.names}) {
    for (const std::string& name : *names) {
      if (change.adds) {
        directory.Add(change.kind, name, home->thread_);
      } else {
        directory.Remove(change.kind, name, home->thread_);
      }
    }
  }
  directory_bytes_ += directory.memory_used();
  notice->run = [](helio::Message* message) {
    auto* const back = static_cast<Notice*>(message);
    back->change->home->OnNoticeBack(back);
  };
  if (worker_.shuffle != nullptr) [[unlikely]]
    return worker_.shuffle->Add(notice, StreamOf(notice->owner, false));
  if (home == this) return OnNoticeBack(notice);
  home->worker_.proactor.PostLazily(notice);
}

void PubSub::OnNoticeBack(Notice* notice) {
  SubscriptionChange* const change = notice->change;
  DCHECK_LT(acked_[notice->owner], change->number);
  acked_[notice->owner] = change->number;
  if (!change->adds) {
    for (const std::string& name : notice->names) EndLeave(change->kind, name, change->number);
  }
  delete notice;
  if (--change->left == 0) EndChange(change);
  load_.messages.fetch_sub(1, std::memory_order_relaxed);
}

void PubSub::EndChange(SubscriptionChange* change) {
  if (!change->adds) {
    for (const std::string& name : change->names) EndLeave(change->kind, name, change->number);
  }
  Session* const session = change->session;
  if (session != nullptr) {
    Subscriptions& own = *session->subscriptions;
    if (change->is_pipelined) {
      std::erase(own.pipelined, change);
      if (own.pipelined.empty()) own.pipelined.shrink_to_fit();  // who only listens needs no room
    }
    if (--own.pending_changes == 0 && own.waiter != nullptr) {
      std::exchange(own.waiter, nullptr)->Done();
    }
  }
  if (!change->is_pipelined) {
    delete change;
  } else if (change->abandoned) {
    Delete(change);
    if (session->connection_closed) worker_.Forget(session);
  } else {
    LetLeave(*session, change);
  }
}

void PubSub::LetLeave(Session& session, SubscriptionChange* change) {
  ReleaseIfEmpty(session);
  change->bytes.Append(change->confirmation.view());
  change->confirmation.Release();
  change->EndReply();
  Count(change);
  session.connection.replies().Complete(change);
  session.connection.OnRepliesReady();  // which may end `change`, and run what the client sent
}

void PubSub::Count(SubscriptionChange* change) {
  const size_t bytes = sizeof(*change) + change->bytes.capacity() + change->confirmation.capacity();
  worker_.buffers.CountClient(static_cast<int64_t>(bytes - change->counted));
  change->counted = bytes;
}

void PubSub::Delete(PendingReplies* replies) {
  auto* const change = static_cast<SubscriptionChange*>(replies);
  change->home->worker_.buffers.CountClient(-static_cast<int64_t>(change->counted));
  delete change;
}

void PubSub::EndLeave(ChannelKind kind, std::string_view name, uint64_t number) {
  PubSubTopic* const topic = Find(kind, name);
  if (topic == nullptr) return;  // its subscriber's connection was closed
  auto& leavers = topic->leavers;
  const auto end =
      std::find_if(leavers.begin(), leavers.end(),
                   [number](const PubSubTopic::Leaver& each) { return each.until > number; });
  leavers.erase(leavers.begin(), end);
  EraseIfEmpty(topic);
}

// --- Publishing ---

bool PubSub::is_overloaded() const { return load_.is_overloaded.load(std::memory_order_relaxed); }

int64_t PubSub::Publish(ShardId shard, ChannelKind kind, std::string_view channel,
                        std::string_view message) {
  const ChannelDirectory& directory = directories_[shard];
  int64_t receivers = 0;
  targets_.clear();
  if (const auto* counts = directory.Find(kind, channel)) {
    for (const auto& [thread, subscribers] : *counts) {
      receivers += subscribers;
      targets_.push_back({.thread = thread, .has_channel = true, .has_pattern = false});
    }
  }
  if (kind == ChannelKind::kChannel) {
    for (const auto& [pattern, counts] : directory.names(ChannelKind::kPattern)) {
      if (!GlobMatch(pattern, channel)) continue;
      for (const auto& count : counts) {
        receivers += count.subscribers;
        const auto it = std::find_if(targets_.begin(), targets_.end(), [&](const Target& target) {
          return target.thread == count.thread;
        });
        if (it != targets_.end()) {
          it->has_pattern = true;
        } else {
          targets_.push_back({.thread = count.thread, .has_channel = false, .has_pattern = true});
        }
      }
    }
  }
  for (const Target& target : targets_) {
    Fanout& fanout = *OpenFanout(target.thread);
    const size_t begin = fanout.bytes.size();
    RespWriter writer(&fanout.bytes);
    writer.Array(3);
    writer.Bulk(kind == ChannelKind::kShard ? "smessage" : "message");
    const size_t tail = fanout.bytes.size();
    writer.Bulk(channel);
    const size_t name = fanout.bytes.size() - 2 - channel.size();
    writer.Bulk(message);
    fanout.items.push_back({.owner = shard,
                            .kind = kind,
                            .has_channel = target.has_channel,
                            .has_pattern = target.has_pattern,
                            .begin = begin,
                            .tail = tail,
                            .name = name,
                            .name_size = channel.size(),
                            .end = fanout.bytes.size()});
    const bool is_other = target.thread != thread_ || worker_.shuffle != nullptr;
    if (is_other && (fanout.bytes.size() > kFanoutBytesMax || worker_.shuffle != nullptr)) {
      FlushTo(target.thread);
    }
  }
  return receivers;
}

PubSub::Fanout* PubSub::OpenFanout(uint32_t thread) {
  Fanout*& fanout = open_fanouts_[thread];
  if (fanout == nullptr) {
    fanout = new Fanout;
    fanout->thread = thread;
  }
  if (fanout->items.empty()) {
    load_.messages.fetch_add(1, std::memory_order_relaxed);
    open_threads_.push_back(thread);
    worker_.proactor.AtIterationEnd(&flush_hook_);
  }
  return fanout;
}

void PubSub::FlushAll() {
  while (!open_threads_.empty()) FlushTo(open_threads_.back());
}

void PubSub::FlushTo(uint32_t thread) {
  Fanout* const fanout = open_fanouts_[thread];
  if (fanout == nullptr || fanout->items.empty()) return;
  std::erase(open_threads_, thread);
  if (open_threads_.empty()) worker_.proactor.CancelHook(&flush_hook_);
  if (thread == thread_ && worker_.shuffle == nullptr) {
    Deliver(fanout);
    fanout->items.clear();
    fanout->bytes.Clear();
    if (fanout->bytes.capacity() > kFanoutBytesMax) fanout->bytes.Release();
    load_.messages.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  open_fanouts_[thread] = nullptr;
  const uint64_t bytes = fanout->bytes.size();
  if (load_.fanout_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes >
      load_.max_bytes.load(std::memory_order_relaxed)) {
    load_.is_overloaded.store(true, std::memory_order_relaxed);
  }
  fanout->run = [](helio::Message* message) {
    PubSub::Here().OnFanout(static_cast<Fanout*>(message));
  };
  if (worker_.shuffle != nullptr) [[unlikely]]
    return worker_.shuffle->Add(fanout, StreamOf(fanout->items.front().owner, false));
  server_.pool.at(thread)->PostLazily(fanout);
}

void PubSub::OnFanout(Fanout* fanout) {
  Deliver(fanout);
  const uint64_t bytes = fanout->bytes.size();
  delete fanout;
  // Whoever takes the last of it sees that an earlier one was too much, on every machine: or those
  // whom that holds would never go on.
  const uint64_t left = load_.fanout_bytes.fetch_sub(bytes, std::memory_order_acq_rel) - bytes;
  if (left <= load_.max_bytes.load(std::memory_order_relaxed) / 2 &&
      load_.is_overloaded.load(std::memory_order_relaxed) &&
      load_.is_overloaded.exchange(false, std::memory_order_relaxed)) {
    WorkerState::ReleaseHeldOnAll(server_);
  }
  load_.messages.fetch_sub(1, std::memory_order_relaxed);
}

// --- Delivery ---

void PubSub::Deliver(Fanout* fanout) {
  const auto& items = fanout->items;
  for (size_t i = 0; i < items.size();) {
    const Fanout::Item& first = items[i];
    const std::string_view name = fanout->NameOf(first);
    // Messages to one channel that follow one another are handed on as one.
    begins_.clear();
    size_t end = i;
    do {
      begins_.push_back(items[end].begin);
      ++end;
    } while (!first.has_pattern && end < items.size() && !items[end].has_pattern &&
             items[end].kind == first.kind && items[end].owner == first.owner &&
             fanout->NameOf(items[end]) == name);
    if (first.has_channel) {
      if (const PubSubTopic* topic = Find(first.kind, name)) {
        DeliverTo(*topic, first.owner, begins_, &fanout->bytes, first.begin, items[end - 1].end);
      }
    }
    if (first.has_pattern) {
      const std::string_view tail = fanout->bytes.view().substr(first.tail, first.end - first.tail);
      for (const auto& [pattern, topic] : topics(ChannelKind::kPattern)) {
        if (!GlobMatch(pattern, name)) continue;
        pattern_message_.Clear();
        RespWriter writer(&pattern_message_);
        writer.Array(4);
        writer.Bulk("pmessage");
        writer.Bulk(pattern);
        writer.Raw(tail);
        begins_.assign(1, 0);
        DeliverTo(*topic, first.owner, begins_, &pattern_message_, 0, pattern_message_.size());
      }
      if (pattern_message_.capacity() > kFanoutBytesMax) pattern_message_.Release();
    }
    i = end;
  }
}

void PubSub::DeliverTo(const PubSubTopic& topic, ShardId owner, std::span<const size_t> begins,
                       helio::IoBuf* bytes, size_t begin, size_t end) {
  const uint64_t acked = acked_[owner];
  const std::string_view message = bytes->view().substr(begin, end - begin);
  char* const data = bytes->Reserve(0) - bytes->size();
  bool is_push = false;
  const auto send = [&](Session& session, uint64_t since) {
    // RESP3 differs in the first byte of each message only.
    if (session.resp3 != is_push) {
      is_push = session.resp3;
      for (size_t each : begins) data[each] = is_push ? '>' : '*';
    }
    stats_.delivered += begins.size();
    Send(session, owner, since, message);
  };
  for (const auto& [session, since] : topic.subscribers) {
    if (since <= acked) send(*session, since);
  }
  for (const auto& [session, since, until] : topic.leavers) {
    if (since <= acked && until > acked) send(*session, since);
  }
  if (is_push) {
    for (size_t each : begins) data[each] = '*';
  }
}

SubscriptionChange* PubSub::FirstUnknownTo(ShardId owner, const Session& session) const {
  for (SubscriptionChange* change : session.subscriptions->pipelined) {
    if (change->number > acked_[owner] && change->IsFor(owner)) return change;
  }
  return nullptr;
}

void PubSub::Send(Session& session, ShardId owner, uint64_t since, std::string_view bytes) {
  if (session.connection_closed || session.connection.closing()) return;
  Connection& connection = session.connection;
  size_t held = 0;
  // What it has published itself by an EXEC or a script comes behind the reply. What comes during
  // another command comes before, as that may be the one by which it leaves the channel.
  const bool waits_for_reply =
      session.resp3 && session.owes_reply() &&
      (session.last_command->runs_script || session.last_command->full_name == "exec");
  if (SubscriptionChange* const change = FirstUnknownTo(owner, session)) [[unlikely]] {
    change->bytes.Append(bytes);
    Count(change);
    for (const SubscriptionChange* each : session.subscriptions->pipelined) {
      held += each->bytes.size();
    }
  } else if (since > session.subscriptions_told || waits_for_reply) [[unlikely]] {
    // It gets the reply to its SUBSCRIBE first.
    session.subscriptions->held.Append(bytes);
    held = session.subscriptions->held.size();
  } else {
    connection.PushMessage(bytes);
  }
  if (connection.unsent_bytes() + held > worker_.buffers.bounds.output_watch) [[unlikely]]
    ClientLimiter::Here().CheckMessages(session, held);
}

}  // namespace dfly
