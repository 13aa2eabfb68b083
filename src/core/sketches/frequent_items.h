// SPDX-License-Identifier: Apache-2.0
// The most frequent ones of very many texts, in bounded memory: Misra and Gries' counters with the
// decrement done for many at once, as in Anderson et al., "A High-Performance Algorithm for
// Identifying Frequent Items in Data Streams" (2017).
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dfly {

// Owner: one thread at a time. Suspends: never.
// What was added more often than total() / (capacity / 2) is known; each count is at most error()
// too low.
class FrequentItems {
 public:
  struct Item {
    std::string text;
    uint64_t count;
  };

  explicit FrequentItems(size_t capacity) : capacity_(std::max<size_t>(capacity, 2)) {}

  void Add(std::string_view text, uint64_t count = 1) {
    total_ += count;
    const auto it = counts_.find(text);
    if (it != counts_.end()) {
      it->second += count;
      return;
    }
    if (counts_.size() >= capacity_) Prune();
    counts_.try_emplace(std::string(text), count);
  }

  void Merge(const FrequentItems& other) {
    const uint64_t total = total_ + other.total_;
    for (const auto& [text, count] : other.counts_) Add(text, count);
    total_ = total;
    error_ += other.error_;
  }

  // The most frequent ones first, those of equal count by their texts.
  std::vector<Item> Top(size_t count) const {
    std::vector<Item> items;
    items.reserve(counts_.size());
    for (const auto& [text, seen] : counts_) items.push_back({text, seen});
    const size_t kept = std::min(count, items.size());
    std::partial_sort(items.begin(), items.begin() + static_cast<ptrdiff_t>(kept), items.end(),
                      [](const Item& a, const Item& b) {
                        return a.count != b.count ? a.count > b.count : a.text < b.text;
                      });
    items.resize(kept);
    return items;
  }

  uint64_t total() const { return total_; }
  uint64_t error() const { return error_; }
  size_t size() const { return counts_.size(); }

 private:
  // Takes the median off all counts; a half of them is gone then.
  void Prune() {
    std::vector<uint64_t> counts;
    counts.reserve(counts_.size());
    for (const auto& [text, count] : counts_) counts.push_back(count);
    const auto middle = counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2);
    std::nth_element(counts.begin(), middle, counts.end());
    const uint64_t median = *middle;
    error_ += median;
    absl::erase_if(counts_, [median](auto& item) {
      item.second -= std::min(item.second, median);
      return item.second == 0;
    });
  }

  // absl's own takes no std::string_view here.
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  const size_t capacity_;
  absl::flat_hash_map<std::string, uint64_t, Hash, std::equal_to<>> counts_;
  uint64_t total_ = 0;
  uint64_t error_ = 0;
};

}  // namespace dfly
