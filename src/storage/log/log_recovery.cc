// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "helio/base/ascii.h"
#include "storage/log/log_files.h"

namespace dfly {

namespace {

constexpr size_t kCopyBytes = 1 << 20;
// What is read while a server writes it may look damaged.
constexpr int kTriesMax = 3;
// A server that is told nothing has these (rows_log.cc).
constexpr std::string_view kDirectoryName = "appendonlydir";
constexpr std::string_view kFileName = "appendonly.aof";

template <typename Value>
void Widen(Value value, std::optional<Value>* first, std::optional<Value>* last) {
  if (!*first) *first = value;
  *last = value;
}

// Counts the step, if it is one.
void Count(const LogWalk& walk, LogWalk::Step step, LogExtent* extent) {
  if (step == LogWalk::Step::kTime) {
    Widen(walk.time_s(), &extent->first_s, &extent->last_s);
  } else if (step == LogWalk::Step::kEpoch) {
    ++extent->epochs;
    Widen(walk.epoch(), &extent->first_epoch, &extent->last_epoch);
  } else if (step == LogWalk::Step::kCommands) {
    if (extent->commands == 0) extent->first_command = walk.name();
    extent->commands += walk.commands();
  }
}

bool IsOver(LogWalk::Step step) {
  return step == LogWalk::Step::kEnd || step == LogWalk::Step::kDamaged;
}

// Reads all of it. An empty text, or which damage has ended that.
std::string Measure(const LogGeneration& generation, LogExtent* extent) {
  LogWalk walk(&generation);
  while (true) {
    const LogWalk::Step step = walk.Next();
    if (IsOver(step)) return walk.error();
    Count(walk, step, extent);
  }
}

// The first moment that it knows: of its base, or, if it has changes of which nobody knows the time
// behind that, of the first that has one. The time of a base is that of its first byte, so changes
// behind its moment may be older.
std::optional<int64_t> BeginOf(const LogGeneration& generation) {
  LogWalk walk(&generation);
  LogWalk::Step step = walk.Next();
  std::optional<int64_t> begin_s;
  if (IsOver(step) || step == LogWalk::Step::kTime) begin_s = generation.rdb_time_s;
  while (!IsOver(step) && step != LogWalk::Step::kTime) step = walk.Next();
  if (step != LogWalk::Step::kTime) return begin_s;
  return std::min(begin_s.value_or(walk.time_s()), walk.time_s());
}

std::string FormatCount(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "5 commands in 2 epochs (7 to 8)".
std::string FormatCounts(const LogExtent& extent) {
  std::string text = FormatCount(extent.commands, "command");
  if (extent.epochs > 0) {
    text += fmt::format(" in {} ({} to {})", FormatCount(extent.epochs, "epoch"),
                        *extent.first_epoch, *extent.last_epoch);
  }
  return text;
}

// The same, and ", from TIME to TIME".
std::string FormatExtent(const LogExtent& extent) {
  std::string text = FormatCounts(extent);
  if (extent.first_s) {
    text += fmt::format(", from {} to {}", FormatLogTime(*extent.first_s),
                        FormatLogTime(*extent.last_s));
  }
  return text;
}

// "the base of TIME".
std::string FormatBase(const LogGeneration& generation) {
  if (generation.rdb && generation.rdb_time_s) {
    return fmt::format("the base of {}", FormatLogTime(*generation.rdb_time_s));
  }
  return generation.rdb || generation.has_base_of_commands ? "the base" : "no base";
}

// Is the step the first that does not stay?
bool IsBehind(const LogWalk& walk, LogWalk::Step step, const LogPoint& point) {
  if (point.epoch) return step == LogWalk::Step::kEpoch && walk.epoch() > *point.epoch;
  return step == LogWalk::Step::kTime && walk.time_s() > *point.time_s;
}

// In a log of somebody else it may be anything.
std::string Shown(std::string_view name) {
  std::string shown(name.substr(0, 40));
  std::ranges::replace_if(
      shown, [](char c) { return c <= ' ' || c > '~'; }, '.');
  return helio::UpperCase(shown);
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string FormatPoint(const LogPoint& point) {
  return point.epoch ? fmt::format("epoch {}", *point.epoch) : FormatLogTime(*point.time_s);
}

}  // namespace

LogRecovery::LogRecovery(FileLayer* files, LogDirectory::Names from)
    : files_(*files), names_(std::move(from)) {}

// ---------------------------------------------------------------------------------- what there is

std::string LogRecovery::List(std::string* text) {
  if (std::string error = OpenGenerations(&files_, names_, &generations_); !error.empty()) {
    return error;
  }
  for (const LogGeneration& generation : generations_) {
    const auto begin_s = BeginOf(generation);
    LogExtent extent;
    const std::string damage = Measure(generation, &extent);
    *text += begin_s ? fmt::format("{} to {}: ", FormatLogTime(*begin_s),
                                   FormatLogTime(extent.last_s.value_or(*begin_s)))
                     : std::string("at times that nobody knows: ");
    *text += fmt::format("{}; {}{}\n", FormatCounts(extent), generation.manifest_path,
                         generation.number == 0 ? ", the log itself" : "");
    if (!damage.empty()) *text += fmt::format("  damaged: {}\n", damage);
  }
  if (generations_.size() == 1) {
    *text += "There is no history: see --aof_history.\n";
  }
  return "";
}

std::string LogRecovery::Choose(const LogPoint& point, int64_t now_s, size_t* chosen) {
  if (point.epoch) return ChooseByEpoch(*point.epoch, chosen);
  std::optional<int64_t> oldest_s;
  for (size_t i = generations_.size(); i-- > 0;) {
    const bool is_last = i + 1 == generations_.size();
    const auto begin_s = BeginOf(generations_[i]);
    if ((is_last && *point.time_s >= now_s) || (begin_s && *begin_s <= *point.time_s)) {
      *chosen = i;
      return "";
    }
    if (begin_s) oldest_s = begin_s;
  }
  if (!oldest_s) return "the log has no times: see --aof_history and --aof_timestamp_enabled";
  return fmt::format("{} is before the oldest time that can be had, {}", FormatPoint(point),
                     FormatLogTime(*oldest_s));
}

std::string LogRecovery::ChooseByEpoch(uint64_t epoch, size_t* chosen) {
  std::string known;
  for (size_t i = generations_.size(); i-- > 0;) {
    LogExtent extent;
    (void)Measure(generations_[i], &extent);  // Split tells of damage, if this one is chosen
    if (!extent.first_epoch) continue;
    // The one before its first is in its base.
    if (epoch + 1 >= *extent.first_epoch && epoch <= *extent.last_epoch) {
      *chosen = i;
      return "";
    }
    known = fmt::format("{}{}{} to {}", known, known.empty() ? "" : ", ", *extent.first_epoch,
                        *extent.last_epoch);
  }
  return known.empty() ? "the log has no epochs"
                       : fmt::format("there is no epoch {}; there are {}", epoch, known);
}

// -------------------------------------------------------------------------------- where to cut it

std::string LogRecovery::Plan(const LogPoint& point, int64_t now_s, Cut* cut) {
  if (std::string error = OpenGenerations(&files_, names_, &generations_); !error.empty()) {
    return error;
  }
  if (std::string error = Choose(point, now_s, &cut->generation); !error.empty()) return error;
  const bool takes_all = !point.epoch && *point.time_s >= now_s;
  if (std::string error = Split(takes_all ? nullptr : &point, cut); !error.empty()) return error;
  for (size_t i = cut->generation + 1; i < generations_.size() && cut->damage.empty(); ++i) {
    cut->damage = Measure(generations_[i], &cut->left);
  }
  const LogGeneration& generation = generations_[cut->generation];
  if (!generation.rdb || !generation.rdb_time_s) return "";
  return CheckBase(generation.rdb->path, std::make_unique<SharedInput>(generation.rdb->file));
}

std::string LogRecovery::Split(const LogPoint* point, Cut* cut) const {
  LogWalk walk(&generations_[cut->generation]);
  bool is_cut = false;
  while (true) {
    const LogWalk::Step step = walk.Next();
    if (!is_cut && point != nullptr && IsBehind(walk, step, *point)) {
      is_cut = true;
      cut->part_sizes = walk.part_sizes();
      cut->part_sizes.push_back(walk.whole());
    }
    if (IsOver(step)) break;
    Count(walk, step, is_cut ? &cut->left : &cut->kept);
  }
  if (is_cut) {
    cut->damage = walk.error();
    return "";
  }
  cut->part_sizes = walk.part_sizes();
  return walk.error();
}

// -------------------------------------------------------------------------------------- the copy

std::string LogRecovery::Recover(const LogPoint& point, int64_t now_s, const std::string& into,
                                 std::string* report) {
  if (std::string error = CheckEmpty(into); !error.empty()) return error;
  Cut cut;
  std::string error;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    cut = {};
    error = Plan(point, now_s, &cut);
    if (error.empty() && cut.damage.empty()) break;
  }
  if (!error.empty()) return error;
  if (error = Write(cut, into); !error.empty()) {
    RemoveMade();
    return error;
  }
  *report = Report(point, now_s, cut, into);
  return "";
}

std::string LogRecovery::CheckEmpty(const std::string& into) {
  std::vector<std::string> names;
  const std::error_code error = files_.List(into, &names);
  if (error && !IsMissing(error)) return fmt::format("{}: {}", into, error.message());
  const bool is_empty = std::ranges::all_of(
      names, [](const std::string& name) { return name == "." || name == ".."; });
  if (!is_empty) return fmt::format("{}: it is not empty", into);
  if (error) made_.push_back(into);  // by Write
  return "";
}

std::string LogRecovery::Write(const Cut& cut, const std::string& into) {
  if (auto error = files_.MakeDirectory(into)) {
    made_.clear();
    return fmt::format("{}: {}", into, error.message());
  }
  const std::string path = JoinPath(into, names_.directory_name);
  if (auto error = files_.MakeDirectory(path)) {
    return fmt::format("{}: {}", path, error.message());
  }
  made_.push_back(path);
  if (std::string error = WriteFiles(cut, path); !error.empty()) return error;
  for (const std::string& directory : {path, into, ParentOf(into)}) {
    if (auto error = files_.SyncDirectory(directory)) {
      return fmt::format("{}: {}", directory, error.message());
    }
  }
  return "";
}

// The manifest is the last: until then nobody takes it for a log.
std::string LogRecovery::WriteFiles(const Cut& cut, const std::string& path) {
  const LogGeneration& generation = generations_[cut.generation];
  Manifest manifest;
  if (generation.rdb) {
    manifest.base = generation.rdb->listed;
    std::string error = Copy(*generation.rdb, generation.rdb->file->size(), path);
    if (!error.empty()) return error;
  }
  for (size_t i = 0; i < cut.part_sizes.size(); ++i) {
    const LogFile& part = generation.parts[i];
    ManifestFile listed = part.listed;
    if (cut.part_sizes[i] < part.file->size()) listed.end_offset.reset();
    if (i == 0 && generation.has_base_of_commands) {
      manifest.base = listed;
    } else {
      manifest.incrementals.push_back(listed);
    }
    if (std::string error = Copy(part, cut.part_sizes[i], path); !error.empty()) return error;
  }
  const std::string to = JoinPath(path, names_.file_name + ".manifest");
  made_.push_back(to);
  const std::error_code error = WriteWholeFile(&files_, to, FormatManifest(manifest));
  return error ? fmt::format("{}: {}", to, error.message()) : "";
}

std::string LogRecovery::Copy(const LogFile& from, uint64_t size, const std::string& path) {
  const std::string to = JoinPath(path, from.listed.name);
  made_.push_back(to);
  std::unique_ptr<OutputFile> file;
  if (auto error = files_.Create(to, &file)) return fmt::format("{}: {}", to, error.message());
  std::string buffer(std::min<uint64_t>(size, kCopyBytes), '\0');
  std::error_code error;
  for (uint64_t at = 0; at < size && !error;) {
    size_t read = 0;
    const size_t count = std::min<uint64_t>(size - at, buffer.size());
    if (auto why = from.file->ReadAt(at, buffer.data(), count, &read); why || read == 0) {
      return fmt::format("{}, offset {}: {}", from.path, at,
                         why ? why.message() : "the file has become shorter");
    }
    error = file->Write(std::string_view(buffer).substr(0, read));
    at += read;
  }
  if (!error) error = file->SyncAndClose();
  return error ? fmt::format("{}: {}", to, error.message()) : "";
}

void LogRecovery::RemoveMade() {
  for (; !made_.empty(); made_.pop_back()) (void)files_.Remove(made_.back());
}

std::string LogRecovery::Report(const LogPoint& point, int64_t now_s, const Cut& cut,
                                const std::string& into) const {
  std::string text;
  if (!point.epoch && *point.time_s >= now_s) {
    text += fmt::format("{} is not over yet; all is taken.\n", FormatPoint(point));
  }
  text += fmt::format("{} has the log as it was at {}.\n", into, FormatPoint(point));
  const LogGeneration& generation = generations_[cut.generation];
  text += fmt::format("  taken: {}, and {}\n", FormatBase(generation), FormatExtent(cut.kept));
  if (cut.left.commands > 0 || cut.left.first_s) {
    const bool is_one = cut.left.commands == 1;
    text += fmt::format("  {} {} left out", FormatExtent(cut.left), is_one ? "was" : "were");
    if (cut.left.commands > 0)
      text += fmt::format("; the first is {}", Shown(cut.left.first_command));
    text += '\n';
  } else {
    text += "  nothing was left out\n";
  }
  if (!cut.damage.empty()) {
    text += fmt::format("  and what cannot be read: {}\n", cut.damage);
  }
  text += fmt::format("Start a server with it:\n  dragonfly --appendonly --dir={}", into);
  if (names_.directory_name != kDirectoryName) {
    text += fmt::format(" --appenddirname={}", names_.directory_name);
  }
  if (names_.file_name != kFileName) text += fmt::format(" --appendfilename={}", names_.file_name);
  return text + '\n';
}

}  // namespace dfly
