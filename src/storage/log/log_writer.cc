// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/journal/sections.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "storage/log/annotations.h"

namespace dfly {

namespace {

void Add(std::atomic<uint64_t>* counter, uint64_t value = 1) {
  counter->fetch_add(value, std::memory_order_relaxed);
}
void Set(std::atomic<uint64_t>* counter, uint64_t value) {
  counter->store(value, std::memory_order_relaxed);
}

void NoteSyncTime(LogStatus* status, uint64_t nanos, uint64_t period_ns) {
  const uint64_t us = nanos / 1000;
  Add(&status->syncs);
  Set(&status->sync_last_us, us);
  if (us > status->sync_max_us.load(std::memory_order_relaxed)) Set(&status->sync_max_us, us);
  if (nanos > period_ns) Add(&status->syncs_delayed);
}

}  // namespace

LogWriter::LogWriter(FileLayer* files, LogDirectory* directory, Options options)
    : files_(*files), directory_(*directory), options_(std::move(options)) {}

LogWriter::~LogWriter() { CHECK(!sync_fiber_.joinable()) << "the log was not closed"; }

LogWriter::FilePtr LogWriter::file() {
  const std::lock_guard lock(state_mutex_);
  return file_;
}

void LogWriter::SetFile(FilePtr file) {
  const std::lock_guard lock(state_mutex_);
  file_ = std::move(file);
}

bool LogWriter::stops() {
  const std::lock_guard lock(state_mutex_);
  return stops_;
}

std::error_code LogWriter::Open(const Start& start) {
  const std::lock_guard lock(write_mutex_);
  stream_offset_ = synced_offset_ = start.stream_offset;
  last_epoch_ = start.last_epoch;
  stream_id_ = start.stream_id;
  stream_db_ = start.last_db;
  status_.synced_epoch = start.last_epoch;
  const std::vector<ManifestFile>& listed = directory_.manifest().incrementals;
  if (!listed.empty()) {
    const bool is_last = start.file_seq == 0 || start.file_seq == listed.back().seq;
    const auto ends = std::ranges::find_if(listed, [&](const ManifestFile& file) {
      return is_last ? &file == &listed.back() : file.seq == start.file_seq;
    });
    if (ends == listed.end()) return std::make_error_code(std::errc::invalid_argument);
    // Torn bytes at its end have to go, whether it goes on or is the last one no more.
    const bool continues = is_last && start.continues_file;
    const size_t reserve = continues ? this->reserve_bytes() : 0;
    std::unique_ptr<AppendFile> file;
    if (auto error =
            files_.OpenAppend(directory_.Path(ends->name), start.file_size, reserve, &file)) {
      return error;
    }
    if (continues) {
      last_db_ = start.last_db;
      SetFile(std::move(file));
    } else if (auto error = file->Close()) {
      return error;
    }
  }
  if (auto error = Mend()) return error;
  StartSyncs();
  return {};
}

std::error_code LogWriter::SetPolicy(Policy policy) {
  // What was promised so far holds, or is tried once more in the next file.
  const std::error_code error = Sync();
  if (error && policy == Policy::kNo) return error;
  EndSyncs();
  const std::lock_guard lock(write_mutex_);
  options_.policy = policy;
  wants_file_ = true;
  StartSyncs();
  return {};
}

void LogWriter::SetTimestamps(bool has_them) {
  const std::lock_guard lock(write_mutex_);
  options_.has_timestamps = has_them;
}

void LogWriter::StartSyncs() {
  if (options_.policy != Policy::kEverySec) return;
  closes_ = false;
  sync_fiber_ = helio::Fiber("log_sync", [this] { RunSyncs(); });
}

void LogWriter::EndSyncs() {
  {
    const std::lock_guard lock(state_mutex_);
    closes_ = true;
    state_changed_.NotifyAll();
  }
  if (sync_fiber_.joinable()) sync_fiber_.Join();
}

bool LogWriter::Write(const Epoch& epoch) {
  const std::lock_guard lock(write_mutex_);
  while (!stops()) {
    SwitchFor(epoch.number);
    const std::error_code error = Note(TryWrite(epoch));
    if (!error) return true;
    if (!AwaitRetry()) return false;
  }
  return false;
}

std::error_code LogWriter::TryWrite(const Epoch& epoch) {
  std::error_code error;
  // A file that turns out to be broken is replaced at once; what else fails waits.
  if (epoch.stream_id != stream_id_ && (error = SwitchStream(epoch))) return error;
  for (int tries = 0; tries < 2; ++tries) {
    if ((error = Mend())) return error;
    const FilePtr file = this->file();
    const uint64_t offset = stream_offset_;
    error = Append(epoch, options_.policy == Policy::kAlways);
    if (!error) {
      if (options_.policy != Policy::kEverySec) return {};
      auto kept = std::make_shared<Kept>(Kept{.number = epoch.number,
                                              .first_db = epoch.first_db,
                                              .last_db = epoch.last_db,
                                              .bytes = {},
                                              .stream_offset = offset,
                                              .file_end = file->size()});
      kept->bytes.reserve(epoch.bytes);
      for (const std::string_view piece : epoch.pieces) kept->bytes += piece;
      Add(&status_.kept_bytes, kept->bytes.size());
      const std::lock_guard lock(state_mutex_);
      kept_.push_back(std::move(kept));
      return {};
    }
    if (!file->is_broken()) {
      // So that the disk has room for others meanwhile. If it fails the next try does it.
      (void)file->Truncate(file->size());
    }
    if (!file->is_broken()) return error;
  }
  return error;
}

std::error_code LogWriter::Append(const Epoch& epoch, bool sync) {
  content_.clear();
  std::string select;
  if (epoch.first_db >= 0 && last_db_ != epoch.first_db) {
    DCHECK(stream_id_.empty()) << "the log would have other bytes than the stream";
    select = SelectCommand(epoch.first_db);
    content_.push_back(select);
  }
  content_.insert(content_.end(), epoch.pieces.begin(), epoch.pieces.end());

  pieces_.clear();
  char timestamp[kTimestampMax], header[kEpochHeaderMax];
  int64_t second = last_second_;
  if (options_.has_timestamps) {
    second = options_.unix_seconds ? options_.unix_seconds() : helio::UnixMillis() / 1000;
    // In front of #EPOCH: redis-check-aof cuts a log before this line.
    if (second != last_second_) pieces_.push_back(WriteTimestamp(second, timestamp));
  }
  pieces_.push_back(WriteEpochHeader(epoch.number, stream_offset_, content_, header,
                                     stream_offset_ - SyncedOffset()));
  pieces_.insert(pieces_.end(), content_.begin(), content_.end());

  const FilePtr file = this->file();
  const uint64_t size = file->size();
  LogWait kind = sync ? LogWait::kWriteAndSync : LogWait::kWrite;
  if (is_syncing_.load(std::memory_order_relaxed)) kind = LogWait::kWritePendingSync;
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (auto error = file->Append(pieces_, sync)) return error;
  const uint64_t nanos = helio::MonotonicNanos() - begin_ns;
  if (sync) NoteSyncTime(&status_, nanos, options_.sync_period_ns);
  if (options_.on_wait) options_.on_wait(kind, nanos);
  Add(&status_.appends);
  Add(&status_.appended_bytes, file->size() - size);
  Set(&status_.file_bytes, file->size());
  stream_offset_ += epoch.bytes + select.size();
  last_epoch_ = epoch.number;
  if (file->synced_size() == file->size()) {
    synced_offset_ = stream_offset_;
    NoteSynced(last_epoch_);
  }
  last_db_ = stream_db_ = epoch.last_db;
  last_second_ = second;
  return {};
}

std::error_code LogWriter::Mend() {
  const FilePtr file = this->file();
  if (file != nullptr && file->is_broken()) {
    if (auto error = GiveUpFile()) return error;
  }
  if (this->file() == nullptr) {
    if (auto error = OpenNewFile()) return error;
  }
  return WriteKept();
}

std::error_code LogWriter::GiveUpFile() {
  const FilePtr file = this->file();
  DropSynced();
  const bool loses = options_.policy == Policy::kNo && file->size() != file->synced_size();
  if (!loses) {
    if (auto error = file->Truncate(file->synced_size())) return error;
  } else {
    status_.needs_base.store(true, std::memory_order_relaxed);
  }
  if (auto error = file->Close()) LOG(WARNING) << "a file of the log: " << error.message();
  Add(&status_.files_given_up);
  last_db_ = -1;
  const std::lock_guard lock(state_mutex_);
  file_ = nullptr;
  if (!kept_.empty()) {
    stream_offset_ = kept_.front()->stream_offset;
    stream_db_ = kept_.front()->first_db;
  }
  for (const auto& kept : kept_) kept->file_end = 0;
  return {};
}

std::error_code LogWriter::AddFile(const LogFileHeader& header, uint64_t* seq) {
  const std::lock_guard lock(directory_mutex_);
  std::string name;
  const std::string text =
      WriteLogFileHeader(header.stream_id, header.stream_offset, header.db_index);
  const auto offset = static_cast<int64_t>(header.stream_offset);
  if (auto error = directory_.NewIncremental(&name, text, offset)) return error;
  new_name_ = std::move(name);
  new_header_ = header;
  new_header_.size = text.size();
  *seq = directory_.manifest().incrementals.back().seq;
  Add(&status_.new_files);
  return {};
}

std::error_code LogWriter::OpenNewFile() {
  if (new_name_.empty()) {
    uint64_t seq = 0;
    if (auto error = AddFile(Here(), &seq)) return error;
  }
  std::unique_ptr<AppendFile> file;
  if (auto error =
          files_.OpenAppend(directory_.Path(new_name_), new_header_.size, reserve_bytes(), &file)) {
    return error;
  }
  SetFile(std::move(file));
  new_name_.clear();
  last_db_ = stream_id_.empty() ? -1 : new_header_.db_index;
  last_second_ = -1;
  return {};
}

std::error_code LogWriter::WriteKept() {
  while (true) {
    std::shared_ptr<Kept> next;
    {
      const std::lock_guard lock(state_mutex_);
      const auto it = std::ranges::find_if(
          kept_, [](const std::shared_ptr<Kept>& kept) { return kept->file_end == 0; });
      if (it == kept_.end()) return {};
      next = *it;
    }
    const std::string_view bytes = next->bytes;
    const uint64_t offset = stream_offset_;
    const Epoch epoch{.number = next->number,
                      .first_db = next->first_db,
                      .last_db = next->last_db,
                      .pieces = {&bytes, 1},
                      .bytes = bytes.size(),
                      .stream_id = stream_id_,
                      .stream_offset = next->stream_offset};
    if (auto error = Append(epoch, false)) return error;
    const std::lock_guard lock(state_mutex_);
    next->stream_offset = offset;
    next->file_end = file_->size();
  }
}

uint64_t LogWriter::SyncedOffset() {
  if (options_.policy != Policy::kEverySec) return synced_offset_;
  const std::lock_guard lock(state_mutex_);
  // Those that a new file does not have yet will come behind this one's offset.
  return kept_.empty() ? stream_offset_ : std::min(kept_.front()->stream_offset, stream_offset_);
}

void LogWriter::DropSynced() {
  const std::lock_guard lock(state_mutex_);
  if (file_ == nullptr) return;
  const uint64_t synced = file_->synced_size();
  uint64_t epoch = 0;
  while (!kept_.empty() && kept_.front()->file_end != 0 && kept_.front()->file_end <= synced) {
    epoch = kept_.front()->number;
    status_.kept_bytes.fetch_sub(kept_.front()->bytes.size(), std::memory_order_relaxed);
    kept_.pop_front();
  }
  NoteSynced(epoch);
}

void LogWriter::NoteSynced(uint64_t epoch) {
  uint64_t known = status_.synced_epoch.load(std::memory_order_relaxed);
  while (known < epoch) {
    if (!status_.synced_epoch.compare_exchange_weak(known, epoch)) continue;
    if (options_.on_synced) options_.on_synced();
    return;
  }
}

std::error_code LogWriter::SyncFile(const FilePtr& file) {
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (auto error = file->Sync()) return error;
  NoteSyncTime(&status_, helio::MonotonicNanos() - begin_ns, options_.sync_period_ns);
  DropSynced();
  return {};
}

std::error_code LogWriter::SyncAll() {
  std::error_code error;
  for (int tries = 0; tries < 2; ++tries) {
    if ((error = Mend())) return error;
    const FilePtr file = this->file();
    error = file->size() == file->synced_size() ? std::error_code() : SyncFile(file);
    if (!error) {
      synced_offset_ = stream_offset_;
      NoteSynced(last_epoch_);
      return {};
    }
  }
  return error;
}

std::error_code LogWriter::Sync() {
  const std::lock_guard lock(write_mutex_);
  return Note(SyncAll());
}

void LogWriter::RunSyncs() {
  uint64_t next_ns = helio::MonotonicNanos() + options_.sync_period_ns;
  std::unique_lock state(state_mutex_);
  while (!closes_) {
    if (state_changed_.WaitUntil(state, next_ns)) continue;
    next_ns = helio::MonotonicNanos() + options_.sync_period_ns;
    const FilePtr file = file_;
    const bool has_kept = !kept_.empty();
    state.unlock();
    // Nothing is done, and no disk is woken, while nobody writes.
    if (file != nullptr && !file->is_broken() && file->size() > file->synced_size()) {
      is_syncing_.store(true, std::memory_order_relaxed);
      (void)SyncFile(file);  // whether it has failed is seen below
      is_syncing_.store(false, std::memory_order_relaxed);
    }
    if (has_kept && (file == nullptr || file->is_broken())) {
      // Unless a Write, which waits for the disk or for this, does the same.
      const std::lock_guard lock(write_mutex_);
      if (!stops()) (void)Note(SyncAll());
    }
    state.lock();
  }
}

void LogWriter::BeginNewFile(uint64_t first_epoch) {
  DCHECK_GT(first_epoch, 0u);
  cut_epoch_.store(first_epoch, std::memory_order_release);  // pairs with the load in SwitchFor()
}

void LogWriter::SwitchFor(uint64_t epoch) {
  const uint64_t wanted = cut_epoch_.load(std::memory_order_acquire);
  const bool cuts = wanted != 0 && epoch >= wanted;
  if (!cuts && !wants_file_) return;
  uint64_t seq = 0;
  std::error_code error = EndFile();
  if (!error) error = BeginFile(Here(), &seq);
  if (error) LOG(WARNING) << "no new file of the log: " << error.message();
  wants_file_ = false;
  if (!cuts) return;
  cut_error_ = error;
  cut_seq_ = seq;
  cut_epoch_.store(0, std::memory_order_relaxed);
}

std::error_code LogWriter::SwitchStream(const Epoch& first) {
  if (auto error = EndFile()) return error;
  const LogFileHeader header{
      .stream_id = std::string(first.stream_id),
      .stream_offset = first.stream_id.empty() ? stream_offset_ : first.stream_offset,
      .db_index = first.first_db};
  uint64_t seq = 0;
  if (auto error = BeginFile(header, &seq)) return error;
  return {};
}

std::error_code LogWriter::EndFile() {
  // It is not the last one then, so it must not be torn after a crash, and needs no filler.
  std::error_code error;
  for (int tries = 0; tries < 2; ++tries) {
    if ((error = Mend())) return error;
    const FilePtr file = this->file();
    error = file->Truncate(file->size());
    if (!error) break;
  }
  if (error) return error;
  DropSynced();
  synced_offset_ = stream_offset_;
  NoteSynced(last_epoch_);
  return {};
}

std::error_code LogWriter::BeginFile(const LogFileHeader& header, uint64_t* seq) {
  if (auto error = AddFile(header, seq)) return error;
  stream_id_ = header.stream_id;
  stream_offset_ = synced_offset_ = header.stream_offset;
  stream_db_ = header.db_index;
  const FilePtr old = file();
  SetFile(nullptr);
  if (auto close_error = old->Close()) {
    LOG(WARNING) << "a file of the log: " << close_error.message();
  }
  // It is listed. If it cannot be opened now, Write goes on trying: nothing may follow in the old.
  (void)Note(OpenNewFile());
  return {};
}

std::error_code LogWriter::FinishNewFile(uint64_t* seq) {
  const std::lock_guard lock(write_mutex_);
  SwitchFor(UINT64_MAX);
  *seq = cut_seq_;
  return cut_error_;
}

std::error_code LogWriter::FinishBase(uint64_t first_seq) {
  const std::lock_guard lock(directory_mutex_);
  if (auto error = directory_.FinishBase(first_seq)) return error;
  status_.needs_base.store(false, std::memory_order_relaxed);
  return {};
}

void LogWriter::Stop() {
  const std::lock_guard lock(state_mutex_);
  stops_ = true;
  state_changed_.NotifyAll();
}

bool LogWriter::AwaitRetry() {
  const uint64_t deadline_ns = helio::MonotonicNanos() + options_.retry_period_ns;
  std::unique_lock state(state_mutex_);
  while (!stops_ && state_changed_.WaitUntil(state, deadline_ns)) {
  }
  return !stops_;
}

std::error_code LogWriter::Close() {
  Stop();
  EndSyncs();
  const std::lock_guard lock(write_mutex_);
  if (file() == nullptr && kept_.empty()) return {};
  std::error_code error = SyncAll();
  if (const FilePtr file = this->file(); file != nullptr) {
    const std::error_code close_error = file->Close();
    if (!error) error = close_error;
  }
  SetFile(nullptr);
  return Note(error);
}

std::error_code LogWriter::Note(std::error_code error) {
  const int before = status_.write_errno.exchange(error.value(), std::memory_order_relaxed);
  if (error) {
    status_.last_errno.store(error.value(), std::memory_order_relaxed);
    Add(&status_.errors);
    LOG_IF(ERROR, before != error.value()) << "the log cannot be written: " << error.message();
  } else if (before != 0) {
    LOG(INFO) << "the log can be written again";
  }
  if (options_.on_status && (before == 0) != !error) options_.on_status();
  return error;
}

}  // namespace dfly
