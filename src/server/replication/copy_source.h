// SPDX-License-Identifier: Apache-2.0
// The full copy of a primary, as a replica takes it from the link's socket: piece by piece, for a
// file on the disk, or as a file itself, for who loads it at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/replication/copy_reader.h"
#include "server/replication/link_socket.h"
#include "storage/file_layer.h"

namespace dfly {

// Owner:    the fiber of the link with the primary; used by it alone.
// Suspends: all but the accessors.
// Errors:   error() tells what is wrong with the link or the copy.
class CopySource {
 public:
  // `socket` outlives it.
  explicit CopySource(LinkSocket* socket);
  CopySource(const CopySource&) = delete;
  CopySource& operator=(const CopySource&) = delete;

  // Waits until something has come, and appends what is of the RDB.
  CopyReader::Status Take(std::string* rdb);

  // The RDB as a file that is read once, from its beginning on. Waits for the header of the copy.
  // Null: an error. The source outlives the file.
  std::unique_ptr<InputFile> OpenFile();
  // The RDB was read to its end, which is behind so many bytes of the file. False: it is not the
  // copy's end.
  bool EndFile(uint64_t bytes);

  const std::string& error() const { return error_; }
  uint64_t bytes_total() const { return reader_.bytes_total(); }  // 0: not known
  uint64_t bytes_read() const { return reader_.bytes_read(); }
  uint64_t last_ns() const { return last_ns_; }  // when something came last

 private:
  class File;

  CopyReader::Status Fail(std::string_view error);

  LinkSocket& socket_;
  CopyReader reader_;
  CopyReader::Status status_ = CopyReader::Status::kMore;
  std::string ahead_;  // what the file has not given out yet
  std::string error_;
  uint64_t last_ns_;
};

}  // namespace dfly
