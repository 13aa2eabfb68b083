// SPDX-License-Identifier: Apache-2.0
// A primary's copy of its data as it comes over the link:
//
//   \n \n ... $<bytes>\r\n <RDB>               from a file
//   \n \n ... $EOF:<40 bytes>\r\n <RDB> <the same 40 bytes>     from memory
//
// The stream follows at once. Of the RDB the checksum at its end is compared, so that what is
// broken is known before it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

// Owner: who reads the link. Pure.
class CopyReader {
 public:
  enum class Status : uint8_t { kMore, kDone, kError };

  // Takes what has come, in pieces of any size. Appends what it has of the RDB to `rdb`. `*taken`:
  // how many of the bytes belong to the copy; less than all of them only if it is complete.
  Status Take(std::string_view bytes, std::string* rdb, size_t* taken);
  // After kError.
  const std::string& error() const { return error_; }

  bool has_header() const { return has_header_; }
  // Of the RDB; 0: not known.
  uint64_t bytes_total() const { return bytes_total_; }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  static constexpr size_t kMarkBytes = 40;
  static constexpr size_t kHeaderBytesMax = 128;
  static constexpr size_t kChecksumBytes = 8;
  // An RDB file is not shorter: its head, its end and the checksum.
  static constexpr size_t kFileBytesMin = 9 + 1 + kChecksumBytes;

  Status Fail(std::string error);
  Status TakeHeader(std::string_view bytes, size_t* taken);
  Status TakeSized(std::string_view bytes, std::string* rdb, size_t* taken);
  Status TakeMarked(std::string_view bytes, std::string* rdb, size_t* taken);
  void Add(std::string_view bytes, std::string* rdb);
  Status Finish();

  bool has_header_ = false;
  std::string header_;  // as far as it has come
  std::string mark_;    // empty: the size is known
  std::string kept_;    // may be the beginning of the mark
  uint64_t bytes_total_ = 0;
  uint64_t bytes_read_ = 0;
  std::string head_;  // the first bytes of the RDB
  std::string last_;  // the last kChecksumBytes so far
  uint64_t crc_ = 0;  // of all before them
  std::string error_;
};

}  // namespace dfly
