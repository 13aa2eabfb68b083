// SPDX-License-Identifier: Apache-2.0
// What the commands for deadlines of fields (hash_deadlines.cc) and of members share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "commands/table/command_table.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"

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

// What the keyspace hears, and the command that erases.
struct DeadlineEvents {
  KeyEvent set;
  KeyEvent erased;
  std::string_view erases;
};
inline constexpr DeadlineEvents kFieldEvents = {
    .set = KeyEvent::kHExpire, .erased = KeyEvent::kHDel, .erases = "HDEL"};
inline constexpr DeadlineEvents kMemberEvents = {
    .set = KeyEvent::kSExpire, .erased = KeyEvent::kSRem, .erases = "SREM"};

// The effect of deadlines that these fields, or members, have got.
void TellDeadlines(ShardContext& cx, std::string_view key, const DeadlineEvents& events,
                   int64_t at_ms, std::span<const std::string_view> names);
// The effect that is `command`, the key, and all of these.
void TellNamed(ShardContext& cx, std::string_view command, std::string_view key,
               std::span<const std::string_view> names);

// What several deadlines have become, for one report of the change.
class DeadlineChanges {
 public:
  void Count(const ShardContext& cx, std::string_view name, MemberAnswer answer) {
    set_ += answer == kDone;
    erased_ += answer == kErased;
    if (!cx.wants_effects() && !cx.tells_fields()) return;
    if (answer == kDone) names_set_.push_back(name);
    if (answer == kErased) names_erased_.push_back(name);
  }
  // The key may be gone afterwards. `at_ms`: the deadline of those that have got one.
  void Report(ShardContext& cx, std::string_view key, const DeadlineEvents& events,
              int64_t at_ms) const {
    const bool tells = cx.wants_effects();
    if (set_ > 0) Changed(cx, key, events.set, names_set_, set_);
    if (tells && set_ > 0) TellDeadlines(cx, key, events, at_ms, names_set_);
    if (erased_ > 0) Changed(cx, key, events.erased, names_erased_, erased_);
    if (tells && erased_ > 0) TellNamed(cx, events.erases, key, names_erased_);
  }

 private:
  static void Changed(ShardContext& cx, std::string_view key, KeyEvent event,
                      std::span<const std::string_view> names, size_t count) {
    const bool is_of_fields = ClassOf(event) == KeyEventClasses::kHash;
    cx.ChangedFields(key, event, is_of_fields ? names : decltype(names)(), count);
  }

  size_t set_ = 0;
  size_t erased_ = 0;
  std::vector<std::string_view> names_set_;  // empty if nobody wants effects, or hears of fields
  std::vector<std::string_view> names_erased_;
};

// For RegisterSetCommands.
void RegisterMemberDeadlineCommands(CommandTable* table);

}  // namespace dfly
