// SPDX-License-Identifier: Apache-2.0
#include "storage/snapshot_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/rdb/rdb_skip.h"
#include "core/text/hash.h"
#include "core/text/numbers.h"
#include "engine/keyspace/rdb_limits.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/sync.h"
#include "storage/entry_reader.h"
#include "storage/frame_file.h"
#include "storage/load_batch.h"
#include "storage/rdb_file.h"
#include "storage/summary.h"

namespace dfly {

namespace {

// An entry has so many bytes in a file, even compressed ones; for fewer keys nothing is reserved.
constexpr uint64_t kEntryBytesMin = 2;
// What has been saved is loaded, whatever --max_bulk_len is by now: no string has more bytes.
constexpr size_t kStringMax = UINT32_MAX;
constexpr uint64_t kKeysReservedMin = 1000;
// After so many keys others have their turn.
constexpr size_t kKeysBetweenTurns = 64;

}  // namespace

// Reads one stream on one thread, and hands keys to their shards.
class SnapshotLoader::StreamLoader {
 public:
  // `is_in_order`: most keys come in the order of their places in the tables.
  StreamLoader(SnapshotLoader* loader, EntryReader* entries, bool is_in_order)
      : loader_(*loader),
        shards_(loader->shards_),
        entries_(*entries),
        limits_(*loader->limits_),
        is_in_order_(is_in_order),
        lanes_(shards_.size()) {}

  // Reads to the end. `file_bytes_read()`: of the file.
  template <typename FileBytesRead>
  std::string Load(FileBytesRead file_bytes_read, SnapshotExtras* extras) {
    std::string error = Read(file_bytes_read, extras);
    for (ShardId id = 0; id < lanes_.size(); ++id) {
      Lane& lane = lanes_[id];
      if (error.empty()) error = Send(id);
      for (unsigned i = 0; i < kBatches; ++i) {
        std::string why = Await(&lane, i);
        if (error.empty()) error = std::move(why);
      }
    }
    PublishUsedBytes();
    return error;
  }

  uint64_t entries() const { return entry_count_; }

 private:
  // To one shard. While one batch is filled the other may be on its way.
  static constexpr unsigned kBatches = 2;
  struct Lane {
    LoadBatch batches[kBatches];
    std::optional<helio::BlockingCounter> sent[kBatches];  // set until its batch is empty again
    std::string errors[kBatches];
    unsigned current = 0;
  };

  template <typename FileBytesRead>
  std::string Read(FileBytesRead file_bytes_read, SnapshotExtras* extras) {
    uint64_t told_bytes = 0;
    const auto tell = [&] {
      const uint64_t bytes = file_bytes_read();
      loader_.progress_.bytes_read.fetch_add(bytes - told_bytes, std::memory_order_relaxed);
      told_bytes = bytes;
      loader_.progress_.keys.fetch_add(std::exchange(loaded_, 0), std::memory_order_relaxed);
    };
    for (size_t i = 1;; ++i) {
      const EntryReader::Item item = entries_.Next();
      if (item == EntryReader::Item::kError) return entries_.error();
      if (item == EntryReader::Item::kEnd) break;
      if (item == EntryReader::Item::kSizes) {
        Reserve();
      } else if (item == EntryReader::Item::kFunction) {
        extras->functions.push_back(entries_.text());
      } else if (item == EntryReader::Item::kAux) {
        if (entries_.name() == kAuxHashSeed) {
          // Was read before.
        } else if (entries_.name() == kAuxShards) {
          shards_then_ = static_cast<uint32_t>(ParseInt64(entries_.text()).value_or(0));
        } else {
          ReadExtra(entries_.name(), entries_.text(), extras);
          if (!extras->place.id.empty()) loader_.KeepDueKeys();
        }
      } else if (std::string error = LoadEntry(extras); !error.empty()) {
        return error;
      }
      if (i % kKeysBetweenTurns == 0) {
        tell();
        PublishUsedBytes();
        if (loader_.has_failed_.load(std::memory_order_relaxed)) return "";  // somebody else tells
        if (loader_.progress_.is_cancelled.load(std::memory_order_relaxed)) return "cancelled";
        const helio::BoundedWait wait(helio::kItsTurn);
        helio::this_fiber::Yield();
      }
    }
    TakePlacements(*extras);
    tell();
    return "";
  }

