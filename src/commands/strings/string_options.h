// SPDX-License-Identifier: Apache-2.0
// The options that SET, GETEX, DELEX and their relatives share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "commands/table/numbers.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

class CommandTable;

// IFEQ, IFNE, IFDEQ, IFDNE: what the value has to be, or not to be, before a command changes it.
struct ValueCondition {
  enum class Kind : uint8_t { kNone, kEqual, kNotEqual, kDigestEqual, kDigestNotEqual };

  Kind kind = Kind::kNone;
  std::string_view operand = {};  // a string, or a digest in hexadecimal

  explicit operator bool() const { return kind != Kind::kNone; }
  // Those that an absent key meets.
  bool is_negative() const { return kind == Kind::kNotEqual || kind == Kind::kDigestNotEqual; }
  // False: the operand is no digest, although it has to be.
  bool is_valid() const;
  // REQUIRES: there is a condition, and it is valid.
  bool IsMetBy(std::string_view value) const;
};
inline constexpr std::string_view kErrDigest = "ERR must be exactly 16 hexadecimal characters";

// kNone: `option` is another word.
ValueCondition::Kind FindValueCondition(std::string_view option);

// As DIGEST replies it: 16 digits, in lower case.
std::string HexDigest(std::string_view value);

struct StringOptions {
  const DeadlineUnit* unit = nullptr;
  std::string_view expire = {};  // as the client wrote it; the last one counts
  bool if_absent = false;        // NX
  bool if_present = false;       // XX
  ValueCondition if_value = {};
  bool get = false;
  bool keep_ttl = false;
  bool persist = false;
  bool stick = false;  // ours
};

enum class OptionSet : uint8_t { kOfSet, kOfMSetEx, kOfGetEx };

// False is a syntax error. What excludes what: NX, XX and conditions on the value each other;
// KEEPTTL, PERSIST and each of the four units all others of these. The same option twice is fine,
// but for a condition on the value.
bool ParseStringOptions(std::span<const std::string_view> args, OptionSet set,
                        StringOptions* options);

// The deadline that the options ask for, as ParseDeadline. REQUIRES: they have a unit.
std::optional<int64_t> DeadlineOf(const StringOptions& options, int64_t now_ms,
                                  std::string_view command, ReplySink& reply);

// Sets the string, as if the key expired at once when the deadline has passed: then none is left.
// Tells its effect.
void StoreUntil(ShardContext& cx, std::string_view key, std::string_view text, int64_t deadline_ms);

// For RegisterStringCommands.
void RegisterConditionalDeletes(CommandTable* table);
void RegisterIncrEx(CommandTable* table);
void RegisterStringPairs(CommandTable* table);

}  // namespace dfly
