// SPDX-License-Identifier: Apache-2.0
#include "core/types/field_names.h"

#include <memory>

namespace dfly {

constinit std::array<std::atomic<FieldNames*>, FieldNames::kNumbers> FieldNames::by_number = {};

FieldNames* FieldNames::Make(PackedBlock block, uint64_t fingerprint) {
  auto names = std::make_unique<FieldNames>(block, fingerprint);
  // The smallest number that is free: small ones are short in the blocks of hashes.
  for (size_t number = 0; number < kNumbers; ++number) {
    FieldNames* nobody = nullptr;
    names->number_ = static_cast<int64_t>(number);
    if (by_number[number].load(std::memory_order_relaxed) == nullptr &&
        by_number[number].compare_exchange_strong(nobody, names.get(), std::memory_order_relaxed)) {
      return names.release();
    }
  }
  return nullptr;
}

void FieldNames::Free() {
  by_number[static_cast<size_t>(number_)].store(nullptr, std::memory_order_relaxed);
  PackedBlock(block_).Free();
  delete this;
}

std::optional<size_t> FieldNames::IndexOf(const PackedText& name) const {
  size_t index = 0;
  for (auto at = block_.begin(); at != block_.end(); at = PackedBlock::Next(at), ++index) {
    if (name.IsAt(at)) return index;
  }
  return std::nullopt;
}

bool SeenHashes::Count(uint64_t hash) {
  // The lowest bits of a product depend on few bits of its factors.
  Row& row = rows_[(hash >> 32) % rows_.size()];
  const auto tag = static_cast<uint32_t>(hash >> 40);
  Seen* rarest = row.data();
  for (Seen& seen : row) {
    if (seen.tag == tag && seen.count > 0) {
      if (seen.count < kOften) ++seen.count;
      return seen.count == kOften;
    }
    if (seen.count < rarest->count) rarest = &seen;
  }
  // What does not come any more gives its place away.
  if (rarest->count > 0) --rarest->count;
  if (rarest->count == 0) *rarest = {.tag = tag, .count = 1};
  return false;
}

CommonNames& CommonNames::Here() {
  static thread_local CommonNames names;
  return names;
}

CommonNames::~CommonNames() {
  for (const auto& [fingerprint, names] : lists_) names->Unref();
}

FieldNames* CommonNames::Add(PackedBlock block, uint64_t fingerprint) {
  if (lists_.size() == kListsMax) DropUnused();
  const bool has_room = lists_.size() < kListsMax && !lists_.contains(fingerprint);
  FieldNames* const names = has_room ? FieldNames::Make(block, fingerprint) : nullptr;
  if (names == nullptr) {
    block.Free();
    return nullptr;
  }
  lists_.emplace(fingerprint, names);
  return names;
}

void CommonNames::DropUnused() {
  // A list with one reference is in no hash, and only this thread could give it to one.
  absl::erase_if(lists_, [](const auto& item) {
    FieldNames* const names = item.second;
    if (names->references_.load(std::memory_order_acquire) != 1) return false;
    names->Unref();
    return true;
  });
}

}  // namespace dfly
