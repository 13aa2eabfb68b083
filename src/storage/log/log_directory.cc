// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "helio/base/logging.h"
#include "storage/log/annotations.h"
#include "storage/log/log_files.h"
#include "storage/log/log_place.h"

namespace dfly {

namespace {

bool Has(const std::vector<ManifestFile>& files, std::string_view name) {
  return std::any_of(files.begin(), files.end(),
                     [name](const ManifestFile& file) { return file.name == name; });
}

bool HasContent(InputFile* file) {
  return file->size() > std::max(kFileMark.size(), ReadLogFileHeader(file).size);
}

// Raises `*next` above all numbers of `files`.
void CountSeqs(const std::vector<ManifestFile>& files, uint64_t* next) {
  for (const ManifestFile& file : files) *next = std::max(*next, file.seq + 1);
}

}  // namespace

LogDirectory::LogDirectory(FileLayer* files, Names names)
    : files_(*files),
      names_(std::move(names)),
      path_(JoinPath(names_.dir, names_.directory_name)),
      history_(files, path_, names_.file_name) {}

std::string LogDirectory::Path(std::string_view name) const { return JoinPath(path_, name); }

std::string LogDirectory::TemporaryBase() const {
  return Path(fmt::format("temp-{}.base.rdb", names_.file_name));
}

std::string LogDirectory::Open() {
  std::error_code error = files_.List(path_, &found_);
  if (IsMissing(error)) {
    error = files_.MakeDirectory(path_);
    if (!error) error = files_.SyncDirectory(names_.dir.empty() ? "." : names_.dir);
  }
  std::string why = error ? "" : Lock();
  if (!why.empty()) return why;
  // Not before: whoever had the lock may have removed some.
  if (!error) error = files_.List(path_, &found_);
  if (error) return fmt::format("{}: {}", path_, error.message());
  why = ReadManifest();
  if (why.empty()) why = Adopt();
  if (why.empty()) why = CheckFiles();
  if (!why.empty()) return why;

  if (manifest_.base) next_base_seq_ = manifest_.base->seq + 1;
  CountSeqs(manifest_.history, &next_base_seq_);
  CountSeqs(manifest_.history, &next_incremental_seq_);
  CountSeqs(manifest_.incrementals, &next_incremental_seq_);
  if (keeps_history_) {
    history_.Open(manifest_.history);
  } else {
    TellOfHistory();
  }
  RemoveLeftovers();
  RemoveRetired();
  return "";
}

std::string LogDirectory::OpenToRead() {
  is_read_only_ = true;
  std::string why = ReadManifest();
  if (!why.empty() || is_new()) return why;
  // Who writes the log would remove files while they are read.
  why = Lock();
  if (why.empty()) why = ReadManifest();
  return why.empty() ? CheckFiles() : why;
}

void LogDirectory::TellOfHistory() {
  std::vector<LogHistoryEntry> entries;
  std::vector<std::string> names;
  if (ReadHistory(&files_, path_, names_.file_name, &entries, &names) || entries.empty()) return;
  LOG(WARNING) << HistoryFolder(path_) << " has what " << entries.size()
               << " rewrites have replaced; with --aof_history=0 it stays as it is";
}

void LogDirectory::SetKeepsHistory(bool value) {
  keeps_history_ = value;
  if (!history_.is_open()) history_.Open({});
  if (!value) history_.Expire(INT64_MAX);
}

std::string LogDirectory::Lock() {
  const std::string path = Path("." + names_.file_name + ".lock");
  const std::error_code error = files_.Lock(path, &lock_);
  if (error == std::errc::device_or_resource_busy) {
    return fmt::format("{}: another server writes its append-only log there", Path(ManifestName()));
  }
  LOG_IF(WARNING, error) << path << ": " << error.message()
                         << "; the log is not kept from other servers";
  return "";
}

std::string LogDirectory::ReadManifest() {
  const std::string path = Path(ManifestName());
  std::string text;
  if (auto error = ReadWholeFile(&files_, path, &text)) {
    return IsMissing(error) ? "" : fmt::format("{}: {}", path, error.message());
  }
  const std::string error = ParseManifest(text, &manifest_);
  return error.empty() ? "" : fmt::format("{}: {}", path, error);
}

std::string LogDirectory::Adopt() {
  const auto is_found = [this](std::string_view name) {
    return std::find(found_.begin(), found_.end(), name) != found_.end();
  };
  const std::string& name = names_.file_name;
  const std::string old_path = JoinPath(names_.dir, name);
  std::unique_ptr<InputFile> old_file;
  if (!is_found(ManifestName())) {
    const auto lost = std::find_if(found_.begin(), found_.end(), [this](const auto& found) {
      std::unique_ptr<InputFile> file;
      return IsLogFile(found, names_.file_name) &&
             (files_.Open(Path(found), &file) || HasContent(file.get()));
    });
    if (lost != found_.end()) {
      return fmt::format("{}: it is missing, and there is {}", Path(ManifestName()), *lost);
    }
    const std::error_code error = files_.Open(old_path, &old_file);
    if (IsMissing(error)) return "";
    if (error) return fmt::format("{}: {}", old_path, error.message());
    // First the manifest: one that lists a file that was not moved yet is known below.
    Manifest next;
    next.base = {.name = name, .seq = 1};
    if (auto why = Persist(std::move(next))) {
      return fmt::format("{}: {}", Path(ManifestName()), why.message());
    }
  } else if (!manifest_.base || manifest_.base->name != name || is_found(name) ||
             !manifest_.incrementals.empty() || files_.Open(old_path, &old_file)) {
    return "";
  }
  old_file.reset();
  std::error_code error = files_.Rename(old_path, Path(name));
  if (!error) error = files_.SyncDirectory(path_);
  if (!error) error = files_.SyncDirectory(names_.dir.empty() ? "." : names_.dir);
  if (error) return fmt::format("{}: {}", old_path, error.message());
  LOG(INFO) << "the append-only log " << old_path << " is the base " << Path(name) << " now";
  return "";
}

std::string LogDirectory::CheckFiles() {
  const auto check = [this](const ManifestFile& listed, const char* kind) -> std::string {
    std::unique_ptr<InputFile> file;
    const std::error_code error = files_.Open(Path(listed.name), &file);
    if (!error) return "";
    return fmt::format("{}: {}; the manifest lists it as {}", Path(listed.name), error.message(),
                       kind);
  };
  if (manifest_.base) {
    if (std::string error = check(*manifest_.base, "the base"); !error.empty()) return error;
  }
  for (const ManifestFile& file : manifest_.incrementals) {
    if (std::string error = check(file, "an incremental"); !error.empty()) return error;
  }
  return "";
}

bool LogDirectory::IsUsed(std::string_view name) const {
  return (manifest_.base && manifest_.base->name == name) || Has(manifest_.incrementals, name);
}

void LogDirectory::RemoveLeftovers() {
  const auto is_temporary = [this](const std::string& name) {
    return Path(name) == TemporaryBase() || Path(name) == TemporaryManifest() ||
           Path(name) == TemporaryPlace();
  };
  for (const std::string& name : found_) {
    if (IsUsed(name) || Has(manifest_.history, name)) continue;
    if (!is_temporary(name) && !IsLogFile(name, names_.file_name)) continue;
    LOG(INFO) << "removes " << Path(name) << ", which is not of the append-only log";
    if (auto error = files_.Remove(Path(name))) {
      LOG(WARNING) << Path(name) << ": " << error.message();
    }
  }
  found_.clear();
}

int64_t LogDirectory::HistoryBegin() const {
  if (history().empty()) return 0;
  const LogHistoryEntry& oldest = history().front();
  if (!oldest.log.base) return oldest.replaced_s;
  const std::string path = HistoryPath(path_, oldest.number, oldest.log.base->name);
  std::unique_ptr<InputFile> file;
  if (files_.Open(path, &file)) return oldest.replaced_s;
  return ReadBaseTime(path, std::move(file)).value_or(oldest.replaced_s);
}

Manifest LogDirectory::Retired(const Manifest& next) const {
  // The incrementals of a log that has no base yet begin with data that no file has.
  Manifest retired = is_replacing_ ? replaced_ : manifest_;
  std::erase_if(retired.incrementals,
                [&](const ManifestFile& file) { return Has(next.incrementals, file.name); });
  const bool has_content =
      retired.base || std::ranges::any_of(retired.incrementals, [this](const ManifestFile& listed) {
        std::unique_ptr<InputFile> file;
        return !files_.Open(Path(listed.name), &file) && HasContent(file.get());
      });
  return has_content ? retired : Manifest();
}

void LogDirectory::SetHold(const StreamHold& hold) {
  hold_ = hold;
  RemoveRetired();
}

void LogDirectory::FindHeld() {
  held_ = {};
  for (auto file = manifest_.history.rbegin(); file != manifest_.history.rend(); ++file) {
    const bool has_some = file->end_offset && *file->end_offset > 0 &&
                          static_cast<uint64_t>(*file->end_offset) > hold_.from;
    std::unique_ptr<InputFile> input;
    if (!has_some || IsUsed(file->name) || files_.Open(Path(file->name), &input)) continue;
    if (held_.bytes + input->size() > hold_.bytes_max) {
      LOG(INFO) << Path(file->name) << " is not kept for replicas that have left: it and what came "
                << "after it would have more than " << hold_.bytes_max << " bytes";
      break;
    }
    held_.bytes += input->size();
    held_.names.insert(held_.names.begin(), file->name);
  }
}

void LogDirectory::RemoveRetired() {
  history_.Take();
  FindHeld();
  if (manifest_.history.size() == held_.names.size()) return;
  Manifest next = manifest_;
  std::erase_if(next.history, [this](const ManifestFile& file) {
    if (IsUsed(file.name)) return true;
    if (std::ranges::find(held_.names, file.name) != held_.names.end()) return false;
    const std::error_code error = files_.Remove(Path(file.name));
    if (!error || IsMissing(error)) return true;
    LOG(WARNING) << Path(file.name) << ": " << error.message();
    return false;
  });
  // One that lists them still is as good: they are not needed.
  if (auto error = Persist(std::move(next))) {
    LOG(WARNING) << Path(ManifestName()) << ": " << error.message();
  }
}

std::error_code LogDirectory::Persist(Manifest next) {
  const std::string temporary = TemporaryManifest();
  if (auto error = WriteWholeFile(&files_, temporary, FormatManifest(next))) return error;
  if (auto error = files_.Rename(temporary, Path(ManifestName()))) return error;
  // After an error here it may be on the device or not: what both list stays as it is.
  if (auto error = files_.SyncDirectory(path_)) return error;
  manifest_ = std::move(next);
  return {};
}

std::error_code LogDirectory::NewIncremental(std::string* name, std::string_view header,
                                             std::optional<int64_t> start_offset) {
  const uint64_t seq = TakeSeq(&next_incremental_seq_);
  *name = fmt::format("{}.{}.incr.aof", names_.file_name, seq);
  if (auto error = WriteWholeFile(&files_, Path(*name), header)) return error;
  if (auto error = files_.SyncDirectory(path_)) return error;
  Manifest next = manifest_;
  next.incrementals.push_back({.name = *name, .seq = seq, .start_offset = start_offset});
  if (!is_replacing_) return Persist(std::move(next));
  manifest_ = std::move(next);
  return {};
}

std::error_code LogDirectory::SavePlace(const StreamPlace& place) {
  if (manifest_.incrementals.empty()) return {};
  const std::string& name = manifest_.incrementals.back().name;
  std::unique_ptr<InputFile> file;
  if (auto error = files_.Open(Path(name), &file)) return error;
  const std::string text = FormatLogPlace({.place = place, .file = name, .size = file->size()});
  if (auto error = WriteWholeFile(&files_, TemporaryPlace(), text)) return error;
  if (auto error = files_.Rename(TemporaryPlace(), Path(PlaceName()))) return error;
  return files_.SyncDirectory(path_);
}

std::optional<StreamPlace> LogDirectory::ReadPlace() {
  std::string text;
  if (ReadWholeFile(&files_, Path(PlaceName()), &text)) return std::nullopt;
  std::optional<LogPlace> log = ParseLogPlace(text);
  if (!log || manifest_.incrementals.empty() || log->file != manifest_.incrementals.back().name) {
    return std::nullopt;
  }
  std::unique_ptr<InputFile> file;
  if (files_.Open(Path(log->file), &file) || file->size() != log->size) return std::nullopt;
  return std::move(log->place);
}

void LogDirectory::RemovePlace() {
  const auto error = files_.Remove(Path(PlaceName()));
  if (error && !IsMissing(error)) LOG(WARNING) << Path(PlaceName()) << ": " << error.message();
}

std::error_code LogDirectory::BeginReplacement() {
  // Without a manifest the files that are not listed would be those of a log that has lost it.
  if (is_new()) {
    if (auto error = Persist(manifest_)) return error;
  }
  replaced_ = std::exchange(manifest_, Manifest{});
  is_replacing_ = true;
  return {};
}

std::error_code LogDirectory::FinishBase(uint64_t first_seq, int64_t now_s) {
  Manifest next = manifest_;
  const auto first = std::find_if(next.incrementals.begin(), next.incrementals.end(),
                                  [&](const ManifestFile& file) { return file.seq == first_seq; });
  CHECK(first_seq == 0 || first != next.incrementals.end()) << first_seq;
  if (next.base) next.history.push_back(std::move(*next.base));
  for (auto file = next.incrementals.begin(); file != first; ++file) {
    const auto behind = file + 1;
    if (behind != next.incrementals.end()) file->end_offset = behind->start_offset;
    next.history.push_back(*file);
  }
  next.incrementals.erase(next.incrementals.begin(), first);
  const auto drop = [&next](std::vector<ManifestFile>& files) {
    next.history.insert(next.history.end(), files.begin(), files.end());
  };
  if (replaced_.base) next.history.push_back(*replaced_.base);
  drop(replaced_.incrementals);
  drop(replaced_.history);
  const uint64_t seq = TakeSeq(&next_base_seq_);
  next.base = {.name = fmt::format("{}.{}.base.rdb", names_.file_name, seq), .seq = seq};
  if (auto error = files_.Rename(TemporaryBase(), Path(next.base->name))) return error;
  if (auto error = files_.SyncDirectory(path_)) return error;
  if (keeps_history_) {
    const Manifest retired = Retired(next);
    if (retired.base || !retired.incrementals.empty()) history_.Begin(retired, now_s);
  }
  if (auto error = Persist(std::move(next))) {
    history_.Abandon();
    return error;
  }
  is_replacing_ = false;
  replaced_ = {};
  RemoveRetired();
  return {};
}

}  // namespace dfly
