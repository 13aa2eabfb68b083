// SPDX-License-Identifier: Apache-2.0
// What every AppendFile does above the calls of the system: where the next append goes, filler, and
// what is left of a failure. The calls come in as a BlockFile, so that tests let each of them fail.
//
// With a reserve the file looks so; every append goes from the start of the last block to the end
// of a block, and lines of filler take the rest of it:
//
//     | content ................... | ..... content #....\r\n | #....\r\n ... #....\r\n |
//     0                             last block         a block's end              file's end
//
// so whatever a crash leaves behind the content is filler, or the append that was torn.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>

#include "storage/file_layer.h"

namespace dfly {

// An open file. Owner, Suspends: as AppendFile; Write and Sync may be under way at once.
class BlockFile {
 public:
  struct WriteResult {
    std::error_code error;
    bool sync_failed = false;  // the error is the sync's, and all bytes were written
  };

  virtual ~BlockFile() = default;
  // Writes all `pieces` from `offset` on; then, with `sync`, as Sync. Changes `pieces`.
  [[nodiscard]] virtual WriteResult Write(uint64_t offset, std::span<iovec> pieces, bool sync) = 0;
  // `*read` is less than `size` only at the file's end.
  [[nodiscard]] virtual std::error_code Read(uint64_t offset, char* out, size_t size,
                                             size_t* read) = 0;
  // `data_only` leaves out what reading does not need: the times, and that the file was longer.
  [[nodiscard]] virtual std::error_code Sync(bool data_only) = 0;
  [[nodiscard]] virtual std::error_code Resize(uint64_t size) = 0;
  [[nodiscard]] virtual std::error_code Close() = 0;
};

// Every write of a file with a reserve begins and ends at a multiple of it, in the file and in
// memory: what O_DIRECT wants, and no more than a disk writes at once.
constexpr size_t kFileBlockSize = 4096;

struct alignas(kFileBlockSize) FileBlock {
  char bytes[kFileBlockSize];
};

// `file` is `file_size` bytes long, of which `size` are content. The rest as FileLayer::OpenAppend.
[[nodiscard]] std::error_code MakeAppendFile(std::unique_ptr<BlockFile> file, uint64_t file_size,
                                             uint64_t size, size_t reserve_bytes,
                                             std::unique_ptr<AppendFile>* made);

// Fills [out, out + size) with whole lines of filler: of 64 bytes, "#....\r\n", but for the first.
// REQUIRES: size != 1, size != 2: too short for a line.
void WriteFiller(char* out, size_t size);

}  // namespace dfly
