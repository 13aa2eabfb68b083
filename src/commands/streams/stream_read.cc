// SPDX-License-Identifier: Apache-2.0
// XREAD and XREADGROUP, which may wait (server/dispatch/blocking.h).
//
// What is pending may become old enough for CLAIM while a call waits: see GroupReadyAt.
//
// What a call gets is decided key by key: first whether any of them is an error, then what each of
// them has. XREAD takes nothing away, so a new entry serves all that wait for one. Who waits is
// served with the entries of the one key that has woken it.
//
// With MAXCOUNT or MAXSIZE what a key gets depends on what those before it have got: then keys are
// read one after another, also over shards.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/streams/stream_read_call.h"
#include "commands/streams/stream_support.h"
#include "commands/table/blocking.h"
#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

// --- One key ---

constexpr StreamId kNewOnes = StreamId::Max();  // ">"

// Behind it there is the last entry, or the next one to come if there is none.
StreamId BeforeLastEntry(const StreamValue& stream) {
  std::optional<StreamId> last = stream.entries().Last();
  if (!last || !last->Decrement()) return stream.counters().last_id;
  return *last;
}

// What stands in the way of reading a key; empty: nothing. `after`: behind what it is to be read.
std::string CheckKey(ShardContext& cx, const ReadCall& call, size_t i, StreamId* after) {
  const std::string_view key = call.keys[i];
  const std::string_view id = call.ids[i];
  const auto value = cx.FindReadOnly(key, ValueType::kStream);
  if (value.is_wrong_type()) return std::string(kErrWrongType);
  if (call.of_group && (!value || StreamOf(*value).FindGroup(call.group) == nullptr)) {
    return fmt::format(
        "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
        Printed(key), Printed(call.group));
  }
  if (id == "$") {
    if (call.of_group) {
      return "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the "
             "history of this consumer by specifying a proper ID, or use the > ID to get new "
             "messages. The $ ID would just return an empty result set.";
    }
    *after = value ? StreamOf(*value).counters().last_id : StreamId();
  } else if (id == "+") {
    if (call.of_group) {
      return "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the "
             "history of this consumer by specifying a proper ID, or use the > ID to get new "
             "messages. The + ID would just return an empty result set.";
    }
    *after = value ? BeforeLastEntry(StreamOf(*value)) : StreamId();
  } else if (id == ">") {
    if (!call.of_group) {
      return "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> "
             "<consumer> option.";
    }
    *after = kNewOnes;
  } else {
    const std::optional<StreamId> given = ParseStreamId(id, 0);
    if (!given) return std::string(kErrInvalidStreamId);
    *after = *given;
  }
  return {};
}

bool HasEntryBehind(const StreamValue& stream, StreamId after) {
  // Nearly always the last one has not been erased.
  if (stream.counters().last_id <= after) return false;
  const std::optional<StreamId> last = stream.entries().Last();
  return last && *last > after;
}

// What a consumer has got before and not acknowledged. None: the call gets nothing of this key.
std::optional<std::vector<StreamId>> HistoryOf(const StreamValue& stream,
                                               const StreamConsumer& consumer, StreamId after,
                                               uint64_t count, Budget* budget) {
  std::vector<StreamId> ids;
  for (auto it = consumer.pending.upper_bound(after); it != consumer.pending.end(); ++it) {
    const auto bytes = [&] {
      size_t found = kSmallArrayBytes + IdBytes(*it) + kNullArrayBytes;
      stream.entries().ForEach(*it, *it, [&found](const StreamEntry& entry) {
        found = EntryBytes(entry);
        return false;
      });
      return found;
    };
    if (!budget->Take(bytes)) {
      if (ids.empty()) return std::nullopt;
      break;
    }
    ids.push_back(*it);
    if (ids.size() == count) break;
  }
  if (ids.empty() && !budget->TakeEmptyKey()) return std::nullopt;
  return ids;
}

