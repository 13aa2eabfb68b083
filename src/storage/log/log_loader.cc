// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/text/numbers.h"
#include "engine/journal/private_words.h"
#include "helio/base/ascii.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "storage/rdb_file.h"

namespace dfly {

namespace {

// After so many commands others have their turn.
constexpr uint64_t kCommandsBetweenTurns = 256;

}  // namespace

std::string LogLoader::Load(bool may_be_torn) {
  const Manifest& manifest = directory_.manifest();
  for (const ManifestFile& listed : manifest.incrementals) {
    std::unique_ptr<InputFile> file;
    if (files_.Open(directory_.Path(listed.name), &file)) continue;  // told when it is its turn
    progress_.bytes_total.fetch_add(file->size(), std::memory_order_relaxed);
  }
  std::string error;
  if (manifest.base) error = LoadBase(may_be_torn);
  for (const ManifestFile& file : manifest.incrementals) {
    if (!error.empty() || !end_.torn.empty()) break;
    error = LoadFile(file, 0, may_be_torn);
    end_.file_seq = file.seq;
  }
  const std::string finish_error = applier_.Finish();
  return error.empty() ? finish_error : error;
}

std::string LogLoader::LoadBase(bool may_be_torn) {
  const ManifestFile& base = *directory_.manifest().base;
  const std::string path = directory_.Path(base.name);
  std::unique_ptr<InputFile> file;
  if (auto error = files_.Open(path, &file)) return fmt::format("{}: {}", path, error.message());
  uint64_t begin = 0;
  if (IsRdb(file.get())) {
    SnapshotLoader loader(&shards_, &files_, &progress_);
    loader.KeepDueKeys();
    std::string error = loader.LoadRdbPart(path, &begin);
    if (error.empty()) error = applier_.TakeExtras(loader.extras());
    if (!error.empty()) return error;
    if (begin == file->size()) return "";
  } else {
    progress_.bytes_total.fetch_add(file->size(), std::memory_order_relaxed);
  }
  if (std::string error = LoadFile(base, begin, may_be_torn); !error.empty()) return error;
  const LogEnd end = std::exchange(end_, {});
  is_stream_known_ = false;  // its commands are what there was before
  if (end.torn.empty()) return "";
  end_.torn_bytes = end.torn_bytes;
  end_.torn = end.torn;
  if (directory_.is_read_only()) return "";
  // There will be an incremental behind it, and then it may not be torn any more.
  std::unique_ptr<AppendFile> cut;
  std::error_code error = files_.OpenAppend(path, end.file_size, 0, &cut);
  if (!error) error = cut->Close();
  return error ? fmt::format("{}: {}", path, error.message()) : "";
}

std::string LogLoader::LoadFile(const ManifestFile& listed, uint64_t begin, bool may_be_torn) {
  const std::string path = directory_.Path(listed.name);
  std::unique_ptr<InputFile> file;
  if (auto error = files_.Open(path, &file)) return fmt::format("{}: {}", path, error.message());
  LogReader reader(std::move(file), begin);
  if (!is_stream_known_ && listed.start_offset && *listed.start_offset >= 0) {
    end_.stream_offset = static_cast<uint64_t>(*listed.start_offset);
    is_stream_known_ = true;
  }
  if (is_stream_known_) reader.set_stream_begin(end_.stream_offset);
  end_.db_index = -1;
  std::string error = LoadItems(&reader);
  end_.file_size = reader.whole_size();
  end_.continues_file = !reader.has_bare();
  end_.is_foreign |= reader.has_bare();
  if (reader.has_bare()) end_.stream_id.clear();
  if (!error.empty()) return fmt::format("{}: {}", path, error);
  if (reader.error().empty()) return "";
  // It is torn.
  error = fmt::format("{}: {}", path, reader.error());
  if (!IsLastWithContent(listed)) return error + ", and it is not the last file";
  if (!may_be_torn) return error + "; --aof_load_truncated would leave that out";
  end_.torn_bytes = reader.size() - reader.whole_size();
  end_.torn = std::move(error);
  return "";
}

std::string LogLoader::LoadItems(LogReader* reader) {
  uint64_t told_bytes = reader->bytes_read();
  bool has_epoch = false;
  for (uint64_t i = 1;; ++i) {
    const LogReader::Item item = reader->Next();
    if (i == 1) {
      if (std::string error = TakeHeader(reader->header()); !error.empty()) return error;
    }
    switch (item) {
      case LogReader::Item::kCommand:
        if (std::string error = Take(*reader); !error.empty()) {
          return fmt::format("offset {}: {}", reader->position(), error);
        }
        if (reader->has_bare()) end_.stream_offset += reader->bytes_read() - reader->position();
        break;
      case LogReader::Item::kEpoch: {
        const EpochHeader& epoch = reader->epoch();
        if (is_stream_known_ && !has_epoch && epoch.stream_offset != end_.stream_offset) {
          return fmt::format(
              "offset {}: epoch {} begins at {} of the stream, but what is before it ends at {}",
              reader->position(), epoch.number, epoch.stream_offset, end_.stream_offset);
        }
        has_epoch = is_stream_known_ = true;
        end_.last_epoch = epoch.number;
        end_.stream_offset = epoch.stream_end();
        break;
      }
      case LogReader::Item::kTimestamp:
        break;
      case LogReader::Item::kDamaged:
        return reader->error();
      case LogReader::Item::kTorn:
      case LogReader::Item::kEnd:
        held_ = {};  // a MULTI without its EXEC
        progress_.bytes_read.fetch_add(reader->size() - told_bytes, std::memory_order_relaxed);
        return "";
    }
    if (i % kCommandsBetweenTurns == 0) {
      const uint64_t bytes = reader->bytes_read();
      progress_.bytes_read.fetch_add(bytes - std::exchange(told_bytes, bytes),
                                     std::memory_order_relaxed);
      if (progress_.is_cancelled.load(std::memory_order_relaxed)) return "cancelled";
      const helio::BoundedWait wait(helio::kItsTurn);
      helio::this_fiber::Yield();
    }
  }
}

std::string LogLoader::TakeHeader(const LogFileHeader& header) {
  const bool goes_on = is_stream_known_ && header.stream_id == end_.stream_id;
  end_.stream_id = header.stream_id;
  if (header.stream_id.empty()) return "";
  if (goes_on && header.stream_offset != end_.stream_offset) {
    return fmt::format("it begins at {} of the stream, but what is before it ends at {}",
                       header.stream_offset, end_.stream_offset);
  }
  is_stream_known_ = true;
  end_.stream_offset = header.stream_offset;
  if (header.db_index < 0) return "";
  return TakeSelect(fmt::format("{}", header.db_index));
}

std::string LogLoader::Take(const LogReader& reader) {
  std::span<const std::string_view> args = reader.args();
  if (args.size() == 2 && helio::EqualsIgnoreCase(args[0], "select")) return TakeSelect(args[1]);
  // Only what this server has written is believed to be its own command.
  const bool is_ours = reader.has_epochs() && !reader.has_bare();
  if (is_ours && args.size() == 2 && args[1].starts_with(kPrivateMark) &&
      helio::EqualsIgnoreCase(args[0], "echo")) {
    const std::string_view resp = args[1].substr(kPrivateMark.size());
    if (private_parser_.Parse(resp) != RequestParser::Status::kCommand) {
      return "ECHO with a command that is none";
    }
    args = private_parser_.args();
  }
  if (!reader.is_in_multi()) {
    ++commands_;
    end_.db_index = db_index_;
    return applier_.Apply(db_index_, args);
  }
  if (args.size() == 1 && helio::EqualsIgnoreCase(args[0], "multi")) return "";
  if (args.size() == 1 && helio::EqualsIgnoreCase(args[0], "exec")) return TakeHeld();
  for (const std::string_view arg : args) {
    held_.bytes += arg;
    held_.ends.push_back(held_.bytes.size());
  }
  held_.commands.push_back({.db_index = db_index_, .args = args.size()});
  return "";
}

std::string LogLoader::TakeHeld() {
  size_t next = 0, begin = 0;
  for (const Held::Command& command : held_.commands) {
    args_.clear();
    for (size_t i = 0; i < command.args; ++i) {
      const size_t end = held_.ends[next++];
      args_.push_back(std::string_view(held_.bytes).substr(begin, end - begin));
      begin = end;
    }
    ++commands_;
    end_.db_index = command.db_index;
    if (std::string error = applier_.Apply(command.db_index, args_); !error.empty()) return error;
  }
  end_.db_index = db_index_;
  held_.bytes.clear();
  held_.ends.clear();
  held_.commands.clear();
  return "";
}

std::string LogLoader::TakeSelect(std::string_view text) {
  const auto index = ParseInt64(text);
  if (!index || *index < 0 || *index >= shards_.db_count()) {
    return fmt::format("there are only {} databases (--dbnum)", shards_.db_count());
  }
  db_index_ = end_.db_index = static_cast<int>(*index);
  return "";
}

bool LogLoader::IsLastWithContent(const ManifestFile& file) {
  bool is_behind = directory_.manifest().base == file;
  for (const ManifestFile& listed : directory_.manifest().incrementals) {
    if (!is_behind) {
      is_behind = listed == file;
      continue;
    }
    std::unique_ptr<InputFile> input;
    if (files_.Open(directory_.Path(listed.name), &input)) return false;
    LogReader reader(std::move(input));
    const LogReader::Item first = reader.Next();
    if (first != LogReader::Item::kEnd && first != LogReader::Item::kTorn) return false;
  }
  return true;
}

}  // namespace dfly
