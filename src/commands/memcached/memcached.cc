// SPDX-License-Identifier: Apache-2.0
#include "commands/memcached/memcached.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "facade/replies/error_texts.h"
#include "helio/base/ascii.h"
#include "helio/base/format_number.h"

namespace dfly {

namespace {

constexpr int64_t kRelativeMax = 60 * 60 * 24 * 30;  // seconds; more is a Unix time

bool IsSilent(Args args, size_t at) { return args.size() > at && args[at] == "noreply"; }

void Say(ReplySink& reply, std::string_view line, bool is_silent) {
  if (!is_silent) reply.Raw(line);
}

// VALUE key flags bytes [unique]
void ReplyItem(ShardContext& cx, std::string_view key, std::string_view data, bool with_cas,
               ReplySink& reply) {
  MemcachedItems& items = cx.shard().memcached();
  char head[256 + 3 * (helio::kMaxIntegerChars + 1) + 16];
  char* p = head;
  memcpy(p, "VALUE ", 6);
  p += 6;
  memcpy(p, key.data(), std::min<size_t>(key.size(), 256));
  p += std::min<size_t>(key.size(), 256);
  *p++ = ' ';
  p = helio::FormatUnsigned(items.Find(key).client_flags, p);
  *p++ = ' ';
  p = helio::FormatUnsigned(data.size(), p);
  if (with_cas) {
    *p++ = ' ';
    p = helio::FormatUnsigned(items.EnsureCas(key, cx.now_ms()), p);
  }
  *p++ = '\r';
  *p++ = '\n';
  reply.Raw({head, static_cast<size_t>(p - head)});
  reply.Raw(data);
  reply.Raw("\r\n");
}

void Fetch(ShardContext& cx, Args args, bool with_cas, ReplySink& reply) {
  const std::string_view key = args.key();
  MemcachedStats& stats = cx.shard().memcached().stats();
  const auto value = cx.FindReadOnly(key, ValueType::kString);
  if (!value) {
    ++stats.get_misses;
    return;
  }
  ++stats.get_hits;
  char scratch[CompactValue::kScratchSize];
  ReplyItem(cx, key, value->View(scratch), with_cas, reply);
}

void FetchAndTouch(ShardContext& cx, Args args, bool with_cas, ReplySink& reply) {
  MemcachedStats& stats = cx.shard().memcached().stats();
  const bool is_there = bool(cx.Peek(args.key()));
  Fetch(cx, args, with_cas, reply);
  const auto value = cx.Peek(args.key());
  if (!is_there || value->type() != ValueType::kString) {
    ++stats.touch_misses;
    return;
  }
  ++stats.touch_hits;
  SetMemcachedEnd(cx, args.key(), MemcachedEndOf(MemcachedNumberOf<int64_t>(args[2]), cx.now_ms()));
}

void ReplyResult(MemcachedResult result, bool is_silent, ReplySink& reply) {
  switch (result) {
    case MemcachedResult::kStored:
      return Say(reply, "STORED\r\n", is_silent);
    case MemcachedResult::kNotStored:
      return Say(reply, "NOT_STORED\r\n", is_silent);
    case MemcachedResult::kExists:
      return Say(reply, "EXISTS\r\n", is_silent);
    case MemcachedResult::kNotFound:
      return Say(reply, "NOT_FOUND\r\n", is_silent);
    case MemcachedResult::kWrongType:
      if (!is_silent) reply.Error(kErrWrongType);
      return;
    case MemcachedResult::kTooLong:
      return Say(reply, "SERVER_ERROR object too large for cache\r\n", is_silent);
  }
}

template <MemcachedMode kMode>
void Store(ShardContext& cx, Args args, ReplySink& reply) {
  const MemcachedStore store = {.mode = kMode,
                                .data = args[4],
                                .client_flags = MemcachedNumberOf<uint32_t>(args[2]),
                                .exptime = MemcachedNumberOf<int64_t>(args[3])};
  ReplyResult(StoreMemcached(cx, args.key(), store), IsSilent(args, 5), reply);
}

void Delta(ShardContext& cx, Args args, bool is_incr, ReplySink& reply) {
  const bool is_silent = IsSilent(args, 3);
  const uint64_t delta = MemcachedNumberOf<uint64_t>(args[2]);
  const MemcachedDelta done = AddMemcached(cx, args.key(), delta, is_incr, {});
  if (done.result == MemcachedResult::kNotStored) return Say(reply, kMemcachedNotNumber, is_silent);
  if (done.result != MemcachedResult::kStored) return ReplyResult(done.result, is_silent, reply);
  char line[helio::kMaxIntegerChars + 2];
  char* end = helio::FormatUnsigned(done.value, line);
  *end++ = '\r';
  *end++ = '\n';
  Say(reply, {line, static_cast<size_t>(end - line)}, is_silent);
}

// Some blanks, a plus, digits, and blanks or nothing behind them: what memcached reads.
std::optional<uint64_t> NumberIn(std::string_view text) {
  while (!text.empty() && helio::IsBlank(text.front())) text.remove_prefix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto* const end = std::find_if(text.begin(), text.end(), helio::IsBlank);
  return ParseMemcachedNumber(text.substr(0, static_cast<size_t>(end - text.begin())));
}

// Adds to the string at one of its ends. False: it would be too long.
bool Extend(ShardContext& cx, std::string_view key, const MemcachedStore& store) {
  const auto value = cx.FindMutable(key, ValueType::kString);
  if (value->StringSize() + store.data.size() > cx.string_max()) return false;
  MemcachedItems& items = cx.shard().memcached();
  const uint32_t client_flags = items.Find(key).client_flags;
  const bool is_append = store.mode == MemcachedMode::kAppend;
  if (is_append) {
    value->Append(store.data);
  } else {
    value->Prepend(store.data);
  }
  cx.Changed(key, is_append ? KeyEvent::kAppend : KeyEvent::kPrepend);
  if (cx.wants_effects()) {
    if (is_append) {
      cx.Tell("APPEND", key, store.data);
    } else {  // Redis has none that prepends
      char scratch[CompactValue::kScratchSize];
      cx.Tell("SET", key, cx.Peek(key)->View(scratch), "KEEPTTL");
    }
  }
  cx.SetMemcachedItem(key, {.cas = store.new_cas, .client_flags = client_flags});
  return true;
}

void Replace(ShardContext& cx, std::string_view key, const MemcachedStore& store, bool is_stale) {
  MemcachedItems& items = cx.shard().memcached();
  MemcachedItem item = {.cas = store.new_cas, .client_flags = store.client_flags};
  ShardContext::SetOptions options;
  if (is_stale) {
    item.is_stale = options.keep_deadline = true;
    item.is_claimed = items.Find(key).is_claimed;
  } else {
    const MemcachedEnd end = MemcachedEndOf(store.exptime, cx.now_ms());
    if (end.is_past) {
      DeleteMemcached(cx, key);
      return;
    }
    options.deadline_ms = end.at_ms;
  }
  SetMemcached(cx, key, store.data, options);
  cx.SetMemcachedItem(key, item);
}

}  // namespace

std::optional<uint64_t> ParseMemcachedNumber(std::string_view text) {
  if (text.empty()) return {};
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return {};
    const auto digit = static_cast<uint64_t>(c - '0');
    if (__builtin_mul_overflow(value, uint64_t{10}, &value)) return {};
    if (__builtin_add_overflow(value, digit, &value)) return {};
  }
  return value;
}