// Replies as many of these as the slice has room for, as items, and drops the others. Returns those
// that are still there.
std::vector<StreamId> ReplyHistory(StreamValue& stream, StreamGroup& group,
                                   std::vector<StreamId>* ids, int64_t now_ms, StreamSlice* slice,
                                   ReplySink& reply) {
  constexpr size_t kBytesOfGone = 64;
  std::vector<StreamId> delivered;
  size_t replied = 0;
  for (; replied < ids->size() && slice->has_room(); ++replied) {
    const StreamId id = (*ids)[replied];
    bool is_there = false;
    stream.entries().ForEach(id, id, [&](const StreamEntry& entry) {
      ReplyEntry(entry, reply);
      slice->Took(entry.bytes);
      is_there = true;
      return false;
    });
    if (is_there) {
      StreamPending& pending = *group.FindPending(id);
      group.SetDelivered(id, &pending, now_ms);
      pending.deliveries = NextDelivery(pending.deliveries);
      delivered.push_back(id);
    } else {
      reply.Array(2);
      ReplyStreamId(id, reply);
      reply.NullArray();
      slice->Took(kBytesOfGone);
    }
  }
  ids->resize(replied);
  return delivered;
}

// An entry that is taken from who had it, as it was before.
struct Claimed {
  StreamId id;
  int64_t idle_ms;
  uint64_t deliveries;
};

// As much as the call gets of what CLAIM gives, the longest idle first. What has gone from the
// stream comes to `gone`.
std::vector<Claimed> FindClaimable(const StreamValue& stream, StreamGroup& group,
                                   const ReadCall& call, int64_t now_ms, Budget* budget,
                                   std::vector<StreamId>* gone) {
  std::vector<Claimed> claimed;
  for (const StreamGroup::Delivery& delivery : group.OrderByTime()) {
    if (delivery.ms > now_ms - *call.claim_idle_ms) break;
    if (!stream.entries().Has(delivery.id)) {
      gone->push_back(delivery.id);
      continue;
    }
    const StreamPending& pending = *group.FindPending(delivery.id);
    const Claimed one = {delivery.id, std::max<int64_t>(now_ms - pending.shown_ms(), 0),
                         pending.deliveries};
    const auto bytes = [&] {
      size_t found =
          IntegerBytes(static_cast<uint64_t>(one.idle_ms)) + IntegerBytes(one.deliveries);
      stream.entries().ForEach(one.id, one.id, [&found](const StreamEntry& entry) {
        found += EntryBytes(entry);
        return false;
      });
      return found;
    };
    if (!budget->Take(bytes)) break;
    claimed.push_back(one);
    if (claimed.size() == call.count) break;
  }
  return claimed;
}

// The time of the delivery that is the oldest of what is pending and in the stream.
std::optional<int64_t> OldestDelivery(const StreamValue& stream, const StreamGroup& group) {
  std::optional<int64_t> oldest;
  if (group.by_time() != nullptr) {
    for (const StreamGroup::Delivery& delivery : *group.by_time()) {
      if (stream.entries().Has(delivery.id)) return delivery.ms;
    }
    return oldest;
  }
  for (const auto& [id, pending] : group.pending()) {
    if (oldest && *oldest <= pending.delivered_ms) continue;
    if (stream.entries().Has(id)) oldest = pending.delivered_ms;
  }
  return oldest;
}

// With CLAIM an entry has four parts: how long it was idle, and how often it was delivered before.
void ReplyClaimEntry(const StreamEntry& entry, int64_t idle_ms, uint64_t deliveries,
                     ReplySink& reply) {
  reply.Array(4);
  ReplyEntryParts(entry, reply);
  reply.Integer(idle_ms);
  reply.Integer(static_cast<int64_t>(deliveries));
}

void ReplyGiven(const StreamEntries& entries, const ReadCall& call,
                const std::vector<Claimed>& claimed, const std::vector<StreamEntry>& fresh,
                ReplySink& reply) {
  if (!call.claim_idle_ms) {
    for (const StreamEntry& entry : fresh) ReplyEntry(entry, reply);
    return;
  }
  for (const Claimed& one : claimed) {
    entries.ForEach(one.id, one.id, [&](const StreamEntry& entry) {
      ReplyClaimEntry(entry, one.idle_ms, one.deliveries, reply);
      return false;
    });
  }
  for (const StreamEntry& entry : fresh) ReplyClaimEntry(entry, 0, 0, reply);
}

