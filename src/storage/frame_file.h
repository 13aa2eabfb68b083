// SPDX-License-Identifier: Apache-2.0
// The files of our own snapshot format: a stream of bytes in frames, each with a checksum, and
// compressed or not. All numbers have their lowest byte first.
//
//   file     header, frames, last frame
//   header   "DFLYSNAP", format (4): 1, number of the file (4), of how many (4), 0 (4),
//            generation (8), checksum of what is before it (8)
//   frame    bytes that follow (4), bytes that they stand for (4), codec (1): 0 none, 1 LZ4 block,
//            2 Zstandard; 1 for the last one, else 0 (1), 0 (2), number of the frame (4),
//            checksum of the bytes, and of the frame's header up to here (8), the bytes
//   checksum XXH3 (64 bits) of the bytes, with XXH3 of the header as its seed, whose seed is the
//            generation; of the file's header: with the seed 0, and of no bytes
//   last     as a frame of 16 bytes: how many bytes all frames before it stand for (8),
//            and how many entries there are (8)
//
// The generation is in each checksum, so a frame of another file, or of an older one in the same
// blocks of the disk, is not taken for one of this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "core/text/byte_stream.h"
#include "storage/file_layer.h"
#include "storage/snapshot_output.h"

namespace dfly {

enum class FrameCodec : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };

struct FrameFileId {
  uint64_t generation = 0;
  uint32_t number = 0;
  uint32_t count = 1;
  bool operator==(const FrameFileId&) const = default;
};

// Owner: who writes; from fibers. Suspends: as its file.
class FrameFileWriter final : public SnapshotOutput {
 public:
  // What one frame stands for, at most.
  static constexpr size_t kFrameMax = 64 * 1024;

  // `level`: of kZstd.
  FrameFileWriter(std::unique_ptr<OutputFile> file, const FrameFileId& id, FrameCodec codec,
                  int level);
  ~FrameFileWriter() override;

  void WriteEntries(std::string_view bytes) override { Write(bytes); }
  void BeginLarge() override {}
  void WritePart(std::string_view bytes) override { Write(bytes); }
  void EndLarge() override {}
  bool has_failed() const override { return static_cast<bool>(error_); }

  void Write(std::string_view bytes);
  // Nothing more comes. The file is on the device, unless there was an error, now or before.
  [[nodiscard]] std::error_code Finish(uint64_t entries);

  uint64_t bytes_written() const { return written_; }

 private:
  struct Codecs;

  void WriteFrame(std::string_view raw, bool is_last);
  void FlushOut();

  const std::unique_ptr<OutputFile> file_;
  const FrameFileId id_;
  const FrameCodec codec_;
  const std::unique_ptr<Codecs> codecs_;
  std::string out_;  // frames that are ready
  uint32_t frames_ = 0;
  uint64_t raw_bytes_ = 0;
  uint64_t written_ = 0;
  std::error_code error_;
};

// Owner:    who reads; from fibers.
// Suspends: as its file.
// Errors:   error() says what is wrong, and where.
class FrameFileReader final : public ByteSource {
 public:
  // `path` is for errors.
  FrameFileReader(std::string path, std::unique_ptr<InputFile> file);
  ~FrameFileReader() override;

  // What the file has to be; none: whatever it is.
  struct Expected {
    std::optional<uint64_t> generation = {};
    std::optional<uint32_t> number = {};
    std::optional<uint32_t> count = {};
  };
  // Reads the file's ends. False: it is none, or damaged, or not the one that is expected.
  [[nodiscard]] bool Begin(const Expected& expected);
  const FrameFileId& id() const { return id_; }

  // All was taken, and is what was written.
  [[nodiscard]] bool End();

  uint64_t entries() const { return entries_; }  // that there should be
  uint64_t file_bytes_read() const { return offset_; }
  const std::string& error() const { return error_; }
  // Names the file, and about where it is being read.
  std::string Where() const;

 private:
  struct Codecs;

  std::optional<std::string_view> TakeBeyond(size_t count) override;
  bool SkipBeyond(uint64_t count) override;
  uint64_t left_behind() const override { return raw_behind_; }

  bool Fail(std::string_view what);
  bool ReadFile(uint64_t offset, size_t size, std::string* to);
  bool NextFrame();
  bool DecodeFrame(std::string_view header, std::string_view stored, bool is_last, std::string* to);

  const std::string path_;
  const std::unique_ptr<InputFile> file_;
  const std::unique_ptr<Codecs> codecs_;
  FrameFileId id_;
  std::string ahead_;  // of the file, from ahead_at_ on
  uint64_t ahead_at_ = 0;
  uint64_t offset_ = 0;      // of the next frame
  uint64_t frames_end_ = 0;  // where the last frame begins
  uint32_t frame_number_ = 0;
  std::string frame_;        // what the present one stands for; the window is a part of it
  std::string joined_;       // what was taken from several frames
  uint64_t raw_behind_ = 0;  // what the frames behind the present one should stand for
  uint64_t entries_ = 0;
  std::string error_;
};

}  // namespace dfly
