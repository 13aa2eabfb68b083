// SPDX-License-Identifier: Apache-2.0
// For rows of settings: slots in ServerOptions, and what keeps a live value up to date.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "server/options/options.h"
#include "server/options/setting_row.h"
#include "server/options/settings.h"

namespace dfly {

inline void StoreValue(std::string_view value, std::string* to) { *to = value; }
inline void StoreValue(std::string_view value, bool* to) { *to = value == "yes"; }
// REQUIRES: it is a number, and within what the row allows.
template <std::integral Number>
void StoreValue(std::string_view value, Number* to) {
  std::conditional_t<std::is_signed_v<Number>, int64_t, uint64_t> number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  *to = static_cast<Number>(number);
}

inline std::string ShowValue(const std::string& value) { return value; }
inline std::string ShowValue(bool value) { return value ? "yes" : "no"; }
template <std::integral Number>
std::string ShowValue(Number value) {
  return fmt::format("{}", value);
}

// The member of a member (of a member ...) of the options.
template <auto... kMembers, typename Options>
auto& MemberOf(Options& options) {
  return (options.*....*kMembers);
}

// A text, bool or number: kSlot<&ServerOptions::value_sizes, &ValueSizes::set_entries>.
template <auto... kMembers>
inline constexpr SettingSlot kSlot = {
    [](std::string_view value, ServerOptions* options) {
      StoreValue(value, &MemberOf<kMembers...>(*options));
      return std::string();
    },
    [](const ServerOptions& options) { return ShowValue(MemberOf<kMembers...>(options)); }};

// What the words of a kChoice mean.
template <typename Value>
struct NamedValue {
  std::string_view name;
  Value value;
};
// A choice: kNames is an array of NamedValue with all of its words.
template <const auto& kNames, auto... kMembers>
inline constexpr SettingSlot kChoiceSlot = {
    [](std::string_view value, ServerOptions* options) {
      const auto it = std::ranges::find(kNames, value, [](const auto& it) { return it.name; });
      MemberOf<kMembers...>(*options) = it->value;
      return std::string();
    },
    [](const ServerOptions& options) {
      const auto& value = MemberOf<kMembers...>(options);
      const auto it = std::ranges::find(kNames, value, [](const auto& it) { return it.value; });
      return std::string(it->name);
    }};

// kLive<&Settings::maxmemory, &ServerOptions::maxmemory>: a relaxed store. A number that the target
// cannot hold is its largest there.
template <auto kTarget, auto... kMembers>
inline constexpr void (*kStoreLive)(const ServerOptions&, Settings*) =
    [](const ServerOptions& now, Settings* settings) {
      auto& target = settings->*kTarget;
      using Value = decltype(target.load());
      const auto& value = MemberOf<kMembers...>(now);
      constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Value>::max());
      target.store(static_cast<Value>(std::min<uint64_t>(value, kMost)), std::memory_order_relaxed);
    };

}  // namespace dfly