// As many of those behind `after` as the call gets, and the slice has room for.
std::vector<StreamEntry> EntriesBehind(const StreamEntries& entries, StreamId after, uint64_t count,
                                       size_t more_bytes, Budget* budget, StreamSlice* slice) {
  std::vector<StreamEntry> found;
  after.Increment();
  entries.ForEach(after, StreamId::Max(), [&](const StreamEntry& entry) {
    if (!slice->has_room()) return false;
    if (!budget->Take([&] { return EntryBytes(entry) + more_bytes; })) return false;
    found.push_back(entry);
    slice->Took(entry.bytes);
    return found.size() != count;
  });
  return found;
}

// What a call reads of a key in a hop.
struct Portion {
  StreamSlice slice = StreamSlice::Unbounded();
  uint64_t changes =
      1;  // what it counts as, if it changes anything: slices are one change together
};

// Of XREADGROUP. header(entries) is called before that many are replied, and writes what stands in
// front of them; of a slice with bounds, fewer may follow. `*after` goes on to the last one of a
// history. False: there is nothing.
template <typename Header>
bool ReadForGroup(ShardContext& cx, const ReadCall& call, std::string_view key, StreamId* after,
                  Budget* budget, Portion* portion, Header header, ReplySink& reply) {
  auto value = cx.FindMutable(key, ValueType::kStream);
  if (!value) return false;  // expired meanwhile
  StreamValue& stream = StreamOf(*value);
  StreamGroup* const group = stream.FindGroup(call.group);
  if (group == nullptr) return false;
  std::vector<Claimed> claimed;
  std::vector<StreamId> gone;
  if (call.claim_idle_ms && *after == kNewOnes) {
    claimed = FindClaimable(stream, *group, call, cx.noted_ms(), budget, &gone);
  }
  StreamConsumer* const consumer = ConsumerOrNew(cx, key, *group, call.consumer);
  consumer->seen_ms = cx.noted_ms();
  if (*after != kNewOnes) {
    auto history = HistoryOf(stream, *consumer, *after, call.count, budget);
    std::vector<StreamId> delivered;
    if (history) {
      header(history->size());
      delivered = ReplyHistory(stream, *group, &*history, cx.now_ms(), &portion->slice, reply);
      if (!history->empty()) *after = history->back();
    }
    cx.ChangedUnwatched(key, KeyEvent::kNone, portion->changes);
    if (cx.wants_effects()) {
      for (StreamId id : delivered) TellPending(cx, key, *group, id);
    }
    return history.has_value();
  }
  for (StreamId id : gone) {  // nobody can read them any more
    group->Acknowledge(id);
    if (cx.wants_effects()) TellAcknowledged(cx, key, *group, id);
  }
  std::vector<StreamEntry> fresh;
  if ((call.count == 0 || claimed.size() < call.count) && HasEntryBehind(stream, group->last_id)) {
    const uint64_t count = call.count == 0 ? 0 : call.count - claimed.size();
    const size_t more_bytes = call.claim_idle_ms ? 2 * IntegerBytes(0) : 0;
    fresh =
        EntriesBehind(stream.entries(), group->last_id, count, more_bytes, budget, &portion->slice);
  }
  if (claimed.empty() && fresh.empty()) {
    if (!gone.empty()) cx.ChangedUnwatched(key, KeyEvent::kNone, gone.size());
    return false;
  }
  header(claimed.size() + fresh.size());
  ReplyGiven(stream.entries(), call, claimed, fresh, reply);
  const auto give = [&](StreamId id, uint64_t deliveries) {
    StreamPending& pending = group->Assign(id, consumer);
    group->SetDelivered(id, &pending, cx.now_ms());
    pending.deliveries = deliveries;
    consumer->active_ms = cx.now_ms();
    if (cx.wants_effects()) TellPending(cx, key, *group, id);
  };
  for (const Claimed& one : claimed) give(one.id, NextDelivery(one.deliveries));
  for (const StreamEntry& entry : fresh) stream.AdvanceGroup(group, entry.id);
  for (const StreamEntry& entry : fresh) {
    if (!call.no_ack) give(entry.id, 1);
  }
  if (cx.wants_effects() && !fresh.empty()) TellDelivered(cx, key, *group);
  cx.ChangedUnwatched(key, KeyEvent::kNone, portion->changes);
  return true;
}

