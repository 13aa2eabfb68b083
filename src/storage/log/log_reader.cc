// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/text/crc32c.h"
#include "helio/base/ascii.h"
#include "helio/base/logging.h"
#include "storage/append_file.h"

namespace dfly {

namespace {

// "$0\n" and what stands for a line end behind it.
constexpr uint64_t kArgBytesMin = 5;
constexpr size_t kArgsKept = 4096;
constexpr size_t kDigitsMax = 18;
// So many lines that look like an epoch's are compared with what is behind them. A value may be
// full of such lines; comparing all would take for ever.
constexpr size_t kCandidatesMax = 100;
constexpr std::string_view kEpochMark = "#EPOCH:";
// A Redis that starts has no database selected. Valkey 9 selects it inside of a MULTI.
constexpr std::string_view kSelect = "*2\r\n$6\r\nSELECT\r\n";
constexpr std::string_view kMultiSelect = "*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n";

enum class Header : uint8_t { kOk, kNeedMore, kBad };

// Reads "*12\r\n" or "$12\n" at `*p`.
Header ReadHeader(char kind, const char** p, const char* end, uint64_t* number) {
  const char* at = *p;
  if (at == end) return Header::kNeedMore;
  if (*at++ != kind) return Header::kBad;
  uint64_t value = 0;
  const char* const digits = at;
  for (; at != end && *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + static_cast<uint64_t>(*at - '0');
    if (at - digits >= static_cast<ptrdiff_t>(kDigitsMax)) return Header::kBad;
  }
  const bool has_digits = at != digits;
  if (at != end && *at == '\r') ++at;
  if (at == end) return Header::kNeedMore;
  if (*at != '\n' || !has_digits) return Header::kBad;
  *p = at + 1;
  *number = value;
  return Header::kOk;
}

}  // namespace

LogReader::LogReader(std::unique_ptr<InputFile> file, uint64_t begin, size_t window)
    : file_(std::move(file)),
      size_(file_->size()),
      window_size_(window),
      at_(begin),
      position_(begin),
      whole_size_(begin) {
  DCHECK_GE(window, kAnnotationMax);
}

LogReader::Item LogReader::Next() {
  if (at_ < epoch_end_) return NextInEpoch();
  if (at_ == 0 && !TakeFileHeader()) return Item::kDamaged;
  while (true) {
    position_ = at_;
    if (at_ >= size_) {
      return is_multi_open_ ? CutOff("a MULTI has no EXEC") : Item::kEnd;
    }
    if (!Fetch(at_, 1, size_)) return Item::kDamaged;
    const char first = Window(at_, size_).front();
    if (first == '*') return NextBare();
    if (first != '#') return Bad("there is neither a command nor a line that begins with #");
    std::string_view line;
    switch (ReadLine(&line)) {
      case Parsed::kOk:
        break;
      case Parsed::kShort:
        return CutOff("a line is cut off");
      case Parsed::kBad:
        return Bad("a line that begins with # is too long");
      case Parsed::kFailed:
        return Item::kDamaged;
    }
    if (line.starts_with(kEpochMark)) return BeginEpoch(line);
    const auto seconds = ParseTimestamp(line);
    const bool is_filler = IsFiller(line);
    if (is_ours_ && !has_bare_ && !seconds && !is_filler) {
      return Bad("a line that begins with # makes no sense");
    }
    at_ += line.size();
    if (has_bare_ && !is_multi_open_) whole_size_ = at_;
    if (!has_bare_) {
      is_ours_ |= is_filler;
      if (is_filler) filler_end_ = at_;
    }
    if (seconds) {
      timestamp_s_ = *seconds;
      return Item::kTimestamp;
    }
  }
}

bool LogReader::TakeFileHeader() {
  if (size_ == 0) return true;
  if (!Fetch(0, kLogFileHeaderMax, size_)) return false;
  auto header = ParseLogFileHeader(Window(0, size_).substr(0, kLogFileHeaderMax));
  if (!header) return true;
  header_ = std::move(*header);
  is_ours_ = true;
  at_ = whole_size_ = header_.size;
  if (!header_.stream_id.empty()) stream_begin_ = header_.stream_offset;
  return true;
}

LogReader::Item LogReader::NextInEpoch() {
  position_ = at_;
  switch (ParseCommand(epoch_end_)) {
    case Parsed::kOk:
      FollowMulti();
      if (at_ == epoch_end_ && is_multi_open_) {
        return Damaged(fmt::format("epoch {} ends in a MULTI", epoch_.number));
      }
      return Item::kCommand;
    case Parsed::kFailed:
      return Item::kDamaged;
    default:
      return Damaged(fmt::format("epoch {} is whole, and is no commands", epoch_.number));
  }
}

std::string_view LogReader::NextRaw() {
  if (at_ >= epoch_end_) return {};
  if (!Fetch(at_, std::min<uint64_t>(window_size_, epoch_end_ - at_), epoch_end_)) return {};
  const std::string_view bytes = Window(at_, epoch_end_);
  at_ += bytes.size();
  return bytes;
}

LogReader::Item LogReader::NextBare() {
  if (is_ours_ && !has_bare_) {
    const auto is_mixed = MayBeMixed(at_);
    if (!is_mixed) return Item::kDamaged;
    if (!*is_mixed) return Bad("there are commands that are of no epoch");
  }
  switch (ParseCommand(size_)) {
    case Parsed::kOk:
      break;
    case Parsed::kShort:
      has_bare_ = true;
      return CutOff("a command is cut off");
    case Parsed::kBad:
      has_bare_ = true;
      return Bad("this is no command");
    case Parsed::kFailed:
      return Item::kDamaged;
  }
  has_bare_ = true;
  FollowMulti();
  if (!is_multi_open_) whole_size_ = at_;
  return Item::kCommand;
}

void LogReader::FollowMulti() {
  is_in_multi_ = is_multi_open_;
  if (args_.size() != 1) return;
  if (!is_multi_open_) {
    is_multi_open_ = is_in_multi_ = helio::EqualsIgnoreCase(args_[0], "multi");
  } else if (helio::EqualsIgnoreCase(args_[0], "exec")) {
    is_multi_open_ = false;
  }
}

LogReader::Item LogReader::BeginEpoch(std::string_view line) {
  if (has_bare_) return Damaged("there is an epoch behind commands that are of none");
  is_ours_ = true;
  const auto header = ParseEpochHeader(line);
  if (!header) return Bad("the line of an epoch makes no sense");
  const uint64_t begin = at_ + line.size();
  if (header->bytes > size_ - begin) {
    return Bad(fmt::format("epoch {} is cut off", header->number));
  }
  if (!HasGoodContent(begin, *header)) {
    if (!error_.empty()) return Item::kDamaged;
    return Bad(fmt::format("the checksum of epoch {} is wrong", header->number));
  }
  if (has_epochs_ &&
      (header->number <= epoch_.number || header->stream_offset != epoch_.stream_end())) {
    return Damaged(fmt::format("epoch {} begins at {} of the stream, but epoch {} ends at {}",
                               header->number, header->stream_offset, epoch_.number,
                               epoch_.stream_end()));
  }
  has_epochs_ = true;
  filler_end_ = 0;
  epoch_ = *header;
  at_ = begin;
  epoch_end_ = whole_size_ = begin + header->bytes;
  return Item::kEpoch;
}

LogReader::Item LogReader::CutOff(std::string_view what) {
  // The bytes behind a torn epoch's lost ones can look like anything.
  if (is_ours_ && !has_bare_) return Bad(what);
  error_ = fmt::format("offset {}: {}", position_, what);
  return Item::kTorn;
}

LogReader::Item LogReader::Bad(std::string_view what) {
  if (has_bare_) return Damaged(what);
  std::optional<bool> is_torn;
  if (is_ours_) {
    is_torn = WasSynced(at_);
    if (is_torn) *is_torn = !*is_torn;
  } else {
    // The system had lengthened a new file, and did not come to write to it.
    is_torn = IsZeros(at_);
  }
  if (!is_torn) return Item::kDamaged;
  if (!*is_torn) return Damaged(what);
  error_ = fmt::format("offset {}: {}", position_, what);
  return Item::kTorn;
}

LogReader::Item LogReader::Damaged(std::string_view what) {
  error_ = fmt::format("offset {}: {}", position_, what);
  return Item::kDamaged;
}

// ------------------------------------------------------------------------------------- parsing

LogReader::Parsed LogReader::ParseCommand(uint64_t limit) {
  uint64_t needed = 1;
  while (true) {
    if (!Fetch(at_, needed, limit)) return Parsed::kFailed;
    const std::string_view window = Window(at_, limit);
    const bool is_all = window.size() == limit - at_;
    const char* p = window.data();
    const char* const end = p + window.size();
    // What is missing is announced, or is at least one byte; reading twice as much each time keeps
    // the effort of beginning again in bounds.
    needed = 2 * window.size();
    if (args_.capacity() > kArgsKept) args_ = {};
    args_.clear();

    uint64_t count = 0;
    Header header = ReadHeader('*', &p, end, &count);
    if (header == Header::kBad || (header == Header::kOk && count == 0)) return Parsed::kBad;
    if (header == Header::kOk && count > (limit - at_) / kArgBytesMin) return Parsed::kShort;
    for (; header == Header::kOk && count > 0; --count) {
      uint64_t size = 0;
      header = ReadHeader('$', &p, end, &size);
      if (header == Header::kBad) return Parsed::kBad;
      if (header == Header::kNeedMore) break;
      if (static_cast<uint64_t>(end - p) < size + 2) {
        const auto arg_at = static_cast<uint64_t>(p - window.data());
        if (size + 2 > limit - at_ - arg_at) return Parsed::kShort;
        needed = std::max(needed, arg_at + size + 2);
        header = Header::kNeedMore;
        break;
      }
      args_.emplace_back(p, size);
      p += size + 2;  // Redis does not look at the line end either
    }
    if (header == Header::kOk) {
      at_ += static_cast<uint64_t>(p - window.data());
      return Parsed::kOk;
    }
    if (is_all) return Parsed::kShort;
  }
}

LogReader::Parsed LogReader::ReadLine(std::string_view* line) {
  if (!Fetch(at_, kAnnotationMax, size_)) return Parsed::kFailed;
  const std::string_view window = Window(at_, size_).substr(0, kAnnotationMax);
  const size_t end = window.find('\n');
  if (end == std::string_view::npos) {
    return window.size() < kAnnotationMax ? Parsed::kShort : Parsed::kBad;
  }
  *line = window.substr(0, end + 1);
  return Parsed::kOk;
}

// -------------------------------------------------------------------------------------- window

std::string_view LogReader::Window(uint64_t at, uint64_t limit) const {
  DCHECK_GE(at, buffer_begin_);
  const uint64_t end = std::min(limit, buffer_begin_ + buffer_size_);
  if (at >= end) return {};
  return {buffer_.get() + (at - buffer_begin_), static_cast<size_t>(end - at)};
}

bool LogReader::Fetch(uint64_t at, uint64_t count, uint64_t limit) {
  const uint64_t end = at + std::min(count, limit - at);
  if (at >= buffer_begin_ && end <= buffer_begin_ + buffer_size_) return true;
  const auto wanted = static_cast<size_t>(std::max<uint64_t>(end - at, window_size_));
  size_t kept = 0;
  const char* kept_bytes = nullptr;
  if (at >= buffer_begin_ && at < buffer_begin_ + buffer_size_) {
    kept_bytes = buffer_.get() + (at - buffer_begin_);
    kept = static_cast<size_t>(buffer_begin_ + buffer_size_ - at);
  }
  // One that a large command needed goes again.
  if (wanted > capacity_ || (capacity_ > 4 * window_size_ && wanted == window_size_)) {
    const size_t capacity = std::max(wanted, kept);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (kept > 0) std::memcpy(larger.get(), kept_bytes, kept);
    buffer_ = std::move(larger);
    capacity_ = capacity;
  } else if (kept > 0) {
    std::memmove(buffer_.get(), kept_bytes, kept);
  }
  buffer_begin_ = at;
  buffer_size_ = kept;
  const auto more =
      static_cast<size_t>(std::min<uint64_t>(std::max(wanted, kept) - kept, size_ - at - kept));
  size_t read = 0;
  const std::error_code error =
      more == 0 ? std::error_code() : file_->ReadAt(at + kept, buffer_.get() + kept, more, &read);
  buffer_size_ += read;
  if (!error && end <= buffer_begin_ + buffer_size_) return true;
  error_ = fmt::format("offset {}: {}", at + kept + read,
                       error ? error.message() : "the file has become shorter");
  return false;
}

bool LogReader::HasGoodContent(uint64_t at, const EpochHeader& header) {
  const uint64_t end = at + header.bytes;
  uint32_t crc = header.line_crc;
  while (at < end) {
    if (!Fetch(at, std::min<uint64_t>(window_size_, end - at), end)) return false;
    const std::string_view window = Window(at, end);
    crc = Crc32c(crc, window);
    at += window.size();
  }
  return crc == header.crc;
}

std::optional<bool> LogReader::WasSynced(uint64_t at) {
  // Where what is bad begins in the stream.
  const uint64_t stream_end = has_epochs_ ? epoch_.stream_end() : stream_begin_.value_or(0);
  ++at;
  size_t candidates = 0;
  while (at < size_) {
    if (!Fetch(at, window_size_, size_)) return std::nullopt;
    const std::string_view window = Window(at, size_);
    const size_t mark = window.find(kEpochMark);
    if (mark == std::string_view::npos) {
      if (window.size() == size_ - at) return false;
      at += window.size() - (kEpochMark.size() - 1);
      continue;
    }
    at += mark;
    if (!Fetch(at, kEpochHeaderMax, size_)) return std::nullopt;
    const std::string_view text = Window(at, size_).substr(0, kEpochHeaderMax);
    const size_t line_end = text.find('\n');
    ++at;
    if (line_end == std::string_view::npos) continue;
    const auto header = ParseEpochHeader(text.substr(0, line_end + 1));
    const uint64_t begin = at + line_end;
    if (!header || header->bytes > size_ - begin) continue;
    // A value may have such lines, too: it has to be one that could follow here.
    if (header->number <= epoch_.number || header->stream_offset < stream_end) continue;
    // In front of the next epoch its own #TS line may be lost. More than that is no part of it.
    const bool is_behind_more = header->unsynced == 0 && at - 1 - whole_size_ > kTimestampMax;
    if (header->synced_end() <= stream_end && !is_behind_more) continue;
    if (has_epochs_ && header->stream_offset - stream_end > begin - whole_size_) continue;
    if (++candidates > kCandidatesMax || HasGoodContent(begin, *header)) return true;
    if (!error_.empty()) return std::nullopt;
  }
  return false;
}

std::optional<bool> LogReader::IsZeros(uint64_t at) {
  while (at < size_) {
    if (!Fetch(at, std::min<uint64_t>(window_size_, size_ - at), size_)) return std::nullopt;
    const std::string_view window = Window(at, size_);
    if (window.find_first_not_of('\0') != std::string_view::npos) return false;
    at += window.size();
  }
  return true;
}

std::optional<bool> LogReader::EndsWithoutFiller(uint64_t at) {
  const uint64_t tail_at = size_ - std::min<uint64_t>(size_ - at, kAnnotationMax);
  if (!Fetch(tail_at, kAnnotationMax, size_)) return std::nullopt;
  const std::string_view tail = Window(tail_at, size_);
  const size_t line = tail.substr(0, tail.size() - 1).rfind('\n');
  return line == std::string_view::npos || !IsFiller(tail.substr(line + 1));
}

std::optional<bool> LogReader::MayBeMixed(uint64_t at) {
  if (filler_end_ % kFileBlockSize != 0) return false;
  if (filler_end_ > 0) {
    if (!Fetch(at, kMultiSelect.size(), size_)) return std::nullopt;
    const std::string_view first = Window(at, size_);
    if (!first.starts_with(kSelect) && !first.starts_with(kMultiSelect)) return false;
  }
  const uint64_t before = std::exchange(at_, at);
  std::optional<bool> may_be = true;
  while (at_ < size_ && *may_be) {
    if (!Fetch(at_, 1, size_)) {
      may_be.reset();
      break;
    }
    std::string_view text;
    const bool is_line = Window(at_, size_).front() == '#';
    const Parsed parsed = is_line ? ReadLine(&text) : ParseCommand(size_);
    if (parsed == Parsed::kFailed) may_be.reset();
    if (parsed == Parsed::kBad && filler_end_ > 0) may_be = false;
    if (parsed == Parsed::kShort && filler_end_ > 0) may_be = EndsWithoutFiller(at);
    if (parsed != Parsed::kOk) break;
    if (!is_line) continue;
    if (text.starts_with(kEpochMark) || IsFiller(text)) may_be = false;
    at_ += text.size();
  }
  at_ = before;
  if (may_be && !Fetch(at_, 1, size_)) may_be.reset();
  return may_be;
}

}  // namespace dfly
