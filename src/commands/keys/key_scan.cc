// SPDX-License-Identifier: Apache-2.0
#include "commands/keys/key_scan.h"

#include <limits>

#include "commands/table/args.h"
#include "core/text/glob.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "helio/base/ascii.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

// Of one hop, less than a tenth of a millisecond.
constexpr uint64_t kBucketsPerHop = 256;

}  // namespace

bool KeyFilter::Accepts(std::string_view key, const CompactValue& value) const {
  if (type && !helio::EqualsIgnoreCase(*type, TypeName(value.type()))) return false;
  return !pattern || *pattern == "*" || GlobMatch(*pattern, key);
}

std::optional<KeyScanOptions> ParseKeyScanOptions(std::span<const std::string_view> args,
                                                  ReplySink& reply) {
  KeyScanOptions options;
  const auto refuse = [&reply](std::string_view error) -> std::optional<KeyScanOptions> {
    reply.Error(error);
    return {};
  };
  for (size_t i = 0; i < args.size(); i += 2) {
    if (i + 1 == args.size()) return refuse(kErrSyntax);
    if (IsOption(args[i], "COUNT")) {
      const std::optional<int64_t> count = ParseInt64(args[i + 1]);
      if (!count) return refuse(kErrNotInteger);
      if (*count < 1) return refuse(kErrSyntax);
      options.count = static_cast<uint64_t>(*count);
    } else if (IsOption(args[i], "MATCH")) {
      options.filter.pattern = args[i + 1];
    } else if (IsOption(args[i], "TYPE")) {
      options.filter.type = args[i + 1];
    } else {
      return refuse(kErrSyntax);
    }
  }
  return options;
}

uint64_t BucketsFor(uint64_t count) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return count > kMax / 10 ? kMax : count * 10;
}

uint64_t WalkKeys(CoordinatorContext& cx, const KeyScan& scan,
                  absl::FunctionRef<bool(std::string_view, const CompactValue&)> look) {
  uint64_t shard = scan.cursor >> 32;
  auto position = static_cast<uint32_t>(scan.cursor);
  uint64_t found = 0;
  uint64_t buckets = 0;
  helio::LongWork hops(1);  // a hop to this thread's own shard does not wait
  const auto is_enough = [&] { return found >= scan.count || buckets >= scan.buckets; };
  while (shard < cx.shards().size() && !is_enough()) {
    cx.Hop(static_cast<ShardId>(shard), [&](ShardContext& shard_cx) {
      const uint64_t stop = buckets + kBucketsPerHop;
      do {
        position = shard_cx.Scan(position, [&](std::string_view key, const CompactValue& value) {
          if (look(key, value)) ++found;
        });
        ++buckets;
      } while (position != 0 && buckets < stop && !is_enough());
    });
    if (position == 0) ++shard;
    hops.Step();
  }
  return shard >= cx.shards().size() ? 0 : (shard << 32) | position;
}

void ReplyWithKeys(std::string_view cursor, MemberList& keys, ReplySink& reply) {
  reply.Array(2);
  reply.Bulk(cursor);
  reply.Array(keys.size());
  ReplyWithMembers(keys, reply);
}

}  // namespace dfly