  // Keys are many times larger than what says how many there are, so that may be believed only as
  // far as there are bytes for them.
  void Reserve() {
    if (!loader_.may_reserve_) return;
    const uint64_t possible = loader_.progress_.bytes_total / kEntryBytesMin;
    const int db_index = entries_.db_index();
    if (entries_.keys() > possible || db_index >= shards_.db_count()) return;
    const uint64_t keys = entries_.keys() / shards_.size();
    const uint64_t deadlines = std::min(entries_.keys(), entries_.deadlines()) / shards_.size();
    if (keys < kKeysReservedMin) return;
    shards_.AwaitOnAll(
        [&](Shard& shard) { loader_.TargetOf(shard).Make(db_index).Reserve(keys, deadlines); });
  }

  // Before the first key asks for its place.
  void TakePlacements(const SnapshotExtras& extras) {
    if (std::exchange(has_placements_, true)) return;
    shards_.ImportPlacements(extras.placements, shards_then_);
  }

  std::string LoadEntry(SnapshotExtras* extras) {
    if (!has_placements_) TakePlacements(*extras);
    ++entry_count_;
    const std::string& key = entries_.key();
    const int db_index = entries_.db_index();
    if (db_index >= shards_.db_count()) {
      return fmt::format("key {} is in database {}, and there are only {} (--dbnum)",
                         QuotedKey(key), db_index, shards_.db_count());
    }
    const EntryFacts& facts = entries_.facts();
    const bool is_due =
        !loader_.keeps_due_keys_ && facts.deadline_ms && *facts.deadline_ms < loader_.now_ms_;
    const uint64_t hash = HashKey(key);
    const ShardId id = shards_.ShardOfKey(key, hash);
    const bool is_next_here = is_in_order_ && shards_.is_local(id);
    ByteSource& source = entries_.value_source();
    LoadBatch& batch = lanes_[id].batches[lanes_[id].current];
    if (const auto value = is_next_here ? std::nullopt : FindValue(entries_.type(), source)) {
      if (!is_due) {
        batch.Add(db_index, key, hash, facts, entries_.type(), *value, entries_.beside());
      }
      (void)source.Skip(value->size());
      if (is_due) return LeaveOut();
    } else {
      CompactValue made;
      const RdbRead read = ReadRdbValue(entries_.type(), limits_, &source, &made);
      if (read == RdbRead::kEmpty) {
        NoteEmptyKey(key, &loader_.progress_);
        return "";
      }
      if (read == RdbRead::kDamaged) return DamagedValueError(key, entries_.type());
      if (!AddBeside(entries_.beside(), &made)) {
        return DamagedDeadlinesError(key);
      }
      if (is_due) return LeaveOut();
      if (is_next_here) {
        DatabaseSet& databases = loader_.TargetOf(shards_.local(id));
        const bool is_new =
            databases.Make(db_index).Load(KeyProbe(key, hash), std::move(made), facts.deadline_ms,
                                          facts.is_sticky, loader_.now_ms_);
        if (db_index == 0 && !facts.memcached.is_default()) {
          databases.memcached().Put(key, facts.memcached);
        }
        if (!is_new) return KeyTwiceError(key);
        ++loaded_;
        return "";
      }
      batch.Add(db_index, key, hash, facts, std::move(made));
    }
    return batch.is_full() ? Send(id) : "";
  }

  std::string LeaveOut() {
    loader_.progress_.expired_keys.fetch_add(1, std::memory_order_relaxed);
    return "";
  }

  // The bytes of the next value, if all of them have been fetched. What is found may still be
  // damaged.
  static std::optional<std::string_view> FindValue(uint8_t type, const ByteSource& source) {
    const std::string_view window = source.window();
    ViewSource view(window);
    if (!SkipRdbValue(type, &view)) return std::nullopt;
    return window.substr(0, window.size() - view.left());
  }