MemcachedEnd MemcachedEndOf(int64_t exptime, int64_t now_ms) {
  if (exptime == 0) return {};
  if (exptime < 0) return {.is_past = true, .at_ms = {}};
  const int64_t at_ms = exptime <= kRelativeMax ? now_ms + exptime * 1000 : exptime * 1000;
  if (at_ms <= now_ms) return {.is_past = true, .at_ms = {}};
  return {.is_past = false, .at_ms = at_ms};
}

bool DeleteMemcached(ShardContext& cx, std::string_view key) {
  if (!cx.Delete(key)) return false;
  if (cx.wants_effects()) cx.Tell("DEL", key);
  return true;
}

void SetMemcached(ShardContext& cx, std::string_view key, std::string_view data,
                  const ShardContext::SetOptions& options) {
  cx.SetString(key, data, options);
  if (!cx.wants_effects()) return;
  if (options.deadline_ms) {
    cx.Tell("SET", key, data, "PXAT", *options.deadline_ms);
  } else if (options.keep_deadline) {
    cx.Tell("SET", key, data, "KEEPTTL");
  } else {
    cx.Tell("SET", key, data);
  }
}

void SetMemcachedEnd(ShardContext& cx, std::string_view key, const MemcachedEnd& end) {
  if (end.is_past) {
    DeleteMemcached(cx, key);
  } else if (end.at_ms) {
    cx.SetDeadline(key, *end.at_ms);
  } else {
    cx.Persist(key);
  }
}

