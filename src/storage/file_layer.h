// SPDX-License-Identifier: Apache-2.0
// The files of snapshots and of the log: an interface, so that tests can let disks fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dfly {

// Written from one end to the other.
// Owner:    who writes; calls come one after another, from fibers of any thread.
// Suspends: all.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  [[nodiscard]] virtual std::error_code Write(std::string_view bytes) = 0;
  // All that was written is on the device, and the file is closed.
  [[nodiscard]] virtual std::error_code SyncAndClose() = 0;
};

// Owner:    who reads, from fibers of any thread.
// Suspends: ReadAt.
class InputFile {
 public:
  static constexpr uint64_t kSizeUnknown = uint64_t{1} << 62;

  virtual ~InputFile() = default;
  virtual uint64_t size() const = 0;  // bytes
  // It comes from elsewhere while it is read, from its beginning on. Until its end its size is what
  // somebody says, or kSizeUnknown.
  virtual bool is_stream() const { return false; }
  // Fills [out, out + size); `*read` is less than `size` only at the file's end.
  [[nodiscard]] virtual std::error_code ReadAt(uint64_t offset, char* out, size_t size,
                                               size_t* read) = 0;
};

// Grows at its end. Its content is what was appended; behind that there may be filler: lines that
// begin with '#', which all readers of an append-only file skip.
//
// Owner:    who appends. Calls come one after another, from fibers of any thread; but Sync may run
//           while another fiber is in Append.
// Suspends: all but the accessors, the destructor too.
// Errors:   A write that failed leaves the content as it was, and can be tried again. A sync that
//           failed cannot: the kernel may have dropped the bytes and would not tell again. Such a
//           file is broken: Append and Sync return that error for ever. What was not synced has
//           to be written to another file, after Truncate(synced_size()), which still works.
class AppendFile {
 public:
  virtual ~AppendFile() = default;
  // Writes `pieces`, one behind the other, at the end of the content. With `sync` they and all
  // before them are on the device when it returns.
  [[nodiscard]] virtual std::error_code Append(std::span<const std::string_view> pieces,
                                               bool sync) = 0;
  // All that was appended before the call is on the device when it returns.
  [[nodiscard]] virtual std::error_code Sync() = 0;
  // The content ends at `size`, and so does the file; both are on the device when it returns.
  // REQUIRES: size <= size(); of a broken file, size <= synced_size().
  [[nodiscard]] virtual std::error_code Truncate(uint64_t size) = 0;
  // Truncate(size()), and the file is closed, also on an error.
  [[nodiscard]] virtual std::error_code Close() = 0;

  virtual uint64_t size() const = 0;         // bytes of content. Thread: any
  virtual uint64_t synced_size() const = 0;  // those that are on the device. Thread: any
  virtual bool is_broken() const = 0;        // a sync has failed. Thread: any
};

// What belongs to the file's name is its owner's alone. It ends with the process at the latest,
// however that ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Thread:   any; from fibers.
// Suspends: all.
class FileLayer {
 public:
  virtual ~FileLayer() = default;
  // A new, empty file; one that is there is emptied.
  [[nodiscard]] virtual std::error_code Create(const std::string& path,
                                               std::unique_ptr<OutputFile>* file) = 0;
  [[nodiscard]] virtual std::error_code Open(const std::string& path,
                                             std::unique_ptr<InputFile>* file) = 0;
  // Makes the file if it is not there. Its content is the first `size` bytes, which are on the
  // device afterwards; what is behind them is dropped. An error if it is shorter.
  // With `reserve_bytes` > 0 about so much filler is written before its place is needed, past the
  // page cache if the file system can do that: a sync then finds the file's size and blocks as they
  // were, and has to write the data alone. For who syncs each append.
  [[nodiscard]] virtual std::error_code OpenAppend(const std::string& path, uint64_t size,
                                                   size_t reserve_bytes,
                                                   std::unique_ptr<AppendFile>* file) = 0;
  // No error if it is there.
  [[nodiscard]] virtual std::error_code MakeDirectory(const std::string& path) = 0;
  // `to` is the one or the other at every moment, also if the machine stops; after SyncDirectory it
  // is `from`.
  [[nodiscard]] virtual std::error_code Rename(const std::string& from, const std::string& to) = 0;
  // A file, or a directory that is empty.
  [[nodiscard]] virtual std::error_code Remove(const std::string& path) = 0;
  [[nodiscard]] virtual std::error_code SyncDirectory(const std::string& path) = 0;
  // Names of what is in a directory, in no order.
  [[nodiscard]] virtual std::error_code List(const std::string& path,
                                             std::vector<std::string>* names) = 0;
  // Makes an empty file if it is not there. It must never be removed: who has it open may have the
  // lock. errc::device_or_resource_busy: somebody else has it. Any other error: there are no locks
  // there.
  [[nodiscard]] virtual std::error_code Lock(const std::string& path,
                                             std::unique_ptr<FileLock>* lock) = 0;
};

// The one of the machine.
FileLayer& SystemFiles();

}  // namespace dfly
