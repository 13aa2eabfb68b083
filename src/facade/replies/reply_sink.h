// SPDX-License-Identifier: Apache-2.0
// Where a command's reply goes. A handler writes its reply here and never knows whether it becomes
// RESP2 or RESP3 bytes for a client, Lua values for a script, or an item of an EXEC array.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace dfly {

// Owner:    the code that runs the command; used on one thread at a time.
// Suspends: never. Writing a reply only appends to memory.
// A handler writes exactly one reply: one scalar, or one aggregate header followed by that many
// items.
class ReplySink {
 public:
  virtual ~ReplySink() = default;

  // True when the client asked for RESP3. For the few commands whose reply has another shape there.
  bool resp3() const { return resp3_; }
  // For HELLO, which answers in the protocol that it switches to.
  void set_resp3(bool resp3) { resp3_ = resp3; }

  void Ok() { Status("OK"); }
  // A simple string. REQUIRES: no CR or LF in `text`.
  virtual void Status(std::string_view text) = 0;
  // `message` with its code and without the leading '-': "ERR syntax error". CR and LF become
  // spaces.
  virtual void Error(std::string_view message) = 0;
  virtual void Integer(int64_t value) = 0;
  virtual void Bulk(std::string_view bytes) = 0;
  // The same of the first `size` bytes in a LentBlock, which may be sent from there.
  virtual void LentBulk(char* data, size_t size) { Bulk({data, size}); }
  virtual void Null() = 0;                // RESP2: null bulk
  virtual void NullArray() = 0;           // RESP2: null array. RESP3: the same null as Null()
  virtual void Double(double value) = 0;  // RESP2: bulk of its shortest round-trip text
  virtual void Decimal(std::string_view digits) = 0;    // a double that is written already
  virtual void Bool(bool value) = 0;                    // RESP2: integer 1 or 0
  virtual void BigNumber(std::string_view digits) = 0;  // RESP2: bulk
  // `format` is three letters, "txt" or "mkd". RESP2: bulk.
  virtual void Verbatim(std::string_view format, std::string_view text) = 0;

  virtual void Array(size_t items) = 0;
  virtual void Map(size_t pairs) = 0;   // followed by 2 * pairs items. RESP2: array
  virtual void Set(size_t items) = 0;   // RESP2: array
  virtual void Push(size_t items) = 0;  // RESP2: array
  // Stands before the reply that it tells about, followed by 2 * pairs items. REQUIRES: resp3().
  virtual void Attribute(size_t pairs) = 0;

  // Bytes that are a reply already, or a part of one, of clients that do not speak RESP. To others
  // it is a string.
  virtual void Raw(std::string_view bytes) { Bulk(bytes); }

  // An error that a script hands on: it was counted where it was made.
  void KnownError(std::string_view message) {
    Error(message);
    error_code_size_ = 0;
  }

  // Errors written since construction, and the first word of the last one ("ERR", "WRONGTYPE"). One
  // without a word of at most 30 letters and a blank is an "ERR", as in Redis; a KnownError has
  // none. For INFO's errorstats.
  uint64_t error_count() const { return error_count_; }
  std::string_view last_error_code() const { return {error_code_, error_code_size_}; }

 protected:
  // Each Error() calls it.
  void CountError(std::string_view message) {
    ++error_count_;
    const size_t blank = message.substr(0, sizeof(error_code_)).find(' ');
    const bool has_code = blank != 0 && blank != std::string_view::npos;
    const std::string_view code = has_code ? message.substr(0, blank) : "ERR";
    error_code_size_ = static_cast<uint8_t>(code.size());
    memcpy(error_code_, code.data(), code.size());
  }

  bool resp3_ = false;

 private:
  uint8_t error_code_size_ = 0;
  uint64_t error_count_ = 0;
  char error_code_[31];
};

}  // namespace dfly
