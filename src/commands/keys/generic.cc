// SPDX-License-Identifier: Apache-2.0
// Keys of whatever type: removing and counting them, their deadlines, what is known about them, and
// walks over all of them.
//
// Walks belong to coordinators, which hop to a shard for a slice of it, about a millisecond's work,
// and come back for the next one. So a KEYS over millions of keys stops nobody for long. What is
// there from the beginning to the end of the walk is found exactly once; what comes or goes
// meanwhile may be found or not.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/keys/dump.h"
#include "commands/keys/key_moves.h"
#include "commands/keys/key_scan.h"
#include "commands/keys/sort.h"
#include "commands/table/command_table.h"
#include "commands/table/local_random.h"
#include "commands/table/long_reads.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "commands/table/scan_options.h"
#include "core/text/glob.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/base/ascii.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

// Looks without touching the access clock, but as a read: a hit or a miss.
ShardContext::ReadHandle FindUntouched(ShardContext& cx, std::string_view key) {
  const auto value = cx.Peek(key);
  ShardStats& stats = cx.shard().stats();
  ++(value ? stats.hits : stats.misses);
  return value;
}

// The same for what tells of keys that are absent.
ShardContext::ReadHandle LookFor(ShardContext& cx, std::string_view key) {
  const auto value = FindUntouched(cx, key);
  if (!value) cx.AlsoHappened(key, KeyEvent::kKeyMiss);
  return value;
}

// --- Many keys: each of these adds up over shards ---

// DEL and UNLINK.
void Del(ShardContext& cx, Args args, ReplySink& reply) {
  int64_t count = 0;
  cx.ExpectKeys(args.from(1));
  for (std::string_view key : args.from(1)) count += cx.Delete(key);
  reply.Integer(count);
}

void Exists(ShardContext& cx, Args args, ReplySink& reply) {
  int64_t count = 0;
  cx.ExpectKeys(args.from(1));
  for (std::string_view key : args.from(1)) count += static_cast<bool>(LookFor(cx, key));
  reply.Integer(count);
}

void Touch(ShardContext& cx, Args args, ReplySink& reply) {
  int64_t count = 0;
  cx.ExpectKeys(args.from(1));
  for (std::string_view key : args.from(1)) count += static_cast<bool>(cx.FindReadOnly(key));
  reply.Integer(count);
}

// STICK key [key ...]: the server never evicts these. How many were not sticky before.
void Stick(ShardContext& cx, Args args, ReplySink& reply) {
  int64_t count = 0;
  cx.ExpectKeys(args.from(1));
  for (std::string_view key : args.from(1)) {
    const std::optional<bool> is_sticky = cx.IsSticky(key);
    if (is_sticky && !*is_sticky) count += cx.SetSticky(key, true);
  }
  reply.Integer(count);
}

// --- Deadlines ---

struct ExpireConditions {
  bool if_none = false;     // NX: the key has no deadline
  bool if_some = false;     // XX: it has one
  bool if_later = false;    // GT: the new one is later; no deadline is later than all
  bool if_earlier = false;  // LT

  bool any() const { return if_none || if_some || if_later || if_earlier; }
};

// Replies the error and returns none if they are not valid together.
std::optional<ExpireConditions> ParseExpireConditions(std::span<const std::string_view> args,
                                                      ReplySink& reply) {
  ExpireConditions conditions;
  for (std::string_view arg : args) {
    if (IsOption(arg, "NX")) {
      conditions.if_none = true;
    } else if (IsOption(arg, "XX")) {
      conditions.if_some = true;
    } else if (IsOption(arg, "GT")) {
      conditions.if_later = true;
    } else if (IsOption(arg, "LT")) {
      conditions.if_earlier = true;
    } else {
      const std::string_view shown = arg.substr(0, arg.find('\0'));
      return Refuse(reply, std::string("ERR Unsupported option ").append(shown));
    }
  }
  if (conditions.if_none && (conditions.if_some || conditions.if_later || conditions.if_earlier)) {
    return Refuse(reply, "ERR NX and XX, GT or LT options at the same time are not compatible");
  }
  if (conditions.if_later && conditions.if_earlier) {
    return Refuse(reply, "ERR GT and LT options at the same time are not compatible");
  }
  return conditions;
}

