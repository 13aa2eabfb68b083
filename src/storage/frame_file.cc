// SPDX-License-Identifier: Apache-2.0
#include "storage/frame_file.h"

#include <fmt/format.h>
#include <lz4.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr std::string_view kMagic = "DFLYSNAP";
constexpr uint32_t kFormat = 1;
constexpr size_t kFileHeaderBytes = 40;
constexpr size_t kFrameHeaderBytes = 24;
constexpr size_t kFrameSumAt = 16;  // in its header
constexpr size_t kLastBytes = 16;
// So many bytes of frames are written at a time, and read.
constexpr size_t kOutBytes = 256 * 1024;
constexpr size_t kAheadBytes = 512 * 1024;

void PutLittle(uint64_t number, size_t bytes, std::string* to) {
  for (size_t i = 0; i < bytes; ++i) to->push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t GetLittle(std::string_view from, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    number |= uint64_t{static_cast<uint8_t>(from[at + i])} << (8 * i);
  }
  return number;
}

uint64_t SumOf(std::string_view header, std::string_view bytes, uint64_t seed) {
  const uint64_t of_header = XXH3_64bits_withSeed(header.data(), header.size(), seed);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), of_header);
}

}  // namespace

// --------------------------------------------------------------------------------------- writing

struct FrameFileWriter::Codecs {
  ZSTD_CCtx* zstd = nullptr;
  std::string packed;
  ~Codecs() { ZSTD_freeCCtx(zstd); }
};

FrameFileWriter::FrameFileWriter(std::unique_ptr<OutputFile> file, const FrameFileId& id,
                                 FrameCodec codec, int level)
    : file_(std::move(file)), id_(id), codec_(codec), codecs_(std::make_unique<Codecs>()) {
  if (codec == FrameCodec::kLz4) {
    codecs_->packed.resize(static_cast<size_t>(LZ4_compressBound(kFrameMax)));
  } else if (codec == FrameCodec::kZstd) {
    codecs_->zstd = ZSTD_createCCtx();
    CHECK(codecs_->zstd != nullptr);
    ZSTD_CCtx_setParameter(codecs_->zstd, ZSTD_c_compressionLevel, level);
    codecs_->packed.resize(ZSTD_compressBound(kFrameMax));
  }
  out_ = kMagic;
  PutLittle(kFormat, 4, &out_);
  PutLittle(id.number, 4, &out_);
  PutLittle(id.count, 4, &out_);
  PutLittle(0, 4, &out_);
  PutLittle(id.generation, 8, &out_);
  PutLittle(SumOf(out_, "", 0), 8, &out_);
}

FrameFileWriter::~FrameFileWriter() = default;

void FrameFileWriter::Write(std::string_view bytes) {
  for (; !bytes.empty() && !error_; bytes.remove_prefix(std::min(bytes.size(), kFrameMax))) {
    WriteFrame(bytes.substr(0, kFrameMax), false);
    if (out_.size() >= kOutBytes) FlushOut();
  }
}

void FrameFileWriter::WriteFrame(std::string_view raw, bool is_last) {
  FrameCodec codec = FrameCodec::kNone;
  std::string_view stored = raw;
  size_t packed = 0;
  if (codec_ == FrameCodec::kLz4 && !is_last) {
    packed = static_cast<size_t>(LZ4_compress_default(raw.data(), codecs_->packed.data(),
                                                      static_cast<int>(raw.size()),
                                                      static_cast<int>(codecs_->packed.size())));
  } else if (codec_ == FrameCodec::kZstd && !is_last) {
    packed = ZSTD_compress2(codecs_->zstd, codecs_->packed.data(), codecs_->packed.size(),
                            raw.data(), raw.size());
    if (ZSTD_isError(packed)) packed = 0;
  }
  if (packed != 0 && packed < raw.size()) {
    codec = codec_;
    stored = std::string_view(codecs_->packed).substr(0, packed);
  }
  const size_t begin = out_.size();
  PutLittle(stored.size(), 4, &out_);
  PutLittle(raw.size(), 4, &out_);
  PutLittle(static_cast<uint64_t>(codec), 1, &out_);
  PutLittle(is_last ? 1 : 0, 1, &out_);
  PutLittle(0, 2, &out_);
  PutLittle(frames_++, 4, &out_);
  PutLittle(SumOf(std::string_view(out_).substr(begin), stored, id_.generation), 8, &out_);
  out_ += stored;
  if (!is_last) raw_bytes_ += raw.size();
}

