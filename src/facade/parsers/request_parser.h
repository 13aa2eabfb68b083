// SPDX-License-Identifier: Apache-2.0
// Finds the next command in the bytes a client sent: a RESP array of bulk strings, or an inline
// command line.
//
// The parser works in place: an argument is a view into the caller's buffer. When a command has
// not arrived completely, it keeps its progress as offsets from the command's first byte, so the
// caller may move or grow the buffer in between and nothing is scanned twice.
//
//     input:  *2\r\n $3\r\nGET\r\n $5\r\nhel        -> kNeedMore, needed() == 4
//     later:  *2\r\n $3\r\nGET\r\n $5\r\nhello\r\n  -> kCommand, args() == {GET, hello}
//
// A large argument that arrives in pieces gets a block of its own (LargeText), so that it is copied
// once at most, or not at all if the caller receives into room(). Its bytes are not a part of the
// input:
//
//     input:  *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $20000\r\nhel   -> kNeedMore, TakenFromEnd() == 3
//     Fill: lo...                                        until room() is empty
//     input:  *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $20000\r\n\r\n  -> kCommand
//
// What is an error and how it is worded is redis-server's protocol, including what it does not
// look at: the byte after a header's CR and the two bytes after an argument are skipped unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/large_text.h"

namespace dfly {

// Owner:    one connection, on its thread.
// Suspends: never.
// Memory:   grows with the arguments that have arrived, never with what a header announces. After
//           a command of more than kArgsKept arguments the next Parse() gives the memory back;
//           Release() gives back everything that is not needed for a half-arrived command.
class RequestParser {
 public:
  enum class Status : uint8_t {
    kCommand,   // args() is the command
    kNeedMore,  // call again with the same bytes and more
    kError,     // error() is the reply; nothing after it can be understood, so close the connection
  };

  struct Limits {
    size_t max_bulk_len = 512u << 20;        // bytes of one argument
    size_t max_multi_bulk_len = 0x7fffffff;  // arguments of one command
    size_t max_inline_len = 64u << 10;       // bytes of an inline command, or of a header line
    bool authenticated = true;               // if not: 10 arguments of 16 KiB at most
    size_t large_len = SIZE_MAX;             // arguments from here on get blocks of their own
  };

  static constexpr size_t kArgsKept = 1024;
  static constexpr size_t kUnauthenticatedArgsMax = 10;
  static constexpr size_t kUnauthenticatedBulkMax = 16384;

  RequestParser() : RequestParser(Limits()) {}
  explicit RequestParser(const Limits& limits) { set_limits(limits); }
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Limits past 2^40 count as 2^40.
  void set_limits(const Limits& limits);
  void set_authenticated(bool value) { limits_.authenticated = value; }
  // What has been announced already may be longer.
  void set_max_bulk_len(size_t bytes) { limits_.max_bulk_len = bytes; }
  // For arguments that are yet to come.
  void set_large_len(size_t bytes) { limits_.large_len = bytes; }

  // Parses the first command of `input`. After each call, whatever it returns, the caller drops
  // consumed() bytes from the front of its buffer (after it is done with args()); the next call's
  // `input` begins with the first byte that was not dropped. Empty commands ("\r\n", "*0\r\n") are
  // skipped; they are why consumed() may be more than 0 on kNeedMore.
  Status Parse(std::string_view input);

  // After kNeedMore: so many bytes at the end of `input` are in a large argument's block, and the
  // caller drops them. It asks once.
  size_t TakenFromEnd() { return large_ == nullptr ? 0 : std::exchange(large_->taken_from_end, 0); }
  // Where the stream's next bytes belong, if they are a large argument's: the caller writes there
  // and calls Filled. Empty: they go into the input. Dies with the next call.
  std::span<char> room() { return is_in_large() ? RoomInLarge() : std::span<char>(); }
  void Filled(size_t bytes) { large_->texts.back().Filled(bytes); }
  // The same by a copy. Returns how many bytes of `data` it took.
  size_t Fill(std::string_view data);
  // After kCommand: the large ones among args(). Who takes one owns it.
  bool has_large() const { return large_ != nullptr && !large_->texts.empty(); }
  std::vector<LargeText>* large() { return &large_->texts; }  // REQUIRES: has_large()
  // Bytes in them so far.
  size_t large_bytes() const;
  // After kCommand, with large arguments of which none was taken: the next call returns the same
  // command. The caller drops nothing.
  void Repeat() { large_->repeats = true; }

