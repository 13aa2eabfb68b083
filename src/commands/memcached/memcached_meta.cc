// SPDX-License-Identifier: Apache-2.0
// The meta commands of memcached: mg, ms, md, ma, me. A line's flags are read first, as a whole;
// what they ask to be returned comes in their order.
#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <iterator>
#include <string>

#include "commands/memcached/memcached.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrDuplicate = "CLIENT_ERROR duplicate flag\r\n";
constexpr std::string_view kErrInvalid = "CLIENT_ERROR invalid flag\r\n";
constexpr std::string_view kErrInvalidOrDuplicate = "CLIENT_ERROR invalid or duplicate flag\r\n";
constexpr std::string_view kErrToken = "CLIENT_ERROR bad token in command line format\r\n";
constexpr std::string_view kErrFormat = "CLIENT_ERROR bad command line format\r\n";
constexpr std::string_view kErrOpaque = "CLIENT_ERROR opaque token too long\r\n";
constexpr std::string_view kErrModeLength = "CLIENT_ERROR incorrect length for M token\r\n";
constexpr size_t kOpaqueMax = 32;

using Line = fmt::memory_buffer;

// The flags of one command. What is not there has its default.
struct Flags {
  uint64_t seen = 0;          // a bit for each letter
  int64_t set_time = 0;       // T
  int64_t vivify_time = 0;    // N
  int64_t recache_time = 0;   // R
  uint64_t cas = 0;           // C
  uint64_t new_cas = 0;       // E
  uint32_t client_flags = 0;  // F
  uint64_t delta = 1;         // D
  uint64_t initial = 0;       // J
  char mode = 0;              // M, in upper case
  std::span<const std::string_view> words;

  static uint64_t Bit(char c) { return uint64_t{1} << (c - 'A'); }
  bool Has(char c) const { return (seen & Bit(c)) != 0; }
};

std::optional<int64_t> TimeIn(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const auto value = ParseMemcachedNumber(text);
  if (!value || *value > INT32_MAX) return {};
  return is_negative ? -static_cast<int64_t>(*value) : static_cast<int64_t>(*value);
}

template <typename To, typename From>
std::string_view Take(std::optional<From> value, To* to, std::string_view error = kErrToken) {
  if (!value) return error;
  *to = static_cast<To>(*value);
  return {};
}

std::string_view ParseFlag(char c, std::string_view token, Flags* flags) {
  switch (c) {
    case 'T':
      return Take(TimeIn(token), &flags->set_time);
    case 'N':
      return Take(TimeIn(token), &flags->vivify_time);
    case 'R':
      return Take(TimeIn(token), &flags->recache_time);
    case 'C':
      return Take(ParseMemcachedNumber(token), &flags->cas);
    case 'E':
      return Take(ParseMemcachedNumber(token), &flags->new_cas);
    case 'D':
      return Take(ParseMemcachedNumber(token), &flags->delta);
    case 'J':
      return Take(ParseMemcachedNumber(token), &flags->initial);
    case 'F': {
      const auto value = ParseMemcachedNumber(token);
      if (!value || *value > UINT32_MAX) return kErrFormat;
      flags->client_flags = static_cast<uint32_t>(*value);
      return {};
    }
    case 'M':
      if (token.size() != 1) return kErrModeLength;
      flags->mode =
          token[0] >= 'a' && token[0] <= 'z' ? static_cast<char>(token[0] - 32) : token[0];
      return {};
    case 'O':
      return token.size() > kOpaqueMax ? kErrOpaque : std::string_view();
    default:
      return {};
  }
}

// An error, or nothing.
std::string_view ParseFlags(std::span<const std::string_view> words, std::string_view known,
                            Flags* flags) {
  flags->words = words;
  for (std::string_view word : words) {
    const char c = word[0];
    if (known.find(c) == std::string_view::npos) return kErrInvalid;
    if (flags->Has(c)) return kErrDuplicate;
    flags->seen |= Flags::Bit(c);
    if (const std::string_view error = ParseFlag(c, word.substr(1), flags); !error.empty()) {
      return error;
    }
  }
  return {};
}

void Add(Line* line, std::string_view text) {
  line->append(text.data(), text.data() + text.size());
}

template <typename Number>
void Add(Line* line, std::string_view text, Number number) {
  Add(line, text);
  fmt::format_to(std::back_inserter(*line), "{}", number);
}

void AddKey(Line* line, std::string_view key, bool is_binary) {
  Add(line, is_binary ? absl::Base64Escape({key.data(), key.size()}) : std::string(key));
}

