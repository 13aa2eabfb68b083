// SPDX-License-Identifier: Apache-2.0
#include "core/table/compact_key.h"

#include <charconv>
#include <optional>

#include "core/text/ascii_pack.h"
#include "core/text/hash.h"
#include "core/text/numbers.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080ULL;
constexpr size_t kAsciiMax = 17;
constexpr size_t kDigitsMax = 20;  // of an int64 with its sign

void Store(char* at, uint64_t word) { std::memcpy(at, &word, 8); }

}  // namespace

void KeyProbe::EncodeLong() {
  const size_t size = key_.size();
  if (size <= kAsciiMax) {
    uint64_t first = LoadWord(key_.data());
    uint64_t second = LoadWord(key_.data() + 8);
    uint64_t last = size == 17 ? static_cast<uint8_t>(key_[16]) : 0;
    if (((first | second | last) & kHighBits) == 0) {
      uint64_t a = Pack8(first);
      uint64_t b = Pack8(second);
      uint64_t kind = size == 16 ? CompactKey::kAscii16 : CompactKey::kAscii17;
      low_ = a | (b << 56);
      high_ = (b >> 8) | (last << 48) | (kind << 56);
      return;
    }
  }
  if (size > kAsciiMax && size <= kDigitsMax) {
    if (const std::optional<int64_t> number = ParseInt64(key_)) {
      low_ = static_cast<uint64_t>(*number);
      high_ = static_cast<uint64_t>(CompactKey::kNumber) << 56;
      return;
    }
  }
  low_ = 0;
  high_ = static_cast<uint32_t>(size) | (((hash_ >> 32) & 0xFFFFFF) << 32) |
          (static_cast<uint64_t>(CompactKey::kHeap) << 56);
}

CompactKey::CompactKey(const KeyProbe& probe) : CompactKeyRef(probe.low_, probe.high_) {
  if (is_heap()) {
    DCHECK_LE(probe.key_.size(), UINT32_MAX);
    void* block = Alloc(probe.key_.size());
    std::memcpy(block, probe.key_.data(), probe.key_.size());
    low_ = reinterpret_cast<uint64_t>(block);
  }
}

size_t CompactKeyRef::size() const {
  switch (kind()) {
    case kRaw:
      return (high_ >> 48) & 0xFF;
    case kRaw15:
      return 15;
    case kAscii16:
      return 16;
    case kAscii17:
      return 17;
    case kNumber: {
      char scratch[kScratchSize];
      return View(scratch).size();
    }
    default:
      return static_cast<uint32_t>(high_);
  }
}

std::string_view CompactKeyRef::View(char* scratch) const {
  switch (kind()) {
    case kRaw:
    case kRaw15:
      return {reinterpret_cast<const char*>(this), size()};
    case kAscii16:
    case kAscii17:
      Store(scratch, Unpack8(low_ & 0x00FFFFFFFFFFFFFFULL));
      Store(scratch + 8, Unpack8((low_ >> 56) | ((high_ & 0x0000FFFFFFFFFFFFULL) << 8)));
      scratch[16] = static_cast<char>((high_ >> 48) & 0x7F);
      return {scratch, size()};
    case kNumber: {
      const char* const end =
          std::to_chars(scratch, scratch + kScratchSize, static_cast<int64_t>(low_)).ptr;
      return {scratch, static_cast<size_t>(end - scratch)};
    }
    default:
      return {heap(), size()};
  }
}

std::string CompactKeyRef::ToString() const {
  char scratch[kScratchSize];
  return std::string(View(scratch));
}

uint64_t CompactKey::Hash() const {
  char scratch[kScratchSize];
  return HashKey(View(scratch));
}

void CompactText::Set(std::string_view text) {
  const KeyProbe probe(text, 0);
  if (is_heap() && (probe.high_ >> 56) == kHeap) {
    const size_t capacity = UsableSize(heap());
    if (text.size() <= capacity && capacity - text.size() <= text.size() / 8) {
      std::memcpy(heap(), text.data(), text.size());
      high_ = probe.high_;
      return;
    }
  }
  CompactKey::operator=(CompactKey(probe));
}

CompactText CompactText::Clone() const {
  char scratch[kScratchSize];
  CompactText copy;
  copy.Set(View(scratch));
  return copy;
}

}  // namespace dfly
