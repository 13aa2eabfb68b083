// SPDX-License-Identifier: Apache-2.0
// Lists of field names that many small hashes have in common: records such as users or jobs. Each
// such hash keeps the number of its list, and its values alone (HashValue::kShared). The idea is
// that of the "hidden classes" of Self and of JavaScript engines (Chambers, Ungar, Lee, OOPSLA
// 1989).
//
// Each thread has the lists of the hashes that were made on it. A hash may get to another thread:
// numbers are good in the whole process, and a list lives as long as a hash refers to it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "core/table/packed_block.h"
#include "core/text/hash.h"

namespace dfly {

// One list; it never changes. The names are in the order in which the hashes got them.
//
// Thread: any that has a hash that refers to it.
class FieldNames {
 public:
  // Of longer lists the names are a small part of the memory, or each hash has its own.
  static constexpr size_t kNamesMax = 64;
  static constexpr size_t kBytesMax = 1024;  // of all names, as they are in a block

  // Takes the block over, and has one reference; for CommonNames.
  FieldNames(PackedBlock block, uint64_t fingerprint) : block_(block), fingerprint_(fingerprint) {}

  // REQUIRES: a reference to the list with this number.
  static FieldNames& Of(int64_t number) {
    return *by_number[static_cast<size_t>(number)].load(std::memory_order_relaxed);
  }

  int64_t number() const { return number_; }
  PackedBlock block() const { return block_; }
  size_t size() const { return block_.entries(); }
  uint64_t fingerprint() const { return fingerprint_; }
  std::optional<size_t> IndexOf(const PackedText& name) const;

  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  // The last one frees it.
  void Unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Free();
  }

 private:
  friend class CommonNames;
  static constexpr size_t kNumbers = 1 << 15;  // what an entry of four bytes can name

  // Null: all numbers are taken.
  static FieldNames* Make(PackedBlock block, uint64_t fingerprint);
  void Free();

  static std::array<std::atomic<FieldNames*>, kNumbers> by_number;

  const PackedBlock block_;
  const uint64_t fingerprint_;
  int64_t number_ = 0;
  std::atomic<uint32_t> references_ = 1;
};

// Which hashes have come often of late.
//
// Owner:    the thread.
// Suspends: never.
class SeenHashes {
 public:
  static constexpr uint8_t kOften = 16;
  // Counts one. True once it has come kOften times, and others of its row not too often since.
  bool Count(uint64_t hash);

 private:
  struct Seen {
    uint32_t tag = 0;
    uint8_t count = 0;
  };
  using Row = std::array<Seen, 4>;
  std::array<Row, 256> rows_;
};

// The lists of this thread, and how often it has seen others.
//
// Owner:    the thread.
// Suspends: never.
class CommonNames {
 public:
  static constexpr size_t kListsMax = 256;

  static CommonNames& Here();
  CommonNames() = default;
  CommonNames(const CommonNames&) = delete;
  CommonNames& operator=(const CommonNames&) = delete;
  ~CommonNames();

  // A fingerprint of names is folded from the first one to the last one. Most names are short, and
  // those who have the same fingerprint are compared, so this need not be as good as HashKey.
  static uint64_t Fold(uint64_t fingerprint, std::string_view name) {
    const uint64_t bits = name.size() > 16 ? HashKey(name) : BitsOf(name);
    return (std::rotl(fingerprint, 23) ^ bits ^ name.size()) * kOdd;
  }

  // Whether many hashes had `name` as the last one of `count`; counts this one. A hash whose names
  // are its own mostly ends here, at the cost of one look.
  bool IsCommonEnd(std::string_view name, size_t count) { return ends_->Count(Fold(count, name)); }
  // The list of this fingerprint for which is_equal(const FieldNames&), or null.
  template <typename IsEqual>
  FieldNames* Find(uint64_t fingerprint, IsEqual&& is_equal) const {
    const auto it = lists_.find(fingerprint);
    return it != lists_.end() && is_equal(*it->second) ? it->second : nullptr;
  }
  // REQUIRES: none was found. Whether a list should be made of them; counts them.
  bool IsWorthAList(uint64_t fingerprint) { return seen_->Count(fingerprint); }
  // Takes the block over. Null: there are kListsMax already, all of them in use, or another one
  // has this fingerprint.
  FieldNames* Add(PackedBlock block, uint64_t fingerprint);

  size_t lists() const { return lists_.size(); }

 private:
  static constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // of Fibonacci hashing (Knuth)

  // All bytes of a name of up to 16.
  static uint64_t BitsOf(std::string_view name) {
    const char* const end = name.data() + name.size();
    if (name.size() >= 8) return Load<uint64_t>(name.data()) ^ Load<uint64_t>(end - 8) * kOdd;
    if (name.size() >= 4) return Load<uint32_t>(name.data()) ^ Load<uint32_t>(end - 4) * kOdd;
    uint64_t bits = 0;
    for (const char c : name) bits = bits << 8 | static_cast<uint8_t>(c);
    return bits;
  }
  template <typename Word>
  static uint64_t Load(const char* from) {
    Word word;
    std::memcpy(&word, from, sizeof(word));
    return word;
  }
  void DropUnused();

  const std::unique_ptr<SeenHashes> ends_ = std::make_unique<SeenHashes>();
  const std::unique_ptr<SeenHashes> seen_ = std::make_unique<SeenHashes>();
  absl::flat_hash_map<uint64_t, FieldNames*> lists_;  // by their fingerprints
};

}  // namespace dfly
