// SPDX-License-Identifier: Apache-2.0
// What the files of an append-only log need of a FileLayer, besides appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "storage/file_layer.h"
#include "storage/log/annotations.h"

namespace dfly {

// "" is the current directory.
std::string JoinPath(const std::string& directory, std::string_view name);
bool IsMissing(std::error_code error);

// Is it what a log calls its bases and incrementals whose names begin with `file_name`? Then no log
// of another name has it.
bool IsLogFile(std::string_view name, std::string_view file_name);

// For manifests: a file of up to 64 MB. Suspends.
[[nodiscard]] std::error_code ReadWholeFile(FileLayer* files, const std::string& path,
                                            std::string* text);
// A new file, or one that is replaced; it is on the device, its name is not. Suspends.
[[nodiscard]] std::error_code WriteWholeFile(FileLayer* files, const std::string& path,
                                             std::string_view text);

// A file that several readers have, one after another.
class SharedInput final : public InputFile {
 public:
  explicit SharedInput(std::shared_ptr<InputFile> file) : file_(std::move(file)) {}
  uint64_t size() const override { return file_->size(); }
  std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) override {
    return file_->ReadAt(offset, out, size, read);
  }

 private:
  const std::shared_ptr<InputFile> file_;
};

// The moment that an RDB file is of, in Unix seconds: Redis' `ctime`. Only of a base that was
// written for a log (`aof-base`), as others may have commands behind them. `path` is for nobody but
// a debugger. Suspends.
std::optional<int64_t> ReadBaseTime(const std::string& path, std::unique_ptr<InputFile> file);
// Empty: it is not of ours, or cannot be read. Suspends.
LogFileHeader ReadLogFileHeader(InputFile* file);
// Of an RDB file that nothing follows: compares its checksum. An empty text, or what is wrong, with
// the path. Suspends.
[[nodiscard]] std::string CheckBase(const std::string& path, std::unique_ptr<InputFile> file);

}  // namespace dfly
