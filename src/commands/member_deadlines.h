// SPDX-License-Identifier: Apache-2.0
// What the commands for deadlines of fields (hash_deadlines.cc) and of members share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "commands/command_table.h"
#include "engine/shard_context.h"
#include "facade/reply_sink.h"

namespace dfly {

inline constexpr int64_t kNoDeadline = INT64_MAX;  // as HashValue::Deadline and SetValue's tell it

// What HEXPIRE, HTTL, FIELDEXPIRE and the like answer for a field or member, each in its place.
enum MemberAnswer : int64_t {
  kAbsent = -2,
  kHasNone = -1,
  kNotMet = 0,
  kDone = 1,
  kErased = 2,
};

void ReplyWithAll(MemberAnswer answer, size_t count, ReplySink& reply);

// The deadline that is `text` units of `unit_ms` after `base_ms`, maybe in the past. Replies the
// error if there is none.
std::optional<int64_t> ParseDeadline(std::string_view text, int64_t unit_ms, int64_t base_ms,
                                     std::string_view command, ReplySink& reply);

// Gives one that exists a deadline, or erases it if that has been reached. `Value` is HashValue or
// SetValue.
template <typename Value>
MemberAnswer SetMemberDeadline(const ShardContext& cx, Value& value, std::string_view member,
                               int64_t at_ms) {
  if (at_ms <= cx.now_ms()) {
    value.Erase(member);
    return kErased;
  }
  value.SetDeadline(member, at_ms);
  return kDone;
}

// What the keyspace hears.
struct DeadlineEvents {
  KeyEvent set;
  KeyEvent erased;
};
inline constexpr DeadlineEvents kFieldEvents = {.set = KeyEvent::kHExpire,
                                                .erased = KeyEvent::kHDel};
inline constexpr DeadlineEvents kMemberEvents = {.set = KeyEvent::kSExpire,
                                                 .erased = KeyEvent::kSRem};

// What several deadlines have become, for one report of the change.
struct DeadlineChanges {
  size_t set = 0;
  size_t erased = 0;

  void Count(MemberAnswer answer) {
    set += answer == kDone;
    erased += answer == kErased;
  }
  // The key may be gone afterwards.
  void Report(ShardContext& cx, std::string_view key, const DeadlineEvents& events) const {
    if (set > 0) cx.Changed(key, events.set, set);
    if (erased > 0) cx.Changed(key, events.erased, erased);
  }
};

// For RegisterSetCommands.
void RegisterMemberDeadlineCommands(CommandTable* table);

}  // namespace dfly
