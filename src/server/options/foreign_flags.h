// SPDX-License-Identifier: Apache-2.0
// Flags that Dragonfly documents and this server does not have, and what is said to who uses them.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

struct ForeignFlag {
  enum class Kind : uint8_t {
    kNoEffect,   // a warning: it tunes what is not here, or is done anyway
    kEndsStart,  // ends the start: something would be missed. But for the value `harmless`
    kAlias,      // it is the flag `ours`
    kSchedule,   // --save_schedule
  };
  std::string_view name;
  Kind kind = Kind::kNoEffect;
  std::string_view ours = {};
  std::string_view harmless = {};
  std::string_view why = {};  // what to use instead
};

// Null: Dragonfly has no such flag, or it is one of ours.
const ForeignFlag* FindForeignFlag(std::string_view name);
std::span<const ForeignFlag> ForeignFlags();

// What follows from the flag with this value: one of our flags is set, or there is a warning or an
// error, or nothing.
struct ForeignAnswer {
  std::string_view flag = {};
  std::string value = {};
  std::string warning = {};
  std::string error = {};
};
ForeignAnswer AnswerForeignFlag(const ForeignFlag& flag, std::string_view value);

// The value of a flag that both have, but in another form: "host:port" of replicaof.
std::string OwnFormOf(std::string_view flag, std::string_view value);
// Dragonfly's default, in words that are none here: the flag is as if nobody had given it.
bool MeansNothing(std::string_view flag, std::string_view value);
// Why the value of a flag that both have is none here; empty: it may be one.
std::string RefusalOfValue(std::string_view flag, std::string_view value);

}  // namespace dfly
