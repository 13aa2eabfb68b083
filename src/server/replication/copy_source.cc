// SPDX-License-Identifier: Apache-2.0
#include "server/replication/copy_source.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "helio/base/clock.h"
#include "helio/base/logging.h"

namespace dfly {

using Status = CopyReader::Status;

class CopySource::File final : public InputFile {
 public:
  explicit File(CopySource* source) : source_(*source) {}

  uint64_t size() const override {
    if (source_.status_ == Status::kDone) return source_.bytes_read();
    return source_.bytes_total() != 0 ? source_.bytes_total() : kSizeUnknown;
  }
  bool is_stream() const override { return true; }
  std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) override {
    DCHECK_EQ(offset, offset_);
    *read = 0;
    while (*read < size) {
      if (taken_ == source_.ahead_.size()) {
        source_.ahead_.clear();
        taken_ = 0;
        if (source_.status_ != Status::kMore) break;
        source_.Take(&source_.ahead_);
        if (source_.status_ == Status::kError) return std::make_error_code(std::errc::io_error);
        continue;
      }
      const size_t count = std::min(size - *read, source_.ahead_.size() - taken_);
      std::memcpy(out + *read, source_.ahead_.data() + taken_, count);
      taken_ += count;
      *read += count;
    }
    offset_ += *read;
    return {};
  }

 private:
  CopySource& source_;
  uint64_t offset_ = 0;
  size_t taken_ = 0;  // of ahead_
};

CopySource::CopySource(LinkSocket* socket) : socket_(*socket), last_ns_(helio::MonotonicNanos()) {}

Status CopySource::Fail(std::string_view error) {
  error_ = error;
  return status_ = Status::kError;
}

Status CopySource::Take(std::string* rdb) {
  if (!socket_.AwaitBytes()) return Fail(socket_.error());
  size_t taken = 0;
  status_ = reader_.Take(socket_.received(), rdb, &taken);
  if (status_ == Status::kError) return Fail(reader_.error());
  socket_.Consume(taken);
  last_ns_ = helio::MonotonicNanos();
  return status_;
}

std::unique_ptr<InputFile> CopySource::OpenFile() {
  while (!reader_.has_header()) {
    if (Take(&ahead_) == Status::kError) return nullptr;
  }
  return std::make_unique<File>(this);
}

bool CopySource::EndFile(uint64_t bytes) {
  std::string rest;
  while (status_ == Status::kMore && reader_.bytes_read() == bytes) Take(&rest);
  if (status_ == Status::kError) return false;
  if (reader_.bytes_read() == bytes) return true;
  Fail("the copy has more than its RDB");
  return false;
}

}  // namespace dfly
