// SPDX-License-Identifier: Apache-2.0
#include "storage/snapshot_save.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/text/hash.h"
#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/sync.h"
#include "storage/entry_writer.h"
#include "storage/rdb_file.h"
#include "storage/summary.h"

namespace dfly {

namespace {

// Stops what one shard writes when another one has failed.
class SharedFate final : public SnapshotOutput {
 public:
  SharedFate(SnapshotOutput* to, const std::atomic<bool>* is_cancelled,
             const std::atomic<bool>* has_failed)
      : to_(*to), is_cancelled_(*is_cancelled), others_failed_(*has_failed) {}
  void WriteEntries(std::string_view bytes) override { to_.WriteEntries(bytes); }
  void BeginLarge() override { to_.BeginLarge(); }
  void WritePart(std::string_view bytes) override { to_.WritePart(bytes); }
  void EndLarge() override { to_.EndLarge(); }
  bool has_failed() const override {
    return to_.has_failed() || others_failed_.load(std::memory_order_relaxed) ||
           is_cancelled_.load(std::memory_order_relaxed);
  }

 private:
  SnapshotOutput& to_;
  const std::atomic<bool>& is_cancelled_;
  const std::atomic<bool>& others_failed_;
};

class Saver {
 public:
  Saver(ShardSet* shards, FileLayer* files, const SaveOptions& options, SaveProgress* progress,
        Transaction* lock)
      : shards_(*shards), files_(*files), options_(options), progress_(*progress), lock_(lock) {}

  SaveResult Save(const std::function<SnapshotExtras()>& on_cut) {
    generation_ = static_cast<uint64_t>(helio::UnixMicros());
    if (!CreateFiles()) return Undo();
    if (!Cut(on_cut)) return Undo();
    if (rdb_ != nullptr && !options_.has_functions) extras_->functions.clear();
    const SnapshotExtras& extras = *extras_;
    if (rdb_ != nullptr) WriteRdbHead(extras);
    if (options_.has_keys) WriteShards();
    if (error_.empty() && progress_.is_cancelled) Fail("cancelled");
    if (!error_.empty() || !(rdb_ != nullptr ? FinishRdb() : WriteSummary(extras))) return Undo();
    if (!is_log_base() && !has_output()) {
      if (!Publish()) return Undo();
      RemoveOlder();
    }
    return std::move(result_);
  }

 private:
  struct Job {
    std::unique_ptr<FrameFileWriter> file;
    std::unique_ptr<RdbFileWriter::Part> part;
    std::unique_ptr<SharedFate> output;
    std::unique_ptr<ShardSnapshot> snapshot;
    std::vector<std::pair<uint64_t, uint64_t>> sizes;  // by database: keys, deadlines
    std::error_code error;
  };

  bool Fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
    return false;
  }
  bool Fail(const std::string& path, std::error_code error) {
    return Fail(fmt::format("{}: {}", path, error.message()));
  }
  uint32_t count() const { return shards_.size(); }
  bool is_log_base() const { return !options_.log_base.empty(); }
  bool has_output() const { return options_.make_output != nullptr; }
  FrameFileId IdOf(uint32_t number) const {
    return {.generation = generation_, .number = number, .count = count()};
  }

  bool CreateFiles() {
    jobs_.resize(count());
    const bool is_rdb = options_.path.format == SnapshotFormat::kRdb;
    if (has_output()) {
      rdb_ = std::make_unique<RdbFileWriter>(options_.make_output(&progress_.is_cancelled));
    } else if (is_rdb) {
      const std::string path =
          is_log_base() ? options_.log_base : options_.path.Temporary(generation_);
      std::unique_ptr<OutputFile> file;
      if (auto error = files_.Create(path, &file)) return Fail(path, error);
      created_.push_back(path);
      rdb_ = std::make_unique<RdbFileWriter>(std::move(file));
    }
    for (uint32_t i = 0; i < count(); ++i) {
      Job& job = jobs_[i];
      SnapshotOutput* output = nullptr;
      if (is_rdb) {
        job.part = std::make_unique<RdbFileWriter::Part>(rdb_.get());
        output = job.part.get();
      } else {
        const std::string path = options_.path.ShardFile(generation_, i);
        std::unique_ptr<OutputFile> file;
        if (auto error = files_.Create(path, &file)) return Fail(path, error);
        created_.push_back(path);
        job.file = std::make_unique<FrameFileWriter>(std::move(file), IdOf(i), options_.codec,
                                                     options_.level);
        output = job.file.get();
      }
      job.output = std::make_unique<SharedFate>(output, &progress_.is_cancelled, &has_failed_);
    }
    return true;
  }