// What each reply may have: k, and b behind it, and O.
bool AddCommon(Line* line, std::string_view key, std::string_view word, const Flags& flags) {
  if (word[0] == 'O') {
    Add(line, " ");
    Add(line, word);
    return true;
  }
  if (word[0] != 'k') return false;
  Add(line, " k");
  AddKey(line, key, flags.Has('b'));
  if (flags.Has('b')) Add(line, " b");
  return true;
}

void Send(ReplySink& reply, Line* line) {
  Add(line, "\r\n");
  reply.Raw({line->data(), line->size()});
}

// A reply without anything of an item.
void ReplyBare(std::string_view code, std::string_view key, const Flags& flags, ReplySink& reply) {
  Line line;
  Add(&line, code);
  for (std::string_view word : flags.words) {
    if (!AddCommon(&line, key, word, flags) && word[0] == 'c') Add(&line, " c0");
  }
  Send(reply, &line);
}

// Seconds that are left, -1: for ever.
int64_t SecondsLeft(ShardContext& cx, std::string_view key) {
  const auto deadline = cx.GetDeadline(key);
  return deadline.at_ms ? (*deadline.at_ms - cx.now_ms() + 999) / 1000 : -1;
}

std::string_view CodeOf(MemcachedResult result) {
  switch (result) {
    case MemcachedResult::kStored:
      return "HD";
    case MemcachedResult::kExists:
      return "EX";
    case MemcachedResult::kNotFound:
      return "NF";
    default:
      return "NS";
  }
}

// --- mg ---

struct Recache {
  bool has_won = false;
  bool is_claimed = false;
  bool is_stale = false;
};

// Who is to make the value again? The first who finds it stale, or near its end.
Recache Claim(ShardContext& cx, std::string_view key, const Flags& flags) {
  MemcachedItems& items = cx.shard().memcached();
  MemcachedItem item = items.Find(key);
  Recache recache = {.is_claimed = item.is_claimed, .is_stale = item.is_stale};
  bool wants = item.is_stale;
  if (flags.Has('R')) {
    const int64_t left = SecondsLeft(cx, key);
    wants |= left >= 0 && left < flags.recache_time;
  }
  if (!wants || item.is_claimed) return recache;
  recache.has_won = item.is_claimed = true;
  cx.SetMemcachedItem(key, item);
  return recache;
}

void ReplyHit(ShardContext& cx, std::string_view key, const Flags& flags, Recache recache,
              uint32_t idle_seconds, ReplySink& reply) {
  MemcachedItems& items = cx.shard().memcached();
  const auto value = cx.Peek(key);
  char scratch[CompactValue::kScratchSize];
  const std::string_view data = value->View(scratch);
  Line line;
  if (flags.Has('v')) {
    Add(&line, "VA ", data.size());
  } else {
    Add(&line, "HD");
  }
  for (std::string_view word : flags.words) {
    if (AddCommon(&line, key, word, flags)) continue;
    switch (word[0]) {
      case 'c':
        Add(&line, " c", items.EnsureCas(key, cx.now_ms()));
        break;
      case 'f':
        Add(&line, " f", items.Find(key).client_flags);
        break;
      case 'l':
        Add(&line, " l", idle_seconds);
        break;
      case 's':
        Add(&line, " s", data.size());
        break;
      case 't':
        Add(&line, " t", SecondsLeft(cx, key));
        break;
      default:
        break;
    }
  }
  if (recache.is_claimed) Add(&line, " Z");
  if (recache.is_stale) Add(&line, " X");
  if (recache.has_won) Add(&line, " W");
  Add(&line, "\r\n");
  reply.Raw({line.data(), line.size()});
  if (!flags.Has('v')) return;
  reply.Raw(data);
  reply.Raw("\r\n");
}

void ReplyMiss(ShardContext& cx, std::string_view key, const Flags& flags, bool is_there,
               ReplySink& reply) {
  MemcachedItems& items = cx.shard().memcached();
  ++items.stats().get_misses;
  if (!flags.Has('N')) {
    if (!flags.Has('q')) ReplyBare("EN", key, flags, reply);
    return;
  }
  if (is_there) return reply.Error(kErrWrongType);  // it would be overwritten
  const MemcachedEnd end = MemcachedEndOf(flags.vivify_time, cx.now_ms());
  ShardContext::SetOptions options;
  options.deadline_ms = end.at_ms;
  SetMemcached(cx, key, "", options);
  cx.SetMemcachedItem(key, {.cas = flags.new_cas, .is_claimed = true});
  ReplyHit(cx, key, flags, {.has_won = true}, 0, reply);
  if (end.is_past) DeleteMemcached(cx, key);
}

}  // namespace

