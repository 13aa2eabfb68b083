// SPDX-License-Identifier: Apache-2.0
// The commands of memcached's text protocol that work on keys: shard handlers, for the rows that
// src/server/commands/memcached_commands.cc registers. Their arguments are those that
// MemcachedParser hands out. An item is a string of database 0; docs/memcached.md tells what other
// types are to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "commands/table/args.h"
#include "engine/keyspace/memcached_items.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

void MemcachedGet(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedGets(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedGat(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedGats(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedSet(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedAdd(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedReplace(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedAppend(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedPrepend(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedCas(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedTooLarge(ShardContext& cx, Args args, ReplySink& reply);
// MEMCACHED ITEM key flags cas marks: no client's, but the effect of what a client has set
// (ShardContext::SetMemcachedItem).
void MemcachedSetItem(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedIncr(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedDecr(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedDelete(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedTouch(ShardContext& cx, Args args, ReplySink& reply);
// In memcached_meta.cc:
void MemcachedMetaGet(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedMetaSet(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedMetaDelete(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedMetaArithmetic(ShardContext& cx, Args args, ReplySink& reply);
void MemcachedMetaDebug(ShardContext& cx, Args args, ReplySink& reply);

// --- What both files use ---

inline constexpr std::string_view kMemcachedNotNumber =
    "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

// Decimal digits and nothing else. As large as an item's number may be.
std::optional<uint64_t> ParseMemcachedNumber(std::string_view text);

// What the parser has found to be a number, maybe with a sign.
template <typename Number>
Number MemcachedNumberOf(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const uint64_t value = ParseMemcachedNumber(text).value_or(0);
  return static_cast<Number>(is_negative ? -value : value);
}

// When an item ends whose time is `exptime`: never, now, or at `at_ms`.
struct MemcachedEnd {
  bool is_past = false;
  std::optional<int64_t> at_ms;
};
MemcachedEnd MemcachedEndOf(int64_t exptime, int64_t now_ms);
// What changes a key for clients of this protocol; each tells its effect.
void SetMemcached(ShardContext& cx, std::string_view key, std::string_view data,
                  const ShardContext::SetOptions& options);
// False if it was absent.
bool DeleteMemcached(ShardContext& cx, std::string_view key);
// The key, which is there, ends then. Handles die.
void SetMemcachedEnd(ShardContext& cx, std::string_view key, const MemcachedEnd& end);

enum class MemcachedMode : uint8_t { kSet, kAdd, kReplace, kAppend, kPrepend };
enum class MemcachedResult : uint8_t {
  kStored,
  kNotStored,
  kExists,
  kNotFound,
  kWrongType,
  kTooLong
};

struct MemcachedStore {
  MemcachedMode mode = MemcachedMode::kSet;
  std::string_view data;
  uint32_t client_flags = 0;
  int64_t exptime = 0;
  std::optional<uint64_t> cas = {};  // the item has to have
  bool may_be_stale = false;         // an older one is good enough, and the item is stale then
  uint64_t new_cas = 0;              // 0: whatever comes
};
MemcachedResult StoreMemcached(ShardContext& cx, std::string_view key, const MemcachedStore& store);

struct MemcachedDelta {
  MemcachedResult result = MemcachedResult::kStored;  // kNotStored: it is no number
  uint64_t value = 0;
};
MemcachedDelta AddMemcached(ShardContext& cx, std::string_view key, uint64_t delta, bool is_incr,
                            std::optional<uint64_t> cas, uint64_t new_cas = 0);

}  // namespace dfly