// See ReadForGroup. Behind budget->BeginKey.
template <typename Header>
bool ReadKey(ShardContext& cx, const ReadCall& call, std::string_view key, StreamId* after,
             Budget* budget, Portion* portion, Header header, ReplySink& reply) {
  if (budget->is_spent()) return false;
  if (call.of_group) return ReadForGroup(cx, call, key, after, budget, portion, header, reply);
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kStream) return false;
  const StreamValue& stream = StreamOf(*value);
  if (!HasEntryBehind(stream, *after)) return false;
  const auto found =
      EntriesBehind(stream.entries(), *after, call.count, 0, budget, &portion->slice);
  if (found.empty()) return false;
  *after = found.back().id;
  header(found.size());
  for (const StreamEntry& entry : found) ReplyEntry(entry, reply);
  return true;
}

// --- All keys ---

void ReplyHeader(size_t keys, ReplySink& reply) {
  if (reply.resp3()) {
    reply.Map(keys);
  } else {
    reply.Array(keys);
  }
}

void ReplyKey(std::string_view key, ReplySink& reply) {
  if (!reply.resp3()) reply.Array(2);
  reply.Bulk(key);
}

// fn(i) replies what key i has got, if has_some(i). False: none has, and nothing was replied.
template <typename HasSome, typename F>
bool ReplyWithKeys(const ReadCall& call, ReplySink& reply, HasSome has_some, F fn) {
  size_t keys = 0;
  for (size_t i = 0; i < call.keys.size(); ++i) keys += has_some(i);
  if (keys == 0) return false;
  ReplyHeader(keys, reply);
  for (size_t i = 0; i < call.keys.size(); ++i) {
    if (!has_some(i)) continue;
    ReplyKey(call.keys[i], reply);
    fn(i);
  }
  return true;
}
bool GiveAll(const ReadCall& call, const std::vector<KeptReply>& kept, ReplySink& reply) {
  return ReplyWithKeys(
      call, reply, [&](size_t i) { return !kept[i].empty(); },
      [&](size_t i) { kept[i].GiveTo(reply); });
}

// See BlockingForm::try_here.
bool ReadHere(ShardContext& cx, const ReadCall& call, std::vector<StreamId>* after,
              ReplySink& reply) {
  after->resize(call.keys.size());
  for (size_t i = 0; i < call.keys.size(); ++i) {
    const std::string error = CheckKey(cx, call, i, &(*after)[i]);
    if (error.empty()) continue;
    reply.Error(error);
    return true;
  }
  Budget budget(call);
  if (call.keys.size() == 1) {
    const auto header = [&](size_t entries) {
      ReplyHeader(1, reply);
      ReplyKey(call.keys[0], reply);
      reply.Array(entries);
    };
    Portion all;
    budget.BeginKey(call.keys[0]);
    return ReadKey(cx, call, call.keys[0], &after->front(), &budget, &all, header, reply);
  }
  std::vector<KeptReply> kept(call.keys.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto header = [&](size_t entries) { kept[i].Array(entries); };
    Portion all;
    budget.BeginKey(call.keys[i]);
    ReadKey(cx, call, call.keys[i], &(*after)[i], &budget, &all, header, kept[i]);
  }
  return GiveAll(call, kept, reply);
}

// The keys of a call over shards, or of one that reads much.
class KeysAcross {
 public:
  KeysAcross(CoordinatorContext& cx, Transaction& tx, const ReadCall& call)
      : cx_(cx), tx_(tx), call_(call) {
    for (const std::string_view key : call.keys) {
      shard_of_.push_back(cx.shards().ShardOfKey(key, HashKey(key)));
    }
  }
  size_t size() const { return shard_of_.size(); }
  std::string_view key(size_t i) const { return call_.keys[i]; }

