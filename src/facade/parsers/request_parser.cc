// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/request_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "facade/parsers/escapes.h"
#include "helio/base/ascii.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

// As redis-server reads lengths: no '+', no leading zeros, no spaces, no "-0", no overflow.
bool ParseDecimal(std::string_view text, int64_t* value) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 19) return false;
  if (text[0] == '0') {
    *value = 0;
    return text.size() == 1 && !negative;
  }
  uint64_t result = 0;  // 19 digits fit in 64 bits
  for (char c : text) {
    const unsigned digit = static_cast<unsigned char>(c) - '0';
    if (digit > 9) return false;
    result = result * 10 + digit;
  }
  if (result > static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0)) return false;
  *value = static_cast<int64_t>(negative ? 0 - result : result);
  return true;
}

unsigned Digit(char c) { return static_cast<unsigned char>(c) - '0'; }

}  // namespace

void RequestParser::set_limits(const Limits& limits) {
  constexpr size_t kCeiling = size_t{1} << 40;  // sums of lengths stay far from overflow
  limits_ = limits;
  for (size_t* limit :
       {&limits_.max_bulk_len, &limits_.max_multi_bulk_len, &limits_.max_inline_len}) {
    *limit = std::min(*limit, kCeiling);
  }
}

RequestParser::Status RequestParser::Parse(std::string_view input) {
  consumed_ = 0;
  holds_args_ = false;
  if (large_ != nullptr && !in_command()) [[unlikely]] {
    if (std::exchange(large_->repeats, false)) {
      AddSpans(input.data());
      consumed_ = large_->command_bytes;
      holds_args_ = true;
      return Status::kCommand;
    }
    DropLarge();
  }
  if (capacity_ > kArgsKept) [[unlikely]]
    ShrinkArgs();
  while (true) {
    argc_ = 0;
    const std::string_view rest = input.substr(consumed_);
    if (rest.empty()) {
      needed_ = 1;
      return Status::kNeedMore;
    }
    is_inline_ = rest[0] != '*';
    const Status status = is_inline_ ? ParseInline(rest) : ParseArray(rest);
    // An empty command: go on behind it.
    if (status == Status::kCommand && argc_ == 0) [[unlikely]]
      continue;
    return status;
  }
}

