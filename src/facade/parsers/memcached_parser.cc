// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/memcached_parser.h"

#include <absl/strings/escaping.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "helio/base/block_bytes.h"

namespace dfly {

namespace {

using Op = MemcachedOp;

constexpr std::string_view kErrUnknown = "ERROR";
constexpr std::string_view kErrFormat = "CLIENT_ERROR bad command line format";
constexpr std::string_view kErrChunk = "CLIENT_ERROR bad data chunk";
constexpr std::string_view kErrDelta = "CLIENT_ERROR invalid numeric delta argument";
constexpr std::string_view kErrExptime = "CLIENT_ERROR invalid exptime argument";
constexpr std::string_view kErrDelete =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
constexpr std::string_view kErrKeyCode = "CLIENT_ERROR error decoding key";
constexpr std::string_view kErrAuth = "CLIENT_ERROR unauthenticated";
constexpr std::string_view kErrLine = "CLIENT_ERROR line too long";
constexpr std::string_view kErrShutdown = "ERROR: shutdown not enabled";

template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.size() > 20) return {};
  unsigned __int128 value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  if (is_negative) {
    const __int128 negated = -static_cast<__int128>(value);
    if (negated < static_cast<__int128>(std::numeric_limits<Number>::min())) return {};
    return static_cast<Number>(negated);
  }
  if (value > static_cast<unsigned __int128>(std::numeric_limits<Number>::max())) return {};
  return static_cast<Number>(value);
}

struct Word {
  std::string_view name;
  Op op;
};
constexpr Word kWords[] = {
    {"get", Op::kGet},         {"gets", Op::kGets},       {"gat", Op::kGat},
    {"gats", Op::kGats},       {"set", Op::kSet},         {"add", Op::kAdd},
    {"replace", Op::kReplace}, {"append", Op::kAppend},   {"prepend", Op::kPrepend},
    {"cas", Op::kCas},         {"incr", Op::kIncr},       {"decr", Op::kDecr},
    {"delete", Op::kDelete},   {"touch", Op::kTouch},     {"mg", Op::kMetaGet},
    {"ms", Op::kMetaSet},      {"md", Op::kMetaDelete},   {"ma", Op::kMetaArithmetic},
    {"me", Op::kMetaDebug},    {"mn", Op::kMetaNoop},     {"flush_all", Op::kFlushAll},
    {"stats", Op::kStats},     {"version", Op::kVersion}, {"verbosity", Op::kVerbosity},
    {"quit", Op::kQuit}};

std::optional<Op> FindOp(std::string_view name) {
  for (const Word& word : kWords) {
    if (word.name == name) return word.op;
  }
  return {};
}

bool IsFetch(std::string_view name) {
  return name == "get" || name == "gets" || name == "gat" || name == "gats";
}

// The next word at or behind `at`, and where it ends. Only blanks separate words.
std::string_view NextWord(std::string_view line, size_t* at) {
  const size_t begin = std::min(line.find_first_not_of(' ', *at), line.size());
  const size_t end = std::min(line.find(' ', begin), line.size());
  *at = end;
  return line.substr(begin, end - begin);
}

}  // namespace

size_t MemcachedParser::memory_used() const {
  return helio::HeapBytes(args_) + helio::HeapBytes(words_) + helio::HeapBytes(decoded_) +
         helio::HeapBytes(exptime_);
}

void MemcachedParser::Release() {
  if (fetches_) return;
  // `= {}` would keep the room: it assigns an empty list.
  args_ = decltype(args_)();
  words_ = decltype(words_)();
  decoded_ = std::string();
  exptime_ = std::string();
}

auto MemcachedParser::NeedMore(size_t consumed, size_t needed) -> Status {
  consumed_ = consumed;
  needed_ = needed;
  in_command_ = true;
  return Status::kNeedMore;
}

auto MemcachedParser::Accept(Op op, size_t size) -> Status {
  op_ = op;
  taken_ = size;
  wanted_ = scanned_ = needed_ = 0;
  in_command_ = false;
  return Status::kCommand;
}

size_t MemcachedParser::Take() {
  skip_ = std::exchange(skip_after_, 0);
  fetches_ = fetches_next_;
  in_command_ = skip_ > 0 || fetches_;
  return std::exchange(taken_, 0);
}

