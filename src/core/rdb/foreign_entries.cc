// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/foreign_entries.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/text/numbers.h"
#include "core/text/packed_entry.h"

namespace dfly {

namespace {

constexpr uint8_t kEnd = 0xFF;
constexpr size_t kListpackHeader = 6;
constexpr size_t kZiplistHeader = 10;
constexpr size_t kCountUnknown = 65535;

uint64_t Little(std::string_view bytes) { return packed::ReadLittle(bytes.data(), bytes.size()); }

// What stands before or behind a text.
class Frame {
 public:
  void Push(uint64_t byte) { bytes_[size_++] = static_cast<char>(byte); }
  void PushLittle(uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) Push(number >> (8 * i));
  }
  size_t size() const { return size_; }
  operator std::string_view() const { return {bytes_, size_}; }  // NOLINT: it is bytes
  // Returns the end. REQUIRES: room for kRoom bytes, which is quicker than to count them.
  char* WriteTo(char* to) const {
    std::memcpy(to, bytes_, kRoom);
    return to + size_;
  }
  static constexpr size_t kRoom = 16;

 private:
  char bytes_[kRoom] = {};
  size_t size_ = 0;
};

int64_t SignExtended(uint64_t number, size_t bits) {
  return static_cast<int64_t>(number << (64 - bits)) >> (64 - bits);
}

Frame IntegerHead(int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  Frame head;
  if (number >= 0 && number <= 127) {
    head.Push(bits);
  } else if (number >= -4096 && number <= 4095) {
    head.Push(0xC0 | (bits >> 8 & 31));
    head.Push(bits & 0xFF);
  } else {
    constexpr size_t kBytes[] = {2, 3, 4, 8};
    size_t i = 0;
    while (i < 3 && SignExtended(bits, 8 * kBytes[i]) != number) ++i;
    head.Push(0xF1 + i);
    head.PushLittle(bits, kBytes[i]);
  }
  return head;
}

Frame TextHead(size_t size) {
  Frame head;
  if (size < 64) {
    head.Push(0x80 | size);
  } else if (size < 4096) {
    head.Push(0xE0 | size >> 8);
    head.Push(size & 0xFF);
  } else {
    head.Push(0xF0);
    head.PushLittle(size, 4);
  }
  return head;
}

// Seven bits in each byte, as in our own blocks, but a little sooner one byte more.
Frame SizeBehind(size_t content) {
  size_t bytes = 1;
  if (content > 127) bytes = content < 16383 ? 2 : content < 2097151 ? 3 : 4;
  if (content >= 268435455) bytes = 5;
  Frame size;
  for (size_t i = 0; i < bytes; ++i) {
    size.Push((content >> (7 * (bytes - 1 - i)) & 127) | (i > 0 ? 128 : 0));
  }
  return size;
}

}  // namespace

ForeignEntries::ForeignEntries(Kind kind, std::string_view block) : kind_(kind) {
  const size_t header = kind == Kind::kListpack ? kListpackHeader : kZiplistHeader;
  is_sound_ = block.size() > header && static_cast<uint8_t>(block.back()) == kEnd &&
              Little(block.substr(0, 4)) == block.size();
  if (!is_sound_) return;
  count_ = Little(block.substr(header - 2, 2));
  left_ = block.substr(header, block.size() - header - 1);
}

std::optional<std::string_view> ForeignEntries::Fail() {
  is_sound_ = false;
  return std::nullopt;
}

