// SPDX-License-Identifier: Apache-2.0
#include "core/text/packed_entry.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/text/numbers.h"

namespace dfly {

using namespace packed;  // NOLINT: this file's own

namespace {

void WriteLittle(uint64_t value, size_t bytes, char* at) {
  for (size_t i = 0; i < bytes; ++i, value >>= 8) at[i] = static_cast<char>(value);
}

// Bytes that hold `number` with its sign, 2 at least.
size_t BytesOf(int64_t number) {
  const uint64_t magnitude = static_cast<uint64_t>(number < 0 ? ~number : number);
  const int bits = 65 - (magnitude == 0 ? 64 : __builtin_clzll(magnitude));
  return std::max<size_t>(2, static_cast<size_t>(bits + 7) / 8);
}

}  // namespace

PackedText::PackedText(std::string_view text) {
  if (const std::optional<int64_t> number = ParseInt64(text)) {
    SetNumber(*number);
  } else {
    SetBytes(text);
  }
}

void PackedText::SetBytes(std::string_view text) {
  body_ = text;
  if (text.size() < kSmallInt) {
    head_[0] = static_cast<char>(text.size());
    head_bytes_ = 1;
  } else if (text.size() < 1 << 13) {
    head_[0] = static_cast<char>(kMediumText | text.size() >> 8);
    head_[1] = static_cast<char>(text.size());
    head_bytes_ = 2;
  } else {
    head_[0] = static_cast<char>(kLargeText);
    WriteLittle(text.size(), 4, head_ + 1);
    head_bytes_ = 5;
  }
  const size_t content = head_bytes_ + body_.size();
  entry_bytes_ = content + SizeBytes(content);
}

void PackedText::SetNumber(int64_t number) {
  if (number >= 0 && number < 64) {
    head_[0] = static_cast<char>(kSmallInt | number);
    head_bytes_ = 1;
  } else if (number >= -kMediumIntBias && number < (1 << 14) - kMediumIntBias) {
    const auto biased = static_cast<uint64_t>(number + kMediumIntBias);
    head_[0] = static_cast<char>(kMediumInt | biased >> 8);
    head_[1] = static_cast<char>(biased);
    head_bytes_ = 2;
  } else {
    const size_t bytes = BytesOf(number);
    head_[0] = static_cast<char>(kLargeInt | bytes);
    WriteLittle(static_cast<uint64_t>(number), bytes, head_ + 1);
    head_bytes_ = static_cast<uint8_t>(1 + bytes);
  }
  entry_bytes_ = head_bytes_ + SizeBytes(head_bytes_);
}

bool PackedText::IsAt(const char* entry) const {
  // The first byte decides how many there are.
  if (*entry != head_[0] || std::memcmp(entry, head_, head_bytes_) != 0) return false;
  return body_.empty() || std::memcmp(entry + head_bytes_, body_.data(), body_.size()) == 0;
}

void PackedText::Write(char* entry) const {
  WriteContent(entry);
  WriteSize(content_bytes(), entry + content_bytes());
}

void PackedText::WriteContent(char* entry) const {
  std::memcpy(entry, head_, head_bytes_);
  if (!body_.empty()) std::memcpy(entry + head_bytes_, body_.data(), body_.size());
}

void PackedElement::Read(const char* entry) {
  const uint8_t first = Byte(entry);
  if (first < kMediumInt) {
    number_ = first & 63;
  } else if (first < kMediumText) {
    number_ = ((int64_t{first} & 63) << 8 | Byte(entry + 1)) - kMediumIntBias;
  } else if (first >= kLargeInt && first < kLargeText) {
    const size_t bytes = first & 15;
    const int unused = static_cast<int>(64 - 8 * bytes);
    number_ = static_cast<int64_t>(ReadLittle(entry + 1, bytes) << unused) >> unused;
  } else {
    const Extent extent = ExtentAt(entry);
    text_ = entry + extent.head;
    size_ = extent.body;
  }
}

std::string_view PackedElement::Digits(char* scratch) const {
  const char* end = std::to_chars(scratch, scratch + kScratchSize, number_).ptr;
  return {scratch, static_cast<size_t>(end - scratch)};
}

std::string PackedElement::ToString() const {
  char scratch[kScratchSize];
  return std::string(View(scratch));
}

std::optional<int64_t> PackedElement::TryInt() const {
  if (text_ == nullptr) return number_;
  return std::nullopt;
}

}  // namespace dfly