  // Valid after kCommand, until the next call or until `input` goes: views into `input`, or, for
  // an inline command with quotes, into the parser. Never empty.
  std::span<const std::string_view> args() const { return {args_, argc_}; }
  // The array that args() are in, which stay as they are; null if that is a part of the parser.
  std::unique_ptr<std::string_view[]> TakeArgs();
  // True if some of args() are views into the parser, so the next call ends them.
  bool holds_args() const { return holds_args_; }
  // After kCommand: it came as a line, not as an array.
  bool is_inline() const { return is_inline_; }
  size_t consumed() const { return consumed_; }

  // After kNeedMore: at least so many bytes are missing. It is what the client announced, so the
  // caller must cap it before it sizes a buffer by it.
  size_t needed() const { return needed_; }

  // After kError: "ERR Protocol error: ...". Valid until the next call.
  std::string_view error() const { return error_; }

  // True between kNeedMore and the end of a command of which some bytes have arrived.
  bool in_command() const { return offset_ != 0 || scanned_ != 0; }

  // Forgets a half-arrived command.
  void Reset();

  // Frees memory that an idle connection has no use for. args() is dead afterwards.
  // REQUIRES: not to Repeat.
  void Release();

  // Bytes on the heap.
  size_t memory_used() const;

 private:
  enum class Header : uint8_t { kOk, kNeedMore, kInvalid, kTooLong };
  struct Span {
    size_t offset;
    size_t size;
  };

  Status ParseArray(std::string_view input);
  Status ParseInline(std::string_view input);
  bool SplitLine(std::string_view line);
  Header ParseHeader(const char* begin, const char* p, const char* end, int64_t* value,
                     const char** next);
  Status ArrayLengthError(Header header, int64_t value);
  Status BulkLengthError(Header header, const char* p, int64_t value);
  Status Suspend(const char* begin, const char* p, size_t argc, size_t needed);
  Status Finish(const char* begin, const char* p, size_t argc);
  Status Fail(std::string_view text);
  // The argument of which [p, end) is here goes on in a block of its own.
  void BeginLarge(const char* p, const char* end, size_t len);
  std::span<char> RoomInLarge();
  bool is_in_large() const { return large_ != nullptr && large_->is_open; }
  size_t missing() const { return is_in_large() ? large_->len - large_->texts.back().size() : 0; }
  void AddSpans(const char* begin);
  // Lets the arguments of the last command go.
  void DropLarge();
  void GrowArgs();
  void ShrinkArgs();
  void AddArg(std::string_view arg) {
    if (argc_ == capacity_) [[unlikely]]
      GrowArgs();
    args_[argc_++] = arg;
  }

  static constexpr size_t kInlineArgs = 8;  // doubling it meets kArgsKept
  static constexpr int64_t kUnknown = -1;

  Limits limits_;
  std::string_view* args_ = inline_args_;
  size_t argc_ = 0;
  size_t capacity_ = kInlineArgs;
  size_t consumed_ = 0;
  size_t needed_ = 0;

  // Progress in a half-arrived command. All offsets count from the command's first byte.
  size_t offset_ = 0;             // everything before it is parsed
  size_t scanned_ = 0;            // no line end in [offset_, scanned_)
  int64_t args_left_ = kUnknown;  // arguments that are not yet complete; kUnknown: no header yet
  int64_t bulk_len_ = kUnknown;   // of the argument at offset_; kUnknown: no header yet
  std::vector<Span> parsed_;      // the complete arguments; of large ones also behind the command
  // Instead of an offset: it is the large one with that index.
  static constexpr size_t kLargeSpan = size_t{1} << 63;
  struct Large {
    std::vector<LargeText> texts;
    bool is_open = false;  // the argument at offset_ is the last of them
    size_t len = 0;        // and will have so many bytes
    size_t taken_from_end = 0;
    size_t command_bytes = 0;  // of the last command, if it has some
    bool repeats = false;
  };
  std::unique_ptr<Large> large_;  // null: there was none lately

  std::string_view error_;
  bool holds_args_ = false;
  bool is_inline_ = false;
  std::string text_;  // unquoted inline arguments; a formatted error
  std::unique_ptr<std::string_view[]> heap_args_;
  std::string_view inline_args_[kInlineArgs];
};

}  // namespace dfly
