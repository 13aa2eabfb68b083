// SPDX-License-Identifier: Apache-2.0
#include "storage/rdb_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text/crc64.h"
#include "core/text/rdb_encoding.h"
#include "storage/entry_writer.h"

namespace dfly {

namespace {

constexpr std::string_view kMagic = "REDIS";
constexpr std::string_view kMagicOfValkey = "VALKEY";
constexpr size_t kHeadBytes = 9;
constexpr size_t kSumBytes = 8;
constexpr unsigned kFirstWithSum = 5;  // version
// So many bytes are written at a time, which is done on a shard's thread, and read.
constexpr size_t kOutBytes = 64 * 1024;
constexpr size_t kAheadBytes = 512 * 1024;

}  // namespace

bool BeginsAsRdb(std::string_view head) {
  return head.starts_with(kMagic) || head.starts_with(kMagicOfValkey);
}

bool IsRdb(InputFile* file) {
  char head[kMagicOfValkey.size()];
  size_t read = 0;
  return !file->ReadAt(0, head, sizeof(head), &read) && BeginsAsRdb({head, read});
}

// --------------------------------------------------------------------------------------- writing

RdbFileWriter::RdbFileWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {
  out_ = fmt::format("{}{:04}", kMagic, kRdbVersionWritten);
}

void RdbFileWriter::Write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  WriteLocked(bytes);
}

void RdbFileWriter::WriteLocked(std::string_view bytes) {
  if (error_) return;
  out_ += bytes;
  if (out_.size() >= kOutBytes) FlushOut();
}

void RdbFileWriter::FlushOut() {
  crc_ = Crc64(crc_, out_);
  if (!error_) error_ = file_->Write(out_);
  if (error_) has_failed_.store(true, std::memory_order_relaxed);
  written_ += out_.size();
  out_.clear();
}

std::error_code RdbFileWriter::Finish() {
  const std::lock_guard lock(mutex_);
  out_.push_back(static_cast<char>(RdbOpcode::kEnd));
  FlushOut();
  StringSink sink(&out_);
  RdbWriter(&sink).Little(crc_, kSumBytes);
  FlushOut();
  const std::error_code close_error = file_->SyncAndClose();
  if (!error_) error_ = close_error;
  return error_;
}

// --------------------------------------------------------------------------------------- reading

RdbFileReader::RdbFileReader(std::string path, std::unique_ptr<InputFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

std::string RdbFileReader::Where() const {
  return fmt::format("{}, before byte {}", path_, file_bytes_read());
}

bool RdbFileReader::Fail(std::string_view what) {
  if (error_.empty()) error_ = fmt::format("{}, at byte {}: {}", path_, file_bytes_read(), what);
  return false;
}

bool RdbFileReader::Begin() {
  const auto head = Take(kHeadBytes);
  if (!head) return Fail("this is no RDB file");
  std::string_view magic = kMagic;
  if (head->starts_with(kMagicOfValkey)) {
    magic = kMagicOfValkey;
    family_ = RdbFamily::kValkey;
  }
  if (!head->starts_with(magic)) return Fail("this is no RDB file");
  const std::string_view digits = head->substr(magic.size());
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), version_).ptr;
  if (end != digits.data() + digits.size()) return Fail("this is no RDB file");
  // Newer versions than are known are tried (kRdbVersionDeadlines tells why).
  return version_ >= 1 || Fail("this is no RDB file");
}

void RdbFileReader::SumTaken() {
  const size_t taken = ahead_.size() - window_.size();
  crc_ = Crc64(crc_, std::string_view(ahead_).substr(summed_, taken - summed_));
  summed_ = taken;
}

bool RdbFileReader::Fetch(size_t count) {
  SumTaken();
  ahead_.erase(0, summed_);
  summed_ = 0;
  const size_t want = std::min<uint64_t>(std::max(count, kAheadBytes), left());
  while (ahead_.size() < want) {
    // `count` may be a lie, if the size is not known: there is no room for more than has come.
    const size_t have = ahead_.size();
    const size_t part = std::min(want - have, std::max(kAheadBytes, have));
    ahead_.resize(have + part);
    size_t read = 0;
    if (const auto error = file_->ReadAt(ahead_end_, ahead_.data() + have, part, &read)) {
      window_ = {};
      return Fail(error.message());
    }
    ahead_end_ += read;
    ahead_.resize(have + read);
    if (read < part) break;
  }
  window_ = ahead_;
  return window_.size() >= count || Fail("the file is shorter than it should be");
}

std::optional<std::string_view> RdbFileReader::TakeBeyond(size_t count) {
  if (!error_.empty() || count > left() || !Fetch(count)) return std::nullopt;
  return TakeOfWindow(count);
}

bool RdbFileReader::SkipBeyond(uint64_t count) {
  if (count > left()) return false;
  while (count > 0) {
    if (window_.empty() && (!error_.empty() || !Fetch(1))) return false;
    count -= TakeOfWindow(std::min<uint64_t>(count, window_.size())).size();
  }
  return true;
}

bool RdbFileReader::End() {
  if (!error_.empty()) return false;
  if (version_ < kFirstWithSum) return true;
  SumTaken();
  const uint64_t sum_of_all = crc_;
  RdbReader reader(this, kSumBytes);
  const auto sum = reader.Little(kSumBytes);
  if (!sum) return Fail("the file is cut off");
  return *sum == 0 || *sum == sum_of_all || Fail("the file is damaged (wrong checksum)");
}

}  // namespace dfly