bool AreMet(const ExpireConditions& conditions, std::optional<int64_t> present_ms, int64_t at_ms) {
  if (conditions.if_none && present_ms) return false;
  if (conditions.if_some && !present_ms) return false;
  if (conditions.if_later && (!present_ms || at_ms <= *present_ms)) return false;
  if (conditions.if_earlier && present_ms && at_ms >= *present_ms) return false;
  return true;
}

// All of the EXPIRE family: the deadline is `base_ms` + the argument * `unit_ms`. One in the past
// removes the key.
void ExpireAt(ShardContext& cx, Args args, std::string_view command, int64_t unit_ms,
              int64_t base_ms, ReplySink& reply) {
  ExpireConditions conditions;
  if (args.size() > 3) {
    const auto parsed = ParseExpireConditions(args.from(3), reply);
    if (!parsed) return;
    conditions = *parsed;
  }
  const auto at_ms = ParseDeadline(kAnyDeadline, args[2], unit_ms, base_ms, command, reply);
  if (!at_ms) return;
  if (conditions.any()) {
    if (!cx.FindMutable(args.key())) return reply.Integer(0);  // found, it counts as accessed
    const ShardContext::KeyDeadline present = cx.GetDeadline(args.key());
    if (!AreMet(conditions, present.at_ms, *at_ms)) return reply.Integer(0);
  }
  const auto result = cx.SetDeadline(args.key(), *at_ms);
  reply.Integer(result == ShardContext::DeadlineResult::kAbsent ? 0 : 1);
}

void Expire(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireAt(cx, args, "expire", 1000, cx.now_ms(), reply);
}
void PExpire(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireAt(cx, args, "pexpire", 1, cx.now_ms(), reply);
}
void ExpireAtSeconds(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireAt(cx, args, "expireat", 1000, 0, reply);
}
void ExpireAtMillis(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireAt(cx, args, "pexpireat", 1, 0, reply);
}

// Milliseconds from `base_ms` to the key's deadline, in units of `unit_ms`, rounded to the nearest
// one. -1: it has none, -2: no key.
void ReplyWithDeadline(ShardContext& cx, std::string_view key, int64_t base_ms, int64_t unit_ms,
                       ReplySink& reply) {
  if (!LookFor(cx, key)) return reply.Integer(-2);
  const std::optional<int64_t> at_ms = cx.GetDeadline(key).at_ms;
  if (!at_ms) return reply.Integer(-1);
  const int64_t left_ms = std::max<int64_t>(*at_ms - base_ms, 0);
  reply.Integer(left_ms / unit_ms + (left_ms % unit_ms * 2 >= unit_ms ? 1 : 0));
}

void Ttl(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyWithDeadline(cx, args.key(), cx.now_ms(), 1000, reply);
}
void PTtl(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyWithDeadline(cx, args.key(), cx.now_ms(), 1, reply);
}
void ExpireTime(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyWithDeadline(cx, args.key(), 0, 1000, reply);
}
void PExpireTime(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyWithDeadline(cx, args.key(), 0, 1, reply);
}

void Persist(ShardContext& cx, Args args, ReplySink& reply) {
  reply.Integer(cx.Persist(args.key()) ? 1 : 0);
}

// --- What is known about a key ---

void Type(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = LookFor(cx, args.key());
  reply.Status(value ? TypeName(value->type()) : "none");
}

void ObjectEncoding(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = FindUntouched(cx, args[2]);
  if (!value) return reply.Null();
  reply.Bulk(value->is_string() ? value->StringEncoding() : value->ObjectEncodingName());
}

