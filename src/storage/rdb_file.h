// SPDX-License-Identifier: Apache-2.0
// The file of Redis' own snapshot format, RDB: one stream (storage/entry_writer.h) with a checksum.
//
//   file   "REDIS", version (4 digits), or "VALKEY", version (3 digits); stream, 255,
//          checksum of all before it (8, lowest byte first; 0: there is none)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "core/text/byte_stream.h"
#include "core/text/rdb_encoding.h"
#include "helio/fibers/sync.h"
#include "storage/file_layer.h"
#include "storage/snapshot_output.h"

namespace dfly {

// A file begins with `head`, of which six bytes are enough: it is one.
bool BeginsAsRdb(std::string_view head);
bool IsRdb(InputFile* file);

// One for all shards.
// Owner:    who saves. Thread: any, several at once. Suspends: what writes.
class RdbFileWriter {
 public:
  explicit RdbFileWriter(std::unique_ptr<OutputFile> file);

  // In one piece.
  void Write(std::string_view bytes);
  // What one shard writes.
  class Part final : public SnapshotOutput {
   public:
    explicit Part(RdbFileWriter* whole) : whole_(*whole) {}
    void WriteEntries(std::string_view bytes) override { whole_.Write(bytes); }
    void BeginLarge() override { whole_.mutex_.lock(); }
    void WritePart(std::string_view bytes) override { whole_.WriteLocked(bytes); }
    void EndLarge() override { whole_.mutex_.unlock(); }
    bool has_failed() const override { return whole_.has_failed(); }

   private:
    RdbFileWriter& whole_;
  };

  bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }
  // Nothing more comes. The file is on the device, unless there was an error, now or before.
  [[nodiscard]] std::error_code Finish();
  uint64_t bytes_written() const { return written_; }

 private:
  void WriteLocked(std::string_view bytes);
  void FlushOut();

  const std::unique_ptr<OutputFile> file_;
  helio::HoldableMutex mutex_{kSnapshotFile};
  std::string out_;  // guarded by mutex_, as what follows
  uint64_t crc_ = 0;
  uint64_t written_ = 0;
  std::error_code error_;
  std::atomic<bool> has_failed_{false};
};

// Owner:    who reads; from fibers.
// Suspends: as its file.
// Errors:   error() says what is wrong, and where.
class RdbFileReader final : public ByteSource {
 public:
  // `path` is for errors.
  RdbFileReader(std::string path, std::unique_ptr<InputFile> file);

  // Reads the head. False: it is none that this server reads.
  [[nodiscard]] bool Begin();
  // The stream is over, as its end was taken: compares the checksum.
  [[nodiscard]] bool End();

  unsigned version() const { return version_; }
  RdbFamily family() const { return family_; }
  uint64_t file_bytes_read() const { return ahead_end_ - window_.size(); }
  const std::string& error() const { return error_; }
  std::string Where() const;

 private:
  std::optional<std::string_view> TakeBeyond(size_t count) override;
  bool SkipBeyond(uint64_t count) override;
  uint64_t left_behind() const override { return file_->size() - ahead_end_; }
  bool Fail(std::string_view what);
  // Adds what was taken to crc_.
  void SumTaken();
  // Makes the window so large, or larger. REQUIRES: count <= left().
  bool Fetch(size_t count);

  const std::string path_;
  const std::unique_ptr<InputFile> file_;
  unsigned version_ = 0;
  RdbFamily family_ = RdbFamily::kRedis;
  std::string ahead_;       // of the file; the window is its end
  uint64_t ahead_end_ = 0;  // in the file
  size_t summed_ = 0;       // of ahead_, from its beginning
  uint64_t crc_ = 0;
  std::string error_;
};

}  // namespace dfly
