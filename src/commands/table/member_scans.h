// SPDX-License-Identifier: Apache-2.0
// HSCAN, SSCAN and ZSCAN: a call's walk over some members of one key, in one step, or, if it asks
// for many, in slices. `Walk` is the family's:
//   kType, kMayLeaveOutValues (NOVALUES)
//   size_t Size(ShardContext&, const ShardContext::ReadHandle&)
//   uint32_t Scan(ShardContext&, const ShardContext::ReadHandle&, uint32_t cursor, fn)
//     calls fn(member), fn(member, text) or fn(member, score); returns the next cursor, 0: the end
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commands/table/long_reads.h"
#include "commands/table/scan_options.h"
#include "core/text/numbers.h"

namespace dfly {

// For CopyInSlices.
template <typename Walk>
class MemberScan {
 public:
  MemberScan(uint64_t cursor, const MemberScanOptions& options)
      : options_(options), cursor_(static_cast<uint32_t>(cursor)) {}

  void CopyAll(ShardContext& cx, const ShardContext::ReadHandle& value) {
    Copy(cx, value, options_.count);
  }
  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    Copy(cx, value, SliceOf(*value, Walk::Size(cx, value)));
    return !is_done();
  }
  // There was a key.
  bool has_value() const { return has_value_; }
  void Reply(ReplySink& reply) const {
    ReplyHead(reply);
    for (size_t i = 0; i < texts_.size(); ++i) reply.Bulk(texts_[i]);
  }
  // Once. Suspends.
  void ReplyInSlices(ReplySink& reply) {
    ReplyHead(reply);
    ReplyWithMembers(texts_, reply);
  }

 private:
  // Buckets are bounded, too: a table may have many holes.
  static constexpr uint64_t kBucketsEach = 10;

  void ReplyHead(ReplySink& reply) const {
    reply.Array(2);
    reply.Bulk(std::to_string(has_value_ ? cursor_ : 0));
    reply.Array(texts_.size());
  }
  bool is_done() const {
    return cursor_ == 0 || seen_ >= options_.count || buckets_ / kBucketsEach >= options_.count;
  }
  // About `count` members more.
  void Copy(ShardContext& cx, const ShardContext::ReadHandle& value, uint64_t count) {
    const uint64_t seen_before = seen_, buckets_before = buckets_;
    has_value_ = true;
    do {
      cursor_ = Walk::Scan(cx, value, cursor_, [this](std::string_view member, auto... text) {
        ++seen_;
        if (!options_.Accepts(member)) return;
        texts_.Add(member);
        if (options_.has_values) (AddText(text), ...);
      });
      ++buckets_;
    } while (!is_done() && seen_ - seen_before < count &&
             (buckets_ - buckets_before) / kBucketsEach < count);
  }
  void AddText(std::string_view text) { texts_.Add(text); }
  void AddText(double score) {  // a text in RESP3, too
    char text[kDoubleTextMax];
    texts_.Add(FormatDouble(score, text));
  }

  const MemberScanOptions options_;
  bool has_value_ = false;
  uint32_t cursor_;
  uint64_t seen_ = 0;
  uint64_t buckets_ = 0;
  MemberList texts_;
};

// ShardHandler. Options of a missing key are not looked at, as in Redis.
template <typename Walk>
void ScanMembers(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> cursor = ParseCursor(args[2]);
  if (!cursor) return reply.Error(kErrInvalidCursor);
  const auto value = cx.FindReadOnly(args.key(), Walk::kType);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return MemberScan<Walk>(0, {}).Reply(reply);
  std::string_view error;
  const auto options = ParseMemberScanOptions(args.from(3), Walk::kMayLeaveOutValues, &error);
  if (!options) return reply.Error(error);
  MemberScan<Walk> scan(*cursor, *options);
  scan.CopyAll(cx, value);
  scan.Reply(reply);
}

// Command::asks_for_many.
template <typename Walk>
bool ScansMany(Args args) {
  std::string_view error;
  const auto options = ParseMemberScanOptions(args.from(3), Walk::kMayLeaveOutValues, &error);
  return options && options->count >= kLargeMembers;
}

// Command::across, also if ScansMany is false, as tests call it. Suspends.
template <typename Walk>
void ScanMembersInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> cursor = ParseCursor(args[2]);
  if (!cursor) return reply.Error(kErrInvalidCursor);
  std::string_view error;
  const auto options = ParseMemberScanOptions(args.from(3), Walk::kMayLeaveOutValues, &error);
  MemberScan<Walk> scan(*cursor, options.value_or(MemberScanOptions{}));
  if (!CopyInSlices(cx, args.key(), Walk::kType, reply, &scan)) return;
  if (!options && scan.has_value()) return reply.Error(error);
  scan.ReplyInSlices(reply);
}

}  // namespace dfly