MemcachedResult StoreMemcached(ShardContext& cx, std::string_view key,
                               const MemcachedStore& store) {
  MemcachedItems& items = cx.shard().memcached();
  ++items.stats().sets;
  const auto found = cx.Peek(key);
  const bool is_there = bool(found);
  const bool is_string = is_there && found->type() == ValueType::kString;
  bool is_stale = false;
  if (store.cas) {
    if (!is_there) {
      ++items.stats().cas_misses;
      return MemcachedResult::kNotFound;
    }
    if (!is_string) return MemcachedResult::kWrongType;
    const uint64_t cas = items.Find(key).cas;
    if (cas == 0 || cas != *store.cas) {
      // Who never asked, or asked before a change, has an older one than there would be now.
      is_stale = store.may_be_stale && *store.cas < items.EnsureCas(key, cx.now_ms());
      if (!is_stale) {
        ++items.stats().cas_badval;
        return MemcachedResult::kExists;
      }
    }
    ++items.stats().cas_hits;
  }
  switch (store.mode) {
    case MemcachedMode::kSet:
      break;
    case MemcachedMode::kAdd:
      if (is_there) return MemcachedResult::kNotStored;
      break;
    case MemcachedMode::kReplace:
      if (!is_there) return MemcachedResult::kNotStored;
      if (!is_string) return MemcachedResult::kWrongType;
      break;
    case MemcachedMode::kAppend:
    case MemcachedMode::kPrepend:
      if (!is_there) return MemcachedResult::kNotStored;
      if (!is_string) return MemcachedResult::kWrongType;
      return Extend(cx, key, store) ? MemcachedResult::kStored : MemcachedResult::kTooLong;
  }
  Replace(cx, key, store, is_stale);
  return MemcachedResult::kStored;
}

MemcachedDelta AddMemcached(ShardContext& cx, std::string_view key, uint64_t delta, bool is_incr,
                            std::optional<uint64_t> cas, uint64_t new_cas) {
  MemcachedItems& items = cx.shard().memcached();
  MemcachedStats& stats = items.stats();
  const auto found = cx.Peek(key);
  if (!found) {
    ++(is_incr ? stats.incr_misses : stats.decr_misses);
    return {.result = MemcachedResult::kNotFound};
  }
  if (found->type() != ValueType::kString) return {.result = MemcachedResult::kWrongType};
  const MemcachedItem before = items.Find(key);
  if (cas && (before.cas == 0 || before.cas != *cas)) return {.result = MemcachedResult::kExists};
  char scratch[CompactValue::kScratchSize];
  const std::optional<uint64_t> number = NumberIn(found->View(scratch));
  if (!number) return {.result = MemcachedResult::kNotStored};
  const uint64_t sum = is_incr ? *number + delta : *number - std::min(*number, delta);
  char text[helio::kMaxIntegerChars];
  char* const end = helio::FormatUnsigned(sum, text);
  const auto value = cx.FindMutable(key, ValueType::kString);
  const std::string_view digits(text, static_cast<size_t>(end - text));
  value->SetString(digits);
  cx.Changed(key, KeyEvent::kIncrBy);  // of both, as in Redis
  if (cx.wants_effects()) cx.Tell("SET", key, digits, "KEEPTTL");
  cx.SetMemcachedItem(key, {.cas = new_cas, .client_flags = before.client_flags});
  ++(is_incr ? stats.incr_hits : stats.decr_hits);
  return {.result = MemcachedResult::kStored, .value = sum};
}

void MemcachedGet(ShardContext& cx, Args args, ReplySink& reply) { Fetch(cx, args, false, reply); }

void MemcachedGets(ShardContext& cx, Args args, ReplySink& reply) { Fetch(cx, args, true, reply); }

