// SPDX-License-Identifier: Apache-2.0
// The keys of a command, each once.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include "core/text/hash.h"

namespace dfly {

// Calls visit(key) for each key where it comes first. A client may send very many, and choose them:
// the time is linear, by the process' secret hash. A few take no memory.
template <typename Visit, typename Equal = std::equal_to<std::string_view>>
void ForEachDistinct(std::span<const std::string_view> keys, Visit visit, Equal equal = {}) {
  constexpr size_t kFew = 8;
  if (keys.size() <= kFew) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto before = keys.first(i);
      const bool is_known = std::any_of(before.begin(), before.end(), [&](std::string_view other) {
        return equal(other, keys[i]);
      });
      if (!is_known) visit(keys[i]);
    }
    return;
  }
  struct Hash {
    size_t operator()(std::string_view key) const { return HashKey(key); }
  };
  absl::flat_hash_set<std::string_view, Hash, Equal> known(0, Hash(), equal);
  for (std::string_view key : keys) {
    if (known.insert(key).second) visit(key);
  }
}

}  // namespace dfly