  // A hop to the shards of those keys from `begin` to `end` that suit(i). There
  // function(ShardContext&, i, StreamSlice*) is called for each of them until it returns false; the
  // slice is what the hop may still read. False: none suits.
  template <typename Suits, typename Function>
  bool Hop(size_t begin, size_t end, Suits suits, Function function) {
    std::vector<ShardId> ids;
    for (size_t i = begin; i < end; ++i) {
      if (suits(i)) ids.push_back(shard_of_[i]);
    }
    if (ids.empty()) return false;
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    tx_.HopOn(ids, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(cx_.db_index(), cx_.now_ms());
      StreamSlice slice = StreamSlice::OfHop();
      for (size_t i = begin; i < end; ++i) {
        const bool is_here = shard_of_[i] == turn.shard().id();
        if (is_here && suits(i) && !function(shard_cx, i, &slice)) return;
      }
    });
    return true;
  }
  // function(ShardContext&, i) for all keys from `begin` to `end`.
  template <typename Function>
  void HopToAll(size_t begin, size_t end, Function function) {
    Hop(
        begin, end, [](size_t) { return true; },
        [&](ShardContext& shard_cx, size_t i, StreamSlice*) {
          function(shard_cx, i);
          return true;
        });
  }
  // True: one of them is an error, which was replied.
  bool ReplyWithError(std::vector<StreamId>* after, ReplySink& reply) {
    after->resize(size());
    std::vector<std::string> errors(size());
    HopToAll(0, size(), [&](ShardContext& shard_cx, size_t i) {
      errors[i] = CheckKey(shard_cx, call_, i, &(*after)[i]);
    });
    const auto error = std::find_if(errors.begin(), errors.end(),
                                    [](const std::string& text) { return !text.empty(); });
    if (error == errors.end()) return false;
    reply.Error(*error);
    return true;
  }
  // fn(begin, end, Budget*) for what can be read at once: all keys if there is no budget, which is
  // null then, or else a run of keys in one shard, as what a key gets depends on those before it.
  template <typename F>
  void ForEachRun(F fn) {
    if (!call_.has_budget()) return fn(0, size(), nullptr);
    Budget budget(call_);
    for (size_t begin = 0, end = 0; begin < size() && !budget.is_spent(); begin = end) {
      while (end < size() && shard_of_[end] == shard_of_[begin]) ++end;
      fn(begin, end, &budget);
    }
  }

 private:
  CoordinatorContext& cx_;
  Transaction& tx_;
  const ReadCall& call_;
  std::vector<ShardId> shard_of_;
};

// One key of them, as far as it was read.
struct KeyRead {
  StreamId after;
  uint64_t left;  // entries that it may still get
  bool is_done = false;
  bool is_replied = false;
  size_t entries = 0;
  KeptReply reply;  // them
};

// Reads some more of each key from `begin` to `end` in a hop, again and again until all are done:
// read(ShardContext&, i, most, Portion*) reads so many entries at most.
template <typename Read>
void ReadInSlices(KeysAcross& keys, std::vector<KeyRead>& reads, size_t begin, size_t end,
                  Read read) {
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  const auto read_some = [&](ShardContext& cx, size_t i, StreamSlice* slice) {
    KeyRead& part = reads[i];
    const auto value = cx.Peek(keys.key(i));
    part.is_done = !value || value->type() != ValueType::kStream;
    if (part.is_done) return true;
    const uint64_t most = std::min<uint64_t>(part.left, slice->entries());
    Portion portion = {.slice = *slice, .changes = part.entries == 0};
    read(cx, i, most, &portion);
    const uint64_t got = slice->entries() - portion.slice.entries();
    *slice = portion.slice;
    part.entries += got;
    part.left -= got;
    part.is_done = part.left == 0 || (got < most && slice->has_room());
    return part.is_done && slice->has_room();
  };
  while (keys.Hop(
      begin, end, [&](size_t i) { return !reads[i].is_done; }, read_some))
    work.Step();
}

// What all of them have got. False: nothing, which was not replied; else `tx` is concluded, as a
// long reply is written without locks. Suspends.
bool ReplyWithReads(Transaction& tx, const ReadCall& call, std::vector<KeyRead>& reads,
                    ReplySink& reply) {
  const auto is_replied = [](const KeyRead& read) { return read.is_replied; };
  if (std::none_of(reads.begin(), reads.end(), is_replied)) return false;
  tx.Conclude();
  return ReplyWithKeys(
      call, reply, [&](size_t i) { return reads[i].is_replied; },
      [&](size_t i) {
        reply.Array(reads[i].entries);
        reads[i].reply.GiveInSlices(reply);
      });
}

