// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "core/text/numbers.h"
#include "helio/base/logging.h"
#include "storage/log/log_files.h"

namespace dfly {

namespace {

constexpr std::string_view kReplaced = "# replaced ";

// "12.name" to 12 and "name".
std::optional<std::pair<uint64_t, std::string_view>> SplitName(std::string_view name) {
  uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [ptr, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || number == 0 || ptr == end || *ptr != '.') return std::nullopt;
  return std::pair(number, name.substr(static_cast<size_t>(ptr + 1 - name.data())));
}

std::string FormatEntry(const LogHistoryEntry& entry) {
  return fmt::format("{}{}\n{}", kReplaced, entry.replaced_s, FormatManifest(entry.log));
}

// False: it is none, or not whole.
bool ParseEntry(const std::string& text, LogHistoryEntry* entry) {
  const size_t end = text.find('\n');
  if (!text.starts_with(kReplaced) || end == std::string::npos) return false;
  const auto seconds =
      ParseInt64(std::string_view(text).substr(kReplaced.size(), end - kReplaced.size()));
  if (!seconds) return false;
  entry->replaced_s = *seconds;
  return ParseManifest(text, &entry->log).empty() && !entry->files().empty();
}

bool Lists(const std::vector<ManifestFile>& files, std::string_view name) {
  return std::ranges::any_of(files, [name](const ManifestFile& file) { return file.name == name; });
}

}  // namespace

std::vector<ManifestFile> LogHistoryEntry::files() const {
  std::vector<ManifestFile> all = log.incrementals;
  if (log.base) all.push_back(*log.base);
  return all;
}

std::string HistoryFolder(const std::string& log_path) { return JoinPath(log_path, "history"); }

std::string HistoryPath(const std::string& log_path, uint64_t number, std::string_view name) {
  return fmt::format("{}/{}.{}", HistoryFolder(log_path), number, name);
}

std::error_code ReadHistory(FileLayer* files, const std::string& log_path,
                            const std::string& file_name, std::vector<LogHistoryEntry>* entries,
                            std::vector<std::string>* names) {
  const std::string manifest_name = file_name + ".manifest";
  entries->clear();
  const std::error_code error = files->List(HistoryFolder(log_path), names);
  if (error) return IsMissing(error) ? std::error_code() : error;
  for (const std::string& name : *names) {
    const auto split = SplitName(name);
    if (!split || split->second != manifest_name) continue;
    LogHistoryEntry entry;
    entry.number = split->first;
    std::string text;
    if (auto why = ReadWholeFile(files, HistoryPath(log_path, entry.number, manifest_name), &text);
        why && !IsMissing(why)) {
      return why;
    }
    if (ParseEntry(text, &entry)) entries->push_back(std::move(entry));
  }
  std::ranges::sort(*entries, {}, &LogHistoryEntry::number);
  return {};
}

LogHistory::LogHistory(FileLayer* files, std::string log_path, std::string file_name)
    : files_(*files),
      log_path_(std::move(log_path)),
      file_name_(std::move(file_name)),
      manifest_name_(file_name_ + ".manifest") {}

std::string LogHistory::Path(uint64_t number, std::string_view name) const {
  return HistoryPath(log_path_, number, name);
}

void LogHistory::Open(const std::vector<ManifestFile>& retired) {
  is_open_ = true;
  std::vector<LogHistoryEntry> found;
  std::vector<std::string> names;
  if (auto error = ReadHistory(&files_, log_path_, file_name_, &found, &names)) {
    LOG(WARNING) << HistoryFolder(log_path_) << ": " << error.message();
    return;
  }
  for (const std::string& name : names) {
    if (const auto split = SplitName(name)) {
      next_number_ = std::max(next_number_, split->first + 1);
    }
  }
  for (LogHistoryEntry& entry : found) {
    if (Complete(&entry, retired)) {
      entries_.push_back(std::move(entry));
    } else {
      LOG(INFO) << Path(entry.number, manifest_name_) << " is not whole, and is removed";
      RemoveEntry(entry);
    }
  }
  RemoveLeftovers(names);
}

bool LogHistory::Complete(LogHistoryEntry* entry, const std::vector<ManifestFile>& retired) {
  bool has_moved = false;
  entry->bytes = 0;
  for (const ManifestFile& listed : entry->files()) {
    const std::string path = Path(entry->number, listed.name);
    std::unique_ptr<InputFile> file;
    std::error_code error = files_.Open(path, &file);
    if (IsMissing(error) && Lists(retired, listed.name)) {
      error = files_.Rename(JoinPath(log_path_, listed.name), path);
      if (!error) error = files_.Open(path, &file);
      has_moved = true;
    }
    if (error) {
      LOG(WARNING) << path << ": " << error.message();
      return false;
    }
    entry->bytes += file->size();
  }
  if (!has_moved) return true;
  std::error_code error = files_.SyncDirectory(HistoryFolder(log_path_));
  if (!error) error = files_.SyncDirectory(log_path_);
  if (error) LOG(WARNING) << HistoryFolder(log_path_) << ": " << error.message();
  return !error;
}

void LogHistory::Begin(const Manifest& log, int64_t now_s) {
  DCHECK(is_open_);
  LogHistoryEntry entry{.number = next_number_++, .replaced_s = now_s, .log = log};
  entry.log.history.clear();
  const std::string folder = HistoryFolder(log_path_);
  const std::string path = Path(entry.number, manifest_name_);
  std::error_code error = files_.MakeDirectory(folder);
  if (!error) error = files_.SyncDirectory(log_path_);
  if (!error) error = WriteWholeFile(&files_, path, FormatEntry(entry));
  if (!error) error = files_.SyncDirectory(folder);
  if (error) {
    LOG(WARNING) << path << ": " << error.message() << "; what the rewrite replaces is not kept";
    RemoveFile(path);
    return;
  }
  begun_.push_back(std::move(entry));
}

void LogHistory::Abandon() {
  for (const LogHistoryEntry& entry : begun_) RemoveFile(Path(entry.number, manifest_name_));
  begun_.clear();
}

void LogHistory::Take() {
  for (LogHistoryEntry& entry : begun_) {
    if (Complete(&entry, entry.files())) {
      entries_.push_back(std::move(entry));
    } else {
      RemoveEntry(entry);
    }
  }
  begun_.clear();
}

void LogHistory::Expire(int64_t before_s) {
  const auto stays = std::ranges::find_if(
      entries_, [before_s](const auto& entry) { return entry.replaced_s >= before_s; });
  for (auto it = entries_.begin(); it != stays; ++it) {
    LOG(INFO) << "removes " << Path(it->number, manifest_name_) << ", which is too old";
    RemoveEntry(*it);
  }
  entries_.erase(entries_.begin(), stays);
}

// Without its manifest the rest is a leftover, whatever happens next.
void LogHistory::RemoveEntry(const LogHistoryEntry& entry) {
  RemoveFile(Path(entry.number, manifest_name_));
  for (const ManifestFile& file : entry.files()) RemoveFile(Path(entry.number, file.name));
}

void LogHistory::RemoveLeftovers(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto split = SplitName(name);
    // The folder may have the history of a log of another name, too.
    if (!split || !(split->second == file_name_ || split->second == manifest_name_ ||
                    IsLogFile(split->second, file_name_))) {
      continue;
    }
    const bool is_listed = std::ranges::any_of(entries_, [&](const LogHistoryEntry& entry) {
      return entry.number == split->first &&
             (split->second == manifest_name_ || Lists(entry.files(), split->second));
    });
    if (!is_listed) RemoveFile(JoinPath(HistoryFolder(log_path_), name));
  }
}

void LogHistory::RemoveFile(const std::string& path) {
  const std::error_code error = files_.Remove(path);
  if (error && !IsMissing(error)) LOG(WARNING) << path << ": " << error.message();
}

}  // namespace dfly
