// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_generations.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "helio/base/ascii.h"
#include "storage/log/annotations.h"
#include "storage/log/log_files.h"
#include "storage/log/log_history.h"
#include "storage/rdb_file.h"

namespace dfly {

namespace {

// A server that runs may change over to a new base at any moment.
constexpr int kTriesMax = 10;

class Opener {
 public:
  Opener(FileLayer* files, const LogDirectory::Names& names)
      : files_(*files),
        path_(JoinPath(names.dir, names.directory_name)),
        file_name_(names.file_name) {}

  // `*is_stable`: nothing has changed meanwhile.
  std::string Open(std::vector<LogGeneration>* generations, bool* is_stable) {
    generations->clear();
    Manifest live;
    std::string text, text_after;
    if (std::string error = ReadManifest(&text, &live); !error.empty()) return error;
    LogGeneration last{.manifest_path = ManifestPath()};
    std::string error = OpenFiles(live, 0, live, &last);
    if (error.empty()) error = OpenHistory(live, generations);
    generations->push_back(std::move(last));
    *is_stable = ReadManifest(&text_after, &live).empty() && text_after == text;
    return error;
  }

 private:
  std::string ManifestPath() const { return JoinPath(path_, file_name_ + ".manifest"); }

  std::string ReadManifest(std::string* text, Manifest* manifest) {
    const std::string path = ManifestPath();
    if (auto error = ReadWholeFile(&files_, path, text)) {
      if (IsMissing(error)) return fmt::format("there is no append-only log: {} is missing", path);
      return fmt::format("{}: {}", path, error.message());
    }
    const std::string error = ParseManifest(*text, manifest);
    return error.empty() ? "" : fmt::format("{}: {}", path, error);
  }

  std::string OpenHistory(const Manifest& live, std::vector<LogGeneration>* generations) {
    std::vector<LogHistoryEntry> entries;
    std::vector<std::string> names;
    if (auto error = ReadHistory(&files_, path_, file_name_, &entries, &names)) {
      return fmt::format("{}: {}", HistoryFolder(path_), error.message());
    }
    for (const LogHistoryEntry& entry : entries) {
      LogGeneration generation{
          .number = entry.number,
          .manifest_path = HistoryPath(path_, entry.number, file_name_ + ".manifest")};
      if (OpenFiles(entry.log, entry.number, live, &generation).empty()) {
        generations->push_back(std::move(generation));
      }
    }
    return "";
  }

  // In the history, or still in the log's directory if the log itself is done with it.
  std::error_code OpenFile(uint64_t number, const Manifest& live, LogFile* opened) {
    const std::string& name = opened->listed.name;
    const std::string path = JoinPath(path_, name);
    opened->path = number == 0 ? path : HistoryPath(path_, number, name);
    std::unique_ptr<InputFile> file;
    std::error_code error = files_.Open(opened->path, &file);
    const bool is_retired = std::ranges::any_of(
        live.history, [&](const ManifestFile& listed) { return listed.name == name; });
    if (number != 0 && IsMissing(error) && is_retired) error = files_.Open(path, &file);
    opened->file = std::move(file);
    return error;
  }

  std::string OpenFiles(const Manifest& manifest, uint64_t number, const Manifest& live,
                        LogGeneration* generation) {
    std::vector<ManifestFile> listed = manifest.incrementals;
    if (manifest.base) listed.insert(listed.begin(), *manifest.base);
    for (const ManifestFile& file : listed) {
      LogFile opened{.listed = file, .path = "", .file = nullptr};
      if (auto error = OpenFile(number, live, &opened)) {
        return fmt::format("{}: {}", opened.path, error.message());
      }
      if (manifest.base == file && IsRdb(opened.file.get())) {
        generation->rdb_time_s =
            ReadBaseTime(opened.path, std::make_unique<SharedInput>(opened.file));
        generation->rdb = std::move(opened);
      } else {
        generation->has_base_of_commands |= manifest.base == file;
        generation->parts.push_back(std::move(opened));
      }
    }
    return "";
  }

  FileLayer& files_;
  const std::string path_;
  const std::string file_name_;
};

}  // namespace

std::string OpenGenerations(FileLayer* files, const LogDirectory::Names& names,
                            std::vector<LogGeneration>* generations) {
  Opener opener(files, names);
  std::string error;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    bool is_stable = true;
    error = opener.Open(generations, &is_stable);
    if (is_stable) return error;
  }
  return error.empty() ? "the log changes all the time; try again" : error;
}

// ------------------------------------------------------------------------------------- reading

void LogWalk::OpenPart() {
  const std::shared_ptr<InputFile>& file = generation_.parts[part_].file;
  reader_ = std::make_unique<LogReader>(std::make_unique<SharedInput>(file));
  // Whatever is left out, a file of ours has its header.
  next_whole_ = ReadLogFileHeader(file.get()).size;
  queued_ = 0;
}

LogWalk::Step LogWalk::Damaged(std::string_view what) {
  error_ = fmt::format("{}: {}", generation_.parts[part_].path, what);
  return Step::kDamaged;
}

LogWalk::Step LogWalk::Next() {
  while (part_ < generation_.parts.size()) {
    if (reader_ == nullptr) OpenPart();
    whole_ = next_whole_;
    const LogReader::Item item = reader_->Next();
    if (item == LogReader::Item::kDamaged) return Damaged(reader_->error());
    if (item == LogReader::Item::kEnd || item == LogReader::Item::kTorn) {
      if (item == LogReader::Item::kTorn && torn_.empty()) {
        torn_ = reader_->error();
        error_ = fmt::format("{}: {}, and it is not the last file", generation_.parts[part_].path,
                             torn_);
      }
      part_sizes_.push_back(whole_);
      reader_ = nullptr;
      ++part_;
      continue;
    }
    if (!torn_.empty()) return Step::kDamaged;
    // A timestamp in front of what is left out goes with it.
    if (item == LogReader::Item::kTimestamp) return Step::kTime;
    next_whole_ = reader_->whole_size();
    if (item == LogReader::Item::kEpoch) return Step::kEpoch;
    if (const auto step = TakeCommand()) return *step;
  }
  error_.clear();
  return Step::kEnd;
}

std::optional<LogWalk::Step> LogWalk::TakeCommand() {
  const auto args = reader_->args();
  const auto is = [&](size_t count, std::string_view name) {
    return args.size() == count && helio::EqualsIgnoreCase(args[0], name);
  };
  if (is(2, "select")) return std::nullopt;
  commands_ = 1;
  const bool is_multi = is(1, "multi") || is(1, "exec");
  if (!is_multi && queued_ == 0) name_ = args[0];
  if (reader_->is_in_multi()) {
    if (!is_multi) ++queued_;
    if (!is(1, "exec")) return std::nullopt;
    commands_ = std::exchange(queued_, 0);
  }
  return Step::kCommands;
}

}  // namespace dfly