// One loop serves fresh and resumed commands. The arguments found by this call are views in args_;
// those of earlier calls are offsets in parsed_.
RequestParser::Status RequestParser::ParseArray(std::string_view input) {
  const char* const begin = input.data();
  const char* const end = begin + input.size();
  const char* p = begin + offset_;
  int64_t left = args_left_;
  int64_t len = bulk_len_;
  DCHECK_LE(offset_, input.size());

  if (left == kUnknown) {
    if (end - p >= 4 && p[2] == '\r' && Digit(p[1]) <= 9) [[likely]] {
      left = Digit(p[1]);
      p += 4;
    } else {
      const char* next = nullptr;
      const Header header = ParseHeader(begin, p, end, &left, &next);
      if (header == Header::kNeedMore) {
        args_left_ = kUnknown;
        needed_ = 1;
        return Status::kNeedMore;
      }
      if (header != Header::kOk) return ArrayLengthError(header, 0);
      p = next;
    }
    if (left > static_cast<int64_t>(limits_.max_multi_bulk_len) ||
        (!limits_.authenticated && left > static_cast<int64_t>(kUnauthenticatedArgsMax)))
        [[unlikely]] {
      return ArrayLengthError(Header::kOk, left);
    }
    if (left <= 0) [[unlikely]]
      return Finish(begin, p, 0);
  }

  const int64_t bulk_max = static_cast<int64_t>(
      limits_.authenticated ? limits_.max_bulk_len
                            : std::min(limits_.max_bulk_len, kUnauthenticatedBulkMax));
  std::string_view* args = args_;
  size_t argc = 0;
  if (is_in_large()) [[unlikely]] {
    const auto here = static_cast<size_t>(end - p);
    if (missing() + 2 > here) return Suspend(begin, p, 0, missing() + 2 - here);
    parsed_.push_back({kLargeSpan | (large_->texts.size() - 1), large_->len});
    large_->is_open = false;
    p += 2;
    len = kUnknown;
    if (--left == 0) return Finish(begin, p, 0);
  }
  while (true) {
    if (len == kUnknown) {
      // Lengths of one and two digits, inline. Everything else, and every error, takes the call.
      if (end - p >= 5 && p[0] == '$' && p[2] == '\r' && Digit(p[1]) <= 9) [[likely]] {
        len = Digit(p[1]);
        p += 4;
      } else if (end - p >= 5 && p[0] == '$' && p[3] == '\r' && Digit(p[1]) - 1 <= 8 &&
                 Digit(p[2]) <= 9) {
        len = Digit(p[1]) * 10 + Digit(p[2]);
        p += 5;
      } else {
        const char* next = nullptr;
        const Header header = ParseHeader(begin, p, end, &len, &next);
        if (header == Header::kNeedMore) {
          args_left_ = left;
          bulk_len_ = kUnknown;
          return Suspend(begin, p, argc, 1);
        }
        if (header == Header::kTooLong) return BulkLengthError(header, p, 0);
        if (header == Header::kInvalid || *p != '$' || len < 0) {
          return BulkLengthError(Header::kInvalid, p, 0);
        }
        p = next;
      }
      if (len > bulk_max) [[unlikely]]
        return BulkLengthError(Header::kOk, p, len);
    }
    if (end - p < len + 2) {
      args_left_ = left;
      bulk_len_ = len;
      const auto size = static_cast<size_t>(len);
      const auto here = static_cast<size_t>(end - p);
      if (size >= limits_.large_len && here < size) BeginLarge(p, end, size);
      return Suspend(begin, p, argc, size + 2 - here);
    }
    if (argc == capacity_) [[unlikely]] {
      argc_ = argc;
      GrowArgs();
      args = args_;
    }
    args[argc++] = std::string_view(p, static_cast<size_t>(len));
    p += len + 2;
    len = kUnknown;
    if (--left == 0) return Finish(begin, p, argc);
  }
}

// A header is "<type><decimal>\r" and one more byte. Keeps how far it looked for the CR.
RequestParser::Header RequestParser::ParseHeader(const char* begin, const char* p, const char* end,
                                                 int64_t* value, const char** next) {
  const char* const from = std::max(p, begin + scanned_);
  const char* const limit = end - p > static_cast<ptrdiff_t>(limits_.max_inline_len)
                                ? p + limits_.max_inline_len + 1
                                : end;
  const void* found =
      from < limit ? memchr(from, '\r', static_cast<size_t>(limit - from)) : nullptr;
  if (found == nullptr) {
    if (end - p > static_cast<ptrdiff_t>(limits_.max_inline_len)) return Header::kTooLong;
    scanned_ = static_cast<size_t>(end - begin);
    return Header::kNeedMore;
  }
  const char* const cr = static_cast<const char*>(found);
  if (end - cr < 2) {
    scanned_ = static_cast<size_t>(cr - begin);
    return Header::kNeedMore;
  }
  *next = cr + 2;
  if (cr == p) return Header::kInvalid;  // not even a type
  const std::string_view digits(p + 1, static_cast<size_t>(cr - p - 1));
  return ParseDecimal(digits, value) ? Header::kOk : Header::kInvalid;
}

RequestParser::Status RequestParser::ArrayLengthError(Header header, int64_t value) {
  if (header == Header::kTooLong) return Fail("ERR Protocol error: too big mbulk count string");
  if (header == Header::kInvalid || value > static_cast<int64_t>(limits_.max_multi_bulk_len)) {
    return Fail("ERR Protocol error: invalid multibulk length");
  }
  return Fail("ERR Protocol error: unauthenticated multibulk length");
}

RequestParser::Status RequestParser::BulkLengthError(Header header, const char* p, int64_t value) {
  if (header == Header::kTooLong) return Fail("ERR Protocol error: too big bulk count string");
  if (header == Header::kInvalid && *p != '$') {
    text_ = "ERR Protocol error: expected '$', got '";
    text_ += *p == '\r' || *p == '\n' ? ' ' : *p;  // an error reply is one line
    text_ += '\'';
    return Fail(text_);
  }
  if (header == Header::kInvalid || value > static_cast<int64_t>(limits_.max_bulk_len)) {
    return Fail("ERR Protocol error: invalid bulk length");
  }
  return Fail("ERR Protocol error: unauthenticated bulk length");
}

