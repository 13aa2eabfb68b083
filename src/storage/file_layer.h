// SPDX-License-Identifier: Apache-2.0
// The files of snapshots: an interface, so that tests can let disks fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
  virtual ~InputFile() = default;
  virtual uint64_t size() const = 0;  // bytes
  // Fills [out, out + size); `*read` is less than `size` only at the file's end.
  [[nodiscard]] virtual std::error_code ReadAt(uint64_t offset, char* out, size_t size,
                                               size_t* read) = 0;
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
  // `to` is the one or the other at every moment, also if the machine stops; after SyncDirectory it
  // is `from`.
  [[nodiscard]] virtual std::error_code Rename(const std::string& from, const std::string& to) = 0;
  [[nodiscard]] virtual std::error_code Remove(const std::string& path) = 0;
  [[nodiscard]] virtual std::error_code SyncDirectory(const std::string& path) = 0;
  // Names of what is in a directory, in no order.
  [[nodiscard]] virtual std::error_code List(const std::string& path,
                                             std::vector<std::string>* names) = 0;
};

// The one of the machine.
FileLayer& SystemFiles();

}  // namespace dfly