// See BlockingForm::try_across: one hop to look for errors, then slices: nobody has to wait for
// more than one on each shard. All hops have the keys locked, so it is one step nevertheless, also
// what XREADGROUP changes: no cut of a snapshot comes in between, and what is told of it is told
// at once.
bool ReadAcross(CoordinatorContext& cx, Transaction& tx, const ReadCall& call,
                std::vector<StreamId>* after, ReplySink& reply) {
  KeysAcross keys(cx, tx, call);
  if (keys.ReplyWithError(after, reply)) return true;
  std::vector<KeyRead> reads;
  for (StreamId id : *after) {
    reads.push_back({.after = id, .left = call.count == 0 ? UINT64_MAX : call.count, .reply = {}});
  }
  const bool is_one_step = call.of_group && (call.has_budget() || call.claim_idle_ms);
  keys.ForEachRun([&](size_t begin, size_t end, Budget* budget) {
    const auto read = [&](ShardContext& shard_cx, size_t i, uint64_t most, Portion* portion) {
      KeyRead& part = reads[i];
      Budget unbounded(call);
      Budget* const its_own = budget != nullptr ? budget : &unbounded;
      size_t announced = 0;
      const auto header = [&](size_t entries) {
        part.is_replied = true;
        announced = entries;
      };
      ReadCall slice = call;
      slice.count = most;
      if (part.entries == 0) its_own->BeginKey(call.keys[i]);
      ReadKey(shard_cx, slice, call.keys[i], &part.after, its_own, portion, header, part.reply);
      return announced;
    };
    if (!is_one_step) return ReadInSlices(keys, reads, begin, end, read);
    keys.HopToAll(begin, end, [&](ShardContext& shard_cx, size_t i) {
      Portion all;
      reads[i].entries = read(shard_cx, i, call.count, &all);
    });
  });
  return ReplyWithReads(tx, call, reads, reply);
}

// --- Waiting ---

bool ParseBlocking(Args args, ReplySink& reply, BlockingCall* blocking) {
  const std::optional<ReadCall> call = ParseRead(args, reply);
  if (!call) return false;
  *blocking = {.keys = call->keys, .timeout_ms = call->timeout_ms.value_or(0), .after = {}};
  return true;
}

// What has been parsed once already.
ReadCall Reparse(Args args) {
  KeptReply none;
  return ParseRead(args, none).value_or(ReadCall());
}

bool TryHere(ShardContext& cx, Args args, BlockingCall* blocking, ReplySink& reply) {
  return ReadHere(cx, Reparse(args), &blocking->after, reply);
}

bool TryAcross(CoordinatorContext& cx, Transaction& tx, Args args, BlockingCall* blocking,
               ReplySink& reply) {
  return ReadAcross(cx, tx, Reparse(args), &blocking->after, reply);
}

bool IsReadReady(const ShardContext& cx, Args, const BlockingCall& blocking, std::string_view key) {
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kStream) return false;
  for (size_t i = 0; i < blocking.keys.size(); ++i) {
    if (blocking.keys[i] == key && HasEntryBehind(StreamOf(*value), blocking.after[i])) return true;
  }
  return false;
}

// Also when there can be nothing any more: that is an error then.
bool IsGroupReady(const ShardContext& cx, Args args, const BlockingCall&, std::string_view key) {
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kStream) return true;
  const StreamValue& stream = StreamOf(*value);
  const ReadCall call = Reparse(args);
  const StreamGroup* const group = stream.FindGroup(call.group);
  if (group == nullptr || HasEntryBehind(stream, group->last_id)) return true;
  if (!call.claim_idle_ms) return false;
  const std::optional<int64_t> oldest = OldestDelivery(stream, *group);
  return oldest && *oldest <= cx.now_ms() - *call.claim_idle_ms;
}