void MemcachedMetaGet(ShardContext& cx, Args args, ReplySink& reply) {
  const std::string_view key = args.key();
  ++cx.shard().memcached().stats().metas;
  Flags flags;
  // Whether an item was hit before (h) nobody knows here, nor when if hits are counted.
  const bool knows_time = !cx.eviction_rules().counts_hits();
  const std::string_view known = knows_time ? "NTREbOPLcfklqstuv" : "NTREbOPLcfkqstuv";
  if (const auto error = ParseFlags(args.from(2), known, &flags); !error.empty()) {
    return reply.Raw(error);
  }
  const uint32_t idle_seconds = flags.Has('l') ? cx.IdleSeconds(key).value_or(0) : 0;
  const auto value = flags.Has('u') ? cx.Peek(key) : cx.FindReadOnly(key);
  if (!value || value->type() != ValueType::kString) {
    return ReplyMiss(cx, key, flags, bool(value), reply);
  }
  ++cx.shard().memcached().stats().get_hits;
  const MemcachedEnd end = MemcachedEndOf(flags.set_time, cx.now_ms());
  if (flags.Has('T')) {
    ++cx.shard().memcached().stats().touch_hits;
    if (!end.is_past) SetMemcachedEnd(cx, key, end);
  }
  ReplyHit(cx, key, flags, Claim(cx, key, flags), idle_seconds, reply);
  if (flags.Has('T') && end.is_past) DeleteMemcached(cx, key);
}

void MemcachedMetaSet(ShardContext& cx, Args args, ReplySink& reply) {
  const std::string_view key = args.key();
  MemcachedItems& items = cx.shard().memcached();
  ++items.stats().metas;
  Flags flags;
  if (const auto error = ParseFlags(args.from(3), "TCEFIMNObPLcfkqst", &flags); !error.empty()) {
    return reply.Raw(error);
  }
  MemcachedStore store = {.data = args[2],
                          .client_flags = flags.client_flags,
                          .exptime = flags.set_time,
                          .may_be_stale = flags.Has('I'),
                          .new_cas = flags.new_cas};
  if (flags.Has('C')) store.cas = flags.cas;
  switch (flags.mode) {
    case 0:
    case 'S':
      break;
    case 'E':
      store.mode = MemcachedMode::kAdd;
      break;
    case 'A':
      store.mode = MemcachedMode::kAppend;
      break;
    case 'P':
      store.mode = MemcachedMode::kPrepend;
      break;
    case 'R':
      store.mode = MemcachedMode::kReplace;
      break;
    default:
      return reply.Raw("CLIENT_ERROR invalid mode for ms M token\r\n");
  }
  const MemcachedResult result = StoreMemcached(cx, key, store);
  if (result == MemcachedResult::kWrongType) return reply.Error(kErrWrongType);
  if (result == MemcachedResult::kTooLong) {
    return reply.Raw("SERVER_ERROR object too large for cache\r\n");
  }
  if (result != MemcachedResult::kStored) return ReplyBare(CodeOf(result), key, flags, reply);
  if (flags.Has('q')) return;
  Line line;
  Add(&line, "HD");
  for (std::string_view word : flags.words) {
    if (AddCommon(&line, key, word, flags) || word[0] != 'c') continue;
    // One that has ended at once has none.
    Add(&line, " c", cx.Peek(key) ? items.EnsureCas(key, cx.now_ms()) : 0);
  }
  Send(reply, &line);
}