void ObjectIdleTime(ShardContext& cx, Args args, ReplySink& reply) {
  if (!FindUntouched(cx, args[2])) return reply.Null();
  if (cx.eviction_rules().counts_hits()) {
    return reply.Error(
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when "
        "switching between policies at runtime LRU and LFU data will take some time to adjust.");
  }
  reply.Integer(*cx.IdleSeconds(args[2]));
}

void ObjectFreq(ShardContext& cx, Args args, ReplySink& reply) {
  if (!FindUntouched(cx, args[2])) return reply.Null();
  if (cx.eviction_rules().counts_hits()) return reply.Integer(*cx.Frequency(args[2]));
  reply.Error(
      "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
      "when switching between policies at runtime LRU and LFU data will take some time to adjust.");
}

void ObjectRefCount(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = FindUntouched(cx, args[2]);
  if (!value) return reply.Null();
  // Redis shares these integers and says so; ours are in the table's slot, and cost as little.
  constexpr int64_t kSharedIntegers = 10'000;
  const bool is_shared = value->is_string() && value->is_int() && value->AsInt() >= 0 &&
                         value->AsInt() < kSharedIntegers;
  reply.Integer(is_shared ? INT32_MAX : 1);
}

void ObjectHelp(Args, ReplySink& reply) {
  static constexpr std::string_view kLines[] = {
      "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
      "ENCODING <key>",
      "    Return the kind of internal representation used in order to store the value",
      "    associated with a <key>.",
      "FREQ <key>",
      "    Return the access frequency index of the <key>. The returned integer is",
      "    proportional to the logarithm of the recent access frequency of the key.",
      "IDLETIME <key>",
      "    Return the idle time of the <key>, that is the approximated number of",
      "    seconds elapsed since the last access to the key.",
      "REFCOUNT <key>",
      "    Return the number of references of the value associated with the specified",
      "    <key>.",
      "HELP",
      "    Prints this help.",
  };
  reply.Array(std::size(kLines));
  for (std::string_view line : kLines) reply.Status(line);
}

// --- Walks over all keys ---

// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]. May suspend.
void Scan(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> cursor = ParseCursor(args[1]);
  if (!cursor) return reply.Error(kErrInvalidCursor);
  const auto options = ParseKeyScanOptions(args.from(2), reply);
  if (!options) return;
  MemberList keys;
  const KeyScan scan = {
      .cursor = *cursor, .count = options->count, .buckets = BucketsFor(options->count)};
  const uint64_t next = WalkKeys(cx, scan, [&](std::string_view key, const CompactValue& value) {
    if (options->filter.Accepts(key, value)) keys.Add(key);
    return true;
  });
  ReplyWithKeys(std::to_string(next), keys, reply);
}

// KEYS pattern. May suspend.
void Keys(CoordinatorContext& cx, Args args, ReplySink& reply) {
  struct Part {  // written by its shard's thread
    uint32_t position = 0;
    bool is_done = false;
    MemberList keys;
  };
  const KeyFilter filter = {.pattern = args[1], .type = {}};
  helio::LongWork hops(1);  // a hop to this thread's own shard does not wait
  std::vector<Part> parts(cx.shards().size());
  std::vector<ShardId> ids(cx.shards().size());  // of the shards that are not done
  for (ShardId id = 0; id < ids.size(); ++id) ids[id] = id;
  while (!ids.empty()) {
    cx.shards().AwaitOn(ids, [&](ShardTurn& turn) {
      ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
      Part& part = parts[turn.shard().id()];
      for (int buckets = 0; buckets < 256 && !part.is_done; ++buckets) {
        part.position =
            shard_cx.Scan(part.position, [&](std::string_view key, const CompactValue& value) {
              if (filter.Accepts(key, value)) part.keys.Add(key);
            });
        part.is_done = part.position == 0;
      }
    });
    hops.Step();
    std::erase_if(ids, [&](ShardId id) { return parts[id].is_done; });
  }
  size_t count = 0;
  for (const Part& part : parts) count += part.keys.size();
  reply.Array(count);
  for (Part& part : parts) ReplyWithMembers(part.keys, reply);
}

