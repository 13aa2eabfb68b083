// SPDX-License-Identifier: Apache-2.0
// Rows of metrics: snapshots.
#include <algorithm>
#include <cstdint>

#include "server/info/metric_rows.h"

namespace dfly {

namespace {

uint64_t LoadTotal(const PersistenceFacts& saved) {
  return std::max(saved.load_bytes_total, saved.load_bytes);
}

double LoadedPart(const PersistenceFacts& saved) {
  const uint64_t total = LoadTotal(saved);
  return total == 0 ? 0 : static_cast<double>(saved.load_bytes) / static_cast<double>(total);
}

// At the speed of the load so far.
int64_t SecondsToLoad(const InfoFacts& facts) {
  const double part = LoadedPart(facts.persistence);
  const auto elapsed_s =
      static_cast<double>(facts.now_us / 1'000'000 - facts.persistence.load_start_s);
  return part == 0 ? 1 : static_cast<int64_t>(elapsed_s * (1 - part) / part);
}

// A lambda's value while a snapshot is loaded, and nothing at other times.
template <auto kSource>
MetricValue WhileLoading(const InfoFacts& facts) {
  if (!facts.persistence.is_loading) return {};
  return Of<kSource>(facts);
}

// A value while the log is on, and nothing at other times.
template <auto kSource>
MetricValue WithLog(const InfoFacts& facts) {
  if (!facts.append_log.is_on) return {};
  return Of<kSource>(facts);
}
constexpr auto kZero = [](const InfoFacts&) { return uint64_t{0}; };

constexpr MetricRow kPersistence[] = {
    {.info = "loading",
     .prom = "loading",
     .place = 909,
     .help = "1: a snapshot is being loaded.",
     .value = Of<&PersistenceFacts::is_loading>},
    {.info = "async_loading", .help = "Always 0.", .value = Always<0>},
    {.info = "current_cow_peak", .help = kNoForks, .value = Always<0>},
    {.info = "current_cow_size", .help = kNoForks, .value = Always<0>},
    {.info = "current_cow_size_age", .help = kNoForks, .value = Always<0>},
    {.info = "current_fork_perc",
     .help = kNoForks,
     .value = Of<[](const InfoFacts&) { return 0.0; }>},
    {.info = "current_save_keys_processed",
     .help = "Keys that the snapshot that is being made has.",
     .value = Of<&PersistenceFacts::current_keys>},
    {.info = "current_save_keys_total",
     .help = "Keys that it will have.",
     .value = Of<&PersistenceFacts::current_keys_total>},
    {.info = "rdb_changes_since_last_save",
     .prom = "snapshot_unsaved_changes",
     .place = 907,
     .help = "Changes of keys since the last snapshot.",
     .prom_help = "Changes of keys since the last one.",
     .value = Of<[](const InfoFacts& f) {
       const uint64_t changes = f.counts.shards.changes;
       return changes - std::min(changes, f.persistence.changes_at_last_save);
     }>},
    {.info = "rdb_bgsave_in_progress",
     .prom = "snapshot_in_progress",
     .place = 905,
     .help = "1: a snapshot is being made.",
     .prom_help = "1: one is being made.",
     .value = Of<&PersistenceFacts::is_saving>},
    {.info = "rdb_last_save_time",
     .prom = "snapshot_last_save_timestamp_seconds",
     .unit = MetricUnit::kSeconds,
     .place = 901,
     .help = "Unix time of the last good snapshot, or of the start.",
     .value = Of<&PersistenceFacts::last_save_s>},
    {.info = "rdb_last_bgsave_status",
     .prom = "snapshot_last_success",
     .unit = MetricUnit::kOk,
     .place = 900,
     .help = "`ok`, or `err` if the last snapshot failed.",
     .prom_help = "1: the last snapshot succeeded, or there was none.",
     .value = Of<&PersistenceFacts::is_last_ok>},
    {.info = "rdb_last_bgsave_time_sec",
     .prom = "snapshot_last_duration_seconds",
     .unit = MetricUnit::kSeconds,
     .place = 902,
     .help = "How long the last snapshot took; -1: there was none.",
     .prom_help = "How long the last one took; -1: there was none.",
     .value = Of<&PersistenceFacts::last_duration_s>},
    {.info = "rdb_current_bgsave_time_sec",
     .unit = MetricUnit::kSeconds,
     .help = "How long the one that is being made has taken; -1: there is none.",
     .value = Of<&PersistenceFacts::current_duration_s>},
    {.info = "rdb_saves",
     .prom = "snapshots_total",
     .type = MetricType::kCounter,
     .place = 906,
     .help = "Snapshots that succeeded.",
     .value = Of<&PersistenceFacts::saves>},
    {.info = "rdb_last_cow_size", .help = kNoForks, .value = Always<0>},
    {.info = "rdb_last_load_keys_expired",
     .help = "Keys of the file that was loaded whose time was over.",
     .value = Of<&PersistenceFacts::load_expired_keys>},
    {.info = "rdb_last_load_keys_loaded",
     .help = "Keys that were loaded from it.",
     .value = Of<&PersistenceFacts::loaded_keys>},
    {.info = "aof_enabled",
     .prom = "aof_enabled",
     .place = 920,
     .help = "1: the append-only log is on.",
     .value = Of<&AppendLogFacts::is_on>},
    {.info = "aof_rewrite_in_progress",
     .prom = "aof_rewrite_in_progress",
     .place = 921,
     .help = "1: it is being rewritten.",
     .value = Of<&AppendLogFacts::is_rewriting>},
    {.info = "aof_rewrite_scheduled",
     .help = "1: it will be, when the snapshot that is being made is over.",
     .value = Of<&AppendLogFacts::is_rewrite_scheduled>},
    {.info = "aof_last_rewrite_time_sec",
     .help = "How long the last rewrite took; -1: there was none.",
     .value = Of<&AppendLogFacts::last_rewrite_s>},
    {.info = "aof_current_rewrite_time_sec",
     .help = "How long the one that goes on has taken; -1: there is none.",
     .value = Of<&AppendLogFacts::current_rewrite_s>},
    {.info = "aof_last_bgrewrite_status",
     .unit = MetricUnit::kOk,
     .help = "`ok`, or `err` if the last rewrite failed.",
     .value = Of<&AppendLogFacts::is_last_rewrite_ok>},
    {.info = "aof_rewrites",
     .prom = "aof_rewrites_total",
     .place = 922,
     .help = "Rewrites that succeeded.",
     .value = Of<&AppendLogFacts::rewrites>},
    {.info = "aof_rewrites_consecutive_failures",
     .help = "Rewrites that have failed since then.",
     .value = Of<&AppendLogFacts::failures>},
    {.info = "aof_last_write_status",
     .prom = "aof_last_write_success",
     .unit = MetricUnit::kOk,
     .place = 923,
     .help = "`ok`, or `err` while the log cannot be written; writes are refused then.",
     .prom_help = "1: the log can be written.",
     .value = Of<&AppendLogFacts::is_write_ok>},
    {.info = "aof_last_cow_size", .help = kNoForks, .value = Always<0>},
    {.info = "module_fork_in_progress", .help = kNoForks, .value = Always<0>},
    {.info = "module_fork_last_cow_size", .help = kNoForks, .value = Always<0>},
    {.info = "aof_current_size",
     .prom = "aof_bytes",
     .unit = MetricUnit::kBytes,
     .place = 924,
     .help = "Bytes of all files of the log.",
     .value = WithLog<&AppendLogFacts::bytes>},
    {.info = "aof_base_size",
     .unit = MetricUnit::kBytes,
     .help = "The same, after the last rewrite or at the start.",
     .value = WithLog<&AppendLogFacts::base_bytes>},
    {.info = "aof_pending_rewrite", .help = "Always 0.", .value = WithLog<kZero>},
    {.info = "aof_buffer_length",
     .prom = "aof_waiting_bytes",
     .unit = MetricUnit::kBytes,
     .place = 925,
     .help = "Bytes that are not written yet.",
     .value = WithLog<&AppendLogFacts::waiting_bytes>},
    {.info = "aof_pending_bio_fsync", .help = "Always 0.", .value = WithLog<kZero>},
    {.info = "aof_delayed_fsync",
     .prom = "aof_syncs_delayed_total",
     .place = 926,
     .help = "Syncs that took more than a second.",
     .value = WithLog<&AppendLogFacts::syncs_delayed>},
    {.info = "aof_unsynced_bytes",
     .prom = "aof_unsynced_bytes",
     .unit = MetricUnit::kBytes,
     .place = 927,
     .help = "Bytes that are written and not on the device yet (appendfsync everysec).",
     .value = WithLog<&AppendLogFacts::unsynced_bytes>},
    {.info = "aof_epochs",
     .prom = "aof_epochs_total",
     .place = 928,
     .help = "Epochs that were written: what is written, and synced, together.",
     .value = WithLog<&AppendLogFacts::epochs>},
    {.info = "aof_syncs",
     .prom = "aof_syncs_total",
     .place = 929,
     .help = "Syncs of the log.",
     .value = WithLog<&AppendLogFacts::syncs>},
    {.info = "aof_sync_last_us",
     .unit = MetricUnit::kMicros,
     .help = "How long the last one took.",
     .value = WithLog<&AppendLogFacts::sync_last_us>},
    {.info = "aof_sync_max_us",
     .unit = MetricUnit::kMicros,
     .help = "The longest one.",
     .value = WithLog<&AppendLogFacts::sync_max_us>},
    {.info = "aof_errors",
     .prom = "aof_errors_total",
     .place = 930,
     .help = "Errors of the disk that the log has met.",
     .value = WithLog<&AppendLogFacts::errors>},
    {.info = "snapshot_shards_behind",
     .prom = "snapshot_shards_behind",
     .place = 908,
     .help = "Shards whose writers wait for the disk.",
     .value = Of<&InfoFacts::shards_behind>},
    {.info = "snapshot_last_error",
     .help = "Why the last one failed; empty: it did not.",
     .value = Of<&PersistenceFacts::last_error>},
    {.info = "snapshot_last_file",
     .help = "The file of the last good one.",
     .value = Of<&PersistenceFacts::last_file>},
    {.info = "snapshot_last_keys",
     .prom = "snapshot_last_keys",
     .place = 904,
     .help = "Keys of the last good one.",
     .prom_help = "Its keys.",
     .value = Of<&PersistenceFacts::last_keys>},
    {.info = "snapshot_last_bytes",
     .prom = "snapshot_last_size_bytes",
     .unit = MetricUnit::kBytes,
     .place = 903,
     .help = "Its size.",
     .prom_help = "How large it is.",
     .value = Of<&PersistenceFacts::last_bytes>},
    {.info = "snapshot_last_keys_by_changes",
     .help = "Of its keys, those that were written as they were about to change.",
     .value = Of<&ShardSnapshotStats::keys_by_changes>},
    {.info = "snapshot_last_values_taken",
     .help = "Large values that were deleted before they were written, and were kept for it.",
     .value = Of<&ShardSnapshotStats::values_taken>},
    {.info = "snapshot_last_values_hurried",
     .help = "Large values that were written first, as somebody waited to change them.",
     .value = Of<&ShardSnapshotStats::values_hurried>},
    {.info = "snapshot_last_values_copied",
     .help = "Large values that were copied, as who changed them could not wait.",
     .value = Of<&ShardSnapshotStats::values_copied>},
    {.info = "snapshot_last_buffered_max",
     .unit = MetricUnit::kBytes,
     .help = "The most that waited for the disk, of all shards.",
     .value = Of<&ShardSnapshotStats::buffered_bytes_max>},
    {.info = "loading_start_time",
     .unit = MetricUnit::kSeconds,
     .help = "Unix time at which the load began. This line and the next ones are there only while "
             "a snapshot is being loaded.",
     .value = WhileLoading<&PersistenceFacts::load_start_s>},
    {.info = "loading_total_bytes",
     .prom = "loading_size_bytes",
     .unit = MetricUnit::kBytes,
     .place = 910,
     .help = "What there is to load.",
     .value = WhileLoading<[](const InfoFacts& f) { return LoadTotal(f.persistence); }>},
    {.info = "loading_loaded_bytes",
     .prom = "loading_loaded_bytes",
     .unit = MetricUnit::kBytes,
     .place = 911,
     .help = "What is loaded of it.",
     .value = WhileLoading<&PersistenceFacts::load_bytes>},
    {.info = "loading_loaded_perc",
     .unit = MetricUnit::kRatio,
     .help = "The same in percent.",
     .value = WhileLoading<[](const InfoFacts& f) { return 100 * LoadedPart(f.persistence); }>},
    {.info = "loading_eta_seconds",
     .unit = MetricUnit::kSeconds,
     .help = "How long the rest takes at this speed.",
     .value = WhileLoading<SecondsToLoad>},
};

}  // namespace

std::span<const MetricRow> PersistenceRows() { return kPersistence; }

}  // namespace dfly