RequestParser::Status RequestParser::Suspend(const char* begin, const char* p, size_t argc,
                                             size_t needed) {
  for (size_t i = 0; i < argc; i++) {
    parsed_.push_back({static_cast<size_t>(args_[i].data() - begin), args_[i].size()});
  }
  offset_ = static_cast<size_t>(p - begin);
  needed_ = needed;
  return Status::kNeedMore;
}

void RequestParser::BeginLarge(const char* p, const char* end, size_t len) {
  // Where nothing was written a block costs no memory. But the process has only so many addresses.
  constexpr size_t kTrustedMax = 16 << 20;
  if (large_ == nullptr) large_ = std::make_unique<Large>();
  large_->texts.emplace_back(std::min(len, kTrustedMax));
  large_->is_open = true;
  large_->len = len;
  large_->taken_from_end = static_cast<size_t>(end - p);
  Fill({p, large_->taken_from_end});
}

std::span<char> RequestParser::RoomInLarge() {
  const size_t bytes = missing();
  if (bytes == 0) return {};
  LargeText& text = large_->texts.back();
  if (text.room() == 0) text.Grow(large_->len);
  return {text.end(), std::min(bytes, text.room())};
}

size_t RequestParser::Fill(std::string_view data) {
  size_t taken = 0;
  while (taken < data.size()) {
    const std::span<char> to = room();
    if (to.empty()) break;
    const size_t bytes = std::min(to.size(), data.size() - taken);
    memcpy(to.data(), data.data() + taken, bytes);
    Filled(bytes);
    taken += bytes;
  }
  return taken;
}

size_t RequestParser::large_bytes() const {
  if (large_ == nullptr) return 0;
  size_t bytes = 0;
  for (const LargeText& text : large_->texts) bytes += text.size();
  return bytes;
}

void RequestParser::DropLarge() {
  if (large_ == nullptr) return;
  large_->texts.clear();
  large_->is_open = large_->repeats = false;
  large_->taken_from_end = 0;
  parsed_.clear();
}

void RequestParser::AddSpans(const char* begin) {
  argc_ = 0;
  for (const Span& span : parsed_) {
    const bool is_large = (span.offset & kLargeSpan) != 0;
    AddArg(is_large ? large_->texts[span.offset & ~kLargeSpan].view()
                    : std::string_view(begin + span.offset, span.size));
  }
}

RequestParser::Status RequestParser::Finish(const char* begin, const char* p, size_t argc) {
  argc_ = argc;
  if (!parsed_.empty()) {
    for (size_t i = 0; i < argc; i++) {
      parsed_.push_back({static_cast<size_t>(args_[i].data() - begin), args_[i].size()});
    }
    AddSpans(begin);
    if (has_large()) {
      large_->command_bytes = static_cast<size_t>(p - begin);
      holds_args_ = true;
    } else if (parsed_.capacity() > kArgsKept) {
      std::vector<Span>().swap(parsed_);
    } else {
      parsed_.clear();
    }
  }
  consumed_ += static_cast<size_t>(p - begin);
  offset_ = scanned_ = 0;
  args_left_ = bulk_len_ = kUnknown;
  return Status::kCommand;
}

RequestParser::Status RequestParser::Fail(std::string_view text) {
  Reset();
  error_ = text;
  return Status::kError;
}

RequestParser::Status RequestParser::ParseInline(std::string_view input) {
  const size_t limit = std::min(input.size(), limits_.max_inline_len + 1);
  const void* found =
      scanned_ < limit ? memchr(input.data() + scanned_, '\n', limit - scanned_) : nullptr;
  if (found == nullptr) {
    if (input.size() > limits_.max_inline_len) {
      return Fail("ERR Protocol error: too big inline request");
    }
    scanned_ = input.size();
    needed_ = 1;
    return Status::kNeedMore;
  }
  const char* const newline = static_cast<const char*>(found);
  size_t size = static_cast<size_t>(newline - input.data());
  if (size > 0 && input[size - 1] == '\r') size--;
  if (!SplitLine(input.substr(0, size))) {
    return Fail("ERR Protocol error: unbalanced quotes in request");
  }
  consumed_ += static_cast<size_t>(newline + 1 - input.data());
  scanned_ = 0;
  return Status::kCommand;
}