// The number of keys of each shard. May suspend.
std::vector<uint64_t> ShardSizes(CoordinatorContext& cx) {
  std::vector<uint64_t> sizes(cx.shards().size());
  cx.HopToAll([&](ShardContext& shard_cx) { sizes[shard_cx.shard().id()] = shard_cx.db_size(); });
  return sizes;
}

// RANDOMKEY: a shard in proportion to its size, then a key of it. A shard that has none after all
// had only expired keys and has dropped them, so this comes to an end. May suspend.
void RandomKey(CoordinatorContext& cx, Args, ReplySink& reply) {
  for (;;) {
    const std::vector<uint64_t> sizes = ShardSizes(cx);
    uint64_t total = 0;
    for (uint64_t size : sizes) total += size;
    if (total == 0) return reply.Null();
    uint64_t left = LocalRandom().Uniform(total);
    ShardId id = 0;
    while (left >= sizes[id]) left -= sizes[id++];
    const std::optional<std::string> key =
        cx.Hop(id, [](ShardContext& shard_cx) { return shard_cx.RandomKey(RandomBits); });
    if (key) return reply.Bulk(*key);
  }
}

// --- Whole databases ---

void DbSize(CoordinatorContext& cx, Args, ReplySink& reply) {
  uint64_t total = 0;
  for (uint64_t size : ShardSizes(cx)) total += size;
  reply.Integer(static_cast<int64_t>(total));
}

std::optional<FlushMode> ParseFlushMode(Args args) {
  if (args.size() == 1 || (args.size() == 2 && IsOption(args[1], "SYNC"))) return FlushMode::kSync;
  if (args.size() == 2 && IsOption(args[1], "ASYNC")) return FlushMode::kAsync;
  return std::nullopt;
}

// FLUSHDB and FLUSHALL, whose databases `flush` puts aside on a shard. Their memory is freed a
// slice at a time; SYNC waits for that, but holds up nobody else. False: nothing was done. May
// suspend.
template <typename Function>
bool FlushOnAll(CoordinatorContext& cx, Args args, Function flush, ReplySink& reply) {
  const std::optional<FlushMode> mode = ParseFlushMode(args);
  if (!mode) {
    reply.Error(kErrSyntax);
    return false;
  }
  Transaction tx(cx);
  tx.LockAllShards(LockMode::kExclusive);
  const auto flush_shard = [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    flush(shard_cx);
    turn.shard().NoteFlushed();
    // Also of what is empty here: a replica may have more.
    if (shard_cx.wants_effects()) shard_cx.TellOwn();
  };
  if (!tx.Run(flush_shard)) return false;
  constexpr size_t kKeysPerHop = 4096;
  std::atomic<bool> is_done{*mode == FlushMode::kAsync};
  while (!is_done) {
    is_done = true;
    cx.HopToAll([&](ShardContext& shard_cx) {
      if (!shard_cx.shard().FreeStep(kKeysPerHop)) is_done = false;
    });
  }
  reply.Ok();
  return true;
}

void FlushDb(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const auto flush = [&cx](ShardContext& shard_cx) {
    shard_cx.Flush(cx.db_index(), FlushMode::kAsync);
  };
  FlushOnAll(cx, args, flush, reply);
}

void FlushAll(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const auto flush = [](ShardContext& shard_cx) {
    const int count = shard_cx.shard().db_count();
    for (int i = 0; i < count; ++i) shard_cx.Flush(i, FlushMode::kAsync);
  };
  if (FlushOnAll(cx, args, flush, reply)) cx.shards().OnFlushedAll();
}

