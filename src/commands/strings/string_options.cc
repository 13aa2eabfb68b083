// SPDX-License-Identifier: Apache-2.0
#include "commands/strings/string_options.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "commands/table/args.h"
#include "core/text/text_digest.h"
#include "helio/base/ascii.h"

namespace dfly {

namespace {

constexpr size_t kDigestDigits = 16;

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

// Of the last two also the case of the letters does not matter.
bool IsSameDigest(std::string_view digest, std::string_view operand) {
  return std::equal(digest.begin(), digest.end(), operand.begin(), operand.end(),
                    [](char a, char b) { return helio::ToUpper(a) == helio::ToUpper(b); });
}

}  // namespace

bool ValueCondition::is_valid() const {
  if (kind != Kind::kDigestEqual && kind != Kind::kDigestNotEqual) return true;
  return operand.size() == kDigestDigits && std::all_of(operand.begin(), operand.end(), IsHexDigit);
}

bool ValueCondition::IsMetBy(std::string_view value) const {
  switch (kind) {
    case Kind::kEqual:
      return value == operand;
    case Kind::kNotEqual:
      return value != operand;
    case Kind::kDigestEqual:
      return IsSameDigest(HexDigest(value), operand);
    default:
      return !IsSameDigest(HexDigest(value), operand);
  }
}

ValueCondition::Kind FindValueCondition(std::string_view option) {
  using Kind = ValueCondition::Kind;
  static constexpr std::pair<std::string_view, Kind> kOptions[] = {
      {"IFEQ", Kind::kEqual},
      {"IFNE", Kind::kNotEqual},
      {"IFDEQ", Kind::kDigestEqual},
      {"IFDNE", Kind::kDigestNotEqual}};
  const auto* const found =
      std::find_if(std::begin(kOptions), std::end(kOptions),
                   [option](const auto& known) { return IsOption(option, known.first); });
  return found == std::end(kOptions) ? Kind::kNone : found->second;
}

std::string HexDigest(std::string_view value) { return fmt::format("{:016x}", TextDigest(value)); }

bool ParseStringOptions(std::span<const std::string_view> args, OptionSet set,
                        StringOptions* options) {
  const bool of_set = set == OptionSet::kOfSet;
  const bool may_be_conditional = set != OptionSet::kOfGetEx;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    const bool has_unit = options->unit != nullptr;
    const bool of_value = static_cast<bool>(options->if_value);
    if (may_be_conditional && !options->if_present && !of_value && IsOption(arg, "NX")) {
      options->if_absent = true;
    } else if (may_be_conditional && !options->if_absent && !of_value && IsOption(arg, "XX")) {
      options->if_present = true;
    } else if (of_set && IsOption(arg, "GET")) {
      options->get = true;
    } else if (may_be_conditional && !has_unit && IsOption(arg, "KEEPTTL")) {
      options->keep_ttl = true;
    } else if (of_set && IsOption(arg, "STICK")) {
      options->stick = true;
    } else if (set == OptionSet::kOfGetEx && !has_unit && IsOption(arg, "PERSIST")) {
      options->persist = true;
    } else if (const DeadlineUnit* const unit = FindDeadlineUnit(arg)) {
      if (has_unit && unit != options->unit) return false;
      if (options->keep_ttl || options->persist || i + 1 == args.size()) return false;
      options->unit = unit;
      options->expire = args[++i];
    } else {
      const ValueCondition::Kind kind = FindValueCondition(arg);
      if (!of_set || kind == ValueCondition::Kind::kNone || i + 1 == args.size()) return false;
      if (options->if_absent || options->if_present || of_value) return false;
      options->if_value = {.kind = kind, .operand = args[++i]};
    }
  }
  return true;
}

std::optional<int64_t> DeadlineOf(const StringOptions& options, int64_t now_ms,
                                  std::string_view command, ReplySink& reply) {
  return ParseDeadline(kNewDeadline, options.expire, options.unit->unit_ms,
                       options.unit->base_ms(now_ms), command, reply);
}

void StoreUntil(ShardContext& cx, std::string_view key, std::string_view text,
                int64_t deadline_ms) {
  if (deadline_ms <= cx.now_ms()) {
    cx.AlsoHappened(key, KeyEvent::kSet);
    cx.AlsoHappened(key, KeyEvent::kExpire);
    cx.Delete(key, KeyEvent::kNone);
    cx.AlsoHappened(key, KeyEvent::kExpired);
    if (cx.wants_effects()) cx.Tell("DEL", key);
    return;
  }
  ShardContext::SetOptions how;
  how.deadline_ms = deadline_ms;
  cx.SetString(key, text, how);
  if (cx.wants_effects()) cx.Tell("SET", key, text, "PXAT", deadline_ms);
}

}  // namespace dfly
