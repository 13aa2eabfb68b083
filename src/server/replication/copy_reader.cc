// SPDX-License-Identifier: Apache-2.0
#include "server/replication/copy_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/text/crc64.h"
#include "core/text/numbers.h"
#include "helio/base/log_text.h"
#include "storage/rdb_file.h"

namespace dfly {

auto CopyReader::Fail(std::string error) -> Status {
  error_ = std::move(error);
  return Status::kError;
}

auto CopyReader::Take(std::string_view bytes, std::string* rdb, size_t* taken) -> Status {
  *taken = 0;
  if (!has_header_) {
    const Status status = TakeHeader(bytes, taken);
    if (status == Status::kError || !has_header_) return status;
  }
  size_t more = 0;
  const std::string_view rest = bytes.substr(*taken);
  const Status status = mark_.empty() ? TakeSized(rest, rdb, &more) : TakeMarked(rest, rdb, &more);
  *taken += more;
  return status;
}

auto CopyReader::TakeHeader(std::string_view bytes, size_t* taken) -> Status {
  while (*taken < bytes.size()) {
    const char c = bytes[(*taken)++];
    if (c != '\n') {
      header_ += c;
      if (header_.size() > kHeaderBytesMax) return Fail("the header of the copy is too long");
      continue;
    }
    if (header_.ends_with('\r')) header_.pop_back();
    if (header_.empty()) continue;  // a sign of life
    if (header_.front() == '-') {
      return Fail(fmt::format("the primary cannot make one: {}", helio::LogText(header_)));
    }
    const std::string_view text = header_;
    if (text.starts_with("$EOF:") && text.size() == 5 + kMarkBytes) {
      mark_ = text.substr(5);
    } else {
      const std::optional<int64_t> size =
          text.starts_with('$') ? ParseInt64(text.substr(1)) : std::nullopt;
      if (!size || *size < static_cast<int64_t>(kFileBytesMin)) {
        return Fail(fmt::format("'{}' is no header of a copy", helio::LogText(header_)));
      }
      bytes_total_ = static_cast<uint64_t>(*size);
    }
    has_header_ = true;
    break;
  }
  return Status::kMore;
}

auto CopyReader::TakeSized(std::string_view bytes, std::string* rdb, size_t* taken) -> Status {
  *taken = std::min<uint64_t>(bytes.size(), bytes_total_ - bytes_read_);
  Add(bytes.substr(0, *taken), rdb);
  return bytes_read_ == bytes_total_ ? Finish() : Status::kMore;
}

auto CopyReader::TakeMarked(std::string_view bytes, std::string* rdb, size_t* taken) -> Status {
  *taken = bytes.size();
  // The mark may have begun in what came before: as much of that as it can be is kept.
  const size_t kept = kept_.size();
  if (kept > 0) {
    std::string seam = std::move(kept_);
    seam.append(bytes.substr(0, kMarkBytes - 1));
    if (const size_t at = seam.find(mark_); at != std::string::npos) {
      Add(std::string_view(seam).substr(0, at), rdb);
      *taken = at + kMarkBytes - kept;
      return Finish();
    }
    kept_.clear();
    if (bytes.size() < kMarkBytes - 1) {
      const size_t keep = std::min(seam.size(), kMarkBytes - 1);
      Add(std::string_view(seam).substr(0, seam.size() - keep), rdb);
      kept_ = seam.substr(seam.size() - keep);
      return Status::kMore;
    }
    Add(std::string_view(seam).substr(0, kept), rdb);
  }
  if (const size_t at = bytes.find(mark_); at != std::string_view::npos) {
    Add(bytes.substr(0, at), rdb);
    *taken = at + kMarkBytes;
    return Finish();
  }
  const size_t keep = std::min(bytes.size(), kMarkBytes - 1);
  Add(bytes.substr(0, bytes.size() - keep), rdb);
  kept_ = bytes.substr(bytes.size() - keep);
  return Status::kMore;
}

void CopyReader::Add(std::string_view bytes, std::string* rdb) {
  rdb->append(bytes);
  bytes_read_ += bytes.size();
  if (head_.size() < kFileBytesMin) head_.append(bytes.substr(0, kFileBytesMin - head_.size()));
  if (bytes.size() >= kChecksumBytes) {
    crc_ = Crc64(crc_, last_);
    crc_ = Crc64(crc_, bytes.substr(0, bytes.size() - kChecksumBytes));
    last_ = bytes.substr(bytes.size() - kChecksumBytes);
    return;
  }
  last_.append(bytes);
  if (last_.size() <= kChecksumBytes) return;
  const size_t over = last_.size() - kChecksumBytes;
  crc_ = Crc64(crc_, std::string_view(last_).substr(0, over));
  last_.erase(0, over);
}

auto CopyReader::Finish() -> Status {
  if (head_.size() < kFileBytesMin || !BeginsAsRdb(head_)) {
    return Fail("the copy is no RDB file");
  }
  uint64_t told = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    told |= uint64_t{static_cast<uint8_t>(last_[i])} << (8 * i);
  }
  // 0: rdbchecksum no.
  if (told != 0 && told != crc_) return Fail("the copy's checksum is wrong");
  return Status::kDone;
}

}  // namespace dfly