void FrameFileWriter::FlushOut() {
  if (!error_) error_ = file_->Write(out_);
  if (!error_) written_ += out_.size();
  out_.clear();
}

std::error_code FrameFileWriter::Finish(uint64_t entries) {
  std::string last;
  PutLittle(raw_bytes_, 8, &last);
  PutLittle(entries, 8, &last);
  if (!error_) WriteFrame(last, true);
  FlushOut();
  const std::error_code close_error = file_->SyncAndClose();
  if (!error_) error_ = close_error;
  return error_;
}

// --------------------------------------------------------------------------------------- reading

struct FrameFileReader::Codecs {
  ZSTD_DCtx* zstd = nullptr;
  ~Codecs() { ZSTD_freeDCtx(zstd); }
};

FrameFileReader::FrameFileReader(std::string path, std::unique_ptr<InputFile> file)
    : path_(std::move(path)), file_(std::move(file)), codecs_(std::make_unique<Codecs>()) {}

FrameFileReader::~FrameFileReader() = default;

std::string FrameFileReader::Where() const {
  return fmt::format("{}, in the frame that ends at byte {}", path_, offset_);
}

bool FrameFileReader::Fail(std::string_view what) {
  if (error_.empty()) error_ = fmt::format("{}, at byte {}: {}", path_, offset_, what);
  return false;
}

bool FrameFileReader::ReadFile(uint64_t offset, size_t size, std::string* to) {
  to->resize(size);
  size_t read = 0;
  if (const auto error = file_->ReadAt(offset, to->data(), size, &read)) {
    return Fail(error.message());
  }
  return read == size || Fail("the file is shorter than it was when it was opened");
}

bool FrameFileReader::Begin(const Expected& expected) {
  if (file_->size() < kFileHeaderBytes + kFrameHeaderBytes + kLastBytes) {
    return Fail("the file is cut off");
  }
  std::string header;
  if (!ReadFile(0, kFileHeaderBytes, &header)) return false;
  if (!header.starts_with(kMagic)) return Fail("this is no file of a dragonfly snapshot");
  if (GetLittle(header, 32, 8) != SumOf(std::string_view(header).substr(0, 32), "", 0)) {
    return Fail("the header is damaged (wrong checksum)");
  }
  if (const uint64_t format = GetLittle(header, 8, 4); format != kFormat) {
    return Fail(
        fmt::format("format {} is newer than this server, which reads {}", format, kFormat));
  }
  id_ = {.generation = GetLittle(header, 24, 8),
         .number = static_cast<uint32_t>(GetLittle(header, 12, 4)),
         .count = static_cast<uint32_t>(GetLittle(header, 16, 4))};
  if (expected.generation.value_or(id_.generation) != id_.generation ||
      expected.number.value_or(id_.number) != id_.number ||
      expected.count.value_or(id_.count) != id_.count) {
    return Fail("the file is one of another snapshot");
  }

  // What the last frame tells is wanted from the beginning, to see lies.
  frames_end_ = file_->size() - kFrameHeaderBytes - kLastBytes;
  offset_ = frames_end_;
  std::string last;
  if (!ReadFile(offset_, kFrameHeaderBytes + kLastBytes, &last)) return false;
  frame_number_ = static_cast<uint32_t>(GetLittle(last, 12, 4));
  std::string totals;
  if (!DecodeFrame(std::string_view(last).substr(0, kFrameHeaderBytes),
                   std::string_view(last).substr(kFrameHeaderBytes), true, &totals)) {
    return false;
  }
  raw_behind_ = GetLittle(totals, 0, 8);
  entries_ = GetLittle(totals, 8, 8);
  if (raw_behind_ > uint64_t{frame_number_} * FrameFileWriter::kFrameMax) {
    return Fail("the end of the file makes no sense");
  }
  frame_number_ = 0;
  offset_ = kFileHeaderBytes;
  return true;
}