void MemcachedGat(ShardContext& cx, Args args, ReplySink& reply) {
  FetchAndTouch(cx, args, false, reply);
}

void MemcachedGats(ShardContext& cx, Args args, ReplySink& reply) {
  FetchAndTouch(cx, args, true, reply);
}

void MemcachedSet(ShardContext& cx, Args args, ReplySink& reply) {
  Store<MemcachedMode::kSet>(cx, args, reply);
}

void MemcachedAdd(ShardContext& cx, Args args, ReplySink& reply) {
  Store<MemcachedMode::kAdd>(cx, args, reply);
}

void MemcachedReplace(ShardContext& cx, Args args, ReplySink& reply) {
  Store<MemcachedMode::kReplace>(cx, args, reply);
}

void MemcachedAppend(ShardContext& cx, Args args, ReplySink& reply) {
  Store<MemcachedMode::kAppend>(cx, args, reply);
}

void MemcachedPrepend(ShardContext& cx, Args args, ReplySink& reply) {
  Store<MemcachedMode::kPrepend>(cx, args, reply);
}

void MemcachedCas(ShardContext& cx, Args args, ReplySink& reply) {
  const MemcachedStore store = {.mode = MemcachedMode::kSet,
                                .data = args[4],
                                .client_flags = MemcachedNumberOf<uint32_t>(args[2]),
                                .exptime = MemcachedNumberOf<int64_t>(args[3]),
                                .cas = MemcachedNumberOf<uint64_t>(args[5])};
  ReplyResult(StoreMemcached(cx, args.key(), store), IsSilent(args, 6), reply);
}

void MemcachedSetItem(ShardContext& cx, Args args, ReplySink& reply) {
  const auto client_flags = ParseMemcachedNumber(args[3]);
  const auto cas = ParseMemcachedNumber(args[4]);
  const auto marks = ParseMemcachedNumber(args[5]);
  if (!client_flags || *client_flags > UINT32_MAX || !cas || !marks || cx.db_index() != 0) {
    return reply.Error(kErrSyntax);
  }
  MemcachedItem item = {.cas = *cas, .client_flags = static_cast<uint32_t>(*client_flags)};
  item.set_marks(static_cast<uint32_t>(*marks));
  if (cx.Peek(args[2])) cx.SetMemcachedItem(args[2], item);
  reply.Ok();
}

void MemcachedTooLarge(ShardContext& cx, Args args, ReplySink& reply) {
  ++cx.shard().memcached().stats().too_large;
  // The client believes that what was there is no more.
  if (args[2] == "set" || args[2] == "ms") DeleteMemcached(cx, args.key());
  ReplyResult(MemcachedResult::kTooLong, IsSilent(args, 3), reply);
}

void MemcachedIncr(ShardContext& cx, Args args, ReplySink& reply) { Delta(cx, args, true, reply); }

void MemcachedDecr(ShardContext& cx, Args args, ReplySink& reply) { Delta(cx, args, false, reply); }

void MemcachedDelete(ShardContext& cx, Args args, ReplySink& reply) {
  MemcachedStats& stats = cx.shard().memcached().stats();
  const bool is_silent = args.size() > 2 && args[args.size() - 1] == "noreply";
  const bool was_there = DeleteMemcached(cx, args.key());
  ++(was_there ? stats.delete_hits : stats.delete_misses);
  Say(reply, was_there ? "DELETED\r\n" : "NOT_FOUND\r\n", is_silent);
}

void MemcachedTouch(ShardContext& cx, Args args, ReplySink& reply) {
  MemcachedStats& stats = cx.shard().memcached().stats();
  const bool is_silent = IsSilent(args, 3);
  const auto found = cx.Peek(args.key());
  if (!found) {
    ++stats.touch_misses;
    return Say(reply, "NOT_FOUND\r\n", is_silent);
  }
  if (found->type() != ValueType::kString) {
    return ReplyResult(MemcachedResult::kWrongType, is_silent, reply);
  }
  ++stats.touch_hits;
  SetMemcachedEnd(cx, args.key(), MemcachedEndOf(MemcachedNumberOf<int64_t>(args[2]), cx.now_ms()));
  Say(reply, "TOUCHED\r\n", is_silent);
}

}  // namespace dfly
