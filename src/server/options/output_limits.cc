// SPDX-License-Identifier: Apache-2.0
#include "server/options/output_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "core/text/numbers.h"
#include "server/base/units.h"
#include "server/base/words.h"

namespace dfly {

namespace {

constexpr std::array<std::string_view, kClientClasses> kNames = {"normal", "slave", "pubsub"};

std::optional<size_t> ClassOf(std::string_view name) {
  if (IsWord(name, "replica")) return static_cast<size_t>(ClientClass::kReplica);
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (IsWord(name, kNames[i])) return i;
  }
  return std::nullopt;
}

}  // namespace

size_t OutputLimit::least_bytes() const {
  const size_t hard = hard_bytes == 0 ? SIZE_MAX : hard_bytes;
  const size_t least = std::min(hard, soft_bytes == 0 ? SIZE_MAX : soft_bytes);
  return std::max<size_t>(least, kSmallReply);
}

std::string OutputLimits::Set(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) words.push_back(word);
  if (words.size() % 4 != 0) return "Wrong number of arguments in buffer limit configuration.";
  OutputLimits changed = *this;
  for (size_t i = 0; i < words.size(); i += 4) {
    const std::optional<size_t> its = ClassOf(words[i]);
    if (!its) return "Invalid client class specified in buffer limit configuration.";
    const auto hard = ParseMemory(words[i + 1]);
    const auto soft = ParseMemory(words[i + 2]);
    const auto seconds = ParseInt64(words[i + 3]);
    constexpr int64_t kSecondsMax = 1'000'000'000;
    if (!hard || !soft || !seconds || *seconds < 0 || *seconds > kSecondsMax) {
      return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    }
    changed.by_class[*its] = {
        .hard_bytes = *hard, .soft_bytes = *soft, .soft_s = static_cast<uint64_t>(*seconds)};
  }
  *this = changed;
  return "";
}

std::string OutputLimits::ToString() const {
  std::string out;
  for (size_t i = 0; i < kClientClasses; ++i) {
    const OutputLimit& limit = by_class[i];
    out += fmt::format("{}{} {} {} {}", i == 0 ? "" : " ", kNames[i], limit.hard_bytes,
                       limit.soft_bytes, limit.soft_s);
  }
  return out;
}

}  // namespace dfly
