// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/numbers.h"
#include "storage/entry_reader.h"
#include "storage/rdb_file.h"

namespace dfly {

namespace {

constexpr uint64_t kManifestMax = 64 << 20;  // bytes
constexpr size_t kAuxMax = 1 << 20;          // bytes

}  // namespace

std::string JoinPath(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}

bool IsMissing(std::error_code error) { return error == std::errc::no_such_file_or_directory; }

bool IsLogFile(std::string_view name, std::string_view file_name) {
  if (!name.starts_with(file_name)) return false;
  name.remove_prefix(file_name.size());
  if (!name.starts_with('.')) return false;
  name.remove_prefix(1);
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return false;
  name.remove_prefix(digits);
  return name == ".base.rdb" || name == ".base.aof" || name == ".incr.aof";
}

std::error_code ReadWholeFile(FileLayer* files, const std::string& path, std::string* text) {
  std::unique_ptr<InputFile> file;
  if (auto error = files->Open(path, &file)) return error;
  if (file->size() > kManifestMax) return std::make_error_code(std::errc::file_too_large);
  text->resize(file->size());
  size_t read = 0;
  if (auto error = file->ReadAt(0, text->data(), text->size(), &read)) return error;
  text->resize(read);
  return {};
}

std::error_code WriteWholeFile(FileLayer* files, const std::string& path, std::string_view text) {
  std::unique_ptr<OutputFile> file;
  if (auto error = files->Create(path, &file)) return error;
  const std::error_code error = file->Write(text);
  const std::error_code sync_error = file->SyncAndClose();
  return error ? error : sync_error;
}

std::optional<int64_t> ReadBaseTime(const std::string& path, std::unique_ptr<InputFile> file) {
  RdbFileReader source(path, std::move(file));
  if (!source.Begin()) return std::nullopt;
  EntryReader entries(&source, kAuxMax, true, source.family());
  std::optional<int64_t> time_s;
  bool is_base = false;
  while (entries.Next() == EntryReader::Item::kAux) {
    if (entries.name() == "ctime") time_s = ParseInt64(entries.text());
    if (entries.name() == "aof-base") is_base = entries.text() == "1";
  }
  return is_base ? time_s : std::nullopt;
}

std::string CheckBase(const std::string& path, std::unique_ptr<InputFile> file) {
  RdbFileReader source(path, std::move(file));
  constexpr uint64_t kSumBytes = 8;
  if (source.Begin() && source.Skip(source.left() - std::min(source.left(), kSumBytes))) {
    (void)source.End();
  }
  return source.error();
}

LogFileHeader ReadLogFileHeader(InputFile* file) {
  char text[kLogFileHeaderMax];
  size_t size = 0;
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(sizeof(text), file->size()));
  if (file->ReadAt(0, text, wanted, &size)) return {};
  return ParseLogFileHeader({text, size}).value_or(LogFileHeader());
}

}  // namespace dfly
