// SPDX-License-Identifier: Apache-2.0
#include "server/push/tracking.h"

#include <algorithm>

#include "engine/hops/shard_set.h"
#include "engine/keyspace/shard.h"
#include "facade/connection.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/block_bytes.h"
#include "helio/base/logging.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"

namespace dfly {

// Something that a client's thread has to know.
struct Tracking::Item {
  enum class Kind : uint8_t {
    kKey,         // `client` has read `text`, and it has changed
    kBroadcast,   // `keys` have changed, and begin with `text`
    kFlushed,     // a shard
    kRedirected,  // for `client`, from `source`: `keys`
    kBroken       // the client to which `client` redirects has left
  };
  using Keys = std::vector<std::pair<std::string, uint64_t>>;  // and Prefix::changed

  Kind kind;
  uint64_t client = 0;
  uint32_t shard = 0;  // kKey, kFlushed
  std::string text = {};
  Keys keys = {};
  bool is_all = false;  // kRedirected: all keys
  uint64_t count = 0;   // kFlushed: so many times
  uint64_t source = 0;
  uint32_t source_thread = 0;
};

struct Tracking::Invalidations : helio::Message {
  std::vector<Item> items;
};

bool TrackingState::TakeReads(const Command& command, bool is_queued) {
  const bool may_read =
      (command.flags & kReadonly) != 0 || command.runs_script || command.full_name == "exec";
  const bool notes = may_read && !is_broadcast && (opt_in ? has_caching : !has_caching);
  // CLIENT CACHING is for the command behind it, or for all of a MULTI that begins there.
  const bool stays =
      is_queued || command.full_name == "multi" || command.full_name.starts_with("client|");
  if (!stays) has_caching = false;
  return notes;
}

Tracking::Tracking(WorkerState* worker)
    : PerThread(this),
      server_(worker->server),
      worker_(*worker),
      thread_(worker->index()),
      tables_(worker->server.shards->size()),
      flushes_(worker->server.shards->size(), 0),
      open_(worker->server.pool.size()),
      flush_hook_(
          [](helio::LoopHook* hook) { static_cast<FlushHook*>(hook)->tracking->FlushAll(); }),
      random_(helio::MonotonicNanos()) {
  flush_hook_.tracking = this;
}

Tracking::~Tracking() {
  DCHECK(sessions_.empty());
  worker_.proactor.CancelHook(&flush_hook_);
}

// --- Who tracks ---

void Tracking::Enable() {
  if (is_enabled_) return;
  is_enabled_ = true;
  worker_.ForEachShard([this](Shard& shard) { shard.set_tracker(this); });
}

void Tracking::DisableIfUnused() {
  if (!is_enabled_ || server_.tracking_clients.load() != 0) return;
  is_enabled_ = false;
  worker_.ForEachShard([](Shard& shard) { shard.set_tracker(nullptr); });
  for (Table& table : tables_) Clear(&table);
}

void Tracking::AddPrefixes(std::span<const std::string> prefixes, uint32_t thread) {
  for (const std::string& text : prefixes) {
    const auto [it, is_new] = prefixes_.try_emplace(text);
    if (is_new) {
      it->second.clients.resize(open_.size(), 0);
      prefix_bytes_ += BytesOf(*it);
      ++lengths_[text.size()];
    }
    ++it->second.clients[thread];
  }
}

void Tracking::RemovePrefixes(std::span<const std::string> prefixes, uint32_t thread) {
  for (const std::string& text : prefixes) {
    const auto it = prefixes_.find(text);
    DCHECK(it != prefixes_.end() && it->second.clients[thread] > 0);
    std::vector<uint32_t>& clients = it->second.clients;
    --clients[thread];
    const auto is_zero = [](uint32_t count) { return count == 0; };
    if (!std::all_of(clients.begin(), clients.end(), is_zero)) continue;
    std::erase(changed_prefixes_, &*it);
    prefix_bytes_ -= BytesOf(*it);
    prefixes_.erase(it);
    const auto length = lengths_.find(text.size());
    if (--length->second == 0) lengths_.erase(length);
  }
}

// With its node in the tree; and what the client's own session has of it.
size_t Tracking::BytesOf(const Prefixes::value_type& prefix) const {
  constexpr size_t kNode = 4 * sizeof(void*);
  return kNode + sizeof(prefix) + 2 * helio::HeapBytes(prefix.first) + sizeof(std::string) +
         helio::HeapBytes(prefix.second.clients);
}

void Tracking::RemovePrefixesEverywhere(std::vector<std::string> prefixes) {
  if (prefixes.empty()) return;
  const auto shared = std::make_shared<const std::vector<std::string>>(std::move(prefixes));
  DispatchOnAll<Tracking>(server_, [shared, from = thread_](Tracking& tracking) {
    tracking.RemovePrefixes(*shared, from);
  });
}

void Tracking::AddTarget(Session& session) {
  session.is_redirect_target = true;
  targets_[session.connection.id()] = &session;
}

void Tracking::Begin(Session& session, std::unique_ptr<TrackingState> state) {
  DCHECK(session.tracking == nullptr);
  session.tracking = std::move(state);
  sessions_[session.connection.id()] = &session;
}

void Tracking::End(Session& session) {
  if (session.tracking == nullptr) return;
  sessions_.erase(session.connection.id());
  const std::unique_ptr<TrackingState> state = std::move(session.tracking);
  RemovePrefixesEverywhere(std::move(state->prefixes));
  if (server_.tracking_clients.fetch_sub(1) != 1) return;
  DispatchOnAll<Tracking>(server_, [](Tracking& tracking) { tracking.DisableIfUnused(); });
}

void Tracking::OnReplied(Session& session) {
  if (session.tracking == nullptr || session.tracking->held.empty()) return;
  if (!session.connection.closing()) {
    session.connection.PushMessage(session.tracking->held.view());
  }
  session.tracking->held.Release();
}

void Tracking::OnClosed(Session& session) {
  End(session);
  if (session.is_redirect_target) targets_.erase(session.connection.id());
}

TrackingCounts Tracking::counts() const {
  TrackingCounts counts = {.clients = sessions_.size(), .keys = 0, .items = items_, .prefixes = 0};
  for (const Table& table : tables_) counts.keys += table.reads.size();
  counts.prefixes = prefixes_.size();
  return counts;
}

// --- On a shard's thread ---

void Tracking::OnRead(uint32_t shard, std::string_view key, const CachingClient& reader) {
  Table& table = tables_[shard];
  auto it = table.reads.find(key);
  if (it == table.reads.end()) {
    Trim(&table, 1);
    it = table.reads.emplace(std::string(key), Read()).first;
    it->second.place = static_cast<uint32_t>(table.keys.size());
    table.keys.push_back(&it->first);
    table_bytes_ += sizeof(Read) + sizeof(std::string) + 2 * sizeof(void*) + key.size();
  }
  auto& readers = it->second.readers;
  for (const Reader& known : readers) {
    if (known.id == reader.id) return;
  }
  readers.push_back({reader.id, reader.thread});
  ++items_;
  table_bytes_ += sizeof(Reader);
}

void Tracking::OnKeyChanged(uint32_t shard, std::string_view key, const CachingClient* by) {
  Invalidate(&tables_[shard], key, by);
  // A key has as many prefixes as there are lengths at most, however many others there are.
  for (const auto& [length, count] : lengths_) {
    if (length > key.size()) break;
    const auto found = prefixes_.find(key.substr(0, length));
    if (found == prefixes_.end()) continue;
    auto& changed = found->second.changed;
    if (changed.empty()) changed_prefixes_.push_back(&*found);
    const uint64_t writer = by != nullptr && by->no_loop ? by->id : 0;
    const auto [it, is_new] = changed.try_emplace(std::string(key), writer);
    if (!is_new && it->second != writer) it->second = 0;
    worker_.proactor.AtIterationEnd(&flush_hook_);
  }
}

void Tracking::OnFlushed(uint32_t shard, uint64_t count) {
  Clear(&tables_[shard]);
  for (uint32_t thread = 0; thread < open_.size(); ++thread) {
    Add(thread, {.kind = Item::Kind::kFlushed, .shard = shard, .count = count});
  }
}

void Tracking::Invalidate(Table* table, std::string_view key, const CachingClient* by) {
  const auto it = table->reads.find(key);
  if (it == table->reads.end()) return;
  const Read& read = it->second;
  const auto shard = static_cast<uint32_t>(table - tables_.data());
  for (const Reader& reader : read.readers) {
    if (by != nullptr && by->no_loop && by->id == reader.id) continue;
    Add(reader.thread,
        {.kind = Item::Kind::kKey, .client = reader.id, .shard = shard, .text = std::string(key)});
  }
  items_ -= read.readers.size();
  table_bytes_ -= sizeof(Read) + sizeof(std::string) + 2 * sizeof(void*) + it->first.size() +
                  read.readers.size() * sizeof(Reader);
  const std::string* const last = table->keys.back();
  table->keys[read.place] = last;
  table->reads.find(*last)->second.place = read.place;
  table->keys.pop_back();
  table->reads.erase(it);
  helio::ShrinkIfSparse(&table->reads);
}

void Tracking::TrimAll() {
  for (Table& table : tables_) Trim(&table, 0);
}

void Tracking::Trim(Table* table, size_t room) {
  const uint64_t max = server_.settings.tracking_table_max_keys.load(std::memory_order_relaxed);
  const uint64_t share = std::max<uint64_t>(1, max / tables_.size());
  while (max != 0 && table->reads.size() + room > share) EvictOne(table);
}

// Who has read the key is told that it has changed: it does not hear of it any more.
void Tracking::EvictOne(Table* table) {
  const std::string key = *table->keys[random_.Uniform(table->keys.size())];
  Invalidate(table, key, nullptr);
}

void Tracking::Clear(Table* table) {
  for (const auto& [key, read] : table->reads) {
    items_ -= read.readers.size();
    table_bytes_ -= sizeof(Read) + sizeof(std::string) + 2 * sizeof(void*) + key.size() +
                    read.readers.size() * sizeof(Reader);
  }
  table->reads = {};
  table->keys = {};
}

// --- Between threads ---

void Tracking::Add(uint32_t thread, Item item) {
  std::unique_ptr<Invalidations>& open = open_[thread];
  if (open == nullptr) {
    open = std::make_unique<Invalidations>();
    open_threads_.push_back(thread);
    worker_.proactor.AtIterationEnd(&flush_hook_);
  }
  open->items.push_back(std::move(item));
  // Tests with a schedule of messages keep what is for one client behind the replies of its shard.
  if (worker_.shuffle != nullptr) [[unlikely]]
    FlushTo(thread);
}

void Tracking::FlushPrefixes() {
  // By their names, as redis-server tells of them.
  std::sort(changed_prefixes_.begin(), changed_prefixes_.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  for (Prefixes::value_type* each : std::exchange(changed_prefixes_, {})) {
    auto& [text, prefix] = *each;
    const Item::Keys keys(prefix.changed.begin(), prefix.changed.end());
    prefix.changed.clear();
    for (uint32_t thread = 0; thread < open_.size(); ++thread) {
      if (prefix.clients[thread] == 0) continue;
      Add(thread, {.kind = Item::Kind::kBroadcast, .text = text, .keys = keys});
    }
  }
}

void Tracking::FlushAll() {
  if (!changed_prefixes_.empty()) FlushPrefixes();
  while (!open_threads_.empty()) FlushTo(open_threads_.back());
  worker_.proactor.CancelHook(&flush_hook_);
}

void Tracking::FlushTo(uint32_t thread) {
  std::unique_ptr<Invalidations> message = std::move(open_[thread]);
  std::erase(open_threads_, thread);
  if (thread == thread_ && worker_.shuffle == nullptr) {
    for (const Item& item : message->items) Deliver(item);
    return;
  }
  message->run = [](helio::Message* received) {
    const std::unique_ptr<Invalidations> owned(static_cast<Invalidations*>(received));
    for (const Item& item : owned->items) Tracking::Here().Deliver(item);
  };
  if (worker_.shuffle != nullptr) [[unlikely]] {
    const Item& first = message->items.front();
    const uint64_t stream = first.kind == Item::Kind::kKey
                                ? MessageShuffle::StreamOfReplies(first.client, first.shard)
                                : 0;
    return worker_.shuffle->Add(message.release(), stream);
  }
  server_.pool.at(thread)->PostLazily(message.release());
}

// --- On the client's thread ---

void Tracking::Deliver(const Item& item) {
  const auto find = [&](const auto& sessions) {
    const auto it = sessions.find(item.client);
    return it == sessions.end() ? nullptr : it->second;
  };
  switch (item.kind) {
    case Item::Kind::kKey: {
      const std::string_view key = item.text;
      if (Session* const session = find(sessions_)) {
        if (!session->tracking->is_broadcast) Tell(*session, {&key, 1}, false);
      }
      return;
    }
    case Item::Kind::kBroadcast:
      return OnBroadcast(item);
    case Item::Kind::kFlushed:
      return OnShardFlushed(item);
    case Item::Kind::kRedirected:
      return OnRedirected(item);
    case Item::Kind::kBroken:
      if (Session* const session = find(sessions_)) OnBroken(*session);
      return;
  }
}

void Tracking::OnBroadcast(const Item& item) {
  std::vector<std::string_view> keys;
  for (const auto& [id, session] : sessions_) {
    const TrackingState& state = *session->tracking;
    const auto& prefixes = state.prefixes;
    if (std::find(prefixes.begin(), prefixes.end(), item.text) == prefixes.end()) continue;
    keys.clear();
    const AclUser* const user = session->user.acl.get();  // null: it may do everything
    for (const auto& [key, writer] : item.keys) {
      if (writer == id) continue;
      // Names of keys are nobody's business who may not read them.
      if (user == nullptr || user->MayReadKey(key)) keys.push_back(key);
    }
    if (!keys.empty()) Tell(*session, keys, false);
  }
}

// One message when all shards have told: then it is behind the replies of all of them.
void Tracking::OnShardFlushed(const Item& item) {
  flushes_[item.shard] = item.count;
  const uint64_t least = *std::min_element(flushes_.begin(), flushes_.end());
  if (least <= flushes_told_) return;
  flushes_told_ = least;
  for (const auto& [id, session] : sessions_) Tell(*session, {}, true);
}

void Tracking::Tell(Session& session, Keys keys, bool is_all) {
  TrackingState& state = *session.tracking;
  if (state.redirect != 0) {
    Item item = {.kind = Item::Kind::kRedirected, .client = state.redirect};
    for (const std::string_view key : keys) item.keys.emplace_back(key, 0);
    item.is_all = is_all;
    item.source = session.connection.id();
    item.source_thread = thread_;
    if (state.redirect_thread == thread_) return OnRedirected(item);
    return Add(state.redirect_thread, std::move(item));
  }
  if (!session.resp3) return;
  message_.Clear();
  RespWriter writer(&message_, true);
  writer.Push(2);
  writer.Bulk("invalidate");
  if (is_all) {
    writer.Null();
  } else {
    writer.Array(keys.size());
    for (const std::string_view key : keys) writer.Bulk(key);
  }
  Push(session, message_.view());
}

void Tracking::OnRedirected(const Item& item) {
  const auto it = targets_.find(item.client);
  if (it == targets_.end() || it->second->connection.is_leaving()) {
    const Item broken = {.kind = Item::Kind::kBroken, .client = item.source};
    if (item.source_thread == thread_) return Deliver(broken);
    return Add(item.source_thread, broken);
  }
  Session& target = *it->second;
  if (!target.resp3 && !target.is_subscribed()) return;
  if (target.feed != nullptr) return;  // a replica now: it gets the stream, and nothing else
  message_.Clear();
  RespWriter writer(&message_, target.resp3);
  if (target.resp3) {
    writer.Push(2);
    writer.Bulk("invalidate");
  } else {
    writer.Array(3);
    writer.Bulk("message");
    writer.Bulk("__redis__:invalidate");
  }
  if (item.is_all) {
    writer.Null();
  } else {
    writer.Array(item.keys.size());
    for (const auto& [key, writer_id] : item.keys) writer.Bulk(key);
  }
  Push(target, message_.view());
}

void Tracking::OnBroken(Session& session) {
  session.tracking->is_broken = true;
  if (!session.resp3) return;
  message_.Clear();
  RespWriter writer(&message_, true);
  writer.Push(2);
  writer.Bulk("tracking-redir-broken");
  writer.Integer(static_cast<int64_t>(session.tracking->redirect));
  Push(session, message_.view());
}

void Tracking::Push(Session& session, std::string_view bytes) {
  Connection& connection = session.connection;
  if (connection.closing()) return;
  size_t held = 0;
  // What a fiber has read for the client is in a reply that has yet to come.
  if (session.owes_reply() && session.tracking != nullptr) {
    session.tracking->held.Append(bytes);
    held = session.tracking->held.size();
  } else {
    connection.PushMessage(bytes);
  }
  if (connection.unsent_bytes() + held > worker_.buffers.bounds.output_watch) [[unlikely]]
    ClientLimiter::Here().CheckMessages(session, held);
}

}  // namespace dfly
