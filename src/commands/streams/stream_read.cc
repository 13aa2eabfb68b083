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

#include "commands/streams/stream_support.h"
#include "commands/table/blocking.h"
#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/refusing_sink.h"
#include "helio/base/clock.h"

namespace dfly {

namespace {

// --- What a call asks for ---

struct ReadCall {
  bool of_group = false;  // XREADGROUP
  std::string_view group;
  std::string_view consumer;
  bool no_ack = false;
  uint64_t count = 0;                  // of entries of each key; 0: all of them
  uint64_t most_entries = UINT64_MAX;  // MAXCOUNT, of all keys together
  uint64_t most_bytes = UINT64_MAX;    // MAXSIZE, of their entries in the reply
  std::optional<int64_t> timeout_ms;   // none: does not wait
  // CLAIM: what was delivered so long ago comes first, whoever has got it.
  std::optional<int64_t> claim_idle_ms;
  std::span<const std::string_view> keys;
  std::span<const std::string_view> ids;

  bool has_budget() const { return most_entries != UINT64_MAX || most_bytes != UINT64_MAX; }
};

bool IsReadGroup(Args args) { return args.name().size() == std::string_view("xreadgroup").size(); }

// A timeout in milliseconds. Empty: it is one; else why not.
std::string_view ParseMillis(std::string_view text, std::optional<int64_t>* timeout_ms) {
  const std::optional<int64_t> millis = ParseInt64(text);
  if (!millis) return kErrTimeoutNotInteger;
  if (*millis < 0) return kErrTimeoutNegative;
  // The deadline has to be a time, too.
  if (*millis > INT64_MAX - helio::UnixMillis()) return kErrTimeoutOutOfRange;
  *timeout_ms = *millis;
  return {};
}

// How many arguments an option of XREAD and XREADGROUP has besides its name.
size_t ArgumentsOf(std::string_view option) {
  for (const std::string_view one : {"BLOCK", "COUNT", "CLAIM", "MAXCOUNT", "MAXSIZE"}) {
    if (IsOption(option, one)) return 1;
  }
  return IsOption(option, "GROUP") ? 2 : 0;
}

// MAXCOUNT and MAXSIZE. None: the error was replied.
std::optional<uint64_t> ParseMost(std::string_view name, std::string_view text, ReplySink& reply) {
  const std::optional<int64_t> most = ParseInt64(text);
  if (most && *most > 0) return static_cast<uint64_t>(*most);
  return Refuse(reply, fmt::format("ERR {} must be a positive integer", name));
}

// Dispatch goes by this before there is a handler, so it finds the same keys as ParseRead.
std::optional<KeyRange> FindStreamKeys(Args args) {
  for (size_t i = 1; i < args.size(); ++i) {
    if (IsOption(args[i], "STREAMS")) {
      const size_t keys = (args.size() - i - 1) / 2;
      if (keys == 0) return std::nullopt;
      return KeyRange{i + 1, i + 1 + keys};
    }
    i += ArgumentsOf(args[i]);
  }
  return std::nullopt;
}

// None: the error was replied.
std::optional<ReadCall> ParseRead(Args args, ReplySink& reply) {
  ReadCall call;
  call.of_group = IsReadGroup(args);
  bool has_group = false;
  for (size_t i = 1; i < args.size(); ++i) {
    const std::string_view option = args[i];
    const size_t more = args.size() - i - 1;
    if (IsOption(option, "BLOCK") && more > 0) {
      const std::string_view error = ParseMillis(args[++i], &call.timeout_ms);
      if (!error.empty()) return Refuse(reply, error);
    } else if (IsOption(option, "COUNT") && more > 0) {
      const std::optional<int64_t> count = ParseInt64(args[++i]);
      if (!count) return Refuse(reply, kErrNotInteger);
      call.count = static_cast<uint64_t>(std::max<int64_t>(*count, 0));
    } else if (IsOption(option, "MAXCOUNT") && more > 0) {
      const std::optional<uint64_t> most = ParseMost("MAXCOUNT", args[++i], reply);
      if (!most) return std::nullopt;
      call.most_entries = *most;
    } else if (IsOption(option, "MAXSIZE") && more > 0) {
      const std::optional<uint64_t> most = ParseMost("MAXSIZE", args[++i], reply);
      if (!most) return std::nullopt;
      call.most_bytes = *most;
    } else if (IsOption(option, "STREAMS") && more > 0) {
      if (more % 2 != 0) {
        return Refuse(
            reply, fmt::format("ERR Unbalanced '{}' list of streams: for each stream key an ID or "
                               "'{}' must be specified.",
                               call.of_group ? "xreadgroup" : "xread", call.of_group ? '>' : '$'));
      }
      call.keys = args.from(i + 1).first(more / 2);
      call.ids = args.from(i + 1 + more / 2);
      break;
    } else if (IsOption(option, "GROUP") && more >= 2) {
      if (!call.of_group) {
        return Refuse(
            reply,
            "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
      }
      call.group = args[i + 1];
      call.consumer = args[i + 2];
      has_group = true;
      i += 2;
    } else if (IsOption(option, "CLAIM") && more > 0) {
      if (!call.of_group) {
        return Refuse(
            reply,
            "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.");
      }
      call.claim_idle_ms = ParseInt64(args[++i]);
      if (!call.claim_idle_ms || *call.claim_idle_ms < 0) {
        return Refuse(reply, "ERR min-idle-time must be a positive integer");
      }
    } else if (IsOption(option, "NOACK")) {
      if (!call.of_group) {
        return Refuse(
            reply,
            "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
      }
      call.no_ack = true;
    } else {
      return Refuse(reply, kErrSyntax);
    }
  }
  if (call.keys.empty()) return Refuse(reply, kErrSyntax);
  if (call.of_group && !has_group) return Refuse(reply, "ERR Missing GROUP option for XREADGROUP");
  if (call.count > call.most_entries) {
    return Refuse(reply, "ERR MAXCOUNT must be greater than or equal to COUNT");
  }
  return call;
}

// --- What it may get ---

constexpr size_t Digits(uint64_t number) {
  size_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}
size_t BulkBytes(size_t size) { return 5 + Digits(size) + size; }
size_t IdBytes(StreamId id) {
  char scratch[StreamId::kTextMax];
  return BulkBytes(id.Format(scratch).size());
}
size_t IntegerBytes(uint64_t number) { return 3 + Digits(number); }
constexpr size_t kSmallArrayBytes = 4;  // "*2\r\n"
constexpr size_t kNullArrayBytes = 5;   // "*-1\r\n"

// Of a key before its entries; they are counted as if they were less than ten.
size_t HeaderBytes(std::string_view key) { return 2 * kSmallArrayBytes + BulkBytes(key.size()); }

// Of an entry in an array of RESP.
size_t EntryBytes(const StreamEntry& entry) {
  size_t bytes = kSmallArrayBytes + IdBytes(entry.id) + IntegerBytes(entry.fields * 2);
  entry.ForEachField([&bytes](PackedElement name, PackedElement value) {
    char scratch[PackedElement::kScratchSize];
    bytes += BulkBytes(name.View(scratch).size());
    bytes += BulkBytes(value.View(scratch).size());
  });
  return bytes;
}

// What a call may still get of MAXCOUNT and MAXSIZE. Whoever reads asks for each entry, before
// anything happens to it.
class Budget {
 public:
  explicit Budget(const ReadCall& call) : entries_(call.most_entries), bytes_(call.most_bytes) {}

  bool is_spent() const { return entries_ == 0; }
  void BeginKey(std::string_view key) {
    if (counts_bytes()) header_bytes_ = HeaderBytes(key);
  }
  // of(): the size of the entry, if that matters. False: the call gets no more. It always gets one.
  template <typename Size>
  bool Take(Size of) {
    if (is_spent()) return false;
    if (counts_bytes()) {
      const size_t bytes = std::exchange(header_bytes_, 0) + of();
      if (bytes > bytes_ && !is_new_) {
        entries_ = 0;
        return false;
      }
      bytes_ -= std::min<uint64_t>(bytes, bytes_);
    }
    is_new_ = false;
    has_key_ = true;
    --entries_;
    return true;
  }
  // For a key that has no entries to give, but is replied. False: it does not fit.
  bool TakeEmptyKey() {
    const size_t bytes = std::exchange(header_bytes_, 0);
    if (bytes > bytes_ && has_key_) {
      if (!is_new_) entries_ = 0;
      return false;
    }
    bytes_ -= std::min<uint64_t>(bytes, bytes_);
    has_key_ = true;
    return true;
  }

 private:
  bool counts_bytes() const { return bytes_ != UINT64_MAX; }

  uint64_t entries_;
  uint64_t bytes_;
  size_t header_bytes_ = 0;  // of a key that has got none yet
  bool is_new_ = true;       // no entry was taken
  bool has_key_ = false;     // something is replied
};

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

// Replies these. Returns those that are still there.
std::vector<StreamId> ReplyHistory(StreamValue& stream, StreamGroup& group,
                                   const std::vector<StreamId>& ids, int64_t now_ms,
                                   ReplySink& reply) {
  std::vector<StreamId> delivered;
  reply.Array(ids.size());
  for (StreamId id : ids) {
    if (ReplyEntryAt(stream.entries(), id, reply)) {
      StreamPending& pending = *group.FindPending(id);
      group.SetDelivered(id, &pending, now_ms);
      pending.deliveries = NextDelivery(pending.deliveries);
      delivered.push_back(id);
    } else {
      reply.Array(2);
      ReplyStreamId(id, reply);
      reply.NullArray();
    }
  }
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
  if (!call.claim_idle_ms) return ReplyEntries(fresh, reply);
  reply.Array(claimed.size() + fresh.size());
  for (const Claimed& one : claimed) {
    entries.ForEach(one.id, one.id, [&](const StreamEntry& entry) {
      ReplyClaimEntry(entry, one.idle_ms, one.deliveries, reply);
      return false;
    });
  }
  for (const StreamEntry& entry : fresh) ReplyClaimEntry(entry, 0, 0, reply);
}

// As many of those behind `after` as the call gets.
std::vector<StreamEntry> EntriesBehind(const StreamEntries& entries, StreamId after, uint64_t count,
                                       size_t more_bytes, Budget* budget) {
  std::vector<StreamEntry> found;
  after.Increment();
  entries.ForEach(after, StreamId::Max(), [&](const StreamEntry& entry) {
    if (!budget->Take([&] { return EntryBytes(entry) + more_bytes; })) return false;
    found.push_back(entry);
    return found.size() != count;
  });
  return found;
}

// Of XREADGROUP. `header` is called before something is replied. False: there is nothing.
template <typename Header>
bool ReadForGroup(ShardContext& cx, const ReadCall& call, std::string_view key, StreamId after,
                  Budget* budget, Header header, ReplySink& reply) {
  auto value = cx.FindMutable(key, ValueType::kStream);
  if (!value) return false;  // expired meanwhile
  StreamValue& stream = StreamOf(*value);
  StreamGroup* const group = stream.FindGroup(call.group);
  if (group == nullptr) return false;
  std::vector<Claimed> claimed;
  std::vector<StreamId> gone;
  if (call.claim_idle_ms && after == kNewOnes) {
    claimed = FindClaimable(stream, *group, call, cx.noted_ms(), budget, &gone);
  }
  StreamConsumer* const consumer = ConsumerOrNew(cx, key, *group, call.consumer);
  consumer->seen_ms = cx.noted_ms();
  if (after != kNewOnes) {
    const auto history = HistoryOf(stream, *consumer, after, call.count, budget);
    std::vector<StreamId> delivered;
    if (history) {
      header();
      delivered = ReplyHistory(stream, *group, *history, cx.now_ms(), reply);
    }
    cx.ChangedUnwatched(key, KeyEvent::kNone);
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
    fresh = EntriesBehind(stream.entries(), group->last_id, count, more_bytes, budget);
  }
  if (claimed.empty() && fresh.empty()) {
    if (!gone.empty()) cx.ChangedUnwatched(key, KeyEvent::kNone, gone.size());
    return false;
  }
  header();
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
  cx.ChangedUnwatched(key, KeyEvent::kNone);
  return true;
}

template <typename Header>
bool ReadKey(ShardContext& cx, const ReadCall& call, std::string_view key, StreamId after,
             Budget* budget, Header header, ReplySink& reply) {
  if (budget->is_spent()) return false;
  budget->BeginKey(key);
  if (call.of_group) return ReadForGroup(cx, call, key, after, budget, header, reply);
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kStream) return false;
  const StreamValue& stream = StreamOf(*value);
  if (!HasEntryBehind(stream, after)) return false;
  const auto found = EntriesBehind(stream.entries(), after, call.count, 0, budget);
  if (found.empty()) return false;
  header();
  ReplyEntries(found, reply);
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

// What is replied for one key, to be given on when it is known how many have something.
class KeptReply final : public RefusingSink {
 public:
  bool empty() const { return items_.empty(); }
  void GiveTo(ReplySink& reply) const {
    size_t begin = 0;
    for (const Item& item : items_) {
      switch (item.kind) {
        case Kind::kBulk:
          reply.Bulk(std::string_view(bytes_).substr(begin, item.number - begin));
          begin = item.number;
          break;
        case Kind::kArray:
          reply.Array(item.number);
          break;
        case Kind::kNullArray:
          reply.NullArray();
          break;
        case Kind::kInteger:
          reply.Integer(static_cast<int64_t>(item.number));
          break;
      }
    }
  }

  void Bulk(std::string_view text) override {
    bytes_.append(text);
    items_.push_back({Kind::kBulk, bytes_.size()});
  }
  void Array(size_t count) override { items_.push_back({Kind::kArray, count}); }
  void NullArray() override { items_.push_back({Kind::kNullArray, 0}); }
  void Integer(int64_t number) override {
    items_.push_back({Kind::kInteger, static_cast<size_t>(number)});
  }

 private:
  enum class Kind : uint8_t { kBulk, kArray, kNullArray, kInteger };
  struct Item {
    Kind kind;
    size_t number;  // where a bulk ends, how long an array is, or an integer
  };
  void Refuse() override { LOG(DFATAL) << "entries of streams have no such replies"; }

  std::string bytes_;
  std::vector<Item> items_;
};

// False: none of them has something, and nothing was replied.
bool GiveAll(const ReadCall& call, const std::vector<KeptReply>& kept, ReplySink& reply) {
  const auto has_some = [](const KeptReply& of_key) { return !of_key.empty(); };
  const auto keys = static_cast<size_t>(std::count_if(kept.begin(), kept.end(), has_some));
  if (keys == 0) return false;
  ReplyHeader(keys, reply);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].empty()) continue;
    ReplyKey(call.keys[i], reply);
    kept[i].GiveTo(reply);
  }
  return true;
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
    const auto header = [&] {
      ReplyHeader(1, reply);
      ReplyKey(call.keys[0], reply);
    };
    return ReadKey(cx, call, call.keys[0], after->front(), &budget, header, reply);
  }
  std::vector<KeptReply> kept(call.keys.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    ReadKey(
        cx, call, call.keys[i], (*after)[i], &budget, [] {}, kept[i]);
  }
  return GiveAll(call, kept, reply);
}