// --- The table ---

Command ObjectContainer() {
  Command object = {.name = "object",
                    .arity = -2,
                    .docs = {"Tells how the server keeps a key; see its subcommands.", "2.2.3",
                             "generic", "That of the subcommand."}};
  auto add = [&object](std::string_view name, ShardHandler run, CommandDocs docs) {
    object.subcommands.push_back({.name = name,
                                  .run = run,
                                  .arity = 3,
                                  .flags = kReadonly,
                                  .categories = kAclKeyspace,
                                  .keys = KeyAt(2, "RO"),
                                  .docs = docs,
                                  .tips = "nondeterministic_output"});
  };
  add("encoding", ObjectEncoding,
      {"Returns the encoding of the value of a key.", "2.2.3", "generic", "O(1)"});
  add("freq", ObjectFreq,
      {"Returns how often a key was accessed, on a logarithmic scale.", "4.0.0", "generic",
       "O(1)"});
  add("idletime", ObjectIdleTime,
      {"Returns the seconds since a key was last accessed.", "2.2.3", "generic", "O(1)"});
  add("refcount", ObjectRefCount,
      {"Returns the number of references to the value of a key.", "2.2.3", "generic", "O(1)"});
  object.subcommands.push_back(HelpRow<ObjectHelp>("6.2.0", "generic", kAclKeyspace));
  return object;
}

}  // namespace