  // Sends what there is to the shard, and lets the next batch be filled. An error may be that of an
  // earlier batch.
  std::string Send(ShardId id) {
    Lane& lane = lanes_[id];
    const unsigned i = lane.current;
    if (lane.batches[i].empty()) return "";
    const auto load = [this, &lane, i, id] {
      ShardTurn turn(shards_.local(id));
      lane.errors[i] =
          lane.batches[i].LoadInto(loader_.TargetOf(turn.shard()), limits_, &loader_.progress_);
    };
    if (shards_.is_local(id)) {
      load();
      return std::exchange(lane.errors[i], "");
    }
    lane.sent[i].emplace(1);
    shards_.owner(id)->Dispatch([&lane, i, load] {
      load();
      lane.sent[i]->Done();
    });
    lane.current = (i + 1) % kBatches;
    return Await(&lane, lane.current);
  }

  // Until the batch may be filled again. Suspends.
  std::string Await(Lane* lane, unsigned i) {
    if (!lane->sent[i]) return "";
    const helio::BoundedWait wait(kHops, 1);
    lane->sent[i]->Wait();
    lane->sent[i].reset();
    return std::exchange(lane->errors[i], "");
  }

  void PublishUsedBytes() {
    for (ShardId id = 0; id < shards_.size(); ++id) {
      if (shards_.is_local(id)) shards_.PublishUsedBytes(shards_.local(id));
    }
  }

