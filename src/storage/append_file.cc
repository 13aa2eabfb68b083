// SPDX-License-Identifier: Apache-2.0
#include "storage/append_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/hold.h"
#include "helio/fibers/sync.h"

namespace dfly {

namespace {

constexpr size_t kFillerLine = 64;
constexpr size_t kFillerLineMin = 3;  // "#\r\n"
// One write of filler. Appends wait for it, for it lengthens the file, which locks that.
constexpr size_t kFillStep = 128 * 1024;
// Longer appends with a reserve are several writes.
constexpr size_t kBufferMax = 1024 * 1024;

uint64_t BlockBegin(uint64_t offset) { return offset / kFileBlockSize * kFileBlockSize; }
uint64_t BlockEnd(uint64_t offset) { return BlockBegin(offset + kFileBlockSize - 1); }

// Where the block of the write ends whose content ends at `end`: with room for lines of filler.
uint64_t FillEnd(uint64_t end) {
  const uint64_t block_end = BlockEnd(end);
  const bool is_short = block_end > end && block_end - end < kFillerLineMin;
  return is_short ? block_end + kFileBlockSize : block_end;
}

// Filler for kFillStep bytes.
const std::vector<FileBlock>& FillerBlocks() {
  static const std::vector<FileBlock> blocks = [] {
    std::vector<FileBlock> made(kFillStep / kFileBlockSize);
    WriteFiller(made.front().bytes, kFillStep);
    return made;
  }();
  return blocks;
}

class GrowingFile final : public AppendFile {
 public:
  GrowingFile(std::unique_ptr<BlockFile> file, uint64_t file_size, size_t reserve_bytes)
      : file_(std::move(file)), reserve_bytes_(reserve_bytes), file_end_(file_size) {}
  ~GrowingFile() override { StopFilling(); }

  // The first `size` bytes are content. Called once, before all others.
  std::error_code Open(uint64_t size) {
    if (reserve_bytes_ > 0) {
      if (auto error = ReadBlock(size, &last_block_)) return error;
    }
    return CutAndSync(size, nullptr);
  }

  std::error_code Append(std::span<const std::string_view> pieces, bool sync) override;
  std::error_code Sync() override;
  std::error_code Truncate(uint64_t size) override;
  std::error_code Close() override;

  uint64_t size() const override { return size_.load(); }
  uint64_t synced_size() const override { return synced_size_.load(); }
  bool is_broken() const override { return broken_.load() != 0; }

 private:
  std::error_code broken_error() const { return {broken_.load(), std::generic_category()}; }
  void Break(std::error_code error) {
    int none = 0;  // the first one stays
    broken_.compare_exchange_strong(none, error.value());
  }
  void NoteSynced(uint64_t size) {
    uint64_t known = synced_size();
    while (known < size && !synced_size_.compare_exchange_weak(known, size)) {
    }
  }

  // With sync_mutex_ held, but for Open. Resizes the file to `size` if it may be longer.
  std::error_code Cut(uint64_t size);
  std::error_code CutAndSync(uint64_t size, const FileBlock* last_block);
  // The block that `size` is in, up to there.
  std::error_code ReadBlock(uint64_t size, FileBlock* block);

  BlockFile::WriteResult WriteGathered(std::span<const std::string_view> pieces, bool sync);
  BlockFile::WriteResult WriteBlocks(std::span<const std::string_view> pieces, uint64_t end,
                                     bool sync);
  // `pieces` have been written up to `end`: what that has of its last block stays in memory.
  void KeepLastBlock(std::span<const std::string_view> pieces, uint64_t end);
  // Begins to write filler if there is little left.
  void Reserve();
  void Fill(uint64_t target);
  void StopFilling();

  const std::unique_ptr<BlockFile> file_;
  const size_t reserve_bytes_;
  std::atomic<uint64_t> size_{0};
  std::atomic<uint64_t> synced_size_{0};
  std::atomic<int> broken_{0};  // an errno
  bool is_closed_ = false;      // guarded by sync_mutex_
  helio::Mutex sync_mutex_;     // held by Sync and by what must not run beside it

  // The file is no longer than that. With a reserve it has filler up to there, unless has_rest_.
  // While a fiber fills only that changes it, and appends stay before it.
  std::atomic<uint64_t> file_end_;
  bool has_rest_ = false;  // of a failed append, behind the content

