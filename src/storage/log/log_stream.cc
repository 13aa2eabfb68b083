// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_stream.h"

#include <algorithm>
#include <utility>

#include "storage/log/log_files.h"

namespace dfly {

bool LogStream::Seek(std::string_view id, uint64_t offset) {
  id_ = std::string(id);
  const std::vector<std::string> paths = list_();
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    std::unique_ptr<InputFile> file;
    if (files_.Open(*path, &file)) continue;
    const LogFileHeader header = ReadLogFileHeader(file.get());
    if (header.stream_id != id_ || header.stream_offset > offset) continue;
    offset_ = header.stream_offset;
    if (!Open(*path, 0)) return false;
    while (offset_ < offset) {
      if (!is_in_epoch_ && !NextEpoch()) return false;
      const uint64_t end = reader_->epoch().stream_end();
      const uint64_t skipped_to = std::min(end, offset);
      reader_->SkipRaw(skipped_to - offset_);
      offset_ = skipped_to;
      if (offset_ == end) is_in_epoch_ = false;
    }
    return true;
  }
  return false;
}

std::string_view LogStream::Next() {
  while (true) {
    if (is_in_epoch_) {
      const std::string_view bytes = reader_->NextRaw();
      offset_ += bytes.size();
      if (!bytes.empty()) return bytes;
      is_in_epoch_ = false;
      if (offset_ != reader_->epoch().stream_end()) is_at_end_ = true;  // it cannot be read
    }
    if (!NextEpoch() && !NextEpochAnew()) return {};
  }
}

bool LogStream::NextEpoch() {
  while (!is_at_end_) {
    const LogReader::Item item = reader_->Next();
    if (item == LogReader::Item::kTimestamp) continue;
    is_at_end_ = item != LogReader::Item::kEpoch || reader_->epoch().stream_offset != offset_;
    if (!is_at_end_) return is_in_epoch_ = true;
  }
  return false;
}

bool LogStream::NextEpochAnew() {
  const std::vector<std::string> paths = list_();
  if (!paths.empty() && paths.back() == path_) {
    return Open(path_, reader_->whole_size()) && NextEpoch();
  }
  // In another file. After an error of the disk it may begin with what the last one had.
  return Seek(id_, offset_) && (is_in_epoch_ || NextEpoch());
}

bool LogStream::Open(const std::string& path, uint64_t at) {
  std::unique_ptr<InputFile> file;
  if (files_.Open(path, &file)) return false;
  path_ = path;
  reader_ = std::make_unique<LogReader>(std::move(file), at);
  is_in_epoch_ = is_at_end_ = false;
  return true;
}

}  // namespace dfly