  SnapshotLoader& loader_;
  ShardSet& shards_;
  EntryReader& entries_;
  const RdbLimits limits_;
  const bool is_in_order_;
  std::vector<Lane> lanes_;  // by shard
  uint32_t shards_then_ = 0;
  bool has_placements_ = false;
  uint64_t loaded_ = 0;  // without those of batches
  uint64_t entry_count_ = 0;
};

std::optional<uint64_t> SnapshotLoader::ReadHashSeed(const SnapshotPath& path) {
  std::unique_ptr<InputFile> file;
  if (path.format != SnapshotFormat::kOurs || files_.Open(path.Main(), &file)) return std::nullopt;
  FrameFileReader source(path.Main(), std::move(file));
  if (!source.Begin({.number = kSummaryNumber})) return std::nullopt;
  EntryReader entries(&source, kStringMax, false);
  while (true) {
    const EntryReader::Item item = entries.Next();
    if (item == EntryReader::Item::kEnd || item == EntryReader::Item::kError) return std::nullopt;
    if (item != EntryReader::Item::kAux || entries.name() != kAuxHashSeed) continue;
    uint64_t seed = 0;
    const std::string& text = entries.text();
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
    return seed;
  }
}

void SnapshotLoader::Begin() {
  now_ms_ = helio::UnixMillis();
  // All shards have the same.
  limits_ = shards_.Await(0, [](Shard& shard) { return RdbLimitsOf(shard); });
  limits_->string_max = kStringMax;
}

std::string SnapshotLoader::Load(const SnapshotPath& path) {
  uint64_t end = 0;
  if (path.format == SnapshotFormat::kRdb) return LoadRdbPart(path.Main(), &end);
  Begin();
  return LoadOurs(path);
}

std::string SnapshotLoader::LoadRdbPart(const std::string& path, uint64_t* end) {
  std::unique_ptr<InputFile> file;
  if (auto error = files_.Open(path, &file)) {
    return fmt::format("{}: {}", path, error.message());
  }
  return LoadRdb(path, std::move(file), end);
}

std::string SnapshotLoader::LoadRdb(const std::string& name, std::unique_ptr<InputFile> file,
                                    uint64_t* end) {
  Begin();
  if (const uint64_t size = file->size(); size != InputFile::kSizeUnknown) {
    progress_.bytes_total.fetch_add(size, std::memory_order_relaxed);
  }
  may_reserve_ = !file->is_stream();
  RdbFileReader source(name, std::move(file));
  if (!source.Begin()) return source.error();
  EntryReader entries(&source, kStringMax, true, source.family());
  StreamLoader stream(this, &entries, false);
  const std::string error = stream.Load([&source] { return source.file_bytes_read(); }, &extras_);
  if (!source.error().empty()) return source.error();
  if (!error.empty()) return fmt::format("{}: {}", source.Where(), error);
  if (!source.End()) return source.error();
  *end = source.file_bytes_read();
  return "";
}

std::string SnapshotLoader::LoadOurs(const SnapshotPath& path) {
  uint64_t keys = 0;
  FrameFileId id;
  std::string error = LoadSummary(path, &id, &keys);
  if (!error.empty()) return error;

  helio::SpinLock lock;  // of what is told at the end
  helio::BlockingCounter done(id.count);
  uint64_t keys_found = 0;
  for (uint32_t number = 0; number < id.count; ++number) {
    shards_.pool()
        .at(number % shards_.pool().size())
        ->DispatchFiber("load", [&, number, is_held = helio::Hold::IsAny()] {
          uint64_t found = 0;
          std::string why;
          {
            const helio::InheritedHold inherited(is_held);
            why = LoadPart(path, {.generation = id.generation, .number = number, .count = id.count},
                           &found);
          }
          if (!why.empty()) has_failed_ = true;
          {
            const std::lock_guard guard(lock);
            if (error.empty()) error = std::move(why);
            keys_found += found;
          }
          done.Done();
        });
  }
  {
    const helio::BoundedWait wait(kSnapshotFile);
    done.Wait();
  }
  if (error.empty() && keys_found != keys) {
    error = fmt::format("{}: there are {} keys, and should be {}", path.Main(), keys_found, keys);
  }
  return error;
}

std::string SnapshotLoader::LoadSummary(const SnapshotPath& path, FrameFileId* id, uint64_t* keys) {
  std::unique_ptr<InputFile> file;
  if (auto error = files_.Open(path.Main(), &file)) {
    return fmt::format("{}: {}", path.Main(), error.message());
  }
  FrameFileReader source(path.Main(), std::move(file));
  if (!source.Begin({.number = kSummaryNumber})) return source.error();
  *id = source.id();
  if (id->count == 0 || id->count > kFilesMax) {
    return fmt::format("{}: {} files are too many, or too few", path.Main(), id->count);
  }
  // Sizes are compared with the sum; and a fiber for each file is begun only if there are so many.
  for (uint32_t number = 0; number < id->count; ++number) {
    const std::string name = path.ShardFile(id->generation, number);
    std::unique_ptr<InputFile> part;
    if (auto error = files_.Open(name, &part)) {
      return fmt::format("{}: {}", name, error.message());
    }
    progress_.bytes_total.fetch_add(part->size(), std::memory_order_relaxed);
  }
  *keys = source.entries();
  EntryReader entries(&source, kStringMax, false);
  StreamLoader stream(this, &entries, false);
  const std::string error = stream.Load([] { return 0; }, &extras_);
  if (!source.error().empty()) return source.error();
  if (!error.empty()) return fmt::format("{}: {}", source.Where(), error);
  if (stream.entries() != 0) return fmt::format("{}: there are keys in a summary", path.Main());
  return source.End() ? "" : source.error();
}

std::string SnapshotLoader::LoadPart(const SnapshotPath& path, const FrameFileId& id,
                                     uint64_t* keys) {
  const std::string name = path.ShardFile(id.generation, id.number);
  std::unique_ptr<InputFile> file;
  if (auto error = files_.Open(name, &file)) {
    return fmt::format("{}: {}", name, error.message());
  }
  FrameFileReader source(name, std::move(file));
  if (!source.Begin({.generation = id.generation, .number = id.number, .count = id.count})) {
    return source.error();
  }
  EntryReader entries(&source, kStringMax, false);
  StreamLoader stream(this, &entries, true);
  SnapshotExtras none;
  const std::string error = stream.Load([&source] { return source.file_bytes_read(); }, &none);
  if (!source.error().empty()) return source.error();
  if (!error.empty()) return fmt::format("{}: {}", source.Where(), error);
  if (has_failed_) return "";
  *keys = stream.entries();
  if (*keys != source.entries()) {
    return fmt::format("{}: there are {} keys, and should be {}", name, *keys, source.entries());
  }
  return source.End() ? "" : source.error();
}

}  // namespace dfly