// Words separated by spaces. "..." understands \xHH \n \r \t \b \a and \<any>, '...' only \'.
// A quote may open inside of a word and must be followed by a space or the end when it closes.
// Words without quotes are views into `line`; the others are built in text_, which is reserved
// once so that views into it stay valid. Returns false if the quotes don't balance.
bool RequestParser::SplitLine(std::string_view line) {
  const char* p = line.data();
  const char* const end = p + line.size();
  bool reserved = false;
  while (true) {
    while (p < end && helio::IsBlank(*p)) p++;
    if (p == end) return true;

    const char* const word = p;
    auto ends_word = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (p < end && !ends_word(*p) && *p != '"' && *p != '\'') p++;
    if (p == end || ends_word(*p)) {
      AddArg({word, static_cast<size_t>(p - word)});
      continue;
    }

    if (!reserved) {
      text_.clear();
      text_.reserve(line.size());
      reserved = true;
      holds_args_ = true;
    }
    const size_t start = text_.size();
    text_.append(word, p);
    bool closed = false;
    while (p < end && !ends_word(*p) && !closed) {
      const char quote = *p++;
      if (quote != '"' && quote != '\'') {
        text_ += quote;
        continue;
      }
      while (!closed) {
        if (p == end) return false;
        if (quote == '"' && end - p >= 4 && p[0] == '\\' && p[1] == 'x' && HexValue(p[2]) >= 0 &&
            HexValue(p[3]) >= 0) {
          text_ += static_cast<char>(HexValue(p[2]) * 16 + HexValue(p[3]));
          p += 4;
        } else if (quote == '"' && *p == '\\' && end - p >= 2) {
          text_ += Unescape(p[1]);
          p += 2;
        } else if (quote == '\'' && *p == '\\' && end - p >= 2 && p[1] == '\'') {
          text_ += '\'';
          p += 2;
        } else if (*p == quote) {
          p++;
          if (p < end && !helio::IsBlank(*p)) return false;
          closed = true;
        } else {
          text_ += *p++;
        }
      }
    }
    DCHECK_LE(text_.size(), line.size());
    AddArg({text_.data() + start, text_.size() - start});
  }
}

void RequestParser::GrowArgs() {
  const size_t capacity = capacity_ * 2;
  auto grown = std::make_unique<std::string_view[]>(capacity);
  std::copy(args_, args_ + argc_, grown.get());
  heap_args_ = std::move(grown);
  args_ = heap_args_.get();
  capacity_ = capacity;
}

void RequestParser::ShrinkArgs() {
  heap_args_.reset();
  args_ = inline_args_;
  capacity_ = kInlineArgs;
  argc_ = 0;
}

std::unique_ptr<std::string_view[]> RequestParser::TakeArgs() {
  std::unique_ptr<std::string_view[]> taken = std::move(heap_args_);
  if (taken != nullptr) ShrinkArgs();
  return taken;
}

void RequestParser::Reset() {
  argc_ = 0;
  offset_ = scanned_ = 0;
  args_left_ = bulk_len_ = kUnknown;
  parsed_.clear();
  DropLarge();
}

void RequestParser::Release() {
  ShrinkArgs();
  if (!in_command()) {
    DropLarge();
    large_.reset();
  }
  if (parsed_.empty()) std::vector<Span>().swap(parsed_);
  std::string().swap(text_);
  error_ = {};
}

size_t RequestParser::memory_used() const {
  const size_t text = text_.capacity() > sizeof(std::string) / 2 ? text_.capacity() + 1 : 0;
  return (heap_args_ ? capacity_ * sizeof(std::string_view) : 0) +
         parsed_.capacity() * sizeof(Span) + text +
         (large_ ? sizeof(Large) + large_->texts.capacity() * sizeof(LargeText) : 0) +
         large_bytes();
}

}  // namespace dfly