// See BlockingForm::ready_at_ms: what is pending becomes old enough for CLAIM.
int64_t GroupReadyAt(const ShardContext& cx, Args args, std::string_view key) {
  const ReadCall call = Reparse(args);
  if (!call.claim_idle_ms) return 0;
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kStream) return 0;
  const StreamValue& stream = StreamOf(*value);
  const StreamGroup* const group = stream.FindGroup(call.group);
  if (group == nullptr) return 0;
  const std::optional<int64_t> oldest = OldestDelivery(stream, *group);
  if (!oldest || *call.claim_idle_ms > INT64_MAX - std::max<int64_t>(*oldest, 0)) return 0;
  return std::max<int64_t>(*oldest + *call.claim_idle_ms, 1);
}

// As a call for this key alone.
void Serve(ShardContext& cx, Args args, const BlockingCall& blocking, std::string_view key,
           ReplySink& reply) {
  const ReadCall call = Reparse(args);
  const bool is_here = [&] {
    for (size_t i = 0; i < call.keys.size(); ++i) {
      if (call.keys[i] != key) continue;
      StreamId unused;
      if (call.of_group) {
        const std::string error = CheckKey(cx, call, i, &unused);
        if (!error.empty()) {
          reply.Error(error);
          return true;
        }
      }
      const auto header = [&](size_t entries) {
        ReplyHeader(1, reply);
        ReplyKey(key, reply);
        reply.Array(entries);
      };
      Budget budget(call);
      Portion all;
      budget.BeginKey(key);
      StreamId after = blocking.after[i];
      if (ReadKey(cx, call, key, &after, &budget, &all, header, reply)) return true;
    }
    return false;
  }();
  if (!is_here) {
    LOG(DFATAL) << "a waiter was served with nothing";
    reply.NullArray();
  }
}

constexpr auto kReplyNothing = [](ReplySink& reply) { reply.NullArray(); };
constexpr BlockingForm kXRead = {.parse = ParseBlocking,
                                 .type = ValueType::kStream,
                                 .take = nullptr,
                                 .reply_nothing = kReplyNothing,
                                 .take_across = nullptr,
                                 .waits = HasTimeout,
                                 .try_here = TryHere,
                                 .try_across = TryAcross,
                                 .only_reads = true,
                                 .is_ready = IsReadReady,
                                 .serve = Serve};
constexpr BlockingForm kXReadGroup = {.parse = ParseBlocking,
                                      .type = ValueType::kStream,
                                      .take = nullptr,
                                      .reply_nothing = kReplyNothing,
                                      .take_across = nullptr,
                                      .waits = HasTimeout,
                                      .try_here = TryHere,
                                      .try_across = TryAcross,
                                      .is_ready = IsGroupReady,
                                      .serve = Serve,
                                      .ready_at_ms = GroupReadyAt,
                                      .minds_absence = true};

}  // namespace

void RegisterStreamReadCommands(CommandTable* table) {
  table->Add({.name = "xread",
              .run = RunWithoutWaiting<kXRead>,
              .across = RunAcrossWithoutWaiting<kXRead>,
              .slices = true,
              .asks_for_many = AsksForManyBehind,
              .takes_many = TakesManyBehind,
              .blocking = &kXRead,
              .arity = -4,
              .flags = kReadonly | kBlocking | kMovableKeys,
              .categories = kAclStream,
              .keys = KeysBehind("STREAMS", 1, FindStreamKeys),
              .docs = {"Returns the entries of streams behind given ids; waits for some if asked "
                       "to.",
                       "5.0.0", "stream",
                       "O(N) for each stream, where N is the number of entries returned."}});
  table->Add({.name = "xreadgroup",
              .run = RunWithoutWaiting<kXReadGroup>,
              .across = RunAcrossWithoutWaiting<kXReadGroup>,
              .slices = true,
              .asks_for_many = AsksForManyBehind,
              .takes_many = TakesManyBehind,
              .blocking = &kXReadGroup,
              .arity = -7,
              .flags = kWrite | kBlocking | kMovableKeys,
              .categories = kAclStream,
              // What it has to say, it tells; with a history of nothing that is nothing.
              .effect = EffectRule::kNone,
              .keys = KeysBehind("STREAMS", 4, FindStreamKeys, "RO access"),
              .docs = {"Returns entries that a group has not delivered yet, or those that a "
                       "consumer has not acknowledged; waits for some if asked to.",
                       "5.0.0", "stream",
                       "O(N log P) for each stream, where N is the number of entries returned and "
                       "P that of pending ones."}});
}

}  // namespace dfly
