// SPDX-License-Identifier: Apache-2.0
// The walk over the keys of a database that SCAN and CLUSTERSCAN share.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "commands/table/long_reads.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

struct KeyFilter {
  std::optional<std::string_view> pattern;
  std::optional<std::string_view> type;

  bool Accepts(std::string_view key, const CompactValue& value) const;
};

struct KeyScanOptions {
  KeyFilter filter;
  uint64_t count = 10;  // the keys to look at, about
};

// [MATCH pattern] [COUNT count] [TYPE type]. Replies the error and returns none if they are not
// valid.
std::optional<KeyScanOptions> ParseKeyScanOptions(std::span<const std::string_view> args,
                                                  ReplySink& reply);

// One call of a walk.
struct KeyScan {
  // The shard in the upper 32 bits, and in the lower ones a position in its table, which survives
  // whatever happens to the table: one shard after another. 0 is the beginning, and behind a call
  // the end.
  uint64_t cursor = 0;
  uint64_t count = 0;    // keys for which `look` is true, about
  uint64_t buckets = 0;  // at most, about, for the way through a table with many holes
};

// As many as a walk that wants `count` keys looks at, as in Redis: ten for each.
uint64_t BucketsFor(uint64_t count);

// Calls look(key, value) on the shards' threads, one after another. Returns the next cursor. May
// suspend, between two slices of this thread's own shard, too.
uint64_t WalkKeys(CoordinatorContext& cx, const KeyScan& scan,
                  absl::FunctionRef<bool(std::string_view, const CompactValue&)> look);

// The reply of such a call. Suspends if there are many.
void ReplyWithKeys(std::string_view cursor, MemberList& keys, ReplySink& reply);

}  // namespace dfly