void RegisterKeyCommands(CommandTable* table) {
  table->Add({.name = "del",
              .run = Del,
              .arity = -2,
              .flags = kWrite,
              .categories = kAclKeyspace,
              .keys = KeysFrom(1, 1, "RM delete"),
              .spread = Spread::kSumIntegers,
              .docs = {"Removes keys and returns how many of them existed.", "1.0.0", "generic",
                       "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:agg_sum"});
  table->Add({.name = "unlink",
              .run = Del,
              .arity = -2,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeysFrom(1, 1, "RM delete"),
              .spread = Spread::kSumIntegers,
              .docs = {"Removes keys as DEL does.", "4.0.0", "generic",
                       "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:agg_sum"});
  table->Add({.name = "exists",
              .run = Exists,
              .arity = -2,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .keys = KeysFrom(1, 1, "RO"),
              .spread = Spread::kSumIntegers,
              .docs = {"Returns how many of the keys exist; one that is named twice counts twice.",
                       "1.0.0", "generic", "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:agg_sum"});
  table->Add({.name = "touch",
              .run = Touch,
              .arity = -2,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .keys = KeysFrom(1, 1, "RO"),
              .spread = Spread::kSumIntegers,
              .docs = {"Marks keys as accessed and returns how many of them exist.", "3.2.1",
                       "generic", "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:agg_sum"});
  table->Add({.name = "stick",
              .run = Stick,
              .arity = -2,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeysFrom(1),
              .spread = Spread::kSumIntegers,
              .docs = {"Keeps keys from being evicted and returns how many were not kept before.",
                       "7.2.0", "generic", "O(N) where N is the number of keys."}});
  table->Add({.name = "expire",
              .run = Expire,
              .arity = -3,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Sets the time to live of a key in seconds.", "1.0.0", "generic", "O(1)"}});
  table->Add(
      {.name = "pexpire",
       .run = PExpire,
       .arity = -3,
       .flags = kWrite | kFast,
       .categories = kAclKeyspace,
       .keys = KeyAt(1),
       .docs = {"Sets the time to live of a key in milliseconds.", "2.6.0", "generic", "O(1)"}});
  table->Add({.name = "expireat",
              .run = ExpireAtSeconds,
              .arity = -3,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Sets the deadline of a key as a Unix time in seconds.", "1.2.0", "generic",
                       "O(1)"}});
  table->Add({.name = "pexpireat",
              .run = ExpireAtMillis,
              .arity = -3,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Sets the deadline of a key as a Unix time in milliseconds.", "2.6.0",
                       "generic", "O(1)"}});
  table->Add({.name = "ttl",
              .run = Ttl,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Returns the time to live of a key in seconds.", "1.0.0", "generic", "O(1)"},
              .tips = "nondeterministic_output"});
  table->Add(
      {.name = "pttl",
       .run = PTtl,
       .arity = 2,
       .flags = kReadonly | kFast,
       .categories = kAclKeyspace,
       .keys = KeyAt(1),
       .docs = {"Returns the time to live of a key in milliseconds.", "2.6.0", "generic", "O(1)"},
       .tips = "nondeterministic_output"});
  table->Add({.name = "expiretime",
              .run = ExpireTime,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Returns the deadline of a key as a Unix time in seconds.", "7.0.0",
                       "generic", "O(1)"}});
  table->Add({.name = "pexpiretime",
              .run = PExpireTime,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Returns the deadline of a key as a Unix time in milliseconds.", "7.0.0",
                       "generic", "O(1)"}});
  table->Add({.name = "persist",
              .run = Persist,
              .arity = 2,
              .flags = kWrite | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1),
              .docs = {"Removes the deadline of a key.", "2.2.0", "generic", "O(1)"}});
  table->Add({.name = "type",
              .run = Type,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .keys = KeyAt(1, "RO"),
              .docs = {"Returns the type of a key.", "1.0.0", "generic", "O(1)"}});
  table->Add(
      {.name = "scan",
       .coordinate = Scan,
       .arity = -2,
       .flags = kReadonly,
       .categories = kAclKeyspace,
       .docs = {"Walks over the keys of the database, some at a time.", "2.8.0", "generic",
                "O(1) for each call, O(N) for the whole walk where N is the number of keys."},
       .tips = "nondeterministic_output request_policy:special"});
  table->Add({.name = "keys",
              .coordinate = Keys,
              .arity = 2,
              .flags = kReadonly,
              .categories = kAclKeyspace | kAclDangerous,
              .docs = {"Returns all keys that match a pattern.", "1.0.0", "generic",
                       "O(N) where N is the number of keys in the database."},
              .tips = "request_policy:all_shards nondeterministic_output_order"});
  table->Add({.name = "randomkey",
              .coordinate = RandomKey,
              .arity = 1,
              .flags = kReadonly,
              .categories = kAclKeyspace,
              .docs = {"Returns a random key of the database.", "1.0.0", "generic", "O(1)"},
              .tips = "request_policy:all_shards nondeterministic_output"});
  table->Add({.name = "dbsize",
              .coordinate = DbSize,
              .arity = 1,
              .flags = kReadonly | kFast,
              .categories = kAclKeyspace,
              .docs = {"Returns the number of keys in the database.", "1.0.0", "server", "O(1)"},
              .tips = "request_policy:all_shards response_policy:agg_sum"});
  table->Add({.name = "flushdb",
              .coordinate = FlushDb,
              .arity = -1,
              .flags = kWrite,
              .categories = kAclKeyspace | kAclDangerous,
              .docs = {"Removes all keys of the database.", "1.0.0", "server",
                       "O(N) where N is the number of keys in the database; with ASYNC O(1) before "
                       "the reply."},
              .tips = "request_policy:all_shards response_policy:all_succeeded"});
  table->Add({.name = "flushall",
              .coordinate = FlushAll,
              .arity = -1,
              .flags = kWrite,
              .categories = kAclKeyspace | kAclDangerous,
              .docs = {"Removes all keys of all databases.", "1.0.0", "server",
                       "O(N) where N is the number of keys in all databases; with ASYNC O(1) "
                       "before the reply."},
              .tips = "request_policy:all_shards response_policy:all_succeeded"});
  table->Add(ObjectContainer());
  RegisterKeyMoves(table);
  RegisterSort(table);
  RegisterDump(table);
}

}  // namespace dfly