auto MemcachedParser::Parse(std::string_view data) -> Status {
  consumed_ = 0;
  holds_args_ = false;
  skip_after_ = 0;
  if (skip_ == 0) [[likely]]
    return ParseNext(data);
  const size_t skipped = std::min(skip_, data.size());
  if (skipped < skip_ || skipped == data.size()) {
    skip_ -= skipped;
    return NeedMore(skipped, 0);
  }
  // What was skipped belongs to the next command until that is taken, as it may be parsed again.
  const Status status = ParseNext(data.substr(skipped));
  if (status == Status::kNeedMore) {
    skip_ = 0;
    consumed_ += skipped;
  } else {
    taken_ += skipped;
  }
  return status;
}

auto MemcachedParser::ParseNext(std::string_view data) -> Status {
  fetches_next_ = fetches_;
  if (fetches_) return NextKey(data);
  if (data.size() < wanted_) return NeedMore(0, wanted_ - data.size());
  const auto* const end =
      static_cast<const char*>(memchr(data.data() + scanned_, '\n', data.size() - scanned_));
  if (end == nullptr) {
    size_t at = 0;
    const size_t line_max =
        IsFetch(NextWord(data.substr(0, kLineMax), &at)) ? limits_.line_bytes_max : kLineMax;
    if (data.size() > line_max + 1) {  // the last byte may be the CR
      error_ = kErrLine;
      return Status::kError;
    }
    scanned_ = data.size();
    return NeedMore(0, 0);
  }
  const auto line_size = static_cast<size_t>(end - data.data()) + 1;
  std::string_view line = data.substr(0, line_size - 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return ParseLine(line, line_size, data);
}

auto MemcachedParser::ParseLine(std::string_view line, size_t line_size, std::string_view data)
    -> Status {
  size_t at = 0;
  const std::string_view name = NextWord(line, &at);
  const std::optional<Op> op = FindOp(name);
  const bool is_fetch = op && *op <= Op::kGats;
  if (line.size() > (is_fetch ? limits_.line_bytes_max : kLineMax)) {
    error_ = kErrLine;
    return Status::kError;
  }
  words_.clear();
  args_.clear();
  if (!authenticated_ && op != Op::kSet && op != Op::kQuit) return Fail(kErrAuth, line_size);
  if (!op) return Fail(name == "shutdown" ? kErrShutdown : kErrUnknown, line_size);
  if (is_fetch) return BeginFetch(*op, line, line_size);
  words_.push_back(name);
  for (;;) {
    const std::string_view word = NextWord(line, &at);
    if (word.empty()) break;
    words_.push_back(word);
  }
  switch (*op) {
    case Op::kSet:
    case Op::kAdd:
    case Op::kReplace:
    case Op::kAppend:
    case Op::kPrepend:
    case Op::kCas:
      return Store(*op, data, line_size);
    case Op::kIncr:
    case Op::kDecr:
    case Op::kDelete:
    case Op::kTouch:
      return Delta(*op, line_size);
    case Op::kMetaSet:
      return MetaSet(data, line_size);
    case Op::kMetaGet:
    case Op::kMetaDelete:
    case Op::kMetaArithmetic:
    case Op::kMetaDebug:
      return Meta(*op, line_size);
    default:
      return Plain(*op, line_size);
  }
}

auto MemcachedParser::Fail(std::string_view text, size_t line_size, size_t skipped) -> Status {
  args_.assign({"error", text});
  skip_after_ = skipped;
  return Accept(Op::kError, line_size);
}

bool MemcachedParser::EndsWithNoreply() const {
  return words_.size() > 1 && words_.back() == "noreply";
}

// --- Several keys in a line ---

auto MemcachedParser::BeginFetch(Op op, std::string_view line, size_t line_size) -> Status {
  size_t at = 0;
  NextWord(line, &at);
  if (op == Op::kGat || op == Op::kGats) {
    const std::string_view exptime = NextWord(line, &at);
    if (exptime.empty()) return Fail(kErrUnknown, line_size);
    if (!dfly::Parse<int32_t>(exptime)) return Fail(kErrExptime, line_size);
    exptime_ = exptime;
  }
  size_t next = at;
  size_t keys = 0;
  for (;; ++keys) {
    const std::string_view key = NextWord(line, &next);
    if (key.empty()) break;
    if (key.size() > kKeyMax) return Fail(kErrFormat, line_size);
  }
  const bool needs_key = op == Op::kGet || op == Op::kGets;
  if (keys == 0 && needs_key) return Fail(kErrUnknown, line_size);
  fetch_op_ = op;
  fetches_next_ = true;
  // The line goes on as if it had begun with the first key.
  const Status status = NextKey(std::string_view(line.data(), line_size).substr(at));
  taken_ += at;
  return status;
}

auto MemcachedParser::NextKey(std::string_view data) -> Status {
  static constexpr std::string_view kNames[] = {"get", "gets", "gat", "gats"};
  // All of the line was here when it began, and still is.
  size_t begin = 0;
  while (data[begin] == ' ') ++begin;
  args_.clear();
  if (data[begin] == '\n' || (data[begin] == '\r' && data[begin + 1] == '\n')) {
    fetches_next_ = false;
    args_.push_back("end");
    return Accept(Op::kEnd, begin + (data[begin] == '\n' ? 1 : 2));
  }
  size_t end = begin;
  while (data[end] != ' ' && data[end] != '\n') ++end;
  if (data[end] == '\n' && data[end - 1] == '\r') --end;
  args_.assign({kNames[static_cast<size_t>(fetch_op_)], data.substr(begin, end - begin)});
  if (fetch_op_ == Op::kGat || fetch_op_ == Op::kGats) {
    args_.push_back(exptime_);
    holds_args_ = true;
  }
  return Accept(fetch_op_, end);
}

// --- Commands with a data block ---

bool MemcachedParser::FindBlock(std::string_view data, size_t line_size, size_t size,
                                std::string_view* block) {
  wanted_ = line_size + size + 2;
  if (data.size() < wanted_) return false;
  *block = data.substr(line_size, size);
  if (data.substr(line_size + size, 2) != "\r\n") *block = {};
  return true;
}

auto MemcachedParser::Store(Op op, std::string_view data, size_t line_size) -> Status {
  const size_t count = op == Op::kCas ? 6 : 5;
  if (words_.size() < count || words_.size() > count + 1) {
    return Fail(authenticated_ ? kErrUnknown : kErrAuth, line_size);
  }
  const bool is_silent = words_.size() > count && EndsWithNoreply();
  const auto fail = [&](std::string_view text, size_t taken) {
    if (!authenticated_ && text == kErrFormat) text = kErrAuth;
    return Fail(is_silent ? "" : text, taken);
  };
  const auto size = dfly::Parse<int32_t>(words_[4]);
  if (words_[1].size() > kKeyMax || !dfly::Parse<uint32_t>(words_[2]) ||
      !dfly::Parse<int32_t>(words_[3]) || !size || *size < 0 ||
      (op == Op::kCas && !dfly::Parse<uint64_t>(words_[5]))) {
    return fail(kErrFormat, line_size);
  }
  const auto bytes = static_cast<size_t>(*size);
  if (bytes > (authenticated_ ? limits_.value_bytes_max : kAuthMax)) {
    if (!authenticated_) return Fail(kErrAuth, line_size, bytes + 2);
    args_.assign({"toolarge", words_[1], words_[0]});
    if (is_silent) args_.push_back("noreply");
    skip_after_ = bytes + 2;
    return Accept(Op::kTooLarge, line_size);
  }
  std::string_view block;
  if (!FindBlock(data, line_size, bytes, &block)) return NeedMore(0, wanted_ - data.size());
  const size_t taken = line_size + bytes + 2;
  if (block.data() == nullptr) return fail(kErrChunk, taken);
  if (!authenticated_) {
    args_.assign({"auth", block});
    return Accept(Op::kAuth, taken);
  }
  args_ = words_;
  args_[4] = block;
  return Accept(op, taken);
}

auto MemcachedParser::MetaSet(std::string_view data, size_t line_size) -> Status {
  if (words_.size() < 2) return Fail(kErrUnknown, line_size);
  if (words_[1].size() > kKeyMax || words_.size() < 3) return Fail(kErrFormat, line_size);
  const auto size = dfly::Parse<int32_t>(words_[2]);
  if (!size || *size < 0) return Fail(kErrFormat, line_size);
  const auto bytes = static_cast<size_t>(*size);
  args_ = words_;
  if (!DecodeKey()) return Fail(kErrKeyCode, line_size, bytes + 2);
  if (bytes > limits_.value_bytes_max) {
    args_.resize(2);
    args_[0] = "toolarge";
    args_.push_back("ms");
    skip_after_ = bytes + 2;
    return Accept(Op::kTooLarge, line_size);
  }
  std::string_view block;
  if (!FindBlock(data, line_size, bytes, &block)) return NeedMore(0, wanted_ - data.size());
  if (block.data() == nullptr) return Fail(kErrChunk, line_size + bytes + 2);
  args_[2] = block;
  return Accept(Op::kMetaSet, line_size + bytes + 2);
}

// --- The rest ---

bool MemcachedParser::DecodeKey() {
  const size_t first_flag = words_[0] == "ms" ? 3 : 2;
  const auto flags = std::span(words_).subspan(std::min(first_flag, words_.size()));
  const auto is_code = [](std::string_view flag) { return flag[0] == 'b'; };
  if (std::none_of(flags.begin(), flags.end(), is_code)) return true;
  const std::string_view encoded = words_[1];
  if (encoded.size() % 4 != 0 ||
      !absl::Base64Unescape({encoded.data(), encoded.size()}, &decoded_) || decoded_.empty()) {
    return false;
  }
  args_[1] = decoded_;
  holds_args_ = true;
  return true;
}

auto MemcachedParser::Meta(Op op, size_t line_size) -> Status {
  if (words_.size() < 2) return Fail(op == Op::kMetaDebug ? kErrFormat : kErrUnknown, line_size);
  if (words_[1].size() > kKeyMax) return Fail(kErrFormat, line_size);
  args_ = words_;
  if (!DecodeKey()) return Fail(kErrKeyCode, line_size);
  const auto changes = [](std::string_view flag) { return flag[0] == 'T' || flag[0] == 'N'; };
  if (op == Op::kMetaGet && std::any_of(words_.begin() + 2, words_.end(), changes)) {
    op = Op::kMetaGetOrMake;
  }
  return Accept(op, line_size);
}

auto MemcachedParser::Delta(Op op, size_t line_size) -> Status {
  const size_t count = op == Op::kDelete ? 2 : 3;
  if (words_.size() < count || words_.size() > 4) return Fail(kErrUnknown, line_size);
  const bool is_silent = EndsWithNoreply() && words_.size() > count;
  const auto fail = [&](std::string_view text) { return Fail(is_silent ? "" : text, line_size); };
  if (words_[1].size() > kKeyMax) return fail(kErrFormat);
  switch (op) {
    case Op::kDelete:
      // A time of 0 was a word of old versions.
      if (words_.size() > 2 && words_[2] != "0" && !(words_.size() == 3 && is_silent)) {
        return fail(kErrDelete);
      }
      if (words_.size() == 4 && !is_silent) return fail(kErrDelete);
      break;
    case Op::kTouch:
      if (!dfly::Parse<int32_t>(words_[2])) return fail(kErrExptime);
      break;
    default:
      if (words_[2].starts_with('-') || !dfly::Parse<uint64_t>(words_[2])) return fail(kErrDelta);
  }
  args_ = words_;
  return Accept(op, line_size);
}

auto MemcachedParser::Plain(Op op, size_t line_size) -> Status {
  const size_t count = words_.size();
  const bool is_silent = EndsWithNoreply();
  if (op == Op::kVerbosity) {
    if (count < 2 || count > 3) return Fail(kErrUnknown, line_size);
    if (!dfly::Parse<uint32_t>(words_[1])) return Fail(is_silent ? "" : kErrFormat, line_size);
  } else if (op == Op::kFlushAll) {
    if (count > 3) return Fail(kErrUnknown, line_size);
    const bool has_delay = count > (is_silent ? 2u : 1u);
    if (has_delay && !dfly::Parse<int32_t>(words_[1])) {
      return Fail(is_silent ? "" : kErrExptime, line_size);
    }
  }
  args_ = words_;
  return Accept(op, line_size);
}

}  // namespace dfly