  // Only with a reserve.
  FileBlock last_block_;           // what the content has in its last, incomplete block
  std::vector<FileBlock> buffer_;  // of one write
  uint64_t write_end_ = 0;         // of the last write; 0: the file was cut
  uint64_t fill_from_size_ = 0;    // nothing is filled before the content is so long
  helio::Fiber filling_fiber_;
  std::atomic<bool> is_filling_{false};
  std::atomic<bool> stop_filling_{false};
};

std::error_code GrowingFile::Append(std::span<const std::string_view> pieces, bool sync) {
  const helio::BoundedWait wait(helio::kSystemCall);
  if (is_broken()) return broken_error();
  uint64_t end = size();
  for (const std::string_view piece : pieces) end += piece.size();
  if (end == size()) return sync ? Sync() : std::error_code();
  if (has_rest_) {
    // A shorter append would leave the end of it.
    const std::lock_guard lock(sync_mutex_);
    if (auto error = Cut(size())) return error;
  }
  const BlockFile::WriteResult result =
      reserve_bytes_ == 0 ? WriteGathered(pieces, sync) : WriteBlocks(pieces, end, sync);
  if (result.error) {
    has_rest_ = true;
    if (result.sync_failed) Break(result.error);
    return result.error;
  }
  size_ = end;
  // If a Sync beside this one has failed it may have been told the error of these bytes.
  if (is_broken()) return broken_error();
  if (sync) NoteSynced(end);
  if (reserve_bytes_ > 0) Reserve();
  return {};
}

BlockFile::WriteResult GrowingFile::WriteGathered(std::span<const std::string_view> pieces,
                                                  bool sync) {
  std::vector<iovec> parts;
  parts.reserve(pieces.size());
  uint64_t end = size();
  for (const std::string_view piece : pieces) {
    parts.push_back({const_cast<char*>(piece.data()), piece.size()});
    end += piece.size();
  }
  file_end_ = std::max<uint64_t>(file_end_, end);
  return file_->Write(size(), parts, sync);
}

BlockFile::WriteResult GrowingFile::WriteBlocks(std::span<const std::string_view> pieces,
                                                uint64_t end, bool sync) {
  const uint64_t begin = BlockBegin(size());
  // Not less than that of the last write, which may have begun a line of filler in this block that
  // ends in the next.
  const uint64_t write_end = std::max(FillEnd(end), write_end_);
  write_end_ = write_end;
  // What is filled meanwhile would go over this.
  if (write_end > file_end_) StopFilling();
  const size_t count = std::min<uint64_t>(write_end - begin, kBufferMax) / kFileBlockSize;
  if (buffer_.size() < count) buffer_.resize(count);
  char* const buffer = buffer_.front().bytes;

  uint64_t at = begin;  // of the buffer's first byte
  size_t used = 0;
  const auto write = [&](bool and_sync) {
    iovec part{buffer, used};
    const BlockFile::WriteResult result = file_->Write(at, {&part, 1}, and_sync);
    at += used;
    used = 0;
    return result;
  };
  BlockFile::WriteResult result;
  const auto add = [&](std::string_view bytes) {
    while (!bytes.empty()) {
      if (used == count * kFileBlockSize) {
        result = write(false);
        if (result.error) return false;
      }
      const size_t taken = std::min(bytes.size(), count * kFileBlockSize - used);
      std::memcpy(buffer + used, bytes.data(), taken);
      used += taken;
      bytes.remove_prefix(taken);
    }
    return true;
  };

  file_end_ = std::max<uint64_t>(file_end_, write_end);
  char filler[kFileBlockSize + kFillerLineMin];
  WriteFiller(filler, write_end - end);
  const bool is_added = add({last_block_.bytes, size() - begin}) &&
                        std::ranges::all_of(pieces, add) && add({filler, write_end - end});
  if (is_added) result = write(sync);
  if (!result.error) KeepLastBlock(pieces, end);
  return result;
}

void GrowingFile::KeepLastBlock(std::span<const std::string_view> pieces, uint64_t end) {
  const uint64_t begin = BlockBegin(end);
  if (begin <= size()) {
    char* out = last_block_.bytes + (size() - begin);
    for (const std::string_view piece : pieces) {
      if (piece.empty()) continue;
      std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    }
    return;
  }
  // All of it is of `pieces`: from the last one back.
  size_t left = end - begin;
  while (left > 0) {
    const std::string_view piece = pieces.back();
    pieces = pieces.first(pieces.size() - 1);
    const size_t count = std::min(left, piece.size());
    if (count == 0) continue;
    left -= count;
    std::memcpy(last_block_.bytes + left, piece.data() + piece.size() - count, count);
  }
}

std::error_code GrowingFile::ReadBlock(uint64_t size, FileBlock* block) {
  const uint64_t begin = BlockBegin(size);
  if (size == begin) return {};
  size_t read = 0;
  if (auto error = file_->Read(begin, block->bytes, kFileBlockSize, &read)) return error;
  if (read < size - begin)
    return std::make_error_code(std::errc::io_error);  // it was cut by others
  return {};
}

void GrowingFile::Reserve() {
  if (is_filling_.load(std::memory_order_acquire)) return;  // pairs with the release in Fill()
  const uint64_t end = FillEnd(size());
  if (file_end_ - end >= reserve_bytes_ / 2 || size() < fill_from_size_) return;
  StopFilling();
  const uint64_t target = BlockEnd(end + reserve_bytes_);
  if (helio::Scheduler::CurrentFiber() == nullptr) return Fill(target);
  is_filling_ = true;
  filling_fiber_ = helio::Fiber("append_reserve", [this, target] { Fill(target); });
}

void GrowingFile::Fill(uint64_t target) {
  while (!stop_filling_ && file_end_ < target) {
    const uint64_t begin = file_end_;
    const size_t count = std::min<uint64_t>(kFillStep, target - begin);
    iovec part{const_cast<char*>(FillerBlocks().front().bytes), count};
    if (file_->Write(begin, {&part, 1}, false).error) {
      // No room, or a bad disk: whoever appends will see it. Later there may be room.
      fill_from_size_ = size() + reserve_bytes_ / 2;
      break;
    }
    file_end_ = begin + count;
  }
  is_filling_.store(false, std::memory_order_release);
}

void GrowingFile::StopFilling() {
  if (!filling_fiber_.joinable()) return;
  const helio::BoundedWait wait(helio::kSystemCall);
  stop_filling_ = true;
  filling_fiber_.Join();
  stop_filling_ = false;
}

std::error_code GrowingFile::Sync() {
  const helio::BoundedWait wait(helio::kSystemCall);
  const std::lock_guard lock(sync_mutex_);
  if (is_broken()) return broken_error();
  if (is_closed_) return std::make_error_code(std::errc::bad_file_descriptor);
  const uint64_t appended = size();
  if (auto error = file_->Sync(true)) {
    Break(error);
    return error;
  }
  NoteSynced(appended);
  return {};
}

std::error_code GrowingFile::Cut(uint64_t size) {
  StopFilling();
  // A write of filler that failed halfway is not in file_end_.
  if (file_end_ > size || reserve_bytes_ > 0) {
    if (auto error = file_->Resize(size)) return error;
    file_end_ = size;
    write_end_ = 0;
  }
  has_rest_ = false;
  return {};
}

std::error_code GrowingFile::CutAndSync(uint64_t size, const FileBlock* last_block) {
  if (auto error = Cut(size)) return error;
  if (last_block != nullptr) last_block_ = *last_block;
  size_ = size;
  synced_size_ = std::min(size, synced_size());
  if (auto error = file_->Sync(false)) {
    Break(error);
    return error;
  }
  synced_size_ = size;
  return {};
}

std::error_code GrowingFile::Truncate(uint64_t size) {
  const helio::BoundedWait wait(helio::kSystemCall);
  DCHECK_LE(size, is_broken() ? synced_size() : this->size());
  const std::lock_guard lock(sync_mutex_);
  // The sync that this has waited for has failed: another one would find nothing to write.
  if (is_broken() && size > synced_size()) return broken_error();
  if (reserve_bytes_ == 0 || size == this->size()) return CutAndSync(size, nullptr);
  FileBlock last_block;
  if (auto error = ReadBlock(size, &last_block)) return error;
  return CutAndSync(size, &last_block);
}

std::error_code GrowingFile::Close() {
  const helio::BoundedWait wait(helio::kSystemCall);
  const std::lock_guard lock(sync_mutex_);
  // What a broken file has lost is not synced by another try.
  std::error_code error =
      is_broken() && size() != synced_size() ? broken_error() : CutAndSync(size(), nullptr);
  StopFilling();
  is_closed_ = true;
  const std::error_code close_error = file_->Close();
  return error ? error : close_error;
}

}  // namespace

std::error_code MakeAppendFile(std::unique_ptr<BlockFile> file, uint64_t file_size, uint64_t size,
                               size_t reserve_bytes, std::unique_ptr<AppendFile>* made) {
  if (size > file_size) return std::make_error_code(std::errc::invalid_argument);
  auto growing = std::make_unique<GrowingFile>(std::move(file), file_size, reserve_bytes);
  if (auto error = growing->Open(size)) return error;
  *made = std::move(growing);
  return {};
}

void WriteFiller(char* out, size_t size) {
  DCHECK(size == 0 || size >= kFillerLineMin);
  while (size > 0) {
    // Lines end at multiples of kFillerLine before the end.
    size_t line = size % kFillerLine == 0 ? kFillerLine : size % kFillerLine;
    if (line < kFillerLineMin) line += kFillerLine;
    std::memset(out, '.', line);
    out[0] = '#';
    out[line - 2] = '\r';
    out[line - 1] = '\n';
    out += line;
    size -= line;
  }
}

}  // namespace dfly