  // False: it was cancelled while it waited for its locks.
  bool Cut(const std::function<SnapshotExtras()>& on_cut) {
    SnapshotForm form;
    if (rdb_ != nullptr) form.dialect = SnapshotDialect::kRedis;
    if (rdb_ != nullptr && options_.compresses_strings) {
      form.compression = RdbWriter::Compression::kLzf;
    }
    for (uint32_t i = 0; i < count(); ++i) {
      if (!options_.has_keys) break;
      // Made on this thread, used on the shard's from the cut on.
      jobs_[i].snapshot = std::make_unique<ShardSnapshot>(
          form, jobs_[i].output.get(), &progress_.keys, options_.sizes, options_.on_behind);
    }
    const auto cut = [this](Shard& shard) {
      if (!options_.has_keys) return;
      Job& job = jobs_[shard.id()];
      job.snapshot->Cut(&shard);
      for (int i = 0; i < shard.db_count(); ++i) {
        const Database* database = shard.FindDb(i);
        job.sizes.emplace_back(database == nullptr ? 0 : database->size(),
                               database == nullptr ? 0 : database->expires());
        progress_.keys_total.fetch_add(job.sizes.back().first, std::memory_order_relaxed);
      }
    };
    bool ran = false;
    if (lock_ != nullptr) {
      lock_->set_cancelled(&progress_.is_cancelled);
      lock_->LockAllShards(LockMode::kExclusive);
      ran = lock_->ScheduleAndHop(cut);
    } else {
      Transaction tx(&shards_, nullptr);
      tx.set_origin({.name = "snapshot"});
      tx.set_cancelled(&progress_.is_cancelled);
      // Shared: who changes several shards step by step is waited for, who only reads is not.
      tx.LockAllShards(options_.cut_lock);
      if (!options_.before_cut) {
        ran = tx.Run(cut);
      } else if (tx.Schedule()) {
        ran = options_.before_cut();
        if (ran) {
          tx.Hop(cut);
          extras_ = on_cut();
        }
        tx.Conclude();
      }
    }
    if (!ran) return Fail("cancelled");
    if (!extras_) extras_ = on_cut();
    return true;
  }

  // Of all databases that have keys.
  void WriteSizes(EntryWriter* writer) {
    const size_t databases = jobs_[0].sizes.size();
    for (size_t i = 0; i < databases; ++i) {
      uint64_t keys = 0;
      uint64_t deadlines = 0;
      for (const Job& job : jobs_) {
        keys += job.sizes[i].first;
        deadlines += job.sizes[i].second;
      }
      if (keys == 0) continue;
      writer->SelectDb(static_cast<int>(i));
      writer->Resize(keys, deadlines);
    }
  }

  void WriteRdbHead(const SnapshotExtras& extras) {
    std::string head;
    StringSink sink(&head);
    EntryWriter writer(&sink);
    writer.Aux("redis-ver", options_.redis_version);
    writer.Aux("redis-bits", "64");
    writer.Aux("ctime", fmt::format("{}", helio::UnixMillis() / 1000));
    writer.Aux("used-mem", fmt::format("{}", shards_.used_bytes()));
    writer.Aux("aof-base", is_log_base() ? "1" : "0");
    writer.Aux(kAuxShards, fmt::format("{}", count()));
    WriteExtras(extras, &writer);
    WriteSizes(&writer);
    writer.Flush();
    rdb_->Write(head);
  }