std::optional<std::string_view> ForeignEntries::Take(size_t count) {
  if (count > left_.size()) return std::nullopt;
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

std::string_view ForeignEntries::Digits(int64_t number) {
  char* const digits = digits_[uses_second_];
  uses_second_ = !uses_second_;
  return {digits,
          static_cast<size_t>(std::to_chars(digits, digits + kDigitsMax, number).ptr - digits)};
}

std::optional<std::string_view> ForeignEntries::TakeInteger(size_t bytes) {
  const auto number = Take(bytes);
  if (!number) return std::nullopt;
  return Digits(SignExtended(Little(*number), 8 * bytes));
}

std::optional<std::string_view> ForeignEntries::Next() {
  if (!is_sound_) return std::nullopt;
  if (left_.empty()) {
    if (count_ != kCountUnknown && count_ != seen_) is_sound_ = false;
    return std::nullopt;
  }
  ++seen_;
  const auto text = kind_ == Kind::kListpack ? NextOfListpack() : NextOfZiplist();
  return text ? text : Fail();
}

std::optional<std::string_view> ForeignEntries::NextOfListpack() {
  const std::string_view entry = left_;
  const auto head = static_cast<uint8_t>((*Take(1))[0]);
  std::optional<std::string_view> text;
  if (head < 0x80) {
    text = Digits(head);
  } else if (head < 0xC0) {
    text = Take(head & 63u);
  } else if (head < 0xF0) {
    const auto second = Take(1);
    if (!second) return std::nullopt;
    const uint64_t number = (head & (head < 0xE0 ? 31u : 15u)) << 8 | Little(*second);
    text = head < 0xE0 ? Digits(SignExtended(number, 13)) : Take(number);
  } else if (head == 0xF0) {
    const auto size = Take(4);
    if (size) text = Take(Little(*size));
  } else if (head <= 0xF4) {
    constexpr size_t kBytes[] = {2, 3, 4, 8};
    text = TakeInteger(kBytes[head - 0xF1]);
  }
  if (!text) return std::nullopt;
  const Frame behind = SizeBehind(entry.size() - left_.size());
  return Take(behind.size()) == std::string_view(behind) ? text : std::nullopt;
}

std::optional<std::string_view> ForeignEntries::NextOfZiplist() {
  const std::string_view entry = left_;
  auto before = Take(1);
  if (static_cast<uint8_t>((*before)[0]) == 254) before = Take(4);
  if (!before || Little(*before) != previous_bytes_) return std::nullopt;
  const auto head_byte = Take(1);
  if (!head_byte) return std::nullopt;
  const auto head = static_cast<uint8_t>((*head_byte)[0]);
  std::optional<std::string_view> text;
  if (head < 0x40) {
    text = Take(head);
  } else if (head < 0x80) {
    const auto second = Take(1);
    if (second) text = Take((head & 63u) << 8 | Little(*second));
  } else if (head == 0x80) {
    if (const auto size = Take(4)) {
      text = Take(__builtin_bswap32(static_cast<uint32_t>(Little(*size))));
    }
  } else if (head == 0xC0) {
    text = TakeInteger(2);
  } else if (head == 0xD0) {
    text = TakeInteger(4);
  } else if (head == 0xE0) {
    text = TakeInteger(8);
  } else if (head == 0xF0) {
    text = TakeInteger(3);
  } else if (head == 0xFE) {
    text = TakeInteger(1);
  } else if (head >= 0xF1 && head <= 0xFD) {
    text = Digits(head - 0xF1);
  }
  previous_bytes_ = entry.size() - left_.size();
  return text;
}

// --- Writing ---

void ListpackWriter::Clear() {
  used_ = kListpackHeader;
  entries_ = 0;
}

char* ListpackWriter::Room(size_t bytes) {
  if (used_ + bytes > capacity_) [[unlikely]] {
    capacity_ = std::max({kCapacityMin, 2 * capacity_, used_ + bytes});
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    if (block_ != nullptr) std::memcpy(larger.get(), block_.get(), used_);
    block_ = std::move(larger);
  }
  return block_.get() + used_;
}

void ListpackWriter::Append(std::string_view text) {
  if (const std::optional<int64_t> number = ParseInt64(text)) return Append(*number);
  AppendText(text);
}

void ListpackWriter::AppendText(std::string_view text) {
  const Frame head = TextHead(text.size());
  const Frame behind = SizeBehind(head.size() + text.size());
  char* const at = Room(text.size() + 2 * Frame::kRoom);
  char* const body = head.WriteTo(at);
  text.copy(body, text.size());
  used_ += static_cast<size_t>(behind.WriteTo(body + text.size()) - at);
  ++entries_;
}

void ListpackWriter::Append(const PackedElement& element) {
  if (const std::optional<int64_t> number = element.TryInt()) return Append(*number);
  char scratch[PackedElement::kScratchSize];
  AppendText(element.View(scratch));
}

void ListpackWriter::Append(int64_t number) {
  const Frame head = IntegerHead(number);
  char* const at = Room(2 * Frame::kRoom);
  used_ += static_cast<size_t>(SizeBehind(head.size()).WriteTo(head.WriteTo(at)) - at);
  ++entries_;
}

std::string_view ListpackWriter::Finish() {
  Frame header;
  header.PushLittle(bytes(), 4);
  header.PushLittle(std::min(entries_, kCountUnknown), 2);
  *Room(1) = static_cast<char>(kEnd);
  std::memcpy(block_.get(), std::string_view(header).data(), kListpackHeader);
  return {block_.get(), used_ + 1};
}

void ListpackSizer::Append(int64_t number) {
  const size_t head = IntegerHead(number).size();
  bytes_ += head + SizeBehind(head).size();
  ++entries_;
}

void ListpackSizer::AppendText(std::string_view text) {
  const size_t content = TextHead(text.size()).size() + text.size();
  bytes_ += content + SizeBehind(content).size();
  ++entries_;
}

ListpackWriter::Wrapping ListpackWriter::WrappingOf(std::string_view text) {
  const Frame head = TextHead(text.size());
  const Frame size = SizeBehind(head.size() + text.size());
  Frame header;
  header.PushLittle(kListpackHeader + head.size() + text.size() + size.size() + 1, 4);
  header.PushLittle(1, 2);
  Wrapping wrapping;
  wrapping.before.append(header).append(head);
  wrapping.behind.append(size).push_back(static_cast<char>(kEnd));
  return wrapping;
}

}  // namespace dfly
