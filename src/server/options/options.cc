// SPDX-License-Identifier: Apache-2.0
#include "server/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text/numbers.h"
#include "helio/base/ascii.h"
#include "server/base/units.h"

namespace dfly {

std::string ClientMemorySetting::Parse(std::string_view text) {
  constexpr const char* kNeither = "argument must be a memory or percent value";
  *this = {};
  if (text.ends_with('%')) {
    const auto number = ParseInt64(text.substr(0, text.size() - 1));
    if (!number || *number < 0) return kNeither;
    if (*number > 100) return "percentage argument must be less or equal to 100";
    percent = static_cast<uint32_t>(*number);
    return "";
  }
  const auto number = ParseMemory(text);
  if (!number || *number > INT64_MAX) return kNeither;
  bytes = *number;
  return "";
}

std::string ClientMemorySetting::ToString() const {
  return percent != 0 ? fmt::format("{}%", percent) : fmt::format("{}", bytes);
}

namespace {

PackedLimit UpTo(uint64_t max, uint64_t entries, uint64_t element_bytes) {
  return {.entries = static_cast<uint32_t>(std::min(entries, max)),
          .element_bytes = static_cast<uint32_t>(std::min(element_bytes, max))};
}

}  // namespace

ShardLimits ValueSizes::Limits() const {
  constexpr uint64_t kMembersMax = 1u << 30;  // of a set; they are counted in 32 bits
  return {.list = BlockLimit::FromSetting(list_max_listpack_size),
          .hash = UpTo(UINT32_MAX, hash_entries, hash_element_bytes),
          .set = {.integers = static_cast<uint32_t>(std::min(set_integers, kMembersMax)),
                  .packed = UpTo(kMembersMax, set_entries, set_element_bytes)},
          .zset = UpTo(UINT32_MAX, zset_entries, zset_element_bytes),
          .stream = stream,
          .hll_sparse_bytes = hll_sparse_bytes,
          .json_depth = json_depth,
          .json_path_visits = json_path_visits};
}

bool ParseSaveRules(std::string_view text, std::vector<SaveRule>* rules) {
  rules->clear();
  std::vector<uint64_t> numbers;
  for (std::string_view word : helio::SplitWords(text)) {
    uint64_t number = 0;
    const char* const end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number > INT32_MAX) return false;
    numbers.push_back(number);
  }
  if (numbers.size() % 2 != 0) return false;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    if (numbers[i] == 0) return false;
    rules->push_back({.seconds = numbers[i], .changes = numbers[i + 1]});
  }
  return true;
}

std::string FormatSaveRules(const std::vector<SaveRule>& rules) {
  std::string text;
  for (const SaveRule& rule : rules) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", rule.seconds, rule.changes);
  }
  return text;
}

std::string ParsePercentiles(std::string_view text, std::vector<double>* percentiles) {
  percentiles->clear();
  for (std::string_view word : helio::SplitWords(text)) {
    const auto percent = ParseDouble(word);
    if (!percent || std::isnan(*percent)) {
      return "Invalid latency-tracking-info-percentiles parameters";
    }
    if (*percent < 0 || *percent > 100) {
      return "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]";
    }
    percentiles->push_back(*percent);
  }
  return "";
}

}  // namespace dfly