  void WriteShards() {
    helio::BlockingCounter done(count());
    for (uint32_t i = 0; i < count(); ++i) {
      shards_.owner(i)->DispatchFiber("snapshot", [this, i, &done, is_held = helio::Hold::IsAny()] {
        {
          const helio::InheritedHold inherited(is_held);
          Job& job = jobs_[i];
          job.snapshot->Write();
          if (job.file != nullptr) job.error = job.file->Finish(job.snapshot->stats().keys);
          if (job.error || job.output->has_failed()) has_failed_ = true;
          const ShardTurn turn(shards_.local(i));  // what it held is free
        }
        done.Done();
      });
    }
    const helio::BoundedWait wait(kSnapshotFile);
    done.Wait();
    for (uint32_t i = 0; i < count(); ++i) {
      const Job& job = jobs_[i];
      if (job.error) Fail(options_.path.ShardFile(generation_, i), job.error);
      const ShardSnapshotStats& stats = job.snapshot->stats();
      result_.keys += stats.keys;
      if (job.file != nullptr) result_.bytes += job.file->bytes_written();
      helio::AddCounters(&result_.shards, stats);
    }
  }

  bool FinishRdb() {
    if (auto error = rdb_->Finish()) return Fail(has_output() ? "replicas" : created_[0], error);
    result_.bytes = rdb_->bytes_written();
    return true;
  }

  bool WriteSummary(const SnapshotExtras& extras) {
    const std::string path = options_.path.Temporary(generation_);
    std::unique_ptr<OutputFile> file;
    if (auto error = files_.Create(path, &file)) return Fail(path, error);
    created_.push_back(path);
    FrameFileWriter writer(std::move(file), IdOf(kSummaryNumber), options_.codec, options_.level);
    std::string text;
    StringSink sink(&text);
    EntryWriter entries(&sink);
    entries.Aux(kAuxShards, fmt::format("{}", count()));
    entries.Aux(kAuxHashSeed, fmt::format("{}", HashSeed()));
    WriteSizes(&entries);
    WriteExtras(extras, &entries);
    entries.Flush();
    writer.Write(text);
    if (auto error = writer.Finish(result_.keys)) return Fail(path, error);
    result_.bytes += writer.bytes_written();
    return true;
  }

  // The one step that makes it valid.
  bool Publish() {
    const std::string from = options_.path.Temporary(generation_);
    const std::string to = options_.path.Main();
    if (auto error = files_.SyncDirectory(Directory())) return Fail(Directory(), error);
    if (auto error = files_.Rename(from, to)) return Fail(to, error);
    if (auto error = files_.SyncDirectory(Directory())) {
      // It has its name, and is whole; whether it keeps it if the machine stops is not known.
      LOG(WARNING) << "snapshot: " << helio::LogText(Directory()) << ": " << error.message();
    }
    return true;
  }

  std::string Directory() const {
    return options_.path.directory.empty() ? "." : options_.path.directory;
  }

  // Files of older snapshots of that name, and of those that were not finished.
  void RemoveOlder() {
    std::vector<std::string> names;
    if (auto error = files_.List(Directory(), &names)) {
      LOG(WARNING) << "snapshot: " << helio::LogText(Directory()) << ": " << error.message();
      return;
    }
    for (const std::string& name : names) {
      const auto generation = GenerationOf(options_.path, name);
      if (!generation || *generation == generation_) continue;
      if (auto error = files_.Remove(options_.path.Join(name))) {
        LOG(WARNING) << "snapshot: cannot remove " << helio::LogText(name) << ": "
                     << error.message();
      }
    }
  }

  SaveResult Undo() {
    // Files that are still open are closed before they are removed.
    jobs_.clear();
    rdb_ = nullptr;
    for (const std::string& path : created_) {
      if (auto error = files_.Remove(path)) {
        LOG(WARNING) << "snapshot: cannot remove " << helio::LogText(path) << ": "
                     << error.message();
      }
    }
    result_ = {};
    result_.error = error_;
    return std::move(result_);
  }

  ShardSet& shards_;
  FileLayer& files_;
  const SaveOptions& options_;
  SaveProgress& progress_;
  Transaction* const lock_;
  uint64_t generation_ = 0;
  std::unique_ptr<RdbFileWriter> rdb_;    // null: our own format
  std::vector<Job> jobs_;                 // by shard
  std::optional<SnapshotExtras> extras_;  // from the cut on
  std::atomic<bool> has_failed_{false};
  std::vector<std::string> created_;
  std::string error_;
  SaveResult result_;
};

}  // namespace

SaveResult SaveSnapshot(ShardSet* shards, FileLayer* files, const SaveOptions& options,
                        const std::function<SnapshotExtras()>& on_cut, SaveProgress* progress,
                        Transaction* lock) {
  return Saver(shards, files, options, progress, lock).Save(on_cut);
}

}  // namespace dfly