void MemcachedMetaDelete(ShardContext& cx, Args args, ReplySink& reply) {
  const std::string_view key = args.key();
  MemcachedItems& items = cx.shard().memcached();
  ++items.stats().metas;
  Flags flags;
  if (!ParseFlags(args.from(2), "TCEIObPLkqx", &flags).empty()) {
    return reply.Raw(kErrInvalidOrDuplicate);
  }
  const auto value = cx.Peek(key);
  if (!value) {
    ++items.stats().delete_misses;
    return ReplyBare("NF", key, flags, reply);
  }
  const bool is_string = value->type() == ValueType::kString;
  const MemcachedItem item = items.Find(key);
  if (flags.Has('C') && (item.cas == 0 || item.cas != flags.cas)) {
    return ReplyBare("EX", key, flags, reply);
  }
  if (!is_string && (flags.Has('I') || flags.Has('x'))) return reply.Error(kErrWrongType);
  ++items.stats().delete_hits;
  if (!flags.Has('I') && !flags.Has('x')) {
    DeleteMemcached(cx, key);
  } else {
    MemcachedItem after = {.cas = flags.new_cas, .client_flags = item.client_flags};
    if (flags.Has('x')) {
      ShardContext::SetOptions options;
      options.keep_deadline = true;
      SetMemcached(cx, key, "", options);
      after.client_flags = 0;
    }
    after.is_stale = flags.Has('I');
    cx.SetMemcachedItem(key, after);
    if (flags.Has('I') && flags.Has('T')) {
      SetMemcachedEnd(cx, key, MemcachedEndOf(flags.set_time, cx.now_ms()));
    }
  }
  if (!flags.Has('q')) ReplyBare("HD", key, flags, reply);
}

void MemcachedMetaArithmetic(ShardContext& cx, Args args, ReplySink& reply) {
  const std::string_view key = args.key();
  MemcachedItems& items = cx.shard().memcached();
  ++items.stats().metas;
  Flags flags;
  if (!ParseFlags(args.from(2), "NTCEDJMObPLcfkqstv", &flags).empty()) {
    return reply.Raw(kErrInvalidOrDuplicate);
  }
  bool is_incr = true;
  switch (flags.mode) {
    case 0:
    case 'I':
    case '+':
      break;
    case 'D':
    case '-':
      is_incr = false;
      break;
    default:
      return reply.Raw("CLIENT_ERROR invalid mode for ma M token\r\n");
  }
  std::optional<uint64_t> cas;
  if (flags.Has('C')) cas = flags.cas;
  MemcachedDelta done = AddMemcached(cx, key, flags.delta, is_incr, cas, flags.new_cas);
  if (done.result == MemcachedResult::kNotFound && flags.Has('N')) {
    const std::string text = fmt::format("{}", flags.initial);
    const MemcachedStore store = {.mode = MemcachedMode::kAdd,
                                  .data = text,
                                  .exptime = flags.vivify_time,
                                  .new_cas = flags.new_cas};
    done = {.result = StoreMemcached(cx, key, store), .value = flags.initial};
  } else if (done.result == MemcachedResult::kStored && flags.Has('T')) {
    SetMemcachedEnd(cx, key, MemcachedEndOf(flags.set_time, cx.now_ms()));
  }
  if (done.result == MemcachedResult::kWrongType) return reply.Error(kErrWrongType);
  if (done.result == MemcachedResult::kNotStored) return reply.Raw(kMemcachedNotNumber);
  if (done.result != MemcachedResult::kStored) {
    return ReplyBare(CodeOf(done.result), key, flags, reply);
  }
  if (flags.Has('q')) return;
  const std::string number = fmt::format("{}", done.value);
  Line line;
  if (flags.Has('v')) {
    Add(&line, "VA ", number.size());
  } else {
    Add(&line, "HD");
  }
  for (std::string_view word : flags.words) {
    if (AddCommon(&line, key, word, flags)) continue;
    if (word[0] == 't') Add(&line, " t", SecondsLeft(cx, key));
    if (word[0] == 'c') Add(&line, " c", cx.Peek(key) ? items.EnsureCas(key, cx.now_ms()) : 0);
  }
  if (flags.Has('v')) {
    Add(&line, "\r\n");
    Add(&line, number);
  }
  Send(reply, &line);
}

void MemcachedMetaDebug(ShardContext& cx, Args args, ReplySink& reply) {
  const std::string_view key = args.key();
  Flags flags;
  if (const auto error = ParseFlags(args.from(2), "bO", &flags); !error.empty()) {
    return reply.Raw(error);
  }
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kString) return reply.Raw("EN\r\n");
  Line line;
  Add(&line, "ME ");
  AddKey(&line, key, flags.Has('b'));
  Add(&line, " exp=", SecondsLeft(cx, key));
  if (!cx.eviction_rules().counts_hits()) {
    Add(&line, " la=", cx.IdleSeconds(key).value_or(0));
  }
  MemcachedItems& items = cx.shard().memcached();
  Add(&line, " cas=", items.EnsureCas(key, cx.now_ms()));
  Add(&line, " size=", cx.MemoryUsage(key).value_or(0));
  Send(reply, &line);
}

}  // namespace dfly
