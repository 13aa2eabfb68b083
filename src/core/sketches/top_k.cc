// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/table/compact_value.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"

namespace dfly {

void TopK::RegisterType() {
  RegisterObjectType(
      ValueType::kTopK,
      {.destroy = [](void* object, uint8_t) { delete static_cast<TopK*>(object); },
       .bytes = [](const void* object,
                   uint8_t) { return static_cast<const TopK*>(object)->bytes(); },
       .is_empty = [](const void*, uint8_t) { return false; },
       .clone = [](const void* object, uint8_t) -> void* {
         return static_cast<const TopK*>(object)->Clone();
       },
       .encoding_name = [](const void*, uint8_t) -> std::string_view { return "raw"; }});
}

bool TopK::Options::IsPossible(size_t bytes_max) const {
  if (k == 0 || width == 0 || depth == 0 || k > kListMax) return false;
  const size_t list_bytes = k * (sizeof(Entry) + sizeof(uint64_t) + sizeof(uint32_t));
  return list_bytes <= bytes_max && width <= (bytes_max - list_bytes) / sizeof(Bucket) / depth;
}

TopK::TopK(const Options& options, uint64_t seed)
    : options_(options),
      chance_(seed),
      buckets_(static_cast<Bucket*>(AllocZeroed(options.width * options.depth * sizeof(Bucket)))),
      list_(CountingAllocator<Entry>(&heap_bytes_)),
      hashes_(CountingAllocator<uint64_t>(&heap_bytes_)),
      counts_(CountingAllocator<uint32_t>(&heap_bytes_)) {}

TopK::~TopK() {
  for (const Entry& entry : list_) Free(entry.bytes);
  Free(buckets_);
}

TopK* TopK::Clone() const {
  auto copy = std::make_unique<TopK>(options_);
  copy->chance_ = chance_;
  std::memcpy(copy->buckets_, buckets_, options_.width * options_.depth * sizeof(Bucket));
  for (const Entry& entry : list_) copy->list_.push_back(copy->MakeEntry(entry.item()));
  copy->hashes_.assign(hashes_.begin(), hashes_.end());
  copy->counts_.assign(counts_.begin(), counts_.end());
  return copy.release();
}

// --- Buckets ---

double TopK::NextChance() {
  return static_cast<double>((helio::SplitMix64(&chance_) >> 11) + 1) * 0x1.0p-53;
}

// How many chances pass until one is taken is distributed geometrically, so it is drawn at once,
// and the work depends on what is lost, not on `times`.
uint32_t TopK::Decay(Bucket* bucket, uint32_t times) {
  while (bucket->count > 0 && times > 0) {
    const double probability = std::pow(options_.decay, bucket->count);
    double passed = 0;
    if (probability < 1) {
      passed = std::floor(std::log(NextChance()) / std::log1p(-probability));
    }
    // Not less, either, if the probability is 0 and nothing is ever lost.
    if (!(passed < times)) return 0;
    times -= static_cast<uint32_t>(passed) + 1;
    --bucket->count;
  }
  return times;
}

// --- The list ---

size_t TopK::Find(std::string_view item, const ItemHash& hash) const {
  for (auto at = hashes_.begin();; ++at) {
    at = std::find(at, hashes_.end(), hash.first);
    const auto index = static_cast<size_t>(at - hashes_.begin());
    if (at == hashes_.end() || list_[index].item() == item) return index;
  }
}

TopK::Entry TopK::MakeEntry(std::string_view item) {
  Entry entry = {.bytes = nullptr, .size = item.size()};
  if (!item.empty()) {
    entry.bytes = static_cast<char*>(Alloc(item.size()));
    std::memcpy(entry.bytes, item.data(), item.size());
    heap_bytes_ += UsableSize(entry.bytes);
  }
  return entry;
}

void TopK::FreeEntry(const Entry& entry) {
  heap_bytes_ -= UsableSize(entry.bytes);
  Free(entry.bytes);
}

std::optional<std::string> TopK::Add(std::string_view item, uint32_t count) {
  DCHECK_LE(count, kIncrementMax);
  if (count == 0) return std::nullopt;
  const ItemHash hash = HashItem(item);
  const uint32_t fingerprint = FingerprintOf(hash);
  uint32_t largest = 0;
  for (uint64_t row = 0; row < options_.depth; ++row) {
    Bucket& bucket = BucketOf(hash, row);
    uint32_t more = count;
    if (bucket.count > 0 && bucket.fingerprint != fingerprint) {
      more = Decay(&bucket, count);
      if (bucket.count > 0) continue;
      // The chance that freed the bucket is the item's first one there.
      ++more;
    }
    bucket.fingerprint = fingerprint;
    bucket.count += std::min(more, UINT32_MAX - bucket.count);
    largest = std::max(largest, bucket.count);
  }
  const size_t at = Find(item, hash);
  if (at < list_.size()) {
    counts_[at] = std::max(counts_[at], largest);
    return std::nullopt;
  }
  if (largest == 0 || AppendToList(item, largest)) return std::nullopt;
  const auto smallest = std::min_element(counts_.begin(), counts_.end());
  if (largest <= *smallest) return std::nullopt;
  const auto index = static_cast<size_t>(smallest - counts_.begin());
  std::string expelled(list_[index].item());
  FreeEntry(list_[index]);
  list_[index] = MakeEntry(item);
  hashes_[index] = hash.first;
  counts_[index] = largest;
  return expelled;
}

bool TopK::AppendToList(std::string_view item, uint32_t count) {
  if (list_.size() >= options_.k) return false;
  list_.push_back(MakeEntry(item));
  hashes_.push_back(HashItem(item).first);
  counts_.push_back(count);
  return true;
}

bool TopK::HasDuplicates() const {
  std::vector<std::pair<uint64_t, std::string_view>> items;
  items.reserve(list_.size());
  for (size_t i = 0; i < list_.size(); ++i) items.emplace_back(hashes_[i], list_[i].item());
  std::sort(items.begin(), items.end());
  return std::adjacent_find(items.begin(), items.end()) != items.end();
}

uint32_t TopK::CountOf(std::string_view item) const {
  const ItemHash hash = HashItem(item);
  const size_t at = Find(item, hash);
  uint32_t largest = at < list_.size() ? counts_[at] : 0;
  for (uint64_t row = 0; row < options_.depth; ++row) {
    const Bucket& bucket = BucketOf(hash, row);
    if (bucket.count > 0 && bucket.fingerprint == FingerprintOf(hash)) {
      largest = std::max(largest, bucket.count);
    }
  }
  return largest;
}

std::vector<TopK::Listed> TopK::List() const {
  std::vector<Listed> list;
  list.reserve(list_.size());
  for (size_t i = 0; i < list_.size(); ++i) {
    list.push_back({.item = list_[i].item(), .count = counts_[i]});
  }
  std::sort(list.begin(), list.end(), [](const Listed& left, const Listed& right) {
    return left.count != right.count ? left.count > right.count : left.item < right.item;
  });
  return list;
}

}  // namespace dfly