bool FrameFileReader::DecodeFrame(std::string_view header, std::string_view stored, bool is_last,
                                  std::string* to) {
  const uint64_t sum = SumOf(header.substr(0, kFrameSumAt), stored, id_.generation);
  if (GetLittle(header, kFrameSumAt, 8) != sum) {
    return Fail(is_last ? "the end of the file is missing or damaged"
                        : "a frame is damaged (wrong checksum)");
  }
  const size_t raw_size = GetLittle(header, 4, 4);
  if (GetLittle(header, 12, 4) != frame_number_ || raw_size > FrameFileWriter::kFrameMax ||
      (GetLittle(header, 9, 1) == 1) != is_last || (is_last && raw_size != kLastBytes)) {
    return Fail("a frame is not one of these");
  }
  to->resize(raw_size);
  switch (static_cast<FrameCodec>(GetLittle(header, 8, 1))) {
    case FrameCodec::kNone:
      if (stored.size() != raw_size) break;
      std::memcpy(to->data(), stored.data(), raw_size);
      return true;
    case FrameCodec::kLz4:
      if (LZ4_decompress_safe(stored.data(), to->data(), static_cast<int>(stored.size()),
                              static_cast<int>(raw_size)) == static_cast<int>(raw_size)) {
        return true;
      }
      break;
    case FrameCodec::kZstd:
      if (codecs_->zstd == nullptr) codecs_->zstd = ZSTD_createDCtx();
      if (ZSTD_decompressDCtx(codecs_->zstd, to->data(), raw_size, stored.data(), stored.size()) ==
          raw_size) {
        return true;
      }
      break;
    default:
      return Fail("a frame is compressed in a way that this server does not know");
  }
  return Fail("a frame cannot be decompressed");
}

bool FrameFileReader::NextFrame() {
  if (!error_.empty()) return false;
  if (offset_ >= frames_end_) return Fail("the data ends too early");
  const auto have = [this](size_t size) {
    return offset_ >= ahead_at_ && offset_ + size <= ahead_at_ + ahead_.size();
  };
  const auto fetch = [&](size_t size) {
    if (have(size)) return true;
    if (size > frames_end_ - offset_) return Fail("the data ends in the middle of a frame");
    const uint64_t count = std::min<uint64_t>(std::max(size, kAheadBytes), frames_end_ - offset_);
    ahead_at_ = offset_;
    return ReadFile(offset_, count, &ahead_);
  };
  if (!fetch(kFrameHeaderBytes)) return false;
  const size_t stored = GetLittle(std::string_view(ahead_).substr(offset_ - ahead_at_), 0, 4);
  if (stored > FrameFileWriter::kFrameMax) return Fail("a frame is too long, or damaged");
  if (!fetch(kFrameHeaderBytes + stored)) return false;
  const auto frame =
      std::string_view(ahead_).substr(offset_ - ahead_at_, kFrameHeaderBytes + stored);
  if (!DecodeFrame(frame.substr(0, kFrameHeaderBytes), frame.substr(kFrameHeaderBytes), false,
                   &frame_)) {
    return false;
  }
  if (frame_.empty() || frame_.size() > raw_behind_) return Fail("a frame is not one of these");
  window_ = frame_;
  raw_behind_ -= frame_.size();
  ++frame_number_;
  offset_ += frame.size();
  return true;
}

std::optional<std::string_view> FrameFileReader::TakeBeyond(size_t count) {
  if (count > left()) return std::nullopt;
  joined_.clear();
  while (joined_.size() < count) {
    if (window_.empty() && !NextFrame()) return std::nullopt;
    joined_ += TakeOfWindow(std::min(count - joined_.size(), window_.size()));
  }
  return joined_;
}

bool FrameFileReader::SkipBeyond(uint64_t count) {
  if (count > left()) return false;
  while (count > 0) {
    if (window_.empty() && !NextFrame()) return false;
    count -= TakeOfWindow(std::min<uint64_t>(count, window_.size())).size();
  }
  return true;
}

bool FrameFileReader::End() {
  if (!error_.empty()) return false;
  if (left() != 0 || offset_ != frames_end_) return Fail("there is more data than there should be");
  return true;
}

}  // namespace dfly