// See BlockingForm::try_across: one hop to look for errors, and one to read. With a budget it reads
// in a hop for each run of keys of one shard, as what a key gets depends on those before it.
bool ReadAcross(CoordinatorContext& cx, Transaction& tx, const ReadCall& call,
                std::vector<StreamId>* after, ReplySink& reply) {
  const size_t count = call.keys.size();
  std::vector<ShardId> shard_of(count);
  for (size_t i = 0; i < count; ++i) {
    shard_of[i] = cx.shards().ShardOfKey(call.keys[i], HashKey(call.keys[i]));
  }
  std::vector<ShardId> ids = shard_of;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  // Of those from `begin` to `end`.
  const auto for_keys = [&](std::span<const ShardId> on, size_t begin, size_t end,
                            auto&& function) {
    tx.HopOn(on, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
      for (size_t i = begin; i < end; ++i) {
        if (shard_of[i] == turn.shard().id()) function(shard_cx, i);
      }
    });
  };
  after->resize(count);
  std::vector<std::string> errors(count);
  for_keys(ids, 0, count, [&](ShardContext& shard_cx, size_t i) {
    errors[i] = CheckKey(shard_cx, call, i, &(*after)[i]);
  });
  for (const std::string& error : errors) {
    if (error.empty()) continue;
    reply.Error(error);
    return true;
  }
  std::vector<KeptReply> kept(count);
  const auto read = [&](ShardContext& shard_cx, size_t i, Budget* budget) {
    ReadKey(
        shard_cx, call, call.keys[i], (*after)[i], budget, [] {}, kept[i]);
  };
  if (!call.has_budget()) {
    for_keys(ids, 0, count, [&](ShardContext& shard_cx, size_t i) {
      Budget unbounded(call);
      read(shard_cx, i, &unbounded);
    });
    return GiveAll(call, kept, reply);
  }
  Budget budget(call);
  for (size_t begin = 0, end = 0; begin < count && !budget.is_spent(); begin = end) {
    while (end < count && shard_of[end] == shard_of[begin]) ++end;
    for_keys({&shard_of[begin], 1}, begin, end,
             [&](ShardContext& shard_cx, size_t i) { read(shard_cx, i, &budget); });
  }
  return GiveAll(call, kept, reply);
}

// --- Waiting ---

bool HasTimeout(Args args) {
  for (size_t i = 1; i < args.size() && !IsOption(args[i], "STREAMS"); ++i) {
    if (IsOption(args[i], "BLOCK")) return true;
    i += ArgumentsOf(args[i]);
  }
  return false;
}

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
      const auto header = [&] {
        ReplyHeader(1, reply);
        ReplyKey(key, reply);
      };
      Budget budget(call);
      if (ReadKey(cx, call, key, blocking.after[i], &budget, header, reply)) return true;
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
