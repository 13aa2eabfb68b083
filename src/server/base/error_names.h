// SPDX-License-Identifier: Apache-2.0
// How errors are called in INFO errorstats, and how many names there may be. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

// What all errors are counted as whose names come too late.
inline constexpr std::string_view kOtherErrors = "ERRORSTATS_OVERFLOW";

// Scripts make up codes. In a line of INFO each is a name: '_' stands for what is not printable,
// and for ':' and '#', which mean something there.
inline std::string ErrorNameOf(std::string_view code) {
  std::string name(code);
  for (char& c : name) {
    if (c < '!' || c > '~' || c == '#' || c == ':') c = '_';
  }
  return name;
}

// Counts `count` errors in a map from names to counts, which gets at most `names_max` names, and
// kOtherErrors.
template <typename Map>
void AddErrors(const std::string& name, uint64_t count, size_t names_max, Map* errors) {
  if (const auto it = errors->find(name); it != errors->end()) {
    it->second += count;
    return;
  }
  const std::string others(kOtherErrors);
  const size_t names = errors->size() - errors->count(others);
  (*errors)[names < names_max ? name : others] += count;
}

}  // namespace dfly
