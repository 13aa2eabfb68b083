// SPDX-License-Identifier: Apache-2.0
// Replies as a client reads them: finds where one RESP2 or RESP3 reply ends and what it is. For the
// load generator and for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

enum class ReplyKind : uint8_t {
  kStatus,
  kError,  // also RESP3's blob error
  kInteger,
  kBulk,
  kNull,  // $-1, *-1 and _
  kDouble,
  kBool,
  kBigNumber,
  kVerbatim,
  kArray,
  kMap,
  kSet,
  kPush,
};

// Resumable like RequestParser, and with the same contract: after each call the caller drops
// consumed() bytes, and on kNeedMore calls again with the same bytes and more. A byte is scanned
// once.
//
// Owner:    one client connection. Suspends: never. Memory: none on the heap.
class RespReader {
 public:
  enum class Status : uint8_t { kReply, kNeedMore, kError };

  Status Parse(std::string_view input);

  // After kReply, for the outermost value:
  ReplyKind kind() const { return kind_; }
  size_t consumed() const { return consumed_; }
  // The bytes of a scalar (a view into `input`; of a verbatim string with its "txt:"); empty for
  // null and for aggregates.
  std::string_view text() const { return text_; }
  // Values in an aggregate (a map counts keys and values), not counting nested ones.
  size_t items() const { return items_; }

  // After kError: what is wrong. The stream cannot be followed any more.
  std::string_view error() const { return error_; }

  void Reset() { *this = RespReader(); }

 private:
  Status Fail(const char* what) {
    error_ = what;
    return Status::kError;
  }

  // Progress in a half-arrived reply, counted from its first byte.
  size_t offset_ = 0;   // everything before it is complete
  size_t scanned_ = 0;  // no CR in [offset_, scanned_)
  uint64_t left_ = 1;   // values still to come; nesting needs no stack, since only the sum counts

  bool started_ = false;  // the outermost value's header was read

  size_t consumed_ = 0;
  ReplyKind kind_ = ReplyKind::kNull;
  size_t items_ = 0;
  size_t text_offset_ = 0;
  size_t text_size_ = 0;
  std::string_view text_;
  const char* error_ = "";
};

// A reply as a tree, for tests.
struct RespValue {
  ReplyKind kind = ReplyKind::kNull;
  std::string text;  // scalars, as written by the server
  std::vector<RespValue> items;

  bool operator==(const RespValue&) const = default;

  // Compact text: +OK  -ERR x  :1  "bulk"  (nil)  ,1.5  #t  [a, b]  {k: v}  ~[a]  >[a]
  std::string ToString() const;
};

// Reads one complete reply from the front of `input` and returns its size; 0 if it is incomplete,
// malformed, or nested deeper than 200 levels. Attributes are skipped.
size_t ReadRespValue(std::string_view input, RespValue* value);

}  // namespace dfly
